"""What clients are told: the controller pushes it to every broker, any broker answers it."""

from reference.broker.broker import Broker
from reference.broker.leader_and_isr import command_error
from reference.errors import ErrorCode
from reference.machine import Turn
from reference.messages import Metadata, MetadataReply, UpdateMetadata, UpdateMetadataReply
from reference.types import Address


def on_update_metadata(turn: Turn, broker: Broker, source: Address, command: UpdateMetadata) -> None:
    """Take what is not older than what is known."""
    error = command_error(turn, broker, command.controller_epoch, command.broker_incarnation)
    if error is ErrorCode.NONE:
        broker.live_brokers = command.live_brokers
        fresh = any(state.tp not in broker.metadata for state in command.states)
        for state in command.states:
            known = broker.metadata.get(state.tp)
            if known is None or (known.leader_epoch, known.zk_version) <= (state.leader_epoch, state.zk_version):
                broker.metadata[state.tp] = state
        if fresh:
            broker.metadata = {tp: broker.metadata[tp] for tp in sorted(broker.metadata)}
    turn.send(source, UpdateMetadataReply(command.correlation, error))


def on_metadata(turn: Turn, broker: Broker, source: Address, request: Metadata) -> None:
    """Who leads what, as far as this broker was told."""
    turn.send(source, MetadataReply(request.correlation, broker.live_brokers, tuple(broker.metadata.values())))
