"""Conditions of overlapping windows on a link add up and end one by one."""

import asyncio
from collections.abc import Iterable, Mapping

import pytest

from highwater.backends.real.fault_links import LinkFaults
from highwater.backends.real.site import JOINED, LinkCondition, Pair, Pick, Picked, Probe, Proof
from history.seed import Draws
from nemesis.faults import Clog, LinkFault, Packets, Partition, Reset, Slow
from nemesis.schedule import Window
from reference.types import Address, BrokerId

BROKERS = (BrokerId(1), BrokerId(2))
SERVERS = (Address("z1"), Address("z2"))
PLACES = (Address("p1"), Address("p2"))
B1 = Address("b1")


class Recorded:
    """Links that only record their conditions."""

    def __init__(self) -> None:
        self.now: dict[Pair, LinkCondition] = {}
        self.resets = 0
        self.connections = 1  # that a reset finds
        self.hits: dict[Pair, int] = {}

    async def set(self, conditions: Mapping[Pair, LinkCondition]) -> Probe:
        self.now.update(conditions)
        return _holds

    async def reset(self, pairs: Iterable[Pair]) -> int:
        self.resets += 1
        return self.connections

    def counts(self) -> Mapping[Pair, int]:
        return self.hits

    def picked(self, window: str) -> Picked:
        return Picked(3, 2) if any(pick.window == window for now in self.now.values() for pick in now.picks) else Picked()

    def wrong(self) -> dict[str, LinkCondition]:
        """The links with a condition."""
        return {f"{source}>{target}": condition for (source, target), condition in self.now.items() if condition != JOINED}


def ignored(*_: str) -> None:
    """Stands for a probe that is not called."""


async def _holds() -> Proof:
    return Proof(True, "seen")


def window(id_: str, fault: LinkFault) -> Window:
    return Window(id=id_, kind="cut", at_ms=0, until_ms=1, fault=fault)


def faults_begun(links: Recorded, *faults: LinkFault, at: Address = B1) -> LinkFaults:
    link_faults = LinkFaults(links, BROKERS, SERVERS, PLACES, Draws(1), changing=ignored)
    for number, fault in enumerate(faults):
        asyncio.run(link_faults.do(window(f"f{number}", fault), fault, (at,)))
    return link_faults


HELD = LinkCondition(held=True)


@pytest.mark.parametrize(
    ("fault", "cut"),
    [
        (Partition(links=("peers",)), {"b1>b2", "b2>b1"}),
        (Partition(links=("peers",), direction="outbound"), {"b1>b2"}),
        (Partition(links=("zookeeper",)), {"b1>z1", "b1>z2", "z1>b1", "z2>b1"}),
        (Partition(links=("clients",), direction="inbound"), {"p1>b1", "p2>b1"}),
    ],
)
def test_partition_holds_the_links_that_it_names(fault: Partition, cut: set[str]) -> None:
    """The links of a broker with ZooKeeper are those with all its servers; with clients, those with every place."""
    links = Recorded()
    faults_begun(links, fault)

    assert links.wrong() == dict.fromkeys(cut, HELD)


def test_fault_of_a_client_place_spares_the_other_place() -> None:
    links = Recorded()
    faults_begun(links, Partition(direction="outbound"), Slow(extra_ms=7, peer=2), at=Address("p2"))

    assert links.wrong() == {"p2>b1": HELD, "p2>b2": LinkCondition(held=True, delay_ms=7), "b2>p2": LinkCondition(delay_ms=7)}


def test_overlapping_link_faults_add_up_and_end_one_by_one() -> None:
    links = Recorded()
    faults = faults_begun(
        links,
        Slow(extra_ms=100, links=("peers",)),
        Slow(extra_ms=20, links=("peers",)),
        Packets(drop_per_mille=300),
        Clog(links=("peers",), kinds=("fetch-reply",), direction="inbound"),
        Partition(links=("peers",), direction="outbound"),
    )

    assert links.wrong() == {
        "b1>b2": LinkCondition(held=True, delay_ms=120, loss_per_mille=300),
        "b2>b1": LinkCondition(delay_ms=120, loss_per_mille=300, held_kinds=("fetch-reply",)),
    }

    asyncio.run(faults.undo("f4"))
    asyncio.run(faults.undo("f0"))

    assert links.wrong() == {
        "b1>b2": LinkCondition(delay_ms=20, loss_per_mille=300),
        "b2>b1": LinkCondition(delay_ms=20, loss_per_mille=300, held_kinds=("fetch-reply",)),
    }

    for window_id in ("f1", "f2", "f3"):
        asyncio.run(faults.undo(window_id))

    assert links.wrong() == {}


