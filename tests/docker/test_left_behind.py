"""A run leaves no container, network, process or folder behind, however it ends."""

import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from highwater.backends.real.containers.engine import Engine, Left
from highwater.run_folder import RunFolder

pytestmark = [pytest.mark.docker, pytest.mark.slow]

RUNNING_S_MAX = 120
END_S_MAX = 120


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder with a short path: Unix socket paths below it have at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="left-") as folder:
        yield Path(folder)


def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "TMPDIR": str(tmp_path)}


def left_below(engine: Engine, tmp_path: Path) -> list[Left]:
    """What runs with a folder below tmp_path left behind; other runs on this machine are ignored."""
    return [leftover for leftover in engine.left() if leftover.labels.folder.is_relative_to(tmp_path)]


def started_harness(tmp_path: Path, words: str, times: int = 1) -> "subprocess.Popen[bytes]":
    """Start a harness and wait until the notes of every broker contain `words` at least `times` times.

    The harness prints the outcome of its run and the brokers that appended.
    """
    script = tmp_path / "run.py"
    script.write_text(
        textwrap.dedent("""
            from highwater.__main__ import let_signals_act_like_ctrl_c
            from highwater.backends.real.containers.backend import DockerBackend
            from history.event import EventKind
            from tests.zookeeper.test_process_backend import PROVENANCE, plan

            let_signals_act_like_ctrl_c()
            run = DockerBackend().perform(plan(faults_ms=120_000), PROVENANCE)
            appended = {event.node for event in run.history.of_kind(EventKind.APPEND)}
            print(run.history.manifest.outcome, *sorted(appended), flush=True)
        """)
    )
    harness = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, env=environment(tmp_path))
    end = time.monotonic() + RUNNING_S_MAX
    while time.monotonic() < end and harness.poll() is None:
        notes = list(tmp_path.glob("highwater-run-*/b*/notes.jsonl"))
        if len(notes) == 3 and all(path.read_text().count(words) >= times for path in notes):
            return harness
        time.sleep(0.2)
    harness.kill()
    harness.communicate()
    raise AssertionError(f"no run whose brokers all noted {words} began within {RUNNING_S_MAX} s")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_run_keeps_its_rows_and_leaves_nothing(engine: Engine, number: signal.Signals, tmp_path: Path) -> None:
    harness = started_harness(tmp_path, '"kind":"append"', times=20)  # evidence.py cuts the last moments off
    try:
        harness.send_signal(number)
        printed, _ = harness.communicate(timeout=END_S_MAX)
    finally:
        harness.kill()

    assert printed.split() == [b"interrupted", b"b1", b"b2", b"b3"]
    assert left_below(engine, tmp_path) == []
    assert list(tmp_path.glob("highwater-*")) == []


def test_clean_removes_dead_runs_and_keeps_running_ones(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    harness = started_harness(tmp_path, "note")
    harness.kill()
    harness.wait()
    assert harness.stdout is not None
    harness.stdout.close()
    assert {leftover.kind for leftover in left_below(engine, tmp_path)} == {"container", "network"}
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    living = RunFolder()

    try:
        command = [sys.executable, "-m", "highwater", "clean"]
        cleaned = subprocess.run(command, capture_output=True, env=environment(tmp_path), check=True, text=True)

        assert left_below(engine, tmp_path) == []
        assert list(tmp_path.glob("highwater-*")) == [living.path]
        assert "removed  container highwater-run-" in cleaned.stdout
    finally:
        living.remove()
