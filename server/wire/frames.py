"""The bodies of control requests in the layouts of the documents, to the letter: their order of fields and old-style lengths.

Fields are annotated with Kafka's types. A layout with all fields of a message needs no class: `server.wire.layouts` derives it.
"""

from typing import Annotated

from msgspec import Struct

from reference.errors import ErrorCode
from reference.types import TopicPartition

Int8 = Annotated[int, "int8"]
Int16 = Annotated[int, "int16"]
Int32 = Annotated[int, "int32"]
Int64 = Annotated[int, "int64"]
Text = Annotated[str, "string"]
NullableText = Annotated[str | None, "string"]
Bool = Annotated[bool, "bool"]


class TopicPartitionFrame(Struct, frozen=True):
    """A partition: topic name and index."""

    topic: Text
    partition: Int32


PartitionError = tuple[TopicPartition, ErrorCode]  # of one partition; 0 for none


class V3Response(Struct, frozen=True, kw_only=True):
    """LeaderAndISRResponse and StopReplicaResponse in V3's layout: error codes by partition only."""

    version_id: Int16
    response_map: tuple[PartitionError, ...]


# --- LeaderAndIsr ---------------------------------------------------------------------------------------------------------


class LeaderAndIsrOfV3(Struct, frozen=True):
    """One partition of V3's LeaderAndISRRequest: topic and partition as the key, then its LeaderAndISR."""

    topic: Text
    partition: Int32
    leader: Int32  # -1: none
    leader_epoch: Int32
    isr: tuple[Int32, ...]
    zk_version: Int64


class LeaderAndIsrV3(Struct, frozen=True, kw_only=True):
    """LeaderAndISRRequest in V3's layout."""

    client_id: Int32  # the broker id of the controller
    ack_timeout_ms: Int32  # how long the controller waits for the answer
    is_init: Int8
    leader_and_isr_map: tuple[LeaderAndIsrOfV3, ...]


class StateKip112(Struct, frozen=True, kw_only=True):
    """LeaderAndIsrRequestPartitionState in KIP-112's layout."""

    topic: Text
    partition: Int32
    controller_epoch: Int32
    leader: Int32
    leader_epoch: Int32
    isr: tuple[Int32, ...]
    zk_version: Int32
    replicas: tuple[Int32, ...]
    is_new_replica: Bool


class LiveLeader(Struct, frozen=True, kw_only=True):
    """The address of a leader in LeaderAndIsrRequest. Nodes do not use it: they know addresses from their settings."""

    id: Int32
    host: Text
    port: Int32


class LeaderAndIsrKip112(Struct, frozen=True, kw_only=True):
    """LeaderAndIsrRequest in KIP-112's layout."""

    controller_id: Int32
    controller_epoch: Int32
    partition_states: tuple[StateKip112, ...]
    live_leaders: tuple[LiveLeader, ...] = ()


# --- StopReplica ----------------------------------------------------------------------------------------------------------


class StopReplicaV3(Struct, frozen=True, kw_only=True):
    """StopReplicaRequest in V3's layout."""

    client_id: Int32
    ack_timeout_ms: Int32
    stop_replica_set: tuple[TopicPartitionFrame, ...]


# --- UpdateMetadata ---------------------------------------------------------------------------------------------------------


class MetadataStateKip112(Struct, frozen=True, kw_only=True):
    """UpdateMetadataRequestPartitionState in KIP-112's layout."""

    topic: Text
    partition: Int32
    controller_epoch: Int32
    leader: Int32
    leader_epoch: Int32
    isr: tuple[Int32, ...]
    zk_version: Int32
    replicas: tuple[Int32, ...]
    offline_replicas: tuple[Int32, ...]


class EndPoint(Struct, frozen=True, kw_only=True):
    """The address of a broker in UpdateMetadataRequest. Nodes do not use it: they know addresses from their settings."""

    port: Int32
    host: Text
    listener_name: Text
    security_protocol: Int16


class LiveBrokerFrame(Struct, frozen=True, kw_only=True):
    """One live broker in UpdateMetadataRequest (KIP-112's UpdateMetadataRequestBroker)."""

    id: Int32
    end_points: tuple[EndPoint, ...] = ()
    rack: NullableText = None


class UpdateMetadataKip112(Struct, frozen=True, kw_only=True):
    """UpdateMetadataRequest in KIP-112's layout."""

    controller_id: Int32
    controller_epoch: Int32
    partition_states: tuple[MetadataStateKip112, ...]
    live_brokers: tuple[LiveBrokerFrame, ...]


# --- MetadataHeartbeat --------------------------------------------------------------------------------------------------------


class HeartbeatKip343(Struct, frozen=True, kw_only=True):
    """MetadataHeartbeatRequest in KIP-343's layout."""

    broker_id: Int32
    incarnation_id: Int64
    target_state: Int8


class HeartbeatResponseKip343(Struct, frozen=True, kw_only=True):
    """MetadataHeartbeatResponse in KIP-343's layout."""

    error_code: Int16
    error_string: NullableText
    current_state: Int8


# --- IsrChange ------------------------------------------------------------------------------------------------------------


class IsrChangePartitionKip343(Struct, frozen=True, kw_only=True):
    """One partition of an IsrChangeRequest in KIP-343's layout."""

    leader_epoch: Int32
    partition_index: Int32
    isr_nodes: tuple[Int32, ...]


class IsrChangeTopicKip343(Struct, frozen=True, kw_only=True):
    """One topic of an IsrChangeRequest in KIP-343's layout."""

    topic_name: Text
    partitions: tuple[IsrChangePartitionKip343, ...]


class IsrChangeKip343(Struct, frozen=True, kw_only=True):
    """IsrChangeRequest in KIP-343's layout."""

    broker_id: Int32
    incarnation_id: Int64
    topics: tuple[IsrChangeTopicKip343, ...]


class IsrResultKip343(Struct, frozen=True, kw_only=True):
    """One result of an IsrChangeResponse in KIP-343's layout."""

    error_code: Int16
    error_message: NullableText


class IsrChangeResponseKip343(Struct, frozen=True, kw_only=True):
    """IsrChangeResponse in KIP-343's layout."""

    top_level_error_code: Int16
    top_level_error_message: NullableText
    results: tuple[IsrResultKip343, ...]
