"""The smallest proof of a history without an order: its longest prefix that has one, and the next returned call.

The prefix up to a return holds all calls invoked before it; those that had not returned by then become calls of unknown outcome.
If a prefix has an order, each shorter prefix has one, too (drop the other calls). Hence there is a first return up to which no
order exists, and the call that returned there cannot be placed. It is found by bisection. A prefix that is not decided within the
budget counts as one with an order: the witness is then sound, but may be longer than necessary.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence

from checkers.linearizability.model import Illegal, Model, State
from checkers.linearizability.prefix import cut
from checkers.linearizability.search import Placed, Search, Stuck
from checkers.linearizability.windows import Window, has_order
from history.foreign.step import Call

# Whether the calls have an order; None if undecided.
HasOrder = Callable[[Sequence[Call]], bool | None]


def first_impossible(calls: Sequence[Call], is_possible: HasOrder, *, near: int = 0) -> int:
    """The position, among the sorted returns of a history, of the first return up to which there is no order.

    The whole history has no order. Steps double from the return at the time `near` on: the position is rarely far from it.
    """
    returns = sorted(call.end for call in calls if call.end is not None)

    def has_none(count: int) -> bool:
        return is_possible(cut(calls, returns[count - 1])) is False

    good, bad = 0, len(returns)
    guess = min(bisect_left(returns, near), bad - 1)
    step = 1
    while guess > good and has_none(guess):
        guess, bad, step = max(good, guess - step), guess, 2 * step
    good, step = guess, 1
    while bad - good > 1:
        middle = min(good + step, (good + bad) // 2)
        if has_none(middle):
            bad = middle
        else:
            good, step = middle, 2 * step
    return bad - 1


def of_search(model: Model, calls: Sequence[Call], steps_max: int, *, near: int, window: Window | None = None) -> Stuck:
    """For calls without an order that explains them: an order of the longest prefix, and the call that cannot follow it.

    `near`: the time of a return that the search could not pass. `window`: a part of the history without an order, if known.
    """
    returned = sorted((call for call in calls if call.end is not None), key=lambda call: call.end or 0)
    at = first_impossible(calls, lambda prefix: has_order(model, prefix, steps_max, near=window), near=near)
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
