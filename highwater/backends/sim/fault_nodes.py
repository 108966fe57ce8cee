"""Faults of one simulated broker: of its clocks, of its process and sessions, of its log directories.

A broker's clocks show the sum of the offsets and drifts of all active faults.
"""

from functools import partial
from typing import assert_never

from msgspec import UNSET
from msgspec.structs import replace

from highwater.backends.sim.disk import Refusal
from highwater.backends.sim.network import Acting
from highwater.backends.sim.node import NodeHost
from highwater.backends.sim.open_window import OpenWindow
from highwater.backends.sim.scheduler import MS, Scheduler
from highwater.backends.sim.simulation import Simulation
from highwater.backends.sim.traps import Trap
from highwater.backends.sim.zk import ZooKeeper
from highwater.plans.plan import Plan
from highwater.rig.nemesis import Holds, Nemesis
from highwater.rig.releases import rolled
from highwater.rig.topics import brokers_named
from nemesis.faults import (
    ClockDrift,
    ClockFault,
    ClockJump,
    ClockStrobe,
    Crash,
    CrashAt,
    Decommission,
    DirFailure,
    DirFile,
    DirUnreadable,
    DiskFault,
    DiskFull,
    DiskSlow,
    DiskSwap,
    ExpireSession,
    Join,
    Pause,
    PowerLoss,
    ProcessFault,
    Restart,
    Roll,
    Shutdown,
)
from reference.coordination import paths
from reference.effects import AnyEffect, Append
from reference.events import Received, ShutDown
from reference.messages import FetchReply, Produce
from reference.types import Address

RESTART_MS_MIN = 20  # from the end of a process to the start of the next
RESTART_MS_MAX = 500
EMPTY_LOOK_MS = 100  # between two looks whether a broker that leaves still has replicas
BOUNCE_MS_MIN = 1  # the same for a restart whose session ended at once: the controller has not read yet
BOUNCE_MS_MAX = 10
SILENT_MS_MIN = 500  # after a power loss, until peers notice that the host is gone
SILENT_MS_MAX = 3000


class _Wrong:
    """The drifts and offsets of one node's clocks, by open fault window."""

    __slots__ = ("drifts_ppm", "jumps_ns")

    def __init__(self) -> None:
        self.drifts_ppm: dict[str, int] = {}
        self.jumps_ns: dict[str, int] = {}


class ClockFaults:
    """Injects clock faults into simulated brokers."""

    def __init__(self, scheduler: Scheduler, nodes: tuple[Address, ...]) -> None:
        self._scheduler = scheduler
        self._wrong = {address: _Wrong() for address in nodes}

    def do(self, opened: OpenWindow, fault: ClockFault, node: NodeHost, acting: Acting) -> None:
        """Apply a clock fault to this broker, and register how to undo it at the fault's end."""
        wrong = self._wrong[node.address]
        before = node.clock.off
        opened.undo.append(partial(self._end_clock_fault, node, opened.id))
        match fault:
            case ClockDrift(ppm=ppm):
                wrong.drifts_ppm[opened.id] = ppm
            case ClockJump(offset_ms=offset_ms):
                wrong.jumps_ns[opened.id] = offset_ms * MS
            case ClockStrobe(offset_ms=offset_ms, period_ms=period_ms):
                self._scheduler.after(0, self._strobe_clock, opened, node, offset_ms * MS, period_ms * MS)
            case _:
                assert_never(fault)
        self._set_clock(node)
        acting.count += node.clock.off != before

    def heal(self, node: NodeHost) -> None:
        """Remove all clock faults from this broker and set its clocks right."""
        self._wrong[node.address] = _Wrong()
        self._set_clock(node)

    def _strobe_clock(self, opened: OpenWindow, node: NodeHost, offset_ns: int, period_ns: int) -> None:
        """Switch the clock between the offset and the right time, again after each period, until the window is over."""
        if opened.over:
            return
        jumps_ns, before = self._wrong[node.address].jumps_ns, node.clock.off
        jumps_ns[opened.id] = offset_ns - jumps_ns.get(opened.id, 0)
        self._set_clock(node)
        opened.actings[node.address].count += node.clock.off != before
        self._scheduler.after(period_ns, self._strobe_clock, opened, node, offset_ns, period_ns)

    def _end_clock_fault(self, node: NodeHost, window_id: str) -> None:
        # Faults of other windows on the same clock go on.
        wrong = self._wrong[node.address]
        wrong.jumps_ns.pop(window_id, None)
        wrong.drifts_ppm.pop(window_id, None)
        self._set_clock(node)

    def _set_clock(self, node: NodeHost) -> None:
        """Set the node's clocks to the sum of all that is wrong with them."""
        wrong = self._wrong[node.address]
        if not wrong.jumps_ns and not wrong.drifts_ppm:
            node.clock.set_right()
        else:
            node.clock.drift(sum(wrong.drifts_ppm.values()))
            node.clock.jump(sum(wrong.jumps_ns.values()))
        node.timers.clock_changed()


