"""Makes history rows from what brokers report (`Notebook`) and from the commits of ZooKeeper (`CommitRows`).

Checkers excuse losses by the rows of commits: registrations and their end, assignments, state writes, deletions of topics, and
unclean elections that an operator ordered. Every backend derives them here, from commits in ZooKeeper's order.
"""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from highwater.rig.commits import AnyCommit, NodeCreated, NodeDeleted, NodeWritten, SessionEnded
from highwater.rig.settings import UNCLEAN, configured_topic, read_settings
from highwater.rig.topics import TopicIds, removed, topic_of_path, written
from history.event import EventKind
from history.recorder import EventColumns, EventRow, Recorder
from reference.coordination import paths
from reference.coordination.api import Data
from reference.effects import Note
from reference.messages import PartitionState
from reference.sealed import in_the_clear
from reference.types import Address, BrokerId, TopicPartition, broker_address, index_of, topic_of

_REGISTRATIONS = f"{paths.BROKER_IDS}/"
_KINDS = {kind.value: kind for kind in EventKind}
# Rows of these kinds come from ZooKeeper, at the moment of the write; a node's later note of the same fact makes no row.
_FROM_ZOOKEEPER = frozenset({EventKind.REGISTERED, EventKind.SESSION_ENDED, EventKind.STATE_WRITTEN})


class Notebook:
    """Records what one broker reports as history rows; `life` is the number of its current process."""

    __slots__ = ("_names", "_node", "_recorder", "life")

    def __init__(self, recorder: Recorder, node: Address) -> None:
        self._recorder = recorder
        self._node = node
        self._names: dict[TopicPartition, tuple[str, int]] = {}
        self.life = 0

    def _topic_and_partition(self, tp: TopicPartition) -> tuple[str, int]:
        name = self._names.get(tp)
        if name is None:
            name = self._names[tp] = (topic_of(tp), index_of(tp))
        return name

    def write(self, note: Note) -> None:
        """Record one report of a broker as a history row; for an append, one row for each value."""
        kind = _KINDS[note.kind]
        if kind in _FROM_ZOOKEEPER:
            return
        topic, partition = (None, None) if note.tp is None else self._topic_and_partition(note.tp)
        topic_id = written(note.topic_id)
        if note.batches:
            for batch in note.batches:
                for offset, value in enumerate(in_the_clear(batch.values), batch.base_offset):
                    self._recorder.event(
                        kind,
                        node=self._node,
                        life=self.life,
                        topic=topic,
                        topic_id=topic_id,
                        partition=partition,
                        offset=offset,
                        leader_epoch=batch.leader_epoch,
                        value=value,
                        dir=note.dir,
                        detail=note.detail,
                    )
            return
        self._recorder.event(
            kind,
            node=self._node,
            life=self.life,
            broker=None if note.broker is None else broker_address(note.broker),
            incarnation=note.incarnation,
            topic=topic,
            topic_id=topic_id,
            partition=partition,
            leader=None if note.leader is None else broker_address(note.leader),
            leader_epoch=note.leader_epoch,
            controller_epoch=note.controller_epoch,
            zk_version=note.zk_version,
            isr=None if note.isr is None else names(note.isr),
            hw=note.hw,
            leo=note.leo,
            offset=note.offset,
            gauge=note.gauge,
            dir=note.dir,
            detail=note.detail,
        )


def names(brokers: tuple[BrokerId, ...]) -> tuple[str, ...]:
    """Convert broker ids to node names: 1 -> b1."""
    return tuple(broker_address(broker) for broker in brokers)


