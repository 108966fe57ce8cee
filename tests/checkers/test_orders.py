"""Unclean elections that were confirmed and never held (docs/promise.md DUR-7, LIVE-4)."""

import pytest
from msgspec.structs import replace

from checkers.judge import judge
from history.event import EventKind as K
from history.op import OpType
from tests.checkers.story import MS, HistoryBuilder
from tests.checkers.test_availability import healed_history, quiet_cluster


def offline_partition() -> HistoryBuilder:
    """Only b1 has come back of ISR and ELR; nobody leads."""
    builder = quiet_cluster()
    builder.event(K.ASSIGNED, replicas=("b1", "b2", "b3"))
    builder.session_ended("b1", 11)
    builder.registered("b1", 19)
    builder.event(K.BROKER_STATE, whole_node=True, node="b2", broker="b1", incarnation=19, detail="active")
    builder.state(None, 2, "b1 b3", version=1)
    return builder


def story_of_stale_replica(topic_id: str) -> HistoryBuilder:
    """b3, which was in the ISR once, is the only replica that is up; b1 and b2 count, and are gone."""
    builder = offline_partition()
    builder.topic_id = topic_id
    builder.event(K.ASSIGNED, replicas=("b1", "b2", "b3"))
    builder.state("b1", 2, "b1 b2 b3", version=2)
    builder.state("b1", 2, "b1 b2", version=3)
    builder.session_ended("b1", 19)
    builder.event(K.BROKER_STATE, whole_node=True, node="b3", broker="b3", incarnation=13, detail="active")
    builder.state(None, 3, "b1 b2", version=4)
    return builder


def with_unclean_order(
    builder: HistoryBuilder, outcome: OpType = OpType.OK, *between: tuple[K, dict[str, object]]
) -> HistoryBuilder:
    """The story, with an order of an unclean election and what came between it and its answer."""
    builder.op(10, OpType.INVOKE, "elect-unclean", ({"value": "orders-0"},))
    for kind, columns in between:
        whole = kind not in (K.STATE_WRITTEN, K.TOPIC_DELETED, K.ASSIGNED)
        builder.event(kind, whole_node=whole, **columns)
    builder.op(10, outcome, "elect-unclean")
    return builder


def complaints_of_orders(builder: HistoryBuilder) -> list[str]:
    """The complaints about orders without effect, of a healed simulated run of the story."""
    history = healed_history(builder)
    simulated = replace(history.manifest, backend="sim")
    verdict = judge(type(history)(simulated, operations=history.operations, events=history.events))
    return [complaint for complaint in verdict.not_live if "could lead" in complaint]


@pytest.mark.parametrize(("outcome", "is_reported"), [(OpType.OK, True), (OpType.INFO, False), (OpType.FAIL, False)])
def test_confirmed_order_elects_a_leader(outcome: OpType, is_reported: bool) -> None:
    assert [why.rpartition(", ")[2] for why in complaints_of_orders(with_unclean_order(offline_partition(), outcome))] == [
        "though b1 could lead"
    ] * is_reported


@pytest.mark.parametrize(
    "row",
    [
        (K.STATE_WRITTEN, {"leader": "b1", "leader_epoch": 3, "isr": ("b1",), "node": "b2", "zk_version": 2}),
        (K.TOPIC_DELETED, {"topic_id": "orders-id"}),
        (K.ASSIGNED, {"replicas": ("b2", "b3")}),
        (K.SESSION_ENDED, {"node": "b1", "incarnation": 19}),
        (K.BROKER_STATE, {"node": "b2", "broker": "b1", "incarnation": 19, "detail": "inactive"}),
        (K.DIR_FAILED, {"node": "b1", "life": 1, "dir": 0}),
        (K.WOUND, {"node": "b1", "dir": 0, "detail": "swapped"}),
        (K.REQUEST_REFUSED, {"node": "b2", "detail": "/admin/unclean_election: no such partition: orders-0"}),
    ],
    ids=lambda row: str(row[0]),
)
def test_order_elects_nobody_where_nobody_can_lead(row: tuple[K, dict[str, object]]) -> None:
    assert complaints_of_orders(with_unclean_order(offline_partition(), OpType.OK, row)) == []


