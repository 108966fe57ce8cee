"""KIP-343 step by step: how a broker learns its state, how the controller keeps it, and whose protocol is older."""

import pytest
from msgspec.structs import replace

from reference.coordination import paths
from reference.errors import ErrorCode
from reference.events import Received, ShutDown
from reference.messages import (
    Fetch,
    IsrChange,
    IsrChangeReply,
    IsrProposal,
    LeaderAndIsr,
    Metadata,
    MetadataHeartbeat,
    MetadataHeartbeatReply,
    MetadataReply,
    UpdateMetadata,
)
from reference.types import Address, BrokerId, BrokerState, Incarnation, Millis, TopicPartition
from tests.reference.lab import T0, Lab, carries
from tests.reference.recorded import settled_cluster, shrink
from tests.reference.test_heartbeats import (
    ACTIVE,
    CLIENT,
    INACTIVE,
    STOPPING,
    cluster_in_sync,
    controller_of,
    hold_heartbeats,
    incarnation_of,
    is_fenced,
    mixed_version_cluster,
    send_heartbeat,
    state_of,
)
from tests.reference.v3 import add_topic, crash_and_expire

# --- the broker --------------------------------------------------------------------------------------------------------------


def test_isolated_broker_with_heartbeats_refuses_clients() -> None:
    """R-180: b3 reaches ZooKeeper alone, and b2 is gone; a client that asks b3 goes to another broker."""
    lab = cluster_in_sync()
    lab.is_held = lambda envelope: envelope.receiver == "b3" and envelope.sender != "b3"
    lab.crash(2)
    lab.expire(2)
    lab.wait(20_000)
    lab.handle_event(3, Received(CLIENT, Metadata(1)))

    assert lab.client_replies[-1] == MetadataReply(1, (), (), ErrorCode.BROKER_NOT_AVAILABLE)


def test_broker_that_nobody_answered_is_initial() -> None:
    """R-193, R-185: it is fenced only when broker.heartbeat.timeout.ms has passed since its start."""
    lab = Lab(1, start=False)
    lab.is_held = carries(MetadataHeartbeatReply)
    lab.start(1)
    lab.wait(5000)
    refusal = MetadataHeartbeatReply(
        lab.nodes[1].state.broker.membership.outstanding, ErrorCode.NOT_CONTROLLER, "not the controller", INACTIVE
    )
    lab.handle_event(1, Received(Address("b1"), refusal))  # by a broker that cannot say whether it is alive
    lab.wait(3999)
    before = lab.nodes[1].state.broker.membership.state
    lab.wait(1)

    assert (before, lab.nodes[1].state.broker.membership.state) == (BrokerState.INITIAL, INACTIVE)


def test_broker_that_is_refused_at_first_is_fenced() -> None:
    """R-190: the answer to its first heartbeat says that its registration is over."""
    lab = Lab(1, start=False)
    lab.is_held = carries(MetadataHeartbeat, MetadataHeartbeatReply)
    lab.start(1)
    lab.settle()
    membership = lab.nodes[1].state.broker.membership
    assert membership.state is BrokerState.INITIAL
    refusal = MetadataHeartbeatReply(membership.outstanding, ErrorCode.INVALID_INCARNATION_ID, "over", INACTIVE)
    lab.handle_event(1, Received(Address("b1"), refusal))

    assert is_fenced(lab, 1)


def test_broker_sends_heartbeats_all_the_time() -> None:
    """R-185: periodically, so neither the controller nor the broker itself runs into a timeout."""
    lab = cluster_in_sync()
    hold_heartbeats(lab, 3)
    lab.wait(2000)
    lab.drop(lab.is_held)  # one is lost
    lab.is_held = lambda _: False
    lab.wait(30_000)

    assert [note.kind for _, note in lab.notes if note.kind == "fenced"] == []
    assert [state_of(lab, i) for i in lab.ids] == [ACTIVE] * 3


def test_answer_of_a_former_controller_delays_no_fence() -> None:
    """R-185: the broker must reach the current controller."""
    lab = cluster_in_sync()
    lab.is_held = carries(MetadataHeartbeatReply, receiver="b3")
    for _ in range(5):
        lab.wait(2000)
        refusal = MetadataHeartbeatReply(
            lab.nodes[3].state.broker.membership.outstanding, ErrorCode.NOT_CONTROLLER, error_string=None, current_state=INACTIVE
        )
        lab.handle_event(3, Received(Address("b2"), refusal))

    assert is_fenced(lab, 3)


