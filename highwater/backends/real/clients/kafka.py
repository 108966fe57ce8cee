"""Kafka clients of a run on real brokers: each workload process has its own librdkafka producers and consumer.

One operation is one send, so retries are off, with two exceptions: workloads that ask for retries, and the idempotent producer,
which librdkafka refuses without retries and which makes one logical send of them. In one case librdkafka sends again in spite of
the setting and does not count it: when a broker refuses a produce because it does not lead. librdkafka takes that for proof that
nothing was appended, but a leader that resigned after the append answers the same. librdkafka logs each such resend, and
`_Resends` counts these lines. Prefetched records are discarded: each poll assigns its partition anew, so it returns records that
were fetched after its invocation. An operation's result is given by names of errors; `workloads.completion` alone decides what
they mean for its outcome.

Calls block, so each process has a thread. A call ends at the latest CALL_MS_MAX after its request timeout.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from time import monotonic
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from msgspec import Struct
from msgspec.json import decode

from highwater.backends.real.clients.sessions import Sessions
from highwater.backends.real.clients.settings import NONE, Settings
from highwater.backends.real.clients.transactions import name_of
from highwater.backends.real.site import HostPort
from highwater.rig.attempts import Reply
from highwater.rig.sessions import SessionCall
from reference.client.calls import Call, EarliestCall, LatestCall, PollCall, Polled, ProduceCall
from reference.errors import ErrorCode
from reference.types import Address, LeaderEpoch, Offset, index_of, topic_of
from workloads.parameters import AutoCommit

CALL_MS_MAX = 5000
IDENTITY_MS_MAX = 2000
UNREPORTED = "_NO_REPORT"  # not librdkafka's: no delivery report came in time
RETRIED = "_RETRIED"  # not librdkafka's: there may have been earlier attempts whose results are unknown
_OUT_OF_RANGE = "OFFSET_OUT_OF_RANGE"
_NO_OFFSET = ErrorCode.OFFSET_NOT_AVAILABLE.name
_WAITED = "_MSG_TIMED_OUT"
_FORGOTTEN = (KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART)
# The log line of rd_kafka_toppar_leader_unavailable (debug=topic), and the errors in it after which librdkafka counts a retry.
_REFUSED = "broker unavailable: produce: "
_COUNTED = tuple(KafkaError(code).str() for code in (KafkaError._TRANSPORT, KafkaError.KAFKA_STORAGE_ERROR))
_SILENT = logging.Logger("librdkafka", logging.CRITICAL + 1)
_STATISTICS_MS = 50
_BATCH_MS = 5  # all values of one operation are handed over within this time, so they travel as one batch


class _Eos(Struct, frozen=True):
    idemp_state: str = ""


class _Statistics(Struct, frozen=True):
    """What matters of the statistics that librdkafka tells as JSON."""

    eos: _Eos = _Eos()


class _Identity:
    """Whether an idempotent producer has its producer id, which only its statistics tell.

    librdkafka looks for one in steps of half a second, and messages wait in its queue meanwhile: with a short timeout the first
    one expires, the producer is given up for that, and the next one begins again.
    """

    def __init__(self) -> None:
        self._is_known = False

    def read(self, statistics: str) -> None:
        """Take in the statistics, as JSON."""
        self._is_known = self._is_known or decode(statistics, type=_Statistics).eos.idemp_state == "Assigned"

    def wait_for(self, producer: Producer) -> None:
        """Wait until the producer has its id, at most IDENTITY_MS_MAX."""
        end_s = monotonic() + IDENTITY_MS_MAX / 1000
        while not self._is_known and monotonic() < end_s:
            producer.poll(_STATISTICS_MS / 1000)


class _Resends(logging.Handler):
    """Counts how often librdkafka resent the batches of one producer; complete once a message's delivery report came."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.log = logging.Logger("librdkafka", logging.DEBUG)  # outside the logger tree: no other handler gets these lines
        self.log.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Take a log line of librdkafka, and count it if it reports a resend."""
        line = record.getMessage()
        self.count += _REFUSED in line and not line.endswith(_COUNTED)


class KafkaClient:
    """The Kafka client of one simulated user (workload process): performs one call at a time with librdkafka."""

    def __init__(
        self,
        name: Address,
        brokers: Mapping[Address, HostPort],
        *,
        request_timeout_ms: int,
        run: str = "",
        membership: str = "",
        auto_commit: AutoCommit | None = None,
        keyed: bool = False,
        settings: Settings = NONE,
    ) -> None:
        """`run` tells the sessions of this run from those of other runs on the same cluster; `settings` are a user's."""
        self._timeout_ms = request_timeout_ms
        self._settings: dict[str, Any] = {
            **settings,
            "client.id": name,
            "bootstrap.servers": ",".join(f"{host}:{port}" for host, port in brokers.values()),
            "socket.timeout.ms": max(10, request_timeout_ms),
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 500,
            "topic.metadata.refresh.fast.interval.ms": 100,
            "metadata.max.age.ms": 5000,
            "allow.auto.create.topics": False,
            "broker.address.family": "v4",
            "log_level": 0,
            "logger": _SILENT,  # at level 0 librdkafka still writes to stderr that a producer was fenced
            "error_cb": lambda _: None,  # errors of a call are returned by the call
        }
        self._producers: dict[tuple[int, int, bool], tuple[Producer, _Resends]] = {}  # by acks, retries, idempotent
        self._keyed = keyed  # the key of a record is what its value has before "="
        self._learned: set[str] = set()  # partitions whose leader acknowledged acks=all since the producer with acks=0 asked
        self._consumer: Consumer | None = None
        self._sessions = Sessions(
            name, self._settings, timeout_ms=request_timeout_ms, run=run, membership=membership, auto_commit=auto_commit
        )
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)

    async def call(self, call: Call) -> Reply:
        """Perform one call (produce, poll …) in the Kafka client's thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._perform, call)

    async def perform(self, call: SessionCall) -> Reply:
        """Perform one call of a session (transaction, poll of a group …) in the Kafka client's thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._sessions.perform, call)

    async def close(self) -> None:
        """Close the Kafka client's consumer and producers, after the call in progress."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        self._thread.shutdown(wait=True)

    # --- in the thread -----------------------------------------------------------------------------------------------------

    def _perform(self, call: Call) -> Reply:
        """Perform a call on the thread of this client."""
        match call:
            case ProduceCall():
                return self._produce(call)
            case PollCall():
                return self._read(call, lambda consumer: self._poll(consumer, call))
            case LatestCall():
                return self._read(call, lambda consumer: self._offset_at_end(consumer, call, OFFSET_END))
            case EarliestCall():
                return self._read(call, lambda consumer: self._offset_at_end(consumer, call, OFFSET_BEGINNING))

    def _close(self) -> None:
        """Close consumer and producers; records that wait to be sent are dropped."""
        self._sessions.close()
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None
        for producer, _ in self._producers.values():
            producer.purge()
        self._producers.clear()

    # --- produce -----------------------------------------------------------------------------------------------------------

    def _produce(self, call: ProduceCall) -> Reply:
        """Send the values one by one, and wait until each is delivered or failed."""
        assert not call.misuse, "stage.unplayable refuses the workload 'misuse' before the run"
        end_s = monotonic() + (self._timeout_ms + CALL_MS_MAX) / 1000
        key = (call.acks, call.retries, call.idempotent)
        if key not in self._producers:
            self._producers[key] = self._new_producer(call)
        producer, resends = self._producers[key]
        before = resends.count
        delivered: list[int | None] = []  # offsets, in the order of the values
        failures: list[str] = []

        def report(error: KafkaError | None, message: Message) -> None:
            if error is None:
                delivered.append(message.offset())
            else:
                failures.append(name_of(error))

        if call.acks == 0 and call.tp in self._learned:
            # Producers do not share metadata, and this one never learns that it asks the wrong broker (LIVE-5).
            self._learned.discard(call.tp)
            with suppress(KafkaException):
                producer.list_topics(topic_of(call.tp), timeout=self._timeout_ms / 1000)
        handed_over = 0
        error: str | None = None
        for value in call.values:
            try:
                own = value.partition("=")[0] if self._keyed else None
                producer.produce(topic_of(call.tp), value.encode(), own, partition=index_of(call.tp), on_delivery=report)
            except BufferError:
                error = "_QUEUE_FULL"
                break
            except KafkaException as raised:
                error = name_of(raised.args[0])
                break
            handed_over += 1
        unreported = producer.flush(end_s - monotonic())
        if unreported:
            failures.append(UNREPORTED)
        if failures and (call.idempotent or unreported or _WAITED in failures):
            # This producer must not be used again: it may have had a fatal error, an old message may still leave its queue, or it
            # waits for the previous leader (one did for 50 s, to the end of its run; librdkafka's issue 4976 is similar).
            del self._producers[key]
        if not handed_over:
            return Reply(id=call.id, attempts=0, error=error)
        if error is not None:
            failures.append(error)
        if call.acks == -1 and not failures:
            self._learned.add(call.tp)
        return _heard_of_produce(call, failures, delivered, resent=resends.count - before)

    def _new_producer(self, call: ProduceCall) -> tuple[Producer, _Resends]:
        """A producer with these acks and retries, and the count of its resends, which only its debug log tells."""
        resends = _Resends()
        settings: dict[str, Any] = {
            "debug": "topic",
            "log_level": 7,
            "logger": resends.log,
            "acks": call.acks,
            "message.timeout.ms": self._timeout_ms,
            "request.timeout.ms": self._timeout_ms,
            "linger.ms": min(_BATCH_MS, self._timeout_ms - 1),
        }
        if not call.idempotent:
            return Producer({**self._settings, **settings, "message.send.max.retries": call.retries}), resends
        identity = _Identity()
        settings |= {
            "enable.idempotence": True,
            "retry.backoff.ms": 50,
            "stats_cb": identity.read,
            "statistics.interval.ms": _STATISTICS_MS,
        }
        producer = Producer({**self._settings, **settings})
        identity.wait_for(producer)
        return producer, resends

    # --- consume -----------------------------------------------------------------------------------------------------------

    def _read(self, call: Call, ask: Callable[[Consumer], Reply]) -> Reply:
        """Perform a read. Reads have no effect, so any error counts as one attempt without an answer."""
        if self._consumer is None:
            settings = {
                "group.id": "highwater",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 50,
                "fetch.error.backoff.ms": 50,
                "isolation.level": "read_uncommitted",
                "check.crcs": True,
            }
            self._consumer = Consumer({**self._settings, **settings})
        try:
            return ask(self._consumer)
        except KafkaException as error:
            return Reply(id=call.id, attempts=1, error=name_of(error.args[0]))

    def _offset_at_end(self, consumer: Consumer, call: LatestCall | EarliestCall, timestamp: int) -> Reply:
        """Ask for the offset at one end of the log: OFFSET_BEGINNING or OFFSET_END."""
        # Not get_watermark_offsets: it asks for both ends of the log, and tells the error of one as that of both. Here
        # OFFSET_BEGINNING or OFFSET_END asks for one end; librdkafka raises the error of a question for one partition.
        tp = TopicPartition(topic_of(call.tp), index_of(call.tp), timestamp)
        timeout_s = self._timeout_ms / 1000
        try:
            (bound,) = consumer.offsets_for_times([tp], timeout=timeout_s)
        except KafkaException as error:
            if error.args[0].code() not in _FORGOTTEN:
                raise
            # A fenced broker answers that the topic is unknown, and librdkafka refreshes metadata only for topics that it reads.
            consumer.list_topics(tp.topic, timeout=timeout_s)
            (bound,) = consumer.offsets_for_times([tp], timeout=timeout_s)
        if bound.offset < 0:
            # That the broker left the metadata meanwhile (_DESTROY_BROKER) librdkafka tells by the error of the partition alone.
            return Reply(id=call.id, attempts=1, error=_NO_OFFSET if bound.error is None else name_of(bound.error))
        return Reply(id=call.id, attempts=1, offset=bound.offset)

    def _poll(self, consumer: Consumer, call: PollCall) -> Reply:
        """Read from the offset; a leader that has nothing more gives an empty answer."""
        tp = TopicPartition(topic_of(call.tp), index_of(call.tp), call.offset)
        consumer.assign([tp])
        try:
            messages = self._fetched_or_error(consumer, call)
            if isinstance(messages, str):
                return Reply(id=call.id, attempts=1, error=messages)
            bounds = consumer.get_watermark_offsets(tp, cached=True)
        finally:
            consumer.unassign()
        records = tuple(
            Polled(Offset(offset), (message.value() or b"").decode(), LeaderEpoch(_epoch(message)))
            for message in messages
            if (offset := message.offset()) is not None
        )
        hw = bounds[1] if bounds[1] >= 0 else None
        return Reply(id=call.id, attempts=1, records=records, hw=hw)

    def _fetched_or_error(self, consumer: Consumer, call: PollCall) -> list[Message] | str:
        """The records that one fetch of a client returned, perhaps none, or the name of its error."""
        end_s = monotonic() + self._timeout_ms / 1000
        while (left_s := end_s - monotonic()) > 0:
            messages = consumer.consume(1, left_s)
            if not messages:
                break
            error = messages[0].error()
            if error is None:
                more_messages = consumer.consume(call.max_records - 1, 0) if call.max_records > 1 else []
                return messages + [message for message in more_messages if message.error() is None]
            if error.code() == KafkaError._PARTITION_EOF:
                return []
            if error.code() == KafkaError._AUTO_OFFSET_RESET:  # the only reason, as the poll names an offset
                return _OUT_OF_RANGE
            if not error.retriable():
                return name_of(error)
        return ErrorCode.REQUEST_TIMED_OUT.name


def _heard_of_produce(call: ProduceCall, failures: list[str], delivered: list[int | None], *, resent: int = 0) -> Reply:
    """The result of a produce from the delivery reports of its values; `resent` is the number of extra sends."""
    attempts = 1 if call.idempotent else 1 + call.retries + resent  # an upper bound: librdkafka does not tell the number
    if not failures:
        offsets = tuple(offset for offset in delivered if offset is not None and offset >= 0)  # with acks=0 there are no offsets
        return Reply(id=call.id, attempts=attempts, offsets=offsets if len(offsets) == len(call.values) else ())
    # librdkafka reports the last attempt alone. If there may have been earlier ones, their results are unknown. The outcome is
    # also unknown if one value of the operation was refused and another was not.
    mixed = bool(delivered) or len(set(failures)) > 1
    earlier = (RETRIED,) if call.retries or call.idempotent or mixed or resent else ()
    return Reply(id=call.id, attempts=attempts, error=failures[0], earlier=earlier)


def _epoch(message: Message) -> int:
    epoch = message.leader_epoch()
    return -1 if epoch is None else epoch
