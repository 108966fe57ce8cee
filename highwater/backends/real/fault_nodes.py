"""Faults of real brokers: processes, sessions, clocks, log directories. Overlapping faults on one broker are added up here."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import assert_never

from highwater.backends.real.fault_links import REFUSED
from highwater.backends.real.proving import Proving
from highwater.backends.real.site import ClockCondition, DirCondition, Node, Probe, Proof, Site, looking_again
from highwater.backends.real.systems.port import Coordination, Levelled
from highwater.backends.real.zookeeper.expiry import OverError, SilenceError
from highwater.rig.nemesis import Nemesis
from history.event import EventKind
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
from nemesis.schedule import Window
from reference.types import BrokerId
from server.lab.power import Loss, Wound

ASSERTED = "halt:assertion"
LOOK_S = 0.1
LEVEL_S_MAX = 60.0  # until all brokers serve after a roll, and the level of their features is raised
NOTED_S = 1.0  # until a node has noted the events that it was told before
BEHIND_LOOKS_MAX = 20  # a server more than SYNC_TICKS of `zookeeper` (1 s) behind its leader serves no client
NodeFault = ClockFault | ProcessFault | DiskFault
DirFault = DirUnreadable | DirFile | DirFailure | DiskFull | DiskSlow


class _Trouble:
    """The faults of clocks and log directories that are active on one broker."""

    def __init__(self) -> None:
        self.hands = 0  # faults that are being done or undone; the process may be down meanwhile
        self.clocks: dict[str, ClockCondition] = {}  # by window
        self.dirs: dict[int, dict[str, DirCondition]] = {}  # by directory and window


class NodeFaults:
    """Applies faults to brokers: to their processes, ZooKeeper sessions, clocks and log directories."""

    def __init__(self, site: Site, nemesis: Nemesis, proving: Proving, coordination: Coordination) -> None:
        self._nodes = site.nodes
        self._nemesis = nemesis
        self._holds = nemesis.holds
        self._recorder = nemesis.recorder
        self._proving = proving
        self._coordination = coordination
        self._trouble = {broker: _Trouble() for broker in site.nodes}
        self._strobes: dict[tuple[str, BrokerId], asyncio.Task[None]] = {}
        self._leaving: dict[tuple[str, BrokerId], asyncio.Task[None]] = {}  # they wait until the broker has no replicas

    def keeps_down(self, broker: BrokerId) -> bool:
        """True while an active fault keeps this broker down, or a fault is being applied to it or ended."""
        return self._holds[broker].down > 0 or self._trouble[broker].hands > 0

    async def heal(self) -> None:
        """Start every broker but those that left the cluster or stopped at a failed assertion.

        Those that saw a log directory fail are restarted.
        """
        for broker, node in self._nodes.items():
            with self._while_changing(broker):
                await node.resume()
        if any(trouble.dirs for trouble in self._trouble.values()):
            # An access may have failed right before its directory was undone, or before a pause; the broker notes that later.
            await asyncio.sleep(NOTED_S)
        for broker, node in self._nodes.items():
            with self._while_changing(broker):
                await self._restart_with_sound_dirs(broker)
                if not await node.is_running() and broker not in self._nemesis.decommissioned:
                    await self._start(node)

    async def do(self, window: Window, fault: NodeFault, broker: BrokerId) -> None:
        """Apply a fault to this broker, and start the probe of its effect."""
        with self._while_changing(broker):
            self._announce_change(fault, broker)
            await self._begin_fault(window, fault, broker)

    async def undo(self, window: Window, fault: NodeFault, broker: BrokerId) -> None:
        """End a fault on this broker, and start the probe that its effect is over."""
        with self._while_changing(broker):
            self._announce_change(fault, broker)
            await self._end_fault(window, fault, broker)

    def _announce_change(self, fault: NodeFault, broker: BrokerId) -> None:
        # Announce the change before it is made: it takes time, and a probe of an earlier fault may look meanwhile.
        self._proving.changed(f"{self._nodes[broker].address} {_subject_of(fault)}")

    @contextmanager
    def _while_changing(self, broker: BrokerId) -> Iterator[None]:
        """While this lasts, the broker's death is no failure of the harness."""
        self._trouble[broker].hands += 1
        try:
            yield
        finally:
            self._trouble[broker].hands -= 1

    async def _begin_fault(self, window: Window, fault: NodeFault, broker: BrokerId) -> None:
        """Begin a fault on one broker, and start the probe that proves it."""
        node = self._nodes[broker]
        holds = self._holds[broker]
        dirs = self._trouble[broker].dirs
        match fault:
            case Crash():
                holds.down += 1
                self._prove_effect(window, node, await self._kill(node), "process")
            case PowerLoss():
                holds.down += 1
                self._prove_effect(window, node, await self._kill(node, "power-loss"), "process")
                seed = self._nemesis.draws.below(f"power {window.id} {node.address}", 1 << 32)
                how = Loss(seed=seed, torn=fault.torn, lose_all=fault.lose_all)
                self._record_wounds(node, await node.lose_unflushed(range(node.dirs), how), "power-loss")
            case DiskSwap():
                holds.down += 1
                self._prove_effect(window, node, await self._kill(node), "process")
                await self._swap_dir(node, fault.dir)
            case Restart():
                probe = await self._kill(node)
                if fault.session_ends:
                    probe = await self._expire_session(broker)
                if not holds.down:
                    await self._start(node)
                    await self._pause_again(broker)
                self._prove_effect(window, node, probe, "session" if fault.session_ends else "restart")
            case CrashAt() | Shutdown(protocol="legacy" | "kip343"):
                raise AssertionError(REFUSED)
            case Shutdown():
                holds.down += 1
                self._prove_effect(window, node, await node.terminate(), "process")
            case Roll():
                holds.down += 1
                await node.terminate()  # it has acted when the broker has become the other version
            case Join():
                pass  # it was not started with the others
            case Decommission():
                self._leaving[window.id, broker] = asyncio.get_running_loop().create_task(self._leave_when_empty(node, broker))
            case Pause():
                holds.pauses += 1
                self._prove_effect(window, node, await node.pause(), "process")
            case ExpireSession():
                self._prove_effect(window, node, await self._expire_session(broker), "session")
            case ClockJump() | ClockDrift() | ClockStrobe():
                await self._begin_clock_fault(window, fault, broker)
            case DirUnreadable() | DirFile() | DirFailure() | DiskFull() | DiskSlow():
                dirs.setdefault(fault.dir, {})[window.id] = _condition_of(fault)
                self._prove_effect(window, node, await self._set_dir(broker, fault.dir), f"dir {fault.dir}")
            case _:
                assert_never(fault)

    async def _end_fault(self, window: Window, fault: NodeFault, broker: BrokerId) -> None:
        """End a fault on one broker, and start the probe that proves its end."""
        node = self._nodes[broker]
        holds = self._holds[broker]
        dirs = self._trouble[broker].dirs
        match fault:
            case Crash() | PowerLoss() | DiskSwap():
                await self._release_hold(window, broker)
            case Shutdown():
                await self._kill(node)
                await self._release_hold(window, broker)
            case Roll():
                await self._kill(node)
                node.change(fault)
                probe = await self._release_hold(window, broker)
                if probe is not None:
                    self._proving.acts(window, node.address, probe, f"{node.address} process")
                if fault.finalize and isinstance(self._coordination, Levelled):
                    self._proving.healed(window, node.address, _probe_that_raises_level(self._coordination))
            case Join():
                probe = await self._release_hold(window, broker)
                if probe is not None:
                    self._coordination.absent -= {node.address}
                    self._proving.acts(window, node.address, probe, f"{node.address} process")
            case Decommission():
                await self._end_decommission(window, node, broker)
            case Pause():
                if holds.unpause():
                    probe = await node.resume()
                    if not holds.down:  # else the last window that keeps it down starts it, and has a probe too
                        self._prove_healed(window, node, probe, "process")
            case Restart() | ExpireSession() | CrashAt():
                pass  # nothing lasts until the window closes
            case ClockJump() | ClockDrift() | ClockStrobe():
                await self._end_clock_fault(window, broker)
            case DirUnreadable() | DirFile() | DirFailure() | DiskFull() | DiskSlow():
                if isinstance(fault, DirFailure) and fault.drop_unflushed:
                    await self._lose_unsynced(window, fault, broker)
                removed = isinstance(fault, DirFile) and fault.removed
                if removed:
                    await self._kill(node)  # which goes on with the files that it holds open
                dirs[fault.dir].pop(window.id)
                self._prove_healed(window, node, await self._set_dir(broker, fault.dir), f"dir {fault.dir}")
                if removed:
                    await self._swap_dir(node, fault.dir)
                await self._restart_with_sound_dirs(broker)
                if not await node.is_running() and not holds.down:
                    await self._start(node)
                    await self._pause_again(broker)
            case _:
                assert_never(fault)

    # --- evidence ----------------------------------------------------------------------------------------------------------

    def _prove_effect(self, window: Window, node: Node, probe: Probe, subject: str) -> None:
        self._proving.changed(f"{node.address} {subject}")
        self._proving.acts(window, node.address, probe, f"{node.address} {subject}")

    def _prove_healed(self, window: Window, node: Node, probe: Probe, subject: str) -> None:
        self._proving.changed(f"{node.address} {subject}")
        self._proving.healed(window, node.address, probe, f"{node.address} {subject}")

    def _record_wounds(self, node: Node, wounds: tuple[Wound, ...], why: str) -> None:
        for wound in wounds:
            self._nemesis.wounded(node.address, wound.dir, ((wound.tp, wound.topic_id, wound.offset),), why)

    # --- processes and sessions --------------------------------------------------------------------------------------------

    async def _kill(self, node: Node, reason: str = "crash") -> Probe:
        """Kill the broker's process and record that it stopped."""
        ran = await node.is_running()
        self._proving.changed(f"{node.address} process")
        probe = await node.kill()
        if ran:
            self._recorder.event(EventKind.NODE_STOPPED, node=node.address, life=node.life, detail=reason)
        return probe

    async def _start(self, node: Node) -> Probe | None:
        """Start the broker's process and record it; None if a failed assertion keeps it down."""
        if node.stopped_itself() == ASSERTED:
            return None  # the failed assertion is an anomaly already; the node stays down
        self._recorder.event(EventKind.NODE_STARTED, node=node.address, life=node.life + 1)
        return await node.start()

    async def _release_hold(self, window: Window, broker: BrokerId) -> Probe | None:
        """Remove one reason to keep this broker's process down; start it if none is left, and return the probe of that."""
        node = self._nodes[broker]
        if not self._holds[broker].release() or await node.is_running():
            return None
        probe = await self._start(node)
        if probe is not None:
            self._prove_healed(window, node, probe, "process")
        await self._pause_again(broker)
        return probe

    async def _pause_again(self, broker: BrokerId) -> None:
        """Pause the process again, which has just been started, if an open fault window pauses this broker."""
        if self._holds[broker].pauses:
            self._proving.changed(f"{self._nodes[broker].address} process")  # no probe may see it running
            await self._nodes[broker].pause()

    async def _leave_when_empty(self, node: Node, broker: BrokerId) -> None:
        """Wait until no partition has a replica on a broker and its directories are empty, and shut it down for good."""
        while not await self._is_empty(node, broker):
            await asyncio.sleep(LOOK_S)
        with self._while_changing(broker):
            self._holds[broker].down += 1
            self._nemesis.decommissioned.add(broker)
            self._coordination.absent |= {node.address}
            await node.terminate()

    async def _is_empty(self, node: Node, broker: BrokerId) -> bool:
        if not await node.is_running() or any(node.logs(dir_) for dir_ in range(node.dirs)):
            return False
        try:
            return await self._coordination.is_vacant(broker)
        except SilenceError:
            return False

    async def _end_decommission(self, window: Window, node: Node, broker: BrokerId) -> None:
        """End a broker that was told to leave, and have the cluster forget it; give up on one that still has replicas."""
        leaving = self._leaving.pop((window.id, broker))
        if broker not in self._nemesis.decommissioned:
            leaving.cancel()
            await asyncio.wait((leaving,))
            self._proving.acts(window, node.address, _not_empty, f"{node.address} process")
            return
        await leaving
        await self._kill(node)
        self._proving.acts(window, node.address, await self._coordination.forget(broker))

    async def _expire_session(self, broker: BrokerId) -> Probe:
        """End the broker's ZooKeeper session; the probe sees whether it is over."""
        try:
            session = await self._coordination.session_of(broker)
            if session is None:
                return _no_session
            try:
                await self._coordination.expire(session)
            except OverError:
                if await self._has_session(broker, session):
                    raise
                return _no_session  # it timed out first
        except SilenceError as silence:
            return _not_measured(silence)

        async def probe() -> Proof:
            try:
                lives = await self._has_session(broker, session)
            except SilenceError as silence:
                return Proof(None, str(silence))
            return Proof(not lives, "the session lives" if lives else f"ZooKeeper ended session 0x{session:x}")

        return probe

    async def _has_session(self, broker: BrokerId, session: int) -> bool:
        """Whether a broker is registered by this ZooKeeper session, asked again for a while.

        The server that answers may be behind the one that ended the session.
        """
        for _ in range(BEHIND_LOOKS_MAX):
            if await self._coordination.session_of(broker) != session:
                return False
            await asyncio.sleep(LOOK_S)
        return True

    # --- clocks ------------------------------------------------------------------------------------------------------------

    async def _begin_clock_fault(self, window: Window, fault: ClockFault, broker: BrokerId) -> None:
        """Make the broker's clock wrong, by the sum of all clock faults on it."""
        match fault:
            case ClockJump(offset_ms=offset_ms):
                self._trouble[broker].clocks[window.id] = ClockCondition(offset_ms=offset_ms)
            case ClockDrift(ppm=ppm):
                self._trouble[broker].clocks[window.id] = ClockCondition(drift_ppm=ppm)
            case ClockStrobe():
                self._trouble[broker].clocks[window.id] = ClockCondition(offset_ms=fault.offset_ms)
                self._strobes[window.id, broker] = asyncio.get_running_loop().create_task(
                    self._strobe_clock(window, fault, broker)
                )
            case _:
                assert_never(fault)
        self._prove_effect(window, self._nodes[broker], await self._set_clock(broker), "clock")

    async def _strobe_clock(self, window: Window, fault: ClockStrobe, broker: BrokerId) -> None:
        """Switch the clock between the offset and the right time, again and again, until cancelled."""
        clocks = self._trouble[broker].clocks
        while True:
            await asyncio.sleep(fault.period_ms / 1000)
            clocks[window.id] = ClockCondition(offset_ms=fault.offset_ms - clocks[window.id].offset_ms)
            await self._set_clock(broker)

    async def _end_clock_fault(self, window: Window, broker: BrokerId) -> None:
        """Take this window's clock fault away."""
        strobe = self._strobes.pop((window.id, broker), None)
        if strobe is not None:
            strobe.cancel()
            await asyncio.wait((strobe,))
        self._trouble[broker].clocks.pop(window.id)
        self._prove_healed(window, self._nodes[broker], await self._set_clock(broker), "clock")

    async def _set_clock(self, broker: BrokerId) -> Probe:
        clocks = self._trouble[broker].clocks.values()
        total = ClockCondition(sum(clock.offset_ms for clock in clocks), sum(clock.drift_ppm for clock in clocks))
        return await self._nodes[broker].set_clock(total)

    # --- directories -------------------------------------------------------------------------------------------------------

    async def _set_dir(self, broker: BrokerId, dir_: int) -> Probe:
        """Put the directory into the state that all its open faults together make."""
        done = self._trouble[broker].dirs.get(dir_, {}).values()
        return await self._nodes[broker].set_dir(
            dir_,
            DirCondition(
                unreadable=any(fault.unreadable for fault in done),
                broken=any(fault.broken for fault in done),
                full=any(fault.full for fault in done),
                flush_ms=sum(fault.flush_ms for fault in done),
                is_file=any(fault.is_file for fault in done),
            ),
        )

    async def _restart_with_sound_dirs(self, broker: BrokerId) -> None:
        """Restart a broker that was told of a directory's failure, now that the directory works (KIP-112)."""
        node = self._nodes[broker]
        failed = any(line.note.kind == EventKind.DIR_FAILED and line.life == node.life for line in node.notes())
        if failed and await node.is_running():
            await self._kill(node)
            await self._start(node)
            await self._pause_again(broker)

    async def _swap_dir(self, node: Node, dir_: int) -> None:
        """Replace a log directory by an empty one; its broker must be down."""
        wounds = await node.swap_dir(dir_)
        self._nemesis.swapped(node.address, dir_, [(wound.tp, wound.topic_id, wound.offset) for wound in wounds])

    async def _lose_unsynced(self, window: Window, fault: DirFailure, broker: BrokerId) -> None:
        """The device loses what was not synced. A process that still has it in the page cache is killed before that."""
        node = self._nodes[broker]
        await self._kill(node)
        seed = self._nemesis.draws.below(f"drop {window.id} {node.address}", 1 << 32)
        destroyed = await node.lose_unflushed((fault.dir,), Loss(seed=seed, torn=False, lose_all=False))
        self._record_wounds(node, destroyed, "dropped")


