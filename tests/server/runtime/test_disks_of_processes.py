"""A broker's disks through restarts, faults and power losses, observed by a stock client."""

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.local_cluster import LocalCluster
from highwater.backends.real.zookeeper.local import LocalZooKeeper, missing
from reference.config import TopicSpec
from reference.types import BrokerId
from server.disk.log_dirs import CLEAN, look
from server.lab.dir_faults import DirFault
from server.lab.power import Loss, lose_power
from server.lab.side_channel import Evidence, Look, SetDir, ask

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow]

ONE = BrokerId(1)
PATIENCE_S = 20.0
KEPT = TopicSpec(name="kept", partitions=1, replication_factor=1, min_insync_replicas=1, flush="before_ack")


@contextmanager
def one_broker(folder: Path, *, log_dirs: int = 1) -> Iterator[LocalCluster]:
    """A cluster of one broker with ZooKeeper; skips the test where these cannot run."""
    reason = missing()
    if reason is not None:
        pytest.skip(reason)
    settings = {"log_dirs": log_dirs, "topics": (KEPT,), "controlled_shutdown_retry_backoff_ms": 100}
    with (
        LocalZooKeeper() as zookeeper,
        LocalCluster(folder, zookeeper.address, brokers=1, settings=settings, harmed=True) as cluster,
    ):
        yield cluster


def make(cluster: LocalCluster, *topics: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for future in admin.create_topics([NewTopic(topic, 1, 1) for topic in topics]).values():
        future.result(PATIENCE_S)


def produce(cluster: LocalCluster, topic: str, *values: str) -> list[KafkaError | None]:
    """The delivery error of each value; None for acknowledged ones."""
    kafka_errors: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "retries": 0, "message.timeout.ms": 5000})

    def on_delivery(error: KafkaError | None, _: Message) -> None:
        kafka_errors.append(error)

    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=on_delivery)
    producer.flush(PATIENCE_S)
    return kafka_errors


def values_in(cluster: LocalCluster, topic: str) -> list[str]:
    """All values, from the first to the high watermark."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g", "enable.auto.commit": False})
    try:
        _, end = patiently(lambda: consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=2.0))
        consumer.assign([TopicPartition(topic, 0, 0)])
        values: list[str] = []
        until_s = time.monotonic() + PATIENCE_S
        while len(values) < end and time.monotonic() < until_s:
            values += [(message.value() or b"").decode() for message in consumer.consume(100, 0.2) if message.error() is None]
        return values
    finally:
        consumer.close()


def patiently(look_up: Callable[[], tuple[int, int]]) -> tuple[int, int]:
    """Retry for PATIENCE_S: after a start a partition has no leader for a moment."""
    until_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return look_up()
        except KafkaException:
            if time.monotonic() > until_s:
                raise
            time.sleep(0.1)


def produce_again(cluster: LocalCluster) -> None:
    cluster.start(ONE)
    cluster.wait_for(ONE)


def values(prefix: str, count: int = 30) -> Sequence[str]:
    return [f"{prefix}-{number}" for number in range(count)]


def test_records_survive_a_clean_shutdown_and_a_kill(tmp_path: Path) -> None:
    with one_broker(tmp_path) as cluster:
        make(cluster, "t")
        assert produce(cluster, "t", *values("a")) == [None] * 30
        assert cluster.terminate(ONE) == 0
        assert (cluster.dir_of(ONE) / CLEAN).exists()
        produce_again(cluster)
        assert not (cluster.dir_of(ONE) / CLEAN).exists()
        assert values_in(cluster, "t") == values("a")
        assert produce(cluster, "t", *values("b")) == [None] * 30
        cluster.kill(ONE)
        produce_again(cluster)
        assert values_in(cluster, "t") == [*values("a"), *values("b")]


def test_power_loss_takes_only_unflushed_records(tmp_path: Path) -> None:
    """docs/promise.md DUR-5: only a topic with flush=before_ack keeps its acknowledged records on a single disk."""
    with one_broker(tmp_path) as cluster:
        make(cluster, "kept", "lost")
        assert produce(cluster, "kept", *values("k")) == [None] * 30
        assert produce(cluster, "lost", *values("l")) == [None] * 30
        cluster.kill(ONE)
        wounds = lose_power(cluster.ledger(ONE), [cluster.dir_of(ONE)], [0], Loss(seed=1, lose_all=True))
        produce_again(cluster)
        assert values_in(cluster, "kept") == values("k")
        left = values_in(cluster, "lost")
        # A flush covers a whole directory, so the records of `lost` that were written before the last flush are durable too.
        assert [wound.tp for wound in wounds] == ["lost-0"]
        assert wounds[0].offset == len(left) < 30
        assert left == values("l")[: len(left)]


def test_directory_failure_affects_only_its_own_logs(tmp_path: Path) -> None:
    with one_broker(tmp_path, log_dirs=2) as cluster:
        make(cluster, "t0", "t1")
        dirs = [cluster.dir_of(ONE, index) for index in (0, 1)]
        where = {log.tp.partition("-")[0]: image.dir for image in look(dirs) for log in image.logs}
        assert sorted(where.values()) == [0, 1]
        bad, good = sorted(where, key=lambda topic: where[topic])
        channel = cluster.side_channel(ONE)
        asyncio.run(ask(channel, SetDir(0, DirFault(broken=True))))

        (error,) = produce(cluster, bad, "x")
        assert error is not None
        assert produce(cluster, good, *values("g")) == [None] * 30
        evidence = asyncio.run(ask(channel, Look()))
        assert isinstance(evidence, Evidence)
        assert [counts.refused > 0 for counts in evidence.dirs] == [True, False]
        assert "dir-failed" in cluster.notes(ONE)
        cluster.kill(ONE)
        produce_again(cluster)
        assert values_in(cluster, good) == values("g")
        assert produce(cluster, bad, *values("b")) == [None] * 30


def test_slow_flush_delays_acks_that_wait_for_it(tmp_path: Path) -> None:
    with one_broker(tmp_path) as cluster:
        make(cluster, "kept", "t")
        asyncio.run(ask(cluster.side_channel(ONE), SetDir(0, DirFault(flush_ms=700))))
        assert produce(cluster, "t", "a") == [None]
        begin_s = time.monotonic()
        assert produce(cluster, "kept", "a") == [None]
        slow_s = time.monotonic() - begin_s
        evidence = asyncio.run(ask(cluster.side_channel(ONE), Look()))
        assert isinstance(evidence, Evidence)
        assert evidence.dirs[0].delayed > 0
        assert slow_s > 0.7
