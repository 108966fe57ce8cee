"""A site of processes: `highwater.backends.real.site` on one machine, in one folder that is gone afterwards.

Every broker listens at a loopback address of its own, and every connection to it, and from it to ZooKeeper, goes through a proxy
of the laboratory (`proxy_links`): the link of each pair can be held, slow, lossy or reset by itself.
"""

import os
import random
from collections.abc import Iterable, Mapping
from pathlib import Path

from highwater.backends.real.clocks import forget_all, library
from highwater.backends.real.directories import obeying
from highwater.backends.real.ending import end_all
from highwater.backends.real.node_folder import Start, needs_of
from highwater.backends.real.processes.conversation import between_brokers
from highwater.backends.real.processes.links import ProxyLinks
from highwater.backends.real.processes.nodes import NodeProcess
from highwater.backends.real.run_folder import RunFolder
from highwater.backends.real.servers import ServerProcess, commits
from highwater.backends.real.site import CLIENTS, HostPort
from highwater.backends.real.zookeeper import LocalZooKeeper, Server, free_port
from highwater.plans.plan import Plan
from highwater.rig.commits import AnyCommit
from highwater.rig.scene import broker_config, brokers_of
from nemesis.faults import AnyFault, ClockDrift, ClockJump, ClockStrobe, DirUnreadable, DiskFull
from reference.types import Address, BrokerId, broker_address
from server.runtime.settings import Listener

_PROXIES = 254  # last part of the address at which all proxies of a run listen; brokers have their numbers


def lacking(plan: Plan) -> str | None:
    """What this machine lacks for a fault of this plan, in a sentence; None where it has all of it."""
    for window in plan.schedule:
        why = _lacking(window.fault)
        if why is not None:
            return f"window {window.id} ({window.kind}): {why}"
    return None


def _lacking(fault: AnyFault) -> str | None:
    if isinstance(fault, ClockJump | ClockDrift | ClockStrobe) and library() is None:
        return "libfaketime is not installed on this machine (apt install libfaketime)"
    if isinstance(fault, DiskFull) and os.geteuid():
        return "only root can mount a small file system"
    if isinstance(fault, DirUnreadable) and obeying() is None:
        return "root ignores permissions, and setpriv of util-linux, which changes that, is not installed"
    return None


class ProcessSite:
    """What the stage plays a plan on."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._folder: RunFolder | None = None
        self._zookeeper: LocalZooKeeper | None = None
        # 127.x.y.0/24: runs side by side do not meet. The system gives out the ports, so a collision would only share addresses.
        chance = random.Random()
        self._net = f"127.{chance.randrange(16, 250)}.{chance.randrange(1, 255)}"
        self.links = ProxyLinks(f"{self._net}.{_PROXIES}", chance)
        self.nodes: dict[BrokerId, NodeProcess] = {}
        self._ensemble: tuple[Server, ...] = ()
        self.servers: tuple[ServerProcess, ...] = ()
        self.zookeeper = ""
        self._peers: dict[Address, HostPort] = {}  # where brokers listen for each other
        self.clients: dict[Address, HostPort] = {}
        self.laboratory: dict[Address, HostPort] = {}

    async def open(self) -> None:
        """ZooKeeper runs when this returns."""
        self._folder = RunFolder()
        # In this thread: the kernel ends the server with the thread that started it.
        self._zookeeper = LocalZooKeeper(self._plan.cluster.zookeeper)
        self._zookeeper.__enter__()
        self.zookeeper = self._zookeeper.address
        self._ensemble = self._zookeeper.servers
        self.servers = tuple(ServerProcess(server) for server in self._ensemble)
        brokers = brokers_of(self._plan)
        for broker in brokers:
            address, host = broker_address(broker), f"{self._net}.{broker}"
            self._peers[address] = (host, free_port(host))
            self.laboratory[address] = (host, free_port(host))
            self.clients[address] = await self.links.wire(CLIENTS, address, self.laboratory[address])
        for broker in brokers:
            self.nodes[broker] = await self._node(self._folder.path, broker)

    async def _node(self, folder: Path, broker: BrokerId) -> NodeProcess:
        me = broker_address(broker)
        zookeeper = [await self.links.wire(me, server.address, server.client) for server in self._ensemble]
        ways = {
            peer: await self.links.wire(me, peer, target, conversation=between_brokers)
            for peer, target in self._peers.items()
            if peer != me
        }
        start = Start(
            config=broker_config(self._plan, broker),
            zookeeper=",".join(map(_text, zookeeper)),
            peers=_listener(self._peers[me], ways),
            clients=_listener(self.laboratory[me], self.clients),
            needs=needs_of(self._plan),
        )
        return NodeProcess(folder, start)

    def commits(self) -> Iterable[AnyCommit]:
        """From the transaction logs of ZooKeeper."""
        return commits(self._ensemble)

    async def leave(self) -> None:
        """Nothing of it uses the loop any more."""
        await self.links.close()

    def stop(self) -> None:
        """No broker runs any more."""
        end_all(node.end for node in self.nodes.values())

    def close(self) -> None:
        """No process and no file is left."""
        end_all([*(node.close for node in self.nodes.values()), self._stop_zookeeper, self._remove_folder])

    def _stop_zookeeper(self) -> None:
        if self._zookeeper is not None:
            self._zookeeper.stop()

    def _remove_folder(self) -> None:
        if self._folder is not None:
            forget_all(self._folder.path)  # of every life, one that an interrupt met on its way too
            self._folder.remove()
            self._folder = None


def _text(where: HostPort) -> str:
    return f"{where[0]}:{where[1]}"


def _listener(bind: HostPort, ways: Mapping[Address, HostPort]) -> Listener:
    return Listener(bind=_text(bind), advertised={address: _text(way) for address, way in ways.items()})
