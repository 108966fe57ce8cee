"""Edits of a plan: its parent's cluster, promise and draws, with another fault schedule, script, or acks of the producers.

Draws of a run are keyed by purpose, so a run repeats that of its parent up to the first edited window. An edit that would break a
rule is not made: `nemesis.schedule.validate` decides what can be performed and healed, `nemesis.profiles.excess` what profile
`within` may wound, and `checked` looks at the whole plan once more.
"""

from typing import assert_never

from msgspec.structs import replace

from highwater.campaigns.drafts import (
    Draft,
    Edit,
    Notable,
    Source,
    drawn_window,
    fresh_id,
    in_time,
    is_allowed,
    reassigned,
)
from highwater.campaigns.patterns import PATTERNS
from highwater.plans.derive import marks_of
from highwater.plans.plan import Plan, checked, is_foreign, shape_of
from highwater.plans.scaled import own_topics
from history.seed import Rng
from nemesis.faults import LinkFault, kinds_of
from nemesis.messages import REPLY
from nemesis.schedule import Shape, TopicFacts, Window, broker_ids
from nemesis.targets import (
    AnyTarget,
    ClientPlace,
    Controller,
    Everyone,
    IsrMember,
    LeaderOf,
    Minority,
    Named,
    OfPartition,
    Random,
)
from workloads.parameters import Step

WINDOWS_MAX = 60  # of an edited plan
_TRIES = 8  # draws of an edit until it fits; then it is left out
_MOVES_MS = (50, 300, 1500, 6000)  # how far a window is moved, at most
_AFTER_MS = (0, 3, 30, 300, 2000)  # how long after a moment a fault strikes, at most
# The requests at which a fault of messages is aimed: those that move records, leaders, transactions and groups.
_TO_PEERS = (
    *("fetch", "epoch-end", "write-txn-markers", "leader-and-isr", "stop-replica", "update-metadata", "controlled-shutdown"),
    *("alter-partition", "broker-heartbeat", "quorum-fetch", "vote"),
)
_TO_BROKERS = (
    *("produce", "fetch", "list-offsets", "metadata", "find-coordinator", "init-producer-id", "add-partitions-to-txn", "end-txn"),
    *("add-offsets-to-txn", "txn-offset-commit", "join-group", "sync-group", "heartbeat", "offset-commit", "offset-fetch"),
)
_SESSIONS = (0, 1)  # a chain of faults steps by less than a second, or by about a session timeout


def edited(rng: Rng, source: Source, *, name: str) -> Plan | None:
    """A plan after one to eight edits of its parent, mostly with patterns of known bugs last; None if none could be made."""
    parent = source.parent
    draft = Draft(schedule=parent.schedule, script=parent.script, acks=parent.workload.acks)
    edits_made: list[str] = []
    single = EDITS_ON_SYSTEMS if is_foreign(parent) else EDITS
    choices = [single] * rng.pick((1, 2, 3, 5)) + [PATTERNS] * rng.pick((0, 1, 2, 3, 3))
    for number, edits in enumerate(choices):
        edited_draft = _edit_once(rng.fork(f"edit {number}"), source, draft, edits)
        if edited_draft is not None:
            draft = edited_draft
            edits_made.append(edited_draft.words)
    if not edits_made:
        return None
    plan = replace(
        parent,
        name=name,
        story=f"Edited from {parent.name}: {'; '.join(edits_made)}.",
        seed=None,
        schedule=tuple(sorted(draft.schedule, key=lambda window: (window.at_ms, window.until_ms, window.id))),
        script=draft.script,
        workload=replace(parent.workload, acks=draft.acks),
        required_marks=marks_of(draft.schedule),
    )
    return checked(own_topics(plan) if is_foreign(plan) else plan)


