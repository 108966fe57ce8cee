"""Requests parked at a leader: produces wait for their acknowledgement, fetches for records (Kafka's purgatory).

A parked request is answered when its condition holds, when its deadline passes, or when the leadership under which it was parked
ends: no produce is acknowledged after the epoch that appended it (B-27, KAFKA-1148).
"""

from collections.abc import Callable
from operator import attrgetter

from reference.errors import ErrorCode
from reference.log import log as logs
from reference.machine import Turn
from reference.messages import Batch, FetchReply, ProduceReply
from reference.replica.partition import Parked, ParkedFetch, ParkedProduce, Partition, stable_leo
from reference.types import Address, Offset

_deadline: Callable[[Parked], int] = attrgetter("deadline_ms")


def visible_end(turn: Turn, partition: Partition, fetch: ParkedFetch) -> Offset:
    """One past the last offset that the sender may read (V3 §G): consumers read only committed records (R-136)."""
    if fetch.replica is not None or turn.config.variant.consumer_limit == "leo":
        return partition.log.leo
    return min(partition.hw, partition.log.leo)


def answer_fetch(turn: Turn, partition: Partition, fetch: ParkedFetch) -> bool:
    """Answer a fetch with the records that its sender may read; False if there are none from its offset on."""
    end = visible_end(turn, partition, fetch)
    if fetch.offset >= end:
        return False
    batches = logs.read(partition.log, fetch.offset, end, fetch.max_records, fetch.max_bytes)
    _reply_fetch(turn, partition, fetch, ErrorCode.NONE, batches)
    return True


def _reply_fetch(turn: Turn, partition: Partition, fetch: ParkedFetch, error: ErrorCode, batches: tuple[Batch, ...] = ()) -> None:
    reply = FetchReply(fetch.correlation, partition.tp, error, partition.leader_epoch, partition.hw, batches)
    turn.send(fetch.source, reply)


def park_fetch(turn: Turn, partition: Partition, fetch: ParkedFetch) -> None:
    """Park a fetch until records come. An earlier one of the same sender is answered empty: either may be a late copy."""
    for waiting in partition.fetches:
        if waiting.source == fetch.source:
            _reply_fetch(turn, partition, waiting, ErrorCode.NONE)
    partition.fetches = [f for f in partition.fetches if f.source != fetch.source]
    partition.fetches.append(fetch)
    turn.due(fetch.deadline_ms)


def complete_fetches(turn: Turn, partition: Partition) -> None:
    """Answer the parked fetches that now have records to read."""
    if partition.fetches:
        partition.fetches = [f for f in partition.fetches if not answer_fetch(turn, partition, f)]


def complete_produces(turn: Turn, partition: Partition, in_sync: int) -> None:
    """Acknowledge the parked produces whose `acks` are met. `in_sync` replicas count for min.insync.replicas."""
    if not partition.produces:
        return
    durable = stable_leo(partition)
    waiting: list[ParkedProduce] = []
    for parked in partition.produces:
        if parked.acks == 1 and durable >= parked.end_offset:
            _reply_produce(turn, partition, parked, ErrorCode.NONE)
        elif parked.acks == -1 and partition.hw >= parked.end_offset:
            short = turn.config.variant.min_isr_check == "both" and in_sync < partition.min_isr
            _reply_produce(turn, partition, parked, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND if short else ErrorCode.NONE)
        else:
            waiting.append(parked)
    partition.produces = waiting


def _reply_produce(turn: Turn, partition: Partition, parked: ParkedProduce, error: ErrorCode) -> None:
    offset = parked.base_offset if error is ErrorCode.NONE else None
    turn.send(parked.source, ProduceReply(parked.correlation, partition.tp, error, offset, parked.leader_epoch))


def expire(turn: Turn, partition: Partition) -> None:
    """Answer parked requests whose deadline passed: fetches empty, produces with REQUEST_TIMED_OUT (their records stay).

    Some request must be parked.
    """
    now = turn.now.monotonic_ms
    waiting: tuple[Parked, ...] = (*partition.fetches, *partition.produces)
    soonest = min(map(_deadline, waiting))
    if soonest > now:
        turn.due(soonest)
        return
    for fetch in (f for f in partition.fetches if f.deadline_ms <= now):
        _reply_fetch(turn, partition, fetch, ErrorCode.NONE)
    partition.fetches = [f for f in partition.fetches if f.deadline_ms > now]
    for produce in (p for p in partition.produces if p.deadline_ms <= now):
        _reply_produce(turn, partition, produce, ErrorCode.REQUEST_TIMED_OUT)
    partition.produces = [p for p in partition.produces if p.deadline_ms > now]
    for parked in (*partition.fetches, *partition.produces):
        turn.due(parked.deadline_ms)


def asker_gone(partition: Partition, source: Address) -> None:
    """Drop the parked requests of a disconnected client; followers fetch over other connections."""
    partition.fetches = [f for f in partition.fetches if f.source != source or f.replica is not None]
    partition.produces = [p for p in partition.produces if p.source != source]


def epoch_began(turn: Turn, partition: Partition) -> None:
    """A new leader epoch began: refuse the parked fetches of followers, which must check for divergence again (KIP-320)."""
    for fetch in partition.fetches:
        if fetch.replica is not None:
            _reply_fetch(turn, partition, fetch, ErrorCode.FENCED_LEADER_EPOCH)
    partition.fetches = [f for f in partition.fetches if f.replica is None]


def leadership_ended(turn: Turn, partition: Partition, error: ErrorCode = ErrorCode.NOT_LEADER_OR_FOLLOWER) -> None:
    """This replica no longer leads: answer the requests parked at it with `error`."""
    for fetch in partition.fetches:
        _reply_fetch(turn, partition, fetch, error)
    partition.fetches = []
    if not turn.config.variant.purgatory_epoch_check:
        return
    for parked in partition.produces:
        _reply_produce(turn, partition, parked, error)
    partition.produces = []
