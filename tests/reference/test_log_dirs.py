"""KIP-112 at the broker: what a bad log directory takes out of service, and where replicas are created."""

import pytest
from msgspec.structs import replace

from reference.broker import log_dirs
from reference.config import VARIANTS
from reference.errors import ErrorCode
from reference.events import DirFailed, Received
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
)
from reference.replica.partition import Follower, Leader
from reference.types import (
    NO_EPOCH,
    NO_INCARNATION,
    Address,
    BrokerId,
    LeaderEpoch,
    Millis,
    Offset,
    TopicId,
    TopicPartition,
)
from tests.reference.failing_dirs import (
    EIO,
    U0,
    bad_dirs,
    break_dir,
    cluster_with_dirs,
    create_topic,
    error_of_command,
    error_of_produce,
    restart,
)
from tests.reference.lab import T0, Envelope, Lab, carries
from tests.reference.v3 import crash_and_expire

# --- a directory fails --------------------------------------------------------------------------------------------------------


def test_broker_serves_good_dirs_while_another_is_bad() -> None:
    """R-290: otherwise one disk of many would take all replicas of its broker out of service."""
    lab = cluster_with_dirs()
    create_topic(lab, "u", 1)
    assert U0 in lab.disks[1].dirs[1].logs
    break_dir(lab, 1)

    assert lab.halted == {}
    assert list(lab.nodes[1].state.broker.partitions) == [U0]
    assert isinstance(lab.nodes[1].state.broker.partitions[U0].role, Leader)
    lab = Lab(1, before_ack=True, log_dirs=2)
    lab.wait(3000)
    create_topic(lab, "u", 1)
    lab.held_flushes = True
    lab.produce(1, "x", correlation=7)
    break_dir(lab, 1, 1)  # while the good directory is flushed
    lab.release_flushes()
    lab.settle()

    assert [(r.correlation, r.error) for r in lab.client_replies if isinstance(r, ProduceReply)] == [(7, ErrorCode.NONE)]


def test_broker_goes_on_though_a_bad_dir_fails_again() -> None:
    """R-290, R-292: a flush may fail after a write; one directory of two is still good."""
    lab = cluster_with_dirs()
    create_topic(lab, "u", 1, 2, 3)
    lab.handle_event(1, DirFailed(0, "EIO"))
    lab.handle_event(1, DirFailed(0, "ENOSPC"))

    assert (lab.halted, bad_dirs(lab, 1), list(lab.nodes[1].state.broker.partitions)) == ({}, (0,), [U0])


def test_bad_dir_halts_the_broker_before_kip_112() -> None:
    """R-073, C-23, V3 Discussion 4: an I/O error of one disk concerns the whole broker."""
    for name, halted in (("log-dir-fails-broker", {1: "log directories 0 failed"}), ("safe", {})):
        lab = cluster_with_dirs(variant=VARIANTS[name])
        break_dir(lab, 1)

        assert lab.halted == halted


def test_empty_bad_dir_halts_the_broker_before_kip_112() -> None:
    """R-073, C-23: also where the directory holds no replica that could go offline."""
    for name, halted in (("log-dir-fails-broker", {1: "log directories 1 failed"}), ("safe", {})):
        lab = cluster_with_dirs(variant=VARIANTS[name])
        assert lab.disks[1].dirs[1].logs == {}
        lab.handle_event(1, DirFailed(1, "EIO"))

        assert lab.halted == halted


def test_bad_dir_keeps_the_broker_down_before_kip_112() -> None:
    """R-073, C-23: a broker that starts with one bad directory of two is as broken as one that loses it later."""
    for name, halted in (("log-dir-fails-broker", {1: "log directories 1 failed"}), ("safe", {})):
        lab = cluster_with_dirs(variant=VARIANTS[name])
        lab.crash(1)
        lab.disks[1].dirs[1].bad = True
        lab.start(1)

        assert lab.halted == halted


