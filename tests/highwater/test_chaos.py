"""The `chaos` job: the result of each part."""

import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from highwater.campaigns import chaos
from highwater.campaigns.campaign import Request
from highwater.campaigns.chaos import (
    IN_CONTAINERS,
    KNOWN_BAD,
    MIXES,
    RED,
    KnownBad,
    Means,
    Part,
    RunLine,
    cases_of,
    catch,
    in_containers,
    perform_cases,
    repeat_elsewhere,
)
from highwater.campaigns.corpus import load_corpus, load_entry, load_plans, tasks_of
from highwater.cli.main import run_command_line
from highwater.exit_codes import ExitCode
from highwater.runs.provenance import Build
from highwater.runs.run import Keep
from highwater.runs.summary import FoundAnomaly, Summary
from highwater.runs.workers import Task, perform
from reference.config import VARIANTS
from reference.sealed import in_the_clear

MEANS = Means(build=Build(commit="", dirty=False, versions={}), keep=Keep(), jobs=1, seen=lambda line: None)
BAD = KnownBad(protocol="v3", anomaly="lost-write", budget=3)
LOST = FoundAnomaly(kind="lost-write", checker="acked-loss", key="t-0", words="gone")


def _summary(task: Task) -> Summary:
    return Summary(
        seed=task.plan.seed,
        protocol=task.plan.protocol,
        verdict="VALID",
        live=True,
        plan=task.plan.name,
        plan_digest="",
        backend="sim",
        outcome="completed",
        repeat=task.repeat,
    )


def _lossy(task: Task) -> Summary:
    return replace(_summary(task), verdict="INVALID", anomalies=(LOST,)) if task.plan.protocol != "safe" else _summary(task)


def _performed_by(monkeypatch: pytest.MonkeyPatch, perform: Callable[[Task], Summary]) -> None:
    monkeypatch.setattr("highwater.runs.workers.perform", perform)


def test_chaos_runs_a_bad_protocol_until_a_checker_catches_it(monkeypatch: pytest.MonkeyPatch) -> None:
    _performed_by(monkeypatch, lambda task: _lossy(task) if task.plan.seed == 6 else _summary(task))

    part = catch(BAD, 5, MEANS)

    assert (part.code, len(part.summaries), part.stopped) == (ExitCode.VALID, 2, None)


def test_known_bad_protocol_that_escapes_is_a_harness_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a harness whose checkers are broken would pass."""
    _performed_by(monkeypatch, _summary)

    part = catch(BAD, 5, MEANS)

    assert part.code is ExitCode.LABORATORY_FAILED
    assert part.checks[0].complaint == "no lost-write of v3 in 3 seeds from 5"


def test_known_bad_protocol_with_another_anomaly_is_not_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    _performed_by(monkeypatch, _lossy)

    assert catch(replace(BAD, anomaly="split-brain"), 5, MEANS).code is ExitCode.LABORATORY_FAILED


def test_interrupted_bad_protocol_check_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(task: Task) -> Summary:
        raise KeyboardInterrupt

    _performed_by(monkeypatch, interrupted)
    part = catch(BAD, 5, MEANS)

    assert (part.code, part.interrupted) == (ExitCode.UNKNOWN, True)


def _seeds(
    monkeypatch: pytest.MonkeyPatch, perform: Callable[[Task], Summary], means: Means = MEANS
) -> tuple[Part, list[RunLine]]:
    """Seeds 20 to 26, one of each fault mix, of which 20 per cent may be UNKNOWN."""
    lines: list[RunLine] = []
    _performed_by(monkeypatch, perform)
    part = perform_cases("seeds", cases_of(range(20, 27)), replace(means, seen=lines.append), unknown_allowed=20)
    return part, lines


def test_seeds_use_every_fault_mix_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    part, _ = _seeds(monkeypatch, _summary)

    assert [s.repeat for s in part.summaries] == [Request(faults=mix).command(20 + n) for n, mix in enumerate(MIXES)]


def test_first_red_run_ends_its_part_if_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant that dies early must not cost the whole gate."""

    def perform(task: Task) -> Summary:
        return replace(_summary(task), verdict="INVALID", anomalies=(LOST, LOST)) if task.plan.seed == 22 else _summary(task)

    part, lines = _seeds(monkeypatch, perform, replace(MEANS, fail_fast=True))

    assert [(line.seed, line.red, line.kinds) for line in lines] == [
        (20, False, ()),
        (21, False, ()),
        (22, True, ("lost-write",)),
    ]
    assert (part.code, part.stopped) == (ExitCode.INVALID, RED)


