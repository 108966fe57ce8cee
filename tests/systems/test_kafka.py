"""The plans of corpus/real on releases of Apache Kafka: what history lost is lost, and what was fixed is kept."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from highwater.exit_codes import ExitCode
from history.store import load
from tests.systems.conftest import EXAMPLES, KEPT, UP_S, need, outcome
from tests.tidy.sources import ROOT

REAL = ROOT / "corpus" / "real"
RUN_S = 300
TRIES = 3  # on a busy machine a run may show nothing

pytestmark = pytest.mark.slow


def highwater(*arguments: str, folder: Path) -> tuple[int, dict[str, Any]]:
    """The exit code and the summary of `highwater run` with these arguments, and that its folder has no more than the record."""
    completed = subprocess.run(
        [sys.executable, "-m", "highwater", "run", *arguments, "--store", str(folder), "--json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_S,
        cwd=ROOT,
    )
    assert completed.stdout, completed.stderr
    return completed.returncode, json.loads(completed.stdout)


def last_run(name: str, version: str, folder: Path, *, loses: bool = False) -> tuple[int, dict[str, Any]]:
    """The last run of a plan of `corpus/real` on a release."""
    need(version)
    return last_run_with(name, "--system", f"kafka:{version}", folder=folder, loses=loses)


def last_run_with(name: str, *system: str, folder: Path, loses: bool = False) -> tuple[int, dict[str, Any]]:
    """The last run of a plan on a system. What shows nothing is repeated: UNKNOWN, vacuous, or a loss that did not come."""
    for _ in range(TRIES):
        code, summary = highwater("--plan", str(REAL / f"{name}.yaml"), *system, folder=folder)
        if code != ExitCode.UNKNOWN and not (loses and code == ExitCode.VALID):
            break
    return code, summary


@pytest.mark.systems
def test_release_that_truncates_to_the_hw_loses_records(tmp_path: Path) -> None:
    """KIP-101: 0.10.2.2 is the last release line without leader epochs in its log."""
    code, summary = last_run("kip101", "0.10.2.2", tmp_path, loses=True)

    assert (code, summary["verdict"]) == (10, "INVALID")
    assert "lost-write" in {anomaly["kind"] for anomaly in summary["anomalies"]}


@pytest.mark.systems
@pytest.mark.parametrize("version", ["3.9.1", "4.1.0"])
def test_present_release_keeps_what_kip_101_saves(tmp_path: Path, version: str) -> None:
    code, summary = last_run("kip101", version, tmp_path)

    assert outcome(code, summary) == KEPT


@pytest.mark.systems_all
@pytest.mark.parametrize("version", ["0.11.0.3", "1.1.1", "2.8.2", "3.7.0", "3.9.1-kraft", "4.2.0"])
def test_release_with_leader_epochs_keeps_all_records(tmp_path: Path, version: str) -> None:
    code, summary = last_run("kip101", version, tmp_path)

    assert outcome(code, summary) == KEPT


@pytest.mark.systems_all
def test_quorum_keeps_what_kip_101_saves_with_two_of_three_up(tmp_path: Path) -> None:
    code, summary = last_run("kip101-quorum", "4.1.0", tmp_path)

    assert outcome(code, summary) == KEPT


@pytest.mark.systems_all
@pytest.mark.parametrize("name", ["kip279", "kip320", "kafka7128"])
def test_release_before_the_repair_loses_or_diverges(tmp_path: Path, name: str) -> None:
    """KAFKA-6361, KAFKA-6880 and KAFKA-7128 were repaired after 1.1.1."""
    code, summary = last_run(name, "1.1.1", tmp_path, loses=True)

    assert (code, summary["verdict"], summary["hazard"]) == (10, "INVALID", "shown")
    assert {"lost-write", "inconsistent-offsets"} & {anomaly["kind"] for anomaly in summary["anomalies"]}


@pytest.mark.systems_all
@pytest.mark.parametrize(("version", "kept"), [("3.9.1", False), ("3.9.1-kraft", False), ("4.1.0", True)])
def test_last_replica_standing_loses_power(tmp_path: Path, version: str, kept: bool) -> None:
    """KIP-966: only eligible leader replicas save what the followers hold. They are on in 4.1 and not in 3.9."""
    code, summary = last_run("kip966", version, tmp_path, loses=not kept)

    assert (code, summary["failure"]) == (0 if kept else 10, None)
    assert ("lost-write" in {anomaly["kind"] for anomaly in summary["anomalies"]}) is not kept
    assert {fault["kind"]: fault["acted"] for fault in summary["faults"]}["power-loss"] == 1


@pytest.fixture
def by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The cluster of docs/your-own-system.md."""
    need("4.1.0")
    monkeypatch.setenv("DATA", str(tmp_path / "cluster"))
    subprocess.run([EXAMPLES / "cluster.sh", "up"], check=True, timeout=UP_S)
    try:
        yield
    finally:
        subprocess.run([EXAMPLES / "cluster.sh", "down"], check=True, timeout=UP_S)


@pytest.mark.systems_all
def test_cluster_by_hand_is_checked_and_judged(by_hand: None, tmp_path: Path) -> None:
    options = ("--system", "external", "--with", str(EXAMPLES / "my-system.yaml"))
    checked = [sys.executable, "-m", "highwater", "systems", "check", str(EXAMPLES / "my-system.yaml")]
    deadline = time.monotonic() + UP_S
    while subprocess.run(checked, capture_output=True, check=False, timeout=RUN_S).returncode and time.monotonic() < deadline:
        time.sleep(1)

    code, summary = highwater("--plan", str(REAL / "failover.yaml"), *options, folder=tmp_path / "store")

    assert outcome(code, summary) == KEPT
    assert {fault["kind"]: fault["acted"] for fault in summary["faults"]} == {"crash-leader": 1, "pause-long": 1}


