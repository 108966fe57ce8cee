"""Opening sealed record batches in the laboratory: what brokers carry as bytes, histories show as values.

aiokafka's reader decodes them, compressed ones too. Offset and leader epoch are those of the machine's batch, not of the header
inside, which is patched where a batch leaves a broker and so differs between replicas of one log.
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
    """The same batch in the clear. HarnessError where it is none of Kafka's format v2, or damaged."""
    if not isinstance(batch.values, bytes):
        return batch
    try:
        records = MemoryRecords(batch.values).next_batch()
        assert records is not None, "a header was read, so a batch is there"
        if not records.validate_crc():
            raise HarnessError(f"the batch at offset {batch.base_offset} does not have the checksum that it names")
        values = tuple((record.value or b"").decode(errors="replace") for record in records)
    except (CorruptRecordException, ValueError, IndexError) as error:
        raise HarnessError(f"the batch at offset {batch.base_offset} cannot be read: {error}") from error
    return replace(batch, values=values)


def opened_line(line: NoteLine) -> NoteLine:
    """A note whose batches are in the clear."""
    if not line.note.batches:
        return line
    return replace(line, note=replace(line.note, batches=tuple(map(opened, line.note.batches))))


def opened_dirs(paths: Sequence[Path]) -> tuple[DirImage, ...]:
    """What lies in log directories that no process uses, in the clear. HarnessError for a batch that cannot be read."""
    images = look(paths)
    return tuple(
        replace(image, logs=tuple(_opened_log(log, path / log.tp) for log in image.logs))
        for image, path in zip(images, paths, strict=True)
    )


def _opened_log(log: LogImage, folder: Path) -> LogImage:
    """The image has headers; the records are read from the segments, which hold the same batches in the same order."""
    data = b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))
    batches, at = [], 0
    for batch in log.batches:
        fields = read_header(data, at)
        end = at + LENGTH_FROM + fields.length
        batches.append(opened(replace(batch, values=data[at:end])))
        at = end
    return replace(log, batches=tuple(batches))