@pytest.mark.parametrize(("topic_id", "is_reported"), [("14", True), ("13", False)], ids=["older than the topic", "younger"])
def test_order_elects_whole_replica_outside_isr_and_elr(topic_id: str, is_reported: bool) -> None:
    assert [why.rpartition(", ")[2] for why in complaints_of_orders(with_unclean_order(story_of_stale_replica(topic_id)))] == [
        "though b3 could lead"
    ] * is_reported


@pytest.mark.parametrize(("stamp", "is_reported"), [(15, True), (11, False)], ids=["joined after", "never joined"])
def test_order_elects_member_that_joined_after_a_swap(stamp: int, is_reported: bool) -> None:
    """An operator's order passed over the only member that was back, since its directory had been replaced (DUR-4, DUR-6)."""
    builder = quiet_cluster()
    builder.event(K.ASSIGNED, replicas=("b1", "b2", "b3"))
    builder.event(K.WOUND, whole_node=True, node="b1", dir=0, detail="swapped")
    for before, incarnation in ((11, 15), (15, 19)):
        builder.session_ended("b1", before)
        builder.registered("b1", incarnation)
    builder.event(K.BROKER_STATE, whole_node=True, node="b2", broker="b1", incarnation=19, detail="active")
    builder.state(None, 2, "b1 b3", version=1, stamps=(stamp, 13))
    assert [complaint.rpartition(", ")[2] for complaint in complaints_of_orders(with_unclean_order(builder))] == [
        "though b1 could lead"
    ] * is_reported


DOWN = (K.FAULT_BEGUN, {"fault": "f", "node": "b2", "detail": "crash"})


@pytest.mark.parametrize(
    ("before", "within", "is_reported"),
    [
        ((), (), True),
        ((), (DOWN,), False),
        ((DOWN,), (), False),
        ((DOWN, (K.SESSION_ENDED, {"node": "b2", "incarnation": 12})), (), True),
        (((K.FAULT_BEGUN, {"fault": "f", "node": "p1", "detail": "place-slow"}),), (), False),
    ],
    ids=["calm", "a fault begins", "a fault of a live broker", "of one that is down", "of clients"],
)
def test_order_is_carried_out_in_time_where_nothing_hinders_it(
    before: tuple[tuple[K, dict[str, object]], ...], within: tuple[tuple[K, dict[str, object]], ...], *, is_reported: bool
) -> None:
    builder = offline_partition()
    for kind, columns in before:
        builder.event(kind, whole_node=True, **columns)
    builder.op(10, OpType.INVOKE, "elect-unclean", ({"value": "orders-0"},))
    for kind, columns in within:
        builder.time_ns += 5000 * MS
        builder.event(kind, whole_node=True, **columns)
    builder.time_ns += 10000 * MS - 5000 * MS * len(within)
    builder.op(10, OpType.INFO, "elect-unclean", ({"error": "REQUEST_TIMED_OUT"},))

    assert [complaint.rpartition(", ")[2] for complaint in complaints_of_orders(builder)] == [
        "though b1 could lead"
    ] * is_reported


def test_order_for_a_partition_with_a_leader_needs_nothing() -> None:
    assert complaints_of_orders(with_unclean_order(quiet_cluster())) == []


def test_order_does_not_count_on_brokers_that_come_later() -> None:
    builder = offline_partition()
    builder.session_ended("b1", 19)
    later = (K.REGISTERED, {"node": "b1", "incarnation": 22, "life": 1})
    heard = (K.BROKER_STATE, {"node": "b2", "broker": "b1", "incarnation": 22, "detail": "active"})
    assert complaints_of_orders(with_unclean_order(builder, OpType.OK, later, heard)) == []


def test_order_that_an_operator_deletes_by_hand_is_not_judged() -> None:
    builder = offline_partition()
    builder.op(11, OpType.INVOKE, "edit-znode", ({"value": "/admin/unclean_election deleted"},))
    builder.op(11, OpType.OK, "edit-znode")
    assert complaints_of_orders(with_unclean_order(builder)) == []
