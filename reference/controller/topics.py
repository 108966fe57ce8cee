"""Topics are created and deleted (V3 §B; R-026).

A topic is its znode. A topic that was deleted and created again under the same name is another topic; the controller tells them
apart by the czxid of the znode (KIP-516, B-61).
"""

from reference.controller import channel, deletion, leader_election, listings
from reference.controller.context import Controller, ListingStep, TopicList, forget_partition
from reference.controller.outstanding import ask
from reference.coordination import paths
from reference.coordination.api import AnyAnswer, Children, Data, GetData
from reference.machine import Turn
from reference.messages import StopPartition
from reference.types import EPOCH_DURING_DELETE, TopicId, topic_of


def on_answer(turn: Turn, controller: Controller, answers: tuple[AnyAnswer, ...]) -> None:
    """V3 §B on_topic_change: find new and deleted topics; the list of topics is kept in memory (R-026).

    The answers are the children of /brokers/topics, and then the assignments of new topics.
    """
    listing = controller.topics_listing
    if listing.step is ListingStep.CHILDREN:
        names = answers[0].names if isinstance(answers[0], Children) else ()
        _delete(turn, controller, tuple(t for t in controller.topics if t not in names))
        listing.names = names if turn.config.variant.topic_id else tuple(n for n in names if n not in controller.topics)
        if listing.names:
            # V3 §B step 1: read the topic's replica assignment
            listing.step = ListingStep.DATA
            ask(turn, controller, TopicList(), tuple(GetData(paths.topic_path(t)) for t in listing.names))
            return
    else:
        for topic, answer in zip(listing.names, answers, strict=True):
            if isinstance(answer, Data):
                _take_topic(turn, controller, topic, answer)
    listings.resume(turn, controller, TopicList())


def _take_topic(turn: Turn, controller: Controller, topic: str, znode: Data) -> None:
    """Take in a topic znode: a new topic's partitions get leaders; another czxid means a deleted topic was replaced."""
    if topic in controller.topics:
        if controller.topic_ids.get(topic) == znode.czxid:
            return
        _delete(turn, controller, (topic,))
    controller.topics = tuple(sorted((*controller.topics, topic)))
    controller.topic_ids[topic] = TopicId(znode.czxid)
    for tp, replicas in paths.decode_topic(topic, znode.data):
        controller.assignments[tp] = replicas
        leader_election.start(turn, controller, tp)  # V3 §B step 1.1: init_leaders


def _delete(turn: Turn, controller: Controller, topics: tuple[str, ...]) -> None:
    """V3 §B step 2: send the StopReplicaCommand to all affected brokers (R-028)."""
    if not topics:
        return
    for tp in [tp for tp in sorted(controller.assignments) if topic_of(tp) in topics]:
        replicas = controller.assignments[tp]
        state = forget_partition(controller, tp)
        if state is not None:
            epoch = EPOCH_DURING_DELETE if turn.config.variant.topic_id else state.leader_epoch
            channel.stop_replica(controller, StopPartition(tp, epoch), replicas)
    deletion.forget(controller, topics)
    channel.tell_what_is_gone(controller)
