"""Produce 3 to 8: asks the broker machine partition by partition, answers in one response (KIP-98, KIP-467).

Each partition has one record batch. Its header and CRC are checked; records are not decoded. A refused batch never reaches the
machine. With acks=0 there is no response; a refusal closes the connection, so that the client refreshes its metadata (KAFKA-955).
"""

from msgspec import Struct

from reference.errors import ErrorCode
from reference.messages import Produce, ProduceReply
from reference.types import Millis, ProducerId
from server.wire.clients.errors import EdgeError, client_code
from server.wire.clients.exchange import Call, Exchange, HangUpError
from server.wire.clients.names import asked_partition
from server.wire.records import RecordsError, check_produced

_ZSTD = 4
_COMPRESSION = 0x07
_ZSTD_FROM_VERSION = 7
_STORAGE_ERROR_FROM_VERSION = 4


class PartitionData(Struct, frozen=True):
    """One partition of a Produce request, with one record batch."""

    index: int
    records: bytes | None


class TopicData(Struct, frozen=True):
    """One topic of a Produce request."""

    name: str
    partition_data: tuple[PartitionData, ...]


class ProduceRequest(Struct, frozen=True, kw_only=True):
    """The fields of a Produce request."""

    transactional_id: str | None = None
    acks: int
    timeout_ms: int
    topic_data: tuple[TopicData, ...]


class PartitionResponse(Struct, frozen=True, kw_only=True):
    """One partition of a Produce response; `base_offset` is -1 on an error."""

    index: int
    error_code: int
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    error_message: str | None = None


class TopicResponse(Struct, frozen=True):
    """One topic of a Produce response."""

    name: str
    partition_responses: tuple[PartitionResponse, ...]


class ProduceResponse(Struct, frozen=True):
    """A Produce response."""

    responses: tuple[TopicResponse, ...]


def produce(call: Call, request: ProduceRequest) -> Exchange:
    """Answer a Produce request; HangUpError (close it) for a transaction, a repeated partition, a refusal with acks=0."""
    answers: dict[tuple[str, int], PartitionResponse] = {}
    places: set[tuple[str, int]] = set()
    open_: dict[int, tuple[str, int]] = {}
    if request.transactional_id is not None:
        raise HangUpError("transactional_id must be null: transactions are not supported")
    for topic in request.topic_data:
        for partition in topic.partition_data:
            place = (topic.name, partition.index)
            number = call.number()
            question = _produce_or_refusal(call, request, number, topic.name, partition)
            if place in places:
                raise HangUpError("a produce request must not name a partition twice")
            places.add(place)
            if isinstance(question, Produce):
                open_[number] = place
                call.ask(question)
            else:
                answers[place] = question
    if request.acks == 0:
        if answers:
            raise HangUpError(f"a produce with acks=0 was refused: {next(iter(answers.values())).error_message}")
        return None
    while open_:
        reply = yield
        assert isinstance(reply, ProduceReply)
        place = open_.pop(reply.correlation)
        answers[place] = _partition_in_response(call, place[1], reply)
    return ProduceResponse(
        tuple(
            TopicResponse(topic.name, tuple(answers[topic.name, partition.index] for partition in topic.partition_data))
            for topic in request.topic_data
        )
    )


def _produce_or_refusal(
    call: Call, request: ProduceRequest, number: int, topic: str, partition: PartitionData
) -> Produce | PartitionResponse:
    """The Produce for the machine, or the refusal if the batch must not be appended."""
    records = partition.records or b""
    if len(records) > call.facing.batch_bytes_max:
        text = f"{len(records)} bytes are more than a batch may have ({call.facing.batch_bytes_max})"
        return PartitionResponse(index=partition.index, error_code=EdgeError.MESSAGE_TOO_LARGE, error_message=text)
    try:
        header = check_produced(records)
    except RecordsError as error:
        return PartitionResponse(index=partition.index, error_code=error.error, error_message=str(error))
    if header.attributes & _COMPRESSION == _ZSTD and call.version < _ZSTD_FROM_VERSION:
        text = f"zstd comes with Produce {_ZSTD_FROM_VERSION}, this is {call.version} (KIP-110)"
        return PartitionResponse(index=partition.index, error_code=EdgeError.UNSUPPORTED_COMPRESSION_TYPE, error_message=text)
    return Produce(
        number,
        asked_partition(topic, partition.index),
        request.acks,
        records,
        Millis(max(request.timeout_ms, 0)),
        producer_id=ProducerId(header.producer_id),
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
    )


def _partition_in_response(call: Call, index: int, reply: ProduceReply) -> PartitionResponse:
    """A partition of the Produce response."""
    if reply.error is not ErrorCode.NONE:
        error = client_code(reply.error, knows_storage_error=call.version >= _STORAGE_ERROR_FROM_VERSION)
        return PartitionResponse(index=index, error_code=error)
    assert reply.offset is not None
    return PartitionResponse(index=index, error_code=0, base_offset=reply.offset, log_start_offset=0)
