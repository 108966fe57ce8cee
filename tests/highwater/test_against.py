"""Two versions of the protocol under one harness (`chaos --against`)."""

import io
import shutil
import zipfile
from pathlib import Path

import pytest
from msgspec.structs import replace

from highwater.campaigns.against import Other, compare, perform_on
from highwater.campaigns.chaos import RunLine
from highwater.cli.main import run_command_line
from highwater.errors import UsageError
from highwater.exit_codes import ExitCode
from highwater.runs import revisions

GOOD = RunLine(
    part="seeds",
    name="seed-1",
    protocol="safe",
    expected="VALID",
    verdict="VALID",
    live=True,
    red=False,
    kinds=(),
    crash=None,
    failure=None,
    digest="d",
    plan_digest="p",
    acked=10,
    seed=1,
    cpu_seconds=1.0,
    wall_seconds=1.0,
    repeat="highwater run --seed 1",
)
LOST = replace(GOOD, verdict="INVALID", kinds=("lost-write", "duplicate"), digest="e", acked=9)
TWICE = replace(GOOD, verdict="INVALID", kinds=("duplicate",), digest="f")
STUCK = replace(GOOD, live=False, digest="g")
CRASHED = replace(
    GOOD, verdict="UNKNOWN", live=None, crash="reference/log/log.py:7", failure="performing", digest="", plan_digest=""
)


def _other(*lines: RunLine) -> Other:
    return Other(revision="main", commit="c" * 40, lines=lines)


@pytest.mark.parametrize(
    ("before", "now", "worse"),
    [
        (GOOD, LOST, True),
        (TWICE, LOST, True),
        (STUCK, TWICE, True),
        (GOOD, STUCK, True),
        (LOST, CRASHED, True),
        (LOST, GOOD, False),
        (CRASHED, GOOD, False),
    ],
)
def test_run_with_a_worse_anomaly_became_worse(before: RunLine, now: RunLine, worse: bool) -> None:
    """A lost record is worse than a doubled one, which is worse than a partition that is stuck."""
    comparison = compare(_other(before), [now], {})

    assert [change.worse for change in comparison.changed] == [worse]
    assert comparison.code is (ExitCode.INVALID if worse else ExitCode.VALID)


def test_other_history_with_the_same_verdict_is_only_counted() -> None:
    comparison = compare(
        _other(GOOD, replace(GOOD, name="seed-2")), [replace(GOOD, digest="z", acked=12), replace(GOOD, name="seed-2")], {}
    )

    assert (comparison.changed, comparison.other_histories, comparison.acked, comparison.code) == (
        (),
        1,
        (20, 22),
        ExitCode.VALID,
    )


@pytest.mark.parametrize("now", [replace(GOOD, plan_digest="q"), replace(GOOD, name="seed-2")])
def test_runs_of_other_plans_are_not_compared(now: RunLine) -> None:
    """A switch of the other commit may derive another plan from the seed."""
    comparison = compare(_other(GOOD), [now], {})

    assert (comparison.runs, comparison.lost, comparison.code) == (0, 2, ExitCode.UNKNOWN)


def test_against_an_unknown_revision_is_refused() -> None:
    with pytest.raises(UsageError, match="--against nowhere: no such revision"):
        perform_on("nowhere", (), ("seeds",))


def _archive(path: Path | None) -> bytes:
    """A zip file with this folder as `reference`, or with an empty package."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, mode="w") as files:
        if path is None:
            files.writestr("reference/__init__.py", "")
        else:
            for file in path.rglob("*.py"):
                files.write(file, f"reference/{file.relative_to(path)}")
    return archive.getvalue()


@pytest.mark.slow
def test_protocol_with_another_interface_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(revisions, "_git", lambda *asked, what: _archive(None) if "archive" in asked else b"c0ffee")

    with pytest.raises(UsageError, match="--against old: its protocol does not fit this harness: ModuleNotFoundError"):
        perform_on("old", (), ("seeds",))


@pytest.mark.slow
def test_same_protocol_gives_the_same_runs_against_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    same = _archive(revisions.ROOT / "reference")
    monkeypatch.setattr(revisions, "_git", lambda *asked, what: same if "archive" in asked else b"c0ffee")

    code = run_command_line(f"chaos --against old --parts seeds --first 1 --seeds 1 --jobs 1 --store {tmp_path}".split())

    message = capsys.readouterr().out
    assert code == ExitCode.VALID
    assert "1 runs of each, 0 with another history\n    no run became better or worse\n" in message


@pytest.mark.slow
def test_other_behaviour_is_told_of_runs_of_seeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other protocol makes the last replica of the ISR the leader, where this one takes the first."""
    shutil.copytree(revisions.ROOT / "reference", tmp_path / "old", ignore=shutil.ignore_patterns("__pycache__"))
    rules = tmp_path / "old" / "controller" / "leader_selection.py"
    text = rules.read_text()
    order = "order = [b for b in state.replicas if b in ids]"
    assert order in text
    rules.write_text(text.replace(order, "order = [b for b in reversed(state.replicas) if b in ids]"))
    old = _archive(tmp_path / "old")
    monkeypatch.setattr(revisions, "_git", lambda *asked, what: old if "archive" in asked else b"c0ffee")

    run_command_line(f"chaos --against old --parts seeds --first 1 --seeds 1 --jobs 1 --store {tmp_path / 'store'}".split())

    message = capsys.readouterr().out
    assert "1 of 1 plans behave otherwise; first:\n    other words: state-written, in 1 of 1 plans\n" in message
