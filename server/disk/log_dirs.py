"""Log directories as real files: performs the broker machine's disk effects (append, truncate, flush, checkpoint).

A directory holds a folder for each replica, named like its partition (`server.disk.segments`), and the small files of
`server.disk.checkpoints`. A small file is replaced as a whole: written under another name, synced, renamed, folder synced. A new
replica is created in the same way. A deleted replica is renamed at once. Its files are removed once the new name is durable,
because a power loss that restored the old name must find the files too.

Writes reach the page cache at once; `flush_job` returns a job that makes them durable on another thread. The machine gets only
the headers of batches; `with_records` returns the whole batches to be sent. Every failure of the file system is an OSError;
the caller tells the machine that the directory failed.
"""

import errno
import os
import secrets
import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from reference.events import DirImage, LogImage
from reference.messages import Batch
from reference.types import NO_CREATION, NO_TOPIC_ID, Creation, Incarnation, Offset, TopicId, TopicPartition
from server.disk.checkpoints import (
    DirMark,
    Metadata,
    mark_of,
    mark_text,
    metadata_of,
    metadata_text,
    offsets_of,
    offsets_text,
)
from server.disk.ports import DiskHarm, FlushObserver, Unharmed, Unwatched
from server.disk.segments import ASIDE, DELETED, SegmentedLog, headers_in, segment_name, sync_folder
from server.wire.records import batch_of

CHECKPOINT = "replication-offset-checkpoint"
CLEAN = ".kafka_cleanshutdown"
SEGMENT_BYTES = 1 << 30  # log.segment.bytes
_METADATA = "partition.metadata"
_NAME_MAX = 255  # bytes, on any file system
_MARK = "meta.properties"


