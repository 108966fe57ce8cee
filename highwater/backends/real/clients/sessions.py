"""Sessions of Kafka clients with librdkafka: transactions as Jepsen's workload makes them, and members of consumer groups.

Transactions. A producer with a transactional id of its own sends; a consumer that reads committed records polls all partitions
from the beginning. A call counts as sent once its commit was asked for (`workloads.completion`). After any failure the producer
is given up, aborted if that still can be: the next one has the same id, so the coordinator ends what the last one left open and
refuses what of it is still under way. After a failure the consumer goes back to where it was; after a commit of unknown outcome
it begins anew.

Groups. A member is subscribed, and commits only by calls. The answer to a poll says which partitions were assigned and revoked
during it. Calls block; the client's thread waits for them.
"""

from collections.abc import Iterable
from contextlib import suppress
from time import monotonic
from typing import Any, assert_never

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from highwater.rig.attempts import Heard
from highwater.rig.sessions import (
    CommitCall,
    CommittedCall,
    GroupLeaveCall,
    GroupPollCall,
    Partition,
    SessionCall,
    TxnCall,
    key_of,
)
from reference.errors import ErrorCode

CALL_S = 5.0  # for each request of a transaction
CLOSE_S = 1.0  # to abort what is given up
TRANSACTION_MS = 6000  # after which the coordinator aborts a transaction that nobody ends
POLL_S = 0.2  # of a transaction: it takes what is there
GROUP_POLL_S = 0.5
MEMBER_MS = 6000  # the least session timeout that brokers allow by default
ABORTED = "ABORTED"  # not Kafka's: the client aborted as it was asked to
POLLED_MAX = 500
_TIMED_OUT = ErrorCode.REQUEST_TIMED_OUT.name
ERRORS = {int(code): code.name for code in ErrorCode}
_READING = {"enable.auto.commit": False, "enable.partition.eof": True, "fetch.wait.max.ms": 50, "fetch.error.backoff.ms": 50}

Records = dict[str, list[list[object]]]  # by partition: offset and value


def name_of(error: KafkaError) -> str:
    """The name of an error: Kafka's for a broker's error; librdkafka's, which begins with "_", for one of its own."""
    return ERRORS.get(error.code(), error.name())


class Sessions:
    """The sessions of one client, which performs one call at a time."""

    def __init__(self, name: str, settings: dict[str, Any], *, timeout_ms: int, run: str = "") -> None:
        """`run` ends the transactional id and the names of groups: on a cluster that stays, earlier runs have left theirs."""
        self._transactions = _Transactions(f"{name}{run}", settings, timeout_ms=timeout_ms)
        self._member = _Member(settings, run, timeout_ms=timeout_ms)

    def perform(self, call: SessionCall) -> Heard:
        """Perform one call."""
        match call:
            case TxnCall():
                return self._transactions.perform(call)
            case GroupPollCall():
                return self._member.poll(call)
            case GroupLeaveCall():
                self._member.close()
                return Heard(id=call.id, attempts=1)
            case CommitCall():
                return self._member.commit(call)
            case CommittedCall():
                return self._member.committed(call)
            case _:
                assert_never(call)

    def close(self) -> None:
        """Close what is open."""
        self._transactions.close()
        self._member.close()


class _Reading:
    """What a consumer's polls returned, and where its partitions end."""

    def __init__(self) -> None:
        self.ended: set[str] = set()

    def take(self, messages: Iterable[Message], positions: dict[Partition, int]) -> Records:
        """Sort messages by partition and move the positions. Raises KafkaException for an error that does not pass."""
        records: Records = {}
        for message in messages:
            partition = (str(message.topic()), int(message.partition() or 0))
            error, offset = message.error(), message.offset()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    self.ended.add(key_of(partition))
                elif not error.retriable():
                    raise KafkaException(error)
                continue
            assert offset is not None
            self.ended.discard(key_of(partition))
            positions[partition] = offset + 1
            records.setdefault(key_of(partition), []).append([offset, (message.value() or b"").decode()])
        return records


