"""A wrong wall clock for one process, by libfaketime: an offset in a file that the library reads whenever the time is asked for.

The monotonic clock stays right. libfaketime could falsify it, but then waits with a timeout end at the wrong moment or never
(sem_clockwait is the kernel's), and Python's threads hang. So a drift is an offset of the wall clock that grows, step by step;
and what a node says of itself carries both its clocks, so that how wrong one is can be measured from outside.
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
STEP_S = 0.02  # of a drift
LOOK_S = 0.02
NOTED_S_MAX = 3.0  # a node says something within this time, if it is alive
HEALED_S_MAX = 20.0  # or is started again
STALE_NS = 2_100_000_000  # libfaketime reads its file again when its cache is a second old, by whole seconds
NEAR_NS = 15_000_000  # between what was set and what a note shows: a step of a fast drift, a thread that had to wait
VISIBLE_NS = 200_000  # what two readings of clocks right after each other may differ by
_NS_PER_MS = 1_000_000
_FAKED = "faked-pids"
_SHARED = Path("/dev/shm")


def library() -> Path | None:
    """libfaketime, where it is installed."""
    return next((path for path in LIBRARIES if path.exists()), None)


def remove_faketime_memory(pid: int) -> None:
    """Remove what libfaketime leaves behind of a process that was killed."""
    for name in (f"faketime_shm_{pid}", f"sem.faketime_sem_{pid}"):
        with suppress(OSError):
            (_SHARED / name).unlink(missing_ok=True)


def record_faked_pid(folder: Path, pid: int) -> None:
    """Write down, in the folder of a node, that this process of it has a wrong clock: a killed harness cannot `forget` it."""
    with (folder / _FAKED).open("a") as file:
        file.write(f"{pid}\n")


def remove_all_faketime_memory(folder: Path) -> None:
    """Of all nodes of a run whose harness is gone, once their processes are gone too."""
    for file in folder.glob(f"*/{_FAKED}"):
        for pid in map(int, file.read_text().split()):
            if state_of(pid) in ("", "Z"):  # the number may have been given again; an orphan may wait to be reaped
                remove_faketime_memory(pid)


class FakeClock:
    """The wall clock of one node, in all its lives."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._condition = ClockCondition()
        self._since_ns = time.monotonic_ns()
        self._drifting: asyncio.Task[None] | None = None
        self._write()

    def environment(self, library: Path) -> dict[str, str]:
        """What a process of this node is started with; where it finds libfaketime."""
        return {
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }

    def set(self, condition: ClockCondition, notes: Callable[[], list[NoteLine]]) -> Probe:
        """It is so wrong from now on; how to measure that it is."""
        if self._drifting is not None:
            self._drifting.cancel()
            self._drifting = None
        self._condition = condition
        self._since_ns = time.monotonic_ns()
        if condition.drift_ppm:
            self._drifting = asyncio.get_running_loop().create_task(self._drift())
        self._write()
        set_ns = time.monotonic_ns()
        ahead_ns = time.time_ns() - set_ns

        async def probe() -> Proof:
            off_ns, after_ns = None, 0
            began_s = time.monotonic()
            read = len(notes())
            while time.monotonic() - began_s < (HEALED_S_MAX if condition == RIGHT else NOTED_S_MAX):
                lines = notes()
                for line in lines[read:]:
                    off_ns, after_ns = line.wall_ns - line.time_ns - ahead_ns, line.time_ns - set_ns
                    if _is_near(off_ns, condition, after_ns):
                        return Proof(True, f"its wall clock is off by {off_ns / _NS_PER_MS:.1f} ms")
                read = len(lines)
                await asyncio.sleep(LOOK_S)
            if off_ns is None:
                return Proof(None, "it said nothing")
            found = f"its wall clock is off by {off_ns / _NS_PER_MS:.1f} ms"
            if after_ns < STALE_NS:
                # Then it was killed, or stood still, before it had to ask again.
                return Proof(None, f"{found}, as it may still be, and it said nothing more")
            return Proof(False, f"{found}, where {condition.offset_ms} ms and {condition.drift_ppm} ppm were set")

        return probe

    def close(self) -> None:
        """No step any more. May be called outside of the loop, when it is closed."""
        if self._drifting is not None:
            self._drifting.cancel()

    async def _drift(self) -> None:
        while True:
            await asyncio.sleep(STEP_S)
            self._write()

    def _write(self) -> None:
        """A relative time, replaced as a whole: the library may read at any moment."""
        offset_ns = _wanted_ns(self._condition, time.monotonic_ns() - self._since_ns)
        aside = self._file.with_suffix(".new")
        aside.write_text(f"{offset_ns / 1e9:+.6f}\n")
        aside.replace(self._file)


def _wanted_ns(condition: ClockCondition, since_ns: int) -> int:
    return condition.offset_ms * _NS_PER_MS + condition.drift_ppm * since_ns // 1_000_000


def _is_near(off_ns: int, condition: ClockCondition, since_ns: int) -> bool:
    """As wrong as it should be, or was when the process last asked, and not merely measured wrongly."""
    if condition == RIGHT:
        return abs(off_ns) < NEAR_NS
    wrongs = [_wanted_ns(condition, since) for since in (max(0, since_ns - STALE_NS), since_ns)]
    near_ns = min(NEAR_NS, max(map(abs, wrongs)) // 2)
    return abs(off_ns) > 2 * VISIBLE_NS and min(wrongs) - near_ns < off_ns < max(wrongs) + near_ns
