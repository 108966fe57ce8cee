"""Transactions of sends and polls, as clients/transactions.py makes them with librdkafka.

A call counts as sent once its commit was asked for. After an error the producer is given up. The consumer goes back to where it
was then, or to the beginning after a commit of unknown outcome.
"""

import asyncio
from contextlib import suppress
from time import monotonic

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from .owners import CALL_S, CLOSE_S, LateError, Owner
from .settings import POLL_MS, POLLED_MAX, Call, Heard, Settings, key_of, text_of, told_error

ABORTED = {"error": "ABORTED"}  # not Kafka's: the client aborted as it was asked to


class TransactionalProducer:
    """The transactional producer of one client, made and initialized on first use; after an error it is given up."""

    def __init__(self, settings: Settings, transactional_id: str) -> None:
        self._settings = settings
        self._id = transactional_id
        self._producer: AIOKafkaProducer | None = None
        self._owner = Owner()

    async def ready(self) -> AIOKafkaProducer:
        """The producer, initialized."""
        if self._producer is None:
            owner, producer = Owner(), self._settings.transactional(self._id)
            try:
                await owner.call(producer.start(), CALL_S)
            except Exception:
                await owner.discard(producer.client.close())
                raise
            self._owner, self._producer = owner, producer
        return self._producer

    async def begin(self) -> None:
        """Begin a transaction."""
        producer = await self.ready()
        await self._owner.call(producer.begin_transaction(), CALL_S)

    async def send(self, to: TopicPartition, value: str) -> asyncio.Future[object]:
        """Hand a record over; its result comes later."""
        producer = await self.ready()
        sent: asyncio.Future[object] = await self._owner.call(
            producer.send(to.topic, value.encode(), partition=to.partition), CALL_S
        )
        return sent

    async def flush(self, limit_s: float) -> None:
        """Wait until what was sent is delivered or has failed. LateError at the limit."""
        producer = await self.ready()
        await self._owner.call(producer.flush(), limit_s)

    async def commit(self) -> None:
        """Commit the transaction."""
        producer = await self.ready()
        await self._owner.call(producer.commit_transaction(), CALL_S)

    async def abort(self) -> None:
        """Abort the transaction."""
        producer = await self.ready()
        await self._owner.call(producer.abort_transaction(), CALL_S)

    async def send_offsets(self, offsets: dict[TopicPartition, int], group: str) -> None:
        """Add the positions of a group to the transaction."""
        producer = await self.ready()
        await self._owner.call(producer.send_offsets_to_transaction(offsets, group), CALL_S)

    async def give_up(self) -> None:
        """Abort and drop the producer: the next one has the same transactional id and fences it."""
        producer, self._producer = self._producer, None
        if producer is None:
            return
        with suppress(Exception):  # it is given up anyway
            await self._owner.call(producer.abort_transaction(), CLOSE_S)
        await self._owner.discard(producer.client.close())


Sent = list[tuple[list[object], asyncio.Future[object]]]  # the two places of an answer, and the result that gives the first


def enter_offsets(sent: Sent, heard: Heard) -> bool:
    """Enter the offset of each record that was delivered as the first of its two places. False after a new error.

    aiokafka commits what was delivered, though other records of the transaction were refused, and goes on with sequences that
    have a gap. So of a commit that was confirmed although a record was not, nobody knows what it means.
    """
    is_new = "error" not in heard
    for placed, result in sent:
        error = result.exception() if result.done() else LateError()
        if error is None:
            placed[0] = getattr(result.result(), "offset", None)
        elif "error" not in heard:
            heard.update(told_error(error))
    return not is_new or "error" not in heard


