"""Converts the controller's commands and their responses to and from the layouts of V3 (§A, C, D) and of KIP-112.

These layouts follow a document to the letter: encoding leaves out the fields that the layout lacks, and decoding gives them the
document's meaning. V3 and KIP-112 have no incarnations, topic ids or ELR. V3 has no controller epoch and no list of replicas, and
its StopReplica always stops and deletes the replica.
"""

from collections.abc import Mapping
from typing import assert_never

from msgspec import Struct

from reference.errors import ErrorCode
from reference.messages import LeaderAndIsr, LeaderAndIsrReply, StopPartition, StopReplica, StopReplicaReply, UpdateMetadata
from reference.types import (
    EPOCH_DURING_DELETE,
    NO_CONTROLLER_EPOCH,
    NO_INCARNATION,
    BrokerId,
    ControllerEpoch,
    index_of,
    topic_of,
)
from server.wire import frames
from server.wire.states import (
    kip112_frame,
    kip112_metadata_frame,
    kip112_metadata_of,
    kip112_state_of,
    v3_frame,
    v3_state_of,
)
from server.wire.values import tp_of

Command = LeaderAndIsr | StopReplica | UpdateMetadata
CommandFrame = frames.LeaderAndIsrV3 | frames.LeaderAndIsrKip112 | frames.StopReplicaV3 | frames.UpdateMetadataKip112

_V3_RESPONSE = 0
_PLAINTEXT = ("PLAINTEXT", 0)  # the listener between brokers and Kafka's number of its security protocol


class Sender(Struct, frozen=True, kw_only=True):
    """What the documents' layouts have beside a command: how long its sender waits for the answer, in ms (V3's ack_timeout),
    and the host and port of each broker."""

    ack_timeout_ms: int = 0
    addresses: Mapping[BrokerId, tuple[str, int]] = {}


NOBODY = Sender()


def frame_of(command: Command, version: int, sender: Sender = NOBODY) -> CommandFrame:
    """Convert a command of the controller to the document's layout of this version."""
    match command:
        case LeaderAndIsr():
            return _leader_and_isr(command, version, sender)
        case StopReplica():
            return frames.StopReplicaV3(
                client_id=command.controller,
                ack_timeout_ms=sender.ack_timeout_ms,
                stop_replica_set=tuple(
                    frames.TopicPartitionFrame(topic_of(stop.tp), index_of(stop.tp)) for stop in command.partitions
                ),
            )
        case UpdateMetadata():
            return frames.UpdateMetadataKip112(
                controller_id=command.controller,
                controller_epoch=command.controller_epoch,
                partition_states=tuple(kip112_metadata_frame(state) for state in command.states),
                live_brokers=tuple(
                    frames.LiveBrokerFrame(id=broker, end_points=_end_points(broker, sender)) for broker in command.live_brokers
                ),
            )
        case _:
            assert_never(command)


def _end_points(broker: BrokerId, sender: Sender) -> tuple[frames.EndPoint, ...]:
    """Where a broker listens; nowhere if its address is not known."""
    if broker not in sender.addresses:
        return ()
    (host, port), (listener, security) = sender.addresses[broker], _PLAINTEXT
    return (frames.EndPoint(port=port, host=host, listener_name=listener, security_protocol=security),)


def _live_leaders(command: LeaderAndIsr, sender: Sender) -> tuple[frames.LiveLeader, ...]:
    """R-310: where the followers of these partitions find the leaders, each leader once."""
    leaders = sorted({state.leader for state in command.states if state.leader is not None} & sender.addresses.keys())
    addresses = ((leader, *sender.addresses[leader]) for leader in leaders)
    return tuple(frames.LiveLeader(id=leader, host=host, port=port) for leader, host, port in addresses)


def _leader_and_isr(command: LeaderAndIsr, version: int, sender: Sender) -> CommandFrame:
    """The command in V3's layout (version 0) or that of KIP-112."""
    if version == 0:
        return frames.LeaderAndIsrV3(
            client_id=command.controller,
            ack_timeout_ms=sender.ack_timeout_ms,
            is_init=int(command.init),
            leader_and_isr_map=tuple(v3_frame(state) for state in command.states),
        )
    return frames.LeaderAndIsrKip112(
        controller_id=command.controller,
        controller_epoch=command.controller_epoch,
        partition_states=tuple(kip112_frame(state, new=state.tp in command.new) for state in command.states),
        live_leaders=_live_leaders(command, sender),
    )


def command_of(correlation: int, frame: CommandFrame) -> Command:
    """Convert a command of the controller from a document's layout."""
    match frame:
        case frames.LeaderAndIsrV3():
            states = tuple(v3_state_of(state) for state in frame.leader_and_isr_map)
            sender = (BrokerId(frame.client_id), NO_CONTROLLER_EPOCH, NO_INCARNATION)
            return LeaderAndIsr(correlation, *sender, frame.is_init != 0, states)
        case frames.LeaderAndIsrKip112():
            states = tuple(kip112_state_of(state) for state in frame.partition_states)
            new = tuple(tp_of(state.topic, state.partition) for state in frame.partition_states if state.is_new_replica)
            sender = (BrokerId(frame.controller_id), ControllerEpoch(frame.controller_epoch), NO_INCARNATION)
            return LeaderAndIsr(correlation, *sender, False, states, new)
        case frames.StopReplicaV3():
            stops = tuple(StopPartition(tp_of(p.topic, p.partition), EPOCH_DURING_DELETE) for p in frame.stop_replica_set)
            return StopReplica(correlation, BrokerId(frame.client_id), NO_CONTROLLER_EPOCH, NO_INCARNATION, stops)
        case frames.UpdateMetadataKip112():
            sender = (BrokerId(frame.controller_id), ControllerEpoch(frame.controller_epoch), NO_INCARNATION)
            live = tuple(BrokerId(broker.id) for broker in frame.live_brokers)
            states = tuple(kip112_metadata_of(state) for state in frame.partition_states)
            return UpdateMetadata(correlation, *sender, live, states)
        case _:
            assert_never(frame)


def answer_frame(command: LeaderAndIsr | StopReplica, answer: LeaderAndIsrReply | StopReplicaReply) -> frames.V3Response:
    """Convert a broker's response to V3's layout, whose only codes are by partition: one of the whole command is for each."""
    errors = answer.errors
    if answer.error is not ErrorCode.NONE:
        named = command.states if isinstance(command, LeaderAndIsr) else command.partitions
        errors = tuple((part.tp, answer.error) for part in named)
    return frames.V3Response(version_id=_V3_RESPONSE, response_map=errors)


def answer_of(command: LeaderAndIsr | StopReplica, frame: frames.V3Response) -> LeaderAndIsrReply | StopReplicaReply:
    """Convert a broker's response from V3's layout."""
    kind = LeaderAndIsrReply if isinstance(command, LeaderAndIsr) else StopReplicaReply
    return kind(command.correlation, ErrorCode.NONE, frame.response_map)
