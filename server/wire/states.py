"""Converts partition states and lists of partitions to and from the layouts of V3, of KIP-112, and our own."""

from collections.abc import Iterable

from reference.errors import ErrorCode
from reference.messages import IsrMember, PartitionState
from reference.types import (
    NO_INCARNATION,
    BrokerId,
    ControllerEpoch,
    Incarnation,
    LeaderEpoch,
    TopicId,
    TopicPartition,
    ZkVersion,
    index_of,
    topic_of,
)
from server.wire import frames
from server.wire.values import error_of, tp_of

_NOBODY = -1
_NO_CONTROLLER_EPOCH = ControllerEpoch(-1)


def state_frame(state: PartitionState) -> frames.StateAll:
    """Encode a partition's state in our own layout, which has all fields."""
    return frames.StateAll(
        topic=topic_of(state.tp),
        partition=index_of(state.tp),
        topic_id=state.topic_id,
        controller_epoch=state.controller_epoch,
        leader=_leader(state),
        leader_incarnation=state.leader_incarnation,
        leader_epoch=state.leader_epoch,
        isr=members(state.isr),
        elr=members(state.elr),
        zk_version=state.zk_version,
        replicas=state.replicas,
        offline_replicas=state.offline,
    )


def state_of(frame: frames.StateAll) -> PartitionState:
    """Decode a partition's state from our own layout, which has all fields."""
    return PartitionState(
        tp=tp_of(frame.topic, frame.partition),
        leader=_leader_of(frame.leader),
        leader_incarnation=Incarnation(frame.leader_incarnation),
        leader_epoch=LeaderEpoch(frame.leader_epoch),
        isr=members_of(frame.isr),
        controller_epoch=ControllerEpoch(frame.controller_epoch),
        zk_version=ZkVersion(frame.zk_version),
        replicas=tuple(map(BrokerId, frame.replicas)),
        elr=members_of(frame.elr),
        topic_id=TopicId(frame.topic_id),
        offline=tuple(map(BrokerId, frame.offline_replicas)),
    )


def members(isr: tuple[IsrMember, ...]) -> tuple[frames.MemberFrame, ...]:
    """Encode the members of an ISR with the incarnations of their brokers."""
    return tuple(frames.MemberFrame(member.broker, member.incarnation) for member in isr)


def members_of(isr: tuple[frames.MemberFrame, ...]) -> tuple[IsrMember, ...]:
    """Decode the members of an ISR with the incarnations of their brokers."""
    return tuple(IsrMember(BrokerId(member.broker), Incarnation(member.incarnation)) for member in isr)


def unregistered(isr: Iterable[int]) -> tuple[IsrMember, ...]:
    """Decode replicas from a layout without incarnations: each gets the value for "unknown"."""
    return tuple(IsrMember(BrokerId(broker), NO_INCARNATION) for broker in isr)


def _leader(state: PartitionState) -> int:
    return _NOBODY if state.leader is None else state.leader


def _leader_of(leader: int) -> BrokerId | None:
    return None if leader == _NOBODY else BrokerId(leader)


def _ids(isr: tuple[IsrMember, ...]) -> tuple[int, ...]:
    return tuple(member.broker for member in isr)


# --- V3 -------------------------------------------------------------------------------------------------------------------


def v3_frame(state: PartitionState) -> frames.LeaderAndIsrOfV3:
    """Encode the fields of a partition's state that V3's LeaderAndISR has (R-012)."""
    return frames.LeaderAndIsrOfV3(
        topic=topic_of(state.tp),
        partition=index_of(state.tp),
        leader=_leader(state),
        leader_epoch=state.leader_epoch,
        isr=_ids(state.isr),
        zk_version=state.zk_version,
    )


