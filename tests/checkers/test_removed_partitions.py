"""A partition that was removed and added again is another one, though the id of its topic is the same (V3 §H)."""

import pytest

from checkers.engine.verdict import Validity
from checkers.judge import judge
from history.event import EventKind
from tests.checkers.story import commit_record, healthy_partition


@pytest.mark.parametrize(("is_requested", "verdict"), [(True, Validity.VALID), (False, Validity.INVALID)])
def test_partition_may_lose_records_once_removal_is_requested(is_requested: bool, verdict: Validity) -> None:
    """docs/promise.md DUR-8 for one partition: after a requested removal another record may be at the same offset."""
    builder = healthy_partition()
    builder.topic_id = "5"
    builder.state("b1", 1, "b1 b2 b3", version=1)
    commit_record(builder)
    if is_requested:
        builder.event(EventKind.TOPIC_DELETED)
    for node in ("b1", "b2"):
        builder.event(EventKind.REPLICA_DELETED, node=node, life=1)
    builder.state("b1", 0, "b1 b2 b3", version=0)
    builder.leads("b1", 0, leo=0)
    commit_record(builder, "y")

    assert judge(builder.history()).validity is verdict


@pytest.mark.parametrize(("again", "kinds_expected"), [(False, []), (True, ["resurrected"])])
def test_log_whose_deletion_was_lost_with_power_may_have_a_role(again: bool, kinds_expected: list[str]) -> None:
    """Seed 70079 of `--faults all`: the log is on disk again, and nobody commanded it anew."""
    builder = healthy_partition()
    builder.topic_id = "5"
    builder.state("b1", 1, "b1 b2 b3", version=1)
    builder.event(EventKind.TOPIC_DELETED)
    builder.event(EventKind.REPLICA_DELETED, node="b2", life=1)
    builder.node_started("b2", 2)
    builder.recovered("b2", 0)
    if again:
        builder.event(EventKind.REPLICA_DELETED, node="b2", life=2)
    builder.follows("b2", 1, "b1")

    assert [anomaly.kind for anomaly in judge(builder.history()).anomalies if anomaly.checker == "deletion"] == kinds_expected


@pytest.mark.parametrize("kind", [EventKind.BECAME_FOLLOWER, EventKind.BECAME_LEADER, EventKind.APPEND])
@pytest.mark.parametrize(("again", "kinds_expected"), [(True, []), (False, ["resurrected"])])
def test_removed_replica_must_not_come_back(kind: EventKind, again: bool, kinds_expected: list[str]) -> None:
    """R-064: the partition was added again if its state is written for the first time; a late command writes no state."""
    builder = healthy_partition()
    builder.topic_id = "5"
    builder.state("b1", 1, "b1 b2 b3", version=1)
    builder.event(EventKind.TOPIC_DELETED)
    builder.event(EventKind.REPLICA_DELETED, node="b2", life=1)
    if again:
        builder.state("b1", 0, "b1 b2 b3", version=0)
    match kind:
        case EventKind.BECAME_FOLLOWER:
            builder.follows("b2", 0, "b1")
        case EventKind.BECAME_LEADER:
            builder.leads("b2", 0, leo=0)
        case _:
            builder.append("b2", 0, "x", epoch=0)

    assert [anomaly.kind for anomaly in judge(builder.history()).anomalies if anomaly.checker == "deletion"] == kinds_expected


def test_topic_deletion_does_not_delay_a_partition_removal() -> None:
    """Removed, added again, and deleted with its topic: the first removal ends its promises."""
    builder = healthy_partition()
    builder.topic_id = "5"
    commit_record(builder)
    builder.event(EventKind.TOPIC_DELETED)
    builder.poll(2, 0, "never written")
    builder.event(EventKind.TOPIC_DELETED)

    assert judge(builder.history()).validity is Validity.VALID


@pytest.mark.parametrize(("named", "verdict"), [("b2", Validity.VALID), (None, Validity.INVALID)])
def test_new_leader_yet_to_start_is_not_judged_at_deletion(named: str | None, verdict: Validity) -> None:
    """docs/promise.md DUR-1, DUR-8: its successor is named and has not begun; where nobody is named, the record is nowhere."""
    builder = healthy_partition()
    builder.topic_id = "5"
    commit_record(builder)
    builder.state(named, 2, "b2 b3")
    builder.event(EventKind.REPLICA_DELETED, node="b1", life=1)
    builder.event(EventKind.TOPIC_DELETED)

    assert judge(builder.history()).validity is verdict


def test_partition_removed_before_its_first_state_is_deleted() -> None:
    """V3 §H: its removal is requested while the controller elects its first leader; it was not added again."""
    builder = healthy_partition()
    builder.topic_id = "5"
    builder.event(EventKind.TOPIC_DELETED)
    builder.state("b1", 0, "b1 b2 b3", version=0)
    builder.event(EventKind.REPLICA_DELETED, node="b2", life=1)

    assert judge(builder.history()).validity is Validity.VALID
