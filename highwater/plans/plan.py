"""A plan: everything needed to perform and judge one run, without the seed that it was derived from.

Plain data with a text form (YAML). Every draw of the run is hashed from `draws` and the purpose of the draw, so removing one
fault does not change the other draws. `complaints` lists why a plan is invalid.
"""

from collections.abc import Iterator
from hashlib import blake2b
from typing import Literal, get_args

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from highwater.errors import UsageError
from highwater.plans.actions import AnyAction
from highwater.plans.systems import CONTROLLERS_MAX, REFERENCE, SystemSpec, unknown_versions, words_of
from history.errors import unknown
from history.event import EventKind
from history.promise import Promise
from history.store import name_complaint
from nemesis.faults import CrashAt, Join, Roll, ZkStep, kinds_of
from nemesis.messages import KINDS, QUORUM_FETCH, REPLY
from nemesis.schedule import Shape, TopicFacts, Window, validate
from nemesis.targets import INTERNAL, Named, OfPartition
from reference import switches
from reference.config import VARIANTS, TopicSpec, Variant
from reference.effects import AnyEffect
from reference.messages import CONTROL_REQUESTS, AnyMessage
from workloads import script_rules
from workloads.parameters import Asynchronous, AutoCommit, Step
from workloads.registry import (
    COMPACTED,
    GROUPS,
    INTERNAL_TOPICS_OF,
    OF_SESSIONS,
    READ_PROCESS_WRITE,
    SHARE_GROUPS,
    TRANSACTIONS,
    WITH_GROUPS,
    WORKLOADS,
    ZOMBIES,
    requests_of,
)

CLIENTS_MAX = 10_000  # of a kind in a run: each is a process of the history
METRICS_MS_MIN, METRICS_MS_MAX = 100, 1000
_READ_BY = {"membership": WITH_GROUPS, "stranger_first": ("misuse", "everything"), "auto_commit": (GROUPS,)}  # workloads
DRAWS_END = 1 << 64  # exclusive bound of `draws` and of seeds


