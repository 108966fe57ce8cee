"""The flow of one run: what is stored, and that a run that ended early is never VALID."""

from collections.abc import Collection, Iterable
from itertools import count
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from checkers.engine.verdict import Validity, Verdict
from checkers.judge import judge as judge_history
from highwater.backends.sim.backend import SimBackend
from highwater.campaigns.campaign import Limits, Request, run_campaign
from highwater.errors import HarnessError, UsageError
from highwater.exit_codes import ExitCode
from highwater.plans.derive import derive
from highwater.plans.plan import Plan, plan_digest
from highwater.rig.backend import Provenance, Run
from highwater.runs.provenance import Build, present_build
from highwater.runs.run import SLOWED_MAX, SUMMARY, Judged, Keep, carry_out, honest, judge, perform
from highwater.runs.summary import Summary
from highwater.runs.workers import Task
from history import store
from history.history import History
from history.manifest import Outcome

HERE = Build(commit="abc", dirty=False, versions={"python": "3"})
PLAN = derive(1, seconds=3)
REPEAT = "highwater run --seed 1 --seconds 3"


class Broken:
    """A backend that fails."""

    name = "broken"

    def refuse(self, plan: Plan) -> str | None:
        return None

    def perform(self, plan: Plan, provenance: Provenance) -> Run:
        raise OSError("no space left on device")


class Choosy(Broken):
    """A backend that refuses the plan."""

    def refuse(self, plan: Plan) -> str | None:
        return "window f1 (pause): not here"


class Early:
    """The simulator with outcome `interrupted` in the manifest."""

    name = "sim"

    def refuse(self, plan: Plan) -> str | None:
        return None

    def perform(self, plan: Plan, provenance: Provenance) -> Run:
        run = SimBackend().perform(plan, provenance)
        manifest = replace(run.history.manifest, outcome="interrupted")
        return Run(history=History(manifest, operations=run.history.operations, events=run.history.events))


@pytest.fixture(scope="module")
def good() -> History:
    """The history of a VALID run."""
    return perform(PLAN, SimBackend(), HERE).history


def _carried_out(folder: Path, **keep: bool) -> Judged:
    return carry_out(PLAN, SimBackend(), build=HERE, repeat=REPEAT, keep=Keep(store=folder, **keep))


@pytest.mark.slow
def test_run_stores_history_verdict_report_and_summary(tmp_path: Path) -> None:
    judged_run = _carried_out(tmp_path)

    directory = tmp_path / PLAN.name / judged_run.history.manifest.run_id
    names = {path.name for path in directory.iterdir()}
    assert names == {store.MANIFEST, store.PLAN, store.OPERATIONS, store.EVENTS, store.VERDICT, store.REPORT, SUMMARY}
    assert store.load_run(directory).digest == judged_run.summary.digest
    assert msgspec.json.decode((directory / SUMMARY).read_bytes(), type=Summary) == judged_run.summary
    assert msgspec.json.decode((directory / store.VERDICT).read_bytes(), type=Verdict) == judged_run.verdict


def test_valid_run_is_not_stored_with_only_failures(tmp_path: Path) -> None:
    judged_run = _carried_out(tmp_path, only_failures=True)

    assert judged_run.summary.exit_code is ExitCode.VALID
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_summary_counts_equal_the_history(good: History) -> None:
    summary = _summary()

    assert summary.digest == good.digest
    assert summary.ops == len(good.attempts)
    assert summary.acked == sum(
        a.completion[0].f == "produce" and a.completion[0].type == "ok" for a in good.attempts if a.completion
    )
    assert summary.acked > 0


def _summary() -> Summary:
    return carry_out(PLAN, SimBackend(), build=HERE, repeat=REPEAT, keep=Keep()).summary


def test_manifest_has_the_build_and_the_plan(good: History) -> None:
    manifest = good.manifest

    assert (manifest.commit, manifest.dirty, manifest.versions) == ("abc", False, {"python": "3"})
    assert (manifest.plan_digest, manifest.seed) == (plan_digest(PLAN), 1)


def test_complete_run_without_anomaly_is_valid(good: History) -> None:
    assert judge(good).validity is Validity.VALID


@pytest.mark.parametrize("outcome", ["interrupted", "incomplete", "harness-fault"])
def test_incomplete_run_is_unknown(good: History, outcome: str) -> None:
    manifest = msgspec.convert({**msgspec.to_builtins(good.manifest), "outcome": outcome}, type=type(good.manifest))

    verdict = judge(History(manifest, operations=good.operations, events=good.events))

    assert verdict.validity is Validity.UNKNOWN
    assert verdict.unchecked


@pytest.mark.parametrize("outcome", ["interrupted", "incomplete", "harness-fault"])
def test_valid_verdict_of_an_incomplete_run_becomes_unknown(good: History, outcome: Outcome) -> None:
    """So no checker has to know how a run ended."""
    valid = judge_history(good)
    invalid = replace(valid, validity=Validity.INVALID)
    incomplete = replace(good.manifest, outcome=outcome)

    verdict = honest(valid, incomplete)

    assert (verdict.validity, verdict.unchecked) == (Validity.UNKNOWN, (f"the run is {outcome}",))
    assert honest(invalid, incomplete) == invalid
    assert honest(valid, good.manifest) == valid


