"""Each client API against a machine: one message per partition, one joined response, Kafka's error codes."""

import struct
from collections.abc import Callable

import pytest
from crc32c import crc32c
from msgspec import Struct
from msgspec.structs import replace

from reference.errors import ErrorCode
from reference.messages import (
    Batch,
    EpochEnd,
    Fetch,
    FetchReply,
    InitProducerIdReply,
    ListOffsetsReply,
    MetadataReply,
    PartitionState,
    Produce,
    ProduceReply,
)
from reference.types import NO_EPOCH, LeaderEpoch, Millis, Offset, ProducerId, TopicPartition
from server.wire.clients import fetch, metadata, offsets, produce
from server.wire.clients.apis import ApiKey
from server.wire.clients.exchange import Ask, Heard
from server.wire.framing import WireError
from server.wire.records import sealed, split
from tests.server.wire.talking import FACING, ME, ORDERS, OTHER, SEALED, Connection, cluster, state

ONE = TopicPartition("orders-1")
SECOND = Millis(1000)
LEADING = cluster(state(ORDERS), state(ONE))


def failing(error: ErrorCode) -> Callable[[Ask], Heard]:
    """A machine that answers this error for every partition."""

    def answer(ask: Ask) -> Heard:
        match ask:
            case Produce(n, tp=tp):
                return ProduceReply(n, tp, error)
            case Fetch(n, tp=tp):
                return FetchReply(n, tp, error, NO_EPOCH, Offset(0))
            case _:
                return LEADING(ask)

    return answer


# --- Produce ---------------------------------------------------------------------------------------------------------------


def to_orders(*records: bytes | None, acks: int = -1) -> produce.ProduceRequest:
    partitions = tuple(produce.PartitionData(index, batch) for index, batch in enumerate(records))
    return produce.ProduceRequest(acks=acks, timeout_ms=1500, topic_data=(produce.TopicData("orders", partitions),))


def produced(connection: Connection, request: produce.ProduceRequest, version: int = 8) -> list[tuple[int, int]]:
    """Send the request; returns error and base offset of each partition."""
    answer = connection.call(ApiKey.PRODUCE, version, request, produce.ProduceResponse)
    return [(p.error_code, p.base_offset) for topic in answer.responses for p in topic.partition_responses]


def test_produce_sends_one_message_per_partition() -> None:
    connection = Connection(LEADING)
    batch = sealed(["x"], producer_id=ProducerId(5), producer_epoch=2, base_sequence=9)
    connection.send(ApiKey.PRODUCE, 8, to_orders(SEALED, batch))

    assert connection.asks() == [
        Produce(1, ORDERS, -1, SEALED, Millis(1500), producer_epoch=-1),
        Produce(2, ONE, -1, batch, Millis(1500), producer_id=ProducerId(5), producer_epoch=2, base_sequence=9),
    ]
    connection.hear(ProduceReply(2, ONE, ErrorCode.NONE, Offset(7), LeaderEpoch(1)))
    assert connection.frames() == []
    connection.hear(ProduceReply(1, ORDERS, ErrorCode.NOT_ENOUGH_REPLICAS))
    answer = connection.response(ApiKey.PRODUCE, 8, produce.ProduceResponse)
    rows = answer.responses[0].partition_responses
    assert [(row.index, row.error_code, row.base_offset) for row in rows] == [(0, 19, -1), (1, 0, 7)]


def batch_with_damage(batch: bytes, at: int, layout: str, value: int) -> bytes:
    """The batch with another number at `at` in the header, and a matching CRC."""
    data = bytearray(batch)
    struct.pack_into(layout, data, at, value)
    struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    return bytes(data)


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (SEALED[:-1] + b"?", 2),  # wrong CRC
        (SEALED[:40], 2),
        (None, 2),
        (SEALED + SEALED, 87),  # two batches (KIP-98)
        (batch_with_damage(SEALED, 16, ">b", 1), 87),  # format v1
        (batch_with_damage(SEALED, 21, ">h", 0x10), 87),  # transactional
        (batch_with_damage(SEALED, 21, ">h", 0x20), 87),  # a control batch
        (batch_with_damage(SEALED, 23, ">i", 7), 87),  # more offsets than records
        (batch_with_damage(SEALED, 57, ">i", 0), 87),
        (sealed(["x" * 2000]), 10),
    ],
)
def test_invalid_batch_never_reaches_the_machine(records: bytes | None, code: int) -> None:
    connection = Connection(LEADING)
    connection.send(ApiKey.PRODUCE, 8, to_orders(records))

    assert connection.asks() == []
    answer = connection.response(ApiKey.PRODUCE, 8, produce.ProduceResponse)
    row = answer.responses[0].partition_responses[0]
    assert (row.error_code, row.base_offset) == (code, -1)
    assert row.error_message


