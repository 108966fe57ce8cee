"""Performing a schedule: each window is opened on the nodes its target names, and undone when it closes.

Windows may overlap on a node: a process runs again when the last fault that stops it is over, clocks show the sum of what is
done to them. Rows of evidence: FAULT_BEGUN and FAULT_ENDED for each node that was hit (and each replica withheld), FAULT_ACTED
with how often it really bit, WOUND for each log of which something was destroyed.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeVar, assert_never

from highwater.sim.cuts import Geography, Pair
from highwater.sim.disk import Refusal, Wounds
from highwater.sim.evidence import ZkEvidence
from highwater.sim.network import Acting, Stop
from highwater.sim.node import NodeHost
from highwater.sim.scheduler import MS
from highwater.sim.stage import Stage
from highwater.sim.targets import resolve
from highwater.sim.transport import PacketLoss, kinds_named
from highwater.sim.traps import Trap
from highwater.sim.zk import ZOOKEEPER, ZkServer
from highwater.topics import written
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

T = TypeVar("T")
Undo = Callable[[], None]


class _Open:
    """A window that is open."""

    __slots__ = ("actings", "nodes", "undo", "window")

    def __init__(self, window: Window, nodes: tuple[Address, ...]) -> None:
        self.window = window
        self.nodes = nodes
        self.actings = {node: Acting(window.id, node) for node in nodes}
        self.undo: list[Undo] = []


class Trouble:
    """What faults do to one node just now; several windows may do the same."""

    __slots__ = ("drifts", "holds", "jumps", "pauses")

    def __init__(self) -> None:
        self.holds = 0  # windows that keep the process down
        self.pauses = 0
        self.jumps: dict[str, int] = {}  # window -> ns
        self.drifts: dict[str, int] = {}  # window -> ppm


class Faults:
    """The nemesis of a simulated world."""

    def __init__(
        self, stage: Stage, server: ZkServer, evidence: ZkEvidence, nodes: dict[BrokerId, NodeHost], geography: Geography
    ) -> None:
        self._stage = stage
        self._server = server
        self._evidence = evidence
        self._nodes = nodes
        self._geography = geography
        self._trouble = {broker: Trouble() for broker in nodes}
        self._open: dict[str, _Open] = {}
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
        if isinstance(window.fault, Partition) and window.fault.shape != "isolate":
            brokers = tuple(self._nodes)
        if not brokers:
            return
        self._begun[window.kind] = self._begun.get(window.kind, 0) + 1
        opened = self._open[window.id] = _Open(window, tuple(broker_address(broker) for broker in brokers))
        for node in opened.nodes:
            self._say(EventKind.FAULT_BEGUN, window, node)
        if isinstance(window.fault, Partition):
            self._cut(opened, window.fault, brokers)
            return
        for broker in brokers:
            self._begin(opened, self._nodes[broker], opened.actings[broker_address(broker)])

    def close(self, window_id: str) -> None:
        """The window closes: what it did is undone, latest first."""
        opened = self._open.pop(window_id, None)
        if opened is None:
            return
        for undo in reversed(opened.undo):
            undo()
        window, recorder = opened.window, self._stage.recorder
        for node in opened.nodes:
            count = opened.actings[node].count
            self._acted[window.kind] = self._acted.get(window.kind, 0) + count
            if count:
                recorder.event(EventKind.FAULT_ACTED, fault=window.id, node=node, detail=window.kind, offset=count)
            self._say(EventKind.FAULT_ENDED, window, node)

    def _say(self, kind: EventKind, window: Window, address: Address) -> None:
        """A row for the node, and one for each partition whose replica there is withheld: its directory cannot be read."""
        recorder = self._stage.recorder
        recorder.event(kind, fault=window.id, node=address, detail=window.kind)
        if isinstance(window.fault, DirUnreadable | DirFailure):
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
            node.clock.set_right()
            node.timers.clock_changed()
            if not node.wrong:
                if node.failed_dirs:
                    node.stop("crash")
                node.start()
        self._stage.recorder.event(EventKind.HEALED)

    def counts(self) -> tuple[FaultCount, ...]:
        """Of each kind of the schedule."""
        return tuple(FaultCount(kind=kind, begun=self._begun[kind], acted=self._acted[kind]) for kind in sorted(self._begun))

    # --- what each fault does -------------------------------------------------------------------------------------------

    def _begin(self, opened: _Open, node: NodeHost, acting: Acting) -> None:
        fault = opened.window.fault
        match fault:
            case Partition():
                raise AssertionError("cut as a whole")
            case Packets() | Slow() | Clog() | Reset():
                self._disturb(opened, fault, node, acting)
            case ClockJump() | ClockDrift() | ClockStrobe():
                self._set_clock(opened, fault, node, acting)
            case Pause():
                self._pause(opened, node, acting)
            case Crash():
                self._kill(node, acting, partial(node.stop, "crash"))
                opened.undo.append(partial(self._let_run, node))
            case CrashAt():
                trap = Trap(fault, partial(self._trapped, opened, node, acting))
                self._hold_in(opened, node.traps, trap)
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
                self._kill(node, acting, partial(self._lose_power, opened.window.id, fault, node))
                opened.undo.append(partial(self._let_run, node))
            case ExpireSession():
                session = self._server.session_of(node.address)
                if session:
                    acting.count += 1
                    self._server.expire(session)
            case DirUnreadable() | DirFailure() | DiskFull():
                self._refuse(opened, fault, node, acting)
            case DiskSlow():
                slow = (fault.extra_ms * MS, acting)
                self._hold_in(opened, node.disk.dirs[fault.dir].slows, slow)
            case DiskSwap():
                self._kill(node, acting, partial(self._swap, fault, node))
                opened.undo.append(partial(self._let_run, node))
            case _:
                assert_never(fault)

    def _hold_in(self, opened: _Open, place: list[T], item: T) -> None:
        place.append(item)
        opened.undo.append(partial(place.remove, item))

    # --- network --------------------------------------------------------------------------------------------------------

    def _cut(self, opened: _Open, fault: Partition, brokers: tuple[BrokerId, ...]) -> None:
        for pair in self._geography.cut_by(fault, brokers, self._stage.draws, purpose=f"cut {opened.window.id}"):
            # A link between an administrator and ZooKeeper is no broker's: the first one counts it.
            first = next(iter(opened.actings.values()))
            acting = opened.actings.get(pair[1]) or opened.actings.get(pair[0]) or first
            link = self._stage.network.link(*pair)
            opened.undo.append(partial(self._stage.network.release, link))
            self._hold_in(opened, link.cuts, acting)

    def _disturb(self, opened: _Open, fault: Packets | Slow | Clog | Reset, node: NodeHost, acting: Acting) -> None:
        broker, stage = node.config.broker, self._stage
        match fault:
            case Packets(peer=peer):
                loss = PacketLoss(acting, fault)
                for pair in self._geography.links_of(broker, ("peers",), peer=peer):
                    stage.transport.lose(stage.network.link(*pair), loss)
                    opened.undo.append(partial(stage.transport.spare, stage.network.link(*pair), loss))
            case Slow(extra_ms=extra_ms, links=links):
                for pair in self._geography.links_of(broker, links):
                    self._hold_in(opened, stage.network.link(*pair).slows, (extra_ms * MS, acting))
            case Clog(links=links, kinds=kinds, peer=peer, direction=direction):
                stop = Stop(acting, kinds_named(kinds) if kinds else None)
                for pair in self._geography.links_of(broker, links, direction, peer):
                    link = stage.network.link(*pair)
                    opened.undo.append(partial(stage.network.release, link))
                    self._hold_in(opened, link.stops if kinds else link.clogs, stop)
            case Reset(period_ms=period_ms, links=links):
                pairs = self._geography.links_of(broker, links)
                self._reset_again(opened, pairs, period_ms, acting)
            case _:
                assert_never(fault)

    def _reset_again(self, opened: _Open, pairs: list[Pair], period_ms: int, acting: Acting) -> None:
        if self._open.get(opened.window.id) is not opened:
            return
        for source, target in pairs:
            if target == ZOOKEEPER:
                acting.count += self._nodes[_broker(source)].zk.reset()
            elif source != ZOOKEEPER:
                acting.count += self._stage.transport.reset(source, target)
        self._stage.scheduler.after(period_ms * MS, self._reset_again, opened, pairs, period_ms, acting)

    # --- clocks ---------------------------------------------------------------------------------------------------------

    def _set_clock(self, opened: _Open, fault: ClockJump | ClockDrift | ClockStrobe, node: NodeHost, acting: Acting) -> None:
        window_id, trouble = opened.window.id, self._trouble[node.config.broker]
        before = node.clock.off
        match fault:
            case ClockDrift(ppm=ppm):
                trouble.drifts[window_id] = ppm
                opened.undo.append(partial(self._clock_over, node, window_id))
            case ClockJump(offset_ms=offset_ms):
                trouble.jumps[window_id] = offset_ms * MS
                opened.undo.append(partial(self._clock_over, node, window_id))
            case ClockStrobe(offset_ms=offset_ms, period_ms=period_ms):
                opened.undo.append(partial(self._clock_over, node, window_id))
                self._stage.scheduler.after(0, self._strobe, opened, node, offset_ms * MS, period_ms * MS)
            case _:
                assert_never(fault)
        self._apply_clock(node)
        acting.count += node.clock.off != before

    def _strobe(self, opened: _Open, node: NodeHost, offset_ns: int, period_ns: int) -> None:
        if self._open.get(opened.window.id) is not opened:
            return
        jumps, before = self._trouble[node.config.broker].jumps, node.clock.off
        jumps[opened.window.id] = offset_ns - jumps.get(opened.window.id, 0)
        self._apply_clock(node)
        opened.actings[node.address].count += node.clock.off != before
        self._stage.scheduler.after(period_ns, self._strobe, opened, node, offset_ns, period_ns)

    def _clock_over(self, node: NodeHost, window_id: str) -> None:
        trouble = self._trouble[node.config.broker]
        trouble.jumps.pop(window_id, None)
        trouble.drifts.pop(window_id, None)
        self._apply_clock(node)

    def _apply_clock(self, node: NodeHost) -> None:
        trouble = self._trouble[node.config.broker]
        if not trouble.jumps and not trouble.drifts:
            node.clock.set_right()
        else:
            node.clock.drift(sum(trouble.drifts.values()))
            node.clock.jump(sum(trouble.jumps.values()))
        node.timers.clock_changed()

    # --- processes ------------------------------------------------------------------------------------------------------

    def _pause(self, opened: _Open, node: NodeHost, acting: Acting) -> None:
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

    def _trapped(self, opened: _Open, node: NodeHost, acting: Acting) -> None:
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

    def _swap(self, fault: DiskSwap, node: NodeHost) -> None:
        node.stop("crash")
        self._wound(node, fault.dir, node.disk.swap(fault.dir), "swapped")

    # --- disks ----------------------------------------------------------------------------------------------------------

    def _refuse(self, opened: _Open, fault: DirUnreadable | DirFailure | DiskFull, node: NodeHost, acting: Acting) -> None:
        opened.undo.append(partial(self._repaired, node))
        match fault:
            case DirUnreadable():  # what the system tests of KIP-112 do to a leader and to a follower
                refusal = Refusal(acting, "EACCES", reads=False)
            case DirFailure(drop_unflushed=drop_unflushed):
                refusal = Refusal(acting, "EIO", reads=False)
                if drop_unflushed:
                    opened.undo.append(partial(self._drop, opened.window.id, fault.dir, node))
            case DiskFull():
                refusal = Refusal(acting, "ENOSPC", reads=True)
            case _:
                assert_never(fault)
        self._hold_in(opened, node.disk.dirs[fault.dir].refusals, refusal)

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
