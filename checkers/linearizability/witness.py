"""The smallest witness of a history that has no order: its longest prefix that has one, and the call that ends it.

The prefix up to a return holds all calls that were invoked before it; those that had not returned by then are as calls of unknown
outcome. If a prefix has an order, each shorter one has (drop what it does not hold), so there is one return up to which nothing
can be explained any more, and the call that returned there is the one that cannot be placed. It is found by halving. A prefix
that is not decided within the budget counts as one that has an order: the witness then is sound but may be longer than need be.
"""

from collections.abc import Callable, Sequence

from checkers.linearizability.model import Illegal, Model, State
from checkers.linearizability.search import Placed, Search, Stuck
from history.foreign.step import UNKNOWN, Call

# Whether the calls have an order; None where that was not decided.
HasOrder = Callable[[Sequence[Call]], bool | None]


def cut(calls: Sequence[Call], end: int) -> list[Call]:
    """The history up to a return: what returned later is still open."""
    return [c if c.end is not None and c.end <= end else opened(c) for c in calls if c.start < end]


def opened(call: Call) -> Call:
    """The same call before it returned."""
    return Call(
        index=call.index, line=call.line, process=call.process, f=call.f, key=call.key,
        argument=call.argument, result=UNKNOWN, start=call.start, end=None,
    )  # fmt: skip


def first_impossible(calls: Sequence[Call], has_order: HasOrder, *, known: int = 0) -> int:
    """Position, among the returns in their order, of the first up to which there is no order. `known` of them can be explained.

    The whole is known to have no order. Steps double from what is known on: the place is rarely far from it.
    """
    returns = sorted(call.end for call in calls if call.end is not None)
    good, bad, step = known, len(returns), 1
    while bad - good > 1:
        middle = min(good + step, (good + bad) // 2)
        if has_order(cut(calls, returns[middle - 1])) is False:
            bad = middle
        else:
            good, step = middle, 2 * step
    return bad - 1


def of_search(model: Model, calls: Sequence[Call], steps_max: int) -> Stuck:
    """Of calls that a search found no order of: an order of the longest prefix, and the call that cannot follow it."""

    def has_order(prefix: Sequence[Call]) -> bool | None:
        outcome = Search(model, prefix).run(steps_max)
        return True if isinstance(outcome, Placed) else False if isinstance(outcome, Stuck) else None

    returned = sorted((call for call in calls if call.end is not None), key=lambda call: call.end or 0)
    at = first_impossible(calls, has_order)
    prefix = cut(calls, returned[at - 1].end or 0) if at else []
    outcome = Search(model, prefix).run(steps_max)
    order = outcome.order if isinstance(outcome, Placed) else ()
    return Stuck(order=order, call=returned[at].index, state=_state_after(model, prefix, order))


def _state_after(model: Model, calls: Sequence[Call], order: Sequence[int]) -> State:
    by_index = {call.index: call for call in calls}
    state = model.initial()
    for index in order:
        after = model.step(state, by_index[index])
        assert not isinstance(after, Illegal), (index, state)
        state = after
    return state
