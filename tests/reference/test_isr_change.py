"""ISR changes through the controller (KIP-343 Initiating ISR Changes): the request and its answer."""

import pytest
from msgspec.structs import replace

from reference.broker import isr_change as asking
from reference.coordination import paths
from reference.coordination.api import Create, SetData
from reference.effects import AnyEffect, Send, ZkRequest
from reference.errors import ErrorCode
from reference.events import Received, ZkState
from reference.machine import Turn
from reference.messages import IsrChange, IsrChangeReply, IsrMember, IsrResult, ProduceReply
from reference.replica import isr
from reference.replica import leader as role
from reference.replica.partition import Leader, brokers_of
from reference.types import NO_INCARNATION, NO_ZK_VERSION, Address, BrokerId, Incarnation, TopicPartition, ZkVersion
from tests.reference.interrupted import Interrupted
from tests.reference.isr_changes import (
    ELSEWHERE,
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
from tests.reference.moving import write
from tests.reference.recorded import STATE, leader_of, settled_cluster
from tests.reference.v3 import OTHER, add_topic


def brokers_that_write_state(variant: str, *, legacy: tuple[int, ...] = ()) -> set[int]:
    """The brokers that write the state while b4 falls silent, leaves the ISR and joins it again."""
    lab = cluster_in_sync(variant, legacy=legacy)
    writers: set[int] = set()
    perform = lab._perform

    def spy(i: int, effect: AnyEffect) -> None:
        if isinstance(effect, ZkRequest) and any(isinstance(op, SetData) for op in effect.ops):
            writers.add(i)
        perform(i, effect)

    lab._perform = spy  # type: ignore[method-assign]  # for this run
    lab.is_held = sent_to_leader_by(4)
    lab.produce(2, "m")
    lab.wait(9000)
    assert lab.isr() == [2, 3]
    lab.is_held = lambda _: False
    lab.wait(3000)
    assert lab.isr() == [2, 3, 4]
    return writers


def test_isr_change_is_written_by_controller_or_leader() -> None:
    """R-192, C-24: isr.change.via selects the writer; R-065: the controller writes the ISR that the leader chose."""
    assert brokers_that_write_state("safe") == {1}
    lab = settled_cluster("safe")
    lab.is_held = carries(IsrChange)
    shrink(lab, 4)
    change = leader_of(lab).change
    assert change is not None
    refusal = IsrChangeReply(change.request, ErrorCode.NOT_CONTROLLER)
    lab.handle_event(2, Received(Address("b1"), refusal))
    lab.clear_record()
    lab.handle_event(2, ZkState("connected", lab.sessions[2]))  # it reads nothing back either
    assert (change.step, lab.log) == ("lost", [])
    assert brokers_that_write_state("isr-via-zookeeper") == {2}


def test_legacy_leader_writes_its_isr_to_zookeeper() -> None:
    """R-205: during the double roll the protocol of the leader decides, not that of the controller."""
    assert brokers_that_write_state("safe", legacy=(2,)) == {2}
    assert brokers_that_write_state("safe", legacy=(3,)) == {1}


def test_leader_told_without_the_elr_keeps_it() -> None:
    """R-316, KIP-966: a layout without registrations has no ELR either, and an ISR written without it would end it."""
    lab = cluster_in_sync("isr-via-zookeeper", min_isr=3)
    lab.is_held = sent_to_leader_by(4)
    lab.produce(2, "m")
    lab.wait(9000)
    assert (lab.isr(), [member.broker for member in lab.state().elr]) == ([2, 3], [4])
    state_without_elr = replace(
        lab.state(), isr=tuple(replace(member, incarnation=NO_INCARNATION) for member in leader_of(lab).isr), elr=()
    )
    role.become(turn_of(lab, 2), lab.partition(2), state_without_elr)

    lab.is_held = lambda envelope: sent_to_leader_by(3)(envelope) or sent_to_leader_by(4)(envelope)
    lab.wait(9000)

    assert (lab.isr(), [member.broker for member in lab.state().elr]) == ([2], [3, 4])


def test_isr_change_keeps_leader_and_leader_epoch() -> None:
    """R-192, R-203: the leader requested the change itself, so no broker needs to be fenced."""
    lab = cluster_in_sync()
    before = lab.state()
    reply = request_isr_change(lab, isr_proposal(lab, 2, 3))

    assert (reply.error, [result.error for result in reply.results]) == (ErrorCode.NONE, [ErrorCode.NONE])
    after = lab.state()
    assert (after.leader, after.leader_epoch, after.zk_version) == (2, before.leader_epoch, before.zk_version + 1)
    assert lab.isr() == [2, 3]


def test_isr_change_reaches_the_metadata_of_all_brokers() -> None:
    """R-192: otherwise the metadata of other brokers would name an outdated ISR."""
    lab = cluster_in_sync()
    request_isr_change(lab, isr_proposal(lab, 2, 4))
    lab.settle()

    assert [brokers_of(lab.nodes[i].state.broker.metadata[T0].isr) for i in lab.ids] == [(2, 4)] * 4


@pytest.mark.parametrize("lost_request", [0, 1])
def test_isr_change_without_zookeeper_answer_reaches_metadata(lost_request: int) -> None:
    """The answer to the read or to the write is lost: the next read finds the change, and no write follows that would tell it."""
    lab = Interrupted(4, replicas=(2, 3, 4))
    lab.wait(3000)
    lab.is_held = sent_to_leader_by(4)
    lab.unanswered_request = lost_request
    shrink(lab, 4)
    lab.settle()
    lab.wait(3000)

    assert (lab.lost_answers, lab.isr()) == (1, [2, 3])
    assert [brokers_of(lab.nodes[i].state.broker.metadata[T0].isr) for i in lab.ids] == [(2, 3)] * 4


def test_isr_change_results_come_in_request_order() -> None:
    """R-198: one result for each proposal, in whatever order the controller judges them."""
    lab = cluster_in_sync()
    strange = replace(isr_proposal(lab, 2, 3), tp=TopicPartition("none-0"))
    reply = request_isr_change(lab, strange, strange, isr_proposal(lab, 2, 3))

    assert [r.error.name for r in reply.results] == ["UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_OR_PARTITION", "NONE"]
    recorded = settled_cluster("safe")
    add_topic(recorded, "other", 2, 3)
    recorded.delays_write = lambda _, op: op.path == STATE  # so that the second ISR is written first
    first = isr_proposal(recorded, 2, 3)
    other = recorded.state(OTHER)
    second = replace(first, tp=OTHER, leader_epoch=other.leader_epoch, isr=other.isr[:1], zk_version=other.zk_version)
    change = IsrChange(6, BrokerId(2), recorded.nodes[2].state.broker.incarnation, (first, second))
    recorded.handle_event(1, Received(ELSEWHERE, change))
    recorded.release_writes()
    last = recorded.client_replies[-1]
    assert isinstance(last, IsrChangeReply)
    assert [r.state is not None and r.state.tp for r in last.results] == [T0, OTHER]


def test_each_partition_of_an_isr_change_has_its_own_result() -> None:
    """R-198: a proposal is judged by the state of its own partition."""
    lab = cluster_in_sync()
    second_tp = TopicPartition("u-0")
    write(lab, Create(paths.topic_path("u"), paths.topic_payload(((BrokerId(2),),))))
    lab.crash(4)
    lab.expire(4)
    lab.wait(3000)
    known_states = controller_of(lab).states
    assert known_states[second_tp].zk_version < known_states[T0].zk_version
    second = replace(
        isr_proposal(lab, 2),
        tp=second_tp,
        leader_epoch=known_states[second_tp].leader_epoch,
        zk_version=known_states[second_tp].zk_version,
    )
    reply = request_isr_change(lab, isr_proposal(lab, 2), second)

    assert [result.error for result in reply.results] == [ErrorCode.NONE] * 2
    assert [result.state.tp for result in reply.results if result.state is not None] == [T0, second_tp]
    unknown = replace(isr_proposal(lab, 2), tp=TopicPartition("nowhere-0"))
    mixed = request_isr_change(lab, unknown, isr_proposal(lab, 2))

    assert [result.error for result in mixed.results] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NONE]


