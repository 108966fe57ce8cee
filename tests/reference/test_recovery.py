"""Elections when no member of the ISR can lead unchanged: the ELR, then the longest log of ISR and ELR (KIP-966)."""

from dataclasses import dataclass

from reference.config import SAFE, VARIANTS
from reference.controller.leader_selection import AskLogs, Elect, Keep, longest, select
from reference.errors import ErrorCode
from reference.messages import Fetch, IsrMember, LeaderAndIsr, LogEnd, PartitionState, ProduceReply
from reference.replica import eligible
from reference.types import NO_INCARNATION, BrokerId, ControllerEpoch, Incarnation, LeaderEpoch, Offset, ZkVersion
from tests.reference.lab import T0, Lab, carries

REPLICAS = (BrokerId(1), BrokerId(2), BrokerId(3))


def stamped(*members: tuple[int, int]) -> tuple[IsrMember, ...]:
    return tuple(IsrMember(BrokerId(b), Incarnation(i)) for b, i in members)


def live(**brokers: int) -> dict[BrokerId, Incarnation]:
    return {BrokerId(int(name[1:])): Incarnation(i) for name, i in brokers.items()}


@dataclass(frozen=True)
class Shape:
    isr: tuple[IsrMember, ...]
    elr: tuple[IsrMember, ...] = ()

    @property
    def state(self) -> PartitionState:
        return PartitionState(
            T0,
            leader=None,
            leader_incarnation=NO_INCARNATION,
            leader_epoch=LeaderEpoch(4),
            isr=self.isr,
            controller_epoch=ControllerEpoch(1),
            zk_version=ZkVersion(9),
            replicas=REPLICAS,
            elr=self.elr,
        )


def log_end(epoch: int, leo: int, *, born: int = 1) -> LogEnd:
    return LogEnd(T0, LeaderEpoch(epoch), Offset(leo), Incarnation(born))


# --- the eligible leader replicas (ELR) ------------------------------------------------------------------------------------


def test_member_that_leaves_a_short_isr_joins_the_elr() -> None:
    isr = stamped((1, 10), (2, 20), (3, 30))
    after_first = eligible.after(SAFE, isr=isr, elr=(), wanted=isr[:2], min_isr=2)
    after_second = eligible.after(SAFE, isr=isr[:2], elr=after_first, wanted=isr[:1], min_isr=2)

    assert after_first == ()  # two are enough
    assert after_second == stamped((2, 20))


def test_elr_holds_all_members_that_left_a_short_isr() -> None:
    isr = stamped((1, 10), (2, 20), (3, 30))
    after_second = eligible.after(SAFE, isr=isr, elr=(), wanted=isr[:2], min_isr=3)
    after_loss = eligible.after(SAFE, isr=isr[:2], elr=after_second, wanted=isr[:1], min_isr=3)
    after_second_loss = eligible.after(SAFE, isr=isr[:1], elr=after_loss, wanted=isr[1:2], min_isr=3)

    assert (after_second, after_loss) == (stamped((3, 30)), stamped((2, 20), (3, 30)))
    assert after_second_loss == stamped((1, 10), (3, 30))  # 2 was elected from the ELR, and the leader before it joins the ELR


def test_elr_is_empty_while_the_isr_is_long_enough() -> None:
    assert eligible.after(SAFE, isr=stamped((1, 10)), elr=stamped((2, 20)), wanted=stamped((1, 10), (3, 30)), min_isr=2) == ()


# --- the order of election ----------------------------------------------------------------------------------------------------


def test_elr_member_leads_if_no_isr_member_can() -> None:
    shape = Shape(stamped((1, 10)), stamped((2, 20), (3, 30)))

    assert select(SAFE, shape.state, live(b1=11, b3=30)) == Elect(shape.elr[1], shape.elr[1:])


def test_restarted_elr_member_is_not_elected_at_once() -> None:
    shape = Shape(stamped((1, 10)), stamped((2, 20)))

    assert select(SAFE, shape.state, live(b2=21)) == Keep()


