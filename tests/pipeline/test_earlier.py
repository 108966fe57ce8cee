"""What an earlier commit wrote (tests/pipeline/earlier) is refused with a sentence, or taken over by a command.

A run that it stored is taken in and judged like one of today. Its ledgers and its dataset have no checksums, so nobody can say
that they are as they were written.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from highwater.cli.main import run_command_line
from highwater.exit_codes import ExitCode
from pipeline.dataset import parts_of
from pipeline.storage import storage_at
from pipeline.verification import verify

EARLIER = Path(__file__).parent / "earlier"
_DATASET = "a manifest without checksum, of an earlier version: ingest its runs into a new dataset"


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """A copy of a store with a campaign of one run, which is judged, and a dataset."""
    return Path(shutil.copytree(EARLIER, tmp_path / "earlier"))


def _told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any], str]:
    capsys.readouterr()
    code = run_command_line([*arguments, "--json"])
    captured = capsys.readouterr()
    return code, json.loads(captured.out or "{}"), captured.err


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ("query", "all", "--dataset", "{}"),
        ("query", "--sql", "select count(*) from runs", "--dataset", "{}"),
        ("triage", "--dataset", "{}"),
        ("diff", "first", "first", "--dataset", "{}"),
        ("store", "compact", "{}"),
    ],
    ids=" ".join,
)
def test_earlier_dataset_is_refused_with_what_to_do(
    command: tuple[str, ...], earlier: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted((earlier / "dataset").rglob("*.*"))
    code, _, words = _told(capsys, *(word.format(earlier / "dataset") for word in command))

    assert code == ExitCode.USAGE
    assert words.endswith(f".json: {_DATASET}\n")
    assert words.count("\n") == 1
    assert sorted(path for path in (earlier / "dataset").rglob("*.*") if path.name != ".owner") == before


def test_earlier_dataset_is_not_called_left_over_by_verify(earlier: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Who reads that the next ingest deletes the files would delete the only copy of the runs."""
    code, output, _ = _told(capsys, "store", "verify", str(earlier / "dataset"))

    assert code == ExitCode.LABORATORY_FAILED
    assert [damage["words"] for damage in output["damages"]] == [_DATASET]


def test_earlier_campaign_is_refused_run_by_run(earlier: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (campaign,) = earlier.glob("runs/campaigns/*")
    code, output, words = _told(capsys, "store", "ingest", str(campaign), "--dataset", str(earlier / "new"))

    assert (code, output["new"], len(output["refused"])) == (ExitCode.USAGE, 0, 1)
    assert words.endswith("v3.default.0.json: a row without checksum, of an earlier version\n")
    code, output, words = _told(
        capsys,
        *("campaign", "--seeds", "0..0", "--protocol", "v3", "--seconds", "1", "--keep-all"),
        "--store",
        str(earlier / "runs"),
        "--resume",
    )
    assert (code, set(output)) == (ExitCode.USAGE, {"error", "exit"})
    assert "request.json: cannot resume: it was performed by commit e29caede129e" in words
    assert words.count("\n") == 1


def test_earlier_runs_are_taken_into_a_new_dataset(earlier: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command that the refusals name."""
    dataset = storage_at(earlier / "new")
    code, output, _ = _told(
        capsys, "store", "ingest", str(earlier / "runs"), "--dataset", str(earlier / "new"), "--campaign", "one"
    )

    assert (code, output["new"], output["refused"]) == (0, 1, [])
    assert [part.runs for part in parts_of(dataset)] == [(_run(earlier),)]
    assert verify(dataset) == []
    code, output, _ = _told(capsys, "triage", "--dataset", str(earlier / "new"))
    assert code == 0


def _run(earlier: Path) -> str:
    (manifest,) = earlier.glob("runs/seed-0/*/manifest.json")
    return f"seed-0/{manifest.parent.name}"


def test_earlier_verdicts_are_judged_again(earlier: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where the row is under the key that the judges of today look for."""
    (row,) = earlier.glob("runs/judged/*.json")
    code, first, _ = _told(capsys, "judge", str(earlier / "runs"))
    (new,) = (path for path in earlier.glob("runs/judged/*.json") if path != row)
    content = json.loads(row.read_bytes())
    new.write_text(json.dumps(content | {"key": new.stem}))

    again_code, second_result, _ = _told(capsys, "judge", str(earlier / "runs"))

    assert (code, [run["new"] for run in first["runs"]]) == (again_code, [True])
    assert [run["new"] for run in second_result["runs"]] == [True]
    assert second_result["digest"] == first["digest"]
    assert [run["new"] for run in _told(capsys, "judge", str(earlier / "runs"))[1]["runs"]] == [False]
