"""A user's cluster that speaks Kafka's protocol (Metadata 8, so 2.3 or later) as a system under test.

Nothing is ever sent to an address that the file does not name: a node that advertises another address ends the run, before the
first client connects and at each later look.
"""

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from secrets import token_hex
from typing import assert_never

from msgspec import UNSET

from highwater.backends.real.clients.libraries import Clients
from highwater.backends.real.clients.settings import refused
from highwater.backends.real.node.runner import Runner
from highwater.backends.real.site import HostPort
from highwater.backends.real.systems.external.cluster import ExternalCluster
from highwater.backends.real.systems.external.file import (
    LOSE,
    Description,
    Hook,
    Hooks,
    addresses_of,
    doors_of,
    harness_addresses_of,
    load,
)
from highwater.backends.real.systems.external.site import LOOK_S, ExternalSite
from highwater.backends.real.systems.limits import WORKLOAD, no_link, refusal, unused
from highwater.backends.real.systems.port import Client, SystemNode, Wiring
from highwater.errors import HarnessError, UsageError
from highwater.plans.plan import Plan, system_of
from highwater.plans.scaled import beyond
from highwater.plans.systems import SystemSpec
from history.manifest import Source
from nemesis import faults
from nemesis.faults import AnyFault, picks_messages
from nemesis.messages import OF_CLIENTS
from reference.types import Address
from server.lab.power import Loss
from workloads.registry import OF_SESSIONS

NAME = "external"
WITH = "with"  # the setting that names the file
COMPLETE_S_MAX = 10.0  # for `systems check`: the cluster runs already


class External:
    """The cluster that a file describes. UsageError for a file with mistakes, or none."""

    name = NAME
    files: Mapping[str, str] = {}
    observes: frozenset[Source] = frozenset()
    zookeeper = quorum = False
    packing = None
    idempotence = True

    def __init__(self, plan: Plan) -> None:
        path = _path_of(system_of(plan))
        self._plan = plan
        self._description = load(path)
        self._path = path
        self.version = system_of(plan).version or self._description.version
        self._hooks = Hooks(self._description, path.resolve().parent)
        self._clients = Clients(plan)
        self._addresses = addresses_of(self._description)
        self._run = f"-{token_hex(4)}"

    @staticmethod
    def described(system: SystemSpec) -> Description:
        """The description of the cluster that a system names. UsageError for a file with mistakes, or none."""
        return load(_path_of(system))

    def refuse(self) -> str | None:
        """What the file or the plan lacks, in a sentence; None if nothing."""
        brokers, places = self._plan.cluster.brokers, self._plan.workload.places
        nodes = len(self._addresses)
        if brokers != nodes:
            reason = beyond(self._plan, nodes) or f"the plan is for {brokers} brokers"
            return f"{self._path} has {nodes} nodes, and {reason}"
        if places > 1:
            return f"the clients of an external system are at one place, not {places}"
        if self._description.clients and self._plan.workload.client is not UNSET:
            return f"{self._path}: clients: these are settings of librdkafka, not of {self._plan.workload.client}"
        wrong = refused(self._description.clients)
        if wrong is not None:
            return f"{self._path}: clients: {wrong}"
        workloads = (WORKLOAD, *OF_SESSIONS)
        return unused(self._plan, WITH) or refusal(self._plan, "the external system", self.lacks, workloads=workloads)

    def lacks(self, fault: AnyFault) -> str | None:
        """Why a fault cannot be injected: it needs a hook or a proxy that the file does not name, or neither can do it."""
        if isinstance(fault, faults.Partition | faults.Slow | faults.Clog | faults.Reset) and fault.links == ("clients",):
            if not doors_of(self._description):
                return f"{self._path} names no doors of its nodes, before which proxies for clients could stand"
            if picks_messages(fault) and "SSL" in str(self._description.clients.get("security.protocol", "")).upper():
                return "a proxy cannot tell apart what clients encrypt"
            return no_link(fault, (), OF_CLIENTS, zookeeper=False)
        needed = _hooks_needed(fault)
        for hook in needed:
            if not self._hooks.has(hook):
                return f"{self._path} names no hook {hook}"
        if "cut" in needed and len(self._addresses) == 1:
            return "a cluster of one node has no links between nodes"
        return None if needed else "no hook can inject it"

    def site(self) -> ExternalSite:
        """The site of the user's cluster."""
        return ExternalSite(self._addresses, self._hooks, harness_addresses_of(self._description), doors_of(self._description))

    def node(self, folder: Path, wiring: Wiring, runner: Runner) -> SystemNode:
        """Never called: the nodes are the user's, and its site knows them."""
        raise AssertionError("the nodes of an external system are not made by the harness")

    def cluster(self, zookeeper: str, brokers: Mapping[Address, HostPort]) -> ExternalCluster:
        """The running cluster, through its brokers."""
        return ExternalCluster(brokers, self._description, self._path, self._plan)

    def client(self, name: Address, brokers: Mapping[Address, HostPort]) -> Client:
        """A client of the plan's library."""
        return self._clients.client(name, brokers, run=self._run, settings=self._description.clients)


