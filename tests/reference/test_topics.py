"""Topics of one name are distinguished by their topic id, the czxid of the znode (KIP-516, V3 Discussion 5, U-14)."""

import pytest
from msgspec.structs import replace

from reference.broker import strays
from reference.broker.broker import Assigned, Broker, Registration
from reference.config import VARIANTS
from reference.coordination import paths
from reference.coordination.api import Create, Data, Delete, GetData
from reference.errors import ErrorCode
from reference.events import Received, ZkReplied
from reference.messages import (
    EpochEnd,
    EpochEndReply,
    Fetch,
    FetchReply,
    LeaderAndIsr,
    ListOffsets,
    ListOffsetsReply,
    Produce,
    ProduceReply,
    StopPartition,
    StopReplica,
    StopReplicaReply,
    UpdateMetadata,
)
from reference.types import (
    NO_INCARNATION,
    NO_TOPIC_ID,
    Address,
    BrokerId,
    ControllerEpoch,
    Incarnation,
    LeaderEpoch,
    Millis,
    Offset,
    TopicId,
    topic_partition,
)
from tests.reference.admin import (
    BROKERS,
    brokers_with_log,
    cluster_in_sync,
    exists,
    pending_requests,
    remove_broker,
    request_topic_deletion,
    restart_broker,
    write,
)
from tests.reference.lab import T0, Envelope, Lab
from tests.reference.v3 import crash_and_expire

CLIENT = Address("c1")


def topic_id(lab: Lab) -> TopicId:
    (answer,), _ = lab.zk.submit(lab.admin, (GetData(paths.topic_path("t")),))
    assert isinstance(answer, Data)
    return TopicId(answer.czxid)


def create_topic(lab: Lab, *replicas: int) -> None:
    assignment = (tuple(BrokerId(i) for i in replicas),)
    write(lab, Create(paths.topic_path("t"), paths.topic_payload(assignment)))
    lab.wait(2000)


def values_produced(lab: Lab, *values: str) -> None:
    lab.produce(lab.leaders()[0], *values)
    lab.settle()


def topic_ids_of_logs(lab: Lab) -> set[TopicId]:
    """The topic ids of all logs of t-0, in memory and on disk."""
    in_memory = {
        lab.nodes[i].state.broker.partitions[T0].log.topic_id for i in lab.ids if i in lab.nodes and brokers_with_log(lab, T0)
    }
    return in_memory | {lab.disks[i].topic_ids[T0] for i in lab.ids if T0 in lab.disks[i].logs}


# --- where the id is kept -------------------------------------------------------------------------------------------------------


def test_log_keeps_its_topic_id_over_a_restart() -> None:
    """KIP-516: a restarted broker distinguishes topics of one name by the id stored with the log."""
    lab = cluster_in_sync()
    remove_broker(lab, 2)
    restart_broker(lab, 2)

    assert topic_ids_of_logs(lab) == {topic_id(lab)}


def test_metadata_carries_the_topic_id_after_a_failover() -> None:
    """R-310, R-311: LeaderAndIsr and UpdateMetadata carry the topic id."""
    lab = cluster_in_sync()
    remove_broker(lab, 1)

    assert {state.topic_id for i in (2, 3) for state in lab.nodes[i].state.broker.metadata.values()} == {topic_id(lab)}


def test_controller_starts_a_topic_that_appears_in_the_list() -> None:
    """R-026, R-027, C-02, C-03: the controller watches the list; an administrator need only create the topic's znode."""
    lab = cluster_in_sync()
    write(lab, Create(paths.topic_path("u"), paths.topic_payload(((BrokerId(2),),))))
    state = paths.state_path(topic_partition("u", 0))

    assert (lab.nodes[1].state.controller.topics, exists(lab, state)) == (("t", "u"), True)
    assert state == "/brokers/topics/u/partitions/0/state"