def test_dir_stays_bad_after_its_first_failed_access() -> None:
    """R-291: a directory that fails only now and then would serve replicas with a hole."""
    lab = cluster_with_dirs()
    lab.disks[2].dirs[0].bad = True
    assert bad_dirs(lab, 2) == ()
    assert error_of_produce(lab, 1, "x", 1) is ErrorCode.NONE  # b2 fails to append it
    assert bad_dirs(lab, 2) == (0,)
    lab.disks[2].dirs[0].bad = False
    lab.wait(10_000)
    lab.expire(2)  # another session of the same process
    lab.wait(3000)
    assert bad_dirs(lab, 2) == (0,)
    create_topic(lab, "u", 1, 2, 3)

    assert list(lab.nodes[2].state.broker.partitions) == [U0]
    assert lab.isr() == [1, 3]
    assert (lab.disks[2].dirs[0].logs, list(lab.disks[2].dirs[1].logs)) == ({T0: []}, [U0])


def test_new_replica_is_created_though_its_name_is_offline() -> None:
    """R-302: the bad directory holds a replica of an earlier topic of that name, and none of this one."""
    lab = cluster_with_dirs()
    break_dir(lab, 1)
    later = TopicId(lab.nodes[1].state.broker.offline[T0] + 1)

    assert error_of_command(lab, 1, T0, new=True, topic_id=later) is ErrorCode.NONE
    assert T0 in lab.disks[1].dirs[1].logs


def test_broker_halts_when_its_last_dir_fails() -> None:
    """R-292: the broker could serve nothing and would still hold its leaderships."""
    lab = cluster_with_dirs()
    break_dir(lab, 1)
    assert 1 in lab.nodes
    lab.disks[1].dirs[1].bad = True
    lab.fire(1, "checkpoint")

    assert lab.halted == {1: "log directories 0, 1 failed"}
    lab.crash(2)
    lab.cut_off_from_zk.add(2)  # so that it does not register
    lab.start(2)
    for dir_ in (0, 1):
        lab.handle_event(2, DirFailed(dir_, "EIO"))

    assert lab.halted[2] == "log directories 0, 1 failed"


def test_broker_does_not_start_without_a_good_dir() -> None:
    """R-292: the same rule at start."""
    lab = cluster_with_dirs()
    lab.crash(1)
    for directory in lab.disks[1].dirs:
        directory.bad = True
    lab.start(1)

    assert list(lab.halted) == [1]


def test_new_replica_goes_to_the_emptiest_good_dir() -> None:
    """R-293: a replica created in a bad directory would be offline from the start."""
    lab = cluster_with_dirs(dirs=3)
    break_dir(lab, 1)
    for name in ("u", "v", "w"):
        create_topic(lab, name, 1, 2, 3)

    assert [sorted(directory.logs) for directory in lab.disks[1].dirs] == [["t-0"], ["u-0", "w-0"], ["v-0"]]
    break_dir(lab, 1, 1)
    create_topic(lab, "x", 1, 2, 3)
    create_topic(lab, "y", 1, 2, 3)

    assert sorted(lab.disks[1].dirs[2].logs) == ["v-0", "x-0", "y-0"]


def test_parked_produce_gets_storage_error_when_dir_fails() -> None:
    """R-298, C-22: KAFKA_STORAGE_ERROR makes the client look for the next leader; the record may be written all the same."""
    lab = cluster_with_dirs()
    lab.is_held = carries(Fetch)
    lab.produce(1, "x", correlation=5)
    lab.handle_event(1, DirFailed(0, "EIO"))

    assert [reply.error for reply in lab.client_replies if isinstance(reply, ProduceReply) and reply.correlation == 5] == [EIO]


def test_offline_replica_answers_with_storage_error() -> None:
    """R-293, R-298, B-63 g (KAFKA-6027): KAFKA_STORAGE_ERROR; an unknown-partition error, or data, would mislead the client."""
    lab = cluster_with_dirs()
    lab.cut_off_from_zk.add(1)  # the controller is not notified, so nobody tells the broker to stop
    break_dir(lab, 1)
    lab.client_replies.clear()
    asker = Address("c1")
    lab.handle_event(
        1,
        Received(
            asker,
            Fetch(
                1,
                T0,
                replica=None,
                incarnation=NO_INCARNATION,
                leader_epoch=NO_EPOCH,
                offset=Offset(0),
                max_wait_ms=Millis(0),
                max_records=10,
            ),
        ),
    )
    lab.handle_event(1, Received(asker, EpochEnd(2, T0, BrokerId(2), NO_EPOCH, LeaderEpoch(0))))
    lab.handle_event(1, Received(asker, ListOffsets(3, T0, NO_EPOCH)))
    lab.produce(1, "x", correlation=4)

    answered = [
        reply for reply in lab.client_replies if isinstance(reply, FetchReply | EpochEndReply | ListOffsetsReply | ProduceReply)
    ]
    assert [(reply.correlation, reply.error) for reply in answered] == [(1, EIO), (2, EIO), (3, EIO), (4, EIO)]
    assert error_of_command(lab, 1, T0, new=False, epoch=9) is EIO
    alone = cluster_with_dirs(brokers=1)
    alone.cut_off_from_zk.add(1)
    break_dir(alone, 1)  # it was the only member of the ISR
    assert error_of_produce(alone, 1, "x", 1) is EIO


