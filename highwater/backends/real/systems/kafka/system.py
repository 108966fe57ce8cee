"""Apache Kafka as a system under test, from its jars, as processes of this machine or in containers."""

import asyncio
import os
import re
import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import assert_never

from msgspec import UNSET, Struct

from highwater.backends.real.clients.libraries import Clients
from highwater.backends.real.means import means_of
from highwater.backends.real.node.plain import PlainNode, Prepared, Shape
from highwater.backends.real.node.runner import Launch, Runner
from highwater.backends.real.site import HostPort, Node, Probe
from highwater.backends.real.systems.kafka import builds, jars, metadata_log, power, segments, settings
from highwater.backends.real.systems.kafka.log_lines import notes_of
from highwater.backends.real.systems.kafka.quorum import QuorumCluster
from highwater.backends.real.systems.kafka.releases import Release, release_named
from highwater.backends.real.systems.limits import NO_ZOOKEEPER, WORKLOAD, no_link, refusal
from highwater.backends.real.systems.port import Client, Cluster, Packing, Wiring
from highwater.backends.real.systems.zookeeper import ZooKeeperCluster
from highwater.errors import HarnessError
from highwater.plans.plan import Plan, SystemSpec, system_of
from highwater.rig.commits import AnyCommit
from history.manifest import Source
from nemesis import faults
from nemesis.capability import ONE_PROTOCOL, OUTSIDE
from nemesis.faults import AnyFault
from nemesis.messages import AMONG_BROKERS, OF_CLIENTS, QUORUM_FETCH
from reference.events import DirImage
from reference.types import Address, TopicPartition
from server.lab.notes import NoteLine
from server.lab.power import Loss, Wound
from workloads.registry import OF_SESSIONS

NAME = "kafka"
# Between brokers of all releases. With ZooKeeper controllers send commands too, with KRaft brokers ask controllers.
_REQUESTS = ("fetch", "epoch-end", "write-txn-markers", "api-versions")
_COMMANDS = ("leader-and-isr", "stop-replica", "update-metadata", "controlled-shutdown", "alter-partition")
_OF_QUORUM = (*AMONG_BROKERS - {*_COMMANDS[:4]}, QUORUM_FETCH)
# 2.0 and later log no level FATAL.
_FATAL = re.compile(r"\] FATAL |Fatal error|Exiting Kafka|Shutdown broker because|^Exception in thread|^Error: ")
BESIDE_HEAP_MB = 512  # of the memory of a container
SESSION_SLACK_S = 1.0  # after its timeout, until ZooKeeper has ended the session of a broker that was killed


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
        self._plan = plan
        self._clients = Clients(plan)
        self.release: Release = release
        self.version = release.version
        self.idempotence = release.idempotence
        self.zookeeper = release.mode == "zookeeper"
        self.quorum = release.mode == "kraft"
        self.observes: frozenset[Source] = frozenset({"coordination", "disks"})

    @property
    def files(self) -> Mapping[str, str]:
        """The jars of the release, which must be here, or of the user's build."""
        return self._build().files

    def _build(self) -> jars.Build:
        return self._own or jars.fetched(self.release)

    def refuse(self) -> str | None:
        """What this release lacks on this machine and for this plan, in a sentence; None if nothing."""
        if self._plan.workload.idempotent and not self.idempotence:
            return f"kafka {self.version} has no idempotent producers; the plan has {self._plan.workload.idempotent}"
        workloads = (WORKLOAD, *(OF_SESSIONS if self.release.sessions else ()))
        missing = jars.missing if self._own is None else jars.java_missing
        return refusal(self._plan, f"kafka {self.version}", self.lacks, workloads=workloads) or missing(self.release)

    def lacks(self, fault: AnyFault) -> str | None:
        """Why a broker of this release cannot suffer the fault; None if it can."""
        match fault:
            case faults.ExpireSession() | faults.ZooKeeperDown() | faults.ZooKeeperLinks() | faults.Restart(session_ends=True):
                return None if self.zookeeper else NO_ZOOKEEPER
            case faults.Partition() | faults.Packets() | faults.Slow() | faults.Clog() | faults.Reset():
                requests = (*_REQUESTS, *(_COMMANDS if self.zookeeper else _OF_QUORUM))
                return no_link(fault, requests, OF_CLIENTS, zookeeper=self.zookeeper)
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
            case faults.Pause() | faults.Crash() | faults.Restart() | faults.Shutdown():
                return None
            case faults.DirUnreadable() | faults.DirFile() | faults.DiskFull():
                return None
            case _:
                assert_never(fault)

    @property
    def packing(self) -> Packing:
        """The base image, which has a JVM; the jars are read where they lie."""
        return Packing(image="base", memory_mb=self.release.heap_mb + BESIDE_HEAP_MB)

    def node(self, folder: Path, wiring: Wiring, runner: Runner) -> "KafkaNode":
        """Prepare a broker in a folder of its own below `folder`."""
        return KafkaNode(folder, runner, Broker(wiring=wiring, plan=self._plan, release=self.release, build=self._build()))

    def cluster(self, zookeeper: str, brokers: Mapping[Address, HostPort]) -> Cluster:
        """The running cluster, through its ZooKeeper or its brokers."""
        if self.quorum:
            return QuorumCluster(brokers)
        return ZooKeeperCluster(zookeeper, brokers, negotiated=True, configured=True)

    def commits(self, nodes: Iterable[Node]) -> list[AnyCommit]:
        """What the metadata log of a cluster with KRaft says, as commits to ZooKeeper; all brokers must be down."""
        log_folders = [path for node in nodes if isinstance(node, KafkaNode) for path in node.log_dirs[:1]]
        return metadata_log.commits_of(metadata_log.committed(log_folders))

    def client(self, name: Address, brokers: Mapping[Address, HostPort]) -> Client:
        """A client of the plan's library."""
        return self._clients.client(name, brokers)