def test_isr_change_sent_to_a_non_controller_gets_not_controller() -> None:
    """R-199: only the controller judges proposals."""
    lab = cluster_in_sync()
    lab.handle_event(3, Received(ELSEWHERE, IsrChange(5, BrokerId(2), Incarnation(1), (isr_proposal(lab, 2),))))

    refusal = IsrChangeReply(5, ErrorCode.NOT_CONTROLLER, "this broker is not the controller")
    assert lab.client_replies[-1] == refusal
    lab.client_replies.clear()
    lab.cut_off_from_zk.add(1)
    lab.handle_event(1, ZkState("expired"))  # it was the controller
    lab.handle_event(1, Received(ELSEWHERE, IsrChange(5, BrokerId(2), Incarnation(1), ())))

    assert lab.client_replies == [refusal]


def test_resigning_controller_drops_pending_isr_changes() -> None:
    """R-199: the controller answers NOT_CONTROLLER, and the leader asks the next one."""
    lab = cluster_in_sync()
    lab.is_held = sent_to_leader_by(4)
    lab.cut_off_from_zk.add(1)
    shrink(lab, 4)
    lab.deliver(is_change)
    other = IsrChange(5, BrokerId(2), lab.nodes[2].state.broker.incarnation, (isr_proposal(lab, 2, 3),))
    lab.handle_event(1, Received(ELSEWHERE, other))
    lab.cut_off_from_zk.remove(1)
    lab.expire(1)
    assert lab.client_replies[-1] == IsrChangeReply(5, ErrorCode.NOT_CONTROLLER, "controller no more")
    assert [message.error for _, _, message in lab.in_flight if isinstance(message, IsrChangeReply)] == [ErrorCode.NOT_CONTROLLER]
    lab.deliver(is_reply)

    assert controller_of(lab).isr_requests == []
    change = leader_of(lab).change
    assert change is not None
    assert change.step in ("asking", "lost")
    lab.wait(3000)
    assert lab.isr() == [2, 3]


