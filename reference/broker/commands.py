"""Commands of the controller to a broker: LeaderAndIsr and StopReplica (V3 §C), and LogInfo, which asks for log ends.

V3 acts on a LeaderAndIsr only where the role or the leader changes. `safe` acts on every new leader epoch, and refuses a command
that is meant for another incarnation, that comes from an older controller, or whose epoch is below the last one in the log.

A deleted replica stays deleted: a late copy of an earlier command must not create it again. The broker has no leader epoch for a
replica that it no longer holds, and the controller would never use or delete a replica that such a copy created. So the broker
remembers, until it ends, the StopReplica that deleted each replica (`Burial`); commands for another life are refused anyway
(KIP-380). Found by `highwater campaign --workload admin-storm`.
"""

from msgspec.structs import replace

from reference.broker import log_dirs
from reference.broker.broker import BEFORE_ALL, Broker, Burial, Sent, Settling, create_partition, write_checkpoint
from reference.coordination import paths
from reference.coordination.api import AnyAnswer, Exists, SessionExpired, Unknown
from reference.effects import CreateReplica, DeleteReplica, Note, ZkRequest
from reference.errors import ErrorCode
from reference.log.log import Log, last_record_epoch
from reference.machine import Turn
from reference.messages import (
    Command,
    LeaderAndIsr,
    LeaderAndIsrReply,
    LogEnd,
    LogInfo,
    LogInfoReply,
    PartitionState,
    StopPartition,
    StopReplica,
    StopReplicaReply,
)
from reference.replica import follower, leader
from reference.replica.partition import Follower, Idle, Leader, Partition, is_of_another_topic
from reference.types import (
    EPOCH_DURING_DELETE,
    NO_CONTROLLER_EPOCH,
    NO_INCARNATION,
    NO_TOPIC_ID,
    Address,
    TopicId,
    TopicPartition,
)


def command_error(turn: Turn, broker: Broker, command: Command) -> ErrorCode:
    """NONE if the controller's command may be obeyed; an older controller epoch than the greatest seen is refused.

    A command in an older layout (R-316) names no registration, and in V3's no controller epoch: neither can be checked. It is for
    whoever is registered now, and not for a process that waits until the registration of its former life is gone.
    """
    variant, epoch = turn.config.variant, command.controller_epoch
    registered = command.broker_incarnation in (turn.incarnation, NO_INCARNATION) and turn.incarnation != NO_INCARNATION
    if variant.broker_incarnation and not registered:
        # KIP-380, U-09, B-48, B-50: the command is for another life of this broker. It is also refused where the controller
        # knows of a registration that the broker has not heard of yet (KAFKA-9839): the broker cannot tell whether that
        # registration is its own or that of its former life.
        return ErrorCode.STALE_BROKER_EPOCH
    if variant.controller_epoch_check and NO_CONTROLLER_EPOCH != epoch < broker.controller_epoch:
        return ErrorCode.STALE_CONTROLLER_EPOCH
    broker.controller_epoch = max(broker.controller_epoch, epoch)
    return ErrorCode.NONE


# --- LeaderAndIsr ---------------------------------------------------------------------------------------------------------------


def on_leader_and_isr(turn: Turn, broker: Broker, source: Address, command: LeaderAndIsr) -> None:
    """Obey a LeaderAndIsr request: V3 §C on_LeaderAndISRCommand."""
    error = command_error(turn, broker, command)
    errors: tuple[tuple[TopicPartition, ErrorCode], ...] = ()
    if error is ErrorCode.NONE:
        sent = (command.controller_epoch, command.number)
        errors = tuple((s.tp, apply(turn, broker, s, new=s.tp in command.new, sent=sent)) for s in command.states)
        if command.init and turn.config.variant.init_deletes:
            # V3 §C step 3: with the flag INIT, what is not listed is deleted (U-11)
            listed = {state.tp for state in command.states}
            for tp in [tp for tp in broker.partitions if tp not in listed]:
                delete_replica(turn, broker, tp)
    turn.send(source, LeaderAndIsrReply(command.correlation, error, errors))


