"""Derives a plan from a seed. Everything random about a run is drawn here; the plan runs without the seed.

Each part has a random stream of its own name, so a new draw in one part does not change the other parts of old seeds. A value
that the caller gives (faults, brokers, seconds) replaces a draw without shifting the others.

A seed means something only together with the version of its derivation, DERIVATION. It stands in each plan, manifest and repeat
line, and a seed of another version is refused. After a change of what is drawn:

    raise DERIVATION, enter the last commit of the earlier version in LAST_COMMITS
    python -m tests.tidy.derivation --rewrite

Seeds of systems other than the reference have a version of their own, OF_SYSTEMS: beside what the reference is given, they draw
faults of single messages (`nemesis.message_kinds`), which no simulated connection can pick. It is raised with DERIVATION too.
"""

from collections.abc import Sequence

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from highwater.plans.plan import (
    WITH_SCRATCH,
    ClusterShape,
    NetworkShape,
    Plan,
    PlanError,
    WorkloadSpec,
    checked,
    shape_of,
    unknown_protocol,
)
from highwater.plans.systems import REFERENCE, SystemSpec
from history.errors import unknown
from history.fault_kinds import FAMILIES
from history.promise import Flush, Keeps, Promise, TopicPromise, time_to_replace_ms
from history.seed import Rng
from nemesis.generate import FOR_LONG, generate
from nemesis.kinds import KINDS, UnknownKindError, kind, select
from nemesis.profiles import PROFILES, Profile, ProfileName, default_kinds
from nemesis.schedule import Window
from reference.config import DOCUMENT_SETTINGS, VARIANTS, TopicSpec
from workloads.registry import COMPACTED, READ_PROCESS_WRITE, WORKLOADS

DERIVATION = 3
LAST_COMMITS: dict[int, str] = {1: "bd7e1ed", 2: "afd934e2"}  # the last commit of each earlier version
OF_SYSTEMS = 4
LAST_COMMITS_OF_SYSTEMS: dict[int, str] = {1: "bd7e1ed", 2: "afd934e2", 3: "2dd1ddc4"}
_MESSAGES = FAMILIES["message"]

PLAIN = "produce-consume"
MIXED = "mixed"  # each seed draws a workload
_MIX = (PLAIN, "everything", "everything", "everything", "everything", "everything")
_TOPICS = ("orders", "payments", "events")
_SIZES = (3, 3, 3, 4, 5)  # brokers of a cluster
_STORMY = ("admin-storm", "everything")  # workloads that move partitions
_STORMY_SIZES = (3, 4, 4, 5, 5)  # brokers where partitions are moved
_AUDIT_MS = 8000
_SERVERS = (1, 1, 1, 3)  # of ZooKeeper
_PLACES = (1, 2, 3)  # of clients
# Kinds of faults that came after the plan of the benchmarks, whose figures are compared over time
LATER = ("power-loss-unseen", *(entry.name for entry in KINDS if entry.family in ("step", "combined", "roll")))
_BENCH_SEEDS_MAX = 1000
_QUIET_SLACK_MS = 2000  # added to the promise's bound, so that final reads do not race its last millisecond
_MIN_ACKED = 5


class Wishes(Struct, frozen=True, kw_only=True):
    """Values that the caller sets in a plan; None means that the value is drawn from the seed."""

    brokers: int | None = None
    produce_per_s: int | None = None
    flush: Flush | None = None
    alike: bool = False  # the same brokers for all seeds, with short timeouts


NO_WISHES = Wishes()
# What brokers are started with, where all seeds have the same ones: a cluster can then perform one seed after the other.
_ALIKE = ClusterShape(
    brokers=3,
    topics=(),
    session_timeout_ms=2000,
    replica_lag_time_max_ms=1000,
    request_timeout_ms=500,
    fetch_wait_max_ms=250,
    checkpoint_interval_ms=1000,
)
_ALIKE_PLACES = (2,)
_FLUSHES: tuple[tuple[Flush, ...], ...] = (("before_ack",), ("before_ack",), ("none",), ("none", "before_ack"))