def test_zstd_needs_produce_version_7() -> None:
    """KIP-110: older consumers cannot read zstd."""
    zstd = batch_with_damage(SEALED, 21, ">h", 4)

    assert produced(Connection(LEADING), to_orders(zstd), 6) == [(76, -1)]
    assert produced(Connection(LEADING), to_orders(zstd), 7) == [(0, 10)]


def test_produce_with_acks_0_has_no_response() -> None:
    connection = Connection(LEADING)
    connection.send(ApiKey.PRODUCE, 8, to_orders(SEALED, acks=0))

    assert [type(ask) for ask in connection.asks()] == [Produce]
    assert connection.frames() == []
    assert not connection.session.is_full


@pytest.mark.parametrize(
    "request_",
    [
        to_orders(SEALED[:-1] + b"?", acks=0),  # only a closed connection informs the client (KAFKA-955)
        replace(to_orders(SEALED), transactional_id="t"),
        replace(to_orders(SEALED), topic_data=to_orders(SEALED).topic_data * 2),
    ],
)
def test_produce_that_cannot_be_answered_closes_the_connection(request_: produce.ProduceRequest) -> None:
    connection = Connection(LEADING)
    with pytest.raises(WireError):
        connection.send(ApiKey.PRODUCE, 8, request_)

    assert connection.asks() == []


@pytest.mark.parametrize(
    ("error", "version", "code"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, 8, 20),
        (ErrorCode.BROKER_NOT_AVAILABLE, 8, 6),  # fenced: librdkafka gives up on 8
        (ErrorCode.INVALID_INCARNATION_ID, 8, 77),  # Kafka has no error 1000
        (ErrorCode.UNKNOWN_TOPIC_ID, 8, 3),
        (ErrorCode.KAFKA_STORAGE_ERROR, 8, 56),
        (ErrorCode.KAFKA_STORAGE_ERROR, 3, 6),  # KIP-112 came with version 4
    ],
)
def test_machine_errors_become_kafkas_error_codes(error: ErrorCode, version: int, code: int) -> None:
    assert produced(Connection(failing(error)), to_orders(SEALED), version) == [(code, -1)]


# --- Fetch -----------------------------------------------------------------------------------------------------------------


def from_orders(
    *at: int, max_wait_ms: int = 500, min_bytes: int = 1, max_bytes: int = 5000, each: int = 5000
) -> fetch.FetchRequest:
    partitions = tuple(
        fetch.FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=each) for index, offset in enumerate(at)
    )
    return fetch.FetchRequest(
        replica_id=-1,
        max_wait_ms=500,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=0,
        topics=(fetch.FetchTopic("orders", partitions),),
    )


def reply(ask: Ask, *batches: Batch, hw: int = 9, error: ErrorCode = ErrorCode.NONE) -> FetchReply:
    assert isinstance(ask, Fetch)
    return FetchReply(ask.correlation, ask.tp, error, LeaderEpoch(4), Offset(hw), batches)


def batch(offset: int, values: int = 1) -> Batch:
    return Batch(Offset(offset), LeaderEpoch(4), sealed(["v"] * values))


class Answer(Struct, frozen=True):
    """The fields of a fetch response that the tests read."""

    class Topic(Struct, frozen=True):
        """One topic."""

        class Partition(Struct, frozen=True):
            """One partition."""

            partition_index: int
            error_code: int
            high_watermark: int
            records: bytes | None

        topic: str
        partitions: tuple[Partition, ...]

    responses: tuple[Topic, ...]
    error_code: int = 0
    session_id: int = 0


def partitions_fetched(connection: Connection, version: int = 11) -> list[tuple[int, int, list[int]]]:
    """Error, high watermark and base offsets of the batches, for each partition."""
    answer = connection.response(ApiKey.FETCH, version, Answer)
    assert (answer.error_code, answer.session_id) == (0, 0)
    return [
        (p.error_code, p.high_watermark, [int.from_bytes(b[:8], "big") for b in split(p.records or b"")])
        for topic in answer.responses
        for p in topic.partitions
    ]