def answer_after_failure(turn: Turn, broker: Broker, unanswered: tuple[tuple[Address, LeaderAndIsrReply], ...]) -> None:
    """R-294: answer the LeaderAndIsr during which a directory failed: KAFKA_STORAGE_ERROR for the replicas in it, at once.

    Without an answer the controller waits for its request timeout, and sends this broker nothing meanwhile: not the leader of
    another partition, and not the question which of its replicas are offline (R-300).
    """
    for source, reply in unanswered:
        errors = tuple((tp, ErrorCode.KAFKA_STORAGE_ERROR if tp in broker.offline else e) for tp, e in reply.errors)
        turn.send(source, replace(reply, errors=errors))


def apply(turn: Turn, broker: Broker, state: PartitionState, *, new: bool = False, sent: Sent | None = None) -> ErrorCode:
    """Make one local replica leader or follower: V3 §C on_LeaderAndISRCommand, for one partition.

    `new`: the replica was never created on this broker (KIP-112 isNewReplica). `sent`: None if the state was read from ZooKeeper.
    A topic id is the czxid of the topic's znode. So of two topics of one name the later one has the greater id, and a sender that
    names it has seen it in ZooKeeper: a log with a smaller id belongs to a deleted topic (KIP-516, U-14, B-61).
    """
    if _is_of_a_deleted_topic(turn, broker, state):
        delete_replica(turn, broker, state.tp)
    if log_dirs.is_out_of_reach(turn, broker, state, new=new):
        return ErrorCode.KAFKA_STORAGE_ERROR
    partition = broker.partitions.get(state.tp)
    if partition is not None and partition.log.topic_id != state.topic_id != NO_TOPIC_ID:
        if turn.config.variant.topic_id and partition.log.topic_id != NO_TOPIC_ID:
            return ErrorCode.INCONSISTENT_TOPIC_ID
        # V3 Discussion 5: only the name of a topic identifies it. So it is of a log that a command in an older layout
        # created, until a command names the topic's id.
        partition.log.topic_id = state.topic_id
    if partition is None and _is_buried(broker, state, sent):
        return ErrorCode.FENCED_LEADER_EPOCH
    if partition is None and state.leader is None and not turn.config.variant.create_replica_without_leader:
        return ErrorCode.NONE  # KAFKA-1647
    if partition is None:
        partition = start_replica(turn, broker, state.tp, state.topic_id)  # V3 §C step 2.0
    if state.leader_epoch >= partition.leader_epoch:
        partition.replicas = state.replicas  # B-38: a late copy of an earlier command must not assign a replica again
    variant = turn.config.variant
    if state.leader == turn.config.broker:
        if variant.leader_change == "role":
            accept = not isinstance(partition.role, Leader)  # V3 §C step 2.1
        else:
            accept = _newer(turn, partition, state) and (
                not variant.broker_incarnation or state.leader_incarnation in (turn.incarnation, NO_INCARNATION)
            )
        if accept:
            leader.become(turn, partition, state)  # V3 §C step 2.1.1
            return ErrorCode.NONE
    elif state.leader is not None:
        if variant.follower_change == "leader_id":
            accept = not (isinstance(partition.role, Follower) and partition.role.leader == state.leader)  # V3 §C step 2.2
        else:
            accept = _newer(turn, partition, state)
        if accept:
            partition.controller_epoch = state.controller_epoch
            follower.become(turn, partition, state.leader, state.leader_epoch)  # V3 §C step 2.2.1
            return ErrorCode.NONE
    elif variant.leader_change == "epoch" and _newer(turn, partition, state):
        # The partition has no leader: an old leader must stop, and an old follower has nobody to fetch from.
        partition.leader_epoch = state.leader_epoch
        follower.resign(turn, partition)
        return ErrorCode.NONE
    return ErrorCode.NONE if state.leader_epoch == partition.leader_epoch else ErrorCode.FENCED_LEADER_EPOCH


def _is_of_a_deleted_topic(turn: Turn, broker: Broker, state: PartitionState) -> bool:
    """True if the local replica is of an earlier topic than the command, in a good directory.

    It says nothing of the later topic's replica, which may lie in a directory that failed (R-301).
    """
    partition = broker.partitions.get(state.tp)
    if partition is None or partition.log.dir in broker.offline_dirs or not turn.config.variant.topic_id:
        return False
    if partition.log.topic_id == NO_TOPIC_ID and turn.config.variant.unnamed_log == "adopted":
        return False
    return NO_TOPIC_ID != state.topic_id > partition.log.topic_id


