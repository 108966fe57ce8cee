"""The last batches of the idempotent producers of one log: a retried batch is recognized (B-66, docs/promise.md ORD-3).

The state is a function of the log: it grows with each append, at the leader and at every follower, and is rebuilt after a
truncation and at startup. So the next leader knows every committed batch. Each producer numbers its records from 0 without a
gap. The log remembers the last `WINDOW` batches of each producer with their offsets, as Kafka does. A producer sends a batch only
after the answer to the one before, so no older batch can be retried. There is no retention, so no producer is forgotten.
"""

from bisect import bisect_left

from msgspec import Struct

from reference.errors import ErrorCode
from reference.messages import Batch, Produce
from reference.sealed import count
from reference.types import Offset, ProducerId

WINDOW = 5  # batches


class Written(Struct, frozen=True, array_like=True):
    """One appended batch of an idempotent producer: its first and last sequence, inclusive, and its base offset."""

    first: int
    last: int
    base_offset: Offset


class Producer(Struct):
    """What a log knows of one producer id: its epoch and its last batches, oldest first; at most WINDOW."""

    id: ProducerId
    epoch: int
    batches: list[Written]


def _find(producers: list[Producer], id_: ProducerId) -> tuple[int, Producer | None]:
    at = bisect_left(producers, id_, key=lambda producer: producer.id)
    return at, producers[at] if at < len(producers) and producers[at].id == id_ else None


def wrote(producers: list[Producer], batch: Batch) -> None:
    """Record a batch of an idempotent producer that was appended to this log, as leader or as follower."""
    written = Written(batch.base_sequence, batch.base_sequence + count(batch.values) - 1, batch.base_offset)
    at, state = _find(producers, batch.producer_id)
    if state is None:
        producers.insert(at, Producer(batch.producer_id, batch.producer_epoch, [written]))
        return
    if state.epoch != batch.producer_epoch:
        state.epoch, state.batches = batch.producer_epoch, []
    state.batches = [*state.batches, written][-WINDOW:]


def rebuild(producers: list[Producer], batches: list[Batch]) -> None:
    """Recompute the producers' sequences from the batches that are left after a truncation."""
    if not producers:
        return
    producers.clear()
    for batch in batches:
        if batch.producer_id >= 0:
            wrote(producers, batch)


def check(producers: list[Producer], produce: Produce, *, complete: bool) -> ErrorCode | Written:
    """NONE if the batch may be appended, a `Written` if it was appended before, else the error that refuses it.

    `complete`: `producers` holds every producer of this log; if not, any sequence of an unknown producer is accepted.
    """
    _, state = _find(producers, produce.producer_id)
    first, last = produce.base_sequence, produce.base_sequence + count(produce.values) - 1
    if state is None:
        return ErrorCode.NONE if first == 0 or not complete else ErrorCode.UNKNOWN_PRODUCER_ID
    if produce.producer_epoch < state.epoch:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if produce.producer_epoch > state.epoch:
        return ErrorCode.NONE if first == 0 else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    for written in state.batches:
        if (written.first, written.last) == (first, last):
            return written
    if first == state.batches[-1].last + 1:
        return ErrorCode.NONE
    # A batch older than the window was appended, but its offset is forgotten.
    return ErrorCode.DUPLICATE_SEQUENCE_NUMBER if last < state.batches[0].first else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
