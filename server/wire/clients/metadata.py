"""Metadata 4 to 8, FindCoordinator 0 to 2, InitProducerId 0 to 1, which any broker answers (KIP-112, KIP-207, KIP-320).

Brokers are listed with their addresses for the client's listener. A broker that is fenced or has no metadata yet lists no
brokers, and clients ask another one. A partition without a live leader has leader -1 and LEADER_NOT_AVAILABLE, but still its ISR
(KAFKA-8442). A metadata request never creates a topic.
"""

from collections.abc import Iterable

from msgspec import Struct

from reference.errors import ErrorCode
from reference.messages import InitProducerId, InitProducerIdReply, MetadataReply, PartitionState
from reference.types import BrokerId, index_of, topic_of
from server.wire.clients.errors import EdgeError, client_code
from server.wire.clients.exchange import Call, Exchange, Facing, metadata_of
from server.wire.clients.names import is_topic_name

_NOBODY = -1


class MetadataRequestTopic(Struct, frozen=True):
    """A topic of a Metadata request."""

    name: str


class MetadataRequest(Struct, frozen=True, kw_only=True):
    """A Metadata request; `topics` None means all topics."""

    topics: tuple[MetadataRequestTopic, ...] | None


class MetadataBroker(Struct, frozen=True, kw_only=True):
    """One live broker in a Metadata response, with its address for the client's listener."""

    node_id: int
    host: str
    port: int


class MetadataPartition(Struct, frozen=True, kw_only=True):
    """One partition in a Metadata response; `leader_id` is -1 if no live broker leads it."""

    error_code: int
    partition_index: int
    leader_id: int
    leader_epoch: int
    replica_nodes: tuple[int, ...]
    isr_nodes: tuple[int, ...]
    offline_replicas: tuple[int, ...]


class MetadataTopic(Struct, frozen=True, kw_only=True):
    """One topic of a Metadata response and its partitions; none if it does not exist."""

    error_code: int
    name: str
    partitions: tuple[MetadataPartition, ...] = ()


class MetadataResponse(Struct, frozen=True, kw_only=True):
    """The fields of a Metadata response that the broker sets."""

    brokers: tuple[MetadataBroker, ...]
    cluster_id: str | None
    controller_id: int
    topics: tuple[MetadataTopic, ...]


def metadata(call: Call, request: MetadataRequest) -> Exchange:
    """Answer a Metadata request."""
    reply = yield from metadata_of(call)
    by_topic: dict[str, list[PartitionState]] = {}
    for state in reply.states:
        by_topic.setdefault(topic_of(state.tp), []).append(state)
    if reply.error is not ErrorCode.NONE:
        names: Iterable[str] = ()
    elif request.topics is None:
        names = by_topic
    else:
        names = dict.fromkeys(topic.name for topic in request.topics)
    live = live_brokers(call.facing, reply)
    controller = _NOBODY if reply.controller not in live else reply.controller
    return MetadataResponse(
        brokers=tuple(_broker(call.facing, broker) for broker in live),
        cluster_id=call.facing.cluster_id,
        controller_id=controller,
        topics=tuple(_topic_in_response(name, by_topic.get(name, []), live) for name in names),
    )


def live_brokers(facing: Facing, reply: MetadataReply) -> tuple[BrokerId, ...]:
    """The live brokers that have an address for this listener."""
    return tuple(broker for broker in reply.brokers if broker in facing.advertised)


def _broker(facing: Facing, broker: BrokerId) -> MetadataBroker:
    host, port = facing.advertised[broker]
    return MetadataBroker(node_id=broker, host=host, port=port)


def _topic_in_response(name: str, states: list[PartitionState], live: tuple[BrokerId, ...]) -> MetadataTopic:
    """A topic of the Metadata response; without states it is unknown, or its name is not allowed."""
    if not states:
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_topic_name(name) else EdgeError.INVALID_TOPIC_EXCEPTION
        return MetadataTopic(error_code=error, name=name)
    ordered = sorted(states, key=lambda state: index_of(state.tp))
    return MetadataTopic(error_code=0, name=name, partitions=tuple(_partition(state, live) for state in ordered))


def _partition(state: PartitionState, live: tuple[BrokerId, ...]) -> MetadataPartition:
    """A partition of the response; a leader that is not alive counts as none."""
    is_led = state.leader is not None and state.leader in live
    offline = {broker for broker in state.replicas if broker in state.offline or broker not in live}
    return MetadataPartition(
        error_code=ErrorCode.NONE if is_led else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=index_of(state.tp),
        leader_id=_NOBODY if not is_led or state.leader is None else state.leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=state.replicas,
        isr_nodes=tuple(member.broker for member in state.isr),
        offline_replicas=tuple(broker for broker in state.replicas if broker in offline),
    )


# --- FindCoordinator -------------------------------------------------------------------------------------------------------


class FindCoordinatorRequest(Struct, frozen=True):
    """A FindCoordinator request; the broker does not read its key."""


class FindCoordinatorResponse(Struct, frozen=True, kw_only=True):
    """The fields of a FindCoordinator response that the broker sets."""

    error_code: int
    error_message: str | None
    node_id: int = _NOBODY
    host: str = ""
    port: int = _NOBODY


def find_coordinator(call: Call, request: FindCoordinatorRequest) -> Exchange:
    """Answer FindCoordinator with COORDINATOR_NOT_AVAILABLE: consumer groups are not supported."""
    yield from ()
    return FindCoordinatorResponse(error_code=EdgeError.COORDINATOR_NOT_AVAILABLE, error_message="there are no groups here")


# --- InitProducerId --------------------------------------------------------------------------------------------------------


class InitProducerIdRequest(Struct, frozen=True):
    """The field of an InitProducerId request that the broker reads."""

    transactional_id: str | None


class InitProducerIdResponse(Struct, frozen=True):
    """An InitProducerId response; id and epoch are -1 on an error."""

    error_code: int
    producer_id: int
    producer_epoch: int


def init_producer_id(call: Call, request: InitProducerIdRequest) -> Exchange:
    """Answer InitProducerId; a transactional id is refused, because transactions are not supported."""
    if request.transactional_id is not None:
        return InitProducerIdResponse(ErrorCode.INVALID_REQUEST, -1, -1)
    call.ask(InitProducerId(call.number()))
    reply = yield
    assert isinstance(reply, InitProducerIdReply)
    if reply.error is not ErrorCode.NONE:
        # Kafka's clients retry on COORDINATOR_NOT_AVAILABLE and give up on most other errors.
        return InitProducerIdResponse(EdgeError.COORDINATOR_NOT_AVAILABLE, -1, -1)
    return InitProducerIdResponse(client_code(reply.error), reply.producer_id, reply.producer_epoch)