def test_resets_repeat_until_the_window_closes() -> None:
    links = Recorded()

    async def scene() -> tuple[Proof, int]:
        faults = LinkFaults(links, BROKERS, SERVERS, PLACES, Draws(1), changing=ignored)
        reset = Reset(period_ms=1, links=("peers",))
        probe, _ = await faults.do(window("f1", reset), reset, (B1,))
        while links.resets < 3:
            await asyncio.sleep(0.001)
        faults.closing("f1")
        proof = await probe()
        await faults.undo("f1")
        resets = links.resets
        await asyncio.sleep(0.02)
        return proof, links.resets - resets

    proof, afterwards = asyncio.run(scene())

    assert (proof.holds, afterwards) == (True, 0)


def test_packet_loss_without_traffic_did_not_act() -> None:
    """On a link without traffic nothing is lost."""

    async def scene() -> Proof:
        faults = LinkFaults(Recorded(), BROKERS, SERVERS, PLACES, Draws(1), changing=ignored)
        fault = Packets(drop_per_mille=1000)
        probe, _ = await faults.do(window("f1", fault), fault, (B1,))
        faults.closing("f1")
        return await probe()

    assert asyncio.run(scene()) == Proof(False, "0 packets repeated")


def test_packets_of_a_slow_link_prove_no_reset_and_no_loss() -> None:
    """Every packet counts on a slow link, so a reset without connections and a loss of nothing would seem to act."""

    async def scene() -> list[Proof]:
        links = Recorded()
        links.connections = 0
        faults = LinkFaults(links, BROKERS, SERVERS, PLACES, Draws(1), changing=ignored)
        slow = Slow(extra_ms=100, links=("peers", "zookeeper"))
        await faults.do(window("f0", slow), slow, (B1,))
        others: tuple[LinkFault, ...] = (Reset(period_ms=1000, links=("zookeeper",)), Packets(drop_per_mille=1))
        probes = [(await faults.do(window(f"f{n}", fault), fault, (B1,)))[0] for n, fault in enumerate(others, 1)]
        links.hits = {(Address("b1"), Address(peer)): 7 for peer in ("b2", "z1", "z2")}
        for number in (1, 2):
            faults.closing(f"f{number}")
        proofs = [await probe() for probe in probes]
        await faults.undo("f1")
        return proofs

    assert asyncio.run(scene()) == [
        Proof(False, "0 connections broken"),
        Proof(None, "other windows do something to the same links"),
    ]


@pytest.mark.parametrize(
    ("fault", "does"),
    [
        (Slow(extra_ms=7, kinds=("end-txn",), chance_per_mille=250, direction="outbound"), {"delay_ms": 7, "per_mille": 250}),
        (Clog(kinds=("end-txn",), direction="outbound"), {"held": True}),
        (Packets(drop_per_mille=9, kinds=("end-txn",), direction="outbound"), {"lost": True, "per_mille": 9}),
        (Reset(kinds=("end-txn",), direction="outbound", connection="one"), {"cut": True, "one_connection": True}),
    ],
)
def test_fault_of_messages_picks_them_on_its_links(fault: LinkFault, does: dict[str, object]) -> None:
    """Draws are those of the plan: the same windows pick the same messages of equal traffic."""
    links = Recorded()
    faults_begun(links, fault, at=Address("p1"))
    seed = Draws(1).bits("pick f0")

    pick = Pick(window="f0", seed=seed, kinds=("end-txn",), **does)  # type: ignore[arg-type]  # fields of Pick by name
    assert links.wrong() == dict.fromkeys(("p1>b1", "p1>b2"), LinkCondition(picks=(pick,)))


def test_probe_of_picked_messages_counts_them_at_the_end() -> None:
    """A probe that ended with the first message would tell nothing of how often the fault acted."""

    async def scene() -> Proof:
        faults = LinkFaults(Recorded(), BROKERS, SERVERS, PLACES, Draws(1), changing=ignored)
        delay = Slow(extra_ms=7, links=("clients",), kinds=("end-txn",))
        probe, _ = await faults.do(window("f1", delay), delay, (Address("p1"),))
        found = asyncio.ensure_future(probe())
        await asyncio.sleep(0.05)
        assert not found.done()
        faults.closing("f1")
        return await found

    detail = "3 times end-txn, 2 of them over a connection that the sender had given up"
    assert asyncio.run(scene()) == Proof(True, detail, 3, 2)


def test_link_fault_names_the_links_before_it_changes_them() -> None:
    """Links change one after the other: a probe of an earlier window would see half of the change."""
    links_named: list[tuple[str, ...]] = []

    class Watched(Recorded):
        async def set(self, conditions: Mapping[Pair, LinkCondition]) -> Probe:
            assert links_named[-1] == tuple(f"{source}>{target}" for source, target in conditions)
            return await super().set(conditions)

    async def scene() -> None:
        faults = LinkFaults(Watched(), BROKERS, SERVERS, PLACES, Draws(1), changing=lambda *links: links_named.append(links))
        cut = Partition(links=("peers",))
        await faults.do(window("f1", cut), cut, (B1,))
        await faults.undo("f1")

    asyncio.run(scene())

    assert links_named == [("b1>b2", "b2>b1")] * 2