def derive(
    seed: int,
    *,
    protocol: str = "safe",
    faults: Sequence[str] = (),
    profile: ProfileName = "within",
    seconds: int | None = None,
    workload: str = PLAIN,
    wishes: Wishes = NO_WISHES,
    foreign: bool = False,
) -> Plan:
    """Derive the plan of a seed: cluster, workload, fault schedule, promise.

    With `foreign` it is to be put on a system other than the reference. Without names of faults, or with all of them, it then
    has faults of single messages in two draws of three, beside the faults that the reference is given.

    `faults` names kinds, families or mixes of nemesis.kinds; empty means the default kinds of the profile. `workload` is a name
    of workloads.registry, or MIXED to draw one. `seconds` is the time of workload and faults, without the quiet time. Raises
    PlanError for an unknown protocol, fault, workload or profile, and if `seconds` or the wished brokers are below 1.
    """
    _refuse(protocol=protocol, workload=workload, profile=profile, seconds=seconds)
    try:
        chosen = select(faults)
    except UnknownKindError as error:
        raise PlanError(str(error)) from error
    rng = Rng(seed)
    rolls = any(kind(name).family == "roll" for name in chosen)
    # An old cluster cannot tell a deleted topic from its successor.
    mix = tuple(name for name in _MIX if name not in WITH_SCRATCH) if rolls else _MIX
    name = Rng(seed).fork("workload name").pick(mix) if workload == MIXED else workload
    sizes = _STORMY_SIZES if name in _STORMY else _SIZES
    cluster = _cluster(rng.fork("cluster"), wishes, sizes, spare_copies=any(kind(k).destroys != "nothing" for k in chosen))
    legacy = () if wishes.alike else _legacy(rng.fork("legacy"), cluster)
    cluster = replace(cluster, legacy_brokers=legacy, topics=_topics_for(name, cluster.topics))
    clients = _sessions(rng.fork("sessions"), _workload(rng.fork("workload"), name, cluster, wishes))
    # Where every fault that was asked for needs several servers or places, the plan has them.
    named = [kind(name) for name in chosen]
    cluster = replace(cluster, zookeeper=max(cluster.zookeeper, min((k.servers_min for k in named), default=1)))
    places = rng.fork("places").pick(_ALIKE_PLACES if wishes.alike else _PLACES)
    clients = replace(clients, places=max(places, min((k.places_min for k in named), default=1)))
    clients = replace(clients, scratch=_scratch(rng.fork("scratch"), cluster) if name in WITH_SCRATCH else None)
    clients = replace(clients, edits=True if name == "everything" and rng.fork("edits").ratio(1, 2) else UNSET)
    orders = name in _STORMY and profile == "beyond" and rng.fork("operator").ratio(1, 2)
    promise = replace(
        _promise(cluster, profile, clients),
        unclean_election="by_operator" if orders else "never",
        replacement_ms=0 if cluster.legacy_brokers or rolls else time_to_replace_ms(cluster.session_timeout_ms),
    )
    plan = Plan(
        name=f"seed-{seed}",
        protocol=protocol,
        system=SystemSpec(name=REFERENCE, starts=(_start(rng.fork("starts"), protocol),)) if rolls else UNSET,
        draws=rng.fork("draws").bits() >> 1,  # 63 bits fit the integers of text formats
        seed=seed,
        derivation=derivation_of(foreign=foreign),
        cluster=cluster,
        network=_network(rng.fork("network")),
        workload=clients,
        promise=promise,
        faults_ms=1000 * (rng.fork("length").between(20, 50) if seconds is None else seconds),
        quiet_ms=promise.bound_ms + _QUIET_SLACK_MS,
        audit_ms=0 if rolls else _AUDIT_MS,  # it removes a partition, which old metadata cannot tell
        min_acked=_MIN_ACKED,
    )
    shape = shape_of(plan)
    kinds = chosen if faults else default_kinds(profile, shape)
    if foreign and (not faults or "all" in faults):
        kinds = tuple(dict.fromkeys((*kinds, *_messages(rng.fork("messages")))))
    schedule = generate(rng.fork("schedule"), Profile(name=profile, kinds=kinds), shape)
    return checked(replace(plan, schedule=schedule, required_marks=marks_of(schedule)))


def _refuse(*, protocol: str, workload: str, profile: str, seconds: int | None) -> None:
    """Raise PlanError for an unknown name, and for no time."""
    if protocol not in VARIANTS:
        raise PlanError(unknown_protocol(protocol))
    if workload != MIXED and workload not in WORKLOADS:
        raise PlanError(unknown("workload", workload, WORKLOADS))
    if profile not in PROFILES:
        raise PlanError(unknown("profile", profile, PROFILES))
    if seconds is not None and seconds < 1:
        raise PlanError(f"seconds must be at least 1, not {seconds}")


def as_documented(plan: Plan) -> Plan:
    """The plan with the settings that the protocol's document states, and with a promise and a quiet time that fit them.

    PlanError for a protocol without a document of its own.
    """
    stated = DOCUMENT_SETTINGS.get(plan.protocol)
    if stated is None:
        raise PlanError(f"--settings document is for the protocols {' and '.join(DOCUMENT_SETTINGS)}, not {plan.protocol}")
    promised = {name: value for name, value in stated.items() if hasattr(plan.promise, name)}
    promise = replace(plan.promise, **promised)
    return checked(
        replace(plan, cluster=replace(plan.cluster, **stated), promise=promise, quiet_ms=promise.bound_ms + _QUIET_SLACK_MS)
    )


