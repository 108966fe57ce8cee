"""The first process of a container, which can be started repeatedly, killed, signalled and frozen.

A container is created once and started for each life. It performs one command, so another service has a container of its own; the
one before it stays until the end of the run, because probes may still ask it. The kernel's state of the process (`os_process`)
takes precedence over the engine's, which learns of an end a moment later.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from highwater.backends.real.containers.engine import Engine, Service
from highwater.backends.real.os_process import LOOK_S, state_of
from highwater.backends.real.site import Probe, Proof
from highwater.errors import HarnessError

ENDED_S_MAX = 10
_LOOKS_MAX = 150
_FROZEN_S = 0.2  # a frozen process must not use the processor for so long
_GONE = ("", "Z", "X")


class ContainerProcess:
    """The first process of one container; the first start creates it, and one with another service creates the next."""

    def __init__(self, engine: Engine, service: Service) -> None:
        self._engine = engine
        self.service = service  # of the next start
        self._created: list[Service] = []  # a container was created for each of these
        self._container: str | None = None
        self._pid = 0
        self._frozen = False

    @property
    def container(self) -> str | None:
        """The id of the container; None before the first start."""
        return self._container

    @property
    def pid(self) -> int:
        """The host pid of the process that was started last; 0 before the first start."""
        return self._pid

    async def start(self) -> None:
        """Start the container's first process; none may run."""
        assert not self.is_running()
        await asyncio.to_thread(self._start)

    def _start(self) -> None:
        """Create the container on first use and for another service, and start it."""
        if self._container is not None:
            self._engine.wait(self._container, ENDED_S_MAX)
        if self._created[-1:] != [self.service]:
            number = len(self._created) + 1
            name = self.service.name if number == 1 else f"{self.service.name}-{number}"
            self._container = self._engine.create(replace(self.service, name=name))
            self._created.append(self.service)
        assert self._container is not None
        self._engine.start(self._container)
        self._pid = self._engine.pid(self._container)

    def is_running(self) -> bool:
        """Whether the container's process exists, frozen or not."""
        return self._pid != 0 and state_of(self._pid) not in _GONE

    def exit_code(self) -> int | None:
        """The exit code of the last process, which has ended; None if it needed too much memory, or none was started."""
        if self._container is None:
            return None
        self._engine.wait(self._container, ENDED_S_MAX)  # the engine learns of the end a moment later
        return None if self._engine.used_too_much_memory(self._container) else self._engine.exit_code(self._container)

    async def kill(self) -> Probe:
        """Send the process SIGKILL and wait for the end. Returns a probe: if none ran, the fault had no effect."""
        if not self.is_running():
            return _no_process
        probe = self.gone()
        await asyncio.to_thread(self.end)
        return probe

    def end(self) -> None:
        """Send the process SIGKILL and wait for the end, without a probe; for callers outside of an asyncio loop."""
        if self._container is None:
            return
        if self.is_running():
            self._engine.kill(self._container)  # the engine thaws a frozen container for this
        self._frozen = False
        self._engine.wait(self._container, ENDED_S_MAX)

    async def signal(self, name: str) -> None:
        """Send the container's process SIG`name`; does nothing if none runs."""
        if self._container is not None and self.is_running():
            await asyncio.to_thread(self._engine.kill, self._container, name)

    async def freeze(self) -> Probe:
        """Freeze the container's cgroup. Does nothing if no process runs or it is frozen already."""
        if self._container is not None and self.is_running() and not self._frozen:
            self._frozen = await self._done_to_it(self._engine.pause, self._container)
        return self.stands_still

    async def thaw(self) -> Probe:
        """Thaw the container, so that its frozen process continues."""
        if self._container is not None and self._frozen:
            await self._done_to_it(self._engine.unpause, self._container)
            self._frozen = False
        return self.runs

    async def _done_to_it(self, deed: Callable[[str], None], container: str) -> bool:
        """Call the engine; False if that failed because the process ended by itself meanwhile."""
        try:
            await asyncio.to_thread(deed, container)
        except HarnessError:
            if self.is_running():
                raise
            return False
        return True

    def last_words(self) -> str:
        """The last line that the container's process printed; empty before the first start."""
        return "" if self._container is None else self._engine.last_words(self._container)

    # --- evidence ----------------------------------------------------------------------------------------------------------

    def gone(self) -> Probe:
        """A probe that the current process has ended, even if another one is started meanwhile.

        An earlier end would prove nothing about this fault, so without a process the probe fails.
        """
        return partial(self._proof_of_end, self._pid) if self.is_running() else _no_process

    async def _proof_of_end(self, pid: int) -> Proof:
        """Wait until the process has ended, at most _LOOKS_MAX looks."""
        container = self._container
        if container is None:
            return Proof(False, "there was no process")
        for _ in range(_LOOKS_MAX):
            if state_of(pid) in _GONE:
                # The engine learns of the end a moment later; if another process was started meanwhile, it reports that one.
                code = await asyncio.to_thread(self._engine.exit_code, container)
                if pid != self._pid:
                    return Proof(True, f"process {pid} ended")
                if code is not None:
                    return Proof(True, f"process {pid} ended with exit code {code}")
            await asyncio.sleep(LOOK_S)
        has_ended = state_of(pid) in _GONE
        return Proof(has_ended, f"process {pid} ended" if has_ended else f"process {pid} is still ending")

    async def runs(self) -> Proof:
        """A probe that the process runs and is not frozen."""
        pid = self._pid
        if not self.is_running():
            return Proof(False, f"process {pid} ended by itself")
        state = state_of(pid)
        container = self._container
        assert container is not None
        engine_says = await asyncio.to_thread(self._engine.state, container)
        return Proof(engine_says == "running" and state != "T", f"process {pid} is in state {state}, its container {engine_says}")

    async def stands_still(self) -> Proof:
        """A probe that the process exists and uses no processor time, as when frozen."""
        pid, container = self._pid, self._container
        if container is None or not self.is_running():
            return Proof(False, "there is no process")
        before = _processor_ticks(pid)
        await asyncio.sleep(_FROZEN_S)
        after = _processor_ticks(pid)
        if before is None or after is None:
            return Proof(False, f"process {pid} ended meanwhile")
        cpu_ns = after - before
        engine_says = await asyncio.to_thread(self._engine.state, container)
        detail = f"process {pid} used {cpu_ns} clock ticks of processor time in {_FROZEN_S} s, its container is {engine_says}"
        return Proof(cpu_ns == 0 and engine_says == "paused", detail)


async def _no_process() -> Proof:
    return Proof(False, "there was no process")


def _processor_ticks(pid: int) -> int | None:
    """User and system time since the start of a process, in clock ticks; None if there is no such process."""
    try:
        fields = (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(fields[11]) + int(fields[12])
