"""What every backend derives from a plan, once: replica assignments, broker settings, client processes, the manifest."""

from msgspec import UNSET, Struct
from msgspec.structs import replace

from highwater.plans.plan import Plan, is_foreign, joining, names_releases, topics_of
from highwater.rig import releases
from highwater.rig.backend import Provenance
from history.manifest import Assignment, FaultCount, Outcome, RunManifest
from nemesis.faults import Roll
from reference.client.commands import placed
from reference.config import NEWEST, VARIANTS, BrokerConfig, Variant
from reference.types import Address, BrokerId, Millis, broker_address
from workloads.admin_storm import ADDED_MAX
from workloads.asynchronous import Sender
from workloads.client import Process
from workloads.generate import generate
from workloads.parameters import Parameters, PartitionName, TopicShape
from workloads.produce_consume import Producer

Replicas = dict[str, tuple[tuple[BrokerId, ...], ...]]  # topic -> its partitions' replicas, the preferred first


class Scene(Struct, frozen=True, kw_only=True):
    """A plan as a backend performs it. Client processes have state: one scene serves one run."""

    plan: Plan
    brokers: tuple[BrokerId, ...]
    configs: tuple[BrokerConfig, ...]
    assignment: Replicas
    places: tuple[Address, ...]  # of clients
    processes: tuple[Process, ...]
    client_places: tuple[Address, ...]  # by number of the client
    old_layouts: bool  # whether a broker sends or refuses a layout that is not today's


def scene_of(plan: Plan) -> Scene:
    """Derive from a plan what a backend needs to perform it."""
    brokers, places = brokers_of(plan), places_of(plan)
    configs = tuple(broker_config(plan, broker) for broker in brokers)
    later = joining(plan)
    first = tuple(broker for broker in brokers if broker not in later)
    scratch = () if plan.workload.scratch is None else (plan.workload.scratch,)
    replicas = {
        topic.name: placed(first, partitions=topic.partitions + ADDED_MAX + 1, replication_factor=topic.replication_factor)
        for topic in (*plan.cluster.topics, *scratch)
    }
    processes = generate(plan.workload.name, plan.draws, _workload_parameters(plan, brokers, replicas))
    return Scene(
        plan=plan,
        brokers=brokers,
        configs=configs,
        assignment={topic.name: replicas[topic.name][: topic.partitions] for topic in plan.cluster.topics},
        places=places,
        processes=processes,
        client_places=tuple(places[number % len(places)] for number, _ in enumerate(processes)),  # in turn
        old_layouts=any(config.release != NEWEST for config in configs) or any(isinstance(w.fault, Roll) for w in plan.schedule),
    )


def brokers_of(plan: Plan) -> tuple[BrokerId, ...]:
    """The ids of a plan's brokers, from 1."""
    return tuple(BrokerId(number) for number in range(1, plan.cluster.brokers + 1))


def place_address(place: int) -> Address:
    """The address of a client place, numbered from 1: p1, p2 ..."""
    return Address(f"p{place}")


def places_of(plan: Plan) -> tuple[Address, ...]:
    """The addresses of a plan's client places."""
    return tuple(place_address(place) for place in range(1, plan.workload.places + 1))


def variant_of(plan: Plan) -> Variant:
    """The protocol variant that a plan names."""
    return plan.variant or VARIANTS[plan.protocol]


