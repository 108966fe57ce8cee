"""Published histories with their published verdicts, from a folder beside the project; skipped if it is missing."""

import csv
import doctest
import json
import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from checkers.elle.judge import FORBIDS
from checkers.linearizability import judge
from highwater.cli.main import run_command_line
from highwater.foreign.files import ModelChoice, exported, judge_file
from history import store
from tests.tidy.sources import ROOT

CORPORA = ROOT.parent / "shared" / "corpora"
_OF_A_PHANTOM = "rw-register"  # of elle-cli
_EXIT = {"linearizable": 0, "valid": 0, "not-linearizable": 10, "invalid": 10}


def _published_histories() -> list[tuple[str, str, str, str]]:
    """Path, model, the model as published, and the published verdict of each history; none without the corpora."""
    for folder in (CORPORA, ROOT.parents[1] / "shared" / "corpora"):
        if (folder / "VERDICTS.csv").exists():
            with (folder / "VERDICTS.csv").open() as file:
                return [
                    (str(folder / row["file"]), re.split("[,; ]", row["model"])[0], row["model"], row["expected"])
                    for row in csv.DictReader(file)
                ]
    return []


def test_docstring_example_of_linearizability_judge_runs() -> None:
    assert doctest.testmod(judge).failed == 0


@pytest.mark.slow
def test_our_verdict_equals_the_published_one_of_each_history(capsys: pytest.CaptureFixture[str]) -> None:
    """A checker that disagrees with the published verdict is wrong, or has found something that needs a story.

    Knossos calls a history without any answer linearizable; here it is UNKNOWN. Elle does not look at values that nobody wrote:
    its history of a register that is 2, then 3, then 2 again is impossible, whoever wrote the 3.
    """
    rows = _published_histories()
    if not rows:
        pytest.skip(f"no published histories in {CORPORA}")
    wrong = []
    for path, model, words, expected in rows:
        promised = [name for name in FORBIDS if re.search(rf"(?<![-a-z]){name}", words)] or ["strict-serializable"]
        code = run_command_line(["check", path, "--model", model, "--consistency", ",".join(promised), "--json"])
        said = json.loads(capsys.readouterr().out)
        if (code, said["unchecked"]) == (11, [judge.NOTHING_ANSWERED]) and expected == "linearizable":
            continue
        if Path(path).stem == _OF_A_PHANTOM:
            assert (code, expected, len(said["unchecked"])) == (10, "valid", 1)
            continue
        if code != _EXIT[expected] or bool(said["anomalies"]) != (_EXIT[expected] == 10) or said["unchecked"]:
            wrong.append((Path(path).name, expected, said["verdict"]))

    assert wrong == []


@pytest.mark.slow
def test_exported_history_keeps_its_published_verdict(tmp_path: Path) -> None:
    """The exported file must be judged as the original. EDN cannot say that a register begins as nil."""
    rows = _published_histories()
    if not rows:
        pytest.skip(f"no published histories in {CORPORA}")
    copy = tmp_path / "copy.edn"
    wrong = []
    for path, model, words, _ in rows:
        choice = ModelChoice(model=model, consistency=("strict-serializable",))
        store.write_lines(copy, exported(Path(path)))
        before = judge_file(Path(path), choice)
        after = judge_file(copy, replace(choice, initial="nil") if "initially nil" in words else choice)
        if (before.validity, [a.kind for a in before.anomalies]) != (after.validity, [a.kind for a in after.anomalies]):
            wrong.append((Path(path).name, before.validity, after.validity))

    assert wrong == []
