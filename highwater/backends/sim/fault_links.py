"""Faults of simulated links: they are cut, slow, clogged or lossy, or their connections are reset."""

from functools import partial
from typing import assert_never

from highwater.backends.sim.network import Acting, Stop
from highwater.backends.sim.node import NodeHost
from highwater.backends.sim.open_window import OpenWindow
from highwater.backends.sim.scheduler import MS
from highwater.backends.sim.simulation import Simulation
from highwater.backends.sim.transport import PacketLoss, kinds_named
from highwater.rig.cuts import Geography, Pair
from nemesis.faults import Clog, LinkFault, Packets, Partition, Reset, Slow
from reference.types import Address, BrokerId


class LinkFaults:
    """Injects network faults into simulated links."""

    def __init__(self, sim: Simulation, nodes: dict[BrokerId, NodeHost], geography: Geography) -> None:
        self._sim = sim
        self._nodes = {node.address: node for node in nodes.values()}
        self._geography = geography

    def do(self, opened: OpenWindow, fault: LinkFault) -> None:
        """Apply a network fault to the links of the nodes that it hits, and register how to undo it at the fault's end."""
        if isinstance(fault, Partition):
            self._cut_links(opened, fault)
            return
        for node in opened.nodes:
            self.disturb(opened, fault, node)

    def _cut_links(self, opened: OpenWindow, fault: Partition) -> None:
        """Cut links: nothing arrives over them, and messages on their way wait."""
        for pair in self._geography.cut_by(fault, opened.nodes, self._sim.draws, purpose=f"cut {opened.id}"):
            # A link between an administrator and ZooKeeper belongs to no broker; the first broker counts it. Those of a client
            # place are counted for the place, which is the only one hit.
            first = next(iter(opened.actings.values()))
            acting = opened.actings.get(Address(pair[1])) or opened.actings.get(Address(pair[0])) or first
            link = self._sim.network.link(*pair)
            opened.undo.append(partial(self._sim.network.release, link))
            opened.hold_in(link.cuts, acting)

    def disturb(self, opened: OpenWindow, fault: Packets | Slow | Clog | Reset, node: Address) -> None:
        """Make the links of one broker, or of one client place, slow, lossy, clogged or unstable."""
        acting = opened.actings[node]
        sim = self._sim
        match fault:
            case Packets(peer=peer, drop_per_mille=drop, direction=direction) if node not in self._nodes:
                for pair in self._geography.links_of(node, ("clients",), direction, peer):
                    opened.hold_in(sim.network.link(*pair).losses, (drop, acting))
            case Packets(peer=peer, direction=direction):
                loss = PacketLoss(acting, fault)
                for pair in self._geography.links_of(node, ("peers",), direction, peer):
                    sim.transport.lose(sim.network.link(*pair), loss)
                    opened.undo.append(partial(sim.transport.spare, sim.network.link(*pair), loss))
            case Slow(extra_ms=extra_ms, links=links, peer=peer, direction=direction):
                for pair in self._geography.links_of(node, links, direction, peer):
                    opened.hold_in(sim.network.link(*pair).slows, (extra_ms * MS, acting))
            case Clog(links=links, kinds=kinds, peer=peer, direction=direction):
                stop = Stop(acting, kinds_named(kinds) if kinds else None)
                for pair in self._geography.links_of(node, links, direction, peer):
                    link = sim.network.link(*pair)
                    opened.undo.append(partial(sim.network.release, link))
                    opened.hold_in(link.stops if kinds else link.clogs, stop)
            case Reset(period_ms=period_ms, links=links, peer=peer):
                pairs = self._geography.links_of(node, links, peer=peer)
                self._reset_again(opened, pairs, period_ms, acting)
            case _:
                assert_never(fault)

    def _reset_again(self, opened: OpenWindow, pairs: list[Pair], period_ms: int, acting: Acting) -> None:
        """Break the connections of these links, and again after the period, until the window is over."""
        if opened.over:
            return
        for source, target in pairs:
            if target in self._geography.servers:
                acting.count += self._nodes[source].zk.reset(target)
            elif source not in self._geography.servers:
                acting.count += self._sim.transport.reset(source, target)
        self._sim.scheduler.after(period_ms * MS, self._reset_again, opened, pairs, period_ms, acting)
