"""ISR changes through the controller (KIP-343 Initiating ISR Changes) and what history found wrong with them, on the table."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from reference.broker import isr_change as asking
from reference.config import VARIANTS
from reference.controller import proposals
from reference.controller.context import Controller
from reference.coordination.api import SetData
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
from tests.reference.lab import T0, Lab, Letter

ELSEWHERE = Address("c9")


def full(variant: str = "safe", *, min_isr: int = 1) -> Lab:
    """b1 is the controller and has no replica, b2 leads, b3 and b4 follow, all in the ISR."""
    lab = Lab(4, variant=VARIANTS[variant], replicas=(2, 3, 4), min_isr=min_isr, start=False)
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
    """What this broker sends to the leader: held, it cannot catch up."""
    return lambda letter: letter[:2] == (f"b{i}", "b2")


def turn_of(lab: Lab, i: int) -> Turn:
    state = lab.nodes[i].state
    return Turn(Now(Millis(lab.now), Millis(lab.now)), state.ids, state.config, state.broker.incarnation)


def shrink(lab: Lab, *gone: int) -> tuple[IsrMember, ...]:
    """The leader proposes its ISR without these, and the request is on its way."""
    leader = leader_of(lab)
    wanted = tuple(m for m in leader.isr if m.broker not in gone)
    turn = turn_of(lab, 2)
    isr._propose(turn, lab.partition(2), leader, wanted)
    asking.send_due(turn, lab.nodes[2].state.broker)
    for effect in turn.effects:
        lab._perform(2, effect)
    return wanted


def request(lab: Lab, *changes: IsrProposal) -> IsrChangeReply:
    """Ask the controller as b2 would, from outside the table; its answer."""
    lab.tell(1, Received(ELSEWHERE, IsrChange(5, BrokerId(2), lab.nodes[2].state.broker.incarnation, changes)))
    reply = lab.inbox[-1]
    assert isinstance(reply, IsrChangeReply)
    return reply


def proposal(lab: Lab, *members: int, version: int | None = None, epoch: int | None = None) -> IsrProposal:
    """An ISR of these brokers as they are registered now."""
    state = lab.state()
    isr_ = tuple(IsrMember(BrokerId(i), lab.nodes[i].state.broker.incarnation) for i in members)
    version = state.zk_version if version is None else version
    return IsrProposal(T0, LeaderEpoch(state.leader_epoch if epoch is None else epoch), isr_, ZkVersion(version))


# --- the request and its answer ------------------------------------------------------------------------------------------------


def test_the_messages_are_those_of_the_document() -> None:
    """R-197, R-198: IsrChangeRequest and IsrChangeResponse, with a version, registrations and the state beyond it (U-13)."""
    assert IsrChange.__struct_fields__ == ("correlation", "broker", "incarnation", "changes")
    assert IsrProposal.__struct_fields__ == ("tp", "leader_epoch", "isr", "zk_version", "topic_id")
    assert IsrChangeReply.__struct_fields__ == ("correlation", "error", "message", "results")
    assert IsrResult.__struct_fields__ == ("error", "message", "state")


def writers(variant: str) -> set[int]:
    """Who writes the state while b4, which died, leaves the ISR and joins it again."""
    lab = full(variant)
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


def test_the_leader_asks_the_controller_or_writes_itself() -> None:
    """R-192, C-24: isr.change.via, both as the documents have it; R-065: the controller then writes what the leader chose."""
    assert writers("safe") == {1}
    assert writers("isr-via-zookeeper") == {2}


def test_an_isr_change_leaves_leader_and_epoch_alone() -> None:
    """R-192, R-203: it is the leader's own change, so nobody need be fenced."""
    lab = full()
    before = lab.state()
    reply = request(lab, proposal(lab, 2, 3))

    assert (reply.error, [result.error for result in reply.results]) == (ErrorCode.NONE, [ErrorCode.NONE])
    after = lab.state()
    assert (after.leader, after.leader_epoch, after.zk_version) == (2, before.leader_epoch, before.zk_version + 1)
    assert lab.isr() == [2, 3]


