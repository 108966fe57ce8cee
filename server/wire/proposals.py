"""Encodes brokers' requests to the controller in layouts of our own: MetadataHeartbeat and IsrChange (KIP-343).

KIP-343's layout of MetadataHeartbeat has all fields. Its layout of IsrChange, version 0, lacks the ZK version of the state that
the change is based on, topic ids and incarnations, and its response has no state; version 1 has them.
"""

from itertools import groupby
from typing import assert_never

from msgspec import Struct

from reference.messages import (
    IsrChange,
    IsrChangeReply,
    IsrProposal,
    IsrResult,
    MetadataHeartbeat,
    MetadataHeartbeatReply,
)
from reference.types import (
    NO_TOPIC_ID,
    BrokerId,
    BrokerState,
    Incarnation,
    LeaderEpoch,
    TopicId,
    ZkVersion,
    index_of,
    topic_of,
)
from server.wire import frames
from server.wire.framing import WireError
from server.wire.states import members, members_of, state_frame, state_of, unregistered
from server.wire.values import error_of, only, tp_of

Proposal = MetadataHeartbeat | IsrChange
Decision = MetadataHeartbeatReply | IsrChangeReply
ProposalFrame = frames.HeartbeatKip343 | frames.IsrChangeKip343 | frames.IsrChangeAll
DecisionFrame = frames.HeartbeatResponseKip343 | frames.IsrChangeResponseKip343 | frames.IsrChangeResponseAll

NO_ZK_VERSION = ZkVersion(-1)

# The layouts of each request and of its response, by version.
LAYOUTS: dict[type[Proposal], tuple[tuple[type[Struct], type[Struct]], ...]] = {
    MetadataHeartbeat: ((frames.HeartbeatKip343, frames.HeartbeatResponseKip343),),
    IsrChange: (
        (frames.IsrChangeKip343, frames.IsrChangeResponseKip343),
        (frames.IsrChangeAll, frames.IsrChangeResponseAll),
    ),
}


def frame_of(proposal: Proposal, version: int) -> ProposalFrame:
    """Encode a broker's request to the controller in the layout of this version."""
    match proposal:
        case MetadataHeartbeat():
            return frames.HeartbeatKip343(
                broker_id=proposal.broker, incarnation_id=proposal.incarnation, target_state=proposal.target_state
            )
        case IsrChange() if version == 0:
            # Group only adjacent changes of one topic: results come in the order of the changes, so the order must not change.
            topics = tuple(
                frames.IsrChangeTopicKip343(topic_name=topic, partitions=tuple(_kip343_frame(change) for change in changes))
                for topic, changes in groupby(proposal.changes, key=lambda change: topic_of(change.tp))
            )
            return frames.IsrChangeKip343(broker_id=proposal.broker, incarnation_id=proposal.incarnation, topics=topics)
        case IsrChange():
            changes = tuple(_change_frame(change) for change in proposal.changes)
            return frames.IsrChangeAll(broker_id=proposal.broker, incarnation_id=proposal.incarnation, changes=changes)
        case _:
            assert_never(proposal)


def _kip343_frame(change: IsrProposal) -> frames.IsrChangePartitionKip343:
    return frames.IsrChangePartitionKip343(
        leader_epoch=change.leader_epoch,
        partition_index=index_of(change.tp),
        isr_nodes=tuple(member.broker for member in change.isr),
    )


def _change_frame(change: IsrProposal) -> frames.IsrProposalAll:
    return frames.IsrProposalAll(
        topic=topic_of(change.tp),
        partition=index_of(change.tp),
        topic_id=change.topic_id,
        leader_epoch=change.leader_epoch,
        zk_version=change.zk_version,
        isr=members(change.isr),
    )


def proposal_of(correlation: int, frame: ProposalFrame) -> Proposal:
    """Decode a broker's request to the controller; fields that its layout lacks get the value for "unknown"."""
    match frame:
        case frames.HeartbeatKip343():
            state = _broker_state(frame.target_state)
            return MetadataHeartbeat(correlation, BrokerId(frame.broker_id), Incarnation(frame.incarnation_id), state)
        case frames.IsrChangeKip343():
            changes = tuple(
                IsrProposal(
                    tp_of(topic.topic_name, partition.partition_index),
                    LeaderEpoch(partition.leader_epoch),
                    unregistered(partition.isr_nodes),
                    NO_ZK_VERSION,
                    NO_TOPIC_ID,
                )
                for topic in frame.topics
                for partition in topic.partitions
            )
            return IsrChange(correlation, BrokerId(frame.broker_id), Incarnation(frame.incarnation_id), changes)
        case frames.IsrChangeAll():
            changes = tuple(
                IsrProposal(
                    tp_of(change.topic, change.partition),
                    LeaderEpoch(change.leader_epoch),
                    members_of(change.isr),
                    ZkVersion(change.zk_version),
                    TopicId(change.topic_id),
                )
                for change in frame.changes
            )
            return IsrChange(correlation, BrokerId(frame.broker_id), Incarnation(frame.incarnation_id), changes)
        case _:
            assert_never(frame)


def decision_frame(version: int, decision: Decision) -> DecisionFrame:
    """Encode the controller's response to a broker's request of this version."""
    match decision:
        case MetadataHeartbeatReply():
            return frames.HeartbeatResponseKip343(
                error_code=decision.error, error_string=decision.error_string, current_state=decision.current_state
            )
        case IsrChangeReply() if version == 0:
            results = tuple(
                frames.IsrResultKip343(error_code=result.error, error_message=result.message) for result in decision.results
            )
            return frames.IsrChangeResponseKip343(
                top_level_error_code=decision.error, top_level_error_message=decision.message, results=results
            )
        case IsrChangeReply():
            with_states = tuple(
                frames.IsrResultAll(
                    error_code=result.error,
                    error_message=result.message,
                    state=() if result.state is None else (state_frame(result.state),),
                )
                for result in decision.results
            )
            return frames.IsrChangeResponseAll(
                top_level_error_code=decision.error, top_level_error_message=decision.message, results=with_states
            )
        case _:
            assert_never(decision)


def decision_of(correlation: int, frame: DecisionFrame) -> Decision:
    """Decode the controller's response to a broker's request."""
    match frame:
        case frames.HeartbeatResponseKip343():
            error = error_of(frame.error_code)
            return MetadataHeartbeatReply(correlation, error, frame.error_string, _broker_state(frame.current_state))
        case frames.IsrChangeResponseKip343():
            results = tuple(IsrResult(error_of(result.error_code), result.error_message) for result in frame.results)
        case frames.IsrChangeResponseAll():
            results = tuple(
                IsrResult(
                    error_of(result.error_code),
                    result.error_message,
                    state_of(only(result.state)) if result.state else None,
                )
                for result in frame.results
            )
        case _:
            assert_never(frame)
    return IsrChangeReply(correlation, error_of(frame.top_level_error_code), frame.top_level_error_message, results)


def _broker_state(number: int) -> BrokerState:
    try:
        return BrokerState(number)
    except ValueError:
        raise WireError(f"unknown broker state {number}") from None
