"""ISR changes through the controller (KIP-343 Initiating ISR Changes): what goes wrong on the way, and the known mistakes."""

from msgspec.structs import replace

from reference.broker import isr_change as asking
from reference.controller import proposals
from reference.errors import ErrorCode
from reference.events import Received
from reference.messages import (
    FetchReply,
    IsrChange,
    IsrChangeReply,
    IsrMember,
    IsrResult,
    LeaderAndIsr,
    PartitionState,
    ProduceReply,
    UpdateMetadata,
)
from reference.replica import high_watermark, isr
from reference.replica.partition import IsrAsked, brokers_of
from reference.types import Address, BrokerId, BrokerState, ZkVersion
from tests.reference.isr_changes import (
    cluster_in_sync,
    controller_of,
    is_change,
    is_reply,
    isr_proposal,
    request_isr_change,
    sent_to_leader_by,
    shrink,
    turn_of,
)
from tests.reference.lab import T0, Lab, carries
from tests.reference.recorded import leader_of
from tests.reference.v3 import crash_and_expire


def test_isr_change_with_a_lost_answer_succeeds_on_retry() -> None:
    """U-13: the controller refuses the second copy for its version, and returns the state that the first one made."""
    lab = cluster_in_sync()
    lab.is_held = sent_to_leader_by(4)
    expected_members = shrink(lab, 4)
    lab.deliver(is_change)
    lab.drop(is_reply)
    lab.wait(3000)

    assert leader_of(lab).isr == expected_members
    assert leader_of(lab).change is None
    assert lab.isr() == [2, 3]


def isr_after_a_late_copy(variant: str) -> list[int]:
    """The ISR after {2,3,4} -> {2,4} -> {2} and a second copy of the first request (B-31)."""
    lab = cluster_in_sync(variant)
    lab.is_held = carries(FetchReply)  # no follower catches up
    shrink(lab, 3)
    (copy,) = [envelope for envelope in lab.in_flight if is_change(envelope)]
    lab.deliver(is_change)
    lab.deliver(is_reply)
    shrink(lab, 4)
    lab.deliver(is_change)
    lab.deliver(is_reply)
    assert (lab.isr(), brokers_of(leader_of(lab).isr)) == ([2], (2,))
    lab.produce(2, "m")
    assert lab.partition(2).hw == 1  # committed by b2 alone
    lab.in_flight.append(copy)
    lab.deliver(is_change)
    return lab.isr()


def test_late_copy_of_an_isr_change_re_adds_no_replica() -> None:
    """B-31, U-13: fenced by the leader epoch alone, the copy makes a replica electable that lacks committed records."""
    assert isr_after_a_late_copy("isr-no-version") == [2, 4]
    assert isr_after_a_late_copy("safe") == [2]


def isr_after_a_swap(variant: str) -> list[int]:
    """The ISR when the leader asks for b4, and b4 dies and returns with an empty disk before the request is read (B-35)."""
    lab = cluster_in_sync(variant)
    lab.checks_rules = variant == "safe"  # without the epochs of members the writer breaks one
    crash_and_expire(lab, 4)
    lab.start(4)
    lab.is_held = is_change
    lab.wait(3000)
    (envelope,) = [envelope for envelope in lab.in_flight if is_change(envelope)][:1]
    lab.crash(4)
    lab.disks[4] = type(lab.disks[4])()
    lab.expire(4)
    lab.start(4)
    lab.is_held = lambda other: is_change(other) or isinstance(other.message, FetchReply)
    lab.settle()
    lab.drop(is_change)
    lab.in_flight.append(envelope)
    lab.deliver(is_change)
    return lab.isr()


def test_late_isr_change_does_not_add_a_wiped_replica() -> None:
    """B-35, B-36, KIP-903: the request names the incarnation that had caught up, and the writer of the ISR checks it."""
    assert isr_after_a_swap("isr-no-member-epoch") == [2, 3, 4]
    assert isr_after_a_swap("safe") == [2, 3]


def result_for_a_stopping_broker(variant: str) -> ErrorCode:
    """The answer to a proposal that adds b4, which is stopping and has left the ISR (B-37)."""
    lab = cluster_in_sync(variant)
    request_isr_change(lab, isr_proposal(lab, 2, 3))
    for standing in controller_of(lab).standings:
        if standing.broker == 4:
            standing.state = BrokerState.STOPPING
    return request_isr_change(lab, isr_proposal(lab, 2, 3, 4)).results[0].error


def test_isr_change_does_not_add_a_stopping_broker() -> None:
    """B-37, KIP-841: when the leader is gone, the partition would wait for the stopped broker."""
    assert result_for_a_stopping_broker("isr-adds-stopping") is ErrorCode.NONE
    assert result_for_a_stopping_broker("safe") is ErrorCode.INELIGIBLE_REPLICA


