"""Members of consumer groups, as clients/members.py makes them with librdkafka.

A member is subscribed, and commits by calls, in the transactions of a producer, or automatically. A poll tells which partitions
were assigned and revoked during it.

aiokafka rebalances in the background. Here a member gives its partitions up during polls alone, as those of other libraries do,
so between two polls it works with the partitions that it was told of: the callback for revoked partitions waits for the next
poll. The coordinator waits for the member as long as a session lasts.
"""

import asyncio
import logging
from contextlib import suppress

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, ConsumerRecord, TopicPartition
from aiokafka.errors import IllegalStateError

from .owners import CALL_S, CLOSE_S, LateError, Owner
from .settings import POLLED_MAX, Call, Heard, Settings, is_refused, key_of, text_of, told_error
from .transactions import ABORTED, Sent, TransactionalProducer, enter_offsets

_GROUP_POLL_MS = 500
_POLL_S_MAX = 1.0  # of one poll, which waits for an assignment without end
_COORDINATION = logging.getLogger("aiokafka.consumer.group_coordinator")

Records = dict[str, list[list[object]]]  # by partition: offset and value


class _Door(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka is untyped
    """Lets a member give up its partitions while the door is open, and notes what was assigned and revoked."""

    def __init__(self) -> None:
        self._is_open = False
        self._opened = asyncio.Event()
        self.noted: dict[str, list[str]] = {}

    def open(self) -> None:
        """From now on partitions may be revoked."""
        self._is_open = True
        self._opened.set()

    def shut(self) -> None:
        """None is revoked until the door is opened."""
        self._is_open = False
        self._opened.clear()

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Wait until the door is open."""
        while not self._is_open:
            await self._opened.wait()
        self._note("revoked", revoked)

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Note them."""
        self._note("assigned", assigned)

    def _note(self, what: str, partitions: set[TopicPartition]) -> None:
        if partitions:
            self.noted.setdefault(what, []).extend(key_of(of) for of in sorted(partitions))


class _Commits(logging.Handler):
    """Counts how often commits of one member failed, which aiokafka tells its log alone."""

    def __init__(self, owner: Owner) -> None:
        super().__init__(logging.INFO)
        self._owner = owner
        self.failed = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Take a line of the log."""
        self.failed += self._owner.is_at_work() and "OffsetCommit" in record.getMessage()


class Members:
    """The member of one client."""

    def __init__(self, settings: Settings, producer: TransactionalProducer) -> None:
        self._settings = settings
        self._producer = producer
        self._consumer: AIOKafkaConsumer | None = None
        self._owner = Owner()
        self._door = _Door()

    async def poll(self, call: Call, heard: Heard) -> None:
        """Poll as a member of the group."""
        heard["told"] = {"group": call["group"]}
        positions: dict[TopicPartition, int] = {}
        try:
            heard["told"]["records"] = await self._polled(call, "read_uncommitted", positions, heard)
        except Exception:
            await self.close()  # one that failed may not poll again; the next poll joins anew
            raise
        heard["positions"] = _written(positions)
        heard["at_end"] = await self._is_at_end()

    async def process(self, call: Call, heard: Heard) -> None:
        """Poll, send a result of each record, and commit both with the group's positions; after an error, read them again."""
        heard |= {"attempts": 0, "told": {"group": call["group"]}}
        positions: dict[TopicPartition, int] = {}
        sent: Sent = []
        try:
            records = await self._polled(call, "read_committed", positions, heard)
            heard["told"]["records"] = records
            if positions and heard["told"].get("revoked"):
                # What was polled may be another member's by now: the next poll reads what this member still has, or has anew.
                heard["error"] = "REVOKED"
            elif positions:
                await self._in_transaction(call, records, positions, heard, sent=sent)
        except Exception as error:  # noqa: BLE001 (whatever went wrong ends this transaction)
            heard.update(told_error(error))
            await self._producer.give_up()
        if not enter_offsets(sent, heard):
            await self._producer.give_up()
        if "error" in heard:
            await self._rewind()
        else:
            heard["positions"] = _written(positions)
            heard["at_end"] = await self._is_at_end()

    async def _in_transaction(
        self, call: Call, records: Records, positions: dict[TopicPartition, int], heard: Heard, *, sent: Sent
    ) -> None:
        """Send the results, and commit them with the positions; `sent` takes each that was handed over."""
        told = heard["told"]
        await self._producer.begin()
        results: Records = {}
        told["results"] = results
        for key, some in records.items():
            to = TopicPartition(*call["writes"][int(key.rpartition("-")[2]) % len(call["writes"])])
            for offset, value in some:
                placed: list[object] = [None, f"{key}@{offset}={value}"]
                results.setdefault(key_of(to), []).append(placed)
                sent.append((placed, await self._producer.send(to, str(placed[1]))))
        await asyncio.sleep(call["work_ms"] / 1000)
        told["positions"] = {key_of(of): position for of, position in sorted(positions.items())}
        if call["aborts"]:
            with suppress(LateError):
                await self._producer.flush(self._settings.timeout_s)  # an abort may drop what was not sent
            await self._producer.abort()
            heard.update(ABORTED)
            return
        await self._producer.send_offsets(positions, self._settings.group(call["group"]))
        heard["attempts"] = 1
        await self._producer.commit()

    async def commit(self, call: Call, heard: Heard) -> None:
        """Commit an offset for the group.

        aiokafka asks again after an error that it takes for passing. Only the answer to the last request is told, so a refusal
        means something if it is the only one.
        """
        if self._consumer is None:
            heard |= {"attempts": 0, "error": "_STATE"}
            return
        commits = _Commits(self._owner)
        _COORDINATION.addHandler(commits)
        try:
            committing = self._consumer.commit({TopicPartition(*call["partition"]): call["offset"]})
            await self._owner.call(committing, CALL_S)
        except IllegalStateError:
            heard["attempts"] = 0  # it has no such partition
            raise
        except Exception as error:
            if not is_refused(error) or commits.failed <= 1:
                raise
            heard["error"] = "_RETRIED"
        finally:
            _COORDINATION.removeHandler(commits)

    async def committed(self, call: Call, heard: Heard) -> None:
        """Ask for the offset that the group has committed; a member that never polled asks by a consumer of its own."""
        position = (await self._positions(call["group"], [call["partition"]]))[0]
        if position is not None:
            heard["offset"] = position

    async def positions(self, call: Call, heard: Heard) -> None:
        """As `committed`, of several partitions."""
        positions = await self._positions(call["group"], call["reads"])
        keys = (key_of(TopicPartition(*read)) for read in call["reads"])
        heard["told"] = {"group": call["group"], "committed": dict(zip(keys, positions, strict=True))}

    async def _positions(self, group: str, partitions: list[list[object]]) -> list[int | None]:
        """The positions that the group has committed."""
        own: AIOKafkaConsumer | None = None
        consumer, owner = self._consumer, self._owner
        try:
            if consumer is None:
                owner = Owner()
                consumer = own = self._settings.member(group, "read_uncommitted")
                await owner.call(own.start(), CALL_S)
            return [await owner.call(consumer.committed(TopicPartition(*of)), CALL_S) for of in partitions]
        finally:
            if own is not None:
                await owner.end(own.stop(), CLOSE_S)

    async def close(self) -> None:
        """Leave the group."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            self._door.open()
            await self._owner.end(consumer.stop(), CALL_S)

    def abandon(self) -> None:
        """Die without a word: it neither commits nor leaves."""
        self._consumer = None
        self._owner.drop()

    async def _polled(self, call: Call, isolation: str, positions: dict[TopicPartition, int], heard: Heard) -> Records:
        """The records of one poll by partition; enters the positions behind them, and what was assigned and revoked."""
        try:
            if self._consumer is None:
                await self._join(call, isolation)
            try:
                polled = await self._owner.call(self._through_the_door(), _POLL_S_MAX)
            except LateError:  # it has no partitions yet
                polled = {}
        finally:
            heard["told"] |= self._door.noted
            self._door.noted = {}
        for of, some in polled.items():
            positions[of] = some[-1].offset + 1
        return {key_of(of): [[record.offset, text_of(record.value)] for record in some] for of, some in sorted(polled.items())}

    async def _join(self, call: Call, isolation: str) -> None:
        """Make a consumer that is subscribed."""
        owner, consumer = Owner(), self._settings.member(call["group"], isolation)
        door = _Door()
        try:
            await owner.call(consumer.start(), CALL_S)
        except Exception:
            await owner.end(consumer.stop(), CLOSE_S)
            raise
        consumer.subscribe(sorted({read[0] for read in call["reads"]}), listener=door)
        self._consumer, self._owner, self._door = consumer, owner, door

    async def _through_the_door(self) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Poll with the door open. It is shut at once when there are records: no partition is revoked in between."""
        assert self._consumer is not None
        self._door.open()
        try:
            polled: dict[TopicPartition, list[ConsumerRecord]] = await self._consumer.getmany(
                timeout_ms=_GROUP_POLL_MS, max_records=POLLED_MAX
            )
            return polled
        finally:
            self._door.shut()

    async def _rewind(self) -> None:
        """Begin again at the positions that the group committed, in the partitions that the member has."""
        if self._consumer is None:
            return
        try:
            for of in sorted(self._consumer.assignment()):
                position = await self._owner.call(self._consumer.committed(of), CALL_S)
                if position is None:
                    begins = await self._owner.call(self._consumer.beginning_offsets([of]), self._settings.timeout_s)
                    position = begins[of]
                self._consumer.seek(of, position)
        except Exception:  # noqa: BLE001 (whatever went wrong)
            await self.close()  # the next poll joins as a new member

    async def _is_at_end(self) -> bool:
        """Whether the member has partitions, and read them all to their ends."""
        assert self._consumer is not None
        partitions = sorted(self._consumer.assignment())
        limit_s = self._settings.timeout_s
        try:
            ends = await self._owner.call(self._consumer.end_offsets(partitions), limit_s) if partitions else {}
            for of in partitions:
                if await self._owner.call(self._consumer.position(of), limit_s) < ends[of]:
                    return False
        except Exception:  # noqa: BLE001 (it does not know)
            return False
        return bool(partitions)


def _written(positions: dict[TopicPartition, int]) -> list[list[object]]:
    """Positions by topic and partition."""
    return [[*of, position] for of, position in sorted(positions.items())]
