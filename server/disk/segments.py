"""One replica's log as files: segments named by their first offset, with record batches as on the wire (Kafka's log format).

Batches are appended to the last segment; a batch that would make it larger than `segment_bytes` begins the next one. Memory holds
the offset and the position of each batch, sixteen bytes; records are read from the file when needed. `recover` reads the segments
from the first. The first batch that is incomplete, has a bad CRC or does not follow the one before ends the log, and everything
from there on is cut off (Kafka's LogSegment.recover). After a clean shutdown the CRCs are not checked.

`leader-epoch-checkpoint` is derived from the headers and written for Kafka's tools; it is not read.
"""

import errno
import os
from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import BinaryIO

from reference.messages import Batch
from reference.sealed import HEADER_BYTES
from reference.sealed import size as size_of
from reference.types import LeaderEpoch, Offset
from server.disk.checkpoints import epochs_text
from server.disk.ports import FlushObserver
from server.wire.records import LENGTH_FROM, MAGIC, BatchHeader, RecordsError, batch_with, check, pieces, read_header

EPOCHS = "leader-epoch-checkpoint"
ASIDE = "-creating"  # suffix of the folder of a replica being created
DELETED = "-delete"  # suffix of the folder of a deleted replica, as in Kafka
_SUFFIX = ".log"
_READ_BYTES = 1 << 20


def segment_name(base: int) -> str:
    """The file name of a log segment, as in Kafka: its first offset in twenty digits."""
    return f"{base:020d}{_SUFFIX}"


class Segment:
    """One open segment file, with the base offset and the position of each batch in it."""

    def __init__(self, folder: Path, base: int) -> None:
        self.path = folder / segment_name(base)
        self.base = base
        self.fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self.length = 0
        self.offsets = array("q")
        self.positions = array("q")
        self.cuts = 0
        self.is_dirty = False

    def forget(self, batches: int) -> None:
        """Forget all batches of a segment but the first `batches`, after the file was truncated."""
        self.length = self.positions[batches] if batches < len(self.positions) else self.length
        del self.offsets[batches:]
        del self.positions[batches:]

    def end_of(self, index: int) -> int:
        """The position in the segment file at which batch number `index` ends."""
        return self.positions[index + 1] if index + 1 < len(self.positions) else self.length


