"""Paths and payloads of the znodes (0.8 article; docs/requirements C-01, C-03), extended by incarnations.

In the state znode `incarnations` lists those of `isr` in the same order, `leader_incarnation` is that of `leader`, and the ELR of
KIP-966 has its own. Readers that know only the article's keys can still read the znode.
"""

import msgspec
from msgspec import Struct

from reference.coordination.api import Data
from reference.messages import IsrMember, PartitionState
from reference.types import (
    NO_INCARNATION,
    BrokerId,
    ControllerEpoch,
    Incarnation,
    LeaderEpoch,
    ProducerId,
    TopicPartition,
    ZkVersion,
    index_of,
    topic_of,
    topic_partition,
)

CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
BROKER_IDS = "/brokers/ids"
TOPICS = "/brokers/topics"
PARTITIONS_ADD = "/admin/partitions_add"
PARTITIONS_REMOVE = "/admin/partitions_remove"
PREFERRED_ELECTION = "/admin/preferred_replica_election"
UNCLEAN_ELECTION = "/admin/unclean_election"  # docs/promise.md DUR-7; with the payload of a preferred election
DELETE_TOPICS = "/admin/delete_topics"
LOG_DIR_EVENTS = "/log_dir_event_notification"
LOG_DIR_EVENT = f"{LOG_DIR_EVENTS}/log_dir_event_"  # and a number that ZooKeeper appends
LOG_DIR_FAILURE = 1
LEGACY_REGISTRATION = 4  # versions of BrokerInfo (KIP-343 Compatibility)
HEARTBEAT_REGISTRATION = 5
PRODUCER_IDS = "/latest_producer_id_block"
PERSISTENT = ("/brokers", BROKER_IDS, TOPICS, LOG_DIR_EVENTS)  # created by any process that finds them missing


class _BrokerJson(Struct):
    version: int
    host: str
    port: int
    jmx_port: int


class _ControllerJson(Struct):
    version: int
    brokerid: int


class _TopicJson(Struct):
    version: int
    partitions: dict[str, list[int]]


class _PartitionJson(Struct):
    topic: str
    partition: int


class _PreferredJson(Struct):
    version: int
    partitions: list[_PartitionJson]


class _DeleteTopicsJson(Struct):
    version: int
    topics: list[str]


class _ProducerIdsJson(Struct):
    version: int
    broker: int
    block_start: str
    block_end: str  # inclusive


class _LogDirEventJson(Struct):
    version: int
    broker: int
    event: int


class _StateJson(Struct):
    controller_epoch: int
    leader: int  # -1: none
    version: int
    leader_epoch: int
    isr: list[int]
    leader_incarnation: int = NO_INCARNATION
    incarnations: list[int] = []
    elr: list[int] = []
    elr_incarnations: list[int] = []


_encode = msgspec.json.Encoder().encode
_state = msgspec.json.Decoder(_StateJson).decode  # by far the most frequent one


def broker_path(broker: BrokerId) -> str:
    """The path of a broker's registration: /brokers/ids/[broker_id] (R-150)."""
    return f"{BROKER_IDS}/{broker}"


def broker_payload(*, heartbeats: bool, host: str, port: int) -> bytes:
    """R-150: the JSON of a broker's registration; its version says whether the broker sends heartbeats (R-206)."""
    return _encode(_BrokerJson(HEARTBEAT_REGISTRATION if heartbeats else LEGACY_REGISTRATION, host, port, -1))


def is_legacy_registration(data: bytes) -> bool:
    """True if the broker sends no heartbeats: it counts as active without them (R-206)."""
    return msgspec.json.decode(data, type=_BrokerJson).version < HEARTBEAT_REGISTRATION


def controller_payload(broker: BrokerId) -> bytes:
    """R-153: the JSON in /controller, which names the controller."""
    return _encode(_ControllerJson(1, broker))


