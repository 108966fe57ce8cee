"""What a broker that speaks Kafka's protocol tells any client: its API versions, and the cluster's brokers and partitions.

Versions of Metadata differ between releases (0.10.2 has 0 to 2, 2.3 and later have 8), so the version is negotiated.
"""

from collections.abc import Collection, Mapping

from msgspec import Struct

from highwater.backends.real.site import HostPort
from nemesis.targets import INTERNAL
from reference.messages import IsrMember, PartitionState
from reference.types import (
    NO_INCARNATION,
    Address,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    ZkVersion,
    topic_of,
    topic_partition,
)
from server.runtime.health import ask
from server.wire.clients.apis import ApiKey, ApiVersionsRequest, ApiVersionsResponse
from server.wire.clients.metadata import MetadataBroker, MetadataRequest
from server.wire.framing import WireError

_LIST_TRANSACTIONS = 66
VERSION_MAX = 8  # the last one without tagged fields


class _Partition(Struct, frozen=True, kw_only=True):
    partition_index: int
    leader_id: int
    leader_epoch: int = -1
    replica_nodes: tuple[int, ...]
    isr_nodes: tuple[int, ...]


class _Topic(Struct, frozen=True, kw_only=True):
    name: str
    partitions: tuple[_Partition, ...] = ()


class _Response(Struct, frozen=True, kw_only=True):
    brokers: tuple[MetadataBroker, ...]
    controller_id: int = -1
    topics: tuple[_Topic, ...]


class _ListTransactions(Struct, frozen=True, kw_only=True):
    state_filters: tuple[str, ...] = ("Ongoing", "PrepareCommit", "PrepareAbort")
    producer_id_filters: tuple[int, ...] = ()


class _Transaction(Struct, frozen=True, kw_only=True):
    transactional_id: str


class _Transactions(Struct, frozen=True, kw_only=True):
    error_code: int
    transaction_states: tuple[_Transaction, ...]


class BrokerMetadata(Struct, frozen=True, kw_only=True):
    """A broker's metadata: the brokers that it lists, by id, with their addresses, the controller, and the partitions.

    Without the partitions of internal topics. `controller` is None if there is none; with KRaft it may be any broker.
    """

    brokers: Mapping[int, HostPort]
    controller: int | None
    partitions: tuple[PartitionState, ...]


def served_version(address: HostPort, api: int) -> int | None:
    """The highest version of an API that the broker at this address serves; None if it does not answer or lacks the API."""
    return served_versions(address).get(api)


def served_versions(address: HostPort) -> dict[int, int]:
    """The highest version of each API that the broker at this address serves; empty if it does not answer."""
    try:
        answer = ask(address, ApiKey.API_VERSIONS, 0, ApiVersionsRequest(), ApiVersionsResponse)
    except (OSError, WireError):
        return {}
    return {range_.api_key: range_.max_version for range_ in answer.api_keys}


def told_by(
    address: HostPort, version: int = VERSION_MAX, *, partitions: bool = True, internal: bool = False
) -> BrokerMetadata | None:
    """The metadata that the broker at this address tells in this version of the request; None if it does not answer.

    With `internal` the partitions of Kafka's own topics are told, too.
    """
    try:
        answer = ask(address, ApiKey.METADATA, version, MetadataRequest(topics=None if partitions else ()), _Response)
    except (OSError, WireError):
        return None
    return BrokerMetadata(
        brokers={broker.node_id: (broker.host, broker.port) for broker in answer.brokers},
        controller=None if answer.controller_id < 0 else answer.controller_id,
        partitions=tuple(
            _partition_state(topic.name, partition)
            for topic in answer.topics
            if internal or not topic.name.startswith(INTERNAL)
            for partition in topic.partitions
        ),
    )


def transaction_open_at(address: HostPort) -> str | None:
    """Why it is not sure that the broker at this address coordinates no open transaction, in a sentence; None if it is."""
    if served_version(address, _LIST_TRANSACTIONS) is None:
        return "a broker does not say which transactions are open: Kafka 3.0 and later do (KIP-664)"
    try:
        answer = ask(address, _LIST_TRANSACTIONS, 0, _ListTransactions(), _Transactions)
    except (OSError, WireError) as error:
        return f"a broker does not say which transactions are open: {error}"
    if answer.error_code:
        return f"a broker does not say which transactions are open: error {answer.error_code}"
    return next((f"transaction {entry.transactional_id} is open" for entry in answer.transaction_states), None)


def know_each_other(told: Mapping[Address, BrokerMetadata | None], present: Collection[Address]) -> bool:
    """Whether each of these brokers answers, and lists all of them and no other."""
    ids = {int(node.removeprefix("b")) for node in present}
    return all(answer is not None and {*answer.brokers} == ids for answer in (told[node] for node in present))


def unwhole(told: Mapping[Address, BrokerMetadata | None], free: Collection[str]) -> str | None:
    """Why the brokers, as they tell it, are no cluster on which the next run can begin, in a sentence; None if they are.

    Each must list all of them, every partition must have its leader and all replicas in its ISR, and no topic may have one of
    the names in `free`.
    """
    everybody = {int(node.removeprefix("b")) for node in told}
    for node, answer in told.items():
        if answer is None:
            return f"{node} does not answer"
        if {*answer.brokers} != everybody:
            return f"{node} lists {len(answer.brokers)} of {len(everybody)} brokers"
        for state in answer.partitions:
            if topic_of(state.tp) in free:
                return f"topic {topic_of(state.tp)} exists"
            if state.leader is None or len(state.isr) < len(state.replicas):
                return f"{node} tells that {state.tp} has {len(state.isr)} of {len(state.replicas)} replicas in its ISR"
    return None


def _partition_state(topic: str, partition: _Partition) -> PartitionState:
    """A partition of Kafka's Metadata response as a state; what the response does not tell is 0 or none."""
    return PartitionState(
        topic_partition(topic, partition.partition_index),
        None if partition.leader_id < 0 else BrokerId(partition.leader_id),
        NO_INCARNATION,
        LeaderEpoch(partition.leader_epoch),
        tuple(IsrMember(BrokerId(broker), NO_INCARNATION) for broker in partition.isr_nodes),
        ControllerEpoch(0),
        ZkVersion(0),
        tuple(map(BrokerId, partition.replica_nodes)),
    )