def derivation_of(*, foreign: bool) -> int:
    """The present version of the derivation: of seeds of the reference, or of those of other systems."""
    return OF_SYSTEMS if foreign else DERIVATION


def check_derivation(version: int, *, foreign: bool = False) -> None:
    """Raise PlanError, with the way to repeat a run, if seeds of this version of the derivation give other plans here.

    With `foreign` they are seeds of a system other than the reference.
    """
    present, commits = derivation_of(foreign=foreign), LAST_COMMITS_OF_SYSTEMS if foreign else LAST_COMMITS
    if version == present:
        return
    if version == OF_SYSTEMS and not foreign:
        raise PlanError(f"a seed of derivation {version} is of another system than the reference: name it with --system")
    if version > present:
        remedy = "update highwater"
    elif version in commits:
        remedy = f"check out commit {commits[version]}"
    else:
        raise PlanError(f"derivation must be from 1 to {present}, not {version}")
    stored = "perform the stored plan: highwater run --plan STORE/<plan>/<run>/plan.yaml"
    raise PlanError(f"a seed of derivation {version} gives another plan here (derivation {present}); {remedy}, or {stored}")


def standard_bench_plan() -> Plan:
    """The plan of the benchmarks: 5 brokers, 3 topics of 4 partitions, RF 3, 8 clients, 60 s, no fault of FOR_LONG or LATER."""
    topics = tuple(
        TopicSpec(name=name, partitions=4, replication_factor=3, min_insync_replicas=2, flush="before_ack") for name in _TOPICS
    )
    cluster = ClusterShape(brokers=5, log_dirs=2, topics=topics)
    promise = _promise(cluster, "within", WorkloadSpec())
    plan = Plan(
        name="bench",
        story="The standard plan of `make bench`.",
        draws=1,
        cluster=cluster,
        workload=WorkloadSpec(producers=5, consumers=3, produce_per_s=50),
        promise=promise,
        faults_ms=60_000,
        quiet_ms=promise.bound_ms + _QUIET_SLACK_MS,
        min_acked=_MIN_ACKED,
    )
    shape = shape_of(plan)
    kinds = tuple(kind for kind in default_kinds("within", shape) if kind not in (*FOR_LONG, *LATER))
    profile = Profile(name="within", kinds=kinds, swarm=False)
    # The first seed whose schedule has all these kinds in 60 s
    drawn = (generate(Rng(seed).fork("schedule"), profile, shape) for seed in range(_BENCH_SEEDS_MAX))
    schedule = next(windows for windows in drawn if {window.kind for window in windows} == {*kinds})
    return checked(replace(plan, schedule=schedule, required_marks=marks_of(schedule)))


def marks_of(schedule: tuple[Window, ...]) -> tuple[str, ...]:
    """The marks that a run must reach: if the schedule has faults, at least one must act; otherwise the run is UNKNOWN."""
    return ("fault-acted",) if schedule else ()


def _messages(rng: Rng) -> tuple[str, ...]:
    """The kinds of faults of single messages that a schedule has: none in one draw of three, else one or two."""
    return tuple(rng.shuffled(_MESSAGES)[: rng.pick((0, 1, 2))])


def _cluster(rng: Rng, wishes: Wishes, sizes: Sequence[int], *, spare_copies: bool) -> ClusterShape:
    """`spare_copies`: each topic gets min_insync_replicas of at least 2, so that a fault may destroy one copy."""
    drawn = rng.pick(sizes)
    brokers = (_ALIKE.brokers if wishes.alike else drawn) if wishes.brokers is None else wishes.brokers
    if brokers < 1:
        raise PlanError(f"brokers must be at least 1, not {brokers}")
    # Most runs use one flush rule for all topics: power loss is harmless only if every topic flushes before it acknowledges.
    flush = rng.fork("flush").pick(_FLUSHES)
    topics = tuple(
        _topic(rng.fork(f"topic {name}"), name, brokers, (wishes.flush,) if wishes.flush else flush, spare_copies=spare_copies)
        for name in _TOPICS[: rng.pick((1, 1, 2, 3))]
    )
    if wishes.alike:
        return replace(_ALIKE, brokers=brokers, topics=topics)
    return ClusterShape(
        brokers=brokers,
        log_dirs=rng.pick((1, 1, 2, 3)),
        topics=topics,
        session_timeout_ms=100 * rng.between(15, 60),
        replica_lag_time_max_ms=100 * rng.between(10, 40),
        request_timeout_ms=100 * rng.between(5, 20),
        fetch_wait_max_ms=rng.pick((100, 250, 500)),
        checkpoint_interval_ms=rng.pick((500, 2000, 5000)),
        zookeeper=rng.fork("zookeeper").pick(_SERVERS),
    )


