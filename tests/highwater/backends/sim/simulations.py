"""Small plans, a simulation without a workload, and machines with scripted effects."""

from collections.abc import Callable, Sequence

from highwater.backends.sim.simulation import Simulation
from highwater.plans.plan import ClusterShape, NetworkShape, Plan, WorkloadSpec
from history.promise import Promise, TopicPromise
from nemesis.schedule import Window
from reference.config import BrokerConfig, TopicSpec
from reference.effects import AnyEffect
from reference.events import AnyEvent, DirImage
from reference.machine import Now

TOPIC = TopicSpec(name="t", partitions=1, replication_factor=3, min_insync_replicas=2, flush="none")


def plan(*schedule: Window, draws: int = 1, faults_ms: int = 3000, network: NetworkShape | None = None) -> Plan:
    """Three brokers, one partition, a small load."""
    return Plan(
        name="small",
        draws=draws,
        cluster=ClusterShape(
            topics=(TOPIC,), session_timeout_ms=1500, replica_lag_time_max_ms=1000, request_timeout_ms=500, fetch_wait_max_ms=100
        ),
        network=network or NetworkShape(),
        workload=WorkloadSpec(producers=1, consumers=1, produce_per_s=20, request_timeout_ms=1000),
        promise=Promise(
            topics=(TopicPromise(topic="t"),), session_timeout_ms=1500, replica_lag_time_max_ms=1000, request_timeout_ms=500
        ),
        faults_ms=faults_ms,
        quiet_ms=2000,
        schedule=schedule,
    )


def simulation(draws: int = 1, *, delay_us: tuple[int, int] = (1000, 1000)) -> Simulation:
    """A simulation whose links all take 1 ms unless `delay_us` (min, max) says otherwise."""
    return Simulation(draws, NetworkShape(delay_us_min=delay_us[0], delay_us_max=delay_us[1]))


Script = Callable[[AnyEvent], Sequence[AnyEffect]]


class Scripted:
    """A machine that answers each event as its script says and remembers what it was told, and when."""

    def __init__(self, script: Script, image: tuple[DirImage, ...] = (), life: int = 1) -> None:
        self.script = script
        self.image = image
        self.life = life
        self.told: list[AnyEvent] = []
        self.times: list[Now] = []

    def handle(self, event: AnyEvent, *, now: Now) -> list[AnyEffect]:
        self.told.append(event)
        self.times.append(now)
        return list(self.script(event))


class Cast:
    """Boots scripted machines and keeps all of them, by life."""

    def __init__(self, script: Script = lambda event: ()) -> None:
        self.script = script
        self.machines: list[Scripted] = []

    def __call__(self, config: BrokerConfig, image: tuple[DirImage, ...], life: int) -> Scripted:
        self.machines.append(Scripted(self.script, image, life))
        return self.machines[-1]
