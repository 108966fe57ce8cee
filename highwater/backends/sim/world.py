"""A whole simulated run: puts together the brokers, clients, ZooKeeper and nemesis of one plan, and runs its phases.

    boot ─▶ faults (workload and schedule) ─▶ heal ─▶ quiet (workload goes on) ─▶ audit ─▶ final reads ─▶ end

The harness creates the topics like an administrator and waits until each partition has a leader; then the workload's time begins.
A run is a function of its plan: the same plan gives the same rows.
"""

from collections.abc import Callable

from msgspec import UNSET

from highwater.backends.sim.clients import ClientHost
from highwater.backends.sim.ensemble import Ensemble
from highwater.backends.sim.faults import Faults
from highwater.backends.sim.inquirer import Inquirer, Observer
from highwater.backends.sim.node import Boot, NodeHost, Watching
from highwater.backends.sim.scheduler import MS, Scheduler
from highwater.backends.sim.simulation import Simulation
from highwater.backends.sim.zk import ZkServer, ZooKeeper
from highwater.plans.plan import joining
from highwater.rig.cuts import Geography
from highwater.rig.end_state import log_rows, metadata_rows, zookeeper_rows
from highwater.rig.evidence import ZkEvidence
from highwater.rig.scene import Scene
from highwater.rig.scrapes import Scrapes
from highwater.rig.targets import state_of
from history.event import EventKind
from monitors.watch import watch_of
from reference import metrics
from reference.broker import heartbeats
from reference.coordination import paths
from reference.coordination.api import AnyOp, Create, Data
from reference.messages import MetadataReply
from reference.node import Node
from reference.types import Address, BrokerId
from workloads.client import Phase

SLICE_MS = 100  # how often limits and ends are checked
GATHER_MS = 1500  # for brokers to register, elect a controller and report to it
WARM_UP_MS_MAX = 10_000
FINAL_MS_MAX = 60_000
LOOK_MS = 200  # for the answers to the Metadata requests at the end


class TooManyEvents(Exception):  # noqa: N818 - says what happened
    """Raised when a simulated run handles more events than its plan allows."""


