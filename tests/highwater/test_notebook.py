"""A stored run as frames (`highwater.load`), and the example that uses them."""

import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from msgspec.structs import replace

import highwater
from highwater.cli.main import run_command_line
from highwater.errors import UsageError
from highwater.exit_codes import ExitCode
from highwater.notebook import StoredRun
from history import store
from history.errors import HistoryError
from history.event import EventKind
from tests.tidy.sources import ROOT

_PLAN = str(ROOT / "corpus/plans/kip101-scenario-1.yaml")
_PATH = str(ROOT / "corpus/explored/kip101.yaml")


def _folder(tmp: Path, plan: str, *more: str) -> Path:
    assert run_command_line(["run", "--plan", plan, "--store", str(tmp), *more]) == ExitCode.INVALID
    return next(tmp.glob("*/*/manifest.json")).parent


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stored run in which a follower truncates to its high watermark."""
    return _folder(tmp_path_factory.mktemp("store"), _PLAN, "--protocol", "truncate-to-hw")


def test_frames_have_the_rows_of_the_run(folder: Path) -> None:
    run = highwater.load(str(folder))

    assert len(run.operations) == len(run.history.operations)
    assert run.events["kind"].to_list() == [row.kind.value for row in run.history.events]
    assert run.plan.protocol == "truncate-to-hw"
    assert run.anomalies["words"].to_list() == [anomaly.words for anomaly in run.verdict.anomalies]


def test_states_follow_the_truncation(folder: Path) -> None:
    run = highwater.load(folder)
    cut = next(row for row in run.history.events if row.kind is EventKind.TRUNCATE)
    states = run.states(at_ns=[cut.time_ns, cut.time_ns - 1])
    of_the_replica = states.filter(pl.col("node") == cut.node, pl.col("partition") == f"{cut.topic}-{cut.partition}")

    assert of_the_replica["time_ns"].to_list() == [cut.time_ns - 1, cut.time_ns]
    assert of_the_replica["leo"][0] > of_the_replica["leo"][1] == cut.offset


def test_states_come_at_every_step_of_time(folder: Path) -> None:
    run = highwater.load(folder)
    states = run.states(every_ms=1_000)

    assert set(states["time_ns"].to_list()) <= set(range(0, (run.history.manifest.end_ns or 0) + 1, 1_000_000_000))
    assert set(states["role"].to_list()) >= {"leader", "follower", "zookeeper", "down"}
    with pytest.raises(UsageError, match="every_ms must be at least 1, not 0"):
        run.states(every_ms=0)


def test_states_of_an_explored_path_are_known(tmp_path: Path) -> None:
    run = highwater.load(_folder(tmp_path, _PATH))
    states = run.states(every_ms=1)

    assert states.filter(pl.col("role") == "leader", pl.col("leader_epoch") == 2)["node"].unique().to_list() == ["b3"]


def test_states_of_other_code_or_real_brokers_are_refused(folder: Path) -> None:
    run = highwater.load(folder)
    events = [replace(row, offset=7) if row.kind is EventKind.TRUNCATE else row for row in run.history.events]
    run.history = type(run.history)(run.history.manifest, operations=run.history.operations, events=events)
    with pytest.raises(UsageError, match="is another one than in the stored run"):
        run.states(every_ms=10_000)

    run.history = type(run.history)(replace(run.history.manifest, backend="process"))
    with pytest.raises(UsageError, match="backend is process; states are those of simulated runs and explored paths"):
        run.states()


def test_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=store.MANIFEST):
        StoredRun(tmp_path)


@pytest.mark.slow
def test_example_of_frames_runs(folder: Path) -> None:
    completed = subprocess.run(
        [sys.executable, str(ROOT / "docs/examples/look_inside.py"), str(folder)], capture_output=True, text=True, check=True
    )

    assert "lost" in completed.stdout
    assert "records_behind" in completed.stdout
