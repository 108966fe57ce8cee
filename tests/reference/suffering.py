"""A table-top cluster with more faults: ZooKeeper out of reach, late messages, power loss, replaced directories.

`Promises` checks every broker after each of its events (docs/promise.md).
"""

from collections.abc import Mapping

from msgspec.structs import replace

from history.seed import Rng
from reference.config import VARIANTS, Protocol, TopicSpec
from reference.coordination import paths
from reference.coordination.api import AnyAnswer, AnyOp, Create, Data, GetChildren, GetData, Unknown
from reference.coordination.memory import Fired
from reference.effects import AnyEffect, Flush, OnDisk, Truncate, ZkConnect, ZkRequest
from reference.effects import DeleteReplica as DeleteLog
from reference.events import AnyEvent, ZkReplied, ZkState, ZkWatch
from reference.messages import PartitionState
from reference.replica.partition import Leader, Partition
from reference.sealed import in_the_clear
from reference.types import TopicId, TopicPartition
from tests.reference.lab import Directory, Lab

BROKERS = 5
FIRST = 8  # so that ids have one digit or two
BEFORE_ACK = "u"  # its records are flushed before they are acknowledged
TOPICS = ("t", "u")
Life = tuple[TopicId, TopicPartition]  # a partition of one topic id; a new topic of the same name is another one


class Cluster(Lab):
    """The table-top cluster with a ZooKeeper that can be out of reach and a record of which batches are flushed."""

    checks_clones = False  # test_any_schedule.py does

    def __init__(self, rng: Rng, protocol: str, log_dirs: int, speaks: Protocol) -> None:
        self.rng = rng
        self.abandoned_sessions: list[int] = []  # sessions of dead processes, and sessions that were replaced
        self.missed_events: dict[
            int, list[AnyEvent]
        ] = {}  # events that a broker cut off from ZooKeeper receives when it reconnects
        self.durable: dict[tuple[int, int, TopicPartition], int] = {}  # batches that survive a power loss
        self.emptied: set[int] = set()
        self.promises = Promises()
        replicas = tuple(range(FIRST, FIRST + 3))
        super().__init__(
            BROKERS, first=FIRST, variant=VARIANTS[protocol], replicas=replicas, min_isr=2, log_dirs=log_dirs, start=False
        )
        specs = tuple(
            TopicSpec(
                name=topic,
                partitions=1,
                replication_factor=3,
                min_insync_replicas=2,
                flush="before_ack" if topic == BEFORE_ACK else "none",
            )
            for topic in TOPICS
        )
        for i in self.ids:
            self.configs[i] = replace(self.configs[i], topics=specs, inter_broker_protocol=speaks)
        self.zk.submit(self.admin, (Create("/admin", b""),))
        for i in self.ids:
            self.start(i)
        self.settle()
        self.wait(2000)

    def _handle(self, i: int, event: AnyEvent) -> None:
        super()._handle(i, event)
        if i in self.nodes:
            self.promises.look(i, self.process_numbers[i], self.nodes[i].state.broker.partitions)

    def _do(self, i: int, effect: AnyEffect) -> None:
        match effect:
            case ZkConnect() if i in self.sessions:
                self.abandoned_sessions.append(self.sessions[i])
                super()._do(i, effect)
            case ZkRequest(id=id_, ops=ops, atomic=atomic) if i in self.cut_off_from_zk:
                if self.rng.ratio(1, 2):
                    _, fired = self.zk.submit(self.sessions[i], ops, atomic=atomic)
                    self.deliver_watches(fired)
                self.missed_events[i].append(ZkReplied(id_, (Unknown(),) * len(ops)))
            case _:
                super()._do(i, effect)

    def _write(self, i: int, disk: Directory, effect: OnDisk) -> None:
        super()._write(i, disk, effect)
        match effect:
            case Flush(dir=dir_):
                self.durable |= {(i, dir_, tp): len(log) for tp, log in disk.logs.items()}
            case Truncate(dir=dir_, tp=tp):
                self.durable[i, dir_, tp] = min(self.durable.get((i, dir_, tp), 0), len(disk.logs[tp]))
            case DeleteLog(dir=dir_, tp=tp):
                self.durable.pop((i, dir_, tp), None)
            case _:
                pass

    def deliver_watches(self, fired: Fired) -> None:
        for session, path, change in fired:
            for i in self.cut_off_from_zk & self.nodes.keys():
                if self.sessions[i] == session:
                    self.missed_events[i].append(ZkWatch(path, change))
        super().deliver_watches(fired)

    def cut_off(self, i: int) -> None:
        """Cut a broker off from ZooKeeper."""
        self.cut_off_from_zk.add(i)
        self.missed_events[i] = []
        self.handle_event(i, ZkState("disconnected", self.sessions[i]))

    def reconnect(self, i: int) -> None:
        """Reconnect a broker to ZooKeeper. Deliver the events that it missed, and the end of its session if that expired."""
        self.cut_off_from_zk.discard(i)
        # All at once: an answer to a request that the broker sends now comes after them, as in any session.
        self.events.extend((i, event) for event in self.missed_events.pop(i))
        over = i in self.nodes and not self.zk.touch(self.sessions[i], now_ms=0)
        self.handle_event(i, ZkState("expired") if over else ZkState("connected", self.sessions[i]))

    def crash(self, i: int) -> None:
        """Kill a broker. Messages in flight to it may be delivered to its next process."""
        late_envelopes = [envelope for envelope in self.in_flight if envelope.receiver == f"b{i}" and self.rng.ratio(1, 2)]
        super().crash(i)
        self.in_flight.extend(late_envelopes)
        self.cut_off_from_zk.discard(i)
        self.missed_events.pop(i, None)

    def lose_power(self, i: int) -> None:
        """Kill a broker and lose a drawn part of what was not flushed."""
        self.crash(i)
        for index, directory in enumerate(self.disks[i].dirs):
            for tp, log in directory.logs.items():
                kept = self.durable.get((i, index, tp), 0)
                del log[kept + self.rng.below(len(log) - kept + 1) :]

    def swap(self, i: int, index: int) -> None:
        """Replace a directory with a new, empty one."""
        self.disks[i].dirs[index] = Directory()
        self.emptied.add(i)

    def read(self, path: str) -> Data | None:
        """Read a znode; None if it does not exist."""
        (answer,), _ = self.zk.submit(self.admin, (GetData(path),))
        return answer if isinstance(answer, Data) else None

    def ask(self, *ops: AnyOp) -> tuple[AnyAnswer, ...]:
        """Write to ZooKeeper as an administrator, without settling the cluster."""
        answers, fired = self.zk.submit(self.admin, ops)
        self.deliver_watches(fired)
        return answers

    def topics(self) -> dict[str, Data]:
        """The topic znodes by name."""
        (names,) = self.ask(GetChildren(paths.TOPICS))
        znodes = {name: self.read(paths.topic_path(name)) for name in getattr(names, "names", ())}
        return {name: znode for name, znode in znodes.items() if znode is not None}

    def states(self) -> dict[TopicPartition, PartitionState | None]:
        """The state of each partition in ZooKeeper."""
        states: dict[TopicPartition, PartitionState | None] = {}
        for topic, znode in self.topics().items():
            for tp, replicas in paths.decode_topic(topic, znode.data):
                state_znode = self.read(paths.state_path(tp))
                states[tp] = None if state_znode is None else paths.decode_state(tp, replicas, state_znode)
        return states