def test_leader_withdraws_a_refused_isr_change_by_a_write() -> None:
    """KIP-497: a controller may still accept a late copy, so the refused ISR counts until the version moves."""
    lab = cluster_in_sync(min_isr=2)
    leader = leader_of(lab)
    refused = (*leader.isr[:2],)
    turn = turn_of(lab, 2)
    isr._propose(turn, lab.partition(2), leader, refused)
    assert leader.change is not None
    before = leader.zk_version
    isr.on_result(turn, lab.partition(2), leader, IsrResult(ErrorCode.INELIGIBLE_REPLICA, None, lab.state()))
    assert leader.change.earlier == (refused,)
    assert leader.change.wanted == leader.isr
    assert set(high_watermark.counted_for_hw(turn, leader)) == set(leader.isr)
    assert high_watermark.in_sync_for_min_isr(turn, leader) == 2
    asking.send_due(turn, lab.nodes[2].state.broker)
    for effect in turn.effects:
        lab._perform(2, effect)
    lab.settle()

    assert leader_of(lab).change is None
    assert leader_of(lab).zk_version == before + 1
    assert lab.isr() == [2, 3, 4]


def test_refused_member_counts_until_the_withdrawal_is_written() -> None:
    """KIP-497: a late copy of the refused expansion may still land, and then b4 may lead: it must have what is committed."""
    lab = cluster_in_sync()
    request_isr_change(lab, isr_proposal(lab, 2, 3))
    leader = leader_of(lab)
    leader.isr, leader.zk_version = lab.state().isr, lab.state().zk_version
    assert brokers_of(leader.isr) == (2, 3)
    added = next(IsrMember(f.broker, f.incarnation) for f in leader.followers if f.broker == 4)
    turn = turn_of(lab, 2)
    isr._propose(turn, lab.partition(2), leader, (*leader.isr, added))
    isr.on_result(turn, lab.partition(2), leader, IsrResult(ErrorCode.INELIGIBLE_REPLICA, None, lab.state()))

    assert leader.change is not None
    assert leader.change.wanted == leader.isr
    assert added in high_watermark.counted_for_hw(turn, leader)
    assert high_watermark.in_sync_for_min_isr(turn, leader) == 2


def step_after_a_zombies_answer(variant: str) -> str:
    """The step of the leader's change after the answer of a controller that knows only an older state (B-55)."""
    lab = cluster_in_sync(variant)
    stale = controller_of(lab).states[T0]
    request_isr_change(lab, isr_proposal(lab, 2, 3, 4))
    lab.handle_event(2, Received(Address("b1"), _as_leader_and_isr(lab)))
    lab.wait(1000)
    controller_of(lab).states[T0] = replace(stale, zk_version=ZkVersion(0))
    lab.cut_off_from_zk.add(1)  # it cannot read ZooKeeper
    shrink(lab, 4)
    lab.deliver(is_change)
    lab.deliver(is_reply)
    change = leader_of(lab).change
    assert change is not None
    return change.step


def _as_leader_and_isr(lab: Lab) -> LeaderAndIsr:
    """The state in ZooKeeper as a command to the leader."""
    state = replace(lab.state(), replicas=(BrokerId(2), BrokerId(3), BrokerId(4)), leader_epoch=lab.state().leader_epoch)
    return LeaderAndIsr(
        9, BrokerId(1), controller_of(lab).epoch, lab.nodes[2].state.broker.incarnation, init=False, states=(state,)
    )


def test_deposed_controller_does_not_refuse_isr_change_for_good() -> None:
    """B-55, KAFKA-14154: the controller may have been replaced; the leader must go on asking."""
    assert step_after_a_zombies_answer("isr-zombie-controller") == "superseded"
    assert step_after_a_zombies_answer("safe") == "asking"


def test_isr_change_refused_with_an_older_state_stays_pending() -> None:
    """B-55, KAFKA-14154: a controller that refuses by an older version has not seen the state that the leader has."""
    lab = cluster_in_sync()
    shrink(lab, 4)
    leader = leader_of(lab)
    assert leader.change is not None
    older = replace(lab.state(), zk_version=ZkVersion(0))
    isr.on_result(turn_of(lab, 2), lab.partition(2), leader, IsrResult(ErrorCode.INVALID_UPDATE_VERSION, None, older))

    assert leader.change.step == "lost"


def isr_believed_after_an_old_answer(variant: str) -> tuple[int, ...]:
    """The leader's ISR when the answer to a change of one epoch arrives in the next epoch, which has another ISR (B-32)."""
    lab = cluster_in_sync(variant)
    lab.is_held = sent_to_leader_by(4)
    shrink(lab, 4)
    lab.deliver(is_change)
    (answer,) = [envelope for envelope in lab.in_flight if is_reply(envelope)]
    lab.in_flight.remove(answer)
    crash_and_expire(lab, 3)
    assert (lab.state().leader, brokers_of(leader_of(lab).isr)) == (2, (2,))
    lab.in_flight.append(answer)
    lab.settle()
    return brokers_of(leader_of(lab).isr)