@pytest.mark.parametrize(("slowed", "live"), [(None, False), (SLOWED_MAX, False), (SLOWED_MAX + 1, None)])
def test_silence_on_an_overloaded_machine_is_not_judged(good: History, slowed: float | None, live: bool | None) -> None:
    valid = judge_history(good)
    silent = replace(valid, live=False, not_live=("nobody answers",))
    manifest = replace(good.manifest, slowed=slowed)

    verdict = honest(silent, manifest)

    assert verdict.live is live
    assert [words.endswith(": nobody answers") for words in verdict.unchecked] == ([] if live is False else [True])
    assert verdict.validity is (Validity.VALID if live is False else Validity.UNKNOWN)
    assert honest(replace(silent, validity=Validity.INVALID), manifest).validity is Validity.INVALID
    assert honest(valid, manifest) == valid


@pytest.mark.slow
def test_interrupted_run_is_stored_and_unknown(tmp_path: Path) -> None:
    judged_run = carry_out(PLAN, Early(), build=HERE, repeat=REPEAT, keep=Keep(store=tmp_path, only_failures=True))

    assert judged_run.summary.exit_code is ExitCode.UNKNOWN
    assert judged_run.summary.store is not None
    assert store.load_manifest(tmp_path / judged_run.summary.store).outcome == "interrupted"


def test_ctrl_c_in_the_simulator_keeps_the_history(monkeypatch: pytest.MonkeyPatch) -> None:
    from reference.node import Node

    calls = count()
    handle = Node.handle

    def interrupted(self: Node, event: object, *, now: object) -> object:
        if next(calls) == 500:
            raise KeyboardInterrupt
        return handle(self, event, now=now)  # type: ignore[arg-type]

    monkeypatch.setattr(Node, "handle", interrupted)
    history = perform(PLAN, SimBackend(), HERE).history

    assert history.manifest.outcome == "interrupted"
    assert history.events
    assert judge(history).validity is not Validity.VALID


def test_harness_error_names_run_and_repeat_command(tmp_path: Path) -> None:
    with pytest.raises(
        HarnessError, match=r"performing seed-1 on broken: OSError: no space left.*repeat: highwater run --seed 1"
    ):
        carry_out(PLAN, Broken(), build=HERE, repeat=REPEAT, keep=Keep(store=tmp_path))


def test_plan_refused_by_the_backend_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="window f1"):
        carry_out(PLAN, Choosy(), build=HERE, repeat=REPEAT, keep=Keep(store=tmp_path))

    assert list(tmp_path.iterdir()) == []


def test_history_is_stored_if_judging_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(history: History) -> Verdict:
        raise ZeroDivisionError

    monkeypatch.setattr("highwater.runs.run.judge_history", broken)
    with pytest.raises(HarnessError, match="judging seed-1"):
        _carried_out(tmp_path)

    (run,) = store.find_runs(tmp_path)
    assert store.load_run(run).operations


def _summaries_of(tasks: Iterable[Task], *, jobs: int) -> Collection[Summary]:
    return run_campaign(tasks, wanted=9, jobs=jobs, limits=Limits(), on_summary=lambda summary: None).summaries


@pytest.mark.slow
def test_worker_processes_give_the_same_digests() -> None:
    """Results must not depend on the process that performs a run."""
    request = Request(seconds=2)
    seeds = (1, 2, 3)

    def digests(jobs: int) -> list[str]:
        return [summary.digest for summary in _summaries_of((request.task(s, build=HERE, keep=Keep()) for s in seeds), jobs=jobs)]

    assert digests(jobs=2) == digests(jobs=1)


@pytest.mark.slow
def test_campaign_continues_after_a_failing_run(monkeypatch: pytest.MonkeyPatch) -> None:
    backends = iter([Broken(), SimBackend()])
    monkeypatch.setattr("highwater.runs.workers.backend_named", lambda name: next(backends))
    tasks = (Request(seconds=2).task(seed, build=HERE, keep=Keep()) for seed in (1, 2))

    failed, fine = _summaries_of(tasks, jobs=1)

    assert (failed.exit_code, failed.verdict) == (ExitCode.LABORATORY_FAILED, "UNKNOWN")
    assert "repeat: highwater run --seed 1" in (failed.failure or "")
    assert fine.outcome == "completed"


def test_manifest_build_has_python_and_package_versions() -> None:
    assert set(present_build().versions) >= {"python", "highwater", "msgspec"}


@pytest.mark.slow
def test_second_run_on_real_processes_keeps_the_first_stored(tmp_path: Path) -> None:
    """Two runs on real processes differ, so both are kept."""
    backend = Early()
    backend.name = "process"

    for _ in range(2):
        carry_out(PLAN, backend, build=HERE, repeat=REPEAT, keep=Keep(store=tmp_path, report=False))

    assert len(store.find_runs(tmp_path)) == 2
