"""How much memory this process has held at most."""

import resource
import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")


def peak_mib() -> int:
    """In MiB, of this process so far.

    Linux hands the peak that `getrusage` tells on from a parent to its child, so there the kernel's own page is read.
    """
    if _STATUS.exists():
        line = next((line for line in _STATUS.read_text().splitlines() if line.startswith("VmHWM:")), None)
        if line is not None:
            return int(line.split()[1]) >> 10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak >> 20 if sys.platform == "darwin" else peak >> 10
