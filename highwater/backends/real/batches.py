"""Decodes record batches for the history: brokers carry them as bytes, histories show their values.

aiokafka's reader decodes them, with any compression. Offset and leader epoch come from the machine's batch and not from the
header inside the bytes: the header is patched when a batch leaves a broker, so it differs between replicas of one log.
"""

from collections.abc import Sequence
from pathlib import Path

from aiokafka.errors import CorruptRecordException
from aiokafka.record import MemoryRecords
from msgspec.structs import replace

from highwater.errors import HarnessError
from reference.events import DirImage, LogImage
from reference.messages import Batch
from server.disk.log_dirs import look
from server.lab.notes import NoteLine
from server.wire.records import LENGTH_FROM, read_header


def opened(batch: Batch) -> Batch:
    """Decode the records of a batch. Raises HarnessError if its bytes are damaged or not in Kafka's format v2."""
    if not isinstance(batch.values, bytes):
        return batch
    try:
        records = MemoryRecords(batch.values).next_batch()
        assert records is not None, "the header was read, so there is a batch"
        if not records.validate_crc():
            raise HarnessError(f"the batch at offset {batch.base_offset} fails its CRC check")
        values = tuple((record.value or b"").decode(errors="replace") for record in records)
    except (CorruptRecordException, ValueError, IndexError) as error:
        raise HarnessError(f"the batch at offset {batch.base_offset} cannot be decoded: {error}") from error
    return replace(batch, values=values)


def opened_line(line: NoteLine) -> NoteLine:
    """Decode the record batches in one line that a broker reported to the harness."""
    if not line.note.batches:
        return line
    return replace(line, note=replace(line.note, batches=tuple(map(opened, line.note.batches))))


def opened_dirs(paths: Sequence[Path]) -> tuple[DirImage, ...]:
    """Decode the record batches in a stopped broker's log directories. Raises HarnessError for a damaged batch."""
    images = look(paths)
    return tuple(
        replace(image, logs=tuple(_log_with_records(log, path / log.tp) for log in image.logs))
        for image, path in zip(images, paths, strict=True)
    )


def _log_with_records(log: LogImage, folder: Path) -> LogImage:
    """The log with the records of its batches. Its image holds headers alone; the segments hold the same batches in order."""
    data = b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))
    batches, at = [], 0
    for batch in log.batches:
        fields = read_header(data, at)
        end = at + LENGTH_FROM + fields.length
        batches.append(opened(replace(batch, values=data[at:end])))
        at = end
    return replace(log, batches=tuple(batches))
