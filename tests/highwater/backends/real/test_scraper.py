"""Scrapes of the brokers of a site: what is recorded, and what is said if there is nothing to record."""

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

from highwater.backends.real.scraper import Scraper
from highwater.backends.real.site import Site
from highwater.backends.real.zookeeper.local import free_port
from highwater.errors import HarnessError
from history.recorder import Recorder
from reference.metrics import METRICS
from reference.types import Address, BrokerId
from server.runtime.scrape import serve

HOST, B1, B2 = "127.0.0.1", Address("b1"), Address("b2")
VALUES = {metric.name: number for number, metric in enumerate(METRICS)}


def site(ports: dict[Address, int]) -> Site:
    """A site of running brokers with their metrics at these ports."""
    nodes = {BrokerId(number): SimpleNamespace(address=address, life=1) for number, address in enumerate(ports, 1)}
    return cast(Site, SimpleNamespace(nodes=nodes, metrics={address: (HOST, port) for address, port in ports.items()}))


def test_metrics_of_brokers_that_answer_are_recorded() -> None:
    """A broker that is down says nothing, and that is no failure."""
    recorder = Recorder(lambda: 0)

    async def main() -> None:
        port = free_port(HOST)
        stop = serve(HOST, port, lambda: VALUES)
        try:
            await Scraper(site({B1: port, B2: 1}), recorder, 500).look(whole=True)
        finally:
            await asyncio.to_thread(stop)

    asyncio.run(main())

    assert {(event.node, event.detail, event.gauge) for event in recorder.events} == {
        ("b1", *metric) for metric in VALUES.items()
    }


def test_run_in_which_no_broker_answers_a_scrape_fails() -> None:
    """Such a run would be VALID, and say nothing of the metrics that it was to judge."""
    scraper = Scraper(site({B1: 1}), Recorder(lambda: 0), 500)
    asyncio.run(scraper.look())

    with pytest.raises(HarnessError, match=r"^no broker answered a scrape in the whole run: 127\.0\.0\.1:1: Connection refused$"):
        asyncio.run(scraper.look(whole=True))
