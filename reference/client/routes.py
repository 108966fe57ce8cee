"""The leaders that a client knows: the newest leader epoch of each partition, and whether to look it up again.

Metadata may come from a broker that lags. A state with an older leader epoch than a known one is ignored, as by Kafka's clients
since KIP-320: a client that went back to a deposed leader could get an end offset below one that it has already read.
"""

from msgspec import Struct
from msgspec.structs import replace

from reference.messages import PartitionState
from reference.types import NO_TOPIC_ID, Address, BrokerId, LeaderEpoch, TopicId, TopicPartition, broker_address


class Route(Struct, frozen=True):
    """The leader of a partition and its leader epoch. A stale route is looked up again before its next use."""

    leader: BrokerId | None
    leader_epoch: LeaderEpoch
    stale: bool = False
    topic_id: TopicId = NO_TOPIC_ID


Routes = dict[TopicPartition, Route]


def leader_of(routes: Routes, tp: TopicPartition) -> BrokerId | None:
    """The leader of a partition as the client knows it; None if the client must look it up first."""
    route = routes.get(tp)
    return None if route is None or route.stale else route.leader


def learn_states(routes: Routes, states: tuple[PartitionState, ...]) -> None:
    """Take leaders from a broker's metadata, except states older than those that the client knows.

    Of two topics of one name the later one has the greater id, whatever their leader epochs (KIP-516).
    """
    for state in states:
        route = routes.get(state.tp)
        if route is None or (state.topic_id, state.leader_epoch) >= (route.topic_id, route.leader_epoch):
            routes[state.tp] = Route(state.leader, state.leader_epoch, topic_id=state.topic_id)


def learn_epoch(routes: Routes, tp: TopicPartition, leader: BrokerId, leader_epoch: LeaderEpoch, topic_id: TopicId) -> None:
    """Take the leader epoch from the answer of a partition's leader."""
    route = routes.get(tp)
    if route is None or (route.topic_id == topic_id and leader_epoch > route.leader_epoch):
        routes[tp] = Route(leader, leader_epoch, topic_id=topic_id)


def distrust(routes: Routes, tp: TopicPartition) -> None:
    """Mark the known leader of a partition as stale after an error of REFRESH_METADATA, so that it is looked up again."""
    route = routes.get(tp)
    if route is not None:
        routes[tp] = replace(route, stale=True)


def distrust_peer(routes: Routes, peer: Address) -> None:
    """Mark a broker's partitions as stale after its connection broke: the only sign of a failed produce with acks=0."""
    for tp, route in routes.items():
        if route.leader is not None and broker_address(route.leader) == peer:
            routes[tp] = replace(route, stale=True)
