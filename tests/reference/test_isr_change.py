"""ISR changes through the controller (KIP-343 Initiating ISR Changes), and the known mistakes in them."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from reference.broker import isr_change as asking
from reference.config import VARIANTS
from reference.controller import proposals
from reference.controller.context import Controller
from reference.coordination import paths
from reference.coordination.api import Create, SetData
from reference.effects import AnyEffect, Send, ZkRequest
from reference.errors import ErrorCode
from reference.events import Received
from reference.machine import Now, Turn
from reference.messages import (
    FetchReply,
    IsrChange,
    IsrChangeReply,
    IsrMember,
    IsrProposal,
    IsrResult,
    LeaderAndIsr,
    PartitionState,
    ProduceReply,
    UpdateMetadata,
)
from reference.replica import high_watermark, isr
from reference.replica.partition import IsrAsked, Leader, brokers_of
from reference.types import Address, BrokerId, BrokerState, Incarnation, LeaderEpoch, Millis, TopicPartition, ZkVersion
from tests.reference.interrupted import Interrupted
from tests.reference.lab import T0, Lab, Letter
from tests.reference.moving import write

ELSEWHERE = Address("c9")


def full(variant: str = "safe", *, min_isr: int = 1, legacy: tuple[int, ...] = ()) -> Lab:
    """b1 is the controller and has no replica; b2 leads, b3 and b4 follow; all three are in the ISR.

    The brokers in `legacy` use the protocol before KIP-343.
    """
    lab = Lab(4, variant=VARIANTS[variant], replicas=(2, 3, 4), min_isr=min_isr, start=False)
    for i in legacy:
        lab.configs[i] = replace(lab.configs[i], inter_broker_protocol="legacy")
    for i in lab.ids:
        lab.start(i)
        lab.settle()
    lab.wait(3000)
    assert (lab.isr(), lab.leaders(), controller_of(lab).step) == ([2, 3, 4], [2], "active")
    return lab


def controller_of(lab: Lab, i: int = 1) -> Controller:
    return lab.nodes[i].state.controller


def leader_of(lab: Lab, i: int = 2) -> Leader:
    role = lab.partition(i).role
    assert isinstance(role, Leader)
    return role


def is_change(letter: Letter) -> bool:
    return isinstance(letter[2], IsrChange)


def is_answer(letter: Letter) -> bool:
    return isinstance(letter[2], IsrChangeReply)


def comes_from(i: int) -> Callable[[Letter], bool]:
    """Matches what broker i sends to the leader; while it is held, the broker cannot catch up."""
    return lambda letter: letter[:2] == (f"b{i}", "b2")


def turn_of(lab: Lab, i: int) -> Turn:
    state = lab.nodes[i].state
    return Turn(Now(Millis(lab.now), Millis(lab.now)), state.ids, state.config, state.broker.incarnation)


def shrink(lab: Lab, *gone: int) -> tuple[IsrMember, ...]:
    """Have the leader propose its ISR without `gone` and send the request; return the proposed ISR."""
    leader = leader_of(lab)
    wanted = tuple(m for m in leader.isr if m.broker not in gone)
    turn = turn_of(lab, 2)
    isr._propose(turn, lab.partition(2), leader, wanted)
    asking.send_due(turn, lab.nodes[2].state.broker)
    for effect in turn.effects:
        lab._perform(2, effect)
    return wanted


def request(lab: Lab, *changes: IsrProposal) -> IsrChangeReply:
    """Send the controller an IsrChange in the name of b2 from outside of the cluster; return the answer."""
    lab.tell(1, Received(ELSEWHERE, IsrChange(5, BrokerId(2), lab.nodes[2].state.broker.incarnation, changes)))
    reply = lab.inbox[-1]
    assert isinstance(reply, IsrChangeReply)
    return reply


def proposal(lab: Lab, *members: int, version: int | None = None, epoch: int | None = None) -> IsrProposal:
    """A proposed ISR of these brokers with their current incarnations."""
    state = lab.state()
    isr_ = tuple(IsrMember(BrokerId(i), lab.nodes[i].state.broker.incarnation) for i in members)
    version = state.zk_version if version is None else version
    return IsrProposal(T0, LeaderEpoch(state.leader_epoch if epoch is None else epoch), isr_, ZkVersion(version))


# --- the request and its answer ------------------------------------------------------------------------------------------------


def writers(variant: str, *, legacy: tuple[int, ...] = ()) -> set[int]:
    """The brokers that write the state while b4 falls silent, leaves the ISR and joins it again."""
    lab = full(variant, legacy=legacy)
    found: set[int] = set()
    perform = lab._perform

    def spy(i: int, effect: AnyEffect) -> None:
        if isinstance(effect, ZkRequest) and any(isinstance(op, SetData) for op in effect.ops):
            found.add(i)
        perform(i, effect)

    lab._perform = spy  # type: ignore[method-assign]  # for this run
    lab.held = comes_from(4)
    lab.produce(2, "m")
    lab.wait(9000)
    assert lab.isr() == [2, 3]
    lab.held = lambda _: False
    lab.wait(3000)
    assert lab.isr() == [2, 3, 4]
    return found


def test_isr_change_is_written_by_controller_or_leader() -> None:
    """R-192, C-24: isr.change.via selects the writer; R-065: the controller writes the ISR that the leader chose."""
    assert writers("safe") == {1}
    assert writers("isr-via-zookeeper") == {2}


def test_legacy_leader_writes_its_isr_to_zookeeper() -> None:
    """R-205: during the double roll the protocol of the leader decides, not that of the controller."""
    assert writers("safe", legacy=(2,)) == {2}
    assert writers("safe", legacy=(3,)) == {1}


def test_isr_change_keeps_leader_and_leader_epoch() -> None:
    """R-192, R-203: the leader requested the change itself, so no broker needs to be fenced."""
    lab = full()
    before = lab.state()
    reply = request(lab, proposal(lab, 2, 3))

    assert (reply.error, [result.error for result in reply.results]) == (ErrorCode.NONE, [ErrorCode.NONE])
    after = lab.state()
    assert (after.leader, after.leader_epoch, after.zk_version) == (2, before.leader_epoch, before.zk_version + 1)
    assert lab.isr() == [2, 3]


def test_isr_change_reaches_the_metadata_of_all_brokers() -> None:
    """R-192: otherwise the metadata of other brokers would name an outdated ISR."""
    lab = full()
    request(lab, proposal(lab, 2, 4))
    lab.settle()

    assert [brokers_of(lab.nodes[i].state.broker.metadata[T0].isr) for i in lab.ids] == [(2, 4)] * 4


@pytest.mark.parametrize("lost", [0, 1])
def test_isr_change_without_zookeeper_answer_reaches_metadata(lost: int) -> None:
    """The answer to the read or to the write is lost: the next read finds the change, and no write follows that would tell it."""
    lab = Interrupted(4, replicas=(2, 3, 4))
    lab.wait(3000)
    lab.held = comes_from(4)
    lab.lost = lost
    shrink(lab, 4)
    lab.settle()
    lab.wait(3000)

    assert (lab.losses, lab.isr()) == (1, [2, 3])
    assert [brokers_of(lab.nodes[i].state.broker.metadata[T0].isr) for i in lab.ids] == [(2, 3)] * 4


def test_isr_change_results_come_in_request_order() -> None:
    """R-198: one result for each proposal, in whatever order the controller judges them."""
    lab = full()
    strange = replace(proposal(lab, 2, 3), tp=TopicPartition("none-0"))
    reply = request(lab, strange, strange, proposal(lab, 2, 3))

    assert [r.error.name for r in reply.results] == ["UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_OR_PARTITION", "NONE"]


def test_each_partition_of_an_isr_change_has_its_own_result() -> None:
    """R-198: a proposal is judged by the state of its own partition."""
    lab = full()
    other = TopicPartition("u-0")
    write(lab, Create(paths.topic_path("u"), paths.topic_payload(((BrokerId(2), BrokerId(3)),))))
    lab.crash(4)
    lab.expire(4)
    lab.wait(3000)
    known = controller_of(lab).states
    assert (known[other].leader, known[other].zk_version < known[T0].zk_version) == (2, True)
    second = replace(proposal(lab, 2), tp=other, leader_epoch=known[other].leader_epoch, zk_version=known[other].zk_version)
    reply = request(lab, proposal(lab, 2), second)

    assert [result.error for result in reply.results] == [ErrorCode.NONE] * 2
    assert [result.state.tp for result in reply.results if result.state is not None] == [T0, other]


def test_isr_change_sent_to_a_non_controller_gets_not_controller() -> None:
    """R-199: only the controller judges proposals."""
    lab = full()
    lab.tell(3, Received(ELSEWHERE, IsrChange(5, BrokerId(2), Incarnation(1), (proposal(lab, 2),))))

    assert lab.inbox[-1] == IsrChangeReply(5, ErrorCode.NOT_CONTROLLER, "this broker is not the controller")


def test_resigning_controller_drops_pending_isr_changes() -> None:
    """R-199: the controller answers NOT_CONTROLLER, and the leader asks the next one."""
    lab = full()
    lab.held = comes_from(4)
    lab.muted.add(1)
    shrink(lab, 4)
    lab.deliver(is_change)
    lab.muted.remove(1)
    lab.expire(1)
    assert [m.error for _, _, m in lab.letters if isinstance(m, IsrChangeReply)] == [ErrorCode.NOT_CONTROLLER]
    lab.deliver(is_answer)

    assert controller_of(lab).isr_requests == []
    change = leader_of(lab).change
    assert change is not None
    assert change.step in ("asking", "lost")
    lab.wait(3000)
    assert lab.isr() == [2, 3]


@pytest.mark.parametrize(("broker", "incarnation"), [(2, 1), (2, 1000), (9, 1)])
def test_isr_change_with_another_incarnation_is_refused(broker: int, incarnation: int) -> None:
    """R-200: another process has registered under this broker id, or none; only the newest registration counts."""
    lab = full()
    lab.tell(1, Received(ELSEWHERE, IsrChange(5, BrokerId(broker), Incarnation(incarnation), (proposal(lab, 2),))))

    reply = lab.inbox[-1]
    assert isinstance(reply, IsrChangeReply)
    assert (reply.error, reply.results) == (ErrorCode.INVALID_INCARNATION_ID, ())
    assert lab.isr() == [2, 3, 4]


def test_isr_change_of_a_non_leader_is_refused() -> None:
    """R-201: NOT_LEADER_FOR_PARTITION with the current state; an older leader epoch is FENCED_LEADER_EPOCH."""
    lab = full()
    asked = IsrChange(5, BrokerId(3), lab.nodes[3].state.broker.incarnation, (proposal(lab, 2, 3),))
    lab.tell(1, Received(ELSEWHERE, asked))
    reply = lab.inbox[-1]
    assert isinstance(reply, IsrChangeReply)
    assert reply.results[0].error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert reply.results[0].state is not None

    assert request(lab, proposal(lab, 2, epoch=lab.state().leader_epoch - 1)).results[0].error is ErrorCode.FENCED_LEADER_EPOCH


@pytest.mark.parametrize("members", [(), (3, 4), (2, 2), (1, 2)])
def test_isr_change_to_an_impossible_isr_is_refused(members: tuple[int, ...]) -> None:
    """R-202: an empty ISR, one without its leader, with one member twice, with a broker that has no replica."""
    lab = full()

    assert request(lab, proposal(lab, *members)).results[0].error is ErrorCode.INVALID_REQUEST
    assert lab.isr() == [2, 3, 4]


def test_leader_repeats_isr_change_to_the_next_controller() -> None:
    """R-192: both ISRs count until the change has ended, so the follower that is gone holds up all acknowledgements."""
    lab = full()
    lab.held = is_change
    shrink(lab, 4)
    lab.crash(1)
    lab.expire(1)
    (office,) = [i for i in (2, 3, 4) if controller_of(lab, i).step == "active"]
    lab.settle()

    assert [letter[1] for letter in lab.letters if is_change(letter)] == [f"b{office}"]


@pytest.mark.parametrize("error", [ErrorCode.NOT_CONTROLLER, ErrorCode.INVALID_INCARNATION_ID])
def test_leader_has_no_other_isr_after_a_refused_request(error: ErrorCode) -> None:
    """R-199, R-200: it may not change the ISR, and an earlier copy may have changed it: both ISRs count, and it asks again."""
    lab = full()
    whole = leader_of(lab).isr
    lab.held = comes_from(4)
    lab.produce(2, "m", correlation=7)
    lab.settle()
    wanted = shrink(lab, 4)
    change = leader_of(lab).change
    assert change is not None
    lab.letters = type(lab.letters)(letter for letter in lab.letters if not is_change(letter))
    lab.tell(2, Received(Address("b1"), IsrChangeReply(change.request, error, "no")))

    assert (leader_of(lab).isr, leader_of(lab).change) == (whole, change)
    assert [m for m in lab.inbox if isinstance(m, ProduceReply)] == []
    lab.wait(3000)
    assert leader_of(lab).isr == wanted
    assert [m.error for m in lab.inbox if isinstance(m, ProduceReply)] == [ErrorCode.NONE]


def shrink_two(lab: Lab, turn: Turn) -> IsrChange:
    """Have b2 lead u-0 as well, and ask in one request for an ISR of itself alone in both partitions."""
    broker = lab.nodes[2].state.broker
    leader = leader_of(lab)
    other = replace(lab.partition(2), tp=TopicPartition("u-0"), role=replace(leader))
    broker.partitions = {T0: lab.partition(2), other.tp: other}
    for partition in broker.partitions.values():
        assert isinstance(partition.role, Leader)
        isr._propose(turn, partition, partition.role, leader.isr[:1])
    asking.send_due(turn, broker)
    (sent,) = [effect.message for effect in turn.effects if isinstance(effect, Send)]
    assert isinstance(sent, IsrChange)
    return sent


def test_isr_changes_of_several_partitions_are_one_request() -> None:
    """R-197: a broker that lost a peer sends one request for all its partitions."""
    lab = full()

    assert [change.tp for change in shrink_two(lab, turn_of(lab, 2)).changes] == ["t-0", "u-0"]


def test_leader_takes_the_result_at_the_place_of_its_partition() -> None:
    """R-198: results have no names, only the order of the request."""
    lab = full()
    turn, broker, before = turn_of(lab, 2), lab.nodes[2].state.broker, leader_of(lab).isr
    asked = shrink_two(lab, turn)
    state = lab.state()
    done = replace(state, tp=TopicPartition("u-0"), isr=before[:1], zk_version=ZkVersion(state.zk_version + 1))
    results = (IsrResult(ErrorCode.INVALID_UPDATE_VERSION, None, state), IsrResult(ErrorCode.NONE, None, done))
    asking.on_reply(turn, broker, IsrChangeReply(asked.correlation, ErrorCode.NONE, None, results))
    roles = [partition.role for partition in broker.partitions.values()]

    assert [role.isr for role in roles if isinstance(role, Leader)] == [before, before[:1]]


# --- what goes wrong on the way ------------------------------------------------------------------------------------------------


def test_isr_change_with_a_lost_answer_succeeds_on_retry() -> None:
    """U-13: the controller refuses the second copy for its version, and returns the state that the first one made."""
    lab = full()
    lab.held = comes_from(4)
    wanted = shrink(lab, 4)
    lab.deliver(is_change)
    lab.letters = type(lab.letters)(letter for letter in lab.letters if not is_answer(letter))
    lab.wait(3000)

    assert leader_of(lab).isr == wanted
    assert leader_of(lab).change is None
    assert lab.isr() == [2, 3]


def isr_after_a_late_copy(variant: str) -> list[int]:
    """The ISR after {2,3,4} -> {2,4} -> {2} and a second copy of the first request (B-31)."""
    lab = full(variant)
    lab.held = lambda letter: isinstance(letter[2], FetchReply)  # no follower catches up
    shrink(lab, 3)
    (copy,) = [letter for letter in lab.letters if is_change(letter)]
    lab.deliver(is_change)
    lab.deliver(is_answer)
    shrink(lab, 4)
    lab.deliver(is_change)
    lab.deliver(is_answer)
    assert (lab.isr(), brokers_of(leader_of(lab).isr)) == ([2], (2,))
    lab.produce(2, "m")
    assert lab.partition(2).hw == 1  # committed by b2 alone
    lab.letters.append(copy)
    lab.deliver(is_change)
    return lab.isr()


def test_late_copy_of_an_isr_change_re_adds_no_replica() -> None:
    """B-31, U-13: fenced by the leader epoch alone, the copy makes a replica electable that lacks committed records."""
    assert isr_after_a_late_copy("isr-no-version") == [2, 4]
    assert isr_after_a_late_copy("safe") == [2]


def isr_after_a_swap(variant: str) -> list[int]:
    """The ISR when the leader asks for b4, and b4 dies and returns with an empty disk before the request is read (B-35)."""
    lab = full(variant)
    lab.crash(4)
    lab.expire(4)
    lab.settle()
    lab.start(4)
    lab.held = is_change
    lab.wait(3000)
    (letter,) = [letter for letter in lab.letters if is_change(letter)][:1]
    lab.crash(4)
    lab.disks[4] = type(lab.disks[4])()
    lab.expire(4)
    lab.start(4)
    lab.held = lambda other: is_change(other) or isinstance(other[2], FetchReply)
    lab.settle()
    lab.letters = type(lab.letters)(other for other in lab.letters if not is_change(other))
    lab.letters.append(letter)
    lab.deliver(is_change)
    return lab.isr()


def test_late_isr_change_does_not_add_a_wiped_replica() -> None:
    """B-35, B-36, KIP-903: the request names the incarnation that had caught up, and the writer of the ISR checks it."""
    assert isr_after_a_swap("isr-no-member-epoch") == [2, 3, 4]
    assert isr_after_a_swap("safe") == [2, 3]


def result_for_a_stopping_broker(variant: str) -> ErrorCode:
    """The answer to a proposal that adds b4, which is stopping and has left the ISR (B-37)."""
    lab = full(variant)
    request(lab, proposal(lab, 2, 3))
    for standing in controller_of(lab).standings:
        if standing.broker == 4:
            standing.state = BrokerState.STOPPING
    return request(lab, proposal(lab, 2, 3, 4)).results[0].error


def test_isr_change_does_not_add_a_stopping_broker() -> None:
    """B-37, KIP-841: when the leader is gone, the partition would wait for the stopped broker."""
    assert result_for_a_stopping_broker("isr-adds-stopping") is ErrorCode.NONE
    assert result_for_a_stopping_broker("safe") is ErrorCode.INELIGIBLE_REPLICA


def test_leader_withdraws_a_refused_isr_change_by_a_write() -> None:
    """KIP-497: a controller may still accept a late copy, so the refused ISR counts until the version moves."""
    lab = full(min_isr=2)
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
    lab = full()
    request(lab, proposal(lab, 2, 3))
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
    lab = full(variant)
    stale = controller_of(lab).states[T0]
    request(lab, proposal(lab, 2, 3, 4))
    lab.tell(2, Received(Address("b1"), _as_leader_and_isr(lab)))
    lab.wait(1000)
    controller_of(lab).states[T0] = replace(stale, zk_version=ZkVersion(0))
    lab.muted.add(1)  # it cannot read ZooKeeper
    shrink(lab, 4)
    lab.deliver(is_change)
    lab.deliver(is_answer)
    change = leader_of(lab).change
    assert change is not None
    return change.step


def _as_leader_and_isr(lab: Lab) -> LeaderAndIsr:
    """The state in ZooKeeper as a command to the leader."""
    state = replace(lab.state(), replicas=(BrokerId(2), BrokerId(3), BrokerId(4)), leader_epoch=lab.state().leader_epoch)
    return LeaderAndIsr(9, BrokerId(1), controller_of(lab).epoch, lab.nodes[2].state.broker.incarnation, False, (state,))


def test_deposed_controller_does_not_refuse_isr_change_for_good() -> None:
    """B-55, KAFKA-14154: the controller may have been replaced; the leader must go on asking."""
    assert step_after_a_zombies_answer("isr-zombie-controller") == "superseded"
    assert step_after_a_zombies_answer("safe") == "asking"


def test_isr_change_refused_with_an_older_state_stays_pending() -> None:
    """B-55, KAFKA-14154: a controller that refuses by an older version has not seen the state that the leader has."""
    lab = full()
    shrink(lab, 4)
    leader = leader_of(lab)
    assert leader.change is not None
    older = replace(lab.state(), zk_version=ZkVersion(0))
    isr.on_result(turn_of(lab, 2), lab.partition(2), leader, IsrResult(ErrorCode.INVALID_UPDATE_VERSION, None, older))

    assert leader.change.step == "lost"


def isr_believed_after_an_old_answer(variant: str) -> tuple[int, ...]:
    """The leader's ISR when the answer to a change of one epoch arrives in the next epoch, which has another ISR (B-32)."""
    lab = full(variant)
    lab.held = comes_from(4)
    shrink(lab, 4)
    lab.deliver(is_change)
    (answer,) = [letter for letter in lab.letters if is_answer(letter)]
    lab.letters.remove(answer)
    lab.crash(3)
    lab.expire(3)
    lab.settle()
    assert (lab.state().leader, brokers_of(leader_of(lab).isr)) == (2, (2,))
    lab.letters.append(answer)
    lab.settle()
    return brokers_of(leader_of(lab).isr)