class Transactions:
    """Transactions of sends, and of polls by a consumer of committed records that keeps its own positions."""

    def __init__(self, settings: Settings, producer: TransactionalProducer) -> None:
        self._settings = settings
        self._producer = producer
        self._consumer: AIOKafkaConsumer | None = None
        self._watermarks: AIOKafkaConsumer | None = None  # asks where partitions end, whatever transactions are open
        self._owner = Owner()
        self._positions: dict[TopicPartition, int] = {}

    async def perform(self, call: Call, heard: Heard) -> None:
        """Perform the micro-operations in one transaction, and commit or abort it."""
        before = dict(self._positions)
        results: Sent = []
        sends = any(micro["value"] is not None for micro in call["micros"])
        heard |= {"attempts": 0, "at_end": False, "told": []}
        try:
            if sends:
                await self._producer.begin()
            await self._micros(call, heard, results)
            if sends and call["aborts"]:
                with suppress(LateError):
                    await self._producer.flush(self._settings.timeout_s)  # an abort may drop what was not sent
                await self._producer.abort()
                heard.update(ABORTED)
            elif sends:
                heard["attempts"] = 1
                await self._producer.commit()
        except Exception as error:  # noqa: BLE001 (whatever went wrong ends this transaction)
            heard.update(told_error(error))
            await self._producer.give_up()
        if not enter_offsets(results, heard):
            await self._producer.give_up()
        if "error" in heard:
            heard["at_end"] = False
            await self._back_to({} if heard["attempts"] else before)
        else:
            heard["positions"] = self._moved(before)

    def _moved(self, before: dict[TopicPartition, int]) -> list[list[object]]:
        """The positions that are not what they were."""
        return [[*of, position] for of, position in sorted(self._positions.items()) if before.get(of) != position]

    async def _micros(self, call: Call, heard: Heard, results: Sent) -> None:
        """Perform the micro-operations in turn."""
        for micro in call["micros"]:
            answer: list[object] = ["poll" if micro["value"] is None else "send"]
            heard["told"].append(answer)
            if micro["value"] is None:
                heard["at_end"] = await self._read(call["reads"], answer)
                continue
            heard["at_end"] = False
            to = TopicPartition(micro["topic"], micro["partition"])
            placed: list[object] = [None, micro["value"]]
            answer += [key_of(to), placed]
            results.append((placed, await self._producer.send(to, micro["value"])))

    async def read_committed(self, call: Call, heard: Heard) -> None:
        """Poll committed records from where the last poll ended, outside of any transaction."""
        before = dict(self._positions)
        answer: list[object] = []
        try:
            heard["at_end"] = await self._read(call["reads"], answer)
        except Exception:
            await self._back_to(before)
            raise
        heard["told"] = {"records": answer[0], **({"end": True} if heard["at_end"] else {})}
        heard["positions"] = self._moved(before)

    async def _read(self, reads: list[list[object]], answer: list[object]) -> bool:
        """Add the records from the positions on to the answer, and "end" if it is reached, which is returned.

        It is where every partition ended after the call began, if no open transaction hides more: committed records end at the
        first one. LateError at the timeout.
        """
        limit_s = self._settings.timeout_s
        partitions = [TopicPartition(*read) for read in reads]
        consumer, watermarks = await self._consumers(partitions)
        written = await self._owner.call(watermarks.end_offsets(partitions), limit_s)
        ends = await self._owner.call(consumer.end_offsets(partitions), limit_s)
        end_s = monotonic() + limit_s
        records: dict[str, list[list[object]]] = {}
        ended = False
        while not ended and not records:
            polled = await self._owner.call(consumer.getmany(timeout_ms=POLL_MS, max_records=POLLED_MAX), limit_s)
            for of, some in polled.items():
                self._positions[of] = some[-1].offset + 1
                records[key_of(of)] = [[record.offset, text_of(record.value)] for record in some]
            ended = True
            for of in partitions:
                ended = ended and await self._owner.call(consumer.position(of), limit_s) >= ends[of]
            if not ended and not records and monotonic() > end_s:
                raise LateError
        answer.append(records)
        ended = ended and all(ends[of] >= written[of] for of in partitions)
        if ended:
            answer.append("end")
        return ended

    async def _consumers(self, partitions: list[TopicPartition]) -> tuple[AIOKafkaConsumer, AIOKafkaConsumer]:
        """The consumer at its positions, or at the beginning, and the one that asks for ends."""
        if self._consumer is None or self._watermarks is None:
            limit_s = self._settings.timeout_s
            self._consumer = consumer = self._settings.consumer("read_committed")
            self._watermarks = watermarks = self._settings.consumer("read_uncommitted")
            try:
                await self._owner.call(consumer.start(), CALL_S)
                await self._owner.call(watermarks.start(), CALL_S)
                consumer.assign(partitions)
                unknown = [of for of in partitions if of not in self._positions]
                begins = await self._owner.call(consumer.beginning_offsets(unknown), limit_s) if unknown else {}
                for of in partitions:
                    consumer.seek(of, self._positions[of] if of in self._positions else begins[of])
            except Exception:
                await self._close_consumers()
                raise
        return self._consumer, self._watermarks

    async def _back_to(self, positions: dict[TopicPartition, int]) -> None:
        """Give up the consumer; the next one begins at these positions, and elsewhere at the beginning."""
        self._positions = dict(positions)
        await self._close_consumers()

    async def _close_consumers(self) -> None:
        consumers, owner = (self._consumer, self._watermarks), self._owner
        self._consumer = self._watermarks = None
        self._owner = Owner()
        for consumer in consumers:
            if consumer is not None:
                with suppress(Exception):  # it is given up anyway
                    await owner.call(consumer.stop(), CLOSE_S)
        owner.drop()

    async def close(self) -> None:
        """Close producer and consumers."""
        await self._producer.give_up()
        await self._back_to({})
