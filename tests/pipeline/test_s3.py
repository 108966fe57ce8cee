"""A campaign and a judge whose files are all on an S3 server."""

import json
from pathlib import Path
from typing import Any

import pytest

from highwater.cli.main import run_command_line
from pipeline.storage import storage_at

pytestmark = pytest.mark.slow

SEEDS = "0..1"


def _printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    run_command_line([*arguments, "--json"])
    captured = capsys.readouterr()
    assert captured.out, captured.err
    found: dict[str, Any] = json.loads(captured.out)
    return found


def test_campaign_on_s3_is_that_on_a_disk(s3: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("campaign", "--seeds", SEEDS, "--protocol", "v3", "--seconds", "3", "--keep-all", "--jobs", "2", "--store")
    disk = _printed(capsys, *asked, str(tmp_path / "store"))
    first = _printed(capsys, *asked, s3)
    resumed = _printed(capsys, *asked, s3, "--resume")

    assert first["tally"] == disk["tally"] == resumed["tally"]
    names = storage_at(s3).names()
    assert names == storage_at(tmp_path / "store").names()
    # Nothing names the folder of a machine.
    texts = [storage_at(s3).read(name).decode() for name in names if name.endswith(".json")]
    assert texts
    assert not [text for text in texts if str(tmp_path) in text or "/tmp" in text]


def test_runs_on_s3_are_judged_as_on_a_disk(s3: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("campaign", "--seeds", SEEDS, "--protocol", "v3", "--seconds", "3", "--keep-all", "--jobs", "1", "--store")
    _printed(capsys, *asked, s3)
    _printed(capsys, *asked, str(tmp_path / "store"))

    there = _printed(capsys, "judge", s3, "--jobs", "2")
    here = _printed(capsys, "judge", str(tmp_path / "store"), "--jobs", "2")

    assert _judged(there) == _judged(here) != []
    assert there["exit"] == here["exit"]


def _judged(printed: dict[str, Any]) -> list[tuple[object, ...]]:
    """The digest of each history, its verdict, and the rows that were judged."""
    return sorted((run["digest"], run["verdict"], run["kinds"], run["operations"], run["events"]) for run in printed["runs"])
