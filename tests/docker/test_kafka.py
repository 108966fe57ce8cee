"""Apache Kafka in containers: the plans of processes have the same verdicts, and nothing is left behind."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from highwater.backends.real.containers.engine import Engine
from tests.docker.test_left_behind import END_S_MAX, environment, left_below
from tests.systems.conftest import KEPT, need, outcome
from tests.systems.test_kafka import REAL, TRIES, highwater

pytestmark = [pytest.mark.slow, pytest.mark.systems_all]

KIP101 = REAL / "kip101.yaml"
STAGE_S_MAX = 120
# What the run's folder holds at each stage of a run.
STAGES = {"places are made": "agents/*.sock", "brokers start": "b*/output.log", "records are kept": "b*/data-0/logs/t-0"}


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder with a short path: Unix socket paths below it have at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="left-") as folder:
        yield Path(folder)


def test_release_that_truncates_to_the_hw_loses_records(engine: Engine, tmp_path: Path) -> None:
    """A proxy in b3's own network holds the answers to its fetches, and nothing else."""
    need("0.10.2.2")
    for _ in range(TRIES):  # on a busy machine the hazard may not be met
        code, summary = highwater("--plan", str(KIP101), "--system", "kafka:0.10.2.2", "--backend", "docker", folder=tmp_path)
        if code == 10:
            break

    assert (code, summary["verdict"], summary["hazard"], summary["failure"]) == (10, "INVALID", "shown", None)
    assert "lost-write" in {anomaly["kind"] for anomaly in summary["anomalies"]}
    assert {fault["kind"]: fault["acted"] for fault in summary["faults"]} == {"crash-leader": 2, "clog": 1}


@pytest.mark.parametrize("version", ["3.9.1", "4.1.0"])
def test_present_release_keeps_what_kip_101_saves(engine: Engine, tmp_path: Path, version: str) -> None:
    need(version)

    code, summary = highwater("--plan", str(KIP101), "--system", f"kafka:{version}", "--backend", "docker", folder=tmp_path)

    assert outcome(code, summary) == KEPT


@pytest.mark.parametrize("plan", ["trouble", "kip966"])
def test_faults_of_every_family_act_in_containers(engine: Engine, tmp_path: Path, plan: str) -> None:
    """Sessions, links, processes, directories and power; a probe has seen the effect of each."""
    need("3.9.1")
    path = REAL / f"{plan}.yaml"

    _, summary = highwater("--plan", str(path), "--system", "kafka:3.9.1", "--backend", "docker", folder=tmp_path)

    assert summary["failure"] is None
    assert all(fault["acted"] for fault in summary["faults"])


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("version", ["3.9.1", "4.1.0"])
def test_interrupted_run_leaves_nothing_at_any_stage(engine: Engine, short: Path, version: str, stage: str) -> None:
    need(version)
    options = ("--plan", str(KIP101), "--system", f"kafka:{version}", "--backend", "docker", "--store", str(short / "store"))
    harness = subprocess.Popen([sys.executable, "-m", "highwater", "run", *options], env=environment(short))
    try:
        end = time.monotonic() + STAGE_S_MAX
        while not list(short.glob(f"highwater-run-*/{STAGES[stage]}")):
            assert time.monotonic() < end
            assert harness.poll() is None
            time.sleep(0.05)
        os.kill(harness.pid, signal.SIGINT)
        code = harness.wait(END_S_MAX)
    finally:
        harness.kill()

    assert code == 11
    assert left_below(engine, short) == []
    assert list(short.glob("highwater-*")) == []
