"""Which links a network fault touches, as directed pairs of addresses."""

from typing import Literal, assert_never

from highwater.rig.targets import shuffled
from history.seed import Draws
from nemesis.faults import Links, Partition
from reference.types import Address, BrokerId, broker_address

Direction = Literal["both", "inbound", "outbound"]
Pair = tuple[Address, Address]
ZOOKEEPER = Address("zk")  # one address for all its servers


class Geography:
    """The addresses of brokers, clients and ZooKeeper, and the links between them."""

    __slots__ = ("brokers", "clients")

    def __init__(self, brokers: tuple[BrokerId, ...], clients: tuple[Address, ...]) -> None:
        self.brokers = brokers
        self.clients = clients

    def links_of(
        self, broker: BrokerId, links: tuple[Links, ...], direction: Direction = "both", peer: int | None = None
    ) -> list[Pair]:
        """The links of one broker to these kinds of others (brokers, clients, ZooKeeper); `direction` as seen from it."""
        me = broker_address(broker)
        others: list[Address] = []
        if "peers" in links:
            others += [broker_address(other) for other in self.brokers if other != broker and peer in (None, other)]
        if peer is None and "zookeeper" in links:
            others.append(ZOOKEEPER)
        if peer is None and "clients" in links:
            others += self.clients
        inbound = [] if direction == "outbound" else [(other, me) for other in others]
        outbound = [] if direction == "inbound" else [(me, other) for other in others]
        return inbound + outbound

    def cut_by(self, fault: Partition, hit: tuple[BrokerId, ...], draws: Draws, *, purpose: str) -> list[Pair]:
        """The links that a network partition cuts."""
        match fault.shape:
            case "isolate":
                pairs = [pair for broker in hit for pair in self.links_of(broker, fault.links, fault.direction)]
                return sorted(set(pairs))
            case "halves":
                order = shuffled(list(self.brokers), draws, purpose)
                first = {broker_address(broker) for broker in order[: len(order) // 2]} | {ZOOKEEPER}
                first |= {client for client in self.clients if draws.ratio(purpose, 1, 2)}
                return self._between(fault, first)
            case "majorities-ring":
                return self._ring(fault, shuffled(list(self.brokers), draws, purpose))
            case "bridge":
                order = shuffled(list(self.brokers), draws, purpose)
                left, right = order[1 : 1 + len(order) // 2], order[1 + len(order) // 2 :]
                return [] if "peers" not in fault.links else _both_ways(left, right, fault.direction)
            case _:
                assert_never(fault.shape)

    def _between(self, fault: Partition, first: set[Address]) -> list[Pair]:
        everybody: list[Address] = [*(broker_address(broker) for broker in self.brokers), ZOOKEEPER, *self.clients]
        pairs = []
        for source in everybody:
            for target in everybody:
                inbound = target in first
                wanted = fault.direction == "both" or inbound == (fault.direction == "inbound")
                if (source in first) != inbound and wanted and _kind(source, target) in fault.links:
                    pairs.append((source, target))
        return pairs

    def _ring(self, fault: Partition, ring: list[BrokerId]) -> list[Pair]:
        """Jepsen's majorities ring: each broker receives from a majority, and no two from the same one."""
        majority = len(ring) // 2 + 1
        pairs = []
        for start in range(len(ring)):
            seen = [ring[(start + i) % len(ring)] for i in range(majority)]
            hearer = seen[majority // 2]
            pairs += [(broker_address(other), broker_address(hearer)) for other in ring if other not in seen]
        return pairs if "peers" in fault.links else []


def _both_ways(left: list[BrokerId], right: list[BrokerId], direction: Direction) -> list[Pair]:
    there = [(broker_address(a), broker_address(b)) for a in left for b in right]
    back = [(b, a) for a, b in there]
    return (there if direction != "inbound" else []) + (back if direction != "outbound" else [])


def _kind(source: Address, target: Address) -> Links | None:
    """The kind of this link; None between two addresses that never communicate."""
    ends = {source[0], target[0]}
    if ends == {"b"}:
        return "peers"
    if ends == {"b", "z"}:
        return "zookeeper"
    return "clients" if "c" in ends and ends != {"c"} else None  # of brokers, and an administrator's of ZooKeeper
