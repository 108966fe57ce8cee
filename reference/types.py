"""Ids and units of the protocol: distinct types, so that an epoch cannot be passed for an offset."""

from enum import IntEnum
from typing import NewType

from msgspec import Struct

BrokerId = NewType("BrokerId", int)
Incarnation = NewType("Incarnation", int)  # czxid of the broker's registration (KIP-343, KIP-380)
TopicId = NewType("TopicId", int)  # czxid of /brokers/topics/[topic]: unlike a name it is never used again (KIP-516)
Offset = NewType("Offset", int)  # HW and LEO are exclusive: one past the last (docs/requirements C-04)
LeaderEpoch = NewType("LeaderEpoch", int)
ControllerEpoch = NewType("ControllerEpoch", int)
ZkVersion = NewType("ZkVersion", int)
Millis = NewType("Millis", int)
Address = NewType("Address", str)  # where a message goes: "b1" is a broker, "c3" a client
TopicPartition = NewType("TopicPartition", str)  # printed as Kafka does: "orders-0"
ProducerId = NewType("ProducerId", int)  # one session of an idempotent producer; never given twice

NO_EPOCH = LeaderEpoch(-1)  # of an empty log, and in requests that carry no epoch
NO_INCARNATION = Incarnation(-1)
NO_CONTROLLER_EPOCH = ControllerEpoch(-1)  # in a command in V3's layout, which has none
NO_ZK_VERSION = ZkVersion(-1)  # in an ISR change in KIP-343's layout, which has none
NO_TOPIC_ID = TopicId(-1)  # in a request: do not check the topic id
EPOCH_DURING_DELETE = LeaderEpoch(-2)  # in a StopReplica for a deleted topic: later than all its epochs (KIP-570)
NO_PRODUCER_ID = ProducerId(-1)
NO_SEQUENCE = -1


class Creation(Struct, frozen=True, order=True, array_like=True):
    """When a broker created a log: its registration then, and the number of the log among those that its process created.

    Registrations rise from process to process, so a greater value is a later log of this broker.
    """

    incarnation: Incarnation
    number: int


NO_CREATION = Creation(NO_INCARNATION, 0)  # of a log from before the mark was stored


class BrokerState(IntEnum):
    """The state of a broker in the cluster (KIP-343 BrokerState Enum, R-193)."""

    INITIAL = 0  # has not contacted the controller yet
    INACTIVE = 1  # should be fenced from the cluster
    ACTIVE = 2  # handles requests
    STOPPING = 3  # handles requests while its leaderships move to others


def broker_address(broker: BrokerId) -> Address:
    """The address of a broker: "b1" for broker 1."""
    return Address(f"b{broker}")


def broker_at(address: Address) -> BrokerId:
    """The broker with this address: 1 for "b1"."""
    return BrokerId(int(address[1:]))


def topic_partition(topic: str, index: int) -> TopicPartition:
    """The name of a partition: "orders-0" for index 0 of topic orders."""
    return TopicPartition(f"{topic}-{index}")


def topic_of(tp: TopicPartition) -> str:
    """The topic in a partition name: "orders" in "orders-0"; topics may contain hyphens."""
    return tp.rpartition("-")[0]


def index_of(tp: TopicPartition) -> int:
    """The partition's index in a partition name: 0 in "orders-0"."""
    return int(tp.rpartition("-")[2])