# --- recreated while a broker is down (B-61) ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("variant", "expected"), [("safe", ["new"]), ("no-topic-id", ["old"])])
def test_log_of_a_deleted_topic_is_not_used_when_recreated(variant: str, expected: list[str]) -> None:
    """B-61, R-046, R-074, U-14: while broker 3 is down, its topic is deleted and created again with broker 3 as a replica."""
    lab = cluster_in_sync(VARIANTS[variant])
    values_produced(lab, "old")
    remove_broker(lab, 3)
    request_topic_deletion(lab)
    create_topic(lab, 2, 1, 3)
    values_produced(lab, "new")
    restart_broker(lab, 3)

    assert lab.values(3)[: len(expected)] == expected


def test_v3_startup_deletes_what_is_not_assigned_any_more() -> None:
    """R-074: so V3 needs no id of a topic where the next topic of that name has other replicas (U-14)."""
    lab = cluster_in_sync(VARIANTS["no-topic-id"])
    values_produced(lab, "old")
    remove_broker(lab, 3)
    request_topic_deletion(lab)
    create_topic(lab, 2, 1)
    restart_broker(lab, 3)

    assert brokers_with_log(lab, T0) == [1, 2]


def test_topic_recreated_at_once_is_a_new_topic() -> None:
    """V3 §B step 2, R-028, B-61: an administrator may delete the znodes himself; the names stay the same, the id changes."""
    lab = cluster_in_sync()
    values_produced(lab, "old")
    lab.zk.submit(lab.admin, (Delete(paths.state_path(T0)), *(Delete(p) for p in reversed(paths.state_parents(T0)))))
    _, fired = lab.zk.submit(lab.admin, (Delete(paths.topic_path("t")),))
    create_topic(lab, 1, 2, 3)
    lab.deliver_watches(fired)
    lab.settle()

    assert (topic_ids_of_logs(lab), len(lab.leaders()), lab.values(1)) == ({topic_id(lab)}, 1, [])


def test_leader_and_isr_of_a_recreated_topic_deletes_the_log() -> None:
    """KIP-516, B-61: one name, a larger id: the topic with the smaller id is deleted, even if no StopReplica came."""
    lab = cluster_in_sync()
    values_produced(lab, "old")
    node = lab.nodes[2].state
    later = TopicId(1_000)
    state = replace(lab.nodes[1].state.controller.states[T0], topic_id=later, leader_epoch=LeaderEpoch(0))
    broker = node.broker
    command = LeaderAndIsr(99, BrokerId(1), broker.controller_epoch, broker.incarnation, init=False, states=(state,))
    lab.handle_event(2, Received(Address("b1"), command))

    assert (lab.values(2), lab.partition(2).leader_epoch, lab.disks[2].topic_ids[T0]) == ([], 0, later)


def test_leader_and_isr_of_a_deleted_topic_is_refused() -> None:
    """KIP-516 INCONSISTENT_TOPIC_ID: otherwise a late command would use the log of the later topic."""
    lab = cluster_in_sync()
    node = lab.nodes[2].state
    state = lab.nodes[1].state.controller.states[T0]
    stale = LeaderAndIsr(
        99,
        BrokerId(1),
        node.broker.controller_epoch,
        node.broker.incarnation,
        init=False,
        states=(replace(state, topic_id=TopicId(1), leader_epoch=LeaderEpoch(50)),),
    )
    lab.handle_event(2, Received(Address("b1"), stale))

    reply = lab.in_flight[-1][2]
    assert getattr(reply, "errors", None) == ((T0, ErrorCode.INCONSISTENT_TOPIC_ID),)
    assert lab.partition(2).leader_epoch == state.leader_epoch


