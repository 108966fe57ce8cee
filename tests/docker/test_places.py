"""Containers of a run: their user and rights, faults of their processes, and a quorum of ZooKeeper.

The contract of a broker in a container holds for every system that has one.
"""

import asyncio
import json
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from highwater.backends.real.containers.engine import Engine
from highwater.backends.real.containers.site import ContainerSite
from highwater.backends.real.systems.registry import system_for
from highwater.backends.real.zookeeper.admin import Admin
from highwater.plans.plan import ClusterShape, Plan, WorkloadSpec, checked, on_system
from highwater.plans.systems import parsed_system
from highwater.rig.scene import brokers_of
from history.promise import Promise, TopicPromise
from reference.config import TopicSpec
from reference.coordination.api import Create, Created, Data, GetData, NodeExists
from tests.systems.conftest import need

pytestmark = [pytest.mark.docker, pytest.mark.slow]


def plan(zookeeper: int) -> Plan:
    """A plan with one broker, which is not performed."""
    promise = Promise(
        topics=(TopicPromise(topic="t", min_insync_replicas=1, flush="none"),),
        session_timeout_ms=2000,
        replica_lag_time_max_ms=2000,
        request_timeout_ms=1000,
    )
    topic = TopicSpec(name="t", partitions=1, replication_factor=1, min_insync_replicas=1, flush="none")
    shape = ClusterShape(
        brokers=1,
        topics=(topic,),
        zookeeper=zookeeper,
        session_timeout_ms=2000,
        replica_lag_time_max_ms=2000,
        request_timeout_ms=1000,
    )
    plan = Plan(
        name="one-broker",
        draws=1,
        cluster=shape,
        workload=WorkloadSpec(producers=1, consumers=1, request_timeout_ms=1000),
        promise=promise,
        faults_ms=1000,
        quiet_ms=promise.bound_ms,
        schedule=(),
    )
    return checked(plan)


def at(site: ContainerSite, act: Callable[[], Awaitable[None]]) -> None:
    """Run a scene while the site is open, and remove the site."""

    async def run() -> None:
        try:
            await site.open()
            await act()
        finally:
            await site.leave()

    try:
        asyncio.run(run())
    finally:
        site.stop()
        site.close()


async def until(done: Callable[[], Awaitable[bool]]) -> None:
    """Wait until `done` holds, at most 60 s."""
    async with asyncio.timeout(60):
        while not await done():
            await asyncio.sleep(0.05)


def inspected(container: str | None) -> dict[str, dict[str, object]]:
    assert container is not None
    printed = subprocess.run(["docker", "inspect", container], capture_output=True, check=True).stdout
    found: dict[str, dict[str, object]] = json.loads(printed)[0]
    return found


@pytest.mark.parametrize("name", ["reference", "kafka:3.9.1"])
def test_broker_container_has_no_privileges_and_survives_faults(engine: Engine, name: str) -> None:
    if name != "reference":
        need(parsed_system(name).version)
    shape = on_system(plan(zookeeper=1), parsed_system(name))
    system = system_for(shape)
    site = ContainerSite(shape, system)

    async def act() -> None:
        broker = brokers_of(shape)[0]
        node, process = site.nodes[broker], site.runners[broker].process
        cluster = system.cluster(site.zookeeper, site.harness)

        async def ended() -> bool:
            return not await node.is_running()

        runs = await node.start()
        assert (await runs()).holds
        found = inspected(process.container)
        host, config = found["HostConfig"], found["Config"]
        assert (host["ReadonlyRootfs"], host["CapDrop"], host["CapAdd"]) == (True, ["ALL"], None)
        assert host["SecurityOpt"] == ["no-new-privileges"]
        assert str(config["User"]).split(":")[0] not in ("", "0")
        assert host["Memory"]
        written = [mount["Source"] for mount in cast(list[dict[str, Any]], found["Mounts"]) if mount["RW"]]
        assert all(Path(folder).name == node.address for folder in written)
        await until(cluster.gathered)

        stands = await node.pause()
        assert (await stands()).holds
        assert not (await runs()).holds  # the probe for running can fail
        assert (await (await node.resume())()).holds
        assert not (await stands()).holds

        await node.pause()
        gone = await node.kill()  # also kills a frozen process
        assert (await gone()).holds
        assert not await node.is_running()
        assert not (await (await node.kill())()).holds  # there was no process to kill

        assert (await (await node.start())()).holds
        assert node.life == 2
        assert (await gone()).holds  # the previous process has ended, though another one runs
        # The kernel does not deliver a signal to pid 1 of a container before it has a handler.
        await until(cluster.gathered)
        gone = await node.terminate()
        await until(ended)
        assert (await gone()).holds
        assert node.stopped_itself() is not None
        cluster.close()

    at(site, act)


def test_zookeeper_serves_with_one_server_dead_or_frozen(engine: Engine) -> None:
    shape = plan(zookeeper=3)
    site = ContainerSite(shape, system_for(shape))

    async def act() -> None:
        admin = Admin(site.zookeeper)
        try:
            assert isinstance((await admin.ask(Create("/before", b"1")))[0], Created)
            assert (await (await site.servers[2].kill())()).holds
            # If the dead server was the leader or the one asked, the create may have been done although its answer was lost.
            assert isinstance((await admin.ask_until_answered(Create("/without-one", b"2")))[0], Created | NodeExists)
            assert (await (await site.servers[2].start())()).holds
            assert (await (await site.servers[0].pause())()).holds
            (found,) = await admin.ask_until_answered(GetData("/without-one"))
            assert isinstance(found, Data)
            assert (await (await site.servers[0].resume())()).holds
        finally:
            admin.close()

    at(site, act)
