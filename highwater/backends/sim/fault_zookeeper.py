"""Faults of the simulated ZooKeeper: servers of its ensemble end, stop, are cut off, or lag behind the others.

A single server cannot end: brokers are cut off from it, or it answers late.
"""

from functools import partial
from typing import assert_never

from highwater.backends.sim.ensemble import Ensemble, EnsembleServer
from highwater.backends.sim.fault_links import LinkFaults
from highwater.backends.sim.network import Acting, Link
from highwater.backends.sim.node import NodeHost
from highwater.backends.sim.open_window import OpenWindow
from highwater.backends.sim.scheduler import MS
from highwater.backends.sim.simulation import Simulation
from nemesis.faults import Clog, Partition, ZooKeeperDown, ZooKeeperFault, ZooKeeperLinks
from reference.types import Address


class ZooKeeperFaults:
    """Injects faults into ZooKeeper's servers. Two faults never affect the same server at once."""

    def __init__(self, sim: Simulation, links: LinkFaults, nodes: tuple[NodeHost, ...], ensemble: Ensemble | None) -> None:
        self._sim = sim
        self._links = links
        self._brokers = tuple(node.address for node in nodes)
        self._ensemble = ensemble
        self._held: list[EnsembleServer] = []

    def do(self, opened: OpenWindow, fault: ZooKeeperFault) -> None:
        """Apply the fault to `fault.servers` drawn servers that have no other fault, and register how to undo it."""
        if self._ensemble is None:
            down = Clog(links=("zookeeper",)) if fault.how == "pause" else Partition(links=("zookeeper",))
            self._links.do(opened, down)
            return
        other_servers = [server for server in self._ensemble.servers if server not in self._held]
        for _ in range(min(fault.servers, len(other_servers))):
            server = other_servers.pop(self._sim.draws.below(f"server {opened.id}", len(other_servers)))
            opened.hold_in(self._held, server)
            acting = opened.actings[server.address] = Acting(opened.id, server.address)
            self._do(opened, fault, server, acting)

    def _do(self, opened: OpenWindow, fault: ZooKeeperFault, server: EnsembleServer, acting: Acting) -> None:
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
