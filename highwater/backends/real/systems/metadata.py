"""What a broker that speaks Kafka's protocol tells any client: its API versions, and the cluster's brokers and partitions.

Versions of Metadata differ between releases (0.10.2 has 0 to 2, 2.3 and later have 8), so the version is negotiated.
"""

from collections.abc import Mapping

from msgspec import Struct

from highwater.backends.real.site import HostPort
from reference.messages import IsrMember, PartitionState
from reference.types import NO_INCARNATION, BrokerId, ControllerEpoch, LeaderEpoch, ZkVersion, topic_partition
from server.runtime.health import ask
from server.wire.clients.apis import ApiKey, ApiVersionsRequest, ApiVersionsResponse
from server.wire.clients.metadata import MetadataBroker, MetadataRequest
from server.wire.framing import WireError

VERSION_MAX = 8  # the last one without tagged fields
INTERNAL = "__"  # Kafka's own topics begin so; no workload uses them


class _Partition(Struct, frozen=True, kw_only=True):
    partition_index: int
    leader_id: int
    leader_epoch: int = -1
    replica_nodes: tuple[int, ...]
    isr_nodes: tuple[int, ...]


class _Topic(Struct, frozen=True, kw_only=True):
    name: str
    partitions: tuple[_Partition, ...] = ()


class _Response(Struct, frozen=True, kw_only=True):
    brokers: tuple[MetadataBroker, ...]
    controller_id: int = -1
    topics: tuple[_Topic, ...]


class BrokerMetadata(Struct, frozen=True, kw_only=True):
    """A broker's metadata: the brokers that it lists, by id, with their addresses, the controller, and the partitions.

    Without the partitions of internal topics. `controller` is None if there is none; with KRaft it may be any broker.
    """

    brokers: Mapping[int, HostPort]
    controller: int | None
    partitions: tuple[PartitionState, ...]


def served_version(address: HostPort, api: int) -> int | None:
    """The highest version of an API that the broker at this address serves; None if it does not answer or lacks the API."""
    try:
        answer = ask(address, ApiKey.API_VERSIONS, 0, ApiVersionsRequest(), ApiVersionsResponse)
    except (OSError, WireError):
        return None
    return next((range_.max_version for range_ in answer.api_keys if range_.api_key == api), None)


def told_by(address: HostPort, version: int = VERSION_MAX, *, partitions: bool = True) -> BrokerMetadata | None:
    """The metadata that the broker at this address tells in this version of the request; None if it does not answer."""
    try:
        answer = ask(address, ApiKey.METADATA, version, MetadataRequest(topics=None if partitions else ()), _Response)
    except (OSError, WireError):
        return None
    return BrokerMetadata(
        brokers={broker.node_id: (broker.host, broker.port) for broker in answer.brokers},
        controller=None if answer.controller_id < 0 else answer.controller_id,
        partitions=tuple(
            _partition_state(topic.name, partition)
            for topic in answer.topics
            if not topic.name.startswith(INTERNAL)
            for partition in topic.partitions
        ),
    )


def _partition_state(topic: str, partition: _Partition) -> PartitionState:
    """A partition of Kafka's Metadata response as a state; what the response does not tell is 0 or none."""
    return PartitionState(
        topic_partition(topic, partition.partition_index),
        None if partition.leader_id < 0 else BrokerId(partition.leader_id),
        NO_INCARNATION,
        LeaderEpoch(partition.leader_epoch),
        tuple(IsrMember(BrokerId(broker), NO_INCARNATION) for broker in partition.isr_nodes),
        ControllerEpoch(0),
        ZkVersion(0),
        tuple(map(BrokerId, partition.replica_nodes)),
    )