class CommitRows:
    """Derives history rows from ZooKeeper's commits, which must be given once each and in order.

    `incarnations` has the czxid of the last registration of each node, also of one that has ended.
    """

    __slots__ = ("_assigned", "_ordered", "_partitions", "_registered", "_settings", "_standing", "_topics", "incarnations")

    def __init__(self, *, topics: Mapping[str, int] = MappingProxyType({})) -> None:
        """`topics`: the czxids of the topics that existed before the first commit."""
        self._registered: dict[str, tuple[int, int]] = {}  # path -> (session, czxid), until it is deleted
        self._assigned: dict[TopicPartition, tuple[BrokerId, ...]] = {}  # as last recorded
        self._ordered: tuple[TopicPartition, ...] = ()  # unclean elections that an operator has asked for
        self._settings: dict[str, dict[str, str]] = {}  # topic -> its own settings
        self._standing: dict[TopicPartition, PartitionState] = {}
        self._partitions: dict[TopicPartition, None] = {}  # that ever had a state, in the order of their first one
        self._topics = TopicIds()
        for topic, czxid in topics.items():
            self._topics.created(paths.topic_path(topic), czxid)
        self.incarnations: dict[str, int] = {}

    def of(self, commit: AnyCommit, *, writer: Address | None, life: int | None) -> list[EventRow]:
        """The history rows of one ZooKeeper commit; `writer` and `life`: the broker process that made it, if known."""
        match commit:
            case NodeCreated(path=path) if is_registration(path):
                return [self._row_of_registration(commit, life)]
            case NodeCreated() | NodeWritten():
                return list(self._rows_of_write(commit, writer))
            case NodeDeleted(path=path):
                if path == paths.UNCLEAN_ELECTION:
                    self._ordered = ()
                return [
                    *self._rows_of_lost_registrations((path,)),
                    *self._rows_of_deletion(path, None),
                    *self._rows_of_settings(path, None),
                ]
            case SessionEnded(session=session):
                return list(
                    self._rows_of_lost_registrations([path for path, (owner, _) in self._registered.items() if owner == session])
                )

    def _row_of_registration(self, commit: NodeCreated, life: int | None) -> EventRow:
        """Remember a broker's registration, whose zxid is its incarnation; the row of it."""
        node = registrant(commit.path)
        self._registered[commit.path] = (commit.session, commit.zxid)
        self.incarnations[node] = commit.zxid
        return EventKind.REGISTERED, {"node": node, "life": life, "incarnation": commit.zxid}

    def _rows_of_lost_registrations(self, deleted: Iterable[str]) -> Iterator[EventRow]:
        """Forget the registrations among these deleted znodes; a row for each broker."""
        for path in deleted:
            if path in self._registered:
                _, incarnation = self._registered.pop(path)
                yield EventKind.SESSION_ENDED, {"node": registrant(path), "incarnation": incarnation}

    def _rows_of_write(self, commit: NodeCreated | NodeWritten, writer: Address | None) -> Iterator[EventRow]:
        """The rows that follow from a created or changed znode."""
        if isinstance(commit, NodeCreated):
            self._topics.created(commit.path, commit.zxid)
        yield from self._rows_of_deletion(commit.path, commit.data)
        yield from self._rows_of_settings(commit.path, commit.data)
        if commit.path == paths.UNCLEAN_ELECTION:
            self._ordered = paths.decode_preferred(commit.data)
        topic = topic_of_path(commit.path)
        if topic is not None and not self._topics.is_ended(topic):
            yield from self._rows_of_assignment(topic, commit.data)
        tp = paths.tp_of_state_path(commit.path)
        if tp is not None:
            self._partitions[tp] = None
            version = commit.version if isinstance(commit, NodeWritten) else 0
            state = paths.decode_state(tp, (), Data(commit.data, version, 0))
            before, self._standing[tp] = self._standing.get(tp), state
            if before is not None and state.leader is not None and self._is_ordered_election(before, state):
                self._ordered = tuple(ordered_tp for ordered_tp in self._ordered if ordered_tp != tp)
                yield EventKind.UNCLEAN_ELECTION_ORDERED, {**self._partition(tp), "leader": broker_address(state.leader)}
            yield self._state_row(state, writer)
            if isinstance(commit, NodeCreated) and self._topics.is_ended(topic_of(tp)):
                # The partition was added, or got its state, after the topic's deletion was requested: no promise begins.
                yield EventKind.TOPIC_DELETED, self._partition(tp)

    def _rows_of_settings(self, path: str, data: bytes | None) -> Iterator[EventRow]:
        """Rows for the settings of a topic that are written or removed with this commit."""
        topic = configured_topic(path)
        if topic is None:
            return
        before, after = self._settings.get(topic, {}), {} if data is None else read_settings(data)
        self._settings[topic] = after
        for name in sorted(before.keys() | after.keys()):
            if before.get(name) != after.get(name):
                value = f"={after[name]}" if name in after else ""
                yield EventKind.CONFIGURED, {"detail": f"{topic} {name}{value}"}

    def _rows_of_assignment(self, topic: str, data: bytes) -> Iterator[EventRow]:
        """Rows for the partitions whose assigned replicas differ from those last recorded."""
        listed = dict(paths.decode_topic(topic, data))
        self._assigned = {
            tp: held_brokers for tp, held_brokers in self._assigned.items() if topic_of(tp) != topic or tp in listed
        }
        for tp, replicas in listed.items():
            if self._assigned.get(tp) != replicas:
                self._assigned[tp] = replicas
                yield EventKind.ASSIGNED, {**self._partition(tp), "replicas": names(replicas)}

    def _is_ordered_election(self, before: PartitionState, state: PartitionState) -> bool:
        """Whether the state carries out an order: a new leader that was neither in ISR nor ELR, or there in a former life.

        A topic whose own settings allow unclean elections is one long order.
        """
        clean = {(member.broker, member.incarnation) for member in (*before.isr, *before.elr)}
        leader = (state.leader, state.leader_incarnation)
        is_new = leader != (before.leader, before.leader_incarnation) and leader not in clean
        allowed = self._settings.get(topic_of(state.tp), {}).get(UNCLEAN) == "true"
        return is_new and (state.tp in self._ordered or allowed)

    def _state_row(self, state: PartitionState, writer: Address | None) -> EventRow:
        """The row of a partition state."""
        return EventKind.STATE_WRITTEN, {
            **self._partition(state.tp),
            "node": writer,
            "leader": None if state.leader is None else broker_address(state.leader),
            "leader_epoch": state.leader_epoch,
            "controller_epoch": state.controller_epoch,
            "zk_version": state.zk_version,
            "isr": names(tuple(member.broker for member in state.isr)),
            "stamps": tuple(member.incarnation for member in state.isr),
            "elr": names(tuple(member.broker for member in state.elr)),
        }

    def _rows_of_deletion(self, path: str, data: bytes | None) -> Iterator[EventRow]:
        """Rows for partitions that are deleted with this commit; `data` is what was written, None for a deleted znode."""
        removed_partition = None if data is None else removed(path)
        if removed_partition is not None and self._topics.of(removed_partition) is not None:
            yield EventKind.TOPIC_DELETED, self._partition(removed_partition)
        for topic, topic_id in self._topics.newly_ended(path, data):
            self._assigned = {tp: replicas for tp, replicas in self._assigned.items() if topic_of(tp) != topic}
            for tp in [tp for tp in self._partitions if topic_of(tp) == topic]:
                yield EventKind.TOPIC_DELETED, {"topic": topic, "topic_id": topic_id, "partition": index_of(tp)}

    def _partition(self, tp: TopicPartition) -> EventColumns:
        return {"topic": topic_of(tp), "topic_id": self._topics.of(tp), "partition": index_of(tp)}


class ZkEvidence:
    """Records the history rows of each ZooKeeper commit when it is made, in the simulator and the explorer."""

    __slots__ = ("_recorder", "_rows")

    def __init__(self, recorder: Recorder, *, topics: Mapping[str, int] = MappingProxyType({})) -> None:
        """`topics`: the czxids of the topics that existed before the first commit."""
        self._recorder = recorder
        self._rows = CommitRows(topics=topics)

    @property
    def incarnations(self) -> dict[str, int]:
        """The czxid of each broker's last registration znode, which identifies its incarnation."""
        return self._rows.incarnations

    def committed(self, commits: Iterable[AnyCommit], *, writer: Address | None = None, life: int | None = None) -> None:
        """Record the history rows that follow from these ZooKeeper commits of one broker."""
        for commit in commits:
            self._recorder.record(self._rows.of(commit, writer=writer, life=life))


def registrant(path: str) -> Address:
    """The broker whose registration this znode is."""
    return broker_address(BrokerId(int(path.removeprefix(_REGISTRATIONS))))


def is_registration(path: str) -> bool:
    """True for the znode by which a broker registers."""
    return path.startswith(_REGISTRATIONS)
