"""Stray replicas: logs on a broker that are no longer assigned to it (V3 §E step 4, R-046; here also after startup).

They arise if a broker reads a topic at startup, the controller then deletes the topic, and dies before it tells that broker:
the next controller does not know the topic. Or the controller moves a partition away from a broker that it cannot reach
(R-183), and dies before that broker returns. Or the broker registers while the write that removes a partition is on its way,
and the controller told only the brokers that it knew. So the broker compares its replicas with each full metadata, which a
controller sends when it begins, to each new registration, and after each removal, and asks ZooKeeper whether those that are not
listed, or are listed for other brokers, are still assigned to it. A replica is not deleted for the metadata alone: it may lack
partitions that have no leader yet (U-11), and a move changes it before the assignment.
"""

from reference.broker.broker import Broker, Registration, Strays, Suspect
from reference.broker.commands import delete_replica, delete_with_topic
from reference.coordination import paths
from reference.coordination.api import AnyAnswer, Data, GetData, SessionExpired, Unknown
from reference.effects import ZkRequest
from reference.machine import Turn
from reference.messages import PartitionState
from reference.replica.partition import Partition, brokers_of
from reference.types import NO_TOPIC_ID, TopicId, TopicPartition, topic_of


def look(turn: Turn, broker: Broker) -> None:
    """On each full UpdateMetadata: find local replicas that it does not list, or lists for other brokers."""
    if broker.registration is Registration.REGISTERED:
        _suspect(turn, broker, _unlisted_replicas(turn, broker))
    else:
        broker.strays.late = True  # the assignments being read may be older than the deletion of a topic


def after_learning(turn: Turn, broker: Broker, remaining: tuple[TopicPartition, ...]) -> None:
    """Check unassigned replicas that got a command while the broker started, perhaps from a deposed controller."""
    unlisted = _unlisted_replicas(turn, broker) if broker.strays.late else ()
    _suspect(turn, broker, tuple(sorted({*unlisted, *remaining})))


def _unlisted_replicas(turn: Turn, broker: Broker) -> tuple[TopicPartition, ...]:
    return tuple(tp for tp, replica in broker.partitions.items() if _is_elsewhere(turn, replica, broker.metadata.get(tp)))


def _is_elsewhere(turn: Turn, replica: Partition, listed: PartitionState | None) -> bool:
    """True if the metadata has no place for a local replica (R-183).

    Metadata from before the last command to the replica says nothing, because it may be older than the assignment. A member of
    the ISR must not be deleted early: it could be elected without its log.
    """
    if listed is None:
        return True
    holders = (*listed.replicas, *brokers_of((*listed.isr, *listed.elr)))
    is_later = (listed.topic_id, listed.leader_epoch) >= (replica.log.topic_id, replica.leader_epoch)
    return is_later and turn.config.broker not in holders


def _suspect(turn: Turn, broker: Broker, replicas: tuple[TopicPartition, ...]) -> None:
    suspects = tuple(_as_it_is(broker, tp) for tp in replicas) if turn.config.variant.topic_id else ()
    unanswered = tuple(suspect for suspect in broker.strays.suspects if suspect.tp not in replicas)
    broker.strays = Strays(suspects=(*unanswered, *suspects))  # V3 has no topic ids, and checks at startup alone
    ask(turn, broker)


def _as_it_is(broker: Broker, tp: TopicPartition) -> Suspect:
    partition = broker.partitions[tp]
    return Suspect(tp, partition.log.topic_id, partition.leader_epoch)


def ask(turn: Turn, broker: Broker) -> None:
    """Read the topic znodes of local replicas that may be strays; ask again if the answer was lost."""
    topics = _topics(broker.strays)
    if topics:
        broker.strays.request = turn.zk_id()
        turn.effects.append(ZkRequest(broker.strays.request, tuple(GetData(paths.topic_path(topic)) for topic in topics)))


def _topics(strays: Strays) -> tuple[str, ...]:
    return tuple(sorted({topic_of(suspect.tp) for suspect in strays.suspects}))


def on_answer(turn: Turn, broker: Broker, answers: tuple[AnyAnswer, ...]) -> None:
    """Delete local replicas that are assigned elsewhere or of an earlier topic, unless a command for them came meanwhile."""
    strays, broker.strays = broker.strays, Strays()
    if any(isinstance(answer, Unknown) for answer in answers):
        broker.strays = Strays(suspects=strays.suspects)
        turn.retry("strays")
        return
    if any(isinstance(answer, SessionExpired) for answer in answers):
        return  # the next registration reads all assignments
    found = dict(zip(_topics(strays), answers, strict=True))
    for suspect in strays.suspects:
        unchanged = suspect.tp in broker.partitions and _as_it_is(broker, suspect.tp) == suspect
        topic = topic_of(suspect.tp)
        answer = found[topic]
        if not unchanged:
            continue
        later = TopicId(answer.czxid) if isinstance(answer, Data) else None
        assigned = dict(paths.decode_topic(topic, answer.data)) if isinstance(answer, Data) else {}
        if is_gone(broker, suspect.topic_id, later):
            delete_with_topic(turn, broker, suspect.tp)
        elif turn.config.broker not in assigned.get(suspect.tp, ()):
            delete_replica(turn, broker, suspect.tp)


def is_gone(broker: Broker, topic_id: TopicId, there: TopicId | None) -> bool:
    """Whether ZooKeeper has deleted this topic, where it has one of its name with the id `there`, or none.

    A server that lags may not know a topic yet; but a session reads nothing from before its own registration. So a topic that is
    older than that, and missing, is gone.
    """
    return NO_TOPIC_ID != topic_id < (broker.incarnation if there is None else there)
