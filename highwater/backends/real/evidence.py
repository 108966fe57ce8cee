"""Evidence of a run on this machine: the notes of the nodes, and ZooKeeper's transaction log.

The log is complete and in the order of commit. Its times are milliseconds of the wall clock, rounded down, so that a write never
seems to come after what followed from it. Only an ISR change that its leader noted in the same millisecond would seem to come
after the write: the write is put right behind the note. Nodes go on after the end of a run until they are stopped; the record is
cut where it is whole (`whole_until`).
"""

import time
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from highwater.backends.real.batches import opened_line
from highwater.backends.real.merge import RowClock
from highwater.backends.real.zookeeper.transaction_log import AnyCommit, NodeCreated, NodeDeleted, NodeWritten, SessionEnded
from highwater.rig.evidence import Notebook, names, record_state
from highwater.rig.topics import TopicIds, removed, topic_of_path
from history.event import ClusterEvent, EventKind
from history.recorder import Recorder
from reference.coordination import paths
from reference.coordination.api import Data
from reference.messages import PartitionState
from reference.types import Address, BrokerId, TopicPartition, broker_address, index_of, topic_of
from server.lab.notes import NoteLine

_MS = 1_000_000
NEAR_NS = 20 * _MS  # as far as the time of a commit may be off: a millisecond, and what the wall clock was moved meanwhile


def wall_ahead_ns() -> int:
    """How far the wall clock of this machine is ahead of its monotonic one."""
    return time.time_ns() - time.monotonic_ns()


def whole_until(commits: Iterable[AnyCommit], *, end_ns: int, start_ns: int, wall_ahead_ns: int) -> int:
    """The last moment up to `end_ns` near which nothing was committed: where a record is cut, causes stay with their effects.

    What led to a write was noted before the time that the log gives it, what followed from it comes later; only next to that time
    it cannot be told which of the two is cut off. ns since the start of the run, as `end_ns`.
    """
    whole_ns, last_ns = end_ns, 0
    times = []
    for commit in commits:
        last_ns = max(last_ns, commit.time_ms * _MS - wall_ahead_ns - start_ns)
        times.append(last_ns)
    for at_ns in reversed(times):
        if at_ns < whole_ns - NEAR_NS:
            break
        if at_ns < whole_ns + NEAR_NS:
            whole_ns = at_ns - NEAR_NS
    return max(0, whole_ns)


def recorded_notes(lines: Iterable[NoteLine], *, start_ns: int) -> Recorder:
    """The notes of one node, in the order in which it wrote them."""
    clock = RowClock(start_ns)
    recorder = Recorder(clock)
    notebooks: dict[tuple[str, int], Notebook] = {}
    for line in lines:
        life = (line.node, line.life)
        if life not in notebooks:
            notebooks[life] = Notebook(recorder, Address(line.node))
            notebooks[life].life = line.life
        clock.set(line.time_ns)
        notebooks[life].write(opened_line(line).note)
    return recorder


def stamped(events: Iterable[ClusterEvent]) -> tuple[ClusterEvent, ...]:
    """The same rows in their order, each wound with the incarnation that suffered it: the one that was registered last."""
    registered: dict[str | None, int | None] = {}
    rows = []
    for row in events:
        if row.kind is EventKind.REGISTERED:
            registered[row.node] = row.incarnation
        elif row.kind is EventKind.WOUND and row.incarnation is None:
            row = replace(row, incarnation=registered.get(row.node))
        rows.append(row)
    return tuple(rows)


