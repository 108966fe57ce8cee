"""The timers of one simulated process: by name, on its own monotonic clock.

Arming a name again moves the timer. A queue entry that comes too early is queued again; one whose timer was cancelled is ignored.
Most timers are moved far more often than they fire, so moving a timer to a later time costs no queue entry.
"""

from collections.abc import Callable

from highwater.backends.sim.clock import Clock
from highwater.backends.sim.scheduler import MS, Scheduler
from history.seed import Draws
from reference.effects import SetTimer


class _Armed:
    __slots__ = ("due_ns",)

    def __init__(self, due_ns: int) -> None:
        self.due_ns = due_ns  # on the monotonic clock


class Timers:
    """The timers of one simulated process until it ends. `fire(name)` is called when a timer expires."""

    __slots__ = ("_armed", "_clock", "_draws", "_fire", "_keys", "_owner", "_scheduler")

    def __init__(self, scheduler: Scheduler, draws: Draws, clock: Clock, *, owner: str, fire: Callable[[str], None]) -> None:
        self._scheduler = scheduler
        self._draws = draws
        self._clock = clock
        self._owner = owner
        self._fire = fire
        self._armed: dict[str, _Armed] = {}
        self._keys: dict[str, str] = {}

    def arm(self, effect: SetTimer) -> None:
        """Arm a timer of the simulated process, or move it if it is armed already."""
        wait_ms: int = effect.lo_ms
        if effect.hi_ms > effect.lo_ms:
            key = self._keys.get(effect.name)
            if key is None:
                key = self._keys[effect.name] = f"timer {self._owner} {effect.name}"
            wait_ms = self._draws.between(key, effect.lo_ms, effect.hi_ms)
        due_ns = self._clock.monotonic_ns() + wait_ms * MS
        armed = self._armed.get(effect.name)
        if armed is None or due_ns < armed.due_ns:
            armed = self._armed[effect.name] = _Armed(due_ns)
            self._queue(effect.name, armed)
        else:
            armed.due_ns = due_ns

    def cancel(self, name: str) -> None:
        """Disarm a timer; do nothing if it is not armed."""
        self._armed.pop(name, None)

    def cancel_all(self) -> None:
        """Disarm all timers of an ended process."""
        self._armed.clear()

    def due_ms(self) -> dict[str, int]:
        """The armed timers of the process, in the order in which they fire, with the ms that are left on its own clock."""
        now_ns = self._clock.monotonic_ns()
        left_ms = {name: max(0, armed.due_ns - now_ns) // MS for name, armed in self._armed.items()}
        return dict(sorted(left_ms.items(), key=lambda item: item[1]))

    def clock_changed(self) -> None:
        """Schedule all timers anew after a change of the clock's drift."""
        for name, armed in list(self._armed.items()):
            moved = self._armed[name] = _Armed(armed.due_ns)
            self._queue(name, moved)

    def _queue(self, name: str, armed: _Armed) -> None:
        self._scheduler.at(self._clock.until_ns(armed.due_ns), self._fire_if_due, name, armed)

    def _fire_if_due(self, name: str, armed: _Armed) -> None:
        """Fire a timer if it is due by the process's own clock; else wait for the rest."""
        if self._armed.get(name) is not armed:
            return
        if self._clock.monotonic_ns() < armed.due_ns:
            self._queue(name, armed)
            return
        del self._armed[name]
        self._fire(name)
