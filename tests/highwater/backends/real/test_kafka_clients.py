"""librdkafka's delivery reports become one result per operation, never more certain than the reports."""

import asyncio
import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import confluent_kafka
import pytest
from confluent_kafka import Consumer, KafkaError

from highwater.backends.real.clients.kafka import RETRIED, KafkaClient, _heard_of_produce
from highwater.backends.real.zookeeper.local import free_port
from highwater.rig.attempts import Reply
from history.op import OpType
from reference.client.calls import Call, EarliestCall, LatestCall, PollCall, ProduceCall
from reference.errors import ErrorCode
from reference.types import Address, Offset, TopicPartition
from workloads.completion import completion_type

TP = TopicPartition("orders-0")
_LIST_OFFSETS = 2  # its API key


def produce(*values: str, acks: int = -1, retries: int = 0, idempotent: bool = False) -> ProduceCall:
    return ProduceCall(id=1, tp=TP, values=values, acks=acks, retries=retries, idempotent=idempotent)


def outcome(heard: Reply) -> OpType:
    return completion_type("produce", heard.error, sent=heard.attempts > 0, earlier=heard.earlier)


def test_each_produced_value_has_its_reported_offset() -> None:
    """Records of other clients may lie between those of one operation."""
    reply = _heard_of_produce(produce("a", "b"), [], [7, 9])

    assert (reply.offsets, reply.error, reply.attempts) == ((7, 9), None, 1)
    assert outcome(reply) is OpType.OK


def test_produce_with_acks_0_has_no_offsets() -> None:
    reply = _heard_of_produce(produce("a", acks=0), [], [-1001])

    assert (reply.offsets, outcome(reply)) == ((), OpType.OK)


def test_produce_refused_for_all_values_is_a_failure() -> None:
    """NOT_ENOUGH_REPLICAS is answered before the append (bugs B-65 d)."""
    reply = _heard_of_produce(produce("a", "b"), ["NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS"], [])

    assert outcome(reply) is OpType.FAIL


@pytest.mark.parametrize(
    ("call", "failures", "delivered"),
    [
        (produce("a", "b"), ["NOT_ENOUGH_REPLICAS"], [3]),  # one value of the operation is in the log
        (produce("a", "b"), ["NOT_ENOUGH_REPLICAS", "_MSG_TIMED_OUT"], []),
        (produce("a", retries=2), ["NOT_ENOUGH_REPLICAS"], []),  # an earlier attempt may have been appended
        (produce("a", idempotent=True), ["OUT_OF_ORDER_SEQUENCE_NUMBER"], []),
        (produce("a"), ["_MSG_TIMED_OUT"], []),
        (produce("a"), ["_TRANSPORT"], []),
        (produce("a"), ["_NO_REPORT"], []),
        (produce("a"), ["_AN_ERROR_OF_A_LATER_VERSION"], []),
    ],
)
def test_produce_that_may_have_appended_is_of_unknown_outcome(
    call: ProduceCall, failures: list[str], delivered: list[int | None]
) -> None:
    """A wrong "fail" would accuse a correct broker; "info" does not."""
    assert outcome(_heard_of_produce(call, failures, delivered)) is OpType.INFO


def test_producer_counts_every_possible_send_attempt() -> None:
    assert _heard_of_produce(produce("a", retries=2), [], [3]).attempts == 3
    assert _heard_of_produce(produce("a", retries=2), ["NETWORK_EXCEPTION"], []).earlier == (RETRIED,)


@pytest.fixture
def cluster() -> Iterator[tuple[ctypes.CDLL, ctypes.c_void_p]]:
    """librdkafka's mock cluster of two brokers; the first leads the only partition of orders."""
    (path,) = Path(confluent_kafka.__file__).parents[1].glob("confluent_kafka.libs/librdkafka*.so*")
    lib = ctypes.CDLL(str(path))
    lib.rd_kafka_conf_new.restype = lib.rd_kafka_new.restype = lib.rd_kafka_mock_cluster_new.restype = ctypes.c_void_p
    lib.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    owner = ctypes.c_void_p(lib.rd_kafka_new(0, ctypes.c_void_p(lib.rd_kafka_conf_new()), None, ctypes.c_size_t(0)))
    mock_cluster = ctypes.c_void_p(lib.rd_kafka_mock_cluster_new(owner, 2))
    lib.rd_kafka_mock_topic_create(mock_cluster, b"orders", 1, 2)
    lib.rd_kafka_mock_partition_set_leader(mock_cluster, b"orders", 0, 1)
    yield lib, mock_cluster
    lib.rd_kafka_mock_cluster_destroy(mock_cluster)
    lib.rd_kafka_destroy(owner)


def brokers_of(cluster: tuple[ctypes.CDLL, ctypes.c_void_p]) -> dict[Address, tuple[str, int]]:
    """The addresses of the mock brokers."""
    lib, mock_cluster = cluster
    wheres = [where.split(":") for where in lib.rd_kafka_mock_cluster_bootstraps(mock_cluster).decode().split(",")]
    return {Address(f"b{number}"): (host, int(port)) for number, (host, port) in enumerate(wheres, 1)}


