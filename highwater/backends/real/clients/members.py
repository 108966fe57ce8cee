"""Members of consumer groups with librdkafka.

A member is subscribed, and commits by calls, in the transactions of a producer (KIP-447), or automatically. The answer to a poll
says which partitions were assigned and revoked during it.

librdkafka commits automatically what its application stored (enable.auto.offset.store=false). A member stores what a poll gave
when it polls again or leaves, which the Java client does by itself; or librdkafka stores it as it hands it over, as by default.
"""

from contextlib import suppress
from time import sleep
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from highwater.backends.real.clients.transactions import (
    ABORTED,
    CALL_S,
    READING,
    Reading,
    Records,
    TransactionalProducer,
    moved,
    name_of,
)
from highwater.rig.attempts import Reply
from highwater.rig.sessions import (
    CommitCall,
    CommittedCall,
    GroupPollCall,
    GroupPositionsCall,
    Partition,
    ProcessCall,
    key_of,
)
from history.results import Source, result_of
from workloads.parameters import AutoCommit

GROUP_POLL_S = 0.5
MEMBER_MS = 6000  # the least session timeout that brokers allow by default
HEARTBEAT_MS = 500
REVOKED = "REVOKED"  # not Kafka's: a partition was taken from the member during a poll, whose records it dropped


