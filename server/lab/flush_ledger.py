"""A record of which bytes of a broker's files are durable, so that `server.lab.power` can simulate a power loss on real disks.

The page cache survives a killed process, so unsynced writes survive it too. The ledger records what a power loss would leave for
certain: the length of each segment at its last fsync, the truncations since (with the bytes cut off, because an unsynced
truncation may be undone), and the folders renamed since their directory was synced. It is a file of JSON lines outside the log
directories, one write per line, and a second file with the bytes that were cut off. Both survive a killed process. A node keeps a
ledger only if its settings name one.

A file is named by the number of its directory and its path below it, so that the reader may mount the directories elsewhere.
"""

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import Struct


class Made(Struct, frozen=True, tag=True):
    """Flush ledger entry: a log segment was created, empty and durable; earlier entries of this name are void."""

    dir: int
    file: str


class Synced(Struct, frozen=True, tag=True):
    """Flush ledger entry: fsync of a segment returned: its first `length` bytes, after `cuts` truncations, are durable."""

    dir: int
    file: str
    length: int
    cuts: int


class Cut(Struct, frozen=True, tag=True):
    """Flush ledger entry: a segment was truncated to `length`; the bytes behind that are in the second file, from `at`."""

    dir: int
    file: str
    length: int
    at: int
    size: int


class Renamed(Struct, frozen=True, tag=True):
    """Flush ledger entry: a replica's folder was renamed; the new name is not durable yet."""

    dir: int
    before: str
    after: str


class Settled(Struct, frozen=True, tag=True):
    """Flush ledger entry: fsync of a log directory returned: the names in it are durable."""

    dir: int


Entry = Made | Synced | Cut | Renamed | Settled

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Entry).decode


def bytes_file(ledger: Path) -> Path:
    """The path of the flush ledger's second file, which keeps the bytes that truncations cut off."""
    return ledger.with_name(f"{ledger.name}.cut")


class FlushLedger:
    """Records up to which byte each file of one broker is flushed, so that a power loss can drop the rest.

    Thread-safe but for `cut`: each entry is one write to an append-only file.
    """

    def __init__(self, path: Path) -> None:
        self._cuts: dict[tuple[int, str], int] = {}
        for entry in read_ledger(path):
            if isinstance(entry, Made):
                self._cuts[entry.dir, entry.file] = 0
            elif isinstance(entry, Cut):
                self._count(entry.dir, entry.file)
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._bytes = os.open(bytes_file(path), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def created(self, dir_: int, file: str) -> None:
        """A log segment was created; the empty file and its name are durable."""
        self._cuts[dir_, file] = 0
        self._write(Made(dir_, file))

    def synced(self, dir_: int, file: str, *, length: int, cuts: int) -> None:
        """fsync of a segment returned: its first `length` bytes, as they were after `cuts` truncations, are durable."""
        self._write(Synced(dir_, file, length, cuts))

    def cut(self, dir_: int, file: str, *, length: int, lost: Callable[[], bytes]) -> None:
        """A log segment is about to be truncated; `lost` returns the bytes behind `length`. Call on one thread only."""
        at = os.lseek(self._bytes, 0, os.SEEK_END)
        data = lost()
        os.write(self._bytes, data)
        self._count(dir_, file)
        self._write(Cut(dir_, file, length, at, len(data)))

    def renamed(self, dir_: int, before: str, after: str) -> None:
        """A replica's folder was renamed; the new name is not durable yet."""
        self._write(Renamed(dir_, before, after))

    def settled(self, dir_: int) -> None:
        """fsync of a log directory returned: the names of the folders in it are durable."""
        self._write(Settled(dir_))

    def cuts_of(self, dir_: int, file: str) -> int:
        """How often this segment was truncated since it was created, over all processes of the node."""
        return self._cuts.get((dir_, file), 0)

    def close(self) -> None:
        """Close both files of the flush ledger."""
        os.close(self._fd)
        os.close(self._bytes)

    def _count(self, dir_: int, file: str) -> None:
        self._cuts[dir_, file] = self._cuts.get((dir_, file), 0) + 1

    def _write(self, entry: Entry) -> None:
        os.write(self._fd, _encode(entry) + b"\n")


def read_ledger(path: Path) -> list[Entry]:
    """All complete entries of a flush ledger, in order; none if there is no file. An incomplete last line is skipped."""
    try:
        whole, _, _ = path.read_bytes().rpartition(b"\n")
    except FileNotFoundError:
        return []
    return [_decode(line) for line in whole.splitlines()]