class ProcessFaults:
    """Injects process faults into simulated brokers; `kill`, `let_run` and `start_soon` serve faults of disks too."""

    def __init__(self, sim: Simulation, server: ZooKeeper, nemesis: Nemesis, plan: Plan) -> None:
        self._sim = sim
        self._plan = plan
        self._server = server
        self._nemesis = nemesis

    def holds(self, node: NodeHost) -> Holds:
        """How many active faults keep this broker down or pause it."""
        return self._nemesis.holds[node.config.broker]

    def do(self, opened: OpenWindow, fault: ProcessFault, node: NodeHost, acting: Acting) -> None:
        """Apply a process fault to this broker, and register how to undo it at the fault's end."""
        match fault:
            case Pause():
                self._begin_pause(opened, node, acting)
            case Crash():
                self.kill(opened, node, acting, partial(node.stop, "crash"))
            case CrashAt():
                strike = partial(self._kill_at_trap, opened, node, acting)
                opened.hold_in(node.traps, Trap(fault.effect, fault.nth, before=fault.before, strike=strike))
            case Restart(session_ends=True):
                self.holds(node).down += 1
                acting.count += 1
                self._restart_before_noticed(node)
            case Restart():
                self._end_and_hold_down(node, acting, partial(node.stop, "crash"))
                self.start_soon(node)
            case Shutdown():
                self.holds(node).down += 1
                acting.count += node.up
                node.take("operator", ShutDown())
                opened.undo.append(partial(self._end_shutdown, node, node.life, fault))
            case Roll():
                self.holds(node).down += 1
                node.take("operator", ShutDown())  # it has acted when the broker has become the other version
                opened.undo.append(partial(self._end_roll, node, node.life, fault, acting))
            case Join():
                opened.undo.append(partial(self._end_join, node, acting))
            case Decommission():
                self._sim.scheduler.after(0, self._leave_when_empty, opened, node, acting)
            case PowerLoss():
                self.kill(opened, node, acting, partial(self._lose_power, opened.id, fault, node))
            case ExpireSession():
                session = self._server.session_of(node.address)
                if session:
                    acting.count += self._server.expire(session)
            case _:
                assert_never(fault)

    def kill(self, opened: OpenWindow, node: NodeHost, acting: Acting, blow: "partial[None]") -> None:
        """Call `blow` to end a broker process, and keep it down until the fault ends."""
        self._end_and_hold_down(node, acting, blow)
        opened.undo.append(partial(self.let_run, node))

    def let_run(self, node: NodeHost) -> None:
        """Remove one reason to keep a broker down, and start it if none is left."""
        node.spring()
        if self.holds(node).release() and not node.wrong:
            node.start()
            if self.holds(node).pauses:
                node.pause()

    def start_soon(self, node: NodeHost, lo_ms: int = RESTART_MS_MIN, hi_ms: int = RESTART_MS_MAX) -> None:
        """After a random delay, remove one reason to keep a broker down, and start it if none is left."""
        wait_ms = self._sim.draws.between(f"restart {node.address}", lo_ms, hi_ms)
        self._sim.scheduler.after(wait_ms * MS, self.let_run, node)

    def _end_and_hold_down(self, node: NodeHost, acting: Acting, blow: "partial[None]") -> None:
        """Keep a broker process down; `blow` ends it, at once or within a few milliseconds."""
        self.holds(node).down += 1
        acting.count += 1
        node.ambush(blow)

    def _begin_pause(self, opened: OpenWindow, node: NodeHost, acting: Acting) -> None:
        # Windows may overlap: the process resumes at the end of the last one.
        self.holds(node).pauses += 1
        acting.count += node.up
        node.pause()
        opened.undo.append(partial(self._end_pause, node))

    def _end_pause(self, node: NodeHost) -> None:
        if self.holds(node).unpause():
            node.resume()

    def _end_shutdown(self, node: NodeHost, life: int, fault: Shutdown) -> None:
        """Kill a broker process that was told to shut down and has not exited by itself; it may start with another protocol."""
        if node.life == life:
            node.stop("crash")
        if fault.protocol is not UNSET:
            node.config = replace(node.config, inter_broker_protocol=fault.protocol)
        self.let_run(node)

    def _end_roll(self, node: NodeHost, life: int, fault: Roll, acting: Acting) -> None:
        """Start a broker process of another release, or with another inter-broker protocol; the old one is killed first."""
        if node.life == life:
            node.stop("crash")
        node.config = rolled(self._plan, fault, node.config)
        acting.count += 1
        self.let_run(node)

    def _end_join(self, node: NodeHost, acting: Acting) -> None:
        """Start a broker that was not there before."""
        acting.count += 1
        self.let_run(node)

    def _leave_when_empty(self, opened: OpenWindow, node: NodeHost, acting: Acting) -> None:
        """Shut a broker down that has no replica, and never start it again; look again later if it has one."""
        if opened.over:
            return
        if not node.up or self._has_replicas(node):
            self._sim.scheduler.after(EMPTY_LOOK_MS * MS, self._leave_when_empty, opened, node, acting)
            return
        acting.count += 1
        self.holds(node).down += 1
        self._nemesis.decommissioned.add(node.config.broker)
        node.take("operator", ShutDown())
        opened.undo.append(partial(self._end_decommission, node, node.life))

    def _has_replicas(self, node: NodeHost) -> bool:
        """Whether a topic names the broker, or a log is in its directories."""
        topics = self._server.tree.nodes[paths.TOPICS].children
        named = brokers_named((topic, self._server.tree.nodes[paths.topic_path(topic)].data) for topic in topics)
        return node.config.broker in named or any(directory.logs for directory in node.disk.dirs)

    def _end_decommission(self, node: NodeHost, life: int) -> None:
        """Kill a broker that was told to leave and has not exited by itself."""
        if node.life == life:
            node.stop("crash")

    def _kill_at_trap(self, opened: OpenWindow, node: NodeHost, acting: Acting, _: AnyEffect) -> None:
        """Kill a broker process at its crash point (fault `crash-at`)."""
        self.holds(node).down += 1
        acting.count += 1
        node.stop("crash")
        opened.undo.append(partial(self.let_run, node))

    def _restart_before_noticed(self, node: NodeHost) -> None:
        """Restart a broker before the controller has seen its registration disappear (B-47, KAFKA-1120)."""
        session = self._server.session_of(node.address)
        node.stop("crash")
        if session:
            self._server.expire(session)
        self.start_soon(node, BOUNCE_MS_MIN, BOUNCE_MS_MAX)

    def _lose_power(self, window_id: str, fault: PowerLoss, node: NodeHost) -> None:
        """Stop the broker, and undo in each directory what was not flushed."""
        silent_ms = self._sim.draws.between(f"silent {node.address}", SILENT_MS_MIN, SILENT_MS_MAX)
        node.stop("power-loss", silent_ns=silent_ms * MS)
        for index in range(len(node.disk.dirs)):
            wounds = node.disk.lose_unflushed(index, f"power {window_id}", torn=fault.torn, all_of_it=fault.lose_all)
            self._nemesis.wounded(node.address, index, wounds, "power-loss")


