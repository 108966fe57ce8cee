"""A log directory that fails at an append (parameter `append` of the fault dir-failure)."""

from functools import cache
from pathlib import Path

import pytest
from msgspec.structs import replace

from highwater.backends.sim.backend import SimBackend
from highwater.plans.plan import Plan
from highwater.plans.text import load_plan
from highwater.rig.backend import Provenance
from history.event import ClusterEvent
from history.event import EventKind as K
from history.history import History
from nemesis.faults import DirFailure

PLAN = Path("corpus/plans/log-dirs/append-of-a-produce.yaml")
NTH = 5  # in the plan


@cache
def _performed(plan: Plan) -> History:
    return SimBackend().perform(plan, Provenance(run_id="append", plan_digest="0" * 32)).history


def _window(history: History, index: int) -> tuple[ClusterEvent, ClusterEvent, ClusterEvent]:
    """The begin of a window at its broker, what the broker says of its directory, and the end of the window."""
    begun = [row for row in history.of_kind(K.FAULT_BEGUN) if row.partition is None][index]
    failed = next(row for row in history.of_kind(K.DIR_FAILED) if row.node == begun.node and row.index > begun.index)
    ended = next(row for row in history.of_kind(K.FAULT_ENDED) if row.fault == begun.fault and row.partition is None)
    return begun, failed, ended


@pytest.mark.parametrize(("index", "role"), [(0, "leader"), (1, "follower")])
def test_directory_fails_at_the_named_append_and_not_before(index: int, role: str) -> None:
    """R-291: the appends before it are in the log, and this one is the first access that fails."""
    history = _performed(load_plan(PLAN))
    begun, failed, ended = _window(history, index)
    appends = [row for row in history.of_kind(K.APPEND) if row.node == begun.node and row.partition == 0]

    within = {(row.time_ns, row.detail) for row in appends if begun.index < row.index < failed.index}
    assert len([1 for _, detail in within if detail == role]) == NTH - 1
    assert [row for row in appends if failed.index < row.index < ended.index] == []


def test_other_directory_of_the_broker_goes_on() -> None:
    history = _performed(load_plan(PLAN))
    begun, failed, ended = _window(history, 1)

    there = [row for row in history.of_kind(K.APPEND) if row.node == begun.node and row.partition == 1]
    assert [row for row in there if failed.index < row.index < ended.index] != []


def test_append_that_no_broker_comes_to_fails_nothing() -> None:
    plan = load_plan(PLAN)
    never = tuple(replace(w, fault=replace(w.fault, nth=100_000)) for w in plan.schedule if isinstance(w.fault, DirFailure))
    history = _performed(replace(plan, schedule=never))

    assert history.of_kind(K.DIR_FAILED) == ()
    assert [count.acted for count in history.manifest.faults] == [0]


def test_device_that_drops_loses_at_the_end_of_the_window() -> None:
    """With `drop_unflushed` the undo belongs to a failure that came; without one nothing is lost."""
    plan = load_plan(PLAN)
    first = plan.schedule[0]
    assert isinstance(first.fault, DirFailure)
    dropped = replace(plan, schedule=(replace(first, fault=replace(first.fault, drop_unflushed=True)),))
    never = replace(plan, schedule=(replace(first, fault=replace(first.fault, drop_unflushed=True, nth=100_000)),))

    assert [row.node for row in _performed(dropped).of_kind(K.WOUND)] != []
    assert _performed(never).of_kind(K.WOUND) == ()
