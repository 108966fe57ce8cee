"""Peak memory of this process."""

import resource
import sys
from pathlib import Path

_STATUS = Path("/proc/self/status")


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
