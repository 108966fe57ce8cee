"""Edits of a plan: its parent's cluster, promise and draws, with another fault schedule, script, or acks of the producers.

Draws of a run are keyed by purpose, so a run repeats that of its parent up to the first edited window. An edit that would break a
rule is not made: `nemesis.schedule.validate` decides what can be performed and healed, `nemesis.profiles.excess` what profile
`within` may wound, and `checked` looks at the whole plan once more.
"""

from collections.abc import Callable, Sequence
from itertools import count
from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from highwater.plans.derive import marks_of
from highwater.plans.plan import Plan, checked, shape_of
from history.seed import Rng
from nemesis.blows import Aim, Kind
from nemesis.faults import AnyFault, Clog, Crash, Packets
from nemesis.profiles import Profile, ProfileName, default_kinds, excess, usable
from nemesis.schedule import Shape, TopicFacts, Window, broker_ids, validate
from nemesis.targets import (
    AnyTarget,
    ClientPlace,
    Controller,
    Everyone,
    IsrMember,
    LeaderOf,
    Minority,
    Named,
    Random,
    WholeIsr,
)
from reference.config import TopicSpec
from workloads.parameters import Step

WINDOWS_MAX = 60  # of an edited plan
_TRIES = 8  # draws of an edit until it fits; then it is left out
_MOVES_MS = (50, 300, 1500, 6000)  # how far a window is moved, at most
_AFTER_MS = (0, 3, 30, 300, 2000)  # how long after a moment a fault strikes, at most
# The messages about a broker that `_old_registration` holds back: in one draw of two the request for another ISR (KIP-903).
_NEWS = ("isr-change", "isr-change", "isr-change", "isr-change-reply", "leader-and-isr", "epoch-end-reply")
_ACKS = ((0,), (0,), (1,))  # of the producers of a calm; seeds judge acks=-1 often enough
_SESSIONS = (0, 1)  # a chain of faults steps by less than a second, or by about a session timeout


class Notable(Struct, frozen=True, kw_only=True):
    """When the parent's run took a branch as few others did, at which broker (0: at none), and the greater weight the fewer."""

    at_ms: int
    broker: int
    branch: str
    weight: int


class Source(Struct, frozen=True, kw_only=True):
    """What edits work with. `others` are plans whose windows may be taken over."""

    parent: Plan
    notable: tuple[Notable, ...]
    others: tuple[Plan, ...]
    kinds: tuple[Kind, ...]  # that may strike


class Draft(Struct, frozen=True, kw_only=True):
    """What edits change: schedule, script and acks; and the last edit in words."""

    schedule: tuple[Window, ...]
    script: tuple[Step, ...]
    acks: tuple[int, ...]
    words: str = ""


def kinds_for(plan: Plan, faults: Sequence[str], profile: ProfileName) -> tuple[Kind, ...]:
    """The kinds of faults that may strike this plan's cluster: `faults` are kinds, those of the profile if empty."""
    shape = shape_of(plan)
    return usable(Profile(name=profile, kinds=tuple(faults) or default_kinds(profile, shape)), shape)


def edited(rng: Rng, source: Source, *, name: str) -> Plan | None:
    """A plan after one to six edits of its parent, mostly with a pattern of a known bug last; None if none could be made."""
    parent = source.parent
    draft = Draft(schedule=parent.schedule, script=parent.script, acks=parent.workload.acks)
    said: list[str] = []
    choices = [EDITS] * rng.pick((1, 2, 3, 5)) + [PATTERNS] * rng.pick((0, 1, 1, 1))
    for number, edits in enumerate(choices):
        found = _one(rng.fork(f"edit {number}"), source, draft, edits)
        if found is not None:
            draft = found
            said.append(found.words)
    if not said:
        return None
    plan = replace(
        parent,
        name=name,
        story=f"Edited from {parent.name}: {'; '.join(said)}.",
        seed=None,
        schedule=tuple(sorted(draft.schedule, key=lambda window: (window.at_ms, window.until_ms, window.id))),
        script=draft.script,
        workload=replace(parent.workload, acks=draft.acks),
        required_marks=marks_of(draft.schedule),
    )
    return checked(plan)


Edit = Callable[[Rng, Source, Draft], Draft | None]


