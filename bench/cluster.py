"""Measures a cluster of real brokers with a stock client (librdkafka): throughput both ways, failover, memory.

The client shares the machine with the cluster. Times are wall-clock times, so compare only runs on the same machine, one after
the other. Records have RECORD_BYTES and are produced with acks=all, batched by librdkafka, to PARTITIONS partitions with three
replicas.
"""

import sys
import time
from collections.abc import Mapping, Sequence
from typing import Protocol

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kazoo.client import KazooClient
from msgspec import Struct

from highwater.errors import HarnessError
from reference.coordination import paths
from reference.types import BrokerId
from server.runtime.health import ask, told_by
from server.wire.clients.apis import ApiKey
from server.wire.clients.metadata import MetadataRequest, MetadataRequestTopic
from server.wire.clients.produce import PartitionData, ProduceRequest, ProduceResponse, TopicData
from server.wire.framing import WireError
from server.wire.records import sealed

TOPIC = "bench"
RECORD_BYTES = 100
PARTITIONS = 3
_PATIENCE_S = 60.0
_CONSUMED_AT_ONCE = 10_000
_ASK_AGAIN_S = 0.005
_Settings = dict[str, str | int | float | bool]


class Target(Protocol):
    """The interface of a cluster that can be measured: its addresses, its memory, and a way to kill a broker."""

    @property
    def bootstrap(self) -> str:
        """The value of a client's `bootstrap.servers`."""

    @property
    def zookeeper(self) -> str:
        """The address of ZooKeeper, "host:port"."""

    @property
    def listening(self) -> Mapping[BrokerId, tuple[str, int]]:
        """The address of each broker's listener for clients."""

    def kill(self, broker: BrokerId) -> None:
        """Send SIGKILL to a broker."""

    def resident_kb(self, broker: BrokerId) -> int:
        """The resident memory of a running broker, in KiB."""


class Measured(Struct, frozen=True, kw_only=True):
    """The results of measuring a cluster.

    `failover_ms` is the time from the end of the dead leader's ZooKeeper session to the next acknowledged record.
    """

    first_write_s: float
    records: int
    produced_per_s: float
    consumed_per_s: float
    resident_kb: tuple[int, ...]
    failover_ms: float


def first_write(target: Target, started_s: float) -> float:
    """Create the topic; returns the seconds from `started_s` (time.monotonic) to the first acknowledged record."""
    settings: _Settings = {"bootstrap.servers": target.bootstrap, "log_level": 0}
    admin = AdminClient(settings)
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(_PATIENCE_S)
    failures: list[KafkaError] = []
    producer = Producer({**settings, "acks": "all"})
    producer.produce(TOPIC, b"first", partition=0, on_delivery=lambda error, _: failures.append(error) if error else None)
    if producer.flush(_PATIENCE_S) or failures:
        raise HarnessError(f"the cluster did not acknowledge the first produced record; errors: {failures}")
    return time.monotonic() - started_s


def produced_per_s(target: Target, records: int) -> float:
    """Produce `records` records; return records per second from the first produce call to the last acknowledgement."""
    producer = Producer(
        {
            "bootstrap.servers": target.bootstrap,
            "acks": "all",
            "linger.ms": 20,
            "queue.buffering.max.messages": 2 * records,
            "log_level": 0,
        }
    )
    failed: list[KafkaError] = []
    value = b"x" * RECORD_BYTES
    start_s = time.monotonic()
    for number in range(records):
        producer.produce(TOPIC, value, partition=number % PARTITIONS, on_delivery=lambda e, _: failed.append(e) if e else None)
        if number % 1000 == 0:
            producer.poll(0)
    if producer.flush(_PATIENCE_S) or failed:
        raise HarnessError(f"{len(failed)} produced records were not acknowledged; first error: {failed[:1]}")
    return records / (time.monotonic() - start_s)


