"""A user's cluster that speaks Kafka's protocol (Metadata 8, so 2.3 or later) as a system under test.

Nothing is ever sent to an address that the file does not name: a node that advertises another address ends the run, before the
first client connects and at each later look.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import assert_never

from highwater.backends.real.clients.kafka import KafkaClient
from highwater.backends.real.node.runner import Runner
from highwater.backends.real.site import HostPort
from highwater.backends.real.systems.external.file import Hook, Hooks, addresses_of, load
from highwater.backends.real.systems.external.site import ExternalSite
from highwater.backends.real.systems.kafka.quorum import QuorumCluster
from highwater.backends.real.systems.limits import refusal, unused
from highwater.backends.real.systems.metadata import Told
from highwater.backends.real.systems.port import SystemNode, Wiring
from highwater.errors import HarnessError, UsageError
from highwater.plans.plan import Plan, system_of
from history.manifest import Source
from nemesis import faults
from nemesis.faults import AnyFault
from reference.types import Address, BrokerId
from server.runtime.health import ask
from server.wire.clients.apis import ApiKey
from server.wire.clients.topics import DeleteTopicsRequest, DeleteTopicsResponse
from server.wire.framing import WireError

NAME = "external"
WITH = "with"  # the setting that names the file
_DELETE_VERSION = 3
_DELETE_S = 30


class External:
    """The cluster that a file describes. UsageError for a file with mistakes, or none."""

    name = NAME
    files: Mapping[str, str] = {}
    observes: frozenset[Source] = frozenset()
    zookeeper = quorum = False
    packing = None
    idempotence = True

    def __init__(self, plan: Plan) -> None:
        setting = system_of(plan).settings.get(WITH)
        if setting is None:
            raise UsageError("system external needs the file that describes the cluster: --with FILE")
        path = Path(str(setting))
        self._plan = plan
        self._description = load(path)
        self._path = path
        self.version = system_of(plan).version or self._description.version
        self._hooks = Hooks(self._description, path.resolve().parent)
        self._addresses = addresses_of(self._description)

    def refuse(self) -> str | None:
        """What the file or the plan lacks, in a sentence; None if nothing."""
        brokers, places = self._plan.cluster.brokers, self._plan.workload.places
        if brokers != len(self._addresses):
            return f"{self._path} has {len(self._addresses)} nodes, the plan {brokers} brokers"
        if places > 1:
            return f"the clients of an external system are at one place, not {places}"
        return unused(self._plan, WITH) or refusal(self._plan, "the external system", self.lacks)

    def lacks(self, fault: AnyFault) -> str | None:
        """Why a fault cannot be injected: it needs a hook that the file does not name, or none can do it."""
        needed = _hooks_needed(fault)
        for hook in needed:
            if not self._hooks.has(hook):
                return f"{self._path} names no hook {hook}"
        return None if needed else "no hook can inject it"

    def site(self) -> ExternalSite:
        """The site of the user's cluster."""
        return ExternalSite(self._addresses, self._hooks)

    def node(self, folder: Path, wiring: Wiring, runner: Runner) -> SystemNode:
        """Never called: the nodes are the user's, and its site knows them."""
        raise AssertionError("the nodes of an external system are not made by the harness")

    def cluster(self, zookeeper: str, brokers: Mapping[Address, HostPort]) -> "ExternalCluster":
        """The running cluster, through its brokers."""
        return ExternalCluster(brokers, self._path)

    def client(self, name: Address, brokers: Mapping[Address, HostPort]) -> KafkaClient:
        """A librdkafka client."""
        return KafkaClient(name, brokers, request_timeout_ms=self._plan.workload.request_timeout_ms)


def _hooks_needed(fault: AnyFault) -> tuple[Hook, ...]:
    """The hooks that inject and undo a fault; empty if none can."""
    match fault:
        case faults.Crash() | faults.Restart(session_ends=False):
            return ("kill", "start")
        case faults.Shutdown(protocol="legacy" | "kip343"):
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
        case faults.Restart() | faults.PowerLoss() | faults.ExpireSession() | faults.ZooKeeperDown() | faults.ZooKeeperLinks():
            return ()
        case faults.CrashAt() | faults.AnswerLost() | faults.AnswerLate() | faults.DeposedAt():
            return ()
        case faults.DirUnreadable() | faults.DirFile() | faults.DirFailure():
            return ()
        case faults.DiskFull() | faults.DiskSlow() | faults.DiskSwap():
            return ()
        case _:
            assert_never(fault)


class ExternalCluster(QuorumCluster):
    """A user's running cluster. The topics of the plan must be new to it, and are deleted at the end."""

    exists_is_fine = False

    def __init__(self, brokers: Mapping[Address, HostPort], file: Path) -> None:
        super().__init__(brokers)
        self._file = file
        self._made: tuple[str, ...] = ()

    async def create_topics(self, plan: Plan) -> None:
        """Create the topics of the plan. HarnessError if one exists already."""
        await super().create_topics(plan)
        self._made = tuple(topic.name for topic in plan.cluster.topics)

    async def _leader(self) -> BrokerId | None:
        # Without KRaft nobody answers DescribeQuorum; then the first node stands for the controller.
        return await super()._leader() or BrokerId(1)

    async def _told(self, *, partitions: bool) -> dict[Address, Told | None]:
        told = await super()._told(partitions=partitions)
        named = set(self._brokers.values())
        for node, answer in told.items():
            for where in () if answer is None else answer.addresses:
                if where not in named:
                    raise HarnessError(f"{node} advertises {where[0]}:{where[1]}, which {self._file} does not name")
        return told

    def close(self) -> None:
        """Delete the topics that were created; a cluster that does not answer keeps them."""
        question = DeleteTopicsRequest(topic_names=self._made, timeout_ms=_DELETE_S * 1000)
        for where in self._brokers.values() if self._made else ():
            with suppress(OSError, WireError):
                answer = ask(
                    where, ApiKey.DELETE_TOPICS, _DELETE_VERSION, question, DeleteTopicsResponse, timeout_s=float(_DELETE_S)
                )
                if not any(answered_topic.error_code for answered_topic in answer.responses):
                    return


async def tried(description_file: Path) -> list[tuple[str, bool, str]]:
    """Try each hook on each node of a user's cluster: what was tried, whether it did what it should, and what was measured.

    HarnessError if a hook fails or a node does not answer at first.
    """
    description = load(description_file)
    hooks = Hooks(description, description_file.resolve().parent)
    site = ExternalSite(addresses_of(description), hooks)
    await site.open()
    await ExternalCluster(site.harness, description_file).gathered()
    attempts = []
    try:
        for node in site.nodes.values():
            for does, undoes in (("kill", "start"), ("terminate", "start"), ("pause", "resume")):
                if does not in description.hooks:
                    continue
                for name in (does, undoes):
                    proof = await (await getattr(node, name)())()
                    attempts.append((f"{node.address} {name}", bool(proof.holds), proof.detail))
        for first, second in ((first, second) for first in site.harness for second in site.harness if first != second):
            links: tuple[Hook, ...] = ("cut", "heal") if hooks.has("cut") else ()
            for hook in links:
                await asyncio.to_thread(hooks.run, hook, first, second)
                attempts.append((f"{first} {hook} {second}", True, "the hook ended well; its effect is not measured"))
    finally:
        await asyncio.to_thread(site.stop)
    return attempts
