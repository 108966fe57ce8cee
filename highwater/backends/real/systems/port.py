"""What the real backends ask of a system under test: its nodes, its cluster, its clients, and which evidence it gives.

A system is made for one plan (`registry.system_for`). The site gives each broker its addresses (`Wiring`) and a runner of its
processes, and gets a node back; the stage starts the nodes, creates the topics through the system's `Cluster`, performs the
workload with its clients, and asks the cluster who leads and how the run ended. Proxies, faults, workload, recorder and checkers
are the same for all systems.

`observes` names the sources of rows that the system gives completely:

* notes: what brokers do (appends, truncations, high watermarks, roles);
* coordination: ZooKeeper's commits (registrations, leaders, ISRs), or what says the same (`Chronicle`);
* disks: the logs in the brokers' directories at the end of the run.

Checkers that need rows of another source do not judge the run (`checkers.observing`).
"""

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from msgspec import Struct

from highwater.backends.real.cluster_state import EndState
from highwater.backends.real.node.runner import Runner
from highwater.backends.real.site import HostPort, Node, Probe
from highwater.rig.administration import AdminCommand
from highwater.rig.attempts import Reply
from highwater.rig.commits import AnyCommit
from highwater.rig.scene import Scene
from highwater.rig.sessions import SessionCall
from history.manifest import Source
from nemesis.faults import AnyFault
from reference.client.calls import Call
from reference.coordination.memory import MemoryZooKeeper
from reference.types import Address, BrokerId, TopicPartition


class Wiring(Struct, frozen=True, kw_only=True):
    """The addresses of one broker. `ways` and `zookeeper` lead through proxies; `doors` are one listener for each client place.

    Each way has the port of the peer's own listener, so a system that only maps host names can use it. `advertised` is what
    the clients at a place must be told about each broker. `metrics` is for scrapes of the harness.
    """

    broker: BrokerId
    peers: HostPort
    ways: Mapping[Address, HostPort]
    doors: Mapping[Address, HostPort]
    advertised: Mapping[Address, Mapping[Address, HostPort]]
    zookeeper: tuple[HostPort, ...]
    metrics: HostPort
    quorum: Mapping[Address, HostPort]  # of all controllers, where each listens; empty without KRaft


class ControllerWiring(Struct, frozen=True, kw_only=True):
    """The addresses of one controller apart from the brokers. `ways` lead to the other ones through proxies, at their ports."""

    controller: Address
    ways: Mapping[Address, HostPort]
    quorum: Mapping[Address, HostPort]  # of all controllers, where each listens


class SystemNode(Node, Protocol):
    """A broker of a system, which the site also ends for good."""

    def end(self) -> None:
        """Kill the process without a probe; for callers outside of the asyncio loop. May be called again."""

    def release(self) -> None:
        """Unmount everything and make all files of the broker removable. It must be down. May be called again."""


class Packing(Struct, frozen=True, kw_only=True):
    """The container of a broker: an image (`base` has Java, `node` the reference) and how much memory it may use."""

    image: Literal["base", "node"]
    memory_mb: int


class Coordination(Protocol):
    """Who leads and who is controller, and the sessions of brokers; ZooKeeper's, where the system has one.

    `patience_s` is how long an answer may take; a fault that stops ZooKeeper shortens it for the time of the fault. `absent` are
    the brokers of the plan that are not in the cluster now: they have not joined yet, or have left for good.
    """

    patience_s: float
    absent: frozenset[Address]

    async def seen(self, tps: tuple[TopicPartition, ...]) -> MemoryZooKeeper:
        """The controller and these partitions' states, as znodes of an in-memory tree. SilenceError if nobody answers."""

    async def session_of(self, broker: BrokerId) -> int | None:
        """The session that owns a broker's registration; None if the broker is not registered."""

    async def expire(self, session: int) -> None:
        """End a session of a broker. SilenceError if ZooKeeper does not answer, OverError if it has ended."""

    async def is_vacant(self, broker: BrokerId) -> bool:
        """Whether no partition, of internal topics neither, has a replica on this broker. False or SilenceError: nobody says."""

    async def forget(self, broker: BrokerId) -> Probe:
        """Remove a broker that has left for good from the cluster; the probe sees whether it is."""


@runtime_checkable
class Apart(Protocol):
    """A system that may have controllers apart from its brokers, where others have ZooKeeper servers."""

    @property
    def controllers(self) -> int:
        """How many there are; 0 if each broker is one."""

    def controller(self, folder: Path, wiring: ControllerWiring, runner: Runner) -> SystemNode:
        """Prepare a controller in a folder of its own below `folder`; it is not started. The runner will run its processes."""


def controllers_of(system: "System") -> int:
    """How many controllers of the system run apart from its brokers."""
    return system.controllers if isinstance(system, Apart) else 0


@runtime_checkable
class Chronicle(Protocol):
    """A system without ZooKeeper whose controllers keep on their own disks what they committed."""

    def commits(self, controllers: Iterable[Node]) -> Iterable[AnyCommit]:
        """What was committed, in commit order, as commits to ZooKeeper would say it; all controllers must be down."""


def chronicle_of(system: "System") -> Chronicle | None:
    """The system, if its controllers' disks say what ZooKeeper would; a release of Kafka that uses ZooKeeper does not."""
    return system if isinstance(system, Chronicle) and not system.zookeeper else None


