"""Refute a history by a short part of it, whatever was before.

A search that looks for an order of calls that have none must try all configurations, from the first call on. But the calls that
contradict each other mostly lie close together. So a window of the history is searched for itself: from every state that the
object may have at its beginning, and with every set of the calls under way by then placed before it. If the calls of the window
have no order even so, the history has none. The window begins small, around the call that the search could not pass, and doubles.

Let t be the beginning of the window. Cut any order of the whole history before the first call that was invoked after t. All
calls that returned by t are before the cut, and the state there is the first one or a value that a call invoked before t gave
(`Holds`). What follows are the calls invoked after t, and some of those that were under way at t, each before all calls invoked
after its return: this is what the search of the window tries.
"""

from bisect import bisect_left
from collections.abc import Sequence

from msgspec import Struct

from checkers.linearizability.model import Holds, Model
from checkers.linearizability.prefix import cut
from checkers.linearizability.search import Placed, Search, Undecided
from history.foreign.step import Call

_NARROWEST = 8  # returns before the call that the search could not pass; half as many after it
FIRST_ROUND = 2_000  # steps of the first round of a search; each later one has GROWTH times as many
GROWTH = 5


class Window(Struct, frozen=True):
    """A part of a history: the calls that returned after the time `begin`, up to the return at `end`."""

    begin: int
    end: int


def refuted(model: Model, calls: Sequence[Call], *, around: int, steps: int) -> Window | None:
    """A window whose calls have no order, whatever was before; None if none was found.

    `around`: the return of the call that a search could not pass. `steps`: the most configurations visited in one window.
    """
    if not isinstance(model, Holds):
        return None
    returns = sorted(call.end for call in calls if call.end is not None)
    at = bisect_left(returns, around)
    width = _NARROWEST
    while at > width:
        window = Window(returns[at - width - 1], returns[min(at + width // 2, len(returns) - 1)])
        possible = has_order_within(model, calls, window, steps)
        if possible is False:
            return window
        if possible is None:
            return None
        width *= 2
    return None


def has_order_within(model: Holds, calls: Sequence[Call], window: Window, steps: int) -> bool | None:
    """Whether the calls of a window have an order after some calls before them; None if that takes more configurations.

    False: the whole history has no order. True says nothing of it.
    """
    begin = window.begin
    under_way, others = list[Call](), list[Call]()
    for call in cut(calls, window.end):
        if call.end is None or call.start >= begin:
            others.append(call)
        elif call.end > begin:
            under_way.append(call)
    values_written = dict.fromkeys(value for call in calls if call.start < begin for value in model.given(call))
    search = Search(model, others, under_way=under_way, states=[*{model.initial(): None, **values_written}])
    outcome = search.run(steps)
    return None if isinstance(outcome, Undecided) else isinstance(outcome, Placed)


def has_order(model: Model, calls: Sequence[Call], steps_max: int, *, near: Window | None = None) -> bool | None:
    """Whether an order explains the calls on one object; None if a search of `steps_max` configurations does not decide it.

    Between the rounds of the search windows are searched, each with a budget of its own. `near` is the first of them: a window
    of a longer history that has no order, as far as these calls have it.
    """
    search, budget = Search(model, calls), min(FIRST_ROUND, steps_max)
    while True:
        outcome = search.run(budget - search.steps)
        if not isinstance(outcome, Undecided):
            return isinstance(outcome, Placed)
        if near is not None and isinstance(model, Holds):
            if has_order_within(model, calls, near, steps_max) is False:
                return False
            near = None
        elif refuted(model, calls, around=search.blocked, steps=budget) is not None:
            return False
        if budget == steps_max:
            return None
        budget = min(budget * GROWTH, steps_max)
