"""Apache Kafka as a system under test, from its jars, as processes of this machine or in containers."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import assert_never

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from highwater.backends.real.clients.administrators import REQUESTS, Idle
from highwater.backends.real.clients.libraries import Clients
from highwater.backends.real.node.plain import PlainNode
from highwater.backends.real.node.runner import Runner
from highwater.backends.real.site import HostPort, Node
from highwater.backends.real.systems.kafka import builds, jars, metadata_log, power, settings
from highwater.backends.real.systems.kafka.administration import administrators_of, unadministrable
from highwater.backends.real.systems.kafka.controller import ControllerNode
from highwater.backends.real.systems.kafka.jvm import Shared
from highwater.backends.real.systems.kafka.node import KafkaNode
from highwater.backends.real.systems.kafka.quorum import QuorumCluster
from highwater.backends.real.systems.kafka.releases import Release, release_named
from highwater.backends.real.systems.kafka.versions import unfit, versions_of
from highwater.backends.real.systems.limits import (
    NO_QUORUM,
    NO_ZOOKEEPER,
    WITH_ADMINISTRATORS,
    WORKLOAD,
    administers,
    no_link,
    refusal,
)
from highwater.backends.real.systems.port import Administrator, Client, Cluster, ControllerWiring, Packing, Wiring
from highwater.backends.real.systems.zookeeper import ZooKeeperCluster
from highwater.plans.plan import Plan, system_of
from highwater.plans.systems import SystemSpec, version_of
from highwater.rig.commits import AnyCommit
from history.manifest import Source
from nemesis import faults
from nemesis.capability import ONE_PROTOCOL, OUTSIDE
from nemesis.faults import AnyFault
from nemesis.messages import AMONG_BROKERS, OF_CLIENTS, QUORUM_FETCH
from nemesis.targets import Controller as ControllerTarget
from reference.types import Address
from workloads.registry import COMPACTED, OF_SESSIONS, SHARE_GROUPS

NAME = "kafka"
# Between brokers of all releases. With ZooKeeper controllers send commands too, with KRaft brokers ask controllers.
_REQUESTS = ("fetch", "epoch-end", "write-txn-markers", "api-versions")
_COMMANDS = ("leader-and-isr", "stop-replica", "update-metadata", "controlled-shutdown", "alter-partition")
_OF_QUORUM = (*AMONG_BROKERS - {*_COMMANDS[:4]}, QUORUM_FETCH)
CONTROLS_TOO = (
    "each broker is a controller, too, and does not come or go alone: let controllers run apart, as with kafka:4.1.0-apart3"
)
BESIDE_HEAP_MB = 512  # of the memory of a container


def release_and_build(system: SystemSpec) -> tuple[Release, jars.Build | None]:
    """The release that a system names, or the user's build with what it stands for. UsageError if it cannot run here."""
    if system.jars is UNSET:
        return release_named(system.version), None
    build = builds.build_of(system.jars)
    return builds.release_in(build, system), build