@pytest.mark.parametrize(("broker", "incarnation"), [(2, 1), (2, 1000), (9, 1)])
def test_isr_change_with_another_incarnation_is_refused(broker: int, incarnation: int) -> None:
    """R-200: another process has registered under this broker id, or none; only the newest registration counts."""
    lab = cluster_in_sync()
    lab.handle_event(1, Received(ELSEWHERE, IsrChange(5, BrokerId(broker), Incarnation(incarnation), (isr_proposal(lab, 2),))))

    reply = lab.client_replies[-1]
    assert isinstance(reply, IsrChangeReply)
    assert (reply.error, reply.results) == (ErrorCode.INVALID_INCARNATION_ID, ())
    assert lab.isr() == [2, 3, 4]


def test_isr_change_of_a_non_leader_is_refused() -> None:
    """R-201: NOT_LEADER_FOR_PARTITION with the current state; an older leader epoch is FENCED_LEADER_EPOCH."""
    lab = cluster_in_sync()
    change = IsrChange(5, BrokerId(3), lab.nodes[3].state.broker.incarnation, (isr_proposal(lab, 2, 3),))
    lab.handle_event(1, Received(ELSEWHERE, change))
    reply = lab.client_replies[-1]
    assert isinstance(reply, IsrChangeReply)
    assert reply.results[0].error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert reply.results[0].state is not None

    assert (
        request_isr_change(lab, isr_proposal(lab, 2, epoch=lab.state().leader_epoch - 1)).results[0].error
        is ErrorCode.FENCED_LEADER_EPOCH
    )
    in_old_layout = replace(isr_proposal(lab, 2, epoch=lab.state().leader_epoch - 1), zk_version=NO_ZK_VERSION)
    assert request_isr_change(lab, in_old_layout).results[0].error is ErrorCode.FENCED_LEADER_EPOCH
    for i in (3, 4, 2):
        lab.crash(i)
        lab.expire(i)
        lab.settle()
    lab.start(4)
    lab.settle()
    assert lab.state().leader is None
    lab.handle_event(
        1, Received(ELSEWHERE, IsrChange(6, BrokerId(4), lab.nodes[4].state.broker.incarnation, (isr_proposal(lab, 4),)))
    )
    leaderless = lab.client_replies[-1]
    assert isinstance(leaderless, IsrChangeReply)
    assert leaderless.results[0].error is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("members", [(), (3, 4), (2, 2), (1, 2)])
