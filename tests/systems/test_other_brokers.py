"""Brokers that nobody of this project wrote, as clusters of a user: franz-go's kfake, and the mock brokers of librdkafka."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from bench.porcupine.judging import go
from highwater.plans.text import plan_to_yaml
from nemesis.faults import Crash, Pause, Shutdown
from nemesis.schedule import Window
from nemesis.targets import LeaderOf
from tests.systems.test_kafka import EXAMPLES, UP_S, highwater
from tests.systems.test_toy import PLAN as TOY_PLAN

BUILD_S = 500  # Go fetches and compiles ten modules when it builds kfake first; on a busy machine that takes minutes
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
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0 or time.monotonic() > deadline:
            break
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def kfake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, built."""
    command = go()
    if command is None:
        pytest.skip("there is no Go here, which builds kfake")
    program = tmp_path_factory.mktemp("kfake") / "kfake"
    path = f"{Path(command).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "DATA": str(program.parent), "GOFLAGS": "-mod=readonly"}
    subprocess.run([EXAMPLES / "kfake" / "kfake.sh", "build"], check=True, env=environment, timeout=BUILD_S)
    return program


@pytest.fixture
def kfake_cluster(kfake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Path]]:
    """Starts a cluster of so many nodes, whose kills cut the stored records in half if `cut` is "1"; the path of its file."""
    script = EXAMPLES / "kfake" / "kfake.sh"

    def up(nodes: int, cut: str) -> Path:
        base = _free_ports(nodes)
        settings = {"PROGRAM": kfake, "DATA": tmp_path / "kfake", "BASE": base, "NODES": nodes, "CUT": cut}
        for name, value in settings.items():
            monkeypatch.setenv(name, str(value))
        text = (EXAMPLES / "kfake" / "kfake.yaml").read_text()
        entries = (f'- {{id: {node}, address: "127.0.0.1:{base + node}"}}' for node in range(nodes))
        file = tmp_path / "kfake.yaml"
        hooks = text[text.index("hooks:") :].replace("./kfake.sh", str(script))
        file.write_text("\n".join(("nodes:", *entries, hooks)))
        subprocess.run([script, "up"], check=True, timeout=UP_S)
        return file

    yield up
    subprocess.run([script, "down"], check=True, timeout=UP_S)


def _free_ports(count: int) -> int:
    """The first of so many free ports in a row."""
    for base in range(29200 + os.getpid() % 100 * 20, 32000, 20):  # below those that the kernel gives away
        try:
            for port in range(base, base + count):
                with socket.socket() as taken:
                    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    taken.bind(("127.0.0.1", port))
        except OSError:
            continue
        return base
    raise AssertionError("no free ports")


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

    assert (code, summary["verdict"], summary["live"], summary["failure"]) == (0, "VALID", True, None)
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

    assert (code, summary["verdict"], summary["live"], summary["failure"]) == (0, "VALID", True, None)
    assert acted(summary) == {"crash-leader": 1, "pause-short": 1}
