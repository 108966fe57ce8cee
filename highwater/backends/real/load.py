"""How much other work slows this machine, by what the threads of this process waited for a core.

Real time is the clock of real runs: on a machine that has no core to give, a broker answers late without a mistake. The kernel
counts for each thread how long it ran and how long it was ready to run and had to wait (`/proc/PID/task/TID/schedstat`). The
harness's threads work as long as the run lasts, so they show what brokers on the same machine suffer.
"""

from contextlib import suppress
from pathlib import Path
from typing import Self

from msgspec import Struct

_NS_MIN = 10_000_000  # of CPU time; less says nothing


class CpuTime(Struct, frozen=True):
    """How long each living thread of this process has run and has waited for a core, ns; empty where the kernel does not say."""

    threads: dict[str, tuple[int, int]]

    @classmethod
    def now(cls, tasks: Path = Path("/proc/self/task")) -> Self:
        """Read the kernel's counters."""
        times = {}
        for thread in tasks.glob("*/schedstat"):
            with suppress(OSError, ValueError):  # the thread has just ended
                ran, waited, _ = map(int, thread.read_text().split())
                times[thread.parent.name] = (ran, waited)
        return cls(times)

    def slowed_since(self, before: Self) -> float | None:
        """How many times its CPU time the work since then took; 1.0 on a machine that has a core for each thread."""
        ran = waited = 0
        for name, (now_ran, now_waited) in self.threads.items():
            then_ran, then_waited = before.threads.get(name, (0, 0))
            ran += now_ran - then_ran
            waited += now_waited - then_waited
        return round((ran + waited) / ran, 1) if ran >= _NS_MIN else None
