"""Faults between ZooKeeper's servers change the links of the drawn server with the others, and of no broker."""

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

from highwater.backends.real.fault_links import LinkFaults
from highwater.backends.real.fault_servers import ServerFaults
from highwater.backends.real.proving import Proving
from highwater.backends.real.site import LinkCondition, Site
from highwater.backends.real.zookeeper.admin import Admin
from history.recorder import Recorder
from history.seed import Draws
from nemesis.faults import ZooKeeperLinks
from nemesis.schedule import Window
from reference.types import Address, BrokerId
from tests.highwater.backends.real.test_fault_links import HELD, PLACES, Recorded, ignored

SERVERS = tuple(Address(f"z{number}") for number in (1, 2, 3))


@pytest.mark.parametrize(
    ("fault", "condition"),
    [(ZooKeeperLinks(), HELD), (ZooKeeperLinks(how="slow", extra_ms=70), LinkCondition(delay_ms=70))],
)
def test_fault_between_servers_ends_on_the_links_where_it_began(fault: ZooKeeperLinks, condition: LinkCondition) -> None:
    links = Recorded()
    site = SimpleNamespace(
        servers=[SimpleNamespace(address=name) for name in SERVERS], nodes={BrokerId(1): SimpleNamespace(address="b1")}
    )
    window = Window(id="f1", kind="zookeeper-split", at_ms=0, until_ms=1, fault=fault)

    async def scene() -> dict[str, LinkCondition]:
        proving = Proving(Recorder(lambda: 0), acted=lambda *_: None)
        draws = Draws(1)
        between = LinkFaults(links, (BrokerId(1),), SERVERS, PLACES, draws, changing=ignored)
        faults = ServerFaults(cast(Site, site), between, proving, cast(Admin, SimpleNamespace()), draws=draws)
        await faults.do(window, fault)
        during = links.wrong()
        await faults.undo(window, fault)
        await proving.settle()
        return during

    during = asyncio.run(scene())
    hit = next(name for name in SERVERS if sum(name in pair for pair in during) == 4)

    assert during == {pair: condition for server in SERVERS if server != hit for pair in (f"{hit}>{server}", f"{server}>{hit}")}
    assert links.wrong() == {}
