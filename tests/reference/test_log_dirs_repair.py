"""KIP-112: which replicas may lead while a directory is bad, and how the directory returns to service."""

from msgspec.structs import replace

from reference.config import VARIANTS
from reference.coordination.api import Create
from reference.errors import ErrorCode
from reference.events import Received
from reference.messages import (
    FetchReply,
    LogInfo,
    LogInfoReply,
)
from reference.replica.partition import Leader
from reference.types import (
    Address,
    BrokerId,
)
from tests.reference.failing_dirs import U0, break_dir, cluster_with_dirs, create_topic, error_of_produce, restart
from tests.reference.lab import T0, Disk, Lab, carries
from tests.reference.moving import reassign, write
from tests.reference.v3 import crash_and_expire


def test_election_from_logs_waits_for_an_unreadable_log_dir() -> None:
    """docs/promise.md SILENT-1: an unreadable log may hold acknowledged records, so it does not count as empty."""
    lab = cluster_with_dirs(2)
    assert error_of_produce(lab, 1, "x", 1) is ErrorCode.NONE
    for i in lab.ids:
        lab.crash(i)
    for i in lab.ids:
        lab.expire(i)
    lab.disks[1].dirs[0].bad = True
    for i in lab.ids:
        lab.start(i)
    lab.wait(5000)
    assert lab.leaders() == []
    lab.disks[1].dirs[0].bad = False
    restart(lab, 1)
    lab.wait(5000)

    assert len(lab.leaders()) == 1
    assert lab.values(1) == lab.values(2) == ["x"]


def test_log_info_reply_names_unreadable_logs() -> None:
    """docs/promise.md SILENT-1: with the answer "no log" the others would be elected without this replica."""
    lab = cluster_with_dirs()
    break_dir(lab, 3)
    lab.in_flight.clear()
    node = lab.nodes[3].state
    lab.handle_event(
        3, Received(Address("b1"), LogInfo(5, BrokerId(1), node.broker.controller_epoch, node.broker.incarnation, (T0,)))
    )

    assert [message for _, _, message in lab.in_flight if isinstance(message, LogInfoReply)] == [
        LogInfoReply(5, ErrorCode.NONE, (), (T0,))
    ]


def test_offline_replica_is_not_recreated_and_elected_empty() -> None:
    """B-63 h (KAFKA-16234): the recreated, empty replica would count as the last member of the ISR."""
    for name, kept in (("offline-replica-recreated", []), ("safe", ["x"])):
        lab = Lab(1, variant=VARIANTS[name], log_dirs=2)
        assert error_of_produce(lab, 1, "x", 1) is ErrorCode.NONE
        break_dir(lab, 1)
        led_by = lab.leaders()
        if name == "safe":
            assert led_by == []
            lab.disks[1].dirs[0].bad = False
            restart(lab, 1)
            lab.wait(1000)

        assert lab.leaders() == [1]
        assert lab.values(1) == kept


def test_repaired_dir_serves_again_after_a_restart() -> None:
    """R-291, R-303: with its records, if they are still there."""
    lab = cluster_with_dirs()
    assert error_of_produce(lab, 1, "x", 1) is ErrorCode.NONE
    break_dir(lab, 1)
    lab.disks[1].dirs[0].bad = False
    restart(lab, 1)
    lab.wait(3000)

    assert lab.isr() == [1, 2, 3]
    assert lab.values(1) == ["x"]


def test_replica_in_a_replaced_dir_is_refilled_and_not_elected() -> None:
    """R-303, U-17, B-33 (KAFKA-3410): isNewReplica is false and all directories are good, so the replica is created, empty."""
    for alone in (False, True):
        lab = cluster_with_dirs(2)
        if alone:
            crash_and_expire(lab, 2)
        assert error_of_produce(lab, 1, "x", 1) is ErrorCode.NONE
        lab.crash(1)
        lab.disks[1].dirs[0] = type(lab.disks[1].dirs[0])()
        lab.expire(1)
        lab.settle()
        if alone:
            lab.start(2)
        lab.start(1)
        lab.wait(3000)

        assert lab.leaders() == ([] if alone else [2])
        if not alone:
            assert lab.isr() == [1, 2]
            assert lab.values(1) == ["x"]