class SegmentedLog:
    """The segment files of one replica. Every failure is an OSError; a failed append leaves the log as it was."""

    def __init__(self, folder: Path, dir_: int, *, segment_bytes: int, ledger: FlushObserver) -> None:
        self._folder = folder
        self._dir = dir_
        self._segment_bytes = segment_bytes
        self._ledger = ledger
        self._segments: list[Segment] = []
        self._epochs: list[tuple[LeaderEpoch, Offset]] = []

    # --- recovery ------------------------------------------------------------------------------------------------------------

    def recover(self, *, trusted: bool) -> Iterator[Batch]:
        """Yield the batches in the log, each with its header as `values`, and cut off a torn end.

        Call once, first, and exhaust it.
        """
        expected = 0
        names = _segments_in(self._folder)
        for index, path in enumerate(names):
            if path.name != segment_name(expected):
                self._unlink(names[index:])
                break
            segment = self._open(expected)
            size = os.fstat(segment.fd).st_size
            with path.open("rb", buffering=_READ_BYTES) as file:
                for data, header in _whole_batches(file, size, expected, trusted=trusted):
                    batch = batch_with(header, data)
                    self._enter_in_index(segment, batch, LENGTH_FROM + header.length)
                    expected = _end(header)
                    yield batch
            # After a crash the log may be in the page cache only, so the first flush of this process syncs it.
            segment.is_dirty = True
            if segment.length < size:
                self._cut_segment(segment, segment.length)
                self._unlink(names[index + 1 :])
                break
        if not self._segments:
            self._begin_segment(Offset(0))

    def _unlink(self, paths: Sequence[Path]) -> None:
        """Remove segment files, durably."""
        for path in paths:
            path.unlink()
        if paths:
            # A power loss could restore a removed file, and by then the log may end where that file begins.
            sync_folder(self._folder)

    def _open(self, base: int) -> Segment:
        """Open the segment that begins at this offset, with the number of its truncations so far."""
        segment = Segment(self._folder, base)
        segment.cuts = self._ledger.cuts_of(self._dir, self._name(segment))
        self._segments.append(segment)
        return segment

    # --- writing -----------------------------------------------------------------------------------------------------------

    def append(self, batches: Sequence[Batch]) -> None:
        """Append whole record batches, as bytes, to the log; in the page cache on return."""
        waiting: list[Batch] = []
        bytes_ = 0
        for batch in batches:
            size = len(batch.values)
            assert isinstance(batch.values, bytes), "batches on disks are sealed"
            assert size == size_of(batch.values), "records are missing"
            length = self._segments[-1].length + bytes_
            if length and length + size > self._segment_bytes:
                self._write_batches(waiting)
                self._begin_segment(batch.base_offset)
                waiting, bytes_ = [], 0
            waiting.append(batch)
            bytes_ += size
        self._write_batches(waiting)

    def _write_batches(self, batches: Sequence[Batch]) -> None:
        """Append the batches to the last segment; after a partial write cut it back and raise."""
        if not batches:
            return
        segment = self._segments[-1]
        data = b"".join(piece for batch in batches for piece in pieces(batch))
        try:
            written = os.write(segment.fd, data)
            if written != len(data):
                raise OSError(errno.ENOSPC, f"{written} of {len(data)} bytes were written")
        except OSError:
            with suppress(OSError):  # the first error is raised; recovery cuts off the partial write if this fails
                os.ftruncate(segment.fd, segment.length)
            raise
        segment.is_dirty = True
        epochs_before = len(self._epochs)
        for batch in batches:
            self._enter_in_index(segment, batch, len(batch.values))
        if len(self._epochs) > epochs_before:
            self._write_epochs()

    def _enter_in_index(self, segment: Segment, batch: Batch, size: int) -> None:
        """Enter a batch of `size` bytes into the segment's index, and into the epoch cache if its epoch is new."""
        segment.offsets.append(batch.base_offset)
        segment.positions.append(segment.length)
        segment.length += size
        if not self._epochs or batch.leader_epoch > self._epochs[-1][0]:
            self._epochs.append((batch.leader_epoch, batch.base_offset))

    def _begin_segment(self, base: Offset) -> None:
        """Begin a new segment at this offset; its file and name are durable on return."""
        self._ledger.created(self._dir, f"{self._folder.name}/{segment_name(base)}")
        self._open(base)
        sync_folder(self._folder)

    def truncate(self, to: Offset) -> None:
        """Remove every batch of the log whose base offset is `to` or above."""
        removed = 0
        while len(self._segments) - removed > 1 and self._segments[-1 - removed].base >= to:
            removed += 1
        segment = self._segments[-1 - removed]
        keep = len(segment.offsets)
        while keep and segment.offsets[keep - 1] >= to:
            keep -= 1
        if keep == len(segment.offsets) and not removed:
            return
        self._cut_segment(segment, segment.positions[keep] if keep < len(segment.positions) else segment.length)
        segment.forget(keep)
        for _ in range(removed):
            dropped = self._segments.pop()
            os.close(dropped.fd)
            dropped.path.unlink()
        if removed:
            # A truncation that removes segments is rare; it is synced at once, so that no removed file comes back.
            os.fsync(segment.fd)
            sync_folder(self._folder)
            self._ledger.synced(self._dir, self._name(segment), length=segment.length, cuts=segment.cuts)
        self._epochs = [epoch for epoch in self._epochs if epoch[1] < to]
        self._write_epochs()

    def _cut_segment(self, segment: Segment, length: int) -> None:
        """Cut a segment to this length; the flush ledger gets the bytes that are lost."""

        def lost() -> bytes:
            return os.pread(segment.fd, os.fstat(segment.fd).st_size - length, length)

        # Record it first: undoing a truncation that was recorded but not performed changes nothing.
        self._ledger.cut(self._dir, self._name(segment), length=length, lost=lost)
        segment.cuts += 1
        os.ftruncate(segment.fd, length)
        segment.is_dirty = True

    def _write_epochs(self) -> None:
        """Write the leader epochs of the log to a new file and rename it."""
        path = self._folder / EPOCHS
        aside = path.with_suffix(".tmp")
        aside.write_text(epochs_text(self._epochs))
        aside.rename(path)

    # --- reading and durability ----------------------------------------------------------------------------------------------

    def records(self, batches: Sequence[Batch]) -> list[bytes]:
        """Read whole batches of the log; `batches` have only their headers."""
        return [self._read_batch(batch) for batch in batches]

    def _read_batch(self, batch: Batch) -> bytes:
        """The bytes of a batch, found by its base offset and the rest of its header. Raises OSError if it is not there."""
        assert isinstance(batch.values, bytes)
        header_end = batch.values[16:HEADER_BYTES]
        for segment, index in self._candidate_places(batch.base_offset):
            start = segment.positions[index]
            data = os.pread(segment.fd, segment.end_of(index) - start, start)
            if data[16:HEADER_BYTES] == header_end:
                return data
        raise OSError(f"the batch at offset {batch.base_offset} is not where it was written in {self._folder.name}")

    def _candidate_places(self, base: Offset) -> Iterator[tuple[Segment, int]]:
        """The places in the segments where a batch with this base offset stands, the latest segment first."""
        for segment in reversed(self._segments):
            index = bisect_left(segment.offsets, base)
            if index < len(segment.offsets) and segment.offsets[index] == base:
                yield segment, index
        # A log appended to without checking offsets (B-03) may contain an offset twice, out of order.
        for segment in self._segments:
            yield from ((segment, index) for index, offset in enumerate(segment.offsets) if offset == base)

    def sync_job(self, held: ExitStack) -> Callable[[], None]:
        """A function that fsyncs all writes to this log so far.

        Run it on any thread before `held` is closed; it works even if the log was deleted.
        """
        jobs = []
        for segment in self._segments:
            if segment.is_dirty:
                fd = os.dup(segment.fd)
                held.callback(os.close, fd)
                jobs.append((fd, self._name(segment), segment.length, segment.cuts))
                segment.is_dirty = False

        def job() -> None:
            for fd, name, length, cuts in jobs:
                os.fsync(fd)
                self._ledger.synced(self._dir, name, length=length, cuts=cuts)

        return job

    def _name(self, segment: Segment) -> str:
        return f"{self._folder.name}/{segment.path.name}"

    def close(self) -> None:
        """Close all segment files of the log."""
        for segment in self._segments:
            os.close(segment.fd)
        self._segments.clear()