@pytest.fixture
def mock(
    cluster: tuple[ctypes.CDLL, ctypes.c_void_p],
) -> tuple[dict[Address, tuple[str, int]], Callable[..., None]]:
    """librdkafka's mock brokers, and a function that makes them answer the next produce requests with errors."""
    lib, mock_cluster = cluster

    def answer(*errors: ErrorCode) -> None:
        codes = (ctypes.c_int * len(errors))(*errors)
        lib.rd_kafka_mock_push_request_errors_array(mock_cluster, ctypes.c_int16(0), ctypes.c_size_t(len(errors)), codes)

    return brokers_of(cluster), answer


@pytest.mark.slow
@pytest.mark.parametrize(("keyed", "keys"), [(True, [b"k1", b"k2"]), (False, [None, None])])
def test_record_on_a_compacted_topic_has_its_key(
    cluster: tuple[ctypes.CDLL, ctypes.c_void_p], keyed: bool, keys: list[bytes | None]
) -> None:
    """Without it a cleaner could not tell which record a later one replaces, and Kafka refuses it (docs/promise.md DUR-9)."""
    brokers = brokers_of(cluster)

    async def scene() -> None:
        client = KafkaClient(Address("c0"), brokers, request_timeout_ms=5000, keyed=keyed)
        reply = await client.call(produce("k1=a", "k2=b"))
        await client.close()
        assert reply.error is None

    asyncio.run(scene())
    where = ",".join(f"{host}:{port}" for host, port in brokers.values())
    reader = confluent_kafka.Consumer({"bootstrap.servers": where, "group.id": "g", "log_level": 0})
    reader.assign([confluent_kafka.TopicPartition("orders", 0, 0)])
    read = reader.consume(2, 10)
    reader.close()

    assert [message.key() for message in read] == keys


@pytest.mark.slow
def test_acks_0_produce_goes_to_the_leader_that_is_known(cluster: tuple[ctypes.CDLL, ctypes.c_void_p]) -> None:
    """Its own producer was told nothing: the former leader would drop the record (docs/promise.md LIVE-5)."""
    lib, mock_cluster = cluster

    async def reached(client: KafkaClient, offset: int) -> bool:
        """Whether the log grows to this end offset within fifty looks."""
        for _ in range(50):  # nobody answers acks=0
            end = (await client.call(LatestCall(id=1, tp=TP))).offset
            if end is not None and end >= offset:
                return True
            await asyncio.sleep(0.1)
            if offset > 1:  # librdkafka takes up a new leader in a thread of its own, perhaps after the record
                await client.call(produce("c", acks=0))
        return False

    async def scene() -> None:
        client = KafkaClient(Address("c0"), brokers_of(cluster), request_timeout_ms=5000)
        try:
            await client.call(produce("a", acks=0))
            assert await reached(client, 1)
            lib.rd_kafka_mock_partition_set_leader(mock_cluster, b"orders", 0, 2)
            await client.call(produce("b"))
            await client.call(produce("c", acks=0))
            assert await reached(client, 3)
        finally:
            await client.close()

    asyncio.run(scene())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("errors", "retries", "attempts", "type_"),
    [
        ((), 0, 1, OpType.OK),
        ((ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_LEADER_OR_FOLLOWER), 0, 3, OpType.OK),
        ((ErrorCode.NOT_LEADER_OR_FOLLOWER,), 1, 3, OpType.OK),
        ((ErrorCode.KAFKA_STORAGE_ERROR,), 1, 2, OpType.OK),
        ((ErrorCode.NOT_ENOUGH_REPLICAS,), 0, 1, OpType.FAIL),
        ((ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS), 0, 2, OpType.INFO),
    ],
)
def test_producer_counts_resends_beyond_its_retries_config(
    mock: tuple[dict[Address, tuple[str, int]], Callable[..., None]],
    errors: tuple[ErrorCode, ...],
    retries: int,
    attempts: int,
    type_: OpType,
) -> None:
    """A leader that resigned after the append answers the same: the record may be in the log twice, and a later refusal proves
    nothing.
    """
    brokers, answer = mock
    answer(*errors)

    reply = called(brokers, produce("a", retries=retries), timeout_ms=5000)

    assert (reply.attempts, outcome(reply)) == (attempts, type_), reply


def test_idempotent_producer_delivers_within_a_short_timeout(cluster: tuple[ctypes.CDLL, ctypes.c_void_p]) -> None:
    """librdkafka looks for a producer id in steps of 0.5 s; a new producer for each call that failed never had one in time."""

    async def produced() -> Reply:
        client = KafkaClient(Address("c0"), brokers_of(cluster), request_timeout_ms=300)
        try:
            return await client.call(produce("a", idempotent=True))
        finally:
            await client.close()

    assert asyncio.run(produced()).offsets == (0,)


