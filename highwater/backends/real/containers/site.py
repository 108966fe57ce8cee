"""The cluster of one run in Docker containers, with networks of its own.

The harness reaches containers by their addresses and shares folders with them. It therefore has to run on the engine's machine,
under Linux.
"""

import asyncio
import os
from collections.abc import Iterable, Sequence
from functools import partial

from highwater.backends.real.containers.engine import Engine
from highwater.backends.real.containers.links import AgentClient, ContainerLinks
from highwater.backends.real.containers.node import (
    ANYWHERE,
    CLIENTS_PORT,
    PEERS_PORT,
    ZOOKEEPER_PORT,
    NodeContainer,
    ServerContainer,
)
from highwater.backends.real.containers.place import Grounds, Place, make_grounds, make_place
from highwater.backends.real.node.folder import Start, needs_of
from highwater.backends.real.run_folder import RunFolder
from highwater.backends.real.site import CLIENTS, HostPort, end_all
from highwater.backends.real.zookeeper.servers import commits
from highwater.errors import HarnessError
from highwater.plans.plan import Plan
from highwater.rig.commits import AnyCommit
from highwater.rig.scene import broker_config, brokers_of
from reference.types import Address, BrokerId, broker_address
from server.runtime.settings import Listener


class ContainerSite:
    """The cluster of one run (brokers, ZooKeeper, network) in Docker containers."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._engine: Engine | None = None
        self._folder: RunFolder | None = None
        self.links = ContainerLinks()
        self.nodes: dict[BrokerId, NodeContainer] = {}
        self.servers: tuple[ServerContainer, ...] = ()
        self.clients: dict[Address, dict[Address, HostPort]] = {}  # all clients are one place: the host
        self.harness: dict[Address, HostPort] = {}
        self.zookeeper = ""

    async def open(self) -> None:
        """Build the cluster in containers; ZooKeeper serves when this returns."""
        engine = self._engine = Engine()
        self._folder = RunFolder()
        grounds = await asyncio.to_thread(make_grounds, engine, self._folder)
        servers = [Address(f"z{number}") for number in range(1, self._plan.cluster.zookeeper + 1)]
        brokers = [broker_address(broker) for broker in brokers_of(self._plan)]
        made = await asyncio.gather(*(asyncio.to_thread(make_place, engine, grounds, name) for name in (*servers, *brokers)))
        places = {place.name: place for place in made}
        self.servers = tuple(
            ServerContainer(engine, grounds, places[name], [places[other] for other in servers]) for name in servers
        )
        started = await asyncio.gather(*(server.start() for server in self.servers))
        self._make_nodes(engine, grounds, places)
        await self._open_links(grounds, places)
        for proof in await asyncio.gather(*(serves() for serves in started)):
            if not proof.holds:
                raise HarnessError(f"ZooKeeper did not come up: {proof.detail}")

    def _make_nodes(self, engine: Engine, grounds: Grounds, places: dict[Address, Place]) -> None:
        self.zookeeper = ",".join(f"{places[server.address].harness}:{ZOOKEEPER_PORT}" for server in self.servers)
        ensemble = ",".join(f"{places[server.address].address}:{ZOOKEEPER_PORT}" for server in self.servers)
        brokers = [broker_address(broker) for broker in brokers_of(self._plan)]
        self.clients = {CLIENTS: {name: (places[name].address, CLIENTS_PORT) for name in brokers}}
        self.harness = {name: (places[name].harness, CLIENTS_PORT) for name in brokers}
        for broker in brokers_of(self._plan):
            me = broker_address(broker)
            start = Start(
                config=broker_config(self._plan, broker),
                zookeeper=ensemble,
                peers=_listener(places, PEERS_PORT, [name for name in brokers if name != me]),
                clients=(_listener(places, CLIENTS_PORT, brokers),),
                needs=needs_of(self._plan),
                user=grounds.user if grounds.user != os.getuid() else None,
            )
            self.nodes[broker] = NodeContainer(engine, grounds, places[me], start)

    async def _open_links(self, grounds: Grounds, places: dict[Address, Place]) -> None:
        agents = {name: AgentClient(place.socket, name) for name, place in places.items()}
        addresses = {name: place.address for name, place in places.items()} | {CLIENTS: grounds.network.gateway}
        await self.links.open(addresses, agents)
        await asyncio.gather(*(agent.open() for agent in agents.values()))

    def commits(self) -> Iterable[AnyCommit]:
        """The changes that ZooKeeper committed, from the servers' transaction logs."""
        return commits(self.servers)

    async def leave(self) -> None:
        """Close the connections to the agents that apply network faults."""
        await self.links.close()

    def stop(self) -> None:
        """Kill all brokers."""
        end_all(node.process.end for node in self.nodes.values())

    def close(self) -> None:
        """Remove all containers, networks and files of the run."""
        end_all([self._remove_made, *(node.release for node in self.nodes.values()), self._remove_folder])
        # Keep the engine until everything is removed, so that a second call can try the rest again.
        if self._engine is not None:
            self._engine.close()
        self._engine = self._folder = None

    def _remove_made(self) -> None:
        if self._engine is not None and self._folder is not None:
            end_all(partial(self._engine.remove, left) for left in self._engine.left(self._folder.run))

    def _remove_folder(self) -> None:
        if self._folder is not None:
            self._folder.remove()


def _listener(places: dict[Address, Place], port: int, brokers: Sequence[Address]) -> Listener:
    """A listener that advertises each broker's address in the run's network, at one port for all."""
    return Listener(bind=f"{ANYWHERE}:{port}", advertised={name: f"{places[name].address}:{port}" for name in brokers})
