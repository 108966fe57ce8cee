"""A builder of histories, row by row, for tests of checkers: each row gets the next index, a millisecond later."""

import msgspec

from history.event import ClusterEvent, EventKind
from history.history import History
from history.op import Operation, OpType
from history.promise import Promise
from proof.manifests import manifest, promise

MS = 1_000_000


class HistoryBuilder:
    """Rows of one partition at a time; `on_partition` turns to another one."""

    def __init__(self, promised: Promise | None = None, *, partitions: int = 1) -> None:
        self.manifest = manifest(promised or promise(), partitions=partitions)
        self.topic, self.partition = self.manifest.promise.topics[0].topic, 0
        self.operations: list[Operation] = []
        self.events: list[ClusterEvent] = []
        self.topic_id: str | None = None
        self.index = 0
        self.time_ns = 0

    def on_partition(self, partition: int, topic: str = "orders") -> "HistoryBuilder":
        """Use this partition for the following rows."""
        self.topic, self.partition = topic, partition
        return self

    def _next(self) -> int:
        self.index += 1
        self.time_ns += MS
        return self.index

    # --- events ---------------------------------------------------------------------------------------------------------

    def event(self, kind: EventKind, *, whole_node: bool = False, **columns: object) -> int:
        """Append one row; return its index."""
        where: dict[str, object] = (
            {} if whole_node else {"topic": self.topic, "partition": self.partition, "topic_id": self.topic_id}
        )
        row = {"index": self._next(), "kind": kind, "time_ns": self.time_ns, **where, **columns}
        self.events.append(msgspec.convert(row, ClusterEvent))
        return self.index

    def registered(self, node: str, incarnation: int) -> int:
        return self.event(EventKind.REGISTERED, whole_node=True, node=node, incarnation=incarnation, life=1)

    def session_ended(self, node: str, incarnation: int) -> int:
        return self.event(EventKind.SESSION_ENDED, whole_node=True, node=node, incarnation=incarnation)

    def state(self, leader: str | None, epoch: int, isr: str, version: int = 0, stamps: tuple[int, ...] | None = None) -> int:
        """ZooKeeper's state of the partition; `isr` as "b1 b2", `stamps` the registrations under which they joined."""
        return self.event(
            EventKind.STATE_WRITTEN,
            leader=leader,
            leader_epoch=epoch,
            isr=tuple(isr.split()),
            stamps=stamps,
            zk_version=version,
            node=leader,
        )

    def leads(self, node: str, epoch: int, *, leo: int, hw: int = 0, isr: str = "b1 b2 b3") -> int:
        return self.event(EventKind.BECAME_LEADER, node=node, life=1, leader_epoch=epoch, leo=leo, hw=hw, isr=tuple(isr.split()))

    def follows(self, node: str, epoch: int, leader: str) -> int:
        return self.event(EventKind.BECAME_FOLLOWER, node=node, life=1, leader_epoch=epoch, leader=leader)

    def append(self, nodes: str, offset: int, value: str, epoch: int = 1) -> int:
        """Append the record to several replicas; the first is the leader."""
        for place, node in enumerate(nodes.split()):
            detail = "follower" if place else "leader"
            self.event(EventKind.APPEND, node=node, life=1, offset=offset, value=value, leader_epoch=epoch, detail=detail)
        return self.index

    def event_append(self, node: str, offset: int, value: str, epoch: int) -> int:
        """A record copied by a follower."""
        return self.event(EventKind.APPEND, node=node, life=1, offset=offset, value=value, leader_epoch=epoch, detail="follower")

    def change_isr(self, node: str, epoch: int, isr: tuple[str, ...], *, ended: bool = False) -> int:
        kind = EventKind.ISR_CHANGE_ENDED if ended else EventKind.ISR_CHANGE_SENT
        detail = "applied" if ended else None
        return self.event(kind, node=node, leader_epoch=epoch, isr=isr, zk_version=0, detail=detail)

    def truncate(self, node: str, leo: int) -> int:
        return self.event(EventKind.TRUNCATE, node=node, life=1, offset=leo, detail="epoch")

    def hw(self, node: str, hw: int, *, epoch: int = 1, leo: int | None = None, role: str = "leader", life: int = 1) -> int:
        return self.event(
            EventKind.HW, node=node, life=life, hw=hw, leo=hw if leo is None else leo, leader_epoch=epoch, detail=role
        )

    def recovered(self, node: str, leo: int, life: int = 2) -> int:
        return self.event(EventKind.RECOVERED, node=node, life=life, leo=leo, hw=0, dir=0)

    def wound(self, node: str, offset: int, incarnation: int, why: str = "power-loss") -> int:
        return self.event(EventKind.WOUND, node=node, offset=offset, incarnation=incarnation, dir=0, detail=why)

    def dir_failed(self, node: str, index: int = 0) -> int:
        return self.event(EventKind.DIR_FAILED, whole_node=True, node=node, dir=index, life=1)

    def node_started(self, node: str, life: int) -> int:
        return self.event(EventKind.NODE_STARTED, whole_node=True, node=node, life=life)

    # --- the very end ---------------------------------------------------------------------------------------------------

    def zk_state(self, leader: str | None, epoch: int, replicas: str, *, id: str = "10", isr: str | None = None) -> int:
        """Append the final state in ZooKeeper; without `isr` all replicas are in the ISR."""
        on = tuple(replicas.split())
        kind = EventKind.ZK_STATE
        counted = on if isr is None else tuple(isr.split())
        return self.event(kind, topic_id=id, leader=leader, leader_epoch=epoch, isr=counted, elr=(), replicas=on, zk_version=0)

    def metadata_view(
        self, node: str, leader: str | None, epoch: int, replicas: str, *, id: str = "10", isr: str | None = None
    ) -> int:
        """Append a broker's final metadata."""
        on = tuple(replicas.split())
        kind = EventKind.METADATA_VIEW
        counted = on if isr is None else tuple(isr.split())
        return self.event(kind, node=node, topic_id=id, leader=leader, leader_epoch=epoch, isr=counted, replicas=on)

    # --- operations -----------------------------------------------------------------------------------------------------

    def op(self, process: int, type: OpType, f: str, rows: tuple[dict[str, object], ...] = ({},)) -> int:
        """Append one invocation or completion; return its index."""
        index = self._next()
        base = {"index": index, "process": process, "type": type, "f": f, "topic": self.topic, "partition": self.partition}
        for slot, columns in enumerate(rows):
            named = {} if type is OpType.INVOKE else {"topic_id": self.topic_id}  # a client learns the id with its answer
            row = {**base, **named, "slot": slot, "time_ns": self.time_ns, **columns}
            self.operations.append(msgspec.convert(row, Operation))
        return index

    def invoke_produce(self, process: int, value: str, acks: int = -1) -> int:
        return self.op(process, OpType.INVOKE, "produce", ({"value": value, "acks": acks},))

    def produce_ok(self, process: int, value: str, offset: int, *, epoch: int | None = 1, acks: int = -1) -> int:
        return self.op(process, OpType.OK, "produce", ({"value": value, "offset": offset, "acks": acks, "leader_epoch": epoch},))

    def produce_info(self, process: int, value: str, acks: int = -1) -> int:
        return self.op(process, OpType.INFO, "produce", ({"value": value, "acks": acks, "error": "timeout"},))

    def produce_fail(self, process: int, value: str, acks: int = -1) -> int:
        return self.op(process, OpType.FAIL, "produce", ({"value": value, "acks": acks, "error": "NOT_ENOUGH_REPLICAS"},))

    def produce(self, process: int, value: str, offset: int, *, epoch: int = 1, acks: int = -1) -> int:
        """Append a produce and its acknowledgement."""
        self.invoke_produce(process, value, acks)
        return self.produce_ok(process, value, offset, epoch=epoch, acks=acks)

    def poll(self, process: int, position: int, values: str, *, epoch: int | None = 1, hw: int | None = None) -> int:
        """Append a poll at a position that returns records from there on; "-" leaves an offset out."""
        self.op(process, OpType.INVOKE, "poll", ({"offset": position},))
        got: tuple[dict[str, object], ...] = tuple(
            {"offset": offset, "value": value, "leader_epoch": epoch, "hw": hw}
            for offset, value in enumerate(values.split(), position)
            if value != "-"
        )
        return self.op(process, OpType.OK, "poll", got or ({"leader_epoch": epoch, "hw": hw},))

    def latest(self, process: int, end: int, *, epoch: int = 1) -> int:
        self.op(process, OpType.INVOKE, "latest")
        return self.op(process, OpType.OK, "latest", ({"offset": end, "leader_epoch": epoch},))

    def history(self, **facts: object) -> History:
        """The history so far; `facts` replace fields of the manifest."""
        told = {"end_ns": self.time_ns, **facts}
        return History(msgspec.structs.replace(self.manifest, **told), operations=self.operations, events=self.events)


