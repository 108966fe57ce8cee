"""Log directories as real files: what Append, Truncate, Flush and WriteCheckpoint mean on a file system.

A directory holds a folder for each replica, named like its partition, with two files: `log`, frames of a 4-byte length, a 4-byte
CRC32 of the body, and the body, a batch in msgpack; and `partition.metadata`, which says which log this is. Beside the folders
stands the high watermark checkpoint, which is only ever replaced as a whole (written aside, synced, renamed, folder synced).

Writes reach the page cache at once. `flush_job` gives what makes them durable, for another thread. `recover` cuts each log at
its first frame that is short or fails its CRC, as Kafka's LogSegment.recover does, and shows the rest. Every failure of the
file system is an OSError: the caller tells the machine that the directory failed.
"""

import os
import shutil
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from reference.events import DirImage, LogImage
from reference.messages import Batch
from reference.types import NO_INCARNATION, NO_TOPIC_ID, Incarnation, Offset, TopicId, TopicPartition

CHECKPOINT = "replication-offset-checkpoint"
CLEAN = ".kafka_cleanshutdown"
_LOG = "log"
_METADATA = "partition.metadata"
_MARK = "meta.properties"
_ASIDE = ".creating"
_HEADER_BYTES = 8

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Batch).decode
_decode_checkpoint = msgspec.json.Decoder(tuple[tuple[TopicPartition, int], ...]).decode


class _Metadata(msgspec.Struct, frozen=True):
    """Which log this is."""

    born: Incarnation
    topic_id: TopicId = NO_TOPIC_ID


class _DirMark(msgspec.Struct, frozen=True):
    """Which directory this is, and among how many."""

    born: Incarnation
    dirs: int


_decode_metadata = msgspec.json.Decoder(_Metadata).decode
_decode_mark = msgspec.json.Decoder(_DirMark).decode


def frame(batch: Batch) -> bytes:
    """A batch as it stands in the file."""
    body = _encode(batch)
    return len(body).to_bytes(4, "big") + zlib.crc32(body).to_bytes(4, "big") + body


def read_frames(data: bytes) -> tuple[list[tuple[int, Batch]], int]:
    """The batches of a log with their positions, up to the first frame that is not whole; and the length of what is whole."""
    batches: list[tuple[int, Batch]] = []
    at = 0
    while at + _HEADER_BYTES <= len(data):
        end = at + _HEADER_BYTES + int.from_bytes(data[at : at + 4], "big")
        body = data[at + _HEADER_BYTES : end]
        if end > len(data) or zlib.crc32(body) != int.from_bytes(data[at + 4 : at + 8], "big"):
            break
        try:
            batches.append((at, _decode(body)))
        except msgspec.MsgspecError:  # a run of zero bytes is a whole frame by its CRC, and no batch
            break
        at = end
    return batches, at


class _LogFile:
    """One open log: where each batch begins."""

    def __init__(self, path: Path) -> None:
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self.starts: list[tuple[Offset, int]] = []  # (base offset, position), ascending
        self.length = 0

    def append(self, batches: Sequence[Batch]) -> None:
        frames = [frame(batch) for batch in batches]
        data = b"".join(frames)
        written = os.write(self.fd, data)
        if written != len(data):
            os.ftruncate(self.fd, self.length)
            raise OSError(f"short write: {written} of {len(data)} bytes")
        for batch, piece in zip(batches, frames, strict=True):
            self.starts.append((batch.base_offset, self.length))
            self.length += len(piece)

    def truncate(self, to: Offset) -> None:
        keep = len(self.starts)
        while keep and self.starts[keep - 1][0] >= to:
            keep -= 1
        if keep < len(self.starts):
            self.length = self.starts[keep][1]
            os.ftruncate(self.fd, self.length)
            del self.starts[keep:]


