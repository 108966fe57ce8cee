"""Writes of the state that leave too few replicas that may be elected (docs/promise.md §1, DUR-4)."""

from collections.abc import Callable

import pytest

from checkers.judge import judge
from history.event import EventKind
from proof.manifests import promise
from tests.checkers.story import HistoryBuilder, commit_record, healthy_partition


def anomalies_after(
    *states: tuple[str, str], m: int = 2, before_last: Callable[[HistoryBuilder], int] | None = None, backend: str = "sim"
) -> list[tuple[str, str]]:
    """The anomalies after these writes, each of an ISR and an ELR; `before_last` adds a row before the last of them."""
    builder = healthy_partition(promise(m=m))
    commit_record(builder, "x", 0)
    for place, (isr, elr) in enumerate(states):
        if before_last is not None and place == len(states) - 1:
            before_last(builder)
        about = {"isr": tuple(isr.split()), "elr": tuple(elr.split())}
        builder.event(
            EventKind.STATE_WRITTEN, leader="b1", leader_epoch=1, zk_version=1, node="b1", isr=about["isr"], elr=about["elr"]
        )
    return [
        (anomaly.kind, anomaly.words)
        for anomaly in judge(builder.history(backend=backend)).anomalies
        if anomaly.checker == "electorate"
    ]


FORGOTTEN = (("b1 b2", ""), ("b1", "b2"), ("b1", ""))


def test_write_that_forgets_the_elr_is_an_anomaly() -> None:
    words = "orders-0: a write leaves 1 replicas that may be elected, before it were 2; needed: 2"

    assert anomalies_after(*FORGOTTEN) == [("short-electorate", words)]


@pytest.mark.parametrize(
    ("states", "m"),
    [
        ((("b1 b2", ""), ("b1", "b2"), ("b1 b2", "")), 2),
        ((("b1 b2 b3", ""), ("b1", "b2 b3"), ("b1", "b3")), 2),
        (FORGOTTEN, 1),
    ],
    ids=["kept until the ISR is full", "enough are left", "one is enough"],
)
def test_write_that_leaves_enough_is_allowed(states: tuple[tuple[str, str], ...], m: int) -> None:
    assert anomalies_after(*states, m=m) == []


def test_ordered_unclean_election_may_leave_too_few() -> None:
    """DUR-7: the operator accepts what the elected replica lacks."""
    assert (
        anomalies_after(*FORGOTTEN, before_last=lambda builder: builder.event(EventKind.UNCLEAN_ELECTION_ORDERED, leader="b1"))
        == []
    )


def test_partition_with_one_replica_needs_one() -> None:
    """A move that leaves fewer than min.insync.replicas assigned."""
    assert anomalies_after(*FORGOTTEN, before_last=lambda builder: builder.event(EventKind.ASSIGNED, replicas=("b1",))) == []


@pytest.mark.parametrize(("backend", "kinds"), [("sim", ["short-electorate"]), ("docker", [])])
def test_real_cluster_may_keep_no_elr(backend: str, kinds: list[str]) -> None:
    """Kafka before 4.0 keeps none; a simulated protocol is judged by the promise alone."""
    assert [kind for kind, _ in anomalies_after(("b1 b2", ""), ("b1", ""), backend=backend)] == kinds
