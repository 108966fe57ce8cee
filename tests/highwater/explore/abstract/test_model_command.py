"""`highwater explore model`: exit codes, one JSON object, one line for bad input."""

import msgspec
import numpy as np
import pytest

from highwater.cli.main import run_command_line
from highwater.exit_codes import ExitCode
from highwater.explore.abstract.kafka_replication import KafkaReplication
from highwater.explore.abstract.levels import Keys

MODEL = ["explore", "model", "kafka-replication"]


def test_model_that_holds_exits_zero_with_tlc_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line([*MODEL, "--variant", "kip320", "--max-epoch", "2", "--json"]) == ExitCode.VALID

    result = msgspec.json.decode(capsys.readouterr().out)
    assert (result["generated"], result["distinct"], result["depth"]) == (11839, 5973, 18)
    assert result["verdicts"]["WeakIsr"] == {"holds": True, "length": None, "trace": []}


def test_model_counterexample_is_told_action_by_action(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line([*MODEL, "--variant", "kip101", "--max-epoch", "2"]) == ExitCode.INVALID

    printed = capsys.readouterr().out
    assert "INVALID: WeakIsr is violated after 11 actions (12 states)" in printed
    assert " 11. b2 follows b1 in epoch 2" in printed
    assert "repeat  highwater explore model kafka-replication --variant kip101 --replicas 2" in printed


def test_isr_requests_are_explored_by_their_own_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["explore", "model", "async-isr", "--replicas", "3", "--json"]

    assert run_command_line(command) == ExitCode.VALID

    result = msgspec.json.decode(capsys.readouterr().out)
    assert (result["generated"], result["verdicts"]["ValidHighWatermark"]["holds"]) == (134129, True)


def test_model_search_out_of_depth_is_unknown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line([*MODEL, "--max-depth", "3"]) == ExitCode.UNKNOWN

    assert "UNKNOWN: no violation of WeakIsr found, stopped at depth 4: no proof" in capsys.readouterr().out


def test_interrupted_model_search_is_unknown_with_its_counts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    complete = KafkaReplication.broken

    def interrupt(model: KafkaReplication, keys: Keys, invariant: str) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        if keys.size > 100:
            raise KeyboardInterrupt
        return complete(model, keys, invariant)

    monkeypatch.setattr(KafkaReplication, "broken", interrupt)

    assert run_command_line([*MODEL, "--max-epoch", "2"]) == ExitCode.UNKNOWN

    printed = capsys.readouterr().out
    assert "stopped at an interrupt" in printed
    assert " distinct, depth " in printed


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["model", "kafka"], "unknown model 'kafka'; known: kafka-replication, async-isr"),
        ([*MODEL[1:], "--variant", "kip1"], "unknown variant 'kip1' of kafka-replication; known: truncate-to-hw, kip101, "),
        ([*MODEL[1:], "--without", "fence"], "unknown guard 'fence'; known: truncation-fence, "),
        (
            [*MODEL[1:], "--variant", "kip101", "--without", "hw-fence"],
            "--without takes a guard out of kip320, not out of kip101",
        ),
        ([*MODEL[1:], "--replicas", "0"], "Invalid value for '--replicas'"),
        ([*MODEL[1:], "--log-size", "-1"], "Invalid value for '--log-size'"),
        ([*MODEL[1:], "--max-records", "0"], "Invalid value for '--max-records'"),
        ([*MODEL[1:], "--max-epoch", "-1"], "Invalid value for '--max-epoch'"),
        ([*MODEL[1:], "--budget-seconds", "0"], "Invalid value for '--budget-seconds'"),
        ([*MODEL[1:], "--replicas", "9"], "the world is too large: at most 8 replicas, not 9"),
        ([*MODEL[1:], "--log-size", "40", "--max-records", "40"], "the world is too large: a state does not fit into 63 bits"),
        ([*MODEL[1:], "--max-version", "2"], "--max-version does not apply to the model kafka-replication"),
        ([*MODEL[1:], "--brokers", "2"], "No such option: --brokers"),
        (["model", "--variant", "kip101"], "Missing argument 'MODEL'"),
    ],
)
def test_bad_input_to_a_model_is_one_line(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["explore", *arguments]) == ExitCode.USAGE

    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert words in printed.err


def test_model_that_outgrows_memory_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("highwater.cli.explore_model.available_bytes", lambda: 100_000)

    assert run_command_line([*MODEL, "--max-epoch", "2", "--json"]) == ExitCode.USAGE

    printed = capsys.readouterr()
    assert (msgspec.json.decode(printed.out)["exit"], printed.err.count("\n")) == (ExitCode.USAGE, 1)
    assert "the states do not fit in memory" in printed.err
