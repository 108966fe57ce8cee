"""The metadata log of a Kafka cluster with KRaft, told as the commits to ZooKeeper that would say the same.

Every row of the history that comes from ZooKeeper's commits then comes from this log too: registrations, assignments, leaders,
ISRs and ELRs. The offset of a record stands for the zxid, a broker's epoch for its session, a partition's epoch for the version
of its state. A broker that is fenced has no session; it gets its old one back when it is unfenced.

The log is read from the brokers' disks after the run. What a majority of them holds is committed. Times are the active
controller's, in whole milliseconds. Snapshots are not read: a run is too short for one.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from pathlib import Path
from uuid import UUID

from aiokafka.record import MemoryRecords
from msgspec import Struct
from msgspec.structs import replace

from highwater.backends.real.systems.kafka import segments
from highwater.errors import HarnessError
from highwater.rig.commits import AnyCommit, NodeCreated, NodeDeleted, NodeWritten, SessionEnded
from highwater.rig.settings import settings_path, settings_payload
from nemesis.targets import INTERNAL
from reference.coordination import paths
from reference.messages import IsrMember, PartitionState
from reference.types import (
    NO_INCARNATION,
    BrokerId,
    ControllerEpoch,
    Incarnation,
    LeaderEpoch,
    TopicPartition,
    ZkVersion,
    topic_of,
    topic_partition,
)

FOLDER = "__cluster_metadata-0"
NO_SESSION = -1  # of the active controller: its records do not name it
_OF_TOPICS = 2  # the type of resource of a topic's settings
_UUID_BYTES = 16
_MIGRATING_SINCE = 2  # version of the registration that says whether a broker migrates from ZooKeeper
_DIRECTORIES_SINCE = 1  # version of a partition that names the directories of its replicas
# Tags of a changed partition; those of a new one are 1 for the ELR.
_ISR, _LEADER, _REPLICAS, _ELR = 0, 1, 2, 6
_ELR_OF_NEW = 1


class _Kind(IntEnum):
    """The types of records that rows tell of."""

    REGISTER_BROKER = 0
    TOPIC = 2
    PARTITION = 3
    CONFIG = 4
    PARTITION_CHANGE = 5
    FENCE_BROKER = 7
    UNFENCE_BROKER = 8
    REMOVE_TOPIC = 9
    REGISTRATION_CHANGE = 17


class Record(Struct, frozen=True):
    """One record of the metadata log, with the epoch of the active controller; `body` begins with its type and version."""

    offset: int
    epoch: int
    time_ms: int
    body: bytes


class _Reader:
    """Reads the fields of a record in Kafka's flexible encoding."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        assert self._at + size <= len(self._data), "the batch of a record has a CRC, so the record is whole"
        self._at += size
        return self._data[self._at - size : self._at]

    def integer(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big", signed=True)

    def count(self) -> int:
        """An unsigned varint."""
        number = shift = 0
        while (byte := self.take(1)[0]) & 0x80:
            number |= (byte & 0x7F) << shift
            shift += 7
        return number | byte << shift

    def text(self) -> str:
        return self.take(self.count() - 1).decode()

    def nullable_text(self) -> str | None:
        size = self.count()
        return self.take(size - 1).decode() if size else None

    def topic_id(self) -> UUID:
        return UUID(bytes=self.take(_UUID_BYTES))

    def brokers(self) -> tuple[BrokerId, ...]:
        """An array of broker ids; empty if it is null."""
        return tuple(BrokerId(self.integer(4)) for _ in range(max(0, self.count() - 1)))

    def tagged(self) -> dict[int, "_Reader"]:
        """The tagged fields, which end a record, by their tags."""
        return {self.count(): _Reader(self.take(self.count())) for _ in range(self.count())}


def committed(log_dirs: Iterable[Path]) -> list[Record]:
    """The records of the newest metadata log, as far as a majority of the nodes has one; each directory may have a node's log."""
    logs = [_records_in(path / FOLDER) for path in log_dirs]
    log_ends = sorted(log[-1].offset if log else -1 for log in logs)
    newest = max(logs, key=lambda log: (log[-1].epoch, log[-1].offset) if log else (-1, -1), default=[])
    majority = log_ends[(len(log_ends) - 1) // 2] if log_ends else -1  # so many nodes or more have a log that is as long
    return [record for record in newest if record.offset <= majority]


def _records_in(folder: Path) -> list[Record]:
    """The records in one node's log; control records are left out."""
    if not folder.is_dir():
        return []
    records = []
    for path in segments.segments_of(folder):
        for frame in segments.frames(path.read_bytes()):
            batch = MemoryRecords(frame).next_batch()
            assert batch is not None, "frames yields whole batches"
            if not batch.is_control_batch:
                epoch = segments.epoch_of(frame)
                records += [Record(entry.offset, epoch, entry.timestamp or 0, entry.value or b"") for entry in batch]
    return records


class _Standing:
    """The cluster's metadata after the records read so far."""

    def __init__(self) -> None:
        self.topics: dict[UUID, str] = {}
        self.states: dict[TopicPartition, PartitionState] = {}
        self.settings: dict[str, dict[str, str]] = {}
        self.sessions: dict[BrokerId, int] = {}  # of brokers that are not fenced, or not yet unfenced

    def read(self, record: Record) -> Iterator[AnyCommit]:
        """The commits of one record; none if it changes nothing that rows tell."""
        body = _Reader(record.body)
        body.count()  # the version of the frame
        kind, version = body.count(), body.count()
        match kind:
            case _Kind.REGISTER_BROKER:
                yield from self._register_anew(record, body, version)
            case _Kind.TOPIC:
                yield self._name_topic(record, body)
            case _Kind.PARTITION:
                yield from self._create_partition(record, body, version)
            case _Kind.PARTITION_CHANGE:
                yield from self._change_partition(record, body)
            case _Kind.CONFIG:
                yield from self._configure(record, body)
            case _Kind.REMOVE_TOPIC:
                yield from self._remove_topic(record, body)
            case _Kind.FENCE_BROKER:
                yield from self._end_registration(record, BrokerId(body.integer(4)))
            case _Kind.UNFENCE_BROKER:
                yield from self._begin_registration(record, BrokerId(body.integer(4)), body.integer(8))
            case _Kind.REGISTRATION_CHANGE:
                broker, epoch = BrokerId(body.integer(4)), body.integer(8)
                fenced = body.tagged().get(0)
                change = 0 if fenced is None else fenced.integer(1)
                if change:
                    yield from (
                        self._end_registration(record, broker) if change > 0 else self._begin_registration(record, broker, epoch)
                    )
            case _:
                pass

    def _register_anew(self, record: Record, body: _Reader, version: int) -> Iterator[AnyCommit]:
        """RegisterBrokerRecord: a former registration ends, the new one begins."""
        broker = BrokerId(body.integer(4))
        if version >= _MIGRATING_SINCE:
            body.take(1)
        body.topic_id()  # of the broker's process
        yield from self._end_registration(record, broker)
        yield from self._begin_registration(record, broker, body.integer(8))

    def _end_registration(self, record: Record, broker: BrokerId) -> Iterator[AnyCommit]:
        """A broker is fenced; nothing if it has not joined."""
        session = self.sessions.pop(broker, None)
        if session is not None:
            yield SessionEnded(zxid=record.offset, session=session, time_ms=record.time_ms)

    def _begin_registration(self, record: Record, broker: BrokerId, epoch: int) -> Iterator[AnyCommit]:
        """A broker joins under this broker epoch; nothing if it has joined under it already."""
        if self.sessions.get(broker) != epoch:
            self.sessions[broker] = epoch
            path = paths.broker_path(broker)
            yield NodeCreated(zxid=epoch, session=epoch, time_ms=record.time_ms, path=path, data=b"", ephemeral=True)

    def _create_partition(self, record: Record, body: _Reader, version: int) -> Iterator[AnyCommit]:
        """PartitionRecord: a new partition with its first state."""
        index, topic = body.integer(4), self.topics.get(body.topic_id(), INTERNAL)
        replicas, isr = body.brokers(), body.brokers()
        body.brokers(), body.brokers()  # those that are removed and added
        leader, leader_epoch, epoch = body.integer(4), body.integer(4), body.integer(4)
        if version >= _DIRECTORIES_SINCE:
            for _ in range(body.count() - 1):
                body.take(_UUID_BYTES)
        elr = body.tagged().get(_ELR_OF_NEW)
        tp = topic_partition(topic, index)
        self.states[tp] = PartitionState(
            tp=tp,
            leader=None if leader < 0 else BrokerId(leader),
            leader_incarnation=NO_INCARNATION,
            leader_epoch=LeaderEpoch(leader_epoch),
            isr=_members(isr),
            controller_epoch=ControllerEpoch(0),
            zk_version=ZkVersion(epoch),
            replicas=replicas,
            elr=() if elr is None else _members(elr.brokers()),
        )
        yield self._assignment_write(record, topic)
        yield self._state_write(record, self.states[tp])

    def _change_partition(self, record: Record, body: _Reader) -> Iterator[AnyCommit]:
        """PartitionChangeRecord: the fields that it has replace those of the state."""
        index, topic = body.integer(4), self.topics.get(body.topic_id(), INTERNAL)
        tp, changed = topic_partition(topic, index), body.tagged()
        before = self.states.get(tp)
        if before is None:
            raise HarnessError(f"the metadata log changes {tp} and does not create it: its first segment is gone")
        state = replace(before, zk_version=ZkVersion(before.zk_version + 1))
        if _LEADER in changed:
            leader = changed[_LEADER].integer(4)
            epoch = LeaderEpoch(before.leader_epoch + 1)
            state = replace(state, leader=None if leader < 0 else BrokerId(leader), leader_epoch=epoch)
        if _ISR in changed:
            state = replace(state, isr=_members(changed[_ISR].brokers()))
        if _ELR in changed:
            state = replace(state, elr=_members(changed[_ELR].brokers()))
        if _REPLICAS in changed:
            state = replace(state, replicas=changed[_REPLICAS].brokers())
        self.states[tp] = state
        if state.replicas != before.replicas:
            yield self._assignment_write(record, topic)
        yield self._state_write(record, state)

    def _name_topic(self, record: Record, body: _Reader) -> AnyCommit:
        """TopicRecord: the name of a topic id."""
        name = body.text()
        self.topics[body.topic_id()] = name
        path, data = paths.topic_path(name), paths.partitions_payload({})
        return NodeCreated(zxid=record.offset, session=NO_SESSION, time_ms=record.time_ms, path=path, data=data, ephemeral=False)

    def _remove_topic(self, record: Record, body: _Reader) -> Iterator[AnyCommit]:
        """RemoveTopicRecord: a topic with its partitions and settings is gone."""
        topic = self.topics.get(body.topic_id(), INTERNAL)
        gone = [tp for tp in self.states if topic_of(tp) == topic]
        self.settings.pop(topic, None)
        for tp in gone:
            del self.states[tp]
        for path in (paths.topic_path(topic), *map(paths.state_path, gone), settings_path(topic)):
            yield NodeDeleted(zxid=record.offset, session=NO_SESSION, time_ms=record.time_ms, path=path)

    def _configure(self, record: Record, body: _Reader) -> Iterator[AnyCommit]:
        """ConfigRecord: a setting of a topic; those of brokers change nothing that rows tell."""
        of, name, setting, value = body.integer(1), body.text(), body.text(), body.nullable_text()
        if of != _OF_TOPICS:
            return
        own = self.settings.setdefault(name, {})
        own.pop(setting, None)
        if value is not None:
            own[setting] = value
        path, data, at = settings_path(name), settings_payload(own), record.offset
        yield NodeWritten(zxid=at, session=NO_SESSION, time_ms=record.time_ms, path=path, data=data, version=at)

    def _assignment_write(self, record: Record, topic: str) -> AnyCommit:
        listed = {tp: state.replicas for tp, state in self.states.items() if topic_of(tp) == topic}
        path = paths.topic_path(topic)
        data = paths.partitions_payload(listed)
        at = record.offset
        return NodeWritten(zxid=at, session=NO_SESSION, time_ms=record.time_ms, path=path, data=data, version=at)

    def _state_write(self, record: Record, state: PartitionState) -> AnyCommit:
        """The write of a partition state to ZooKeeper that would say the same."""
        return NodeWritten(
            zxid=record.offset,
            session=NO_SESSION,
            time_ms=record.time_ms,
            path=paths.state_path(state.tp),
            data=paths.state_payload(state),
            version=state.zk_version,
        )


def _members(brokers: Sequence[BrokerId]) -> tuple[IsrMember, ...]:
    return tuple(IsrMember(broker, Incarnation(NO_INCARNATION)) for broker in brokers)


def as_commits(records: Iterable[Record]) -> list[AnyCommit]:
    """The commits to ZooKeeper that say what these records of the metadata log say, in order.

    HarnessError if one changes a partition that none before it created: the log does not begin with its first record.
    """
    standing = _Standing()
    return [commit for record in records for commit in standing.read(record)]
