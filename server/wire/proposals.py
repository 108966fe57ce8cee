"""Converts brokers' requests to the controller to and from KIP-343's layouts: MetadataHeartbeat and IsrChange.

Its layout of MetadataHeartbeat has all fields. That of IsrChange lacks the ZK version of the state that the change is based on,
topic ids and incarnations, and its response has no state.
"""

from itertools import groupby
from typing import assert_never

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
    NO_ZK_VERSION,
    BrokerId,
    BrokerState,
    Incarnation,
    LeaderEpoch,
    index_of,
    topic_of,
)
from server.wire import frames
from server.wire.framing import WireError
from server.wire.states import unregistered
from server.wire.values import error_of, tp_of

Proposal = MetadataHeartbeat | IsrChange
Decision = MetadataHeartbeatReply | IsrChangeReply
ProposalFrame = frames.HeartbeatKip343 | frames.IsrChangeKip343
DecisionFrame = frames.HeartbeatResponseKip343 | frames.IsrChangeResponseKip343


def frame_of(proposal: Proposal) -> ProposalFrame:
    """Convert a broker's request to the controller to KIP-343's layout."""
    match proposal:
        case MetadataHeartbeat():
            return frames.HeartbeatKip343(
                broker_id=proposal.broker, incarnation_id=proposal.incarnation, target_state=proposal.target_state
            )
        case IsrChange():
            # Group only adjacent changes of one topic: results come in the order of the changes, so the order must not change.
            topics = tuple(
                frames.IsrChangeTopicKip343(topic_name=topic, partitions=tuple(_kip343_frame(change) for change in changes))
                for topic, changes in groupby(proposal.changes, key=lambda change: topic_of(change.tp))
            )
            return frames.IsrChangeKip343(broker_id=proposal.broker, incarnation_id=proposal.incarnation, topics=topics)
        case _:
            assert_never(proposal)


def _kip343_frame(change: IsrProposal) -> frames.IsrChangePartitionKip343:
    """A proposed ISR in KIP-343's layout, which has no registrations."""
    return frames.IsrChangePartitionKip343(
        leader_epoch=change.leader_epoch,
        partition_index=index_of(change.tp),
        isr_nodes=tuple(member.broker for member in change.isr),
    )


def proposal_of(correlation: int, frame: ProposalFrame) -> Proposal:
    """Convert a broker's request from KIP-343's layout; fields that it lacks get the value for "unknown"."""
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
        case _:
            assert_never(frame)


def decision_frame(decision: Decision) -> DecisionFrame:
    """Convert the controller's response to KIP-343's layout."""
    match decision:
        case MetadataHeartbeatReply():
            return frames.HeartbeatResponseKip343(
                error_code=decision.error, error_string=decision.error_string, current_state=decision.current_state
            )
        case IsrChangeReply():
            results = tuple(
                frames.IsrResultKip343(error_code=result.error, error_message=result.message) for result in decision.results
            )
            return frames.IsrChangeResponseKip343(
                top_level_error_code=decision.error, top_level_error_message=decision.message, results=results
            )
        case _:
            assert_never(decision)


def decision_of(correlation: int, frame: DecisionFrame) -> Decision:
    """Convert the controller's response from KIP-343's layout."""
    match frame:
        case frames.HeartbeatResponseKip343():
            error = error_of(frame.error_code)
            return MetadataHeartbeatReply(correlation, error, frame.error_string, _broker_state(frame.current_state))
        case frames.IsrChangeResponseKip343():
            results = tuple(IsrResult(error_of(result.error_code), result.error_message) for result in frame.results)
            return IsrChangeReply(correlation, error_of(frame.top_level_error_code), frame.top_level_error_message, results)
        case _:
            assert_never(frame)


def _broker_state(number: int) -> BrokerState:
    """The broker state of this number. Raises WireError for an unknown one."""
    try:
        return BrokerState(number)
    except ValueError:
        raise WireError(f"unknown broker state {number}") from None
