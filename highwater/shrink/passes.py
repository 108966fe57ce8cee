"""The passes of the shrinker, in order: each proposes smaller plans, the most daring first.

A pass is a sequence of reductions. A reduction proposes plans in an order that follows from the plan alone; the search takes the
first that fits and asks the reduction again for the new plan, from the place of the accepted proposal on. Every pass may break
what an earlier one needed, so the search repeats all passes until none of them finds anything.

Draws are keyed by purpose (docs/decisions/0006-keyed-draws.md), so taking a window out leaves all other draws alone.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

from msgspec import UNSET, Struct
from msgspec.structs import replace

from highwater.plans.derive import PLAIN
from highwater.plans.plan import NetworkShape, Plan, complaints, topics_of
from highwater.shrink.trial import RunFacts
from history.promise import Promise, time_to_replace_ms
from nemesis.faults import hits_every_broker
from nemesis.schedule import Window
from nemesis.targets import ClientPlace, Everyone, Named
from reference.config import TopicSpec
from workloads.parameters import Step

T = TypeVar("T")

GRAIN_MS = 100  # times are not made shorter by less than this: a plan must be readable, and real nodes need some time

Reduction = Callable[[Plan, RunFacts], Iterator[Plan]]


class Pass(Struct, frozen=True, kw_only=True):
    """One pass: its name, and its reductions for a plan as it is when the pass begins."""

    name: str
    reductions: Callable[[Plan, RunFacts], Sequence[Reduction]]


def proposals(reduction: Reduction, plan: Plan, facts: RunFacts) -> Iterator[Plan]:
    """The plans that a reduction proposes, without windows and steps that no longer fit; plans that nobody could perform become
    the plan itself, so that every proposal keeps its place.
    """
    for proposal in reduction(plan, facts):
        yield mended(proposal) or plan


def mended(plan: Plan) -> Plan | None:
    """The plan without the windows and steps that its cluster or its length no longer allow; None if that does not mend it."""
    while complaints_found := complaints(plan):
        windows = {complaint.path[1] for complaint in complaints_found if complaint.path[0] == "schedule"}
        steps = {complaint.path[1] for complaint in complaints_found if complaint.path[0] == "script"}
        if any(complaint.path[0] not in ("schedule", "script") for complaint in complaints_found):
            return None
        plan = replace(
            plan,
            schedule=tuple(window for number, window in enumerate(plan.schedule) if number not in windows),
            script=tuple(step for number, step in enumerate(plan.script) if number not in steps),
        )
    return plan


def first_proposals(plan: Plan, facts: RunFacts) -> Iterator[Plan]:
    """The plan without what only counts in campaigns (seed, required marks, least number of acknowledgements).

    First also with its end at the proof of the failure, which makes each later trial cheap.
    """
    bare = replace(plan, name=f"{plan.name}-shrunk"[-128:], seed=None, derivation=UNSET, required_marks=(), min_acked=1)
    yield from _end_at_proof(bare, facts)
    yield bare


# --- end the run early ----------------------------------------------------------------------------------------------------------


def _early_end(plan: Plan, facts: RunFacts) -> tuple[Reduction, ...]:
    return (_end_at_proof, _no_audit, _shortest_quiet, _end_earlier)


def _end_at_proof(plan: Plan, facts: RunFacts) -> Iterator[Plan]:
    if facts.proof_ms is not None:
        yield _plan_ending_at(replace(plan, audit_ms=0, quiet_ms=plan.promise.bound_ms), facts.proof_ms)


def _no_audit(plan: Plan, facts: RunFacts) -> Iterator[Plan]:
    if plan.audit_ms:
        yield replace(plan, audit_ms=0)


def _shortest_quiet(plan: Plan, facts: RunFacts) -> Iterator[Plan]:
    if plan.quiet_ms > plan.promise.bound_ms:
        yield replace(plan, quiet_ms=plan.promise.bound_ms)


def _end_earlier(plan: Plan, facts: RunFacts) -> Iterator[Plan]:
    for eighths in (1, 2, 4, 6, 7):
        yield _plan_ending_at(plan, plan.faults_ms * eighths // 8)


def _plan_ending_at(plan: Plan, end_ms: int) -> Plan:
    """The plan with workload and faults ending at this time, if it is earlier."""
    end_ms = min(_up(end_ms, GRAIN_MS), plan.faults_ms)
    schedule = tuple(replace(w, until_ms=min(w.until_ms, end_ms)) for w in plan.schedule if w.at_ms < end_ms - 1)
    return replace(plan, faults_ms=end_ms, schedule=schedule)


# --- brokers by name ------------------------------------------------------------------------------------------------------------


def _by_name(plan: Plan, facts: RunFacts) -> tuple[Reduction, ...]:
    return (_all_named, *(partial(_one_named, window.id) for window in plan.schedule))


def _all_named(plan: Plan, facts: RunFacts) -> Iterator[Plan]:
    yield replace(
        plan, schedule=tuple(named for window in plan.schedule if (named := _window_on_hit_brokers(window, facts)) is not None)
    )


def _one_named(window_id: str, plan: Plan, facts: RunFacts) -> Iterator[Plan]:
    schedule = tuple(_window_on_hit_brokers(window, facts) if window.id == window_id else window for window in plan.schedule)
    yield replace(plan, schedule=tuple(window for window in schedule if window is not None))


def _window_on_hit_brokers(window: Window, facts: RunFacts) -> Window | None:
    """The window on the brokers that it hit; None if it hit nobody."""
    if isinstance(window.target, Named | ClientPlace):
        return window
    if hits_every_broker(window.fault):
        return replace(window, target=Everyone())
    hit = facts.hits.get(window.id, ())
    return replace(window, target=Named(brokers=hit)) if hit else None


# --- topics and partitions ------------------------------------------------------------------------------------------------------


def _topics(plan: Plan, facts: RunFacts) -> tuple[Reduction, ...]:
    return (_one_topic, *(partial(_fewer_partitions, topic.name) for topic in plan.cluster.topics), _no_later_topics)


def _one_topic(plan: Plan, facts: RunFacts) -> Iterator[Plan]:
    """That of the failure first."""
    if len(plan.cluster.topics) > 1:
        for topic in sorted(plan.cluster.topics, key=lambda topic: not facts.key.startswith(f"{topic.name}-")):
            yield _with_topics(plan, (topic,))


def _fewer_partitions(name: str, plan: Plan, facts: RunFacts) -> Iterator[Plan]:
    for count in range(1, max((topic.partitions for topic in plan.cluster.topics if topic.name == name), default=1)):
        yield _with_topics(plan, tuple(replace(t, partitions=count) if t.name == name else t for t in plan.cluster.topics))


def _no_later_topics(plan: Plan, facts: RunFacts) -> Iterator[Plan]:
    if plan.cluster.later:
        yield _with_own_promise(replace(plan, cluster=replace(plan.cluster, later=())))


def _with_topics(plan: Plan, topics: tuple[TopicSpec, ...]) -> Plan:
    return _with_own_promise(replace(plan, cluster=replace(plan.cluster, topics=topics)))


def _with_own_promise(plan: Plan) -> Plan:
    """The plan with a promise for its topics alone, and for no more replicas than they have."""
    factors = {topic.name: topic.replication_factor for topic in topics_of(plan)}
    topics = tuple(
        replace(topic, min_insync_replicas=min(topic.min_insync_replicas, factors[topic.topic]))
        for topic in plan.promise.topics
        if topic.topic in factors
    )
    return replace(plan, promise=replace(plan.promise, topics=topics))


# --- windows and script steps ---------------------------------------------------------------------------------------------------


def _windows(plan: Plan, facts: RunFacts) -> tuple[Reduction, ...]:
    return tuple(partial(_fewer_windows, size) for size in _sizes(len(plan.schedule)))


def _fewer_windows(size: int, plan: Plan, facts: RunFacts) -> Iterator[Plan]:
    for schedule in _without_runs(plan.schedule, size):
        yield replace(plan, schedule=schedule)


def _steps(plan: Plan, facts: RunFacts) -> tuple[Reduction, ...]:
    return tuple(partial(_fewer_steps, size) for size in _sizes(len(plan.script)))


def _fewer_steps(size: int, plan: Plan, facts: RunFacts) -> Iterator[Plan]:
    for script in _without_runs(plan.script, size):
        yield replace(plan, script=script)


def _sizes(count: int) -> Iterator[int]:
    """The sizes of the parts that delta debugging takes out: half, a quarter ... one."""
    size = count
    while size > 1:
        size = -(-size // 2)
        yield size
    if count == 1:
        yield 1


def _without_runs(items: tuple[T, ...], size: int) -> Iterator[tuple[T, ...]]:
    """The items without each run of `size` neighbours, the last run first: later faults matter less to an early failure."""
    for end in range(len(items), 0, -size):
        yield items[: max(0, end - size)] + items[end:]


# --- clients --------------------------------------------------------------------------------------------------------------------

_RATES = (1, 2, 5, 10, 20)


def _clients(plan: Plan, facts: RunFacts) -> tuple[Reduction, ...]:
    """Fewer and simpler clients."""
    return (
        _plain_workload,
        _without_asynchronous,
        scripted,
        partial(_smaller, "workload", "consumers", (0, 1)),
        partial(_smaller, "workload", "producers", (1, 2)),
        partial(_smaller, "workload", "produce_per_s", _RATES),
        partial(_smaller, "workload", "records_per_produce", (1,)),
        partial(_smaller, "workload", "retries", (0,)),
        partial(_smaller, "workload", "idempotent", (0, 1)),
        partial(_smaller, "workload", "seek_one_in", (0,)),
        partial(_smaller, "workload", "places", (1,)),
        _acks_of_all,
    )


def _plain_workload(plan: Plan, facts: RunFacts) -> Iterator[Plan]:
    """One producer that writes rarely and nothing else; then the plain workload with the clients as they are."""
    plain = replace(plan.workload, name=PLAIN, scratch=None, edits=UNSET, stranger_first=UNSET)
    for rate in _RATES:
        few = replace(
            plain,
            producers=1,
            consumers=0,
            produce_per_s=rate,
            records_per_produce=1,
            retries=0,
            idempotent=0,
            seek_one_in=0,
            places=1,
        )
        if rate <= plan.workload.produce_per_s:
            yield _with_own_promise(replace(plan, workload=few))
    yield _with_own_promise(replace(plan, workload=plain))


def scripted(plan: Plan, facts: RunFacts) -> Iterator[Plan]:
    """The plain workload with the requests that the workload drew as a script, whose steps can be left out one by one."""
    if plan.workload.name == PLAIN or not facts.requests:
        return
    scratch = () if plan.workload.scratch is None else (plan.workload.scratch,)
    cluster = replace(plan.cluster, later=(*plan.cluster.later, *scratch))
    workload = replace(plan.workload, name=PLAIN, scratch=None)
    yield _with_own_promise(replace(plan, cluster=cluster, workload=workload, script=facts.requests))


def _without_asynchronous(plan: Plan, facts: RunFacts) -> Iterator[Plan]:
    if plan.workload.asynchronous is not UNSET:
        yield replace(plan, workload=replace(plan.workload, asynchronous=UNSET))


def _acks_of_all(plan: Plan, facts: RunFacts) -> Iterator[Plan]:
    if plan.workload.acks != (-1,):
        yield replace(plan, workload=replace(plan.workload, acks=(-1,)))


def _smaller(part: str, field: str, values: Sequence[int], plan: Plan, facts: RunFacts) -> Iterator[Plan]:
    """The plan with a smaller number in one field of its cluster or workload, the smallest first."""
    spec = getattr(plan, part)
    for value in values:
        if value < getattr(spec, field):
            changes: dict[str, object] = {field: value}
            if field == "producers":
                changes["idempotent"] = min(spec.idempotent, value)
            yield replace(plan, **{part: replace(spec, **changes)})


_MANY = 20  # operations
_OTHER_DRAWS = (1, 2, 3, 4, 5, 6)


def _small_world(plan: Plan, facts: RunFacts) -> tuple[Reduction, ...]:
    return (_one_producer_by_other_draws,) if facts.operations > _MANY else ()


def _one_producer_by_other_draws(plan: Plan, facts: RunFacts) -> Iterator[Plan]:
    """One producer and one topic with other draws: where an operation goes is drawn, and few of them must hit the moment."""
    topic = min(plan.cluster.topics, key=lambda topic: not facts.key.startswith(f"{topic.name}-"))
    workload = replace(
        plan.workload, producers=1, consumers=0, idempotent=min(1, plan.workload.idempotent), acks=(-1,), only=UNSET
    )
    for partitions in range(1, min(2, topic.partitions) + 1):
        for rate in (5, 10, 20):
            small = replace(plan, workload=replace(workload, produce_per_s=rate))
            for draws in _OTHER_DRAWS:
                yield _with_topics(replace(small, draws=draws), (replace(topic, partitions=partitions),))


_RUNS_MAX = 32  # of neighbours that are left out at one size; smaller ones wait until there are fewer operations


def _operations(plan: Plan, facts: RunFacts) -> tuple[Reduction, ...]:
    count = len(_produces(plan, facts))
    return tuple(partial(_fewer_produces, size) for size in _sizes(count) if size * _RUNS_MAX >= count)


def _fewer_produces(size: int, plan: Plan, facts: RunFacts) -> Iterator[Plan]:
    for only in _without_runs(_produces(plan, facts), size):
        yield replace(plan, workload=replace(plan.workload, only=only))


def _produces(plan: Plan, facts: RunFacts) -> tuple[int, ...]:
    """The numbers of the produces that each producer makes, at most so many as all together made up to the proof."""
    return tuple(range(facts.produces)) if plan.workload.only is UNSET else plan.workload.only


# --- brokers --------------------------------------------------------------------------------------------------------------------


def _brokers(plan: Plan, facts: RunFacts) -> tuple[Reduction, ...]:
    """Fewer brokers, replicas, ZooKeeper servers and directories."""
    return (
        _fewer_brokers,
        _fewer_replicas,
        partial(_smaller, "cluster", "zookeeper", (1,)),
        partial(_smaller, "cluster", "log_dirs", (1, 2)),
        _no_legacy_brokers,
    )


def _fewer_brokers(plan: Plan, facts: RunFacts) -> Iterator[Plan]:
    for count in range(1, plan.cluster.brokers):
        yield _with_brokers(plan, count)


def _fewer_replicas(plan: Plan, facts: RunFacts) -> Iterator[Plan]:
    for count in range(1, max(topic.replication_factor for topic in topics_of(plan))):
        yield _with_replicas(plan, count)


def _no_legacy_brokers(plan: Plan, facts: RunFacts) -> Iterator[Plan]:
    if plan.cluster.legacy_brokers:
        yield replace(plan, cluster=replace(plan.cluster, legacy_brokers=()))


def _with_brokers(plan: Plan, count: int) -> Plan:
    """The plan without its last brokers; windows that name them hit the others that they name."""
    cluster = replace(
        plan.cluster, brokers=count, legacy_brokers=tuple(broker for broker in plan.cluster.legacy_brokers if broker <= count)
    )
    schedule = tuple(_within(window, count) for window in plan.schedule)
    return _with_replicas(replace(plan, cluster=cluster, schedule=schedule), count)


def _within(window: Window, brokers: int) -> Window:
    if not isinstance(window.target, Named):
        return window
    return replace(window, target=Named(brokers=tuple(broker for broker in window.target.brokers if broker <= brokers)))


def _with_replicas(plan: Plan, count: int) -> Plan:
    """The plan with at most so many replicas."""

    def narrow(topic: TopicSpec) -> TopicSpec:
        return replace(
            topic,
            replication_factor=min(count, topic.replication_factor),
            min_insync_replicas=min(count, topic.min_insync_replicas),
        )

    cluster = replace(plan.cluster, topics=tuple(map(narrow, plan.cluster.topics)), later=tuple(map(narrow, plan.cluster.later)))
    scratch = plan.workload.scratch
    workload = plan.workload if scratch is None else replace(plan.workload, scratch=narrow(scratch))
    return _with_own_promise(replace(plan, cluster=cluster, workload=workload))


# --- times ----------------------------------------------------------------------------------------------------------------------


def _lengths(plan: Plan, facts: RunFacts) -> tuple[Reduction, ...]:
    return tuple(partial(_shorter_window, window.id) for window in plan.schedule)


def _shorter_window(window_id: str, plan: Plan, facts: RunFacts) -> Iterator[Plan]:
    for eighths in (1, 2, 4, 6):
        yield with_length(plan, window_id, eighths)


def with_length(plan: Plan, window_id: str, eighths: int) -> Plan:
    """The plan with one window shortened to so many eighths of its length."""
    return replace(
        plan,
        schedule=tuple(
            replace(w, until_ms=min(w.until_ms, w.at_ms + _up((w.until_ms - w.at_ms) * eighths // 8, GRAIN_MS)))
            if w.id == window_id
            else w
            for w in plan.schedule
        ),
    )


def _earlier(plan: Plan, facts: RunFacts) -> tuple[Reduction, ...]:
    return (*(partial(_pulled_forward, number) for number in range(len(plan.schedule))), *_early_end(plan, facts))


def _pulled_forward(number: int, plan: Plan, facts: RunFacts) -> Iterator[Plan]:
    """All from the `number`-th window or step on happens earlier: there is less time between it and what comes before."""
    moments = sorted({window.at_ms for window in plan.schedule} | {step.at_ms for step in plan.script})
    if number >= len(moments):
        return
    begin = moments[number]
    before = moments[number - 1] if number else 0
    for eighths in (0, 1, 2, 4, 6):
        yield _moved_forward(plan, from_ms=begin, by_ms=(begin - before) * (8 - eighths) // 8 // GRAIN_MS * GRAIN_MS)


def _moved_forward(plan: Plan, *, from_ms: int, by_ms: int) -> Plan:
    """The plan in which everything from a time on comes earlier."""

    def earlier(window: Window) -> Window:
        # A window that is open at this time ends as much earlier, so that what overlaps goes on overlapping.
        until = window.until_ms - by_ms if window.until_ms > from_ms else window.until_ms
        return replace(window, at_ms=window.at_ms - by_ms if window.at_ms >= from_ms else window.at_ms, until_ms=until)

    def sooner(step: Step) -> Step:
        return replace(step, at_ms=step.at_ms - by_ms) if step.at_ms >= from_ms else step

    return replace(
        plan,
        faults_ms=max(GRAIN_MS, plan.faults_ms - by_ms),
        schedule=tuple(map(earlier, plan.schedule)),
        script=tuple(map(sooner, plan.script)),
    )


def _round(plan: Plan, facts: RunFacts) -> tuple[Reduction, ...]:
    return (_round_times,)


def _round_times(plan: Plan, facts: RunFacts) -> Iterator[Plan]:
    """The plan with rounder times, the roundest first."""
    for unit in (1000, 500, GRAIN_MS, 10):
        schedule = tuple(
            replace(w, at_ms=w.at_ms // unit * unit, until_ms=_up(max(w.until_ms, w.at_ms // unit * unit + 1), unit))
            for w in plan.schedule
        )
        rounded = replace(plan, schedule=schedule, faults_ms=_up(plan.faults_ms, unit))
        if rounded == plan:
            return
        yield rounded


def _up(number: int, unit: int) -> int:
    """The next multiple of the unit, at least one."""
    return max(1, -(-number // unit)) * unit


def _delays(plan: Plan, facts: RunFacts) -> tuple[Reduction, ...]:
    return (_constant_delays,)


def _constant_delays(plan: Plan, facts: RunFacts) -> Iterator[Plan]:
    """The plan with constant delays of links and flushes."""
    now = plan.network
    for network in (
        NetworkShape(delay_us_min=1000, delay_us_max=1000, flush_us_min=1000, flush_us_max=1000),
        NetworkShape(
            delay_us_min=now.delay_us_max,
            delay_us_max=now.delay_us_max,
            flush_us_min=now.flush_us_max,
            flush_us_max=now.flush_us_max,
        ),
        NetworkShape(
            delay_us_min=now.delay_us_min,
            delay_us_max=now.delay_us_min,
            flush_us_min=now.flush_us_min,
            flush_us_max=now.flush_us_min,
        ),
    ):
        if not (now.delay_us_min == now.delay_us_max and now.flush_us_min == now.flush_us_max):
            yield replace(plan, network=network)


_TIMEOUTS = (
    ("session_timeout_ms", (1500, 2000, 3000)),
    ("replica_lag_time_max_ms", (1000, 2000)),
    ("request_timeout_ms", (500, 1000)),
)


def _timeouts(plan: Plan, facts: RunFacts) -> tuple[Reduction, ...]:
    """Shorter timeouts and the usual settings."""
    return (
        *(partial(_shorter_timeout, name, values) for name, values in _TIMEOUTS),
        _usual_settings,
        _promise_of_the_cluster,
        _shortest_quiet,
    )


def _shorter_timeout(name: str, values: Sequence[int], plan: Plan, facts: RunFacts) -> Iterator[Plan]:
    for value in values:
        if value < getattr(plan.cluster, name):
            yield _judged_by_cluster(replace(plan, cluster=replace(plan.cluster, **{name: value})))


def _usual_settings(plan: Plan, facts: RunFacts) -> Iterator[Plan]:
    """The plan with usual settings of brokers and clients, of both or one of them."""
    usual = replace(plan.cluster, fetch_wait_max_ms=500, checkpoint_interval_ms=5000)
    clients = replace(plan.workload, poll_interval_ms=200, request_timeout_ms=plan.cluster.request_timeout_ms)
    yield replace(plan, cluster=usual, workload=clients)
    yield replace(plan, workload=clients)
    yield replace(plan, cluster=usual)


def _promise_of_the_cluster(plan: Plan, facts: RunFacts) -> Iterator[Plan]:
    judged = _judged_by_cluster(plan)
    if judged != plan:
        yield judged


def _judged_by_cluster(plan: Plan) -> Plan:
    """The plan with a promise for the timeouts of its cluster, and the quiet time that this promise needs."""
    cluster, promise = plan.cluster, plan.promise
    judged: Promise = replace(
        promise,
        session_timeout_ms=cluster.session_timeout_ms,
        replica_lag_time_max_ms=cluster.replica_lag_time_max_ms,
        request_timeout_ms=cluster.request_timeout_ms,
        replacement_ms=time_to_replace_ms(cluster.session_timeout_ms) if promise.replacement_ms else 0,
    )
    return replace(plan, promise=judged, quiet_ms=judged.bound_ms)


# In this order; each makes the trials of the later ones cheaper.
PASSES: tuple[Pass, ...] = (
    Pass(name="end the run early", reductions=_early_end),
    Pass(name="brokers by name instead of by role", reductions=_by_name),
    Pass(name="topics and partitions", reductions=_topics),
    Pass(name="fault windows", reductions=_windows),
    Pass(name="script steps", reductions=_steps),
    Pass(name="clients and rate", reductions=_clients),
    Pass(name="a small world by other draws", reductions=_small_world),
    Pass(name="brokers and replication factor", reductions=_brokers),
    Pass(name="length of windows", reductions=_lengths),
    Pass(name="pulled forward", reductions=_earlier),
    # After the windows have their place, because an operation keeps its time.
    Pass(name="single operations", reductions=_operations),
    Pass(name="constant delays", reductions=_delays),
    Pass(name="timeouts and quiet time", reductions=_timeouts),
)
# At the end, once: it makes times longer, so it would undo the passes above.
LAST: Pass = Pass(name="round times", reductions=_round)
