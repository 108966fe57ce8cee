"""Metadata of the cluster: the controller pushes it to every broker, and any broker answers clients with it."""

from reference.broker import strays
from reference.broker.broker import Broker
from reference.broker.commands import command_error
from reference.errors import ErrorCode
from reference.machine import Turn
from reference.messages import Metadata, MetadataReply, PartitionState, UpdateMetadata, UpdateMetadataReply
from reference.types import NO_TOPIC_ID, Address


def on_update_metadata(turn: Turn, broker: Broker, source: Address, command: UpdateMetadata) -> None:
    """Keep the newest state of each partition; drop those that a full UpdateMetadata does not list (deleted topics)."""
    error = command_error(turn, broker, command)
    if error is ErrorCode.NONE and not _is_late(turn, broker, command):
        broker.live_brokers = command.live_brokers
        broker.known_controller = command.controller
        received = {state.tp: state for state in command.states}
        if command.full:
            broker.metadata = {tp: state for tp, state in broker.metadata.items() if tp in received}
        known = broker.metadata
        news = {tp: state for tp, state in received.items() if tp not in known or _is_no_older(state, known[tp])}
        is_sorted = news.keys() <= known.keys()
        known.update(news)
        if not is_sorted:
            broker.metadata = {tp: known[tp] for tp in sorted(known)}
        if command.full:
            strays.look(turn, broker)
    turn.send(source, UpdateMetadataReply(command.correlation, error))


def _is_no_older(state: PartitionState, known: PartitionState) -> bool:
    """Whether a received state replaces the known one. One in an older layout has no topic id, and may be of either (R-316)."""
    same_topic = state.topic_id == known.topic_id or NO_TOPIC_ID in (state.topic_id, known.topic_id)
    if not same_topic:
        return state.topic_id > known.topic_id
    return (state.leader_epoch, state.zk_version) >= (known.leader_epoch, known.zk_version)


def _is_late(turn: Turn, broker: Broker, command: UpdateMetadata) -> bool:
    """True for a delayed copy of an UpdateMetadata, which would remove newer topics. Each controller numbers its requests."""
    variant = turn.config.variant
    order = (command.controller_epoch, command.number)
    if variant.controller_epoch and variant.controller_epoch_persist and order < broker.metadata_order:
        return True
    broker.metadata_order = order
    return False


def on_metadata(turn: Turn, broker: Broker, source: Address, request: Metadata) -> None:
    """Answer a client's Metadata request: leaders and offline replicas (R-305), as the controller last pushed them."""
    states = tuple(broker.metadata.values())
    turn.send(source, MetadataReply(request.correlation, broker.live_brokers, states, controller=broker.known_controller))
