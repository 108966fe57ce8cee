"""Marks of causes: what the file may say, how long an ignored cause passes the gate, and that its runs are told."""

from datetime import date
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from highwater.campaigns import marks
from highwater.campaigns.campaign import Request
from highwater.campaigns.chaos import Part, check_of
from highwater.campaigns.corpus import Case, Expectation
from highwater.campaigns.red import cases_of
from highwater.cli.main import run_command_line
from highwater.errors import UsageError
from highwater.exit_codes import ExitCode
from highwater.runs.findings import FoundAnomaly, ValidityName
from highwater.runs.provenance import Build
from highwater.runs.run import Keep
from highwater.runs.summary import Summary
from highwater.runs.workers import Task
from reports.junit import junit_xml

SIGN = "lost-write/acked-loss/election"
IGNORED = f"- {{signature: {SIGN}, mark: ignored, reason: slow disk, until: 2026-12-31}}\n"
KNOWN = f"- {{signature: {SIGN}, mark: known, reason: KAFKA-1}}\n"
LOST = FoundAnomaly(kind="lost-write", checker="acked-loss", key="t-0", words="gone")


def load(text: str, tmp_path: Path, *, today: date = date(2026, 12, 31)) -> marks.Marks:
    file = tmp_path / "causes.yaml"
    file.write_text(text)
    return marks.load(file, today=today)


@pytest.mark.parametrize(
    ("text", "line", "sentence"),
    [
        (f"- {{signature: {SIGN}, mark: ignored, reason: r}}", 1, "needs the last day"),
        (f"- {{signature: {SIGN}, mark: known, reason: r, until: 2026-12-31}}", 1, "needs the last day"),
        (KNOWN + IGNORED, 2, "is marked twice"),
        (f"- {{signature: {SIGN}, mark: new, reason: r}}", 1, "mark"),
        (f'- {{signature: {SIGN}, mark: known, reason: ""}}', 1, "reason"),
        (f"- {{signature: {SIGN}, mark: known}}", 1, "reason"),
        ("marks: []", 1, "list"),
        ("- {", 1, ""),
    ],
    ids=["no end", "an end", "twice", "another word", "no reason", "reason missing", "no list", "no YAML"],
)
def test_file_of_causes_that_says_nonsense_is_refused(text: str, line: int, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=rf"causes\.yaml:{line}: .*{sentence}"):
        load(text, tmp_path)


