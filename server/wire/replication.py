"""Fetch and OffsetForLeaderEpoch between brokers: one partition per request, in Kafka's layouts (KIP-101, 320, 516, 595, 903).

A topic id is the czxid of the topic's znode, in the low 64 bits of Kafka's UUID. Variants without topic ids send Fetch 12,
which has topic names. Fields that Kafka's layouts lack are tagged fields of ours, which a Kafka broker would skip: the limit on
records of a fetch, the incarnation of the sender in version 12, the topic id in OffsetForLeaderEpoch. An unknown topic id is
decoded as the empty name, which no topic has, and the machine answers as for any partition that it does not have.
"""

import dataclasses
from collections.abc import Callable, Iterator

import kio.schema.fetch.v12.request as fetch_v12
import kio.schema.fetch.v12.response as fetch_v12_response
import kio.schema.fetch.v15.request as fetch_v15
import kio.schema.fetch.v15.response as fetch_v15_response
import kio.schema.offset_for_leader_epoch.v4.request as epoch_v4
import kio.schema.offset_for_leader_epoch.v4.response as epoch_v4_response
from msgspec import Struct

from reference.messages import Batch, Diverging, EpochEnd, EpochEndReply, Fetch, FetchReply
from reference.types import (
    NO_INCARNATION,
    NO_TOPIC_ID,
    BrokerId,
    Incarnation,
    LeaderEpoch,
    Millis,
    Offset,
    TopicId,
    index_of,
    topic_of,
)
from server.wire.entities import read_body, write_body
from server.wire.framing import WireError
from server.wire.records import batch_of, pieces, split
from server.wire.values import error_of, only, tp_of

Names = Callable[[TopicId], str | None]  # the topic that has or had this id; ids are never reused

BY_NAME = 12
BY_ID = 15
_NO_LIMIT = 2**31 - 1
_NO_BROKER = -1
_NO_OFFSET = -1
_NO_EPOCH = -1
_NO_ID = 0

# Our tags begin at 10,000: Kafka numbers its own from 0.
_MAX_RECORDS = (10_000, "max_records", "int32")
_INCARNATION = (10_001, "incarnation", "int64")
_TOPIC_ID = (10_002, "own_topic_id", "int64")

# The request of each tag.
OWN_TAGS = (
    ("Fetch 12, 15", *_MAX_RECORDS),
    ("Fetch 12", *_INCARNATION),
    ("OffsetForLeaderEpoch 4", *_TOPIC_ID),
)


def _with_own_tags(schema: type, *fields: tuple[int, str, str]) -> type:
    """Add our own tagged fields to one of Kafka's request schemas (as kio generates them)."""
    extra_fields = [
        (name, int, dataclasses.field(metadata={"kafka_type": kind, "tag": tag}, default=0)) for tag, name, kind in fields
    ]
    return dataclasses.make_dataclass(schema.__name__, extra_fields, bases=(schema,), kw_only=True, frozen=True)


_FETCH = {
    BY_NAME: _with_own_tags(fetch_v12.FetchRequest, _MAX_RECORDS, _INCARNATION),
    BY_ID: _with_own_tags(fetch_v15.FetchRequest, _MAX_RECORDS),
}
_FETCH_RESPONSE: dict[int, type] = {BY_NAME: fetch_v12_response.FetchResponse, BY_ID: fetch_v15_response.FetchResponse}
_EPOCH_END = _with_own_tags(epoch_v4.OffsetForLeaderEpochRequest, _TOPIC_ID)


# --- bodies: the fields of Kafka's schemas that are used ----------------------------------------------------------------------


class _ReplicaState(Struct, frozen=True):
    replica_id: int = _NO_BROKER
    replica_epoch: int = NO_INCARNATION


class _FetchPartition(Struct, frozen=True, kw_only=True):
    partition: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    partition_max_bytes: int


class _FetchTopic(Struct, frozen=True, kw_only=True):
    topic: str = ""
    topic_id: int = _NO_ID
    partitions: tuple[_FetchPartition, ...]


class _FetchRequest(Struct, frozen=True, kw_only=True):
    replica_id: int = _NO_BROKER
    replica_state: _ReplicaState = _ReplicaState()
    max_wait_ms: int
    min_bytes: int = 1
    max_bytes: int = _NO_LIMIT
    topics: tuple[_FetchTopic, ...]
    max_records: int = _NO_LIMIT
    incarnation: int = NO_INCARNATION


class _EpochEndOffset(Struct, frozen=True):
    epoch: int = _NO_EPOCH
    end_offset: int = _NO_OFFSET


