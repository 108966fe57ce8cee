"""Runs the processes of a broker on this machine: started, killed, paused and continued by signals."""

import os
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import reference
from highwater.backends.real.node.clocks import library, record_faked_pid, remove_faketime_memory
from highwater.backends.real.node.directories import NO_SETPRIV, unprivileged_prefix
from highwater.backends.real.node.runner import OUTPUT, Launch
from highwater.backends.real.os_process import RUNNING, STOPPED, gone, in_state
from highwater.backends.real.site import Probe
from highwater.errors import HarnessError
from reference.types import Address

END_TIMEOUT_S = 10


def dying_with_us() -> tuple[str, ...]:
    """A command prefix that makes the kernel kill the process when the harness dies; empty without setpriv (util-linux).

    The kernel does so when the thread that started the process ends, so start it in the main thread.
    """
    setpriv = shutil.which("setpriv")
    return () if setpriv is None else (setpriv, "--pdeathsig", "KILL", "--")


class ProcessRunner:
    """The processes of one broker on this machine, of which none outlives the harness."""

    user = None

    def __init__(self, address: Address) -> None:
        self._address = address
        self._launch: Launch | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._last: subprocess.Popen[bytes] | None = None  # the previous process, which has ended

    @property
    def python(self) -> Launch:
        """The harness's own Python, which imports the packages from where the harness found them, installed or not."""
        folder = str(Path(next(iter(reference.__path__))).parent)
        return Launch(command=(sys.executable,), environment={"PYTHONPATH": folder}, watches_stdin=True)

    @property
    def faketime(self) -> Path | None:
        """Where libfaketime is installed; None if it is not."""
        return library()

    def reads(self, folder: Path) -> Path:
        """The same folder."""
        return folder

    async def start(self, launch: Launch, folder: Path) -> Probe:
        """Start a process. HarnessError if its command cannot be performed."""
        self._close()
        obedient = unprivileged_prefix() if launch.permissions else []
        if obedient is None:
            raise HarnessError(f"starting {self._address}: {NO_SETPRIV}")
        command = (*(() if launch.watches_stdin else dying_with_us()), *obedient, *launch.command)
        with (folder / OUTPUT).open("ab") as output:
            try:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=output,
                    env={**os.environ, **launch.environment},
                    start_new_session=True,
                )
            except OSError as error:
                raise HarnessError(f"starting {self._address}: {command[0]}: {error.strerror}") from error
        self._launch = launch
        if launch.fake_clock:
            record_faked_pid(folder, self._process.pid)
        return self._in(RUNNING + STOPPED)

    def is_running(self) -> bool:
        """Whether the process exists, paused or not."""
        return self._process is not None and self._process.poll() is None

    def exit_code(self) -> int | None:
        """The exit code of a process that ended without `end`; None if it runs or was ended."""
        return None if self._process is None else self._process.poll()

    async def kill(self) -> Probe:
        """Send SIGKILL and wait for the end. Returns a probe: if none ran, the fault had no effect."""
        probe = self._ends()
        self.end()
        return probe

    def end(self) -> None:
        """Send SIGKILL and wait for the end, without a probe."""
        if self._process is not None:
            self._process.kill()
            try:
                self._process.wait(END_TIMEOUT_S)
            except subprocess.TimeoutExpired as error:
                raise HarnessError(f"killing {self._address}: {error}") from error
        self._close()

    async def terminate(self) -> Probe:
        """Send SIGTERM."""
        probe = self._ends()
        self._signal(signal.SIGTERM)
        return probe

    async def pause(self) -> Probe:
        """Send SIGSTOP."""
        self._signal(signal.SIGSTOP)
        return self._in(STOPPED)

    async def resume(self) -> Probe:
        """Send SIGCONT."""
        self._signal(signal.SIGCONT)
        return self._in(RUNNING)

    def _ends(self) -> Probe:
        """A probe for the end of the current process; an earlier process's end would prove nothing about the fault."""
        return partial(gone, self._process if self.is_running() else None)

    def _in(self, state: str) -> Probe:
        """A probe that the current process is in one of these kernel states."""
        return partial(in_state, self._process or self._last, state)

    def _signal(self, number: int) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def _close(self) -> None:
        """Let go of a process that has ended, and of what libfaketime left of it in memory."""
        if self._process is not None:
            if self._process.stdin is not None:
                self._process.stdin.close()
            if self._launch is not None and self._launch.fake_clock:
                remove_faketime_memory(self._process.pid)
        self._last, self._process = self._process, None
