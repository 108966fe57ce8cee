"""Who may lead when no member of the ISR can as it stands: the ELR, then the longest log that is counted on (KIP-966)."""

from dataclasses import dataclass

from reference.config import SAFE, VARIANTS
from reference.controller.leader_selection import AskLogs, Elect, Keep, longest, select
from reference.errors import ErrorCode
from reference.messages import Fetch, IsrMember, LeaderAndIsr, LogEnd, PartitionState, ProduceReply
from reference.replica import eligible
from reference.types import NO_INCARNATION, BrokerId, ControllerEpoch, Incarnation, LeaderEpoch, Offset, ZkVersion
from tests.reference.lab import T0, Lab

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
            T0, None, NO_INCARNATION, LeaderEpoch(4), self.isr, ControllerEpoch(1), ZkVersion(9), REPLICAS, self.elr
        )


def end(epoch: int, leo: int, *, born: int = 1) -> LogEnd:
    return LogEnd(T0, LeaderEpoch(epoch), Offset(leo), Incarnation(born))


# --- who is eligible -------------------------------------------------------------------------------------------------------


def test_who_leaves_a_short_isr_stays_eligible() -> None:
    isr = stamped((1, 10), (2, 20), (3, 30))
    one = eligible.after(SAFE, isr=isr, elr=(), wanted=isr[:2], min_isr=2)
    two = eligible.after(SAFE, isr=isr[:2], elr=one, wanted=isr[:1], min_isr=2)

    assert one == ()  # two are enough
    assert two == stamped((2, 20))


def test_everybody_who_left_since_the_isr_was_long_enough_is_eligible() -> None:
    isr = stamped((1, 10), (2, 20), (3, 30))
    two = eligible.after(SAFE, isr=isr, elr=(), wanted=isr[:2], min_isr=3)
    one = eligible.after(SAFE, isr=isr[:2], elr=two, wanted=isr[:1], min_isr=3)
    other = eligible.after(SAFE, isr=isr[:1], elr=one, wanted=isr[1:2], min_isr=3)

    assert (two, one) == (stamped((3, 30)), stamped((2, 20), (3, 30)))
    assert other == stamped((1, 10), (3, 30))  # elected out of the ELR: who led before is waited for now


def test_a_long_enough_isr_needs_nobody_else() -> None:
    assert eligible.after(SAFE, isr=stamped((1, 10)), elr=stamped((2, 20)), wanted=stamped((1, 10), (3, 30)), min_isr=2) == ()


# --- the order of election ----------------------------------------------------------------------------------------------------


def test_a_member_of_the_elr_leads_when_no_member_of_the_isr_can() -> None:
    shape = Shape(stamped((1, 10)), stamped((2, 20), (3, 30)))

    assert select(SAFE, shape.state, live(b1=11, b3=30)) == Elect(shape.elr[1], shape.elr[1:])


def test_a_stale_member_of_the_elr_does_not_lead_as_it_stands() -> None:
    shape = Shape(stamped((1, 10)), stamped((2, 20)))

    assert select(SAFE, shape.state, live(b2=21)) == Keep()


def test_isr_and_elr_are_waited_for_before_their_logs_are_compared() -> None:
    shape = Shape(stamped((1, 10)), stamped((2, 20)))

    assert select(SAFE, shape.state, live(b1=11)) == Keep()
    assert select(SAFE, shape.state, live(b1=11, b2=21)) == AskLogs((BrokerId(1), BrokerId(2)))


def test_the_later_epoch_wins_and_then_the_longer_log() -> None:
    shape = Shape(stamped((1, 10)), stamped((2, 20), (3, 30)))
    ends = [(BrokerId(1), end(2, 50)), (BrokerId(2), end(3, 40)), (BrokerId(3), end(3, 41))]

    assert longest(SAFE, shape.state, live(b1=11, b2=21, b3=31), ends) == Elect(stamped((3, 31))[0], stamped((3, 31)))


def test_a_log_that_is_younger_than_the_stamp_never_wins() -> None:
    """Its directory came back empty: whoever elects it has everybody truncate to nothing (docs/promise.md DUR-6, U-17, B-33)."""
    shape = Shape(stamped((1, 10)))
    ends = [(BrokerId(1), end(-1, 0, born=11))]

    assert longest(SAFE, shape.state, live(b1=11), ends) is None
    assert longest(VARIANTS["no-log-birth"], shape.state, live(b1=11), ends) == Elect(stamped((1, 11))[0], stamped((1, 11)))


# --- on a cluster -------------------------------------------------------------------------------------------------------------


def test_the_high_watermark_stands_still_while_the_isr_is_too_short() -> None:
    """KAFKA-15583: what a single replica holds is not committed where two were asked for."""
    for name, expected in (("safe", 0), ("hw-under-min-isr", 1)):
        lab = Lab(2, variant=VARIANTS[name], min_isr=2)
        lab.wait(3000)
        lab.held = lambda letter: isinstance(letter[2], Fetch)
        lab.produce(1, "x")
        lab.wait(9000)

        assert (lab.isr(), lab.partition(1).hw) == ([1], expected)


def test_the_last_replica_standing_is_not_the_only_one_that_counts() -> None:
    """KIP-966: b1 alone in the ISR loses its log; b2, which left while the ISR was short, leads with all that was committed."""
    lab = Lab(2, min_isr=2)
    lab.wait(3000)
    lab.produce(1, "x")
    lab.settle()
    lab.wait(1000)
    lab.held = lambda letter: isinstance(letter[2], Fetch)
    lab.produce(1, "y")  # reaches b2 by the fetch that waited, and is not committed
    lab.wait(9000)
    assert (lab.isr(), [m.broker for m in lab.state().elr]) == ([1], [2])
    lab.crash(1)
    lab.disks[1].logs[T0].clear()
    lab.held = lambda _: False
    lab.expire(1)
    lab.settle()
    lab.start(1)
    lab.wait(3000)

    assert lab.leaders() == [2]
    assert lab.values(1) == lab.values(2) == ["x", "y"]
    assert next(m.error for m in lab.inbox if isinstance(m, ProduceReply)) is ErrorCode.NONE


def test_a_broker_that_died_before_it_made_its_replica_may_still_lead() -> None:
    """Nothing was ever in the replica: a log that is missing while every directory is the old one is an empty log."""
    lab = Lab(1, start=False)
    lab.held = lambda letter: isinstance(letter[2], LeaderAndIsr)  # the command to lead never arrives
    lab.start(1)
    lab.settle()
    assert lab.isr() == [1]
    assert T0 not in lab.disks[1].logs
    lab.crash(1)
    lab.held = lambda _: False
    lab.expire(1)
    lab.start(1)
    lab.settle()

    assert lab.leaders() == [1]


def test_a_broker_whose_directory_was_swapped_leads_nobody() -> None:
    """docs/promise.md SILENT-2: the partition stays offline, and the data of the other replica stays where it is."""
    lab = Lab(1)
    lab.produce(1, "x")
    lab.settle()
    lab.crash(1)
    lab.disks[1] = type(lab.disks[1])()
    lab.expire(1)
    lab.start(1)
    lab.wait(3000)

    assert lab.leaders() == []
    assert lab.state().leader is None  # and clients are told so
