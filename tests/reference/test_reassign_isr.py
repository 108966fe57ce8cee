"""Leader and ISR of a partition while it is moved (V3 §F, KIP-236)."""

import msgspec
import pytest

from reference.config import VARIANTS
from reference.controller.context import Move
from reference.controller.leader_selection import Elect, Keep, lead_from_target, members_wanted, shrink_to_target
from reference.events import Received
from reference.messages import (
    Fetch,
    IsrChange,
    IsrMember,
    LeaderAndIsr,
    PartitionState,
    StopPartition,
    StopReplica,
)
from reference.replica.partition import Leader
from reference.types import (
    Address,
    BrokerId,
    ControllerEpoch,
    Incarnation,
    LeaderEpoch,
    Millis,
    ZkVersion,
)
from tests.reference.lab import T0, Envelope, Lab, carries
from tests.reference.moving import (
    OAR,
    RAR,
    broker_ids,
    cluster,
    fetches_from,
    is_moved_to,
    reassign,
    request_rollback,
    stuck_move,
    wait_until,
)


def state(leader: int | None, isr: tuple[int, ...], replicas: tuple[int, ...]) -> PartitionState:
    return PartitionState(
        tp=T0,
        leader=None if leader is None else BrokerId(leader),
        leader_incarnation=Incarnation(leader or -1),
        leader_epoch=LeaderEpoch(3),
        isr=tuple(IsrMember(b, Incarnation(b)) for b in broker_ids(*isr)),
        controller_epoch=ControllerEpoch(1),
        zk_version=ZkVersion(5),
        replicas=broker_ids(*replicas),
    )


def live(*brokers: int) -> dict[BrokerId, Incarnation]:
    return {b: Incarnation(b) for b in broker_ids(*brokers)}


def test_reassignment_elects_a_leader_from_the_target_replicas() -> None:
    """R-235: the first of AR that is in the ISR and live with the same incarnation; a leader among them stays leader."""
    here = live(1, 2, 3, 4, 5)
    moved = state(1, (1, 2, 3, 4, 5), (5, 4))

    assert lead_from_target(VARIANTS["safe"], moved, here, 2) == Elect(IsrMember(BrokerId(5), Incarnation(5)), moved.isr)
    kept_state = state(4, (1, 2, 3, 4, 5), (5, 4))
    assert lead_from_target(VARIANTS["safe"], kept_state, here, 2) == Elect(
        IsrMember(BrokerId(4), Incarnation(4)), kept_state.isr
    )
    late_state = state(1, (1, 2, 3, 4), (5, 4))
    assert lead_from_target(VARIANTS["safe"], late_state, here, 1) == Elect(
        IsrMember(BrokerId(4), Incarnation(4)), late_state.isr
    )
    lab = stuck_move()
    before = lab.state()
    request_rollback(lab)
    after = lab.state()

    assert (after.leader, after.leader_epoch) == (before.leader, before.leader_epoch + 1)


def test_reassignment_keeps_its_leader_while_too_few_are_in_sync() -> None:
    """U-21: a member with another incarnation does not count, because it may have lost its log."""
    moved = state(1, (1, 4), (4, 5))

    assert lead_from_target(VARIANTS["safe"], moved, live(1, 4, 5), 2) == Keep()
    assert (
        lead_from_target(VARIANTS["safe"], state(1, (1, 4, 5), (4, 5)), {**live(1, 4), BrokerId(5): Incarnation(9)}, 2) == Keep()
    )


def test_reassignment_shrinks_the_isr_to_the_target_replicas() -> None:
    """R-236, V3 §F step 3.2.2: a leader that leaves is replaced by a member that stays."""
    remaining_members = tuple(IsrMember(b, Incarnation(b)) for b in broker_ids(4, 5))

    assert shrink_to_target(VARIANTS["safe"], state(4, (1, 4, 5), (5, 4)), live(1, 4, 5), 2) == Elect(
        remaining_members[0], remaining_members
    )
    assert shrink_to_target(VARIANTS["safe"], state(1, (1, 4, 5), (5, 4)), live(1, 4, 5), 2) == Elect(
        remaining_members[1], remaining_members
    )
    lab = cluster()
    lab.is_held = fetches_from(5, 6)
    reassign(lab)
    assert sorted(lab.isr()) == [1, 2, 3, 4]
    request_rollback(lab)

    assert wait_until(lab, lambda: is_moved_to(lab, OAR))


@pytest.mark.parametrize(("protocol", "back", "wanted"), [("safe", False, 3), ("safe", True, 2), ("cancel-without-isr", True, 0)])
def test_rollback_waits_for_min_isr_replicas_only(protocol: str, back: bool, wanted: int) -> None:
    """R-244, U-21: min.insync.replicas of OAR, where a forward move waits for all of RAR."""
    config = cluster(VARIANTS[protocol]).configs[1]
    move = Move(target=broker_ids(*OAR), original=broker_ids(*OAR), back=back)

    assert members_wanted(config, state(1, OAR, OAR), move) == wanted


