"""Notes of nodes and commits of ZooKeeper become rows in which causes precede effects."""

import pytest

from highwater.backends.real.evidence import NEAR_NS, ZooKeeperEvidence, recorded_notes, whole_until
from highwater.backends.real.merge import merged
from highwater.rig.commits import AnyCommit, NodeCreated, NodeDeleted, NodeWritten, SessionEnded
from history.event import ClusterEvent, EventKind
from reference.coordination import paths
from reference.effects import Note
from reference.messages import Batch, IsrMember, PartitionState
from reference.types import (
    BrokerId,
    ControllerEpoch,
    Incarnation,
    LeaderEpoch,
    Offset,
    TopicPartition,
    ZkVersion,
)
from server.lab.notes import NoteLine

TP = TopicPartition("orders-1")
MS = 1_000_000
START_NS = 5_000 * MS  # on the monotonic clock
WALL_AHEAD_NS = 1_000_000 * MS


def line(at_ns: int, note: Note, life: int = 1) -> NoteLine:
    return NoteLine(node="b1", life=life, time_ns=START_NS + at_ns, note=note)


def rows(
    *commits: AnyCommit, lines: tuple[NoteLine, ...] = (), starts: tuple[ClusterEvent, ...] = ()
) -> tuple[ClusterEvent, ...]:
    evidence = ZooKeeperEvidence(lines, starts, start_ns=START_NS, wall_ahead_ns=WALL_AHEAD_NS)
    for commit in commits:
        evidence.add(commit)
    return merged([evidence.recorder, recorded_notes(lines, start_ns=START_NS)])[1]


def wall_ms(ms: int) -> int:
    return (START_NS + WALL_AHEAD_NS) // MS + ms


def registration(zxid: int, *, ms: int) -> NodeCreated:
    return NodeCreated(zxid=zxid, session=7, time_ms=wall_ms(ms), path="/brokers/ids/1", data=b"{}", ephemeral=True)


def state(version: int, *, ms: int) -> NodeWritten:
    members = (IsrMember(BrokerId(1), Incarnation(10)), IsrMember(BrokerId(3), Incarnation(12)))
    value = PartitionState(
        tp=TP,
        leader=BrokerId(1),
        leader_incarnation=Incarnation(10),
        leader_epoch=LeaderEpoch(4),
        isr=members,
        controller_epoch=ControllerEpoch(2),
        zk_version=ZkVersion(version),
        replicas=(),
    )
    data = paths.state_payload(value)
    return NodeWritten(zxid=20, session=7, time_ms=wall_ms(ms), path=paths.state_path(TP), data=data, version=version)


def test_append_report_becomes_a_history_row_per_value() -> None:
    note = Note(kind="append", tp=TP, batches=(Batch(Offset(4), LeaderEpoch(2), ("x", "y")),), detail="leader")

    events = rows(lines=(line(3, note, life=2),))

    assert [(e.node, e.life, e.topic, e.partition, e.offset, e.value, e.leader_epoch) for e in events] == [
        ("b1", 2, "orders", 1, 4, "x", 2),
        ("b1", 2, "orders", 1, 5, "y", 2),
    ]


def test_registration_row_ends_with_its_zookeeper_session() -> None:
    starts = tuple(
        ClusterEvent(index=n, kind=EventKind.NODE_STARTED, time_ns=at * MS, node="b1", life=n) for n, at in ((1, 0), (2, 9))
    )

    events = rows(
        registration(10, ms=5),
        SessionEnded(zxid=11, session=7, time_ms=wall_ms(8)),
        registration(12, ms=20),
        NodeDeleted(zxid=13, session=7, time_ms=wall_ms(30), path="/brokers/ids/1"),
        SessionEnded(zxid=14, session=7, time_ms=wall_ms(31)),
        starts=starts,
    )

    assert [(e.kind, e.node, e.life, e.incarnation) for e in events] == [
        (EventKind.REGISTERED, "b1", 1, 10),
        (EventKind.SESSION_ENDED, "b1", None, 10),
        (EventKind.REGISTERED, "b1", 2, 12),
        (EventKind.SESSION_ENDED, "b1", None, 12),
    ]


def test_state_row_has_the_committed_state_and_its_writer() -> None:
    _, event = rows(registration(10, ms=5), state(3, ms=6))

    assert event == ClusterEvent(
        index=1,
        kind=EventKind.STATE_WRITTEN,
        time_ns=6 * MS,
        node="b1",
        topic="orders",
        partition=1,
        leader="b1",
        leader_epoch=4,
        controller_epoch=2,
        zk_version=3,
        isr=("b1", "b3"),
        stamps=event.stamps,
        elr=(),
    )
    assert event.stamps is not None
    assert len(event.stamps) == 2


def test_isr_change_is_recorded_between_sent_and_applied() -> None:
    """The log's times are whole milliseconds, rounded down: the write would be recorded before its request."""
    sent = line(6 * MS + 400_000, Note(kind="isr-change-sent", tp=TP, zk_version=ZkVersion(2)))
    applied = line(6 * MS + 900_000, Note(kind="isr-change-ended", tp=TP, zk_version=ZkVersion(3)))

    events = rows(registration(10, ms=5), state(3, ms=6), lines=(sent, applied))

    assert [e.kind for e in events[1:]] == [EventKind.ISR_CHANGE_SENT, EventKind.STATE_WRITTEN, EventKind.ISR_CHANGE_ENDED]


