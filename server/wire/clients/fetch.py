"""Fetch 4 to 11 of consumers: asks the broker machine partition by partition, answers in one response (KIP-74, KIP-227).

The first round fetches from all partitions without waiting. If that yields fewer than `min_bytes`, a second fetch of each
partition waits in the machine for more records. The wait ends when the partitions together have `min_bytes`, one has an error, or
the time is up; the others are answered with what they have by then. There are no fetch sessions: the session id is 0 and every
request names all its partitions. Fetches that are still parked in the machine when the client gets its response are ignored, and
replaced by the client's next fetch.
"""

from msgspec import Struct

from reference.errors import ErrorCode
from reference.messages import Batch, Fetch, FetchReply
from reference.sealed import count, size
from reference.types import NO_INCARNATION, LeaderEpoch, Millis, Offset, TopicPartition
from server.wire.clients.errors import EdgeError, client_code
from server.wire.clients.exchange import Call, Exchange, HangUpError
from server.wire.clients.names import asked_partition
from server.wire.records import prefix

_RECORDS_MAX = 1 << 31  # no limit: clients limit bytes, not records
_PREFIX_BYTES = 16
_STORAGE_ERROR_FROM_VERSION = 6
_READ_COMMITTED = 1


class FetchPartition(Struct, frozen=True, kw_only=True):
    """One partition of a Fetch request; `current_leader_epoch` is -1 if unknown."""

    partition: int
    current_leader_epoch: int = -1
    fetch_offset: int
    partition_max_bytes: int


class FetchTopic(Struct, frozen=True):
    """One topic of a Fetch request."""

    topic: str
    partitions: tuple[FetchPartition, ...]


class FetchRequest(Struct, frozen=True, kw_only=True):
    """The fields of a Fetch request that the broker reads."""

    replica_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int = 0
    topics: tuple[FetchTopic, ...]


class Aborted(Struct, frozen=True):
    """An aborted transaction in a Fetch response; never sent, because transactions are not supported."""

    producer_id: int
    first_offset: int


class PartitionData(Struct, frozen=True, kw_only=True):
    """One partition of a Fetch response; the last stable offset is the high watermark."""

    partition_index: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted_transactions: tuple[Aborted, ...] | None
    records: tuple[bytes | memoryview, ...]


class TopicResponse(Struct, frozen=True):
    """One topic of a Fetch response."""

    topic: str
    partitions: tuple[PartitionData, ...]


class FetchResponse(Struct, frozen=True):
    """The fields of a Fetch response that the broker sets."""

    error_code: int
    responses: tuple[TopicResponse, ...]
    session_id: int = 0


class _Read:
    """The state of one partition while a client's Fetch request is being answered."""

    __slots__ = ("asked", "batches", "error", "hw", "is_open", "over", "start", "tp")

    def __init__(self, tp: TopicPartition, fetch_partition: FetchPartition) -> None:
        self.tp = tp
        self.asked = fetch_partition
        self.start = fetch_partition.fetch_offset  # the next offset to read
        self.batches: list[Batch] = []
        self.error = ErrorCode.OFFSET_OUT_OF_RANGE if fetch_partition.fetch_offset < 0 else ErrorCode.NONE
        self.hw = -1
        self.is_open = False  # a Fetch to the machine is unanswered
        self.over = False  # the last answer had an error or no records

    def take(self, reply: FetchReply) -> None:
        """Add the batches of a reply; the read is over with an error or an empty reply."""
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
    """Answer a Fetch request; HangUpError (close the connection) for a replica id or a repeated partition."""
    if request.replica_id >= 0:
        raise HangUpError(f"broker {request.replica_id} fetches at a client listener")
    if request.session_id != 0:
        return FetchResponse(EdgeError.FETCH_SESSION_ID_NOT_FOUND, ())
    reads = [
        (topic.topic, [_Read(asked_partition(topic.topic, partition.partition), partition) for partition in topic.partitions])
        for topic in request.topics
    ]
    all_ = [read for _, of_topic in reads for read in of_topic]
    if len({read.tp for read in all_}) < len(all_):
        raise HangUpError("a fetch request must not name a partition twice")
    deadline_ms = call.now_ms + max(request.max_wait_ms, 0)
    # With a single partition the first fetch may wait at once.
    wait_ms = request.max_wait_ms if len(all_) == 1 else 0
    open_: dict[int, _Read] = {}
    for read in all_:
        if read.error is ErrorCode.NONE:
            _ask_for_records(call, open_, read, wait_ms)
    while open_:
        reply = yield
        assert isinstance(reply, FetchReply)
        read = open_.pop(reply.correlation)
        read.take(reply)
        read.is_open = False
        if wait_ms == 0 and open_:
            continue  # wait for all answers of the first round
        if _may_answer_now(request, all_):
            break
        left_ms = deadline_ms - call.now_ms
        for read in all_:
            if left_ms > 0 and not read.is_open and not (read.over and wait_ms):
                _ask_for_records(call, open_, read, left_ms)
        wait_ms = max(left_ms, 1)
    return _response_within_limit(call, request, reads)


def _ask_for_records(call: Call, open_: dict[int, _Read], read: _Read, wait_ms: int) -> None:
    """Ask the machine for the next records of a partition."""
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


def _may_answer_now(request: FetchRequest, reads: list[_Read]) -> bool:
    """Whether a partition has an error, or the reads together have the bytes that the request waits for."""
    if any(read.error is not ErrorCode.NONE for read in reads):
        return True
    return sum(read.bytes() for read in reads) >= max(request.min_bytes, 0)


def _response_within_limit(call: Call, request: FetchRequest, reads: list[tuple[str, list[_Read]]]) -> FetchResponse:
    """KIP-74: fill a Fetch response in the request's order up to its byte limit; the first batch is sent even if larger."""
    bytes_left = min(max(request.max_bytes, 0), call.facing.response_bytes_max)
    is_first = True
    topics = []
    for topic, of_topic in reads:
        rows = []
        for read in of_topic:
            pieces: list[bytes | memoryview] = []
            of_partition = read.asked.partition_max_bytes
            for batch in read.batches:
                batch_bytes = size(batch.values)
                if not is_first and batch_bytes > min(bytes_left, of_partition):
                    break
                bytes_left, of_partition, is_first = bytes_left - batch_bytes, of_partition - batch_bytes, False
                assert isinstance(batch.values, bytes)
                pieces += (prefix(batch), memoryview(batch.values)[_PREFIX_BYTES:])
            rows.append(_partition_data(call, request, read, tuple(pieces)))
        topics.append(TopicResponse(topic, tuple(rows)))
    return FetchResponse(0, tuple(topics))


def _partition_data(call: Call, request: FetchRequest, read: _Read, records: tuple[bytes | memoryview, ...]) -> PartitionData:
    """One partition of the response."""
    return PartitionData(
        partition_index=read.asked.partition,
        error_code=client_code(read.error, knows_storage_error=call.version >= _STORAGE_ERROR_FROM_VERSION),
        high_watermark=read.hw,
        last_stable_offset=read.hw,
        log_start_offset=0 if read.error is ErrorCode.NONE else -1,
        aborted_transactions=() if request.isolation_level == _READ_COMMITTED else None,
        records=records,
    )
