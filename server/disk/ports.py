"""Hooks of the disk layer: one observes flushes, one makes accesses fail. Without a harness both do nothing."""

from collections.abc import Callable
from typing import Protocol


class FlushObserver(Protocol):
    """Interface: is told of every change to a broker's files, to know which bytes are durable (`server.lab.flush_ledger`)."""

    def created(self, dir_: int, file: str) -> None:
        """A log segment was created; the empty file and its name are durable."""

    def synced(self, dir_: int, file: str, *, length: int, cuts: int) -> None:
        """fsync of a segment returned: its first `length` bytes, as they were after `cuts` truncations, are durable."""

    def cut(self, dir_: int, file: str, *, length: int, lost: Callable[[], bytes]) -> None:
        """A log segment is about to be truncated to `length` bytes; `lost` returns the bytes behind that."""

    def renamed(self, dir_: int, before: str, after: str) -> None:
        """A replica's folder was renamed; the new name is not durable yet."""

    def settled(self, dir_: int) -> None:
        """fsync of a log directory returned: the names of the folders in it are durable."""

    def cuts_of(self, dir_: int, file: str) -> int:
        """How often this segment was truncated since it was created."""


class DiskHarm(Protocol):
    """Interface: makes accesses to log directories fail and flushes slow, as the harness asks (`server.lab.dir_faults`)."""

    def meet(self, dir_: int, *, needs_room: bool) -> None:
        """OSError if an access to this directory fails now."""

    def wait(self, dir_: int) -> None:
        """Block the flushing thread for as long as flushes of this directory are slowed down."""


class Unwatched:
    """The `FlushObserver` of a broker without a flush ledger; it records nothing."""

    def created(self, dir_: int, file: str) -> None:
        """Return at once: without a flush ledger the creation of a segment is not recorded."""

    def synced(self, dir_: int, file: str, *, length: int, cuts: int) -> None:
        """Return at once: without a flush ledger an fsync is not recorded."""

    def cut(self, dir_: int, file: str, *, length: int, lost: Callable[[], bytes]) -> None:
        """Return at once: without a flush ledger a truncation is not recorded."""

    def renamed(self, dir_: int, before: str, after: str) -> None:
        """Return at once: without a flush ledger a renamed folder is not recorded."""

    def settled(self, dir_: int) -> None:
        """Return at once: without a flush ledger the fsync of a directory is not recorded."""

    def cuts_of(self, dir_: int, file: str) -> int:
        """Return 0: without a flush ledger truncations are not counted."""
        return 0


class Unharmed:
    """The `DiskHarm` of a broker without a harness: no access fails, no flush is delayed."""

    def meet(self, dir_: int, *, needs_room: bool) -> None:
        """Return at once: without a harness no access fails."""

    def wait(self, dir_: int) -> None:
        """Return at once: without a harness no flush is delayed."""