def _one(rng: Rng, source: Source, draft: Draft, edits: tuple[Edit, ...]) -> Draft | None:
    """Draw an edit until one can be made and keeps the rules."""
    for attempt in range(_TRIES):
        draws = rng.fork(f"try {attempt}")
        found = draws.pick(edits)(draws, source, draft)
        if found is None or len(found.schedule) > WINDOWS_MAX:
            continue
        if replace(found, words=draft.words) != draft and _is_allowed(found.schedule, source.parent):
            return found
    return None


def _is_allowed(schedule: tuple[Window, ...], plan: Plan) -> bool:
    """Whether a schedule can be performed and healed, and stays within the profile of a plan."""
    shape = shape_of(plan)
    return not validate(schedule, shape) and (plan.promise.profile == "beyond" or excess(schedule, shape) is None)


# --- at a notable moment ---------------------------------------------------------------------------------------------------


def _strike(rng: Rng, source: Source, draft: Draft) -> Draft | None:
    """Add a fault just when the parent took a notable branch, mostly at the broker that took it."""
    notable = _notable(rng, source)
    if notable is None or not source.kinds:
        return None
    at_ms = notable.at_ms + rng.below(rng.pick(_AFTER_MS) + 1)
    window = _drawn(rng, source, draft.schedule, at_ms, broker=notable.broker)
    return _added(draft, window, f"{window.kind} at {at_ms} ms, after {notable.branch}")


def _align(rng: Rng, source: Source, draft: Draft) -> Draft | None:
    """Move a window so that it begins or ends at a notable moment."""
    notable = _notable(rng, source)
    if notable is None or not draft.schedule:
        return None
    old = rng.pick(draft.schedule)
    lasts_ms, edge = old.until_ms - old.at_ms, notable.at_ms + rng.below(rng.pick(_AFTER_MS) + 1)
    at_ms = max(0, edge - lasts_ms if rng.ratio(1, 3) else edge)
    new = replace(old, at_ms=at_ms, until_ms=at_ms + lasts_ms)
    return _changed(source, draft, old, new, f"{old.id} moved to {at_ms} ms, {notable.branch}")


def _ask(rng: Rng, source: Source, draft: Draft) -> Draft | None:
    """Let an administrator ask for something at a notable moment."""
    notable = _notable(rng, source)
    if notable is None:
        return None
    topic = rng.pick(source.parent.cluster.topics)
    at_ms = notable.at_ms + rng.below(rng.pick(_AFTER_MS) + 1)
    partition = rng.below(topic.partitions)
    match rng.pick(("reassign", "reassign", "elect-preferred", "depose-controller")):
        case "reassign":
            step = _reassigned(rng, source.parent, topic, partition, at_ms)
        case "elect-preferred":
            step = Step(at_ms=at_ms, do="elect-preferred", topic=topic.name, partition=partition)
        case _:
            step = Step(at_ms=at_ms, do="depose-controller")
    if at_ms >= source.parent.faults_ms:
        return None
    return replace(draft, script=_in_time((*draft.script, step)), words=f"{step.do} asked at {at_ms} ms")


def _notable(rng: Rng, source: Source) -> Notable | None:
    """Draw a moment by weight."""
    left = rng.below(max(1, sum(notable.weight for notable in source.notable)))
    for notable in source.notable:
        left -= notable.weight
        if left < 0:
            return notable
    return None


# --- windows and steps that are there --------------------------------------------------------------------------------------


def _move(rng: Rng, source: Source, draft: Draft) -> Draft | None:
    if not draft.schedule:
        return None
    old, far = rng.pick(draft.schedule), rng.pick(_MOVES_MS)
    by = max(-old.at_ms, rng.between(-far, far))
    new = replace(old, at_ms=old.at_ms + by, until_ms=old.until_ms + by)
    return _changed(source, draft, old, new, f"{old.id} moved by {by} ms")


