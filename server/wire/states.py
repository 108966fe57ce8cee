"""Converts partition states to and from the layouts of V3 and of KIP-112."""

from collections.abc import Iterable

from reference.messages import IsrMember, PartitionState
from reference.types import (
    NO_CONTROLLER_EPOCH,
    NO_INCARNATION,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    ZkVersion,
    index_of,
    topic_of,
)
from server.wire import frames
from server.wire.values import tp_of

_NOBODY = -1


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
        controller_epoch=NO_CONTROLLER_EPOCH,
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
