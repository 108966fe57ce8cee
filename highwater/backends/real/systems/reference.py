"""The reference as a system: the program `server/`, which reports everything that it does."""

from collections.abc import Mapping
from pathlib import Path

from highwater.backends.real.clients.kafka import KafkaClient
from highwater.backends.real.node.folder import Start, needs_of
from highwater.backends.real.node.reference import ReferenceNode
from highwater.backends.real.node.runner import Runner
from highwater.backends.real.site import HostPort
from highwater.backends.real.systems.port import Packing, Wiring
from highwater.backends.real.systems.zookeeper import ZooKeeperCluster
from highwater.plans.plan import REFERENCE, Plan
from highwater.rig.scene import broker_config
from history.manifest import Source
from nemesis.faults import AnyFault
from reference.types import Address
from server.runtime.settings import Listener


class Reference:
    """The reference implementation with the protocol of a plan."""

    name = REFERENCE
    version = ""
    observes: frozenset[Source] = frozenset({"notes", "coordination", "disks"})
    zookeeper = True
    quorum = False
    idempotence = True
    packing = Packing(image="node", memory_mb=384)

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def refuse(self) -> str | None:
        """Nothing: the reference runs wherever the harness does."""
        return None

    def lacks(self, fault: AnyFault) -> str | None:
        """Nothing: it is built to suffer every fault."""
        return None

    def node(self, folder: Path, wiring: Wiring, runner: Runner) -> ReferenceNode:
        """Prepare a broker in a folder of its own below `folder`."""
        start = Start(
            config=broker_config(self._plan, wiring.broker),
            zookeeper=",".join(map(_text, wiring.zookeeper)),
            peers=_listener(wiring.peers, wiring.ways),
            clients=tuple(_listener(bind, wiring.advertised[place]) for place, bind in wiring.doors.items()),
            needs=needs_of(self._plan),
            user=runner.user,
        )
        return ReferenceNode(folder, start, runner)

    def cluster(self, zookeeper: str, brokers: Mapping[Address, HostPort]) -> ZooKeeperCluster:
        """The running cluster, through its ZooKeeper."""
        return ZooKeeperCluster(zookeeper, brokers)

    def client(self, name: Address, brokers: Mapping[Address, HostPort]) -> KafkaClient:
        """A librdkafka client."""
        return KafkaClient(name, brokers, request_timeout_ms=self._plan.workload.request_timeout_ms)


def _text(where: HostPort) -> str:
    return f"{where[0]}:{where[1]}"


def _listener(bind: HostPort, ways: Mapping[Address, HostPort]) -> Listener:
    return Listener(bind=_text(bind), advertised={address: _text(way) for address, way in ways.items()})