def decode_controller(data: bytes) -> BrokerId:
    """The broker named in /controller (R-153)."""
    return BrokerId(msgspec.json.decode(data, type=_ControllerJson).brokerid)


def is_topic(name: str) -> bool:
    """Whether a topic can have this name: it is a part of paths in ZooKeeper."""
    return name not in ("", ".", "..") and "/" not in name and name.isprintable()


def index_named(name: str) -> int | None:
    """The partition index that a znode is named by; None if its name is no index, or is written in another way."""
    return int(name) if name.isdecimal() and name == str(int(name)) else None


def topic_path(topic: str) -> str:
    """The path of a topic's assignment: /brokers/topics/[topic] (R-151)."""
    return f"{TOPICS}/{topic}"


def topic_payload(assignment: tuple[tuple[BrokerId, ...], ...]) -> bytes:
    """R-151, R-003: the JSON of a topic: partition index -> replicas, preferred first."""
    return _encode(_TopicJson(1, {str(index): list(replicas) for index, replicas in enumerate(assignment)}))


def decode_topic(topic: str, data: bytes) -> tuple[tuple[TopicPartition, tuple[BrokerId, ...]], ...]:
    """The partitions of a topic with their replicas, by index; the first replica is the preferred one (R-003)."""
    partitions = msgspec.json.decode(data, type=_TopicJson).partitions
    return tuple(
        (topic_partition(topic, i), tuple(BrokerId(b) for b in partitions[str(i)])) for i in sorted(map(int, partitions))
    )


def state_path(tp: TopicPartition) -> str:
    """/brokers/topics/[topic]/partitions/[id]/state (R-152, C-03): holds V3's leaderAndISR (R-004)."""
    return f"{TOPICS}/{topic_of(tp)}/partitions/{index_of(tp)}/state"


def state_parents(tp: TopicPartition) -> tuple[str, str]:
    """The two persistent nodes above a state node, upper one first."""
    base = f"{TOPICS}/{topic_of(tp)}/partitions"
    return base, f"{base}/{index_of(tp)}"


def state_payload(state: PartitionState) -> bytes:
    """R-152: the JSON of a partition's state, with the ISR members' incarnations and the ELR."""
    return _encode(
        _StateJson(
            controller_epoch=state.controller_epoch,
            leader=-1 if state.leader is None else state.leader,
            version=1,
            leader_epoch=state.leader_epoch,
            isr=[m.broker for m in state.isr],
            leader_incarnation=state.leader_incarnation,
            incarnations=[m.incarnation for m in state.isr],
            elr=[m.broker for m in state.elr],
            elr_incarnations=[m.incarnation for m in state.elr],
        )
    )


def decode_state(tp: TopicPartition, replicas: tuple[BrokerId, ...], node: Data) -> PartitionState:
    """The state in a state znode; without incarnations in it each member gets NO_INCARNATION."""
    json = _state(node.data)
    incarnations = json.incarnations or [NO_INCARNATION] * len(json.isr)
    return PartitionState(
        tp=tp,
        leader=None if json.leader < 0 else BrokerId(json.leader),
        leader_incarnation=Incarnation(json.leader_incarnation),
        leader_epoch=LeaderEpoch(json.leader_epoch),
        isr=_members(json.isr, incarnations),
        controller_epoch=ControllerEpoch(json.controller_epoch),
        zk_version=ZkVersion(node.version),
        replicas=replicas,
        elr=_members(json.elr, json.elr_incarnations),
    )


def _members(brokers: list[int], incarnations: list[int]) -> tuple[IsrMember, ...]:
    return tuple(IsrMember(BrokerId(b), Incarnation(i)) for b, i in zip(brokers, incarnations, strict=True))


def partitions_payload(assignment: dict[TopicPartition, tuple[BrokerId, ...]]) -> bytes:
    """R-151: the JSON of a topic whose partition indices may have gaps."""
    return _encode(_TopicJson(1, {str(index_of(tp)): list(assignment[tp]) for tp in sorted(assignment, key=index_of)}))


