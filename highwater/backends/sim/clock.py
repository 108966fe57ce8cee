"""The clocks of one node: a monotonic clock, which only drift changes, and a wall clock, which may also be set.

Integers throughout: the drift is in parts per million of virtual time, applied from the instant it was set on, so that the
monotonic clock never goes back.
"""

from highwater.backends.sim.scheduler import MS, Scheduler
from reference.machine import Now
from reference.types import Millis

_MILLION = 1_000_000
EPOCH_NS = 1_700_000_000_000 * MS  # wall time at the start of a run


class Clock:
    """The simulated monotonic and wall clock of one broker, read through `now`."""

    __slots__ = ("_base_ns", "_jump_ns", "_ppm", "_scheduler", "_since_ns", "_wall_ns")

    def __init__(self, scheduler: Scheduler, *, monotonic_ns: int, wall_offset_ns: int = 0) -> None:
        self._scheduler = scheduler
        self._base_ns = monotonic_ns  # monotonic time at `since`
        self._since_ns = scheduler.now
        self._wall_ns = EPOCH_NS + wall_offset_ns - monotonic_ns  # wall minus monotonic where the wall clock is right
        self._ppm = 0
        self._jump_ns = 0

    def monotonic_ns(self) -> int:
        """The time on this broker's monotonic clock, in ns."""
        elapsed = self._scheduler.now - self._since_ns
        return self._base_ns + elapsed + elapsed * self._ppm // _MILLION

    def now(self) -> Now:
        """The times that the broker's monotonic and wall clock show, in ms."""
        elapsed = self._scheduler.now - self._since_ns
        monotonic = self._base_ns + elapsed + elapsed * self._ppm // _MILLION
        return Now(Millis(monotonic // MS), Millis((monotonic + self._wall_ns + self._jump_ns) // MS))

    @property
    def off(self) -> tuple[int, int]:
        """How wrong the broker's clocks are: the wall clock's offset in ns, the drift of both clocks in ppm."""
        return self._jump_ns, self._ppm

    def until_ns(self, monotonic_ns: int) -> int:
        """The virtual time, not before now, at which the monotonic clock will show the given time if its drift stays the same."""
        left_ns = monotonic_ns - self.monotonic_ns()
        if left_ns <= 0:
            return self._scheduler.now
        return self._scheduler.now + (left_ns if not self._ppm else -(-left_ns * _MILLION // (_MILLION + self._ppm)) + 1)

    def drift(self, ppm: int) -> None:
        """Set the drift of the broker's clocks in ppm: above 0 they run fast, at 0 at the right rate."""
        assert ppm > -_MILLION
        self._base_ns = self.monotonic_ns()
        self._since_ns = self._scheduler.now
        self._ppm = ppm

    def jump(self, offset_ns: int) -> None:
        """Set the wall clock's offset in ns; 0 removes the offset but not the effect of past drift."""
        self._jump_ns = offset_ns

    def set_right(self) -> None:
        """Remove offset, drift and the effect of past drift from the wall clock, as a synchronisation does."""
        self.drift(0)
        self._jump_ns = 0
        self._wall_ns = EPOCH_NS + self._scheduler.now - self._base_ns
