"""Ids and units of the protocol: distinct types, so that an epoch cannot pass for an offset."""

from enum import IntEnum
from typing import NewType

BrokerId = NewType("BrokerId", int)
Incarnation = NewType("Incarnation", int)  # czxid of the broker's registration (KIP-343, KIP-380)
TopicId = NewType("TopicId", int)  # czxid of /brokers/topics/[topic]: unlike a name it is never given again (KIP-516)
Offset = NewType("Offset", int)  # HW and LEO are exclusive: one past the last (docs/requirements C-04)
LeaderEpoch = NewType("LeaderEpoch", int)
ControllerEpoch = NewType("ControllerEpoch", int)
ZkVersion = NewType("ZkVersion", int)
Millis = NewType("Millis", int)
Address = NewType("Address", str)  # where a message goes: "b1" is a broker, "c3" a client
TopicPartition = NewType("TopicPartition", str)  # Kafka's own way to print one: "orders-0"
ProducerId = NewType("ProducerId", int)  # of one session of an idempotent producer; never given twice

NO_EPOCH = LeaderEpoch(-1)  # of an empty log, and of requests that carry none
NO_INCARNATION = Incarnation(-1)
NO_TOPIC_ID = TopicId(-1)  # asks unchecked
EPOCH_DURING_DELETE = LeaderEpoch(-2)  # of a StopReplica for a topic that is deleted: later than every epoch of it (KIP-570)
NO_PRODUCER_ID = ProducerId(-1)
NO_SEQUENCE = -1


class BrokerState(IntEnum):
    """What a broker is in the cluster (KIP-343 BrokerState Enum, R-193)."""

    INITIAL = 0  # has not contacted the controller yet
    INACTIVE = 1  # should be fenced from the cluster
    ACTIVE = 2  # handles requests
    STOPPING = 3  # handles requests while its leaderships move to others


def broker_address(broker: BrokerId) -> Address:
    """Where a broker is reached."""
    return Address(f"b{broker}")


def topic_partition(topic: str, index: int) -> TopicPartition:
    """The name of one partition."""
    return TopicPartition(f"{topic}-{index}")


def topic_of(tp: TopicPartition) -> str:
    """The topic of a partition name."""
    return tp.rpartition("-")[0]


def index_of(tp: TopicPartition) -> int:
    """The index of a partition name."""
    return int(tp.rpartition("-")[2])
