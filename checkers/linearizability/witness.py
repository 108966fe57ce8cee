"""The smallest proof of a history without an order: its longest prefix that has one, and the next returned call.

The prefix up to a return holds all calls invoked before it; those that had not returned by then become calls of unknown outcome.
If a prefix has an order, each shorter prefix has one, too (drop the other calls). Hence there is a first return up to which no
order exists, and the call that returned there cannot be placed. It is found by bisection. A prefix that is not decided within the
budget counts as one with an order: the witness is then sound, but may be longer than necessary.
"""

from collections.abc import Callable, Sequence

from checkers.linearizability.model import Illegal, Model, State
from checkers.linearizability.search import Placed, Search, Stuck
from history.foreign.step import UNKNOWN, Call

# Whether the calls have an order; None if undecided.
HasOrder = Callable[[Sequence[Call]], bool | None]


def cut(calls: Sequence[Call], end: int) -> list[Call]:
    """Return the part of a history up to the given return; calls that returned later become calls without an answer."""
    return [c if c.end is not None and c.end <= end else opened(c) for c in calls if c.start < end]


def opened(call: Call) -> Call:
    """Return a call as it was before it returned: without an answer."""
    return Call(
        index=call.index, line=call.line, process=call.process, f=call.f, key=call.key,
        argument=call.argument, result=UNKNOWN, start=call.start, end=None,
    )  # fmt: skip


def first_impossible(calls: Sequence[Call], has_order: HasOrder, *, known: int = 0) -> int:
    """The position, among the sorted returns of a history, of the first return up to which there is no order.

    The whole history has no order; the prefix of the first `known` returns has one. Steps double from `known` on, because the
    position is rarely far from it.
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
    """For calls without an order that explains them: an order of the longest prefix, and the call that cannot follow it."""

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
    """The state after these calls, each of which is legal."""
    by_index = {call.index: call for call in calls}
    state = model.initial()
    for index in order:
        after = model.step(state, by_index[index])
        assert not isinstance(after, Illegal), (index, state)
        state = after
    return state
