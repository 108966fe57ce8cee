"""Replicas that no controller means any more (V3 §E step 4, R-046, also for a broker that has long started).

A topic is erased, and the controller dies before it has told a broker that registered meanwhile, and has read of the topic while
it was there: the next controller does not know that there ever was one. So a broker that holds what the first full metadata of a
reign do not list asks ZooKeeper whether it is its own, as it does when it starts. What is not listed is not deleted for that: a
list may lack what has no leader yet (U-11).
"""

from reference.broker.broker import Broker, Strays, Suspect
from reference.broker.leader_and_isr import delete_replica
from reference.coordination import paths
from reference.coordination.api import AnyAnswer, Data, GetData, SessionExpired, Unknown
from reference.effects import SetTimer, ZkRequest
from reference.machine import Turn
from reference.messages import UpdateMetadata
from reference.types import TopicId, TopicPartition, topic_of


def look(turn: Turn, broker: Broker, update: UpdateMetadata) -> None:
    """The first full metadata of a reign: what is here, and not in them?"""
    if broker.registration == "registered":
        listed = {state.tp for state in update.states}
        _suspect(turn, broker, tuple(tp for tp in broker.partitions if tp not in listed))
    else:
        broker.strays.late = True  # what it is reading may be older than the end of a topic


def after_learning(turn: Turn, broker: Broker, remaining: tuple[TopicPartition, ...]) -> None:
    """What remains of what no assignment explained was woken by a command meanwhile: perhaps of a deposed controller."""
    unlisted = {tp for tp in broker.partitions if tp not in broker.metadata} if broker.strays.late else set()
    _suspect(turn, broker, tuple(sorted(unlisted.union(remaining))))


def _suspect(turn: Turn, broker: Broker, replicas: tuple[TopicPartition, ...]) -> None:
    suspects = tuple(_as_it_is(broker, tp) for tp in replicas) if turn.config.variant.topic_id else ()
    broker.strays = Strays(suspects=suspects)  # V3, without ids, looks when a broker starts and no more
    _ask(turn, broker)


def _as_it_is(broker: Broker, tp: TopicPartition) -> Suspect:
    partition = broker.partitions[tp]
    return Suspect(tp, partition.log.topic_id, partition.leader_epoch)


def _ask(turn: Turn, broker: Broker) -> None:
    topics = _topics(broker.strays)
    if topics:
        broker.strays.request = turn.zk_id()
        turn.effects.append(ZkRequest(broker.strays.request, tuple(GetData(paths.topic_path(topic)) for topic in topics)))


def _topics(strays: Strays) -> tuple[str, ...]:
    return tuple(sorted({topic_of(suspect.tp) for suspect in strays.suspects}))


def on_answer(turn: Turn, broker: Broker, answers: tuple[AnyAnswer, ...]) -> None:
    """Delete what is assigned to others, or is of an earlier topic of the name, unless a command has come for it meanwhile."""
    strays, broker.strays = broker.strays, Strays()
    if any(isinstance(answer, Unknown) for answer in answers):
        broker.strays = Strays(suspects=strays.suspects)
        pause = turn.config.retry_backoff_ms
        turn.effects.append(SetTimer("strays", pause, 2 * pause))
        return
    if any(isinstance(answer, SessionExpired) for answer in answers):
        return  # who registers anew reads all of it
    found = dict(zip(_topics(strays), answers, strict=True))
    for suspect in strays.suspects:
        unchanged = suspect.tp in broker.partitions and _as_it_is(broker, suspect.tp) == suspect
        if unchanged and not _is_own(turn, suspect, found[topic_of(suspect.tp)]):
            delete_replica(turn, broker, suspect.tp)


def _is_own(turn: Turn, suspect: Suspect, answer: AnyAnswer) -> bool:
    if not isinstance(answer, Data) or suspect.topic_id < TopicId(answer.czxid):
        return False
    return turn.config.broker in dict(paths.decode_topic(topic_of(suspect.tp), answer.data)).get(suspect.tp, ())


def on_timer(turn: Turn, broker: Broker) -> None:
    """The answer was lost: ask again."""
    _ask(turn, broker)