def test_everybody_hears_of_an_isr_change() -> None:
    """R-192: metadata of other brokers would else tell of an ISR that is over."""
    lab = full()
    request(lab, proposal(lab, 2, 3))
    lab.settle()

    assert [brokers_of(lab.nodes[i].state.broker.metadata[T0].isr) for i in lab.ids] == [(2, 3)] * 4


def test_results_come_in_the_order_of_the_request() -> None:
    """R-198: one for each proposal, whichever is judged first."""
    lab = full()
    strange = replace(proposal(lab, 2, 3), tp=TopicPartition("none-0"))
    reply = request(lab, strange, proposal(lab, 2, 3), strange)

    assert [r.error.name for r in reply.results] == ["UNKNOWN_TOPIC_OR_PARTITION", "NONE", "UNKNOWN_TOPIC_OR_PARTITION"]


def test_who_is_not_controller_judges_nothing() -> None:
    """R-199."""
    lab = full()
    lab.tell(3, Received(ELSEWHERE, IsrChange(5, BrokerId(2), Incarnation(1), (proposal(lab, 2),))))

    assert lab.inbox[-1] == IsrChangeReply(5, ErrorCode.NOT_CONTROLLER, "this broker is not the controller")


def test_a_controller_that_resigns_says_that_it_is_none() -> None:
    """R-199: what it was asked meanwhile is asked again, of the next one."""
    lab = full()
    lab.held = comes_from(4)
    lab.muted.add(1)
    shrink(lab, 4)
    lab.deliver(is_change)
    lab.muted.remove(1)
    lab.expire(1)
    lab.deliver(is_answer)

    assert controller_of(lab).isr_requests == []
    change = leader_of(lab).change
    assert change is not None
    assert change.step in ("asking", "lost")
    lab.wait(3000)
    assert lab.isr() == [2, 3]


def test_a_leader_under_another_registration_changes_nothing() -> None:
    """R-200: somebody registered under its id; the new registration is the one that counts."""
    lab = full()
    lab.tell(1, Received(ELSEWHERE, IsrChange(5, BrokerId(2), Incarnation(1), (proposal(lab, 2),))))

    reply = lab.inbox[-1]
    assert isinstance(reply, IsrChangeReply)
    assert (reply.error, reply.results) == (ErrorCode.INVALID_INCARNATION_ID, ())
    assert lab.isr() == [2, 3, 4]


def test_who_does_not_lead_changes_nothing() -> None:
    """R-201: NOT_LEADER_FOR_PARTITION, with the state as it is; an epoch that is over is fenced."""
    lab = full()
    asked = IsrChange(5, BrokerId(3), lab.nodes[3].state.broker.incarnation, (proposal(lab, 2, 3),))
    lab.tell(1, Received(ELSEWHERE, asked))
    reply = lab.inbox[-1]
    assert isinstance(reply, IsrChangeReply)
    assert reply.results[0].error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert reply.results[0].state is not None

    assert request(lab, proposal(lab, 2, epoch=lab.state().leader_epoch - 1)).results[0].error is ErrorCode.FENCED_LEADER_EPOCH


@pytest.mark.parametrize("members", [(), (3, 4), (2, 2), (1, 2)])
def test_an_isr_that_cannot_be_is_refused(members: tuple[int, ...]) -> None:
    """R-202: none at all, without its leader, with one member twice, with a broker that has no replica."""
    lab = full()

    assert request(lab, proposal(lab, *members)).results[0].error is ErrorCode.INVALID_REQUEST
    assert lab.isr() == [2, 3, 4]


def test_a_leader_tells_the_next_controller_at_once() -> None:
    """R-192: until the change is known to have ended both ISRs count, and the minority that is gone holds everybody up."""
    lab = full()
    lab.held = is_change
    shrink(lab, 4)
    lab.crash(1)
    lab.expire(1)
    (office,) = [i for i in (2, 3, 4) if controller_of(lab, i).step == "active"]
    lab.settle()

    assert [letter[1] for letter in lab.letters if is_change(letter)] == [f"b{office}"]


