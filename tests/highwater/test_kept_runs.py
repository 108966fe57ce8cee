"""Runs that an earlier version stored are read today: judged to the same bytes, performed again to the same digest.

`kept` holds the folder of a run as version 0.2.0 stored it before checkers had rooms.
"""

import shutil
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from checkers.causes.cause import cause_of
from checkers.judge import judge
from highwater.cli.main import run_command_line
from highwater.exit_codes import ExitCode
from highwater.runs.run import encode_verdict, honest
from highwater.runs.summary import Summary
from history import jsonl, store

KEPT = Path(__file__).parent / "kept" / "v3-kip101-scenario-1"
LATER = ("joined-below-hw",)  # kinds of anomalies that checkers report since then


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A copy, because commands write beside the run."""
    return Path(shutil.copytree(KEPT, tmp_path / "run"))


def test_kept_run_gets_the_verdict_that_was_stored(run: Path) -> None:
    history = store.load_run(run)

    verdict = honest(judge(history), history.manifest)
    verdict = replace(verdict, anomalies=tuple(found for found in verdict.anomalies if found.kind not in LATER))

    assert encode_verdict(verdict) == (run / "verdict.json").read_bytes()


def test_kept_run_has_the_cause_that_was_stored(run: Path) -> None:
    """But for the epoch in which a broker followed another one, which sentences name since."""
    summary = msgspec.json.decode((run / "summary.json").read_bytes(), type=Summary)
    history = store.load_run(run)

    cause = cause_of(history, judge(history))

    assert cause is not None
    assert cause.sentence.replace("as a follower of b2 in epoch 1", "as a follower of b2") == summary.cause


def test_kept_plan_gives_the_history_that_was_stored(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["replay", str(run)]) == ExitCode.INVALID
    assert "the same history, byte for byte" in capsys.readouterr().out


def test_kept_history_is_judged_alike_as_json_lines(run: Path, tmp_path: Path) -> None:
    history = store.load_run(run)
    lines = tmp_path / "history.jsonl"
    lines.write_bytes(jsonl.encode(history))

    assert judge(jsonl.read(lines)) == judge(history)