def test_late_answer_does_not_delay_the_fence() -> None:
    """R-185: an answer to an earlier heartbeat does not say that the controller can be contacted now."""
    lab = cluster_in_sync()
    lab.is_held = carries(MetadataHeartbeatReply, receiver="b3")
    for _ in range(5):
        lab.wait(2000)
        lab.handle_event(
            3, Received(Address("b1"), MetadataHeartbeatReply(1, ErrorCode.NONE, error_string=None, current_state=ACTIVE))
        )

    assert is_fenced(lab, 3)


@pytest.mark.parametrize("state", [INACTIVE, STOPPING])
def test_broker_enters_the_state_that_the_controller_answers(state: BrokerState) -> None:
    """R-189: whatever it asked for."""
    lab = cluster_in_sync()
    hold_heartbeats(lab, 3)
    lab.wait(2000)
    membership = lab.nodes[3].state.broker.membership
    lab.handle_event(
        3,
        Received(
            Address("b1"), MetadataHeartbeatReply(membership.outstanding, ErrorCode.NONE, error_string=None, current_state=state)
        ),
    )

    assert (membership.target, membership.state) == (ACTIVE, state)


def test_stopping_broker_names_its_target_in_heartbeats() -> None:
    """R-189: the state that it would like to get to."""
    lab = cluster_in_sync()
    lab.is_held = carries(MetadataHeartbeat)
    lab.in_flight.clear()
    lab.handle_event(3, ShutDown())

    assert [message.target_state for _, _, message in lab.in_flight if isinstance(message, MetadataHeartbeat)] == [STOPPING]


def test_heartbeat_timeouts_are_those_of_the_configuration() -> None:
    """R-204, R-187, R-188: 2 s for the controller and 3 s for the broker, which sends a heartbeat every 500 ms."""
    lab = Lab(3, start=False)
    for i in lab.ids:
        lab.configs[i] = replace(
            lab.configs[i], controller_heartbeat_timeout_ms=Millis(2000), broker_heartbeat_timeout_ms=Millis(3000)
        )
        lab.start(i)
        lab.settle()
    lab.wait(3000)
    hold_heartbeats(lab, 3)
    lab.wait(1400)
    early = state_of(lab, 3), is_fenced(lab, 3)
    lab.wait(1000)
    later = state_of(lab, 3), is_fenced(lab, 3)
    lab.wait(1000)

    assert [early, later, (state_of(lab, 3), is_fenced(lab, 3))] == [(ACTIVE, False), (INACTIVE, False), (INACTIVE, True)]


# --- the controller ----------------------------------------------------------------------------------------------------------


def test_new_registration_is_inactive_until_its_heartbeat() -> None:
    """R-182: also in a cluster that has been at work for long."""
    lab = cluster_in_sync()
    crash_and_expire(lab, 3)
    hold_heartbeats(lab, 3)
    lab.start(3)
    lab.settle()
    before = state_of(lab, 3)
    lab.is_held = lambda _: False
    lab.settle()

    assert (before, state_of(lab, 3)) == (INACTIVE, ACTIVE)


def test_restarted_broker_stays_active_when_another_leaves() -> None:
    """R-182: the state belongs to the present registration."""
    lab = cluster_in_sync()
    lab.crash(3)
    lab.expire(3)
    lab.start(3)
    lab.wait(3000)
    lab.crash(2)
    lab.expire(2)

    assert state_of(lab, 3) is ACTIVE


def test_silent_stopping_broker_is_inactive() -> None:
    """R-187: it may have ended without its session."""
    lab = cluster_in_sync()
    hold_heartbeats(lab, 3)
    send_heartbeat(lab, 1, MetadataHeartbeat(5, BrokerId(3), incarnation_of(lab, 3), STOPPING))
    before = state_of(lab, 3)
    lab.wait(7000)

    assert (before, state_of(lab, 3)) == (STOPPING, INACTIVE)