def _subject_of(fault: NodeFault) -> str:
    """The part of a node that this fault changes, as `Proving` names it."""
    match fault:
        case Crash() | CrashAt() | PowerLoss() | DiskSwap() | Shutdown() | Roll() | Join() | Decommission() | Pause() | Restart():
            return "process"
        case ExpireSession():
            return "session"
        case ClockJump() | ClockDrift() | ClockStrobe():
            return "clock"
        case DirUnreadable() | DirFile() | DirFailure() | DiskFull() | DiskSlow():
            return f"dir {fault.dir}"
        case _:
            assert_never(fault)


def _not_measured(silence: SilenceError) -> Probe:
    """A probe that found nothing out, because ZooKeeper did not answer."""

    async def probe() -> Proof:
        return Proof(None, str(silence))

    return probe


def _probe_that_raises_level(cluster: Levelled) -> Probe:
    """A probe that raises the feature level of a cluster, as soon as that can be done."""

    async def look() -> Proof:
        level = await cluster.raise_level()
        if level is not None:
            return Proof(True, level)
        return Proof(False, f"the cluster's feature level could not be raised within {LEVEL_S_MAX:.0f} s")

    return looking_again(look, seconds=LEVEL_S_MAX)


async def _not_empty() -> Proof:
    return Proof(False, "replicas were left on it")


async def _no_session() -> Proof:
    return Proof(False, "it has no session")


def _condition_of(fault: DirFault) -> DirCondition:
    """What the fault does to a log directory."""
    match fault:
        case DirUnreadable():
            return DirCondition(unreadable=True)
        case DirFile():
            return DirCondition(is_file=True)
        case DirFailure():
            return DirCondition(broken=True)
        case DiskFull():
            return DirCondition(full=True)
        case DiskSlow(extra_ms=extra_ms):
            return DirCondition(flush_ms=extra_ms)
        case _:
            assert_never(fault)
