"""Memory of this process and of this machine."""

import os
import resource
import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")
_MACHINE = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")


def peak_mib() -> int:
    """The peak resident memory of this process so far, in MiB.

    On Linux it is VmHWM of /proc/self/status, because a child inherits the peak of `getrusage` from its parent.
    """
    if _STATUS.exists():
        line = next((line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM:")), None)
        if line is not None:
            return int(line.split()[1]) >> 10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak >> 20 if sys.platform == "darwin" else peak >> 10


def available_bytes() -> int:
    """Memory that this process may still take: what the machine has free, or less if its control group allows less.

    Where the system does not say what is free, half of the memory that is built in.
    """
    if not _MACHINE.exists():
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    free = next(int(line.split()[1]) << 10 for line in _MACHINE.read_text().splitlines() if line.startswith("MemAvailable:"))
    limit, used = _CGROUP / "memory.max", _CGROUP / "memory.current"
    if limit.exists() and limit.read_text().strip() != "max":
        return min(free, int(limit.read_text()) - int(used.read_text()))
    return free
