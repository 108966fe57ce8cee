"""A site of processes: `highwater.local.site` on one machine, in one folder that is gone afterwards."""

import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from highwater.backends.scene import broker_config, brokers_of
from highwater.errors import HarnessError
from highwater.local.nodes import NodeProcess
from highwater.local.site import HostPort, Life, LinkCondition, Pair, Probe, Proof
from highwater.plan import Plan
from highwater.zookeeper import LocalZooKeeper, free_port
from highwater.zookeeper_log import AnyCommit, LogError, read_log
from reference.types import Address, BrokerId, broker_address

HOST = "127.0.0.1"


class ProcessSite:
    """What the stage plays a plan on."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._folder: Path | None = None
        self._zookeeper = LocalZooKeeper()
        self._ports: dict[Address, int] = {}
        self.nodes: dict[BrokerId, NodeProcess] = {}
        self.servers: tuple[Life, ...] = ()
        self.links = _Loopback()

    async def open(self) -> None:
        """ZooKeeper runs when this returns."""
        self._folder = Path(tempfile.mkdtemp(prefix="highwater-run-"))
        # In this thread: the kernel ends the server with the thread that started it.
        self._zookeeper.__enter__()
        self._ports = {broker_address(broker): free_port() for broker in brokers_of(self._plan)}
        self.nodes = {
            broker: NodeProcess(self._folder, broker_config(self._plan, broker), zookeeper=self.zookeeper, ports=self._ports)
            for broker in brokers_of(self._plan)
        }

    @property
    def zookeeper(self) -> str:
        """Where the laboratory reaches it."""
        return self._zookeeper.address

    @property
    def clients(self) -> Mapping[Address, HostPort]:
        """Where clients of the run reach each broker."""
        return {node: (HOST, port) for node, port in self._ports.items()}

    @property
    def laboratory(self) -> Mapping[Address, HostPort]:
        """Where the laboratory reaches each broker."""
        return self.clients

    def commits(self) -> Iterable[AnyCommit]:
        """From ZooKeeper's transaction log."""
        try:
            return list(read_log(self._zookeeper.data_dir)) if self._zookeeper.address else []
        except LogError as error:
            raise HarnessError(f"reading what ZooKeeper committed: {error}") from error

    def stop(self) -> None:
        """No broker runs any more."""
        for node in self.nodes.values():
            node.end()

    def close(self) -> None:
        """No process and no file is left."""
        self.stop()
        self._zookeeper.stop()
        folder, self._folder = self._folder, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


class _Loopback:
    """Links that nothing can be done to."""

    async def set(self, conditions: Mapping[Pair, LinkCondition]) -> Probe:
        """Refused before the run."""
        assert not conditions
        return _joined

    async def reset(self, pairs: Iterable[Pair]) -> int:
        """Refused before the run."""
        raise HarnessError(f"links cannot be reset: {list(pairs)}")

    def counts(self) -> Mapping[Pair, int]:
        """Nothing bites."""
        return {}


async def _joined() -> Proof:
    return Proof(True, "no link was touched")
