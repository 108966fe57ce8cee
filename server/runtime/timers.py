"""Timers on the loop's monotonic clock: the named timers of a protocol machine, and a timer for silent connections."""

import asyncio
import random
from collections.abc import Callable


class Timers:
    """The armed timers of a protocol machine, at most one per name; setting it again replaces it.

    `fire` is called with the name of each timer that expires.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, fire: Callable[[str], None]) -> None:
        self._loop = loop
        self._fire = fire
        self._armed: dict[str, asyncio.TimerHandle] = {}
        self._random = random.Random()

    def set(self, name: str, lo_ms: int, hi_ms: int) -> None:
        """Arm a timer to fire once, between lo and hi ms from now; the delay is drawn here, since a machine draws nothing."""
        self.cancel(name)
        delay_s = self._random.uniform(lo_ms, hi_ms) / 1000
        self._armed[name] = self._loop.call_later(delay_s, self._run_out, name)

    def cancel(self, name: str) -> None:
        """Disarm the timer of this name, if it is armed."""
        handle = self._armed.pop(name, None)
        if handle is not None:
            handle.cancel()

    def cancel_all(self) -> None:
        """Disarm all timers of the protocol machine."""
        for name in list(self._armed):
            self.cancel(name)

    def _run_out(self, name: str) -> None:
        del self._armed[name]
        self._fire(name)


class SilenceTimer:
    """Detects a silent connection: calls `expired` once `limit_s` have passed since the last `start` or `restart`.

    `restart` only stores the time, so it is cheap enough for every received packet.
    """

    def __init__(self, limit_s: float, expired: Callable[[], None]) -> None:
        self._limit_s = limit_s
        self._expired = expired
        self._heard_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def restart(self) -> None:
        """Count a connection's silence from now on; does not start a stopped timer."""
        self._heard_s = asyncio.get_running_loop().time()

    def start(self) -> None:
        """Start the timer of a connection's silence, or restart it if it runs."""
        self.restart()
        if self._timer is None:
            self._check()

    def stop(self) -> None:
        """Stop the timer of a connection's silence."""
        if self._timer is not None:
            self._timer.cancel()

    def _check(self) -> None:
        """Expire if nothing was heard for the limit, else wait for what is left of it."""
        loop = asyncio.get_running_loop()
        left_s = self._heard_s + self._limit_s - loop.time()
        if left_s > 0:
            self._timer = loop.call_later(left_s, self._check)
        else:
            self._timer = None
            self._expired()
