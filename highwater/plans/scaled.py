"""A plan for a cluster of a user, which has as many nodes as it has, and topics of other names.

A larger cluster has nodes that no window names. In a smaller one topics have fewer replicas; a plan that names a broker which it
does not have is not for it. The names of the plan's topics get a prefix, so that they are not those of other topics.
"""

from collections.abc import Callable

from msgspec.structs import replace

from highwater.plans.plan import Plan
from nemesis.schedule import Window
from nemesis.targets import INTERNAL, IsrMember, Named, OfPartition, Random
from reference.config import TopicSpec


def scaled(plan: Plan, brokers: int) -> Plan:
    """The plan on so many brokers, whose topics have at most as many replicas; the plan itself if `beyond` has a reason."""
    if brokers == plan.cluster.brokers or beyond(plan, brokers) is not None:
        return plan
    topics = tuple(_fewer_replicas(topic, brokers) for topic in plan.cluster.topics)
    later = tuple(_fewer_replicas(topic, brokers) for topic in plan.cluster.later)
    scratch = None if plan.workload.scratch is None else _fewer_replicas(plan.workload.scratch, brokers)
    own = () if scratch is None else (scratch,)
    in_sync = {topic.name: topic.min_insync_replicas for topic in (*topics, *later, *own)}
    promised = tuple(
        replace(topic, min_insync_replicas=in_sync.get(topic.topic, topic.min_insync_replicas)) for topic in plan.promise.topics
    )
    cluster = replace(plan.cluster, brokers=brokers, topics=topics, later=later)
    workload = replace(plan.workload, scratch=scratch)
    return replace(plan, cluster=cluster, workload=workload, promise=replace(plan.promise, topics=promised))


def prefixed(plan: Plan, prefix: str) -> Plan:
    """The plan with this prefix before the names of its topics, where they do not begin with it."""
    return _renamed(plan, lambda name: name if name.startswith(prefix) else prefix + name)


def own_topics(plan: Plan) -> Plan:
    """The plan with topics that no plan of another name has: `seed-7.orders`; so runs on one cluster can be told apart.

    Topics that were another plan's are renamed.
    """
    return _renamed(plan, lambda name: f"{plan.name}.{name.rpartition('.')[2]}")


def _renamed(plan: Plan, named: Callable[[str], str]) -> Plan:
    """The plan with other names of its topics, wherever it has them."""

    def renamed(topics: tuple[TopicSpec, ...]) -> tuple[TopicSpec, ...]:
        return tuple(replace(topic, name=named(topic.name)) for topic in topics)

    cluster = replace(plan.cluster, topics=renamed(plan.cluster.topics), later=renamed(plan.cluster.later))
    (scratch,) = (None,) if plan.workload.scratch is None else renamed((plan.workload.scratch,))
    script = tuple(replace(step, topic=named(step.topic)) if step.topic else step for step in plan.script)
    promised = tuple(replace(topic, topic=named(topic.topic)) for topic in plan.promise.topics)
    schedule = tuple(
        replace(window, target=replace(window.target, topic=named(window.target.topic)))
        if isinstance(window.target, OfPartition) and not window.target.topic.startswith(INTERNAL)
        else window
        for window in plan.schedule
    )
    return replace(
        plan,
        cluster=cluster,
        workload=replace(plan.workload, scratch=scratch),
        promise=replace(plan.promise, topics=promised),
        schedule=schedule,
        script=script,
    )


def beyond(plan: Plan, brokers: int) -> str | None:
    """What of a plan needs more brokers than these, in a sentence; None if nothing."""
    named = max((broker for step in plan.script for replicas in step.replicas for broker in replicas), default=0)
    if named > brokers:
        return f"its script names b{named}"
    return next((why for window in plan.schedule if (why := beyond_in(window, plan, brokers)) is not None), None)


def beyond_in(window: Window, plan: Plan, brokers: int) -> str | None:
    """Why a window of a plan has nothing to hit among so many brokers, in a sentence; None if it has."""
    named = window.target.brokers if isinstance(window.target, Named) else ()
    peer: int | None = getattr(window.fault, "peer", None)  # several faults of links have one
    missing = [broker for broker in (*named, peer or 0) if broker > brokers]
    words = f"window {window.id} ({window.kind})"
    if missing:
        return f"{words} names b{missing[0]}"
    if isinstance(window.target, Random) and window.target.count > brokers:
        return f"{words} hits {window.target.count} brokers"
    if isinstance(window.target, IsrMember):
        name = window.target.topic
        replicas = next((topic.replication_factor for topic in plan.cluster.topics if topic.name == name), brokers)  # or internal
        return None if min(replicas, brokers) > 1 else f"{words} hits a follower, and there is none"
    return None


def _fewer_replicas(topic: TopicSpec, brokers: int) -> TopicSpec:
    replicas = min(topic.replication_factor, brokers)
    return replace(topic, replication_factor=replicas, min_insync_replicas=min(topic.min_insync_replicas, replicas))
