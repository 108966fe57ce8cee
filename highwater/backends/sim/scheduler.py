"""Virtual time of the simulator: one queue of all future actions, in nanoseconds.

What is due at the same instant happens in the order in which it was asked for, so that a run is a function of its plan alone.
Nothing is removed from the queue: an action that is no longer wanted does nothing when it runs.
"""

from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from operator import itemgetter

Action = Callable[..., None]

_BY_TURN = itemgetter(0, 1)

MS = 1_000_000
US = 1_000


class Scheduler:
    """The queue of the simulation's future actions. `now` is the virtual time in ns since the start of the run."""

    __slots__ = ("_heap", "_order", "now")

    def __init__(self) -> None:
        self.now = 0
        self._order = 0
        self._heap: list[tuple[int, int, Action, tuple[object, ...]]] = []

    def at(self, time_ns: int, action: Action, *arguments: object) -> None:
        """Queue `action(*arguments)` for a virtual time that is not past."""
        assert time_ns >= self.now
        self._order += 1
        heappush(self._heap, (time_ns, self._order, action, arguments))

    def after(self, delay_ns: int, action: Action, *arguments: object) -> None:
        """Queue an action for `now` (virtual time) plus this delay."""
        self._order += 1
        heappush(self._heap, (self.now + delay_ns, self._order, action, arguments))

    def pending(self) -> Iterable[tuple[int, Action, tuple[object, ...]]]:
        """What is in the queue, in the order in which it is due: the time in ns, the action and its arguments."""
        return ((time_ns, action, arguments) for time_ns, _, action, arguments in sorted(self._heap, key=_BY_TURN))

    def run_until(self, end_ns: int) -> None:
        """Run all actions that are due up to and including virtual time `end_ns`, and set `now` to it."""
        heap = self._heap
        while heap and heap[0][0] <= end_ns:
            self.now, _, action, arguments = heappop(heap)
            action(*arguments)
        self.now = end_ns

    def run_next(self) -> None:
        """Run the action that is due next."""
        self.now, _, action, arguments = heappop(self._heap)
        action(*arguments)
