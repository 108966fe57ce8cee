"""confluent-kafka (librdkafka) behind the interface of the stock client tests."""

from collections.abc import Sequence
from concurrent.futures import Future
from time import monotonic
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

TIMEOUT_S = 15.0


class Confluent:
    """One client; topics have one partition by default."""

    name = "confluent-kafka"
    codecs = ("gzip", "snappy", "lz4", "zstd")

    def __init__(self, bootstrap: str) -> None:
        self._settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0}
        self._admin = AdminClient(self._settings)

    def create(self, topic: str, *, partitions: int = 1, replicas: int = 3) -> str:
        """The name of the error, "" for none."""
        futures = self._admin.create_topics([NewTopic(topic, partitions, replicas)], operation_timeout=TIMEOUT_S)
        return _error_of(futures[topic])

    def delete(self, topic: str) -> str:
        """The name of the error, "" for none."""
        return _error_of(self._admin.delete_topics([topic], operation_timeout=TIMEOUT_S)[topic])

    def topics(self) -> set[str]:
        """The names of all topics."""
        return set(self._admin.list_topics(timeout=TIMEOUT_S).topics)

    def produce(
        self, topic: str, values: Sequence[bytes], *, acks: int = -1, codec: str = "none", idempotent: bool = False
    ) -> list[int]:
        """The acknowledged offsets, in the order of the values."""
        delivered: list[Message] = []
        settings = {"acks": acks, "compression.type": codec, "enable.idempotence": idempotent, "linger.ms": 20}
        producer = Producer({**self._settings, **settings, "message.timeout.ms": int(TIMEOUT_S * 1000)})
        for value in values:
            producer.produce(topic, value, partition=0, on_delivery=lambda error, message: delivered.append(message))
        assert producer.flush(TIMEOUT_S) == 0
        assert [message.error() for message in delivered] == [None] * len(values)
        return [offset for message in delivered if (offset := message.offset()) is not None]

    def consume(self, topic: str, count: int) -> list[bytes]:
        """The first `count` values of partition 0."""
        consumer = Consumer({**self._settings, "group.id": "none", "enable.auto.commit": False})
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[bytes] = []
        while len(found) < count:
            messages = consumer.consume(count - len(found), TIMEOUT_S)
            assert messages, f"{len(found)} of {count} records came"
            assert all(message.error() is None for message in messages)
            found += [value for message in messages if (value := message.value()) is not None]
        consumer.close()
        return found

    def offsets(self, topic: str) -> tuple[int, int]:
        """The earliest and the latest offset of partition 0."""
        consumer = Consumer({**self._settings, "group.id": "none"})
        try:
            return _watermarks(consumer, topic)
        finally:
            consumer.close()

    def close(self) -> None:
        """Do nothing: librdkafka closes itself."""


def _watermarks(consumer: Consumer, topic: str) -> tuple[int, int]:
    """Asks again where the broker that was asked has not heard of the topic yet: librdkafka leaves that to its user."""
    until = monotonic() + TIMEOUT_S
    while True:
        try:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=TIMEOUT_S)
            return low, high
        except KafkaException as error:
            if error.args[0].code() != KafkaError._UNKNOWN_PARTITION or monotonic() > until:
                raise


def _error_of(future: "Future[None]") -> str:
    try:
        future.result(TIMEOUT_S)
    except KafkaException as error:
        kafka_error: KafkaError = error.args[0]
        return str(kafka_error.name())
    return ""
