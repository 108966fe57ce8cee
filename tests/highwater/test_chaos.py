"""The `chaos` job: the result of each part."""

import re
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
from msgspec.structs import replace

from highwater.campaigns import chaos, first_calls
from highwater.campaigns.campaign import Request
from highwater.campaigns.chaos import (
    IN_CONTAINERS,
    KNOWN_BAD,
    MIXES,
    RED,
    Check,
    KnownBad,
    Means,
    Part,
    RunLine,
    cases_of,
    catch,
    in_containers,
    perform_cases,
    repeat_elsewhere,
    search,
)
from highwater.campaigns.corpus import complaint, load_corpus, load_entry, load_plans, tasks_of
from highwater.campaigns.generations import Search, shown_by
from highwater.campaigns.red import Red, annotation, lines_of, markdown, red_of, reds
from highwater.cli.chaos import first_of
from highwater.cli.main import run_command_line
from highwater.coverage.branches import Step, packed
from highwater.exit_codes import ExitCode
from highwater.plans.derive import DERIVATION
from highwater.runs.findings import FoundAnomaly
from highwater.runs.provenance import Build
from highwater.runs.revisions import Revision
from highwater.runs.run import Keep
from highwater.runs.summary import Summary, of_failure
from highwater.runs.workers import Task, perform
from history.store import FIRST_CALL, write_file
from nemesis.kinds import KINDS, select
from reference.config import VARIANTS
from reference.sealed import in_the_clear
from reports.first_call import FirstCall

MEANS = Means(build=Build(commit="", dirty=False, versions={}), keep=Keep(), jobs=1, on_line=lambda line: None)
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
    """Seeds from 20 on, one of each fault mix, of which 20 per cent may be UNKNOWN."""
    lines: list[RunLine] = []
    _performed_by(monkeypatch, perform)
    part = perform_cases("seeds", cases_of(range(20, 20 + len(MIXES))), replace(means, on_line=lines.append), unknown_allowed=20)
    return part, lines


def test_seeds_use_every_fault_mix_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    part, _ = _seeds(monkeypatch, _summary)

    assert [s.repeat for s in part.summaries] == [Request(faults=mix).command(20 + n) for n, mix in enumerate(MIXES)]


def test_each_kind_that_spares_data_is_in_a_chaos_mix() -> None:
    """Among all kinds of the empty mix few seeds draw it. Faults of the clients' places excuse clients alone."""
    named = {kind for mix in MIXES for kind in select(mix)}
    sparing = [kind for kind in KINDS if kind.destroys == "nothing" and kind.family != "place"]

    assert {kind.name for kind in sparing if not kind.named_only} <= named


def _reaching(task: Task) -> Summary:
    """A run that reaches other branches for each plan, so that all plans enter the pool."""
    number = int(task.plan.name.rpartition("-")[2]) % 100
    return replace(_summary(task), reach=packed([Step(700, 1, "leader calm", (number,))]))


