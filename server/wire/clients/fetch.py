"""Fetch 4 to 11 of consumers: a message to the machine for each partition, joined (KIP-74, KIP-227).

First all partitions are asked for what there is. Where that is less than the client waits for, each is asked again, to be
answered as soon as it has more, and the first that has ends the wait: the others are told of as they were. Fetch sessions are
not kept: the id 0 says so, and every request names all of its partitions. What the machine parks for a client that has its
answer already is answered to nobody, and replaced when the client asks again.
"""

from msgspec import Struct

from reference.errors import ErrorCode
from reference.messages import Batch, Fetch, FetchReply
from reference.sealed import count, size
from reference.types import NO_INCARNATION, LeaderEpoch, Millis, Offset, TopicPartition
from server.wire.clients.errors import EdgeError, told
from server.wire.clients.exchange import Call, Exchange, HangUpError
from server.wire.clients.names import asked_partition
from server.wire.records import prefix

_RECORDS_MAX = 1 << 31  # it is bytes that are counted
_PREFIX_BYTES = 16
_STORAGE_ERROR_FROM_VERSION = 6
_READ_COMMITTED = 1


class FetchPartition(Struct, frozen=True, kw_only=True):
    """Of one partition."""

    partition: int
    current_leader_epoch: int = -1
    fetch_offset: int
    partition_max_bytes: int


class FetchTopic(Struct, frozen=True):
    """Of one topic."""

    topic: str
    partitions: tuple[FetchPartition, ...]


class FetchRequest(Struct, frozen=True, kw_only=True):
    """What is asked."""

    replica_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int = 0
    topics: tuple[FetchTopic, ...]


class Aborted(Struct, frozen=True):
    """An aborted transaction. There are none."""

    producer_id: int
    first_offset: int


class PartitionData(Struct, frozen=True, kw_only=True):
    """Of one partition."""

    partition_index: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted_transactions: tuple[Aborted, ...] | None
    records: tuple[bytes | memoryview, ...]


class TopicResponse(Struct, frozen=True):
    """Of one topic."""

    topic: str
    partitions: tuple[PartitionData, ...]


class FetchResponse(Struct, frozen=True):
    """What is answered."""

    error_code: int
    responses: tuple[TopicResponse, ...]
    session_id: int = 0


class _Read:
    """What is known of one partition so far."""

    __slots__ = ("asked", "batches", "error", "hw", "is_open", "over", "start", "tp")

    def __init__(self, tp: TopicPartition, asked: FetchPartition) -> None:
        self.tp = tp
        self.asked = asked
        self.start = asked.fetch_offset  # of what is still to be read
        self.batches: list[Batch] = []
        self.error = ErrorCode.OFFSET_OUT_OF_RANGE if asked.fetch_offset < 0 else ErrorCode.NONE
        self.hw = -1
        self.is_open = False  # it is being asked for
        self.over = False  # its time is up, or nothing more can be said of it

    def take(self, reply: FetchReply) -> None:
        self.hw = reply.hw
        self.error = reply.error
        self.batches += reply.batches
        self.over = reply.error is not ErrorCode.NONE or not reply.batches
        if reply.batches:
            last = reply.batches[-1]
            self.start = last.base_offset + count(last.values)

    def bytes(self) -> int:
        return sum(size(batch.values) for batch in self.batches)


def fetch(call: Call, request: FetchRequest) -> Exchange:
    """The exchange."""
    if request.replica_id >= 0:
        raise HangUpError(f"broker {request.replica_id} fetches where clients do")
    if request.session_id != 0:
        return FetchResponse(EdgeError.FETCH_SESSION_ID_NOT_FOUND, ())
    reads = [
        (topic.topic, [_Read(asked_partition(topic.topic, partition.partition), partition) for partition in topic.partitions])
        for topic in request.topics
    ]
    all_ = [read for _, of_topic in reads for read in of_topic]
    if len({read.tp for read in all_}) < len(all_):
        raise HangUpError("a partition stands twice in a fetch request")
    deadline_ms = call.now_ms + max(request.max_wait_ms, 0)
    # One partition needs no round of its own to be looked at.
    wait_ms = request.max_wait_ms if len(all_) == 1 else 0
    open_: dict[int, _Read] = {}
    for read in all_:
        if read.error is ErrorCode.NONE:
            _ask(call, open_, read, wait_ms)
    while open_:
        reply = yield
        assert isinstance(reply, FetchReply)
        read = open_.pop(reply.correlation)
        read.take(reply)
        read.is_open = False
        if wait_ms == 0 and open_:
            continue  # the first round is heard to its end
        if _is_enough(request, all_):
            break
        left_ms = deadline_ms - call.now_ms
        for read in all_:
            if left_ms > 0 and not read.is_open and not (read.over and wait_ms):
                _ask(call, open_, read, left_ms)
        wait_ms = max(left_ms, 1)
    return _response(call, request, reads)


def _ask(call: Call, open_: dict[int, _Read], read: _Read, wait_ms: int) -> None:
    number = call.number()
    open_[number] = read
    read.is_open = True
    call.ask(
        Fetch(
            number,
            read.tp,
            None,
            NO_INCARNATION,
            LeaderEpoch(read.asked.current_leader_epoch),
            Offset(read.start),
            Millis(max(wait_ms, 0)),
            _RECORDS_MAX,
            max_bytes=min(max(read.asked.partition_max_bytes, 0), call.facing.response_bytes_max),
        )
    )


def _is_enough(request: FetchRequest, reads: list[_Read]) -> bool:
    if any(read.error is not ErrorCode.NONE for read in reads):
        return True
    return sum(read.bytes() for read in reads) >= max(request.min_bytes, 0)


def _response(call: Call, request: FetchRequest, reads: list[tuple[str, list[_Read]]]) -> FetchResponse:
    """KIP-74: partitions in the order of the request, until the bytes are used up; the first batch of all comes in any case."""
    left = min(max(request.max_bytes, 0), call.facing.response_bytes_max)
    is_first = True
    topics = []
    for topic, of_topic in reads:
        rows = []
        for read in of_topic:
            pieces: list[bytes | memoryview] = []
            of_partition = read.asked.partition_max_bytes
            for batch in read.batches:
                taken = size(batch.values)
                if not is_first and taken > min(left, of_partition):
                    break
                left, of_partition, is_first = left - taken, of_partition - taken, False
                assert isinstance(batch.values, bytes)
                pieces += (prefix(batch), memoryview(batch.values)[_PREFIX_BYTES:])
            rows.append(_row(call, request, read, tuple(pieces)))
        topics.append(TopicResponse(topic, tuple(rows)))
    return FetchResponse(0, tuple(topics))


def _row(call: Call, request: FetchRequest, read: _Read, records: tuple[bytes | memoryview, ...]) -> PartitionData:
    return PartitionData(
        partition_index=read.asked.partition,
        error_code=told(read.error, knows_storage_error=call.version >= _STORAGE_ERROR_FROM_VERSION),
        high_watermark=read.hw,
        last_stable_offset=read.hw,
        log_start_offset=0 if read.error is ErrorCode.NONE else -1,
        aborted_transactions=() if request.isolation_level == _READ_COMMITTED else None,
        records=records,
    )