def test_client_fetch_ends_once_one_partition_has_records() -> None:
    connection = Connection(LEADING)
    connection.send(ApiKey.FETCH, 11, from_orders(9, 3))
    first, second = connection.asks()
    assert [ask.max_wait_ms for ask in (first, second) if isinstance(ask, Fetch)] == [0, 0]
    connection.hear(reply(second, batch(3), batch(4)))
    assert connection.frames() == []
    connection.hear(reply(first))

    assert connection.asks() == []
    assert partitions_fetched(connection) == [(0, 9, []), (0, 9, [3, 4])]


def test_fetch_waits_for_the_first_records() -> None:
    connection = Connection(LEADING)
    connection.send(ApiKey.FETCH, 11, from_orders(9, 9))
    for ask in connection.asks():
        connection.hear(reply(ask))
    connection.now_ms = 100
    first, second = connection.asks()
    assert [ask.max_wait_ms for ask in (first, second) if isinstance(ask, Fetch)] == [500, 500]
    assert connection.frames() == []
    connection.hear(reply(second, batch(9), hw=10))

    assert partitions_fetched(connection) == [(0, 9, []), (0, 10, [9])]
    connection.hear(reply(first, batch(9)))  # too late: ignored
    assert connection.frames() == []


def test_empty_fetch_ends_after_max_wait() -> None:
    connection = Connection(LEADING)
    connection.send(ApiKey.FETCH, 11, from_orders(9))
    (ask,) = connection.asks()
    assert isinstance(ask, Fetch)
    assert ask.max_wait_ms == 500
    connection.now_ms = 501
    connection.hear(reply(ask))

    assert connection.asks() == []
    assert partitions_fetched(connection) == [(0, 9, [])]


def test_fetch_waits_for_min_bytes() -> None:
    connection = Connection(LEADING)
    size = len(sealed(["v"]))
    connection.send(ApiKey.FETCH, 11, from_orders(3, min_bytes=2 * size))
    (ask,) = connection.asks()
    connection.now_ms = 200
    connection.hear(reply(ask, batch(3)))
    (again,) = connection.asks()
    assert isinstance(again, Fetch)
    assert (again.offset, again.max_wait_ms) == (4, 300)
    connection.hear(reply(again, batch(4)))

    assert partitions_fetched(connection) == [(0, 9, [3, 4])]


def test_error_ends_a_fetch_at_once() -> None:
    connection = Connection(LEADING)
    connection.send(ApiKey.FETCH, 11, from_orders(9, 9))
    first, second = connection.asks()
    connection.hear(reply(first))
    connection.hear(reply(second, error=ErrorCode.NOT_LEADER_OR_FOLLOWER))

    assert partitions_fetched(connection) == [(0, 9, []), (6, 9, [])]


def test_fetch_response_is_limited_except_for_its_first_batch() -> None:
    """KIP-74: the first batch is sent even above all limits; otherwise the consumer could never read on."""
    size = len(sealed(["v"]))
    for max_bytes, each, expected in [
        (1, 5000, [[3], [], []]),
        (2 * size, 5000, [[3, 4], [], []]),
        (5000, size, [[3], [3], [3]]),
        (3 * size, 2 * size, [[3, 4], [3], []]),
    ]:
        connection = Connection(LEADING)
        connection.send(ApiKey.FETCH, 11, from_orders(3, 3, 3, max_bytes=max_bytes, each=each))
        for ask in connection.asks():
            connection.hear(reply(ask, batch(3), batch(4)))
        assert [batches for _, _, batches in partitions_fetched(connection)] == expected


def test_fetched_batch_has_the_brokers_offset_and_epoch() -> None:
    connection = Connection(LEADING)
    connection.send(ApiKey.FETCH, 4, from_orders(1000))
    (ask,) = connection.asks()
    connection.hear(reply(ask, Batch(Offset(1000), LeaderEpoch(6), SEALED)))
    answer = connection.response(ApiKey.FETCH, 4, Answer)

    (records,) = split(answer.responses[0].partitions[0].records or b"")
    assert records[:8] == (1000).to_bytes(8, "big")
    assert records[12:16] == (6).to_bytes(4, "big")
    assert records[16:] == SEALED[16:]