def broker_config(plan: Plan, broker: BrokerId) -> BrokerConfig:
    """The configuration of one broker of a plan."""
    cluster = plan.cluster
    optional = ("fetch_max_bytes", "producer_id_block_size", "reassign_interval_ms", "lag_max_records")
    optional_settings = {name: getattr(cluster, name) for name in optional if getattr(cluster, name) is not UNSET}
    variant, topics, names_its_releases = variant_of(plan), topics_of(plan), names_releases(plan)
    config = BrokerConfig(
        broker=broker,
        variant=variant,
        topics=topics,
        log_dirs=cluster.log_dirs,
        session_timeout_ms=Millis(cluster.session_timeout_ms),
        replica_lag_time_max_ms=Millis(cluster.replica_lag_time_max_ms),
        request_timeout_ms=Millis(cluster.request_timeout_ms),
        fetch_wait_max_ms=Millis(cluster.fetch_wait_max_ms),
        checkpoint_interval_ms=Millis(cluster.checkpoint_interval_ms),
        inter_broker_protocol="legacy" if broker in cluster.legacy_brokers else NEWEST,
        controller_heartbeat_timeout_ms=Millis(cluster.session_timeout_ms),
        broker_heartbeat_timeout_ms=Millis(cluster.session_timeout_ms * 3 // 2),
    )
    if names_its_releases:
        release, protocol = releases.first(plan, broker)
        optional_settings |= {"release": release, "inter_broker_protocol": protocol}
    return replace(config, **optional_settings)


def _retries(plan: Plan, process: Process) -> int:
    """How often the client sends a produce of this process again."""
    if isinstance(process, Sender):
        return process.retries
    return plan.workload.retries if isinstance(process, Producer) else 0


def _workload_parameters(plan: Plan, brokers: tuple[BrokerId, ...], replicas: Replicas) -> Parameters:
    """The parameters of the plan's workload; `replicas` also has those of partitions that administrators may add."""
    spec = plan.workload
    return Parameters(
        partitions=tuple(PartitionName(topic.name, index) for topic in plan.cluster.topics for index in range(topic.partitions)),
        producers=spec.producers,
        consumers=spec.consumers,
        produce_per_s=spec.produce_per_s,
        records_per_produce=spec.records_per_produce,
        acks=spec.acks,
        poll_interval_ms=spec.poll_interval_ms,
        seek_one_in=spec.seek_one_in,
        stranger_first=spec.stranger_first is True,
        idempotent=spec.idempotent,
        retries=spec.retries,
        asynchronous=None if spec.asynchronous is UNSET else spec.asynchronous,
        auto_commit=None if spec.auto_commit is UNSET else spec.auto_commit,
        only=None if spec.only is UNSET else frozenset(spec.only),
        brokers=brokers,
        by_requests=variant_of(plan).reassignment == "B",
        removes=not is_foreign(plan),
        # The reference refuses fewer than min.insync.replicas. Kafka moves, and no promise holds there (DUR-4).
        moves_to_min=max(topic.min_insync_replicas for topic in topics_of(plan)) if is_foreign(plan) else 1,
        by_operator=plan.promise.unclean_election == "by_operator",
        script=plan.script,
        edits=spec.edits is True,
        audited=plan.audit_ms > 0,
        topics=tuple(TopicShape(topic.name, topic.partitions, replicas[topic.name]) for topic in plan.cluster.topics),
        scratch=None
        if spec.scratch is None
        else TopicShape(spec.scratch.name, spec.scratch.partitions, replicas[spec.scratch.name][: spec.scratch.partitions]),
    )


def manifest(
    scene: Scene, provenance: Provenance, *, backend: str, outcome: Outcome, faults: tuple[FaultCount, ...] = ()
) -> RunManifest:
    """The manifest of a run, without the times, counts and digest that the backend adds."""
    plan = scene.plan
    return RunManifest(
        run_id=provenance.run_id,
        seed=plan.seed,
        derivation=None if plan.derivation is UNSET else plan.derivation,
        draws=plan.draws,
        plan_digest=provenance.plan_digest,
        protocol=plan.protocol,
        backend=backend,
        commit=provenance.commit,
        dirty=provenance.dirty,
        versions=provenance.versions,
        outcome=outcome,
        promise=plan.promise,
        brokers=tuple(broker_address(broker) for broker in scene.brokers),
        assignments=tuple(
            Assignment(topic=topic, partition=index, replicas=tuple(broker_address(b) for b in replicas))
            for topic, partitions in scene.assignment.items()
            for index, replicas in enumerate(partitions)
        ),
        client_places=scene.client_places,
        required_marks=plan.required_marks,
        min_acked=plan.min_acked,
        log_dirs=plan.cluster.log_dirs,
        client_timeout_ms=plan.workload.request_timeout_ms,
        client_retries=tuple(_retries(plan, process) for process in scene.processes),
        faults=faults,
    )
