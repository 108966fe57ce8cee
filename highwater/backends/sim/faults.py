"""Performing a schedule: each window is opened on the nodes its target names, and undone when it closes.

Windows may overlap on a node: a process runs again when the last fault that stops it is over, clocks show the sum of what is
done to them. Rows of evidence: FAULT_BEGUN and FAULT_ENDED for each node that was hit (and each replica withheld), FAULT_ACTED
with how often it really bit, WOUND for each log of which something was destroyed.
"""

from functools import partial
from typing import assert_never

from highwater.backends.sim.disk import Refusal, Wounds
from highwater.backends.sim.fault_clocks import ClockFaults
from highwater.backends.sim.fault_links import LinkFaults
from highwater.backends.sim.network import Acting
from highwater.backends.sim.node import NodeHost
from highwater.backends.sim.open_window import OpenWindow
from highwater.backends.sim.scheduler import MS
from highwater.backends.sim.stage import Stage
from highwater.backends.sim.traps import Trap
from highwater.backends.sim.zk import ZkServer
from highwater.rig.cuts import Geography
from highwater.rig.evidence import ZkEvidence
from highwater.rig.targets import resolve
from highwater.rig.topics import written
from history.event import EventKind
from history.manifest import FaultCount
from nemesis.faults import (
    ClockDrift,
    ClockJump,
    ClockStrobe,
    Clog,
    Crash,
    CrashAt,
    DirFailure,
    DirFile,
    DirUnreadable,
    DiskFull,
    DiskSlow,
    DiskSwap,
    ExpireSession,
    Packets,
    Partition,
    Pause,
    PowerLoss,
    Reset,
    Restart,
    Shutdown,
    Slow,
    ZooKeeperDown,
)
from nemesis.schedule import Window
from reference.events import ShutDown
from reference.types import Address, BrokerId, broker_address, index_of, topic_of

RESTART_MS_MIN = 20  # from the end of a process to the start of the next
RESTART_MS_MAX = 500
BOUNCE_MS_MIN = 1  # the same, where the session ended at once: faster than a controller reads
BOUNCE_MS_MAX = 10
SILENT_MS_MIN = 500  # how long peers of a host without power notice nothing
SILENT_MS_MAX = 3000

Refused = DirUnreadable | DirFile | DirFailure | DiskFull  # what makes a directory refuse


class Trouble:
    """What faults do to one node just now; several windows may do the same."""

    __slots__ = ("holds", "pauses")

    def __init__(self) -> None:
        self.holds = 0  # windows that keep the process down
        self.pauses = 0


