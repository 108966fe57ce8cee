"""Processes as the Linux kernel shows them: their state in /proc, how they ended, their memory."""

import asyncio
import subprocess
from pathlib import Path

from highwater.backends.real.site import Proof

LOOK_S = 0.02
GONE_LOOKS_MAX = 150
STATE_LOOKS_MAX = 25
RUNNING = "RSD"
STOPPED = "T"


def state_of(pid: int) -> str:
    """The state letter from /proc (R, S, D, T, Z, X); "" if there is no such process."""
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


async def gone(process: "subprocess.Popen[bytes] | None") -> Proof:
    """Whether the process has ended, or soon ends (looks GONE_LOOKS_MAX times)."""
    if process is None:
        return Proof(False, "there was no process")
    for _ in range(GONE_LOOKS_MAX):
        code = process.poll()
        if code is not None:
            how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
            return Proof(True, f"process {process.pid} ended {how}")
        await asyncio.sleep(LOOK_S)
    return Proof(False, f"process {process.pid} is still ending")


async def in_state(process: "subprocess.Popen[bytes] | None", state: str) -> Proof:
    """Whether the process is in one of these states, or soon is: a signal takes a moment to arrive."""
    if process is None:
        return Proof(False, "there is no process")
    now = ""
    for _ in range(STATE_LOOKS_MAX):
        code = process.poll()
        if code is not None:
            return Proof(False, f"process {process.pid} ended by itself with exit code {code}")
        now = state_of(process.pid)
        if now and now in state:
            return Proof(True, f"process {process.pid} is in state {now}")
        await asyncio.sleep(LOOK_S)
    return Proof(False, f"process {process.pid} is in state {now}")


def resident_kb(pid: int) -> int:
    """Resident memory in KiB (VmRSS); 0 if there is no such process."""
    try:
        lines = (Path("/proc") / str(pid) / "status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmRSS:")), 0)
