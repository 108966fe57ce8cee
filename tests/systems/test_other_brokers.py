"""Brokers that nobody of this project wrote, as clusters of a user: franz-go's kfake, and the mock brokers of librdkafka."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from highwater.plans.text import plan_to_yaml
from nemesis.faults import Crash, Pause, Shutdown
from nemesis.schedule import Window
from nemesis.targets import LeaderOf
from tests.systems.conftest import EXAMPLES, KEPT, UP_S, outcome
from tests.systems.test_kafka import highwater
from tests.systems.test_toy import PLAN as TOY_PLAN

TOPIC = "highwater-t"
LEADER = LeaderOf(topic=TOPIC, partition=0)
CRASH = Window(id="dies", kind="crash-leader", at_ms=1000, until_ms=2500, fault=Crash(), target=LEADER)
PAUSE = Window(id="hangs", kind="pause-short", at_ms=3500, until_ms=4500, fault=Pause(), target=LEADER)
LEAVE = Window(id="leaves", kind="shutdown", at_ms=5500, until_ms=7000, fault=Shutdown(), target=LEADER)

pytestmark = [pytest.mark.slow, pytest.mark.systems]


def plan_on(folder: Path, *schedule: Window, brokers: int) -> str:
    """The path of a plan with these faults, for a cluster of so many brokers."""
    topic = replace(TOY_PLAN.cluster.topics[0], name=TOPIC, replication_factor=brokers)
    promise = replace(TOY_PLAN.promise, topics=(replace(TOY_PLAN.promise.topics[0], topic=TOPIC),))
    cluster = replace(TOY_PLAN.cluster, brokers=brokers, topics=(topic,))
    plan = replace(TOY_PLAN, name="others", system=UNSET, cluster=cluster, promise=promise, schedule=schedule, faults_ms=8000)
    path = folder / "plan.yaml"
    path.write_text(plan_to_yaml(plan))
    return str(path)


def checked(file: Path) -> None:
    """Wait until the cluster serves, and try its hooks."""
    command = [sys.executable, "-m", "highwater", "systems", "check", str(file)]
    deadline = time.monotonic() + UP_S
    while True:
        completed = subprocess.run(command, capture_output=True, text=True, check=False)
        if completed.returncode == 0 or time.monotonic() > deadline:
            break
    assert completed.returncode == 0, completed.stdout + completed.stderr


def kinds(summary: dict[str, Any]) -> set[str]:
    return {anomaly["kind"] for anomaly in summary["anomalies"]}


def acted(summary: dict[str, Any]) -> dict[str, int]:
    return {fault["kind"]: fault["acted"] for fault in summary["faults"]}


@pytest.mark.parametrize("nodes", [1, 3])
def test_kfake_keeps_its_records_when_its_process_is_killed(
    kfake_cluster: Callable[..., Path], nodes: int, tmp_path: Path
) -> None:
    file = kfake_cluster(nodes, cut="")
    checked(file)
    plan = plan_on(tmp_path, CRASH, PAUSE, LEAVE, brokers=nodes)

    code, summary = highwater("--plan", plan, "--system", "external", "--with", str(file), folder=tmp_path / "store")

    assert outcome(code, summary) == KEPT
    assert acted(summary) == {"crash-leader": 1, "pause-short": 1, "shutdown": 1}


@pytest.mark.parametrize("nodes", [1, 3])
def test_kfake_whose_files_are_cut_at_a_kill_loses_records(
    kfake_cluster: Callable[..., Path], nodes: int, tmp_path: Path
) -> None:
    file = kfake_cluster(nodes, cut="1")
    plan = plan_on(tmp_path, CRASH, brokers=nodes)

    code, summary = highwater("--plan", plan, "--system", "external", "--with", str(file), folder=tmp_path / "store")

    assert (code, summary["verdict"], summary["failure"]) == (10, "INVALID", None)
    assert summary["anomalies"][0]["kind"] == "lost-write"
    assert kinds(summary) <= {"lost-write", "inconsistent-offsets", "offset-order"}


@pytest.fixture
def mock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of a mock cluster with the topic of the plan; it serves no CreateTopics."""
    monkeypatch.setenv("DATA", str(tmp_path / "mock"))
    command = [sys.executable, str(EXAMPLES / "mock_cluster.py")]
    subprocess.run([*command, "up", f"{TOPIC}:1"], check=True, timeout=UP_S)
    yield tmp_path / "mock" / "mock.yaml"
    subprocess.run([*command, "down"], check=True, timeout=UP_S)


def test_mock_brokers_keep_the_records_of_a_node_that_is_down(mock: Path, tmp_path: Path) -> None:
    checked(mock)
    plan = plan_on(tmp_path, CRASH, PAUSE, brokers=3)

    code, summary = highwater("--plan", plan, "--system", "external", "--with", str(mock), folder=tmp_path / "store")

    assert outcome(code, summary) == KEPT
    assert acted(summary) == {"crash-leader": 1, "pause-short": 1}