def test_negative_offset_and_partition_are_refused() -> None:
    """Topic `t` with index -1 must not become partition 1 of a topic `t-`."""
    connection = Connection(LEADING)
    request = from_orders(-5)
    connection.send(ApiKey.FETCH, 11, request)
    assert partitions_fetched(connection) == [(1, -1, [])]
    below = replace(request.topics[0].partitions[0], partition=-1, fetch_offset=0)
    connection.send(ApiKey.FETCH, 11, replace(request, topics=(fetch.FetchTopic("orders", (below,)),)))

    (ask,) = connection.asks()
    assert isinstance(ask, Fetch)
    assert ask.tp == ""


def test_too_many_partitions_close_the_connection() -> None:
    """Each partition is a message to the machine, which handles nothing else meanwhile."""
    many = tuple(fetch.FetchPartition(partition=n, fetch_offset=0, partition_max_bytes=1) for n in range(10_001))
    wide = Connection(LEADING, request_bytes_max=1_000_000)
    with pytest.raises(WireError, match="more than 10000 partitions"):
        wide.send(ApiKey.FETCH, 11, replace(from_orders(0), topics=(fetch.FetchTopic("orders", many),)))

    assert wide.asks() == []


def test_fetch_refuses_sessions_and_followers() -> None:
    answer = Connection(LEADING).call(ApiKey.FETCH, 11, replace(from_orders(0), session_id=7), Answer)
    assert answer == Answer((), 70)
    with pytest.raises(WireError):
        Connection(LEADING).send(ApiKey.FETCH, 11, replace(from_orders(0), replica_id=2))


# --- ListOffsets, OffsetForLeaderEpoch, InitProducerId ---------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5])
def test_list_offsets_serves_both_ends_but_not_timestamps(version: int) -> None:
    list_offsets_partitions = tuple(
        offsets.ListOffsetsPartition(partition_index=index, timestamp=timestamp) for index, timestamp in enumerate((-1, -2, 7))
    )
    request = offsets.ListOffsetsRequest((offsets.ListOffsetsTopic("orders", list_offsets_partitions),))
    answer = Connection(LEADING).call(ApiKey.LIST_OFFSETS, version, request, offsets.ListOffsetsResponse)

    rows = answer.topics[0].partitions
    assert [(row.error_code, row.offset) for row in rows] == [(0, 2), (0, 2), (43, -1)]
    assert rows[0].leader_epoch == (4 if version >= 4 else -1)


def test_list_offsets_passes_on_offset_not_available() -> None:
    """KIP-207: a new leader does not know its high watermark yet."""
    request = offsets.ListOffsetsRequest(
        (offsets.ListOffsetsTopic("orders", (offsets.ListOffsetsPartition(partition_index=0, timestamp=-1),)),)
    )
    connection = Connection(lambda ask: ListOffsetsReply(ask.correlation, ORDERS, ErrorCode.OFFSET_NOT_AVAILABLE))
    answer = connection.call(ApiKey.LIST_OFFSETS, 5, request, offsets.ListOffsetsResponse)

    assert [(row.error_code, row.offset) for row in answer.topics[0].partitions] == [(78, -1)]


@pytest.mark.parametrize("version", [2, 3])
def test_epoch_end_is_served_to_consumers(version: int) -> None:
    """KIP-320: consumers use it to detect that records they read were truncated."""
    partition = offsets.EpochPartition(partition=0, current_leader_epoch=4, leader_epoch=3)
    request = offsets.EpochRequest(topics=(offsets.EpochTopic("orders", (partition,)),))
    connection = Connection(LEADING)
    connection.send(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, request)
    (ask,) = connection.asks()
    assert isinstance(ask, EpochEnd)
    assert (ask.tp, ask.current_leader_epoch, ask.leader_epoch) == (ORDERS, 4, 3)
    connection.hear(LEADING(ask))
    answer = connection.response(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, offsets.EpochResponse)

    row = answer.topics[0].partitions[0]
    assert (row.error_code, row.leader_epoch, row.end_offset) == (0, 3, 2)


def test_init_producer_id_returns_an_id_or_a_retriable_error() -> None:
    request = metadata.InitProducerIdRequest(None)
    none_yet = Connection(lambda ask: InitProducerIdReply(ask.correlation, ErrorCode.BROKER_NOT_AVAILABLE))

    reply = Connection(LEADING).call(ApiKey.INIT_PRODUCER_ID, 1, request, metadata.InitProducerIdResponse)
    refusal = none_yet.call(ApiKey.INIT_PRODUCER_ID, 1, request, metadata.InitProducerIdResponse)
    transactional = Connection(LEADING).call(
        ApiKey.INIT_PRODUCER_ID, 1, metadata.InitProducerIdRequest("t"), metadata.InitProducerIdResponse
    )

    assert reply == metadata.InitProducerIdResponse(0, 77, 0)
    assert (refusal.error_code, transactional.error_code) == (15, 42)


