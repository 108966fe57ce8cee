"""An operation of a port performs what it is given or raises; a deed that changed nothing is not proven."""

import asyncio
import os
import random
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from highwater.backends.real.containers.agent import Agent, Refused
from highwater.backends.real.containers.links import ContainerLinks
from highwater.backends.real.fault_links import LinkFaults
from highwater.backends.real.fault_nodes import NodeFaults
from highwater.backends.real.fault_servers import ServerFaults
from highwater.backends.real.node.directories import LogDirs
from highwater.backends.real.node.plain import PlainNode
from highwater.backends.real.node.runner import Launch
from highwater.backends.real.processes.links import ProxyLinks
from highwater.backends.real.processes.runner import ProcessRunner
from highwater.backends.real.proving import Proving
from highwater.backends.real.site import DirCondition, LinkCondition, Probe, Proof, Site
from highwater.backends.real.systems.external.file import Description, Entry, Hooks
from highwater.backends.real.systems.external.site import ExternalNode, ExternalSite
from highwater.backends.real.zookeeper.admin import Admin
from highwater.backends.real.zookeeper.local import Ports, Server
from highwater.backends.real.zookeeper.servers import ServerProcess
from highwater.errors import HarnessError
from highwater.rig.nemesis import Nemesis
from history.recorder import Recorder
from history.seed import Draws
from nemesis.faults import AnyFault, Clog, CrashAt, LinkFault, Packets, Partition, Reset, Shutdown, Slow, ZooKeeperDown
from nemesis.schedule import Window
from reference.types import Address, BrokerId
from tests.highwater.backends.real.test_fault_links import Recorded, faults_begun, ignored
from tests.highwater.backends.sim.simulations import plan

B1, B2, Z1 = Address("b1"), Address("b2"), Address("z1")
HELD = LinkCondition(held=True)
NODES = Description(nodes=(Entry(id=1, address="127.0.0.1:1"), Entry(id=2, address="127.0.0.1:2")), hooks={"cut": ("true",)})


def window(fault: AnyFault) -> Window:
    return Window(id="f1", kind="fault", at_ms=0, until_ms=1, fault=fault)


async def proof_of(coroutine: Coroutine[Any, Any, Probe]) -> Proof:
    return await (await coroutine)()


# --- directories ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        (DirCondition(flush_ms=5000), "only within a broker of the reference"),
        (DirCondition(broken=True), "only within a broker of the reference"),
        (DirCondition(full=True), "not on a file system of its own"),
        pytest.param(
            DirCondition(unreadable=True),
            "the broker runs as root and ignores them",
            marks=pytest.mark.skipif(bool(os.geteuid()), reason="only root ignores permissions"),
        ),
    ],
)
def test_dir_fault_that_cannot_be_done_from_outside_raises(condition: DirCondition, message: str, tmp_path: Path) -> None:
    """A slow flush once passed for proven, and nothing was slow."""
    dirs = LogDirs([tmp_path / "data-0" / "logs"])
    dirs.make()
    node = PlainNode(tmp_path, B1, ProcessRunner(B1), lambda _: Launch(command=("true",)))

    with pytest.raises(HarnessError, match=message):
        dirs.set(0, condition)
    with pytest.raises(HarnessError, match=message):
        asyncio.run(node.set_dir(0, condition))


# --- links ------------------------------------------------------------------------------------------------------------------


async def proxied(links: ProxyLinks) -> None:
    await links.wire(B1, B2, ("127.0.0.1", 1))


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda links: links.set({(B1, Z1): HELD}), "no proxy carries the link from b1 to z1"),
        (lambda links: links.reset([(B1, Z1)]), "no proxy carries the link from b1 to z1"),
        (
            lambda links: links.set({(B2, B1): LinkCondition(held_kinds=("fetch",))}),
            "no proxy tells messages from b2 to b1 apart",
        ),
    ],
)
def test_link_fault_without_a_proxy_for_it_raises(act: Callable[[ProxyLinks], Coroutine[Any, Any, Any]], message: str) -> None:
    async def scene() -> None:
        links = ProxyLinks("127.0.0.1", random.Random(1))
        try:
            await proxied(links)
            await act(links)
        finally:
            await links.close()

    with pytest.raises(HarnessError, match=message):
        asyncio.run(scene())


def test_kinds_of_messages_in_containers_need_a_proxy() -> None:
    with pytest.raises(HarnessError, match="no proxy tells messages from b1 to b2 apart"):
        asyncio.run(ContainerLinks().set({(B1, B2): LinkCondition(held_kinds=("fetch",))}))


