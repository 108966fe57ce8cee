"""LeaderAndISRCommand: the controller says who leads and who follows (V3 §C).

V3 acts only where the role or the leader changes; `safe` acts on every new leader epoch, and on nothing that is meant for
another incarnation, comes from an older controller, or reaches back behind the log.
"""

from reference.broker import burial, log_dirs
from reference.broker.broker import Broker, Sent, create_partition, write_checkpoint
from reference.effects import CreateReplica, DeleteReplica, Note
from reference.errors import ErrorCode
from reference.log.log import Log, last_record_epoch
from reference.machine import Turn
from reference.messages import LeaderAndIsr, LeaderAndIsrReply, PartitionState
from reference.replica import follower, leader
from reference.replica.partition import Follower, Idle, Leader, Partition
from reference.types import NO_TOPIC_ID, Address, ControllerEpoch, Incarnation, TopicId, TopicPartition


def command_error(turn: Turn, broker: Broker, epoch: ControllerEpoch, incarnation: Incarnation) -> ErrorCode:
    """May this command of a controller be obeyed? Remembers the greatest controller epoch."""
    variant = turn.config.variant
    if variant.broker_incarnation and incarnation != turn.incarnation:
        # KIP-380, U-09, B-48, B-50: for another life of this broker. Also where the controller knows of a registration of which
        # the broker itself has not heard (KAFKA-9839): it cannot tell whether that is its own or that of its former life.
        return ErrorCode.STALE_BROKER_EPOCH
    if variant.controller_epoch_check and epoch < broker.controller_epoch:
        return ErrorCode.STALE_CONTROLLER_EPOCH
    broker.controller_epoch = max(broker.controller_epoch, epoch)
    return ErrorCode.NONE


def on_leader_and_isr(turn: Turn, broker: Broker, source: Address, command: LeaderAndIsr) -> None:
    """V3 §C on_LeaderAndISRCommand."""
    error = command_error(turn, broker, command.controller_epoch, command.broker_incarnation)
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


def apply(turn: Turn, broker: Broker, state: PartitionState, *, new: bool = False, sent: Sent | None = None) -> ErrorCode:
    """V3 §C on_LeaderAndISRCommand, for one partition. `new`: it was never made here (KIP-112 isNewReplica).

    A topic id is the czxid of the topic's znode, so that of two topics of one name the greater id is the later one, and whoever
    names it has seen it in ZooKeeper: the log of a smaller id belongs to a topic that is deleted (KIP-516, U-14, B-61).
    """
    if log_dirs.is_out_of_reach(turn, broker, state, new=new):
        return ErrorCode.KAFKA_STORAGE_ERROR
    partition = broker.partitions.get(state.tp)
    if partition is not None and partition.log.topic_id != state.topic_id != NO_TOPIC_ID:
        if not turn.config.variant.topic_id:
            partition.log.topic_id = state.topic_id  # V3 Discussion 5: the name is all that counts
        elif state.topic_id < partition.log.topic_id:
            return ErrorCode.INCONSISTENT_TOPIC_ID
        else:
            delete_replica(turn, broker, state.tp)
            partition = None
    if partition is None and burial.is_buried(broker, state, sent):
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
                not variant.broker_incarnation or state.leader_incarnation == turn.incarnation
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
        # nobody leads: an old leader must not go on, an old follower has nobody to fetch from
        partition.leader_epoch = state.leader_epoch
        follower.resign(turn, partition)
        return ErrorCode.NONE
    return ErrorCode.NONE if state.leader_epoch == partition.leader_epoch else ErrorCode.FENCED_LEADER_EPOCH


def _newer(turn: Turn, partition: Partition, state: PartitionState) -> bool:
    """A greater epoch (R-080); or the same one while idle, as after a restart or a lost session. Never one behind the log."""
    if turn.config.variant.startup_epoch_floor and state.leader_epoch < last_record_epoch(partition.log):
        return False
    if isinstance(partition.role, Idle) and not turn.config.variant.epoch_before_transition:
        return state.leader_epoch >= partition.leader_epoch
    return state.leader_epoch > partition.leader_epoch


def start_replica(turn: Turn, broker: Broker, tp: TopicPartition, topic_id: TopicId) -> Partition:
    """V3 §C startReplica: create the directory of the partition; its HW joins the next checkpoint."""
    dir_, born = log_dirs.place_for_replica(turn, broker)
    turn.effects.append(CreateReplica(dir_, tp, born, topic_id))
    return create_partition(turn, broker, tp, Log(tp=tp, dir=dir_, born=born, topic_id=topic_id))


def delete_replica(turn: Turn, broker: Broker, tp: TopicPartition) -> None:
    """V3 §C stopReplica (R-039): stop the fetcher, leave the checkpoint, delete the directory.

    The checkpoint is left first: found beside the log of the next topic of that name, its high watermark would be believed.
    """
    partition = broker.partitions[tp]
    follower.resign(turn, partition)
    del broker.partitions[tp]
    write_checkpoint(turn, broker, partition.log.dir)
    turn.effects.append(DeleteReplica(partition.log.dir, tp))
    turn.note(Note(kind="replica-deleted", tp=tp, topic_id=partition.log.topic_id))
