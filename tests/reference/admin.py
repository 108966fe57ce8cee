"""A cluster with one topic, requests below /admin, and what became of them."""

from reference.config import SAFE, Variant
from reference.coordination import paths
from reference.coordination.api import AnyOp, Create, Data, Exists, GetChildren, GetData
from reference.types import BrokerId, TopicPartition
from tests.reference.interrupted import Interrupted
from tests.reference.lab import T0, Lab

T1 = TopicPartition("t-1")
ROOTS = (paths.PARTITIONS_ADD, paths.PARTITIONS_REMOVE)
BROKERS = (BrokerId(1), BrokerId(2), BrokerId(3))


def cluster_in_sync(variant: Variant = SAFE) -> Interrupted:
    lab = Interrupted(3, variant=variant)
    write(lab, Create("/admin", b""), *(Create(root, b"") for root in ROOTS))
    lab.wait(3000)
    assert (lab.isr(), lab.leaders()) == ([1, 2, 3], [1])
    return lab


def write(lab: Lab, *ops: AnyOp) -> None:
    _, fired = lab.zk.submit(lab.admin, ops)
    lab.deliver_watches(fired)
    lab.settle()


def exists(lab: Lab, path: str) -> bool:
    (answer,), _ = lab.zk.submit(lab.admin, (Exists(path),))
    return isinstance(answer, Data)


def assignment_in_zookeeper(lab: Lab) -> dict[TopicPartition, tuple[BrokerId, ...]]:
    """The assignment in the topic znode."""
    (answer,), _ = lab.zk.submit(lab.admin, (GetData(paths.topic_path("t")),))
    return dict(paths.decode_topic("t", answer.data)) if isinstance(answer, Data) else {}


def brokers_with_log(lab: Lab, tp: TopicPartition) -> list[int]:
    """The brokers that have the partition on disk."""
    return [i for i in lab.ids if tp in lab.disks[i].logs]


def pending_requests(lab: Lab) -> list[str]:
    """The admin requests that are still in ZooKeeper."""
    paths_found = [p for p in (paths.PREFERRED_ELECTION, paths.DELETE_TOPICS) if exists(lab, p)]
    for root in ROOTS:
        (answer,), _ = lab.zk.submit(lab.admin, (GetChildren(root),))
        paths_found += [f"{root}/{name}" for name in getattr(answer, "names", ())]
    return paths_found


def request_partition(lab: Lab, *replicas: int) -> None:
    payload = paths.replicas_payload(tuple(BrokerId(i) for i in replicas))
    write(lab, Create(f"{paths.PARTITIONS_ADD}/t", b""), Create(paths.partition_add_path(T1), payload))


def request_partition_removal(lab: Lab) -> None:
    write(lab, Create(f"{paths.PARTITIONS_REMOVE}/t", b""), Create(paths.partition_remove_path(T1), b""))


def request_topic_deletion(lab: Lab) -> None:
    write(lab, Create(paths.DELETE_TOPICS, paths.delete_topics_payload(("t",))))


def request_preferred_election(lab: Lab) -> None:
    write(lab, Create(paths.PREFERRED_ELECTION, paths.preferred_payload((T0,))))


def remove_broker(lab: Lab, i: int) -> None:
    """Kill a broker, expire its session, and wait 3 s."""
    lab.crash(i)
    lab.cut_off_from_zk.discard(i)
    lab.expire(i)
    lab.settle()
    lab.wait(3000)


def restart_broker(lab: Lab, i: int) -> None:
    """Start a broker again, and wait 3 s."""
    lab.start(i)
    lab.settle()
    lab.wait(3000)
