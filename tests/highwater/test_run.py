"""The flow of one run: what is kept, what becomes of an early end, and that nothing early is ever VALID."""

from itertools import count
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from checkers.single import judge as judge_history
from checkers.verdict import Validity, Verdict
from highwater.backends.sim.backend import SimBackend
from highwater.campaigns.campaign import Request
from highwater.errors import HarnessError, UsageError
from highwater.exit_codes import ExitCode
from highwater.plans.derive import derive
from highwater.plans.plan import Plan, plan_digest
from highwater.rig.backend import Provenance, Run
from highwater.runs.provenance import Laboratory, laboratory
from highwater.runs.run import SUMMARY, Judged, Keep, carry_out, honest, judge, perform
from highwater.runs.summary import Summary
from highwater.runs.workers import perform_all
from history import store
from history.history import History
from history.manifest import Outcome

HERE = Laboratory(commit="abc", dirty=False, versions={"python": "3"})
PLAN = derive(1, seconds=3)
REPEAT = "highwater run --seed 1 --seconds 3"


class Broken:
    """A laboratory that fails."""

    name = "broken"

    def refuse(self, plan: Plan) -> str | None:
        return None

    def perform(self, plan: Plan, provenance: Provenance) -> Run:
        raise OSError("no space left on device")


class Choosy(Broken):
    """A stage that cannot perform the plan."""

    def refuse(self, plan: Plan) -> str | None:
        return "window f1 (pause): not here"


class Early:
    """The simulator, left early: `outcome` is put over what it recorded."""

    name = "sim"

    def refuse(self, plan: Plan) -> str | None:
        return None

    def perform(self, plan: Plan, provenance: Provenance) -> Run:
        run = SimBackend().perform(plan, provenance)
        manifest = replace(run.history.manifest, outcome="interrupted")
        return Run(history=History(manifest, operations=run.history.operations, events=run.history.events))


@pytest.fixture(scope="module")
def good() -> History:
    """The history of a run that is VALID."""
    return perform(PLAN, SimBackend(), HERE).history


def _carried_out(folder: Path, **keep: bool) -> Judged:
    return carry_out(PLAN, SimBackend(), laboratory=HERE, repeat=REPEAT, keep=Keep(store=folder, **keep))


def test_a_run_leaves_evidence_judgement_page_and_summary(tmp_path: Path) -> None:
    judged = _carried_out(tmp_path)

    directory = tmp_path / PLAN.name / judged.history.manifest.run_id
    names = {path.name for path in directory.iterdir()}
    assert names == {store.MANIFEST, store.PLAN, store.OPERATIONS, store.EVENTS, store.VERDICT, store.REPORT, SUMMARY}
    assert store.load_run(directory).digest == judged.summary.digest
    assert msgspec.json.decode((directory / SUMMARY).read_bytes(), type=Summary) == judged.summary
    assert msgspec.json.decode((directory / store.VERDICT).read_bytes(), type=Verdict) == judged.verdict


def test_a_good_run_leaves_nothing_where_only_failures_are_kept(tmp_path: Path) -> None:
    judged = _carried_out(tmp_path, only_failures=True)

    assert judged.summary.exit_code is ExitCode.VALID
    assert list(tmp_path.iterdir()) == []


def test_the_summary_counts_what_the_history_holds(good: History) -> None:
    summary = _summary()

    assert summary.digest == good.digest
    assert summary.ops == len(good.attempts)
    assert summary.acked == sum(
        a.completion[0].f == "produce" and a.completion[0].type == "ok" for a in good.attempts if a.completion
    )
    assert summary.acked > 0


def _summary() -> Summary:
    return carry_out(PLAN, SimBackend(), laboratory=HERE, repeat=REPEAT, keep=Keep()).summary


def test_a_run_says_where_it_was_made(good: History) -> None:
    manifest = good.manifest

    assert (manifest.commit, manifest.dirty, manifest.versions) == ("abc", False, {"python": "3"})
    assert (manifest.plan_digest, manifest.seed) == (plan_digest(PLAN), 1)


def test_the_good_run_is_valid_so_that_the_next_tests_mean_something(good: History) -> None:
    assert judge(good).validity is Validity.VALID