# --- Metadata --------------------------------------------------------------------------------------------------------------


def metadata_told(*states: PartitionState, version: int = 8, names: tuple[str, ...] | None = None) -> metadata.MetadataResponse:
    topics_ = None if names is None else tuple(metadata.MetadataRequestTopic(name) for name in names)
    connection = Connection(cluster(*states))
    return connection.call(ApiKey.METADATA, version, metadata.MetadataRequest(topics=topics_), metadata.MetadataResponse)


def test_metadata_has_the_addresses_of_the_listener() -> None:
    answer = metadata_told(state(ORDERS))

    assert [(b.node_id, b.host, b.port) for b in answer.brokers] == [(1, "one", 9092), (2, "two", 9092), (3, "three", 9092)]
    assert answer.controller_id == ME


@pytest.mark.parametrize("version", [4, 5, 6, 7, 8])
def test_metadata_fields_appear_from_their_versions_on(version: int) -> None:
    """R-305: offline replicas since version 5; KIP-320: epochs since 7."""
    answer = Connection(cluster(state(ORDERS, offline=(OTHER,)))).call(
        ApiKey.METADATA, version, metadata.MetadataRequest(topics=None), _PartlyTold
    )
    (partition,) = answer.topics[0].partitions

    assert (partition.error_code, partition.leader_id) == (0, ME)
    assert partition.replica_nodes == (ME, OTHER)
    assert partition.isr_nodes == (ME,)
    assert partition.offline_replicas == ((OTHER,) if version >= 5 else ())
    assert partition.leader_epoch == (4 if version >= 7 else -1)


class _PartlyTold(Struct, frozen=True):
    class Topic(Struct, frozen=True):
        class Partition(Struct, frozen=True):
            error_code: int
            leader_id: int
            replica_nodes: tuple[int, ...]
            isr_nodes: tuple[int, ...]
            leader_epoch: int = -1
            offline_replicas: tuple[int, ...] = ()

        partitions: tuple[Partition, ...]

    topics: tuple[Topic, ...]


def test_partition_without_leader_has_leader_not_available() -> None:
    """KAFKA-8442: its ISR is listed nevertheless. R-305: a replica on a dead broker is offline."""
    removed_facing = replace(FACING, advertised={ME: ("one", 1)})
    states = (state(ORDERS, None), state(ONE, OTHER))
    leaderless = metadata_told(*states).topics[0].partitions
    answer = Connection(cluster(*states), facing=removed_facing).call(
        ApiKey.METADATA, 8, metadata.MetadataRequest(topics=None), metadata.MetadataResponse
    )

    assert [(p.error_code, p.leader_id, p.isr_nodes) for p in leaderless] == [(5, -1, (ME, OTHER)), (0, OTHER, (ME, OTHER))]
    # broker 2 has no address for this listener
    assert [(p.error_code, p.leader_id, p.offline_replicas) for p in answer.topics[0].partitions] == [(5, -1, (OTHER,))] * 2


def test_metadata_never_creates_a_topic() -> None:
    answer = metadata_told(state(ORDERS), names=("orders", "nothing", "not a name", "orders"))

    assert [(topic.name, topic.error_code) for topic in answer.topics] == [("orders", 0), ("nothing", 3), ("not a name", 17)]
    assert metadata_told(state(ORDERS), names=()).topics == ()


def test_fenced_broker_lists_no_brokers() -> None:
    """R-186: clients then ask another broker."""
    connection = Connection(lambda ask: MetadataReply(ask.correlation, (), (), ErrorCode.BROKER_NOT_AVAILABLE))
    request = metadata.MetadataRequest(topics=(metadata.MetadataRequestTopic("orders"),))
    answer = connection.call(ApiKey.METADATA, 8, request, metadata.MetadataResponse)

    assert (answer.brokers, answer.topics, answer.controller_id) == ((), (), -1)


def test_find_coordinator_answers_not_available() -> None:
    answer = Connection(LEADING).call(
        ApiKey.FIND_COORDINATOR, 2, metadata.InitProducerIdRequest(None), metadata.FindCoordinatorResponse
    )

    assert answer.error_code == 15
