"""Replicas that were deleted stay deleted: a late copy of an earlier command does not bring one back.

A broker that has nothing left of a replica has no epoch either to tell an earlier command by, and a replica that it makes anew
when nobody means it is never asked for again and never deleted. So it remembers, for as long as it lives, the StopReplica by
which it deleted; commands for another life are refused anyway (KIP-380). Found by `highwater campaign --workload admin-storm`.
"""

from reference.broker.broker import Broker
from reference.machine import Turn
from reference.messages import PartitionState, StopPartition
from reference.types import EPOCH_DURING_DELETE


def bury(turn: Turn, broker: Broker, stop: StopPartition) -> None:
    """Commands of earlier epochs are overtaken by this one (R-237); of a topic that is no more (R-149), all are.

    A partition that was removed by V3 §H begins again at epoch 0 where it is added again: nothing tells old from new.
    """
    broker.buried.pop(stop.tp, None)
    if turn.config.variant.stop_replica_epoch and (stop.moved or stop.leader_epoch == EPOCH_DURING_DELETE):
        broker.buried = dict(sorted([*broker.buried.items(), (stop.tp, stop)]))


def is_buried(broker: Broker, state: PartitionState) -> bool:
    """Was the replica that this command is about deleted by a later one?"""
    stop = broker.buried.get(state.tp)
    if stop is None or state.topic_id > stop.topic_id:
        return False
    return stop.leader_epoch == EPOCH_DURING_DELETE or state.leader_epoch < stop.leader_epoch
