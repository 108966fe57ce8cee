"""`highwater shrink`: bad input is one line; a shrink that is ended loses nothing; the result is a corpus entry."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from shutil import copytree

import msgspec
import pytest

from highwater.campaigns.corpus import complaint, load_entry, tasks_of
from highwater.cli.main import run_command_line
from highwater.exit_codes import ExitCode
from highwater.plans.plan import Plan
from highwater.plans.text import load_plan
from highwater.runs.provenance import Build
from highwater.runs.run import Keep
from highwater.runs.workers import perform
from highwater.shrink.search import Judges
from highwater.shrink.trial import RunFacts
from tests.highwater.test_chaos_on_systems import summary

ROOT = Path(__file__).resolve().parents[3]
PLANS = ROOT / "corpus" / "plans"
SCENARIO = str(PLANS / "kip101-scenario-1.yaml")
PATIENCE_S = 200


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["absent.yaml"], "absent.yaml"),
        (["absent/run"], "no such run folder or plan file"),
        ([SCENARIO, "--trials", "0"], "--trials"),
        ([SCENARIO, "--cpu-seconds", "0"], "--cpu-seconds"),
        ([SCENARIO, "--workers", "0"], "--workers"),
        ([SCENARIO, "--against", "paxos"], "unknown protocol 'paxos'"),
        ([SCENARIO, "--protocol", "paxos"], "unknown protocol 'paxos'"),
        ([SCENARIO, "--runs", "3"], "--runs is for"),
        ([SCENARIO, "--backend", "process", "--failing", "2"], "--failing must be at most --runs"),
        ([SCENARIO, "--seconds", "3"], "only --protocol may be combined with it"),
        ([SCENARIO, "--keep", "a b"], "use letters"),
        ([SCENARIO, "--keep", "x", "--corpus", "nowhere"], "no such folder"),
        ([SCENARIO, "--keep", "jepsen-2013", "--corpus", str(ROOT / "corpus")], "choose another name"),
    ],
)
def test_shrink_refuses_bad_input_in_one_line(
    options: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store"

    code = run_command_line(["shrink", *options, "--store", str(store)])

    (line,) = capsys.readouterr().err.splitlines()
    assert (code, store.exists()) == (ExitCode.USAGE, False)
    assert words in line


def test_plan_of_another_system_is_shrunk_on_it_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On processes without being asked, and with no protocol of the reference compared: the plan's system has none."""
    plan = tmp_path / "kafka.yaml"
    plan.write_text((ROOT / "corpus" / "real" / "kip101.yaml").read_text() + "system: {name: kafka, version: 0.10.2.2}\n")
    looked: list[Plan] = []
    lost = RunFacts(summary=summary("lost"), signature="lost-write/x", checker="client-log")

    def look(judges: Judges, plan: Plan) -> RunFacts:
        looked.append(plan)
        return lost

    def no_search(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Judges, "whole_run", look)
    monkeypatch.setattr("highwater.shrink.folder.shrink", no_search)

    code = run_command_line(["shrink", str(plan), "--store", str(tmp_path / "store")])

    assert (code, len(looked)) == (ExitCode.UNKNOWN, 1)
    assert "compare nothing to compare: the plan is of kafka:0.10.2.2" in capsys.readouterr().out
    assert (tmp_path / "store" / "shrunk" / "kip101-truncate-to-hw-process" / "plan.yaml").exists()


@pytest.mark.slow
def test_plan_that_does_not_fail_cannot_be_shrunk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Otherwise a fixed plan would look as small as possible."""
    code = run_command_line(["shrink", SCENARIO, "--protocol", "safe", "--workers", "1", "--store", str(tmp_path)])

    (line,) = capsys.readouterr().err.splitlines()
    assert code == ExitCode.USAGE
    assert "kip101-scenario-1 on safe is VALID, live: nothing to shrink" in line
    assert not list((tmp_path / "shrunk").iterdir())


@pytest.mark.slow
def test_shrunk_plan_is_kept_with_its_verdicts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The corpus must accept what the shrinker writes, and the plan must still tell the protocols apart."""
    corpus = tmp_path / "corpus"
    (corpus / "seeds").mkdir(parents=True)
    (corpus / "plans").mkdir()
    options = [
        "--protocol",
        "truncate-to-hw",
        "--workers",
        "1",
        "--store",
        str(tmp_path),
        "--keep",
        "small",
        "--corpus",
        str(corpus),
    ]

    code = run_command_line(["shrink", SCENARIO, *options, "--json"])

    result = msgspec.json.decode(capsys.readouterr().out)
    cases = load_entry(corpus / "seeds" / "small.yaml")
    summaries = [perform(task) for task in tasks_of(cases, build=Build(commit="", dirty=False, versions={}), keep=Keep())]
    assert code == ExitCode.INVALID
    assert result["stopped"] is None
    assert result["after"]["operations"] <= 20 < result["before"]["operations"]
    assert [case.expectation.protocol for case in cases] == ["truncate-to-hw", "safe"]
    assert [complaint(case, summary) for case, summary in zip(cases, summaries, strict=True)] == [None, None]
    assert all(neighbour["passes"] for neighbour in result["neighbours"])
    assert load_plan(corpus / "plans" / "small.yaml").story.startswith("b1 leads t-0 at first")


@pytest.mark.slow
def test_shrink_does_not_depend_on_its_workers(tmp_path: Path) -> None:
    options = ["shrink", SCENARIO, "--protocol", "truncate-to-hw", "--trials", "12"]
    for workers in ("1", "2"):
        run_command_line([*options, "--workers", workers, "--store", str(tmp_path / workers)])

    first_plan, second_plan = (
        load_plan(tmp_path / workers / "shrunk/kip101-scenario-1-truncate-to-hw/plan.yaml") for workers in ("1", "2")
    )

    assert first_plan == second_plan


@pytest.mark.slow
def test_interrupted_shrink_keeps_its_best_and_goes_on(tmp_path: Path) -> None:
    store = tmp_path / "store"
    command = [sys.executable, "-m", "highwater", "shrink", SCENARIO, "--protocol", "truncate-to-hw", "--workers", "1"]
    command += ["--store", str(store)]
    folder = store / "shrunk" / "kip101-scenario-1-truncate-to-hw"
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=_here())
    end = time.monotonic() + PATIENCE_S
    while len(list(folder.glob("ledger/*.json"))) < 6 and time.monotonic() < end:
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    message, complained = child.communicate(timeout=PATIENCE_S)

    half = load_plan(folder / "plan.yaml")
    copytree(folder / "ledger", tmp_path / "answered")
    completed = subprocess.run(
        command, capture_output=True, text=True, cwd=tmp_path, env=_here(), timeout=PATIENCE_S, check=False
    )

    assert (child.returncode, complained) == (ExitCode.UNKNOWN, "")
    assert "stopped: interrupted" in message
    assert completed.returncode == ExitCode.INVALID
    assert load_plan(folder / "plan.yaml").faults_ms < half.faults_ms
    kept = {path.name: path.stat().st_size for path in (tmp_path / "answered").iterdir()}
    assert kept.items() <= {path.name: path.stat().st_size for path in (folder / "ledger").iterdir()}.items()


def _here() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}