def test_fetcher_of_an_offline_replica_stops_alone() -> None:
    """R-295, B-63 b (KAFKA-5864, KAFKA-8346): one bad partition must not stop the fetchers of the others."""
    lab = cluster_with_dirs()
    create_topic(lab, "u", 1, 2, 3)
    lab.cut_off_from_zk.add(2)  # the controller is not notified, so nobody tells the broker to stop
    break_dir(lab, 2)
    lab.in_flight.clear()
    lab.wait(3000)
    lab.handle_event(lab.leader(U0), Received(Address("c1"), Produce(50, U0, -1, ("y",), Millis(1000))))
    lab.settle()

    assert f"fetch:{T0}" not in lab.timers[2]
    assert isinstance(lab.nodes[2].state.broker.partitions[U0].role, Follower)
    assert [b.values for b in lab.disks[2].dirs[1].logs[U0]] == [("y",)]
    lab = cluster_with_dirs()
    lab.cut_off_from_zk.add(3)
    lab.disks[3].dirs[1].bad = True
    node, other = lab.nodes[3].state.broker, TopicPartition("v-0")
    states = tuple(
        replace(lab.state(), tp=tp, leader_epoch=LeaderEpoch(0), replicas=(BrokerId(1), BrokerId(3))) for tp in (U0, other)
    )
    command = LeaderAndIsr(
        77, BrokerId(1), node.controller_epoch, node.incarnation, init=False, states=states, new=(U0, other), number=99
    )
    lab.handle_event(3, Received(Address("b1"), command))  # only the first of the two new replicas is in the bad directory

    assert (list(node.offline), f"fetch:{other}" in lab.timers[3]) == ([U0], True)


def test_leader_with_a_bad_dir_shrinks_other_isrs() -> None:
    """B-63 c (KAFKA-7837): the loop over partitions must not stop at the first offline one."""
    lab = cluster_with_dirs()
    create_topic(lab, "u", 1, 2, 3)
    lab.wait(3000)
    break_dir(lab, 1)
    lab.cut_off_from_zk.add(3)
    lab.crash(3)  # b3 stops fetching, and its session stays open
    lab.handle_event(1, Received(Address("c1"), Produce(50, U0, 1, ("y",), Millis(1000))))
    lab.wait(9000)

    role = lab.nodes[1].state.broker.partitions[U0].role
    assert isinstance(role, Leader)
    assert [member.broker for member in role.isr] == [1, 2]


def test_leader_steps_down_at_once_when_its_dir_fails() -> None:
    """B-63 a: until the controller knows of the failure, the leader would accept records that it cannot store."""
    for name, leads in (("log-dir-keep-leader", True), ("safe", False)):
        lab = cluster_with_dirs(variant=VARIANTS[name])
        lab.checks_rules = not leads  # a leader on a failed directory counts as no offline replica
        lab.cut_off_from_zk.add(1)  # the controller is not notified
        lab.handle_event(1, DirFailed(0, "EIO"))

        partition = lab.nodes[1].state.broker.partitions.get(T0)
        assert (partition is not None and isinstance(partition.role, Leader)) is leads


def test_record_is_not_acknowledged_after_a_failed_write() -> None:
    """B-63 f (KAFKA-10778): one write fails and the next would succeed; the broker must acknowledge neither."""
    lab = cluster_with_dirs(1)
    lab.disks[1].dirs[0].bad = True
    lab.produce(1, "x", acks=1, correlation=1)
    lab.disks[1].dirs[0].bad = False
    lab.produce(1, "y", acks=1, correlation=2)

    errors = {reply.correlation: reply.error for reply in lab.client_replies if isinstance(reply, ProduceReply)}
    assert errors == {2: EIO}  # the answer to the first stood behind the failed write and was dropped
    assert lab.disks[1].dirs[0].logs[T0] == []


