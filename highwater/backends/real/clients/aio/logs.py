"""Produces to partitions, and reads of them, as clients/kafka.py makes them with librdkafka.

aiokafka's producer takes no number of retries. It sends a batch again after each error that it takes for passing, until the batch
is as old as a request may take, and without end if it is idempotent. So the requests that leave it are counted: one that was sent
once is judged by its error; of one that was sent more often, only the last attempt is known.
"""

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import NodeNotReadyError, OffsetOutOfRangeError

from .owners import CALL_S, CLOSE_S, LateError, Owner
from .settings import POLL_MS, Call, Heard, Settings, partition_of, text_of, told_error

_OPEN_S = 30.0
_AGAIN_S = 0.5
_UNREPORTED = "_NO_REPORT"  # as in clients/kafka.py
_RETRIED = "_RETRIED"


class _Producer:
    """A producer, and how many produce requests it has sent."""

    def __init__(self, producer: AIOKafkaProducer) -> None:
        self.producer = producer
        self.owner = Owner()
        self.sent = 0
        self._send: Callable[..., Awaitable[object]] = producer.client.send
        producer.client.send = self._counted

    async def _counted(self, node: object, request: object, **options: object) -> object:
        """Send a request; one to a broker that cannot be connected to was not sent."""
        produces = type(request).__name__.startswith("ProduceRequest")
        self.sent += produces
        try:
            return await self._send(node, request, **options)
        except NodeNotReadyError:
            self.sent -= produces
            raise

    async def drop(self) -> None:
        """Drop it with all that it has not sent."""
        await self.owner.discard(self.producer.client.close())


class Logs:
    """The producers of one client, by acks and idempotence, and its reader."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._producers: dict[tuple[int, bool], _Producer] = {}
        self._reader: AIOKafkaConsumer | None = None
        self._reading = Owner()

    async def open(self) -> None:
        """Reach the cluster."""
        end_s = monotonic() + _OPEN_S
        while True:
            try:
                reader = await self._read()
                await self._reading.call(reader.topics(), self._settings.timeout_s)
                return
            except Exception:
                if monotonic() > end_s:
                    raise
                await asyncio.sleep(_AGAIN_S)

    async def produce(self, call: Call, heard: Heard) -> None:
        """Send the values one by one, and wait until each is delivered or failed."""
        end_s = monotonic() + self._settings.timeout_s + CALL_S
        heard["attempts"] = 0
        key = (call["acks"], call["idempotent"])
        if key not in self._producers:
            made = _Producer(self._settings.producer(acks=call["acks"], idempotent=call["idempotent"]))
            try:
                await made.owner.call(made.producer.start(), CALL_S)
            except Exception:
                await made.drop()
                raise
            self._producers[key] = made
        producer = self._producers[key]
        before = producer.sent
        failures, offsets, unreported = await self._deliver(producer, call, end_s)
        if failures and (call["idempotent"] or unreported):
            # It may have had a fatal error, or may still send an old record.
            await self._producers.pop(key).drop()
        sent = producer.sent - before
        if not failures and sent == 0:
            raise SystemExit("aiokafka delivered a record by no request that was counted")
        heard["attempts"] = min(1, sent) if call["idempotent"] else sent
        if not failures:
            if len(offsets) == len(call["values"]):  # with acks=0 there are none
                heard["offsets"] = offsets
            return
        heard.update(failures[0])
        # Earlier attempts, and other values of the operation, may have had another result.
        if call["idempotent"] or sent > 1 or len(failures) < len(call["values"]) or any(each != failures[0] for each in failures):
            heard["earlier"] = [_RETRIED]

    async def _deliver(self, producer: _Producer, call: Call, end_s: float) -> tuple[list[Heard], list[int], bool]:
        """Send the values: an error for each that failed or was not taken, the offsets of the others, and whether one is open."""
        to = partition_of(call["tp"])
        failures: list[Heard] = []
        not_taken: list[Heard] = []
        results: list[asyncio.Future[object]] = []
        for value in call["values"]:
            own = value.partition("=")[0].encode() if self._settings.keyed else None
            sending = producer.producer.send(to.topic, value.encode(), own, partition=to.partition)
            try:
                results.append(await producer.owner.call(sending, max(0.0, end_s - monotonic())))
            except Exception as error:  # noqa: BLE001 (it is the answer)
                not_taken = [told_error(error)] * (len(call["values"]) - len(results))
                break
        if results:
            await asyncio.wait(results, timeout=max(0.0, end_s - monotonic()))
        offsets: list[int] = []
        unreported = False
        for result in results:
            if not result.done():
                unreported = True
                failures.append({"error": _UNREPORTED})
            elif (failure := result.exception()) is not None:
                failures.append(told_error(failure))
            elif (offset := getattr(result.result(), "offset", -1)) >= 0:
                offsets.append(offset)
        return failures + not_taken, offsets, unreported

    async def bound(self, call: Call, heard: Heard, *, latest: bool) -> None:
        """Ask for the offset at one end of the log."""
        partition = partition_of(call["tp"])
        reader = await self._read()
        asking = reader.end_offsets([partition]) if latest else reader.beginning_offsets([partition])
        heard["offset"] = (await self._reading.call(asking, self._settings.timeout_s))[partition]

    async def poll(self, call: Call, heard: Heard) -> None:
        """Return records that were fetched after the call began: the partition is assigned anew.

        A consumer does not tell that a partition has no more, so its end is asked for first.
        """
        partition, offset = partition_of(call["tp"]), call["offset"]
        reader = await self._read()
        reader.assign([partition])
        try:
            reader.seek(partition, offset)
            ends = await self._reading.call(reader.end_offsets([partition]), self._settings.timeout_s)
            if ends[partition] < offset:
                raise OffsetOutOfRangeError(f"the log ends at {ends[partition]}")
            heard["records"] = await self._fetched(reader, partition, ends[partition], call["max_records"])
        finally:
            reader.pause(partition)  # it fetches nothing between two polls

    async def _fetched(self, reader: AIOKafkaConsumer, partition: TopicPartition, end: int, count: int) -> list[list[object]]:
        """The next records, perhaps none if there are none below the end. LateError at the timeout."""
        end_s = monotonic() + self._settings.timeout_s
        while await self._reading.call(reader.position(partition), self._settings.timeout_s) < end:
            polling = reader.getmany(partition, timeout_ms=POLL_MS, max_records=count)
            polled = await self._reading.call(polling, self._settings.timeout_s)
            if records := polled.get(partition):
                return [[record.offset, text_of(record.value), -1] for record in records]
            if monotonic() > end_s:
                raise LateError
        return []

    async def _read(self) -> AIOKafkaConsumer:
        """The reader, started."""
        if self._reader is None:
            owner, reader = Owner(), self._settings.consumer("read_uncommitted")
            try:
                await owner.call(reader.start(), CALL_S)
            except Exception:
                await owner.end(reader.stop(), CLOSE_S)
                raise
            self._reader, self._reading = reader, owner
        return self._reader

    async def close(self) -> None:
        """Close the reader and the producers; records that wait to be sent are dropped."""
        if self._reader is not None:
            await self._reading.end(self._reader.stop(), CLOSE_S)
            self._reader = None
        for producer in self._producers.values():
            await producer.drop()
        self._producers.clear()
