"""Helpers for tests of log directory failures (KIP-112): a table-top cluster whose brokers have several log directories."""

from msgspec.structs import replace

from reference.config import SAFE, Variant
from reference.coordination import paths
from reference.coordination.api import Children, Create, GetChildren
from reference.errors import ErrorCode
from reference.events import Received
from reference.messages import (
    LeaderAndIsr,
    LeaderAndIsrReply,
    ProduceReply,
)
from reference.types import (
    NO_TOPIC_ID,
    Address,
    BrokerId,
    LeaderEpoch,
    TopicId,
    TopicPartition,
    topic_partition,
)
from tests.reference.lab import T0, Lab
from tests.reference.v3 import crash_and_expire

U0 = TopicPartition("u-0")
EIO = ErrorCode.KAFKA_STORAGE_ERROR


def cluster_with_dirs(brokers: int = 3, *, variant: Variant = SAFE, min_isr: int = 1, dirs: int = 2) -> Lab:
    """Start brokers with several directories each.

    The replica of t-0 is in the first directory, b1 leads, all replicas are in sync.
    """
    lab = Lab(brokers, variant=variant, min_isr=min_isr, log_dirs=dirs)
    lab.wait(3000)
    assert (lab.isr(), lab.leaders()) == (list(lab.ids), [1])
    assert all(T0 in lab.disks[i].dirs[0].logs for i in lab.ids)
    return lab


def break_dir(lab: Lab, i: int, index: int = 0) -> None:
    """Make one directory fail every access. Its broker notices at its next checkpoint."""
    lab.disks[i].dirs[index].bad = True
    lab.fire(i, "checkpoint")
    lab.settle()


def create_topic(lab: Lab, name: str, *replicas: int) -> TopicPartition:
    """Create a topic with one partition by writing its znode."""
    payload = paths.topic_payload((tuple(BrokerId(i) for i in replicas),))
    _, fired = lab.zk.submit(lab.admin, (Create(paths.topic_path(name), payload),))
    lab.deliver_watches(fired)
    lab.settle()
    return topic_partition(name, 0)


def restart(lab: Lab, i: int) -> None:
    crash_and_expire(lab, i)
    lab.start(i)
    lab.settle()


def error_of_produce(lab: Lab, i: int, value: str, correlation: int) -> ErrorCode:
    """The error code that a producer with acks=all finally receives."""
    lab.produce(i, value, correlation=correlation)
    lab.settle()
    return next(
        reply.error for reply in lab.client_replies if isinstance(reply, ProduceReply) and reply.correlation == correlation
    )


def bad_dirs(lab: Lab, i: int) -> tuple[int, ...]:
    return lab.nodes[i].state.broker.offline_dirs


def notification(lab: Lab, i: int) -> str:
    """The state of the broker's log directory notification to the controller."""
    return lab.nodes[i].state.broker.dir_event


def dir_notifications(lab: Lab) -> tuple[str, ...]:
    """The names of the log directory notifications in ZooKeeper."""
    (answer,), _ = lab.zk.submit(lab.admin, (GetChildren(paths.LOG_DIR_EVENTS),))
    assert isinstance(answer, Children)
    return answer.names


def error_of_command(
    lab: Lab, i: int, tp: TopicPartition, *, new: bool, epoch: int = 0, topic_id: TopicId = NO_TOPIC_ID
) -> ErrorCode:
    """The error code in a broker's LeaderAndIsr reply when the controller makes it a follower of b9."""
    controller = next(n.state.controller for n in lab.nodes.values() if n.state.controller.step == "active")
    node = lab.nodes[i]
    state = replace(lab.state(), tp=tp, leader=BrokerId(9), leader_epoch=LeaderEpoch(epoch), replicas=(BrokerId(i),))
    state = replace(state, topic_id=topic_id)
    request = LeaderAndIsr(
        77, BrokerId(2), controller.epoch, node.state.broker.incarnation, init=False, states=(state,), new=(tp,) if new else ()
    )
    lab.in_flight.clear()
    lab.handle_event(i, Received(Address("b2"), request))
    (reply,) = [message for _, _, message in lab.in_flight if isinstance(message, LeaderAndIsrReply)]
    return dict(reply.errors)[tp]