def _newer(turn: Turn, partition: Partition, state: PartitionState) -> bool:
    """True if a command's leader epoch must be obeyed: greater than ours (R-080), or equal while the replica has no role."""
    if turn.config.variant.startup_epoch_floor and state.leader_epoch < last_record_epoch(partition.log):
        return False
    if isinstance(partition.role, Idle) and not turn.config.variant.epoch_before_transition:
        return state.leader_epoch >= partition.leader_epoch
    return state.leader_epoch > partition.leader_epoch


def start_replica(turn: Turn, broker: Broker, tp: TopicPartition, topic_id: TopicId) -> Partition:
    """V3 §C startReplica: create the directory of the partition; its HW joins the next checkpoint."""
    dir_, born = log_dirs.place_for_replica(turn, broker)
    turn.effects.append(CreateReplica(dir_, tp, born, topic_id, turn.creation()))
    return create_partition(turn, broker, tp, Log(tp=tp, dir=dir_, born=born, topic_id=topic_id))


# --- StopReplica ----------------------------------------------------------------------------------------------------------------


def on_stop_replica(turn: Turn, broker: Broker, source: Address, command: StopReplica) -> None:
    """V3 §C on_StopReplicaCommand: stopReplica() for each partition listed.

    A deletion is answered only after ZooKeeper has performed every request that this broker sent about the partition. ZooKeeper
    performs the requests of a session in order, so the answer to a later request proves it. Otherwise an ISR change in flight
    could land in the state znode of the next topic of that name, whose versions begin at 0 again (KIP-516, B-61).
    """
    error = command_error(turn, broker, command)
    errors: tuple[tuple[TopicPartition, ErrorCode], ...] = ()
    if error is ErrorCode.NONE:
        sent = (command.controller_epoch, command.number)
        errors = tuple((stop.tp, _stop(turn, broker, stop, sent)) for stop in command.partitions)
    reply = StopReplicaReply(command.correlation, error, errors)
    if error is ErrorCode.NONE and turn.config.variant.topic_id and any(stop.delete for stop in command.partitions):
        broker.settling = [s for s in broker.settling if s.source != source]  # the sender no longer waits for an earlier answer
        broker.settling.append(Settling(source=source, reply=reply, request=turn.zk_id()))
        turn.effects.append(ZkRequest(broker.settling[-1].request, (Exists(paths.TOPICS),)))
    else:
        turn.send(source, reply)


def on_settled(turn: Turn, broker: Broker, request: int, answer: AnyAnswer) -> None:
    """ZooKeeper answered `request`: send the StopReplica answer that waited for it, if one did.

    If ZooKeeper's answer was lost, the controller asks again.
    """
    settled = next((s for s in broker.settling if s.request == request), None)
    if settled is None:
        return
    broker.settling.remove(settled)
    if not isinstance(answer, (Unknown, SessionExpired)):
        turn.send(settled.source, settled.reply)


def _stop(turn: Turn, broker: Broker, stop: StopPartition, sent: Sent) -> ErrorCode:
    """Refuse to stop a replica that was told a later epoch (KIP-570, U-10) or that is of another topic (KIP-516, B-61).

    A late copy of a command that deleted the replica deletes nothing more. If V3 §H removed and added the partition since, epoch
    and topic id of its new replica are the same (R-064): only the order of the commands tells.
    """
    burial = broker.buried.get(stop.tp)
    if burial is not None and sent <= burial.sent:
        return ErrorCode.NONE
    partition = broker.partitions.get(stop.tp)
    if stop.delete and partition is None:
        _bury(turn, broker, stop, sent)
    if partition is None and stop.tp in broker.offline:
        # The replica stays known as offline (KAFKA-7313, B-63 d), or else the next command would create it again in
        # another directory.
        if turn.config.variant.offline_replica_recreated:
            del broker.offline[stop.tp]
        return ErrorCode.KAFKA_STORAGE_ERROR
    if partition is None:
        return ErrorCode.NONE
    variant = turn.config.variant
    if is_of_another_topic(turn, partition, stop.topic_id):
        return ErrorCode.INCONSISTENT_TOPIC_ID
    overtaken = EPOCH_DURING_DELETE != stop.leader_epoch < partition.leader_epoch
    if variant.stop_replica_epoch and overtaken:
        return ErrorCode.FENCED_LEADER_EPOCH  # KIP-570: overtaken by a later command
    if stop.delete:
        _bury(turn, broker, stop, sent)
        delete_replica(turn, broker, stop.tp)
    else:
        follower.resign(turn, partition)
    return ErrorCode.NONE


