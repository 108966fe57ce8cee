"""Makes log directories fail for the harness: EIO on every access, ENOSPC on writes, or slow flushes.

Refused accesses and delayed flushes are counted, because the harness must show that its fault acted.
"""

import errno
import os
import threading

from msgspec import Struct


class DirFault(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The fault of one directory: `broken` fails every access, `full` fails writes, `flush_ms` is added to each flush."""

    broken: bool = False
    full: bool = False
    flush_ms: int = 0


SOUND = DirFault()


class Counts(Struct, kw_only=True):
    """How many accesses were refused and flushes delayed in one log directory since the process began."""

    refused: int = 0
    delayed: int = 0


class DirFaults:
    """The faults of all log directories of a node. The loop's thread sets them; the flushing threads read them too."""

    def __init__(self, dirs: int) -> None:
        self._faults = [SOUND] * dirs
        self.counts = [Counts() for _ in range(dirs)]

    def set(self, dir_: int, fault: DirFault) -> None:
        """Replace the fault of a log directory. IndexError if there is no directory of this number."""
        if dir_ < 0:
            raise IndexError(dir_)
        self._faults[dir_] = fault

    def meet(self, dir_: int, *, needs_room: bool) -> None:
        """OSError if a fault makes this access to a log directory fail; `needs_room` says that the access writes."""
        fault = self._faults[dir_]
        if fault is SOUND:
            return
        if fault.broken or (fault.full and needs_room):
            self.counts[dir_].refused += 1
            number = errno.EIO if fault.broken else errno.ENOSPC
            raise OSError(number, os.strerror(number))

    def wait(self, dir_: int) -> None:
        """Block the flushing thread for the `flush_ms` that the directory's fault adds, if one is set."""
        fault = self._faults[dir_]
        if fault.flush_ms:
            self.counts[dir_].delayed += 1
            # Not time.sleep: with a libfaketime that does not fake the monotonic clock, clock_nanosleep fails with EINVAL.
            threading.Event().wait(fault.flush_ms / 1000)