class _CurrentLeader(Struct, frozen=True, kw_only=True):
    leader_id: int = _NO_BROKER
    leader_epoch: int = _NO_EPOCH


class _PartitionData(Struct, frozen=True, kw_only=True):
    partition_index: int
    error_code: int
    high_watermark: int
    last_stable_offset: int = _NO_OFFSET
    diverging_epoch: _EpochEndOffset = _EpochEndOffset()
    current_leader: _CurrentLeader = _CurrentLeader()
    records: bytes | tuple[bytes, ...] | None


class _FetchedTopic(Struct, frozen=True, kw_only=True):
    topic: str = ""
    topic_id: int = _NO_ID
    partitions: tuple[_PartitionData, ...]


class _FetchResponse(Struct, frozen=True, kw_only=True):
    error_code: int = 0
    responses: tuple[_FetchedTopic, ...]


class _EpochPartition(Struct, frozen=True, kw_only=True):
    partition: int
    current_leader_epoch: int
    leader_epoch: int


class _EpochTopic(Struct, frozen=True, kw_only=True):
    topic: str
    partitions: tuple[_EpochPartition, ...]


class _EpochRequest(Struct, frozen=True, kw_only=True):
    replica_id: int
    topics: tuple[_EpochTopic, ...]
    own_topic_id: int = NO_TOPIC_ID


class _EpochEnded(Struct, frozen=True, kw_only=True):
    error_code: int
    partition: int
    leader_epoch: int
    end_offset: int


class _EpochEndedTopic(Struct, frozen=True, kw_only=True):
    topic: str
    partitions: tuple[_EpochEnded, ...]


class _EpochResponse(Struct, frozen=True):
    topics: tuple[_EpochEndedTopic, ...]


# --- Fetch ----------------------------------------------------------------------------------------------------------------


def version_of(fetch: Fetch) -> int:
    """The API version of a Fetch between brokers: one that names the topic by id if it has one, else by name."""
    return BY_NAME if fetch.topic_id == NO_TOPIC_ID else BY_ID


def write_fetch(fetch: Fetch, version: int) -> list[bytes]:
    """Encode the body of a follower's Fetch."""
    limit = _NO_LIMIT if fetch.max_bytes is None else fetch.max_bytes
    partition = _FetchPartition(
        partition=index_of(fetch.tp),
        current_leader_epoch=fetch.leader_epoch,
        fetch_offset=fetch.offset,
        last_fetched_epoch=fetch.last_epoch,
        partition_max_bytes=limit,
    )
    replica = _NO_BROKER if fetch.replica is None else fetch.replica
    id_ = max(fetch.topic_id, _NO_ID)
    request = _FetchRequest(
        replica_id=replica,
        replica_state=_ReplicaState(replica, fetch.incarnation),
        max_wait_ms=fetch.max_wait_ms,
        max_bytes=limit,
        topics=(_FetchTopic(topic=topic_of(fetch.tp), topic_id=id_, partitions=(partition,)),),
        max_records=fetch.max_records,
        incarnation=fetch.incarnation,
    )
    return write_body(_FETCH[version], request)


def read_fetch(correlation: int, version: int, data: bytes, at: int, names: Names) -> Fetch:
    """Decode the body of a follower's Fetch at position `at`; `names` maps topic ids to names."""
    request = read_body(_FETCH[version], _FetchRequest, data, at)
    topic = only(request.topics)
    partition = only(topic.partitions)
    by_id = version == BY_ID
    name = names(TopicId(topic.topic_id)) if by_id else topic.topic
    replica = request.replica_state.replica_id if by_id else request.replica_id
    limit = min(partition.partition_max_bytes, request.max_bytes)
    return Fetch(
        correlation=correlation,
        tp=tp_of(name or "", partition.partition),
        replica=None if replica == _NO_BROKER else BrokerId(replica),
        incarnation=Incarnation(request.replica_state.replica_epoch if by_id else request.incarnation),
        leader_epoch=LeaderEpoch(partition.current_leader_epoch),
        offset=Offset(partition.fetch_offset),
        max_wait_ms=Millis(request.max_wait_ms),
        max_records=request.max_records,
        topic_id=TopicId(topic.topic_id) if by_id else NO_TOPIC_ID,
        last_epoch=LeaderEpoch(partition.last_fetched_epoch),
        max_bytes=None if limit == _NO_LIMIT else limit,
    )


