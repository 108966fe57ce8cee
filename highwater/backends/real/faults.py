"""The nemesis of a run on real brokers: begins each scheduled fault on the brokers that its target names, and ends it.

Windows may overlap: a process runs again when no window holds it, clocks show the sum of all windows' faults, links and
directories the worst. Each family of faults has its part: `fault_links`, `fault_nodes` (clocks, processes, disks),
`fault_servers` (ZooKeeper). Rows of evidence are those of the simulator (`highwater.rig.nemesis`); probes add what they measured
(`proving`).
"""

import asyncio

from highwater.backends.real.fault_links import REFUSED, LinkFaults, subjects
from highwater.backends.real.fault_nodes import NodeFaults
from highwater.backends.real.fault_servers import ServerFaults
from highwater.backends.real.proving import Proving
from highwater.backends.real.site import Life, Site
from highwater.backends.real.systems.port import Coordination
from highwater.plans.plan import Plan, joining
from highwater.rig.nemesis import Nemesis
from history.manifest import FaultCount
from history.recorder import Recorder
from history.seed import Draws
from nemesis.faults import LinkFault, StepFault, ZooKeeperFault
from nemesis.schedule import Window
from nemesis.targets import OfPartition
from reference.types import Address, BrokerId, broker_address, topic_partition


class Faults:
    """Injects the scheduled faults of one run into real brokers."""

    def __init__(self, plan: Plan, site: Site, recorder: Recorder, coordination: Coordination) -> None:
        self._plan = plan
        draws = Draws(plan.draws)
        self._nemesis = Nemesis(plan, recorder, draws, logs=lambda broker, dir_: site.nodes[broker].logs(dir_))
        self._proving = Proving(recorder, acted=self._nemesis.acted)
        servers = tuple(server.address for server in site.servers)
        self._links = LinkFaults(
            site.links, tuple(site.nodes), servers, tuple(site.clients), draws, changing=self._proving.changed
        )
        self._brokers = {broker_address(broker): broker for broker in site.nodes}
        self._servers = ServerFaults(site, self._links, self._proving, coordination, draws=draws)
        self._nodes = NodeFaults(site, self._nemesis, self._proving, coordination)
        coordination.absent |= {broker_address(BrokerId(broker)) for broker in joining(plan)}

    async def run(self) -> None:
        """Begin and end the scheduled faults at their times, counted from now."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        moments = [(window.at_ms, 1, window) for window in self._plan.schedule]
        moments += [(window.until_ms, 0, window) for window in self._plan.schedule]
        for at_ms, opens, window in sorted(moments, key=lambda moment: (moment[0], moment[1], moment[2].id)):
            await asyncio.sleep(max(0.0, start + at_ms / 1000 - loop.time()))
            if opens:
                await self._open_window(window)
            else:
                await self._close_window(window.id)

    async def heal(self) -> None:
        """End all faults and start all brokers. A broker with a failed assertion stays down. HarnessError on failure."""
        for window_id in self._nemesis.open_windows():
            await self._close_window(window_id)
        await self._servers.heal()
        await self._nodes.heal()
        self._nemesis.healed()

    async def settle(self) -> None:
        """Wait until all probes have ended. Raises HarnessError if the effect of a fault is not over."""
        await self._proving.settle()

    def keeps_down(self, broker: BrokerId) -> bool:
        """True while an active fault, or one that is being applied or ended, keeps this broker down."""
        return self._nodes.keeps_down(broker)

    def keeps_server_down(self, server: Life) -> bool:
        """As `keeps_down`, of a server of ZooKeeper or a controller apart from the brokers."""
        return self._servers.keeps_down(server)

    def counts(self) -> tuple[FaultCount, ...]:
        """For each kind of fault in the schedule, how many were begun and how often they were seen to take effect."""
        return self._nemesis.counts()

    def gone(self) -> tuple[Address, ...]:
        """The brokers that left the cluster for good."""
        return self._nemesis.gone()

    async def _open_window(self, window: Window) -> None:
        """Begin a window's fault on the nodes that its target names now."""
        tps = [topic_partition(t.name, index) for t in self._plan.cluster.topics for index in range(t.partitions)]
        if isinstance(window.target, OfPartition):  # perhaps of an internal topic
            tps.append(topic_partition(window.target.topic, window.target.partition))
        hit = self._nemesis.begin(window, await self._servers.seen(tuple(dict.fromkeys(tps))))
        if hit:
            await self._begin_fault(window, hit)

    async def _begin_fault(self, window: Window, hit: tuple[Address, ...]) -> None:
        """Begin the fault on links, servers or brokers."""
        fault = window.fault
        if isinstance(fault, LinkFault):
            probe, pairs = await self._links.do(window, fault, hit)
            self._proving.acts(window, hit[0], probe, *subjects(pairs))
        elif isinstance(fault, ZooKeeperFault):
            await self._servers.do(window, fault)
        elif isinstance(fault, StepFault):
            raise AssertionError(REFUSED)
        else:
            for node in hit:
                await self._nodes.do(window, fault, self._brokers[node])

    async def _close_window(self, window_id: str) -> None:
        """End a window: its probes first, then the fault."""
        ended = self._nemesis.end(window_id)
        if ended is None:
            return
        window, hit = ended
        self._links.closing(window_id)
        await self._proving.settle(window_id)
        await self._end_fault(window, hit)
        for node in hit:
            self._nemesis.ended(window, node)

    async def _end_fault(self, window: Window, hit: tuple[Address, ...]) -> None:
        """End the fault on links, servers or brokers."""
        fault = window.fault
        if isinstance(fault, LinkFault):
            probe, pairs = await self._links.undo(window.id)
            self._proving.healed(window, hit[0], probe, *subjects(pairs))
        elif isinstance(fault, ZooKeeperFault):
            await self._servers.undo(window, fault)
        elif isinstance(fault, StepFault):
            pass
        else:
            for node in hit:
                await self._nodes.undo(window, fault, self._brokers[node])
