"""Which links a network fault touches, as directed pairs of addresses."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import assert_never

from msgspec import UnsetType

from highwater.rig.targets import shuffled
from history.seed import Draws
from nemesis.faults import Direction, Links, Partition
from reference.types import Address, BrokerId, broker_address

Pair = tuple[Address, Address]
ZOOKEEPER = Address("zk")  # a single server, or all servers together


class Geography:
    """The addresses of brokers, clients and ZooKeeper's servers, and the links between them.

    `clients` may be single clients or whole places. `places` has the clients at each place, where there are several; a network
    partition then never divides those at one place.
    """

    __slots__ = ("_places", "brokers", "clients", "servers")

    def __init__(
        self,
        brokers: tuple[BrokerId, ...],
        clients: tuple[Address, ...],
        *,
        servers: tuple[Address, ...] = (ZOOKEEPER,),
        places: Mapping[Address, tuple[Address, ...]] = MappingProxyType({}),
    ) -> None:
        self.brokers = brokers
        self.clients = clients
        self.servers = servers
        self._places = places

    def links_of(
        self,
        node: Address,
        links: tuple[Links, ...],
        direction: Direction | UnsetType = "both",
        peer: int | None = None,
    ) -> list[Pair]:
        """The links of a broker to these kinds of others (brokers, clients, ZooKeeper), or of a client place to brokers.

        `direction` is as seen from the broker or the place; unset, it is both.
        """
        others: list[Address] = []
        if node in self._places or "peers" in links:
            others += [to for to in map(broker_address, self.brokers) if to != node and peer in (None, int(to[1:]))]
        if peer is None and node not in self._places:
            others += self.servers if "zookeeper" in links else ()
            others += self.clients if "clients" in links else ()
        pairs: list[Pair] = []
        for me in self._places.get(node, (node,)):
            pairs += [] if direction == "outbound" else [(other_node, me) for other_node in others]
            pairs += [] if direction == "inbound" else [(me, other_node) for other_node in others]
        return pairs

    def cut_by(self, fault: Partition, hit: tuple[Address, ...], draws: Draws, *, purpose: str) -> list[Pair]:
        """The links that a network partition cuts."""
        match fault.shape:
            case "isolate":
                pairs = [pair for node in hit for pair in self.links_of(node, fault.links, fault.direction, fault.peer)]
                return sorted(set(pairs))
            case "halves":
                order = shuffled(list(self.brokers), draws, purpose)
                first = {broker_address(broker) for broker in order[: len(order) // 2]} | {*self.servers}
                for together in self._places.values() if len(self._places) > 1 else [(client,) for client in self.clients]:
                    first |= {*together} if draws.ratio(purpose, 1, 2) else set()
                return self._pairs_between(fault, first)
            case "majorities-ring":
                return self._majorities_ring(fault, shuffled(list(self.brokers), draws, purpose))
            case "bridge":
                order = shuffled(list(self.brokers), draws, purpose)
                half, other_half = order[1 : 1 + len(order) // 2], order[1 + len(order) // 2 :]
                return [] if "peers" not in fault.links else _both_ways(half, other_half, fault.direction)
            case _:
                assert_never(fault.shape)

    def _pairs_between(self, fault: Partition, first: set[Address]) -> list[Pair]:
        """The directed pairs that the fault cuts between these nodes and the others."""
        everybody: list[Address] = [*map(broker_address, self.brokers), *self.servers, *self.clients]
        pairs = []
        for source in everybody:
            for target in everybody:
                inbound = target in first
                is_cut = fault.direction == "both" or inbound == (fault.direction == "inbound")
                if (source in first) != inbound and is_cut and _kind_of_link(source, target) in fault.links:
                    pairs.append((source, target))
        return pairs

    def _majorities_ring(self, fault: Partition, ring: list[BrokerId]) -> list[Pair]:
        """Jepsen's majorities ring: each broker receives from a majority, and no two from the same one."""
        majority = len(ring) // 2 + 1
        pairs = []
        for start in range(len(ring)):
            neighbours = [ring[(start + i) % len(ring)] for i in range(majority)]
            hearer = neighbours[majority // 2]
            pairs += [(broker_address(member), broker_address(hearer)) for member in ring if member not in neighbours]
        return pairs if "peers" in fault.links else []


def _both_ways(half: list[BrokerId], other_half: list[BrokerId], direction: Direction) -> list[Pair]:
    there = [(broker_address(a), broker_address(b)) for a in half for b in other_half]
    back = [(b, a) for a, b in there]
    return (there if direction != "inbound" else []) + (back if direction != "outbound" else [])


def _kind_of_link(source: Address, target: Address) -> Links | None:
    """The kind of this link; None between two addresses that never communicate."""
    kinds_of_ends = {source[0], target[0]}
    if kinds_of_ends == {"b"}:
        return "peers"
    if kinds_of_ends == {"b", "z"}:
        return "zookeeper"
    # Clients are "c…", their places "p…"; an administrator's links to ZooKeeper are links of clients too.
    return "clients" if len(kinds_of_ends) == 2 and kinds_of_ends & {"c", "p"} else None
