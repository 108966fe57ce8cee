"""Replicas that count must have flushed what is promised (docs/promise.md DUR-5); who counts, and from when to when."""

from collections.abc import Callable

import pytest

from checkers.judge import judge
from history.event import EventKind
from proof.manifests import promise
from tests.checkers.story import Story, begin


def flushed(story: Story, nodes: str, to: int) -> None:
    for node in nodes.split():
        story.event(EventKind.FLUSHED, node=node, life=1, dir=0, offset=to)


def unflushed(story: Story) -> list[str]:
    """The replicas that are accused."""
    return [anomaly.words.partition(" ")[0] for anomaly in judge(story.history()).anomalies if anomaly.kind == "unflushed"]


def replicated(*, before: Callable[[Story], object] = lambda story: None, m: int = 2) -> Story:
    """One record on all three replicas; b1 and b2 have flushed it when the leader advances the HW, after `before`."""
    story = begin(promise(m=m, flush="before_ack"))
    story.asks(1, "x")
    story.append("b1 b2 b3", 0, "x")
    flushed(story, "b1 b2", 1)
    before(story)
    story.hw("b1", 1)
    return story


def test_isr_member_that_has_not_flushed_is_accused() -> None:
    assert unflushed(replicated()) == ["b3"]


@pytest.mark.parametrize(
    "before",
    [
        lambda story: story.state("b1", 1, "b1 b2", version=1),
        lambda story: story.change_isr("b1", 1, ("b1", "b2")),
        lambda story: flushed(story, "b3", 1),
        lambda story: story.wound("b3", 0, 13, "swapped"),
    ],
    ids=["left", "leaving", "flushed", "wounded"],
)
def test_replica_that_does_not_count_need_not_flush(before: Callable[[Story], object]) -> None:
    assert unflushed(replicated(before=before)) == []


def test_replica_outside_of_a_short_isr_still_counts() -> None:
    """KIP-966: with fewer than min.insync.replicas in the ISR, the last full ISR counts too."""
    short = replicated(before=lambda story: story.state("b1", 1, "b1 b2", version=1), m=3)

    assert unflushed(short) == ["b3"]


def test_truncation_takes_a_flush_back() -> None:
    def truncated(story: Story) -> None:
        flushed(story, "b3", 1)
        story.truncate("b3", 0)
        story.event_append("b3", 0, "x", 1)

    assert unflushed(replicated(before=truncated)) == ["b3"]


def test_replica_that_was_deleted_counts_again_when_it_joins() -> None:
    """A move deletes a replica outside of the ISR; the leader may not know yet that it is outside."""

    def deleted(story: Story) -> None:
        story.state("b1", 1, "b1 b2", version=1)
        story.event(EventKind.REPLICA_DELETED, node="b3", life=1)

    story = replicated(before=deleted)
    assert unflushed(story) == []
    story.state("b1", 1, "b1 b2 b3", version=2)

    assert unflushed(story) == ["b3"]


def test_topics_without_flushes_are_not_judged() -> None:
    story = begin(promise(flush="none"))
    story.append("b1 b2 b3", 0, "x")
    flushed(story, "b1", 1)
    story.hw("b1", 1)

    assert unflushed(story) == []