class ZooKeeperEvidence:
    """Turns commits, given in their order, into the rows of `recorder`."""

    def __init__(self, lines: Sequence[NoteLine], starts: Iterable[ClusterEvent], *, start_ns: int, wall_ahead_ns: int) -> None:
        """`lines`: the notes of all nodes; `starts`: the rows of the starts of their lives."""
        self._starts = [row for row in starts if row.kind is EventKind.NODE_STARTED]
        self._clock = RowClock(start_ns)
        self.recorder = Recorder(self._clock)
        self._wall_ahead_ns = wall_ahead_ns
        # When each ISR change was sent: (node, partition, version it is conditional on).
        self._sent_ns: dict[tuple[str | None, TopicPartition | None, int | None], int] = {
            (line.node, line.note.tp, line.note.zk_version): line.time_ns
            for line in lines
            if line.note.kind == EventKind.ISR_CHANGE_SENT
        }
        self._node_of: dict[int, Address] = {}  # by session
        self._incarnation: dict[int, tuple[Address, int]] = {}  # registration of a session that has one
        self._last_ns = 0
        self._topics = TopicIds()
        self._partitions: dict[TopicPartition, None] = {}  # that ever had a state
        self._assigned: dict[TopicPartition, tuple[BrokerId, ...]] = {}  # as last written down
        self._ordered: tuple[TopicPartition, ...] = ()  # unclean elections that an operator has asked for
        self._standing: dict[TopicPartition, PartitionState] = {}

    def add(self, commit: AnyCommit) -> None:
        """One commit."""
        if isinstance(commit, NodeCreated):
            self._topics.created(commit.path, commit.zxid)
        match commit:
            case NodeCreated(path=path) if path.startswith(f"{paths.BROKER_IDS}/"):
                self._registered(commit, broker_address(BrokerId(int(path.rpartition("/")[2]))))
            case NodeCreated() | NodeWritten():
                self._ended(commit, commit.data)
                if commit.path == paths.UNCLEAN_ELECTION:
                    self._ordered = paths.decode_preferred(commit.data)
                topic = topic_of_path(commit.path)
                if topic is not None:
                    self._assign(commit, topic)
                tp = paths.tp_of_state_path(commit.path)
                if tp is not None:
                    self._state_written(commit, tp)
            case NodeDeleted(path=path) if path.startswith(f"{paths.BROKER_IDS}/"):
                self._gone(commit)
            case SessionEnded():
                self._gone(commit)
            case NodeDeleted():
                self._ordered = () if commit.path == paths.UNCLEAN_ELECTION else self._ordered
                self._ended(commit, None)

    def _assign(self, commit: NodeCreated | NodeWritten, topic: str) -> None:
        """A topic was made, or its assignment written: what is new in it."""
        listed = dict(paths.decode_topic(topic, commit.data))
        self._assigned = {tp: held for tp, held in self._assigned.items() if topic_of(tp) != topic or tp in listed}
        for tp, replicas in listed.items():
            if self._assigned.get(tp) != replicas:
                self._assigned[tp] = replicas
                self._set_clock(commit)
                topic_id = self._topics.of(tp)
                self.recorder.event(
                    EventKind.ASSIGNED, topic=topic, topic_id=topic_id, partition=index_of(tp), replicas=names(replicas)
                )

    def _obey(self, state: PartitionState) -> None:
        """An order is carried out by the first election, while it stands, of who was not counted on as it is registered now."""
        before = self._standing.get(state.tp)
        self._standing[state.tp] = state
        if state.tp not in self._ordered or before is None or state.leader is None or state.leader == before.leader:
            return
        if (state.leader, state.leader_incarnation) not in {(m.broker, m.incarnation) for m in (*before.isr, *before.elr)}:
            self._ordered = tuple(other for other in self._ordered if other != state.tp)
            self.recorder.event(
                EventKind.UNCLEAN_ELECTION_ORDERED,
                topic=topic_of(state.tp),
                topic_id=self._topics.of(state.tp),
                partition=index_of(state.tp),
                leader=broker_address(state.leader),
            )

    def _ended(self, commit: NodeCreated | NodeWritten | NodeDeleted, data: bytes | None) -> None:
        taken = None if data is None else removed(commit.path)
        taken_id = None if taken is None else self._topics.of(taken)
        if taken is not None and taken_id is not None:
            self._set_clock(commit)
            self.recorder.event(EventKind.TOPIC_DELETED, topic=topic_of(taken), topic_id=taken_id, partition=index_of(taken))
        for topic, topic_id in self._topics.ended(commit.path, data):
            self._set_clock(commit)
            self._assigned = {tp: replicas for tp, replicas in self._assigned.items() if topic_of(tp) != topic}
            for tp in [tp for tp in self._partitions if topic_of(tp) == topic]:
                index = index_of(tp)
                self.recorder.event(EventKind.TOPIC_DELETED, topic=topic, topic_id=topic_id, partition=index)

    def _set_clock(self, commit: AnyCommit, *, after_ns: int = 0) -> None:
        """To the commit's time, never before that of the one before it: the wall clock may go back."""
        at_ns = max(self._last_ns, commit.time_ms * _MS - self._wall_ahead_ns)
        if at_ns <= after_ns < at_ns + 2 * _MS:
            at_ns = after_ns + 1
        self._last_ns = at_ns
        self._clock.set(at_ns)

    def _registered(self, commit: NodeCreated, node: Address) -> None:
        self._node_of[commit.session] = node
        self._incarnation[commit.session] = (node, commit.zxid)
        self._set_clock(commit)
        # The session of an earlier life may have asked; its registration then ends with that session, soon.
        began = [row for row in self._starts if row.node == node and row.time_ns <= self._clock()]
        life = began[-1].life if began else None
        self.recorder.event(EventKind.REGISTERED, node=node, life=life, incarnation=commit.zxid)

    def _gone(self, commit: NodeDeleted | SessionEnded) -> None:
        gone = self._incarnation.pop(commit.session, None)
        if gone is not None:
            self._set_clock(commit)
            self.recorder.event(EventKind.SESSION_ENDED, node=gone[0], incarnation=gone[1])

    def _state_written(self, commit: NodeCreated | NodeWritten, tp: TopicPartition) -> None:
        version = commit.version if isinstance(commit, NodeWritten) else 0
        node = self._node_of.get(commit.session)
        self._partitions[tp] = None
        state = paths.decode_state(tp, (), Data(commit.data, version, 0))
        self._set_clock(commit, after_ns=self._sent_ns.get((node, tp, version - 1), 0))
        self._obey(state)
        record_state(self.recorder, state, node=node, topic_id=self._topics.of(tp))
