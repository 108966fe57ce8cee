"""Real brokers against a real ZooKeeper: the same plan data, the same rows, the same judges."""

import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from checkers.single import judge
from checkers.verdict import Validity
from highwater.backends.api import Provenance
from highwater.backends.process import ProcessBackend
from highwater.plan import ClusterShape, Plan, WorkloadSpec, checked
from highwater.zookeeper import missing
from history.event import EventKind
from history.promise import Promise, TopicPromise
from nemesis.faults import AnyFault, Crash, CrashAt, Pause, Restart
from nemesis.schedule import Window
from nemesis.targets import AnyTarget, Controller, LeaderOf
from reference.config import TopicSpec

PROVENANCE = Provenance(run_id="test", plan_digest="")
LEADER = LeaderOf(topic="orders", partition=0)


def window(id_: str, at_ms: int, until_ms: int, fault: AnyFault, target: AnyTarget) -> Window:
    return Window(id=id_, kind=type(fault).__name__.lower(), at_ms=at_ms, until_ms=until_ms, fault=fault, target=target)


def plan(*windows: Window, faults_ms: int) -> Plan:
    promise = Promise(
        topics=(TopicPromise(topic="orders", min_insync_replicas=2, flush="before_ack"),),
        session_timeout_ms=600,
        replica_lag_time_max_ms=500,
        request_timeout_ms=300,
    )
    topic = TopicSpec(name="orders", partitions=1, replication_factor=3, min_insync_replicas=2, flush="before_ack")
    return checked(
        Plan(
            name="three-real-brokers",
            draws=1,
            cluster=ClusterShape(
                brokers=3,
                topics=(topic,),
                fetch_wait_max_ms=100,
                session_timeout_ms=promise.session_timeout_ms,
                replica_lag_time_max_ms=promise.replica_lag_time_max_ms,
                request_timeout_ms=promise.request_timeout_ms,
            ),
            workload=WorkloadSpec(producers=2, consumers=1, request_timeout_ms=500),
            promise=promise,
            faults_ms=faults_ms,
            quiet_ms=promise.bound_ms,
            schedule=windows,
        )
    )


def test_a_fault_that_nobody_can_do_from_outside_is_refused_before_the_run() -> None:
    refusal = ProcessBackend().refuse(plan(window("f1", 100, 200, CrashAt(), LEADER), faults_ms=1000))

    assert refusal == "window f1 (crashat): the process backend cannot: nobody outside of a process sees its effects"


def without_java() -> None:
    reason = missing()
    if reason is not None:
        pytest.skip(reason)


def descendants(pid: int) -> list[int]:
    """Processes whose parent, or parent's parent, is this one."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue  # it has just ended
    children = [child for child, parent in parents.items() if parent == pid]
    return children + [below for child in children for below in descendants(child)]


def is_alive(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.zookeeper
@pytest.mark.slow
def test_kills_and_pauses_of_real_brokers_lose_nothing_and_the_cluster_is_whole_again() -> None:
    without_java()
    kills = plan(
        window("f1", 500, 1800, Crash(), LEADER),
        window("f2", 2600, 3900, Pause(), Controller()),
        window("f3", 4600, 4900, Restart(), LEADER),
        faults_ms=5500,
    )

    run = ProcessBackend().perform(kills, PROVENANCE)

    manifest, verdict = run.history.manifest, judge(run.history)
    assert (manifest.outcome, run.failure) == ("completed", None)
    assert (verdict.validity, verdict.live, verdict.anomalies, verdict.unchecked) == (Validity.VALID, True, (), ())
    assert {(count.kind, count.begun, count.acted) for count in manifest.faults} == {
        ("crash", 1, 1),
        ("pause", 1, 1),
        ("restart", 1, 1),
    }
    # A killed leader, and a controller that stood still beyond its session, lose their registrations.
    assert len(run.history.of_kind(EventKind.SESSION_ENDED)) >= 3
    assert len(run.history.of_kind(EventKind.BECAME_LEADER)) >= 3
    assert verdict.counts["acked"] > 50


@pytest.mark.zookeeper
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_keeps_what_was_recorded_and_leaves_no_process(number: signal.Signals, tmp_path: Path) -> None:
    without_java()
    script = tmp_path / "run.py"
    script.write_text(
        textwrap.dedent("""
            from highwater.__main__ import end_like_ctrl_c
            from highwater.backends.process import ProcessBackend
            from tests.zookeeper.test_process_backend import PROVENANCE, plan

            end_like_ctrl_c()
            run = ProcessBackend().perform(plan(faults_ms=60_000), PROVENANCE)
            print(run.history.manifest.outcome, len(run.history.events) > 20, flush=True)
        """)
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "TMPDIR": str(tmp_path)}
    process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, env=environment)
    try:
        # All brokers are up and have worked for a while once their notes have grown.
        deadline = time.monotonic() + 40
        while sum(path.stat().st_size for path in tmp_path.glob("highwater-run-*/*/notes.jsonl")) < 20_000:
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.1)
        family = descendants(process.pid)
        process.send_signal(number)
        output, _ = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()

    assert output.split() == [b"interrupted", b"True"]
    assert len(family) >= 4  # ZooKeeper and three brokers
    assert [pid for pid in family if is_alive(pid)] == []
    assert [path.name for path in tmp_path.iterdir()] == ["run.py"]


@pytest.mark.zookeeper
@pytest.mark.slow
def test_neither_brokers_nor_zookeeper_outlive_a_harness_that_was_killed(tmp_path: Path) -> None:
    """Brokers see their stdin close, ZooKeeper is ended by the kernel."""
    without_java()
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv of util-linux is not there, without which ZooKeeper outlives a harness that is killed")
    script = tmp_path / "run.py"
    script.write_text(
        textwrap.dedent("""
            import asyncio, sys, time
            from pathlib import Path

            from highwater.backends.scene import broker_config
            from highwater.local.node_folder import Needs, Start
            from highwater.local.nodes import NodeProcess
            from highwater.zookeeper import LocalZooKeeper, free_port
            from reference.runtime.settings import Listener
            from reference.types import BrokerId
            from tests.zookeeper.test_process_backend import plan

            with LocalZooKeeper() as zookeeper:
                config = broker_config(plan(faults_ms=1000), BrokerId(1))
                where = [f"127.0.0.1:{free_port()}" for _ in range(2)]
                peers, clients = (Listener(bind=at, advertised={"b1": at}) for at in where)
                start = Start(config=config, zookeeper=zookeeper.address, peers=peers, clients=clients, needs=Needs())
                node = NodeProcess(Path(sys.argv[1]), start)
                asyncio.run(node.start())
                print("started", flush=True)
                time.sleep(60)
        """)
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "TMPDIR": str(tmp_path)}
    harness = subprocess.Popen([sys.executable, str(script), str(tmp_path)], stdout=subprocess.PIPE, env=environment)
    assert harness.stdout is not None
    assert harness.stdout.readline() == b"started\n"
    family = descendants(harness.pid)
    harness.kill()
    harness.wait()
    harness.stdout.close()

    assert len(family) == 2
    deadline = time.monotonic() + 20
    while any(is_alive(pid) for pid in family):
        assert time.monotonic() < deadline
        time.sleep(0.05)