def _edit_once(rng: Rng, source: Source, draft: Draft, edits: tuple[Edit, ...]) -> Draft | None:
    """Draw an edit until one can be made and keeps the rules."""
    for attempt in range(_TRIES):
        draws = rng.fork(f"try {attempt}")
        edited_draft = draws.pick(edits)(draws, source, draft)
        if edited_draft is None or len(edited_draft.schedule) > WINDOWS_MAX:
            continue
        if is_foreign(source.parent) and edited_draft.script:
            continue  # the script asks the reference's administrators
        if replace(edited_draft, words=draft.words) != draft and is_allowed(edited_draft.schedule, source.parent):
            return edited_draft
    return None


# --- at a notable moment ---------------------------------------------------------------------------------------------------


def _add_fault_at_moment(rng: Rng, source: Source, draft: Draft) -> Draft | None:
    """Add a fault just when the parent took a notable branch, mostly at the broker that took it."""
    notable = _draw_moment(rng, source)
    if notable is None or not source.kinds:
        return None
    at_ms = notable.at_ms + rng.below(rng.pick(_AFTER_MS) + 1)
    window = drawn_window(rng, source, draft.schedule, at_ms, broker=notable.broker)
    return _draft_with(draft, window, f"{window.kind} at {at_ms} ms, after {notable.branch}")


def _align_window(rng: Rng, source: Source, draft: Draft) -> Draft | None:
    """Move a window so that it begins or ends at a notable moment."""
    notable = _draw_moment(rng, source)
    if notable is None or not draft.schedule:
        return None
    old = rng.pick(draft.schedule)
    lasts_ms, edge = old.until_ms - old.at_ms, notable.at_ms + rng.below(rng.pick(_AFTER_MS) + 1)
    at_ms = max(0, edge - lasts_ms if rng.ratio(1, 3) else edge)
    new = replace(old, at_ms=at_ms, until_ms=at_ms + lasts_ms)
    return _draft_with_change(source, draft, old, new, f"{old.id} moved to {at_ms} ms, {notable.branch}")


def _add_request_at_moment(rng: Rng, source: Source, draft: Draft) -> Draft | None:
    """Let an administrator ask for something at a notable moment."""
    notable = _draw_moment(rng, source)
    if notable is None:
        return None
    topic = rng.pick(source.parent.cluster.topics)
    at_ms = notable.at_ms + rng.below(rng.pick(_AFTER_MS) + 1)
    partition = rng.below(topic.partitions)
    match rng.pick(("reassign", "reassign", "elect-preferred", "depose-controller")):
        case "reassign":
            step = reassigned(rng, source.parent, topic, partition, at_ms)
        case "elect-preferred":
            step = Step(at_ms=at_ms, do="elect-preferred", topic=topic.name, partition=partition)
        case _:
            step = Step(at_ms=at_ms, do="depose-controller")
    if at_ms >= source.parent.faults_ms:
        return None
    return replace(draft, script=in_time((*draft.script, step)), words=f"{step.do} asked at {at_ms} ms")


def _draw_moment(rng: Rng, source: Source) -> Notable | None:
    """Draw a moment by weight."""
    weight_left = rng.below(max(1, sum(notable.weight for notable in source.notable)))
    for notable in source.notable:
        weight_left -= notable.weight
        if weight_left < 0:
            return notable
    return None


# --- windows and steps that are there --------------------------------------------------------------------------------------


def _move_window(rng: Rng, source: Source, draft: Draft) -> Draft | None:
    """Move a drawn window in time."""
    if not draft.schedule:
        return None
    old, far = rng.pick(draft.schedule), rng.pick(_MOVES_MS)
    by = max(-old.at_ms, rng.between(-far, far))
    new = replace(old, at_ms=old.at_ms + by, until_ms=old.until_ms + by)
    return _draft_with_change(source, draft, old, new, f"{old.id} moved by {by} ms")