def delete_replica(turn: Turn, broker: Broker, tp: TopicPartition) -> None:
    """V3 §C stopReplica (R-039): stop the fetcher, leave the checkpoint, delete the directory.

    The checkpoint is rewritten first: a HW found beside the log of the next topic of that name would be believed.
    """
    partition = broker.partitions[tp]
    follower.resign(turn, partition)
    del broker.partitions[tp]
    write_checkpoint(turn, broker, partition.log.dir)
    turn.effects.append(DeleteReplica(partition.log.dir, tp))
    turn.note(Note(kind="replica-deleted", tp=tp, topic_id=partition.log.topic_id))


def _bury(turn: Turn, broker: Broker, stop: StopPartition, sent: Sent) -> None:
    """Remember that a replica was deleted, so that late commands of earlier epochs (R-237) or topics (R-149) are refused."""
    broker.buried.pop(stop.tp, None)
    if turn.config.variant.stop_replica_epoch:
        broker.buried = dict(sorted([*broker.buried.items(), (stop.tp, Burial(stop, sent))]))


def delete_with_topic(turn: Turn, broker: Broker, tp: TopicPartition) -> None:
    """Delete a replica whose topic ZooKeeper no longer has, and refuse later commands for this topic.

    A controller that was deposed before the deletion, and does not know it, still commands the replica. No topic of a later id is
    refused: ids are never used again.
    """
    topic_id = broker.partitions[tp].log.topic_id
    delete_replica(turn, broker, tp)
    if turn.config.variant.topic_id:
        _bury(turn, broker, StopPartition(tp, EPOCH_DURING_DELETE, delete=True, topic_id=topic_id), BEFORE_ALL)


def _is_buried(broker: Broker, state: PartitionState, sent: Sent | None) -> bool:
    """True if a later command than this one deleted the replica.

    Later commands are told by the leader epochs of their states, and those for another topic by its id. A partition that V3 §H
    removed and added again begins at epoch 0 under the same topic id: commands sent before have a smaller number, and those of an
    earlier controller a smaller controller epoch (R-064).
    """
    burial = broker.buried.get(state.tp)
    if burial is None or state.topic_id > burial.stop.topic_id:
        return False
    stop = burial.stop
    if stop.leader_epoch == EPOCH_DURING_DELETE:
        # A command in an older layout may be about the next topic of that name: only the order of the commands tells.
        return state.topic_id != NO_TOPIC_ID or sent is None or sent < burial.sent
    if stop.moved:
        return state.leader_epoch < stop.leader_epoch
    return sent is not None and sent < burial.sent


# --- LogInfo --------------------------------------------------------------------------------------------------------------------


def on_log_info(turn: Turn, broker: Broker, source: Address, request: LogInfo) -> None:
    """Answer the controller with the ends of the local logs: it asks before an election among replicas that were all away.

    A log in a bad directory still exists and must be waited for (docs/promise.md SILENT-1).
    """
    error = command_error(turn, broker, request)
    ends: tuple[LogEnd, ...] = ()
    offline: tuple[TopicPartition, ...] = ()
    if error is ErrorCode.NONE:
        offline = tuple(tp for tp in request.partitions if log_dirs.is_offline(broker, tp))
        replicas = (broker.partitions.get(tp) for tp in request.partitions if tp not in offline)
        # The whole log counts, flushed or not: right after a start nothing is known to be flushed, but every record that this
        # replica ever acknowledged was.
        ends = tuple(
            LogEnd(p.tp, last_record_epoch(p.log), p.log.leo, p.log.born, p.log.topic_id) for p in replicas if p is not None
        )
    turn.send(source, LogInfoReply(request.correlation, error, ends, offline))
