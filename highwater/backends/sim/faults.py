"""The nemesis of the simulator: begins each fault of the schedule at its time and undoes it at its end.

Windows may overlap on a node: a process runs again when no window holds it, and clocks show the sum of all windows' faults. Each
family of faults has a class in `fault_links`, `fault_nodes` (clocks, processes, disks) or `fault_servers` (ZooKeeper, steps),
whose `do` registers with the `OpenWindow` how it is undone.
"""

from highwater.backends.sim.ensemble import Ensemble
from highwater.backends.sim.fault_links import LinkFaults
from highwater.backends.sim.fault_nodes import ClockFaults, DiskFaults, ProcessFaults
from highwater.backends.sim.fault_servers import StepFaults, ZooKeeperFaults
from highwater.backends.sim.node import NodeHost
from highwater.backends.sim.open_window import OpenWindow
from highwater.backends.sim.scheduler import MS
from highwater.backends.sim.simulation import Simulation
from highwater.backends.sim.zk import ZooKeeper
from highwater.plans.plan import Plan
from highwater.rig.cuts import Geography
from highwater.rig.evidence import ZkEvidence
from highwater.rig.nemesis import Holds, Nemesis
from history.manifest import FaultCount
from nemesis.faults import ClockFault, LinkFault, ProcessFault, StepFault, ZooKeeperFault
from nemesis.schedule import Window
from reference.types import Address, BrokerId, TopicPartition


class Faults:
    """Injects the faults of one simulated run at the times of its schedule."""

    def __init__(
        self,
        sim: Simulation,
        server: ZooKeeper,
        evidence: ZkEvidence,
        nodes: dict[BrokerId, NodeHost],
        geography: Geography,
        *,
        plan: Plan,
        ensemble: Ensemble | None = None,
    ) -> None:
        self._sim = sim
        self._schedule = plan.schedule
        self._server = server
        self._nodes = nodes
        self._hosts = {node.address: node for node in nodes.values()}
        self._nemesis = Nemesis(plan, sim.recorder, sim.draws, logs=self._logs, incarnation=evidence.incarnations.get)
        self._links = LinkFaults(sim, nodes, geography)
        self._clocks = ClockFaults(sim.scheduler, tuple(node.address for node in nodes.values()))
        self._processes = ProcessFaults(sim, server, self._nemesis, plan)
        self._disks = DiskFaults(self._processes, self._nemesis)
        self._zookeeper = ZooKeeperFaults(sim, self._links, tuple(nodes.values()), ensemble)
        self._steps = StepFaults(server, self._links)
        self._open_windows: dict[str, OpenWindow] = {}

    def plan(self, zero_ns: int) -> None:
        """Schedule the begin and the end of every fault, counted from the start of the workload."""
        for window in self._schedule:
            self._sim.scheduler.at(zero_ns + window.at_ms * MS, self.open, window)
            self._sim.scheduler.at(zero_ns + window.until_ms * MS, self.close, window.id)

    def open(self, window: Window) -> None:
        """Begin a fault; do nothing if no broker matches its target."""
        hit = self._nemesis.begin(window, self._server.tree)
        if hit:
            opened = self._open_windows[window.id] = OpenWindow(window, hit)
            self._begin_fault(opened)

    def close(self, window_id: str) -> None:
        """End a fault and undo its effects, latest first; do nothing if it is not active."""
        ended = self._nemesis.end(window_id)
        if ended is None:
            return
        window, hit = ended
        opened = self._open_windows.pop(window_id)
        opened.close()
        for node, acting in opened.actings.items():
            if node not in hit:  # a server of ZooKeeper
                self._nemesis.acted(window, node, acting.count)
        for node in hit:
            self._nemesis.acted(window, node, opened.actings[node].count)
            self._nemesis.ended(window, node)

    def heal(self) -> None:
        """End all faults, start all brokers and set all clocks right.

        A broker with a failed assertion stays down, and one that left the cluster.
        """
        for window_id in self._nemesis.open_windows():
            self.close(window_id)
        for broker, node in self._nodes.items():
            if broker in self._nemesis.decommissioned:
                continue
            self._nemesis.holds[broker] = Holds()
            node.spring()
            node.resume()
            self._clocks.heal(node)
            if not node.wrong:
                if node.failed_dirs:
                    node.stop("crash")
                node.start()
        self._nemesis.healed()

    def counts(self) -> tuple[FaultCount, ...]:
        """For each kind of fault in the schedule, how many were begun and how often they took effect."""
        return self._nemesis.counts()

    def gone(self) -> tuple[Address, ...]:
        """The brokers that left the cluster for good."""
        return self._nemesis.gone()

    def _begin_fault(self, opened: OpenWindow) -> None:
        """Begin the fault on links, on ZooKeeper, or on each broker that it hits."""
        fault = opened.window.fault
        if isinstance(fault, LinkFault):
            self._links.do(opened, fault)
            return
        if isinstance(fault, ZooKeeperFault):
            self._zookeeper.do(opened, fault)
            return
        for address in opened.nodes:
            node, acting = self._hosts[address], opened.actings[address]
            if isinstance(fault, ClockFault):
                self._clocks.do(opened, fault, node, acting)
            elif isinstance(fault, ProcessFault):
                self._processes.do(opened, fault, node, acting)
            elif isinstance(fault, StepFault):
                self._steps.do(opened, fault, node, acting)
            else:
                self._disks.do(opened, fault, node, acting)

    def _logs(self, broker: BrokerId, dir_: int) -> list[TopicPartition]:
        return sorted(self._nodes[broker].disk.dirs[dir_].logs)
