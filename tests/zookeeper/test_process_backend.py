"""The process backend: real brokers and a real ZooKeeper, with the simulator's plans, rows and checkers."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from checkers.engine.verdict import Validity
from checkers.judge import judge
from highwater.backends.real.processes.backend import ProcessBackend
from highwater.backends.real.zookeeper.local import missing
from highwater.plans.plan import ClusterShape, Plan, WorkloadSpec, checked
from highwater.rig.backend import Provenance
from history.event import EventKind
from history.promise import Promise, TopicPromise
from nemesis.faults import (
    AnyFault,
    ClockJump,
    Crash,
    CrashAt,
    Decommission,
    DirUnreadable,
    DiskFull,
    ExpireSession,
    Join,
    Pause,
    Restart,
    ZooKeeperDown,
)
from nemesis.schedule import Window
from nemesis.targets import AnyTarget, Controller, Everyone, LeaderOf, Named
from reference.config import TopicSpec
from reference.metrics import METRICS
from workloads.parameters import Step

PROVENANCE = Provenance(run_id="test", plan_digest="")
LEADER = LeaderOf(topic="orders", partition=0)


def window(id_: str, at_ms: int, until_ms: int, fault: AnyFault, target: AnyTarget) -> Window:
    return Window(id=id_, kind=type(fault).__name__.lower(), at_ms=at_ms, until_ms=until_ms, fault=fault, target=target)


def plan(*windows: Window, faults_ms: int, session_timeout_ms: int = 600) -> Plan:
    promise = Promise(
        topics=(TopicPromise(topic="orders", min_insync_replicas=2, flush="before_ack"),),
        session_timeout_ms=session_timeout_ms,
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


def test_process_backend_refuses_crash_at_before_the_run() -> None:
    refusal = ProcessBackend().refuse(plan(window("f1", at_ms=100, until_ms=200, fault=CrashAt(), target=LEADER), faults_ms=1000))

    reason = "the effects of a machine cannot be seen from outside its process"
    assert refusal == f"window f1 (crashat): the process backend cannot: {reason}"


def without_java() -> None:
    reason = missing()
    if reason is not None:
        pytest.skip(reason)


@pytest.mark.zookeeper
@pytest.mark.slow
def test_metrics_of_real_brokers_are_scraped_and_true() -> None:
    """Each broker is scraped over HTTP, before and after a crash of the leader."""
    without_java()
    crash = replace(plan(window("f1", at_ms=1500, until_ms=3000, fault=Crash(), target=LEADER), faults_ms=4000), metrics_ms=300)

    run = ProcessBackend().perform(crash, PROVENANCE)

    verdict = judge(run.history)
    gauge_events = [event for event in run.history.events if event.kind is EventKind.GAUGE]
    assert (run.failure, verdict.validity, verdict.not_live) == (None, Validity.VALID, ())
    assert {(event.node, event.detail) for event in gauge_events} == {
        (f"b{n}", metric.name) for n in (1, 2, 3) for metric in METRICS
    }
    assert max(event.life or 0 for event in gauge_events) == 2


def descendants(pid: int) -> list[int]:
    """The children of a process and their descendants."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue  # it ended meanwhile
    children = [child for child, parent in parents.items() if parent == pid]
    return children + [below for child in children for below in descendants(child)]