def test_replica_of_an_unconfigured_dir_is_not_elected() -> None:
    """R-315: its replicas are created again in other directories; DUR-6: such a replica is younger than its stamp."""
    lab = cluster_with_dirs(1)
    create_topic(lab, "u", 1)
    assert U0 in lab.disks[1].dirs[1].logs
    assert error_of_produce(lab, 1, "x", 1) is ErrorCode.NONE
    lab.crash(1)
    other_disk = Disk()
    other_disk.dirs = lab.disks[1].dirs[1:]
    lab.disks[1] = other_disk
    lab.configs[1] = replace(lab.configs[1], log_dirs=1)
    lab.expire(1)
    lab.start(1)
    lab.wait(3000)

    assert sorted(other_disk.logs) == [T0, U0]
    partitions = lab.nodes[1].state.broker.partitions
    assert isinstance(partitions[U0].role, Leader)
    assert lab.leaders() == []


def test_replica_recreated_in_an_older_dir_is_not_elected() -> None:
    """R-303, DUR-6: any directory may have held its log, so the youngest one tells how old the replica is."""
    lab = cluster_with_dirs(3)
    write(lab, Create("/admin", b""))
    create_topic(lab, "u", 1)
    reassign(lab, (2, 3))
    assert [list(directory.logs) for directory in lab.disks[1].dirs] == [[], [U0]]
    lab.crash(1)
    lab.disks[1].dirs[1] = type(lab.disks[1].dirs[1])()
    lab.expire(1)
    lab.start(1)
    lab.wait(3000)

    partition = lab.nodes[1].state.broker.partitions[U0]
    assert partition.log.dir == 0
    assert not isinstance(partition.role, Leader)


def test_broker_keeps_the_younger_of_two_logs_of_a_replica() -> None:
    """R-293: a repaired directory returns an old log beside the replica created meanwhile."""
    lab = cluster_with_dirs()
    crash_and_expire(lab, 3)
    lab.disks[3].dirs[0].bad = True
    lab.start(3)
    lab.settle()
    left_over = lab.disks[3].dirs[0]
    create_topic(lab, "u", 1, 2, 3)
    left_over.logs[U0], left_over.born[U0] = [], left_over.born[T0]
    left_over.bad = False
    restart(lab, 3)

    assert lab.nodes[3].state.broker.partitions[U0].log.dir == 1
    assert U0 not in left_over.logs


def test_follower_with_a_longer_log_than_its_leader_truncates() -> None:
    """B-17 (KAFKA-3924): halting the broker for one partition would lose unflushed records of all its others."""
    lab = cluster_with_dirs(2)
    lab.is_held = carries(FetchReply)
    lab.produce(1, "x", acks=1)
    crash_and_expire(lab, 1)
    assert lab.leaders() == [2]
    lab.is_held = lambda _: False
    lab.start(1)
    lab.wait(3000)

    assert lab.halted == {}
    assert lab.values(1) == lab.values(2) == []


def _moved_away_and_back() -> Lab:
    """A cluster in which b3 got t-0 back, with record x, in its second directory; its first log of t-0 was in the first one."""
    lab = cluster_with_dirs(4)
    write(lab, Create("/admin", b""))
    create_topic(lab, "u", 3)
    reassign(lab, (1, 2, 4))
    create_topic(lab, "v", 3)
    create_topic(lab, "w", 3)
    assert error_of_produce(lab, 1, "x", 1) is ErrorCode.NONE
    reassign(lab, (1, 2, 3))
    assert [T0 in directory.logs for directory in lab.disks[3].dirs] == [False, True]
    assert lab.isr() == [1, 2, 3]
    return lab


def test_later_log_is_kept_if_a_deletion_was_not_durable() -> None:
    """DUR-1, R-293: seed 90452; both logs are of one registration, and the earlier one is in the first directory."""
    lab = _moved_away_and_back()
    lab.disks[3].dirs[0].logs[T0] = []  # a power loss undoes the deletion
    lab.crash(3)
    lab.start(3)

    assert T0 not in lab.disks[3].dirs[0].logs
    assert lab.disks[3].dirs[1].logs[T0]


def test_last_copy_is_elected_beside_an_earlier_log() -> None:
    """DUR-3: seed 90452; with the earlier log b3 would be elected without the record that it alone still has."""
    lab = _moved_away_and_back()
    for i in lab.ids:
        lab.crash(i)
    for i in lab.ids:
        lab.expire(i)
    for i in (1, 2):
        lab.disks[i] = Disk(2)
    lab.disks[3].dirs[0].logs[T0] = []
    for i in lab.ids:
        lab.start(i)
    lab.wait(5000)

    assert lab.leaders() == [3]
    assert lab.values(3) == ["x"]
