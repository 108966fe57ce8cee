"""Log directories that fail on demand of the harness: every access (EIO), what needs room (ENOSPC), or flushes that take long.

What is refused or delayed is counted: the harness has to show that its fault acted. A node that nobody harms asks here too, and
pays an empty look.
"""

import errno
import os
import threading

from msgspec import Struct


class DirFault(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a directory is: `broken` refuses everything, `full` what needs room; a flush takes `flush_ms` longer."""

    broken: bool = False
    full: bool = False
    flush_ms: int = 0


SOUND = DirFault()


class Counts(Struct, kw_only=True):
    """What came of the faults of one directory since the process began."""

    refused: int = 0
    delayed: int = 0


class DirFaults:
    """Of all directories of a node. Set by the loop's thread, asked by those that flush too."""

    def __init__(self, dirs: int) -> None:
        self._faults = [SOUND] * dirs
        self.counts = [Counts() for _ in range(dirs)]

    def set(self, dir_: int, fault: DirFault) -> None:
        """It is so from now on. IndexError where there is no such directory."""
        if dir_ < 0:
            raise IndexError(dir_)
        self._faults[dir_] = fault

    def meet(self, dir_: int, *, needs_room: bool) -> None:
        """OSError where an access to this directory is refused now."""
        fault = self._faults[dir_]
        if fault is SOUND:
            return
        if fault.broken or (fault.full and needs_room):
            self.counts[dir_].refused += 1
            number = errno.EIO if fault.broken else errno.ENOSPC
            raise OSError(number, os.strerror(number))

    def wait(self, dir_: int) -> None:
        """Where flushes take long now: so long, in the thread that flushes."""
        fault = self._faults[dir_]
        if fault.flush_ms:
            self.counts[dir_].delayed += 1
            # Not time.sleep: under a libfaketime that leaves the monotonic clock alone it fails with EINVAL (clock_nanosleep).
            threading.Event().wait(fault.flush_ms / 1000)