def test_leader_ignores_isr_answer_of_an_earlier_epoch() -> None:
    """B-32, KAFKA-12686: the leader would go on with an outdated ISR."""
    assert isr_believed_after_an_old_answer("isr-answers-mixed-up") == (2, 3)
    assert isr_believed_after_an_old_answer("safe") == (2,)


def acks_after_a_silent_follower_left(variant: str) -> list[ErrorCode]:
    """Answers for a record that waits for b4: b4 is silent and leaves the ISR, and no follower fetches afterwards (B-25)."""
    lab = full(variant)
    lab.held = lambda letter: letter[0] == "b4" and letter[1] == "b2"
    lab.wait(600)
    lab.produce(2, "m", correlation=7)
    lab.settle()
    assert lab.partition(2).hw == 0
    lab.held = lambda letter: letter[1] == "b2" and letter[0] in ("b3", "b4")
    shrink(lab, 4)
    lab.settle()
    return [m.error for m in lab.inbox if isinstance(m, ProduceReply) and m.correlation == 7]


def test_leader_advances_hw_when_an_isr_change_ends() -> None:
    """B-25, KAFKA-13091: there may be no later fetch to advance it."""
    assert acks_after_a_silent_follower_left("no-hw-recheck") == []
    assert acks_after_a_silent_follower_left("safe") == [ErrorCode.NONE]


