"""Encodes the controller's commands and their responses in layouts of our own (V3 §A, C, D; KIP-112).

The last version of each has every field. The older ones follow a document to the letter: encoding leaves out the fields that the
layout lacks, and decoding gives them the document's meaning. V3 and KIP-112 have no incarnations, topic ids or ELR. V3 has no
controller epoch and no list of replicas, and its StopReplica always stops and deletes the replica.
"""

from typing import assert_never

from msgspec import Struct

from reference.errors import ErrorCode
from reference.messages import (
    LeaderAndIsr,
    LeaderAndIsrReply,
    LogEnd,
    LogInfo,
    LogInfoReply,
    StopPartition,
    StopReplica,
    StopReplicaReply,
    UpdateMetadata,
    UpdateMetadataReply,
)
from reference.types import (
    EPOCH_DURING_DELETE,
    NO_INCARNATION,
    BrokerId,
    ControllerEpoch,
    Incarnation,
    LeaderEpoch,
    Offset,
    TopicId,
    index_of,
    topic_of,
)
from server.wire import frames
from server.wire.states import (
    error_frames,
    errors_of,
    kip112_frame,
    kip112_metadata_frame,
    kip112_metadata_of,
    kip112_state_of,
    state_frame,
    state_of,
    tp_frames,
    tps_of,
    v3_frame,
    v3_state_of,
)
from server.wire.values import error_of, tp_of

Command = LeaderAndIsr | StopReplica | UpdateMetadata | LogInfo
Answer = LeaderAndIsrReply | StopReplicaReply | UpdateMetadataReply | LogInfoReply

_NO_CONTROLLER_EPOCH = ControllerEpoch(-1)
_ACK_TIMEOUT_MS = 0  # V3's field; 0, because the controller uses its own timer
_V3_RESPONSE = 0

CommandFrame = (
    frames.LeaderAndIsrV3
    | frames.LeaderAndIsrKip112
    | frames.LeaderAndIsrAll
    | frames.StopReplicaV3
    | frames.StopReplicaAll
    | frames.UpdateMetadataKip112
    | frames.UpdateMetadataAll
    | frames.LogInfoAll
)
AnswerFrame = frames.V3Response | frames.ControlResponse | frames.UpdateMetadataResponse | frames.LogInfoResponseAll

# The layouts of each command and of its response, by version.
LAYOUTS: dict[type[Command], tuple[tuple[type[Struct], type[Struct]], ...]] = {
    LeaderAndIsr: (
        (frames.LeaderAndIsrV3, frames.V3Response),
        (frames.LeaderAndIsrKip112, frames.ControlResponse),
        (frames.LeaderAndIsrAll, frames.ControlResponse),
    ),
    StopReplica: ((frames.StopReplicaV3, frames.V3Response), (frames.StopReplicaAll, frames.ControlResponse)),
    UpdateMetadata: (
        (frames.UpdateMetadataKip112, frames.UpdateMetadataResponse),
        (frames.UpdateMetadataAll, frames.UpdateMetadataResponse),
    ),
    LogInfo: ((frames.LogInfoAll, frames.LogInfoResponseAll),),
}


# --- commands -------------------------------------------------------------------------------------------------------------


def frame_of(command: Command, version: int) -> CommandFrame:
    """Encode a command of the controller in the layout of this version."""
    match command:
        case LeaderAndIsr():
            return _leader_and_isr(command, version)
        case StopReplica():
            return _stop_replica(command, version)
        case UpdateMetadata():
            return _update_metadata(command, version)
        case LogInfo():
            return frames.LogInfoAll(
                controller_id=command.controller,
                controller_epoch=command.controller_epoch,
                broker_incarnation=command.broker_incarnation,
                partitions=tp_frames(command.partitions),
            )
        case _:
            assert_never(command)