class Member:
    """A member of a consumer group; it commits by calls, or in transactions of the producer."""

    def __init__(
        self,
        producer: TransactionalProducer,
        name: str,
        settings: dict[str, Any],
        *,
        timeout_ms: int,
        run: str = "",
        membership: str = "",
        auto_commit: AutoCommit | None = None,
    ) -> None:
        """`membership` as in a plan (`highwater.plans.plan.Membership`); "": each is new, and all stop for a rebalance.

        Without `auto_commit` it commits by calls.
        """
        self._producer = producer
        self._settings = {**settings, **READING, **_settings_of(membership, name), **_committing(auto_commit)}
        self._stores = auto_commit is not None and auto_commit.after == "next-poll"
        self._to_store: dict[Partition, int] = {}  # behind what the last poll gave
        self._incremental = membership in ("cooperative", "consumer")
        self._run = run
        self._timeout_s = timeout_ms / 1000
        self._consumer: Consumer | None = None
        self._reading = Reading()
        self._partitions_moved: dict[str, list[str]] = {}

    def poll(self, call: GroupPollCall) -> Reply:
        """Poll as a member of the group; the answer also tells the partitions that were assigned and revoked meanwhile."""
        self._partitions_moved = {}
        positions: dict[Partition, int] = {}
        try:
            consumer = self._group_consumer(call.group, call.reads)
            self._store()
            records = self._reading.poll(consumer, GROUP_POLL_S, positions)
        except KafkaException as raised:
            return Reply(
                id=call.id, attempts=1, error=name_of(raised.args[0]), told={"group": call.group, **self._partitions_moved}
            )
        try:
            self._to_store = self._consumed(consumer, positions) if self._stores else {}
            at_end = self._is_at_end()
        except KafkaException:
            at_end = False  # the records were handed over, and perhaps stored: they are told
        return Reply(
            id=call.id,
            attempts=1,
            told={"group": call.group, **self._partitions_moved, "records": records},
            positions=tuple((*partition, offset) for partition, offset in sorted(positions.items())),
            at_end=at_end,
        )

    def process(self, call: ProcessCall) -> Reply:
        """Poll, send a result of each record, and commit both with the group's positions; after an error, read them again."""
        self._partitions_moved = {}
        results: Records = {}
        answer: dict[str, object] = {"group": call.group}
        positions: dict[Partition, int] = {}
        sent, error = False, None
        failed: list[KafkaError] = []
        try:
            consumer = self._group_consumer(call.group, call.reads, **{"isolation.level": "read_committed"})
            answer["records"] = records = self._reading.poll(consumer, GROUP_POLL_S, positions)
            if self._partitions_moved.get("revoked"):
                # What was polled may be another member's by now: the next poll reads what this member still has, or has anew.
                error = REVOKED if records else None
                self._rewind(consumer)
            elif records:
                self._producer.ready().begin_transaction()
                self._send_results(call.writes, records, results, failed)
                sleep(call.work_ms / 1000)
                if call.aborts:
                    error = ABORTED
                    self._producer.abort()
                    self._rewind(consumer)
                else:
                    offsets = [TopicPartition(*partition, offset) for partition, offset in sorted(positions.items())]
                    self._producer.send_offsets(offsets, consumer.consumer_group_metadata())
                    sent = True
                    self._producer.commit()
        except KafkaException as raised:
            error = name_of(raised.args[0])
            self._producer.give_up()
            if self._consumer is not None:
                self._rewind(self._consumer)
        if error is None and failed:  # a commit confirmed although a record was not: nobody knows what that means
            error = name_of(failed[0])
        committed = moved({}, positions)
        answer |= self._partitions_moved
        if committed:
            answer["results"] = results
            answer["positions"] = {key_of((topic, number)): offset for topic, number, offset in committed}
        return Reply(
            id=call.id,
            attempts=int(sent),
            error=error,
            told=answer,
            positions=committed if error is None else (),
            at_end=error is None and self._is_at_end(),
        )

    def _send_results(self, writes: tuple[Partition, ...], records: Records, results: Records, failed: list[KafkaError]) -> None:
        """Send a result of each record. They are entered into `results` by partition, their offsets when they are delivered."""
        for key, polled in records.items():
            to = writes[int(key.rpartition("-")[2]) % len(writes)]
            for offset, value in polled:
                result = result_of(Source(key, int(str(offset)), str(value)))
                placed: list[object] = [None, result]
                results.setdefault(key_of(to), []).append(placed)
                self._producer.send(to, result, placed, failed)

    def _rewind(self, consumer: Consumer) -> None:
        """Begin again at the positions that the group committed, in the partitions that the member has."""
        self._reading = Reading()
        try:
            assigned_partitions = [TopicPartition(assigned.topic, assigned.partition) for assigned in consumer.assignment()]
            if assigned_partitions and self._incremental:
                # To unassign and assign again would look like the answer to a rebalance that is under way.
                for at in consumer.committed(assigned_partitions, timeout=CALL_S):
                    if at.error is not None:
                        raise KafkaException(at.error)
                    consumer.seek(TopicPartition(at.topic, at.partition, at.offset if at.offset >= 0 else OFFSET_BEGINNING))
            elif assigned_partitions:
                consumer.unassign()
                consumer.assign(assigned_partitions)
        except KafkaException:
            self.close()  # the next poll joins as a new member

    def _is_at_end(self) -> bool:
        """Whether the member has partitions, and read them all to their ends."""
        assert self._consumer is not None
        assigned_partitions = [(assigned.topic, assigned.partition) for assigned in self._consumer.assignment()]
        return bool(assigned_partitions) and self._reading.ended_all(assigned_partitions)

    def commit(self, call: CommitCall) -> Reply:
        """Commit an offset for the group."""
        if self._consumer is None:
            return Reply(id=call.id, attempts=0, error="_STATE")
        try:
            done = self._consumer.commit(offsets=[TopicPartition(*call.partition, call.offset)], asynchronous=False)
        except KafkaException as raised:
            return Reply(id=call.id, attempts=1, error=name_of(raised.args[0]))
        error = done[0].error if done else None
        return Reply(id=call.id, attempts=1, error=None if error is None else name_of(error))

    def committed(self, call: CommittedCall) -> Reply:
        """Ask for the offset that the group has committed; a member that never polled asks by a consumer of its own."""
        try:
            consumer = self._consumer or self._new(call.group)
            answer = consumer.committed([TopicPartition(*call.partition)], timeout=CALL_S)[0]
        except KafkaException as raised:
            return Reply(id=call.id, attempts=1, error=name_of(raised.args[0]))
        finally:
            if self._consumer is None and "consumer" in locals():
                consumer.close()
        if answer.error is not None:
            return Reply(id=call.id, attempts=1, error=name_of(answer.error))
        return Reply(id=call.id, attempts=1, offset=answer.offset if answer.offset >= 0 else None)

    def positions(self, call: GroupPositionsCall) -> Reply:
        """Ask for the positions that the group has committed; a member that never polled asks by a consumer of its own."""
        own = None if self._consumer is not None else self._new(call.group)
        try:
            consumer = self._consumer or own
            assert consumer is not None
            answers = consumer.committed([TopicPartition(*read) for read in call.reads], timeout=CALL_S)
        except KafkaException as raised:
            return Reply(id=call.id, attempts=1, error=name_of(raised.args[0]))
        finally:
            if own is not None:
                own.close()
        failed = next((answer.error for answer in answers if answer.error is not None), None)
        if failed is not None:
            return Reply(id=call.id, attempts=1, error=name_of(failed))
        committed = {key_of((at.topic, at.partition)): at.offset if at.offset >= 0 else None for at in answers}
        return Reply(id=call.id, attempts=1, told={"group": call.group, "committed": committed})

    def close(self) -> None:
        """Leave the group."""
        if self._consumer is not None:
            self._store()
            self._consumer.close()
            self._consumer = None

    def abandon(self) -> None:
        """Die without a word: a consumer that is dropped, and not closed, neither commits nor leaves."""
        self._to_store = {}
        self._consumer = None

    def _consumed(self, consumer: Consumer, positions: dict[Partition, int]) -> dict[Partition, int]:
        """Where the member is in these partitions, without those that were taken from it in the poll that gave the records."""
        at = consumer.position([TopicPartition(*partition) for partition in positions])
        return {(one.topic, one.partition): one.offset for one in at if one.error is None and one.offset >= 0}

    def _store(self) -> None:
        """Store what the last poll gave, for the next automatic commit; a partition that was taken away is another member's."""
        to_store, self._to_store = self._to_store, {}
        for partition, position in to_store.items():
            assert self._consumer is not None
            with suppress(KafkaException):
                self._consumer.store_offsets(offsets=[TopicPartition(*partition, position)])

    def _new(self, group: str, **own: object) -> Consumer:
        return Consumer({**self._settings, "group.id": f"{group}{self._run}", "auto.offset.reset": "earliest", **own})

    def _group_consumer(self, group: str, reads: tuple[Partition, ...], **own: object) -> Consumer:
        """The consumer, with these settings and subscribed on first use."""
        if self._consumer is None:
            self._reading = Reading()
            self._consumer = self._new(group, **own)
            topics = sorted({topic for topic, _ in reads})
            self._consumer.subscribe(topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke)
        return self._consumer

    def _on_assign(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._note("assigned", partitions)

    def _on_revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._note("revoked", partitions)

    def _note(self, what: str, partitions: list[TopicPartition]) -> None:
        keys = [key_of((partition.topic, partition.partition)) for partition in partitions]
        for key in keys:
            self._reading.ended.pop(key, None)
        self._partitions_moved.setdefault(what, []).extend(keys)


def _committing(auto_commit: AutoCommit | None) -> dict[str, object]:
    """The settings of a member that commits automatically."""
    if auto_commit is None:
        return {}
    return {
        "enable.auto.commit": True,
        "auto.commit.interval.ms": auto_commit.interval_ms,
        "enable.auto.offset.store": auto_commit.after == "delivery",
    }


def _settings_of(membership: str, name: str) -> dict[str, object]:
    """The settings of a member with this name. Under KIP-848 the coordinator says how long a session lasts."""
    classic = {"session.timeout.ms": MEMBER_MS, "heartbeat.interval.ms": HEARTBEAT_MS}
    match membership:
        case "cooperative":
            return {**classic, "partition.assignment.strategy": "cooperative-sticky"}
        case "static":
            return {**classic, "group.instance.id": name}
        case "consumer":
            return {"group.protocol": "consumer"}
        case _:
            return {**classic}
