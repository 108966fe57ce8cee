"""Each fault of the catalogue on each system: refused before the run with a sentence, or performed, and the effect measured.

With ZooKeeper, Kafka and the reference are in tests/zookeeper/test_every_fault.py.
"""

import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from msgspec.structs import replace

from highwater.backends.real.processes.backend import ProcessBackend
from highwater.backends.real.systems.external.system import External
from highwater.backends.real.systems.kafka import power
from highwater.backends.real.systems.kafka.releases import TESTED
from highwater.backends.real.systems.kafka.system import CONTROLS_TOO
from highwater.backends.real.systems.metadata import served_version
from highwater.backends.real.systems.registry import system_for
from highwater.backends.real.zookeeper.local import free_port
from highwater.plans.plan import Plan, on_system
from highwater.plans.systems import SystemSpec, parsed_system
from nemesis import faults
from nemesis.capability import ONE_PROTOCOL
from nemesis.faults import AnyFault
from server.wire.clients.apis import ApiKey
from tests.highwater.backends.real.systems.played import (
    PLAN,
    accepted,
    catalogue,
    one_of_each,
    performable,
    probes_of_plan,
    sleeping_java,
    unseen,
    unseen_on_kafka,
)

HOOKS = ("start", "kill", "terminate", "pause", "resume", "cut", "heal", "lose")
APART = "kafka:4.1.0-apart3"
LEAVE, ROLL = faults.ZooKeeperDown(how="leave"), faults.ZooKeeperDown(how="roll")
NO_QUORUM = "no quorum of controllers apart from the brokers is there to leave, or to roll"
SYSTEMS = ("reference", *(f"kafka:{release.version}" for release in TESTED), APART, "external")
# The classes of faults that a system takes, in some of their variants; it refuses all others.
ON_KRAFT = {
    *(faults.Partition, faults.Packets, faults.Slow, faults.Clog, faults.Reset, faults.Pause, faults.Crash, faults.Restart),
    *(faults.Shutdown, faults.Roll, faults.PowerLoss, faults.DirUnreadable, faults.DirFile, faults.DiskFull),
}
PLANNED = {faults.Join, faults.Decommission}  # no kind draws them: an administrator's script belongs to them
WITH_ZOOKEEPER = {faults.ExpireSession, faults.ZooKeeperDown}
CLOCKS_AND_DISKS = {
    *(faults.ClockJump, faults.ClockDrift, faults.ClockStrobe, faults.DirFailure, faults.DiskSlow, faults.DiskSwap),
}
BY_HOOKS = {faults.Partition, faults.Clog, faults.Crash, faults.Restart, faults.Shutdown, faults.Pause, faults.PowerLoss}


def described(folder: Path, *hooks: str) -> SystemSpec:
    """An external system of three nodes, whose hooks are commands of a script in its folder."""
    ports = [free_port() for _ in range(3)]
    nodes = "".join(f'- {{id: {number}, address: "127.0.0.1:{port}"}}\n' for number, port in enumerate(ports, 1))
    lines = "".join(f'  {hook}: [sh, ./do.sh, {hook}, "{{node}}", "{{peer}}"]\n' for hook in hooks)
    (folder / "my-system.yaml").write_text(f"nodes:\n{nodes}" + (f"hooks:\n{lines}" if hooks else ""))
    (folder / "ports").write_text("".join(f"{port}\n" for port in ports))
    return SystemSpec(name="external", settings={"with": str(folder / "my-system.yaml")})


def on(name: str, folder: Path, *, hooks: tuple[str, ...] = HOOKS) -> Plan:
    if name != "external":
        return on_system(PLAN, parsed_system(name))
    return on_system(replace(PLAN, workload=replace(PLAN.workload, places=1)), described(folder, *hooks))