def test_the_change_of_several_partitions_is_one_request() -> None:
    """R-197: a broker that lost a peer asks once."""
    lab = full()
    turn = turn_of(lab, 2)
    broker = lab.nodes[2].state.broker
    leader = leader_of(lab)
    other = replace(lab.partition(2), tp=TopicPartition("u-0"), role=replace(leader))
    broker.partitions = {T0: lab.partition(2), other.tp: other}
    for partition in broker.partitions.values():
        assert isinstance(partition.role, Leader)
        isr._propose(turn, partition, partition.role, leader.isr[:1])
    asking.send_due(turn, broker)

    sent = [effect.message for effect in turn.effects if isinstance(effect, Send)]
    assert [[change.tp for change in message.changes] for message in sent if isinstance(message, IsrChange)] == [["t-0", "u-0"]]


# --- what goes wrong on the way ------------------------------------------------------------------------------------------------


def test_a_lost_answer_is_made_up_for_by_the_next() -> None:
    """U-13: the second copy is refused for its version, and tells the state that the first one made."""
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
    """B-31: {2,3,4} -> {2,4}, -> {2}, then the first request comes once more."""
    lab = full(variant)
    lab.held = lambda letter: isinstance(letter[2], FetchReply)  # nobody catches up
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


def test_a_late_copy_of_an_isr_change_brings_nobody_back() -> None:
    """B-31, U-13: fenced by the leader epoch alone it makes a replica electable that lacks what is committed."""
    assert isr_after_a_late_copy("isr-no-version") == [2, 4]
    assert isr_after_a_late_copy("safe") == [2]


def isr_after_a_swap(variant: str) -> list[int]:
    """B-35: the leader asks for b4, which dies and comes back with nothing before the request is read."""
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


def test_a_replica_that_lost_its_disk_does_not_join_by_a_late_request() -> None:
    """B-35, B-36, KIP-903: the request names the life that had caught up, and the check is made where the change is."""
    assert isr_after_a_swap("isr-no-member-epoch") == [2, 3, 4]
    assert isr_after_a_swap("safe") == [2, 3]


def result_for_a_stopping_broker(variant: str) -> ErrorCode:
    """B-37: b4 stops and has left the ISR; its last fetch makes the leader ask for it."""
    lab = full(variant)
    request(lab, proposal(lab, 2, 3))
    for standing in controller_of(lab).standings:
        if standing.broker == 4:
            standing.state = BrokerState.STOPPING
    return request(lab, proposal(lab, 2, 3, 4)).results[0].error


def test_a_broker_that_stops_is_not_taken_in_again() -> None:
    """B-37, KIP-841: the partition would wait for it when the leader is gone."""
    assert result_for_a_stopping_broker("isr-adds-stopping") is ErrorCode.NONE
    assert result_for_a_stopping_broker("safe") is ErrorCode.INELIGIBLE_REPLICA


def test_what_was_refused_is_withdrawn_by_a_write() -> None:
    """KIP-497: a late copy of what was refused may meet a controller that takes it; until the version moves it counts."""
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


def step_after_a_zombies_answer(variant: str) -> str:
    """B-55: the controller remembers an older state than the leader has; it is asked for another ISR."""
    lab = full(variant)
    stale = controller_of(lab).states[T0]
    request(lab, proposal(lab, 2, 3, 4))
    lab.tell(2, Received(Address("b1"), _as_leader_and_isr(lab)))
    lab.wait(1000)
    controller_of(lab).states[T0] = replace(stale, zk_version=ZkVersion(0))
    lab.muted.add(1)  # so it can look up nothing
    shrink(lab, 4)
    lab.deliver(is_change)
    lab.deliver(is_answer)
    change = leader_of(lab).change
    assert change is not None
    return change.step


def _as_leader_and_isr(lab: Lab) -> LeaderAndIsr:
    """The leader hears the state as it is, in an epoch of its own."""
    state = replace(lab.state(), replicas=(BrokerId(2), BrokerId(3), BrokerId(4)), leader_epoch=lab.state().leader_epoch)
    return LeaderAndIsr(9, BrokerId(1), controller_of(lab).epoch, lab.nodes[2].state.broker.incarnation, False, (state,))


