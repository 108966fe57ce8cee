"""A plan: everything a run needs, runnable without the seed that made it.

Plain data with a text form (YAML). `draws` is the number from which every draw of the run is hashed with its purpose, so that
taking one fault out leaves the other draws alone. `complaints` decides whether a plan can be performed at all.
"""

from collections.abc import Iterator
from hashlib import blake2b
from typing import get_args

import msgspec
from msgspec import Struct

from highwater.errors import UsageError
from highwater.plans.actions import AnyAction
from history.event import EventKind
from history.promise import Promise
from history.store import name_complaint
from nemesis.faults import Clog, CrashAt, Packets
from nemesis.schedule import Shape, TopicFacts, Window, validate
from reference.config import VARIANTS, TopicSpec, Variant
from reference.effects import AnyEffect
from reference.messages import CONTROL_REQUESTS, AnyMessage
from workloads import script_rules
from workloads.parameters import Step
from workloads.registry import WORKLOADS

DRAWS_END = 1 << 64  # and of seeds


class ClusterShape(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The brokers and what they are started with; times in ms."""

    brokers: int = 3
    log_dirs: int = 1
    topics: tuple[TopicSpec, ...]
    later: tuple[TopicSpec, ...] = ()  # topics that the script makes
    session_timeout_ms: int = 6000
    replica_lag_time_max_ms: int = 4000
    request_timeout_ms: int = 2000
    fetch_wait_max_ms: int = 500
    checkpoint_interval_ms: int = 5000
    zookeeper: int = 1  # servers, 1 or 3; the simulator's is one whatever is said here
    legacy_brokers: tuple[int, ...] = ()  # those with the inter-broker protocol of before KIP-343


class NetworkShape(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Undisturbed delays of a link, one way, in microseconds; and of a flush."""

    delay_us_min: int = 200
    delay_us_max: int = 2000
    flush_us_min: int = 500
    flush_us_max: int = 5000


class WorkloadSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What clients try, by name from workloads.registry; rates are of all clients together."""

    name: str = "produce-consume"
    producers: int = 5
    consumers: int = 3
    produce_per_s: int = 50
    records_per_produce: int = 1
    acks: tuple[int, ...] = (-1,)  # each call draws one of these
    poll_interval_ms: int = 200
    request_timeout_ms: int = 2000
    seek_one_in: int = 0  # before one poll in so many a consumer seeks; 0: never
    idempotent: int = 0  # so many of the producers
    retries: int = 0  # of each produce that asks for an answer (message.send.max.retries)
    scratch: TopicSpec | None = None  # of create-delete: the topic that comes and goes


class Plan(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run to be performed."""

    name: str
    story: str = ""  # why this plan exists, for those who read it in corpus/
    protocol: str = "safe"  # a name of reference.config.VARIANTS; `variant` overrides it
    variant: Variant | None = None
    draws: int
    seed: int | None = None  # a note: the seed it was derived from
    cluster: ClusterShape
    network: NetworkShape = NetworkShape()
    workload: WorkloadSpec = WorkloadSpec()
    promise: Promise
    faults_ms: int = 60_000  # the workload and the schedule run this long, then everything is healed
    quiet_ms: int = 0  # then this long in quiet, at least the promise's bound
    schedule: tuple[Window, ...] = ()
    script: tuple[Step, ...] = ()  # what an administrator asks for, beside the workload
    path: tuple[AnyAction, ...] = ()  # of the explorer: these steps and nothing else, instead of time, workload and schedule
    required_marks: tuple[str, ...] = ()
    min_acked: int = 1
    limit_events: int = 20_000_000  # more handled events end the run as a failure of the laboratory


class PlanError(UsageError):
    """A plan that cannot be: malformed, of unknown parts, or one that cannot heal. The message is one line."""


Path = tuple[str | int, ...]  # where in a plan: ("schedule", 0, "until_ms")


class Complaint(Struct, frozen=True, kw_only=True):
    """Why a plan is refused, and where in it."""

    path: Path
    sentence: str


def plan_digest(plan: Plan) -> str:
    """32 hex digits over canonical bytes: equal for equal plans, whatever file they came from."""
    return blake2b(msgspec.json.encode(plan, order="deterministic"), digest_size=16).hexdigest()


def shape_of(plan: Plan) -> Shape:
    """What the nemesis must know of the cluster of a plan."""
    return Shape(
        brokers=plan.cluster.brokers,
        log_dirs=plan.cluster.log_dirs,
        topics=tuple(
            TopicFacts(name=t.name, partitions=t.partitions, min_insync_replicas=t.min_insync_replicas, flush=t.flush)
            for t in plan.cluster.topics
        ),
        control_requests=tuple(kebab(request.__name__) for request in CONTROL_REQUESTS),
        session_timeout_ms=plan.cluster.session_timeout_ms,
        replica_lag_time_max_ms=plan.cluster.replica_lag_time_max_ms,
        end_ms=plan.faults_ms,
    )


def topics_of(plan: Plan) -> tuple[TopicSpec, ...]:
    """The topics of the cluster, and those that administrators make."""
    scratch = () if plan.workload.scratch is None else (plan.workload.scratch,)
    return (*plan.cluster.topics, *plan.cluster.later, *scratch)


def complaints(plan: Plan) -> tuple[Complaint, ...]:
    """Everything that makes this plan impossible to perform or its run impossible to judge; empty for a good plan."""
    parts = (_identity, _cluster, _workload, _promise, _schedule, _script, _marks)
    return tuple(complaint for part in parts for complaint in part(plan))


def checked(plan: Plan) -> Plan:
    """The same plan; PlanError with the first complaint where there is one."""
    for complaint in complaints(plan):
        raise PlanError(f"plan {plan.name}: {complaint.sentence}")
    return plan


def unknown_protocol(name: str) -> str:
    """The sentence for a protocol that does not exist."""
    return f"unknown protocol {name!r}; there are {', '.join(VARIANTS)}"


def unknown_workload(name: str) -> str:
    """The sentence for a workload that does not exist."""
    return f"unknown workload {name!r}; there are {', '.join(WORKLOADS)}"


def _identity(plan: Plan) -> Iterator[Complaint]:
    refusal = name_complaint(plan.name)
    if refusal is not None:
        yield Complaint(path=("name",), sentence=f"plan name {refusal}")
    for name, number in (("draws", plan.draws), ("seed", plan.seed)):
        if number is not None and not 0 <= number < DRAWS_END:
            yield Complaint(path=(name,), sentence=f"{name} {number} is out of range; it is 0 to 2^64-1")


def _cluster(plan: Plan) -> Iterator[Complaint]:
    cluster = plan.cluster
    if plan.variant is None and plan.protocol not in VARIANTS:
        yield Complaint(path=("protocol",), sentence=unknown_protocol(plan.protocol))
    for name in ("brokers", "log_dirs", "session_timeout_ms", "replica_lag_time_max_ms", "request_timeout_ms"):
        if getattr(cluster, name) < 1:
            yield Complaint(path=("cluster", name), sentence=f"{name} must be at least 1")
    if cluster.zookeeper not in (1, 3):
        yield Complaint(path=("cluster", "zookeeper"), sentence=f"zookeeper is 1 or 3 servers, not {cluster.zookeeper}")
    if not cluster.topics:
        yield Complaint(path=("cluster", "topics"), sentence="there is no topic")
    seen: set[str] = set()
    for index, topic in enumerate(topics_of(plan)):
        path = ("cluster", "topics", index)
        if topic.name in seen:
            yield Complaint(path=path, sentence=f"topic {topic.name} is there twice")
        seen.add(topic.name)
        if not topic.name or topic.partitions < 1:
            yield Complaint(path=path, sentence=f"topic {topic.name!r} needs a name and at least one partition")
        if not 1 <= topic.replication_factor <= cluster.brokers:
            sentence = (
                f"topic {topic.name}: replication factor {topic.replication_factor} cannot be had from {cluster.brokers} brokers"
            )
            yield Complaint(path=(*path, "replication_factor"), sentence=sentence)
        if not 1 <= topic.min_insync_replicas <= topic.replication_factor:
            most = topic.replication_factor
            sentence = f"topic {topic.name}: min_insync_replicas {topic.min_insync_replicas} is not from 1 to {most}"
            yield Complaint(path=(*path, "min_insync_replicas"), sentence=sentence)


def _workload(plan: Plan) -> Iterator[Complaint]:
    workload = plan.workload
    if workload.name not in WORKLOADS:
        yield Complaint(path=("workload", "name"), sentence=unknown_workload(workload.name))
    if (workload.name == "create-delete") != (workload.scratch is not None):
        yield Complaint(path=("workload", "scratch"), sentence="scratch is the topic of create-delete, and of nothing else")
    if workload.consumers < 0:
        yield Complaint(path=("workload", "consumers"), sentence="consumers must not be below 0")
    for name in ("producers", "produce_per_s", "records_per_produce", "poll_interval_ms", "request_timeout_ms"):
        if getattr(workload, name) < 1:
            yield Complaint(path=("workload", name), sentence=f"{name} must be at least 1")
    if not 0 <= workload.idempotent <= workload.producers:
        yield Complaint(path=("workload", "idempotent"), sentence=f"idempotent is not from 0 to {workload.producers} producers")
    for name in ("retries", "seek_one_in"):
        if getattr(workload, name) < 0:
            yield Complaint(path=("workload", name), sentence=f"{name} must not be below 0")
    if not workload.acks or any(acks not in (-1, 0, 1) for acks in workload.acks):
        yield Complaint(path=("workload", "acks"), sentence="acks holds one or more of -1 (all), 0 and 1")
    network = plan.network
    for low, high in ((network.delay_us_min, network.delay_us_max), (network.flush_us_min, network.flush_us_max)):
        if not 0 <= low <= high:
            yield Complaint(path=("network",), sentence=f"a delay from {low} to {high} us is none")


def _promise(plan: Plan) -> Iterator[Complaint]:
    promised = {topic.topic for topic in plan.promise.topics}
    for topic in topics_of(plan):
        if topic.name not in promised:
            yield Complaint(path=("promise",), sentence=f"nothing is promised of topic {topic.name}")
    for name in ("session_timeout_ms", "replica_lag_time_max_ms", "request_timeout_ms"):
        # A bound below what the cluster runs with would call a cluster dead that is only slow.
        if getattr(plan.promise, name) < getattr(plan.cluster, name):
            yield Complaint(path=("promise", name), sentence=f"the promise's {name} is below the cluster's")
    if plan.faults_ms < 1:
        yield Complaint(path=("faults_ms",), sentence="faults_ms must be at least 1")
    if plan.quiet_ms < plan.promise.bound_ms:
        sentence = f"a plan that cannot heal: quiet_ms {plan.quiet_ms} is below the promise's bound of {plan.promise.bound_ms} ms"
        yield Complaint(path=("quiet_ms",), sentence=sentence)


def _schedule(plan: Plan) -> Iterator[Complaint]:
    for complaint in validate(plan.schedule, shape_of(plan)):
        yield Complaint(path=("schedule", complaint.index), sentence=complaint.sentence)
    messages = {kebab(message.__name__) for message in get_args(AnyMessage)}
    effects = {kebab(effect.__name__) for effect in get_args(AnyEffect)} | {f"send:{message}" for message in messages}
    for index, window in enumerate(plan.schedule):
        named = window.fault.kinds if isinstance(window.fault, Packets | Clog) else ()
        for kind in named:
            if kind not in messages:
                sentence = f"window {window.id}: unknown message {kind!r}; there are {', '.join(sorted(messages))}"
                yield Complaint(path=("schedule", index, "fault", "kinds"), sentence=sentence)
        if isinstance(window.fault, CrashAt) and window.fault.effect not in effects:
            sentence = f"window {window.id}: unknown effect {window.fault.effect!r}; there are {', '.join(sorted(effects))}"
            yield Complaint(path=("schedule", index, "fault", "effect"), sentence=sentence)


def _script(plan: Plan) -> Iterator[Complaint]:
    ground = script_rules.Ground(
        brokers=plan.cluster.brokers,
        topics={topic.name: topic.partitions for topic in plan.cluster.topics},
        later={topic.name: (topic.partitions, topic.replication_factor) for topic in plan.cluster.later},
        end_ms=plan.faults_ms,
    )
    for index, sentence in script_rules.complaints(plan.script, ground):
        yield Complaint(path=("script", index), sentence=sentence)


def kebab(name: str) -> str:
    """FetchReply -> fetch-reply."""
    return "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name).removeprefix("-")


def _marks(plan: Plan) -> Iterator[Complaint]:
    """A mark that cannot occur would make every run vacuous."""
    for index, mark in enumerate(plan.required_marks):
        known = [kind.value for kind in EventKind] + sorted({f"fault:{window.kind}" for window in plan.schedule})
        if mark not in known:
            sentence = f"mark {mark!r} can never occur; there are {', '.join(known)}"
            yield Complaint(path=("required_marks", index), sentence=sentence)
