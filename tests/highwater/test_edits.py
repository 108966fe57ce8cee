"""Edits of plans: what they keep, and that they break no rule."""

import pytest
from msgspec.structs import replace

from highwater.campaigns.drafts import Draft, Edit, Notable, Source, kinds_for
from highwater.campaigns.edits import EDITS, edited
from highwater.campaigns.patterns import PATTERNS, _end_faults_early, _leaders_in_turn
from highwater.plans.derive import MIXED, derive
from highwater.plans.plan import Plan, complaints, shape_of
from highwater.plans.text import plan_from_yaml, plan_to_yaml
from history.seed import Rng
from nemesis.capability import refusals
from nemesis.faults import DiskSwap, wounds
from nemesis.kinds import select
from nemesis.profiles import ProfileName, excess
from nemesis.schedule import Window
from nemesis.targets import LeaderOf, Named
from workloads.parameters import Step

_EARLY_MS_MAX = 3000  # a pattern may place its moves so long before the bound has passed


def _source(seed: int, profile: ProfileName = "within") -> Source:
    parent = derive(seed, workload=MIXED, faults=("all",), profile=profile)
    return Source(
        parent=parent,
        notable=tuple(
            Notable(at_ms=at_ms, broker=broker, branch="f: if x", weight=10) for at_ms, broker in ((900, 1), (4000, 2), (9000, 0))
        ),
        others=(derive(seed + 500, faults=("all",)),),
        kinds=kinds_for(parent, select(["all"]), profile),
    )


def _children(seed: int, profile: ProfileName = "within") -> list[Plan]:
    """A lineage of five plans, each an edit of the one before."""
    source = _source(seed, profile)
    plans = []
    for number in range(5):
        child = edited(Rng(seed).fork(f"child {number}"), source, name=f"child-{number}")
        if child is not None:
            plans.append(child)
            source = replace(source, parent=child)
    return plans


@pytest.mark.usefixtures("catalogue")
@pytest.mark.parametrize("first", [0, 20])
def test_any_edited_plan_is_valid_and_stays_within(first: int) -> None:
    """Every edited plan heals, has its quiet time, and wounds no more replicas than its profile allows."""
    for seed in range(first, first + 20):
        for child in _children(seed):
            assert not complaints(child)
            assert excess(child.schedule, shape_of(child)) is None


def test_edited_plan_keeps_all_but_schedule_script_and_acks() -> None:
    for seed in range(10):
        parent = _source(seed).parent
        for child in _children(seed):
            unedited = replace(
                child,
                name=parent.name,
                story=parent.story,
                seed=parent.seed,
                schedule=parent.schedule,
                script=parent.script,
                workload=replace(child.workload, acks=parent.workload.acks),
                required_marks=parent.required_marks,
            )
            assert unedited == parent


def test_edited_plan_says_what_was_edited() -> None:
    children = _children(3)

    assert children
    assert all(child.seed is None and child.story.startswith("Edited from ") for child in children)


def test_edited_plan_is_the_same_from_its_text() -> None:
    assert [plan_from_yaml(plan_to_yaml(child)) for child in _children(4)] == _children(4)


def test_edited_plan_beyond_the_promise_is_valid() -> None:
    assert all(not complaints(child) for seed in range(5) for child in _children(seed, "beyond"))


@pytest.mark.parametrize("pattern", dict.fromkeys(PATTERNS), ids=lambda pattern: pattern.__name__)
def test_pattern_has_its_time_for_itself(pattern: Edit) -> None:
    """Another fault in between would keep the known bug from happening."""
    edits_found = 0
    for seed in range(40):
        source = _source(seed)
        before = source.parent.schedule
        after = pattern(Rng(seed), source, Draft(schedule=before, script=(), acks=(-1,)))
        if after is None:
            continue
        edits_found += 1
        new = [window for window in after.schedule if window not in before]
        begin_ms, end_ms = _span(new) if new else (min(step.at_ms for step in after.script), source.parent.faults_ms)
        assert all(window.until_ms <= begin_ms or end_ms <= window.at_ms for window in after.schedule if window in before)

    assert edits_found > 5


def _span(windows: list[Window]) -> tuple[int, int]:
    return min(window.at_ms for window in windows), max(window.until_ms for window in windows)


