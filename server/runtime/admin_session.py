"""Runs the administrator's machine (`reference.client.admin`) over a ZooKeeper session that the first command opens."""

import asyncio

from reference.client.admin import Admin, Outputs
from reference.client.calls import Answered
from reference.client.commands import Command
from reference.coordination.api import AnyAnswer, AnyOp, Change, SessionExpired, SessionState, Unknown
from reference.effects import CancelTimer, SetTimer, ZkConnect, ZkRequest
from reference.events import AnyEvent, TimerFired, ZkReplied, ZkState, ZkWatch
from reference.types import Millis
from server.kazoo_client import KazooCoordination
from server.runtime.timers import Timers

_FIRST_LOOK = 1 << 40  # ids of the requests of `look`; the machine's ids count from 1


class AdminSession:
    """Performs admin commands in ZooKeeper, one at a time. Call only on the loop's thread."""

    def __init__(self, zookeeper: str, session_timeout_ms: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._zookeeper = KazooCoordination(zookeeper, session_timeout_ms, self, self._loop.call_soon_threadsafe)
        self._machine = Admin(Millis(0))  # `run` sets the timeout of each command
        self._timers = Timers(self._loop, lambda name: self._handle(TimerFired(name)))
        self._answer: asyncio.Future[Answered] | None = None
        self._looks: dict[int, asyncio.Future[tuple[AnyAnswer, ...]]] = {}
        self._last = _FIRST_LOOK

    async def run(self, command: Command, timeout_ms: int) -> Answered:
        """Perform an admin command in ZooKeeper; returns when it is done, refused or timed out."""
        self._machine.timeout_ms = Millis(timeout_ms)
        self._answer = self._loop.create_future()
        self._perform_outputs(self._machine.start(command))
        return await self._answer

    async def look(self, *ops: AnyOp, timeout_s: float) -> tuple[AnyAnswer, ...]:
        """Read znodes; an empty tuple if ZooKeeper does not answer in time or the connection or session is lost."""
        self._last += 1
        id_ = self._last
        future = self._loop.create_future()
        self._looks[id_] = future
        self._zookeeper.request(id_, ops, atomic=False)
        try:
            answers = await asyncio.wait_for(future, timeout_s)
        except TimeoutError:
            return ()
        finally:
            del self._looks[id_]
        # An answer lost with the connection must not read as a missing znode.
        return () if any(isinstance(answer, Unknown | SessionExpired) for answer in answers) else answers

    def close(self) -> None:
        """Close the administrator's ZooKeeper session; commands in progress are not answered."""
        self._timers.cancel_all()
        self._zookeeper.close()

    # --- called by the ZooKeeper client --------------------------------------------------------------------------------------

    def replied(self, request_id: int, answers: tuple[AnyAnswer, ...]) -> None:
        """Hand ZooKeeper's answer to the administrator's machine or to the `look` that waits for it."""
        if request_id < _FIRST_LOOK:
            self._handle(ZkReplied(request_id, answers))
        elif request_id in self._looks and not self._looks[request_id].done():
            self._looks[request_id].set_result(answers)

    def watch_fired(self, path: str, change: Change) -> None:
        """Hand a ZooKeeper watch event to the administrator's machine."""
        self._handle(ZkWatch(path, change))

    def state_changed(self, state: SessionState, session: int) -> None:
        """Hand a change of the ZooKeeper session to the administrator's machine."""
        self._handle(ZkState(state, session))

    def _handle(self, event: AnyEvent) -> None:
        self._perform_outputs(self._machine.handle(event))

    def _perform_outputs(self, outputs: Outputs) -> None:
        """Perform the admin machine's outputs; its answer ends the command that waits."""
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
                    if not self._answer.done():  # done if the caller was cancelled
                        self._answer.set_result(output)
                case _:
                    raise AssertionError(f"the admin machine may not return {output}")
