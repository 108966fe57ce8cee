"""Recorded histories against the abstract model: `highwater check RUN --refines`."""

from pathlib import Path

import msgspec
import pytest

from checkers.sketches import history_of
from highwater.cli.main import run_command_line
from highwater.exit_codes import ExitCode
from highwater.explore.abstract.rules import VARIANTS
from highwater.runs.refinement import validate


@pytest.mark.slow
def test_simulated_run_of_safe_is_a_behaviour_of_kip320(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["run", "--seed", "1", "--store", str(tmp_path), "--no-report"]) == ExitCode.VALID
    folder = next(tmp_path.glob("seed-1/*"))
    capsys.readouterr()

    assert run_command_line(["check", str(folder), "--refines", "kip320", "--json"]) == ExitCode.VALID

    found = msgspec.json.decode(capsys.readouterr().out)
    assert found["unfit"] == []
    assert {"elect", "follow", "fetch", "raise HW", "leader adds", "controller removes", "crash"} <= set(found["explained"])


EMPTIED = (
    "state-written node=b3 leader=b1 leader_epoch=0 isr=b1,b2",
    "became-leader node=b1 leader_epoch=0 isr=b1,b2",
    "became-follower node=b2 leader=b1 leader_epoch=0",
    "append node=b1 leader_epoch=0 offset=0 value=x detail=leader",
    "append node=b1 leader_epoch=0 offset=1 value=y detail=leader",
    "append node=b2 leader_epoch=0 offset=0 value=x detail=follower",
    "append node=b2 leader_epoch=0 offset=1 value=y detail=follower",
    "node-stopped node=b2",
    "wound node=b2 offset=0 detail=swapped",
    "node-started node=b2",
    "became-follower node=b2 leader=b1 leader_epoch=0",
    "append node=b2 leader_epoch=0 offset=0 value=x detail=follower",
)


@pytest.mark.parametrize("wounded", [True, False])
def test_log_that_a_fault_destroyed_is_no_truncation(wounded: bool) -> None:
    """An empty log has no row when its broker starts again; without the fault it is a truncation that nobody asked for."""
    rows = EMPTIED if wounded else tuple(row for row in EMPTIED if not row.startswith("wound"))
    found = validate(history_of(*rows), VARIANTS["kip320"])

    assert [unfit.wrong for unfit in found.unfit] == ([] if wounded else ["b2 truncated its log while it followed b1"])


@pytest.mark.slow
def test_run_that_truncates_to_the_hw_leaves_kip320(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = ["run", "--seed", "21", "--protocol", "v3", "--workload", "produce-consume", "--store", str(tmp_path), "--no-report"]
    assert run_command_line(run) == ExitCode.INVALID
    folder = next(tmp_path.glob("seed-21/*"))
    capsys.readouterr()

    assert run_command_line(["check", str(folder), "--refines", "kip320"]) == ExitCode.INVALID

    assert "no step of kip320: b2 truncated its log from 784 to 777 and not to 784" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("variant", "words"),
    [("kip3", "unknown variant 'kip3' of kafka-replication"), ("kip320", "--refines needs a run of highwater")],
)
def test_refinement_of_another_history_is_one_line(variant: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = "corpus/histories/linearizability/bad/register.edn"

    assert run_command_line(["check", file, "--refines", variant]) == ExitCode.USAGE

    assert words in capsys.readouterr().err
