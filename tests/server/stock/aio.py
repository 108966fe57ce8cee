"""aiokafka behind the interface of the stock client tests, with one event loop per call."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

TIMEOUT_S = 15.0
T = TypeVar("T")


class AioKafka:
    """One client; topics have one partition by default."""

    name = "aiokafka"
    codecs = ("gzip", "snappy", "lz4", "zstd")

    def __init__(self, bootstrap: str) -> None:
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
        self._bootstrap = bootstrap

    def create(self, topic: str, *, partitions: int = 1, replicas: int = 3) -> str:
        """The name of the error, "" for none."""

        async def work(admin: AIOKafkaAdminClient) -> str:
            created = await admin.create_topics([NewTopic(topic, partitions, replicas)], timeout_ms=int(TIMEOUT_S * 1000))
            return _name_of(created.topic_errors[0][1])

        return self._as_admin(work)

    def delete(self, topic: str) -> str:
        """The name of the error, "" for none."""

        async def work(admin: AIOKafkaAdminClient) -> str:
            deleted = await admin.delete_topics([topic], timeout_ms=int(TIMEOUT_S * 1000))
            return _name_of(deleted.topic_error_codes[0][1])

        return self._as_admin(work)

    def topics(self) -> set[str]:
        """The names of all topics."""

        async def work(admin: AIOKafkaAdminClient) -> set[str]:
            return set(await admin.list_topics())

        return self._as_admin(work)

    def offline(self, topic: str) -> list[int]:
        """Offline replicas of partition 0."""

        async def work(admin: AIOKafkaAdminClient) -> list[int]:
            (described,) = await admin.describe_topics([topic])
            return list(described["partitions"][0]["offline_replicas"])

        return self._as_admin(work)

    def produce(
        self, topic: str, values: Sequence[bytes], *, acks: int = -1, codec: str = "none", idempotent: bool = False
    ) -> list[int]:
        """The acknowledged offsets, in the order of the values."""

        async def work() -> list[int]:
            producer = AIOKafkaProducer(
                bootstrap_servers=self._bootstrap,
                acks="all" if acks == -1 else acks,
                compression_type=None if codec == "none" else codec,
                enable_idempotence=idempotent,
                linger_ms=20,
            )
            await producer.start()
            try:
                futures = [await producer.send(topic, value, partition=0) for value in values]
                found = await asyncio.gather(*futures)
                return [-1 if metadata is None else metadata.offset for metadata in found]
            finally:
                await producer.stop()

        return _run(work)

    def consume(self, topic: str, count: int) -> list[bytes]:
        """The first `count` values of partition 0."""

        async def work(consumer: AIOKafkaConsumer) -> list[bytes]:
            tp = TopicPartition(topic, 0)
            consumer.assign([tp])
            consumer.seek(tp, 0)
            values_read: list[bytes] = []
            while len(values_read) < count:
                records = (await consumer.getmany(tp, timeout_ms=int(TIMEOUT_S * 1000))).get(tp, [])
                assert records, f"{len(values_read)} of {count} records came"
                values_read += [record.value for record in records]
            return values_read

        return self._as_consumer(work)

    def offsets(self, topic: str) -> tuple[int, int]:
        """The earliest and the latest offset of partition 0."""

        async def work(consumer: AIOKafkaConsumer) -> tuple[int, int]:
            tp = TopicPartition(topic, 0)
            return (await consumer.beginning_offsets([tp]))[tp], (await consumer.end_offsets([tp]))[tp]

        return self._as_consumer(work)

    def close(self) -> None:
        """Do nothing: each call closes its client."""

    def _as_admin(self, work: Callable[[AIOKafkaAdminClient], Awaitable[T]]) -> T:
        async def whole() -> T:
            admin = AIOKafkaAdminClient(bootstrap_servers=self._bootstrap)
            await admin.start()
            try:
                return await work(admin)
            finally:
                await admin.close()

        return _run(whole)

    def _as_consumer(self, work: Callable[[AIOKafkaConsumer], Awaitable[T]]) -> T:
        async def whole() -> T:
            consumer = AIOKafkaConsumer(bootstrap_servers=self._bootstrap, group_id=None, enable_auto_commit=False)
            await consumer.start()
            try:
                return await work(consumer)
            finally:
                await consumer.stop()

        return _run(whole)


def _run(work: Callable[[], Coroutine[None, None, T]]) -> T:
    async def in_time() -> T:
        return await asyncio.wait_for(work(), 2 * TIMEOUT_S)

    return asyncio.run(in_time())


_NAMES = {0: "", 3: "UNKNOWN_TOPIC_OR_PART", 36: "TOPIC_ALREADY_EXISTS"}


def _name_of(code: int) -> str:
    return _NAMES[code]
