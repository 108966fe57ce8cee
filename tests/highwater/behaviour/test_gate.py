"""The snapshot in `highwater chaos`: accepted, compared, refused."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from highwater.behaviour.difference import Behaviour, Difference
from highwater.behaviour.rows import Row
from highwater.behaviour.snapshot import load, recorded, save
from highwater.campaigns import behaviour
from highwater.campaigns.behaviour import next_steps
from highwater.cli.main import run_command_line
from highwater.errors import UsageError
from highwater.plans.plan import Plan
from highwater.plans.text import load_plan
from highwater.runs.revisions import Revision

ROOT = Path(__file__).parents[3]
PLAN = "shrunk-empty-isr-no-leader"
ENTRY = """name: one
story: A plan of the test.
plan: ../plans/one.yaml
expect:
- {protocol: safe, verdict: VALID, live: true}
"""


@pytest.fixture
def job(tmp_path: Path) -> list[str]:
    """The arguments of a gate of two plans, one of them with an entry."""
    (tmp_path / "plans").mkdir()
    (tmp_path / "seeds").mkdir()
    for name in ("one", "two"):
        shutil.copy(ROOT / f"corpus/plans/{PLAN}.yaml", tmp_path / f"plans/{name}.yaml")
    (tmp_path / "seeds/one.yaml").write_text(ENTRY)
    folders = ["--corpus", str(tmp_path / "seeds"), "--plans", str(tmp_path / "plans"), "--store", str(tmp_path / "store")]
    return ["chaos", "--first", "1", "--jobs", "1", *folders, "--snapshot", str(tmp_path / "behaviour.txt")]


def _chaos(job: list[str], *more: str, reference: Path | None = None) -> tuple[int, str]:
    """The exit code and the output of the gate in a process of its own, with the protocol in a folder."""
    path = os.pathsep.join(map(str, ([reference] if reference else []) + [ROOT]))
    command = [sys.executable, "-P", "-m", "highwater", *job, *more]
    completed = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False, cwd=ROOT
    )
    return completed.returncode, completed.stdout + completed.stderr


def _edited(folder: Path, module: str, *edits: tuple[str, str]) -> Path:
    """A copy of the protocol with texts of one module replaced."""
    shutil.copytree(ROOT / "reference", folder / "reference", ignore=shutil.ignore_patterns("__pycache__"))
    file = folder / "reference" / module
    text = file.read_text()
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    file.write_text(text)
    return folder


@pytest.mark.slow
def test_gate_ignores_refactoring_and_tells_changed_behaviour(job: list[str], tmp_path: Path) -> None:
    """Renamed code changes no snapshot. A first LeaderAndIsr without its flag `init` does, though no checker reports anything."""
    code, output = _chaos(job, "--accept")
    assert (code, "behaviour              accepted" in output) == (0, True), output

    module = "controller/leader_selection.py"
    renamed = _edited(tmp_path / "renamed", module, ("_among", "_chosen_from"), ("alive", "living"))
    code, output = _chaos(job, "--parts", "corpus,plans", reference=renamed)
    assert (code, "behaviour              ok           2 plans as accepted" in output) == (0, True), output

    planted = _edited(tmp_path / "planted", "controller/failover.py", ("live.broker, init=True)", "live.broker, init=False)"))
    code, output = _chaos(job, "--parts", "corpus,plans", reference=planted)
    assert code == 10, output
    assert "behaviour              changed      2 of 2 plans" in output
    assert " LeaderAndIsr sent, in 2 of 2 plans" in output or "new: UpdateMetadata sent, in 2 of 2 plans" in output
    assert output.rstrip().splitlines()[-1].startswith("2 runs: changed")


@pytest.mark.slow
def test_red_run_is_not_accepted(job: list[str], tmp_path: Path) -> None:
    """What the judges refuse must not become the behaviour that later runs are compared with."""
    text = (tmp_path / "seeds/one.yaml").read_text()
    (tmp_path / "seeds/one.yaml").write_text(text.replace("VALID, live", "INVALID, live"))

    code, output = _chaos(job, "--accept")

    assert (code, "not accepted, because a run is red or missing" in output) == (13, True), output
    assert not (tmp_path / "behaviour.txt").exists()


@pytest.mark.slow
def test_accepting_tells_what_differs_from_the_snapshot_before(job: list[str], tmp_path: Path) -> None:
    """The summary at the head of the file is what a reviewer reads in the diff."""
    path = tmp_path / "behaviour.txt"
    save(path, {"plans/gone": recorded("p", (Row("a", "b", (), 0),))}, [])

    code, output = _chaos(job, "--accept")

    assert code == 0, output
    assert path.read_text().splitlines()[:3] == [
        "# 3 of 2 plans behave otherwise; first:",
        "# the plan has no recorded behaviour, in 2 of 2 plans",
        "#     corpus/one",
    ]
    assert sorted(load(path)) == ["corpus/one", "plans/two"]

    code, output = _chaos(job, "--parts", "plans")
    assert (code, "1 plans as accepted" in output) == (0, True), output  # the plan of the other phase is not gone


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "no snapshot of the behaviour; write it again with highwater chaos --accept"),
        (("--accept", "--parts", "plans"), "--accept performs corpus and plans; remove --parts and --against"),
        (("--accept", "--against", "HEAD"), "--accept performs corpus and plans; remove --parts and --against"),
    ],
)
def test_gate_without_a_snapshot_is_refused(
    arguments: tuple[str, ...], words: str, job: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A missing file must not make the gate green."""
    assert run_command_line([*job, *arguments]) == 2
    assert words in capsys.readouterr().err


