"""The workload of a run on real nodes: each of its processes performs one operation after the other, through its own clients.

`highwater.rig.attempts` records both ends of each operation.
"""

import asyncio
from contextlib import suppress
from typing import Protocol

from highwater.rig.attempts import Attempts, Heard
from reference.client.calls import Call
from reference.client.commands import Command
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


class Clients(Protocol):
    """A way to the cluster, for one process."""

    async def call(self, call: Call) -> Heard:
        """Perform it; ends by itself."""


class Administrators(Protocol):
    """A way to ZooKeeper, for one process."""

    async def call(self, command: Command) -> Heard:
        """Perform it; ends by itself."""


class Worker:
    """Performs one workload process to its end."""

    def __init__(self, attempts: Attempts, client: Clients, administrator: Administrators) -> None:
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
