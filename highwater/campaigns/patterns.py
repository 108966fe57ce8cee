"""Patterns: edits that stage the course of a known bug with drawn brokers, partitions and times.

Such a course needs three or four things in one order, with nothing in between, and no step towards it reaches a new branch. So
neither dice nor single edits find it (docs/decisions/0032). A pattern has its time for itself: it removes the other windows that
fall into it, and leaves alone what another pattern has staged.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from highwater.campaigns.drafts import Draft, Edit, Source, fresh_id, in_time, reassigned, wounded
from highwater.plans.plan import Plan, shape_of
from history.seed import Rng
from nemesis.blows import Aim
from nemesis.faults import AnyFault, Clog, Crash, ExpireSession, Packets
from nemesis.schedule import Shape, Window, broker_ids
from nemesis.targets import AnyTarget, ClientPlace, Controller, IsrMember, LeaderOf, Named
from workloads.client import RequestF
from workloads.parameters import Step

# The messages about a broker that `_old_registration` holds back: in one draw of two the request for another ISR (KIP-903).
_NEWS = ("isr-change", "isr-change", "isr-change", "isr-change-reply", "leader-and-isr", "epoch-end-reply")
_ACKS = ((0,), (0,), (1,))  # of the producers of a calm; seeds judge acks=-1 often enough


def _old_request(rng: Rng, source: Source, draft: Draft) -> Draft | None:
    """Let requests for another ISR come again later, while two brokers fall behind in turn (KIP-497)."""
    shape = shape_of(source.parent)
    lag_ms = source.parent.cluster.replica_lag_time_max_ms
    brokers = rng.shuffled(broker_ids(shape))[:2]
    fetches = Clog(links=("peers",), kinds=("fetch", "epoch-end"), direction="outbound")
    again = Packets(duplicate_per_mille=1000, kinds=("isr-change",), copy_late_ms_max=2 * lag_ms + rng.between(1000, 6000))
    begin_ms = end_ms = rng.below(source.parent.faults_ms)
    behind = []
    for number in range(rng.pick((2, 3, 4, 6))):
        at_ms, end_ms = end_ms, end_ms + lag_ms + rng.between(200, 2000)
        behind.append(_window("clog", fetches, Named(brokers=(brokers[number % 2],)), at_ms, end_ms - rng.below(200)))
    copies = _window("packets", again, Named(brokers=broker_ids(shape)), begin_ms, end_ms)
    words = f"b{brokers[0]} and b{brokers[1]} fall behind in turn from {begin_ms} ms on, and requests for another ISR come again"
    return _staged_draft(source, draft, (copies, *behind), words)


def _old_registration(rng: Rng, source: Source, draft: Draft) -> Draft | None:
    """Let messages of one kind be late while the broker that they are about restarts twice (KIP-903).

    After its second restart that broker gets no records for a while.
    """
    shape = shape_of(source.parent)
    kind, victim = rng.pick(_NEWS), _draw_victim(rng, source, draft.schedule)
    others = _others(victim, shape)
    away_ms = rng.below(source.parent.faults_ms)
    back_ms = away_ms + shape.session_timeout_ms + rng.below(500)
    again_ms = back_ms + rng.between(500, 3000)
    end_ms = again_ms + shape.session_timeout_ms + rng.between(500, 2500)  # it registers when its former session has expired
    news = Clog(links=("peers",), kinds=(kind,), direction="outbound")
    records = Clog(links=("peers",), kinds=("fetch-reply", "epoch-end-reply"), direction="inbound")
    windows = (
        _window("crash-random", Crash(), Named(brokers=(victim,)), away_ms, back_ms),
        _window("clog", news, Named(brokers=others), back_ms - rng.below(300), end_ms),
        *_windows_at_victim(rng, source, victim, again_ms, again_ms + rng.between(100, 1500)),
        _window("clog", records, Named(brokers=(victim,)), again_ms, end_ms + 2000),
    )
    return _staged_draft(source, draft, windows, f"{kind} late while b{victim} restarts at {back_ms} and {again_ms} ms")


def _last_broker(rng: Rng, source: Source, draft: Draft) -> Draft | None:
    """Let all brokers but one be away, and strike that one, which leads with an ISR of its own (KAFKA-3410, KIP-966)."""
    shape = shape_of(source.parent)
    victim = _draw_victim(rng, source, draft.schedule)
    others = _others(victim, shape)
    at_ms = rng.below(source.parent.faults_ms)
    # In two draws of three the others are out of the ISR by then: their sessions have ended.
    after_ms = shape.session_timeout_ms if rng.ratio(2, 3) else shape.session_timeout_ms // 5
    struck_ms = at_ms + after_ms + rng.below(3000)
    end_ms = struck_ms + rng.between(500, 2000)
    windows = (
        _window("crash-several", Crash(), Named(brokers=others), at_ms, end_ms + rng.between(1000, 6000)),
        *_windows_at_victim(rng, source, victim, struck_ms, end_ms),
    )
    return _staged_draft(source, draft, windows, f"b{victim} struck at {struck_ms} ms, while all others are away")


def _leaders_in_turn(rng: Rng, source: Source, draft: Draft) -> Draft | None:
    """Let a partition's leader lose its session while its followers get nothing, and the next leader soon after (KAFKA-1148).

    The first leader has records of its own then. In one draw of two a follower hears nothing of the elections (KAFKA-7164).
    """
    topic = rng.pick(source.parent.cluster.topics)
    partition = rng.below(topic.partitions)
    leader = LeaderOf(topic=topic.name, partition=partition)
    begin_ms = rng.below(source.parent.faults_ms)
    at_ms = begin_ms + rng.between(100, 1500)
    replies = Clog(links=("peers",), kinds=("fetch-reply",), direction="outbound")
    windows = [_window("clog", replies, leader, begin_ms, at_ms + rng.below(800))]
    for _ in range(rng.pick((2, 2, 3, 4))):
        windows.append(_window("expire-session", ExpireSession(), leader, at_ms, at_ms + 1))
        at_ms += rng.between(200, 3000)
    if rng.ratio(1, 2):
        deaf = Packets(drop_per_mille=1000, kinds=("leader-and-isr",))
        windows.append(_window("packets", deaf, IsrMember(topic=topic.name, partition=partition), begin_ms, at_ms))
    words = f"leaders of {topic.name}-{partition} lose their sessions in turn from {windows[1].at_ms} ms on"
    return _staged_draft(source, draft, tuple(windows), words)


def _move_outlives_controller(rng: Rng, source: Source, draft: Draft) -> Draft | None:
    """Ask for moves to a broker that is down, and let the controller die while they wait for it (KAFKA-4214, KAFKA-6193)."""
    shape = shape_of(source.parent)
    absent = rng.pick(broker_ids(shape))
    begin_ms = rng.below(source.parent.faults_ms)
    at_ms = begin_ms + rng.between(100, 1500)
    windows = []
    struck_ms = at_ms
    for _ in range(rng.pick((1, 1, 2))):
        struck_ms += rng.between(300, 3000)
        back_ms = struck_ms + shape.session_timeout_ms + rng.between(100, 2000)
        windows.append(_window("controller-kill", Crash(), Controller(), struck_ms, back_ms))
        struck_ms = back_ms
    windows.append(_window("crash-random", Crash(), Named(brokers=(absent,)), begin_ms, struck_ms + rng.between(500, 2500)))
    words = f"partitions move to b{absent}, which is down, and the controller dies from {windows[0].at_ms} ms on"
    return _staged_draft(source, draft, tuple(windows), words, script=_moves_to(rng, source.parent, (absent,), at_ms))


def _move_cancelled(rng: Rng, source: Source, draft: Draft) -> Draft | None:
    """Cancel moves that wait for a broker that is down, while old replicas that were away lag behind the new ones (KIP-236)."""
    plan = source.parent
    shape = shape_of(source.parent)
    absent, stays, *others = rng.shuffled(broker_ids(shape))
    away = Named(brokers=tuple(others[: max(1, len(others) - rng.below(2))]))
    begin_ms = rng.below(plan.faults_ms)
    at_ms = begin_ms + rng.between(100, 1000)
    away_ms = at_ms + rng.between(800, 3000)
    back_ms = away_ms + shape.session_timeout_ms + rng.between(200, 2500)
    cancel_ms = back_ms + rng.between(300, 3500)
    end_ms = cancel_ms + rng.between(500, 2500)
    if not others or end_ms >= plan.faults_ms - 1:
        return None
    fetches = Clog(links=("peers",), kinds=("fetch", "epoch-end"), direction="outbound")
    windows = (
        _window("crash-random", Crash(), Named(brokers=(absent,)), begin_ms, end_ms),
        _window("crash-several", Crash(), away, away_ms, back_ms),
        _window("clog", fetches, away, back_ms - rng.below(500), end_ms),
    )
    script = (
        *_moves_to(rng, plan, (absent, stays), at_ms),
        Step(at_ms=cancel_ms, do="cancel-reassignments"),
        # Once more after the last fault: a cancellation that stays would forbid every later move.
        *(Step(at_ms=allow_ms, do="allow-reassignments") for allow_ms in (end_ms, plan.faults_ms - 1)),
    )
    words = f"partitions move to b{absent}, which is down, and b{stays}, and back at {cancel_ms} ms"
    return _staged_draft(source, draft, windows, words, script=script)


def _end_faults_early(rng: Rng, source: Source, draft: Draft) -> Draft | None:
    """End the faults early, so that the promise's bound passes in time, and then move all partitions without a fault (KAFKA-955).

    Producers may ask for other acks.
    """
    plan = source.parent
    calm_ms = plan.faults_ms - plan.promise.bound_ms - rng.between(4000, 7000)
    schedule = tuple(window for window in draft.schedule if window.until_ms <= calm_ms)
    if not schedule or any(until_ms > calm_ms for _, until_ms in draft.taken):
        return None
    at_ms = calm_ms + plan.promise.bound_ms - rng.below(3000)
    moves = tuple(
        reassigned(rng, plan, topic, partition, at_ms) for topic in plan.cluster.topics for partition in range(topic.partitions)
    )
    acks = rng.pick(_ACKS)
    words = f"acks {', '.join(map(str, acks))}, no fault from {calm_ms} ms on, all partitions moved at {at_ms} ms"
    spans = (*draft.taken, (calm_ms, plan.faults_ms))
    return replace(draft, schedule=schedule, acks=acks, script=in_time((*draft.script, *moves)), taken=spans, words=words)


def _draw_victim(rng: Rng, source: Source, schedule: Sequence[Window]) -> int:
    """A broker that the schedule wounds already, if profile `within` lets faults wound only few; else any."""
    hit = wounded(source, schedule)
    brokers = rng.pick(hit).brokers if hit else broker_ids(shape_of(source.parent))
    return rng.pick(brokers)


def _others(victim: int, shape: Shape) -> tuple[int, ...]:
    return tuple(broker for broker in broker_ids(shape) if broker != victim)


def _windows_at_victim(rng: Rng, source: Source, victim: int, at_ms: int, until_ms: int) -> tuple[Window, ...]:
    """A fault at one broker, mostly one that destroys all its data where such faults may strike; none if none can hit it."""
    destroying = tuple(kind for kind in source.kinds if kind.destroys == "everything")
    kinds = tuple(kind for kind in (destroying if destroying and rng.ratio(2, 3) else source.kinds) if not kind.everyone)
    if not kinds:
        return ()
    kind, topic = rng.pick(kinds), rng.pick(shape_of(source.parent).topics)
    blow = kind.draw(rng, Aim(shape=shape_of(source.parent), topic=topic.name, partition=rng.below(topic.partitions)))
    window = _window(kind.name, blow.fault, Named(brokers=(victim,)), at_ms, until_ms)
    return (replace(window, target=blow.target) if isinstance(blow.target, ClientPlace) else window,)


def _window(kind: str, fault: AnyFault, target: AnyTarget, at_ms: int, until_ms: int) -> Window:
    """A window without an id."""
    return Window(id="", kind=kind, at_ms=at_ms, until_ms=until_ms, fault=fault, target=target)


def _moves_to(rng: Rng, plan: Plan, brokers: tuple[int, ...], at_ms: int) -> tuple[Step, ...]:
    """Requests to move each partition to these brokers and drawn others; to fewer than it has, where it is on all."""
    steps = []
    for topic in plan.cluster.topics:
        copies = min(topic.replication_factor, max(len(brokers), plan.cluster.brokers - 1))
        for partition in range(topic.partitions):
            others = [broker for broker in rng.shuffled(broker_ids(shape_of(plan))) if broker not in brokers]
            replicas = tuple(rng.shuffled((*brokers, *others)[:copies]))
            do: RequestF = rng.pick(("reassign", "reassign-extra"))
            steps.append(Step(at_ms=at_ms, do=do, topic=topic.name, partition=partition, replicas=(replicas,)))
    return tuple(steps)


def _staged_draft(
    source: Source, draft: Draft, windows: tuple[Window, ...], words: str, *, script: tuple[Step, ...] = ()
) -> Draft | None:
    """The draft with these windows and requests, and no other windows while they last; None if there is no time left for them."""
    begin_ms = min(window.at_ms for window in windows)
    end_ms = max(window.until_ms for window in windows)
    if end_ms > source.parent.faults_ms or any(begin_ms < until_ms and at_ms < end_ms for at_ms, until_ms in draft.taken):
        return None
    schedule = tuple(window for window in draft.schedule if window.until_ms <= begin_ms or end_ms <= window.at_ms)
    for window in windows:
        schedule = (*schedule, replace(window, id=fresh_id(schedule)))
    spans = (*draft.taken, (begin_ms, end_ms))
    return replace(draft, schedule=schedule, script=in_time((*draft.script, *script)), taken=spans, words=words)


# A pattern is drawn as often as it is named. Long ones are named more often, because they fit less often.
PATTERNS: tuple[Edit, ...] = (
    *(_leaders_in_turn, _leaders_in_turn, _leaders_in_turn),
    *(_move_outlives_controller, _move_outlives_controller, _move_outlives_controller),
    *(_move_cancelled, _move_cancelled, _move_cancelled),
    *(_last_broker, _last_broker),
    *(_old_request, _old_request),
    *(_old_registration, _old_registration),
    *(_end_faults_early, _end_faults_early, _end_faults_early, _end_faults_early),
)
