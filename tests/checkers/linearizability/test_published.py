"""Histories whose verdicts others published, read from beside the project; skipped where they are not there."""

import csv
import json
from pathlib import Path

import pytest

from checkers.linearizability.registry import NAMES
from highwater.cli.main import run_command_line
from tests.tidy.sources import ROOT

CORPORA = ROOT.parent / "shared" / "corpora"
_EXIT = {"linearizable": 0, "not-linearizable": 10}


def _rows() -> list[tuple[str, str, str]]:
    for folder in (CORPORA, ROOT.parents[1] / "shared" / "corpora"):
        if (folder / "VERDICTS.csv").exists():
            with (folder / "VERDICTS.csv").open() as file:
                rows = [(row["file"], row["model"].split(",")[0].split(" ")[0], row["expected"]) for row in csv.DictReader(file)]
            return [(str(folder / name), model, expected) for name, model, expected in rows if model in NAMES]
    return []


def test_every_published_verdict_is_ours(capsys: pytest.CaptureFixture[str]) -> None:
    """A checker that disagrees with the published verdict is wrong, or has found something that needs a story."""
    rows = _rows()
    if not rows:
        pytest.skip(f"no published histories in {CORPORA}")
    wrong = []
    for path, model, expected in rows:
        code = run_command_line(["check", path, "--model", model, "--json"])
        said = json.loads(capsys.readouterr().out)
        if code != _EXIT[expected] or bool(said["anomalies"]) != (expected == "not-linearizable") or said["unchecked"]:
            wrong.append((Path(path).name, expected, said["verdict"]))

    assert wrong == []
