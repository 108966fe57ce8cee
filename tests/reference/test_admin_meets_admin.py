"""Concurrent admin requests for one partition (V3 §F, §H, KIP-236): none may undo another."""

from msgspec.structs import replace

from reference.broker.broker import Assigned, Registration
from reference.config import VARIANTS
from reference.coordination import paths
from reference.coordination.api import AnyOp, Create, NoNode, SetData, Unknown
from reference.events import Received, ZkReplied
from reference.messages import Fetch, StopReplica, UpdateMetadata
from reference.replica.partition import Follower
from reference.types import Address, BrokerId, ControllerEpoch, LeaderEpoch, topic_partition
from tests.reference.lab import T0, Envelope, Lab, carries
from tests.reference.moving import Mortal, broker_ids, brokers_with_log, cluster, stuck_move, write, znode_data
from tests.reference.v3 import crash_and_expire

T1 = topic_partition("t", 1)
DELETE = Create(paths.DELETE_TOPICS, paths.delete_topics_payload(("t",)))
ADD = (
    Create(paths.PARTITIONS_ADD, b""),
    Create(f"{paths.PARTITIONS_ADD}/t", b""),
    Create(paths.partition_add_path(T1), paths.replicas_payload(broker_ids(4, 5, 6))),
)
REMOVE = (
    Create(paths.PARTITIONS_REMOVE, b""),
    Create(f"{paths.PARTITIONS_REMOVE}/t", b""),
    Create(paths.partition_remove_path(T1), b""),
)


def _write_without_watches(lab: Lab, op: AnyOp) -> None:
    lab.zk.submit(lab.admin, (op,))


def at_once(lab: Lab, *ops: AnyOp) -> None:
    """Write all requests before ZooKeeper answers the controller's first read."""
    lab.is_handling = True
    _, fired = lab.zk.submit(lab.admin, ops)
    lab.deliver_watches(fired)
    lab.is_handling = False
    lab.handle_event(*lab.events.pop())
    lab.settle()
    lab.wait(10_000)


def test_move_ends_when_the_deletion_of_its_topic_begins() -> None:
    """V3 §F, §H: a controller that cannot read for a while would take the next topic of that name for the one it was moving."""
    lab = stuck_move()
    moves = lab.nodes[1].state.controller.agent.moves
    assert list(moves) == [T0]
    lab.is_held = carries(StopReplica, Fetch)
    write(lab, DELETE)

    assert moves == {}


def test_replica_assigned_during_topic_deletion_is_stopped() -> None:
    """R-149, C-12: AR grew after the deletion had read it. A broker that starts at that moment would keep a stray replica."""
    lab = cluster()
    assignment = paths.partitions_payload({T0: broker_ids(1, 2, 3, 4)})
    lab.before[f"gone: {paths.topic_path('t')}"] = lambda: _write_without_watches(lab, SetData(paths.topic_path("t"), assignment))
    write(lab, DELETE)
    lab.wait(10_000)

    assert "delete b4" in lab.steps
    assert znode_data(lab, paths.topic_path("t")) is None


def test_partition_added_during_topic_deletion_is_deleted_too() -> None:
    """R-063, R-149: the controller must not wait forever for a leader of a partition whose topic was deleted."""
    lab = cluster()
    for i in (1, 2, 3):
        crash_and_expire(lab, i)
    at_once(lab, *ADD, DELETE)

    assert (brokers_with_log(lab, T1), znode_data(lab, paths.topic_path("t"))) == ([], None)
    assert znode_data(lab, paths.partition_add_path(T1)) is None


def test_partition_added_again_during_deletion_stays_deleted() -> None:
    """V3 §H on_partitions_add step 2: the partition is listed already, and LeaderAndIsr would make brokers create it again."""
    lab = cluster()
    write(lab, *ADD)
    lab.wait(1000)
    assert brokers_with_log(lab, T1) == [4, 5, 6]
    lab.crash(1)
    write(lab, DELETE, *ADD)
    lab.expire(1)
    lab.settle()
    lab.start(1)
    lab.wait(10_000)

    assert (brokers_with_log(lab), brokers_with_log(lab, T1), znode_data(lab, paths.topic_path("t"))) == ([], [], None)


