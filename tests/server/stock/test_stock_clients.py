"""Stock clients against a cluster of three real brokers: one test for each client and each of its features.

The clients choose API versions by the ApiVersions response.
"""

import time
from collections.abc import Callable, Iterator

import pytest

from bench.local_cluster import LocalCluster
from reference.types import BrokerId
from tests.server.stock.aio import AioKafka
from tests.server.stock.confluent import Confluent
from tests.server.stock.kafka_python import KafkaPython

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow, pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")]

PATIENCE_S = 30.0
Client = Confluent | KafkaPython | AioKafka
CLIENTS: tuple[type[Client], ...] = (Confluent, KafkaPython, AioKafka)
VALUES = [f"value {number} ".encode() * 20 for number in range(40)]
COMPRESSED = [(kind, codec) for kind in CLIENTS for codec in kind.codecs]


@pytest.fixture(params=CLIENTS, ids=lambda kind: kind.name)
def client(request: pytest.FixtureRequest, cluster: LocalCluster) -> Iterator[Client]:
    """Each of the clients in turn."""
    client: Client = request.param(cluster.bootstrap)
    yield client
    client.close()


@pytest.fixture
def kafka_python(cluster: LocalCluster) -> Iterator[KafkaPython]:
    """kafka-python, which has the most admin calls."""
    client = KafkaPython(cluster.bootstrap)
    yield client
    client.close()


def until(condition: Callable[[], bool]) -> None:
    """Wait until the condition holds; fail after PATIENCE_S."""
    end_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end_s, "the condition did not become true in time"
        time.sleep(0.05)


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name that only this test uses."""
    return "".join(c if c.isalnum() else "-" for c in request.node.name)[-200:]


def test_topic_is_created_listed_and_deleted(client: Client, topic: str) -> None:
    """The controller knows the topic when it answers; other brokers learn of it later."""
    assert client.create(topic, partitions=3) == ""
    until(lambda: topic in client.topics())
    assert client.delete(topic) == ""
    until(lambda: topic not in client.topics())


def test_topic_is_not_created_or_deleted_twice(client: Client, topic: str) -> None:
    assert client.create(topic) == ""
    assert client.create(topic) == "TOPIC_ALREADY_EXISTS"
    assert client.delete(topic) == ""
    assert client.delete(topic).startswith("UNKNOWN_TOPIC_OR_PART")  # librdkafka's name is shorter


@pytest.mark.parametrize("acks", [1, -1])
def test_acknowledged_records_are_read_back_in_order(client: Client, topic: str, acks: int) -> None:
    client.create(topic)

    assert client.produce(topic, VALUES, acks=acks) == list(range(len(VALUES)))
    assert client.consume(topic, len(VALUES)) == VALUES


def test_records_with_acks_0_arrive(client: Client, topic: str) -> None:
    """With acks=0 there must be no response: it would be taken for the response of the next request."""
    client.create(topic)
    client.produce(topic, VALUES, acks=0)
    client.produce(topic, [b"after"], acks=-1)

    assert client.consume(topic, len(VALUES) + 1)[: len(VALUES)] == VALUES


@pytest.mark.parametrize(("kind", "codec"), COMPRESSED, ids=[f"{kind.name}-{codec}" for kind, codec in COMPRESSED])
def test_compressed_records_are_stored_and_read_back(cluster: LocalCluster, topic: str, kind: type[Client], codec: str) -> None:
    """The broker sets offset and leader epoch, which the CRC does not cover."""
    client = kind(cluster.bootstrap)
    client.create(topic)

    assert client.produce(topic, VALUES, codec=codec) == list(range(len(VALUES)))
    assert client.consume(topic, len(VALUES)) == VALUES
    client.close()


def test_idempotent_producer_gets_an_id_and_its_records_arrive(client: Client, topic: str) -> None:
    """B-66."""
    client.create(topic)

    assert client.produce(topic, VALUES, idempotent=True) == list(range(len(VALUES)))
    assert client.consume(topic, len(VALUES)) == VALUES


def test_earliest_and_latest_offsets_are_listed(client: Client, topic: str) -> None:
    client.create(topic)

    assert client.offsets(topic) == (0, 0)
    client.produce(topic, VALUES)
    assert client.offsets(topic) == (0, len(VALUES))


def test_batches_of_each_client_are_read_by_the_others(cluster: LocalCluster, topic: str) -> None:
    clients = [kind(cluster.bootstrap) for kind in CLIENTS]
    clients[0].create(topic)
    for client in clients:
        client.produce(topic, [client.name.encode()], codec="gzip")

    for client in clients:
        assert client.consume(topic, 3) == [client.name.encode() for client in clients]
        client.close()


def test_reassignment_is_requested_listed_and_completed(kafka_python: KafkaPython, topic: str) -> None:
    """KIP-455 with kafka-python; the other clients have no call for it."""
    client = kafka_python
    client.create(topic, replicas=1)
    client.produce(topic, VALUES)

    assert client.reassign(topic, [3, 2, 1]) == ""
    until(lambda: client.reassignments(topic) is None)
    until(lambda: client.replicas(topic) == [3, 2, 1])
    assert client.consume(topic, len(VALUES)) == VALUES


def test_reassignment_to_a_dead_broker_is_listed_and_cancelled(
    cluster: LocalCluster, kafka_python: KafkaPython, topic: str
) -> None:
    """KIP-455 on top of KIP-236's rollback; and offline replicas (KIP-112) in the clients that show them."""
    client, aio = kafka_python, AioKafka(cluster.bootstrap)
    client.create(topic, replicas=1)
    stayer = 1  # the first partition of a topic has its first replica on the first broker
    live_target = 2 if client.controller() == 3 else 3  # the controller must stay alive to take the request
    until(lambda: client.replicas(topic) == [stayer])
    assert client.reassign(topic, None) == "NO_REASSIGNMENT_IN_PROGRESS"
    assert client.reassign(topic, [stayer, 9]) == "INVALID_REPLICATION_ASSIGNMENT"  # its name for 39
    with cluster.without(BrokerId(live_target)):
        assert client.reassign(topic, [stayer, live_target]) == ""
        until(lambda: client.reassignments(topic) is not None)
        reassignment = client.reassignments(topic)
        assert reassignment is not None
        assert reassignment["adding_replicas"] == [live_target]
        assert reassignment["removing_replicas"] == []
        until(lambda: client.offline(topic) == [live_target])
        until(lambda: aio.offline(topic) == [live_target])
        assert client.reassign(topic, None) == ""
        until(lambda: client.replicas(topic) == [stayer])


def test_stock_client_describes_log_dirs(kafka_python: KafkaPython, topic: str) -> None:
    """KIP-113 with kafka-python: each log is in one directory of each of its brokers."""
    client = kafka_python
    client.create(topic)
    client.produce(topic, VALUES)

    for broker in (1, 2, 3):
        dirs = client.dirs(BrokerId(broker))
        found = [p for d in dirs for t in d["topics"] if t["name"] == topic for p in t["partitions"]]
        assert [d["error_code"] for d in dirs] == [0, 0]
        assert [p["partition_index"] for p in found] == [0]
        assert found[0]["partition_size"] > sum(map(len, VALUES))