class Broker(Struct, frozen=True, kw_only=True):
    """One broker of a plan: its addresses, the release that it runs, and its jars."""

    wiring: Wiring
    plan: Plan
    release: Release
    build: jars.Build


class KafkaNode(PlainNode):
    """One Kafka broker through all its restarts. Its log says when it truncated and led."""

    def __init__(self, folder: Path, runner: Runner, broker: Broker) -> None:
        plan, self._wiring = broker.plan, broker.wiring
        self._plan = plan
        self._release = broker.release
        self._needs = means_of(plan)
        self._ended = (0, 0.0)  # the life that the harness ended last, and when
        shape = Shape(dirs=plan.cluster.log_dirs, needs=self._needs)
        super().__init__(folder, broker.wiring.broker, runner, self._java, shape=shape)
        self._build = broker.build
        self._jars = runner.reads(broker.build.folder)
        self._flushes = power.FlushRecord(self._folder, self.log_dirs) if _loses_power(plan) else None
        self._began: list[int] = []  # where the output of each life begins, in bytes

    async def start(self) -> Probe:
        """Start the broker anew, once its last session is over: an old release gives up if its registration still stands.

        HarnessError if the user's build is another one by now.
        """
        if self._build.stamps and not builds.is_unchanged(self._build):
            raise HarnessError(f"the jars in {self._build.folder} were changed during the run")
        life, ended_s = self._ended
        if life and self._release.mode == "zookeeper":
            rest_s = self._plan.cluster.session_timeout_ms / 1000 + SESSION_SLACK_S
            await asyncio.sleep(max(0.0, ended_s + rest_s - time.monotonic()))
        self._began.append(self._output.stat().st_size if self._output.exists() else 0)
        return await super().start()

    async def kill(self) -> Probe:
        """Send the broker SIGKILL and wait for the end."""
        if self._ended[0] < self.life:
            self._ended = (self.life, time.monotonic())
        return await super().kill()

    def notes(self) -> list[NoteLine]:
        """What the broker's log says of its replicas. Not complete: no checker relies on it."""
        return notes_of(self.address, self._output, self._began)

    async def lose_unflushed(self, dirs: Sequence[int], how: Loss) -> tuple[Wound, ...]:
        """Cut the broker's segments back to what was flushed, or a drawn part of the rest; returns what was lost."""
        assert self._flushes is not None, "the plan has a power loss"
        try:
            # Undoing an unflushed truncation writes the truncated bytes again; a full directory has no room for them.
            with self._dirs.sound(dirs):
                return await asyncio.to_thread(self._flushes.lose_unflushed, dirs, how)
        except (OSError, ValueError) as error:
            raise HarnessError(f"removing the unflushed data of {self.address}: {error}") from error

    def disks(self) -> tuple[DirImage, ...]:
        """The logs in the broker's directories, with decoded records. It must be down."""
        return segments.look(self.log_dirs)

    def logs(self, dir_: int) -> tuple[TopicPartition, ...]:
        """The partitions of the workload with a log in this directory, sorted; empty if it cannot be read."""
        try:
            return tuple(map(segments.tp_of, segments.replica_folders(self.log_dirs[dir_])))
        except OSError:
            return ()

    def last_words(self) -> str:
        """The first line that says why the last process ended, of those in which its log names an error; else its last line."""
        begin = self._began[-1] if self._began else 0
        printed = self._output.read_bytes()[begin:].decode(errors="replace") if self._output.exists() else ""
        lines = printed.strip().splitlines()
        for at, line in enumerate(lines):
            if _FATAL.search(line):
                caused = lines[at + 1] if at + 1 < len(lines) and not lines[at + 1].startswith(("[", "\t")) else ""
                return f"{line} {caused}".strip()
        return lines[-1] if lines else ""

    def _java(self, prepared: Prepared) -> Launch:
        """Write the broker's settings, and give the command that starts its JVM."""
        files = {
            "hosts": settings.hosts(self._wiring),
            "log4j.properties": settings.log4j(self._release.log4j),
            "server.properties": self._properties(prepared),
        }
        for name, text in files.items():
            (prepared.folder / name).write_text(text)
        virtual = java(self._release, prepared.folder, [self._jars / name for name in self._build.files])
        configuration = str(prepared.folder / "server.properties")
        command = (*virtual, "kafka.Kafka", configuration)
        if self._release.mode == "kraft":
            options = ("--ignore-formatted", "-t", settings.CLUSTER_ID, "-c", configuration)
            tool = (*virtual, "kafka.tools.StorageTool", "format", *options)
            command = ("sh", "-c", _once(tool, prepared.folder / "formatted", then=command))
        recorded = {} if self._flushes is None else self._flushes.environment()
        return Launch(command=command, environment=recorded, permissions="permissions" in self._needs)

    def _properties(self, prepared: Prepared) -> str:
        properties = settings.properties(self._plan, self._wiring, tuple(map(str, prepared.log_dirs)))
        properties |= settings.of_sessions(self._plan)
        own = settings.with_zookeeper if self._release.mode == "zookeeper" else settings.with_quorum
        return settings.overridden({**properties, **own(self._plan, self._wiring)}, self._plan)