def hw_while_a_change_is_in_flight(variant: str) -> int:
    """The HW while the controller may already have added b4, which lacks what b2 and b3 hold (B-30)."""
    lab = full(variant)
    request(lab, proposal(lab, 2, 3))
    leader = leader_of(lab)
    leader.isr, leader.zk_version = lab.state().isr, lab.state().zk_version
    lab.held = lambda letter: is_answer(letter) or (isinstance(letter[2], FetchReply) and letter[1] == "b4")
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
    lab = full()
    channel = next(c for c in controller_of(lab).channels if c.broker == 3)
    channel.in_flight = UpdateMetadata(99, BrokerId(1), controller_of(lab).epoch, channel.incarnation, (), ())
    channel.states[T0] = replace(lab.state(), replicas=(BrokerId(2), BrokerId(3), BrokerId(4)))
    request(lab, proposal(lab, 2, 3))

    assert brokers_of(channel.states[T0].isr) == (2, 3)


def test_controller_keeps_only_the_latest_isr_request() -> None:
    """The leader waits for the latest answer only; requests must not pile up at a controller without ZooKeeper."""
    lab = full()
    lab.muted.add(1)
    for correlation in range(20):
        asked = IsrChange(correlation, BrokerId(2), lab.nodes[2].state.broker.incarnation, (proposal(lab, 2, 3),))
        lab.tell(1, Received(Address("b2"), asked))

    assert [r.asked.correlation for r in controller_of(lab).isr_requests] == [19]


def test_leader_ignores_isr_answer_without_open_proposal() -> None:
    lab = full()
    broker = lab.nodes[2].state.broker
    broker.asked = [IsrAsked(correlation=900, tps=(T0,))]
    before = leader_of(lab).isr
    state: PartitionState = replace(lab.state(), isr=(), zk_version=ZkVersion(99))
    lab.tell(2, Received(Address("b1"), IsrChangeReply(900, ErrorCode.NONE, None, (IsrResult(ErrorCode.NONE, None, state),))))

    assert leader_of(lab).isr == before
    assert proposals.pending(controller_of(lab), T0) is False