class Faults:
    """The nemesis of a simulated world."""

    def __init__(
        self, stage: Stage, server: ZkServer, evidence: ZkEvidence, nodes: dict[BrokerId, NodeHost], geography: Geography
    ) -> None:
        self._stage = stage
        self._server = server
        self._evidence = evidence
        self._nodes = nodes
        self._links = LinkFaults(stage, nodes, geography)
        self._clocks = ClockFaults(stage.scheduler, tuple(node.address for node in nodes.values()))
        self._trouble = {broker: Trouble() for broker in nodes}
        self._open: dict[str, OpenWindow] = {}
        self._begun: dict[str, int] = {}
        self._acted: dict[str, int] = {}

    # --- windows --------------------------------------------------------------------------------------------------------

    def plan(self, zero_ns: int) -> None:
        """Queue every window of the schedule, counted from the start of the workload."""
        for window in self._stage.plan.schedule:
            self._begun.setdefault(window.kind, 0)
            self._acted.setdefault(window.kind, 0)
            self._stage.scheduler.at(zero_ns + window.at_ms * MS, self.open, window)
            self._stage.scheduler.at(zero_ns + window.until_ms * MS, self.close, window.id)

    def open(self, window: Window) -> None:
        """The window opens; nothing where its target is vacant."""
        stage = self._stage
        brokers = resolve(window.target, stage.plan, self._server.tree, stage.draws, purpose=f"target {window.id}")
        if isinstance(window.fault, ZooKeeperDown) or (isinstance(window.fault, Partition) and window.fault.shape != "isolate"):
            brokers = tuple(self._nodes)
        if not brokers:
            return
        self._begun[window.kind] = self._begun.get(window.kind, 0) + 1
        opened = self._open[window.id] = OpenWindow(window, tuple(broker_address(broker) for broker in brokers))
        for node in opened.nodes:
            self._say(EventKind.FAULT_BEGUN, window, node)
        if isinstance(window.fault, Partition):
            self._links.cut(opened, window.fault, brokers)
            return
        if isinstance(window.fault, ZooKeeperDown) and window.fault.how != "pause":
            self._links.cut(opened, Partition(links=("zookeeper",)), brokers)
            return
        for broker in brokers:
            self._begin(opened, self._nodes[broker], opened.actings[broker_address(broker)])

    def close(self, window_id: str) -> None:
        """The window closes: what it did is undone, latest first."""
        opened = self._open.pop(window_id, None)
        if opened is None:
            return
        opened.close()
        window, recorder = opened.window, self._stage.recorder
        for node in opened.nodes:
            count = opened.actings[node].count
            self._acted[window.kind] = self._acted.get(window.kind, 0) + count
            if count:
                recorder.event(EventKind.FAULT_ACTED, fault=window.id, node=node, detail=window.kind, count=count)
            self._say(EventKind.FAULT_ENDED, window, node)

    def _say(self, kind: EventKind, window: Window, address: Address) -> None:
        """A row for the node, and one for each partition whose replica there is withheld: its directory cannot be read."""
        recorder = self._stage.recorder
        recorder.event(kind, fault=window.id, node=address, detail=window.kind)
        if isinstance(window.fault, DirUnreadable | DirFile | DirFailure):
            index = window.fault.dir
            for tp in sorted(self._nodes[_broker(address)].disk.dirs[index].logs):
                topic, partition = topic_of(tp), index_of(tp)
                recorder.event(
                    kind, fault=window.id, node=address, topic=topic, partition=partition, dir=index, detail=window.kind
                )

    def heal(self) -> None:
        """Everything is over: close what is open, start what is down, set clocks right. A process that asserted stays down."""
        for window_id in list(self._open):
            self.close(window_id)
        for broker, node in self._nodes.items():
            self._trouble[broker] = Trouble()
            node.spring()
            node.resume()
            self._clocks.heal(node)
            if not node.wrong:
                if node.failed_dirs:
                    node.stop("crash")
                node.start()
        self._stage.recorder.event(EventKind.HEALED)

    def counts(self) -> tuple[FaultCount, ...]:
        """Of each kind of the schedule."""
        return tuple(FaultCount(kind=kind, begun=self._begun[kind], acted=self._acted[kind]) for kind in sorted(self._begun))

    # --- what each fault does -------------------------------------------------------------------------------------------

    def _begin(self, opened: OpenWindow, node: NodeHost, acting: Acting) -> None:
        fault = opened.window.fault
        match fault:
            case Partition():
                raise AssertionError("cut as a whole")
            case ZooKeeperDown():  # it stands still
                self._links.disturb(opened, Clog(links=("zookeeper",)), node, acting)
            case Packets() | Slow() | Clog() | Reset():
                self._links.disturb(opened, fault, node, acting)
            case ClockJump() | ClockDrift() | ClockStrobe():
                self._clocks.set_wrong(opened, fault, node, acting)
            case Pause():
                self._pause(opened, node, acting)
            case Crash():
                self._kill(node, acting, partial(node.stop, "crash"))
                opened.undo.append(partial(self._let_run, node))
            case CrashAt():
                trap = Trap(fault, partial(self._trapped, opened, node, acting))
                opened.hold_in(node.traps, trap)
            case Restart(session_ends=True):
                self._trouble[node.config.broker].holds += 1
                acting.count += 1
                self._bounce(node)
            case Restart():
                self._kill(node, acting, partial(node.stop, "crash"))
                self._start_soon(node)
            case Shutdown():
                self._trouble[node.config.broker].holds += 1
                acting.count += node.up
                node.take("operator", ShutDown())
                opened.undo.append(partial(self._end_shutdown, node, node.life))
            case PowerLoss():
                self._kill(node, acting, partial(self._lose_power, opened.id, fault, node))
                opened.undo.append(partial(self._let_run, node))
            case ExpireSession():
                session = self._server.session_of(node.address)
                if session:
                    acting.count += 1
                    self._server.expire(session)
            case DirUnreadable() | DirFile() | DirFailure() | DiskFull():
                self._refuse(opened, fault, node, acting)
            case DiskSlow():
                slow = (fault.extra_ms * MS, acting)
                opened.hold_in(node.disk.dirs[fault.dir].slows, slow)
            case DiskSwap():
                self._kill(node, acting, partial(self._swap, fault.dir, node))
                opened.undo.append(partial(self._let_run, node))
            case _:
                assert_never(fault)

    # --- processes ------------------------------------------------------------------------------------------------------

    def _pause(self, opened: OpenWindow, node: NodeHost, acting: Acting) -> None:
        trouble = self._trouble[node.config.broker]
        trouble.pauses += 1
        acting.count += node.up
        node.pause()
        opened.undo.append(partial(self._unpause, node))

    def _unpause(self, node: NodeHost) -> None:
        trouble = self._trouble[node.config.broker]
        trouble.pauses -= 1
        if not trouble.pauses:
            node.resume()

    def _kill(self, node: NodeHost, acting: Acting, blow: "partial[None]") -> None:
        """End the process and keep it down; `blow` does it, now or in a moment."""
        self._trouble[node.config.broker].holds += 1
        acting.count += 1
        node.ambush(blow)

    def _end_shutdown(self, node: NodeHost, life: int) -> None:
        """Whoever has not come to an end in good order is killed now."""
        if node.life == life:
            node.stop("crash")
        self._let_run(node)

    def _let_run(self, node: NodeHost) -> None:
        """One window less keeps this process down."""
        trouble = self._trouble[node.config.broker]
        node.spring()
        trouble.holds = max(0, trouble.holds - 1)
        if not trouble.holds and not node.wrong:
            node.start()
            if trouble.pauses:
                node.pause()

    def _trapped(self, opened: OpenWindow, node: NodeHost, acting: Acting) -> None:
        """The effect came at which this process is to die."""
        self._trouble[node.config.broker].holds += 1
        acting.count += 1
        node.stop("crash")
        opened.undo.append(partial(self._let_run, node))

    def _bounce(self, node: NodeHost) -> None:
        """Gone and back before the watch that tells of it is answered: B-47, KAFKA-1120."""
        session = self._server.session_of(node.address)
        node.stop("crash")
        if session:
            self._server.expire(session)
        self._start_soon(node, BOUNCE_MS_MIN, BOUNCE_MS_MAX)

    def _start_soon(self, node: NodeHost, lo_ms: int = RESTART_MS_MIN, hi_ms: int = RESTART_MS_MAX) -> None:
        wait_ms = self._stage.draws.between(f"restart {node.address}", lo_ms, hi_ms)
        self._stage.scheduler.after(wait_ms * MS, self._let_run, node)

    def _lose_power(self, window_id: str, fault: PowerLoss, node: NodeHost) -> None:
        silent_ms = self._stage.draws.between(f"silent {node.address}", SILENT_MS_MIN, SILENT_MS_MAX)
        node.stop("power-loss", silent_ns=silent_ms * MS)
        for index in range(len(node.disk.dirs)):
            wounds = node.disk.lose_unflushed(index, f"power {window_id}", torn=fault.torn, all_of_it=fault.lose_all)
            self._wound(node, index, wounds, "power-loss")

    def _swap(self, index: int, node: NodeHost) -> None:
        node.stop("crash")
        self._wound(node, index, node.disk.swap(index), "swapped")
        # Also of the directory: a replica that was counted on before the broker made it is in none of the rows above.
        self._stage.recorder.event(
            EventKind.WOUND,
            node=node.address,
            incarnation=self._evidence.incarnations.get(node.address),
            dir=index,
            detail="swapped",
        )

    # --- disks ----------------------------------------------------------------------------------------------------------

    def _refuse(self, opened: OpenWindow, fault: Refused, node: NodeHost, acting: Acting) -> None:
        opened.undo.append(partial(self._repaired, node))
        match fault:
            case DirUnreadable():  # what the system tests of KIP-112 do to a leader and to a follower
                refusal = Refusal(acting, "EACCES", reads=False)
            case DirFile(removed=removed):
                refusal = Refusal(acting, "ENOTDIR", reads=False)
                if removed:  # a process that still has files open goes on with them until it ends
                    opened.undo.append(partial(self._swap, fault.dir, node))
            case DirFailure(drop_unflushed=drop_unflushed):
                refusal = Refusal(acting, "EIO", reads=False)
                if drop_unflushed:
                    opened.undo.append(partial(self._drop, opened.id, fault.dir, node))
            case DiskFull():
                refusal = Refusal(acting, "ENOSPC", reads=True)
            case _:
                assert_never(fault)
        opened.hold_in(node.disk.dirs[fault.dir].refusals, refusal)

    def _drop(self, window_id: str, index: int, node: NodeHost) -> None:
        """The device comes back without what was not synced. A process that still had it in the page cache ends before that."""
        node.stop("crash")
        self._wound(node, index, node.disk.lose_unflushed(index, f"drop {window_id}", torn=False, all_of_it=False), "dropped")

    def _repaired(self, node: NodeHost) -> None:
        """A directory works again: a broker that was told of its failure is restarted (KIP-112)."""
        if node.wrong:
            return
        if node.failed_dirs:
            node.stop("crash")
        if not node.up and not self._trouble[node.config.broker].holds:
            self._trouble[node.config.broker].holds += 1
            self._start_soon(node)

    def _wound(self, node: NodeHost, index: int, wounds: Wounds, why: str) -> None:
        for tp, topic_id, offset in wounds:
            self._stage.recorder.event(
                EventKind.WOUND,
                node=node.address,
                incarnation=self._evidence.incarnations.get(node.address),
                topic=topic_of(tp),
                topic_id=written(topic_id),
                partition=index_of(tp),
                dir=index,
                offset=offset,
                detail=why,
            )


def _broker(address: Address) -> BrokerId:
    return BrokerId(int(address[1:]))
