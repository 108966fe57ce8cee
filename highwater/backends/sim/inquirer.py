"""Asks every broker again and again what it tells clients, without a message: looking changes nothing in the run.

An answer is made by the broker's own code, from its state at that moment. It is not judged again while neither the answer nor the
truth changes, and the truth has stood long enough for every broker to know it. Only answers that the checker `metadata` refuses
are recorded, the first few of each run: all of them would be more rows than all others together.
"""

from collections.abc import Iterable

from checkers.liveness.metadata import ABSENT, NONE, OF_CLUSTER, Row, Standing, is_read
from highwater.backends.sim.node import NodeHost
from highwater.backends.sim.simulation import Simulation
from highwater.rig.evidence import names
from history.event import ClusterEvent, EventKind
from history.promise import Promise
from reference.broker import heartbeats
from reference.broker.metadata import on_metadata
from reference.effects import Send
from reference.events import AnyEvent, Received
from reference.machine import Ids, Turn
from reference.messages import Metadata, MetadataReply, PartitionState
from reference.node import Node
from reference.types import NO_TOPIC_ID, Address, broker_address, index_of, topic_of

EVERY_SLICES = 3  # of `World`: looks are 300 ms apart
RECORDED_MAX = 6


class Observer:
    """The harness's own client: asks each broker once, at the end, for its metadata; `told` has the states of each answer."""

    def __init__(self, sim: Simulation) -> None:
        self.address = Address("c-laboratory")  # draws of delays are named by it
        self.life = 1
        self.up = True
        self.told: dict[str, tuple[PartitionState, ...]] = {}
        self._sim = sim

    def ask(self, node: Address, correlation: int) -> None:
        """Ask this broker for its metadata."""
        self._sim.transport.send(self, node, Metadata(correlation))

    def take(self, source: str, event: AnyEvent) -> None:
        """Keep the partition states of a broker's metadata answer; ignore all other events."""
        if isinstance(event, Received) and isinstance(event.message, MetadataReply):
            self.told[source] = event.message.states


class _CheckedAnswer:
    """The last answer of one broker, the truth that it was compared with, and whether it stays right while both stand."""

    __slots__ = ("is_right", "reply", "rows", "truths")

    def __init__(self, reply: MetadataReply, truths: int, rows: tuple[Row, ...]) -> None:
        self.reply, self.truths, self.rows = reply, truths, rows
        self.is_right = False


class Inquirer:
    """Compares what brokers would tell clients with what the rows of the run say."""

    def __init__(self, sim: Simulation, nodes: Iterable[NodeHost], promise: Promise) -> None:
        self._sim = sim
        self._nodes = tuple(nodes)
        self._standing = Standing(promise)
        self._read = 0  # rows of the recorder
        self._truths = 0  # rows that the standing has seen
        self._existing: list[tuple[str, int]] = []
        self._last_answers: dict[Address, _CheckedAnswer] = {}
        self._slices = 0
        self._recorded = 0

    def look(self) -> None:
        """Ask every broker in service, on every third call."""
        self._slices += 1
        if self._slices % EVERY_SLICES or self._recorded >= RECORDED_MAX:
            return
        events = self._sim.recorder.events
        for event in events[self._read :]:
            if is_read(event.kind):
                self._standing.see(_row(event))
                self._truths += 1
        if self._read < len(events):
            self._existing = self._standing.partitions()
        self._read = len(events)
        now = self._sim.scheduler.now
        for host in self._nodes:
            if not host.paused and self._standing.is_calm(now, host.address):
                reply = _answer_of(host)
                if reply is not None:
                    self._check_answer(now, host.address, reply)

    def _check_answer(self, now: int, node: Address, reply: MetadataReply) -> None:
        """Record what is wrong in the answer of a broker, unless it is known to be right."""
        last_reply = self._last_answers.get(node)
        if last_reply is None or last_reply.truths != self._truths or last_reply.reply != reply:
            last_reply = self._last_answers[node] = _CheckedAnswer(
                reply, self._truths, tuple(_rows_of_answer(node, reply, self._existing))
            )
        if last_reply.is_right:
            return
        wrong = [row for row in last_reply.rows if self._standing.wrong_in_calm(now, row) is not None]
        last_reply.is_right = not wrong and now >= self._standing.settled_ns
        for row in wrong:
            if self._recorded < RECORDED_MAX:
                self._record_row(row)

    def _record_row(self, row: Row) -> None:
        """Write what a broker tells clients into the history."""
        self._recorded += 1
        self._sim.recorder.event(
            EventKind.METADATA_TOLD,
            node=row.node,
            topic=row.topic or None,
            topic_id=row.topic_id,
            partition=row.partition,
            leader=row.leader,
            leader_epoch=row.leader_epoch,
            isr=row.isr,
            replicas=row.replicas,
            detail=row.detail,
        )


def _answer_of(host: NodeHost) -> MetadataReply | None:
    """What the broker would answer a client now; None if it is down or fenced."""
    if not isinstance(host.machine, Node) or heartbeats.is_fenced(host.machine.state.broker):
        return None
    broker = host.machine.state.broker
    turn = Turn(host.clock.now(), Ids(), host.config, broker.incarnation)
    on_metadata(turn, broker, Address("c-laboratory"), Metadata(0))
    sent = [effect.message for effect in turn.effects if isinstance(effect, Send)]
    return next((message for message in sent if isinstance(message, MetadataReply)), None)


def _rows_of_answer(node: str, reply: MetadataReply, existing: list[tuple[str, int]]) -> Iterable[Row]:
    """What this answer tells: a row of the cluster, and one for each partition that exists or is told."""
    controller = None if reply.controller is None else broker_address(reply.controller)
    yield _told_row(node, leader=controller, replicas=names(reply.brokers), detail=OF_CLUSTER)
    states = {(topic_of(state.tp), index_of(state.tp)): state for state in reply.states}
    for topic, partition in sorted({*existing, *states}):
        state = states.get((topic, partition))
        if state is None:
            yield _told_row(node, topic=topic, partition=partition, detail=ABSENT)
        else:
            yield _row_of_partition(node, state)


def _row_of_partition(node: str, state: PartitionState) -> Row:
    """The row of one partition in an answer."""
    return _told_row(
        node,
        topic=topic_of(state.tp),
        partition=index_of(state.tp),
        topic_id=None if state.topic_id == NO_TOPIC_ID else str(state.topic_id),
        leader=None if state.leader is None else broker_address(state.leader),
        leader_epoch=state.leader_epoch,
        isr=names(tuple(member.broker for member in state.isr)),
        replicas=names(state.replicas),
        detail=",".join(names(state.offline)) or NONE,
    )


def _told_row(node: str, **columns: object) -> Row:
    columns_by_name = {"at": -1, "time_ns": 0, "kind": str(EventKind.METADATA_TOLD), "node": node, "topic": "", **columns}
    return Row._make(columns_by_name.get(name) for name in Row._fields)


def _row(event: ClusterEvent) -> Row:
    return Row._make(event.index if name == "at" else getattr(event, name) for name in Row._fields)
