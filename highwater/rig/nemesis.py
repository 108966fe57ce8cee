"""What the nemeses of all backends share: active faults, their targets, rows of evidence, counts.

A backend opens and closes the windows of the schedule at their times. It asks `begin` which brokers a window hits, does what the
fault says to them, undoes it when `end` has closed the window, and calls `ended`. How a fault is done and undone is the
backend's, in one module for each family of faults (`nemesis.faults`).

Rows: FAULT_BEGUN and FAULT_ENDED for each broker or client place hit, and for each replica that the fault withholds there;
FAULT_ACTED with how often the fault took effect; WOUND for each log of which records were destroyed; HEALED when everything is
undone.
"""

from collections.abc import Callable, Iterable

from highwater.plans.plan import Plan, joining
from highwater.rig.scene import brokers_of, place_address
from highwater.rig.targets import resolve
from highwater.rig.topics import written
from history.event import EventKind
from history.manifest import FaultCount
from history.recorder import Recorder
from history.seed import Draws
from nemesis.faults import DiskFault, hits_every_broker, withholds
from nemesis.schedule import Window
from nemesis.targets import ClientPlace
from reference.coordination.memory import MemoryZooKeeper
from reference.types import Address, BrokerId, TopicId, TopicPartition, broker_address, index_of, topic_of

Wounds = Iterable[tuple[TopicPartition, TopicId, int]]  # (log, its topic, first offset destroyed)


class Holds:
    """How many active faults keep one process down, and how many pause it. Faults may overlap."""

    __slots__ = ("down", "pauses")

    def __init__(self) -> None:
        self.down = 0
        self.pauses = 0

    def release(self) -> bool:
        """Remove one fault that kept the process down; True if no other fault keeps it down."""
        self.down = max(0, self.down - 1)  # a process that is healed early has no holds left to release
        return not self.down

    def unpause(self) -> bool:
        """Remove one fault that paused the process; True if no other fault pauses it."""
        self.pauses = max(0, self.pauses - 1)
        return not self.pauses


class Nemesis:
    """Tracks the faults of one run: which are active, which brokers they hit, how often they took effect.

    `logs` lists the replicas in a log directory of a broker, `incarnation` gives the last registration of a node where the
    backend knows it at once.
    """

    def __init__(
        self,
        plan: Plan,
        recorder: Recorder,
        draws: Draws,
        *,
        logs: Callable[[BrokerId, int], Iterable[TopicPartition]] = lambda _, __: (),
        incarnation: Callable[[Address], int | None] = lambda _: None,
    ) -> None:
        self._plan = plan
        self._logs = logs
        self._incarnation = incarnation
        self._open_windows: dict[str, tuple[Window, tuple[Address, ...]]] = {}
        brokers = brokers_of(plan)
        self._brokers = {broker_address(broker): broker for broker in brokers}
        self._begun_by_kind = {window.kind: 0 for window in plan.schedule}
        self._acted = dict(self._begun_by_kind)
        self.recorder = recorder
        self.draws = draws
        self.holds = {broker: Holds() for broker in brokers}
        for broker in joining(plan):
            self.holds[BrokerId(broker)].down = 1  # until the end of the window
        self.decommissioned: set[BrokerId] = set()  # they are not started again

    # --- windows -----------------------------------------------------------------------------------------------------------

    def begin(self, window: Window, tree: MemoryZooKeeper) -> tuple[Address, ...]:
        """Begin a fault and return the addresses of the brokers, or of the client place, that it hits.

        ZooKeeper's present tree resolves the target; no broker may match.
        """
        hit = self._nodes_hit(window, tree)
        if hit:
            self._begun_by_kind[window.kind] = self._begun_by_kind.get(window.kind, 0) + 1
            self._open_windows[window.id] = (window, hit)
        for node in hit:
            self._record_window(EventKind.FAULT_BEGUN, window, node)
        return hit

    def _nodes_hit(self, window: Window, tree: MemoryZooKeeper) -> tuple[Address, ...]:
        """The client place, or the brokers that the window's target names now; all brokers if the fault hits every one."""
        if isinstance(window.target, ClientPlace):
            return (place_address(window.target.place),)
        brokers_hit = resolve(window.target, self._plan, tree, self.draws, purpose=f"target {window.id}")
        return tuple(self._brokers) if hits_every_broker(window.fault) else tuple(map(broker_address, brokers_hit))

    def open_windows(self) -> tuple[str, ...]:
        """The ids of the active faults, in the order in which they began."""
        return tuple(self._open_windows)

    def end(self, window_id: str) -> tuple[Window, tuple[Address, ...]] | None:
        """End a fault; return it with the addresses that it hit, or None if it is not active."""
        return self._open_windows.pop(window_id, None)

    def ended(self, window: Window, node: Address) -> None:
        """Record that the backend has undone this fault on this broker, or at this client place."""
        self._record_window(EventKind.FAULT_ENDED, window, node)

    def healed(self) -> None:
        """Record that every fault has ended and its effects are undone."""
        self.recorder.event(EventKind.HEALED)

    def _record_window(self, kind: EventKind, window: Window, node: Address) -> None:
        """Record that a fault begins or ends at a node; an unreadable directory also for each of its replicas."""
        self.recorder.event(kind, fault=window.id, node=node, detail=window.kind)
        if isinstance(window.fault, DiskFault) and withholds(window.fault):
            index = window.fault.dir
            for tp in self._logs(self._brokers[node], index):
                topic, partition = topic_of(tp), index_of(tp)
                self.recorder.event(
                    kind, fault=window.id, node=node, topic=topic, partition=partition, dir=index, detail=window.kind
                )

    def gone(self) -> tuple[Address, ...]:
        """The addresses of the brokers that left the cluster for good, sorted by id."""
        return tuple(map(broker_address, sorted(self.decommissioned)))

    # --- what windows did --------------------------------------------------------------------------------------------------

    def acted(self, window: Window, node: Address, count: int) -> None:
        """Record that a fault took effect `count` times on this broker; 0 writes no row."""
        self._acted[window.kind] = self._acted.get(window.kind, 0) + count
        if count:
            self.recorder.event(EventKind.FAULT_ACTED, fault=window.id, node=node, detail=window.kind, count=count)

    def wounded(self, node: Address, dir_: int, wounds: Wounds, reason: str) -> None:
        """Record which records a fault destroyed in the logs of one directory of this broker."""
        for tp, topic_id, offset in wounds:
            self.recorder.event(
                EventKind.WOUND,
                node=node,
                incarnation=self._incarnation(node),
                topic=topic_of(tp),
                topic_id=written(topic_id),
                partition=index_of(tp),
                dir=dir_,
                offset=offset,
                detail=reason,
            )

    def swapped(self, node: Address, dir_: int, wounds: Wounds) -> None:
        """Record that an empty directory replaced a log directory of this broker.

        The row without a partition covers replicas that were counted on before the broker created them on its disk.
        """
        self.wounded(node, dir_, wounds, "swapped")
        self.recorder.event(EventKind.WOUND, node=node, incarnation=self._incarnation(node), dir=dir_, detail="swapped")

    def counts(self) -> tuple[FaultCount, ...]:
        """For each kind of fault in the schedule, how many were begun and how often they took effect."""
        return tuple(
            FaultCount(kind=kind, begun=self._begun_by_kind[kind], acted=self._acted[kind])
            for kind in sorted(self._begun_by_kind)
        )