def _leader_and_isr(command: LeaderAndIsr, version: int) -> CommandFrame:
    if version == 0:
        return frames.LeaderAndIsrV3(
            client_id=command.controller,
            ack_timeout_ms=_ACK_TIMEOUT_MS,
            is_init=int(command.init),
            leader_and_isr_map=tuple(v3_frame(state) for state in command.states),
        )
    if version == 1:
        return frames.LeaderAndIsrKip112(
            controller_id=command.controller,
            controller_epoch=command.controller_epoch,
            partition_states=tuple(kip112_frame(state, new=state.tp in command.new) for state in command.states),
        )
    return frames.LeaderAndIsrAll(
        controller_id=command.controller,
        controller_epoch=command.controller_epoch,
        broker_incarnation=command.broker_incarnation,
        is_init=command.init,
        partition_states=tuple(state_frame(state) for state in command.states),
        new_replicas=tp_frames(command.new),
    )


def _stop_replica(command: StopReplica, version: int) -> CommandFrame:
    if version == 0:
        return frames.StopReplicaV3(
            client_id=command.controller,
            ack_timeout_ms=_ACK_TIMEOUT_MS,
            stop_replica_set=tp_frames(stop.tp for stop in command.partitions),
        )
    return frames.StopReplicaAll(
        controller_id=command.controller,
        controller_epoch=command.controller_epoch,
        broker_incarnation=command.broker_incarnation,
        partitions=tuple(
            frames.StopPartitionAll(
                topic=topic_of(stop.tp),
                partition=index_of(stop.tp),
                topic_id=stop.topic_id,
                leader_epoch=stop.leader_epoch,
                delete=stop.delete,
                moved=stop.moved,
            )
            for stop in command.partitions
        ),
    )


def _update_metadata(command: UpdateMetadata, version: int) -> CommandFrame:
    if version == 0:
        return frames.UpdateMetadataKip112(
            controller_id=command.controller,
            controller_epoch=command.controller_epoch,
            partition_states=tuple(kip112_metadata_frame(state) for state in command.states),
            live_brokers=tuple(frames.LiveBrokerFrame(id=broker) for broker in command.live_brokers),
        )
    return frames.UpdateMetadataAll(
        controller_id=command.controller,
        controller_epoch=command.controller_epoch,
        broker_incarnation=command.broker_incarnation,
        live_brokers=command.live_brokers,
        partition_states=tuple(state_frame(state) for state in command.states),
        full=command.full,
        number=command.number,
    )


def command_of(correlation: int, frame: CommandFrame) -> Command:
    """Decode a command of the controller."""
    match frame:
        case frames.LeaderAndIsrV3() | frames.LeaderAndIsrKip112() | frames.LeaderAndIsrAll():
            return _leader_and_isr_of(correlation, frame)
        case frames.StopReplicaV3():
            stops = tuple(StopPartition(tp_of(p.topic, p.partition), EPOCH_DURING_DELETE) for p in frame.stop_replica_set)
            return StopReplica(correlation, BrokerId(frame.client_id), _NO_CONTROLLER_EPOCH, NO_INCARNATION, stops)
        case frames.StopReplicaAll():
            return StopReplica(correlation, *_sender(frame), tuple(_stop_of(stop) for stop in frame.partitions))
        case frames.UpdateMetadataKip112():
            sender = (BrokerId(frame.controller_id), ControllerEpoch(frame.controller_epoch), NO_INCARNATION)
            live = tuple(BrokerId(broker.id) for broker in frame.live_brokers)
            return UpdateMetadata(
                correlation, *sender, live, tuple(kip112_metadata_of(state) for state in frame.partition_states)
            )
        case frames.UpdateMetadataAll():
            live = tuple(map(BrokerId, frame.live_brokers))
            states = tuple(state_of(state) for state in frame.partition_states)
            return UpdateMetadata(correlation, *_sender(frame), live, states, frame.full, frame.number)
        case frames.LogInfoAll():
            return LogInfo(correlation, *_sender(frame), tps_of(frame.partitions))
        case _:
            assert_never(frame)