class World:
    """One whole simulated run. `healed_at_ns` and `final_reads_at_ns` are None until those phases begin."""

    def __init__(
        self, scene: Scene, boot: Boot = Node.boot, scheduler: Scheduler | None = None, *, watch: Watching = watch_of
    ) -> None:
        plan = self.plan = scene.plan
        self._assignment = scene.assignment
        self.sim = Simulation(plan.draws, plan.network, scheduler)
        self.evidence = ZkEvidence(self.sim.recorder)
        ensemble = Ensemble(self.sim, self.evidence, plan.cluster.zookeeper) if plan.cluster.zookeeper > 1 else None
        self.server: ZooKeeper = ensemble or ZkServer(self.sim, self.evidence)
        durable = frozenset(topic.topic for topic in plan.promise.topics if topic.flush == "before_ack")
        self.nodes: dict[BrokerId, NodeHost] = {
            config.broker: NodeHost(self.sim, self.server, config, boot, durable=durable, watch=watch) for config in scene.configs
        }
        self.clients = tuple(ClientHost(self.sim, self.server, scene, number) for number, _ in enumerate(scene.processes))
        for node in self.nodes.values():
            self.sim.transport.join(node)
        for client in self.clients:
            self.sim.transport.join(client)
        if scene.old_layouts:
            from highwater.backends.sim.layouts import Layouts  # the wire's library takes as long to import as all of a run

            self.sim.transport.layouts = Layouts({node.address: node for node in self.nodes.values()})
        self.observer = Observer(self.sim)
        self.sim.transport.join(self.observer)
        self._inquirer = Inquirer(self.sim, self.nodes.values(), plan.promise)
        geography = Geography(
            scene.brokers,
            tuple(client.address for client in self.clients),
            servers=tuple(server.address for server in self.server.servers),
            places={place: tuple(c.address for c in self.clients if c.place == place) for place in scene.places},
        )
        self.faults = Faults(self.sim, self.server, self.evidence, self.nodes, geography, plan=plan, ensemble=ensemble)
        self._scrapes = Scrapes(self.sim.recorder)
        self._scraped_ns = 0
        self.healed_at_ns: int | None = None
        self.final_reads_at_ns: int | None = None
        self._zero_ns = 0

    @property
    def zero_ns(self) -> int:
        """The virtual time at which the workload and the schedule began; 0 before."""
        return self._zero_ns

    def play(self) -> None:
        """Simulate all phases of the run. Raises TooManyEvents; rows recorded until then stay."""
        plan = self.plan
        self.play_until(plan.faults_ms)
        self.faults.heal()
        self.healed_at_ns = self.sim.scheduler.now
        self._phase("quiet")
        self._run_for(plan.quiet_ms)
        if plan.audit_ms:
            self._phase("audit")
            self._run_for(plan.audit_ms)
        # Final readers start after the last write: they would miss records that are acknowledged later.
        for client in self.clients:
            client.phase = "final"
        self._run_until_idle()
        self.sim.recorder.event(EventKind.FINAL_READS)
        self.final_reads_at_ns = self.sim.scheduler.now
        self._phase("final")
        self._run_until_idle()
        self._record_end_state()

    def play_until(self, at_ms: int) -> None:
        """Simulate the run only up to `at_ms` after the start of the workload."""
        self.warm_up()
        self._zero_ns = self.sim.scheduler.now
        if self.plan.cluster.zookeeper_write_ms is not UNSET:
            self.sim.zk_write_ns = self.plan.cluster.zookeeper_write_ms * MS
        self.faults.plan(self._zero_ns)
        self._phase("faults")
        self._run_for(at_ms)

    def metadata(self) -> MetadataReply | None:
        """The metadata that the first broker in service would send a client now (R-320: the description of topics)."""
        for host in self.nodes.values():
            if isinstance(host.machine, Node):
                broker = host.machine.state.broker
                if broker.live_brokers and not heartbeats.is_fenced(broker):
                    return MetadataReply(0, broker.live_brokers, tuple(broker.metadata.values()))
        return None

    def _run_until_idle(self) -> None:
        self._run_until(lambda: all(client.idle for client in self.clients), FINAL_MS_MAX)

    def _run_until(self, done: Callable[[], bool], ms_max: int) -> None:
        """Let time pass until this is done, and not longer than `ms_max`."""
        end_ns = self.sim.scheduler.now + ms_max * MS
        while self.sim.scheduler.now < end_ns and not done():
            self._run_for(SLICE_MS)

    def _record_end_state(self) -> None:
        """Record the final state of ZooKeeper, of the brokers' metrics and metadata and of the disks."""
        if self.plan.metrics_ms is not UNSET:
            self._record_metrics(whole=True)
        tree = self.server.tree
        for correlation, node in enumerate(self.nodes.values()):
            self.observer.ask(node.address, correlation)
        self._run_for(LOOK_MS)
        znodes = {path: Data(node.data, node.version, node.czxid) for path, node in tree.nodes.items()}
        topics = [(topic, znodes[paths.topic_path(topic)]) for topic in tree.nodes[paths.TOPICS].children]
        rows = [*zookeeper_rows(topics, znodes)]
        for broker, node in self.nodes.items():
            rows += metadata_rows(node.address, self.observer.told.get(node.address, ()))
            rows += log_rows(broker, node.disk.image())
        self.sim.recorder.record(rows)

    def warm_up(self) -> None:
        """Start the brokers that are there at first, create the topics once they know each other, and wait until all are led.

        Existing topics would be led by the broker that reports to the controller first (KIP-343).
        """
        later = joining(self.plan)
        for broker, node in self.nodes.items():
            if broker not in later:
                node.start()
        self._run_for(GATHER_MS)
        self.create_topics()
        self._run_until(self.is_led, WARM_UP_MS_MAX)

    def create_topics(self) -> None:
        """Create the topics in ZooKeeper, with their persistent parent znodes, like an administrator's tool."""
        ops: list[AnyOp] = [Create(path, b"") for path in paths.PERSISTENT]
        ops += [Create(paths.topic_path(topic), paths.topic_payload(replicas)) for topic, replicas in self._assignment.items()]
        self.server.administer(tuple(ops))

    def is_led(self) -> bool:
        """Whether every partition has a leader in ZooKeeper."""
        states = (
            state_of(self.server.tree, topic.name, index)
            for topic in reversed(self.plan.cluster.topics)  # the last one gets its leader last: most looks end with it
            for index in reversed(range(topic.partitions))
        )
        return all(state is not None and state.leader is not None for state in states)

    def _phase(self, phase: Phase) -> None:
        for client in self.clients:
            client.begin(phase, zero_ns=self._zero_ns)

    def _run_for(self, duration_ms: int) -> None:
        """Let time pass. Raises TooManyEvents if the plan's limit is reached."""
        scheduler = self.sim.scheduler
        end_ns = scheduler.now + duration_ms * MS
        while scheduler.now < end_ns:
            if self.sim.handled > self.plan.limit_events:
                raise TooManyEvents(f"more than {self.plan.limit_events} events by {scheduler.now // MS} ms")
            scheduler.run_until(min(end_ns, scheduler.now + SLICE_MS * MS))
            self._inquirer.look()
            if self.plan.metrics_ms is not UNSET and scheduler.now - self._scraped_ns >= self.plan.metrics_ms * MS:
                self._scraped_ns = scheduler.now
                self._record_metrics()

    def _record_metrics(self, *, whole: bool = False) -> None:
        """Record the metrics of each broker that would answer; looking changes nothing in the run."""
        lives = {host.address: host.life for host in self.nodes.values()}
        for node, values in self.metrics().items():
            self._scrapes.record(node, lives[node], values, whole=whole)

    def metrics(self) -> dict[Address, dict[str, int]]:
        """The metrics of each broker that is up and not paused now."""
        hosts = [host for host in self.nodes.values() if host.up and not host.paused]
        return {host.address: metrics.read(host.machine) for host in hosts if isinstance(host.machine, Node)}