def healthy_partition(promised: Promise | None = None) -> HistoryBuilder:
    """Three registered brokers (incarnations 11, 12, 13); b1 leads orders-0 in epoch 1, all in the ISR, logs empty."""
    builder = HistoryBuilder(promised)
    for number, node in enumerate(("b1", "b2", "b3"), 11):
        builder.registered(node, number)
    builder.state("b1", 1, "b1 b2 b3")
    builder.leads("b1", 1, leo=0)
    return builder


# --- what is told in many stories, and what each must be judged to be ------------------------------------------------

BOUND_NS = 16_000 * MS


def commit_record(builder: HistoryBuilder, value: str = "x", offset: int = 0, *, epoch: int = 1, nodes: str = "b1 b2 b3") -> int:
    """Produce, copy and acknowledge a record; return the row of the HW that promised it."""
    builder.invoke_produce(1, value)
    builder.append(nodes, offset, value, epoch)
    at = builder.hw(nodes.split()[0], offset + 1, epoch=epoch)
    builder.produce_ok(1, value, offset, epoch=epoch)
    return at


def lose_power(builder: HistoryBuilder, nodes: str, offset: int = 0, why: str = "power-loss") -> None:
    """Directories are cut back to `offset` and the sessions end."""
    incarnations = {"b1": 11, "b2": 12, "b3": 13}
    for node in nodes.split():
        builder.wound(node, offset, incarnations[node], why)
    for node in nodes.split():
        builder.session_ended(node, incarnations[node])