def test_file_of_causes_that_is_named_must_exist(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        marks.load(tmp_path / "none.yaml", today=date.min)


def test_file_of_causes_is_looked_for_in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    before = marks.load(None, today=date.min)
    marks.FILE.write_text(KNOWN)

    assert (before, marks.load(None, today=date.min).words(SIGN)) == (marks.NONE, "known: KAFKA-1")


def test_cause_is_ignored_up_to_its_last_day(tmp_path: Path) -> None:
    last, next_day = (load(IGNORED, tmp_path, today=day) for day in (date(2026, 12, 31), date(2027, 1, 1)))

    assert (last.ignores(SIGN), next_day.ignores(SIGN), last.ignores("")) == (True, False, False)
    assert last.words(SIGN) == "ignored until 2026-12-31: slow disk"
    assert next_day.words(SIGN) == "ignored until 2026-12-31, which is over: slow disk"


def lose(task: Task) -> Summary:
    summary = Summary(
        seed=task.plan.seed,
        protocol=task.plan.protocol,
        verdict="INVALID",
        live=True,
        plan=task.plan.name,
        plan_digest="",
        backend="sim",
        outcome="completed",
        repeat=task.repeat,
        anomalies=(LOST,),
    )
    return replace(summary, signature=SIGN if task.plan.seed == 1 else "lost-write/acked-loss/truncate")


@pytest.mark.parametrize(
    ("text", "seeds", "code", "words"),
    [
        (IGNORED.replace("2026", "9999"), 1, ExitCode.VALID, f"ignored 1 x {SIGN}, ignored until 9999-12-31: slow disk"),
        (IGNORED.replace("2026", "9999"), 2, ExitCode.INVALID, f"ignored 1 x {SIGN}, ignored until 9999-12-31: slow disk"),
        (IGNORED.replace("2026", "2001"), 1, ExitCode.INVALID, "ignored until 2001-12-31, which is over: slow disk"),
        (KNOWN, 1, ExitCode.INVALID, "known: KAFKA-1"),
    ],
    ids=["ignored", "ignored, and another cause", "over", "known"],
)
def test_only_ignored_causes_pass_the_gate_and_are_told(
    text: str,
    seeds: int,
    code: ExitCode,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("highwater.runs.workers.perform", lose)
    file, store = tmp_path / "causes.yaml", tmp_path / "store"
    file.write_text(text)

    job = f"chaos --parts seeds --first 1 --seeds {seeds} --jobs 1 --shrink 0 --causes {file} --store {store}"
    assert run_command_line(job.split()) == code
    output = capsys.readouterr().out
    assert words in output
    assert ("runs: only ignored causes" in output, ": valid" in output) == (code == ExitCode.VALID, False)
    (junit,) = store.rglob("junit.xml")
    (index,) = store.rglob("index.html")
    assert f'skipped="{int(seeds == 2 or code == ExitCode.VALID)}"' in junit.read_text()
    assert ("ONLY IGNORED CAUSES" in index.read_text()) is (code == ExitCode.VALID)
    assert text.split("reason: ")[1].split(",")[0].rstrip("}\n") in index.read_text()


@pytest.mark.parametrize(("verdict", "met", "skipped"), [("VALID", None, True), ("INVALID", False, False)])
def test_ignored_cause_excuses_no_missed_mistake(verdict: ValidityName, met: bool | None, skipped: bool, tmp_path: Path) -> None:
    """A known-bad protocol must fail for its own cause; otherwise nobody would see that the gate does not catch it any more."""
    task = Request(protocol="v3").task(1, build=Build(commit="", dirty=False, versions={}), keep=Keep())
    expectation = Expectation(protocol="v3", verdict=verdict, kinds=("reordered",) if verdict == "INVALID" else ())
    case = Case(entry="seed-1", expectation=expectation, plan=task.plan, repeat="")
    ignoring = load(IGNORED, tmp_path)

    check = check_of(case, lose(task), number=0, tolerant=False, marks=ignoring)
    (row,) = cases_of([Part(name="seeds", checks=(check,), summaries=(lose(task),), code=check.code)], ignoring)

    assert (check.met, row.is_ignored) == (met, skipped)
    assert ('skipped="1"' in junit_xml([row], suite="x")) is skipped


def test_json_of_a_job_has_the_ignored_causes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("highwater.runs.workers.perform", lose)
    (tmp_path / "causes.yaml").write_text(IGNORED.replace("2026", "9999"))

    run_command_line(
        f"chaos --parts seeds --first 1 --seeds 1 --jobs 1 --causes {tmp_path}/causes.yaml --store {tmp_path}/out --json".split()
    )

    assert msgspec.json.decode(capsys.readouterr().out)["ignored"] == [f"1 x {SIGN}, ignored until 9999-12-31: slow disk"]


@pytest.mark.slow
def test_campaign_reads_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is ignored is told on the terminal and in JSON, and takes no seconds of the shrinker."""
    monkeypatch.setattr("highwater.campaigns.smaller.shrink_in", lambda *_, **__: pytest.fail("an ignored run was shrunk"))
    job = f"campaign --seeds 21..21 --protocol v3 --workload produce-consume --jobs 1 --store {tmp_path}/store"
    before = run_command_line(f"{job} --shrink 0".split())
    (causes,) = (tmp_path / "store").rglob("causes.json")
    (signature,) = msgspec.json.decode(causes.read_bytes())["found"]
    (tmp_path / "causes.yaml").write_text(IGNORED.replace(SIGN, f'"{signature}"').replace("2026", "9999"))

    after = run_command_line(f"{job} --resume --causes {tmp_path}/causes.yaml".split())
    terminal = capsys.readouterr().out
    run_command_line(f"{job} --resume --causes {tmp_path}/causes.yaml --json".split())

    line = f"1 x {signature}, ignored until 9999-12-31: slow disk"
    assert (before, after) == (ExitCode.INVALID, ExitCode.VALID)
    assert f"ignored {line}\n" in terminal
    assert msgspec.json.decode(capsys.readouterr().out)["ignored"] == [line]