def test_guided_phase_performs_what_a_guided_campaign_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Half as many runs as seeds; each edited plan is a file before its run, for the red line to name."""
    stored: list[bool] = []

    def perform(task: Task) -> Summary:
        assert task.branches
        stored.append(task.plan.seed is not None or (tmp_path / "guided" / f"{task.plan.name}.yaml").exists())
        return _reaching(task)

    _performed_by(monkeypatch, perform)
    part = search(range(3, 37), replace(MEANS, keep=Keep(store=tmp_path)), unknown_allowed=0)
    expected_search = Search(Request(faults=("all",)), first=3, runs=17, generation=8)
    names: list[str] = []
    while planned := expected_search.planned():
        names += [planned_run.plan.name for planned_run in planned]
        expected_search.learn(
            planned, [shown_by(_reaching(Task(plan=planned_run.plan, repeat="", build=MEANS.build))) for planned_run in planned]
        )

    assert [summary.plan for summary in part.summaries] == names
    assert all(stored)
    assert (part.code, part.stopped) == (ExitCode.VALID, None)
    assert part.summaries[0].repeat == f"highwater run --plan {tmp_path}/guided/guided-3-0.yaml"
    assert [check.run for check in part.checks] == list(range(17))


@pytest.mark.parametrize(("fail_fast", "runs"), [(False, 16), (True, 10)])
def test_red_guided_run_is_told_with_its_plan(
    fail_fast: bool, runs: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def perform(task: Task) -> Summary:
        summary = _reaching(task)
        return replace(summary, verdict="INVALID", anomalies=(LOST,)) if task.plan.name == "guided-3-9" else summary

    _performed_by(monkeypatch, perform)
    part = search(range(3, 35), replace(MEANS, keep=Keep(store=tmp_path), fail_fast=fail_fast), unknown_allowed=0)
    (red,) = [check for check in part.checks if not check.met]

    assert (part.code, part.stopped, len(part.summaries)) == (ExitCode.INVALID, RED if fail_fast else None, runs)
    assert (red.run, red.plan) == (9, str(tmp_path / "guided" / "guided-3-9.yaml"))


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


@pytest.mark.parametrize(("unknown", "code"), [((21,), ExitCode.VALID), ((21, 23, 25), ExitCode.UNKNOWN)])
def test_seeds_tolerate_some_unknown_runs(unknown: tuple[int, ...], code: ExitCode, monkeypatch: pytest.MonkeyPatch) -> None:
    part, lines = _seeds(
        monkeypatch, lambda task: replace(_summary(task), verdict="UNKNOWN") if task.plan.seed in unknown else _summary(task)
    )

    assert (part.code, [line.red for line in lines]) == (code, [False] * len(MIXES))


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

    assert names == ["append-of-a-produce", "bootstrap", "follower", "slow-disk"]


def test_hung_run_becomes_a_red_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A protocol that loops for ever at one virtual time must not hang the gate."""

    def perform(task: Task) -> Summary:
        while task.plan.seed == 20:
            pass
        return _summary(task)

    part, lines = _seeds(monkeypatch, perform, replace(MEANS, deadline_s=0.1))

    assert (lines[0].red, lines[0].failure) == (True, "seed-20: not ready after 0.1 s")
    assert (part.code, len(lines)) == (ExitCode.LABORATORY_FAILED, len(MIXES))


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
        f"{{name: entry, story: s, seed: 3, derivation: {DERIVATION}, expect: "
        "[{protocol: v3, verdict: INVALID, kinds: [lost-write]}]}"
    )
    store = tmp_path / "out"
    arguments = f"chaos --seeds 2 --first 1 --jobs 1 --corpus {tmp_path} --plans corpus/plans/log-dirs --store {store}"

    code = run_command_line(arguments.split())

    suite = ElementTree.parse(store / "junit.xml").getroot()[0]
    assert code == ExitCode.VALID
    assert [case.get("name") for case in suite if len(case)] == []
    plans = [f"{plan.stem} on safe" for plan in sorted(Path("corpus/plans/log-dirs").glob("*.yaml"))]
    seeds = ["seed-1 on safe", "seed-2 on safe", "guided-1-0 on safe"]
    others = ["entry on v3", "v3 is caught by lost-write", "seed 1 twice"]
    assert [case.get("name") for case in suite] == [*plans, *seeds, *others]
    assert (store / "index.html").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("ci", "code"), [("", ExitCode.VALID), ("true", ExitCode.LABORATORY_FAILED)])