def _end(header: BatchHeader) -> int:
    return header.base_offset + header.last_offset_delta + 1


def _whole_batches(file: BinaryIO, size: int, expected: int, *, trusted: bool) -> Iterator[tuple[bytes, BatchHeader]]:
    """Read the headers of the batches in a segment, up to the first that is incomplete, corrupt or out of sequence."""
    at = 0
    while size - at >= HEADER_BYTES:
        header = file.read(HEADER_BYTES)
        fields = read_header(header)
        end = at + LENGTH_FROM + fields.length
        follows = fields.magic == MAGIC and fields.base_offset == expected and fields.last_offset_delta >= 0
        if not follows or end - at < HEADER_BYTES or end > size:
            return
        if trusted:
            file.seek(end)
        else:
            try:
                check(header + file.read(end - at - HEADER_BYTES))
            except RecordsError:
                return
        yield header, fields
        expected = _end(fields)
        at = end


def headers_in(folder: Path) -> list[bytes]:
    """The headers of the batches in a log's files that recovery would keep, in order; changes no file."""
    headers: list[bytes] = []
    expected = 0
    for path in _segments_in(folder):
        if path.name != segment_name(expected):
            break
        size = path.stat().st_size
        whole = 0
        with path.open("rb", buffering=_READ_BYTES) as file:
            for data, header in _whole_batches(file, size, expected, trusted=False):
                expected = _end(header)
                whole += LENGTH_FROM + header.length
                headers.append(data)
        if whole < size:
            break
    return headers


def _segments_in(folder: Path) -> list[Path]:
    """The segment files of a log, by first offset. OSError if the first is missing: without retention nothing deletes it."""
    segments = sorted(path for path in folder.iterdir() if path.suffix == _SUFFIX)
    if segments and segments[0].name != segment_name(0):
        raise FileNotFoundError(errno.ENOENT, "the first segment is gone", str(folder))
    return segments


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable; does nothing if the folder was deleted meanwhile."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