def test_isr_change_to_an_impossible_isr_is_refused(members: tuple[int, ...]) -> None:
    """R-202: an empty ISR, one without its leader, with one member twice, with a broker that has no replica."""
    lab = cluster_in_sync()

    assert request_isr_change(lab, isr_proposal(lab, *members)).results[0].error is ErrorCode.INVALID_REQUEST
    proposal = isr_proposal(lab, 2, 3)
    twice = replace(proposal, isr=(*proposal.isr, IsrMember(BrokerId(3), NO_INCARNATION)))
    assert request_isr_change(lab, twice).results[0].error is ErrorCode.INVALID_REQUEST
    assert lab.isr() == [2, 3, 4]


def test_leader_repeats_isr_change_to_the_next_controller() -> None:
    """R-192: both ISRs count until the change has ended, so the follower that is gone holds up all acknowledgements."""
    lab = cluster_in_sync()
    lab.is_held = is_change
    shrink(lab, 4)
    lab.crash(1)
    lab.expire(1)
    (office,) = [i for i in (2, 3, 4) if controller_of(lab, i).step == "active"]
    lab.settle()

    assert [envelope.receiver for envelope in lab.in_flight if is_change(envelope)] == [f"b{office}"]


@pytest.mark.parametrize("error", [ErrorCode.NOT_CONTROLLER, ErrorCode.INVALID_INCARNATION_ID])
def test_leader_has_no_other_isr_after_a_refused_request(error: ErrorCode) -> None:
    """R-199, R-200: it may not change the ISR, and an earlier copy may have changed it: both ISRs count, and it asks again."""
    lab = cluster_in_sync()
    isr_before = leader_of(lab).isr
    lab.is_held = sent_to_leader_by(4)
    lab.produce(2, "m", correlation=7)
    lab.settle()
    expected_members = shrink(lab, 4)
    change = leader_of(lab).change
    assert change is not None
    lab.drop(is_change)
    lab.handle_event(2, Received(Address("b1"), IsrChangeReply(change.request, error, "no")))

    assert (leader_of(lab).isr, leader_of(lab).change) == (isr_before, change)
    assert [reply for reply in lab.client_replies if isinstance(reply, ProduceReply)] == []
    lab.wait(3000)
    assert leader_of(lab).isr == expected_members
    assert [reply.error for reply in lab.client_replies if isinstance(reply, ProduceReply)] == [ErrorCode.NONE]


def shrink_two(lab: Lab, turn: Turn) -> IsrChange:
    """Have b2 lead u-0 as well, and ask in one request for an ISR of itself alone in both partitions."""
    broker = lab.nodes[2].state.broker
    leader = leader_of(lab)
    second_partition = replace(lab.partition(2), tp=TopicPartition("u-0"), role=replace(leader))
    broker.partitions = {T0: lab.partition(2), second_partition.tp: second_partition}
    for partition in broker.partitions.values():
        assert isinstance(partition.role, Leader)
        isr._propose(turn, partition, partition.role, leader.isr[:1])
    asking.send_due(turn, broker)
    (sent,) = [effect.message for effect in turn.effects if isinstance(effect, Send)]
    assert isinstance(sent, IsrChange)
    return sent


def test_isr_changes_of_several_partitions_are_one_request() -> None:
    """R-197: a broker that lost a peer sends one request for all its partitions."""
    lab = cluster_in_sync()

    assert [change.tp for change in shrink_two(lab, turn_of(lab, 2)).changes] == ["t-0", "u-0"]


def test_leader_takes_the_result_at_the_place_of_its_partition() -> None:
    """R-198: results have no names, only the order of the request."""
    lab = cluster_in_sync()
    turn = turn_of(lab, 2)
    broker = lab.nodes[2].state.broker
    before = leader_of(lab).isr
    change = shrink_two(lab, turn)
    state = lab.state()
    done = replace(state, tp=TopicPartition("u-0"), isr=before[:1], zk_version=ZkVersion(state.zk_version + 1))
    results = (IsrResult(ErrorCode.INVALID_UPDATE_VERSION, None, state), IsrResult(ErrorCode.NONE, None, done))
    asking.on_reply(turn, broker, IsrChangeReply(change.correlation, ErrorCode.NONE, message=None, results=results))
    roles = [partition.role for partition in broker.partitions.values()]

    assert [role.isr for role in roles if isinstance(role, Leader)] == [before, before[:1]]