def test_election_waits_for_isr_and_elr_before_asking_logs() -> None:
    shape = Shape(stamped((1, 10)), stamped((2, 20)))

    assert select(SAFE, shape.state, live(b1=11)) == Keep()
    assert select(SAFE, shape.state, live(b1=11, b2=21)) == AskLogs((BrokerId(1), BrokerId(2)))


def test_election_from_logs_prefers_later_epoch_then_longer_log() -> None:
    shape = Shape(stamped((1, 10)), stamped((2, 20), (3, 30)))
    log_ends = [(BrokerId(1), log_end(2, 50)), (BrokerId(2), log_end(3, 40)), (BrokerId(3), log_end(3, 41))]

    assert longest(SAFE, shape.state, live(b1=11, b2=21, b3=31), log_ends) == Elect(stamped((3, 31))[0], stamped((3, 31)))


def test_replica_whose_log_was_recreated_empty_is_never_elected() -> None:
    """Its directory was emptied; as leader it would make all others truncate to nothing (docs/promise.md DUR-6, U-17, B-33)."""
    shape = Shape(stamped((1, 10)))
    log_ends = [(BrokerId(1), log_end(-1, 0, born=11))]

    assert longest(SAFE, shape.state, live(b1=11), log_ends) is None
    assert longest(VARIANTS["no-log-birth"], shape.state, live(b1=11), log_ends) == Elect(stamped((1, 11))[0], stamped((1, 11)))


# --- on a cluster -------------------------------------------------------------------------------------------------------------


def test_hw_does_not_advance_while_the_isr_is_too_short() -> None:
    """KAFKA-15583: a record on one replica is not committed if min.insync.replicas is 2."""
    for name, expected in (("safe", 0), ("hw-under-min-isr", 1)):
        lab = Lab(2, variant=VARIANTS[name], min_isr=2)
        lab.wait(3000)
        lab.is_held = carries(Fetch)
        lab.produce(1, "x")
        lab.wait(9000)

        assert (lab.isr(), lab.partition(1).hw) == ([1], expected)


def test_elr_member_leads_after_the_last_isr_member_is_wiped() -> None:
    """KIP-966: b1 alone in the ISR loses its log; b2, which left a short ISR, leads with all committed records."""
    lab = Lab(2, min_isr=2)
    lab.wait(3000)
    lab.produce(1, "x")
    lab.settle()
    lab.wait(1000)
    lab.is_held = carries(Fetch)
    lab.produce(1, "y")  # reaches b2 by its parked fetch, and is not committed
    lab.wait(9000)
    assert (lab.isr(), [reply.broker for reply in lab.state().elr]) == ([1], [2])
    lab.crash(1)
    lab.disks[1].logs[T0].clear()
    lab.is_held = lambda _: False
    lab.expire(1)
    lab.settle()
    lab.start(1)
    lab.wait(3000)

    assert lab.leaders() == [2]
    assert lab.values(1) == lab.values(2) == ["x", "y"]
    assert next(reply.error for reply in lab.client_replies if isinstance(reply, ProduceReply)) is ErrorCode.NONE


def test_broker_that_crashed_before_creating_its_log_may_lead() -> None:
    """The replica never held a record: a missing log counts as empty while all directories are the old ones."""
    lab = Lab(1, start=False)
    lab.is_held = carries(LeaderAndIsr)  # the command to lead never arrives
    lab.start(1)
    lab.settle()
    assert lab.isr() == [1]
    assert T0 not in lab.disks[1].logs
    lab.crash(1)
    lab.is_held = lambda _: False
    lab.expire(1)
    lab.start(1)
    lab.settle()

    assert lab.leaders() == [1]


def test_broker_with_a_replaced_directory_is_not_elected() -> None:
    """docs/promise.md SILENT-2: the partition stays offline, and the other replicas keep their data."""
    lab = Lab(1)
    lab.produce(1, "x")
    lab.settle()
    lab.crash(1)
    lab.disks[1] = type(lab.disks[1])()
    lab.expire(1)
    lab.start(1)
    lab.wait(3000)

    assert lab.leaders() == []
    assert lab.state().leader is None  # clients learn this from the metadata
