"""Which doubled values in a log accuse its broker (docs/promise.md ORD-3)."""

import pytest

from checkers.judge import judge
from history.op import OpType
from tests.checkers.story import Story, begin


def asks(story: Story, value: str, *, acks: int = -1, delivery: str = "once") -> None:
    story.op(1, OpType.INVOKE, "produce", ({"value": value, "acks": acks, "delivery": delivery},))


def kinds(story: Story) -> set[str]:
    return {anomaly.kind for anomaly in judge(story.history()).anomalies if anomaly.checker == "producers"}


@pytest.mark.parametrize(("first_is_gone", "found"), [(False, {"sequence-doubled"}), (True, set())])
def test_value_may_be_appended_again_after_its_truncation(first_is_gone: bool, found: set[str]) -> None:
    story = begin()
    asks(story, "x")
    story.append("b1", 0, "x")
    if first_is_gone:
        story.truncate("b1", 0)
    story.append("b1", 0 if first_is_gone else 1, "x", epoch=2)

    assert kinds(story) == found
