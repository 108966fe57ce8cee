"""Orders of unclean elections among the commits of coordination."""

from highwater.backends.real.orders import NEAR_MS, with_orders
from highwater.rig.commits import AnyCommit, NodeDeleted, NodeWritten
from highwater.rig.evidence import CommitRows
from history.event import EventKind
from history.op import Operation, OpType
from reference.coordination import paths
from reference.messages import IsrMember, PartitionState
from reference.types import NO_INCARNATION, BrokerId, ControllerEpoch, LeaderEpoch, TopicPartition, ZkVersion

T0 = TopicPartition("t-0")


def row(at_ms: int, type_: OpType, process: int = 1, value: str | None = None) -> Operation:
    return Operation(index=at_ms, process=process, type=type_, f="elect-unclean", value=value, time_ns=at_ms * 1_000_000)


def state(at_ms: int, leader: int | None, isr: tuple[int, ...], version: int) -> AnyCommit:
    """The write of a partition's state at this time."""
    written = PartitionState(
        tp=T0,
        leader=None if leader is None else BrokerId(leader),
        leader_incarnation=NO_INCARNATION,
        leader_epoch=LeaderEpoch(version),
        isr=tuple(IsrMember(BrokerId(broker), NO_INCARNATION) for broker in isr),
        controller_epoch=ControllerEpoch(0),
        zk_version=ZkVersion(version),
        replicas=(),
    )
    path, data = paths.state_path(T0), paths.state_payload(written)
    return NodeWritten(zxid=version, session=0, time_ms=at_ms, path=path, data=data, version=version)


def kinds(commits: list[AnyCommit]) -> list[EventKind]:
    rows = CommitRows()
    return [kind for commit in commits for kind, _ in rows.of(commit, writer=None, life=None)]


ELECTED = [state(0, 1, (1, 2), 0), state(500, None, (1,), 1), state(1000, 3, (3,), 2)]
STATES = [EventKind.STATE_WRITTEN] * 2


def test_election_while_an_order_stands_has_a_row() -> None:
    asked = [row(950, OpType.INVOKE, value="t-0"), row(1100, OpType.OK)]

    assert kinds(with_orders(ELECTED, asked, zero_ms=0)) == [*STATES, EventKind.UNCLEAN_ELECTION_ORDERED, EventKind.STATE_WRITTEN]


def test_order_of_another_partition_or_time_excuses_nothing() -> None:
    other = [row(950, OpType.INVOKE, value="t-1"), row(1100, OpType.OK)]
    over = [row(100, OpType.INVOKE, value="t-0"), row(200, OpType.OK)]
    later = [row(1100, OpType.INVOKE, value="t-0")]

    assert [kinds(with_orders(ELECTED, asked, zero_ms=0)) for asked in (other, over, later)] == [
        [EventKind.STATE_WRITTEN] * 3
    ] * 3


def test_order_of_unknown_outcome_stands_until_the_end() -> None:
    asked = [row(100, OpType.INVOKE, value="t-0"), row(200, OpType.INFO)]

    assert EventKind.UNCLEAN_ELECTION_ORDERED in kinds(with_orders(ELECTED, asked, zero_ms=0))


def test_orders_stand_beside_each_other_and_end_alone() -> None:
    asked = [
        row(100, OpType.INVOKE, 1, "t-0"),
        row(200, OpType.INVOKE, 2, "t-1"),
        row(300, OpType.OK, 1),
        row(400, OpType.FAIL, 2),
    ]
    merged = with_orders([], asked, zero_ms=1000)

    assert [commit.time_ms for commit in merged] == [1100 - NEAR_MS, 1200 - NEAR_MS, 1300 + NEAR_MS, 1400 + NEAR_MS]
    named = [paths.decode_preferred(commit.data) for commit in merged if isinstance(commit, NodeWritten)]
    assert named == [(T0,), (T0, "t-1"), ("t-1",)]
    assert isinstance(merged[-1], NodeDeleted)
