"""The text of `kafka-topics --describe`, made from a broker's reply to a Metadata request (R-306).

Offline replicas are those in failed directories of live brokers and all replicas of brokers that are down or fenced; the
controller sends them as one list (`reference.controller.context.offline_replicas`).
"""

from collections.abc import Iterable

from reference.messages import MetadataReply, PartitionState
from reference.types import BrokerId, index_of, topic_of


def describe(reply: MetadataReply) -> str:
    """Format topics as `kafka-topics --describe` does (R-306): one line for each topic, then one for each of its partitions."""
    topics: dict[str, list[PartitionState]] = {}
    for state in sorted(reply.states, key=_place):
        topics.setdefault(topic_of(state.tp), []).append(state)
    return "\n".join(line for topic, states in topics.items() for line in _topic(topic, states))


def _place(state: PartitionState) -> tuple[str, int]:
    return topic_of(state.tp), index_of(state.tp)


def _topic(topic: str, states: list[PartitionState]) -> Iterable[str]:
    replication_factor = max(len(state.replicas) for state in states)
    yield f"Topic: {topic}\tPartitionCount: {len(states)}\tReplicationFactor: {replication_factor}"
    for state in states:
        leader = "none" if state.leader is None else state.leader
        isr = _ids(member.broker for member in state.isr)
        yield (
            f"\tTopic: {topic}\tPartition: {index_of(state.tp)}\tLeader: {leader}"
            f"\tReplicas: {_ids(state.replicas)}\tIsr: {isr}\tOffline: {_ids(state.offline)}"
        )


def _ids(brokers: Iterable[BrokerId]) -> str:
    return ",".join(map(str, brokers))