@pytest.mark.parametrize("outcome", ["interrupted", "incomplete", "harness-fault"])
def test_a_run_that_did_not_complete_is_never_valid(good: History, outcome: str) -> None:
    manifest = msgspec.convert({**msgspec.to_builtins(good.manifest), "outcome": outcome}, type=type(good.manifest))

    verdict = judge(History(manifest, operations=good.operations, events=good.events))

    assert verdict.validity is Validity.UNKNOWN
    assert verdict.unchecked


@pytest.mark.parametrize("outcome", ["interrupted", "incomplete", "harness-fault"])
def test_only_a_completed_run_keeps_a_valid_that_the_checkers_gave(good: History, outcome: Outcome) -> None:
    """Whatever checkers there will be: none of them has to know how a run ended."""
    valid = judge_history(good)
    invalid = replace(valid, validity=Validity.INVALID)

    found = honest(valid, outcome)

    assert (found.validity, found.unchecked) == (Validity.UNKNOWN, (f"the run is {outcome}",))
    assert honest(invalid, outcome) == invalid
    assert honest(valid, "completed") == valid


def test_an_interrupted_run_is_kept_and_unknown(tmp_path: Path) -> None:
    judged = carry_out(PLAN, Early(), laboratory=HERE, repeat=REPEAT, keep=Keep(store=tmp_path, only_failures=True))

    assert judged.summary.exit_code is ExitCode.UNKNOWN
    assert judged.summary.store is not None
    assert store.load_manifest(Path(judged.summary.store)).outcome == "interrupted"


def test_ctrl_c_in_the_simulator_keeps_what_was_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_failed_laboratory_names_what_was_attempted_and_how_to_repeat_it(tmp_path: Path) -> None:
    with pytest.raises(
        HarnessError, match=r"performing seed-1 on broken: OSError: no space left.*repeat: highwater run --seed 1"
    ):
        carry_out(PLAN, Broken(), laboratory=HERE, repeat=REPEAT, keep=Keep(store=tmp_path))


def test_a_plan_that_a_backend_cannot_perform_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="window f1"):
        carry_out(PLAN, Choosy(), laboratory=HERE, repeat=REPEAT, keep=Keep(store=tmp_path))

    assert list(tmp_path.iterdir()) == []


def test_evidence_is_kept_where_judging_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(history: History) -> Verdict:
        raise ZeroDivisionError

    monkeypatch.setattr("highwater.runs.run.judge_history", broken)
    with pytest.raises(HarnessError, match="judging seed-1"):
        _carried_out(tmp_path)

    (run,) = store.find_runs(tmp_path)
    assert store.load_run(run).operations


def test_worker_processes_find_what_this_process_finds() -> None:
    """Two spawned workers: results must not depend on where a run was performed."""
    request = Request(seconds=2)
    seeds = (1, 2, 3)

    def digests(jobs: int) -> list[str]:
        tasks = (request.task(seed, laboratory=HERE, keep=Keep()) for seed in seeds)
        return [done.summary.digest for done in sorted(perform_all(tasks, jobs=jobs), key=lambda d: d.position)]

    assert digests(jobs=2) == digests(jobs=1)


def test_a_failing_task_is_a_summary_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    stages = iter([Broken(), SimBackend()])
    monkeypatch.setattr("highwater.runs.workers.backend_named", lambda name: next(stages))
    tasks = (Request(seconds=2).task(seed, laboratory=HERE, keep=Keep()) for seed in (1, 2))

    failed, fine = (done.summary for done in perform_all(tasks, jobs=1))

    assert (failed.exit_code, failed.verdict) == (ExitCode.LABORATORY_FAILED, "UNKNOWN")
    assert "repeat: highwater run --seed 1" in (failed.failure or "")
    assert fine.outcome == "completed"


def test_the_laboratory_knows_its_versions() -> None:
    assert set(laboratory().versions) >= {"python", "highwater", "msgspec"}


def test_a_run_that_cannot_be_repeated_does_not_replace_an_earlier_one(tmp_path: Path) -> None:
    """Two runs on real processes differ, and each is evidence."""
    stage = Early()
    stage.name = "process"

    for _ in range(2):
        carry_out(PLAN, stage, laboratory=HERE, repeat=REPEAT, keep=Keep(store=tmp_path, report=False))

    assert len(store.find_runs(tmp_path)) == 2