def test_stopped_offline_replica_stays_offline() -> None:
    """R-308, B-63 d (KAFKA-7313): StopReplica fails; the next command must not create the replica again in another directory."""
    for name, expected in (("offline-replica-recreated", ErrorCode.NONE), ("safe", EIO)):
        lab = cluster_with_dirs()
        lab.configs[1] = replace(lab.configs[1], variant=VARIANTS[name])
        lab.nodes[1].state.config = lab.configs[1]
        lab.cut_off_from_zk.add(1)
        lab.handle_event(1, DirFailed(0, "EIO"))
        lab.cut_off_from_zk.clear()
        lab.in_flight.clear()
        controller = lab.nodes[1].state.controller
        incarnation = lab.nodes[1].state.broker.incarnation
        stop = StopReplica(9, BrokerId(1), controller.epoch, incarnation, (StopPartition(T0, LeaderEpoch(99)),))
        lab.handle_event(1, Received(Address("b2"), stop))
        (reply,) = [message for _, _, message in lab.in_flight if isinstance(message, StopReplicaReply)]

        assert reply.errors == ((T0, EIO),)
        assert error_of_command(lab, 1, T0, new=True, epoch=9) is expected
    lab = cluster_with_dirs()
    lab.cut_off_from_zk.add(1)
    lab.handle_event(1, DirFailed(0, "EIO"))
    lab.in_flight.clear()
    stop = replace(stop, broker_incarnation=lab.nodes[1].state.broker.incarnation)
    stop = replace(stop, partitions=(StopPartition(T0, LeaderEpoch(99), delete=False),))
    lab.handle_event(1, Received(Address("b2"), stop))

    assert [m.errors for _, _, m in lab.in_flight if isinstance(m, StopReplicaReply)] == [((T0, EIO),)]


def test_bad_dir_keeps_its_checkpoint() -> None:
    """B-21 (KAFKA-6604): replicas of a reloaded directory that the checkpoint does not list would truncate to 0."""
    lab = cluster_with_dirs()
    assert error_of_produce(lab, 1, "x", 1) is ErrorCode.NONE
    lab.wait(6000)
    before = lab.disks[2].dirs[0].checkpoint
    assert before == ((T0, 1),)
    break_dir(lab, 2)
    lab.disks[2].dirs[0].bad = False
    lab.wait(6000)
    assert lab.disks[2].dirs[0].checkpoint == before
    restart(lab, 2)

    assert lab.partition(2).hw == 1


def test_gauges_count_bad_dirs_and_offline_replicas() -> None:
    """R-312, C-21: an operator watches these numbers to learn that a disk must be replaced."""
    lab = cluster_with_dirs()
    create_topic(lab, "u", 1, 2, 3)
    create_topic(lab, "v", 1, 2, 3)
    broker = lab.nodes[1].state.broker
    before = (len(broker.offline), len(broker.offline_dirs))
    break_dir(lab, 1)
    broker = lab.nodes[1].state.broker

    assert before == (0, 0)
    assert (len(broker.offline), len(broker.offline_dirs)) == (2, 1)
    gauges = [(note.detail, note.gauge) for i, note in lab.notes if i == 1 and note.kind == "gauge"]
    assert gauges == [
        ("kafka.server:name=OfflineReplicaCount,type=ReplicaManager", 2),
        ("kafka.server:name=OfflineLogDirectoryCount,type=LogManager", 1),
    ]


def test_gauges_count_replicas_of_a_dir_unreadable_at_start() -> None:
    """R-312: the broker cannot list such a directory; it counts the replicas that the controller tells it of."""
    lab = cluster_with_dirs()
    lab.disks[3].dirs[0].bad = True
    lab.notes.clear()
    restart(lab, 3)

    gauges = [(note.detail, note.gauge) for i, note in lab.notes if i == 3 and note.kind == "gauge"]
    replicas, directories = log_dirs.OFFLINE_REPLICAS, log_dirs.OFFLINE_DIRECTORIES
    assert gauges == [(replicas, 0), (directories, 1), (replicas, 1), (directories, 1)]