def test_a_controller_does_not_refuse_by_what_it_remembers() -> None:
    """B-55, KAFKA-14154: it may have been replaced; the leader must go on asking."""
    assert step_after_a_zombies_answer("isr-zombie-controller") == "superseded"
    assert step_after_a_zombies_answer("safe") == "asking"


def test_an_answer_that_knows_less_than_the_leader_ends_nothing() -> None:
    """B-55, KAFKA-14154: whoever refuses by an older version has not seen what the leader was told."""
    lab = full()
    shrink(lab, 4)
    leader = leader_of(lab)
    assert leader.change is not None
    older = replace(lab.state(), zk_version=ZkVersion(0))
    isr.on_result(turn_of(lab, 2), lab.partition(2), leader, IsrResult(ErrorCode.INVALID_UPDATE_VERSION, None, older))

    assert leader.change.step == "lost"


def isr_believed_after_an_old_answer(variant: str) -> tuple[int, ...]:
    """B-32: the answer to the change of one epoch comes when the leader has begun another one with another ISR."""
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


def test_an_answer_of_an_earlier_epoch_changes_nothing() -> None:
    """B-32, KAFKA-12686: the leader would go on with an ISR that is no more."""
    assert isr_believed_after_an_old_answer("isr-answers-mixed-up") == (2, 3)
    assert isr_believed_after_an_old_answer("safe") == (2,)


def acks_after_a_silent_follower_left(variant: str) -> list[ErrorCode]:
    """B-25: a record waits for b4, which is silent; it leaves the ISR, and nobody fetches afterwards."""
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


def test_the_high_watermark_is_looked_at_when_a_change_has_ended() -> None:
    """B-25, KAFKA-13091: no fetch may come that would do it."""
    assert acks_after_a_silent_follower_left("no-hw-recheck") == []
    assert acks_after_a_silent_follower_left("safe") == [ErrorCode.NONE]


def hw_while_a_change_is_in_flight(variant: str) -> int:
    """B-30: the controller may have taken b4 in already; b4 does not hold what b2 and b3 have."""
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


def test_both_isrs_count_while_the_controller_has_not_answered() -> None:
    """B-30, KIP-497: the leader does not know which of them an election would go by."""
    assert hw_while_a_change_is_in_flight("isr-current") == 1
    assert hw_while_a_change_is_in_flight("safe") == 0


def test_a_late_command_does_not_tell_of_an_isr_that_is_over() -> None:
    """R-192: a command that still waits for its turn is brought up to date when the ISR changes."""
    lab = full()
    channel = next(c for c in controller_of(lab).channels if c.broker == 3)
    channel.in_flight = UpdateMetadata(99, BrokerId(1), controller_of(lab).epoch, channel.incarnation, (), ())
    channel.states[T0] = replace(lab.state(), replicas=(BrokerId(2), BrokerId(3), BrokerId(4)))
    request(lab, proposal(lab, 2, 3))

    assert brokers_of(channel.states[T0].isr) == (2, 3)


def test_a_request_that_another_replaces_is_forgotten() -> None:
    """A leader that asks again waits for the later answer alone; requests must not heap up at a controller without ZooKeeper."""
    lab = full()
    lab.muted.add(1)
    for correlation in range(20):
        asked = IsrChange(correlation, BrokerId(2), lab.nodes[2].state.broker.incarnation, (proposal(lab, 2, 3),))
        lab.tell(1, Received(Address("b2"), asked))

    assert [r.asked.correlation for r in controller_of(lab).isr_requests] == [19]


def test_an_answer_to_nothing_is_ignored() -> None:
    """Requests of a life count up; what nobody waits for says nothing."""
    lab = full()
    broker = lab.nodes[2].state.broker
    broker.asked = [IsrAsked(correlation=900, tps=(T0,))]
    before = leader_of(lab).isr
    state: PartitionState = replace(lab.state(), isr=(), zk_version=ZkVersion(99))
    lab.tell(2, Received(Address("b1"), IsrChangeReply(900, ErrorCode.NONE, None, (IsrResult(ErrorCode.NONE, None, state),))))

    assert leader_of(lab).isr == before
    assert proposals.pending(controller_of(lab), T0) is False