def asked_after_a_produce(cluster: tuple[ctypes.CDLL, ctypes.c_void_p], call: Call, *answers: ErrorCode) -> Reply:
    """What the client hears if the mock brokers answer its requests for ends of logs so, the first one first."""
    lib, mock_cluster = cluster
    codes = (ctypes.c_int * len(answers))(*answers)

    async def scene() -> Reply:
        client = KafkaClient(Address("c0"), brokers_of(cluster), request_timeout_ms=5000)
        try:
            await client.call(produce("a"))
            lib.rd_kafka_mock_push_request_errors_array(
                mock_cluster, ctypes.c_int16(_LIST_OFFSETS), ctypes.c_size_t(len(answers)), codes
            )
            return await client.call(call)
        finally:
            await client.close()

    return asyncio.run(scene())


@pytest.mark.slow
@pytest.mark.parametrize(("call", "end"), [(EarliestCall(id=1, tp=TP), 0), (LatestCall(id=1, tp=TP), 1)])
def test_question_for_one_end_of_a_log_asks_for_no_other(
    cluster: tuple[ctypes.CDLL, ctypes.c_void_p], call: Call, end: int
) -> None:
    """KIP-207: the end may be unknown where the beginning is not, and the error of one was taken for that of the other."""
    reply = asked_after_a_produce(cluster, call, ErrorCode.NONE, ErrorCode.OFFSET_NOT_AVAILABLE)

    assert (reply.error, reply.offset) == (None, end)


@pytest.mark.slow
@pytest.mark.parametrize("call", [EarliestCall(id=1, tp=TP), LatestCall(id=1, tp=TP)])
def test_refused_question_for_an_end_of_a_log_has_no_offset(cluster: tuple[ctypes.CDLL, ctypes.c_void_p], call: Call) -> None:
    reply = asked_after_a_produce(cluster, call, *[ErrorCode.OFFSET_NOT_AVAILABLE] * 50)  # librdkafka may ask again

    assert (reply.error, reply.offset) == ("OFFSET_NOT_AVAILABLE", None)


@pytest.mark.parametrize(
    ("error", "heard"), [(None, "OFFSET_NOT_AVAILABLE"), (KafkaError(KafkaError._DESTROY_BROKER), "_DESTROY_BROKER")]
)
def test_end_of_a_log_without_an_offset_is_an_error(error: KafkaError | None, heard: str) -> None:
    """When brokers left the metadata in a rolling upgrade, -1 was taken for the beginning of a log: UNKNOWN."""
    answer = SimpleNamespace(offset=-1, error=error)
    consumer = SimpleNamespace(offsets_for_times=lambda tps, timeout: [answer])
    client = KafkaClient(Address("c0"), {}, request_timeout_ms=200)
    client._consumer = cast(Consumer, consumer)

    answered = client._perform(EarliestCall(id=1, tp=TP))

    assert (answered.error, answered.offset) == (heard, None)


@pytest.fixture
def nowhere() -> dict[Address, tuple[str, int]]:
    """A broker address at which nothing listens."""
    return {Address("b1"): ("127.0.0.1", free_port())}


def called(brokers: dict[Address, tuple[str, int]], call: Call, timeout_ms: int = 200) -> Reply:
    """What one client hears of one call to these brokers."""

    async def scene() -> Reply:
        client = KafkaClient(Address("c0"), brokers, request_timeout_ms=timeout_ms)
        try:
            return await client.call(call)
        finally:
            await client.close()

    return asyncio.run(scene())


@pytest.mark.slow
def test_produce_without_a_broker_times_out_as_unknown(nowhere: dict[Address, tuple[str, int]]) -> None:
    """librdkafka reports the same error for a queued message as for a sent one."""
    reply = called(nowhere, produce("a"))

    assert (reply.error, outcome(reply)) == ("_MSG_TIMED_OUT", OpType.INFO)


@pytest.mark.slow
def test_producer_is_replaced_after_a_timeout(nowhere: dict[Address, tuple[str, int]]) -> None:
    """It may wait for the previous leader for ever (librdkafka's issue 4976), and the cluster would be reported as not live."""

    async def scene() -> tuple[str | None, int]:
        client = KafkaClient(Address("c0"), nowhere, request_timeout_ms=200)
        try:
            reply = await client.call(produce("a"))
            return reply.error, len(client._producers)
        finally:
            await client.close()

    assert asyncio.run(scene()) == ("_MSG_TIMED_OUT", 0)


@pytest.mark.slow
@pytest.mark.parametrize("call", [PollCall(id=1, tp=TP, offset=Offset(0)), LatestCall(id=1, tp=TP), EarliestCall(id=1, tp=TP)])
def test_read_without_an_answer_is_a_failure(nowhere: dict[Address, tuple[str, int]], call: Call) -> None:
    """A read has no effect, so its outcome is certain."""
    reply = called(nowhere, call)

    assert reply.error is not None
    assert completion_type("poll", reply.error, sent=reply.attempts > 0) is OpType.FAIL