# --- which replicas are created where -----------------------------------------------------------------------------------------


def test_missing_replica_is_created_if_all_dirs_are_good() -> None:
    """R-296: the replica was never created, or its disk was replaced by an empty one."""
    lab = cluster_with_dirs()

    assert error_of_command(lab, 3, U0, new=False) is ErrorCode.NONE
    assert U0 in lab.disks[3].dirs[1].logs


def test_broker_with_a_bad_dir_creates_only_new_replicas() -> None:
    """R-301, B-63 h (KAFKA-16234): a missing replica may lie in the bad directory, with committed records."""
    lab = cluster_with_dirs()
    crash_and_expire(lab, 3)
    lab.disks[3].dirs[0].bad = True
    lab.start(3)
    lab.settle()

    assert lab.nodes[3].state.broker.offline.keys() == {T0}
    assert error_of_command(lab, 3, TopicPartition("w-0"), new=False) is EIO
    assert error_of_command(lab, 3, U0, new=True) is ErrorCode.NONE
    assert list(lab.disks[3].dirs[1].logs) == [U0]
    led = create_topic(lab, "v", 3, 1)  # its leader's replica is new, too
    assert sorted(lab.disks[3].dirs[1].logs) == [U0, led]


@pytest.mark.parametrize(("new", "error"), [(False, EIO), (True, ErrorCode.NONE)])
def test_log_of_a_deleted_topic_is_not_the_missing_one(new: bool, error: ErrorCode) -> None:
    """R-301 (seed 110962 of `--faults all`): beside it, the later topic's replica may lie in the bad directory."""
    lab = cluster_with_dirs()
    create_topic(lab, "u", 1, 2, 3)
    break_dir(lab, 3)
    replica = lab.nodes[3].state.broker.partitions[U0]
    later = TopicId(replica.log.topic_id + 1)

    assert error_of_command(lab, 3, U0, new=new, topic_id=later) is error
    assert (U0 in lab.disks[3].dirs[1].logs, U0 in lab.nodes[3].state.broker.offline) == (new, not new)


def test_only_replicas_of_a_new_topic_are_marked_new() -> None:
    """R-297, R-302: a replica is new only on its way from NewReplica to Online."""
    lab = cluster_with_dirs()
    seen: list[tuple[str, tuple[TopicPartition, ...]]] = []

    def watching(envelope: Envelope) -> bool:
        if isinstance(envelope.message, LeaderAndIsr):
            seen.append((envelope.receiver, envelope.message.new))
        return False

    lab.is_held = watching
    create_topic(lab, "u", 1, 2, 3)
    told_of_u = set(seen)
    seen.clear()
    restart(lab, 3)

    assert {(f"b{i}", (U0,)) for i in lab.ids} <= told_of_u
    assert {new for _, new in seen} == {()}


def test_replica_is_marked_new_until_its_broker_answers() -> None:
    """R-302: a lost command is repeated unchanged."""
    lab = cluster_with_dirs()
    lab.is_held = carries(LeaderAndIsr)
    create_topic(lab, "u", 1, 2, 3)
    lab.drop(carries(LeaderAndIsr))
    lab.wait(2500)
    again = [message.new for _, _, message in lab.in_flight if isinstance(message, LeaderAndIsr)]
    lab.is_held = lambda _: False
    lab.wait(2500)

    assert again
    assert set(again) == {(U0,)}
    controller = next(n.state.controller for n in lab.nodes.values() if n.state.controller.step == "active")
    assert [queued.new for queued in controller.channels] == [(), (), ()]
    lab = cluster_with_dirs()
    lab.cut_off_from_zk.add(3)
    lab.disks[3].dirs[1].bad = True  # the answer of b3 has an error
    create_topic(lab, "u", 1, 2, 3)
    controller = next(n.state.controller for n in lab.nodes.values() if n.state.controller.step == "active")
    assert [queued.new for queued in controller.channels] == [(), (), ()]


def test_replica_that_cannot_be_created_is_offline() -> None:
    """R-297: a replica counts as created only if the broker's answer has no error for it."""
    lab = cluster_with_dirs()
    lab.disks[3].dirs[1].bad = True  # the emptier directory, where u-0 would go
    create_topic(lab, "u", 1, 2, 3)
    lab.wait(5000)

    assert lab.isr(U0) == [1, 2]
