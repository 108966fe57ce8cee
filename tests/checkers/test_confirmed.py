"""Additions and deletions that were confirmed and not carried out (docs/promise.md LIVE-4)."""

import pytest

from checkers.judge import judge
from checkers.sketches import sketch
from history.event import EventKind
from history.op import OpType
from tests.checkers.story import HistoryBuilder
from tests.checkers.test_availability import healed_history, quiet_cluster


def with_added_partition(outcome: OpType, name: str = "orders-5") -> HistoryBuilder:
    """An administrator's request to add a partition, with its outcome."""
    builder = quiet_cluster()
    builder.event(EventKind.ASSIGNED, replicas=("b1", "b2", "b3"))
    builder.op(10, OpType.INVOKE, "add-partition", ({"value": f"{name} on 1,2,3"},))
    builder.op(10, outcome, "add-partition")
    return builder


def missing_partitions(builder: HistoryBuilder) -> int:
    return sum("was never made" in why for why in judge(healed_history(builder)).not_live)


@pytest.mark.parametrize(("outcome", "wanted"), [(OpType.OK, 1), (OpType.INFO, 0), (OpType.FAIL, 0)])
def test_confirmed_addition_makes_its_partition(outcome: OpType, wanted: int) -> None:
    assert missing_partitions(with_added_partition(outcome)) == wanted


def test_addition_of_what_is_there_needs_nothing() -> None:
    assert missing_partitions(with_added_partition(OpType.OK, "orders-0")) == 0


def test_addition_to_an_unknown_topic_is_not_judged() -> None:
    assert missing_partitions(with_added_partition(OpType.OK, "others-0")) == 0


@pytest.mark.parametrize(("message", "wanted"), [("5: no valid replicas", 0), ("6: no valid replicas", 1)])
def test_refused_addition_makes_nothing(message: str, wanted: int) -> None:
    builder = with_added_partition(OpType.OK)
    builder.event(EventKind.REQUEST_REFUSED, whole_node=True, node="b2", detail=f"/admin/partitions_add/orders/{message}")
    assert missing_partitions(builder) == wanted


def test_addition_beside_a_deletion_is_not_judged() -> None:
    builder = with_added_partition(OpType.OK)
    builder.op(11, OpType.INVOKE, "delete-topic", ({"value": "orders"},))
    builder.op(11, OpType.INFO, "delete-topic")
    assert missing_partitions(builder) == 0


LED = "assigned replicas=b1,b2 topic_id=7"
REFUSED = "request-refused node=b9 detail='/admin/delete_topics: no such topic: s, t'"
ANOTHER = "request-refused node=b9 detail='/admin/delete_topics: no such topic: t2'"
GONE = "topic-deleted topic_id=7"


@pytest.mark.parametrize(
    ("rows", "is_reported"),
    [
        ((LED, "invoke delete-topic value=t", "ok delete-topic"), True),
        ((LED, "invoke delete-topic value=t", GONE, "ok delete-topic"), False),
        ((LED, GONE, "invoke delete-topic value=t", "ok delete-topic"), False),
        ((LED, "invoke delete-topic value=t", REFUSED, "ok delete-topic"), False),
        ((LED, "invoke delete-topic value=t", ANOTHER, "ok delete-topic"), True),
        ((LED, "invoke delete-topic value=t", "info delete-topic"), False),
        ((LED, "invoke delete-topic value=other", "ok delete-topic"), False),
    ],
    ids=["it stays", "it goes", "it was gone", "refused", "another refused", "not confirmed", "there is none"],
)
def test_confirmed_deletion_takes_the_topic_away(rows: tuple[str, ...], is_reported: bool) -> None:
    """An administrator took a request that never arrived for done (K-26 in mutation/register/by-hand.yaml)."""
    findings = sketch(
        "availability-cluster", "registered node=b1 incarnation=1", *rows, "healed", "final-reads time_ns=90000000000"
    )

    assert any("was not deleted" in words for words in findings) is is_reported
