"""A broker sends heartbeats to the controller, and fences itself when none is answered (KIP-343, R-185, R-186).

The heartbeat goes to the broker in /controller; its answer is the state of this broker. Without an answer for
broker.heartbeat.timeout.ms, or if the answer says that its registration is over, the broker is fenced. A fenced broker answers
parked requests in their time, refuses new ones and obeys control requests; the next accepted heartbeat unfences it. A fence is
not a lease: the controller has elected other leaders before (R-188), and the ISR, not the fence, keeps this broker's records
uncommitted (U-19).
"""

from typing import assert_never

from reference.broker.broker import Broker
from reference.config import sends_heartbeats
from reference.effects import CancelTimer, Note
from reference.errors import ErrorCode
from reference.machine import Turn
from reference.messages import (
    ClientRequest,
    EpochEnd,
    EpochEndReply,
    Fetch,
    FetchReply,
    InitProducerId,
    InitProducerIdReply,
    ListOffsets,
    ListOffsetsReply,
    Metadata,
    MetadataHeartbeat,
    MetadataHeartbeatReply,
    MetadataReply,
    Produce,
    ProduceReply,
    ReplicationRequest,
)
from reference.types import NO_EPOCH, NO_INCARNATION, Address, BrokerId, BrokerState, Offset, broker_address

BEATS_PER_TIMEOUT = 4  # so that two lost heartbeats do not make a broker inactive


def arm_fence(turn: Turn) -> None:
    """R-185: the broker fences itself unless a controller answers within broker.heartbeat.timeout.ms."""
    if sends_heartbeats(turn.config):
        turn.arm("fence", turn.config.broker_heartbeat_timeout_ms)


def on_registered(turn: Turn, broker: Broker) -> None:
    """Send the first heartbeat of a registration; an answer about an earlier one is ignored."""
    broker.membership.outstanding = 0
    beat(turn, broker)


def on_expired(turn: Turn, broker: Broker) -> None:
    """The ZooKeeper session expired: send no heartbeats until the broker registers again."""
    broker.membership.outstanding = 0
    turn.effects.append(CancelTimer("heartbeat"))


def beat(turn: Turn, broker: Broker) -> None:
    """R-185: send a heartbeat to the current controller, if one is known, and arm the timer of the next heartbeat."""
    config, membership = turn.config, broker.membership
    if not sends_heartbeats(config) or broker.incarnation == NO_INCARNATION:
        return
    turn.arm("heartbeat", config.controller_heartbeat_timeout_ms // BEATS_PER_TIMEOUT)
    if membership.controller is not None:
        membership.outstanding = turn.correlation()
        request = MetadataHeartbeat(membership.outstanding, config.broker, broker.incarnation, membership.target)
        turn.send(broker_address(membership.controller), request)


def follow(turn: Turn, broker: Broker, controller: BrokerId) -> None:
    """Another controller was elected: send it a heartbeat at once."""
    broker.membership.controller = controller
    beat(turn, broker)


def on_reply(turn: Turn, broker: Broker, reply: MetadataHeartbeatReply) -> None:
    """The controller answered a heartbeat: take the broker state that it decided on (R-189)."""
    membership = broker.membership
    if reply.correlation != membership.outstanding:
        return
    membership.outstanding = 0
    match reply.error:
        case ErrorCode.NONE:
            arm_fence(turn)
            _change_state(turn, broker, reply.current_state)
        case ErrorCode.INVALID_INCARNATION_ID:
            # The controller knows a later registration, or the end of this one: fence at once (B-43).
            _change_state(turn, broker, BrokerState.INACTIVE)
        case _:
            turn.retry("heartbeat")


def on_fence_timer(turn: Turn, broker: Broker) -> None:
    """R-185: fence this broker, because no controller answered for broker.heartbeat.timeout.ms."""
    _change_state(turn, broker, BrokerState.INACTIVE)


def _change_state(turn: Turn, broker: Broker, state: BrokerState) -> None:
    """Set the broker's KIP-343 state, and note when it becomes fenced or is fenced no more."""
    before, broker.membership.state = broker.membership.state, state
    if before is BrokerState.INACTIVE and state is not BrokerState.INACTIVE:
        turn.note(Note(kind="unfenced", incarnation=broker.incarnation))
    elif state is BrokerState.INACTIVE and before is not BrokerState.INACTIVE:
        turn.note(Note(kind="fenced", incarnation=broker.incarnation))


def is_fenced(broker: Broker) -> bool:
    """R-186: whether the broker is fenced. Before its first contact with a controller it is Initial, not fenced (R-193)."""
    return broker.membership.state is BrokerState.INACTIVE


def refuse(turn: Turn, source: Address, request: ReplicationRequest | ClientRequest) -> None:
    """R-186: a fenced broker refuses new requests of clients and followers with BROKER_NOT_AVAILABLE."""
    error, correlation = ErrorCode.BROKER_NOT_AVAILABLE, request.correlation
    match request:
        case Produce(acks=0):
            pass
        case Produce(tp=tp):
            turn.send(source, ProduceReply(correlation, tp, error))
        case Fetch(tp=tp):
            turn.send(source, FetchReply(correlation, tp, error, NO_EPOCH, Offset(0)))
        case EpochEnd(tp=tp):
            turn.send(source, EpochEndReply(correlation, tp, error, NO_EPOCH, None))
        case InitProducerId():
            turn.send(source, InitProducerIdReply(correlation, error))
        case ListOffsets(tp=tp):
            turn.send(source, ListOffsetsReply(correlation, tp, error))
        case Metadata():
            turn.send(source, MetadataReply(correlation, (), (), error))
        case _ as unreachable:
            assert_never(unreachable)
