"""Transactions of a Kafka client with librdkafka, as Jepsen's workload makes them.

A producer with a transactional id of its own sends; a consumer that reads committed records polls all partitions from the
beginning. A call counts as sent once its commit was asked for (`workloads.completion`). After any failure the producer is given
up, aborted if that still can be: the next one has the same id, so the coordinator ends what the last one left open and refuses
what of it is still under way. After a failure the consumer goes back to where it was; after a commit of unknown outcome it begins
anew.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from highwater.rig.attempts import Reply
from highwater.rig.sessions import Partition, ReadCommittedCall, TxnCall, key_of
from reference.errors import ErrorCode

CALL_S = 5.0  # for each request of a transaction
CLOSE_S = 1.0  # to abort what is given up
TRANSACTION_MS = 6000  # after which the coordinator aborts a transaction that nobody ends
POLL_S = 0.2  # of a transaction: it takes what is there
ABORTED = "ABORTED"  # not Kafka's: the client aborted as it was asked to
POLLED_MAX = 500
_TIMED_OUT = ErrorCode.REQUEST_TIMED_OUT.name
ERRORS = {int(code): code.name for code in ErrorCode}
READING = {"enable.auto.commit": False, "enable.partition.eof": True, "fetch.wait.max.ms": 50, "fetch.error.backoff.ms": 50}

Records = dict[str, list[list[object]]]  # by partition: offset and value


def name_of(error: KafkaError) -> str:
    """The name of an error: Kafka's for a broker's error; librdkafka's, which begins with "_", for one of its own."""
    return ERRORS.get(error.code(), error.name())


class Reading:
    """Where the partitions end that a consumer has read to their ends, by partition; and an error that is still to be told."""

    def __init__(self) -> None:
        self.ended: dict[str, int] = {}
        self._error: KafkaError | None = None

    def ended_all(self, partitions: Iterable[Partition]) -> bool:
        """Whether each of the partitions was read to its end."""
        return all(key_of(partition) in self.ended for partition in partitions)

    def poll(self, consumer: Consumer, wait_s: float, positions: dict[Partition, int]) -> Records:
        """The next records by partition; moves the positions. Raises KafkaException for an error that does not pass.

        librdkafka gives records and errors of other partitions at once, and goes on behind both. So an error that came with
        records is told by the next poll: these records would never be given again.
        """
        if self._error is None:
            records = self._take(consumer.consume(POLLED_MAX, wait_s), positions)
            if records or self._error is None:
                return records
        error, self._error = self._error, None
        raise KafkaException(error)

    def _take(self, messages: Iterable[Message], positions: dict[Partition, int]) -> Records:
        """Sort messages by partition and move the positions; keeps the first error that does not pass."""
        records: Records = {}
        for message in messages:
            partition = (str(message.topic()), int(message.partition() or 0))
            error, offset = message.error(), message.offset()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    self.ended[key_of(partition)] = offset or 0
                elif not error.retriable():
                    self._error = self._error or error
                continue
            assert offset is not None
            self.ended.pop(key_of(partition), None)
            positions[partition] = offset + 1
            records.setdefault(key_of(partition), []).append([offset, (message.value() or b"").decode()])
        return records


@contextmanager
def _as_kafka_exception() -> Iterator[None]:
    """Raise KafkaException for an error of the library that comes as another one."""
    try:
        yield
    except BufferError:
        raise KafkaException(KafkaError(KafkaError._QUEUE_FULL)) from None
    except SystemError as raised:
        # A fatal error between the callbacks of one call: the next callback is called with it.
        if not isinstance(raised.__cause__, KafkaException):
            raise
        raise raised.__cause__ from None


class TransactionalProducer:
    """The transactional producer of one client, made and initialized on first use; after an error it is given up.

    Its methods raise KafkaException, and no other error of the library.
    """

    def __init__(self, name: str, settings: dict[str, Any], *, timeout_ms: int) -> None:
        own = {
            "transactional.id": f"highwater-{name}",
            "transaction.timeout.ms": max(TRANSACTION_MS, timeout_ms),
            "message.timeout.ms": min(TRANSACTION_MS, max(1000, timeout_ms)),
            "retry.backoff.ms": 50,
            "linger.ms": 0,
        }
        self._settings = {**settings, **own}
        self._timeout_ms = timeout_ms
        self._producer: Producer | None = None

    def ready(self) -> Producer:
        """The producer, initialized."""
        if self._producer is None:
            producer = Producer(self._settings)
            producer.init_transactions(CALL_S)
            self._producer = producer
        return self._producer

    def send(self, to: Partition, value: str, answer: list[object], failed: list[KafkaError]) -> None:
        """Send one record; its offset is entered as the first of the answer's two places when it is delivered."""

        def report(error: KafkaError | None, message: Message) -> None:
            if error is None:
                answer[0] = message.offset()
            else:
                failed.append(error)

        with _as_kafka_exception():
            self.ready().produce(to[0], value.encode(), partition=to[1], on_delivery=report)

    def flush(self, seconds: float) -> int:
        """Wait until what was sent is delivered or has failed, at most so long; returns how many records are neither."""
        with _as_kafka_exception():
            return self.ready().flush(seconds)

    def commit(self) -> None:
        """Commit the transaction."""
        with _as_kafka_exception():
            self.ready().commit_transaction(CALL_S)

    def send_offsets(self, offsets: list[TopicPartition], group: object) -> None:
        """Add the positions of a group to the transaction. Raises KafkaException, also where the library gives no answer.

        librdkafka 2.16 may wait far beyond the time that it is given, for a group coordinator that is down (its issues 5456 and
        5511). So a thread of its own waits; it is left behind with its producer, which every other call would find busy.
        """
        producer, answer = self.ready(), SimpleQueue[KafkaException | None]()

        def wait() -> None:
            try:
                producer.send_offsets_to_transaction(offsets, group, CALL_S)
                answer.put(None)
            except KafkaException as raised:
                answer.put(raised)

        Thread(target=wait, daemon=True).start()
        try:
            raised = answer.get(timeout=CALL_S + CLOSE_S)
        except Empty:
            self._producer = None
            raised = KafkaException(KafkaError(KafkaError._TIMED_OUT))
        if raised is not None:
            raise raised

    def abort(self) -> None:
        """Abort on purpose. What was not sent is sent before: an abort drops it, and would show nothing."""
        self.flush(self._timeout_ms / 1000)
        with _as_kafka_exception():
            self.ready().abort_transaction(CALL_S)

    def give_up(self) -> None:
        """Abort and drop the producer: the next transaction gets a new one, which fences it by the same id."""
        if self._producer is not None:
            with suppress(KafkaException):
                self._producer.abort_transaction(CLOSE_S)
            self._producer.purge()
            self._producer = None


