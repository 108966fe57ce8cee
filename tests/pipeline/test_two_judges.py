"""Two judges of one store on S3: one owns the ledger, the other is refused; no row is mixed or lost."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from highwater.cli.main import run_command_line
from highwater.exit_codes import ExitCode
from highwater.runs import judging
from history import jsonl, store
from pipeline import owner
from pipeline.lease import Lease
from pipeline.ledger import Ledger
from pipeline.storage import storage_at
from tests.pipeline.faults import store_history
from tests.pipeline.runs import STORIES

NAMES = ("ok/vacuity-something-happened", "bad/acked-loss-read-past", "bad/order-failed-yet-read")
# Calls of a judge before which the other one begins: its first row goes, is written, is read, the lease is given back.
STEPS: dict[str, tuple[type, str]] = {
    "its first row is forgotten": (Ledger, "forget"),
    "its first row is written": (Ledger, "commit"),
    "its first row is read": (Ledger, "read"),
    "its lease is given back": (Lease, "give_back"),
}
ROUNDS = 3


@pytest.fixture
def runs(s3: str, tmp_path: Path) -> str:
    """A store on S3 with three runs, of which two are INVALID."""
    for number, name in enumerate(NAMES):
        store_history(tmp_path / str(number), jsonl.read(STORIES / f"{name}.jsonl"))
        storage_at(s3).put_folder(tmp_path / str(number), f"plan/{number}", last=store.MANIFEST)
    return s3


def _ledger(runs: str) -> dict[str, bytes]:
    """The results in the ledger, by key; each of its files is a row that counts."""
    ledger = Ledger(storage_at(judging.ledger_beside([runs])))
    return {row.key: bytes(row.result) for row in ledger.rows()}


def _judged(runs: str, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, dict[str, Any], str]:
    """The exit code, what was printed, and the errors."""
    code = run_command_line(["judge", runs, "--jobs", "1", "--json", *options])
    captured = capsys.readouterr()
    return code, json.loads(captured.out or "{}"), captured.err


def _once_before(monkeypatch: pytest.MonkeyPatch, kind: type, name: str, act: Callable[[], object]) -> None:
    """Act before the first call of a method."""
    method, left = getattr(kind, name), [act]

    def called(*given: object, **named: object) -> object:
        if left:
            left.pop()()
        return method(*given, **named)

    monkeypatch.setattr(kind, name, called)


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
def test_second_judge_is_refused_at_any_step(
    step: str, runs: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second one would forget the rows that the first has just written."""
    code, alone, _ = _judged(runs, capsys)
    rows = _ledger(runs)
    second: list[tuple[int, str]] = []

    def judge_too() -> None:
        capsys.readouterr()
        refused = run_command_line(["judge", runs, "--jobs", "1", "--again"])
        second.append((refused, capsys.readouterr().err))

    _once_before(monkeypatch, *STEPS[step], judge_too)
    first_code, first, _ = _judged(runs, capsys, "--again")

    ((exit_code, words),) = second
    assert exit_code == ExitCode.USAGE
    assert "/judged" in words
    assert "writes here; wait for its end" in words
    assert words.count("\n") == 1
    assert (first_code, first["digest"]) == (code, alone["digest"])
    assert _ledger(runs) == rows
    assert [row["new"] for row in _judged(runs, capsys)[1]["runs"]] == [False] * len(NAMES)


@pytest.mark.slow
def test_judge_that_outlived_its_lease_is_told_and_mixes_nothing(
    runs: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was paused for longer than its lease; another one judged meanwhile; then it forgets rows of the other one."""
    alone = _judged(runs, capsys)[1]
    rows = _ledger(runs)
    monkeypatch.setattr(owner, "Lease", partial(Lease, seconds=1.0))
    second_result: list[dict[str, Any]] = []

    def pass_time() -> None:
        time.sleep(3)  # S3 tells times in whole seconds
        monkeypatch.setattr(owner, "Lease", Lease)
        second_result.append(_judged(runs, capsys, "--again")[1])

    _once_before(monkeypatch, Ledger, "forget", pass_time)
    code, _, words = _judged(runs, capsys, "--again")

    assert code == ExitCode.USAGE
    assert "the lease was not renewed in time" in words
    assert second_result[0]["digest"] == alone["digest"]
    assert _ledger(runs) == rows


@pytest.mark.slow
def test_judges_in_two_processes_lose_no_row(runs: str, capsys: pytest.CaptureFixture[str]) -> None:
    """They start at the same moment; each ends with the verdicts of all runs or is refused."""
    code, alone, _ = _judged(runs, capsys)
    rows = _ledger(runs)
    command = [sys.executable, "-m", "highwater", "judge", runs, "--jobs", "1", "--again", "--json"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    exit_codes: list[int] = []
    for _ in range(ROUNDS):
        both = [
            subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for _ in range(2)
        ]
        for judge in both:
            out, err = judge.communicate()
            exit_codes.append(judge.returncode)
            if judge.returncode == ExitCode.USAGE:
                assert "writes here" in err
            else:
                assert (judge.returncode, json.loads(out)["digest"]) == (code, alone["digest"])
        assert _ledger(runs) == rows

    assert exit_codes.count(code) >= ROUNDS
    assert ExitCode.USAGE in exit_codes
