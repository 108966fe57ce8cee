"""The bodies of control requests in our own layouts: no released version of Kafka has all the documents' fields in one request.

The layouts named after a document follow it to the letter, with its order of fields and old-style lengths. Fields that the
document leaves open (the addresses of live brokers) are empty. A layout that ends in `All` has every field of its message. Fields
are annotated with Kafka's types; `schema` turns the annotations into the schemas that `server.wire.entities` uses.
"""

import dataclasses
from functools import cache
from typing import Annotated, get_args, get_origin, get_type_hints

from msgspec import Struct

Int8 = Annotated[int, "int8"]
Int16 = Annotated[int, "int16"]
Int32 = Annotated[int, "int32"]
Int64 = Annotated[int, "int64"]
Text = Annotated[str, "string"]
NullableText = Annotated[str | None, "string"]
Bool = Annotated[bool, "bool"]


class TopicPartitionFrame(Struct, frozen=True):
    """A partition in our own layouts: topic name and index."""

    topic: Text
    partition: Int32


class PartitionError(Struct, frozen=True):
    """The error code of one partition in a response to the controller; 0 for none."""

    topic: Text
    partition: Int32
    error_code: Int16


class ControlResponse(Struct, frozen=True, kw_only=True):
    """A broker's response to a controller's command: one error code for the whole, one for each partition."""

    error_code: Int16
    partitions: tuple[PartitionError, ...] = ()


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
    ack_timeout_ms: Int32
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
    """The address of a leader in LeaderAndIsrRequest; never sent, because nodes know addresses from their settings."""

    id: Int32
    host: Text
    port: Int32


class LeaderAndIsrKip112(Struct, frozen=True, kw_only=True):
    """LeaderAndIsrRequest in KIP-112's layout."""

    controller_id: Int32
    controller_epoch: Int32
    partition_states: tuple[StateKip112, ...]
    live_leaders: tuple[LiveLeader, ...] = ()


class MemberFrame(Struct, frozen=True):
    """A replica and the incarnation of its broker, in our own layouts."""

    broker: Int32
    incarnation: Int64


class StateAll(Struct, frozen=True, kw_only=True):
    """A partition's state in our own layout, which has the fields of all documents."""

    topic: Text
    partition: Int32
    topic_id: Int64
    controller_epoch: Int32
    leader: Int32
    leader_incarnation: Int64
    leader_epoch: Int32
    isr: tuple[MemberFrame, ...]
    elr: tuple[MemberFrame, ...]
    zk_version: Int32
    replicas: tuple[Int32, ...]
    offline_replicas: tuple[Int32, ...]


class LeaderAndIsrAll(Struct, frozen=True, kw_only=True):
    """LeaderAndIsr in our own layout, which has the fields of all documents."""

    controller_id: Int32
    controller_epoch: Int32
    broker_incarnation: Int64
    is_init: Bool
    partition_states: tuple[StateAll, ...]
    new_replicas: tuple[TopicPartitionFrame, ...]


# --- StopReplica ----------------------------------------------------------------------------------------------------------


class StopReplicaV3(Struct, frozen=True, kw_only=True):
    """StopReplicaRequest in V3's layout."""

    client_id: Int32
    ack_timeout_ms: Int32
    stop_replica_set: tuple[TopicPartitionFrame, ...]


class StopPartitionAll(Struct, frozen=True, kw_only=True):
    """One replica to stop; `delete` removes its log; `moved`: the partition continues on other brokers."""

    topic: Text
    partition: Int32
    topic_id: Int64
    leader_epoch: Int32
    delete: Bool
    moved: Bool


class StopReplicaAll(Struct, frozen=True, kw_only=True):
    """StopReplica in our own layout, which has the fields of all documents."""

    controller_id: Int32
    controller_epoch: Int32
    broker_incarnation: Int64
    partitions: tuple[StopPartitionAll, ...]


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
    """The address of a broker in UpdateMetadataRequest; never sent, because nodes know addresses from their settings."""

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


class UpdateMetadataAll(Struct, frozen=True, kw_only=True):
    """UpdateMetadata in our own layout, which has the fields of all documents."""

    controller_id: Int32
    controller_epoch: Int32
    broker_incarnation: Int64
    live_brokers: tuple[Int32, ...]
    partition_states: tuple[StateAll, ...]
    full: Bool
    number: Int64


class UpdateMetadataResponse(Struct, frozen=True, kw_only=True):
    """A broker's response to UpdateMetadata: the error code, 0 if accepted."""

    error_code: Int16


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


class IsrProposalAll(Struct, frozen=True, kw_only=True):
    """One partition of an IsrChange in our own layout, which has the fields of all documents."""

    topic: Text
    partition: Int32
    topic_id: Int64
    leader_epoch: Int32
    zk_version: Int32
    isr: tuple[MemberFrame, ...]


class IsrChangeAll(Struct, frozen=True, kw_only=True):
    """IsrChange in our own layout, which has the fields of all documents."""

    broker_id: Int32
    incarnation_id: Int64
    changes: tuple[IsrProposalAll, ...]


class IsrResultAll(Struct, frozen=True, kw_only=True):
    """The result of one partition of an IsrChange in our own layout; `state` has no or one element."""

    error_code: Int16
    error_message: NullableText
    state: tuple[StateAll, ...]


class IsrChangeResponseAll(Struct, frozen=True, kw_only=True):
    """The response to an IsrChange in our own layout, which has the fields of all documents."""

    top_level_error_code: Int16
    top_level_error_message: NullableText
    results: tuple[IsrResultAll, ...]


# --- LogInfo --------------------------------------------------------------------------------------------------------------


class LogInfoAll(Struct, frozen=True, kw_only=True):
    """LogInfo in our own layout: the controller asks a broker for the ends of its logs."""

    controller_id: Int32
    controller_epoch: Int32
    broker_incarnation: Int64
    partitions: tuple[TopicPartitionFrame, ...]


class LogEndAll(Struct, frozen=True, kw_only=True):
    """The end of one log in a response to LogInfo: epoch of its last batch and log end offset."""

    topic: Text
    partition: Int32
    topic_id: Int64
    last_epoch: Int32
    log_end_offset: Int64
    born: Int64


class LogInfoResponseAll(Struct, frozen=True, kw_only=True):
    """The response to a LogInfo; `offline` lists the partitions without a readable log."""

    error_code: Int16
    ends: tuple[LogEndAll, ...]
    offline: tuple[TopicPartitionFrame, ...]


# --- schemas ----------------------------------------------------------------------------------------------------------------


@cache
def schema(frame: type[Struct], *, flexible: bool) -> type:
    """Make a schema of one of our own layouts, as a dataclass like those that kio generates for Kafka's schemas."""
    fields = []
    for name, annotation in get_type_hints(frame, include_extras=True).items():
        element = get_args(annotation)[0] if get_origin(annotation) is tuple else annotation
        inner, metadata = _element(element, flexible=flexible)
        kind = tuple[inner, ...] if get_origin(annotation) is tuple else inner  # type: ignore[valid-type]  # made here
        fields.append((name, kind, dataclasses.field(metadata=metadata)))
    return dataclasses.make_dataclass(frame.__name__, fields, kw_only=True, namespace={"__flexible__": flexible})


def _element(annotation: object, *, flexible: bool) -> tuple[object, dict[str, str]]:
    if get_origin(annotation) is Annotated:
        kind, kafka_type = get_args(annotation)
        return kind, {"kafka_type": kafka_type}
    assert isinstance(annotation, type)
    assert issubclass(annotation, Struct)
    return schema(annotation, flexible=flexible), {}