def test_inactive_broker_without_replicas_leaves_the_metadata() -> None:
    """R-183, R-187: no election tells the others of it."""
    lab = Lab(3, replicas=(1, 2))
    lab.wait(3000)
    hold_heartbeats(lab, 3)
    lab.wait(7000)
    absent = [lab.nodes[i].state.broker.live_brokers for i in (1, 2)]
    lab.is_held = lambda _: False
    lab.settle()

    assert absent == [(1, 2)] * 2
    assert [lab.nodes[i].state.broker.live_brokers for i in (1, 2)] == [(1, 2, 3)] * 2


def test_restarted_broker_is_told_everything_again() -> None:
    """R-181: the id is the same as before; the incarnation tells the controller that it knows nothing."""
    lab = cluster_in_sync()
    lab.crash(3)
    lab.zk.expire(lab.sessions[3])  # the controller hears of it when b3 is back, and reads then
    lab.is_held = carries(UpdateMetadata, receiver="b3")
    lab.start(3)
    lab.settle()

    assert [message.full for _, to, message in lab.in_flight if to == "b3" and isinstance(message, UpdateMetadata)] == [True]
    lab = cluster_in_sync()
    lab.is_held = carries(Fetch, sender="b3")
    lab.produce(1, "x")
    lab.wait(9000)
    assert lab.isr() == [1, 2]  # nobody is elected when b3 is back
    lab.crash(3)
    lab.zk.expire(lab.sessions[3])
    lab.is_held = carries(LeaderAndIsr, receiver="b3")
    lab.start(3)
    lab.settle()

    commands = [message for _, to, message in lab.in_flight if to == "b3" and isinstance(message, LeaderAndIsr)]
    assert [state.tp for command in commands for state in command.states] == [T0]


def test_adopted_registration_ends_the_one_before() -> None:
    """R-190: the controller has updated the incarnation in memory; heartbeats of the earlier one are refused from then on."""
    lab = cluster_in_sync()
    lab.cut_off_from_zk.add(1)
    before = incarnation_of(lab, 2)
    later = send_heartbeat(lab, 1, MetadataHeartbeat(5, BrokerId(2), Incarnation(before + 1000), ACTIVE))
    earlier = send_heartbeat(lab, 1, MetadataHeartbeat(6, BrokerId(2), before, ACTIVE))

    assert (later.error, earlier.error) == (ErrorCode.NONE, ErrorCode.INVALID_INCARNATION_ID)


def test_isr_change_is_answered_after_the_write() -> None:
    """R-203: NONE says that the change was applied, so it waits for ZooKeeper."""
    lab = settled_cluster("safe")
    lab.delays_write = lambda i, _: i == 1
    shrink(lab, 4)
    lab.settle()
    early = lab.sent(IsrChangeReply)
    lab.release_writes()
    lab.settle()
    answers = [[result.error for result in message.results] for _, _, message in lab.sent(IsrChangeReply)]

    assert (early, answers, lab.isr()) == ([], [[ErrorCode.NONE]], [2, 3])
    lab = settled_cluster("safe")
    add_topic(lab, "u", 2, 3)
    lab.delays_write = lambda i, _: i == 1
    for n, tp in enumerate((T0, TopicPartition("u-0"))):  # two requests of one broker, about two partitions
        state = lab.state(tp)
        proposal = IsrProposal(tp, state.leader_epoch, state.isr[:2], state.zk_version)
        asked = IsrChange(n, BrokerId(2), incarnation_of(lab, 2), (proposal,))
        lab.handle_event(1, Received(Address("c9"), asked))
    lab.release_writes()

    replies = [reply for reply in lab.client_replies if isinstance(reply, IsrChangeReply)]
    assert [(reply.correlation, reply.results[0].error) for reply in replies] == [(0, ErrorCode.NONE), (1, ErrorCode.NONE)]


# --- brokers with an older protocol ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "legacy"), [(3, True), (4, True), (5, False)])
def test_registration_before_version_5_is_a_legacy_one(version: int, legacy: bool) -> None:
    """R-206: BrokerInfo has no new fields, only another version."""
    data = b'{"version":%d,"host":"h","port":1,"jmx_port":-1}' % version

    assert paths.is_legacy_registration(data) is legacy


def test_new_controller_knows_the_legacy_brokers() -> None:
    """R-206: it expects no heartbeats of those that were there before it."""
    lab = mixed_version_cluster(3)
    lab.crash(1)
    lab.expire(1)
    lab.wait(12_000)

    assert controller_of(lab, 2).step == "active"
    assert (state_of(lab, 3, 2), lab.isr()) == (None, [2, 3])