def _legacy(rng: Rng, cluster: ClusterShape) -> tuple[int, ...]:
    """R-205, R-206: in one plan of four, some or all brokers use the inter-broker protocol before KIP-343."""
    if not rng.ratio(1, 4):
        return ()
    return tuple(sorted(rng.shuffled(range(1, cluster.brokers + 1))[: rng.between(1, cluster.brokers)]))


def _start(rng: Rng, protocol: str) -> str:
    """R-316: the version of the inter-broker protocol that all brokers of a plan with a roll are at first."""
    return rng.pick(("kip112", "kip343_v0")) if VARIANTS[protocol].controller_epoch else "v3"


def _topic(rng: Rng, name: str, brokers: int, flush: Sequence[Flush], *, spare_copies: bool) -> TopicSpec:
    """A topic, drawn for a cluster of so many brokers."""
    replication_factor = min(brokers, rng.pick((2, 3, 3, 3)))
    drawn = 2 if rng.ratio(3, 4) else rng.between(1, 3)
    return TopicSpec(
        name=name,
        partitions=rng.between(1, 4),
        replication_factor=replication_factor,
        min_insync_replicas=min(replication_factor, max(2, drawn) if spare_copies else drawn),
        flush=rng.pick(flush),
    )


def _topics_for(workload: str, topics: tuple[TopicSpec, ...]) -> tuple[TopicSpec, ...]:
    """The drawn topics, and one more like the first where the workload needs a topic for results beside it."""
    alone = workload == READ_PROCESS_WRITE and len(topics) == 1
    return (*topics, replace(topics[0], name=_TOPICS[1])) if alone else topics


def _scratch(rng: Rng, cluster: ClusterShape) -> TopicSpec:
    """The topic that create-delete and everything create and delete; its settings are those of the first topic."""
    return replace(cluster.topics[0], name="scratch", partitions=rng.between(1, 2))


def _promise(cluster: ClusterShape, profile: ProfileName, workload: WorkloadSpec) -> Promise:
    """The promise that fits the cluster and its workload."""
    keeps: Keeps | UnsetType = "last-of-key" if workload.name == COMPACTED else UNSET
    scratch = workload.scratch
    return Promise(
        topics=tuple(
            TopicPromise(topic=topic.name, min_insync_replicas=topic.min_insync_replicas, flush=topic.flush, keeps=keeps)
            for topic in (*cluster.topics, *(() if scratch is None else (scratch,)))
        ),
        profile=profile,
        session_timeout_ms=cluster.session_timeout_ms,
        replica_lag_time_max_ms=cluster.replica_lag_time_max_ms,
        request_timeout_ms=cluster.request_timeout_ms,
    )


def _network(rng: Rng) -> NetworkShape:
    """Delays of links and flushes."""
    delay_us_max = rng.pick((1000, 2000, 5000, 20_000))
    flush_us_max = rng.pick((2000, 5000, 20_000))
    return NetworkShape(
        delay_us_min=rng.between(100, 500),
        delay_us_max=delay_us_max,
        flush_us_min=rng.between(200, 1000),
        flush_us_max=flush_us_max,
    )


def _workload(rng: Rng, name: str, cluster: ClusterShape, wishes: Wishes) -> WorkloadSpec:
    """Clients, their rates and their acks."""
    drawn = rng.between(10, 80)
    return WorkloadSpec(
        name=name,
        producers=rng.between(2, 6),
        consumers=rng.between(2, 4),
        produce_per_s=drawn if wishes.produce_per_s is None else wishes.produce_per_s,
        records_per_produce=rng.pick((1, 1, 2, 3)),
        acks=rng.pick(((-1,), (-1,), (-1,), (-1, -1, 1), (-1, -1, 1, 0))),
        poll_interval_ms=rng.pick((100, 200, 400)),
        request_timeout_ms=cluster.request_timeout_ms,
    )


def _sessions(rng: Rng, workload: WorkloadSpec) -> WorkloadSpec:
    """Make about half of the producers idempotent, retry failed produces in two plans of three, and let consumers seek."""
    idempotent = (workload.producers + rng.below(2)) // 2
    retries = rng.pick((3, 3, 0))  # message.send.max.retries
    return replace(workload, idempotent=idempotent, retries=retries, seek_one_in=rng.pick((20, 40)))
