"""What a client believes about leaders: the newest epoch it heard of for each partition, and whether to ask again.

Metadata may come from a broker that lags behind. A state of an older leader epoch than one already heard of is ignored, as by
Kafka's clients since KIP-320: a client that went back to a deposed leader could read an offset that it saw beyond before.
"""

from msgspec import Struct
from msgspec.structs import replace

from reference.messages import PartitionState
from reference.types import NO_TOPIC_ID, Address, BrokerId, LeaderEpoch, TopicId, TopicPartition, broker_address


class Route(Struct, frozen=True):
    """Who leads one partition, since which epoch. A stale route is looked up again before its next use."""

    leader: BrokerId | None
    leader_epoch: LeaderEpoch
    stale: bool = False
    topic_id: TopicId = NO_TOPIC_ID


Routes = dict[TopicPartition, Route]


def leader_of(routes: Routes, tp: TopicPartition) -> BrokerId | None:
    """The broker to ask, or None where it must be looked up first."""
    route = routes.get(tp)
    return None if route is None or route.stale else route.leader


def learn_states(routes: Routes, states: tuple[PartitionState, ...]) -> None:
    """Take what a broker was told of the cluster, but for what is older than what is known.

    Of two topics of one name the later one has the greater id, whatever their epochs are (KIP-516).
    """
    for state in states:
        known = routes.get(state.tp)
        if known is None or (state.topic_id, state.leader_epoch) >= (known.topic_id, known.leader_epoch):
            routes[state.tp] = Route(state.leader, state.leader_epoch, topic_id=state.topic_id)


def learn_epoch(routes: Routes, tp: TopicPartition, leader: BrokerId, leader_epoch: LeaderEpoch, topic_id: TopicId) -> None:
    """Take the epoch that an answering leader of that topic stated."""
    known = routes.get(tp)
    if known is None or (known.topic_id == topic_id and leader_epoch > known.leader_epoch):
        routes[tp] = Route(leader, leader_epoch, topic_id=topic_id)


def distrust(routes: Routes, tp: TopicPartition) -> None:
    """This route led to an error that calls for new metadata."""
    known = routes.get(tp)
    if known is not None:
        routes[tp] = replace(known, stale=True)


def distrust_peer(routes: Routes, peer: Address) -> None:
    """The connection to this broker broke: whatever it leads is looked up again. The only sign after a produce with acks=0."""
    for tp, route in routes.items():
        if route.leader is not None and broker_address(route.leader) == peer:
            routes[tp] = replace(route, stale=True)