def _path_of(system: SystemSpec) -> Path:
    """The file that describes the cluster. UsageError if the system names none."""
    setting = system.settings.get(WITH)
    if setting is None:
        raise UsageError("system external needs the file that describes the cluster: --with FILE")
    return Path(str(setting))


def _hooks_needed(fault: AnyFault) -> tuple[Hook, ...]:
    """The hooks that inject and undo a fault; empty if none can."""
    match fault:
        case faults.Crash() | faults.Restart(session_ends=False):
            return ("kill", "start")
        case faults.Shutdown(protocol="legacy" | "kip343"):
            return ()
        case faults.Roll() | faults.Join() | faults.Decommission():
            return ()
        case faults.Shutdown():
            return ("terminate", "kill", "start")
        case faults.Pause():
            return ("pause", "resume")
        case faults.Partition(links=("peers",)) | faults.Clog(links=("peers",), kinds=()):
            return ("cut", "heal")
        case faults.Partition() | faults.Packets() | faults.Slow() | faults.Clog() | faults.Reset():
            return ()
        case faults.ClockJump() | faults.ClockDrift() | faults.ClockStrobe():
            return ()
        case faults.PowerLoss():
            return ("kill", LOSE, "start")
        case faults.Restart() | faults.ExpireSession() | faults.ZooKeeperDown() | faults.ZooKeeperLinks():
            return ()
        case faults.CrashAt() | faults.AnswerLost() | faults.AnswerLate() | faults.DeposedAt():
            return ()
        case faults.DirUnreadable() | faults.DirFile() | faults.DirFailure():
            return ()
        case faults.DiskFull() | faults.DiskSlow() | faults.DiskSwap():
            return ()
        case _:
            assert_never(fault)


async def try_hooks(description_file: Path) -> list[tuple[str, bool, str]]:
    """Try each hook on each node of a user's cluster: what was tried, whether it did what it should, and what was measured.

    HarnessError if the cluster is not as the file says, or a hook fails.
    """
    description = load(description_file)
    wrong = refused(description.clients)
    if wrong is not None:
        raise UsageError(f"{description_file}: clients: {wrong}")
    hooks = Hooks(description, description_file.resolve().parent)
    site = ExternalSite(addresses_of(description), hooks, harness_addresses_of(description), doors_of(description))
    cluster = ExternalCluster(site.harness, description, description_file)
    try:
        await site.open()
        attempts = [("cluster", True, await _wait_until_complete(cluster))]
        for node in site.nodes.values():
            for does, undoes in (("kill", "start"), ("terminate", "start"), ("pause", "resume")):
                if does not in description.hooks:
                    continue
                for name in (does, undoes):
                    proof = await (await getattr(node, name)())()
                    attempts.append((f"{node.address} {name}", bool(proof.holds), proof.detail))
        for node in site.nodes.values() if hooks.has(LOSE) else ():
            await node.kill()
            await node.lose_unflushed((), Loss(seed=0))
            attempts.append((f"{node.address} {LOSE}", True, "the hook ended well; what it undid is not measured"))
            proof = await (await node.start())()
            attempts.append((f"{node.address} start", bool(proof.holds), proof.detail))
        for first, second in ((first, second) for first in site.harness for second in site.harness if first != second):
            links: tuple[Hook, ...] = ("cut", "heal") if hooks.has("cut") else ()
            for hook in links:
                await asyncio.to_thread(hooks.run, hook, first, second)
                attempts.append((f"{first} {hook} {second}", True, "the hook ended well; its effect is not measured"))
    finally:
        await site.leave()
        await asyncio.to_thread(site.close)
    return attempts


async def _wait_until_complete(cluster: ExternalCluster) -> str:
    """Wait until each node lists all nodes; what the cluster is, in words. HarnessError if one does not within COMPLETE_S_MAX."""
    began_s = time.monotonic()
    while not await cluster.gathered():
        if time.monotonic() - began_s > COMPLETE_S_MAX:
            raise HarnessError(await cluster.lacking() or f"the cluster was not complete within {COMPLETE_S_MAX:.0f} s")
        await asyncio.sleep(LOOK_S)
    return cluster.words()
