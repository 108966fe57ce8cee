"""Brokers as processes: started, killed, stopped and continued by signals; each life appends its notes to one file of its node.

A node ends when its stdin closes, so that none outlives this process, however this one ends.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import reference
from highwater.errors import HarnessError
from highwater.local.node_folder import NodeFolder
from highwater.local.site import ClockCondition, Cutback, DirCondition, Probe, Proof, Wound
from reference.config import BrokerConfig
from reference.types import Address, broker_address

END_TIMEOUT_S = 10
GONE_LOOKS_MAX = 150
STATE_LOOKS_MAX = 25
LOOK_S = 0.02


class NodeProcess(NodeFolder):
    """One broker through all its lives: `highwater.local.site.Node`. `ports` are those of all brokers."""

    def __init__(self, folder: Path, config: BrokerConfig, *, zookeeper: str, ports: dict[Address, int]) -> None:
        addresses = {peer: f"127.0.0.1:{port}" for peer, port in ports.items()}
        super().__init__(folder, config, zookeeper=zookeeper, listen=addresses[broker_address(config.broker)], peers=addresses)
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
        with (self._folder / "output.log").open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "reference.runtime", "--config", str(settings)],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
            )
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

    async def terminate(self) -> Probe:
        """SIGTERM: it may end in good order, or take its time."""
        self._signal(signal.SIGTERM)
        return self._probe(running=False)

    async def pause(self) -> Probe:
        """SIGSTOP."""
        self._signal(signal.SIGSTOP)
        return self._probe(running=True, state="T")

    async def resume(self) -> Probe:
        """SIGCONT."""
        self._signal(signal.SIGCONT)
        return self._probe(running=True, state="RSD")

    def _probe(self, *, running: bool, state: str = "RSDT") -> Probe:
        """Is this process there, in one of these states of the kernel, or is it gone?"""
        process = self._process or self._last

        async def probe() -> Proof:
            if process is None:
                return Proof(False, "there is no process")
            if not running:
                return await _gone(process)
            return await self._in_state(process, state)

        return probe

    async def _in_state(self, process: "subprocess.Popen[bytes]", wanted: str) -> Proof:
        now = ""
        for _ in range(STATE_LOOKS_MAX):
            code = process.poll()
            if code is not None:
                why = self.stopped_itself()
                return Proof(why is not None, f"process {process.pid} ended by itself: {why or code}")
            now = (Path("/proc") / str(process.pid) / "stat").read_text().rpartition(")")[2].split()[0]
            if now in wanted:
                return Proof(True, f"process {process.pid} is in state {now}")
            await asyncio.sleep(LOOK_S)  # a signal takes a moment to arrive
        return Proof(False, f"process {process.pid} is in state {now}")

    # --- clocks and directories --------------------------------------------------------------------------------------------

    async def set_clock(self, condition: ClockCondition) -> Probe:
        """Refused before the run."""
        raise HarnessError(f"the clock of {self.address} cannot be set: {condition}")

    async def set_dir(self, dir_: int, condition: DirCondition) -> Probe:
        """Refused before the run."""
        raise HarnessError(f"directory {dir_} of {self.address} cannot be changed: {condition}")

    async def swap_dir(self, dir_: int) -> tuple[Wound, ...]:
        """Refused before the run."""
        raise HarnessError(f"directory {dir_} of {self.address} cannot be swapped")

    async def lose_unflushed(self, dirs: Sequence[int], how: Cutback) -> tuple[Wound, ...]:
        """Refused before the run."""
        raise HarnessError(f"what {self.address} did not flush cannot be lost: {dirs} {how}")

    def _runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _signal(self, number: int) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def _close(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
        self._last, self._process = self._process, None


async def _gone(process: "subprocess.Popen[bytes]") -> Proof:
    for _ in range(GONE_LOOKS_MAX):
        code = process.poll()
        if code is not None:
            how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
            return Proof(True, f"process {process.pid} ended {how}")
        await asyncio.sleep(LOOK_S)
    return Proof(False, f"process {process.pid} is still ending")