def partition_add_path(tp: TopicPartition) -> str:
    """The path of a request to add a partition: /admin/partitions_add/[topic]/[partition_id] (R-007)."""
    return f"{PARTITIONS_ADD}/{topic_of(tp)}/{index_of(tp)}"


def partition_remove_path(tp: TopicPartition) -> str:
    """The path of a request to remove a partition: /admin/partitions_remove/[topic]/[partition_id] (R-008)."""
    return f"{PARTITIONS_REMOVE}/{topic_of(tp)}/{index_of(tp)}"


def replicas_payload(replicas: tuple[BrokerId, ...]) -> bytes:
    """R-007: the JSON of a request to add a partition: its replicas, preferred first."""
    return _encode(list(replicas))


def decode_replicas(data: bytes) -> tuple[BrokerId, ...]:
    """The replicas of a partition to be added; empty if the data is invalid, as with two replicas on one broker (R-003)."""
    try:
        replicas = tuple(BrokerId(b) for b in msgspec.json.decode(data, type=list[int]))
    except msgspec.DecodeError:
        return ()
    if any(broker < 0 for broker in replicas):
        return ()
    return replicas if len(set(replicas)) == len(replicas) else ()


def preferred_payload(tps: tuple[TopicPartition, ...]) -> bytes:
    """R-147: the JSON of a request for a preferred or unclean election: its partitions."""
    return _encode(_PreferredJson(1, [_PartitionJson(topic_of(tp), index_of(tp)) for tp in tps]))


def decode_preferred(data: bytes) -> tuple[TopicPartition, ...]:
    """The partitions to elect leaders for; empty if the data is invalid."""
    try:
        return tuple(topic_partition(p.topic, p.partition) for p in msgspec.json.decode(data, type=_PreferredJson).partitions)
    except msgspec.DecodeError:
        return ()


def delete_topics_payload(topics: tuple[str, ...]) -> bytes:
    """R-149: the JSON of a request to delete topics."""
    return _encode(_DeleteTopicsJson(1, list(topics)))


def decode_delete_topics(data: bytes) -> tuple[str, ...]:
    """The topics to be deleted, sorted; empty if the data is invalid."""
    try:
        named = tuple(sorted(set(msgspec.json.decode(data, type=_DeleteTopicsJson).topics)))
    except msgspec.DecodeError:
        return ()
    return tuple(name for name in named if is_topic(name))


def producer_ids_payload(broker: BrokerId, start: ProducerId, end: ProducerId) -> bytes:
    """A block of producer ids (`end` exclusive), in Kafka's format of /latest_producer_id_block."""
    return _encode(_ProducerIdsJson(1, broker, str(start), str(end - 1)))


def producer_ids_end(data: bytes) -> ProducerId:
    """The first producer id after the latest reserved block."""
    return ProducerId(int(msgspec.json.decode(data, type=_ProducerIdsJson).block_end) + 1)


def log_dir_event_payload(broker: BrokerId) -> bytes:
    """R-299: the JSON of the notification that a log directory of this broker failed."""
    return _encode(_LogDirEventJson(1, broker, LOG_DIR_FAILURE))


def decode_log_dir_event(data: bytes) -> BrokerId | None:
    """The broker whose directory failed; None if the data is invalid."""
    try:
        event = msgspec.json.decode(data, type=_LogDirEventJson)
    except msgspec.DecodeError:
        return None
    return BrokerId(event.broker) if event.event == LOG_DIR_FAILURE else None


def tp_of_state_path(path: str) -> TopicPartition | None:
    """The partition of a state znode; None for other paths."""
    parts = path.split("/")
    if len(parts) == 7 and parts[6] == "state" and path.startswith(TOPICS):
        return topic_partition(parts[3], int(parts[5]))
    return None
