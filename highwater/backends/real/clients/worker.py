"""The workload of a run on real nodes: each of its processes performs one operation after the other, through its own clients.

`highwater.rig.attempts` records both ends of each operation.
"""

import asyncio
from contextlib import suppress

from highwater.backends.real.clients.kafka import KafkaClient
from highwater.rig.attempts import ADMIN_TIMEOUT_MS, Attempts, Heard, heard
from reference.client.commands import Command
from server.runtime.admin_session import AdminSession
from workloads.client import Done, Invocation, Phase, Sleep


class Phases:
    """Which phase the run is in, and waiting for the next."""

    def __init__(self) -> None:
        self.now: Phase = "faults"
        self._changed = asyncio.Event()

    def enter(self, phase: Phase) -> None:
        """The next phase."""
        self.now = phase
        self._changed.set()
        self._changed = asyncio.Event()

    async def changed(self, timeout_ms: int | None = None) -> None:
        """Until the phase changes, or so long."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), None if timeout_ms is None else timeout_ms / 1000)


class Administrator:
    """One command at a time. Belongs to one asyncio loop."""

    def __init__(self, zookeeper: str, *, session_timeout_ms: int) -> None:
        self._session = AdminSession(zookeeper, session_timeout_ms)

    async def call(self, command: Command) -> Heard:
        """Ask, and wait until it is done, refused or given up."""
        return heard(await self._session.run(command, ADMIN_TIMEOUT_MS))

    async def close(self) -> None:
        """End the session."""
        self._session.close()


class Worker:
    """Performs one workload process to its end."""

    def __init__(self, attempts: Attempts, client: KafkaClient, administrator: Administrator) -> None:
        self._attempts = attempts
        self._client = client
        self._administrator = administrator

    async def run(self, phases: Phases) -> None:
        """Until it is done in the final phase."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        while True:
            phase = phases.now
            match self._attempts.process.next(now_ms=int((loop.time() - start) * 1000), phase=phase):
                case Sleep(ms=ms):
                    await phases.changed(max(1, ms))
                case Done() if phase == "final":
                    return
                case Done():
                    await phases.changed()
                case Invocation() as invocation:
                    asked = self._attempts.begin(invocation)
                    if isinstance(asked, Command):
                        self._attempts.end(await self._administrator.call(asked))
                    else:
                        self._attempts.end(await self._client.call(asked))