def test_leader_ignores_isr_answer_of_an_earlier_epoch() -> None:
    """B-32, KAFKA-12686: the leader would go on with an outdated ISR."""
    assert isr_believed_after_an_old_answer("isr-answers-mixed-up") == (2, 3)
    assert isr_believed_after_an_old_answer("safe") == (2,)


def acks_after_a_silent_follower_left(variant: str) -> list[ErrorCode]:
    """Answers for a record that waits for b4: b4 is silent and leaves the ISR, and no follower fetches afterwards (B-25)."""
    lab = cluster_in_sync(variant)
    lab.is_held = carries(sender="b4", receiver="b2")
    lab.wait(600)
    lab.produce(2, "m", correlation=7)
    lab.settle()
    assert lab.partition(2).hw == 0
    lab.is_held = lambda envelope: envelope.receiver == "b2" and envelope.sender in ("b3", "b4")
    shrink(lab, 4)
    lab.settle()
    return [reply.error for reply in lab.client_replies if isinstance(reply, ProduceReply) and reply.correlation == 7]


def test_leader_advances_hw_when_an_isr_change_ends() -> None:
    """B-25, KAFKA-13091: there may be no later fetch to advance it."""
    assert acks_after_a_silent_follower_left("no-hw-recheck") == []
    assert acks_after_a_silent_follower_left("safe") == [ErrorCode.NONE]


def hw_while_a_change_is_in_flight(variant: str) -> int:
    """The HW while the controller may already have added b4, which lacks what b2 and b3 hold (B-30)."""
    lab = cluster_in_sync(variant)
    request_isr_change(lab, isr_proposal(lab, 2, 3))
    leader = leader_of(lab)
    leader.isr, leader.zk_version = lab.state().isr, lab.state().zk_version
    lab.is_held = lambda envelope: is_reply(envelope) or (isinstance(envelope.message, FetchReply) and envelope.receiver == "b4")
    turn = turn_of(lab, 2)
    member = IsrMember(BrokerId(4), lab.nodes[4].state.broker.incarnation)
    isr._propose(turn, lab.partition(2), leader, (*leader.isr, member))
    lab.produce(2, "m")
    lab.settle()
    return lab.partition(2).hw


def test_both_isrs_count_until_the_controller_answers() -> None:
    """B-30, KIP-497: the leader does not know which of the two an election would use."""
    assert hw_while_a_change_is_in_flight("isr-current") == 1
    assert hw_while_a_change_is_in_flight("safe") == 0


def test_queued_leader_and_isr_is_updated_when_the_isr_changes() -> None:
    """R-192: otherwise a command that waits in its channel would carry an outdated ISR."""
    lab = cluster_in_sync()
    channel = next(c for c in controller_of(lab).channels if c.broker == 3)
    channel.in_flight = UpdateMetadata(99, BrokerId(1), controller_of(lab).epoch, channel.incarnation, live_brokers=(), states=())
    channel.states[T0] = replace(lab.state(), replicas=(BrokerId(2), BrokerId(3), BrokerId(4)))
    request_isr_change(lab, isr_proposal(lab, 2, 3))

    assert brokers_of(channel.states[T0].isr) == (2, 3)


def test_controller_keeps_only_the_latest_isr_request() -> None:
    """The leader waits for the latest answer only; requests must not pile up at a controller without ZooKeeper."""
    lab = cluster_in_sync()
    lab.cut_off_from_zk.add(1)
    for correlation in range(20):
        change = IsrChange(correlation, BrokerId(2), lab.nodes[2].state.broker.incarnation, (isr_proposal(lab, 2, 3),))
        lab.handle_event(1, Received(Address("b2"), change))

    assert [r.asked.correlation for r in controller_of(lab).isr_requests] == [19]


def test_leader_ignores_isr_answer_without_open_proposal() -> None:
    """A command of the controller has ended the proposal while it was asked for; the leader proposes nothing anew either."""
    lab = cluster_in_sync()
    broker = lab.nodes[2].state.broker
    broker.asked = [IsrAsked(correlation=900, tps=(T0,))]
    before = leader_of(lab).isr
    state: PartitionState = replace(lab.state(), isr=(), zk_version=ZkVersion(99))
    lab.handle_event(
        2,
        Received(
            Address("b1"), IsrChangeReply(900, ErrorCode.NONE, message=None, results=(IsrResult(ErrorCode.NONE, None, state),))
        ),
    )

    assert leader_of(lab).isr == before
    assert proposals.pending(controller_of(lab), T0) is False
