"""A campaign and a judge whose files are all on an S3 server."""

import json
from pathlib import Path
from typing import Any

import pytest

from highwater.cli.main import run_command_line
from pipeline.storage import storage_at

pytestmark = pytest.mark.slow


def _json_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    run_command_line([*arguments, "--json"])
    captured = capsys.readouterr()
    assert captured.out, captured.err
    found: dict[str, Any] = json.loads(captured.out)
    return found


def test_campaign_and_judge_on_s3_are_those_on_a_disk(s3: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Worker processes write to the server, a resumed campaign finds its runs there, and judging reads them from there."""
    command = ("campaign", "--seeds", "0..1", "--protocol", "v3", "--seconds", "3", "--keep-all")
    disk = str(tmp_path / "store")

    here = _json_of(capsys, *command, "--store", disk, "--jobs", "1")
    there = _json_of(capsys, *command, "--store", s3, "--jobs", "2")
    resumed = _json_of(capsys, *command, "--store", s3, "--jobs", "1", "--resume")

    assert here["tally"] == there["tally"] == resumed["tally"]
    names = storage_at(s3).names()
    assert names == storage_at(disk).names()
    # Nothing names a folder of this machine.
    texts = [storage_at(s3).read(name).decode() for name in names if name.endswith(".json")]
    assert texts
    assert not [text for text in texts if "/tmp" in text or str(tmp_path) in text]

    judged_here, judged_there = (_json_of(capsys, "judge", store) for store in (disk, s3))

    assert _verdicts_in(judged_here) == _verdicts_in(judged_there) != []
    assert judged_here["exit"] == judged_there["exit"]


def _verdicts_in(printed: dict[str, Any]) -> list[tuple[object, ...]]:
    """The digest of each history, its verdict, and the rows that were judged."""
    return sorted((run["digest"], run["verdict"], run["kinds"], run["operations"], run["events"]) for run in printed["runs"])