def consumed_per_s(target: Target, records: int) -> float:
    """Read all records back; return records per second from the assignment to the last record."""
    consumer = Consumer({"bootstrap.servers": target.bootstrap, "group.id": "bench", "enable.auto.commit": False, "log_level": 0})
    start_s = time.monotonic()
    consumer.assign([TopicPartition(TOPIC, index, 0) for index in range(PARTITIONS)])
    found = 0
    while found < records:
        messages = consumer.consume(_CONSUMED_AT_ONCE, 5.0)
        if not messages:
            raise HarnessError(f"the consumer got only {found} of {records} records and then none for 5 s")
        found += len(messages)
    passed_s = time.monotonic() - start_s
    consumer.close()
    return records / passed_s


def failover_ms(target: Target) -> float:
    """Kill the leader of partition 0; return the ms from the end of its session to the next acknowledged record.

    A produce is retried every few milliseconds.

    librdkafka is not used here, because it looks for a new leader only once a second.
    """
    survivors = dict(target.listening)
    leader = _leader(survivors)
    assert leader is not None
    del survivors[leader]
    watcher = KazooClient(target.zookeeper)
    watcher.start()
    ended: list[float] = []
    watcher.exists(paths.broker_path(leader), watch=lambda _: ended.append(time.monotonic()))
    target.kill(leader)
    give_up_s = time.monotonic() + _PATIENCE_S
    while not ended or not _is_taken(survivors):
        if time.monotonic() > give_up_s:
            raise HarnessError(f"no record was acknowledged within {_PATIENCE_S:.0f} s after the leader was killed")
        time.sleep(_ASK_AGAIN_S)
    passed_s = time.monotonic() - ended[0]
    watcher.stop()
    watcher.close()
    return 1000 * passed_s


def _leader(brokers: Mapping[BrokerId, tuple[str, int]]) -> BrokerId | None:
    """The leader of partition 0 in the metadata of the first broker that answers; None if unknown."""
    question = MetadataRequest(topics=(MetadataRequestTopic(TOPIC),))
    for address in brokers.values():
        try:
            metadata_response = told_by(address, question)
        except (OSError, WireError):
            continue
        found = [p.leader_id for topic in metadata_response.topics for p in topic.partitions if p.partition_index == 0]
        return BrokerId(found[0]) if found and found[0] in brokers else None
    return None


def _is_taken(brokers: Mapping[BrokerId, tuple[str, int]]) -> bool:
    """Try to produce one record with acks=all; True if the leader acknowledges it."""
    leader = _leader(brokers)
    if leader is None:
        return False
    data = (TopicData(TOPIC, (PartitionData(0, sealed(["x"])),)),)
    try:
        answer = ask(
            brokers[leader], ApiKey.PRODUCE, 8, ProduceRequest(acks=-1, timeout_ms=1000, topic_data=data), ProduceResponse
        )
    except (OSError, WireError):
        return False
    return answer.responses[0].partition_responses[0].error_code == 0


def measure(target: Target, brokers: Sequence[BrokerId], records: int, started_s: float) -> Measured:
    """Measure first write, throughput, memory and failover, in this order."""
    first_write_s = first_write(target, started_s)
    produced = produced_per_s(target, records)
    consumed = consumed_per_s(target, records)
    return Measured(
        first_write_s=round(first_write_s, 2),
        records=records,
        produced_per_s=round(produced),
        consumed_per_s=round(consumed),
        resident_kb=tuple(target.resident_kb(broker) for broker in brokers),
        failover_ms=round(failover_ms(target), 1),
    )


def say(measured: Measured) -> None:
    """Print one line for each result of a measurement."""
    sys.stdout.write(
        f"first acknowledged write  {measured.first_write_s:.1f} s after the command\n"
        f"produced, acks=all        {measured.produced_per_s:,.0f} records/s of {RECORD_BYTES} bytes ({measured.records:,})\n"
        f"consumed                  {measured.consumed_per_s:,.0f} records/s\n"
        f"failover                  {measured.failover_ms:.0f} ms after the end of the session\n"
        f"memory of a broker        {max(measured.resident_kb) / 1024:.0f} MiB at most\n"
    )