@pytest.mark.parametrize(("unknown", "code"), [((21,), ExitCode.VALID), ((21, 23), ExitCode.UNKNOWN)])
def test_seeds_tolerate_some_unknown_runs(unknown: tuple[int, ...], code: ExitCode, monkeypatch: pytest.MonkeyPatch) -> None:
    part, lines = _seeds(
        monkeypatch, lambda task: replace(_summary(task), verdict="UNKNOWN") if task.plan.seed in unknown else _summary(task)
    )

    assert (part.code, [line.red for line in lines]) == (code, [False] * 7)


def test_stored_plan_must_be_valid_and_live_on_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan against one mistake is a regression test for all others."""
    _performed_by(monkeypatch, lambda task: replace(_summary(task), live=task.plan.name != "kip-966"))
    plans = load_plans(Path("corpus/plans/mutants"), ())

    part = perform_cases("plans", plans, MEANS)

    assert part.code is ExitCode.NOT_LIVE
    assert [check.name for check in part.checks if check.complaint] == ["kip-966 on safe"]


def test_stored_plans_leave_out_those_of_corpus_entries() -> None:
    entries = load_entry(Path("corpus/seeds/kip112-leader.yaml"))

    names = [case.entry for case in load_plans(Path("corpus/plans/log-dirs"), entries)]

    assert names == ["bootstrap", "follower", "slow-disk"]


def test_hung_run_becomes_a_red_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A protocol that loops for ever at one virtual time must not hang the gate."""

    def perform(task: Task) -> Summary:
        while task.plan.seed == 20:
            pass
        return _summary(task)

    part, lines = _seeds(monkeypatch, perform, replace(MEANS, deadline_s=0.1))

    assert (lines[0].red, lines[0].failure) == (True, "seed-20: not ready after 0.1 s")
    assert (part.code, len(lines)) == (ExitCode.LABORATORY_FAILED, 7)


def test_crash_of_the_protocol_names_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception of the protocol is its own fault, not one of the harness."""
    monkeypatch.setattr("highwater.runs.run.perform", lambda *arguments, **options: in_the_clear(b""))

    summary = perform(next(tasks_of(cases_of([1]), build=MEANS.build, keep=MEANS.keep)))

    assert summary.crash is not None
    assert re.fullmatch(r"reference/sealed\.py:\d+ in in_the_clear: TypeError: expected values as text.*", summary.crash)


def test_digest_that_depends_on_hash_seed_exits_14(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chaos, "_digest_elsewhere", lambda seed, hash_seed: hash_seed)

    assert repeat_elsewhere(1).code is ExitCode.NOT_DETERMINISTIC


def test_interrupted_determinism_check_ends_chaos_as_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(seed: int, hash_seed: str) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("highwater.campaigns.chaos._digest_elsewhere", interrupted)

    part = repeat_elsewhere(5)

    assert (part.code, part.interrupted) == (ExitCode.UNKNOWN, True)


def test_chaos_job_names_existing_bad_protocols() -> None:
    assert [bad.protocol for bad in KNOWN_BAD if bad.protocol not in VARIANTS or bad.protocol == "safe"] == []


def test_junit_counts_an_expected_loss_as_passed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runs of known-bad protocols are INVALID as expected."""
    monkeypatch.setattr(chaos, "_digest_elsewhere", lambda seed, hash_seed: "same")
    monkeypatch.setattr("highwater.campaigns.chaos.KNOWN_BAD", (BAD,))
    _performed_by(monkeypatch, _lossy)
    (tmp_path / "entry.yaml").write_text(
        "{name: entry, story: s, seed: 3, expect: [{protocol: v3, verdict: INVALID, kinds: [lost-write]}]}"
    )
    store = tmp_path / "out"
    arguments = f"chaos --seeds 2 --first 1 --jobs 1 --corpus {tmp_path} --plans corpus/plans/log-dirs --store {store}"

    code = run_command_line(arguments.split())

    suite = ElementTree.parse(store / "junit.xml").getroot()[0]
    assert code == ExitCode.VALID
    assert [case.get("name") for case in suite if len(case)] == []
    assert suite.get("tests") == "9"
    assert (store / "index.html").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("ci", "code"), [("", ExitCode.VALID), ("true", ExitCode.LABORATORY_FAILED)])
def test_missing_docker_engine_fails_only_in_ci(ci: str, code: ExitCode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(chaos, "_no_containers", lambda: "no engine answers")

    part = in_containers(load_corpus(Path("corpus/seeds")), MEANS)

    said = [part.stopped or "", *(check.complaint for check in part.checks)]
    assert part.code is code
    assert any("no engine answers" in line for line in said)


def test_container_cases_are_in_the_corpus() -> None:
    cases = [(case.entry, case.expectation.protocol) for case in load_corpus(Path("corpus/seeds"))]

    assert [wanted for wanted in IN_CONTAINERS if wanted not in cases] == []


def test_corpus_without_container_cases_needs_no_engine() -> None:
    assert in_containers((), MEANS).code is ExitCode.VALID
