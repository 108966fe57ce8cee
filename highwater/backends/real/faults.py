"""Performing a schedule on real nodes: each window is opened on the nodes its target names, and undone when it closes.

Windows may overlap: a process runs again when the last window that keeps it down is over, clocks show the sum of what is done to
them, links and directories the worst. Rows of evidence as in the simulator, and beside them what probes saw (`proving`).
"""

import asyncio
from typing import assert_never

from highwater.backends.real.fault_links import LinkFaults, subjects
from highwater.backends.real.fault_nodes import NodeFaults
from highwater.backends.real.fault_servers import ServerFaults
from highwater.backends.real.proving import Proving
from highwater.backends.real.site import Site
from highwater.backends.real.zookeeper.admin import Admin
from highwater.plans.plan import Plan
from highwater.rig.targets import resolve
from history.event import EventKind
from history.manifest import FaultCount
from history.recorder import Recorder
from history.seed import Draws
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
from reference.types import BrokerId, broker_address, index_of, topic_of, topic_partition


class Faults:
    """The nemesis of a run on real nodes."""

    def __init__(self, plan: Plan, site: Site, recorder: Recorder, admin: Admin) -> None:
        self._plan = plan
        self._site = site
        self._recorder = recorder
        self._draws = Draws(plan.draws)
        self._open: dict[str, tuple[Window, tuple[BrokerId, ...]]] = {}
        self._begun = {window.kind: 0 for window in plan.schedule}
        self._proving = Proving(recorder, self._begun)
        servers = tuple(server.address for server in site.servers)
        self._links = LinkFaults(site.links, tuple(site.nodes), servers, self._draws, changing=self._proving.changed)
        self._servers = ServerFaults(site, self._links, self._proving, admin, draws=self._draws)
        self._nodes = NodeFaults(site, recorder, self._proving, admin, draws=self._draws)

    async def run(self) -> None:
        """Open and close the windows, counted from now."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        moments = [(window.at_ms, 1, window) for window in self._plan.schedule]
        moments += [(window.until_ms, 0, window) for window in self._plan.schedule]
        for at_ms, opens, window in sorted(moments, key=lambda moment: (moment[0], moment[1], moment[2].id)):
            await asyncio.sleep(max(0.0, start + at_ms / 1000 - loop.time()))
            if opens:
                await self._begin(window)
            else:
                await self._end(window.id)

    async def heal(self) -> None:
        """Close what is open, start what is down but for a node of which an assertion failed. HarnessError where that fails."""
        for window_id in list(self._open):
            await self._end(window_id)
        await self._servers.heal()
        await self._nodes.heal()
        self._recorder.event(EventKind.HEALED)

    async def settle(self) -> None:
        """Every probe has found what it looked for. HarnessError where a fault is not healed."""
        await self._proving.settle()

    def keeps_down(self, broker: BrokerId) -> bool:
        """Is a window open that wants this node down?"""
        return self._nodes.keeps_down(broker)

    def counts(self) -> tuple[FaultCount, ...]:
        """Of each kind of the schedule."""
        acted = self._proving.acted
        return tuple(FaultCount(kind=kind, begun=self._begun[kind], acted=acted[kind]) for kind in sorted(self._begun))

    # --- windows -----------------------------------------------------------------------------------------------------------

    async def _begin(self, window: Window) -> None:
        tps = tuple(topic_partition(t.name, index) for t in self._plan.cluster.topics for index in range(t.partitions))
        seen = await self._servers.seen(tps)
        brokers = resolve(window.target, self._plan, seen, self._draws, purpose=f"target {window.id}")
        fault = window.fault
        if isinstance(fault, ZooKeeperDown) or (isinstance(fault, Partition) and fault.shape != "isolate"):
            brokers = tuple(self._site.nodes)
        if not brokers:
            return
        self._begun[window.kind] += 1
        self._open[window.id] = (window, brokers)
        for broker in brokers:
            self._say(EventKind.FAULT_BEGUN, window, broker)
        match fault:
            case Partition() | Packets() | Slow() | Clog() | Reset():
                probe, pairs = await self._links.begin(window, fault, brokers)
                self._proving.acts(window, broker_address(brokers[0]), probe, *subjects(pairs))
            case (
                ClockJump()
                | ClockDrift()
                | ClockStrobe()
                | Pause()
                | Crash()
                | Restart()
                | Shutdown()
                | PowerLoss()
                | ExpireSession()
                | DirUnreadable()
                | DirFile()
                | DirFailure()
                | DiskFull()
                | DiskSlow()
                | DiskSwap()
            ):
                for broker in brokers:
                    await self._nodes.begin(window, fault, broker)
            case ZooKeeperDown():
                await self._servers.begin(window, fault)
            case CrashAt():
                raise AssertionError("refused before the run")
            case _:
                assert_never(fault)

    async def _end(self, window_id: str) -> None:
        window, brokers = self._open.pop(window_id, (None, ()))
        if window is None:
            return
        self._links.closing(window_id)
        await self._proving.settle(window_id)
        fault = window.fault
        if isinstance(fault, Partition | Packets | Slow | Clog | Reset):
            probe, pairs = await self._links.end(window_id)
            self._proving.healed(window, broker_address(brokers[0]), probe, *subjects(pairs))
        elif isinstance(fault, ZooKeeperDown):
            await self._servers.end(window, fault)
        elif not isinstance(fault, CrashAt):
            for broker in brokers:
                await self._nodes.end(window, fault, broker)
        for broker in brokers:
            self._say(EventKind.FAULT_ENDED, window, broker)

    def _say(self, kind: EventKind, window: Window, broker: BrokerId) -> None:
        """A row for the node, and one for each partition whose replica there is withheld: its directory cannot be read."""
        node, address = self._site.nodes[broker], broker_address(broker)
        self._recorder.event(kind, fault=window.id, node=address, detail=window.kind)
        if isinstance(window.fault, DirUnreadable | DirFile | DirFailure):
            index = window.fault.dir
            for tp in node.logs(index):
                topic, partition = topic_of(tp), index_of(tp)
                self._recorder.event(
                    kind, fault=window.id, node=address, topic=topic, partition=partition, dir=index, detail=window.kind
                )
