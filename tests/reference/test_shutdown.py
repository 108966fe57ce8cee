"""Clean shutdown of a broker, and the log scan of a start without the clean-shutdown marker."""

import pytest
from msgspec.structs import replace

from reference.config import VARIANTS
from reference.coordination import paths
from reference.events import Received, ShutDown
from reference.messages import IsrMember, LeaderAndIsr
from reference.types import Address, BrokerId, Incarnation, TopicId
from tests.reference.lab import T0, Lab

AT_ONCE = VARIANTS["no-heartbeat"]  # without controlled shutdown (see test_controlled_shutdown)


def shut_down(lab: Lab, i: int) -> None:
    """Ask a broker to shut down, and wait until it has moved its leaderships and its process has ended."""
    lab.handle_event(i, ShutDown())
    lab.settle()
    lab.wait(60_000)
    assert i not in lab.nodes


def test_clean_shutdown_writes_checkpoint_and_clean_marker() -> None:
    """R-048: otherwise every start would scan the logs, and the checkpointed high watermark would be an old one."""
    lab = Lab(2, variant=AT_ONCE)
    lab.produce(1, "a")
    lab.settle()
    lab.handle_event(1, ShutDown())

    assert (1 in lab.nodes, lab.disks[1].clean, lab.disks[1].checkpoint) == (False, True, ((T0, 1),))


def test_broker_that_shuts_down_appends_nothing() -> None:
    """R-048: the next start would trust records behind the last flush, which may be torn."""
    lab = Lab(2, variant=AT_ONCE, before_ack=True)
    lab.held_flushes = True
    lab.handle_event(1, ShutDown())
    lab.produce(1, "late")
    lab.release_flushes()

    assert (lab.disks[1].logs[T0], lab.disks[1].clean) == ([], True)


def test_clean_marker_is_removed_before_logs_are_loaded() -> None:
    """B-64, KAFKA-10471: a crash during loading must not look like a clean shutdown."""
    lab = Lab(2)
    lab.handle_event(1, ShutDown())
    lab.start(1)

    assert not lab.disks[1].clean


def tear_last_batch(lab: Lab, i: int) -> None:
    """Tear the last batch of the broker's log, as a power failure does."""
    lab.disks[i].logs[T0][-1] = replace(lab.disks[i].logs[T0][-1], intact=False)


@pytest.mark.parametrize("after", [[], ["c"]])
def test_log_is_scanned_after_a_crash(after: list[str]) -> None:
    """R-048: without the marker the log is truncated at its first bad CRC, and the epoch cache is rebuilt from the rest.

    What follows the bad batch may be whole.
    """
    lab = Lab(1)
    for value in ("a", "b", *after):
        lab.produce(1, value)
    lab.crash(1)
    lab.disks[1].logs[T0][1] = replace(lab.disks[1].logs[T0][1], intact=False)
    lab.start(1)

    partition = lab.partition(1)
    assert (lab.values(1), [entry.start for entry in partition.log.epochs]) == (["a"], [0])


def test_log_is_not_scanned_after_a_clean_shutdown() -> None:
    """R-048: the marker stands for all that the scan would find, so each batch is loaded as it is."""
    lab = Lab(1, variant=AT_ONCE)
    lab.produce(1, "a")
    lab.produce(1, "b")
    lab.handle_event(1, ShutDown())
    tear_last_batch(lab, 1)
    lab.start(1)

    assert lab.values(1) == ["a", "b"]


@pytest.mark.parametrize(("variant", "trusts"), [("safe", False), ("clean-marker-late", True)])
def test_crash_during_start_after_clean_shutdown_is_unclean(variant: str, trusts: bool) -> None:
    """B-64, KAFKA-10471: the second start dies while it loads; if the marker is still there, the third trusts the logs."""
    lab = Lab(1, variant=VARIANTS[variant])
    lab.produce(1, "a")
    shut_down(lab, 1)
    lab.cut_off_from_zk.add(1)  # it cannot register in ZooKeeper
    lab.start(1)
    lab.crash(1)
    tear_last_batch(lab, 1)
    lab.start(1)

    assert (lab.values(1) == ["a"]) == trusts


@pytest.mark.parametrize(("variant", "kept"), [("safe", 1), ("hw-checkpoint-zero-on-shutdown", 0)])
def test_clean_shutdown_keeps_the_high_watermark(variant: str, kept: int) -> None:
    """B-18, KAFKA-851: a broker that starts with HW 0 would truncate its log to nothing as a follower, and might lead then."""
    lab = Lab(2, variant=VARIANTS[variant])
    lab.produce(1, "a")
    lab.settle()
    shut_down(lab, 1)
    lab.cut_off_from_zk.add(1)  # without ZooKeeper it gets no role, so this is the HW of its checkpoint
    lab.start(1)

    assert lab.partition(1).hw == kept


@pytest.mark.parametrize(("variant", "kept"), [("safe", ((T0, 1),)), ("no-replica-without-leader", ())])
def test_checkpoint_keeps_a_replica_without_leader(variant: str, kept: object) -> None:
    """B-19, KAFKA-1647: after one more kill -9 the replica would truncate to nothing."""
    lab = Lab(2, variant=VARIANTS[variant])
    lab.produce(1, "a")
    lab.settle()
    lab.wait(6000)
    for i in (1, 2):
        lab.crash(i)
        lab.expire(i)
    removed_member = IsrMember(BrokerId(9), Incarnation(1))
    lab.zk.nodes[paths.state_path(T0)].data = paths.state_payload(
        replace(lab.state(), leader=removed_member.broker, isr=(removed_member,))
    )
    lab.start(2)
    lab.settle()
    lab.wait(6000)

    assert lab.disks[2].checkpoint == kept


def test_leader_and_isr_without_leader_creates_the_replica() -> None:
    """B-19: the replica must exist for the next command, and keep its entry in the checkpoint until then."""
    for variant, made in (("safe", True), ("no-replica-without-leader", False)):
        lab = Lab(2, variant=VARIANTS[variant], replicas=(1,))
        state = replace(lab.state(), leader=None, replicas=(BrokerId(1), BrokerId(2)))
        broker = lab.nodes[2].state.broker
        command = LeaderAndIsr(9, BrokerId(1), broker.controller_epoch, broker.incarnation, init=False, states=(state,))
        lab.handle_event(2, Received(Address("b1"), command))

        assert (T0 in broker.partitions) == made


def test_checkpoint_drops_the_hw_of_a_deleted_replica() -> None:
    """R-039, B-61: after a restart the next topic of that name would get this high watermark."""
    lab = Lab(1)
    lab.produce(1, "a")
    lab.wait(6000)
    before = lab.disks[1].checkpoint
    later = replace(lab.state(), topic_id=TopicId(999), leader=None, replicas=(BrokerId(1),))
    broker = lab.nodes[1].state.broker
    command = LeaderAndIsr(9, BrokerId(1), broker.controller_epoch, broker.incarnation, init=False, states=(later,))
    lab.handle_event(1, Received(Address("b1"), command))

    assert (before, lab.disks[1].checkpoint) == (((T0, 1),), ())
