"""A broker shows itself to the controller, and fences itself when it has not reached one (KIP-343, R-185, R-186).

The heartbeat goes to whoever /controller names; the broker hears from there what it is. Without an answer for
broker.heartbeat.timeout.ms, or with one that says that its registration is over, it is fenced: what waits is answered in its
time, what comes is refused, control requests are obeyed, and the next heartbeat that is taken ends it. A fence is no lease:
the controller has elected others before (R-188), and what keeps this broker's records apart from theirs is the ISR (U-19).
"""

from typing import assert_never

from reference.broker.broker import Broker
from reference.config import sends_heartbeats
from reference.effects import CancelTimer, Note, SetTimer
from reference.errors import ErrorCode
from reference.machine import Turn
from reference.messages import (
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
)
from reference.types import NO_EPOCH, NO_INCARNATION, Address, BrokerId, BrokerState, Offset, broker_address

BEATS_PER_TIMEOUT = 4  # so that one lost heartbeat, or two, make nobody inactive

Ordinary = Fetch | EpochEnd | Produce | InitProducerId | ListOffsets | Metadata


def boot(turn: Turn) -> None:
    """The time in which a controller must be reached begins with the process."""
    if sends_heartbeats(turn.config):
        _contacted(turn)


def _contacted(turn: Turn) -> None:
    timeout = turn.config.broker_heartbeat_timeout_ms
    turn.effects.append(SetTimer("fence", timeout, timeout))


def on_registered(turn: Turn, broker: Broker) -> None:
    """There is a registration to show; what was asked about an earlier one is void."""
    broker.membership.outstanding = 0
    beat(turn, broker)


def on_expired(turn: Turn, broker: Broker) -> None:
    """Nothing to show until the next registration."""
    broker.membership.outstanding = 0
    turn.effects.append(CancelTimer("heartbeat"))


def beat(turn: Turn, broker: Broker) -> None:
    """R-185: send a heartbeat to the current controller, where one is known, and arm the timer of the next."""
    config, membership = turn.config, broker.membership
    if not sends_heartbeats(config) or broker.incarnation == NO_INCARNATION:
        return
    pause = config.controller_heartbeat_timeout_ms // BEATS_PER_TIMEOUT
    turn.effects.append(SetTimer("heartbeat", pause, pause))
    if membership.controller is not None:
        membership.outstanding = turn.correlation()
        request = MetadataHeartbeat(membership.outstanding, config.broker, broker.incarnation, membership.target)
        turn.send(broker_address(membership.controller), request)


def follow(turn: Turn, broker: Broker, controller: BrokerId) -> None:
    """There is another controller: show oneself there at once."""
    broker.membership.controller = controller
    beat(turn, broker)


def on_reply(turn: Turn, broker: Broker, reply: MetadataHeartbeatReply) -> None:
    """MetadataHeartbeatResponse: the state that this broker is to be in (R-189)."""
    membership = broker.membership
    if reply.correlation != membership.outstanding:
        return
    membership.outstanding = 0
    match reply.error:
        case ErrorCode.NONE:
            _contacted(turn)
            _enter(turn, broker, reply.current_state)
        case ErrorCode.INVALID_INCARNATION_ID:
            # The controller knows of a later registration, or of the end of this one: the fence need not wait (B-43).
            _enter(turn, broker, BrokerState.INACTIVE)
        case _:
            pause = turn.config.retry_backoff_ms
            turn.effects.append(SetTimer("heartbeat", pause, 2 * pause))


def on_fence_timer(turn: Turn, broker: Broker) -> None:
    """R-185: no controller was reached for broker.heartbeat.timeout.ms."""
    _enter(turn, broker, BrokerState.INACTIVE)


def _enter(turn: Turn, broker: Broker, state: BrokerState) -> None:
    before, broker.membership.state = broker.membership.state, state
    if before is BrokerState.INACTIVE and state is not BrokerState.INACTIVE:
        turn.note(Note(kind="unfenced", incarnation=broker.incarnation))
    elif state is BrokerState.INACTIVE and before is not BrokerState.INACTIVE:
        turn.note(Note(kind="fenced", incarnation=broker.incarnation))


def is_fenced(broker: Broker) -> bool:
    """R-186; also R-193: a broker that has not contacted a controller yet is Initial, not fenced."""
    return broker.membership.state is BrokerState.INACTIVE


def refuse(turn: Turn, source: Address, request: Ordinary) -> None:
    """R-186: a fenced broker takes no new requests of clients and followers. They look for another, or come again."""
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
