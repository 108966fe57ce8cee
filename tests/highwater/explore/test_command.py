"""`highwater explore machines`: exit codes, one JSON object, and a plan that replays."""

import json
import os
import re
from pathlib import Path
from signal import SIGINT

import msgspec
import pytest

from highwater.cli.main import run_command_line
from highwater.exit_codes import ExitCode
from highwater.explore.breadth_first import BreadthFirst
from highwater.explore.strategy import Budget

V3 = ["explore", "machines", "--protocol", "v3", "--records", "1", "--holds", "strong-isr"]


@pytest.mark.slow
def test_counterexample_is_written_as_a_plan_that_replays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = tmp_path / "loss.yaml"

    assert run_command_line([*V3, "--plan", str(plan)]) == ExitCode.INVALID
    printed = capsys.readouterr().out
    assert run_command_line(["replay", str(plan)]) == ExitCode.INVALID

    assert "INVALID in 7 steps" in printed
    assert f"repeat  highwater replay {plan}" in printed
    assert "the same history, byte for byte" in capsys.readouterr().out


@pytest.mark.slow
def test_explore_json_has_the_repeat_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line([*V3, "--json"]) == ExitCode.INVALID

    result = msgspec.json.decode(capsys.readouterr().out)
    assert result["verdict"] == "INVALID"
    assert len(result["story"]) == 7
    assert result["repeat"] == "highwater explore machines --protocol v3 --holds strong-isr"


def test_exploration_out_of_budget_is_unknown_and_no_proof(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["explore", "machines", "--max-depth", "2", "--folder", str(tmp_path)]) == ExitCode.UNKNOWN

    printed = capsys.readouterr().out
    assert "no proof" in printed
    assert f"go on  highwater explore machines --resume {tmp_path}" in printed


def test_interrupted_explore_is_unknown_with_its_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C between two actions of the search: what was found so far is on disk."""

    def interrupt(search: BreadthFirst[object, object], budget: Budget) -> str:
        if search._states > 500:
            os.kill(os.getpid(), SIGINT)
        return ""

    monkeypatch.setattr(BreadthFirst, "_limit_reached", interrupt)
    world = ["--expiries", "0", "--crashes", "1"]

    assert run_command_line(["explore", "machines", *world, "--folder", str(tmp_path)]) == ExitCode.UNKNOWN

    printed = capsys.readouterr().out
    assert "UNKNOWN: nothing found, stopped at an interrupt" in printed
    assert re.search(r"^\d{3,4} states, ", printed, re.MULTILINE)
    assert f"go on  highwater explore machines --resume {tmp_path}" in printed


@pytest.mark.slow
def test_resumed_exploration_ends_as_one_without_a_stop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = ["--expiries", "0"]
    stored = tmp_path / "search"
    assert run_command_line(["explore", "machines", *world, "--max-depth", "9", "--folder", str(stored)]) == ExitCode.UNKNOWN

    assert run_command_line(["explore", "machines", "--resume", str(stored)]) == ExitCode.VALID

    assert "5888 states, 14584 transitions, depth 20" in capsys.readouterr().out
    assert not stored.exists()


def test_exploration_stops_at_its_limit_of_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A world too large for the memory ends with a line that says so, and nothing is lost."""
    assert run_command_line(["explore", "machines", "--memory-mib", "1", "--folder", str(tmp_path)]) == ExitCode.UNKNOWN

    printed = capsys.readouterr().out
    assert "stopped at 1 MiB of memory" in printed
    assert "go on  highwater explore machines --resume" in printed


def test_random_walks_find_a_counterexample_by_their_seed(capsys: pytest.CaptureFixture[str]) -> None:
    walk = [
        "explore",
        "machines",
        "--protocol",
        "v3",
        "--holds",
        "weak-isr",
        "--strategy",
        "walk",
        "--scheduler",
        "pct",
        "--json",
    ]
    found = []
    for _ in range(2):
        assert run_command_line([*walk, "--walks", "40"]) == ExitCode.INVALID
        found.append(msgspec.json.decode(capsys.readouterr().out))

    assert found[0]["plan"] == found[1]["plan"]


def test_exploration_of_all_states_is_valid(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["explore", "machines", "--crashes", "0", "--expiries", "0", "--max-epochs", "1"]) == ExitCode.VALID

    assert "VALID: committed holds in the whole space" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--protocol", "paxos"], "unknown protocol 'paxos'"),
        (["--brokers", "9"], "--brokers"),
        (["--plan", "/nowhere/at/all.yaml"], "folder /nowhere/at does not exist"),
        (["--budget-seconds", "0"], "--budget-seconds"),
        (["--max-epochs", "0"], "--max-epochs"),
        (["--resume", "/nowhere"], "/nowhere holds no stopped search"),
        (["--resume", "/nowhere", "--brokers", "3"], "goes on with what is in the folder"),
        (["--folder", "/etc"], "folder /etc is not empty"),
        (["--strategy", "depth-first", "--workers", "2"], "--workers 2 works with strategy breadth-first only"),
    ],
)
def test_bad_explore_options_print_one_line(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["explore", "machines", *arguments]) == ExitCode.USAGE

    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert words in printed.err


@pytest.mark.parametrize(
    ("old", "words"),
    [
        ("", "explore is now: highwater explore machines"),
        ("--protocol v3 --json", "explore --protocol is now: highwater explore machines --protocol v3 --json"),
        ("--resume store/x", "explore --resume is now: highwater explore machines --resume store/x"),
        ("--model m --variant V", "explore --model is now: highwater explore model m --variant V"),
        ("--max-epoch 2 --model=m", "explore --model is now: highwater explore model m --max-epoch 2"),
        ("--protocol p --refines kip320", "explore --refines is now: highwater explore refine kip320 --protocol p"),
        ("--realise kip101", "explore --realise is now: highwater explore realise kip101"),
        ("--ablate safe --crashes 0", "explore --ablate is now: highwater explore ablate --crashes 0"),
    ],
)
def test_earlier_form_of_explore_tells_the_present_one(old: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["explore", *old.split()]) == ExitCode.USAGE

    printed = capsys.readouterr()
    error_line = json.dumps({"error": words, "exit": ExitCode.USAGE}, separators=(",", ":")) + "\n" if "--json" in old else ""
    assert (printed.out, printed.err) == (error_line, f"highwater: {words}\n")


def test_help_lists_options_under_the_heading_of_their_group(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["explore", "machines", "--help"]) == 0

    sections = re.split(r"^(\w+):$", capsys.readouterr().out, flags=re.MULTILINE)
    options = {
        heading: set(re.findall(r"^  (--\S+)", body, re.MULTILINE))
        for heading, body in zip(sections[1::2], sections[2::2], strict=True)
    }
    assert list(options) == ["World", "Search", "Limits", "Options"]
    assert options["Limits"] == {"--budget-seconds", "--max-depth", "--walks", "--memory-mib"}
