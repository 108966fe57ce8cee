"""A log: batches in offset order from 0, its end (LEO, exclusive), its epoch cache and the sequences of its producers.

`append` and `truncate` change the state and emit the effect, so memory and page cache change together. `replica.partition` tracks
which part is durable.
"""

from bisect import bisect_right
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import replace

from reference.effects import Append, Truncate
from reference.events import LogImage
from reference.log import epoch_cache, producers
from reference.log.epoch_cache import EpochStart
from reference.log.producers import Producer
from reference.machine import Turn
from reference.messages import Batch
from reference.sealed import count, size
from reference.types import (
    NO_EPOCH,
    NO_INCARNATION,
    NO_PRODUCER_ID,
    NO_TOPIC_ID,
    Incarnation,
    LeaderEpoch,
    Offset,
    TopicId,
    TopicPartition,
)

_BASE = attrgetter("base_offset")


class Log(Struct):
    """The records of one replica: batches in offset order from 0, the log end offset, the epoch cache and producer sequences.

    `born` is the birth of the broker's youngest directory when the log was created: any earlier log of this replica was in a
    directory that is gone. `topic_id` distinguishes topics of the same name (KIP-516).
    """

    tp: TopicPartition
    dir: int
    batches: list[Batch] = []
    leo: Offset = Offset(0)
    epochs: list[EpochStart] = []
    born: Incarnation = NO_INCARNATION
    topic_id: TopicId = NO_TOPIC_ID
    producers: list[Producer] = []  # the last batches of idempotent producers, by id


def end_of(batch: Batch) -> Offset:
    """The offset after the last record of a batch."""
    return Offset(batch.base_offset + count(batch.values))


def last_record_epoch(log: Log) -> LeaderEpoch:
    """The epoch of the last record, NO_EPOCH for an empty log."""
    return log.batches[-1].leader_epoch if log.batches else NO_EPOCH


def recover(image: LogImage, dir_: int, *, trusted: bool = False) -> tuple[Log, bool]:
    """The log as found on disk, cut at the first batch with a bad CRC, and True if it was cut (R-048).

    `trusted`: the log was closed in good order, so no CRC is checked. The epoch cache is rebuilt from the batch headers.
    """
    log = Log(tp=image.tp, dir=dir_, born=image.born, topic_id=image.topic_id)
    for batch in image.batches:
        if not batch.intact and not trusted:
            return log, True
        assert batch.base_offset == log.leo, "a log on disk has a gap"
        _append_batch(log, batch)
    return log, False


def _append_batch(log: Log, batch: Batch, *, strict: bool = True) -> None:
    """Append a batch and update LEO, epoch cache and producer sequences; `strict` refuses an epoch that goes back."""
    log.batches.append(batch)
    log.leo = end_of(batch)
    epoch_cache.assign(log.epochs, batch.leader_epoch, batch.base_offset, strict=strict)
    if batch.producer_id != NO_PRODUCER_ID:
        producers.wrote(log.producers, batch)


def append(turn: Turn, log: Log, batches: tuple[Batch, ...]) -> None:
    """Append batches at the log end; without `append_check` they may start below it (B-03)."""
    variant = turn.config.variant
    for batch in batches:
        assert batch.base_offset == log.leo or not variant.append_check, "append must start at the log end"
        _append_batch(log, batch, strict=variant.epoch_cache == "strict")
    turn.effects.append(Append(log.dir, log.tp, batches))


def truncate(turn: Turn, log: Log, to: Offset) -> None:
    """Make offset `to` the log end, unless the log is shorter.

    A cut inside a batch (truncation to a high watermark of another leader) writes the first part of the batch again. A sealed
    batch is removed whole.
    """
    if to >= log.leo:
        return
    keep = bisect_right(log.batches, to, key=_BASE)
    while keep and end_of(log.batches[keep - 1]) > to:
        keep -= 1
    torn = log.batches[keep]
    del log.batches[keep:]
    log.leo = torn.base_offset
    epoch_cache.truncate(log.epochs, to)
    producers.rebuild(log.producers, log.batches)
    turn.effects.append(Truncate(log.dir, log.tp, log.leo))
    if torn.base_offset < to and not isinstance(torn.values, bytes):
        append(turn, log, (_part(torn, torn.base_offset, to),))
    assert log.leo == to or isinstance(torn.values, bytes)


def _part(batch: Batch, start: Offset, end: Offset) -> Batch:
    """The part of a batch with start <= offset < end; its records keep their producer sequences."""
    assert not isinstance(batch.values, bytes), "a sealed batch is never divided"
    skipped = start - batch.base_offset
    return replace(
        batch,
        base_offset=start,
        values=batch.values[skipped : end - batch.base_offset],
        base_sequence=batch.base_sequence if batch.producer_id == NO_PRODUCER_ID else batch.base_sequence + skipped,
    )


def read(log: Log, start: Offset, end: Offset, max_records: int, max_bytes: int | None = None) -> tuple[Batch, ...]:
    """Batches with records in start <= offset < end; at least one if there is one. The first may begin before `start`.

    `start` is below `end`. A sealed batch that reaches beyond `end` is left out. A follower that lags reads many batches at once
    (R-157).
    """
    if log.batches and log.batches[-1].base_offset <= start and end == log.leo:
        return (log.batches[-1],)
    index = max(bisect_right(log.batches, start, key=_BASE) - 1, 0)
    batches: list[Batch] = []
    records = taken = 0
    while index < len(log.batches) and records < max_records:
        batch = log.batches[index]
        if batch.base_offset >= end:
            break
        if end_of(batch) > end:
            if isinstance(batch.values, bytes):
                break
            batch = _part(batch, batch.base_offset, end)
        if max_bytes is not None:
            taken += size(batch.values)
            if batches and taken > max_bytes:
                break
        batches.append(batch)
        records += count(batch.values)
        index += 1
    return tuple(batches)


def without_head(batches: tuple[Batch, ...], start: Offset) -> tuple[Batch, ...]:
    """The batches without their records before offset `start`; a batch kept as bytes stays whole."""
    kept = []
    for batch in batches:
        if batch.base_offset >= start or (isinstance(batch.values, bytes) and end_of(batch) > start):
            kept.append(batch)
        elif end_of(batch) > start:
            kept.append(_part(batch, start, end_of(batch)))
    return tuple(kept)