def test_dropped_replica_that_fetches_does_not_rejoin_the_isr() -> None:
    """B-38, KAFKA-1097, R-235: on an idle partition it is always caught up, and the leader would never remove it again."""
    assert _isr_after_a_late_fetch("safe") == [4, 5, 6]
    assert 2 in _isr_after_a_late_fetch("isr-unassigned")


def _fetch_late(lab: Lab) -> Leader:
    """Dropped b2 fetches at the log end of the new leader, b4, before it is stopped."""
    lab.is_held = carries(StopReplica)
    reassign(lab)
    leader = lab.partition(4)
    assert isinstance(leader.role, Leader)
    incarnation = next(b.incarnation for b in lab.nodes[1].state.controller.live if b.broker == 2)
    fetch = Fetch(99, T0, BrokerId(2), incarnation, leader.leader_epoch, leader.log.leo, Millis(0), 10)
    lab.handle_event(4, Received(Address("b2"), fetch))
    return leader.role


def _isr_after_a_late_fetch(protocol: str) -> list[int]:
    """The ISR after dropped b2 has fetched at the log end of the new leader."""
    lab = cluster(VARIANTS[protocol])
    _fetch_late(lab)
    lab.settle()
    return sorted(lab.isr())


def test_leader_does_not_ask_for_a_dropped_replica() -> None:
    """R-235, C-17: AR in the request keeps it from adding the replica; the controller would refuse it, too."""
    lab = cluster()
    leader = _fetch_late(lab)

    assert leader.change is None
    assert [envelope for envelope in lab.in_flight if isinstance(envelope.message, IsrChange)] == []


def test_leader_removes_unassigned_members_from_the_isr() -> None:
    """B-39, KAFKA-9672: the leader got an ISR wider than the assignment, and the controller died before it shrank the ISR."""
    assert _isr_of_a_leader_with_too_wide_an_isr("safe") == [1, 2]
    assert _isr_of_a_leader_with_too_wide_an_isr("isr-unassigned") == [1, 2, 3]


def _isr_of_a_leader_with_too_wide_an_isr(protocol: str) -> list[int]:
    lab = cluster(msgspec.structs.replace(VARIANTS[protocol], isr_change_via="zookeeper"))
    held_state = lab.state()
    narrow = msgspec.structs.replace(held_state, leader_epoch=LeaderEpoch(held_state.leader_epoch + 1), replicas=broker_ids(1, 2))
    controller = lab.nodes[1].state.controller
    lab.handle_event(
        1,
        Received(
            Address("b1"),
            LeaderAndIsr(99, BrokerId(1), controller.epoch, held_state.leader_incarnation, init=False, states=(narrow,)),
        ),
    )
    lab.wait(3000)
    return lab.isr()


def test_late_leader_and_isr_copy_does_not_widen_replicas() -> None:
    """B-38: the command that widened the assignment arrives again after the one that narrowed it."""
    lab = cluster()
    copies: list[LeaderAndIsr] = []
    lab.is_held = lambda envelope: _copied(envelope, copies)
    reassign(lab)
    assert is_moved_to(lab, RAR)
    for copy in copies:
        lab.handle_event(4, Received(Address("b1"), copy))

    assert lab.partition(4).replicas == RAR


@pytest.mark.parametrize(("fenced", "made"), [(True, False), (False, True)])
def test_late_leader_and_isr_copy_does_not_recreate_a_replica(fenced: bool, made: bool) -> None:
    """B-38, R-237: no controller would know of that log, so it would never be deleted."""
    lab = cluster(msgspec.structs.replace(VARIANTS["safe"], stop_replica_epoch=fenced))
    copies: list[LeaderAndIsr] = []
    lab.is_held = lambda envelope: _copied(envelope, copies)
    reassign(lab)
    reassign(lab, OAR)
    assert is_moved_to(lab, OAR)
    lab.handle_event(4, Received(Address("b1"), copies[0]))
    assert (T0 in lab.disks[4].logs) is made
    lab = cluster(lab.configs[1].variant)
    lab.is_held = carries(LeaderAndIsr, receiver="b4")  # it comes after the deletion of what was never created
    reassign(lab)
    late = next(message for _, to, message in lab.in_flight if to == "b4" and isinstance(message, LeaderAndIsr))
    (state_told,) = late.states
    stop = StopPartition(T0, LeaderEpoch(state_told.leader_epoch + 1), topic_id=state_told.topic_id, moved=True)
    sender = (late.controller, late.controller_epoch, late.broker_incarnation)
    lab.handle_event(4, Received(Address("b1"), StopReplica(99, *sender, (stop,), late.number + 1)))
    lab.handle_event(4, Received(Address("b1"), late))

    assert (T0 in lab.disks[4].logs) is made


def test_dropped_replica_can_be_assigned_again() -> None:
    """R-237: the broker refuses only commands older than the deletion, not those of a later move to it."""
    lab = cluster()
    for target in (RAR, OAR, RAR):
        reassign(lab, target)

    assert is_moved_to(lab, RAR)


def _copied(envelope: Envelope, copies: list[LeaderAndIsr]) -> bool:
    if envelope.receiver == "b4" and isinstance(envelope.message, LeaderAndIsr) and envelope.message not in copies:
        copies.append(envelope.message)
    return False