def is_alive(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.zookeeper
@pytest.mark.slow
def test_run_with_kills_and_pauses_is_valid_and_live() -> None:
    without_java()
    kills = plan(
        window("f1", at_ms=500, until_ms=1800, fault=Crash(), target=LEADER),
        window("f2", at_ms=2600, until_ms=3900, fault=Pause(), target=Controller()),
        window("f3", at_ms=4600, until_ms=4900, fault=Restart(), target=LEADER),
        faults_ms=5500,
    )

    run = ProcessBackend().perform(kills, PROVENANCE)

    manifest = run.history.manifest
    verdict = judge(run.history)
    assert (manifest.outcome, run.failure) == ("completed", None)
    assert (verdict.validity, verdict.live, verdict.anomalies, verdict.unchecked) == (Validity.VALID, True, (), ())
    assert {(count.kind, count.begun, count.acted) for count in manifest.faults} == {
        ("crash", 1, 1),
        ("pause", 1, 1),
        ("restart", 1, 1),
    }
    # A killed leader and a controller paused for longer than its session lose their registrations.
    assert len(run.history.of_kind(EventKind.SESSION_ENDED)) >= 3
    assert len(run.history.of_kind(EventKind.BECAME_LEADER)) >= 3
    assert verdict.counts["acked"] > 50


@pytest.mark.zookeeper
@pytest.mark.slow
def test_broker_joins_and_another_leaves_for_good() -> None:
    """The cluster goes on with the brokers that are there at its end, and is judged by them."""
    brief = plan(faults_ms=9500)
    schedule = (
        window("newcomer", at_ms=0, until_ms=1500, fault=Join(), target=Named(brokers=(4,))),
        window("leaver", at_ms=4000, until_ms=9000, fault=Decommission(), target=Named(brokers=(1,))),
    )
    moves = (Step(at_ms=3000, do="reassign", topic="orders", partition=0, replicas=((4, 2, 3),)),)
    renewal = checked(replace(brief, cluster=replace(brief.cluster, brokers=4), schedule=schedule, script=moves))

    run = ProcessBackend().perform(renewal, PROVENANCE)

    assert run.failure is None
    assert run.history.manifest.decommissioned == ("b1",)
    assert {fault.kind: fault.acted for fault in run.history.manifest.faults} == {"join": 1, "decommission": 1}
    verdict = judge(run.history)
    assert (verdict.validity, verdict.live) == (Validity.VALID, True)


@pytest.mark.parametrize("servers", [1, 3])
def test_run_with_zookeeper_faults_is_valid_and_live(servers: int) -> None:
    """Meanwhile the harness reads roles, tries to expire a session, and kills a leader."""
    without_java()
    down = plan(
        window("f1", at_ms=300, until_ms=2300, fault=ZooKeeperDown(how="kill", servers=2), target=Everyone()),
        window("f2", at_ms=900, until_ms=1400, fault=ExpireSession(), target=LEADER),
        window("f3", at_ms=1500, until_ms=4000, fault=Crash(), target=LEADER),
        window("f4", at_ms=6000, until_ms=7500, fault=ZooKeeperDown(how="pause", servers=2), target=Everyone()),
        window("f5", at_ms=6200, until_ms=7000, fault=ZooKeeperDown(how="kill"), target=Everyone()),
        window("f6", at_ms=9000, until_ms=10_500, fault=ZooKeeperDown(how="cut", servers=2), target=Everyone()),
        faults_ms=12_000,
    )
    down = replace(down, cluster=replace(down.cluster, zookeeper=servers))

    run = ProcessBackend().perform(down, PROVENANCE)

    manifest = run.history.manifest
    verdict = judge(run.history)
    assert (manifest.outcome, run.failure) == ("completed", None)
    assert (verdict.validity, verdict.live, verdict.anomalies, verdict.unchecked) == (Validity.VALID, True, (), ())
    begun, acted = next((count.begun, count.acted) for count in manifest.faults if count.kind == "zookeeperdown")
    # With one server the kill window finds it paused already and hits none; with three it hits another one.
    assert (begun, acted) == (4, 3 if servers == 1 else 7)


SCRIPT = """
from highwater.__main__ import let_signals_act_like_ctrl_c
from highwater.backends.real.processes.backend import ProcessBackend
from tests.zookeeper.test_process_backend import PROVENANCE, hurtful_plan

let_signals_act_like_ctrl_c()
run = ProcessBackend().perform(hurtful_plan(), PROVENANCE)
print(run.history.manifest.outcome, len(run.history.events) > 20, flush=True)
"""


def hurtful_plan() -> Plan:
    """A long plan with faults that leave traces: a wrong clock, a directory without permissions, small file systems.

    All faults are on one broker, so the others go on and their notes grow.
    """
    broker_1 = Named(brokers=(1,))
    lasting = [
        window("f1", at_ms=1000, until_ms=59_000, fault=ClockJump(offset_ms=5000), target=broker_1),
        window("f2", at_ms=1100, until_ms=59_000, fault=DirUnreadable(), target=broker_1),
    ]
    full = [window("f3", at_ms=1200, until_ms=59_000, fault=DiskFull(), target=broker_1)] if os.geteuid() == 0 else []
    long = plan(*lasting, *full, faults_ms=60_000, session_timeout_ms=4000)  # long enough for a busy machine
    return replace(long, cluster=replace(long.cluster, log_dirs=2))


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A folder with a short path. Unix socket paths have at most 107 bytes, so tmp_path is too long."""
    with tempfile.TemporaryDirectory(prefix="hw-") as folder:
        yield Path(folder)


@contextmanager
def performing(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], list[int]]]:
    """A harness in the middle of the long plan, and the ids of all processes that it has started."""
    script = folder / "run.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "TMPDIR": str(folder)}
    process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, env=environment)
    try:
        # Once their notes have grown to this size, all brokers have worked for a while.
        deadline = time.monotonic() + 60
        while sum(path.stat().st_size for path in folder.glob("highwater-run-*/*/notes.jsonl")) < 20_000:
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.1)
        time.sleep(2)  # the faults begin
        yield process, descendants(process.pid)
    finally:
        process.kill()
        process.communicate()


def mounts_below(folder: Path) -> list[str]:
    return [line for line in Path("/proc/self/mounts").read_text().splitlines() if f" {folder}/" in line]


def shared_memory_of(pids: list[int]) -> list[str]:
    """libfaketime's shared memory and semaphores of these processes that still exist."""
    names = [name for pid in pids for name in (f"faketime_shm_{pid}", f"sem.faketime_sem_{pid}")]
    return [name for name in names if (Path("/dev/shm") / name).exists()]


def without_means() -> None:
    """Skip the test if this machine cannot perform the long plan."""
    without_java()
    refusal = ProcessBackend().refuse(hurtful_plan())
    if refusal is not None:
        pytest.skip(refusal)


@pytest.mark.zookeeper
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_run_keeps_its_rows_and_leaves_nothing(number: signal.Signals, short_path: Path) -> None:
    without_means()
    with performing(short_path) as (process, family):
        process.send_signal(number)
        output, _ = process.communicate(timeout=60)

    assert output.split() == [b"interrupted", b"True"]
    assert len(family) >= 4  # ZooKeeper and three brokers
    assert [pid for pid in family if is_alive(pid)] == []
    assert [path.name for path in short_path.iterdir()] == ["run.py"]
    assert mounts_below(short_path) == []
    assert shared_memory_of(family) == []


@pytest.mark.zookeeper
@pytest.mark.slow
def test_clean_removes_what_a_killed_harness_left(short_path: Path) -> None:
    """No process outlives its harness: brokers end when their stdin closes, and the kernel kills ZooKeeper."""
    without_means()
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv (util-linux) is not installed; without it ZooKeeper outlives a killed harness")
    with performing(short_path) as (process, family):
        process.kill()
    deadline = time.monotonic() + 30
    while any(is_alive(pid) for pid in family):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    left = [path.name for path in short_path.iterdir() if path.name != "run.py"]

    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "TMPDIR": str(short_path)}
    cleaned = subprocess.run(
        [sys.executable, "-m", "highwater", "clean"], env=environment, capture_output=True, text=True, check=False, timeout=60
    )

    assert len(family) >= 4
    assert len(left) == 2  # the folders of ZooKeeper and of the brokers
    assert cleaned.returncode == 0, cleaned.stderr
    assert all(name in cleaned.stdout for name in left)
    assert [path.name for path in short_path.iterdir()] == ["run.py"]
    assert mounts_below(short_path) == []
    assert shared_memory_of(family) == []