class Disk:
    """The log directories of one broker; directory i of the effects is paths[i]. A process creates one Disk."""

    def __init__(
        self,
        paths: Sequence[Path],
        *,
        segment_bytes: int = SEGMENT_BYTES,
        ledger: FlushObserver | None = None,
        faults: DiskHarm | None = None,
    ) -> None:
        self._paths = tuple(paths)
        self._segment_bytes = segment_bytes
        self._ledger: FlushObserver = Unwatched() if ledger is None else ledger
        self._faults: DiskHarm = Unharmed() if faults is None else faults
        self._logs: dict[tuple[int, TopicPartition], SegmentedLog] = {}
        self._dirty: dict[int, dict[TopicPartition, None]] = {}  # logs with writes that no flush job covers yet, in order
        self._deleted: dict[int, list[Path]] = {}  # renamed folders that no sweep job covers yet
        self._renames: dict[int, int] = {}  # number of renames so far, by directory
        self._settled: dict[int, int] = {}  # how many of them are durable, by directory

    # --- recovery ------------------------------------------------------------------------------------------------------------

    def recover(self) -> tuple[DirImage, ...]:
        """Read all log directories, cut off torn ends of logs, create missing directories. Call once, before all else."""
        return tuple(self._recover_dir(dir_, path) for dir_, path in enumerate(self._paths))

    def _recover_dir(self, dir_: int, path: Path) -> DirImage:
        """Finish interrupted deletions and read the logs of a directory; an unreadable image if the disk refuses."""

        def batches(folder: Path, trusted: bool) -> tuple[Batch, ...]:
            tp = TopicPartition(folder.name)
            log = self._logs[dir_, tp] = self._log(dir_, folder)
            self._dirty.setdefault(dir_, {})[tp] = None
            return tuple(log.recover(trusted=trusted))

        try:
            self._faults.meet(dir_, needs_room=False)
            path.mkdir(parents=True, exist_ok=True)
            for leftover in (*path.glob(f"*{ASIDE}"), *path.glob(f"*{DELETED}")):
                shutil.rmtree(leftover)
            self._settle(dir_)
        except OSError:
            return DirImage(dir_, readable=False)
        return _image_of_dir(dir_, path, batches)

    def _log(self, dir_: int, folder: Path) -> SegmentedLog:
        return SegmentedLog(folder, dir_, segment_bytes=self._segment_bytes, ledger=self._ledger)

    # --- effects -------------------------------------------------------------------------------------------------------------

    def create(
        self,
        dir_: int,
        tp: TopicPartition,
        born: Incarnation,
        topic_id: TopicId = NO_TOPIC_ID,
        *,
        created: Creation = NO_CREATION,
    ) -> None:
        """Create an empty log with its metadata; durable on return."""
        self._faults.meet(dir_, needs_room=True)
        path = self._paths[dir_]
        aside = path / _beside(tp, ASIDE)
        aside.mkdir()
        _write_durably(aside / _METADATA, metadata_text(Metadata(born, topic_id, created)))
        _write_durably(aside / segment_name(0), "")
        sync_folder(aside)
        # before the rename: the name may be that of an earlier, deleted replica
        self._ledger.created(dir_, f"{tp}/{segment_name(0)}")
        folder = aside.rename(path / tp)
        self._settle(dir_)
        log = self._logs[dir_, tp] = self._log(dir_, folder)
        assert not tuple(log.recover(trusted=True))

    def mark(self, dir_: int, born: Incarnation, dirs: int) -> None:
        """Write meta.properties into a log directory: its incarnation and the number of directories; durable on return."""
        self._replace_file(dir_, _MARK, mark_text(DirMark(born, dirs)))

    def replicas_in(self, dir_: int) -> tuple[TopicPartition, ...]:
        """The replicas whose logs are in a directory."""
        return tuple(tp for where, tp in self._logs if where == dir_)

    def mark_clean(self, dir_: int, *, clean: bool) -> None:
        """Create or remove the clean-shutdown marker of a log directory; durable on return."""
        self._faults.meet(dir_, needs_room=clean)
        if clean:
            _write_durably(self._paths[dir_] / CLEAN, "")
        else:
            (self._paths[dir_] / CLEAN).unlink(missing_ok=True)
        sync_folder(self._paths[dir_])

    def delete(self, dir_: int, tp: TopicPartition) -> None:
        """Delete a replica's log: rename its folder now; the next sweep removes the files."""
        self._faults.meet(dir_, needs_room=False)
        path = self._paths[dir_]
        doomed = path / _beside(tp, f".{secrets.token_hex(16)}{DELETED}")
        (path / tp).rename(doomed)
        self._ledger.renamed(dir_, tp, doomed.name)
        self._logs.pop((dir_, tp)).close()
        self._dirty.get(dir_, {}).pop(tp, None)
        self._deleted.setdefault(dir_, []).append(doomed)
        self._renames[dir_] = self._renames.get(dir_, 0) + 1

    def append(self, dir_: int, tp: TopicPartition, batches: Sequence[Batch]) -> None:
        """Append whole record batches, as bytes, to a log; in the page cache on return."""
        self._faults.meet(dir_, needs_room=True)
        self._logs[dir_, tp].append(batches)
        self._dirty.setdefault(dir_, {})[tp] = None

    def truncate(self, dir_: int, tp: TopicPartition, to: Offset) -> None:
        """Remove every batch of a log whose base offset is `to` or above; in the page cache on return."""
        self._faults.meet(dir_, needs_room=False)
        self._logs[dir_, tp].truncate(to)
        self._dirty.setdefault(dir_, {})[tp] = None

    def write_checkpoint(self, dir_: int, entries: tuple[tuple[TopicPartition, Offset], ...]) -> None:
        """Replace a directory's high watermark checkpoint atomically; durable on return."""
        self._replace_file(dir_, CHECKPOINT, offsets_text(entries))

    def _replace_file(self, dir_: int, name: str, content: str) -> None:
        """Replace a small file atomically and durably."""
        self._faults.meet(dir_, needs_room=True)
        path = self._paths[dir_] / name
        aside = path.with_suffix(".tmp")
        _write_durably(aside, content)
        aside.rename(path)
        sync_folder(path.parent)

    # --- durability --------------------------------------------------------------------------------------------------------

    def flush_job(self, dir_: int) -> Callable[[], None]:
        """A function that fsyncs all writes to this log directory so far; call it once, on any thread."""
        with ExitStack() as descriptors:
            jobs = [self._logs[dir_, tp].sync_job(descriptors) for tp in self._dirty.pop(dir_, {})]
            pending_close = descriptors.pop_all()  # descriptors that the job closes, whether it succeeds or not
        renames = self._renames.get(dir_, 0)

        def job() -> None:
            with pending_close:
                self._faults.wait(dir_)
                self._faults.meet(dir_, needs_room=False)
                for sync in jobs:
                    sync()
            self._settle_renames(dir_, renames)

        return job

    def _settle_renames(self, dir_: int, renames: int) -> None:
        """Make the first `renames` renames durable.

        Two threads may do so at once; each updates the count only after its fsync.
        """
        if self._settled.get(dir_, 0) < renames:
            self._settle(dir_)
            self._settled[dir_] = renames

    def _settle(self, dir_: int) -> None:
        sync_folder(self._paths[dir_])
        self._ledger.settled(dir_)

    def sweep_job(self, dir_: int) -> Callable[[], None]:
        """A function that removes the files of deleted replicas, after an fsync of their new names; call once, on any thread."""
        deleted = self._deleted.pop(dir_, [])
        renames = self._renames.get(dir_, 0)

        def job() -> None:
            self._settle_renames(dir_, renames)
            for folder in deleted:
                shutil.rmtree(folder)

        return job

    # --- reading -----------------------------------------------------------------------------------------------------------

    def with_records(self, dir_: int, tp: TopicPartition, batches: Sequence[Batch]) -> list[bytes]:
        """Read whole batches of a log from its files; `batches` have only their headers."""
        self._faults.meet(dir_, needs_room=False)
        return self._logs[dir_, tp].records(batches)

    def dir_of(self, tp: TopicPartition) -> int:
        """The directory with the log of this replica; the most recently added log if a failed directory holds another one."""
        return next(dir_ for dir_, held_tp in reversed(self._logs) if held_tp == tp)

    def close(self) -> None:
        """Close all open log files of the broker."""
        for log in self._logs.values():
            log.close()
        self._logs.clear()


