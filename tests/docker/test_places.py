"""Containers of a run: as whom they run and what they may, what is done to their processes, and a quorum of ZooKeeper."""

import asyncio
import json
import subprocess
from collections.abc import Awaitable, Callable

import pytest

from highwater.backends.real.containers.engine import Engine
from highwater.backends.real.containers.site import ContainerSite
from highwater.backends.real.zookeeper.admin import Admin
from highwater.plans.plan import ClusterShape, Plan, WorkloadSpec, checked
from highwater.rig.scene import brokers_of
from history.promise import Promise, TopicPromise
from reference.config import TopicSpec
from reference.coordination.api import Create, Created, Data, GetData, NodeExists

pytestmark = [pytest.mark.docker, pytest.mark.slow]


def plan(zookeeper: int) -> Plan:
    """One broker; nothing is played."""
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
    """Do something while the site is open; nothing is left of it."""

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


async def until(done: Callable[[], bool]) -> None:
    """On a busy machine everything takes its time."""
    async with asyncio.timeout(60):
        while not done():
            await asyncio.sleep(0.05)


def inspected(container: str | None) -> dict[str, dict[str, object]]:
    assert container is not None
    printed = subprocess.run(["docker", "inspect", container], capture_output=True, check=True).stdout
    found: dict[str, dict[str, object]] = json.loads(printed)[0]
    return found


def test_a_broker_is_an_ordinary_user_that_may_nothing_and_survives_what_is_done_to_it(engine: Engine) -> None:
    shape = plan(zookeeper=1)
    site = ContainerSite(shape)

    async def act() -> None:
        node = site.nodes[brokers_of(shape)[0]]
        runs = await node.start()
        assert (await runs()).holds
        found = inspected(node.process.container)
        host, config = found["HostConfig"], found["Config"]
        assert (host["ReadonlyRootfs"], host["CapDrop"], host["CapAdd"]) == (True, ["ALL"], None)
        assert host["SecurityOpt"] == ["no-new-privileges"]
        assert str(config["User"]).split(":")[0] not in ("", "0")
        assert host["Memory"]

        stands = await node.pause()
        assert (await stands()).holds
        assert not (await runs()).holds  # the probe of running does not agree with everything
        assert (await (await node.resume())()).holds
        assert not (await stands()).holds

        await node.pause()
        gone = await node.kill()  # a frozen one too
        assert (await gone()).holds
        assert not await node.is_running()
        assert not (await (await node.kill())()).holds  # there was nobody to kill

        assert (await (await node.start())()).holds
        assert node.life == 2
        assert (await gone()).holds  # the one before it has ended, whoever runs now
        # A first process of a container does not hear a signal that it does not handle yet.
        await until(lambda: bool([line for line in node.notes() if line.life == 2]))
        gone = await node.terminate()
        await until(lambda: not node.process.is_running())
        assert (await gone()).holds
        assert node.stopped_itself() is not None

    at(site, act)


def test_three_servers_of_zookeeper_serve_when_one_is_dead_and_when_one_stands_still(engine: Engine) -> None:
    site = ContainerSite(plan(zookeeper=3))

    async def act() -> None:
        admin = Admin(site.zookeeper)
        try:
            assert isinstance((await admin.ask(Create("/before", b"1")))[0], Created)
            assert (await (await site.servers[2].kill())()).holds
            # Where the server that is gone was the one that was asked, or the leader, it may have been done all the same.
            assert isinstance((await admin.ask_until_answered(Create("/without-one", b"2")))[0], Created | NodeExists)
            assert (await (await site.servers[2].start())()).holds
            assert (await (await site.servers[0].pause())()).holds
            (found,) = await admin.ask_until_answered(GetData("/without-one"))
            assert isinstance(found, Data)
            assert (await (await site.servers[0].resume())()).holds
        finally:
            admin.close()

    at(site, act)
