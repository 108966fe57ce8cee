"""Hooks of the disk layer: an observer of flushes, and faults of log directories. Without a harness both do nothing."""

from collections.abc import Callable
from typing import Protocol


class FlushObserver(Protocol):
    """Gets every change of the files, to know which bytes are durable (`server.lab.flush_ledger`)."""

    def made(self, dir_: int, file: str) -> None:
        """A segment was created; the empty file and its name are durable."""

    def synced(self, dir_: int, file: str, *, length: int, cuts: int) -> None:
        """fsync returned: the first `length` bytes, as they were after `cuts` truncations, are durable."""

    def cut(self, dir_: int, file: str, *, length: int, lost: Callable[[], bytes]) -> None:
        """A segment is about to be truncated to `length` bytes; `lost` returns the bytes behind that."""

    def renamed(self, dir_: int, before: str, after: str) -> None:
        """A replica's folder was renamed; the new name is not durable yet."""

    def settled(self, dir_: int) -> None:
        """fsync of a log directory returned: the names in it are durable."""

    def cuts_of(self, dir_: int, file: str) -> int:
        """How often this segment was truncated since it was created."""


class DiskHarm(Protocol):
    """Makes accesses to log directories fail and flushes slow, as the harness asks (`server.lab.dir_faults`)."""

    def meet(self, dir_: int, *, needs_room: bool) -> None:
        """OSError if an access to this directory fails now."""

    def wait(self, dir_: int) -> None:
        """Block the flushing thread for as long as flushes of this directory are slowed down."""


class Unwatched:
    """The `FlushObserver` of a broker without a flush ledger; it records nothing."""

    def made(self, dir_: int, file: str) -> None:
        """Return at once: without a ledger nothing is recorded."""

    def synced(self, dir_: int, file: str, *, length: int, cuts: int) -> None:
        """Return at once: without a ledger nothing is recorded."""

    def cut(self, dir_: int, file: str, *, length: int, lost: Callable[[], bytes]) -> None:
        """Return at once: without a ledger nothing is recorded."""

    def renamed(self, dir_: int, before: str, after: str) -> None:
        """Return at once: without a ledger nothing is recorded."""

    def settled(self, dir_: int) -> None:
        """Return at once: without a ledger nothing is recorded."""

    def cuts_of(self, dir_: int, file: str) -> int:
        """0: without a ledger truncations are not counted."""
        return 0


class Unharmed:
    """The `DiskHarm` of a broker without a harness: no access fails, no flush is delayed."""

    def meet(self, dir_: int, *, needs_room: bool) -> None:
        """Return at once: without a harness no access fails."""

    def wait(self, dir_: int) -> None:
        """Return at once: without a harness no flush is delayed."""
