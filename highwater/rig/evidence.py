"""What nodes and ZooKeeper say, as rows of the history."""

from highwater.rig.topics import TopicIds, removed, topic_of_path, written
from history.event import EventKind
from history.recorder import Recorder
from reference.coordination import paths
from reference.coordination.api import AnyAnswer, AnyOp, Create, Created, Data, Delete, Deleted, SetData, Written
from reference.coordination.memory import MemoryZooKeeper
from reference.effects import Note
from reference.messages import PartitionState
from reference.sealed import in_the_clear
from reference.types import Address, BrokerId, TopicPartition, broker_address, index_of, topic_of

_KINDS = {kind.value: kind for kind in EventKind}
# ZooKeeper says these at the moment of the write; what a node says of them later is not written down again.
_FROM_ZOOKEEPER = frozenset({EventKind.REGISTERED, EventKind.SESSION_ENDED, EventKind.STATE_WRITTEN})


class Notebook:
    """Writes down the notes of one node."""

    __slots__ = ("_names", "_node", "_recorder", "life")

    def __init__(self, recorder: Recorder, node: Address) -> None:
        self._recorder = recorder
        self._node = node
        self._names: dict[TopicPartition, tuple[str, int]] = {}
        self.life = 0

    def _name(self, tp: TopicPartition) -> tuple[str, int]:
        name = self._names.get(tp)
        if name is None:
            name = self._names[tp] = (topic_of(tp), index_of(tp))
        return name

    def write(self, note: Note) -> None:
        """One row; of an append, one for each value."""
        kind = _KINDS[note.kind]
        if kind in _FROM_ZOOKEEPER:
            return
        topic, partition = (None, None) if note.tp is None else self._name(note.tp)
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
    """Broker ids as node names."""
    return tuple(broker_address(broker) for broker in brokers)


def record_state(recorder: Recorder, state: PartitionState, *, node: Address | None, topic_id: str | None) -> None:
    """A state znode was written, by this node where that is known."""
    recorder.event(
        EventKind.STATE_WRITTEN,
        node=node,
        topic=topic_of(state.tp),
        topic_id=topic_id,
        partition=index_of(state.tp),
        leader=None if state.leader is None else broker_address(state.leader),
        leader_epoch=state.leader_epoch,
        controller_epoch=state.controller_epoch,
        zk_version=state.zk_version,
        isr=names(tuple(member.broker for member in state.isr)),
        stamps=tuple(member.incarnation for member in state.isr),
        elr=names(tuple(member.broker for member in state.elr)),
    )