class Disk:
    """The log directories of one broker; directory i of the effects is the i-th path. One life of a process has one Disk."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = tuple(paths)
        self._logs: dict[tuple[int, TopicPartition], _LogFile] = {}
        self._dirty: dict[int, dict[TopicPartition, None]] = {}  # logs with writes that no flush has taken yet, in order
        self._renamed: set[int] = set()  # directories in which a replica came or went since their last flush

    def recover(self) -> tuple[DirImage, ...]:
        """What the directories hold, with torn ends cut off; missing directories are made. Called once, first."""
        return tuple(self._recover_dir(dir_, path) for dir_, path in enumerate(self._paths))

    def _recover_dir(self, dir_: int, path: Path) -> DirImage:
        try:
            path.mkdir(parents=True, exist_ok=True)
            for unfinished in path.glob(f"*{_ASIDE}"):
                shutil.rmtree(unfinished)
            folders = sorted(p for p in path.iterdir() if p.is_dir())
            logs = tuple(self._recover_log(dir_, TopicPartition(folder.name), folder) for folder in folders)
            checkpoint = path / CHECKPOINT
            entries = _decode_checkpoint(checkpoint.read_bytes()) if checkpoint.exists() else ()
            mark = path / _MARK
            found = _decode_mark(mark.read_bytes()) if mark.exists() else _DirMark(NO_INCARNATION, 0)
            clean = (path / CLEAN).exists()
            return DirImage(dir_, True, logs, entries, found.born, found.dirs, clean)
        except (OSError, msgspec.MsgspecError):
            return DirImage(dir_, readable=False)

    def _recover_log(self, dir_: int, tp: TopicPartition, folder: Path) -> LogImage:
        log = _LogFile(folder / _LOG)
        self._logs[dir_, tp] = log
        data = (folder / _LOG).read_bytes()
        batches, log.length = read_frames(data)
        log.starts = [(batch.base_offset, position) for position, batch in batches]
        if log.length < len(data):
            os.ftruncate(log.fd, log.length)
        # What a crash left in the page cache is not durable yet, so the first flush of this life covers it too.
        self._dirty.setdefault(dir_, {})[tp] = None
        metadata = _decode_metadata((folder / _METADATA).read_bytes())
        return LogImage(tp, tuple(batch for _, batch in batches), metadata.born, metadata.topic_id)

    def create(self, dir_: int, tp: TopicPartition, born: Incarnation, topic_id: TopicId = NO_TOPIC_ID) -> None:
        """An empty log with its metadata, durable when this returns: made aside and renamed."""
        aside = self._paths[dir_] / f"{tp}{_ASIDE}"
        aside.mkdir()
        for name, content in ((_METADATA, msgspec.json.encode(_Metadata(born, topic_id))), (_LOG, b"")):
            _write_durably(aside / name, content)
        _sync_folder(aside)
        folder = aside.rename(self._paths[dir_] / tp)
        _sync_folder(self._paths[dir_])
        self._logs[dir_, tp] = _LogFile(folder / _LOG)

    def mark(self, dir_: int, born: Incarnation, dirs: int) -> None:
        """Note, durably, since when this directory is in use, and among how many."""
        self._replace(dir_, _MARK, msgspec.json.encode(_DirMark(born, dirs)))

    def replicas_in(self, dir_: int) -> tuple[TopicPartition, ...]:
        """Whose logs a directory holds."""
        return tuple(tp for where, tp in self._logs if where == dir_)

    def mark_clean(self, dir_: int, *, clean: bool) -> None:
        """Set or remove the clean-shutdown marker, durably."""
        if clean:
            _write_durably(self._paths[dir_] / CLEAN, b"")
        else:
            (self._paths[dir_] / CLEAN).unlink(missing_ok=True)
        _sync_folder(self._paths[dir_])

    def delete(self, dir_: int, tp: TopicPartition) -> None:
        """Remove a log."""
        os.close(self._logs.pop((dir_, tp)).fd)
        self._dirty.get(dir_, {}).pop(tp, None)
        self._renamed.add(dir_)
        shutil.rmtree(self._paths[dir_] / tp)

    def append(self, dir_: int, tp: TopicPartition, batches: Sequence[Batch]) -> None:
        """Write at the end; in the page cache when this returns."""
        self._logs[dir_, tp].append(batches)
        self._dirty.setdefault(dir_, {})[tp] = None

    def truncate(self, dir_: int, tp: TopicPartition, to: Offset) -> None:
        """Cut off every batch that begins at `to` or above."""
        self._logs[dir_, tp].truncate(to)
        self._dirty.setdefault(dir_, {})[tp] = None

    def flush_job(self, dir_: int) -> Callable[[], None]:
        """What makes durable all that was written to the directory so far: fsync, to be run once, on any thread."""
        dirty = self._dirty.pop(dir_, {})
        # Duplicates: the job may outlive a log that is deleted meanwhile.
        fds = [os.dup(self._logs[dir_, tp].fd) for tp in dirty]
        renamed = dir_ in self._renamed
        self._renamed.discard(dir_)
        folders = [*(self._paths[dir_] / tp for tp in dirty), self._paths[dir_]] if renamed else []

        def job() -> None:
            try:
                for fd in fds:
                    os.fsync(fd)
                for folder in folders:
                    _sync_folder(folder)
            finally:
                for fd in fds:
                    os.close(fd)

        return job

    def write_checkpoint(self, dir_: int, entries: tuple[tuple[TopicPartition, Offset], ...]) -> None:
        """Replace the checkpoint, atomically and durably."""
        self._replace(dir_, CHECKPOINT, msgspec.json.encode(entries))

    def _replace(self, dir_: int, name: str, content: bytes) -> None:
        path = self._paths[dir_] / name
        aside = path.with_suffix(".tmp")
        _write_durably(aside, content)
        aside.rename(path)
        _sync_folder(path.parent)

    def close(self) -> None:
        """Give the files back."""
        for log in self._logs.values():
            os.close(log.fd)
        self._logs.clear()


def _write_durably(path: Path, content: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        os.write(fd, content)
        os.fsync(fd)
    finally:
        os.close(fd)


def _sync_folder(path: Path) -> None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return  # deleted since
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
