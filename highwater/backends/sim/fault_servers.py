"""Faults of the simulated ZooKeeper: of its servers, and of the requests that a broker sends to it at named steps.

Servers of its ensemble end, stop, are cut off, or lag behind the others. A single server cannot end: brokers are cut off from it,
or it answers late. An answer to a broker is lost or late, or the controller is deposed while its request is on the way.
"""

from functools import partial
from typing import Literal, assert_never

from highwater.backends.sim.ensemble import Ensemble, EnsembleServer
from highwater.backends.sim.fault_links import LinkFaults
from highwater.backends.sim.network import Acting, Link
from highwater.backends.sim.node import NodeHost
from highwater.backends.sim.open_window import OpenWindow
from highwater.backends.sim.scheduler import MS
from highwater.backends.sim.simulation import Simulation
from highwater.backends.sim.traps import Trap
from highwater.backends.sim.zk import ZooKeeper
from nemesis.faults import (
    AnswerLate,
    AnswerLost,
    Clog,
    DeposedAt,
    Partition,
    StepFault,
    ZooKeeperDown,
    ZooKeeperFault,
    ZooKeeperLinks,
)
from reference.coordination import paths
from reference.coordination.api import Delete
from reference.effects import AnyEffect, ZkRequest
from reference.types import Address


class ZooKeeperFaults:
    """Injects faults into ZooKeeper's servers. Two faults never affect the same server at once."""

    def __init__(self, sim: Simulation, links: LinkFaults, nodes: tuple[NodeHost, ...], ensemble: Ensemble | None) -> None:
        self._sim = sim
        self._links = links
        self._brokers = tuple(node.address for node in nodes)
        self._ensemble = ensemble
        self._servers_held: list[EnsembleServer] = []

    def do(self, opened: OpenWindow, fault: ZooKeeperFault) -> None:
        """Apply the fault to `fault.servers` drawn servers that have no other fault, and register how to undo it."""
        if self._ensemble is None:
            down = Clog(links=("zookeeper",)) if fault.how == "pause" else Partition(links=("zookeeper",))
            self._links.do(opened, down)
            return
        other_servers = [server for server in self._ensemble.servers if server not in self._servers_held]
        for _ in range(min(fault.servers, len(other_servers))):
            server = other_servers.pop(self._sim.draws.below(f"server {opened.id}", len(other_servers)))
            opened.hold_in(self._servers_held, server)
            acting = opened.actings[server.address] = Acting(opened.id, server.address)
            self._begin_fault(opened, fault, server, acting)

    def _begin_fault(self, opened: OpenWindow, fault: ZooKeeperFault, server: EnsembleServer, acting: Acting) -> None:
        """Begin the fault on one server, and register how it is undone."""
        match fault:
            case ZooKeeperDown(how="kill"):
                acting.count += 1
                server.kill()
                opened.undo.append(server.start)
            case ZooKeeperDown(how="pause"):
                acting.count += 1
                server.pause()
                opened.undo.append(server.resume)
            case ZooKeeperDown(how="leave" | "roll"):
                raise AssertionError("refused before the run")
            case ZooKeeperDown():
                self._cut_links(opened, self._links_of(server, self._brokers), acting)
            case ZooKeeperLinks(how="cut"):
                self._cut_links(opened, self._links_of(server, tuple(peer.address for peer in server.peers)), acting)
            case ZooKeeperLinks(extra_ms=extra_ms):
                for link in self._links_of(server, tuple(peer.address for peer in server.peers)):
                    opened.hold_in(link.slows, (extra_ms * MS, acting))
            case _:
                assert_never(fault)

    def _cut_links(self, opened: OpenWindow, links: list[Link], acting: Acting) -> None:
        for link in links:
            opened.undo.append(partial(self._sim.network.release, link))
            opened.hold_in(link.cuts, acting)

    def _links_of(self, server: EnsembleServer, others: tuple[Address, ...]) -> list[Link]:
        there = [self._sim.network.link(server.address, other) for other in others]
        return [link for way in there for link in (way, way.back)]


class StepFaults:
    """Injects faults at the requests that a simulated broker sends to ZooKeeper."""

    def __init__(self, server: ZooKeeper, links: LinkFaults) -> None:
        self._server = server
        self._links = links

    def do(self, opened: OpenWindow, fault: StepFault, node: NodeHost, acting: Acting) -> None:
        """Wait for the named step of this broker, and register how to undo the fault at its end."""
        step = f"zk-request:{fault.step}"
        match fault:
            case AnswerLost():
                trap = Trap(step, fault.nth, before=False, strike=partial(_lose_answer, node, acting))
            case AnswerLate():
                trap = Trap(step, fault.nth, before=False, strike=partial(self._hold_messages, opened, node, acting, "inbound"))
            case DeposedAt():
                trap = Trap(step, fault.nth, before=True, strike=partial(self._depose, opened, node, acting))
            case _:
                assert_never(fault)
        opened.hold_in(node.traps, trap)

    def _hold_messages(
        self, opened: OpenWindow, node: NodeHost, acting: Acting, direction: Literal["inbound", "outbound"], _: AnyEffect
    ) -> None:
        """Hold all messages between ZooKeeper and this broker in one direction until the fault ends."""
        acting.count += 1
        clog = Clog(links=("zookeeper",), direction=direction)
        self._links.disturb(opened, clog, node.address)

    def _depose(self, opened: OpenWindow, node: NodeHost, acting: Acting, effect: AnyEffect) -> None:
        """Delete /controller while the request of this broker is on its way."""
        self._hold_messages(opened, node, acting, "outbound", effect)
        self._server.administer((Delete(paths.CONTROLLER),))


def _lose_answer(node: NodeHost, acting: Acting, effect: AnyEffect) -> None:
    if isinstance(effect, ZkRequest):
        node.zk.lose_answer(effect.id, acting)