def look(paths: Sequence[Path]) -> tuple[DirImage, ...]:
    """Read the logs in these directories without changing a file; returns what `Disk.recover` would."""
    return tuple(_image_of_dir(dir_, path, _batches) for dir_, path in enumerate(paths))


def replica_folders(path: Path) -> list[Path]:
    """The folders of replicas in a log directory, sorted by name. OSError if it cannot be read."""
    return sorted(p for p in path.iterdir() if p.is_dir() and not p.name.endswith((ASIDE, DELETED)))


def _batches(folder: Path, _: bool) -> tuple[Batch, ...]:
    return tuple(map(batch_of, headers_in(folder)))


def _image_of_dir(dir_: int, path: Path, batches: Callable[[Path, bool], tuple[Batch, ...]]) -> DirImage:
    """What a directory holds at startup: its logs, checkpoint and mark; unreadable if any file is damaged."""
    try:
        clean = (path / CLEAN).exists()
        logs = []
        for folder in replica_folders(path):
            metadata = metadata_of((folder / _METADATA).read_text())
            tp = TopicPartition(folder.name)
            logs.append(LogImage(tp, batches(folder, clean), metadata.born, metadata.topic_id, metadata.created))
        checkpoint, mark = path / CHECKPOINT, path / _MARK
        entries = offsets_of(checkpoint.read_text()) if checkpoint.exists() else ()
        marked = mark_of(mark.read_text()) if mark.exists() else DirMark()
        return DirImage(dir_, True, tuple(logs), entries, marked.born, marked.dirs, clean)
    except (OSError, ValueError, KeyError):
        return DirImage(dir_, readable=False)


def _beside(tp: TopicPartition, suffix: str) -> str:
    """The folder name of a replica while it is created or deleted: its name and a suffix, cut to the allowed length."""
    return f"{tp[: _NAME_MAX - len(suffix)]}{suffix}"


def _write_durably(path: Path, content: str) -> None:
    """Write a whole file and fsync it."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    data = content.encode()
    try:
        written = os.write(fd, data)
        if written != len(data):
            # On a nearly full disk write() succeeds with fewer bytes; half a checkpoint must not replace a whole one.
            raise OSError(errno.ENOSPC, f"{written} of {len(data)} bytes of {path.name} were written")
        os.fsync(fd)
    finally:
        os.close(fd)