def v3_state_of(frame: frames.LeaderAndIsrOfV3) -> PartitionState:
    """Decode V3's LeaderAndISR; the state has no replicas, because the layout has none."""
    return PartitionState(
        tp=tp_of(frame.topic, frame.partition),
        leader=_leader_of(frame.leader),
        leader_incarnation=NO_INCARNATION,
        leader_epoch=LeaderEpoch(frame.leader_epoch),
        isr=unregistered(frame.isr),
        controller_epoch=_NO_CONTROLLER_EPOCH,
        zk_version=ZkVersion(frame.zk_version),
        replicas=(),
    )


# --- KIP-112 --------------------------------------------------------------------------------------------------------------


def kip112_frame(state: PartitionState, *, new: bool) -> frames.StateKip112:
    """Encode the fields of a partition's state that KIP-112's LeaderAndIsrRequest has (R-310)."""
    return frames.StateKip112(
        topic=topic_of(state.tp),
        partition=index_of(state.tp),
        controller_epoch=state.controller_epoch,
        leader=_leader(state),
        leader_epoch=state.leader_epoch,
        isr=_ids(state.isr),
        zk_version=state.zk_version,
        replicas=state.replicas,
        is_new_replica=new,
    )


def kip112_metadata_frame(state: PartitionState) -> frames.MetadataStateKip112:
    """Encode the fields of a partition's state that KIP-112's UpdateMetadataRequest has (R-311)."""
    return frames.MetadataStateKip112(
        topic=topic_of(state.tp),
        partition=index_of(state.tp),
        controller_epoch=state.controller_epoch,
        leader=_leader(state),
        leader_epoch=state.leader_epoch,
        isr=_ids(state.isr),
        zk_version=state.zk_version,
        replicas=state.replicas,
        offline_replicas=state.offline,
    )


def kip112_state_of(frame: frames.StateKip112 | frames.MetadataStateKip112, *, offline: tuple[int, ...] = ()) -> PartitionState:
    """Decode a partition's state from KIP-112's layout of LeaderAndIsrRequest."""
    return PartitionState(
        tp=tp_of(frame.topic, frame.partition),
        leader=_leader_of(frame.leader),
        leader_incarnation=NO_INCARNATION,
        leader_epoch=LeaderEpoch(frame.leader_epoch),
        isr=unregistered(frame.isr),
        controller_epoch=ControllerEpoch(frame.controller_epoch),
        zk_version=ZkVersion(frame.zk_version),
        replicas=tuple(map(BrokerId, frame.replicas)),
        offline=tuple(map(BrokerId, offline)),
    )


def kip112_metadata_of(frame: frames.MetadataStateKip112) -> PartitionState:
    """Decode a partition's state from KIP-112's layout of UpdateMetadataRequest."""
    return kip112_state_of(frame, offline=frame.offline_replicas)


# --- lists of partitions ---------------------------------------------------------------------------------------------------


def tp_frames(tps: Iterable[TopicPartition]) -> tuple[frames.TopicPartitionFrame, ...]:
    """Encode a list of partitions as topic names and indexes."""
    return tuple(frames.TopicPartitionFrame(topic_of(tp), index_of(tp)) for tp in tps)


def tps_of(partitions: tuple[frames.TopicPartitionFrame, ...]) -> tuple[TopicPartition, ...]:
    """Decode a list of partitions. WireError for a negative index."""
    return tuple(tp_of(one.topic, one.partition) for one in partitions)


def error_frames(errors: tuple[tuple[TopicPartition, ErrorCode], ...]) -> tuple[frames.PartitionError, ...]:
    """Encode a broker's error codes, one for each partition."""
    return tuple(frames.PartitionError(topic_of(tp), index_of(tp), error) for tp, error in errors)


def errors_of(errors: tuple[frames.PartitionError, ...]) -> tuple[tuple[TopicPartition, ErrorCode], ...]:
    """Decode a broker's error codes, one for each partition. WireError for an unknown code."""
    return tuple((tp_of(one.topic, one.partition), error_of(one.error_code)) for one in errors)