def test_missing_docker_engine_fails_only_in_ci(ci: str, code: ExitCode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(chaos, "_no_containers", lambda: "no engine answers")

    part = in_containers(load_corpus(Path("corpus/seeds")), MEANS)

    lines = [part.stopped or "", *(check.complaint for check in part.checks)]
    assert part.code is code
    assert any("no engine answers" in line for line in lines)


def test_container_cases_are_in_the_corpus() -> None:
    cases = [(case.entry, case.expectation.protocol) for case in load_corpus(Path("corpus/seeds"))]

    assert [wanted for wanted in IN_CONTAINERS if wanted not in cases] == []


def test_corpus_without_container_cases_needs_no_engine() -> None:
    assert in_containers((), MEANS).code is ExitCode.VALID


LOSS = replace(LOST, key="t-1", words="also gone")
TWICE = FoundAnomaly(kind="duplicate", checker="duplicates", key="t-0", words="twice")


def _red(folder: Path = Path("store"), **changes: object) -> Red:
    """The only red check of a corpus entry whose run on `safe` lost two records and has one twice."""
    (case,) = (case for case in load_entry(Path("corpus/seeds/kip112-leader.yaml")) if case.expectation.protocol == "safe")
    (task,) = tasks_of([case], build=MEANS.build, keep=MEANS.keep)
    found = {"verdict": "INVALID", "anomalies": (LOST, LOSS, TWICE), "store": "p/r", "report": "p/r/report.html", **changes}
    run = msgspec.structs.replace(_summary(task), **found)
    check = Check(name="x", met=False, complaint=complaint(case, run) or "", run=0, plan=str(case.file), repeat=run.repeat)
    (red,) = reds([Part(name="corpus", checks=(check,), summaries=(run,), code=ExitCode.INVALID)], folder)
    return red


def test_red_check_names_loss_plan_page_and_command() -> None:
    """One screen must tell what was lost, where, and how to repeat it."""
    assert list(lines_of([_red()])) == [
        "kip112-leader on safe: INVALID instead of VALID: lost-write t-0: gone (and 1 more); also duplicate",
        "    duplicate t-0: twice",
        "    plan    corpus/plans/log-dirs/leader.yaml",
        "    page    store/p/r/report.html",
        "    repeat  highwater run --plan corpus/plans/log-dirs/leader.yaml --protocol safe",
        "next    highwater shrink store/p/r",
    ]


def test_red_checks_of_one_cause_are_told_together() -> None:
    """Fifty red runs of one mistake are one thing to look at."""
    origin = "row 7: b2 truncates"
    same = [msgspec.structs.replace(_red(signature="s", origin=origin), name=f"seed-{n} on safe") for n in range(1, 9)]
    red_of_other_cause = msgspec.structs.replace(_red(signature="t"), sentence="another")
    lines = list(lines_of([*same, red_of_other_cause]))

    assert lines.count(same[0].sentence) == 1
    assert "    same    seed-2 on safe, seed-3 on safe, seed-4 on safe, seed-5 on safe, seed-6 on safe and 2 more" in lines
    assert "another" in lines
    assert lines[-2:] == ["next    highwater shrink store/p/r", "next    highwater inspect store/p/r --row 7"]


def test_red_checks_of_later_causes_are_counted() -> None:
    reds_of_causes = [msgspec.structs.replace(_red(), sentence=f"cause {n}", signature=f"s{n // 2}") for n in range(26)]
    lines = list(lines_of(reds_of_causes))

    assert "cause 6 (and 1 more of this cause)" in lines
    assert "and 6 more of 3 causes" in lines


def test_red_check_tells_the_cause_before_other_anomalies() -> None:
    red = _red(cause="p0-1 was acknowledged at 1.000 s; b2 truncated its log to its HW 0 at 2.000 s.")
    lines = list(lines_of([red]))
    assert lines[1] == "    cause   p0-1 was acknowledged at 1.000 s; b2 truncated its log to its HW 0 at 2.000 s."
    assert "%0Ap0-1 was acknowledged at 1.000 s" in annotation(red)
    assert "p0-1 was acknowledged" in markdown([], [red], repeat="")


def test_red_check_tells_the_first_call_that_answers_otherwise(tmp_path: Path) -> None:
    found = FirstCall(there="main", function="replica/isr._write", who="b1", time_ns=1_500_000_000, row=7)
    write_file(tmp_path / "p/r" / FIRST_CALL, msgspec.json.encode(found))
    red = _red(folder=tmp_path)
    first_call = "The first call that answers otherwise than at main is replica/isr._write of b1, at 1.500 s, before row 7."
    assert f"    call    {first_call}" in lines_of([red])
    assert first_call in annotation(red)
    write_file(tmp_path / "p/r" / FIRST_CALL, msgspec.json.encode(FirstCall(there="main", missing="both are the same")))
    assert _red(folder=tmp_path).call == ""


def test_first_calls_are_kept_for_one_run_of_each_cause(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (case, *_) = load_entry(Path("corpus/seeds/kip112-leader.yaml"))
    (task,) = tasks_of([case], build=MEANS.build, keep=MEANS.keep)
    runs = [
        msgspec.structs.replace(_summary(task), backend=backend, store=f"p/{number}", signature=signature)
        for number, (backend, signature) in enumerate([("real", "a"), *(("sim", name) for name in "aabcd")])
    ]
    calls_kept: list[str] = []
    monkeypatch.setattr(first_calls, "protocol_of", lambda name, option: nullcontext(tmp_path / name))
    monkeypatch.setattr(
        first_calls, "keep_first_call", lambda run, there, words: calls_kept.append(f"{run.name} {there.name} {words}")
    )
    first_calls.keep_first_calls(runs, tmp_path, Revision(name="c0ffee", words="main"))
    assert calls_kept == ["1 c0ffee main", "3 c0ffee main", "4 c0ffee main"]


def test_red_check_of_a_crash_names_the_line_of_the_protocol() -> None:
    crash = "reference/log/log.py:7 in append: KeyError: 3"
    red = _red(verdict="UNKNOWN", anomalies=(), crash=crash, failure="performing x", outcome="harness-fault", store=None)

    assert red.sentence == f"kip112-leader on safe: UNKNOWN instead of VALID: the protocol crashed at {crash}"


def test_crashes_at_one_line_are_told_together() -> None:
    """Their words name records and offsets, which differ from run to run."""
    where = "reference/log/log.py:7 in append: KeyError"
    first, second = (
        of_failure(name, seed=None, protocol="safe", backend="sim", failure="f", repeat="r", crash=f"{where}: {name}")
        for name in ("3", "4: x")
    )
    other_failure = of_failure(
        "o", seed=None, protocol="safe", backend="sim", failure="f", repeat="r", crash="reference/a.py:1 in b: E: 3"
    )

    assert first.signature == second.signature == f"crash/{where}"
    assert other_failure.signature != first.signature
    lines = list(lines_of([red_of(run, Path("s"), sentence=run.plan) for run in (first, second, other_failure)]))
    assert [line for line in lines if line.startswith("    same")] == ["    same    4: x on safe"]


def test_github_annotation_escapes_its_message() -> None:
    red = msgspec.structs.replace(_red(), plan="", page="", name="a: b,c", sentence="100 %\nlost", repeat="again")

    assert annotation(red) == "::error title=a%3A b%2Cc::100 %25%0Alost%0A%0Aagain"


def test_github_step_summary_lists_parts_and_red_checks() -> None:
    text = markdown([Part(name="corpus", checks=(), code=ExitCode.INVALID)], [_red()], repeat="highwater chaos")

    assert "| corpus | invalid | 0 |" in text
    assert "kip112-leader on safe: INVALID instead of VALID: lost-write t-0: gone" in text
    assert "* page: `store/p/r/report.html`" in text


def _job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, options: str) -> tuple[int, list[str]]:
    """The exit code of a job whose seeds are INVALID, and the parts that were performed."""
    monkeypatch.setattr(chaos, "_digest_elsewhere", lambda seed, hash_seed: "same")
    monkeypatch.setattr(chaos, "KNOWN_BAD", (BAD,))
    _performed_by(monkeypatch, lambda task: replace(_summary(task), verdict="INVALID", anomalies=(LOST,)))
    (tmp_path / "e.yaml").write_text(
        f"{{name: e, story: s, seed: 3, derivation: {DERIVATION}, expect: [{{protocol: v3, verdict: INVALID}}]}}"
    )
    runs = tmp_path / "runs.jsonl"
    folders = f"--corpus {tmp_path} --plans corpus/plans/log-dirs --store {tmp_path / 'out'} --runs {runs}"

    code = run_command_line(f"chaos --seeds 2 --first 1 --jobs 1 --parts seeds,known-bad {folders} {options}".split())

    lines = [msgspec.json.decode(line, type=RunLine) for line in runs.read_bytes().splitlines()]
    return code, list(dict.fromkeys(line.part for line in lines))


@pytest.mark.parametrize(
    ("options", "code", "parts"),
    [
        ("", ExitCode.INVALID, ["seeds"]),
        ("--keep-going", ExitCode.INVALID, ["seeds", "known-bad", "v3"]),
        ("--bisect", 1, ["seeds"]),
    ],
)
def test_red_phase_ends_the_job_unless_it_keeps_going(
    options: str, code: int, parts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _job(monkeypatch, tmp_path, options) == (code, parts)

    message = capsys.readouterr().out
    assert ("stopped after seeds; not performed: known-bad" in message) is ("--keep-going" not in options)


def test_red_job_tells_github_where_its_variables_are_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))

    _job(monkeypatch, tmp_path, "")

    assert "::error title=seed-1 on safe::seed-1 on safe: INVALID instead of VALID: lost-write" in capsys.readouterr().out
    assert "### seed-1 on safe" in (tmp_path / "summary.md").read_text()


def test_first_seed_follows_from_the_commit() -> None:
    """Two engineers who gate one commit see the same runs."""
    first_commit, second_run, second_commit = (
        first_of(Build(commit=commit, dirty=False, versions={})) for commit in ("a", "a", "b")
    )

    assert first_commit == second_run != second_commit


def test_runs_on_other_protocols_watch_no_changed_code() -> None:
    """What a known-bad protocol comes to says nothing of `safe`."""
    cases = load_entry(Path("corpus/seeds/kip112-leader.yaml"))
    tasks = tasks_of(cases, build=MEANS.build, keep=MEANS.keep, watched=frozenset({"replica.isr.maybe_shrink"}))

    watching = {task.plan.protocol: bool(task.watched) for task in tasks}
    assert len(watching) > 1
    assert watching == {protocol: protocol == "safe" for protocol in watching}
