"""StopReplicaCommand: a replica is to be stopped and deleted (V3 §C)."""

from reference.broker.broker import Broker
from reference.broker.leader_and_isr import command_error, delete_replica
from reference.errors import ErrorCode
from reference.machine import Turn
from reference.messages import StopPartition, StopReplica, StopReplicaReply
from reference.replica import follower
from reference.types import Address, TopicPartition


def on_stop_replica(turn: Turn, broker: Broker, source: Address, command: StopReplica) -> None:
    """V3 §C on_StopReplicaCommand: stopReplica() for each partition listed."""
    error = command_error(turn, broker, command.controller_epoch, command.broker_incarnation)
    errors: tuple[tuple[TopicPartition, ErrorCode], ...] = ()
    if error is ErrorCode.NONE:
        errors = tuple((stop.tp, _stop(turn, broker, stop)) for stop in command.partitions)
    turn.send(source, StopReplicaReply(command.correlation, error, errors))


def _stop(turn: Turn, broker: Broker, stop: StopPartition) -> ErrorCode:
    partition = broker.partitions.get(stop.tp)
    if partition is None and stop.tp in broker.offline:
        # It stays known as offline (KAFKA-7313, B-63 d): the next command would else make it anew in another directory.
        if turn.config.variant.offline_replica_recreated:
            del broker.offline[stop.tp]
        return ErrorCode.KAFKA_STORAGE_ERROR
    if partition is None:
        return ErrorCode.NONE
    if turn.config.variant.stop_replica_epoch and stop.leader_epoch < partition.leader_epoch:
        return ErrorCode.FENCED_LEADER_EPOCH  # KIP-570: overtaken by a later command
    if stop.delete:
        delete_replica(turn, broker, stop.tp)
    else:
        follower.resign(turn, partition)
    return ErrorCode.NONE
