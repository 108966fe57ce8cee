"""An administrator of a run on real nodes: the machine of `reference.client.admin`, over a ZooKeeper session of its own."""

import asyncio
from collections.abc import Iterable

from highwater.backends.attempts import ADMIN_TIMEOUT_MS, Heard, heard
from reference.client.admin import Admin
from reference.client.calls import Answered
from reference.client.commands import Command
from reference.coordination.api import AnyAnswer, Change, SessionState
from reference.coordination.kazoo_client import KazooCoordination
from reference.effects import AnyEffect, CancelTimer, SetTimer, ZkConnect, ZkRequest
from reference.events import AnyEvent, TimerFired, ZkReplied, ZkState, ZkWatch
from reference.runtime.timers import Timers
from reference.types import Millis


class Administrator:
    """One command at a time. Belongs to one asyncio loop."""

    def __init__(self, zookeeper: str, *, session_timeout_ms: int) -> None:
        loop = asyncio.get_running_loop()
        self._machine = Admin(timeout_ms=Millis(ADMIN_TIMEOUT_MS))
        self._timers = Timers(loop, lambda name: self._handle(TimerFired(name)))
        self._zookeeper = KazooCoordination(zookeeper, session_timeout_ms, self, loop.call_soon_threadsafe)
        self._answer: asyncio.Future[Answered] | None = None

    async def call(self, command: Command) -> Heard:
        """Ask, and wait until it is done, refused or given up."""
        answer: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        self._answer = answer
        self._perform(self._machine.start(command))
        return heard(await answer)

    async def close(self) -> None:
        """End the session."""
        self._timers.cancel_all()
        self._zookeeper.close()

    # --- told by ZooKeeper -------------------------------------------------------------------------------------------------

    def replied(self, request_id: int, answers: tuple[AnyAnswer, ...]) -> None:
        """To a request of the machine."""
        self._handle(ZkReplied(request_id, answers))

    def watch_fired(self, path: str, change: Change) -> None:
        """A watch fired."""
        self._handle(ZkWatch(path, change))

    def state_changed(self, state: SessionState, session: int) -> None:
        """The session changed."""
        self._handle(ZkState(state, session))

    def _handle(self, event: AnyEvent) -> None:
        self._perform(self._machine.handle(event))

    def _perform(self, outputs: Iterable[AnyEffect | Answered]) -> None:
        for output in outputs:
            match output:
                case ZkConnect():
                    self._zookeeper.connect()
                case ZkRequest():
                    self._zookeeper.request(output.id, output.ops, atomic=output.atomic)
                case SetTimer():
                    self._timers.set(output.name, output.lo_ms, output.hi_ms)
                case CancelTimer():
                    self._timers.cancel(output.name)
                case Answered():
                    assert self._answer is not None
                    if not self._answer.done():  # given up at the end of the run
                        self._answer.set_result(output)
                case _:
                    raise AssertionError(f"an administrator has no business with {output}")