class Kafka:
    """One release of Apache Kafka with the cluster of a plan. UsageError for a version that cannot be run here."""

    name = NAME

    def __init__(self, plan: Plan) -> None:
        release, self._own = release_and_build(system_of(plan))
        self._versions = versions_of(plan, release)
        self._plan = plan
        self._clients = Clients(plan)
        self._administrators = administrators_of(plan, release) if administers(plan) else None
        self.release: Release = release
        self.version = version_of(replace(system_of(plan), version=release.version, jars=UNSET))
        self.idempotence = all(each.idempotence for each in self._versions.every)
        self._sessions = all(each.sessions for each in self._versions.every)
        self.zookeeper = release.mode == "zookeeper"
        self.quorum = release.mode == "kraft"
        apart = system_of(plan).controllers
        self.controllers = 0 if apart is UNSET else apart
        self.observes: frozenset[Source] = frozenset({"coordination", "disks"})

    @property
    def files(self) -> Mapping[str, str]:
        """The jars of the release, which must be here, or of the user's build; of other releases of the run below their name."""
        builds_of_run = self._builds()
        tested = builds_of_run.pop(self.release.version)
        others = {f"{version}/{name}": digest for version, build in builds_of_run.items() for name, digest in build.files.items()}
        return {**tested.files, **others}

    def _builds(self) -> dict[str, jars.Build]:
        """The jars of each release of the run, by its version."""
        releases = self._versions.every
        return {
            each.version: self._own if self._own is not None and each == self.release else jars.fetched(each) for each in releases
        }

    def refuse(self) -> str | None:
        """What this release lacks on this machine and for this plan, in a sentence; None if nothing."""
        if self.controllers and not self.quorum:
            return f"kafka {self.version}: with ZooKeeper no controllers run apart from the brokers"
        led = next((window for window in self._plan.schedule if isinstance(window.target, ControllerTarget)), None)
        if self.controllers and led is not None:
            hits = "a controller apart from the brokers has the faults of ZooKeeper's servers"
            return f"window {led.id} ({led.kind}): kafka {self.version} has no broker that is controller; {hits}"
        if self._plan.workload.idempotent and not self.idempotence:
            return f"kafka {self.version} has no idempotent producers; the plan has {self._plan.workload.idempotent}"
        if self._plan.workload.membership == "consumer" and not all(each.coordinator_assigns for each in self._versions.every):
            return f"kafka {self.version} has no groups whose coordinator assigns (KIP-848): 4.0 and later have"
        shares = all(each.shares for each in self._versions.every)
        if self._plan.workload.name == SHARE_GROUPS and not shares:
            return f"kafka {self.version} has no share groups that are ready for production (KIP-932): 4.2 and later have"
        sessions = tuple(name for name in OF_SESSIONS if shares or name != SHARE_GROUPS)
        storms = WITH_ADMINISTRATORS if all(each.administrators for each in self._versions.every) else ()
        workloads = (WORKLOAD, *storms, *(sessions if self._sessions else ()), COMPACTED)
        lacking = refusal(self._plan, f"kafka {self.version}", self.lacks, workloads=workloads, requests=REQUESTS)
        lacking = lacking or unadministrable(self._plan, self._versions)
        return lacking or unfit(self._versions, self._plan) or self._missing()

    def _missing(self) -> str | None:
        """The first thing that this machine lacks for a release of the run, in a sentence; None if nothing."""
        own = self.release if self._own is not None else None
        found = (jars.java_missing(each) if each == own else jars.missing(each) for each in self._versions.every)
        return next((reason for reason in found if reason is not None), None)

    def lacks(self, fault: AnyFault) -> str | None:
        """Why a broker of this release cannot suffer the fault; None if it can."""
        match fault:
            case faults.ExpireSession() | faults.Restart(session_ends=True):
                return None if self.zookeeper else NO_ZOOKEEPER
            case faults.ZooKeeperDown(how="leave"):
                if not self.controllers:
                    return NO_QUORUM
                changes = all(each.voters_change for each in self._versions.every)
                return None if changes else "controllers leave a quorum and join it from 3.9 on (KIP-853)"
            case faults.ZooKeeperDown(how="roll"):
                return None if self.controllers else NO_QUORUM
            case faults.ZooKeeperDown() | faults.ZooKeeperLinks():
                return None if self._has_servers else NO_ZOOKEEPER
            case faults.Partition() | faults.Packets() | faults.Slow() | faults.Clog() | faults.Reset():
                of_controllers = _COMMANDS if self.zookeeper else _OF_QUORUM if not self.controllers else ()
                return no_link(fault, (*_REQUESTS, *of_controllers), OF_CLIENTS, zookeeper=self._has_servers)
            case faults.PowerLoss():
                return power.missing()
            case faults.DirFile(removed=True) | faults.DiskSwap():
                return "without its notes nobody can tell which losses an emptied directory excuses"
            case faults.DirFailure() | faults.DiskSlow():
                return "failing and slow disks are instruments inside of the reference's nodes"
            case faults.ClockJump() | faults.ClockDrift() | faults.ClockStrobe():
                return "under libfaketime the timed waits of a JVM end at the wrong moment"
            case faults.CrashAt() | faults.AnswerLost() | faults.AnswerLate() | faults.DeposedAt():
                return OUTSIDE
            case faults.Shutdown(protocol="legacy" | "kip343"):
                return ONE_PROTOCOL
            case faults.Pause() | faults.Crash() | faults.Restart() | faults.Shutdown() | faults.Roll():
                return None
            case faults.Join() | faults.Decommission():
                return None if self._has_servers else CONTROLS_TOO
            case faults.DirUnreadable() | faults.DirFile() | faults.DiskFull():
                return None
            case _:
                assert_never(fault)

    def unshared(self) -> str | None:
        """Why the brokers of this plan perform no other plan, in a sentence; None if they can."""
        if self.controllers:
            return "controllers that run apart from the brokers are started for one run"
        for window in self._plan.schedule:
            words = f"window {window.id} ({window.kind})"
            match window.fault:
                case faults.PowerLoss():
                    return f"{words} cuts the files of a broker back, those of other runs among them"
                case faults.Roll():
                    return f"{words} makes a broker another release"
                case faults.Join() | faults.Decommission():
                    return f"{words} changes which brokers the cluster has"
                case faults.DirUnreadable() | faults.DiskFull():
                    return f"{words} needs brokers that were started for it"
                case _:
                    pass
        return (
            "an administrator changes topics, and those of a shared cluster are told apart by name"
            if administers(self._plan)
            else None
        )

    def brokers(self) -> str:
        """The shape of the cluster and the settings of its brokers."""
        plan = self._plan
        cluster = replace(plan.cluster, topics=(), later=())
        own = settings.of_sessions(plan) | settings.of_compaction(plan)
        return msgspec.json.encode((system_of(plan), cluster, plan.workload.places, own)).decode()

    @property
    def _has_servers(self) -> bool:
        """Whether servers coordinate that are no brokers: ZooKeeper's, or controllers."""
        return self.zookeeper or self.controllers > 0

    @property
    def packing(self) -> Packing:
        """The base image, which has a JVM; the jars are read where they lie."""
        return Packing(image="base", memory_mb=max(each.heap_mb for each in self._versions.every) + BESIDE_HEAP_MB)

    def node(self, folder: Path, wiring: Wiring, runner: Runner) -> KafkaNode:
        """Prepare a broker in a folder of its own below `folder`."""
        return KafkaNode(folder, runner, wiring, self._shared())

    def _shared(self) -> Shared:
        return Shared(plan=self._plan, versions=self._versions, builds=self._builds())

    def cluster(self, zookeeper: str, brokers: Mapping[Address, HostPort]) -> Cluster:
        """The running cluster, through its ZooKeeper or its brokers."""
        if self.quorum:
            return QuorumCluster(brokers, servers=settings.controllers_at(zookeeper))
        return ZooKeeperCluster(zookeeper, brokers, negotiated=True, configured=True)

    def controller(self, folder: Path, wiring: ControllerWiring, runner: Runner) -> ControllerNode:
        """Prepare a controller apart from the brokers."""
        return ControllerNode(folder, runner, wiring, self._shared())

    def commits(self, controllers: Iterable[Node]) -> list[AnyCommit]:
        """What the metadata log of a cluster with KRaft says, as commits to ZooKeeper; all controllers must be down."""
        log_folders = [path for node in controllers if isinstance(node, PlainNode) for path in node.log_dirs[:1]]
        return metadata_log.as_commits(metadata_log.committed(log_folders))

    def administrator(self, name: Address, brokers: Mapping[Address, HostPort]) -> Administrator:
        """An administrator with Java's admin client; one who is never asked where nobody administers."""
        return Idle() if self._administrators is None else self._administrators.administrator(name, brokers)

    def client(self, name: Address, brokers: Mapping[Address, HostPort]) -> Client:
        """A client of the plan's library. Its transactional id and groups are those of no other plan."""
        return self._clients.client(name, brokers, run=f"-{self._plan.name}")
