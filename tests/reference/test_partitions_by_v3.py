"""Adding and removing partitions (V3 §H): all that is asked for is done, in V3's order where C-13 keeps it."""

from reference.coordination import paths
from reference.coordination.api import AnyOp, Create
from reference.messages import StopReplica
from reference.types import BrokerId, TopicPartition
from tests.reference.admin import (
    assignment_in_zookeeper,
    brokers_with_log,
    cluster_in_sync,
    exists,
    request_partition,
    request_partition_removal,
    write,
)
from tests.reference.lab import carries

BROKERS = (BrokerId(1), BrokerId(2), BrokerId(3))
T0, T1, T2, U1 = (TopicPartition(name) for name in ("t-0", "t-1", "t-2", "u-1"))
LATER = (T1, T2, U1)


def request_znodes(root: str, payload: bytes) -> tuple[AnyOp, ...]:
    """The znodes below an admin path that ask for the same with each of the later partitions."""
    topics = tuple(Create(f"{root}/{topic}", b"") for topic in ("t", "u"))
    return (*topics, *(Create(f"{root}/{tp.replace('-', '/')}", payload) for tp in LATER))


def test_all_requested_partitions_are_added_and_removed() -> None:
    """R-063, R-064, V3 §H on_partitions_add step 1, on_partitions_remove step 1: set_p is all that the path asks for."""
    lab = cluster_in_sync()
    write(lab, Create(paths.topic_path("u"), paths.topic_payload((BROKERS,))))
    write(lab, *request_znodes(paths.PARTITIONS_ADD, b"[3,2]"))
    assert [len(lab.leaders(tp)) for tp in LATER] == [1, 1, 1]
    write(lab, *request_znodes(paths.PARTITIONS_REMOVE, b""))

    assert [brokers_with_log(lab, tp) for tp in LATER] == [[], [], []]
    assert (assignment_in_zookeeper(lab), lab.leader()) == ({T0: BROKERS}, 1)


def test_removal_is_written_after_live_replicas_have_stopped() -> None:
    """R-064: StopReplica comes first; the request and the topic path change when each live replica has answered."""
    lab = cluster_in_sync()
    request_partition(lab, 3, 2)
    lab.is_held = carries(StopReplica, receiver="b3")
    request_partition_removal(lab)
    early = (brokers_with_log(lab, T1), exists(lab, paths.partition_remove_path(T1)), T1 in assignment_in_zookeeper(lab))
    lab.is_held = lambda _: False
    lab.settle()

    assert early == ([3], True, True)
    assert (brokers_with_log(lab, T1), exists(lab, paths.partition_remove_path(T1)), T1 in assignment_in_zookeeper(lab)) == (
        [],
        False,
        False,
    )
