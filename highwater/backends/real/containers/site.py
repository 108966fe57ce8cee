"""The cluster of one run in Docker containers, with networks of its own.

The harness reaches containers by their addresses and shares folders with them. It therefore has to run on the engine's machine,
under Linux.
"""

import asyncio
import itertools
from collections.abc import Iterable
from functools import partial

from highwater.backends.real.containers.engine import Engine
from highwater.backends.real.containers.links import AgentClient, ContainerLinks
from highwater.backends.real.containers.place import Grounds, Place, make_grounds, make_place
from highwater.backends.real.containers.runner import ContainerRunner
from highwater.backends.real.containers.server import ANYWHERE, ZOOKEEPER_PORT, ServerContainer
from highwater.backends.real.processes.conversation import of_kafka
from highwater.backends.real.site import CLIENTS, HostPort, end_all
from highwater.backends.real.systems.port import System, SystemNode, Wiring, chronicle_of
from highwater.backends.real.zookeeper.servers import commits
from highwater.errors import HarnessError
from highwater.plans.plan import Plan
from highwater.rig.commits import AnyCommit
from highwater.rig.scene import brokers_of
from highwater.run_folder import RunFolder
from nemesis.faults import Clog
from reference.types import Address, BrokerId, broker_address

PEERS_PORT, CLIENTS_PORT, QUORUM_PORT, METRICS_PORT = 9091, 9092, 9093, 9094
_WAYS = 100


class ContainerSite:
    """The cluster of one run (brokers, ZooKeeper, network) in Docker containers."""

    def __init__(self, plan: Plan, system: System) -> None:
        self._plan = plan
        self._system = system
        self._proxied = any(isinstance(window.fault, Clog) and window.fault.kinds for window in plan.schedule)
        self._engine: Engine | None = None
        self._folder: RunFolder | None = None
        self.links = ContainerLinks()
        self.nodes: dict[BrokerId, SystemNode] = {}
        self.runners: dict[BrokerId, ContainerRunner] = {}
        self.servers: tuple[ServerContainer, ...] = ()
        self.clients: dict[Address, dict[Address, HostPort]] = {}  # all clients are one place: the host
        self.harness: dict[Address, HostPort] = {}
        self.metrics: dict[Address, HostPort] = {}
        self.zookeeper = ""

    async def open(self) -> None:
        """Build the cluster in containers; ZooKeeper serves when this returns."""
        engine = self._engine = Engine()
        self._folder = RunFolder()
        grounds = await asyncio.to_thread(make_grounds, engine, self._folder)
        count = self._plan.cluster.zookeeper if self._system.zookeeper else 0
        servers = [Address(f"z{number}") for number in range(1, count + 1)]
        brokers = [broker_address(broker) for broker in brokers_of(self._plan)]
        made_places = await asyncio.gather(
            *(asyncio.to_thread(make_place, engine, grounds, name) for name in (*servers, *brokers))
        )
        places = {place.name: place for place in made_places}
        self.servers = tuple(
            ServerContainer(engine, grounds, places[name], [places[member_server] for member_server in servers])
            for name in servers
        )
        probes = await asyncio.gather(*(server.start() for server in self.servers))
        self._make_nodes(engine, grounds, places)
        await self._open_links(grounds, places)
        for proof in await asyncio.gather(*(is_serving() for is_serving in probes)):
            if not proof.holds:
                raise HarnessError(f"ZooKeeper did not come up: {proof.detail}")

    def _make_nodes(self, engine: Engine, grounds: Grounds, places: dict[Address, Place]) -> None:
        """Make a node for each broker, and note where clients and harness reach it."""
        self.zookeeper = ",".join(f"{places[server.address].harness}:{ZOOKEEPER_PORT}" for server in self.servers)
        brokers = [broker_address(broker) for broker in brokers_of(self._plan)]
        self.clients = {CLIENTS: {name: (places[name].address, CLIENTS_PORT) for name in brokers}}
        self.harness = {name: (places[name].harness, CLIENTS_PORT) for name in brokers}
        self.metrics = {name: (places[name].harness, METRICS_PORT) for name in brokers}
        packing = self._system.packing
        assert packing is not None, "a system that has no container is refused before the run"
        for broker in brokers_of(self._plan):
            runner = ContainerRunner(engine, grounds, places[broker_address(broker)], packing)
            self.runners[broker] = runner
            self.nodes[broker] = self._system.node(grounds.folder.path, self._wiring(broker, places), runner)

    def _wiring(self, broker: BrokerId, places: dict[Address, Place]) -> Wiring:
        """The addresses of a broker, its peers and ZooKeeper; brokers reach each other by a proxy if faults need one."""
        me = broker_address(broker)
        names = [broker_address(other_broker) for other_broker in brokers_of(self._plan)]
        peers = {name: (places[name].address, PEERS_PORT) for name in names}
        ways = {name: _way(name) for name in names} if self._proxied else peers
        return Wiring(
            broker=broker,
            peers=peers[me],
            ways={name: way for name, way in ways.items() if name != me},
            doors={CLIENTS: (ANYWHERE, CLIENTS_PORT)},
            advertised=self.clients,
            metrics=(ANYWHERE, METRICS_PORT),
            quorum={name: (places[name].address, QUORUM_PORT) for name in names} if self._system.quorum else {},
            zookeeper=tuple(server.client for server in self.servers),
        )

    async def _open_links(self, grounds: Grounds, places: dict[Address, Place]) -> None:
        """Connect to the agents, and put proxies between brokers if faults hold back kinds of messages."""
        agents = {name: AgentClient(place.socket, name) for name, place in places.items()}
        addresses = {name: place.address for name, place in places.items()} | {CLIENTS: grounds.network.gateway}
        await self.links.open(addresses, agents)
        await asyncio.gather(*(agent.open() for agent in agents.values()))
        brokers = [broker_address(broker) for broker in self.nodes] if self._proxied else []
        for me, peer in itertools.permutations(brokers, 2):
            await self.links.wire(me, peer, (addresses[peer], PEERS_PORT), at=_way(peer), conversation=of_kafka)
            if self._system.quorum:  # a system may know its peers by one host name for all ports
                await self.links.wire(me, peer, (addresses[peer], QUORUM_PORT), at=(_way(peer)[0], QUORUM_PORT))

    def commits(self) -> Iterable[AnyCommit]:
        """The changes that ZooKeeper committed, from the servers' transaction logs; without it, from the brokers' disks."""
        chronicle = chronicle_of(self._system)
        return commits(self.servers) if chronicle is None else chronicle.commits(self.nodes.values())

    async def leave(self) -> None:
        """Close the connections to the agents that apply network faults."""
        await self.links.close()

    def stop(self) -> None:
        """Kill all brokers."""
        end_all(node.end for node in self.nodes.values())

    def close(self) -> None:
        """Remove all containers, networks and files of the run."""
        end_all([self._remove_made, *(node.release for node in self.nodes.values()), self._remove_folder])
        # Keep the engine until everything is removed, so that a second call can try the rest again.
        if self._engine is not None:
            self._engine.close()
        self._engine = self._folder = None

    def _remove_made(self) -> None:
        if self._engine is not None and self._folder is not None:
            end_all(partial(self._engine.remove, leftover) for leftover in self._engine.left(self._folder.run))

    def _remove_folder(self) -> None:
        if self._folder is not None:
            self._folder.remove()


def _way(peer: Address) -> HostPort:
    """Where a broker finds the proxy to a peer, in its own network."""
    return f"127.0.0.{_WAYS + int(peer.removeprefix('b'))}", PEERS_PORT
