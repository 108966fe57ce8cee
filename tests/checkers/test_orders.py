"""Unclean elections that were confirmed and never held (docs/promise.md DUR-7, LIVE-4)."""

import pytest
from msgspec.structs import replace

from checkers.judge import judge
from history.event import EventKind as K
from history.op import OpType
from tests.checkers.story import MS, Story
from tests.checkers.test_availability import healed, quiet_cluster


def offline() -> Story:
    """Only b1 has come back of ISR and ELR; nobody leads."""
    story = quiet_cluster()
    story.event(K.ASSIGNED, replicas=("b1", "b2", "b3"))
    story.session_ended("b1", 11)
    story.registered("b1", 19)
    story.event(K.BROKER_STATE, whole_node=True, node="b2", broker="b1", incarnation=19, detail="active")
    story.state(None, 2, "b1 b3", version=1)
    return story


def story_of_stale_replica(topic_id: str) -> Story:
    """b3, which was in the ISR once, is the only replica that is up; b1 and b2 count, and are gone."""
    story = offline()
    story.topic_id = topic_id
    story.event(K.ASSIGNED, replicas=("b1", "b2", "b3"))
    story.state("b1", 2, "b1 b2 b3", version=2)
    story.state("b1", 2, "b1 b2", version=3)
    story.session_ended("b1", 19)
    story.event(K.BROKER_STATE, whole_node=True, node="b3", broker="b3", incarnation=13, detail="active")
    story.state(None, 3, "b1 b2", version=4)
    return story


def order(story: Story, outcome: OpType = OpType.OK, *between: tuple[K, dict[str, object]]) -> Story:
    """The story, with an order of an unclean election and what came between it and its answer."""
    story.op(10, OpType.INVOKE, "elect-unclean", ({"value": "orders-0"},))
    for kind, columns in between:
        whole = kind not in (K.STATE_WRITTEN, K.TOPIC_DELETED, K.ASSIGNED)
        story.event(kind, whole_node=whole, **columns)
    story.op(10, outcome, "elect-unclean")
    return story


def forgotten(story: Story) -> list[str]:
    """The complaints about orders without effect, of a healed simulated run of the story."""
    history = healed(story)
    simulated = replace(history.manifest, backend="sim")
    verdict = judge(type(history)(simulated, operations=history.operations, events=history.events))
    return [why for why in verdict.not_live if "could lead" in why]


@pytest.mark.parametrize(("outcome", "is_reported"), [(OpType.OK, True), (OpType.INFO, False), (OpType.FAIL, False)])
def test_confirmed_order_elects_a_leader(outcome: OpType, is_reported: bool) -> None:
    assert [why.rpartition(", ")[2] for why in forgotten(order(offline(), outcome))] == ["though b1 could lead"] * is_reported


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
    assert forgotten(order(offline(), OpType.OK, row)) == []


@pytest.mark.parametrize(("topic_id", "is_reported"), [("14", True), ("13", False)], ids=["older than the topic", "younger"])
def test_order_elects_whole_replica_outside_isr_and_elr(topic_id: str, is_reported: bool) -> None:
    assert [why.rpartition(", ")[2] for why in forgotten(order(story_of_stale_replica(topic_id)))] == [
        "though b3 could lead"
    ] * is_reported


@pytest.mark.parametrize(("stamp", "is_reported"), [(15, True), (11, False)], ids=["joined after", "never joined"])
def test_order_elects_member_that_joined_after_a_swap(stamp: int, is_reported: bool) -> None:
    """An operator's order passed over the only member that was back, since its directory had been replaced (DUR-4, DUR-6)."""
    story = quiet_cluster()
    story.event(K.ASSIGNED, replicas=("b1", "b2", "b3"))
    story.event(K.WOUND, whole_node=True, node="b1", dir=0, detail="swapped")
    for before, incarnation in ((11, 15), (15, 19)):
        story.session_ended("b1", before)
        story.registered("b1", incarnation)
    story.event(K.BROKER_STATE, whole_node=True, node="b2", broker="b1", incarnation=19, detail="active")
    story.state(None, 2, "b1 b3", version=1, stamps=(stamp, 13))
    assert [why.rpartition(", ")[2] for why in forgotten(order(story))] == ["though b1 could lead"] * is_reported


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
    story = offline()
    for kind, columns in before:
        story.event(kind, whole_node=True, **columns)
    story.op(10, OpType.INVOKE, "elect-unclean", ({"value": "orders-0"},))
    for kind, columns in within:
        story.time_ns += 5000 * MS
        story.event(kind, whole_node=True, **columns)
    story.time_ns += 10000 * MS - 5000 * MS * len(within)
    story.op(10, OpType.INFO, "elect-unclean", ({"error": "REQUEST_TIMED_OUT"},))

    assert [why.rpartition(", ")[2] for why in forgotten(story)] == ["though b1 could lead"] * is_reported


def test_order_for_a_partition_with_a_leader_needs_nothing() -> None:
    assert forgotten(order(quiet_cluster())) == []


def test_order_does_not_count_on_brokers_that_come_later() -> None:
    story = offline()
    story.session_ended("b1", 19)
    later = (K.REGISTERED, {"node": "b1", "incarnation": 22, "life": 1})
    heard = (K.BROKER_STATE, {"node": "b2", "broker": "b1", "incarnation": 22, "detail": "active"})
    assert forgotten(order(story, OpType.OK, later, heard)) == []


def test_order_that_an_operator_deletes_by_hand_is_not_judged() -> None:
    story = offline()
    story.op(11, OpType.INVOKE, "edit-znode", ({"value": "/admin/unclean_election deleted"},))
    story.op(11, OpType.OK, "edit-znode")
    assert forgotten(order(story)) == []
