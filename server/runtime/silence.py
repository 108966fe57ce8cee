"""How long nothing has been heard on a connection, of a node as of a client."""

import asyncio
from collections.abc import Callable


class Watch:
    """Calls `over` once it was silent for `limit_s`. One timer for each such time, however much is heard in it."""

    def __init__(self, limit_s: float, over: Callable[[], None]) -> None:
        self._limit_s = limit_s
        self._over = over
        self._heard_s = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def heard(self) -> None:
        """The silence begins here."""
        self._heard_s = asyncio.get_running_loop().time()

    def begin(self) -> None:
        """It does, and is looked for."""
        self.heard()
        if self._timer is None:
            self._look()

    def end(self) -> None:
        """It is not any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        loop = asyncio.get_running_loop()
        left_s = self._heard_s + self._limit_s - loop.time()
        if left_s > 0:
            self._timer = loop.call_later(left_s, self._look)
        else:
            self._timer = None
            self._over()
