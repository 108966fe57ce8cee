"""Campaigns and the chaos job shrink the first failure of each signature, within one budget."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from highwater.campaigns import smaller
from highwater.campaigns.chaos import Check, Part
from highwater.campaigns.red import lines_of, red_runs, reds
from highwater.campaigns.smaller import Smaller, shrink_failures
from highwater.errors import UsageError
from highwater.exit_codes import ExitCode
from highwater.runs.findings import FoundAnomaly
from highwater.runs.summary import Summary
from highwater.shrink.folder import ShrinkOrder, Shrunk, Size
from highwater.shrink.search import Budget
from tests.highwater.shrink.plans import plan_with

SIZE = Size(windows=1, steps=0, brokers=2, replicas=2, partitions=1, clients=1, faults_ms=100, operations=2, acked=1)
LOST = FoundAnomaly(kind="lost-write", checker="acked-loss", key="t-0", words="gone")


def _run(name: str, *, verdict: str = "INVALID", protocol: str = "safe") -> Summary:
    return Summary(
        seed=None,
        protocol=protocol,
        verdict=verdict,  # type: ignore[arg-type]
        live=True,
        anomalies=(LOST,) if verdict == "INVALID" else (),
        signature=name[0],
        plan=name,
        plan_digest="",
        backend="sim",
        outcome="completed",
        store=name,
        repeat="highwater run",
    )


@pytest.fixture
def shrunk(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, float]]:
    """The plans that are shrunk, with their budgets; each costs 40 s. A run's signature is the first letter of its name."""
    done: list[tuple[str, float]] = []

    def shrink_in(folder: Path, shrink_order: ShrinkOrder, *, budget: Budget, workers: int) -> Shrunk:
        done.append((shrink_order.plan.name, round(budget.cpu_seconds, 1)))
        if shrink_order.plan.name.startswith("c"):
            raise UsageError("it is VALID, live: nothing to shrink")
        return Shrunk(
            plan=f"{folder}/plan.yaml",
            signature="lost-write",
            compared="",
            before=SIZE,
            after=SIZE,
            story=(),
            neighbours=(),
            verdict="INVALID, live",
            accepted={},
            trials=1,
            cpu_seconds=40.0,
            stopped=None,
            exit=ExitCode.INVALID,
        )

    monkeypatch.setattr(smaller, "load_plan", lambda path: replace(plan_with(1), name=path.parent.name))
    monkeypatch.setattr(smaller, "shrink_in", shrink_in)
    monkeypatch.setattr(smaller, "_store_shrunk_run", lambda run, found, store: store / run / "beside-x.html")
    return done


def test_first_failure_of_each_signature_is_shrunk(shrunk: list[tuple[str, float]]) -> None:
    runs = [_run("a1"), _run("a2"), _run("v1", verdict="VALID"), _run("b1")]

    plans, complaints = shrink_failures(runs, Path("s"), cpu_seconds=90.0, workers=1)

    assert shrunk == [("a1", 90.0), ("b1", 50.0)]
    assert {run: this_smaller.plan for run, this_smaller in plans.items()} == {
        "a1": "s/shrunk/a1-v3/plan.yaml",
        "b1": "s/shrunk/b1-v3/plan.yaml",
    }
    assert plans["b1"].beside == "s/b1/beside-x.html"
    assert plans["b1"].link == "b1/beside-x.html"
    assert complaints == ()


def test_failures_beyond_the_budget_are_named(shrunk: list[tuple[str, float]]) -> None:
    plans, complaints = shrink_failures([_run("a1"), _run("b1"), _run("d1")], Path("s"), cpu_seconds=50.0, workers=1)

    assert list(plans) == ["a1", "b1"]
    assert plans["b1"].beside == ""
    assert complaints == (
        "b1 is not put beside its neighbour: 50 s of CPU are spent (--shrink)",
        "d1 is not shrunk: 50 s of CPU are spent (--shrink)",
    )


def test_failure_that_cannot_be_shrunk_stops_no_other(shrunk: list[tuple[str, float]]) -> None:
    plans, complaints = shrink_failures([_run("c1"), _run("a1")], Path("s"), cpu_seconds=60.0, workers=1)

    assert list(plans) == ["a1"]
    assert complaints == ("c1 is not shrunk: it is VALID, live: nothing to shrink",)


def test_nothing_is_shrunk_without_a_budget(shrunk: list[tuple[str, float]]) -> None:
    assert shrink_failures([_run("a1")], Path("s"), cpu_seconds=0.0, workers=1) == ({}, ())
    assert shrunk == []


def test_red_line_names_the_smaller_plan() -> None:
    check = Check(name="a1 on safe", met=False, code=ExitCode.INVALID, complaint="a1 on safe: INVALID", run=0)
    part = Part(name="seeds", checks=(check,), summaries=(_run("a1"),), code=ExitCode.INVALID)

    less = Smaller(plan="s/shrunk/a1/plan.yaml", beside="s/a1/beside-x.html")
    lines = list(lines_of(reds([part], Path("s"), {"a1": less})))
    assert "    shrunk  s/shrunk/a1/plan.yaml" in lines
    assert "    beside  s/a1/beside-x.html" in lines
    assert not any("highwater shrink" in line for line in lines)


def test_known_bad_runs_are_not_shrunk() -> None:
    """They fail on purpose."""
    check = Check(name="x", met=False, code=ExitCode.LABORATORY_FAILED, run=0)
    part = Part(name="known-bad", checks=(check,), summaries=(_run("a1", protocol="v3"),), code=ExitCode.LABORATORY_FAILED)

    assert list(red_runs([part])) == []


def test_run_that_is_told_is_the_one_looked_into() -> None:
    """Of two runs of one cause the worse one is told first, so it is shrunk and compared, whichever was performed first."""
    runs = [replace(_run("a1"), anomalies=(replace(LOST, kind="offset-order"),)), _run("a2")]
    checks = tuple(
        Check(name=run.name, met=False, code=ExitCode.INVALID, complaint=run.name, run=number) for number, run in enumerate(runs)
    )
    part = Part(name="seeds", checks=checks, summaries=tuple(runs), code=ExitCode.INVALID)

    assert [red.name for red in reds([part], Path("s"))] == [run.name for run in red_runs([part])]
    assert [run.store for run in red_runs([part])] == ["a2", "a1"]