def _stretch(rng: Rng, source: Source, draft: Draft) -> Draft | None:
    """Make a window shorter or longer: a tenth of its duration to five times."""
    if not draft.schedule:
        return None
    old = rng.pick(draft.schedule)
    lasts_ms = max(1, (old.until_ms - old.at_ms) * rng.pick((1, 3, 5, 15, 20, 50)) // 10)
    new = replace(old, until_ms=min(old.at_ms + lasts_ms, source.parent.faults_ms))
    return _changed(source, draft, old, new, f"{old.id} lasts {new.until_ms - new.at_ms} ms")


def _remove(rng: Rng, source: Source, draft: Draft) -> Draft | None:
    """Leave out one window, or some that follow each other."""
    if len(draft.schedule) < 3:
        return None
    first, number = rng.below(len(draft.schedule)), rng.pick((1, 1, 2, max(1, len(draft.schedule) // 4)))
    gone = draft.schedule[first : first + number]
    return replace(
        draft,
        schedule=tuple(window for window in draft.schedule if window not in gone),
        words=f"without {', '.join(window.id for window in gone)}",
    )


def _repeat(rng: Rng, source: Source, draft: Draft) -> Draft | None:
    """Let a window come again soon after its end."""
    if not draft.schedule:
        return None
    old = rng.pick(draft.schedule)
    at_ms = old.until_ms + rng.between(1, rng.pick(_MOVES_MS))
    new = replace(old, id=_fresh(draft.schedule), at_ms=at_ms, until_ms=at_ms + old.until_ms - old.at_ms)
    return _added(draft, new, f"{old.id} again at {at_ms} ms")


def _retarget(rng: Rng, source: Source, draft: Draft) -> Draft | None:
    if not draft.schedule:
        return None
    old = rng.pick(draft.schedule)
    new = replace(old, target=_target(rng, shape_of(source.parent)))
    return _changed(source, draft, old, new, f"{old.id} at another target")


def _swap(rng: Rng, source: Source, draft: Draft) -> Draft | None:
    """Put another kind of fault in the place of a window."""
    if not draft.schedule or not source.kinds:
        return None
    old = rng.pick(draft.schedule)
    others = tuple(window for window in draft.schedule if window is not old)
    new = replace(_drawn(rng, source, others, old.at_ms, broker=0), id=_fresh(draft.schedule))
    return replace(draft, schedule=(*others, new), words=f"{old.id} becomes {new.kind}")


def _shift(rng: Rng, source: Source, draft: Draft) -> Draft | None:
    """Move a step of the script."""
    if not draft.script:
        return None
    old, far = rng.pick(draft.script), rng.pick(_MOVES_MS)
    at_ms = min(max(0, old.at_ms + rng.between(-far, far)), source.parent.faults_ms - 1)
    steps = [replace(step, at_ms=at_ms) if step is old else step for step in draft.script]
    return replace(draft, script=_in_time(steps), words=f"{old.do} asked at {at_ms} ms")


# --- several windows -------------------------------------------------------------------------------------------------------


def _combine(rng: Rng, source: Source, draft: Draft) -> Draft | None:
    """Take over some seconds of another plan's schedule, at any time, as far as they fit this plan's cluster."""
    other = rng.pick(source.others) if source.others else source.parent
    if not other.schedule:
        return None
    shape = shape_of(source.parent)
    begin_ms = rng.pick(other.schedule).at_ms
    end_ms = begin_ms + rng.pick((1000, 3000, 8000))
    by = rng.below(source.parent.faults_ms) - begin_ms
    found = draft.schedule
    for window in other.schedule:
        if begin_ms <= window.at_ms < end_ms:
            moved = replace(window, id=_fresh(found), at_ms=window.at_ms + by, until_ms=window.until_ms + by)
            trial = (*found, replace(moved, target=_fitting(window.target, shape)))
            if _is_allowed(trial, source.parent):
                found = trial
    taken = len(found) - len(draft.schedule)
    words = f"{taken} windows of {other.name} from {begin_ms} ms on, at {begin_ms + by} ms"
    return replace(draft, schedule=found, words=words) if taken else None


def _chain(rng: Rng, source: Source, draft: Draft) -> Draft | None:
    """Add a fault that strikes the leader, the controller or any broker again and again."""
    if not source.kinds:
        return None
    shape = shape_of(source.parent)
    notable = _notable(rng, source)
    at_ms = rng.below(source.parent.faults_ms) if notable is None or rng.ratio(1, 2) else notable.at_ms
    first = _drawn(rng, source, draft.schedule, at_ms, broker=0)
    found = draft.schedule
    for _ in range(rng.between(2, 5)):
        window = replace(first, id=_fresh(found), at_ms=at_ms, until_ms=at_ms + first.until_ms - first.at_ms)
        if window.until_ms <= source.parent.faults_ms:
            found = (*found, window)
        at_ms += rng.between(20, 1000) + rng.pick(_SESSIONS) * shape.session_timeout_ms
    return replace(draft, schedule=found, words=f"{len(found) - len(draft.schedule)} times {first.kind} from {first.at_ms} ms on")


# --- patterns of known bugs ------------------------------------------------------------------------------------------------


def _old_request(rng: Rng, source: Source, draft: Draft) -> Draft | None:
    """Let requests for another ISR come again later, while two brokers fall behind in turn (KIP-497)."""
    shape = shape_of(source.parent)
    lag_ms, brokers = source.parent.cluster.replica_lag_time_max_ms, rng.shuffled(broker_ids(shape))[:2]
    fetches = Clog(links=("peers",), kinds=("fetch", "epoch-end"), direction="outbound")
    again = Packets(duplicate_per_mille=1000, kinds=("isr-change",), copy_late_ms_max=2 * lag_ms + rng.between(1000, 6000))
    begin_ms = end_ms = rng.below(source.parent.faults_ms)
    behind = []
    for number in range(rng.pick((2, 3, 4, 6))):
        at_ms, end_ms = end_ms, end_ms + lag_ms + rng.between(200, 2000)
        behind.append(_window("clog", fetches, (brokers[number % 2],), at_ms, end_ms - rng.below(200)))
    copies = _window("packets", again, broker_ids(shape), begin_ms, end_ms)
    words = f"b{brokers[0]} and b{brokers[1]} fall behind in turn from {begin_ms} ms on, and requests for another ISR come again"
    return _staged(source, draft, (copies, *behind), words)


def _old_registration(rng: Rng, source: Source, draft: Draft) -> Draft | None:
    """Let messages of one kind be late while the broker that they are about restarts twice (KIP-903).

    After its second restart that broker gets no records for a while.
    """
    shape = shape_of(source.parent)
    kind, victim = rng.pick(_NEWS), _victim(rng, source, draft.schedule)
    others = _others(victim, shape)
    away_ms = rng.below(source.parent.faults_ms)
    back_ms = away_ms + shape.session_timeout_ms + rng.below(500)
    again_ms = back_ms + rng.between(500, 3000)
    end_ms = again_ms + shape.session_timeout_ms + rng.between(500, 2500)  # it registers when its former session has expired
    news = Clog(links=("peers",), kinds=(kind,), direction="outbound")
    records = Clog(links=("peers",), kinds=("fetch-reply", "epoch-end-reply"), direction="inbound")
    windows = (
        _window("crash-random", Crash(), (victim,), away_ms, back_ms),
        _window("clog", news, others, back_ms - rng.below(300), end_ms),
        *_struck(rng, source, victim, again_ms, again_ms + rng.between(100, 1500)),
        _window("clog", records, (victim,), again_ms, end_ms + 2000),
    )
    return _staged(source, draft, windows, f"{kind} late while b{victim} restarts at {back_ms} and {again_ms} ms")


def _last_broker(rng: Rng, source: Source, draft: Draft) -> Draft | None:
    """Let all brokers but one be away, and strike that one, which leads with an ISR of its own (KAFKA-3410, KIP-966)."""
    shape = shape_of(source.parent)
    victim = _victim(rng, source, draft.schedule)
    others = _others(victim, shape)
    at_ms = rng.below(source.parent.faults_ms)
    struck_ms = at_ms + shape.session_timeout_ms * rng.between(2, 15) // 10 + rng.below(2000)
    end_ms = struck_ms + rng.between(500, 2000)
    windows = (
        _window("crash-several", Crash(), others, at_ms, end_ms + rng.between(1000, 6000)),
        *_struck(rng, source, victim, struck_ms, end_ms),
    )
    return _staged(source, draft, windows, f"b{victim} struck at {struck_ms} ms, while all others are away")


def _calm(rng: Rng, source: Source, draft: Draft) -> Draft | None:
    """End the faults early, so that the promise's bound passes in time, and then move all partitions without a fault (KAFKA-955).

    Producers may ask for other acks.
    """
    plan = source.parent
    calm_ms = plan.faults_ms - plan.promise.bound_ms - rng.between(4000, 7000)
    schedule = tuple(window for window in draft.schedule if window.until_ms <= calm_ms)
    if not schedule:
        return None
    at_ms = calm_ms + plan.promise.bound_ms - rng.below(3000)
    moves = tuple(
        _reassigned(rng, plan, topic, partition, at_ms) for topic in plan.cluster.topics for partition in range(topic.partitions)
    )
    acks = rng.pick(_ACKS)
    words = f"acks {', '.join(map(str, acks))}, no fault from {calm_ms} ms on, all partitions moved at {at_ms} ms"
    return replace(draft, schedule=schedule, acks=acks, script=_in_time((*draft.script, *moves)), words=words)


def _victim(rng: Rng, source: Source, schedule: Sequence[Window]) -> int:
    """A broker that the schedule wounds already, if profile `within` lets faults wound only few; else any."""
    wounded = _wounded(source, schedule)
    brokers = rng.pick(wounded).brokers if wounded else broker_ids(shape_of(source.parent))
    return rng.pick(brokers)


def _others(victim: int, shape: Shape) -> tuple[int, ...]:
    return tuple(broker for broker in broker_ids(shape) if broker != victim)


def _struck(rng: Rng, source: Source, victim: int, at_ms: int, until_ms: int) -> tuple[Window, ...]:
    """A fault at one broker, mostly one that destroys all its data where such faults may strike; none if none can hit it."""
    destroying = tuple(kind for kind in source.kinds if kind.destroys == "everything")
    kinds = tuple(kind for kind in (destroying if destroying and rng.ratio(2, 3) else source.kinds) if not kind.everyone)
    if not kinds:
        return ()
    kind, topic = rng.pick(kinds), rng.pick(shape_of(source.parent).topics)
    blow = kind.draw(rng, Aim(shape=shape_of(source.parent), topic=topic.name, partition=rng.below(topic.partitions)))
    window = _window(kind.name, blow.fault, (victim,), at_ms, until_ms)
    return (replace(window, target=blow.target) if isinstance(blow.target, ClientPlace) else window,)


def _window(kind: str, fault: AnyFault, brokers: tuple[int, ...], at_ms: int, until_ms: int) -> Window:
    """A window without an id."""
    return Window(id="", kind=kind, at_ms=at_ms, until_ms=until_ms, fault=fault, target=Named(brokers=brokers))


def _staged(source: Source, draft: Draft, windows: tuple[Window, ...], words: str) -> Draft | None:
    """The draft with these windows, and no others while they last; None if they could not end in time."""
    begin_ms, end_ms = min(window.at_ms for window in windows), max(window.until_ms for window in windows)
    if end_ms > source.parent.faults_ms:
        return None
    found = tuple(window for window in draft.schedule if window.until_ms <= begin_ms or end_ms <= window.at_ms)
    for window in windows:
        found = (*found, replace(window, id=_fresh(found)))
    return replace(draft, schedule=found, words=words)


EDITS: tuple[Edit, ...] = (
    *(_strike, _strike, _strike, _strike),
    *(_align, _ask, _move, _stretch, _remove, _repeat, _retarget, _swap, _shift),
    *(_combine, _combine, _chain),
)
PATTERNS: tuple[Edit, ...] = (_old_request, _old_registration, _last_broker, _calm)


# --- parts of edits --------------------------------------------------------------------------------------------------------


def _drawn(rng: Rng, source: Source, schedule: Sequence[Window], at_ms: int, *, broker: int) -> Window:
    """A window with a drawn kind. In two draws of three it strikes `broker`, unless that is 0.

    Where profile `within` lets a fault wound only few brokers, it strikes those that the schedule wounds already.
    """
    shape = shape_of(source.parent)
    topic = rng.pick(shape.topics)
    kind = rng.pick(source.kinds)
    blow = kind.draw(rng, Aim(shape=shape, topic=topic.name, partition=rng.below(topic.partitions)))
    target = Named(brokers=(broker,)) if broker and not kind.everyone and rng.ratio(2, 3) else blow.target
    until_ms = min(at_ms + blow.lasts_ms, source.parent.faults_ms)
    window = Window(id=_fresh(schedule), kind=kind.name, at_ms=at_ms, until_ms=until_ms, fault=blow.fault, target=target)
    if source.parent.promise.profile == "within" and excess((*schedule, window), shape) is not None:
        wounded = _wounded(source, schedule)
        window = replace(window, target=rng.pick(wounded) if wounded else Named(brokers=(rng.pick(broker_ids(shape)),)))
    return window


def _wounded(source: Source, schedule: Sequence[Window]) -> list[Named]:
    """Which brokers the windows of a schedule wound, where profile `within` counts them."""
    if source.parent.promise.profile != "within":
        return []
    shape = _fragile(shape_of(source.parent))
    return [window.target for window in schedule if isinstance(window.target, Named) and excess((window,), shape) is not None]


def _fragile(shape: Shape) -> Shape:
    """The cluster as if no topic could bear a wound."""
    return replace(shape, topics=tuple(replace(topic, min_insync_replicas=1) for topic in shape.topics))


def _target(rng: Rng, shape: Shape) -> AnyTarget:
    topic = rng.pick(shape.topics)
    partition = rng.below(topic.partitions)
    targets: tuple[AnyTarget, ...] = (
        LeaderOf(topic=topic.name, partition=partition),
        IsrMember(topic=topic.name, partition=partition),
        Controller(),
        Named(brokers=(rng.pick(broker_ids(shape)),)),
        Random(),
        Minority(),
    )
    return rng.pick(targets)


def _fitting(target: AnyTarget, shape: Shape) -> AnyTarget:
    """A target of another plan as one of this cluster, if it names a topic, a partition or brokers that are not there."""
    match target:
        case LeaderOf(topic=name, partition=partition):
            topic = _topic(name, shape)
            return LeaderOf(topic=topic.name, partition=partition % topic.partitions)
        case IsrMember(topic=name, partition=partition):
            topic = _topic(name, shape)
            return IsrMember(topic=topic.name, partition=partition % topic.partitions)
        case WholeIsr(topic=name, partition=partition):
            topic = _topic(name, shape)
            return WholeIsr(topic=topic.name, partition=partition % topic.partitions)
        case ClientPlace(place=place):
            return ClientPlace(place=(place - 1) % shape.places + 1)
        case Named(brokers=brokers):
            return Named(brokers=tuple(dict.fromkeys((broker - 1) % shape.brokers + 1 for broker in brokers)))
        case Random(count=number):
            return Random(count=min(number, shape.brokers))
        case Controller() | Minority() | Everyone():
            return target
        case _:
            assert_never(target)


def _topic(name: str, shape: Shape) -> TopicFacts:
    """The topic of this name, else the first one."""
    return next((topic for topic in shape.topics if topic.name == name), shape.topics[0])


def _added(draft: Draft, window: Window, words: str) -> Draft:
    return replace(draft, schedule=(*draft.schedule, window), words=words)


def _changed(source: Source, draft: Draft, old: Window, new: Window, words: str) -> Draft | None:
    """The draft with a window in the place of another; None if it could not end in time."""
    if new.until_ms > source.parent.faults_ms:
        return None
    return replace(draft, schedule=tuple(new if window is old else window for window in draft.schedule), words=words)


def _reassigned(rng: Rng, plan: Plan, topic: TopicSpec, partition: int, at_ms: int) -> Step:
    """A request to move one partition to drawn brokers."""
    replicas = tuple(rng.shuffled(broker_ids(shape_of(plan)))[: topic.replication_factor])
    return Step(at_ms=at_ms, do="reassign", topic=topic.name, partition=partition, replicas=(replicas,))


def _in_time(steps: Sequence[Step]) -> tuple[Step, ...]:
    return tuple(sorted(steps, key=lambda step: step.at_ms))


def _fresh(schedule: Sequence[Window]) -> str:
    """An id that no window has: draws of a run are named by it."""
    known = {window.id for window in schedule}
    return next(name for number in count(1) if (name := f"g{number}") not in known)
