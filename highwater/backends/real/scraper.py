"""Scrapes every broker of a run again and again, as an operator's Prometheus does, and records what changed."""

import asyncio

from highwater.backends.real.site import Node, Site
from highwater.errors import HarnessError
from highwater.rig.scrapes import Scrapes
from history.recorder import Recorder
from reference.types import broker_address
from server.runtime.scrape import ScrapeError, scrape


class Scraper:
    """Scrapes the brokers of a site every `period_ms`. Of one that does not answer nothing is recorded."""

    def __init__(self, site: Site, recorder: Recorder, period_ms: int) -> None:
        self._site = site
        self._scrapes = Scrapes(recorder)
        self._period_s = period_ms / 1000
        self._has_answers = False
        self._failure = ""  # the last scrape failed

    async def run(self) -> None:
        """Scrape until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(self._period_s)

    async def look(self, *, whole: bool = False) -> None:
        """Scrape all brokers once, side by side; `whole`, of the last look: record also what has not changed.

        The last look raises HarnessError if no broker has answered in the whole run, which then says nothing of metrics.
        """
        nodes = self._site.nodes.items()
        await asyncio.gather(
            *(self._scrape_one(node, self._site.metrics[broker_address(broker)], whole) for broker, node in nodes)
        )
        if whole and not self._has_answers:
            raise HarnessError(f"no broker answered a scrape in the whole run: {self._failure}")

    async def _scrape_one(self, node: Node, address: tuple[str, int], whole: bool) -> None:
        """Record the metrics of one broker, unless it was restarted meanwhile; remember why if it does not answer."""
        life = node.life
        try:
            values = await asyncio.to_thread(scrape, address)
        except ScrapeError as error:
            self._failure = str(error)
            return
        self._has_answers = True
        if node.life == life:  # else nobody knows which process answered
            self._scrapes.record(node.address, life, values, whole=whole)
