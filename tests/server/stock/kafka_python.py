"""kafka-python behind the interface of the stock client tests."""

import logging
import time
from collections.abc import Sequence
from typing import Any

import kafka
from kafka.admin import NewTopic

from reference.types import BrokerId

TIMEOUT_MS = 15_000


class KafkaPython:
    """One client; topics have one partition by default."""

    name = "kafka-python"
    codecs = ("gzip",)  # other codecs need packages that it does not bring

    def __init__(self, bootstrap: str) -> None:
        logging.getLogger("kafka").setLevel(logging.CRITICAL)
        self._bootstrap = bootstrap.split(",")
        self._admin = self._admin_client()

    def create(self, topic: str, *, partitions: int = 1, replicas: int = 3) -> str:
        """The name of the error, "" for none."""
        try:
            self._admin.create_topics([NewTopic(topic, partitions, replicas)], timeout_ms=TIMEOUT_MS)
        except kafka.errors.KafkaError as error:
            return _kafka_name(error)
        return ""

    def delete(self, topic: str) -> str:
        """The name of the error, "" for none."""
        try:
            self._admin.delete_topics([topic], timeout_ms=TIMEOUT_MS)
        except kafka.errors.KafkaError as error:
            return _kafka_name(error)
        return ""

    def topics(self) -> set[str]:
        """The names of all topics."""
        return set(self._admin.list_topics())

    def produce(
        self, topic: str, values: Sequence[bytes], *, acks: int = -1, codec: str = "none", idempotent: bool = False
    ) -> list[int]:
        """The acknowledged offsets, in the order of the values."""
        producer = kafka.KafkaProducer(
            bootstrap_servers=self._bootstrap,
            acks="all" if acks == -1 else acks,
            compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotent,
            linger_ms=20,
            **({} if idempotent else {"retries": 0}),
        )
        futures = [producer.send(topic, value, partition=0) for value in values]
        producer.flush(TIMEOUT_MS / 1000)
        offsets = [future.get(TIMEOUT_MS / 1000).offset for future in futures]
        producer.close()
        return offsets

    def consume(self, topic: str, count: int) -> list[bytes]:
        """The first `count` values of partition 0."""
        consumer = self._consumer()
        tp = kafka.TopicPartition(topic, 0)
        consumer.assign([tp])
        consumer.seek(tp, 0)
        values_read: list[bytes] = []
        while len(values_read) < count:
            records = consumer.poll(TIMEOUT_MS).get(tp, [])
            assert records, f"{len(values_read)} of {count} records came"
            values_read += [record.value for record in records]
        consumer.close()
        return values_read

    def offsets(self, topic: str) -> tuple[int, int]:
        """The earliest and the latest offset of partition 0."""
        consumer = self._consumer()
        tp = kafka.TopicPartition(topic, 0)
        found = consumer.beginning_offsets([tp])[tp], consumer.end_offsets([tp])[tp]
        consumer.close()
        return found

    def offline(self, topic: str) -> list[int]:
        """Offline replicas of partition 0."""
        (described,) = self._again("describe_topics", [topic])
        return list(described["partitions"][0]["offline_replicas"])

    def replicas(self, topic: str) -> list[int]:
        """The replicas of partition 0, the preferred one first; empty if the broker does not know the topic."""
        (described,) = self._again("describe_topics", [topic])
        return [replica for partition in described["partitions"] for replica in partition["replica_nodes"]]

    def reassign(self, topic: str, replicas: list[int] | None) -> str:
        """AlterPartitionReassignments of partition 0; None cancels. Returns the name of the error, "" for none."""
        (error,) = self._again("alter_partition_reassignments", {kafka.TopicPartition(topic, 0): replicas}).values()
        return "" if error is None else str(error.message)

    def reassignments(self, topic: str) -> dict[str, list[int]] | None:
        """ListPartitionReassignments of partition 0; None if no reassignment is pending."""
        found: dict[kafka.TopicPartition, dict[str, list[int]]] = self._again("list_partition_reassignments", {topic: [0]})
        return found.get(kafka.TopicPartition(topic, 0))

    def controller(self) -> int:
        """The broker id of the controller."""
        return int(self._admin.describe_cluster()["controller_id"])

    def dirs(self, broker: BrokerId) -> list[dict[str, Any]]:
        """The log directories in the DescribeLogDirs response of a broker."""
        (described,) = self._admin.describe_log_dirs(brokers=[broker])
        return list(described["log_dirs"])

    def close(self) -> None:
        """Close the admin client."""
        self._admin.close()

    def _admin_client(self) -> Any:
        return kafka.KafkaAdminClient(bootstrap_servers=self._bootstrap, request_timeout_ms=TIMEOUT_MS)

    def _again(self, method: str, argument: object) -> Any:
        """Retry with a new client: kafka-python keeps the controller it found first and may choose brokers that are down."""
        end_s = time.monotonic() + TIMEOUT_MS / 1000
        while True:
            try:
                return getattr(self._admin, method)(argument)
            except kafka.errors.KafkaError:
                if time.monotonic() > end_s:
                    raise
                time.sleep(0.1)
                self._admin.close()
                self._admin = self._admin_client()

    def _consumer(self) -> Any:
        return kafka.KafkaConsumer(bootstrap_servers=self._bootstrap, group_id=None, enable_auto_commit=False)


def _kafka_name(error: Exception) -> str:
    """kafka-python's TopicAlreadyExistsError as Kafka's TOPIC_ALREADY_EXISTS."""
    return str(getattr(error, "message", type(error).__name__))
