"""The cluster of one run as processes of this machine, in one folder that is removed afterwards.

Every broker listens at a loopback address of its own, at one port for each client place: brokers tell clients where to find
other brokers, which is elsewhere for each place. Connections to it from brokers and clients, and its connections to
ZooKeeper, go through proxies of the harness (`links`), so that each link can be held, slowed, lossy or reset separately.
"""

import os
import random
from collections.abc import Iterable
from pathlib import Path

from highwater.backends.real.means import means
from highwater.backends.real.node.clocks import library, remove_all_faketime_memory
from highwater.backends.real.node.directories import MOUNT_NEEDS_ROOT, NO_SETPRIV, unprivileged_prefix
from highwater.backends.real.processes.conversation import of_kafka, of_quorum
from highwater.backends.real.processes.links import ProxyLinks
from highwater.backends.real.processes.runner import ProcessRunner
from highwater.backends.real.site import CLIENTS, HostPort, Life, end_all
from highwater.backends.real.systems.port import (
    Apart,
    ControllerWiring,
    System,
    SystemNode,
    Wiring,
    chronicle_of,
    controllers_of,
)
from highwater.backends.real.zookeeper.local import LocalZooKeeper, Server, free_port
from highwater.backends.real.zookeeper.servers import ServerProcess, commits
from highwater.plans.plan import Plan
from highwater.rig.commits import AnyCommit
from highwater.rig.scene import brokers_of, places_of
from highwater.run_folder import RunFolder
from nemesis.faults import AnyFault, picks_messages
from reference.types import Address, BrokerId, broker_address

_PROXIES = 254  # last number of the address at which the proxies of clients and ZooKeeper listen; a broker's own is its id
_WAYS = 100  # plus a broker's id: where the proxies to its peers listen, each at the peer's own port
_CONTROLLERS = 50  # plus a controller's number: its own address, if controllers run apart; plus _WAYS: its proxies to the others


def missing_for(plan: Plan) -> str | None:
    """What this machine lacks for a fault of this plan, in a sentence; None if nothing."""
    for window in plan.schedule:
        reason = _lack_for_fault(window.fault)
        if reason is not None:
            return f"window {window.id} ({window.kind}): {reason}"
    return None


def _lack_for_fault(fault: AnyFault) -> str | None:
    """What this machine lacks for the fault; None if nothing."""
    needed = means(fault)
    if needed == "fake-clock" and library() is None:
        return "wrong clocks need libfaketime, which is not installed (Debian, Ubuntu: apt install libfaketime)"
    if needed == "small-dirs" and os.geteuid():
        return MOUNT_NEEDS_ROOT
    if needed == "permissions" and unprivileged_prefix() is None:
        return NO_SETPRIV
    return None  # proxies do the rest