def test_zk_commits_keep_their_order_if_the_wall_clock_jumps() -> None:
    events = rows(registration(10, ms=50), state(3, ms=20), state(4, ms=21))

    assert [(e.zk_version, e.time_ns) for e in events] == [(None, 50 * MS), (3, 50 * MS), (4, 50 * MS)]


def topic(*replicas: int, zxid: int, ms: int) -> NodeCreated | NodeWritten:
    data = paths.topic_payload((tuple(BrokerId(broker) for broker in replicas),))
    path = paths.topic_path("orders")
    if zxid == 1:
        return NodeCreated(zxid=zxid, session=7, time_ms=wall_ms(ms), path=path, data=data, ephemeral=False)
    return NodeWritten(zxid=zxid, session=7, time_ms=wall_ms(ms), path=path, data=data, version=zxid)


def test_assignment_is_recorded_when_it_changes() -> None:
    """Checkers must judge moved partitions by their current replicas."""
    events = rows(topic(1, 2, zxid=1, ms=1), topic(1, 2, zxid=2, ms=2), topic(3, 2, zxid=3, ms=3))

    assert [(e.kind, e.topic, e.topic_id, e.partition, e.replicas) for e in events] == [
        (EventKind.ASSIGNED, "orders", "1", 0, ("b1", "b2")),
        (EventKind.ASSIGNED, "orders", "1", 0, ("b3", "b2")),
    ]


def led_by(broker: int, *, version: int, ms: int, life: int | None = None) -> NodeWritten:
    """The state in which this broker leads alone, under the registration `life`, or that of its own number."""
    incarnation = Incarnation(broker if life is None else life)
    members = (IsrMember(BrokerId(broker), incarnation),)
    value = PartitionState(
        tp=TP,
        leader=BrokerId(broker),
        leader_incarnation=incarnation,
        leader_epoch=LeaderEpoch(version),
        isr=members,
        controller_epoch=ControllerEpoch(2),
        zk_version=ZkVersion(version),
        replicas=(),
    )
    data = paths.state_payload(value)
    path = paths.state_path(TP)
    return NodeWritten(zxid=20 + version, session=7, time_ms=wall_ms(ms), path=path, data=data, version=version)


def test_unclean_election_row_needs_a_pending_admin_request() -> None:
    """The promise may allow an operator's unclean elections; then the order must be in the record."""
    order = NodeCreated(
        zxid=25,
        session=8,
        time_ms=wall_ms(2),
        path=paths.UNCLEAN_ELECTION,
        data=paths.preferred_payload((TP,)),
        ephemeral=False,
    )
    ordered = (led_by(1, version=1, ms=1), order, led_by(3, version=2, ms=3))
    unordered = (led_by(1, version=1, ms=1), led_by(3, version=2, ms=3))

    assert [e.leader for e in rows(*ordered) if e.kind is EventKind.UNCLEAN_ELECTION_ORDERED] == ["b3"]
    assert [e.leader for e in rows(*unordered) if e.kind is EventKind.UNCLEAN_ELECTION_ORDERED] == []


def test_leader_of_a_former_life_may_be_one_that_was_ordered() -> None:
    """DUR-7: its log may have lost records with that life, also where it led before."""
    order = NodeCreated(
        zxid=25, session=8, time_ms=wall_ms(2), path=paths.UNCLEAN_ELECTION, data=paths.preferred_payload((TP,)), ephemeral=False
    )
    again = (led_by(1, version=1, ms=1), order, led_by(1, version=2, ms=3, life=30))
    same = (led_by(1, version=1, ms=1), order, led_by(1, version=2, ms=3))

    assert [e.leader for e in rows(*again) if e.kind is EventKind.UNCLEAN_ELECTION_ORDERED] == ["b1"]
    assert [e.leader for e in rows(*same) if e.kind is EventKind.UNCLEAN_ELECTION_ORDERED] == []


def whole(*commits: AnyCommit, end_ms: int) -> int:
    return whole_until(commits, end_ns=end_ms * MS, start_ns=START_NS, wall_ahead_ns=WALL_AHEAD_NS)


def test_history_keeps_its_end_if_no_zk_commit_is_near_it() -> None:
    assert whole(state(1, ms=100), state(2, ms=900), end_ms=500) == 500 * MS


@pytest.mark.parametrize("ms", [481, 500, 519])
def test_history_is_cut_before_a_zk_commit_near_its_end(ms: int) -> None:
    """Else the write could stay without the append that allowed it, and a correct leader would be accused."""
    assert whole(state(1, ms=100), state(2, ms=ms), end_ms=500) == ms * MS - NEAR_NS


def test_history_is_not_cut_between_adjacent_zk_commits() -> None:
    busy = [state(version, ms=500 - 15 * version) for version in range(10, 0, -1)]

    assert whole(*busy, end_ms=500) == busy[0].time_ms * MS - (START_NS + WALL_AHEAD_NS) - NEAR_NS


def test_history_with_zk_commits_everywhere_is_cut_to_nothing() -> None:
    assert whole(*(state(version, ms=10 * version) for version in range(50)), end_ms=490) == 0