@pytest.mark.systems
def test_controllers_leave_the_quorum_and_join_it_again(tmp_path: Path) -> None:
    """Controllers apart from the brokers (KIP-853); the quorum's leader has said who votes."""
    code, summary = last_run("quorum-changes", "4.1.0-apart3", tmp_path)

    assert outcome(code, summary) == KEPT
    assert {fault["kind"]: fault["acted"] for fault in summary["faults"]} == {"crash-leader": 1, "zookeeper-down": 4}


@pytest.mark.systems_all
@pytest.mark.parametrize("version", ["4.1.0-apart3", "3.9.1"])
def test_broker_joins_and_another_is_decommissioned(version: str, tmp_path: Path) -> None:
    """The partitions of the second are moved to the first under load, while leaders die."""
    code, summary = last_run("members", version, tmp_path)

    assert outcome(code, summary) == KEPT
    assert {fault["kind"]: fault["acted"] for fault in summary["faults"]} == {"join": 1, "decommission": 1, "crash-leader": 2}


@pytest.mark.systems_all
def test_controllers_apart_roll_before_the_brokers(tmp_path: Path) -> None:
    """From 3.9.1 to 4.1.0, with a controller killed in between; at the end the feature level is raised."""
    need("3.9.1-kraft")
    code, summary = last_run("roll-apart", "3.9.1-kraft..4.1.0-apart3", tmp_path)

    assert outcome(code, summary) == KEPT
    assert {fault["kind"]: fault["acted"] for fault in summary["faults"]} == {"crash-leader": 1, "roll": 6, "zookeeper-down": 1}


@pytest.mark.systems_all
@pytest.mark.parametrize("name", ["kip101", "kip279", "kafka7128"])
def test_quorum_apart_keeps_records_while_two_of_three_are_down(tmp_path: Path, name: str) -> None:
    code, summary = last_run(name, "4.1.0-apart3", tmp_path)

    assert outcome(code, summary) == KEPT


@pytest.mark.systems_all
@pytest.mark.parametrize(
    ("name", "version"),
    [("trouble", "3.9.1"), ("trouble-quorum", "4.1.0"), ("servers", "3.9.1"), ("servers", "4.1.0-apart3")],
)
def test_faults_of_every_family_act_on_a_release(tmp_path: Path, name: str, version: str) -> None:
    """Sessions or the quorum, links, processes and directories; a probe has seen the effect of each."""
    code, summary = last_run(name, version, tmp_path)

    assert (code, summary["failure"]) == (0, None)
    assert all(fault["acted"] for fault in summary["faults"])


@pytest.mark.systems_all
@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("transactions", "3.9.1"),
        ("groups", "3.9.1"),
        ("groups-cooperative", "3.9.1"),
        ("groups-static", "3.9.1"),
        ("groups-auto-commit", "4.1.0"),
        ("groups-auto-coordinator-assigns", "4.1.0"),
        ("compacted", "4.1.0"),
        ("read-process-write", "3.9.1"),
        ("coordinators", "4.1.0"),
        ("process-coordinator-assigns", "4.1.0"),
        ("zombies", "4.1.0"),
        ("share-groups", "4.2.0"),
    ],
)
def test_release_keeps_sessions_under_faults(tmp_path: Path, name: str, version: str) -> None:
    """The leader is killed, a broker is cut off from its peers, another one hangs; nothing is lost, torn, skipped or doubled."""
    code, summary = last_run(name, version, tmp_path)

    assert outcome(code, summary) == KEPT
    assert summary["acked"] > 20  # of hundreds on an idle machine; 99 on one with thirty times more work than cores
    assert all(fault["acted"] for fault in summary["faults"])


@pytest.mark.systems
def test_seeds_that_share_brokers_have_histories_of_their_own(tmp_path: Path) -> None:
    """Three JVMs are started once: seeds 1 and 2 at a time, then seed 3. No history has a row of another seed's topics."""
    need("4.1.0")
    options = "--seconds 4 --settings alike --workload produce-consume --faults crash-random --together 2 --jobs 1 --keep-all"
    command = [sys.executable, "-m", "highwater", "campaign", "--system", "kafka:4.1.0", "--seeds", "1..3", *options.split()]
    subprocess.run([*command, "--store", str(tmp_path)], capture_output=True, check=False, timeout=RUN_S, cwd=ROOT)

    histories = {path.parent.parent.name: load(path.parent) for path in tmp_path.glob("seed-*/*/manifest.json")}
    told = {
        name: {row.topic for row in history.operations} | {row.topic for row in history.events} - {None}
        for name, history in histories.items()
    }
    assert {name: {(topic or "").partition(".")[0] for topic in topics} for name, topics in told.items()} == {
        f"seed-{number}": {f"seed-{number}"} for number in (1, 2, 3)
    }
    assert sorted(history.manifest.earlier_runs or 0 for history in histories.values()) == [0, 0, 1]
    assert [histories[name].manifest.beside for name in ("seed-1", "seed-2")] == [("seed-2",), ("seed-1",)]