@pytest.mark.parametrize(("variant", "survives"), [("safe", True), ("no-topic-id", False)])
def test_late_stop_replica_keeps_the_log_of_a_recreated_topic(variant: str, survives: bool) -> None:
    """B-48, B-52, B-61, KIP-570: a StopReplica delayed past deletion and creation deletes nothing."""
    lab = cluster_in_sync(VARIANTS[variant])
    node = lab.nodes[2].state
    for held_topic_id in (TopicId(1), topic_id(lab)):
        stop = StopPartition(T0, LeaderEpoch(1_000), delete=True, topic_id=held_topic_id)
        request = StopReplica(98, BrokerId(1), node.broker.controller_epoch, node.broker.incarnation, (stop,))
        lab.handle_event(2, Received(Address("b1"), request))
        if held_topic_id == 1:
            assert (T0 in node.broker.partitions) == survives

    assert T0 not in node.broker.partitions  # the StopReplica with the right id deletes it


@pytest.mark.parametrize("again", [(), (2, 1), (2, 1, 3)])
def test_log_deleted_at_startup_is_not_created_again(again: tuple[int, ...]) -> None:
    """B-61, B-62, R-046: a deposed controller that knows nothing of the deletion commands the replica when its broker is back."""
    lab = cluster_in_sync()
    values_produced(lab, "old")
    of_the_deleted = replace(lab.nodes[1].state.controller.states[T0], topic_id=topic_id(lab))
    remove_broker(lab, 3)
    request_topic_deletion(lab)
    if again:
        create_topic(lab, *again)
    lab.is_held = lambda envelope: envelope.receiver == Address("b3")
    restart_broker(lab, 3)
    assert T0 not in lab.nodes[3].state.broker.partitions
    broker = lab.nodes[3].state.broker
    command = LeaderAndIsr(99, BrokerId(1), ControllerEpoch(0), broker.incarnation, init=False, states=(of_the_deleted,))
    lab.handle_event(3, Received(Address("b1"), command))

    assert T0 not in lab.nodes[3].state.broker.partitions
    lab.is_held = lambda _: False
    lab.settle()
    assert brokers_with_log(lab, T0) == sorted(again)


@pytest.mark.parametrize(
    ("topic", "there", "gone"),
    [
        (5, None, True),
        (5, 9, True),
        (12, None, False),
        (12, 15, True),
        (5, 5, False),
        (12, 12, False),
        (NO_TOPIC_ID, None, False),
    ],
)
def test_missing_topic_is_gone_if_the_registration_is_later(topic: int, there: int | None, gone: bool) -> None:
    """A ZooKeeper server that lags may not know a topic yet that was created after the registration (here 10)."""
    broker = Broker(incarnation=Incarnation(10))

    assert strays.is_gone(broker, TopicId(topic), None if there is None else TopicId(there)) is gone


# --- requests for another topic -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["safe", "no-topic-id"])
def test_request_with_another_topic_id_is_refused(variant: str) -> None:
    """KIP-516: clients get UNKNOWN_TOPIC_ID and refresh; replicas get INCONSISTENT_TOPIC_ID and wait for the controller."""
    lab = cluster_in_sync(VARIANTS[variant])
    epoch = lab.partition(1).leader_epoch
    unknown_id = TopicId(1)
    consumer = Fetch(
        1,
        T0,
        replica=None,
        incarnation=NO_INCARNATION,
        leader_epoch=epoch,
        offset=Offset(0),
        max_wait_ms=Millis(0),
        max_records=10,
        topic_id=unknown_id,
    )
    replica = Fetch(2, T0, BrokerId(2), lab.nodes[2].state.broker.incarnation, epoch, Offset(0), Millis(0), 10, unknown_id)
    lab.handle_event(1, Received(CLIENT, consumer))
    lab.handle_event(1, Received(CLIENT, replica))
    lab.handle_event(1, Received(CLIENT, EpochEnd(3, T0, BrokerId(2), epoch, epoch, unknown_id)))
    lab.handle_event(1, Received(CLIENT, ListOffsets(4, T0, epoch, unknown_id)))
    lab.handle_event(1, Received(CLIENT, Produce(5, T0, 1, ("x",), Millis(100), unknown_id)))

    kinds = (FetchReply, EpochEndReply, ListOffsetsReply, ProduceReply)
    errors = {reply.correlation: reply.error for reply in lab.client_replies if isinstance(reply, kinds)}
    unknown, inconsistent = ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID
    expected = {1: unknown, 2: inconsistent, 3: inconsistent, 4: unknown, 5: unknown}
    assert all((errors.get(c) == error) == (variant == "safe") for c, error in expected.items())


