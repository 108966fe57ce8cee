"""What a command costs: CPU seconds of all its processes, seconds by the clock, and the memory of its largest processes.

Spark's Python daemon ignores the end of its workers, so the system adds their CPU seconds to nobody's. Processes are therefore
looked at while they run, ten times a second; a process that lives shorter than that is not seen. Processes whose parent has ended
become children of this one and are seen until they end.
"""

import ctypes
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Literal

from msgspec import Struct

from highwater.errors import HarnessError

LOOK_S = 0.1
ENDS_WITHIN_S = 30.0  # what a command leaves behind
_TICKS = os.sysconf("SC_CLK_TCK")
_SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER

Kind = Literal["java", "python", "driver"]  # the driver is the command itself


class Cost(Struct, frozen=True, kw_only=True):
    """The cost of one command. `peak_mib`: resident memory of the largest process of a kind; the command counts twice."""

    cpu_s: float
    java_cpu_s: float  # of them, of all JVMs
    clock_s: float
    peak_mib: dict[Kind, int]
    output: str
    exit_code: int


def cost_of(command: Sequence[str], *, environment: Mapping[str, str] | None = None) -> Cost:
    """Run a command until all its processes have ended, and add up what they cost. Linux only.

    Raises HarnessError if it leaves a process behind.
    """
    if ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0) != 0:
        raise HarnessError("orphans of a command cannot be followed: prctl(PR_SET_CHILD_SUBREAPER) failed")
    others = set(_descendants())
    watch = _Watch()
    start = time.monotonic()
    with TemporaryFile("w+") as printed:
        child = subprocess.Popen(command, stdout=printed, env={**os.environ, **(environment or {})})
        ended: float | None = None
        while alive := [pid for pid in _descendants() if pid not in others]:
            for pid in alive:
                watch.look(pid, is_driver=pid == child.pid)
            if child.poll() is not None:
                ended = ended or time.monotonic()
                _reap(alive)
                if time.monotonic() > ended + ENDS_WITHIN_S:
                    raise HarnessError(f"{command[0]} left processes behind: {alive}")
            time.sleep(LOOK_S)
        printed.seek(0)
        output = printed.read()
    return Cost(
        cpu_s=round(sum(watch.cpu_s.values()), 1),
        java_cpu_s=round(sum(seconds for process, seconds in watch.cpu_s.items() if process in watch.java), 1),
        clock_s=round((ended or time.monotonic()) - start, 1),
        peak_mib=watch.peak_mib,
        output=output,
        exit_code=child.wait(),
    )


def _reap(pids: Sequence[int]) -> None:
    """Wait for the orphans among these processes that have ended."""
    for pid in pids:
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


class _Watch:
    """The latest CPU seconds of each process, and the largest peaks."""

    def __init__(self) -> None:
        self.cpu_s: dict[tuple[int, str], float] = {}  # by process id and start time, because ids are used again
        self.java: set[tuple[int, str]] = set()
        self.peak_mib: dict[Kind, int] = {}

    def look(self, pid: int, *, is_driver: bool = False) -> None:
        with suppress(OSError, IndexError, StopIteration):  # it may end at any moment
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            self.cpu_s[pid, fields[19]] = (int(fields[11]) + int(fields[12])) / _TICKS
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            if lines[0].endswith("java"):
                self.java.add((pid, fields[19]))
            kinds: list[Kind] = ["java" if lines[0].endswith("java") else "python"]
            kinds += ["driver"] if is_driver else []
            peak = int(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) >> 10
            for kind in kinds:
                self.peak_mib[kind] = max(peak, self.peak_mib.get(kind, 0))


def _descendants() -> list[int]:
    """The processes below this one."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError, IndexError):
            children.setdefault(int(path.read_text().rpartition(")")[2].split()[1]), []).append(int(path.parent.name))
    process_ids = [os.getpid()]
    for pid in process_ids:
        process_ids.extend(children.get(pid, []))
    return process_ids[1:]
