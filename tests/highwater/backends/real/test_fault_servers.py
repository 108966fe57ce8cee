"""Faults between ZooKeeper's servers change the links of the drawn server with the others, and of no broker."""

import asyncio
from types import SimpleNamespace
from typing import cast

import pytest

from highwater.backends.real.fault_links import LinkFaults
from highwater.backends.real.fault_servers import ServerFaults
from highwater.backends.real.proving import Proving
from highwater.backends.real.site import Life, LinkCondition, Probe, Proof, Site
from highwater.backends.real.zookeeper.admin import Admin
from history.recorder import Recorder
from history.seed import Draws
from nemesis.faults import ZooKeeperDown, ZooKeeperLinks
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


class Server:
    """A server whose process is killed and started; whether a fault keeps it down is asked in between."""

    def __init__(self, name: Address) -> None:
        self.address = name
        self.asked: list[bool] = []
        self.upgrades = 0
        self.faults: ServerFaults | None = None

    async def _changed(self) -> Probe:
        assert self.faults is not None
        self.asked.append(self.faults.keeps_down(cast(Life, self)))
        return _sure

    kill = start = terminate = pause = resume = is_running = _changed

    def last_words(self) -> str:
        return ""

    def upgrade(self) -> None:
        self.upgrades += 1


async def _sure() -> Proof:
    return Proof(holds=True, detail="")


def _window(fault: ZooKeeperDown, name: str = "f1") -> Window:
    return Window(id=name, kind="zookeeper-down", at_ms=0, until_ms=1, fault=fault)


def _faults_of(servers: list[Server], proving: Proving) -> ServerFaults:
    site = cast(Site, SimpleNamespace(servers=servers, nodes={}))
    links = LinkFaults(Recorded(), (), SERVERS, PLACES, Draws(1), changing=ignored)
    faults = ServerFaults(site, links, proving, cast(Admin, SimpleNamespace()), draws=Draws(1))
    for server in servers:
        server.faults = faults
    return faults


def test_killed_server_is_kept_down_until_it_runs_again() -> None:
    """Also while it is being killed or started; its death is the harness's failure at no such time."""
    servers, fault = [Server(name) for name in SERVERS], ZooKeeperDown(servers=2)
    window = _window(fault)

    async def scene() -> tuple[list[bool], list[bool]]:
        proving = Proving(Recorder(lambda: 0), acted=lambda *_: None)
        faults = _faults_of(servers, proving)
        await faults.do(window, fault)
        during = [faults.keeps_down(cast(Life, server)) for server in servers]
        await faults.undo(window, fault)
        await proving.settle()
        return during, [faults.keeps_down(cast(Life, server)) for server in servers]

    during, after = asyncio.run(scene())
    assert (sorted(during), after) == ([False, True, True], [False, False, False])
    assert [server.asked for server in servers if server.asked] == [[True, True], [True, True]]


def test_controllers_roll_each_once_and_act_when_they_run_again() -> None:
    """A fourth window finds none that is older."""
    servers, fault = [Server(name) for name in SERVERS], ZooKeeperDown(how="roll")
    acted: list[str] = []

    async def scene() -> list[int]:
        proving = Proving(Recorder(lambda: 0), acted=lambda window, *_: acted.append(window.id))
        faults = _faults_of(servers, proving)
        before = []
        for number in range(4):
            await faults.do(_window(fault, f"f{number}"), fault)
            await proving.settle()
            assert sum(faults.keeps_down(cast(Life, server)) for server in servers) == (number < len(servers))
            before.append(len(acted))
            await faults.undo(_window(fault, f"f{number}"), fault)
            await proving.settle()
        return before

    before = asyncio.run(scene())
    assert [server.upgrades for server in servers] == [1, 1, 1]
    assert (before, acted) == ([0, 1, 2, 3], ["f0", "f1", "f2"])
    assert all(server.asked == [True] * 3 for server in servers)
