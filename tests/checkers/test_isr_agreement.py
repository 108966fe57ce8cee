"""The members that a leader asks for, by the length of their logs (KAFKA-7128); the corpus shows the other kinds."""

from collections.abc import Callable

import pytest

from checkers.judge import judge
from history.event import EventKind
from tests.checkers.story import Story, begin, commit_record


def story_of_new_leader() -> Story:
    """b1 commits x on b1 and b2 and is gone before b2 hears that x is committed; b2 leads epoch 2 from offset 1 on."""
    story = begin()
    story.state("b1", 1, "b1 b2", 1)
    story.change_isr("b1", 1, ("b1", "b2"), ended=True)
    commit_record(story, "x", nodes="b1 b2")
    story.session_ended("b1", 11)
    story.state("b2", 2, "b2", 2)
    story.leads("b2", 2, leo=1, isr="b2")
    story.follows("b3", 2, "b2")
    return story


def anomalies_of_addition(story: Story) -> list[tuple[str, str]]:
    """What is found when b2 then asks for b3 as a member."""
    story.change_isr("b2", 2, ("b2", "b3"))
    return [(anomaly.kind, anomaly.words) for anomaly in judge(story.history()).anomalies]


def test_leader_that_asks_for_a_short_member_is_found() -> None:
    words = "b2 wants b3 in its ISR, whose log ends at 0; epoch 2 of b2 began at 1"

    assert anomalies_of_addition(story_of_new_leader()) == [("early-join", words)]


def wounded(story: Story) -> None:
    story.event_append("b3", 0, "x", 1)
    story.wound("b3", 0, 13)


def deleted(story: Story) -> None:
    story.event_append("b3", 0, "x", 1)
    story.event(EventKind.REPLICA_DELETED, node="b3", life=1)


def _follow_in_later_epoch(story: Story) -> None:
    """A replica with another record at offset 0 truncates it when it follows the leader of epoch 3."""
    story.event_append("b3", 0, "x", 1)
    story.state("b2", 3, "b2", 3)
    story.follows("b3", 3, "b2")
    story.truncate("b3", 0)


@pytest.mark.parametrize("happens", [lambda story: story.event_append("b3", 0, "x", 1), wounded, deleted, _follow_in_later_epoch])
def test_leader_may_ask_for_a_member_that_it_saw_complete(happens: Callable[[Story], object]) -> None:
    """What the member lost after its last fetch, the leader cannot know."""
    story = story_of_new_leader()
    happens(story)

    assert [kind for kind, _ in anomalies_of_addition(story) if kind == "early-join"] == []