@runtime_checkable
class Levelled(Protocol):
    """A cluster whose brokers speak what its feature level says, which is raised once all of them know a higher one."""

    async def raise_level(self) -> str | None:
        """Raise the level to the highest that all brokers know; what it is now, in words, or None while it cannot be raised."""


@runtime_checkable
class Voting(Protocol):
    """A cluster whose controllers leave the quorum and join it by requests (KIP-853)."""

    async def leave(self, server: Address) -> Probe:
        """Remove a controller from the voters; the probe sees whether it votes no more."""

    async def join(self, server: Address) -> Probe:
        """Add a controller to the voters; the probe sees whether it votes."""


class Cluster(Coordination, Protocol):
    """The running cluster as the harness sees it, over addresses that no fault affects. Belongs to one asyncio loop."""

    async def gathered(self) -> bool:
        """Whether every broker that is not absent serves and lists all of these."""

    async def create_topics(self, scene: Scene) -> None:
        """Create the topics of the scene with their assignments and settings. HarnessError if one cannot be created."""

    async def look(self) -> EndState:
        """Read the final state of the cluster once."""

    def close(self) -> None:
        """Close the harness's connections; requests without an answer stay unanswered."""


@runtime_checkable
class LastingCluster(Protocol):
    """A cluster that can say whether the next run may begin on it."""

    async def unready(self, topics: Collection[str]) -> str | None:
        """Why no run with these topics can begin on the cluster now, in a sentence; None if one can."""


@runtime_checkable
class LastingNode(Protocol):
    """A broker that can say whether its directories are fit for the next run."""

    def is_whole(self, dir_: int) -> bool:
        """Whether a log directory is there, as the broker formatted it."""


@runtime_checkable
class Lasting(Protocol):
    """A system whose brokers can perform one plan after the other."""

    def unshared(self) -> str | None:
        """Why the brokers of this plan perform no other plan, in a sentence; None if they can."""

    def brokers(self) -> str:
        """All that the brokers of this plan are started with, but addresses: plans with the same can share them."""


class Client(Protocol):
    """The client of one workload process, which performs one call at a time."""

    async def call(self, call: Call) -> Reply:
        """Perform one call (produce, poll …)."""

    async def close(self) -> None:
        """Close the client after the call in progress."""


class Administrator(Protocol):
    """The administrator of one workload process, who performs one admin command at a time."""

    async def open(self) -> None:
        """Get ready. HarnessError if that fails."""

    async def call(self, command: AdminCommand) -> Reply:
        """Perform one command, and wait until it is done or refused."""

    async def close(self) -> None:
        """Close the administrator after the command in progress."""


@runtime_checkable
class Administered(Protocol):
    """A system whose administrators send requests to its brokers, not to ZooKeeper."""

    def administrator(self, name: Address, brokers: Mapping[Address, HostPort]) -> Administrator:
        """An administrator who reaches the brokers at these addresses."""


@runtime_checkable
class SessionClient(Protocol):
    """A client that can also perform transactions, and be a member of a consumer group; not every system has such ones."""

    async def perform(self, call: SessionCall) -> Reply:
        """Perform one call of a session."""


@runtime_checkable
class ColdClient(Protocol):
    """A client that is slow only once: that must not look like a slow system, nor last until the first faults are over."""

    async def open(self) -> None:
        """Get ready. HarnessError if that fails."""


class System(Protocol):
    """A system under test, for one plan. `zookeeper` says whether ZooKeeper servers must run beside it."""

    @property
    def name(self) -> str:
        """The name as plans and the command line give it."""

    @property
    def version(self) -> str:
        """The version; empty where the name says all."""

    @property
    def files(self) -> Mapping[str, str]:
        """The SHA-256 of each file of the system, by name; empty where the harness does not run files of its own choice."""

    @property
    def observes(self) -> frozenset[Source]:
        """The sources of rows that this system gives completely."""

    @property
    def zookeeper(self) -> bool:
        """Whether the brokers need ZooKeeper."""

    @property
    def quorum(self) -> bool:
        """Whether there is a quorum of controllers: each broker is one, unless they run apart (`Apart`)."""

    @property
    def idempotence(self) -> bool:
        """Whether it has idempotent producers."""

    @property
    def packing(self) -> Packing | None:
        """The container in which a broker can run; None if it runs as a process only."""

    def refuse(self) -> str | None:
        """What the system lacks on this machine and for this plan, in a sentence; None if nothing."""

    def lacks(self, fault: AnyFault) -> str | None:
        """Why a broker of this system cannot suffer the fault; None if it can.

        A match that names every fault, so that mypy asks for an answer where there is a new one; or one that refuses the rest.
        """

    def node(self, folder: Path, wiring: Wiring, runner: Runner) -> SystemNode:
        """Prepare a broker in a folder of its own below `folder`; it is not started. The runner will run its processes."""

    def cluster(self, zookeeper: str, brokers: Mapping[Address, HostPort]) -> Cluster:
        """The running cluster. `zookeeper` ("host:port,…") and `brokers` are addresses that no fault affects."""

    def client(self, name: Address, brokers: Mapping[Address, HostPort]) -> Client:
        """A client that reaches the brokers at these addresses."""
