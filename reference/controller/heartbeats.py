"""The controller handles heartbeats of brokers (KIP-343 Controller Logic, R-187, R-189, R-190, R-191).

A heartbeat carries the registration of its sender. The controller refuses an older registration than it knows, and one that is
gone; the sender then fences itself (B-43, B-49). It takes a newer registration as valid before the watch on /brokers/ids fires,
and reads ZooKeeper all the same, because the heartbeat may be late.
"""

from reference.controller import broker_change, listings, standings
from reference.controller.context import BrokerList, Controller, ControllerStep, LiveBroker
from reference.errors import ErrorCode
from reference.machine import Turn
from reference.messages import MetadataHeartbeat, MetadataHeartbeatReply
from reference.types import Address, BrokerId, BrokerState


def on_heartbeat(turn: Turn, controller: Controller, source: Address, request: MetadataHeartbeat) -> None:
    """A broker's heartbeat (R-194, R-195, R-196): it gets the state that it asks for (R-191)."""
    error, words = _refusal(turn, controller, request)
    if error is not ErrorCode.NONE:
        turn.send(source, MetadataHeartbeatReply(request.correlation, error, words, BrokerState.INACTIVE))
        return
    standing = standings.of(controller, request.broker)
    state = BrokerState.ACTIVE  # of a legacy registration, whatever it sends
    if standing is not None:
        # STOPPING lasts until the registration ends: a late copy of an earlier heartbeat must not undo it.
        state = BrokerState.STOPPING if standing.state is BrokerState.STOPPING else request.target_state
        changed = standing.state is not state
        standings.move(turn, controller, standing, state)
        if changed:
            broker_change.revisit(turn, controller, {request.broker})
        elif state is BrokerState.STOPPING:
            # gradually. A replica may have joined the ISR of a partition that only this broker could lead before.
            broker_change.look_at(turn, controller, {request.broker})
    turn.send(source, MetadataHeartbeatReply(request.correlation, ErrorCode.NONE, None, state))


def _refusal(turn: Turn, controller: Controller, request: MetadataHeartbeat) -> tuple[ErrorCode, str | None]:
    """The error and words that refuse a heartbeat, or NONE. A registration that the controller has not read yet is adopted."""
    if controller.step is not ControllerStep.ACTIVE:
        return ErrorCode.NOT_CONTROLLER, "this broker is not the controller"
    if request.broker < 0 or request.target_state not in (BrokerState.ACTIVE, BrokerState.STOPPING):
        # R-196; the text also names endpoint fields, which the request does not have (C-16)
        return ErrorCode.INVALID_REQUEST, f"broker {request.broker} cannot become {request.target_state.name.lower()}"
    live = next((b for b in controller.live if b.broker == request.broker), None)
    standing = standings.of(controller, request.broker)
    latest = max((b.incarnation for b in (live, standing) if b is not None), default=None)
    if latest is None or (turn.config.variant.broker_incarnation and request.incarnation > latest):
        _adopt(turn, controller, request)
    elif turn.config.variant.broker_incarnation and (request.incarnation < latest or live is None):
        return ErrorCode.INVALID_INCARNATION_ID, f"registration {request.incarnation} is over"
    elif live is None:
        return ErrorCode.INVALID_INCARNATION_ID, f"broker {request.broker} is not registered"
    return ErrorCode.NONE, None


def _adopt(turn: Turn, controller: Controller, request: MetadataHeartbeat) -> None:
    """R-190: take over in memory, as valid, a registration newer than the one that the controller has read."""
    others = tuple(live for live in controller.live if live.broker != request.broker)
    adopted = LiveBroker(request.broker, request.incarnation)
    controller.adopted = (*controller.adopted, adopted)
    broker_change.on_broker_change(turn, controller, tuple(sorted((*others, adopted))))
    listings.on_watch(turn, controller, BrokerList())


def on_silence(turn: Turn, controller: Controller, broker: BrokerId) -> None:
    """R-187: no heartbeat came for controller.heartbeat.timeout.ms: the broker counts as absent for most purposes (R-183)."""
    standing = standings.of(controller, broker)
    if controller.step is ControllerStep.ACTIVE and standing is not None and standing.state is not BrokerState.INACTIVE:
        standings.move(turn, controller, standing, BrokerState.INACTIVE)
        broker_change.revisit(turn, controller, {broker})