@pytest.mark.parametrize("name", SYSTEMS)
def test_fault_that_a_system_lacks_is_refused_with_a_sentence(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not refused is performed by the tests of the effects, each fault on each kind of system."""
    monkeypatch.setattr(power, "missing", lambda: None)
    plan = on(name, tmp_path)
    system = system_for(plan)
    windows = catalogue(plan)

    taken_windows = accepted(system, windows)

    classes = BY_HOOKS if name == "external" else ON_KRAFT | (WITH_ZOOKEEPER if system.zookeeper else set())
    if name == APART:
        classes = classes | {faults.ZooKeeperDown}
    if name == "reference":
        classes = classes | CLOCKS_AND_DISKS
    assert {type(window.fault) for window in taken_windows} == classes
    assert {type(window.fault) for window in windows} == {*get_args(AnyFault)} - PLANNED
    for window in (window for window in windows if window not in taken_windows):
        message = ProcessBackend().refuse(replace(plan, schedule=(window,)))
        assert message is not None
        assert re.fullmatch(rf"window {window.id} \({window.kind}\): [^\n]* cannot[^\n]*: [^\n]+ [^\n]+", message)


@pytest.mark.parametrize(
    ("name", "fault", "message"),
    [
        ("reference", faults.Clog(links=("peers",), kinds=("produce",)), "its brokers do not send each other produce"),
        ("reference", faults.DirFailure(append="produce"), "the effects of a machine cannot be seen from outside its process"),
        ("reference", faults.CrashAt(), "the effects of a machine cannot be seen from outside its process"),
        (
            "reference",
            faults.Shutdown(protocol="legacy"),
            ONE_PROTOCOL,
        ),
        ("kafka:3.9.1", faults.Clog(links=("peers",), kinds=("isr-change",)), "its brokers do not send each other isr-change"),
        ("kafka:3.9.1", faults.DirFailure(), "failing and slow disks are instruments inside of the reference's nodes"),
        ("kafka:3.9.1", faults.AnswerLost(), "the effects of a machine cannot be seen from outside its process"),
        ("kafka:4.1.0", faults.Partition(links=("zookeeper",)), "a cluster with KRaft has no ZooKeeper"),
        ("kafka:4.1.0", faults.Slow(extra_ms=1, links=("zookeeper",)), "a cluster with KRaft has no ZooKeeper"),
        ("kafka:4.1.0", faults.Restart(session_ends=True), "a cluster with KRaft has no ZooKeeper"),
        ("kafka:4.1.0", faults.Clog(kinds=("stop-replica",)), "its brokers do not send each other stop-replica"),
        ("reference", faults.Slow(extra_ms=1, links=("clients",), kinds=("end-txn",)), "its clients do not send end-txn"),
        ("kafka:4.1.0", faults.Reset(links=("clients",), kinds=("vote",)), "its clients do not send vote"),
        ("kafka:3.9.1", faults.Slow(extra_ms=1, links=("peers",), kinds=("vote",)), "its brokers do not send each other vote"),
        ("kafka:3.9.1", faults.Packets(drop_per_mille=1, kinds=("log-info",)), "its brokers do not send each other log-info"),
        ("kafka:3.7.0-kraft-apart3", LEAVE, "controllers leave a quorum and join it from 3.9 on (KIP-853)"),
        ("kafka:4.1.0", LEAVE, NO_QUORUM),
        ("kafka:3.9.1", LEAVE, NO_QUORUM),
        ("reference", LEAVE, NO_QUORUM),
        ("kafka:4.1.0", ROLL, NO_QUORUM),
        ("reference", ROLL, NO_QUORUM),
        (APART, faults.Restart(session_ends=True), "a cluster with KRaft has no ZooKeeper"),
        (APART, faults.Clog(kinds=("alter-partition",)), "its brokers do not send each other alter-partition"),
        ("kafka:4.1.0", faults.Join(), CONTROLS_TOO),
        ("kafka:4.1.0", faults.Decommission(), CONTROLS_TOO),
        ("external", faults.Join(), "no hook can inject it"),
        ("external", faults.Decommission(), "no hook can inject it"),
        ("external", faults.Roll(), "no hook can inject it"),
        ("external", faults.Shutdown(protocol="legacy"), "no hook can inject it"),
        ("external", faults.Slow(extra_ms=1, links=("peers",)), "no hook can inject it"),
        ("external", faults.Restart(session_ends=True), "no hook can inject it"),
    ],
)
def test_variant_of_a_fault_that_would_do_nothing_is_refused(name: str, fault: AnyFault, message: str, tmp_path: Path) -> None:
    assert system_for(on(name, tmp_path)).lacks(fault) == message


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (SystemSpec(name="reference", settings={"log.roll.ms": 1}), "system reference does not use these settings: log.roll.ms"),
        (SystemSpec(name="external", settings={"retries": 1}), "system external does not use these settings: retries"),
        (SystemSpec(name="external", starts=("1",)), "system external has one version, so its brokers cannot start as 1"),
    ],
)
def test_settings_that_a_system_would_not_use_are_refused(settings: SystemSpec, message: str, tmp_path: Path) -> None:
    given = {**described(tmp_path, *HOOKS).settings, **settings.settings} if settings.name == "external" else settings.settings
    plan = replace(PLAN, system=replace(settings, settings=given), workload=replace(PLAN.workload, places=1))

    assert system_for(plan).refuse() == message


@pytest.mark.parametrize("name", ["fetch_max_bytes", "producer_id_block_size"])
def test_setting_of_the_reference_is_refused_on_another_system(name: str) -> None:
    plan = on_system(replace(PLAN, cluster=replace(PLAN.cluster, **{name: 2})), parsed_system("kafka:3.9.1"))

    assert str(system_for(plan).refuse()).startswith(f"kafka 3.9.1 is given no {name}; ")


def test_external_system_refuses_every_fault_without_hooks(tmp_path: Path) -> None:
    assert accepted(system_for(on("external", tmp_path, hooks=())), catalogue()) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", ["kafka:4.1.0", APART])
def test_every_fault_acts_on_nodes_of_kafka_with_kraft(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs are stand-ins, so only what is done to them is measured."""
    monkeypatch.setenv("PATH", sleeping_java(tmp_path, os.environ["PATH"]))
    plan = performable(on(name, tmp_path))

    assert unseen_on_kafka(plan) == {}


BROKER = """\
import socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    with listener.accept()[0] as connection:
        frame = connection.recv(4096)
        if len(frame) >= 12:
            body = frame[8:12] + bytes.fromhex("0000 00000001 0003 0000 0008")
            connection.sendall(len(body).to_bytes(4, "big") + body)
"""
DO = f"""\
case $1 in
start) {sys.executable} broker.py $(sed -n $2p ports) & echo $! > pid$2;;
kill) kill -9 $(cat pid$2);;
terminate) kill $(cat pid$2);;
pause) kill -STOP $(cat pid$2);;
resume) kill -CONT $(cat pid$2);;
cut) touch cut-$2-$3;;
heal) rm cut-$2-$3;;
esac
"""


def await_listeners(ports: list[int]) -> None:
    """Return when every port answers ApiVersions. TimeoutError after 60 s."""
    end = time.monotonic() + 60
    for port in ports:
        while served_version(("127.0.0.1", port), ApiKey.METADATA) is None:
            if time.monotonic() > end:
                raise TimeoutError(f"nothing answers at 127.0.0.1:{port}")
            time.sleep(0.05)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Path]:
    """A user's cluster of three stand-ins, which answer ApiVersions alone; its folder has the file that describes it."""
    described(tmp_path, *HOOKS)
    (tmp_path / "broker.py").write_text(BROKER)
    (tmp_path / "do.sh").write_text(DO)
    for number in (1, 2, 3):
        subprocess.run(["sh", "do.sh", "start", str(number)], cwd=tmp_path, check=True)
    try:
        # The hook returns before the stand-in listens; a process may need seconds for that on a busy machine.
        await_listeners([int(port) for port in (tmp_path / "ports").read_text().split()])
        yield tmp_path
    finally:
        for number in (1, 2, 3):
            subprocess.run(["sh", "do.sh", "kill", str(number)], cwd=tmp_path, check=False, capture_output=True)


@pytest.mark.slow
def test_every_fault_acts_on_nodes_of_an_external_system(cluster: Path) -> None:
    """Except for cut links: that its hooks ended well is all that is known of them."""
    spec = SystemSpec(name="external", settings={"with": str(cluster / "my-system.yaml")})
    plan = on_system(replace(PLAN, workload=replace(PLAN.workload, places=1)), spec)
    system = External(plan)
    plan = replace(plan, schedule=tuple(one_of_each(accepted(system, catalogue(plan)))))

    async def scene() -> dict[str, list[str]]:
        site = system.site()
        try:
            await site.open()
            return await probes_of_plan(plan, site, system)
        finally:
            site.close()

    found = asyncio.run(scene())

    cuts = {kind for kind in found if kind.endswith(("Partition", "Clog"))}
    assert unseen(found).keys() == cuts
    assert all(rows[0].startswith("not-measured: the hooks for ") for kind, rows in found.items() if kind in cuts)
    assert list(cluster.glob("cut-*")) == []
