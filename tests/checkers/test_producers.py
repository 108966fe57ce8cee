"""Which refusals and which doubled values accuse a leader (docs/promise.md ORD-3)."""

import pytest

from checkers.single import judge
from history.op import OpType
from tests.checkers.story import Story, begin


def asks(story: Story, value: str, *, acks: int = -1, delivery: str = "once") -> None:
    story.op(1, OpType.INVOKE, "produce", ({"value": value, "acks": acks, "delivery": delivery},))


def answers(story: Story, value: str, error: str | None = None, *, node: str = "b1", acks: int = -1) -> None:
    type_ = OpType.OK if error is None else OpType.FAIL
    columns = {"value": value, "acks": acks, "delivery": "once", "node": node, "error": error, "leader_epoch": 1}
    story.op(1, type_, "produce", ({**columns, **({"offset": 0} if error is None else {})},))


def kinds(story: Story) -> set[str]:
    return {one.kind for one in judge(story.history()).anomalies if one.checker == "producers"}


def two(*, acks: int = -1, node: str = "b1", error: str = "OUT_OF_ORDER_SEQUENCE_NUMBER") -> Story:
    """An acknowledged request, then one that `node` refuses."""
    story = begin()
    asks(story, "x", acks=acks)
    story.append("b1 b2 b3", 0, "x")
    story.hw("b1", 1)
    answers(story, "x", acks=acks)
    asks(story, "y")
    answers(story, "y", error, node=node)
    return story


def test_leader_that_acknowledged_a_sequence_must_take_the_next() -> None:
    assert kinds(two()) == {"wrongly-refused"}


@pytest.mark.parametrize(
    "story",
    [two(acks=1), two(node="b2"), two(error="NOT_ENOUGH_REPLICAS"), two(error="UNKNOWN_PRODUCER_ID")],
    ids=["acks=1 may be lost", "another broker", "another reason", "a topic created again"],
)
def test_refusal_that_may_be_right_is_no_anomaly(story: Story) -> None:
    assert kinds(story) == set()


@pytest.mark.parametrize(("first_is_gone", "found"), [(False, {"sequence-doubled"}), (True, set())])
def test_value_may_be_appended_again_after_its_truncation(first_is_gone: bool, found: set[str]) -> None:
    story = begin()
    asks(story, "x")
    story.append("b1", 0, "x")
    if first_is_gone:
        story.truncate("b1", 0)
    story.append("b1", 0 if first_is_gone else 1, "x", epoch=2)

    assert kinds(story) == found
