"""Replicas that count must have flushed what is promised (docs/promise.md DUR-5); who counts, and from when to when."""

from collections.abc import Callable

import pytest

from checkers.judge import judge
from history.event import EventKind
from proof.manifests import promise
from tests.checkers.story import HistoryBuilder, healthy_partition


def flushed(builder: HistoryBuilder, nodes: str, to: int) -> None:
    for node in nodes.split():
        builder.event(EventKind.FLUSHED, node=node, life=1, dir=0, offset=to)


def unflushed(builder: HistoryBuilder) -> list[str]:
    """The replicas that are accused."""
    return [anomaly.words.partition(" ")[0] for anomaly in judge(builder.history()).anomalies if anomaly.kind == "unflushed"]


def replicated_record(*, before: Callable[[HistoryBuilder], object] = lambda builder: None, m: int = 2) -> HistoryBuilder:
    """One record on all three replicas; b1 and b2 have flushed it when the leader advances the HW, after `before`."""
    builder = healthy_partition(promise(m=m, flush="before_ack"))
    builder.invoke_produce(1, "x")
    builder.append("b1 b2 b3", 0, "x")
    flushed(builder, "b1 b2", 1)
    before(builder)
    builder.hw("b1", 1)
    return builder


def test_isr_member_that_has_not_flushed_is_accused() -> None:
    assert unflushed(replicated_record()) == ["b3"]


@pytest.mark.parametrize(
    "before",
    [
        lambda builder: builder.state("b1", 1, "b1 b2", version=1),
        lambda builder: builder.change_isr("b1", 1, ("b1", "b2")),
        lambda builder: flushed(builder, "b3", 1),
        lambda builder: builder.wound("b3", 0, 13, "swapped"),
    ],
    ids=["left", "leaving", "flushed", "wounded"],
)
def test_replica_that_does_not_count_need_not_flush(before: Callable[[HistoryBuilder], object]) -> None:
    assert unflushed(replicated_record(before=before)) == []


def test_replica_outside_of_a_short_isr_still_counts() -> None:
    """KIP-966: with fewer than min.insync.replicas in the ISR, the last full ISR counts too."""
    short = replicated_record(before=lambda builder: builder.state("b1", 1, "b1 b2", version=1), m=3)

    assert unflushed(short) == ["b3"]


def test_truncation_takes_a_flush_back() -> None:
    def truncated(builder: HistoryBuilder) -> None:
        flushed(builder, "b3", 1)
        builder.truncate("b3", 0)
        builder.event_append("b3", 0, "x", 1)

    assert unflushed(replicated_record(before=truncated)) == ["b3"]


def test_replica_that_was_deleted_counts_again_when_it_joins() -> None:
    """A move deletes a replica outside of the ISR; the leader may not know yet that it is outside."""

    def deleted(builder: HistoryBuilder) -> None:
        builder.state("b1", 1, "b1 b2", version=1)
        builder.event(EventKind.REPLICA_DELETED, node="b3", life=1)

    history_rows = replicated_record(before=deleted)
    assert unflushed(history_rows) == []
    history_rows.state("b1", 1, "b1 b2 b3", version=2)

    assert unflushed(history_rows) == ["b3"]


def test_topics_without_flushes_are_not_judged() -> None:
    builder = healthy_partition(promise(flush="none"))
    builder.append("b1 b2 b3", 0, "x")
    flushed(builder, "b1", 1)
    builder.hw("b1", 1)

    assert unflushed(builder) == []
