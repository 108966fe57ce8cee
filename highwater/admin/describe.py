"""The text of `kafka-topics --describe`, made from a broker's answer to a Metadata request (KIP-112, R-306).

Offline replicas are those in failed directories of live brokers and all replicas of brokers that are down or fenced; the
controller sends them as one list (`reference.controller.context.offline_replicas`).

A cluster is asked with Metadata 8, which Apache Kafka serves since 2.3: the first broker that lists live brokers answers for all.
TLS and authentication are not supported.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from highwater.errors import UsageError
from reference.messages import MetadataReply, PartitionState
from reference.types import Address, index_of, topic_of

if TYPE_CHECKING:
    from server.wire.clients.metadata import MetadataPartition

_NOBODY = -1


class Description(Struct, frozen=True, kw_only=True):
    """One partition as a broker describes it; `leader` is None if no live broker leads it."""

    topic: str
    partition: int
    leader: int | None
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]
    leader_epoch: int


def of_reply(reply: MetadataReply) -> tuple[Description, ...]:
    """The partitions in the metadata of a simulated broker, by topic and number."""
    return tuple(sorted(map(_of_state, reply.states), key=_place))


def of_cluster(brokers: tuple[tuple[str, int], ...]) -> tuple[Description, ...]:
    """Ask these brokers (host, port) in turn for the partitions of all topics. UsageError if none of them can say."""
    # Imported here: Kafka's schemas take 0.2 s, and every other command starts without them.
    from server.runtime.health import told_by
    from server.wire.clients.metadata import MetadataRequest
    from server.wire.framing import WireError

    failures = []
    for host, port in brokers:
        try:
            response = told_by((host, port), MetadataRequest(topics=None))
        except (OSError, UnicodeError, WireError) as error:  # UnicodeError: a host name like a..b
            failures.append(f"{host}:{port}: {error}")
            continue
        if response.brokers:
            descriptions = [_of_partition(topic.name, partition) for topic in response.topics for partition in topic.partitions]
            return tuple(sorted(descriptions, key=_place))
        failures.append(f"{host}:{port}: the broker is fenced or has no metadata yet")
    raise UsageError(f"no broker answered a Metadata request ({'; '.join(failures)})")


def metrics_text(told: Mapping[Address, Mapping[str, int]]) -> str:
    """Format the metrics of brokers: a line for each metric with its value at each broker. `told` is by broker, then by name."""
    names = list(dict.fromkeys(name for values in told.values() for name in values))
    return "\n".join(f"{name}\t" + "\t".join(f"{node}: {values[name]}" for node, values in told.items()) for name in names)


def _place(row: Description) -> tuple[str, int]:
    return row.topic, row.partition


def _of_state(state: PartitionState) -> Description:
    """A description from a broker's state of the partition."""
    return Description(
        topic=topic_of(state.tp),
        partition=index_of(state.tp),
        leader=state.leader,
        replicas=state.replicas,
        isr=tuple(member.broker for member in state.isr),
        offline=state.offline,
        leader_epoch=state.leader_epoch,
    )


def _of_partition(topic: str, partition: "MetadataPartition") -> Description:
    """A description from a partition of the Metadata response."""
    return Description(
        topic=topic,
        partition=partition.partition_index,
        leader=None if partition.leader_id == _NOBODY else partition.leader_id,
        replicas=partition.replica_nodes,
        isr=partition.isr_nodes,
        offline=partition.offline_replicas,
        leader_epoch=partition.leader_epoch,
    )


def text_of(rows: tuple[Description, ...]) -> str:
    """Format partitions as `kafka-topics --describe` does (R-306): a line for each topic, then one for each of its partitions."""
    topics: dict[str, list[Description]] = {}
    for row in rows:
        topics.setdefault(row.topic, []).append(row)
    return "\n".join(line for topic, partitions in topics.items() for line in _topic(topic, partitions))


def _topic(topic: str, partitions: list[Description]) -> Iterable[str]:
    """The lines of a topic."""
    replication_factor = max(len(row.replicas) for row in partitions)
    yield f"Topic: {topic}\tPartitionCount: {len(partitions)}\tReplicationFactor: {replication_factor}"
    for row in partitions:
        leader = "none" if row.leader is None else row.leader
        yield (
            f"\tTopic: {topic}\tPartition: {row.partition}\tLeader: {leader}\tReplicas: {_ids(row.replicas)}"
            f"\tIsr: {_ids(row.isr)}\tOffline: {_ids(row.offline)}\tLeaderEpoch: {row.leader_epoch}"
        )


def _ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers))
