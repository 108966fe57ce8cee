"""Brokers as processes: started, killed, stopped and continued by signals; each life appends its notes to one file of its node.

A node ends when its stdin closes, so that none outlives this process, however this one ends.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

from msgspec import Struct

import reference
from highwater.errors import HarnessError
from highwater.local.clocks import FakeClock, forget
from highwater.local.directories import LogDirs, obeying
from highwater.local.node_folder import NodeFolder
from highwater.local.processes import RUNNING, STOPPED, gone, in_state
from highwater.local.site import ClockCondition, DirCondition, Probe, Proof
from reference.config import BrokerConfig
from reference.runtime.faults import DirFault
from reference.runtime.power import Wound
from reference.runtime.settings import Listener

END_TIMEOUT_S = 10


class Needs(Struct, frozen=True, kw_only=True):
    """What a node must be started with so that a fault of the plan can be done to it."""

    fake_clock: bool = False  # asking for the time becomes slow
    permissions: bool = False  # those of files hold for it
    small_dirs: bool = False


NOTHING = Needs()


class NodeProcess(NodeFolder):
    """One broker through all its lives: `highwater.local.site.Node`."""

    def __init__(
        self,
        folder: Path,
        config: BrokerConfig,
        *,
        zookeeper: str,
        peers: Listener,
        clients: Listener,
        needs: Needs = NOTHING,
    ) -> None:
        super().__init__(folder, config, zookeeper=zookeeper, peers=peers, clients=clients)
        self._needs = needs
        self._dirs = LogDirs(self.log_dirs)
        self._dirs.make(small=needs.small_dirs)
        self._clock = FakeClock(self._folder / "wall-clock") if needs.fake_clock else None
        self._process: subprocess.Popen[bytes] | None = None
        self._last: subprocess.Popen[bytes] | None = None  # the one before, which has ended

    # --- the process -------------------------------------------------------------------------------------------------------

    async def start(self) -> Probe:
        """A new life."""
        assert not self._runs()
        self._close()
        settings = self.begin_life(end_with_stdin=True)
        # Where this process found the packages, the node finds them, installed or not.
        environment = {**os.environ, "PYTHONPATH": str(Path(next(iter(reference.__path__))).parent)}
        if self._clock is not None:
            environment |= self._clock.environment()
        obedient = (obeying() if self._needs.permissions else None) or []
        with (self._folder / "output.log").open("ab") as output:
            self._process = subprocess.Popen(
                [
                    *obedient,
                    sys.executable,
                    "-m",
                    "reference.runtime",
                    "--config",
                    str(settings),
                ],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
            )
        await self.tell_faults()
        return self._probe(running=True)

    async def is_running(self) -> bool:
        """Is there a process, perhaps a paused one?"""
        return self._runs()

    async def kill(self) -> Probe:
        """SIGKILL; the page cache stays. Nothing where it is down."""
        self.end()
        return self._probe(running=False)

    def end(self) -> None:
        """The same, outside of the loop."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(END_TIMEOUT_S)
        self._close()

    def close(self) -> None:
        """No process, nothing mounted, every file can be removed."""
        self.end()
        if self._clock is not None:
            self._clock.close()
        self._dirs.close()

    async def terminate(self) -> Probe:
        """SIGTERM: it may end in good order, or take its time."""
        self._signal(signal.SIGTERM)
        return self._probe(running=False)

    async def pause(self) -> Probe:
        """SIGSTOP."""
        self._signal(signal.SIGSTOP)
        return self._probe(running=True, state=STOPPED)

    async def resume(self) -> Probe:
        """SIGCONT."""
        self._signal(signal.SIGCONT)
        return self._probe(running=True, state=RUNNING)

    def _probe(self, *, running: bool, state: str = RUNNING + STOPPED) -> Probe:
        """Is this process there, in one of these states of the kernel, or is it gone?"""
        process = self._process or self._last

        async def probe() -> Proof:
            if not running:
                return await gone(process)
            proof = await in_state(process, state)
            why = None if proof.holds else self.stopped_itself()
            return proof if why is None else Proof(True, f"it stopped by itself: {why}")

        return probe

    # --- clocks and directories --------------------------------------------------------------------------------------------

    async def set_clock(self, condition: ClockCondition) -> Probe:
        """Its wall clock is so wrong from now on."""
        if self._clock is None:
            raise HarnessError(f"the clock of {self.address} cannot be set")
        return self._clock.set(condition, self.notes)

    async def set_dir(self, dir_: int, condition: DirCondition) -> Probe:
        """This log directory is so from now on: its device in the process's own disk layer, the rest on the file system."""
        outside = self._dirs.set(dir_, condition)
        fault = DirFault(broken=condition.broken, flush_ms=condition.flush_ms)
        if fault == self._dir_faults[dir_]:
            return outside
        return await self.set_dir_fault(dir_, fault)

    async def swap_dir(self, dir_: int) -> tuple[Wound, ...]:
        """An empty directory in the place of this one."""
        assert not self._runs()
        return self._dirs.swap(dir_)

    def _runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _signal(self, number: int) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def _close(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
        if self._process is not None and self._clock is not None:
            forget(self._process.pid)
        self._last, self._process = self._process, None
