"""Clauses of V3 in cases that a usual run does not have: a third directory, a late answer, a write in between."""

import pytest
from msgspec.structs import replace

from reference.broker.broker import Assigned, Registration
from reference.config import VARIANTS
from reference.coordination import paths
from reference.coordination.api import Create, Data, Delete, GetData, NoNode, SetData
from reference.events import DirFailed, Received, ZkReplied
from reference.messages import Fetch, StopPartition, StopReplica
from reference.types import Address, BrokerId, LeaderEpoch, Offset, TopicId, topic_partition
from tests.reference.lab import T0, Lab, carries
from tests.reference.moving import write
from tests.reference.recorded import STATE, settled_cluster, shrink
from tests.reference.test_fetching import check_isr, fetch_at, v3_isr
from tests.reference.v3 import crash_and_expire


def test_one_bad_dir_of_three_halts_the_broker_before_kip_112() -> None:
    """R-073: an error of one disk concerns the whole broker, however many others are good."""
    lab = Lab(1, variant=VARIANTS["log-dir-fails-broker"], log_dirs=3)
    lab.handle_event(1, DirFailed(0, "EIO"))

    assert lab.halted == {1: "log directories 0 failed"}


def test_starting_broker_does_not_undo_a_removal() -> None:
    """R-046: it held the replica when it began to read, and a StopReplica of V3 §H came before ZooKeeper's answer."""
    lab = settled_cluster("safe")
    node, state = lab.nodes[4].state, lab.state()
    broker, topic_id = node.broker, node.broker.partitions[T0].log.topic_id
    broker.registration, broker.registration_request = Registration.LEARNING_STATES, 999
    broker.learning, broker.before_learning = [Assigned(T0, (BrokerId(2), BrokerId(4)), TopicId(topic_id))], (T0,)
    read, _ = lab.zk.submit(lab.admin, (GetData(STATE),))
    stop = StopPartition(T0, state.leader_epoch, delete=True, topic_id=topic_id)
    command = StopReplica(77, BrokerId(1), broker.controller_epoch, broker.incarnation, (stop,), number=99)
    lab.handle_event(4, Received(Address("b1"), command))
    lab.handle_event(4, ZkReplied(999, read))

    assert broker.learned
    assert T0 not in lab.disks[4].logs


def test_starting_broker_reads_on_after_a_topic_that_is_gone() -> None:
    """R-070: a topic was deleted between the read of the list and that of the assignments; the others count all the same."""
    lab = settled_cluster("safe")
    broker = lab.nodes[4].state.broker
    broker.registration, broker.registration_request = Registration.LEARNING_ASSIGNMENTS, 999
    broker.learning_topics = ("gone", "t")
    (assignment,), _ = lab.zk.submit(lab.admin, (GetData(paths.topic_path("t")),))
    assert isinstance(assignment, Data)
    lab.handle_event(4, ZkReplied(999, (NoNode(), assignment)))

    assert (4, GetData(STATE)) in lab.log


@pytest.mark.parametrize("variant", ["isr-via-zookeeper", "v3"])
def test_leader_alone_cannot_grow_its_isr_after_the_controller(variant: str) -> None:
    """R-076: the controller has begun another epoch, of which the only member of the ISR has not heard."""
    lab = settled_cluster(variant)
    lab.is_held = carries(Fetch)
    shrink(lab, 3, 4)
    state = lab.state()
    assert lab.isr() == [2]
    later = replace(state, leader_epoch=LeaderEpoch(state.leader_epoch + 1))
    write(lab, SetData(STATE, paths.state_payload(later), state.zk_version))
    written = lab.state()
    lab.clear_record()
    lab.is_held = lambda _: False
    lab.settle()
    lab.wait(1000)

    assert {i for i, _ in lab.state_writes()} == {2}  # it tried
    assert lab.state() == written


def test_v3_lag_is_counted_from_the_log_end_of_the_replica() -> None:
    """R-057: the HW of a new leader may lag behind what every replica has."""
    lab = v3_isr(lag_max_records=2)
    lab.produce(1, *"abc")
    fetch_at(lab, 3, 1)
    lab.partition(1).hw = Offset(0)

    assert check_isr(lab, after_ms=0) == [1, 2, 3]


def test_no_broker_names_a_leader_where_zookeeper_names_none() -> None:
    """R-066: b5 has no replica; clients that ask it must wait, and not go to the dead b2."""
    lab = settled_cluster("safe", brokers=5)
    for i in (4, 3, 2):
        crash_and_expire(lab, i)

    assert (lab.state().leader, lab.nodes[5].state.broker.metadata[T0].leader) == (None, None)


def test_leaderless_partitions_are_stopped_with_their_topic() -> None:
    """R-028: b3, the last in sync, is dead, and b2 is told to stop both replicas; it does not have to find them itself."""
    lab = settled_cluster("safe")
    write(lab, Create(paths.topic_path("u"), paths.topic_payload(((BrokerId(3), BrokerId(2)),) * 2)))
    for i in (2, 3):
        crash_and_expire(lab, i)
    lab.start(2)
    lab.settle()
    lab.clear_record()
    for tp in (topic_partition("u", 0), topic_partition("u", 1)):
        assert lab.state(tp).leader is None
        lab.zk.submit(lab.admin, (Delete(paths.state_path(tp)), Delete(paths.state_parents(tp)[1])))
    write(lab, Delete("/brokers/topics/u/partitions"), Delete(paths.topic_path("u")))

    assert [stop.tp for _, to, message in lab.sent(StopReplica) if to == "b2" for stop in message.partitions] == ["u-0", "u-1"]