@pytest.mark.parametrize("pattern", dict.fromkeys(PATTERNS), ids=lambda pattern: pattern.__name__)
def test_pattern_leaves_another_pattern_alone(pattern: Edit) -> None:
    """A second pattern that removed the windows of the first one would undo it."""
    edits_found = 0
    for seed in range(60):
        source = _source(seed)
        first = _leaders_in_turn(Rng(seed).fork("first"), source, Draft(schedule=(), script=(), acks=(-1,)))
        second = pattern(Rng(seed), source, first) if first is not None else None
        if first is None or second is None:
            continue
        edits_found += 1
        assert set(first.schedule) <= set(second.schedule)
        (begin_ms, end_ms), (at_ms, until_ms) = second.taken
        assert end_ms <= at_ms or until_ms <= begin_ms

    assert edits_found > 2


def test_cancelled_moves_are_allowed_after_the_last_fault() -> None:
    """A cancellation that stays forbids every later move, and would make the run not live."""
    edits_found = 0
    for seed in range(40):
        source = _source(seed)
        for pattern in dict.fromkeys(PATTERNS):
            after = pattern(Rng(seed), source, Draft(schedule=source.parent.schedule, script=(), acks=(-1,)))
            steps_done = [step.do for step in after.script] if after is not None else []
            if "cancel-reassignments" in steps_done:
                edits_found += 1
                assert steps_done[-1] == "allow-reassignments"
                assert after is not None
                assert after.script[-1].at_ms >= max(window.until_ms for window in after.schedule) - 1

    assert edits_found > 5


def test_edit_draws_no_fault_that_cannot_be_simulated() -> None:
    """Nobody simulates the messages of clients one by one; such kinds may be named beside others."""
    source = _source(1)
    source = replace(source, kinds=kinds_for(source.parent, select(["message", "step"]), "within"))
    children = [child for seed in range(60) if (child := edited(Rng(seed), source, name="child")) is not None]

    assert {"message-late", "message-lost"} <= {kind.name for kind in source.kinds}
    assert len(children) > 30
    assert [refusals("sim", child.schedule) for child in children if refusals("sim", child.schedule)] == []


def test_calm_moves_all_partitions_after_the_bound() -> None:
    """Clients are owed answers once the promise's bound has passed since the last fault."""
    edits_found = 0
    for seed in range(40):
        source = _source(seed)
        after = _end_faults_early(Rng(seed), source, Draft(schedule=source.parent.schedule, script=(), acks=(-1,)))
        if after is not None:
            edits_found += 1
            partitions = [(topic.name, n) for topic in source.parent.cluster.topics for n in range(topic.partitions)]
            last_ms = max(window.until_ms for window in after.schedule)

            assert [(step.topic, step.partition) for step in after.script] == partitions
            assert all(step.at_ms > last_ms + source.parent.promise.bound_ms - _EARLY_MS_MAX for step in after.script)
            assert after.acks in ((0,), (1,))

    assert edits_found > 5


@pytest.mark.slow
def test_each_edit_changes_some_plan() -> None:
    """An edit that never applies would be dead code that looks like a search."""
    idle = {*EDITS, *PATTERNS}
    for seed in range(30):
        source = _source(seed)
        script: tuple[Step, ...] = ()
        for child in _children(seed):
            script = child.script or script
        for edit in tuple(idle):
            draft = Draft(schedule=source.parent.schedule, script=script, acks=source.parent.workload.acks)
            draft_found = edit(Rng(seed), source, draft)
            if draft_found is not None and replace(draft_found, words="") != draft:
                idle.remove(edit)

    assert not idle


def test_derived_plans_stay_within_their_profile() -> None:
    """The rule for edited plans must not be stricter, nor laxer, than what seeds derive."""
    wounding = 0
    for seed in range(100):
        plan = derive(seed, workload=MIXED, faults=("all",))
        wounding += any(wounds(window.fault, topic.flush) for window in plan.schedule for topic in plan.cluster.topics)
        assert excess(plan.schedule, shape_of(plan)) is None

    assert wounding > 10


@pytest.mark.parametrize(
    ("targets", "is_refused"),
    [
        ([Named(brokers=(1,))], False),
        ([Named(brokers=(1,)), Named(brokers=(1,))], False),
        ([Named(brokers=(1,)), Named(brokers=(2,))], True),
        ([LeaderOf(topic="orders", partition=0)], True),
    ],
)
def test_wounds_on_too_many_brokers_are_refused(targets: list[Named | LeaderOf], is_refused: bool) -> None:
    """docs/promise.md DUR-4: within its profile a run wounds fewer than min.insync.replicas replicas."""
    shape = shape_of(derive(1, faults=("disk-swap",)))
    shape = replace(shape, topics=tuple(replace(topic, min_insync_replicas=2) for topic in shape.topics))
    windows = [
        Window(id=f"f{n}", kind="disk-swap", at_ms=n, until_ms=n + 1, fault=DiskSwap(), target=target)
        for n, target in enumerate(targets)
    ]

    assert (excess(windows, shape) is not None) is is_refused
