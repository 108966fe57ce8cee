"""Replicas that were deleted stay deleted: a late copy of an earlier command does not bring one back.

A broker that has nothing left of a replica has no epoch either to tell an earlier command by, and a replica that it makes anew
when nobody means it is never asked for again and never deleted. So it remembers, for as long as it lives, the StopReplica by
which it deleted; commands for another life are refused anyway (KIP-380). Found by `highwater campaign --workload admin-storm`.

What comes later is told by the epochs of the states, of a topic that is no more by its id. A partition that was removed by V3 §H
begins again at epoch 0 where it is added again, under the same id: what its controller sent before has a smaller number, and
what an earlier controller sent a smaller epoch.
"""

from reference.broker.broker import Broker, Burial, Sent
from reference.machine import Turn
from reference.messages import PartitionState, StopPartition
from reference.types import EPOCH_DURING_DELETE


def bury(turn: Turn, broker: Broker, stop: StopPartition, sent: Sent) -> None:
    """Commands of earlier epochs are overtaken by this one (R-237); of a topic that is no more (R-149), all are."""
    broker.buried.pop(stop.tp, None)
    if turn.config.variant.stop_replica_epoch:
        broker.buried = dict(sorted([*broker.buried.items(), (stop.tp, Burial(stop, sent))]))


def is_buried(broker: Broker, state: PartitionState, sent: Sent | None) -> bool:
    """Was the replica that this command is about deleted by a later one? Without `sent` it was read in ZooKeeper."""
    burial = broker.buried.get(state.tp)
    if burial is None or state.topic_id > burial.stop.topic_id:
        return False
    stop = burial.stop
    if stop.leader_epoch == EPOCH_DURING_DELETE:
        return True
    if stop.moved:
        return state.leader_epoch < stop.leader_epoch
    return sent is not None and sent < burial.sent
