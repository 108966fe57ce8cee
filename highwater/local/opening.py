"""Opening sealed record batches in the laboratory: what brokers carry as bytes, histories show as values.

aiokafka's reader decodes them, compressed ones too. Offset and leader epoch are those of the machine's batch, not of the header
inside, which is patched where a batch leaves a broker and so differs between replicas of one log.
"""

from aiokafka.errors import CorruptRecordException
from aiokafka.record import MemoryRecords
from msgspec.structs import replace

from highwater.errors import HarnessError
from reference.events import DirImage
from reference.messages import Batch
from reference.runtime.control import NoteLine


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


def opened_dirs(images: tuple[DirImage, ...]) -> tuple[DirImage, ...]:
    """Directories whose logs are in the clear."""
    return tuple(
        replace(image, logs=tuple(replace(log, batches=tuple(map(opened, log.batches))) for log in image.logs))
        for image in images
    )
