"""A broker that is asked to end does so in good order, and one that was not starts without trust in its logs."""

import pytest
from msgspec.structs import replace

from reference.config import VARIANTS
from reference.coordination import paths
from reference.events import Received, ShutDown
from reference.messages import IsrMember, LeaderAndIsr
from reference.types import Address, BrokerId, Incarnation, TopicId
from tests.reference.lab import T0, Lab

AT_ONCE = VARIANTS["no-heartbeat"]  # nobody is told before: test_controlled_shutdown is about that


def end(lab: Lab, i: int) -> None:
    """Ask a broker to end, and wait until it has given its partitions away and its process is over."""
    lab.tell(i, ShutDown())
    lab.settle()
    lab.wait(60_000)
    assert i not in lab.nodes


def test_a_broker_that_ends_in_good_order_leaves_its_checkpoint_and_a_marker() -> None:
    """R-048: else every start would have to look through its logs, and the high watermark would be that of some time ago."""
    lab = Lab(2, variant=AT_ONCE)
    lab.produce(1, "a")
    lab.settle()
    lab.tell(1, ShutDown())

    assert (1 in lab.nodes, lab.disks[1].clean, lab.disks[1].checkpoint) == (False, True, ((T0, 1),))


def test_a_broker_that_closes_appends_nothing_more() -> None:
    """R-048: what is appended behind the last flush would be trusted at the next start though it may be torn."""
    lab = Lab(2, variant=AT_ONCE, before_ack=True)
    lab.held_flushes = True
    lab.tell(1, ShutDown())
    lab.produce(1, "late")
    lab.release_flushes()

    assert (lab.disks[1].logs[T0], lab.disks[1].clean) == ([], True)


def test_the_marker_is_gone_before_the_logs_are_loaded() -> None:
    """B-64, KAFKA-10471: a crash while they are loaded must not be taken for a shutdown in good order."""
    lab = Lab(2)
    lab.tell(1, ShutDown())
    lab.start(1)

    assert not lab.disks[1].clean


def torn(lab: Lab, i: int) -> None:
    """Power fails under the last batch of a log."""
    lab.disks[i].logs[T0][-1] = replace(lab.disks[i].logs[T0][-1], intact=False)


def test_a_log_is_looked_through_after_a_crash() -> None:
    """R-048: without the marker the log is cut at its first bad CRC, and its epochs are those of the batches that are left."""
    lab = Lab(1)
    lab.produce(1, "a")
    lab.produce(1, "b")
    lab.crash(1)
    torn(lab, 1)
    lab.start(1)

    partition = lab.partition(1)
    assert (lab.values(1), [entry.start for entry in partition.log.epochs]) == (["a"], [0])


@pytest.mark.parametrize(("variant", "trusts"), [("safe", False), ("clean-marker-late", True)])
def test_a_crash_after_an_orderly_end_is_a_crash(variant: str, trusts: bool) -> None:
    """B-64, KAFKA-10471: the second start dies while it loads; with a marker that is still there the third believes its logs."""
    lab = Lab(1, variant=VARIANTS[variant])
    lab.produce(1, "a")
    end(lab, 1)
    lab.muted.add(1)  # it never comes so far as to be in the cluster
    lab.start(1)
    lab.crash(1)
    torn(lab, 1)
    lab.start(1)

    assert (lab.values(1) == ["a"]) == trusts


@pytest.mark.parametrize(("variant", "kept"), [("safe", 1), ("hw-checkpoint-zero-on-shutdown", 0)])
def test_the_high_watermark_outlives_an_orderly_end(variant: str, kept: int) -> None:
    """B-18, KAFKA-851: the next follower would truncate to nothing, and lead."""
    lab = Lab(2, variant=VARIANTS[variant])
    lab.produce(1, "a")
    lab.settle()
    end(lab, 1)
    lab.muted.add(1)
    lab.start(1)

    assert lab.partition(1).hw == kept


@pytest.mark.parametrize(("variant", "kept"), [("safe", ((T0, 1),)), ("no-replica-without-leader", ())])
def test_a_replica_without_a_leader_keeps_its_place_in_the_checkpoint(variant: str, kept: object) -> None:
    """B-19, KAFKA-1647: hard-killed once more it would truncate to nothing."""
    lab = Lab(2, variant=VARIANTS[variant])
    lab.produce(1, "a")
    lab.settle()
    lab.wait(6000)
    for i in (1, 2):
        lab.crash(i)
        lab.expire(i)
    gone = IsrMember(BrokerId(9), Incarnation(1))
    lab.zk.nodes[paths.state_path(T0)].data = paths.state_payload(replace(lab.state(), leader=gone.broker, isr=(gone,)))
    lab.start(2)
    lab.settle()
    lab.wait(6000)

    assert lab.disks[2].checkpoint == kept


def test_a_command_without_a_leader_makes_the_replica_all_the_same() -> None:
    """B-19: the replica must be there when the next command comes, and hold its place until then."""
    for variant, made in (("safe", True), ("no-replica-without-leader", False)):
        lab = Lab(2, variant=VARIANTS[variant], replicas=(1,))
        state = replace(lab.state(), leader=None, replicas=(BrokerId(1), BrokerId(2)))
        broker = lab.nodes[2].state.broker
        command = LeaderAndIsr(9, BrokerId(1), broker.controller_epoch, broker.incarnation, False, (state,))
        lab.tell(2, Received(Address("b1"), command))

        assert (T0 in broker.partitions) == made


def test_the_high_watermark_of_a_deleted_replica_leaves_the_checkpoint_with_it() -> None:
    """R-039, B-61: a restart before the next checkpoint would take it for that of the next topic of the name."""
    lab = Lab(1)
    lab.produce(1, "a")
    lab.wait(6000)
    before = lab.disks[1].checkpoint
    later = replace(lab.state(), topic_id=TopicId(999), leader=None, replicas=(BrokerId(1),))
    broker = lab.nodes[1].state.broker
    command = LeaderAndIsr(9, BrokerId(1), broker.controller_epoch, broker.incarnation, False, (later,))
    lab.tell(1, Received(Address("b1"), command))

    assert (before, lab.disks[1].checkpoint) == (((T0, 1),), ())
