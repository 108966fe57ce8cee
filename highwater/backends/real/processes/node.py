"""Brokers as processes: started, killed, stopped and continued by signals; each life appends its notes to one file of its node.

A node ends when its stdin closes, so that none outlives this process, however this one ends.
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
    """One broker through all its lives: `highwater.backends.real.site.Node`."""

    def __init__(self, folder: Path, start: Start) -> None:
        super().__init__(folder, start)
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
        """Is there a process, perhaps a paused one?"""
        return self._runs()

    async def kill(self) -> Probe:
        """SIGKILL; the page cache stays. Nothing where it is down, and then it did not act."""
        probe = self._ends()
        self.end()
        return probe

    def end(self) -> None:
        """The same, outside of the loop."""
        if self._process is not None:
            self._process.kill()
            try:
                self._process.wait(END_TIMEOUT_S)
            except subprocess.TimeoutExpired as error:
                raise HarnessError(f"killing {self.address}: {error}") from error
        self._close()

    def close(self) -> None:
        """No process, nothing mounted, every file can be removed."""
        self.end()
        self.release()

    async def terminate(self) -> Probe:
        """SIGTERM: it may end in good order, or take its time."""
        probe = self._ends()
        self._signal(signal.SIGTERM)
        return probe

    async def pause(self) -> Probe:
        """SIGSTOP."""
        self._signal(signal.SIGSTOP)
        return self._probe(STOPPED)

    async def resume(self) -> Probe:
        """SIGCONT."""
        self._signal(signal.SIGCONT)
        return self._probe(RUNNING)

    def _ends(self) -> Probe:
        """Is the process that is there now gone? Of one that ended earlier that would prove nothing."""
        return partial(gone, self._process if self._runs() else None)

    def _probe(self, state: str = RUNNING + STOPPED) -> Probe:
        """Is this process there, in one of these states of the kernel?"""
        process = self._process or self._last

        async def probe() -> Proof:
            proof = await in_state(process, state)
            why = None if proof.holds else self.stopped_itself()
            return proof if why is None else Proof(True, f"it stopped by itself: {why}")

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