def test_agent_refuses_a_condition_that_it_does_not_know() -> None:
    rule = {"direction": "in", "peer": "192.0.2.1", "held": False, "loss_per_mille": 0, "delay_ms": 0}

    with pytest.raises(Refused, match="a link is set by delay_ms, direction, held, loss_per_mille, peer, not by "):
        asyncio.run(Agent().handle({"do": "set", "links": [rule | {"corrupt_per_mille": 3}]}))


@pytest.mark.parametrize(
    "condition", [LinkCondition(delay_ms=5), LinkCondition(loss_per_mille=5), LinkCondition(held=True, held_kinds=("fetch",))]
)
def test_condition_without_a_hook_raises(condition: LinkCondition) -> None:
    links = ExternalSite({B1: ("127.0.0.1", 1), B2: ("127.0.0.1", 2)}, Hooks(NODES, Path())).links

    with pytest.raises(HarnessError, match="no hook does this to the link from b1 to b2"):
        asyncio.run(links.set({(B1, B2): condition}))
    with pytest.raises(HarnessError, match="no hook does this to the link from p1 to b1"):
        asyncio.run(links.set({(Address("p1"), B1): HELD}))
    with pytest.raises(HarnessError, match="no hook resets connections"):
        asyncio.run(links.reset([(B1, B2)]))
    with pytest.raises(HarnessError, match="there is no hook kill for b1"):
        Hooks(NODES, Path()).run("kill", B1)


@pytest.mark.parametrize("fault", [Packets(duplicate_per_mille=1), Packets(reorder_per_mille=1)])
def test_packets_that_a_proxy_cannot_tell_are_an_error(fault: Packets) -> None:
    with pytest.raises(AssertionError, match="must refuse a plan with this fault"):
        faults_begun(Recorded(), fault)


@pytest.mark.parametrize(
    "fault",
    [
        Partition(links=("zookeeper",)),
        Slow(extra_ms=1, links=("zookeeper",)),
        Clog(links=("zookeeper",)),
        Reset(period_ms=1, links=("zookeeper",)),
    ],
)
def test_fault_of_links_that_do_not_exist_has_no_effect(fault: LinkFault) -> None:
    """A cluster with KRaft has no ZooKeeper: a cut from it once passed for proven."""
    faults = LinkFaults(
        Recorded(),
        brokers=(BrokerId(1), BrokerId(2)),
        servers=(),
        places=(Address("p1"),),
        draws=Draws(1),
        changing=ignored,
    )

    async def scene() -> Proof:
        probe, pairs = await faults.do(window(fault), fault, (B1,))
        assert pairs == ()
        proof = await probe()
        await faults.undo("f1")
        return proof

    assert asyncio.run(scene()) == Proof(False, "this cluster has no link of these kinds")


# --- processes --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("deed", ["kill", "terminate", "pause"])
def test_deed_on_an_external_node_that_is_down_is_not_proven(deed: str) -> None:
    node = ExternalNode(B1, ("127.0.0.1", 1), Hooks(NODES, Path()))
    node._down = True

    assert asyncio.run(proof_of(getattr(node, deed)())) == Proof(False, "the node was down already")


def test_kill_of_a_zookeeper_server_that_is_down_is_not_proven(tmp_path: Path) -> None:
    server = ServerProcess(Server(1, tmp_path, [Ports(1, 2, 3)]))

    assert asyncio.run(proof_of(server.kill())) == Proof(False, "there was no process")


@pytest.mark.parametrize("fault", [Shutdown(protocol="legacy"), CrashAt()])
def test_process_fault_of_the_simulator_alone_is_an_error(fault: Shutdown | CrashAt) -> None:
    """SIGTERM once ignored the protocol that the broker was to start with."""
    nemesis = Nemesis(plan(), Recorder(lambda: 0), Draws(1))
    site = cast(Site, SimpleNamespace(nodes={BrokerId(1): SimpleNamespace(address=B1)}))
    faults = NodeFaults(site, nemesis, Proving(nemesis.recorder, acted=nemesis.acted), cast(Admin, None))

    with pytest.raises(AssertionError, match="must refuse a plan with this fault"):
        asyncio.run(faults.do(window(fault), fault, BrokerId(1)))


def test_fault_of_zookeeper_without_its_servers_is_an_error() -> None:
    site = cast(Site, SimpleNamespace(servers=(), nodes={}))
    links = LinkFaults(Recorded(), brokers=(), servers=(), places=(), draws=Draws(1), changing=ignored)
    proving = Proving(Recorder(lambda: 0), acted=lambda *_: None)
    faults = ServerFaults(site, links, proving, cast(Admin, SimpleNamespace()), draws=Draws(1))

    with pytest.raises(AssertionError, match="must refuse a plan with this fault"):
        asyncio.run(faults.do(window(ZooKeeperDown()), ZooKeeperDown()))
