"""The state of each broker at the controller: inactive, active or stopping (KIP-343 Broker State, R-182).

A broker that registered with BrokerInfo version 5 is inactive until its first heartbeat, and again after
controller.heartbeat.timeout.ms without one. A broker with an older version has no standing and is always active (R-206). The
standing of a registration that is gone stays, inactive, so that the controller recognises its late heartbeats.
"""

from operator import attrgetter

from reference.controller.context import Controller, LiveBroker, Standing
from reference.effects import CancelTimer, Note
from reference.machine import Turn
from reference.timers import Timer, name_of
from reference.types import BrokerId, BrokerState


def of(controller: Controller, broker: BrokerId) -> Standing | None:
    """What the controller thinks of a broker; None for one without heartbeats, or that never registered."""
    for standing in controller.standings:
        if standing.broker == broker:
            return standing
    return None


def take_registrations(turn: Turn, controller: Controller, first: BrokerState = BrokerState.INACTIVE) -> None:
    """R-182: a new registration begins in state `first`; a broker without a registration is inactive."""
    expected = {live.broker: live for live in controller.live if live not in controller.legacy}
    for standing in controller.standings:
        if expected.get(standing.broker) != LiveBroker(standing.broker, standing.incarnation):
            turn.effects.append(CancelTimer(name_of(Timer.SILENCE, standing.broker)))
            standing.state = BrokerState.INACTIVE
    for broker, live in expected.items():
        known = of(controller, broker)
        if known is None:
            known = Standing(broker=broker, incarnation=live.incarnation, state=BrokerState.INITIAL)
            controller.standings = sorted([*controller.standings, known], key=attrgetter("broker"))
        if known.state is BrokerState.INITIAL or known.incarnation != live.incarnation:
            known.incarnation = live.incarnation
            move(turn, controller, known, first)
    # a legacy broker may have sent heartbeats before it was rolled back
    controller.standings = [s for s in controller.standings if all(s.broker != legacy.broker for legacy in controller.legacy)]


def take_over(turn: Turn, controller: Controller) -> None:
    """A new controller knows of no heartbeats: every registered broker has the whole timeout to send one.

    R-182: when the cluster is first initialised all are inactive; then no partition has a state yet.
    """
    controller.standings = []
    take_registrations(turn, controller, BrokerState.ACTIVE if controller.states else BrokerState.INACTIVE)


def move(turn: Turn, controller: Controller, standing: Standing, state: BrokerState) -> None:
    """Set the controller's state of a broker. Unless it is inactive, time its next heartbeat (R-187)."""
    if state is not BrokerState.INACTIVE:
        turn.arm(name_of(Timer.SILENCE, standing.broker), turn.config.controller_heartbeat_timeout_ms)
    if standing.state is state:
        return
    standing.state = state
    turn.note(
        Note(
            kind="broker-state",
            broker=standing.broker,
            controller_epoch=controller.epoch if turn.config.variant.controller_epoch else None,
            incarnation=standing.incarnation,
            detail=state.name.lower(),
        )
    )


def forget(turn: Turn, controller: Controller) -> None:
    """Forget the states of all brokers: this broker is not controller any more."""
    for standing in controller.standings:
        turn.effects.append(CancelTimer(name_of(Timer.SILENCE, standing.broker)))
    controller.standings = []
    controller.legacy = ()
