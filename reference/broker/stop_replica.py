"""StopReplicaCommand: a replica is to be stopped and deleted (V3 §C).

A deletion is answered only when nothing is left that this broker wrote about the partition and that ZooKeeper has not seen yet.
ZooKeeper takes the requests of a session in their order, so an answer to a later one says so. Else an ISR change on its way
could land in the state znode of the next topic of that name, whose versions begin at 0 again (KIP-516, B-61).
"""

from reference.broker import burial
from reference.broker.broker import Broker, Sent, Settling
from reference.broker.leader_and_isr import command_error, delete_replica
from reference.coordination import paths
from reference.coordination.api import AnyAnswer, Exists, SessionExpired, Unknown
from reference.effects import ZkRequest
from reference.errors import ErrorCode
from reference.machine import Turn
from reference.messages import StopPartition, StopReplica, StopReplicaReply
from reference.replica import follower
from reference.types import EPOCH_DURING_DELETE, NO_TOPIC_ID, Address, TopicPartition


def on_stop_replica(turn: Turn, broker: Broker, source: Address, command: StopReplica) -> None:
    """V3 §C on_StopReplicaCommand: stopReplica() for each partition listed."""
    error = command_error(turn, broker, command.controller_epoch, command.broker_incarnation)
    errors: tuple[tuple[TopicPartition, ErrorCode], ...] = ()
    if error is ErrorCode.NONE:
        sent = (command.controller_epoch, command.number)
        errors = tuple((stop.tp, _stop(turn, broker, stop, sent)) for stop in command.partitions)
    reply = StopReplicaReply(command.correlation, error, errors)
    if error is ErrorCode.NONE and turn.config.variant.topic_id and any(stop.delete for stop in command.partitions):
        broker.settling = [s for s in broker.settling if s.source != source]  # its sender has given up waiting
        broker.settling.append(Settling(source=source, reply=reply, request=turn.zk_id()))
        turn.effects.append(ZkRequest(broker.settling[-1].request, (Exists(paths.TOPICS),)))
    else:
        turn.send(source, reply)


def on_answer(turn: Turn, broker: Broker, request: int, answer: AnyAnswer) -> bool:
    """Is this what a deletion waited for? Where the answer was lost, the controller will ask again."""
    found = next((s for s in broker.settling if s.request == request), None)
    if found is None:
        return False
    broker.settling.remove(found)
    if not isinstance(answer, (Unknown, SessionExpired)):
        turn.send(found.source, found.reply)
    return True


def _stop(turn: Turn, broker: Broker, stop: StopPartition, sent: Sent) -> ErrorCode:
    """KIP-570, U-10: not a replica that was told a later epoch, nor (KIP-516, B-61) one of another topic of the same name.

    What a starting broker is about to read of its assignments may be older than this command, and must not make it anew.
    """
    if stop.delete and broker.registration != "registered":
        broker.stopped = (*broker.stopped, stop.tp)
    partition = broker.partitions.get(stop.tp)
    if stop.delete and partition is None:
        burial.bury(turn, broker, stop, sent)
    if partition is None and stop.tp in broker.offline:
        # It stays known as offline (KAFKA-7313, B-63 d): the next command would else make it anew in another directory.
        if turn.config.variant.offline_replica_recreated:
            del broker.offline[stop.tp]
        return ErrorCode.KAFKA_STORAGE_ERROR
    if partition is None:
        return ErrorCode.NONE
    variant = turn.config.variant
    if variant.topic_id and stop.topic_id not in (NO_TOPIC_ID, partition.log.topic_id):
        return ErrorCode.INCONSISTENT_TOPIC_ID
    overtaken = EPOCH_DURING_DELETE != stop.leader_epoch < partition.leader_epoch
    if variant.stop_replica_epoch and overtaken:
        return ErrorCode.FENCED_LEADER_EPOCH  # KIP-570: overtaken by a later command
    if stop.delete:
        burial.bury(turn, broker, stop, sent)
        delete_replica(turn, broker, stop.tp)
    else:
        follower.resign(turn, partition)
    return ErrorCode.NONE