def _stretch_window(rng: Rng, source: Source, draft: Draft) -> Draft | None:
    """Make a window shorter or longer: a tenth of its duration to five times."""
    if not draft.schedule:
        return None
    old = rng.pick(draft.schedule)
    lasts_ms = max(1, (old.until_ms - old.at_ms) * rng.pick((1, 3, 5, 15, 20, 50)) // 10)
    new = replace(old, until_ms=min(old.at_ms + lasts_ms, source.parent.faults_ms))
    return _draft_with_change(source, draft, old, new, f"{old.id} lasts {new.until_ms - new.at_ms} ms")


def _remove_windows(rng: Rng, source: Source, draft: Draft) -> Draft | None:
    """Leave out one window, or some that follow each other."""
    if len(draft.schedule) < 3:
        return None
    first = rng.below(len(draft.schedule))
    number = rng.pick((1, 1, 2, max(1, len(draft.schedule) // 4)))
    removed = draft.schedule[first : first + number]
    return replace(
        draft,
        schedule=tuple(window for window in draft.schedule if window not in removed),
        words=f"without {', '.join(window.id for window in removed)}",
    )


def _repeat_window(rng: Rng, source: Source, draft: Draft) -> Draft | None:
    """Let a window come again soon after its end."""
    if not draft.schedule:
        return None
    old = rng.pick(draft.schedule)
    at_ms = old.until_ms + rng.between(1, rng.pick(_MOVES_MS))
    new = replace(old, id=fresh_id(draft.schedule), at_ms=at_ms, until_ms=at_ms + old.until_ms - old.at_ms)
    return _draft_with(draft, new, f"{old.id} again at {at_ms} ms")


def _retarget_window(rng: Rng, source: Source, draft: Draft) -> Draft | None:
    """Give a drawn window another target."""
    if not draft.schedule:
        return None
    old = rng.pick(draft.schedule)
    new = replace(old, target=_draw_target(rng, shape_of(source.parent)))
    return _draft_with_change(source, draft, old, new, f"{old.id} at another target")


def _swap_fault(rng: Rng, source: Source, draft: Draft) -> Draft | None:
    """Put another kind of fault in the place of a window."""
    if not draft.schedule or not source.kinds:
        return None
    old = rng.pick(draft.schedule)
    others = tuple(window for window in draft.schedule if window is not old)
    new = replace(drawn_window(rng, source, others, old.at_ms, broker=0), id=fresh_id(draft.schedule))
    return replace(draft, schedule=(*others, new), words=f"{old.id} becomes {new.kind}")


def _shift_step(rng: Rng, source: Source, draft: Draft) -> Draft | None:
    """Move a step of the script."""
    if not draft.script:
        return None
    old, far = rng.pick(draft.script), rng.pick(_MOVES_MS)
    at_ms = min(max(0, old.at_ms + rng.between(-far, far)), source.parent.faults_ms - 1)
    steps = [replace(step, at_ms=at_ms) if step is old else step for step in draft.script]
    return replace(draft, script=in_time(steps), words=f"{old.do} asked at {at_ms} ms")


# --- several windows -------------------------------------------------------------------------------------------------------


def _splice_schedule(rng: Rng, source: Source, draft: Draft) -> Draft | None:
    """Take over some seconds of another plan's schedule, at any time, as far as they fit this plan's cluster."""
    other_plan = rng.pick(source.others) if source.others else source.parent
    if not other_plan.schedule:
        return None
    shape = shape_of(source.parent)
    begin_ms = rng.pick(other_plan.schedule).at_ms
    end_ms = begin_ms + rng.pick((1000, 3000, 8000))
    by = rng.below(source.parent.faults_ms) - begin_ms
    schedule = draft.schedule
    for window in other_plan.schedule:
        if begin_ms <= window.at_ms < end_ms:
            moved = replace(window, id=fresh_id(schedule), at_ms=window.at_ms + by, until_ms=window.until_ms + by)
            trial = (*schedule, replace(moved, target=_target_that_fits(window.target, shape)))
            if is_allowed(trial, source.parent):
                schedule = trial
    added = len(schedule) - len(draft.schedule)
    words = f"{added} windows of {other_plan.name} from {begin_ms} ms on, at {begin_ms + by} ms"
    return replace(draft, schedule=schedule, words=words) if added else None


def _add_repeated_fault(rng: Rng, source: Source, draft: Draft) -> Draft | None:
    """Add a fault that strikes the leader, the controller or any broker again and again."""
    if not source.kinds:
        return None
    shape = shape_of(source.parent)
    notable = _draw_moment(rng, source)
    at_ms = rng.below(source.parent.faults_ms) if notable is None or rng.ratio(1, 2) else notable.at_ms
    first = drawn_window(rng, source, draft.schedule, at_ms, broker=0)
    schedule = draft.schedule
    for _ in range(rng.between(2, 5)):
        window = replace(first, id=fresh_id(schedule), at_ms=at_ms, until_ms=at_ms + first.until_ms - first.at_ms)
        if window.until_ms <= source.parent.faults_ms:
            schedule = (*schedule, window)
        at_ms += rng.between(20, 1000) + rng.pick(_SESSIONS) * shape.session_timeout_ms
    return replace(
        draft, schedule=schedule, words=f"{len(schedule) - len(draft.schedule)} times {first.kind} from {first.at_ms} ms on"
    )


EDITS: tuple[Edit, ...] = (
    *(_add_fault_at_moment, _add_fault_at_moment, _add_fault_at_moment, _add_fault_at_moment),
    *(
        _align_window,
        _add_request_at_moment,
        _move_window,
        _stretch_window,
        _remove_windows,
        _repeat_window,
        _retarget_window,
        _swap_fault,
        _shift_step,
    ),
    *(_splice_schedule, _splice_schedule, _add_repeated_fault),
)


def _aim_at_another_message(rng: Rng, source: Source, draft: Draft) -> Draft | None:
    """Let a fault of messages strike another request, or its answer."""
    aimed = [window for window in draft.schedule if isinstance(window.fault, LinkFault) and kinds_of(window.fault)]
    if not aimed:
        return None
    old = rng.pick(aimed)
    name = rng.pick(_TO_PEERS if getattr(old.fault, "links", ("peers",)) == ("peers",) else _TO_BROKERS) + rng.pick(("", REPLY))
    fault = replace(old.fault, kinds=(name,))
    return _draft_with_change(source, draft, old, replace(old, fault=fault), f"{old.id} at {name}")


def _aim_at_coordinator(rng: Rng, source: Source, draft: Draft) -> Draft | None:
    """Let a fault strike the coordinator of the clients' groups or transactions, or a follower of its log."""
    topics = shape_of(source.parent).internal_topics
    aimed = [window for window in draft.schedule if not isinstance(window.target, ClientPlace)]
    if not topics or not aimed:
        return None
    old, topic = rng.pick(aimed), rng.pick(topics)
    target = rng.pick(
        (LeaderOf(topic=topic, partition=0), LeaderOf(topic=topic, partition=0), IsrMember(topic=topic, partition=0))
    )
    return _draft_with_change(source, draft, old, replace(old, target=target), f"{old.id} aims at {topic}")


EDITS_ON_SYSTEMS: tuple[Edit, ...] = (
    *(edit for edit in EDITS if edit not in (_add_request_at_moment, _shift_step)),
    *(_aim_at_another_message, _aim_at_another_message),
    *(_aim_at_coordinator, _aim_at_coordinator),
)


# --- parts of edits --------------------------------------------------------------------------------------------------------


def _draw_target(rng: Rng, shape: Shape) -> AnyTarget:
    """A target, drawn from the shape of the cluster."""
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


def _target_that_fits(target: AnyTarget, shape: Shape) -> AnyTarget:
    """A target of another plan as one of this cluster, if it names a topic, a partition or brokers that are not there."""
    match target:
        case OfPartition(topic=name) if name in shape.internal_topics:
            return target
        case OfPartition(topic=name, partition=partition):
            topic = _topic(name, shape)
            return replace(target, topic=topic.name, partition=partition % topic.partitions)
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


def _draft_with(draft: Draft, window: Window, words: str) -> Draft:
    return replace(draft, schedule=(*draft.schedule, window), words=words)


def _draft_with_change(source: Source, draft: Draft, old: Window, new: Window, words: str) -> Draft | None:
    """The draft with a window in the place of another; None if it could not end in time."""
    if new.until_ms > source.parent.faults_ms:
        return None
    return replace(draft, schedule=tuple(new if window is old else window for window in draft.schedule), words=words)