class ZkEvidence:
    """What ZooKeeper commits: registrations, their end, assignments, and every state znode as written."""

    __slots__ = (
        "_assigned",
        "_ordered",
        "_partitions",
        "_recorder",
        "_registered",
        "_standing",
        "_tree",
        "incarnations",
        "topics",
    )

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._registered: dict[str, int] = {}  # path -> czxid
        self._assigned: dict[TopicPartition, tuple[BrokerId, ...]] = {}  # as last written down
        self._ordered: tuple[TopicPartition, ...] = ()  # unclean elections that an operator has asked for
        self._standing: dict[TopicPartition, PartitionState] = {}
        self._partitions: dict[TopicPartition, None] = {}  # that ever had a state
        self.topics = TopicIds()
        self.incarnations: dict[str, int] = {}  # node -> czxid of its last registration
        self._tree: MemoryZooKeeper

    def watch(self, tree: MemoryZooKeeper) -> None:
        """The tree whose commits are told."""
        self._tree = tree

    def performed(self, node: Address, life: int, ops: tuple[AnyOp, ...], answers: tuple[AnyAnswer, ...]) -> None:
        """A request of a node was performed."""
        for op, answer in zip(ops, answers, strict=True):
            match op, answer:
                case (Create(path=path, data=data), Created()):
                    self._created(node, life, path, data)
                case (SetData(path=path, data=data), Written(version=version)):
                    self._written(node, path, data, version)
                case (Delete(path=path), Deleted()):
                    self._ordered = () if path == paths.UNCLEAN_ELECTION else self._ordered
                    self._gone(path)
                    self._ended(path, None)
                case _:
                    pass

    def session_over(self, ephemerals: tuple[str, ...]) -> None:
        """A session ended and these nodes are gone."""
        for path in ephemerals:
            self._gone(path)

    def _created(self, node: Address, life: int, path: str, data: bytes) -> None:
        if path.startswith(f"{paths.BROKER_IDS}/"):
            self._registered[path] = self._tree.nodes[path].czxid
            broker = broker_address(BrokerId(int(path.rpartition("/")[2])))
            self._recorder.event(EventKind.REGISTERED, node=broker, life=life, incarnation=self._registered[path])
            self.incarnations[broker] = self._registered[path]
        else:
            self._written(node, path, data, 0)

    def _written(self, node: Address, path: str, data: bytes, version: int) -> None:
        self._ended(path, data)
        if path == paths.UNCLEAN_ELECTION:
            self._ordered = paths.decode_preferred(data)
        topic = topic_of_path(path)
        if topic is not None and path in self._tree.nodes:
            self._assign(topic, path, data)
        tp = paths.tp_of_state_path(path)
        if tp is None:
            return
        self._partitions[tp] = None
        above = paths.topic_path(topic_of(tp))
        if above in self._tree.nodes:  # topics are made by administrators, of whom nothing is told here
            self.topics.created(above, self._tree.nodes[above].czxid)
        state = paths.decode_state(tp, (), Data(data, version, 0))
        self._obey(tp, state)
        record_state(self._recorder, state, node=node, topic_id=self.topics.of(tp))

    def _obey(self, tp: TopicPartition, state: PartitionState) -> None:
        """An order is carried out by the first election, while it stands, of who was not counted on as it is registered now."""
        before = self._standing.get(tp)
        self._standing[tp] = state
        if tp not in self._ordered or before is None or state.leader in (None, before.leader):
            return
        if (state.leader, state.leader_incarnation) not in {(m.broker, m.incarnation) for m in (*before.isr, *before.elr)}:
            assert state.leader is not None
            self._ordered = tuple(other for other in self._ordered if other != tp)
            self._recorder.event(
                EventKind.UNCLEAN_ELECTION_ORDERED,
                topic=topic_of(tp),
                topic_id=self.topics.of(tp),
                partition=index_of(tp),
                leader=broker_address(state.leader),
            )

    def _assign(self, topic: str, path: str, data: bytes) -> None:
        """A topic was made, or its assignment written: what is new in it."""
        self.topics.created(path, self._tree.nodes[path].czxid)
        listed = dict(paths.decode_topic(topic, data))
        self._assigned = {tp: held for tp, held in self._assigned.items() if topic_of(tp) != topic or tp in listed}
        for tp, replicas in listed.items():
            if self._assigned.get(tp) != replicas:
                self._assigned[tp] = replicas
                self._recorder.event(
                    EventKind.ASSIGNED,
                    topic=topic,
                    topic_id=self.topics.of(tp),
                    partition=index_of(tp),
                    replicas=names(replicas),
                )

    def _ended(self, path: str, data: bytes | None) -> None:
        tp = None if data is None else removed(path)
        topic_id = None if tp is None else self.topics.of(tp)
        if tp is not None and topic_id is not None:
            self._recorder.event(EventKind.TOPIC_DELETED, topic=topic_of(tp), topic_id=topic_id, partition=index_of(tp))
        for topic, topic_id in self.topics.ended(path, data):
            self._assigned = {tp: replicas for tp, replicas in self._assigned.items() if topic_of(tp) != topic}
            for tp in [tp for tp in self._partitions if topic_of(tp) == topic]:
                index = index_of(tp)
                self._recorder.event(EventKind.TOPIC_DELETED, topic=topic, topic_id=topic_id, partition=index)

    def _gone(self, path: str) -> None:
        incarnation = self._registered.pop(path, None)
        if incarnation is not None:
            broker = broker_address(BrokerId(int(path.rpartition("/")[2])))
            self._recorder.event(EventKind.SESSION_ENDED, node=broker, incarnation=incarnation)