def test_plans_of_the_user_have_no_snapshot_unless_named(job: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line([*job[: job.index("--snapshot")], "--accept"]) == 2
    assert "--accept needs --snapshot FILE, because --corpus or --plans names other plans" in capsys.readouterr().err


def test_snapshot_names_the_plans_of_the_gate() -> None:
    """A plan that is added must be accepted, and one that is deleted must leave the snapshot."""
    from highwater.campaigns.corpus import SAFE, load_corpus, load_plans

    entries = load_corpus(ROOT / "corpus/seeds")
    corpus = {f"corpus/{case.entry}" for case in entries if case.expectation.protocol == SAFE}
    plans = {f"plans/{case.entry}" for case in load_plans(ROOT / "corpus/plans", entries)}

    assert corpus | plans == set(load(ROOT / "corpus/behaviour.txt"))


CHANGED = {
    "corpus/gone": Difference("plan", "the plan is gone"),
    "plans/one": Difference("new", "new: elected", Row("elected", "b1 t-0", ("t-0",), 1)),
}
HEAD = Revision(name="HEAD", words="HEAD")
PERFORMED = replace(load_plan(ROOT / f"corpus/plans/{PLAN}.yaml"), protocol="v3")  # not the protocol that its file names


def _performed(file: Path | str) -> dict[str, Behaviour]:
    return {"plans/one": Behaviour("digest", (), f"highwater run --plan {file}", str(file), PERFORMED)}


def test_change_comes_with_its_run_and_first_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader of `changed` had to find out alone which function acts otherwise."""
    file = ROOT / f"corpus/plans/{PLAN}.yaml"
    asked: list[tuple[str, str]] = []

    def call(plan: Plan, there: Revision) -> str:
        asked.append((plan.protocol, there.name))
        return "The first call."

    monkeypatch.setattr(behaviour, "call_in_plan", call)
    lines = next_steps(CHANGED, _performed(file), HEAD)

    assert [line.partition("  ")[0] for line in lines] == ["again", "call", "beside"]
    assert lines[:2] == [f"again   highwater run --plan {file}", "call    The first call."]
    assert asked == [("v3", "HEAD")]


def test_change_without_an_earlier_protocol_has_its_run() -> None:
    assert next_steps(CHANGED, _performed("one.yaml"), None) == ["again   highwater run --plan one.yaml"]
    assert next_steps({"corpus/gone": CHANGED["corpus/gone"]}, {}, HEAD) == []


def test_protocol_that_does_not_fit_is_told_with_the_change(monkeypatch: pytest.MonkeyPatch) -> None:
    def call(plan: Plan, there: Revision) -> str:
        raise UsageError("commit HEAD: its protocol does not fit this harness")

    monkeypatch.setattr(behaviour, "call_in_plan", call)

    _, line, _ = next_steps(CHANGED, _performed(ROOT / f"corpus/plans/{PLAN}.yaml"), HEAD)
    assert line == "call    not known: commit HEAD: its protocol does not fit this harness"