def test_request_without_topic_id_is_served() -> None:
    """KIP-516: requests of versions before topic ids are not checked."""
    lab = cluster_in_sync()
    lab.handle_event(1, Received(CLIENT, Produce(5, T0, 1, ("x",), Millis(100), NO_TOPIC_ID)))

    assert [reply.error for reply in lab.client_replies if isinstance(reply, ProduceReply)] == [ErrorCode.NONE]


# --- deletion -------------------------------------------------------------------------------------------------------------------


def test_all_brokers_drop_the_metadata_of_a_deleted_topic() -> None:
    """B-62: otherwise a broker sends clients to the leader of a deleted topic until it restarts."""
    lab = cluster_in_sync()
    request_topic_deletion(lab)

    assert [dict(lab.nodes[i].state.broker.metadata) for i in lab.ids] == [{}, {}, {}]


def test_isolated_broker_drops_topics_deleted_meanwhile() -> None:
    """B-62: its process lived on, cut off from the others, with its old metadata."""
    lab = cluster_in_sync()
    lab.cut_off_from_zk.add(3)
    lab.zk.expire(lab.sessions[3])
    lab.is_held = lambda envelope: "b3" in (envelope.sender, envelope.receiver)
    write(lab)
    lab.deliver_watches([(lab.sessions[1], paths.BROKER_IDS, "children")])
    lab.settle()
    request_topic_deletion(lab)
    lab.in_flight.clear()
    lab.is_held = lambda _: False
    lab.cut_off_from_zk.clear()
    assert T0 in lab.nodes[3].state.broker.metadata
    lab.expire(3)
    lab.wait(5000)

    assert (dict(lab.nodes[3].state.broker.metadata), brokers_with_log(lab, T0)) == ({}, [])


def test_late_full_metadata_does_not_remove_a_topic() -> None:
    """B-62: a full update arrives twice, the second time after the topic was created again."""
    lab = cluster_in_sync()
    request_topic_deletion(lab)
    node = lab.nodes[2].state.broker
    epoch, order = node.metadata_order
    create_topic(lab, 1, 2, 3)
    late_metadata = UpdateMetadata(
        99, BrokerId(1), ControllerEpoch(epoch), node.incarnation, BROKERS, (), full=True, number=order
    )
    lab.handle_event(2, Received(Address("b1"), late_metadata))

    assert list(node.metadata) == [T0]


def test_finished_deletion_is_not_repeated_on_recreated_topic() -> None:
    """B-62: the answer to the last write is lost, and the topic is created again before the controller reads."""
    for lost in range(12):
        lab = cluster_in_sync()
        lab.unanswered_request = lost
        request_topic_deletion(lab)
        if lab.lost_answers and not exists(lab, paths.topic_path("t")):
            create_topic(lab, 1, 2, 3)
            lab.wait(5000)
            assert (exists(lab, paths.state_path(T0)), len(lab.leaders())) == (True, 1)


@pytest.mark.parametrize("before", range(7))
def test_deletion_survives_controller_crash_at_any_step(before: int) -> None:
    """B-62, KAFKA-2937: the next controller ends the deletion, and the topic created afterwards is new."""
    lab = cluster_in_sync()
    values_produced(lab, "old")
    lab.requests_left = before
    request_topic_deletion(lab)
    lab.requests_left = None
    if 1 in lab.cut_off_from_zk:
        remove_broker(lab, 1)
    lab.wait(5000)
    assert (pending_requests(lab), exists(lab, paths.topic_path("t"))) == ([], False)
    create_topic(lab, 2, 1, 3)
    if 1 not in lab.nodes:
        restart_broker(lab, 1)
    lab.wait(9000)

    assert (len(lab.leaders()), [lab.values(i) for i in lab.ids], topic_ids_of_logs(lab)) == (1, [[], [], []], {topic_id(lab)})


