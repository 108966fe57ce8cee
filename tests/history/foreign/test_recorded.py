"""A history that any program recorded: one line of manifest, then JSON lines (docs/your-own-system.md)."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from checkers.engine.verdict import Validity
from highwater.cli.main import run_command_line
from highwater.foreign.files import MODELS
from highwater.runs.run import judge
from history.errors import Mistakes
from history.foreign import recorded
from tests.shown import examples, is_shown
from tests.tidy.sources import ROOT

MANIFEST = {"manifest": {"system": "toy 1", "model": "log"}}
Fields = dict[str, object]


def line(process: int, type: str, f: str, time: int, **fields: object) -> Fields:
    return {"process": process, "type": type, "f": f, "time": time, **fields}


def write_lines(path: Path, *lines: object) -> Path:
    path.write_text("".join(f"{one if isinstance(one, str) else json.dumps(one)}\n" for one in lines))
    return path


def mistakes(path: Path) -> list[str]:
    with pytest.raises(Mistakes) as raised:
        recorded.read(path, MODELS)
    return [one.removeprefix(f"{path}: ") for one in raised.value.lines]


def _timeless(text: str) -> str:
    """The text without the times of a history that is recorded anew."""
    return re.sub(r" at [\d.]+ s", " at N s", re.sub(r'"time": \d+', '"time": N', text))


@pytest.mark.slow
def test_example_of_the_document_runs_to_the_letter(tmp_path: Path) -> None:
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    section = (ROOT / "docs" / "your-own-system.md").read_text().partition("## A history that you record yourself")[2]
    # The programs need a cluster: tests/systems/test_recordings.py runs them.
    of_a_cluster, _, of_a_file = section.partition("A file with mistakes is refused")
    shown = [*examples(of_a_cluster.partition("Four programs do that")[0]), *examples(of_a_file)]
    for command, output in shown:
        if command == "cat wrong.jsonl":
            (tmp_path / "wrong.jsonl").write_text(output)
        completed = subprocess.run(
            ["sh", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=60
        )
        assert is_shown(_timeless(output), _timeless(completed.stdout + completed.stderr)), (
            command,
            completed.stdout,
            completed.stderr,
        )

    assert len(shown) == 5


def _read_once(path: Path, manifest: dict[str, object]) -> Path:
    """One acknowledged record, read once, and no final reads."""
    return write_lines(
        path,
        {"manifest": manifest},
        line(0, "invoke", "produce", 1, values=["a"]),
        line(0, "ok", "produce", 2, offsets=[0]),
        line(1, "invoke", "poll", 3, offset=0),
        line(1, "ok", "poll", 4, records=[[0, "a"]]),
    )


def test_log_without_final_reads_is_unknown(tmp_path: Path) -> None:
    log = recorded.read(_read_once(tmp_path / "h.jsonl", {"system": "toy 1", "model": "log"}), MODELS).log
    assert log is not None
    verdict = judge(log)

    assert verdict.validity is Validity.UNKNOWN
    assert any(why.endswith("were not read at the end: the history has no final reads") for why in verdict.unchecked)


def test_log_that_says_it_has_no_final_reads_is_judged(tmp_path: Path) -> None:
    manifest = {"system": "toy 1", "model": "log", "final_reads": False}
    log = recorded.read(_read_once(tmp_path / "h.jsonl", manifest), MODELS).log
    assert log is not None
    verdict = judge(log)

    assert verdict.validity is Validity.VALID
    assert "toy 1 makes no final reads: its records are judged by all reads" in verdict.unchecked


def test_final_reads_and_their_denial_are_refused_together(tmp_path: Path) -> None:
    manifest = {"manifest": {"system": "toy 1", "model": "log", "final_reads": False}}
    path = write_lines(tmp_path / "h.jsonl", manifest, {"mark": "final-reads", "time": 1})

    assert mistakes(path) == ["line 2: the manifest says that the history has no final reads (final_reads is false)"]


def test_log_is_judged_by_the_checkers_of_runs(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "h.jsonl",
        MANIFEST,
        line(0, "invoke", "produce", 1, values=["a", "b"], topic="x", partition=3),
        line(0, "ok", "produce", 2, offsets=[5, 6]),
        line(1, "invoke", "poll", 3, offset=5, topic="x", partition=3),
        line(1, "ok", "poll", 4, records=[[5, "b"], [6, "a"]]),
    )
    log = recorded.read(path, MODELS).log

    assert log is not None
    verdict = judge(log)
    assert verdict.validity is Validity.INVALID
    assert {(anomaly.kind, anomaly.key) for anomaly in verdict.anomalies} >= {
        ("inconsistent-offsets", "x-3"),
        ("lost-write", "x-3"),
    }
    assert {index for anomaly in verdict.anomalies for index in anomaly.witness} <= {2, 3, 4, 5}  # the lines of the file


def test_group_that_loses_its_commit_is_invalid(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path / "h.jsonl",
        MANIFEST,
        line(0, "invoke", "commit", 1, group="g", offset=4),
        line(0, "ok", "commit", 2),
        line(0, "invoke", "committed", 3, group="g"),
        line(0, "ok", "committed", 4),
    )
    log = recorded.read(path, MODELS).log

    assert log is not None
    assert [anomaly.kind for anomaly in judge(log).anomalies] == ["commit-lost"]


def test_steps_of_another_model_are_judged_by_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line(0, "invoke", "write", 1, value=1), line(0, "ok", "write", 2, value=1)]
    lines += [line(0, "invoke", "read", 3), line(0, "ok", "read", 4, value=2)]
    path = write_lines(tmp_path / "h.jsonl", {"manifest": {"system": "s", "model": "register"}}, *lines)

    assert run_command_line(["check", str(path), "--report", str(tmp_path / "page.html")]) == 10
    assert "line 4" in capsys.readouterr().out
    assert (tmp_path / "page.html").stat().st_size > 1000


def test_all_mistakes_are_named_at_once(tmp_path: Path) -> None:
    sentences = mistakes(
        write_lines(
            tmp_path / "h.jsonl",
            MANIFEST,
            line(-1, "invoke", "produce", 1, values=["a"]),
            line(0, "invoke", "produce", 2),
            line(0, "ok", "produce", 3, offsets=[1]),
            "not JSON",
            line(2, "invoke", "poll", 1, offset=0),
            line(2, "invoke", "poll", 4, offset=0),
            line(2, "ok", "latest", 4, offset=0),
            line(2, "ok", "poll", 4, records=[[0, 1]], extra=1),
            {"mark": "end", "time": 5},
            "[]",
        )
    )

    assert sentences == [
        "line 2: process must be a whole number from 0 on, not -1",
        "line 3: values is missing; produce invoke needs a list of texts that is not empty",
        "line 4: offsets must have one number for each of 0 values, not 1",
        "line 5: not one JSON object: Expecting value; given: not JSON",
        "line 6: time must be at least 3, that of a line above, not 1",
        "line 7: process 2 invokes poll while its poll of line 6 is open; complete that first",
        "line 8: process 2 must complete poll of line 6, not latest",
        "line 9: records must be a list of [offset, text], not [[0, 1]]",
        "line 9: unknown field 'extra'; known: process, type, f, time, topic, partition, values, acks, offset, offsets, records, "
        "group, error, node",
        'line 10: mark must be one of final-reads, not "end"',
        "line 11: a line must be a JSON object, not []",
    ]


def test_manifest_with_both_fields_wrong_names_both(tmp_path: Path) -> None:
    sentences = mistakes(
        write_lines(tmp_path / "h.jsonl", {"manifest": {"modle": "log"}, "x": 1}, line(0, "invoke", "poll", 1, offset=0))
    )

    assert [sentence.partition(";")[0] for sentence in sentences] == [
        "line 1: the first line must have the manifest alone, not 'x' too",
        "line 1: manifest: system is missing",
        "line 1: manifest: model is missing",
        "line 1: manifest: unknown field 'modle'",
    ]


def test_command_prints_each_mistake_on_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_lines(tmp_path / "h.jsonl", MANIFEST, *(["x"] * 150))

    assert run_command_line(["check", str(path)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert (len(lines), lines[-1]) == (101, f"highwater: {path}: and 50 more mistakes")
