"""A wrong wall clock for one broker process: libfaketime adds an offset that it reads from a file.

The monotonic clock stays right. libfaketime could change it too, but then waits with a timeout end at the wrong moment or never
(sem_clockwait runs on the kernel's clock), and Python's threads hang. A drift is therefore an offset of the wall clock that grows
in steps. The library reads the file at each reading of the clock (5 µs): by default it keeps what it read for a second, and a
clock that jumps every 20 ms would hardly jump. Each note of a broker carries both its clocks, so the error can be measured from
outside.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from highwater.backends.real.os_process import state_of
from highwater.backends.real.site import RIGHT, ClockCondition, Probe, Proof
from server.lab.notes import NoteLine

LIBRARIES = tuple(
    Path(folder) / "faketime" / "libfaketime.so.1"
    for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib")
)
STEP_S = 0.02  # between two steps of a drift
LOOK_S = 0.02
NOTED_S_MAX = 3.0  # a live broker writes a note within this time
HEALED_S_MAX = 20.0  # includes the restart of a broker that was down
LATE_NS = 500_000_000  # a busy harness writes the steps of a drift late
NEAR_NS = 15_000_000  # tolerance between offset and note: a step of a fast drift, a thread that had to wait
VISIBLE_NS = 200_000  # two successive readings of the clocks may differ by this much
_NS_PER_MS = 1_000_000
_FAKED = "faked-pids"
_SHARED = Path("/dev/shm")


def library() -> Path | None:
    """The path of the library libfaketime; None if it is not installed."""
    return next((path for path in LIBRARIES if path.exists()), None)


def remove_faketime_memory(pid: int) -> None:
    """Remove the shared memory and semaphore that libfaketime leaves behind when a process is killed."""
    for name in (f"faketime_shm_{pid}", f"sem.faketime_sem_{pid}"):
        with suppress(OSError):
            (_SHARED / name).unlink(missing_ok=True)


def record_faked_pid(folder: Path, pid: int) -> None:
    """Record which process uses libfaketime, so that a later run can remove its shared memory if the harness is killed."""
    with (folder / _FAKED).open("a") as file:
        file.write(f"{pid}\n")


def remove_all_faketime_memory(folder: Path) -> None:
    """Remove libfaketime's shared memory of all ended processes that are recorded in the folder of a run."""
    for file in folder.glob(f"*/{_FAKED}"):
        for pid in map(int, file.read_text().split()):
            if state_of(pid) in ("", "Z"):  # else the pid is in use again; an orphan may still be a zombie
                remove_faketime_memory(pid)


class FakeClock:
    """The wall clock of one broker over all its processes. `file` holds the offset that libfaketime reads."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._condition = ClockCondition()
        self._since_ns = time.monotonic_ns()
        self._drifting: asyncio.Task[None] | None = None
        self._write_offset()

    def environment(self, library: Path) -> dict[str, str]:
        """The environment variables that fake the clock of a broker's process; `library` is libfaketime's path there."""
        return {
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }

    def set(self, condition: ClockCondition, notes: Callable[[], list[NoteLine]]) -> Probe:
        """Set how wrong the broker's clock is; the probe measures it from the times that the broker reports next."""
        if self._drifting is not None:
            self._drifting.cancel()
            self._drifting = None
        self._condition = condition
        self._since_ns = time.monotonic_ns()
        if condition.drift_ppm:
            self._drifting = asyncio.get_running_loop().create_task(self._drift())
        self._write_offset()
        set_ns = time.monotonic_ns()
        ahead_ns = time.time_ns() - set_ns

        async def probe() -> Proof:
            off_ns = None
            began_s = time.monotonic()
            read = len(notes())
            while time.monotonic() - began_s < (HEALED_S_MAX if condition == RIGHT else NOTED_S_MAX):
                lines = notes()
                for line in lines[read:]:
                    if line.time_ns < set_ns:
                        continue  # read late, written before
                    off_ns = line.wall_ns - line.time_ns - ahead_ns
                    if _is_near(off_ns, condition, line.time_ns - set_ns):
                        return Proof(True, f"its wall clock is off by {off_ns / _NS_PER_MS:.1f} ms")
                read = len(lines)
                await asyncio.sleep(LOOK_S)
            if off_ns is None:
                return Proof(None, "the node wrote no note")
            return Proof(
                False,
                f"its wall clock is off by {off_ns / _NS_PER_MS:.1f} ms, "
                f"where {condition.offset_ms} ms and {condition.drift_ppm} ppm were set",
            )

        return probe

    def close(self) -> None:
        """Stop the clock's drift. May be called after the asyncio loop was closed."""
        if self._drifting is not None:
            self._drifting.cancel()

    async def _drift(self) -> None:
        while True:
            await asyncio.sleep(STEP_S)
            self._write_offset()

    def _write_offset(self) -> None:
        """Write the offset for libfaketime to a new file and rename it: the library may read it at any moment."""
        offset_ns = _error_set_ns(self._condition, time.monotonic_ns() - self._since_ns)
        aside = self._file.with_suffix(".new")
        aside.write_text(f"{offset_ns / 1e9:+.6f}\n")
        aside.replace(self._file)


def _error_set_ns(condition: ClockCondition, since_ns: int) -> int:
    return condition.offset_ms * _NS_PER_MS + condition.drift_ppm * since_ns // 1_000_000


def _is_near(off_ns: int, condition: ClockCondition, since_ns: int) -> bool:
    """Whether a measured error fits the condition, as it is now or was when the file was last written.

    An error within the measuring tolerance VISIBLE_NS does not count as one.
    """
    if condition == RIGHT:
        return abs(off_ns) < NEAR_NS
    wrongs = [_error_set_ns(condition, since) for since in (max(0, since_ns - LATE_NS), since_ns)]
    near_ns = min(NEAR_NS, max(map(abs, wrongs)) // 2)
    return abs(off_ns) > 2 * VISIBLE_NS and min(wrongs) - near_ns < off_ns < max(wrongs) + near_ns