class ProcessSite:
    """The cluster of one run (brokers, ZooKeeper, network) as processes of this machine."""

    def __init__(self, plan: Plan, system: System, *, lasting: bool = False) -> None:
        """`lasting`: it is for other plans, too, of which one may have a fault of single messages."""
        self._plan = plan
        self._lasting = lasting
        self._system = system
        self._folder: RunFolder | None = None
        self._zookeeper: LocalZooKeeper | None = None
        # 127.x.y.0/24 is drawn, so that parallel runs differ. The kernel assigns the ports, so two runs may even share a network.
        chance = random.Random()
        self._net = f"127.{chance.randrange(16, 250)}.{chance.randrange(1, 255)}"
        self.links = ProxyLinks(f"{self._net}.{_PROXIES}", chance)
        self.nodes: dict[BrokerId, SystemNode] = {}
        self._ensemble: tuple[Server, ...] = ()
        self._controllers: tuple[SystemNode, ...] = ()
        self.servers: tuple[Life, ...] = ()
        self.zookeeper = ""
        self._peers: dict[Address, HostPort] = {}  # the listeners for other brokers
        self._quorum: dict[Address, HostPort] = {}  # the listeners for controllers
        self.clients: dict[Address, dict[Address, HostPort]] = {place: {} for place in places_of(plan)}
        self._doors: dict[Address, dict[Address, HostPort]] = {place: {} for place in places_of(plan)}  # without proxies
        self.harness: dict[Address, HostPort] = {}
        self.metrics: dict[Address, HostPort] = {}

    async def open(self) -> None:
        """Start the cluster's ZooKeeper, which serves when this returns, or its controllers; and prepare the brokers."""
        self._folder = RunFolder()
        if self._system.zookeeper:
            # Not in a worker thread: the kernel kills the server when the thread that started it ends.
            self._zookeeper = LocalZooKeeper(self._plan.cluster.zookeeper)
            self._zookeeper.__enter__()
            self.zookeeper = self._zookeeper.address
            self._ensemble = self._zookeeper.servers
            self.servers = tuple(ServerProcess(server) for server in self._ensemble)
        brokers = brokers_of(self._plan)
        apart = controllers_of(self._system)
        for number in range(1, apart + 1):
            host = f"{self._net}.{_CONTROLLERS + number}"
            self._quorum[Address(f"z{number}")] = (host, self._free_port_on(host))
        # Clients' bytes are parsed only for a fault of single messages: it costs time.
        picks = self._lasting or any(picks_messages(window.fault) for window in self._plan.schedule)
        conversation = of_kafka if picks else None
        for broker in brokers:
            address = broker_address(broker)
            host = f"{self._net}.{broker}"
            self._peers[address] = (host, self._free_port_on(host))
            if self._system.quorum and not apart:
                self._quorum[address] = (host, self._free_port_on(host))
            for place, doors in self._doors.items():
                doors[address] = (host, free_port(host))
                self.clients[place][address] = await self.links.wire(place, address, doors[address], conversation=conversation)
            self.harness[address] = self._doors[CLIENTS][address]
            self.metrics[address] = (host, free_port(host))
        for broker in brokers:
            runner = ProcessRunner(broker_address(broker))
            self.nodes[broker] = self._system.node(self._folder.path, await self._wiring_of(broker), runner)
        if isinstance(self._system, Apart) and apart:
            self.zookeeper = ",".join(f"{host}:{port}" for host, port in self._quorum.values())
            self.servers = self._controllers = await self._controllers_of(self._system, self._folder.path)
            for controller in self._controllers:
                await controller.start()

    async def _controllers_of(self, system: Apart, folder: Path) -> tuple[SystemNode, ...]:
        """The controllers that run apart from the brokers, each of which reaches the others through proxies."""
        return tuple(
            [
                system.controller(
                    folder,
                    ControllerWiring(
                        controller=me,
                        ways=await self._ways_to_controllers(me, f"{self._net}.{_WAYS + _CONTROLLERS + number}"),
                        quorum=self._quorum,
                    ),
                    ProcessRunner(me),
                )
                for number, me in enumerate(self._quorum, 1)
            ]
        )

    async def _ways_to_controllers(self, me: Address, host: str) -> dict[Address, HostPort]:
        """The proxies from a node to all other controllers, at an address of its own."""
        return {
            peer: await self.links.wire(me, peer, target, conversation=of_quorum, at=(host, target[1]))
            for peer, target in self._quorum.items()
            if peer != me
        }

    async def _wiring_of(self, broker: BrokerId) -> Wiring:
        """The addresses of a broker; each peer and ZooKeeper server is reached over a proxy."""
        me = broker_address(broker)
        host = f"{self._net}.{_WAYS + broker}"
        return Wiring(
            broker=broker,
            peers=self._peers[me],
            ways=await self._ways_to_controllers(me, host)
            | {
                peer: await self.links.wire(me, peer, target, conversation=of_kafka, at=(host, target[1]))
                for peer, target in self._peers.items()
                if peer != me
            },
            doors={place: doors[me] for place, doors in self._doors.items()},
            advertised=self.clients,
            metrics=self.metrics[me],
            quorum=self._quorum,
            zookeeper=tuple([await self.links.wire(me, server.address, server.client) for server in self._ensemble]),
        )

    def _free_port_on(self, host: str) -> int:
        """A free port that no other listener for brokers has: the ways to all peers of a broker share an address."""
        taken_ports = {port for _, port in (*self._peers.values(), *self._quorum.values())}
        while (port := free_port(host)) in taken_ports:
            pass
        return port

    def commits(self) -> Iterable[AnyCommit]:
        """The changes that ZooKeeper committed, from the servers' transaction logs; without it, from the controllers' disks."""
        chronicle = chronicle_of(self._system)
        return commits(self._ensemble) if chronicle is None else chronicle.commits(self._controllers or self.nodes.values())

    async def leave(self) -> None:
        """Close the proxies that apply network faults."""
        await self.links.close()

    def stop(self) -> None:
        """Kill all brokers, and controllers."""
        end_all(node.end for node in (*self.nodes.values(), *self._controllers))

    def close(self) -> None:
        """End all processes of the run and remove its files."""
        nodes = (*self.nodes.values(), *self._controllers)
        closers = [*(node.end for node in nodes), *(node.release for node in nodes)]
        end_all([*closers, self._stop_zookeeper, self._remove_folder])

    def _stop_zookeeper(self) -> None:
        if self._zookeeper is not None:
            self._zookeeper.stop()

    def _remove_folder(self) -> None:
        """Remove the files of the run and what libfaketime left in memory."""
        if self._folder is not None:
            remove_all_faketime_memory(self._folder.path)  # also of a life whose start was interrupted
            self._folder.remove()
            self._folder = None
