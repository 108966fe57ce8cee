"""What every backend derives from a plan, once: replica assignments, broker settings, client processes, the manifest."""

from msgspec import UNSET, Struct

from highwater.plans.plan import Plan, topics_of
from highwater.rig.backend import Provenance
from history.manifest import Assignment, FaultCount, Outcome, RunManifest
from reference.client.commands import placed
from reference.config import PRODUCER_ID_BLOCK_SIZE, VARIANTS, BrokerConfig, TopicSpec, Variant
from reference.types import Address, BrokerId, Millis, broker_address
from workloads.admin_storm import ADDED_MAX
from workloads.client import Process
from workloads.generate import generate
from workloads.parameters import Parameters, PartitionName, TopicShape
from workloads.produce_consume import Producer


class Scene(Struct, frozen=True, kw_only=True):
    """A plan as a backend performs it. Client processes have state: one scene serves one run."""

    plan: Plan
    brokers: tuple[BrokerId, ...]
    configs: tuple[BrokerConfig, ...]
    assignment: dict[str, tuple[tuple[BrokerId, ...], ...]]  # topic -> its partitions' replicas, the preferred first
    places: tuple[Address, ...]  # of clients
    processes: tuple[Process, ...]
    client_places: tuple[Address, ...]  # by number of the client


def scene_of(plan: Plan) -> Scene:
    """Derive from a plan what a backend needs to perform it."""
    brokers = brokers_of(plan)
    processes = workload_processes(plan)
    return Scene(
        plan=plan,
        brokers=brokers,
        configs=tuple(broker_config(plan, broker) for broker in brokers),
        assignment=assign(plan),
        places=places_of(plan),
        processes=processes,
        client_places=tuple(place_of(plan, number) for number, _ in enumerate(processes)),
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


def place_of(plan: Plan, client: int) -> Address:
    """The place of a client, numbered from 0: the clients are spread over the places in turn."""
    return place_address(1 + client % plan.workload.places)


def variant_of(plan: Plan) -> Variant:
    """The protocol variant that a plan names."""
    return plan.variant or VARIANTS[plan.protocol]


def assign(plan: Plan) -> dict[str, tuple[tuple[BrokerId, ...], ...]]:
    """The replicas of each partition of each topic, the preferred one first."""
    brokers = brokers_of(plan)
    return {
        topic.name: placed(brokers, partitions=topic.partitions, replication_factor=topic.replication_factor)
        for topic in plan.cluster.topics
    }


def broker_config(plan: Plan, broker: BrokerId) -> BrokerConfig:
    """The configuration of one broker of a plan."""
    cluster = plan.cluster
    return BrokerConfig(
        broker=broker,
        variant=variant_of(plan),
        topics=topics_of(plan),
        log_dirs=cluster.log_dirs,
        session_timeout_ms=Millis(cluster.session_timeout_ms),
        replica_lag_time_max_ms=Millis(cluster.replica_lag_time_max_ms),
        request_timeout_ms=Millis(cluster.request_timeout_ms),
        fetch_wait_max_ms=Millis(cluster.fetch_wait_max_ms),
        fetch_max_bytes=None if cluster.fetch_max_bytes is UNSET else cluster.fetch_max_bytes,
        producer_id_block_size=PRODUCER_ID_BLOCK_SIZE
        if cluster.producer_id_block_size is UNSET
        else cluster.producer_id_block_size,
        checkpoint_interval_ms=Millis(cluster.checkpoint_interval_ms),
        inter_broker_protocol="legacy" if broker in cluster.legacy_brokers else "kip343",
        controller_heartbeat_timeout_ms=Millis(cluster.session_timeout_ms),
        broker_heartbeat_timeout_ms=Millis(cluster.session_timeout_ms * 3 // 2),
    )


def workload_processes(plan: Plan) -> tuple[Process, ...]:
    """The client processes of the plan's workload."""
    spec = plan.workload
    parameters = Parameters(
        partitions=tuple(PartitionName(topic.name, index) for topic in plan.cluster.topics for index in range(topic.partitions)),
        producers=spec.producers,
        consumers=spec.consumers,
        produce_per_s=spec.produce_per_s,
        records_per_produce=spec.records_per_produce,
        acks=spec.acks,
        poll_interval_ms=spec.poll_interval_ms,
        seek_one_in=spec.seek_one_in,
        idempotent=spec.idempotent,
        retries=spec.retries,
        only=None if spec.only is UNSET else frozenset(spec.only),
        topics=tuple(_shape(plan, topic) for topic in plan.cluster.topics),
        brokers=brokers_of(plan),
        by_requests=variant_of(plan).reassignment == "B",
        by_operator=plan.promise.unclean_election == "by_operator",
        scratch=None if spec.scratch is None else _shape(plan, spec.scratch, room=0),
        script=plan.script,
        edits=spec.edits is True,
        audited=plan.audit_ms > 0,
    )
    return generate(spec.name, plan.draws, parameters)


def _shape(plan: Plan, topic: TopicSpec, *, room: int = ADDED_MAX + 1) -> TopicShape:
    """A topic for administrators; `replicas` also has the brokers of partitions that they and the auditor may add."""
    count = topic.partitions + room
    return TopicShape(
        topic.name,
        topic.partitions,
        placed(brokers_of(plan), partitions=count, replication_factor=topic.replication_factor),
    )


def manifest(
    scene: Scene, provenance: Provenance, *, backend: str, outcome: Outcome, faults: tuple[FaultCount, ...]
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
        client_retries=tuple(plan.workload.retries * isinstance(process, Producer) for process in scene.processes),
        faults=faults,
    )
