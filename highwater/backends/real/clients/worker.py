"""The clients of a run on real brokers: each performs one operation after the other.

`highwater.rig.attempts` records the invocation and the completion of each operation.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from highwater.backends.real.systems.port import Administrator, Client, SessionClient
from highwater.rig.administration import AdminCommand, AlterConfig
from highwater.rig.attempts import ADMIN_TIMEOUT_MS, Attempts, OwnCall, Reply, reply_of
from highwater.rig.sessions import SessionCall
from reference.client.calls import Call
from server.runtime.admin_session import AdminSession
from workloads.client import Done, Invocation, Phase, Sleep


class Phases:
    """The current phase of a run ("faults", "quiet", "audit", "final"), with a way for clients to wait until it changes."""

    def __init__(self) -> None:
        self.now: Phase = "faults"
        self._changed = asyncio.Event()
        self._stopping = False
        self._operations_open = 0  # operations in progress
        self._idle = asyncio.Event()
        self._idle.set()

    def enter(self, phase: Phase) -> None:
        """Begin a phase of the run and wake all clients that wait for it."""
        self.now = phase
        self._stopping = False
        self._changed.set()
        self._changed = asyncio.Event()

    async def stop(self, timeout_s: float) -> None:
        """Let no operation begin before the next phase, and wait until those in progress have ended, or time is up."""
        self._stopping = True
        with suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), timeout_s)

    async def allowed(self) -> None:
        """Wait until operations may begin."""
        while self._stopping:
            await self.changed()

    @contextmanager
    def operating(self) -> Iterator[None]:
        """A context in which one operation is in progress."""
        self._operations_open += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._operations_open -= 1
            if not self._operations_open:
                self._idle.set()

    async def changed(self, timeout_ms: int | None = None) -> None:
        """Wait until the phase of the run changes, at most `timeout_ms`."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), None if timeout_ms is None else timeout_ms / 1000)


class ZooKeeperAdministrator:
    """Admin commands of one client process, one at a time, over a ZooKeeper session of its own.

    The commands are performed by the machine of `reference.client.admin`. Belongs to one asyncio loop.
    """

    def __init__(self, zookeeper: str, *, session_timeout_ms: int) -> None:
        self._session = AdminSession(zookeeper, session_timeout_ms)

    async def call(self, command: AdminCommand) -> Reply:
        """Submit an admin command and wait until it is done or refused, at most ADMIN_TIMEOUT_MS."""
        assert not isinstance(command, AlterConfig), "the reference refuses plans with it before the run"
        return reply_of(await self._session.run(command, ADMIN_TIMEOUT_MS))

    async def open(self) -> None:
        """Nothing to do: the first command opens the session."""

    async def close(self) -> None:
        """Close the administrator's ZooKeeper session."""
        self._session.close()


class Worker:
    """Performs the operations of one client process on real brokers."""

    def __init__(self, attempts: Attempts, client: Client, administrator: Administrator) -> None:
        self._attempts = attempts
        self._client = client
        self._administrator = administrator

    async def run(self, phases: Phases) -> None:
        """Perform the client's operations until it is done in the phase "final"."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        while True:
            await phases.allowed()
            phase = phases.now
            match self._attempts.process.next(now_ms=int((loop.time() - start) * 1000), phase=phase):
                case Sleep(ms=ms):
                    await phases.changed(max(1, ms))
                case Done() if phase == "final":
                    return
                case Done():
                    await phases.changed()
                case Invocation() as invocation:
                    call = self._attempts.begin(invocation)
                    with phases.operating():
                        self._attempts.end(await self._perform_and_wait(call))

    async def _perform_and_wait(self, call: Call | AdminCommand | SessionCall | OwnCall) -> Reply:
        """Hand the call to the administrator, the session client or the Kafka client, and wait for its outcome."""
        if isinstance(call, OwnCall):
            return Reply(id=call.id)
        if isinstance(call, AdminCommand):
            return await self._administrator.call(call)
        if isinstance(call, SessionCall):
            assert isinstance(self._client, SessionClient), "the system refuses these workloads before the run"
            return await self._client.perform(call)
        return await self._client.call(call)
