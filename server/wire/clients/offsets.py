"""ListOffsets 1 to 5 and OffsetForLeaderEpoch 2 to 3: start and end of a log, and the end of a leader epoch (KIP-79, KIP-320)."""

from msgspec import Struct

from reference.errors import ErrorCode
from reference.messages import EARLIEST, LATEST, EpochEnd, EpochEndReply, ListOffsets, ListOffsetsReply
from reference.types import BrokerId, LeaderEpoch
from server.wire.clients.errors import EdgeError, client_code
from server.wire.clients.exchange import Call, Exchange
from server.wire.clients.names import asked_partition

_NO_REPLICA = BrokerId(-1)


class ListOffsetsPartition(Struct, frozen=True, kw_only=True):
    """One partition of a ListOffsets request; `timestamp` must be EARLIEST or LATEST."""

    partition_index: int
    current_leader_epoch: int = -1
    timestamp: int


class ListOffsetsTopic(Struct, frozen=True):
    """One topic of a ListOffsets request."""

    name: str
    partitions: tuple[ListOffsetsPartition, ...]


class ListOffsetsRequest(Struct, frozen=True):
    """The fields of a ListOffsets request that the broker reads."""

    topics: tuple[ListOffsetsTopic, ...]


class ListedPartition(Struct, frozen=True, kw_only=True):
    """The result of one partition in a ListOffsets response; -1 for unknown values."""

    partition_index: int
    error_code: int
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1


class ListedTopic(Struct, frozen=True):
    """The results of one topic in a ListOffsets response."""

    name: str
    partitions: tuple[ListedPartition, ...]


class ListOffsetsResponse(Struct, frozen=True):
    """The fields of a ListOffsets response that the broker sets."""

    topics: tuple[ListedTopic, ...]


def list_offsets(call: Call, request: ListOffsetsRequest) -> Exchange:
    """Answer ListOffsets; other timestamps than EARLIEST and LATEST are refused, because logs have no time index."""
    answers: dict[tuple[int, int], ListedPartition] = {}
    open_: dict[int, tuple[int, int]] = {}
    for t, topic in enumerate(request.topics):
        for p, partition in enumerate(topic.partitions):
            if partition.timestamp not in (LATEST, EARLIEST):
                refusal = ListedPartition(
                    partition_index=partition.partition_index, error_code=EdgeError.UNSUPPORTED_FOR_MESSAGE_FORMAT
                )
                answers[t, p] = refusal
                continue
            number = call.number()
            open_[number] = (t, p)
            tp = asked_partition(topic.name, partition.partition_index)
            call.ask(ListOffsets(number, tp, LeaderEpoch(partition.current_leader_epoch), timestamp=partition.timestamp))
    while open_:
        reply = yield
        assert isinstance(reply, ListOffsetsReply)
        t, p = open_.pop(reply.correlation)
        answers[t, p] = _listed_partition(request.topics[t].partitions[p].partition_index, reply)
    return ListOffsetsResponse(
        tuple(
            ListedTopic(topic.name, tuple(answers[t, p] for p in range(len(topic.partitions))))
            for t, topic in enumerate(request.topics)
        )
    )


def _listed_partition(index: int, reply: ListOffsetsReply) -> ListedPartition:
    """A partition of the ListOffsets response."""
    if reply.error is not ErrorCode.NONE:
        return ListedPartition(partition_index=index, error_code=client_code(reply.error))
    assert reply.offset is not None
    epoch = -1 if reply.leader_epoch is None else reply.leader_epoch
    return ListedPartition(partition_index=index, error_code=0, offset=reply.offset, leader_epoch=epoch)


# --- OffsetForLeaderEpoch --------------------------------------------------------------------------------------------------


class EpochPartition(Struct, frozen=True, kw_only=True):
    """One partition of an OffsetForLeaderEpoch request."""

    partition: int
    current_leader_epoch: int = -1
    leader_epoch: int


class EpochTopic(Struct, frozen=True):
    """One topic of an OffsetForLeaderEpoch request."""

    topic: str
    partitions: tuple[EpochPartition, ...]


class EpochRequest(Struct, frozen=True, kw_only=True):
    """An OffsetForLeaderEpoch request; its replica id is not read, because only consumers use this listener."""

    topics: tuple[EpochTopic, ...]


class EpochEndOffset(Struct, frozen=True, kw_only=True):
    """The result of one partition in an OffsetForLeaderEpoch response; -1 if the leader does not know the epoch."""

    error_code: int
    partition: int
    leader_epoch: int = -1
    end_offset: int = -1


class EpochTopicResult(Struct, frozen=True):
    """The results of one topic in an OffsetForLeaderEpoch response."""

    topic: str
    partitions: tuple[EpochEndOffset, ...]


class EpochResponse(Struct, frozen=True):
    """The fields of an OffsetForLeaderEpoch response that the broker sets."""

    topics: tuple[EpochTopicResult, ...]


def epoch_ends(call: Call, request: EpochRequest) -> Exchange:
    """Answer OffsetForLeaderEpoch: ask the machine for each partition, and wait for all replies."""
    answers: dict[tuple[int, int], EpochEndOffset] = {}
    open_: dict[int, tuple[int, int]] = {}
    for t, topic in enumerate(request.topics):
        for p, partition in enumerate(topic.partitions):
            number = call.number()
            open_[number] = (t, p)
            tp = asked_partition(topic.topic, partition.partition)
            current, epoch = LeaderEpoch(partition.current_leader_epoch), LeaderEpoch(partition.leader_epoch)
            call.ask(EpochEnd(number, tp, _NO_REPLICA, current, epoch))
    while open_:
        reply = yield
        assert isinstance(reply, EpochEndReply)
        t, p = open_.pop(reply.correlation)
        answers[t, p] = _epoch_end_in_response(request.topics[t].partitions[p].partition, reply)
    return EpochResponse(
        tuple(
            EpochTopicResult(topic.topic, tuple(answers[t, p] for p in range(len(topic.partitions))))
            for t, topic in enumerate(request.topics)
        )
    )


def _epoch_end_in_response(index: int, reply: EpochEndReply) -> EpochEndOffset:
    """A partition of the OffsetForLeaderEpoch response."""
    if reply.error is not ErrorCode.NONE or reply.end_offset is None:
        return EpochEndOffset(error_code=client_code(reply.error), partition=index)
    return EpochEndOffset(error_code=0, partition=index, leader_epoch=reply.leader_epoch, end_offset=reply.end_offset)
