"""The state of each replica of a partition over time: LEO, HW, role, leader epoch, and whether it is in the ISR.

Two sources are kept apart on purpose: role and epoch are what the node itself believes, the ISR is what ZooKeeper holds. Where
they disagree (a deposed leader that does not know it) the picture shows both.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from history.event import ClusterEvent, EventKind
from history.manifest import Assignment

Role = Literal["leader", "follower", "idle", "down"]
Point = tuple[int, int | None]  # time in ns; an offset, or None without a replica (down, deleted)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleSpan:
    """The time in which a replica had one role under one leader epoch (None: unknown to the node)."""

    role: Role
    leader_epoch: int | None
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A truncation, a loss of bytes by a fault, or a deletion of the replica, to be marked in the figure."""

    kind: Literal["truncate", "wound", "deleted"]
    time_ns: int
    index: int
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaTrack:
    """The states of one replica over time. `in_isr` are spans (start_ns, end_ns)."""

    node: str
    leo: tuple[Point, ...]
    hw: tuple[Point, ...]
    roles: tuple[RoleSpan, ...]
    in_isr: tuple[tuple[int, int], ...]
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTrack:
    """The replicas of one partition over time. `leader_changes` and `isr_changes` count the changes in ZooKeeper."""

    topic: str
    partition: int
    replicas: tuple[ReplicaTrack, ...]
    leader_changes: int
    isr_changes: int
    leader_epoch: int | None  # the last one

    @property
    def key(self) -> str:
        """The partition's name as in anomalies: "orders-0"."""
        return f"{self.topic}-{self.partition}"


@dataclass(slots=True)
class _Replica:
    """The states of one replica over time, collected while the events of a run are read."""

    node: str
    leo: list[Point] = field(default_factory=list)
    hw: list[Point] = field(default_factory=list)
    roles: list[RoleSpan] = field(default_factory=list)
    in_isr: list[tuple[int, int]] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    role: Role = "idle"
    leader_epoch: int | None = None
    role_since: int = 0
    isr_since: int | None = None

    def become(self, role: Role, leader_epoch: int | None, time_ns: int) -> None:
        """The replica changes its role or leader epoch."""
        if (role, leader_epoch) == (self.role, self.leader_epoch):
            return
        if time_ns > self.role_since:
            self.roles.append(RoleSpan(role=self.role, leader_epoch=self.leader_epoch, start_ns=self.role_since, end_ns=time_ns))
        self.role, self.leader_epoch, self.role_since = role, leader_epoch, time_ns

    def vanish(self, role: Role, time_ns: int) -> None:
        self.become(role, None, time_ns)
        self.leo.append((time_ns, None))
        self.hw.append((time_ns, None))

    def note_isr(self, inside: bool, time_ns: int) -> None:
        """The replica enters or leaves the ISR."""
        if inside and self.isr_since is None:
            self.isr_since = time_ns
        elif not inside and self.isr_since is not None:
            self.in_isr.append((self.isr_since, time_ns))
            self.isr_since = None

    def handle(self, event: ClusterEvent) -> None:
        """Apply an event of this broker on this partition to the replica's states over time."""
        now = event.time_ns
        leo = event.leo
        match event.kind:
            case EventKind.BECAME_LEADER:
                self.become("leader", event.leader_epoch, now)
            case EventKind.BECAME_FOLLOWER:
                self.become("follower", event.leader_epoch, now)
            case EventKind.RESIGNED:
                self.become("idle", event.leader_epoch, now)
            case EventKind.APPEND if event.offset is not None:
                leo = event.offset + 1
            case EventKind.TRUNCATE:
                leo = event.offset
                self._mark("truncate", event, f"truncated to {event.offset}: {event.detail or 'no reason given'}")
            case EventKind.WOUND:
                self._mark("wound", event, f"wound ({event.detail}): destroyed from offset {event.offset}")
            case EventKind.REPLICA_DELETED:
                self._mark("deleted", event, "replica deleted")
                self.vanish("idle", now)
                return
            case _:
                pass
        if leo is not None:
            self.leo.append((now, leo))
        if event.hw is not None:
            self.hw.append((now, event.hw))

    def _mark(self, kind: Literal["truncate", "wound", "deleted"], event: ClusterEvent, words: str) -> None:
        self.marks.append(Mark(kind=kind, time_ns=event.time_ns, index=event.index, words=f"{event.node} {words}"))

    def finish(self, end_ns: int) -> ReplicaTrack:
        """What the replica did, up to the end of the run."""
        end = max(end_ns, self.role_since)
        last = RoleSpan(role=self.role, leader_epoch=self.leader_epoch, start_ns=self.role_since, end_ns=end)
        in_isr = self.in_isr if self.isr_since is None else [*self.in_isr, (self.isr_since, end)]
        return ReplicaTrack(
            node=self.node,
            leo=tuple(self.leo),
            hw=tuple(self.hw),
            roles=(*self.roles, last),
            in_isr=tuple(in_isr),
            marks=tuple(self.marks),
        )


@dataclass(slots=True)
class _Partition:
    replicas: dict[str, _Replica]
    leader: str | None = None
    leader_epoch: int | None = None
    isr: tuple[str, ...] | None = None
    leader_changes: int = 0
    isr_changes: int = 0

    def replica(self, node: str) -> _Replica:
        return self.replicas.setdefault(node, _Replica(node))

    def state_written(self, event: ClusterEvent) -> None:
        """A state was written: its leader, its ISR, and the counts of their changes."""
        if event.leader is not None:
            self.leader_changes += self.leader not in (None, event.leader)
            self.leader = event.leader
        self.leader_epoch = event.leader_epoch
        isr = tuple(sorted(event.isr or ()))
        self.isr_changes += self.isr not in (None, isr)
        self.isr = isr
        for node in isr:
            self.replica(node)
        for node, replica in self.replicas.items():
            replica.note_isr(node in isr, event.time_ns)


def tracks_of(events: Iterable[ClusterEvent], assignments: Sequence[Assignment], end_ns: int) -> tuple[PartitionTrack, ...]:
    """The replicas' states over time for each partition, sorted by topic and number."""
    partitions = {(a.topic, a.partition): _Partition({node: _Replica(node) for node in a.replicas}) for a in assignments}
    for event in events:
        if event.topic is None or event.partition is None:
            if event.node is not None and event.kind in (EventKind.NODE_STOPPED, EventKind.NODE_STARTED):
                _move_node(partitions, event)
            continue
        partition = partitions.setdefault((event.topic, event.partition), _Partition({}))
        if event.kind is EventKind.STATE_WRITTEN:
            partition.state_written(event)
        elif event.node is not None:
            partition.replica(event.node).handle(event)
    return tuple(
        PartitionTrack(
            topic=topic,
            partition=number,
            replicas=tuple(replica.finish(end_ns) for replica in partition.replicas.values()),
            leader_changes=partition.leader_changes,
            isr_changes=partition.isr_changes,
            leader_epoch=partition.leader_epoch,
        )
        for (topic, number), partition in sorted(partitions.items(), key=lambda item: item[0])
    )


def _move_node(partitions: dict[tuple[str, int], _Partition], event: ClusterEvent) -> None:
    """A broker started or stopped: its replicas are idle or down."""
    for partition in partitions.values():
        replica = partition.replicas.get(event.node or "")
        if replica is None:
            continue
        if event.kind is EventKind.NODE_STOPPED:
            replica.vanish("down", event.time_ns)
        else:
            replica.become("idle", None, event.time_ns)
