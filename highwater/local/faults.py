"""Performing a schedule on processes: SIGKILL, SIGSTOP and SIGCONT at the moments of the plan, by the wall.

Rows of evidence as in the simulator: FAULT_BEGUN and FAULT_ENDED for each node that was hit, FAULT_ACTED where it was running.
Windows may overlap on a node: it runs again when the last window that keeps it down is over.
"""

import asyncio
from typing import assert_never

from highwater.local.admin import Admin
from highwater.local.nodes import NodeProcess
from highwater.plan import Plan
from highwater.sim.targets import resolve
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
)
from nemesis.schedule import Window
from reference.types import BrokerId, topic_partition

ASSERTED = "halt:assertion"


class Faults:
    """The nemesis of a run on this machine."""

    def __init__(self, plan: Plan, nodes: dict[BrokerId, NodeProcess], recorder: Recorder, admin: Admin) -> None:
        self._plan = plan
        self._nodes = nodes
        self._recorder = recorder
        self._admin = admin
        self._draws = Draws(plan.draws)
        self._open: dict[str, tuple[Window, tuple[BrokerId, ...]]] = {}
        self._downs: dict[BrokerId, int] = dict.fromkeys(nodes, 0)  # windows that keep a node down
        self._pauses: dict[BrokerId, int] = dict.fromkeys(nodes, 0)
        self._begun = {window.kind: 0 for window in plan.schedule}
        self._acted = dict(self._begun)

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
                self._end(window.id)

    def heal(self) -> None:
        """Close what is open, continue what stands still, start what is down but for a node of which an assertion failed."""
        for window_id in list(self._open):
            self._end(window_id)
        for node in self._nodes.values():
            node.resume()
            if not node.is_running():
                self._start(node)
        self._recorder.event(EventKind.HEALED)

    def keeps_down(self, broker: BrokerId) -> bool:
        """Is a window open that wants this node down?"""
        return self._downs[broker] > 0

    def counts(self) -> tuple[FaultCount, ...]:
        """Of each kind of the schedule."""
        return tuple(FaultCount(kind=kind, begun=self._begun[kind], acted=self._acted[kind]) for kind in sorted(self._begun))

    # --- windows -----------------------------------------------------------------------------------------------------------

    async def _begin(self, window: Window) -> None:
        tps = tuple(topic_partition(t.name, index) for t in self._plan.cluster.topics for index in range(t.partitions))
        seen = await self._admin.seen(tps)
        brokers = resolve(window.target, self._plan, seen, self._draws, purpose=f"target {window.id}")
        if not brokers:
            return
        self._begun[window.kind] += 1
        self._open[window.id] = (window, brokers)
        for broker in brokers:
            node = self._nodes[broker]
            self._recorder.event(EventKind.FAULT_BEGUN, fault=window.id, node=node.address, detail=window.kind)
            if node.is_running():
                self._acted[window.kind] += 1
                self._recorder.event(EventKind.FAULT_ACTED, fault=window.id, node=node.address, detail=window.kind, offset=1)
            self._hit(window, broker)

    def _hit(self, window: Window, broker: BrokerId) -> None:
        node = self._nodes[broker]
        match window.fault:
            case Crash():
                self._downs[broker] += 1
                self._kill(node)
            case Restart():
                self._kill(node)
                if not self.keeps_down(broker):
                    self._start(node)
            case Shutdown():
                self._downs[broker] += 1
                node.terminate()
            case Pause():
                self._pauses[broker] += 1
                node.pause()
            case (
                Partition()
                | Packets()
                | Slow()
                | Clog()
                | Reset()
                | ClockJump()
                | ClockDrift()
                | ClockStrobe()
                | PowerLoss()
                | CrashAt()
                | ExpireSession()
                | DirUnreadable()
                | DirFile()
                | DirFailure()
                | DiskFull()
                | DiskSlow()
                | DiskSwap()
            ):
                raise AssertionError("refused before the run")
            case _:
                assert_never(window.fault)

    def _end(self, window_id: str) -> None:
        window, brokers = self._open.pop(window_id, (None, ()))
        if window is None:
            return
        for broker in brokers:
            node = self._nodes[broker]
            if isinstance(window.fault, Shutdown):
                self._kill(node)
            if isinstance(window.fault, Crash | Shutdown):
                self._downs[broker] -= 1
                if not self.keeps_down(broker) and not node.is_running():
                    self._start(node)
            elif isinstance(window.fault, Pause):
                self._pauses[broker] -= 1
                if not self._pauses[broker]:
                    node.resume()
            self._recorder.event(EventKind.FAULT_ENDED, fault=window.id, node=node.address, detail=window.kind)

    def _kill(self, node: NodeProcess) -> None:
        if node.is_running():
            node.kill()
            self._recorder.event(EventKind.NODE_STOPPED, node=node.address, life=node.life, detail="crash")

    def _start(self, node: NodeProcess) -> None:
        if node.stopped_itself() == ASSERTED:
            return  # it is proven wrong, and stays as it is
        self._recorder.event(EventKind.NODE_STARTED, node=node.address, life=node.life + 1)
        node.start()
