"""Faults of ZooKeeper's own servers: killed, standing still, or cut off from all brokers, as long as a window wants it."""

from typing import assert_never

from highwater.local.fault_links import LinkFaults
from highwater.local.proving import Proving
from highwater.local.site import Life, Pair, Probe, Site
from history.seed import Draws
from nemesis.faults import ZooKeeperDown
from nemesis.schedule import Window


class ServerFaults:
    """What windows do to the servers of one site."""

    def __init__(self, site: Site, links: LinkFaults, proving: Proving, draws: Draws) -> None:
        self._site = site
        self._links = links
        self._proving = proving
        self._draws = draws
        self._wanted: dict[str, dict[str, tuple[Life, ...]]] = {"kill": {}, "pause": {}, "cut": {}}  # by window

    async def begin(self, window: Window, fault: ZooKeeperDown) -> None:
        """Do it to so many servers."""
        left = list(self._site.servers)
        hit: list[Life] = []
        while left and len(hit) < fault.servers:
            hit.append(left.pop(self._draws.below(f"server {window.id}", len(left))))
        self._wanted[fault.how][window.id] = tuple(hit)
        for server in hit:
            self._proving.changed(server.address)
            self._proving.acts(window, server.address, await self._do(window, server, fault), server.address)

    async def end(self, window: Window, fault: ZooKeeperDown) -> None:
        """Undo it, where no other window wants the same; links are added up elsewhere."""
        for server in self._wanted[fault.how].pop(window.id):
            others = self._wanted[fault.how].values()
            if fault.how == "cut" or not any(server in hit for hit in others):
                self._proving.changed(server.address)
                self._proving.healed(window, server.address, await self._undo(window, server, fault), server.address)

    async def _do(self, window: Window, server: Life, fault: ZooKeeperDown) -> Probe:
        match fault.how:
            case "kill":
                return await server.kill()
            case "pause":
                return await server.pause()
            case "cut":
                return await self._links.hold(f"{window.id} {server.address}", self._links_of(server))
            case _:
                assert_never(fault.how)

    async def _undo(self, window: Window, server: Life, fault: ZooKeeperDown) -> Probe:
        match fault.how:
            case "kill":
                return await server.start()
            case "pause":
                return await server.resume()
            case "cut":
                return (await self._links.end(f"{window.id} {server.address}"))[0]
            case _:
                assert_never(fault.how)

    def _links_of(self, server: Life) -> list[Pair]:
        brokers = [node.address for node in self._site.nodes.values()]
        return [pair for broker in brokers for pair in ((broker, server.address), (server.address, broker))]
