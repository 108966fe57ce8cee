"""Faults of the servers that coordinate, ZooKeeper's or Kafka's controllers: killed, paused, cut off, late, out of the quorum."""

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import assert_never

from highwater.backends.real.fault_links import HELD, REFUSED, LinkFaults
from highwater.backends.real.proving import Proving
from highwater.backends.real.site import Life, LinkCondition, Pair, Probe, Site, Upgradable
from highwater.backends.real.systems.port import Coordination, Voting
from highwater.backends.real.zookeeper.expiry import SilenceError
from highwater.backends.real.zookeeper.servers import SERVES_S_MAX
from history.seed import Draws
from nemesis.faults import ZooKeeperDown, ZooKeeperFault, ZooKeeperLinks
from nemesis.schedule import Window
from reference.coordination.memory import MemoryZooKeeper
from reference.types import Address, TopicPartition

_HIT_PATIENCE_S = 1.0  # of the harness's own requests while servers are hit; afterwards it waits until they are a quorum again
_ENDING = ("kill", "roll")  # faults that end the process


class ServerFaults:
    """Kills, pauses or cuts off ZooKeeper servers. Two faults never affect the same server at once."""

    def __init__(self, site: Site, links: LinkFaults, proving: Proving, coordination: Coordination, *, draws: Draws) -> None:
        self._site = site
        self._links = links
        self._proving = proving
        self._coordination = coordination
        self._draws = draws
        self._faults_in_effect: dict[str, tuple[ZooKeeperFault, tuple[Life, ...]]] = {}  # by open window
        self._ended: list[str] = []  # windows
        self._rolled: list[Life] = []  # that are the version under test, or become it
        self._changing: Counter[Address] = Counter()  # faults that are being begun or ended on a server
        self._seen = MemoryZooKeeper()

    def keeps_down(self, server: Life) -> bool:
        """True while an active fault keeps this server down, or one is being applied to it or ended."""
        down = (
            hit for fault, hit in self._faults_in_effect.values() if isinstance(fault, ZooKeeperDown) and fault.how in _ENDING
        )
        return self._changing[server.address] > 0 or any(server in hit for hit in down)

    async def seen(self, tps: tuple[TopicPartition, ...]) -> MemoryZooKeeper:
        """The znodes of the controller and the partitions; the last known ones while ZooKeeper does not answer.

        Without a quorum ZooKeeper is not asked, since the schedule would wait for the timeout.
        """
        mute = [
            server
            for fault, hit in self._faults_in_effect.values()
            if fault.how in (*_ENDING, "pause") or isinstance(fault, ZooKeeperLinks)
            for server in hit
        ]  # cuts from brokers do not touch the harness's links
        if mute and 2 * len(mute) >= len(self._site.servers):
            return self._seen
        try:
            self._seen = await self._coordination.seen(tps)
        except SilenceError:
            if not self._faults_in_effect and not self._ended:
                raise
        return self._seen

    async def do(self, window: Window, fault: ZooKeeperFault) -> None:
        """Apply the fault to `fault.servers` randomly drawn ZooKeeper servers that have no other fault."""
        assert self._site.servers, REFUSED
        hit_servers = [server for _, hit in self._faults_in_effect.values() for server in hit]
        taken = [*hit_servers, *(self._rolled if _rolls(fault) else ())]
        other_servers = [server for server in self._site.servers if server not in taken]
        hit: list[Life] = []
        while other_servers and len(hit) < fault.servers:
            hit.append(other_servers.pop(self._draws.below(f"server {window.id}", len(other_servers))))
        self._faults_in_effect[window.id] = fault, tuple(hit)
        self._coordination.patience_s = _HIT_PATIENCE_S
        for server in hit:
            with self._while_changing(server):
                probe = await self._begin_fault(window, server, fault)
                if not _rolls(fault):  # a roll has acted when the server has become the other version
                    self._proving.acts(window, server.address, probe, server.address)

    async def undo(self, window: Window, fault: ZooKeeperFault) -> None:
        """End a fault of ZooKeeper servers."""
        self._ended.append(window.id)
        _, hit = self._faults_in_effect[window.id]
        for server in hit:
            with self._while_changing(server):
                probe = await self._end_fault(window, server, fault)
                if _rolls(fault):
                    self._proving.acts(window, server.address, probe, server.address)
                self._proving.healed(window, server.address, probe, server.address)
        self._faults_in_effect.pop(window.id)

    async def heal(self) -> None:
        """Wait until the ZooKeeper servers serve clients again. Raises HarnessError if they do not."""
        if self._ended:
            self._coordination.patience_s = SERVES_S_MAX
        for window_id in self._ended:
            await self._proving.settle(window_id)

    @contextmanager
    def _while_changing(self, server: Life) -> Iterator[None]:
        """While this lasts, the server's death is no failure of the harness. Announces the change: a probe may look meanwhile."""
        self._proving.changed(server.address)
        self._changing[server.address] += 1
        try:
            yield
        finally:
            self._changing[server.address] -= 1

    async def _begin_fault(self, window: Window, server: Life, fault: ZooKeeperFault) -> Probe:
        """Begin the fault on one server of ZooKeeper."""
        name = f"{window.id} {server.address}"
        match fault:
            case ZooKeeperLinks(how=how, extra_ms=extra_ms):
                condition = HELD if how == "cut" else LinkCondition(delay_ms=extra_ms)
                return await self._links.hold(name, _links_with(server, self._site.servers), condition)
            case ZooKeeperDown(how="kill"):
                return await server.kill()
            case ZooKeeperDown(how="pause"):
                return await server.pause()
            case ZooKeeperDown(how="leave"):
                assert isinstance(self._coordination, Voting), REFUSED
                return await self._coordination.leave(server.address)
            case ZooKeeperDown(how="roll"):
                assert isinstance(server, Upgradable), REFUSED
                self._rolled.append(server)
                return await server.terminate()
            case ZooKeeperDown():
                return await self._links.hold(name, _links_with(server, self._site.nodes.values()))
            case _:
                assert_never(fault)

    async def _end_fault(self, window: Window, server: Life, fault: ZooKeeperFault) -> Probe:
        """End the fault on one server of ZooKeeper."""
        match fault:
            case ZooKeeperDown(how="kill"):
                return await server.start()
            case ZooKeeperDown(how="pause"):
                return await server.resume()
            case ZooKeeperDown(how="leave"):
                assert isinstance(self._coordination, Voting), REFUSED
                return await self._coordination.join(server.address)
            case ZooKeeperDown(how="roll"):
                assert isinstance(server, Upgradable), REFUSED
                await server.kill()
                server.upgrade()
                return await server.start()
            case ZooKeeperDown() | ZooKeeperLinks():
                return (await self._links.undo(f"{window.id} {server.address}"))[0]
            case _:
                assert_never(fault)


def _rolls(fault: ZooKeeperFault) -> bool:
    return isinstance(fault, ZooKeeperDown) and fault.how == "roll"


def _links_with(server: Life, others: Iterable[Life]) -> list[Pair]:
    names = [other.address for other in others if other.address != server.address]
    return [pair for name in names for pair in ((name, server.address), (server.address, name))]
