"""The members that a leader asks for, by the length of their logs (KAFKA-7128); the corpus shows the other kinds."""

from collections.abc import Callable

import pytest

from checkers.judge import judge
from history.event import EventKind
from tests.checkers.story import HistoryBuilder, commit_record, healthy_partition, lose_power


def story_of_new_leader() -> HistoryBuilder:
    """b1 commits x on b1 and b2 and is gone before b2 hears that x is committed; b2 leads epoch 2 from offset 1 on."""
    builder = healthy_partition()
    builder.state("b1", 1, "b1 b2", 1)
    builder.change_isr("b1", 1, ("b1", "b2"), ended=True)
    commit_record(builder, "x", nodes="b1 b2")
    builder.session_ended("b1", 11)
    builder.state("b2", 2, "b2", 2)
    builder.leads("b2", 2, leo=1, isr="b2")
    builder.follows("b3", 2, "b2")
    return builder


def anomalies_of_addition(builder: HistoryBuilder) -> list[tuple[str, str]]:
    """What is found when b2 then asks for b3 as a member."""
    builder.change_isr("b2", 2, ("b2", "b3"))
    return [(anomaly.kind, anomaly.words) for anomaly in judge(builder.history()).anomalies]


def test_leader_that_asks_for_a_short_member_is_found() -> None:
    words = "b2 wants b3 in its ISR, whose log ends at 0; epoch 2 of b2 began at 1"

    assert anomalies_of_addition(story_of_new_leader()) == [("early-join", words)]


def wounded(builder: HistoryBuilder) -> None:
    builder.event_append("b3", 0, "x", 1)
    builder.wound("b3", 0, 13)


def deleted(builder: HistoryBuilder) -> None:
    builder.event_append("b3", 0, "x", 1)
    builder.event(EventKind.REPLICA_DELETED, node="b3", life=1)


def _follow_in_later_epoch(builder: HistoryBuilder) -> None:
    """A replica with another record at offset 0 truncates it when it follows the leader of epoch 3."""
    builder.event_append("b3", 0, "x", 1)
    builder.state("b2", 3, "b2", 3)
    builder.follows("b3", 3, "b2")
    builder.truncate("b3", 0)


@pytest.mark.parametrize(
    "happens", [lambda builder: builder.event_append("b3", 0, "x", 1), wounded, deleted, _follow_in_later_epoch]
)
def test_leader_may_ask_for_a_member_that_it_saw_complete(happens: Callable[[HistoryBuilder], object]) -> None:
    """What the member lost after its last fetch, the leader cannot know."""
    builder = story_of_new_leader()
    happens(builder)

    assert [kind for kind, _ in anomalies_of_addition(builder) if kind == "early-join"] == []


@pytest.mark.parametrize(("stamp_of_b2", "is_accused"), [(12, False), (22, True)])
def test_wound_lasts_until_a_new_registration_is_in_the_isr(stamp_of_b2: int, is_accused: bool) -> None:
    """CUT-2: a leader of an earlier protocol added the old one, by a fetch that had been on its way (seed 218770)."""
    builder = healthy_partition()
    commit_record(builder)
    lose_power(builder, "b2", why="swapped")
    builder.state("b1", 2, "b1 b3", stamps=(11, 13))
    builder.registered("b2", 22)
    builder.state("b1", 2, "b1 b2 b3", stamps=(11, stamp_of_b2, 13))

    assert ("strong-isr" in [anomaly.kind for anomaly in judge(builder.history()).anomalies]) is is_accused