def _leader_and_isr_of(
    correlation: int, frame: frames.LeaderAndIsrV3 | frames.LeaderAndIsrKip112 | frames.LeaderAndIsrAll
) -> LeaderAndIsr:
    match frame:
        case frames.LeaderAndIsrV3():
            states = tuple(v3_state_of(state) for state in frame.leader_and_isr_map)
            sender = (BrokerId(frame.client_id), _NO_CONTROLLER_EPOCH, NO_INCARNATION)
            return LeaderAndIsr(correlation, *sender, frame.is_init != 0, states)
        case frames.LeaderAndIsrKip112():
            states = tuple(kip112_state_of(state) for state in frame.partition_states)
            new = tuple(tp_of(state.topic, state.partition) for state in frame.partition_states if state.is_new_replica)
            sender = (BrokerId(frame.controller_id), ControllerEpoch(frame.controller_epoch), NO_INCARNATION)
            return LeaderAndIsr(correlation, *sender, False, states, new)
        case frames.LeaderAndIsrAll():
            states = tuple(state_of(state) for state in frame.partition_states)
            return LeaderAndIsr(correlation, *_sender(frame), frame.is_init, states, tps_of(frame.new_replicas))
        case _:
            assert_never(frame)


# --- responses ------------------------------------------------------------------------------------------------------------


def answer_frame(command: Command, version: int, answer: Answer) -> AnswerFrame:
    """Encode a broker's response to a command of this version."""
    match answer:
        case LeaderAndIsrReply() | StopReplicaReply() if version == 0:
            # V3's response has only codes by partition, so an error of the whole command is repeated for each of them.
            assert isinstance(command, LeaderAndIsr | StopReplica)
            errors = answer.errors
            if answer.error is not ErrorCode.NONE:
                named = command.states if isinstance(command, LeaderAndIsr) else command.partitions
                errors = tuple((part.tp, answer.error) for part in named)
            return frames.V3Response(version_id=_V3_RESPONSE, response_map=error_frames(errors))
        case LeaderAndIsrReply() | StopReplicaReply():
            return frames.ControlResponse(error_code=answer.error, partitions=error_frames(answer.errors))
        case UpdateMetadataReply():
            return frames.UpdateMetadataResponse(error_code=answer.error)
        case LogInfoReply():
            ends = tuple(
                frames.LogEndAll(
                    topic=topic_of(end.tp),
                    partition=index_of(end.tp),
                    topic_id=end.topic_id,
                    last_epoch=end.last_epoch,
                    log_end_offset=end.leo,
                    born=end.born,
                )
                for end in answer.ends
            )
            return frames.LogInfoResponseAll(error_code=answer.error, ends=ends, offline=tp_frames(answer.offline))
        case _:
            assert_never(answer)


def answer_of(command: Command, frame: AnswerFrame) -> Answer:
    """Decode a broker's response to a command of the controller."""
    kind = LeaderAndIsrReply if isinstance(command, LeaderAndIsr) else StopReplicaReply
    match frame:
        case frames.V3Response():
            return kind(command.correlation, ErrorCode.NONE, errors_of(frame.response_map))
        case frames.ControlResponse():
            return kind(command.correlation, error_of(frame.error_code), errors_of(frame.partitions))
        case frames.UpdateMetadataResponse():
            return UpdateMetadataReply(command.correlation, error_of(frame.error_code))
        case frames.LogInfoResponseAll():
            ends = tuple(
                LogEnd(
                    tp_of(end.topic, end.partition),
                    LeaderEpoch(end.last_epoch),
                    Offset(end.log_end_offset),
                    Incarnation(end.born),
                    TopicId(end.topic_id),
                )
                for end in frame.ends
            )
            return LogInfoReply(command.correlation, error_of(frame.error_code), ends, tps_of(frame.offline))
        case _:
            assert_never(frame)


def _sender(
    frame: frames.LeaderAndIsrAll | frames.StopReplicaAll | frames.UpdateMetadataAll | frames.LogInfoAll,
) -> tuple[BrokerId, ControllerEpoch, Incarnation]:
    return BrokerId(frame.controller_id), ControllerEpoch(frame.controller_epoch), Incarnation(frame.broker_incarnation)


def _stop_of(stop: frames.StopPartitionAll) -> StopPartition:
    return StopPartition(
        tp=tp_of(stop.topic, stop.partition),
        leader_epoch=LeaderEpoch(stop.leader_epoch),
        delete=stop.delete,
        topic_id=TopicId(stop.topic_id),
        moved=stop.moved,
    )