def test_deletion_is_not_blocked_by_unknown_topics() -> None:
    """B-62, KAFKA-6650: one topic that never had a leader, one that never existed, one in use."""
    lab = cluster_in_sync()
    write(lab, Create(paths.topic_path("u"), paths.topic_payload(((BrokerId(9),),))))
    write(lab, Create(paths.DELETE_TOPICS, paths.delete_topics_payload(("none", "t", "u"))))

    left = [exists(lab, paths.topic_path(name)) for name in ("t", "u")]
    assert (left, pending_requests(lab), brokers_with_log(lab, T0)) == ([False, False], [], [])


def test_late_leader_and_isr_copy_does_not_recreate_a_topic() -> None:
    """R-149, B-61: no controller would ever delete that log; the replica of the next topic is created all the same."""
    lab = cluster_in_sync()
    copies: list[LeaderAndIsr] = []
    lab.is_held = lambda envelope: _copied(envelope, copies)
    crash_and_expire(lab, 1)
    request_topic_deletion(lab)
    lab.handle_event(2, Received(Address(f"b{copies[0].controller}"), copies[0]))
    holders_before = brokers_with_log(lab, T0)
    create_topic(lab, 1, 2, 3)

    assert (holders_before, brokers_with_log(lab, T0)) == ([1], [1, 2, 3])  # b1 is down


def _copied(envelope: Envelope, copies: list[LeaderAndIsr]) -> bool:
    if envelope.receiver == "b2" and isinstance(envelope.message, LeaderAndIsr):
        copies.append(envelope.message)
    return False


def test_stop_replica_is_answered_after_pending_zk_requests() -> None:
    """B-61: a late ISR change would reach the znode of the next topic of that name, whose versions begin at 0 again."""
    lab = cluster_in_sync()
    node = lab.nodes[2].state.broker
    lab.cut_off_from_zk.add(2)
    stop = StopPartition(T0, LeaderEpoch(9), delete=True, topic_id=topic_id(lab))
    request = StopReplica(98, BrokerId(1), node.controller_epoch, node.incarnation, (stop,))
    lab.handle_event(2, Received(Address("b1"), request))
    waits = not [envelope for envelope in lab.in_flight if isinstance(envelope.message, StopReplicaReply)]
    lab.cut_off_from_zk.clear()
    lab.handle_event(2, Received(Address("b1"), request))

    assert (waits, [envelope.message.error for envelope in lab.in_flight if isinstance(envelope.message, StopReplicaReply)]) == (
        True,
        [ErrorCode.NONE],
    )


def test_starting_broker_does_not_undo_a_deletion() -> None:
    """R-046: the StopReplica may arrive before the answer to the read of V3 §E step 2; once answered, the znodes go."""
    lab = cluster_in_sync()
    node = lab.nodes[3].state
    broker = node.broker
    state = lab.state()
    broker.registration, broker.registration_request = Registration.LEARNING_STATES, 999
    broker.learning = [Assigned(T0, state.replicas, topic_id(lab))]
    read, _ = lab.zk.submit(lab.admin, (GetData(paths.state_path(T0)),))
    stop = StopPartition(T0, state.leader_epoch, delete=True, topic_id=topic_id(lab))
    lab.handle_event(3, Received(CLIENT, StopReplica(77, BrokerId(1), broker.controller_epoch, broker.incarnation, (stop,))))
    lab.handle_event(3, ZkReplied(999, read))

    assert broker.learned
    assert not broker.learning
    assert T0 not in lab.disks[3].logs