class Transactions:
    """Transactions of sends, and of polls by a consumer of committed records that keeps its own positions."""

    def __init__(self, producer: TransactionalProducer, settings: dict[str, Any], *, timeout_ms: int) -> None:
        self._producer = producer
        self._settings = settings
        self._timeout_ms = timeout_ms
        self._consumer: Consumer | None = None
        self._positions: dict[Partition, int] = {}
        self._reading = Reading()

    def perform(self, call: TxnCall) -> Reply:
        """Perform the micro-operations in one transaction, and commit or abort it; after an error go back to the old offsets."""
        answers: list[list[object]] = [["poll"] if m.value is None else ["send", "", [None, m.value]] for m in call.micros]
        before = dict(self._positions)
        sent = False
        error = None
        failed: list[KafkaError] = []
        sends = any(micro.value is not None for micro in call.micros)
        try:
            if sends:
                self._producer.ready().begin_transaction()
            for micro, answer in zip(call.micros, answers, strict=True):
                if micro.value is None:
                    answer[1:] = self._poll(call.reads)
                else:
                    to = (micro.topic, micro.partition)
                    placed: list[object] = [None, micro.value]
                    answer[1:] = [key_of(to), placed]
                    self._producer.send(to, micro.value, placed, failed)
            if sends and call.aborts:
                self._producer.abort()
                error = ABORTED
            elif sends:
                sent = True
                self._producer.commit()
        except KafkaException as raised:
            error = name_of(raised.args[0])
            self._producer.give_up()
        if error is None and failed:  # a commit confirmed although a record was not: nobody knows what that means
            error = name_of(failed[0])
        if error is not None:
            self._back_to({} if sent else before)
        return Reply(
            id=call.id,
            attempts=int(sent),
            error=error,
            told=answers,
            positions=moved(before, self._positions) if error is None else (),
            at_end=bool(call.micros) and error is None and answers[-1][-1] == "end",
        )

    def read(self, call: ReadCommittedCall) -> Reply:
        """Poll committed records from where the last poll ended, outside of any transaction."""
        before = dict(self._positions)
        try:
            records, *end = self._poll(call.reads)
        except KafkaException as raised:
            self._back_to(before)
            return Reply(id=call.id, attempts=1, error=name_of(raised.args[0]))
        return Reply(
            id=call.id,
            attempts=1,
            told={"records": records, **({"end": True} if end else {})},
            positions=moved(before, self._positions),
            at_end=bool(end),
        )

    def close(self) -> None:
        """Close producer and consumer."""
        self._producer.give_up()
        self._back_to({})

    def _poll(self, reads: tuple[Partition, ...]) -> list[object]:
        """The records from the positions on, with "end" if all partitions were read to their ends and no transaction hides more.

        Raises KafkaException at the timeout.
        """
        if self._consumer is None:
            own = {"group.id": "highwater", "auto.offset.reset": "error", "isolation.level": "read_committed"}
            self._consumer = Consumer({**self._settings, **READING, **own})
            starts = [TopicPartition(*read, self._positions.get(read, OFFSET_BEGINNING)) for read in reads]
            self._consumer.assign(starts)
        end_s = monotonic() + self._timeout_ms / 1000
        while True:
            records = self._reading.poll(self._consumer, POLL_S, self._positions)
            ended = self._reading.ended_all(reads)
            if records or ended:
                return [records, "end"] if ended and self._shows_all(reads) else [records]
            if monotonic() > end_s:
                # An empty answer that is no end would look as if there were nothing to read.
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    def _shows_all(self, reads: tuple[Partition, ...]) -> bool:
        """Whether the partitions end where their high watermarks are: committed records end at the first open transaction."""
        assert self._consumer is not None
        for read in reads:
            _, high = self._consumer.get_watermark_offsets(TopicPartition(*read), cached=True)
            if high != self._reading.ended[key_of(read)]:
                return False
        return True

    def _back_to(self, positions: dict[Partition, int]) -> None:
        """Give up the consumer; the next one begins at these positions, and elsewhere at the beginning."""
        self._positions = dict(positions)
        self._reading = Reading()
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None


def moved(before: dict[Partition, int], after: dict[Partition, int]) -> tuple[tuple[str, int, int], ...]:
    """The positions that are not what they were: topic, partition, position."""
    return tuple((*partition, offset) for partition, offset in sorted(after.items()) if before.get(partition) != offset)