class _Transactions:
    """A transactional producer, and a consumer of committed records that keeps its own positions."""

    def __init__(self, name: str, settings: dict[str, Any], *, timeout_ms: int) -> None:
        self._name = name
        self._settings = settings
        self._timeout_ms = timeout_ms
        self._producer: Producer | None = None
        self._consumer: Consumer | None = None
        self._positions: dict[Partition, int] = {}
        self._reading = _Reading()

    def perform(self, call: TxnCall) -> Heard:
        """Perform the micro-operations in one transaction, and commit or abort it; after an error go back to the old offsets."""
        answers: list[list[object]] = [["poll"] if m.value is None else ["send", "", [None, m.value]] for m in call.micros]
        before, sent, error = dict(self._positions), False, None
        failed: list[KafkaError] = []
        sends = any(micro.value is not None for micro in call.micros)
        try:
            if sends:
                self._transactional_producer().begin_transaction()
            for micro, answer in zip(call.micros, answers, strict=True):
                if micro.value is None:
                    answer[1:] = self._poll(call)
                else:
                    self._send((micro.topic, micro.partition), micro.value, answer, failed)
            if sends and call.aborts:
                self._transactional_producer().flush(
                    self._timeout_ms / 1000
                )  # an abort drops what was not sent, and would show nothing
                self._transactional_producer().abort_transaction(CALL_S)
                error = ABORTED
            elif sends:
                sent = True
                self._transactional_producer().commit_transaction(CALL_S)
        except KafkaException as raised:
            error = name_of(raised.args[0])
            self._give_up()
        except BufferError:
            error = "_QUEUE_FULL"
            self._give_up()
        if error is None and failed:  # a commit confirmed although a record was not: nobody knows what that means
            error = name_of(failed[0])
        moved = {at: offset for at, offset in self._positions.items() if before.get(at) != offset}
        at_end = self._reading.ended >= {key_of(partition_name) for partition_name in call.reads}
        if error is not None:
            self._back_to({} if sent else before)
        return Heard(
            id=call.id,
            attempts=int(sent),
            error=error,
            told=answers,
            positions=tuple((*partition, offset) for partition, offset in sorted(moved.items())) if error is None else (),
            at_end=at_end,
        )

    def close(self) -> None:
        self._give_up()
        self._back_to({})

    def _transactional_producer(self) -> Producer:
        """The producer, made and initialized on first use."""
        if self._producer is None:
            own = {
                "transactional.id": f"highwater-{self._name}",
                "transaction.timeout.ms": max(TRANSACTION_MS, self._timeout_ms),
                "message.timeout.ms": min(TRANSACTION_MS, max(1000, self._timeout_ms)),
                "retry.backoff.ms": 50,
                "linger.ms": 0,
            }
            producer = Producer({**self._settings, **own})
            producer.init_transactions(CALL_S)
            self._producer = producer
        return self._producer

    def _send(self, partition: Partition, value: str, answer: list[object], failed: list[KafkaError]) -> None:
        """Send one record; its offset is entered into the answer when it is delivered."""
        answer[1] = key_of(partition)

        def report(error: KafkaError | None, message: Message) -> None:
            if error is None:
                answer[2] = [message.offset(), value]
            else:
                failed.append(error)

        self._transactional_producer().produce(partition[0], value.encode(), partition=partition[1], on_delivery=report)

    def _poll(self, call: TxnCall) -> list[object]:
        """The records from the positions on, with "end" when every partition was read to its end. Raises KafkaException at the
        timeout.
        """
        if self._consumer is None:
            own = {"group.id": "highwater", "auto.offset.reset": "error", "isolation.level": "read_committed"}
            self._consumer = Consumer({**self._settings, **_READING, **own})
            starts = [TopicPartition(*read, self._positions.get(read, OFFSET_BEGINNING)) for read in call.reads]
            self._consumer.assign(starts)
        ends_wanted = {key_of(read) for read in call.reads}
        end_s = monotonic() + self._timeout_ms / 1000
        while True:
            messages = self._consumer.consume(POLLED_MAX, POLL_S)
            records = self._reading.take(messages, self._positions)
            if records or self._reading.ended >= ends_wanted:
                return [records, "end"] if self._reading.ended >= ends_wanted else [records]
            if monotonic() > end_s:
                # An empty answer that is no end would look as if there were nothing to read.
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    def _give_up(self) -> None:
        """Abort and drop the producer: the next transaction gets a new one."""
        if self._producer is not None:
            with suppress(KafkaException):
                self._producer.abort_transaction(CLOSE_S)
            self._producer.purge()
            self._producer = None

    def _back_to(self, positions: dict[Partition, int]) -> None:
        """Give up the consumer; the next one begins at these positions, and elsewhere at the beginning."""
        self._positions = dict(positions)
        self._reading = _Reading()
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None