class DiskFaults:
    """Injects disk faults into the log directories of simulated brokers."""

    def __init__(self, processes: ProcessFaults, nemesis: Nemesis) -> None:
        self._processes = processes
        self._nemesis = nemesis

    def do(self, opened: OpenWindow, fault: DiskFault, node: NodeHost, acting: Acting) -> None:
        """Apply a disk fault to this broker, and register how to undo it at the fault's end."""
        directory = node.disk.dirs[fault.dir]
        match fault:
            case DirUnreadable():  # as the system tests of KIP-112 do to a leader and to a follower
                self._refuse_until_closed(opened, node, fault.dir, Refusal(acting, "EACCES", reads=False))
            case DirFile(removed=removed):
                # A process that still has files open goes on with them until it ends.
                undo = partial(self._swap, fault.dir, node) if removed else None
                self._refuse_until_closed(opened, node, fault.dir, Refusal(acting, "ENOTDIR", reads=False), undo)
            case DirFailure(drop_unflushed=drop_unflushed):
                undo = partial(self._lose_unsynced, opened.id, fault.dir, node) if drop_unflushed else None
                refusal = Refusal(acting, "EIO", reads=False)
                if fault.append is UNSET:
                    self._refuse_until_closed(opened, node, fault.dir, refusal, undo)
                else:
                    self._refuse_from_append(opened, node, fault, refusal, undo)
            case DiskFull():
                self._refuse_until_closed(opened, node, fault.dir, Refusal(acting, "ENOSPC", reads=True))
            case DiskSlow():
                opened.hold_in(directory.slows, (fault.extra_ms * MS, acting))
            case DiskSwap():
                self._processes.kill(opened, node, acting, partial(self._swap, fault.dir, node))
            case _:
                assert_never(fault)

    def _refuse_until_closed(
        self, opened: OpenWindow, node: NodeHost, dir_: int, refusal: Refusal, undo: "partial[None] | None" = None
    ) -> None:
        """The directory refuses until the window closes; then `undo` comes before the broker is restarted."""
        opened.undo.append(partial(self._restart_after_repair, node))
        if undo is not None:
            opened.undo.append(undo)
        opened.hold_in(node.disk.dirs[dir_].refusals, refusal)

    def _refuse_from_append(
        self, opened: OpenWindow, node: NodeHost, fault: DirFailure, refusal: Refusal, undo: "partial[None] | None"
    ) -> None:
        """The directory refuses from an append of the broker on, the records of a produce request or of a fetch."""
        asks = Produce if fault.append == "produce" else FetchReply

        def is_meant(effect: AnyEffect) -> bool:
            event = node.event
            asked = isinstance(event, Received) and isinstance(event.message, asks)
            return asked and isinstance(effect, Append) and effect.dir == fault.dir

        def strike(_: AnyEffect) -> None:
            self._refuse_until_closed(opened, node, fault.dir, refusal, undo)

        nth = 1 if fault.nth is UNSET else fault.nth
        opened.hold_in(node.traps, Trap("append", nth, before=True, strike=strike, is_meant=is_meant))

    def _swap(self, index: int, node: NodeHost) -> None:
        node.stop("crash")
        self._nemesis.swapped(node.address, index, node.disk.swap(index))

    def _lose_unsynced(self, window_id: str, index: int, node: NodeHost) -> None:
        """The device loses what was not synced. A process that still has it in the page cache is killed before that."""
        node.stop("crash")
        destroyed = node.disk.lose_unflushed(index, f"drop {window_id}", torn=False, all_of_it=False)
        self._nemesis.wounded(node.address, index, destroyed, "dropped")

    def _restart_after_repair(self, node: NodeHost) -> None:
        """Restart a broker that knows of its directory's failure, now that the directory works again (KIP-112)."""
        if node.wrong:
            return
        if node.failed_dirs:
            node.stop("crash")
        if not node.up and not self._processes.holds(node).down:
            self._processes.holds(node).down += 1
            self._processes.start_soon(node)
