"""What idempotent producers wrote last in one log: a batch that comes again is known again (B-66, docs/promise.md ORD-3).

The state is a function of the log: it grows with each append, at the leader and at every follower, and is rebuilt after a
truncation and at startup. So whoever leads next knows every batch that was committed. Each producer numbers its records from 0
without a gap; the last batches of it (`WINDOW`) are remembered with their offsets, as Kafka does, and since it sends the next
batch only after the answer to the last one, that is more than can come again. There is no retention, so no producer is forgotten.
"""

from bisect import bisect_left

from msgspec import Struct

from reference.errors import ErrorCode
from reference.messages import Batch, Produce
from reference.sealed import count
from reference.types import Offset, ProducerId

WINDOW = 5  # batches


class Written(Struct, frozen=True, array_like=True):
    """One batch: its sequences, both inclusive, and where it stands."""

    first: int
    last: int
    base_offset: Offset


class Producer(Struct):
    """One producer id: its epoch and its last batches, oldest first."""

    id: ProducerId
    epoch: int
    batches: list[Written]


def _find(producers: list[Producer], id_: ProducerId) -> tuple[int, Producer | None]:
    at = bisect_left(producers, id_, key=lambda producer: producer.id)
    return at, producers[at] if at < len(producers) and producers[at].id == id_ else None


def wrote(producers: list[Producer], batch: Batch) -> None:
    """A batch of an idempotent producer was appended, here or by the leader that this log follows."""
    written = Written(batch.base_sequence, batch.base_sequence + count(batch.values) - 1, batch.base_offset)
    at, known = _find(producers, batch.producer_id)
    if known is None:
        producers.insert(at, Producer(batch.producer_id, batch.producer_epoch, [written]))
        return
    if known.epoch != batch.producer_epoch:
        known.epoch, known.batches = batch.producer_epoch, []
    known.batches = [*known.batches, written][-WINDOW:]


def rebuild(producers: list[Producer], batches: list[Batch]) -> None:
    """The log was cut: what it holds now is all that was written."""
    if not producers:
        return
    producers.clear()
    for batch in batches:
        if batch.producer_id >= 0:
            wrote(producers, batch)


def check(producers: list[Producer], produce: Produce, *, complete: bool) -> ErrorCode | Written:
    """May this be appended (NONE), was it already, or is it refused? All refusals come before the append.

    `complete`: these are all producers that ever wrote here; where they are not, any sequence of an unknown one is taken.
    """
    _, known = _find(producers, produce.producer_id)
    first, last = produce.base_sequence, produce.base_sequence + count(produce.values) - 1
    if known is None:
        return ErrorCode.NONE if first == 0 or not complete else ErrorCode.UNKNOWN_PRODUCER_ID
    if produce.producer_epoch < known.epoch:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if produce.producer_epoch > known.epoch:
        return ErrorCode.NONE if first == 0 else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    for written in known.batches:
        if (written.first, written.last) == (first, last):
            return written
    if first == known.batches[-1].last + 1:
        return ErrorCode.NONE
    # Behind the window its offset is no longer known; that it was appended is.
    return ErrorCode.DUPLICATE_SEQUENCE_NUMBER if last < known.batches[0].first else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
