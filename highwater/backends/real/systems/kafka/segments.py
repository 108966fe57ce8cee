"""The logs in the directories of a Kafka broker that is down: records, leader epochs, high watermarks.

Segments hold batches of format v2 (since 0.11) or messages of format v0 and v1, possibly compressed. Replicas of one log may have
other batch boundaries, so each record becomes a batch of its own. Offsets of control records count, and their value is CONTROL.

As Kafka's recovery does, the first batch that is incomplete, has a wrong CRC, or goes back in offsets ends the log: a kill may
tear the last write, and a preallocated segment ends in zeros. Segments and folders that Kafka has deleted or moved aside are no
part of a log. A log may begin behind offset 0 (retention, DeleteRecords).
"""

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

from aiokafka.errors import CorruptRecordException, UnsupportedCodecError
from aiokafka.record import MemoryRecords
from aiokafka.record.default_records import DefaultRecordBatch

from highwater.errors import HarnessError
from nemesis.targets import INTERNAL
from reference.events import DirImage, LogImage
from reference.messages import Batch
from reference.types import LeaderEpoch, Offset, TopicPartition
from server.disk.checkpoints import offsets_of

CONTROL = "(control record)"
NO_EPOCH = LeaderEpoch(-1)  # formats v0 and v1 hold none
SUFFIX = ".log"
_FRAME = struct.Struct(">qi")  # offset, and the bytes that follow it
_EPOCH = struct.Struct(">i")  # of format v2
_CHECKPOINT = "replication-offset-checkpoint"
_SMALLEST = 14  # bytes of a message of format v0 behind its frame


def look(paths: Sequence[Path], *, internal: bool = False) -> tuple[DirImage, ...]:
    """The logs in these directories of a broker that is down; with `internal` those of Kafka's own topics, else all others.

    A directory that cannot be read has no logs. HarnessError if records cannot be decompressed here.
    """
    return tuple(_dir_image(dir_, path, internal=internal) for dir_, path in enumerate(paths))


def _dir_image(dir_: int, path: Path, *, internal: bool) -> DirImage:
    """What a log directory holds; unreadable if a file cannot be read."""
    try:
        logs = tuple(LogImage(tp_of(folder), tuple(batches(folder))) for folder in replica_folders(path, internal=internal))
        return DirImage(dir_, readable=True, logs=logs, checkpoint=high_watermarks(path))
    except OSError:
        return DirImage(dir_, readable=False)


def replica_folders(path: Path, *, internal: bool = False) -> list[Path]:
    """The folders of replicas in a log directory, sorted by name; not those that Kafka deletes, moves or found stray."""
    # "t-0.<uuid>-delete", "-future" and "-stray": a partition number alone ends the name of a replica in use.
    folders = (folder for folder in path.iterdir() if folder.is_dir() and "-" in folder.name)
    replicas = (folder for folder in folders if folder.name.rpartition("-")[2].isdecimal())
    return sorted(folder for folder in replicas if folder.name.startswith(INTERNAL) == internal)


def tp_of(folder: Path) -> TopicPartition:
    """The partition whose log is in this folder."""
    return TopicPartition(folder.name)


def high_watermarks(path: Path) -> tuple[tuple[TopicPartition, int], ...]:
    """The high watermarks that a log directory's checkpoint holds; none if there is no file yet, or it does not parse.

    A checkpoint lags: a replica may know of a higher one than it wrote.
    """
    try:
        return offsets_of((path / _CHECKPOINT).read_text())
    except (FileNotFoundError, ValueError):
        return ()


def segments_of(folder: Path) -> list[Path]:
    """The segment files of a log, by first offset."""
    return sorted(path for path in folder.iterdir() if path.suffix == SUFFIX and path.stem.isdecimal())


def batches(folder: Path) -> Iterator[Batch]:
    """Each record of a log as a batch; for a log without records a batch without values at its end offset, if that is not 0."""
    segments = segments_of(folder)
    end = Offset(int(segments[-1].stem)) if segments else Offset(0)
    found = False
    expected = 0
    for path in segments:
        data = path.read_bytes()
        whole = 0
        for frame in frames(data):
            for batch in _records_of(frame):
                if batch.base_offset < expected:
                    return
                expected = batch.base_offset + 1
                found = True
                yield batch
            whole += len(frame)
        if whole < len(data):
            return
    if not found and end:
        yield Batch(end, NO_EPOCH, ())


def frames(data: bytes) -> Iterator[bytes]:
    """The whole batches (v2) or messages (v0, v1) in the bytes of a segment, up to the first that recovery would refuse."""
    at = 0
    while len(data) - at >= _FRAME.size + _SMALLEST:
        _, size = _FRAME.unpack_from(data, at)
        end = at + _FRAME.size + size
        if size < _SMALLEST or end > len(data):
            return
        frame = data[at:end]
        try:
            batch = MemoryRecords(frame).next_batch()
            if batch is None or not batch.validate_crc():
                return
        except (CorruptRecordException, ValueError, IndexError, struct.error):
            return
        yield frame
        at = end


def epoch_of(frame: bytes) -> LeaderEpoch:
    """The leader epoch of a batch of format v2."""
    return LeaderEpoch(_EPOCH.unpack_from(frame, _FRAME.size)[0])


def _records_of(frame: bytes) -> Iterator[Batch]:
    """The records of a batch, one by one; control batches have the value CONTROL."""
    batch = MemoryRecords(frame).next_batch()
    assert batch is not None, "frames yields whole batches"
    v2 = isinstance(batch, DefaultRecordBatch)
    epoch = epoch_of(frame) if v2 else NO_EPOCH
    control = isinstance(batch, DefaultRecordBatch) and batch.is_control_batch
    try:
        for record in batch:
            value = CONTROL if control else (record.value or b"").decode(errors="replace")
            yield Batch(Offset(record.offset), epoch, (value,))
    except UnsupportedCodecError as error:
        raise HarnessError(f"a batch at offset {_FRAME.unpack_from(frame)[0]} cannot be decompressed: {error}") from error
