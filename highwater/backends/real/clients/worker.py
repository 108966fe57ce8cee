"""The workload of a run on real brokers: each process performs one operation after the other, through its own clients.

`highwater.rig.attempts` records the invocation and the completion of each operation.
"""

import asyncio
from contextlib import suppress

from highwater.backends.real.clients.kafka import KafkaClient
from highwater.rig.attempts import ADMIN_TIMEOUT_MS, Attempts, Heard, heard
from reference.client.commands import Command
from server.runtime.admin_session import AdminSession
from workloads.client import Done, Invocation, Phase, Sleep


class Phases:
    """The current phase of a run (such as "final"), with a way for workers to wait until it changes."""

    def __init__(self) -> None:
        self.now: Phase = "faults"
        self._changed = asyncio.Event()

    def enter(self, phase: Phase) -> None:
        """Begin a phase and wake all waiting workers."""
        self.now = phase
        self._changed.set()
        self._changed = asyncio.Event()

    async def changed(self, timeout_ms: int | None = None) -> None:
        """Wait until the phase changes, at most `timeout_ms`."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), None if timeout_ms is None else timeout_ms / 1000)


class Administrator:
    """Admin commands of one workload process, one at a time, over a ZooKeeper session of its own.

    The commands are performed by the machine of `reference.client.admin`. Belongs to one asyncio loop.
    """

    def __init__(self, zookeeper: str, *, session_timeout_ms: int) -> None:
        self._session = AdminSession(zookeeper, session_timeout_ms)

    async def call(self, command: Command) -> Heard:
        """Submit a command and wait until it is done, refused, or ADMIN_TIMEOUT_MS have passed."""
        return heard(await self._session.run(command, ADMIN_TIMEOUT_MS))

    async def close(self) -> None:
        """Close the ZooKeeper session."""
        self._session.close()


class Worker:
    """Performs the operations of one workload process."""

    def __init__(self, attempts: Attempts, client: KafkaClient, administrator: Administrator) -> None:
        self._attempts = attempts
        self._client = client
        self._administrator = administrator

    async def run(self, phases: Phases) -> None:
        """Perform operations until the process is done in the phase "final"."""
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