class ClusterShape(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The cluster of a plan: its brokers, their settings and the topics; times in ms."""

    brokers: int = 3
    log_dirs: int = 1
    topics: tuple[TopicSpec, ...]
    later: tuple[TopicSpec, ...] = ()  # topics that the script creates
    session_timeout_ms: int = 6000
    replica_lag_time_max_ms: int = 4000
    request_timeout_ms: int = 2000
    fetch_wait_max_ms: int = 500
    fetch_max_bytes: int | UnsetType = UNSET  # of one fetch between brokers (replica.fetch.max.bytes); no limit if unset
    producer_id_block_size: int | UnsetType = UNSET  # ids of producers that a broker reserves at once; 1000 if unset
    checkpoint_interval_ms: int = 5000
    reassign_interval_ms: int | UnsetType = UNSET  # the longest pause of the reassignment agent; 1 s if unset
    lag_max_records: int | UnsetType = UNSET  # replica.lag.max.messages; 4000 if unset
    zookeeper: int = 1  # servers, 1 or 3
    zookeeper_write_ms: int | UnsetType = UNSET  # of one transaction, one after the other (V3, Discussion 1); no time if unset
    legacy_brokers: tuple[int, ...] = ()  # ids of brokers with the inter-broker protocol before KIP-343


class NetworkShape(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Ranges of the delays without faults, in microseconds: one way over a link, and of a flush to disk."""

    delay_us_min: int = 200
    delay_us_max: int = 2000
    flush_us_min: int = 500
    flush_us_max: int = 5000


# How the members of a group keep their place: they give up only what they lose (KIP-429), they have a name that outlives them
# (KIP-345), or the coordinator assigns (KIP-848).
Membership = Literal["cooperative", "static", "consumer"]


class WorkloadSpec(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The workload of the clients, by name from workloads.registry; rates are totals of all clients."""

    name: str = "produce-consume"
    producers: int = 5
    consumers: int = 3
    produce_per_s: int = 50
    records_per_produce: int = 1
    acks: tuple[int, ...] = (-1,)  # each produce draws one of these
    poll_interval_ms: int = 200
    request_timeout_ms: int = 2000
    seek_one_in: int = 0  # a consumer seeks before one poll in this many; 0: never
    idempotent: int = 0  # number of idempotent producers
    retries: int = 0  # of each produce with acks other than 0 (message.send.max.retries)
    asynchronous: Asynchronous | UnsetType = UNSET  # more producers, which send in the background
    places: int = 1  # over which the clients are spread in turn; link faults cut one place and not the others
    scratch: TopicSpec | None = None  # the topic that create-delete and everything create and delete
    edits: bool | UnsetType = UNSET  # an operator edits znodes under /admin by hand
    client: str | UnsetType = UNSET  # the library of the clients on real brokers, such as java:4.1.0; librdkafka if unset
    membership: Membership | UnsetType = UNSET  # of the members of a group; each is new, and all stop for a rebalance if unset
    auto_commit: AutoCommit | UnsetType = UNSET  # of the members of a group; they commit by calls if unset
    only: tuple[int, ...] | UnsetType = UNSET  # numbers, from 0, of the produces that each producer makes; all if unset
    stranger_first: bool | UnsetType = UNSET  # the client of misuse names an unknown producer before its first right request


Hazard = Literal["unknown-hw", "parted-logs", "missed-elections", "outlived-isr", "last-replica", "orphan-request"]
ZOOKEEPER_WRITE_MS_MAX = 30  # the promise of promptness counts steps, and a slower ZooKeeper would be blamed on the brokers


class Plan(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that is needed to perform one run: cluster, workload, fault schedule and time limits. Times are in ms."""

    name: str
    story: str = ""  # why this plan exists
    protocol: str = "safe"  # a name of reference.config.VARIANTS; `variant` overrides it
    variant: Variant | None = None
    system: SystemSpec | UnsetType = UNSET  # the reference if unset; another system has no `protocol` of ours
    draws: int
    seed: int | None = None  # the seed it was derived from; for information only
    derivation: int | UnsetType = UNSET  # version of `derive` that gave this plan for the seed; for information only
    cluster: ClusterShape
    network: NetworkShape = NetworkShape()
    workload: WorkloadSpec = WorkloadSpec()
    promise: Promise
    faults_ms: int = 60_000  # length of workload and schedule; then all faults are healed
    quiet_ms: int = 0  # length of the fault-free time after that, at least the promise's bound
    audit_ms: int = 0  # then each kind of request is sent once, for so long (docs/promise.md LIVE-5); 0: no audit
    schedule: tuple[Window, ...] = ()
    script: tuple[Step, ...] = ()  # requests of an administrator, beside the workload
    path: tuple[AnyAction, ...] = ()  # of the explorer: exactly these actions, instead of workload and schedule
    required_marks: tuple[str, ...] = ()
    hazard: Hazard | UnsetType = UNSET  # what the plan is about; a run that does not meet it is vacuous (highwater.runs.hazards)
    min_acked: int = 1
    metrics_ms: int | UnsetType = UNSET  # how often the metrics of each broker are read and recorded; never if unset
    limit_events: int = 20_000_000  # more handled events end the run as a failure of the harness


def system_of(plan: Plan) -> SystemSpec:
    """The system that a plan names, or the reference."""
    return SystemSpec(name=REFERENCE) if plan.system is UNSET else plan.system


def joining(plan: Plan) -> frozenset[int]:
    """The ids of the brokers that are not there at first: they join the running cluster."""
    joins = (window.target for window in plan.schedule if isinstance(window.fault, Join))
    return frozenset(broker for target in joins if isinstance(target, Named) for broker in target.brokers)


def names_releases(plan: Plan) -> bool:
    """Whether a plan says which release of the reference its brokers are; else all are the newest."""
    return not is_foreign(plan) and (plan.system is not UNSET or any(isinstance(window.fault, Roll) for window in plan.schedule))


def on_system(plan: Plan, system: SystemSpec) -> Plan:
    """The plan with another system. Settings in the plan stay if they are of the system with this name.

    So do the versions of the reference that a roll in the plan leads from.
    """
    if system == SystemSpec(name=REFERENCE):
        return replace(plan, system=UNSET) if is_foreign(plan) else plan
    before = system_of(plan)
    settings = before.settings if before.name == system.name else {}
    return replace(plan, system=replace(system, settings={**settings, **system.settings}))


def is_foreign(plan: Plan) -> bool:
    """Whether the plan's system is another than the reference; then the plan's protocol means nothing."""
    return system_of(plan).name != REFERENCE


def beyond_reference(plan: Plan) -> str | None:
    """Why the reference cannot perform the plan's workload, in a sentence; None if it can, or is not the plan's system."""
    if is_foreign(plan):
        return None
    if any(step.do == "alter-config" for step in plan.script):
        return "the reference changes no settings of topics: alter-config needs another system, such as --system kafka:4.1.0"
    if plan.workload.name not in (*OF_SESSIONS, COMPACTED):
        aimed = [window.target.topic for window in plan.schedule if isinstance(window.target, OfPartition)]
        internal = next((topic for topic in aimed if topic.startswith(INTERNAL)), None)
        return None if internal is None else f"the reference has no internal topic {internal}"
    lacking = {"groups": "consumer groups", SHARE_GROUPS: "share groups", COMPACTED: "topics that are compacted"}
    lacks = lacking.get(plan.workload.name, "transactions")
    system = "kafka:4.2.0" if plan.workload.name == SHARE_GROUPS else "kafka:3.9.1"
    return f"the reference has no {lacks}; the workload {plan.workload.name!r} needs another system, such as --system {system}"


def _unspeakable(plan: Plan) -> str | None:
    """Why the brokers of the reference cannot start as the versions that the plan names, in a sentence; None if they can."""
    system = system_of(plan)
    if system.name != REFERENCE:
        return None
    if len(system.starts) not in (0, 1, plan.cluster.brokers):
        each = f"one for each of the {plan.cluster.brokers}"
        return f"starts must name one version for all brokers, or {each}, not {len(system.starts)}"
    variant = plan.variant or VARIANTS.get(plan.protocol)
    if "v3" in (system.version, *system.starts) and variant is not None and variant.controller_epoch:
        return "requests in V3's layouts carry no controller epoch: the version v3 needs a protocol without one, --protocol v3"
    return None


class PlanError(UsageError):
    """An invalid plan: malformed, with unknown names, or with too little time to heal. The message is one line."""


Path = tuple[str | int, ...]  # where in a plan: ("schedule", 0, "until_ms")


class Complaint(Struct, frozen=True, kw_only=True):
    """The reason why a plan is refused, and the path of the wrong value in the plan."""

    path: Path
    sentence: str


def plan_digest(plan: Plan) -> str:
    """The digest of a plan: 32 hex digits over its canonical encoding; equal plans have equal digests.

    The version of the derivation does not count: a plan that two versions derive alike is the same plan. Neither does the hazard,
    by which a run is read and not performed.
    """
    performed = replace(plan, derivation=UNSET, hazard=UNSET)
    return blake2b(msgspec.json.encode(performed, order="deterministic"), digest_size=16).hexdigest()


def shape_of(plan: Plan) -> Shape:
    """The facts about a plan's cluster on which its fault schedule depends."""
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
        zookeeper=plan.cluster.zookeeper,
        places=plan.workload.places,
        requests=requests_of(plan.workload.name),
        internal_topics=INTERNAL_TOPICS_OF.get(plan.workload.name, ()) if is_foreign(plan) else (),
    )


def topics_of(plan: Plan) -> tuple[TopicSpec, ...]:
    """All topics of a plan: those that exist at the start and those that its clients create."""
    scratch = () if plan.workload.scratch is None else (plan.workload.scratch,)
    return (*plan.cluster.topics, *plan.cluster.later, *scratch)


def complaints(plan: Plan) -> tuple[Complaint, ...]:
    """All reasons why this plan cannot be performed or its run cannot be judged; empty for a valid plan."""
    parts = (
        _complaints_of_identity,
        _complaints_of_cluster,
        _complaints_of_workload,
        _complaints_of_promise,
        _complaints_of_metrics,
        _complaints_of_schedule,
        _complaints_of_script,
        _complaints_of_marks,
    )
    return tuple(complaint for part in parts for complaint in part(plan))


def checked(plan: Plan) -> Plan:
    """Return the plan if it is valid; otherwise raise PlanError with the first complaint."""
    for complaint in complaints(plan):
        raise PlanError(f"plan {plan.name}: {complaint.sentence}")
    return plan


def unknown_protocol(name: str) -> str:
    """The error message for an unknown protocol."""
    return unknown("protocol", name, VARIANTS)


WITH_SCRATCH = ("create-delete", "everything")  # workloads that create and delete a topic

# Of the cluster. A timer of 0 ms would fire for ever without the simulated clock moving on.
_AT_LEAST_ONE = (
    "brokers",
    "log_dirs",
    "session_timeout_ms",
    "replica_lag_time_max_ms",
    "request_timeout_ms",
    "fetch_wait_max_ms",
    "checkpoint_interval_ms",
)


def _complaints_of_identity(plan: Plan) -> Iterator[Complaint]:
    """Complaints about names and numbers."""
    refusal = name_complaint(plan.name)
    if refusal is not None:
        yield Complaint(path=("name",), sentence=f"plan name {refusal}")
    if plan.system is not UNSET:
        refusal = name_complaint(words_of(plan.system).replace(":", "-"))
        if refusal is not None:
            yield Complaint(path=("system",), sentence=f"the name and version of the system {refusal}")
    apart = system_of(plan).controllers
    if apart is not UNSET and not 1 <= apart <= CONTROLLERS_MAX:
        yield Complaint(
            path=("system", "controllers"), sentence=f"system.controllers must be 1 to {CONTROLLERS_MAX}, not {apart}"
        )
    versions = unknown_versions(system_of(plan)) or _unspeakable(plan)
    if versions is not None:
        yield Complaint(path=("system",), sentence=versions)
    for name, number in (("draws", plan.draws), ("seed", plan.seed)):
        if number is not None and not 0 <= number < DRAWS_END:
            yield Complaint(path=(name,), sentence=f"{name} must be from 0 to 2^64-1, not {number}")


def _complaints_of_switches(plan: Plan) -> Iterator[Complaint]:
    """Complaints about switches of the plan's own variant that do nothing as the others are set."""
    if plan.variant is None or is_foreign(plan):
        return
    explored = bool(plan.path)  # the explorer asks for moves on either path, and its brokers speak the protocol before KIP-343
    old = explored or bool(plan.cluster.legacy_brokers) or names_releases(plan)
    for switch, sentence in switches.unmet(plan.variant, asked=not explored, old=old):
        yield Complaint(path=("variant", switch), sentence=sentence)


def _complaints_of_cluster(plan: Plan) -> Iterator[Complaint]:
    """Complaints about the cluster and its topics."""
    cluster = plan.cluster
    if plan.variant is None and plan.protocol not in VARIANTS:
        yield Complaint(path=("protocol",), sentence=unknown_protocol(plan.protocol))
    yield from _complaints_of_switches(plan)
    for name in _AT_LEAST_ONE:
        if getattr(cluster, name) < 1:
            yield Complaint(path=("cluster", name), sentence=f"{name} must be at least 1, not {getattr(cluster, name)}")
    for name in ("fetch_max_bytes", "producer_id_block_size", "reassign_interval_ms", "lag_max_records", "zookeeper_write_ms"):
        value = getattr(cluster, name)
        if value is not UNSET and value < 1:
            yield Complaint(path=("cluster", name), sentence=f"{name} must be at least 1, not {value}")
    if cluster.zookeeper_write_ms is not UNSET and cluster.zookeeper_write_ms > ZOOKEEPER_WRITE_MS_MAX:
        sentence = f"zookeeper_write_ms must be at most {ZOOKEEPER_WRITE_MS_MAX}, not {cluster.zookeeper_write_ms}"
        yield Complaint(path=("cluster", "zookeeper_write_ms"), sentence=sentence)
    if cluster.zookeeper not in (1, 3):
        yield Complaint(path=("cluster", "zookeeper"), sentence=f"zookeeper must be 1 or 3 servers, not {cluster.zookeeper}")
    if not cluster.topics:
        yield Complaint(path=("cluster", "topics"), sentence="topics must not be empty")
    names_before: set[str] = set()
    for index, topic in enumerate(topics_of(plan)):
        path = ("cluster", "topics", index)
        if topic.name in names_before:
            yield Complaint(path=path, sentence=f"topic {topic.name} is listed twice")
        names_before.add(topic.name)
        if not topic.name:
            yield Complaint(path=path, sentence="the name of a topic must not be empty")
        if topic.partitions < 1:
            yield Complaint(path=path, sentence=f"topic {topic.name}: partitions must be at least 1, not {topic.partitions}")
        there = cluster.brokers - len(joining(plan))
        if not 1 <= topic.replication_factor <= there:
            allowed = f"from 1 to {there} (the number of brokers{'' if there == cluster.brokers else ' that are there at first'})"
            sentence = f"topic {topic.name}: replication_factor must be {allowed}, not {topic.replication_factor}"
            yield Complaint(path=(*path, "replication_factor"), sentence=sentence)
        if not 1 <= topic.min_insync_replicas <= topic.replication_factor:
            allowed = f"from 1 to {topic.replication_factor} (the replication factor)"
            sentence = f"topic {topic.name}: min_insync_replicas must be {allowed}, not {topic.min_insync_replicas}"
            yield Complaint(path=(*path, "min_insync_replicas"), sentence=sentence)


def _complaints_of_workload(plan: Plan) -> Iterator[Complaint]:
    """Complaints about the workload and the network."""
    workload = plan.workload
    if workload.name not in WORKLOADS:
        yield Complaint(path=("workload", "name"), sentence=unknown("workload", workload.name, WORKLOADS))
    if (workload.name in WITH_SCRATCH) != (workload.scratch is not None):
        these = " and ".join(WITH_SCRATCH)
        need = "needs a scratch topic" if workload.scratch is None else f"has no scratch topic; only {these} have one"
        yield Complaint(path=("workload", "scratch"), sentence=f"workload {workload.name} {need}")
    for name, workloads in _READ_BY.items():
        if getattr(workload, name) is not UNSET and workload.name not in workloads:
            these = f"workload{'s' * (len(workloads) > 1)} {' and '.join(workloads)}"
            yield Complaint(path=("workload", name), sentence=f"{name} is of the {these}, not of {workload.name}")
    if workload.only is not UNSET and workload.name in (TRANSACTIONS, ZOMBIES):
        sentence = f"only names produces outside of transactions, of which workload {workload.name} makes none"
        yield Complaint(path=("workload", "only"), sentence=sentence)
    if workload.auto_commit is not UNSET and not 1 <= workload.auto_commit.interval_ms <= 86_400_000:  # librdkafka's limit
        sentence = f"auto_commit: interval_ms must be from 1 to 86400000, not {workload.auto_commit.interval_ms}"
        yield Complaint(path=("workload", "auto_commit", "interval_ms"), sentence=sentence)
    if workload.name == READ_PROCESS_WRITE and len(plan.cluster.topics) < 2:
        sentence = f"workload {workload.name} needs two topics or more: the last one takes the results of the others"
        yield Complaint(path=("cluster", "topics"), sentence=sentence)
    if workload.name == ZOMBIES and workload.producers < 2:
        sentence = f"workload {workload.name} needs at least 2 producers, which share an id, not {workload.producers}"
        yield Complaint(path=("workload", "producers"), sentence=sentence)
    if workload.consumers < 0:
        yield Complaint(path=("workload", "consumers"), sentence=f"consumers must be at least 0, not {workload.consumers}")
    for name in ("producers", "produce_per_s", "records_per_produce", "poll_interval_ms", "request_timeout_ms", "places"):
        if getattr(workload, name) < 1:
            yield Complaint(path=("workload", name), sentence=f"{name} must be at least 1, not {getattr(workload, name)}")
    for name in ("producers", "consumers", "places"):
        if getattr(workload, name) > CLIENTS_MAX:
            sentence = f"{name} must be at most {CLIENTS_MAX}, not {getattr(workload, name)}"
            yield Complaint(path=("workload", name), sentence=sentence)
    if not 0 <= workload.idempotent <= workload.producers:
        sentence = f"idempotent must be from 0 to {workload.producers} (the number of producers), not {workload.idempotent}"
        yield Complaint(path=("workload", "idempotent"), sentence=sentence)
    for name in ("retries", "seek_one_in"):
        if getattr(workload, name) < 0:
            yield Complaint(path=("workload", name), sentence=f"{name} must be at least 0, not {getattr(workload, name)}")
    spec = Asynchronous() if workload.asynchronous is UNSET else workload.asynchronous
    for name, least in (("producers", 1), ("retries", 0), ("in_flight", 1)):
        if getattr(spec, name) < least:
            sentence = f"{name} must be at least {least}, not {getattr(spec, name)}"
            yield Complaint(path=("workload", "asynchronous", name), sentence=sentence)
    if spec.producers * (1 + spec.in_flight) > CLIENTS_MAX:
        sentence = f"producers with in_flight senders each make more than {CLIENTS_MAX} clients"
        yield Complaint(path=("workload", "asynchronous"), sentence=sentence)
    if workload.asynchronous is not UNSET and workload.name in (TRANSACTIONS, READ_PROCESS_WRITE, ZOMBIES):
        sentence = f"asynchronous producers would write among the records that workload {workload.name!r} judges"
        yield Complaint(path=("workload", "asynchronous"), sentence=sentence)
    if not workload.acks or any(acks not in (-1, 0, 1) for acks in workload.acks):
        sentence = f"acks must be one or more of -1 (all), 0 and 1, not {list(workload.acks)}"
        yield Complaint(path=("workload", "acks"), sentence=sentence)
    if workload.only is not UNSET and any(number < 0 for number in workload.only):
        yield Complaint(path=("workload", "only"), sentence=f"only must have numbers from 0 on, not {min(workload.only)}")
    network = plan.network
    for name, low, high in (
        ("delay_us", network.delay_us_min, network.delay_us_max),
        ("flush_us", network.flush_us_min, network.flush_us_max),
    ):
        if low < 0:
            yield Complaint(path=("network",), sentence=f"{name}_min must be at least 0, not {low}")
        if low > high:
            yield Complaint(path=("network",), sentence=f"{name}_min must not exceed {name}_max ({low} > {high})")


def _complaints_of_promise(plan: Plan) -> Iterator[Complaint]:
    """Complaints about the promise and the lengths of phases."""
    topics = {topic.name: topic for topic in topics_of(plan)}
    promised = {topic.topic for topic in plan.promise.topics}
    for index, topic_promise in enumerate(plan.promise.topics):
        path, name, least_isr = ("promise", "topics", index), topic_promise.topic, topic_promise.min_insync_replicas
        if least_isr < 1:
            sentence = f"topic {name}: min_insync_replicas must be at least 1, not {least_isr}"
            yield Complaint(path=(*path, "min_insync_replicas"), sentence=sentence)
        topic = topics.get(name)
        if topic is None:
            continue
        # A promise of more than the topic has would accuse a cluster of what it never offered.
        if least_isr > topic.min_insync_replicas:
            sentence = f"the promise of topic {name} has min_insync_replicas {least_isr}, the topic {topic.min_insync_replicas}"
            yield Complaint(path=(*path, "min_insync_replicas"), sentence=sentence)
        if (topic_promise.flush, topic.flush) == ("before_ack", "none"):
            yield Complaint(path=(*path, "flush"), sentence=f"the promise of topic {name} has flush before_ack, the topic none")
        if (topic_promise.keeps is UNSET) == (plan.workload.name == COMPACTED):
            need = "keeps" if topic_promise.keeps is UNSET else "promises no more than"
            sentence = f"the promise of topic {name}: workload {plan.workload.name} {need} the last record of each key (keeps)"
            yield Complaint(path=(*path, "keeps"), sentence=sentence)
    yield from (
        Complaint(path=("promise",), sentence=f"promise.topics must list topic {name}") for name in topics if name not in promised
    )
    for name in ("session_timeout_ms", "replica_lag_time_max_ms", "request_timeout_ms"):
        # With a lower value than the cluster's, a slow cluster would be judged as not live.
        if getattr(plan.promise, name) < getattr(plan.cluster, name):
            least, promised_value = getattr(plan.cluster, name), getattr(plan.promise, name)
            sentence = f"{name} of the promise must be at least the cluster's ({least}), not {promised_value}"
            yield Complaint(path=("promise", name), sentence=sentence)
    if plan.min_acked < 0:
        yield Complaint(path=("min_acked",), sentence=f"min_acked must be at least 0, not {plan.min_acked}")
    if plan.faults_ms < 1:
        yield Complaint(path=("faults_ms",), sentence=f"faults_ms must be at least 1, not {plan.faults_ms}")
    if plan.quiet_ms < plan.promise.bound_ms:
        sentence = f"quiet_ms must be at least the promise's bound ({plan.promise.bound_ms}), not {plan.quiet_ms}"
        yield Complaint(path=("quiet_ms",), sentence=sentence)
    if plan.audit_ms < 0:
        yield Complaint(path=("audit_ms",), sentence=f"audit_ms must be at least 0, not {plan.audit_ms}")


def _complaints_of_metrics(plan: Plan) -> Iterator[Complaint]:
    """Complaints about the period of scrapes: what they tell is compared with what has stood for some seconds."""
    if plan.metrics_ms is not UNSET and not METRICS_MS_MIN <= plan.metrics_ms <= METRICS_MS_MAX:
        sentence = f"metrics_ms must be from {METRICS_MS_MIN} to {METRICS_MS_MAX}, not {plan.metrics_ms}"
        yield Complaint(path=("metrics_ms",), sentence=sentence)


def _complaints_of_schedule(plan: Plan) -> Iterator[Complaint]:
    """Complaints about the fault windows."""
    for complaint in validate(plan.schedule, shape_of(plan)):
        yield Complaint(path=("schedule", complaint.index), sentence=complaint.sentence)
    own = {kebab(message.__name__) for message in get_args(AnyMessage)}
    requests = {*KINDS.values(), QUORUM_FETCH}
    messages = own | requests | {f"{request}{REPLY}" for request in requests}
    effects = {kebab(effect.__name__) for effect in get_args(AnyEffect)} | {f"send:{message}" for message in own}
    effects |= {f"zk-request:{step}" for step in get_args(ZkStep)}
    for index, window in enumerate(plan.schedule):
        for kind in kinds_of(window.fault):
            if kind not in messages:
                sentence = f"window {window.id}: {unknown('message', kind, sorted(messages))}"
                yield Complaint(path=("schedule", index, "fault", "kinds"), sentence=sentence)
        if isinstance(window.fault, CrashAt) and window.fault.effect not in effects:
            sentence = f"window {window.id}: unknown effect {window.fault.effect!r}; known: {', '.join(sorted(effects))}"
            yield Complaint(path=("schedule", index, "fault", "effect"), sentence=sentence)


def _complaints_of_script(plan: Plan) -> Iterator[Complaint]:
    """Complaints about the administrator's script."""
    ground = script_rules.Ground(
        brokers=plan.cluster.brokers,
        topics={topic.name: topic.partitions for topic in plan.cluster.topics},
        later={topic.name: (topic.partitions, topic.replication_factor) for topic in plan.cluster.later},
        end_ms=plan.faults_ms,
    )
    for index, sentence in script_rules.complaints(plan.script, ground):
        yield Complaint(path=("script", index), sentence=sentence)


def kebab(name: str) -> str:
    """Convert a class name to the name that plans use: FetchReply -> fetch-reply."""
    return "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name).removeprefix("-")


def _complaints_of_marks(plan: Plan) -> Iterator[Complaint]:
    """Refuse marks that cannot occur, because they would make every run UNKNOWN."""
    for index, mark in enumerate(plan.required_marks):
        marks = [kind.value for kind in EventKind] + sorted({f"fault:{window.kind}" for window in plan.schedule})
        if mark not in marks:
            sentence = f"unknown mark {mark!r}; known: {', '.join(marks)}"
            yield Complaint(path=("required_marks", index), sentence=sentence)
    partitions = sum(topic.partitions for topic in plan.cluster.topics)
    if plan.hazard not in (UNSET, "orphan-request") and partitions != 1:
        yield Complaint(path=("hazard",), sentence=f"a plan with a hazard must have one partition, not {partitions}")