class Promises:
    """Check docs/promise.md DUR-1, ORD-1, VIS-2 and one leader for each epoch, after each event of each broker."""

    def __init__(self) -> None:
        self.kept: dict[Life, list[tuple[str, int]]] = {}  # by offset: the value, and the epoch in which it was committed
        self.leads: dict[tuple[Life, int], int] = {}
        self.hws: dict[tuple[int, int, Life, int], int] = {}
        self.ended: set[TopicId] = set()  # DUR-8: topics whose deletion was requested
        self.removed: set[Life] = set()  # V3 §H: removed partitions; they keep their topic id when they are added again
        self.broken: list[str] = []

    def look(self, i: int, life: int, partitions: Mapping[TopicPartition, Partition]) -> None:
        """Check the replicas of broker `i` in its process number `life`."""
        for tp, replica in partitions.items():
            partition = (replica.log.topic_id, tp)
            if replica.log.topic_id in self.ended or partition in self.removed:
                continue
            values = [v for batch in replica.log.batches for v in in_the_clear(batch.values)]
            kept = self.kept.setdefault(partition, [])
            if [v for v, _ in kept[: replica.hw]] != values[: min(replica.hw, len(kept))]:
                self.broken.append(f"b{i} has {values} of {partition} with HW {replica.hw}, but {kept} was committed")
            if isinstance(replica.role, Leader):
                self._look_at_leader(i, life, partition, replica, values)
                kept.extend((value, replica.leader_epoch) for value in values[len(kept) : replica.hw])

    def _look_at_leader(self, i: int, life: int, partition: Life, replica: Partition, values: list[str]) -> None:
        epoch = replica.leader_epoch
        kept = self.kept[partition]
        if self.leads.setdefault((partition, epoch), i) != i:
            self.broken.append(f"b{i} leads {partition} in epoch {epoch}, which is also led by b{self.leads[partition, epoch]}")
        if replica.hw < self.hws.get((i, life, partition, epoch), 0):
            self.broken.append(f"HW of {partition} at b{i} falls to {replica.hw} in epoch {epoch}")
        self.hws[i, life, partition, epoch] = replica.hw
        if any(values[offset : offset + 1] != [value] for offset, (value, when) in enumerate(kept) if when < epoch):
            self.broken.append(f"b{i} leads {partition} in epoch {epoch} with {values}, but {kept} was committed")
