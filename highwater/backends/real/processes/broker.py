"""The process of a broker: started, killed, paused and continued by signals, and started again on the same files."""

import os
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from msgspec import Struct

from highwater.backends.real.os_process import RUNNING, STOPPED, gone, in_state
from highwater.backends.real.site import Probe, Proof
from highwater.errors import HarnessError
from reference.types import Address

END_TIMEOUT_S = 10
_OUTPUT = "output.log"


class Launch(Struct, frozen=True, kw_only=True):
    """How a process is started: its command, and environment variables beside the harness's own."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = {}


class BrokerProcess(ABC):
    """One broker as a process of this machine, through all its restarts. Its stdin ends with the harness."""

    address: Address

    def __init__(self, folder: Path) -> None:
        self._output = folder / _OUTPUT
        self._process: subprocess.Popen[bytes] | None = None
        self._last: subprocess.Popen[bytes] | None = None  # the previous process, which has ended

    @abstractmethod
    def _launch(self) -> Launch:
        """Count a new process and prepare its files."""

    @abstractmethod
    def stopped_itself(self) -> str | None:
        """Why the broker's process stopped itself; None if it did not."""

    def _over(self, process: "subprocess.Popen[bytes]") -> None:  # noqa: B027 - most brokers leave nothing behind
        """Called when a process has ended and nothing refers to it any more."""

    async def start(self) -> Probe:
        """Start the broker's process anew."""
        assert not self._runs()
        self._close()
        launch = self._launch()
        with self._output.open("ab") as output:
            try:
                self._process = subprocess.Popen(
                    launch.command,
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=output,
                    env={**os.environ, **launch.environment},
                    start_new_session=True,
                )
            except OSError as error:
                raise HarnessError(f"starting {self.address}: {launch.command[0]}: {error.strerror}") from error
        return self._probe()

    async def is_running(self) -> bool:
        """Whether the broker's process exists, paused or not."""
        return self._runs()

    async def kill(self) -> Probe:
        """Send the broker SIGKILL and wait for the end. Returns a probe: if none ran, the fault had no effect."""
        probe = self._ends()
        self.end()
        return probe

    def end(self) -> None:
        """Send the broker SIGKILL and wait for the end, without a probe; for callers outside of the asyncio loop."""
        if self._process is not None:
            self._process.kill()
            try:
                self._process.wait(END_TIMEOUT_S)
            except subprocess.TimeoutExpired as error:
                raise HarnessError(f"killing {self.address}: {error}") from error
        self._close()

    async def terminate(self) -> Probe:
        """Send the broker SIGTERM; a controlled shutdown may take a while."""
        probe = self._ends()
        self._signal(signal.SIGTERM)
        return probe

    async def pause(self) -> Probe:
        """Send the broker SIGSTOP."""
        self._signal(signal.SIGSTOP)
        return self._probe(STOPPED)

    async def resume(self) -> Probe:
        """Send the broker SIGCONT."""
        self._signal(signal.SIGCONT)
        return self._probe(RUNNING)

    def last_words(self) -> str:
        """The last line that the broker's process printed; empty unless something went wrong."""
        lines = self._output.read_text(errors="replace").strip().splitlines() if self._output.exists() else []
        return lines[-1] if lines else ""

    def _ends(self) -> Probe:
        """A probe for the end of the broker's current process; an earlier process's end would prove nothing about the fault."""
        return partial(gone, self._process if self._runs() else None)

    def _probe(self, state: str = RUNNING + STOPPED) -> Probe:
        """A probe that the broker's current process is in one of these kernel states."""
        process = self._process or self._last

        async def probe() -> Proof:
            proof = await in_state(process, state)
            why = None if proof.holds else self.stopped_itself()
            return proof if why is None else Proof(True, f"the broker stopped by itself: {why}")

        return probe

    def _runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _signal(self, number: int) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def _close(self) -> None:
        if self._process is not None:
            if self._process.stdin is not None:
                self._process.stdin.close()
            self._over(self._process)
        self._last, self._process = self._process, None
