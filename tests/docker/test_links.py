"""Faults of links between containers act in their direction alone, and end when they are healed.

Probes use datagrams; here their results are checked against TCP connections that the test makes.
"""

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable, Iterator

import pytest

from highwater.backends.real.containers.engine import Engine, Service
from highwater.backends.real.containers.images import BASE
from highwater.backends.real.containers.links import AgentClient, ContainerLinks
from highwater.backends.real.containers.place import Grounds, Place, make_grounds, make_place
from highwater.backends.real.site import CLIENTS, JOINED, LinkCondition, Pair
from highwater.errors import HarnessError
from highwater.run_folder import RunFolder
from reference.types import Address

pytestmark = [pytest.mark.docker, pytest.mark.slow, pytest.mark.xdist_group("links")]

B1, B2 = Address("b1"), Address("b2")
THERE, BACK, IN, OUT = (B1, B2), (B2, B1), (CLIENTS, B1), (B1, CLIENTS)
HELD = LinkCondition(held=True)
Ground = tuple[Grounds, dict[Address, Place]]


@pytest.fixture(scope="module")
def ground(engine: Engine) -> Iterator[Ground]:
    folder = RunFolder()
    try:
        grounds = make_grounds(engine, folder)
        yield grounds, {name: make_place(engine, grounds, name) for name in (B1, B2)}
    finally:
        for leftover in engine.left(folder.run):
            engine.remove(leftover)
        folder.remove()


def on(ground: Ground, act: Callable[[ContainerLinks, dict[Address, AgentClient]], Awaitable[None]]) -> None:
    """Run a scene on links that have no faults before and after it."""
    grounds, places = ground

    async def run() -> None:
        links = ContainerLinks()
        agents = {name: AgentClient(place.socket, name) for name, place in places.items()}
        addresses = {name: place.address for name, place in places.items()} | {CLIENTS: grounds.network.gateway}
        await links.open(addresses, agents)
        try:
            for agent in agents.values():
                await agent.open()
            await act(links, agents)
            await links.set(dict.fromkeys((THERE, BACK, IN, OUT), JOINED))
        finally:
            await links.close()

    asyncio.run(run())


async def hold(links: ContainerLinks, conditions: dict[Pair, LinkCondition]) -> None:
    """Set the links and assert that the probe proves it."""
    proof = await (await links.set(conditions))()
    assert proof.holds, proof.detail


def connects(host: str, port: int, timeout_s: float = 1.0) -> bool:
    """Whether anything comes back from this address; a refused connection counts too."""
    try:
        socket.create_connection((host, port), timeout=timeout_s).close()
    except ConnectionRefusedError:
        return True
    except TimeoutError:
        return False
    return True


def test_one_way_link_cut_leaves_the_other_direction(ground: Ground) -> None:
    async def act(links: ContainerLinks, _: dict[Address, AgentClient]) -> None:
        await hold(links, {THERE: HELD, BACK: JOINED})
        await hold(links, {THERE: JOINED, BACK: HELD})
        await hold(links, {THERE: JOINED, BACK: JOINED})

    on(ground, act)


def test_link_probe_fails_if_the_fault_was_not_applied(ground: Ground) -> None:
    """A probe that cannot fail proves nothing."""

    async def act(links: ContainerLinks, agents: dict[Address, AgentClient]) -> None:
        claimed_held = await links.set({THERE: HELD})
        rule = {"direction": "in", "peer": ground[1][B1].address, "held": False, "delay_ms": 0, "loss_per_mille": 0}
        await agents[B2].ask(do="set", links=[rule])
        assert not (await claimed_held()).holds

        claimed_joined = await links.set({THERE: JOINED})
        await agents[B2].ask(do="set", links=[rule | {"held": True}])
        assert not (await claimed_joined()).holds

        claimed_slow = await links.set({THERE: LinkCondition(delay_ms=400)})
        await agents[B2].ask(do="set", links=[rule])
        assert not (await claimed_slow()).holds

    on(ground, act)


def test_cut_of_client_links_does_not_affect_the_harness(ground: Ground) -> None:
    place = ground[1][B1]

    async def act(links: ContainerLinks, _: dict[Address, AgentClient]) -> None:
        assert await asyncio.to_thread(connects, place.address, 9)
        await hold(links, {IN: HELD, OUT: HELD})
        assert not await asyncio.to_thread(connects, place.address, 9)
        assert await asyncio.to_thread(connects, place.harness, 9)
        await hold(links, {IN: JOINED, OUT: JOINED})
        assert await asyncio.to_thread(connects, place.address, 9)

    on(ground, act)


def test_slow_link_delays_connections(ground: Ground) -> None:
    place = ground[1][B1]

    async def act(links: ContainerLinks, _: dict[Address, AgentClient]) -> None:
        await hold(links, {IN: LinkCondition(delay_ms=300)})
        began = time.monotonic()
        for _attempt in range(10):
            await asyncio.to_thread(connects, place.address, 9, 5.0)
        taken_ms = (time.monotonic() - began) * 1000
        assert taken_ms > 10 * 300 * 0.2  # the mean of ten draws from 0 to 300 is below 60 once in 10^6 times
        assert links.counts().get(IN, 0) > 0

    on(ground, act)


def test_lossy_link_drops_and_counts_packets(ground: Ground) -> None:
    async def act(links: ContainerLinks, _: dict[Address, AgentClient]) -> None:
        await hold(links, {THERE: LinkCondition(loss_per_mille=300)})
        await asyncio.sleep(0.3)
        assert links.counts()[THERE] > 0
        await hold(links, {THERE: JOINED})

    on(ground, act)


@pytest.fixture(scope="module")
def listener(engine: Engine, ground: Ground) -> int:
    """A port of b1 that accepts connections and sends nothing."""
    grounds, places = ground
    program = "import socket, time; s = socket.create_server(('0.0.0.0', 9000)); time.sleep(600)"
    container = engine.create(
        Service(
            name=f"{grounds.labels.run}-listener",
            labels=grounds.labels,
            image=BASE,
            command=("python3", "-c", program),
            shares_network_of=places[B1].container,
            memory_mb=64,
        )
    )
    engine.start(container)
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            socket.create_connection((places[B1].harness, 9000), timeout=1).close()
        except ConnectionRefusedError:
            time.sleep(0.05)
        else:
            return 9000
    raise AssertionError(engine.last_words(container))


def test_reset_breaks_and_counts_connections_of_one_link(ground: Ground, listener: int) -> None:
    place = ground[1][B1]

    async def act(links: ContainerLinks, _: dict[Address, AgentClient]) -> None:
        reader, writer = await asyncio.open_connection(place.address, listener)
        harness, other_connection = await asyncio.open_connection(place.harness, listener)
        assert await links.reset([IN, OUT]) == 1
        with pytest.raises(ConnectionResetError):
            await asyncio.wait_for(reader.read(1), 2)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(harness.read(1), 0.2)
        writer.close()
        other_connection.close()

    on(ground, act)


def test_agent_reports_features_that_the_kernel_refuses(ground: Ground) -> None:
    async def act(_: ContainerLinks, agents: dict[Address, AgentClient]) -> None:
        assert isinstance(await agents[B1].ask(do="cannot"), dict)
        with pytest.raises(HarnessError, match="no such request"):
            await agents[B1].ask(do="nonsense")

    on(ground, act)
