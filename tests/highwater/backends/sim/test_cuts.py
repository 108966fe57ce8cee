"""The links that each shape of partition cuts."""

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.rig.cuts import Geography, Pair
from history.seed import Draws
from nemesis.faults import ALL_LINKS, Partition
from reference.types import Address, BrokerId, broker_address

CLIENTS = (Address("c0"), Address("c1"))


def geography(brokers: int) -> Geography:
    return Geography(tuple(BrokerId(number) for number in range(1, brokers + 1)), CLIENTS)


def pairs_cut(fault: Partition, *hit: int, brokers: int = 3, draws: int = 1) -> set[Pair]:
    nodes = tuple(broker_address(BrokerId(number)) for number in hit)
    pairs = geography(brokers).cut_by(fault, nodes, Draws(draws), purpose="test")
    assert len(pairs) == len(set(pairs))
    return set(pairs)


def pairs_named(*pairs: str) -> set[Pair]:
    return {(Address(source), Address(target)) for source, target in (pair.split(">") for pair in pairs)}


@pytest.mark.parametrize(
    ("links", "direction", "expected"),
    [
        (("peers",), "both", pairs_named("b1>b2", "b1>b3", "b2>b1", "b3>b1")),
        (("peers",), "inbound", pairs_named("b2>b1", "b3>b1")),
        (("zookeeper",), "both", pairs_named("b1>zk", "zk>b1")),
        (("zookeeper",), "outbound", pairs_named("b1>zk")),
        (("clients",), "inbound", pairs_named("c0>b1", "c1>b1")),
    ],
)
def test_isolating_one_broker_cuts_its_links(
    links: tuple[Literal["peers", "zookeeper", "clients"], ...],
    direction: Literal["both", "inbound", "outbound"],
    expected: set[Pair],
) -> None:
    assert pairs_cut(Partition(links=links, direction=direction), 1) == expected


def test_isolating_two_brokers_cuts_their_common_link() -> None:
    assert pairs_cut(Partition(links=("peers",)), 1, 2) == pairs_named("b1>b2", "b2>b1", "b1>b3", "b3>b1", "b2>b3", "b3>b2")


@given(st.integers(3, 5), st.integers(0, 1000))
def test_partition_into_halves_cuts_all_links_between_them(brokers: int, draws: int) -> None:
    pairs = pairs_cut(Partition(shape="halves"), brokers=brokers, draws=draws)
    ids = [Address(f"b{number}") for number in range(1, brokers + 1)]
    first = [broker for broker in ids if (broker, Address("zk")) not in pairs]

    assert len(first) == brokers // 2
    for a in ids:
        for b in ids:
            assert ((a, b) in pairs) == ((a in first) != (b in first))
    for client in CLIENTS:
        assert {broker for broker in ids if (client, broker) not in pairs} in ({*first}, {*ids} - {*first})


@given(st.integers(3, 5), st.integers(0, 1000))
def test_majorities_ring_gives_each_broker_another_majority(brokers: int, draws: int) -> None:
    pairs = pairs_cut(Partition(shape="majorities-ring"), brokers=brokers, draws=draws)
    ids = [f"b{number}" for number in range(1, brokers + 1)]
    heard = [frozenset(a for a in ids if (Address(a), Address(b)) not in pairs) for b in ids]

    assert {len(majority) for majority in heard} == {brokers // 2 + 1}
    assert len(set(heard)) == brokers


@given(st.integers(3, 5), st.integers(0, 1000))
def test_bridge_partition_leaves_one_broker_linked_to_all(brokers: int, draws: int) -> None:
    pairs = pairs_cut(Partition(shape="bridge"), brokers=brokers, draws=draws)
    ids = [f"b{number}" for number in range(1, brokers + 1)]
    whole = [a for a in ids if not any(a in pair for pair in pairs)]

    assert len(whole) == 1
    assert all((b, a) in pairs for a, b in pairs)


def test_partition_cuts_only_the_kinds_of_links_it_names() -> None:
    for shape in ("isolate", "halves", "majorities-ring", "bridge"):
        everything = pairs_cut(Partition(shape=shape, links=ALL_LINKS), 1)
        for pair in pairs_cut(Partition(shape=shape, links=("peers",)), 1):
            assert pair in everything
            assert {pair[0][0], pair[1][0]} == {"b"}


def test_inbound_link_from_one_peer_is_one_directed_link() -> None:
    pairs = geography(3).links_of(Address("b1"), ALL_LINKS, "inbound", 2)

    assert set(pairs) == pairs_named("b2>b1")