def test_broker_registering_during_topic_deletion_is_told_later() -> None:
    """V3 §E step 4, docs/promise.md LIVE-2: it read its assignment before, and would keep a replica of a deleted topic."""
    lab = cluster()
    crash_and_expire(lab, 3)
    lab.before[f"gone: {paths.topic_path('t')}"] = lambda: _start_in_between(lab, 3)
    write(lab, DELETE)
    lab.wait(3000)

    assert (brokers_with_log(lab), znode_data(lab, paths.topic_path("t"))) == ([], None)


def _start_in_between(lab: Lab, i: int) -> None:
    """Start broker `i` while another broker handles an event."""
    lab.is_handling = False
    lab.start(i)
    lab.is_handling = True
    assert lab.nodes[i].state.broker.registration == "registered"


def _topic_deleted_at_startup_of(i: int, protocol: str = "safe") -> Mortal:
    """Delete the topic right after broker `i` registered and read its assignment; the controller b1 dies with the deletion."""
    lab = cluster(VARIANTS[protocol])
    crash_and_expire(lab, i)

    def start_and_die() -> None:
        _start_in_between(lab, i)
        lab.steps_left = 1
        lab.is_held = carries(sender="b1")

    lab.before[f"gone: {paths.topic_path('t')}"] = start_and_die
    write(lab, DELETE)
    lab.drop(carries(sender="b1"))
    lab.is_held = lambda _: False
    assert (lab.dead_broker, znode_data(lab, paths.topic_path("t")), brokers_with_log(lab)) == (1, None, [i])
    return lab


def test_broker_deletes_a_replica_unknown_to_the_new_controller() -> None:
    """V3 §E step 4, R-046: the old controller deleted the topic, and died before it told a broker that had just registered."""
    lab = _topic_deleted_at_startup_of(3)
    lab.remove_dead_broker(1)

    assert brokers_with_log(lab) == []
    assert _replicas_left_without_topic_ids() == [3]


def _replicas_left_without_topic_ids() -> list[int]:
    """V3 has no topic ids, and checks for stray replicas at startup only."""
    lab = _topic_deleted_at_startup_of(3, "no-topic-id")
    lab.remove_dead_broker(1)
    lab.wait(10_000)
    return brokers_with_log(lab)


def test_broker_repeats_the_check_for_stray_replicas_if_lost() -> None:
    """V3 §E step 4: without an answer the broker knows nothing about the replica."""
    lab = _topic_deleted_at_startup_of(3)
    lab.cut_off_from_zk.add(3)
    lab.remove_dead_broker(1)
    assert brokers_with_log(lab) == [3]
    request = lab.nodes[3].state.broker.strays.request
    assert request > 0
    lab.cut_off_from_zk.discard(3)
    lab.handle_event(3, ZkReplied(request, (Unknown(),)))
    lab.wait(2000)

    assert brokers_with_log(lab) == []


def test_broker_checks_replicas_on_every_full_metadata() -> None:
    """V3 §H, R-149: a broker registered again during a removal, and its controller was not a new one: the replica stayed.

    Found by the plan `removed-again-after-a-lost-write` with other draws, now `adopted-while-a-partition-is-removed`.
    """
    lab = cluster()
    write(lab, SetData(paths.topic_path("t"), paths.partitions_payload({})))
    node = lab.nodes[3].state.broker
    epoch, number = node.metadata_order
    assert (epoch, brokers_with_log(lab)) == (1, [1, 2, 3])
    update = UpdateMetadata(
        99, BrokerId(1), ControllerEpoch(epoch), node.incarnation, broker_ids(1, 2, 3), (), full=True, number=number + 1
    )
    lab.handle_event(3, Received(Address("b1"), update))
    lab.settle()

    assert brokers_with_log(lab) == [1, 2]


def _full_metadata_during(*requests: AnyOp) -> int:
    """How often broker 3 is sent full metadata during these requests; t-1 was added before."""
    lab, updates = cluster(), list[UpdateMetadata]()
    write(lab, *ADD)

    def watch(envelope: Envelope) -> bool:
        if isinstance(envelope.message, UpdateMetadata) and envelope.message.full and envelope.receiver == "b3":
            updates.append(envelope.message)
        return False

    lab.is_held = watch
    write(lab, *requests)
    return len(updates)