def write_fetch_reply(fetch: Fetch, version: int, reply: FetchReply) -> list[bytes]:
    """Encode the body of a response to a follower's Fetch; batches must be bytes, not text."""
    diverging = reply.diverging
    partition = _PartitionData(
        partition_index=index_of(fetch.tp),
        error_code=reply.error,
        high_watermark=reply.hw,
        last_stable_offset=reply.hw,
        diverging_epoch=_EpochEndOffset() if diverging is None else _EpochEndOffset(diverging.leader_epoch, diverging.end_offset),
        current_leader=_CurrentLeader(leader_epoch=reply.leader_epoch),
        records=tuple(_all_pieces(reply.batches)),
    )
    topic = _FetchedTopic(topic=topic_of(fetch.tp), topic_id=max(fetch.topic_id, _NO_ID), partitions=(partition,))
    return write_body(_FETCH_RESPONSE[version], _FetchResponse(responses=(topic,)))


def _all_pieces(batches: tuple[Batch, ...]) -> Iterator[bytes]:
    for batch in batches:
        yield from pieces(batch)


def read_fetch_reply(fetch: Fetch, version: int, data: bytes, at: int) -> FetchReply:
    """Decode the body of a response to a follower's Fetch, checking the CRC of every batch."""
    response = read_body(_FETCH_RESPONSE[version], _FetchResponse, data, at)
    if response.error_code:
        return FetchReply(fetch.correlation, fetch.tp, error_of(response.error_code), LeaderEpoch(_NO_EPOCH), Offset(0))
    partition = only(only(response.responses).partitions)
    if partition.partition_index != index_of(fetch.tp):
        raise WireError(f"response must be for {fetch.tp}, not for partition {partition.partition_index}")
    diverging = partition.diverging_epoch
    records = partition.records or b""
    assert isinstance(records, bytes)
    return FetchReply(
        correlation=fetch.correlation,
        tp=fetch.tp,
        error=error_of(partition.error_code),
        leader_epoch=LeaderEpoch(partition.current_leader.leader_epoch),
        hw=Offset(partition.high_watermark),
        batches=tuple(batch_of(batch) for batch in split(records)),
        diverging=None
        if diverging == _EpochEndOffset()
        else Diverging(LeaderEpoch(diverging.epoch), Offset(diverging.end_offset)),
    )


# --- OffsetForLeaderEpoch ---------------------------------------------------------------------------------------------------


def write_epoch_end(request: EpochEnd) -> list[bytes]:
    """Encode the body of an OffsetForLeaderEpoch."""
    partition = _EpochPartition(
        partition=index_of(request.tp),
        current_leader_epoch=request.current_leader_epoch,
        leader_epoch=request.leader_epoch,
    )
    topics = (_EpochTopic(topic=topic_of(request.tp), partitions=(partition,)),)
    return write_body(_EPOCH_END, _EpochRequest(replica_id=request.replica, topics=topics, own_topic_id=request.topic_id))


def read_epoch_end(correlation: int, data: bytes, at: int) -> EpochEnd:
    """Decode the body of an OffsetForLeaderEpoch at position `at`."""
    request = read_body(_EPOCH_END, _EpochRequest, data, at)
    topic = only(request.topics)
    partition = only(topic.partitions)
    return EpochEnd(
        correlation=correlation,
        tp=tp_of(topic.topic, partition.partition),
        replica=BrokerId(request.replica_id),
        current_leader_epoch=LeaderEpoch(partition.current_leader_epoch),
        leader_epoch=LeaderEpoch(partition.leader_epoch),
        topic_id=TopicId(request.own_topic_id),
    )


def write_epoch_end_reply(request: EpochEnd, reply: EpochEndReply) -> list[bytes]:
    """Encode the body of an OffsetForLeaderEpoch response."""
    ended = _EpochEnded(
        error_code=reply.error,
        partition=index_of(request.tp),
        leader_epoch=reply.leader_epoch,
        end_offset=_NO_OFFSET if reply.end_offset is None else reply.end_offset,
    )
    topic = _EpochEndedTopic(topic=topic_of(request.tp), partitions=(ended,))
    return write_body(epoch_v4_response.OffsetForLeaderEpochResponse, _EpochResponse((topic,)))


def read_epoch_end_reply(request: EpochEnd, data: bytes, at: int) -> EpochEndReply:
    """Decode the body of an OffsetForLeaderEpoch response at position `at`."""
    response = read_body(epoch_v4_response.OffsetForLeaderEpochResponse, _EpochResponse, data, at)
    topic = only(response.topics)
    ended = only(topic.partitions)
    if tp_of(topic.topic, ended.partition) != request.tp:
        raise WireError(f"response must be for {request.tp}, not for {topic.topic}-{ended.partition}")
    end = None if ended.end_offset == _NO_OFFSET else Offset(ended.end_offset)
    return EpochEndReply(request.correlation, request.tp, error_of(ended.error_code), LeaderEpoch(ended.leader_epoch), end)
