"""Which doubled values in a log accuse its broker (docs/promise.md ORD-3)."""

import pytest

from checkers.judge import judge
from history.op import OpType
from tests.checkers.story import HistoryBuilder, healthy_partition


def invoke_produce(builder: HistoryBuilder, value: str, *, acks: int = -1, delivery: str = "once") -> None:
    builder.op(1, OpType.INVOKE, "produce", ({"value": value, "acks": acks, "delivery": delivery},))


def kinds(builder: HistoryBuilder) -> set[str]:
    return {anomaly.kind for anomaly in judge(builder.history()).anomalies if anomaly.checker == "producers"}


@pytest.mark.parametrize(("first_is_gone", "kinds_expected"), [(False, {"sequence-doubled"}), (True, set())])
def test_value_may_be_appended_again_after_its_truncation(first_is_gone: bool, kinds_expected: set[str]) -> None:
    builder = healthy_partition()
    invoke_produce(builder, "x")
    builder.append("b1", 0, "x")
    if first_is_gone:
        builder.truncate("b1", 0)
    builder.append("b1", 0 if first_is_gone else 1, "x", epoch=2)

    assert kinds(builder) == kinds_expected
