"""A broker as a process that is killed, paused and continued by signals, and started again on the same files.

A broker ends when its stdin closes, so none outlives the harness, however the harness ends.
"""

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import reference
from highwater.backends.real.node.clocks import library, record_faked_pid, remove_faketime_memory
from highwater.backends.real.node.directories import unprivileged_prefix
from highwater.backends.real.node.folder import NodeFolder, Start
from highwater.backends.real.os_process import RUNNING, STOPPED, gone, in_state
from highwater.backends.real.site import Probe, Proof
from highwater.errors import HarnessError

END_TIMEOUT_S = 10


class NodeProcess(NodeFolder):
    """One broker as a process of this machine, through all its restarts."""

    def __init__(self, folder: Path, start: Start) -> None:
        super().__init__(folder, start)
        self._process: subprocess.Popen[bytes] | None = None
        self._last: subprocess.Popen[bytes] | None = None  # the previous process, which has ended

    # --- the process -------------------------------------------------------------------------------------------------------

    async def start(self) -> Probe:
        """Start the broker's process anew."""
        assert not self._runs()
        self._close()
        settings = self.begin_life(end_with_stdin=True)
        # The node imports the packages from where the harness found them, installed or not.
        environment = {**os.environ, "PYTHONPATH": str(Path(next(iter(reference.__path__))).parent)}
        if self._clock is not None:
            found = library()
            assert found is not None
            environment |= self._clock.environment(found)
        obedient = (unprivileged_prefix() if self._needs.permissions else None) or []
        with (self._folder / "output.log").open("ab") as output:
            self._process = subprocess.Popen(
                [
                    *obedient,
                    sys.executable,
                    "-m",
                    "server.runtime",
                    "--config",
                    str(settings),
                ],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
            )
        if self._clock is not None:
            record_faked_pid(self._folder, self._process.pid)
        await self.tell_faults(self.is_running)
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

    def close(self) -> None:
        """Kill the broker, unmount everything and make all its files removable."""
        self.end()
        self.release()

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
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
        if self._process is not None and self._clock is not None:
            remove_faketime_memory(self._process.pid)
        self._last, self._process = self._process, None
