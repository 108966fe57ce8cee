"""The request that a client sends for a call, and the records in the answer to a poll. Pure functions."""

from typing import assert_never

from msgspec import Struct

from reference.client import session as sessions
from reference.client.calls import Call, EarliestCall, LatestCall, PollCall, Polled, ProduceCall
from reference.client.session import Session
from reference.errors import ErrorCode
from reference.messages import EARLIEST, Batch, Fetch, ListOffsets, Produce, Request
from reference.sealed import in_the_clear
from reference.types import NO_EPOCH, NO_INCARNATION, NO_TOPIC_ID, BrokerId, LeaderEpoch, Millis, Offset, TopicId


class Pending(Struct):
    """A client's call in flight. `leader` is None before each send, while it waits for a leader, a producer id or its backoff."""

    call: Call
    deadline_ms: Millis  # monotonic
    correlation: int = 0
    leader: BrokerId | None = None
    asked: BrokerId | None = None  # the broker of the last attempt
    attempts: int = 0
    earlier: tuple[ErrorCode, ...] = ()  # errors of earlier attempts
    backing_off: bool = False
    leader_epoch: LeaderEpoch = NO_EPOCH  # as known when the request was sent; so is topic_id
    topic_id: TopicId = NO_TOPIC_ID


def request_of(pending: Pending, session: Session, left_ms: Millis) -> Request:
    """The request that a client sends next for a call, with the known leader epoch and topic id (KIP-320, KIP-516)."""
    epoch, topic_id = pending.leader_epoch, pending.topic_id
    match pending.call:
        case ProduceCall(tp=tp, acks=acks, values=values, idempotent=idempotent, misuse=misuse):
            if not idempotent:
                return Produce(pending.correlation, tp, acks, values, left_ms, topic_id)
            batch_ids = sessions.next_batch_ids(session, tp, misuse)
            return Produce(pending.correlation, tp, acks, values, left_ms, topic_id, *batch_ids)
        case PollCall(tp=tp, offset=offset, max_records=max_records, max_wait_ms=max_wait_ms):
            wait_ms = min(max_wait_ms, left_ms)
            return Fetch(pending.correlation, tp, None, NO_INCARNATION, epoch, offset, wait_ms, max_records, topic_id)
        case LatestCall(tp=tp):
            return ListOffsets(pending.correlation, tp, epoch, topic_id)
        case EarliestCall(tp=tp):
            return ListOffsets(pending.correlation, tp, epoch, topic_id, EARLIEST)
        case _:
            assert_never(pending.call)


def polled(batches: tuple[Batch, ...], start: Offset) -> tuple[Polled, ...]:
    """The records of a fetch's answer from offset `start` on; the first batch is whole, so it may begin before `start`."""
    return tuple(
        Polled(Offset(offset), value, batch.leader_epoch)
        for batch in batches
        for offset, value in enumerate(in_the_clear(batch.values), batch.base_offset)
        if offset >= start
    )


def is_idempotent(call: Call) -> bool:
    """True for a produce under the producer id of the session."""
    return isinstance(call, ProduceCall) and call.idempotent
