"""The reference as a system: the program `server/`, which reports everything that it does."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import assert_never

from highwater.backends.real.clients.libraries import Clients
from highwater.backends.real.means import means_of
from highwater.backends.real.node.folder import Start
from highwater.backends.real.node.reference import ReferenceNode
from highwater.backends.real.node.runner import Runner
from highwater.backends.real.processes.conversation import OF_REFERENCE
from highwater.backends.real.site import HostPort
from highwater.backends.real.systems.limits import NO_QUORUM, insufferable, no_link, unused
from highwater.backends.real.systems.port import Client, Packing, Wiring
from highwater.backends.real.systems.zookeeper import ZooKeeperCluster
from highwater.plans.plan import Plan
from highwater.plans.systems import REFERENCE
from highwater.rig.releases import rolled, unfit
from highwater.rig.scene import broker_config
from history.manifest import Source
from nemesis import faults
from nemesis.capability import ONE_PROTOCOL, OUTSIDE
from nemesis.faults import AnyFault
from nemesis.messages import KINDS
from reference.types import Address, broker_address
from server.runtime.settings import Listener
from server.wire.clients.apis import ApiKey

_ASKED = frozenset(KINDS[key] for key in ApiKey)  # by clients


class Reference:
    """The reference implementation with the protocol of a plan."""

    name = REFERENCE
    version = ""
    files: Mapping[str, str] = {}
    observes: frozenset[Source] = frozenset({"notes", "coordination", "disks"})
    zookeeper = True
    quorum = False
    idempotence = True
    packing = Packing(image="node", memory_mb=384)

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._clients = Clients(plan)

    def refuse(self) -> str | None:
        """What of the plan would do nothing; None if all does something, for the reference runs wherever the harness does."""
        return unused(self._plan) or unfit(self._plan) or insufferable(self._plan, "the reference", self.lacks)

    def lacks(self, fault: AnyFault) -> str | None:
        """Why a process of the reference cannot suffer the fault; None if it can, as it can all others."""
        match fault:
            case faults.CrashAt() | faults.AnswerLost() | faults.AnswerLate() | faults.DeposedAt():
                return OUTSIDE
            case faults.DirFailure(append="produce" | "fetch"):
                return OUTSIDE
            case faults.Shutdown(protocol="legacy" | "kip343"):
                return ONE_PROTOCOL
            case faults.Partition() | faults.Packets() | faults.Slow() | faults.Clog() | faults.Reset():
                return no_link(fault, OF_REFERENCE.values(), _ASKED, zookeeper=True)
            case faults.Pause() | faults.Crash() | faults.Restart() | faults.Shutdown() | faults.Roll() | faults.PowerLoss():
                return None
            case faults.Join() | faults.Decommission():
                return None
            case faults.ZooKeeperDown(how="leave" | "roll"):
                return NO_QUORUM
            case faults.ExpireSession() | faults.ZooKeeperDown() | faults.ZooKeeperLinks():
                return None
            case faults.ClockJump() | faults.ClockDrift() | faults.ClockStrobe():
                return None
            case faults.DirUnreadable() | faults.DirFile() | faults.DirFailure():
                return None
            case faults.DiskFull() | faults.DiskSlow() | faults.DiskSwap():
                return None
            case _:
                assert_never(fault)

    def node(self, folder: Path, wiring: Wiring, runner: Runner) -> ReferenceNode:
        """Prepare a broker in a folder of its own below `folder`."""
        start = Start(
            config=broker_config(self._plan, wiring.broker),
            rolled=partial(rolled, self._plan),
            zookeeper=",".join(map(_text, wiring.zookeeper)),
            peers=_listener(wiring.peers, {**wiring.ways, broker_address(wiring.broker): wiring.peers}),
            clients=tuple(_listener(bind, wiring.advertised[place]) for place, bind in wiring.doors.items()),
            metrics=_text(wiring.metrics),
            needs=means_of(self._plan),
            user=runner.user,
        )
        return ReferenceNode(folder, start, runner)

    def cluster(self, zookeeper: str, brokers: Mapping[Address, HostPort]) -> ZooKeeperCluster:
        """The running cluster, through its ZooKeeper."""
        return ZooKeeperCluster(zookeeper, brokers)

    def client(self, name: Address, brokers: Mapping[Address, HostPort]) -> Client:
        """A client of the plan's library."""
        return self._clients.client(name, brokers)


def _text(where: HostPort) -> str:
    return f"{where[0]}:{where[1]}"


def _listener(bind: HostPort, ways: Mapping[Address, HostPort]) -> Listener:
    return Listener(bind=_text(bind), advertised={address: _text(way) for address, way in ways.items()})