def _loses_power(plan: Plan) -> bool:
    return any(isinstance(window.fault, faults.PowerLoss) for window in plan.schedule)


def _once(first: Sequence[str], done: Path, *, then: Sequence[str]) -> str:
    """A shell script that performs a command, and before it `first`, unless an earlier process made the file `done`."""
    mark = shlex.quote(str(done))
    return f"[ -e {mark} ] || {{ {shlex.join(first)} && touch {mark}; }} && exec {shlex.join(then)}"


def java(release: Release, folder: Path, class_path: Iterable[Path]) -> tuple[str, ...]:
    """The command of a JVM with these jars of a release.

    `folder` has its hosts file and the configuration of its log. Times in the log are in UTC.
    """
    logging = f"-Dlog4j.configuration=file:{folder}/log4j.properties"
    if release.log4j == 2:
        logging = f"-Dlog4j2.configurationFile={folder}/log4j.properties"
    return (
        "java",
        f"-Xmx{release.heap_mb}m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Djava.net.preferIPv4Stack=true",
        f"-Djdk.net.hosts.file={folder}/hosts",
        f"-Djava.io.tmpdir={folder}",
        f"-Dkafka.logs.dir={folder}",
        "-Duser.timezone=UTC",
        logging,
        "-cp",
        os.pathsep.join(map(str, class_path)),
    )