class _Member:
    """A member of a consumer group."""

    def __init__(self, settings: dict[str, Any], run: str, *, timeout_ms: int) -> None:
        self._settings = settings
        self._run = run
        self._timeout_s = timeout_ms / 1000
        self._consumer: Consumer | None = None
        self._reading = _Reading()
        self._moved: dict[str, list[str]] = {}

    def poll(self, call: GroupPollCall) -> Heard:
        """Poll as a member of the group; the answer also tells the partitions that were assigned and revoked meanwhile."""
        self._moved = {}
        positions: dict[Partition, int] = {}
        try:
            consumer = self._group_consumer(call)
            records = self._reading.take(consumer.consume(POLLED_MAX, GROUP_POLL_S), positions)
            mine = {key_of((assigned.topic, assigned.partition)) for assigned in consumer.assignment()}
        except KafkaException as raised:
            return Heard(id=call.id, attempts=1, error=name_of(raised.args[0]), told={"group": call.group, **self._moved})
        return Heard(
            id=call.id,
            attempts=1,
            told={"group": call.group, **self._moved, "records": records},
            positions=tuple((*partition, offset) for partition, offset in sorted(positions.items())),
            at_end=bool(mine) and mine <= self._reading.ended,
        )

    def commit(self, call: CommitCall) -> Heard:
        """Commit an offset for the group."""
        if self._consumer is None:
            return Heard(id=call.id, attempts=0, error="_STATE")
        try:
            done = self._consumer.commit(offsets=[TopicPartition(*call.partition, call.offset)], asynchronous=False)
        except KafkaException as raised:
            return Heard(id=call.id, attempts=1, error=name_of(raised.args[0]))
        error = done[0].error if done else None
        return Heard(id=call.id, attempts=1, error=None if error is None else name_of(error))

    def committed(self, call: CommittedCall) -> Heard:
        """Ask for the offset that the group has committed; a member that never polled asks by a consumer of its own."""
        try:
            consumer = self._consumer or self._new(call.group)
            answer = consumer.committed([TopicPartition(*call.partition)], timeout=CALL_S)[0]
        except KafkaException as raised:
            return Heard(id=call.id, attempts=1, error=name_of(raised.args[0]))
        finally:
            if self._consumer is None and "consumer" in locals():
                consumer.close()
        if answer.error is not None:
            return Heard(id=call.id, attempts=1, error=name_of(answer.error))
        return Heard(id=call.id, attempts=1, offset=answer.offset if answer.offset >= 0 else None)

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _new(self, group: str) -> Consumer:
        own: dict[str, Any] = {"group.id": f"{group}{self._run}", "auto.offset.reset": "earliest"}
        own |= {"session.timeout.ms": MEMBER_MS, "heartbeat.interval.ms": 500}
        return Consumer({**self._settings, **_READING, **own})

    def _group_consumer(self, call: GroupPollCall) -> Consumer:
        """The consumer, subscribed on first use."""
        if self._consumer is None:
            self._reading = _Reading()
            self._consumer = self._new(call.group)
            topics = sorted({topic for topic, _ in call.reads})
            self._consumer.subscribe(topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke)
        return self._consumer

    def _on_assign(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._note("assigned", partitions)

    def _on_revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._note("revoked", partitions)

    def _note(self, what: str, partitions: list[TopicPartition]) -> None:
        keys = [key_of((partition.topic, partition.partition)) for partition in partitions]
        self._reading.ended -= set(keys)
        self._moved.setdefault(what, []).extend(keys)
