"""`highwater inspect`: moments by time, row and words, a prompt, and what it refuses."""

import io
import json
from pathlib import Path

import pytest

from highwater.cli.main import run_command_line
from highwater.exit_codes import ExitCode
from tests.tidy.sources import ROOT

_PLAN = str(ROOT / "corpus/plans/kip101-scenario-1.yaml")
Printed = pytest.CaptureFixture[str]


def test_moment_tells_log_role_and_zookeeper(capsys: Printed) -> None:
    assert run_command_line(["inspect", _PLAN, "--at", "4000ms", "--partition", "t-0"]) == ExitCode.VALID
    printed = capsys.readouterr().out

    assert printed.startswith("4.000000 s, after row ")
    assert "\nb1  up, life 1, registered as 5, active" in printed
    assert "leader of epoch 0 since offset 0, ISR {b1,b2,b3}" in printed
    assert "\nzookeeper  controller b" in printed


def test_words_show_the_row_and_what_it_changed(capsys: Printed) -> None:
    assert run_command_line(["inspect", _PLAN, "--at", "3s", "--until", "became-leader"]) == ExitCode.VALID
    printed = capsys.readouterr().out

    assert "changed by the action of this row:\n" in printed
    assert ".role.type: " in printed


def test_json_has_the_states_before_and_after(capsys: Printed) -> None:
    assert run_command_line(["inspect", _PLAN, "--row", "200", "--node", "b1,zookeeper", "--json"]) == ExitCode.VALID
    moment = json.loads(capsys.readouterr().out)

    assert moment["row"]["index"] == 200
    assert set(moment["state"]) == set(moment["before"]) == {"b1", "zookeeper"}
    assert moment["state"]["b1"]["broker"]["partitions"]["t-0"]["log"]["leo"] >= 0


@pytest.mark.slow
def test_prompt_walks_on_back_and_to_a_break(monkeypatch: pytest.MonkeyPatch, capsys: Printed) -> None:
    lines = (
        "row 200",
        "next 2",
        "back",
        "back 1",
        "break became-leader",
        "at 3s",
        "go",
        "diff",
        "rows 2",
        "node b9",
        "what",
        "quit",
    )
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines) + "\n"))

    assert run_command_line(["inspect", _PLAN]) == ExitCode.VALID
    printed = capsys.readouterr().out
    places = [int(line.split()[1]) for line in printed.splitlines() if line.startswith("row ")]

    assert places[0] == 200
    assert places[1] > places[2] > places[3] >= 200
    assert "--node b9: no process of this run; known: b1, b2, b3" in printed
    assert "unknown command what; `help` lists them" in printed


def test_prompt_ends_with_its_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))

    assert run_command_line(["inspect", _PLAN]) == ExitCode.VALID


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--at", "soon"], "soon is no time of a run; give seconds or milliseconds, for example 24.94s or 24940ms"),
        (["--at", "900s"], "900.000000 s is after the end of the run at "),
        (["--at", "3s", "--partition", "t-7"], "--partition t-7: not there at 3.000000 s; there are t-0"),
        (["--at", "-3s"], "-3s is no time of a run"),
        (["--row", "99999999"], "the run has no row 99999999; the last is "),
        (["--row", "3", "--at", "1s"], "--row names a moment by itself; leave out --at and --until"),
        (["--until", "nobody says this"], "no later row says nobody says this"),
        (["--at", "1s", "--node", "b77"], "--node b77: no process of this run; known: b1, b2, b3"),
        (["--at", "1s", "--partition", "nothing-0"], "--partition nothing-0: no partition of this run; its topics are t"),
        (["--json"], "--json needs a moment: --at, --row or --until"),
        (["--protocol", "v3", "--at", "1s"], "--protocol needs a seed"),
    ],
)
def test_moment_that_does_not_exist_is_refused(arguments: list[str], complaint: str, capsys: Printed) -> None:
    assert run_command_line(["inspect", _PLAN, *arguments]) == ExitCode.USAGE

    assert capsys.readouterr().err.startswith(f"highwater: {complaint}")


@pytest.mark.parametrize(
    ("name", "words", "sentence"),
    [
        # What the cause of each counterexample speaks of: who truncated, led or dropped what at that moment.
        ("truncate-to-hw", "truncate", "LEO 0"),
        ("kip101", "b2 follows epoch 2", "log ends with 0 v2 (epoch 1)"),
        ("kip279", "truncate", "t-0.log.leo: "),
        ("kip320-first-try", "became-leader", ".role.type: "),
        ("isr-no-version", "isr-change-ended", "t-0.role.isr"),
    ],
)
def test_counterexample_shows_what_its_cause_tells(name: str, words: str, sentence: str, capsys: Printed) -> None:
    path = str(ROOT / f"corpus/explored/{name}.yaml")

    assert run_command_line(["inspect", path, "--until", words]) == ExitCode.VALID
    assert sentence in capsys.readouterr().out


@pytest.mark.slow
def test_stored_run_is_looked_into(tmp_path: Path, capsys: Printed) -> None:
    assert (
        run_command_line(["run", "--plan", _PLAN, "--store", str(tmp_path), "--protocol", "truncate-to-hw"]) == ExitCode.INVALID
    )
    run = next(tmp_path.glob("*/sim-*"))
    capsys.readouterr()

    assert run_command_line(["inspect", str(run), "--until", "b3 truncate t-0"]) == ExitCode.VALID
    assert "t-0.log.leo: " in capsys.readouterr().out
