"""`highwater explore`: exit codes, one JSON object, and a plan that replays."""

import re
from pathlib import Path

import msgspec
import pytest

from highwater.cli.main import run_command_line
from highwater.exit_codes import ExitCode
from highwater.explore.search import Budget, Search

V3 = ["explore", "--protocol", "v3", "--records", "1", "--holds", "strong-isr"]


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

    found = msgspec.json.decode(capsys.readouterr().out)
    assert found["verdict"] == "INVALID"
    assert len(found["story"]) == 7
    assert found["repeat"] == "highwater explore --protocol v3 --holds strong-isr"


def test_exploration_out_of_budget_is_unknown_and_no_proof(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["explore", "--max-depth", "2"]) == ExitCode.UNKNOWN

    assert "no proof" in capsys.readouterr().out


def test_interrupted_explore_is_unknown_with_its_numbers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(search: Search, budget: Budget) -> str:
        if len(search._parents) > 500:
            raise KeyboardInterrupt
        return ""

    monkeypatch.setattr(Search, "_spent", interrupt)

    assert run_command_line(["explore"]) == ExitCode.UNKNOWN

    printed = capsys.readouterr().out
    assert "UNKNOWN: nothing found, stopped at an interrupt" in printed
    assert re.search(r"^5\d\d states, ", printed, re.MULTILINE)


def test_exploration_of_all_states_is_valid(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["explore", "--crashes", "0", "--expiries", "0", "--max-epochs", "1"]) == ExitCode.VALID

    assert "VALID: committed holds in the whole space" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--protocol", "paxos"], "unknown protocol 'paxos'"),
        (["--brokers", "9"], "--brokers"),
        (["--plan", "/nowhere/at/all.yaml"], "folder /nowhere/at does not exist"),
    ],
)
def test_bad_explore_options_print_one_line(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["explore", *arguments]) == ExitCode.USAGE

    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert words in printed.err
