"""What is known to be durable of the files of a broker, kept beside them so that losing power can be played on real disks.

The page cache outlives a killed process, so that what was written and never synced is found again. The ledger says what a device
would have had for certain: for each segment the length at its last fsync, what was cut off since (with the bytes: a truncation
that was not synced may be undone), and which folders were renamed since their directory was synced. It is a file of JSON lines
outside of the log directories, each written with one write, and a second one with the bytes that were cut off; both outlive the
process as the page cache does. `server.lab.power` reads it. A node that was not asked to keeps none.

Files are named by the number of their directory and their path below it, so that the reader may see them under other roots.
"""

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import Struct


class Made(Struct, frozen=True, tag=True):
    """A segment of this name was made, empty and durable; what was said of an earlier one is of no account."""

    dir: int
    file: str


class Synced(Struct, frozen=True, tag=True):
    """fsync of a segment came back: the first `length` bytes of what it held after `cuts` truncations are durable."""

    dir: int
    file: str
    length: int
    cuts: int


class Cut(Struct, frozen=True, tag=True):
    """A segment was truncated to `length`; the `size` bytes behind it stand in the second file, from `at` on."""

    dir: int
    file: str
    length: int
    at: int
    size: int


class Renamed(Struct, frozen=True, tag=True):
    """A folder has another name, which is not durable yet."""

    dir: int
    before: str
    after: str


class Settled(Struct, frozen=True, tag=True):
    """fsync of a log directory came back: the names in it are durable."""

    dir: int


Entry = Made | Synced | Cut | Renamed | Settled

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Entry).decode


def bytes_file(ledger: Path) -> Path:
    """Where the bytes that were cut off stand."""
    return ledger.with_name(f"{ledger.name}.cut")


class FlushLedger:
    """Keeps it. Entries may come from several threads; each is one write to a file opened for appending."""

    def __init__(self, path: Path) -> None:
        self._cuts: dict[tuple[int, str], int] = {}
        for entry in read_ledger(path):
            if isinstance(entry, Made):
                self._cuts[entry.dir, entry.file] = 0
            elif isinstance(entry, Cut):
                self._count(entry.dir, entry.file)
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._bytes = os.open(bytes_file(path), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def made(self, dir_: int, file: str) -> None:
        """A segment was made, and is durable with its name."""
        self._cuts[dir_, file] = 0
        self._write(Made(dir_, file))

    def synced(self, dir_: int, file: str, *, length: int, cuts: int) -> None:
        """So much is durable."""
        self._write(Synced(dir_, file, length, cuts))

    def cut(self, dir_: int, file: str, *, length: int, lost: Callable[[], bytes]) -> None:
        """A segment is about to be truncated; belongs to one thread."""
        at = os.lseek(self._bytes, 0, os.SEEK_END)
        data = lost()
        os.write(self._bytes, data)
        self._count(dir_, file)
        self._write(Cut(dir_, file, length, at, len(data)))

    def renamed(self, dir_: int, before: str, after: str) -> None:
        """A folder was renamed."""
        self._write(Renamed(dir_, before, after))

    def settled(self, dir_: int) -> None:
        """The names in a log directory are durable."""
        self._write(Settled(dir_))

    def cuts_of(self, dir_: int, file: str) -> int:
        """How often this segment was truncated since it was made, in all lives."""
        return self._cuts.get((dir_, file), 0)

    def close(self) -> None:
        """Give the files back."""
        os.close(self._fd)
        os.close(self._bytes)

    def _count(self, dir_: int, file: str) -> None:
        self._cuts[dir_, file] = self._cuts.get((dir_, file), 0) + 1

    def _write(self, entry: Entry) -> None:
        os.write(self._fd, _encode(entry) + b"\n")


def read_ledger(path: Path) -> list[Entry]:
    """All whole entries, in order; none where there is no file."""
    try:
        whole, _, _ = path.read_bytes().rpartition(b"\n")
    except FileNotFoundError:
        return []
    return [_decode(line) for line in whole.splitlines()]
