"""Named timers on the loop's monotonic clock. The moment within a timer's range is drawn here; the machine draws nothing."""

import asyncio
import random
from collections.abc import Callable


class Timers:
    """At most one armed timer of a name; arming it again replaces it. `fire` is told the name of one that ran out."""

    def __init__(self, loop: asyncio.AbstractEventLoop, fire: Callable[[str], None]) -> None:
        self._loop = loop
        self._fire = fire
        self._armed: dict[str, asyncio.TimerHandle] = {}
        self._random = random.Random()

    def set(self, name: str, lo_ms: int, hi_ms: int) -> None:
        """Fire once, between lo and hi ms from now."""
        self.cancel(name)
        delay_s = self._random.uniform(lo_ms, hi_ms) / 1000
        self._armed[name] = self._loop.call_later(delay_s, self._run_out, name)

    def cancel(self, name: str) -> None:
        """Disarm, if armed."""
        handle = self._armed.pop(name, None)
        if handle is not None:
            handle.cancel()

    def cancel_all(self) -> None:
        """Disarm all."""
        for name in list(self._armed):
            self.cancel(name)

    def _run_out(self, name: str) -> None:
        del self._armed[name]
        self._fire(name)
