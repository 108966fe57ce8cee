"""Converts a schedule of the explorer, a list of actions, to a plan, and such a plan to the bounds that allow it."""

from msgspec.structs import replace

from highwater.explore.state import TOPIC, Bounds
from highwater.plans.actions import Path, ZkHear, ZkPerform
from highwater.plans.plan import ClusterShape, Plan, WorkloadSpec
from history.promise import Promise, TopicPromise
from reference.config import VARIANTS, TopicSpec, Variant

_MIN_ISR = 1


def plan_of(*, name: str, story: tuple[str, ...], protocol: str, variant: Variant, bounds: Bounds, path: Path) -> Plan:
    """Make the plan that performs this list of actions on the explored cluster."""
    brokers = bounds.brokers
    topic = TopicSpec(
        name=TOPIC,
        partitions=bounds.partitions,
        replication_factor=bounds.replicas,
        min_insync_replicas=_MIN_ISR,
        flush="none",
    )
    cluster = ClusterShape(brokers=brokers, topics=(topic,), legacy_brokers=() if bounds.kip343 else _all_brokers(brokers))
    promise = Promise(
        topics=(TopicPromise(topic=TOPIC, min_insync_replicas=_MIN_ISR, flush="none"),),
        session_timeout_ms=cluster.session_timeout_ms,
        replica_lag_time_max_ms=cluster.replica_lag_time_max_ms,
        request_timeout_ms=cluster.request_timeout_ms,
    )
    return Plan(
        name=name,
        story=" ".join(f"{number}. {sentence}" for number, sentence in enumerate(story, 1)),
        protocol=protocol,
        variant=None if VARIANTS.get(protocol) == variant else variant,
        draws=0,
        cluster=cluster,
        workload=WorkloadSpec(producers=1, consumers=0),
        promise=promise,
        faults_ms=1,
        quiet_ms=promise.bound_ms,
        path=path,
    )


def bounds_of(plan: Plan) -> Bounds:
    """The bounds within which the explorer can perform a plan's list of actions.

    ZooKeeper is asynchronous if the path has an action of ZooKeeper. Partitions can be moved if one broker has no replica.
    """
    zk_async = any(isinstance(action, ZkPerform | ZkHear) for action in plan.path)
    (topic,) = plan.cluster.topics
    return Bounds(
        brokers=plan.cluster.brokers,
        zk_async=zk_async,
        kip343=not plan.cluster.legacy_brokers,
        partitions=topic.partitions,
        moves=plan.cluster.brokers - topic.replication_factor,
    )


def refusal(plan: Plan) -> str | None:
    """Why the explorer cannot perform this plan; None if it can."""
    if not plan.path:
        return "backend explore performs only plans with a path"
    legacy = plan.cluster.legacy_brokers
    if legacy not in ((), _all_brokers(plan.cluster.brokers)):
        return "in a plan with a path all brokers must have one inter-broker protocol: legacy_brokers lists all of them or none"
    expected = replace(ClusterShape(topics=plan.cluster.topics), brokers=plan.cluster.brokers, legacy_brokers=legacy)
    topics = plan.cluster.topics
    brokers = plan.cluster.brokers
    whole = len(topics) == 1 and topics[0].name == TOPIC and topics[0].replication_factor in (brokers - 1, brokers)
    if plan.cluster != expected or not whole:
        return (
            f"a plan with a path must have one topic {TOPIC} with a replica on every broker, or on all but the last one, "
            "and default cluster settings"
        )
    if plan.schedule:
        return "a plan with a path must have no schedule"
    return None


def _all_brokers(brokers: int) -> tuple[int, ...]:
    return tuple(range(1, brokers + 1))
