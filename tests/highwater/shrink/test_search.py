"""The search of the shrinker: the smallest plan, within its budget, whatever the workers."""

from pathlib import Path

import msgspec
import pytest

from highwater.plans.plan import Plan
from highwater.runs.provenance import Build
from highwater.shrink import search
from highwater.shrink.search import Budget, Judges, Smallest, shrink
from highwater.shrink.trial import Goal, Question
from tests.highwater.shrink.plans import LOST, needs_two_windows, plan_with, replies

HERE = Build(commit="", dirty=False, versions={})
GOAL = Goal(signature=LOST, checker="acked-loss", early=True, against="safe")
AMPLE = Budget(trials=1000, cpu_seconds=1000)


@pytest.fixture
def plans_tried(monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    """The plans that were tried, by a judge who needs no run."""
    plans: list[Plan] = []

    def answer(payload: bytes) -> bytes:
        question = msgspec.json.decode(payload, type=Question)
        plans.append(question.plan)
        return msgspec.json.encode(needs_two_windows(question))

    monkeypatch.setattr(search, "answer_encoded", answer)
    return plans


def _shrunk(folder: Path, *, budget: Budget = AMPLE, windows: int = 9) -> tuple[Smallest, list[Smallest]]:
    plan = plan_with(windows)
    accepted: list[Smallest] = []
    judges = Judges(str(folder), HERE, budget=budget, workers=1)
    return shrink(plan, replies(plan, proof_ms=None), GOAL, judges, accepted.append), accepted


def test_search_leaves_only_the_windows_that_the_failure_needs(tmp_path: Path, plans_tried: list[Plan]) -> None:
    shrunk_plan, _ = _shrunk(tmp_path)

    assert [window.id for window in shrunk_plan.plan.schedule] == ["f2", "f5"]
    assert (shrunk_plan.plan.cluster.brokers, shrunk_plan.plan.workload.producers, shrunk_plan.plan.workload.consumers) == (
        1,
        1,
        0,
    )
    assert shrunk_plan.stopped is None


def test_search_accepts_plans_that_only_get_smaller(tmp_path: Path, plans_tried: list[Plan]) -> None:
    """The plan on disk is the best so far at any time."""
    _, accepted = _shrunk(tmp_path)

    counts = [len(accepted_search.plan.schedule) for accepted_search in accepted]

    assert counts == sorted(counts, reverse=True)
    assert all({"f2", "f5"} <= {window.id for window in accepted_search.plan.schedule} for accepted_search in accepted)


def test_search_begun_again_asks_nothing_twice(tmp_path: Path, plans_tried: list[Plan]) -> None:
    first, _ = _shrunk(tmp_path)
    before = len(plans_tried)

    again, _ = _shrunk(tmp_path)

    assert (len(plans_tried), again) == (before, first)


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        (Budget(trials=5, cpu_seconds=1000), "the budget of 5 trials is spent"),
        (Budget(trials=1000, cpu_seconds=3.0), "the budget of 3 s of CPU is spent"),
    ],
)
def test_search_ends_when_its_budget_is_spent(tmp_path: Path, plans_tried: list[Plan], budget: Budget, words: str) -> None:
    shrunk_plan, _ = _shrunk(tmp_path, budget=budget)

    assert shrunk_plan.stopped == words
    assert {"f2", "f5"} <= {window.id for window in shrunk_plan.plan.schedule}
    assert len(plans_tried) <= 7


def test_search_goes_on_from_a_spent_budget(tmp_path: Path, plans_tried: list[Plan]) -> None:
    _shrunk(tmp_path, budget=Budget(trials=5, cpu_seconds=1000))
    shrunk_plan, _ = _shrunk(tmp_path)

    assert len(plans_tried) == shrunk_plan.trials


def test_plan_whose_trial_fails_in_the_harness_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(payload: bytes) -> bytes:
        raise RuntimeError("no disk")

    monkeypatch.setattr(search, "answer_encoded", broken)
    shrunk_plan, accepted = _shrunk(tmp_path, windows=2)

    assert (len(shrunk_plan.plan.schedule), accepted) == (2, [])