def test_full_metadata_is_sent_after_a_removal() -> None:
    """V3 §H, R-149: not only before it. A broker that registered while the znodes were being deleted must look again."""
    remove = (
        Create(paths.PARTITIONS_REMOVE, b""),
        Create(f"{paths.PARTITIONS_REMOVE}/t", b""),
        Create(paths.partition_remove_path(T1), b""),
    )

    assert _full_metadata_during(DELETE) >= 2
    assert _full_metadata_during(*remove) >= 2


def test_assigned_replica_missing_from_full_metadata_is_kept() -> None:
    """U-11: the metadata of a new controller lack partitions without a state; ZooKeeper has the assignment."""
    lab = cluster()
    node = lab.nodes[2].state.broker
    update = UpdateMetadata(99, BrokerId(3), ControllerEpoch(9), node.incarnation, broker_ids(1, 2, 3), (), full=True, number=1)
    lab.handle_event(2, Received(Address("b3"), update))

    assert (node.strays.suspects, brokers_with_log(lab)) == ((), [1, 2, 3])


def _return_to_startup(lab: Lab, i: int, *assigned: Assigned) -> int:
    """Put broker `i` back into its startup, after it read these assignments. Returns the id of the request that it waits for."""
    broker = lab.nodes[i].state.broker
    broker.registration, broker.registration_request = Registration.LEARNING_STATES, 999
    broker.before_learning, broker.learning = (T0,), list(assigned)
    return broker.registration_request


def test_replica_of_no_topic_from_a_deposed_controller_goes() -> None:
    """V3 §E step 4: the command may come from a controller that does not know yet that it was deposed."""
    lab = _topic_deleted_at_startup_of(3)
    assert isinstance(lab.nodes[3].state.broker.partitions[T0].role, Follower)
    lab.handle_event(3, ZkReplied(_return_to_startup(lab, 3), ()))
    lab.settle()

    assert brokers_with_log(lab) == []


def test_replica_of_a_topic_deleted_during_startup_is_deleted() -> None:
    """V3 §E step 4: the assignment may have been read before the topic was deleted. The first full metadata come only once."""
    lab = _topic_deleted_at_startup_of(3)
    partition = lab.nodes[3].state.broker.partitions[T0]
    waits = _return_to_startup(lab, 3, Assigned(T0, broker_ids(1, 2, 3), partition.log.topic_id))
    lab.remove_dead_broker(1)
    assert brokers_with_log(lab) == [3]
    lab.handle_event(3, ZkReplied(waits, (NoNode(),)))
    lab.settle()

    assert brokers_with_log(lab) == []


def test_stray_check_keeps_a_replica_with_newer_leader_and_isr() -> None:
    """V3 §E step 4: the command is newer than the read of the assignment."""
    lab = _topic_deleted_at_startup_of(3)
    lab.cut_off_from_zk.add(3)
    lab.remove_dead_broker(1)
    broker = lab.nodes[3].state.broker
    broker.partitions[T0].leader_epoch = LeaderEpoch(broker.partitions[T0].leader_epoch + 1)
    lab.handle_event(3, ZkReplied(broker.strays.request, (NoNode(),)))

    assert brokers_with_log(lab) == [3]


def test_late_stop_replica_deletes_no_partition_added_again() -> None:
    """R-064: it has the topic id and the epoch of the new replica. Only its number says that it was obeyed before."""
    lab = cluster()
    write(lab, *ADD)
    late_copies: list[Envelope] = []

    def is_kept(envelope: Envelope) -> bool:
        if isinstance(envelope.message, StopReplica):
            late_copies.append(envelope)
        return False

    lab.is_held = is_kept
    write(lab, *REMOVE)
    lab.is_held = lambda _: False
    assert (len(late_copies), brokers_with_log(lab, T1)) == (3, [])
    write(lab, *ADD)
    for source, to, message in late_copies:
        # a duplicate in the network
        lab.in_flight.append(Envelope(source, to, replace(message, correlation=message.correlation + 1000)))
    lab.settle()

    assert brokers_with_log(lab, T1) == [4, 5, 6]
