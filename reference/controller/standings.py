"""What each broker is to the controller: inactive, active or stopping (KIP-343 Broker State, R-182).

A broker that registered with BrokerInfo version 5 is inactive until its first heartbeat and again when it was silent for
controller.heartbeat.timeout.ms; one with an older version has no standing here and is always active (R-206). The standing of a
registration that is gone stays, inactive, so that late heartbeats of it are known for what they are.
"""

from reference.controller.context import Controller, LiveBroker, Standing
from reference.effects import CancelTimer, Note, SetTimer
from reference.machine import Turn
from reference.types import BrokerId, BrokerState


def of(controller: Controller, broker: BrokerId) -> Standing | None:
    """The standing of a broker; None of a legacy one, or one that was never seen."""
    for standing in controller.standings:
        if standing.broker == broker:
            return standing
    return None


def take_registrations(turn: Turn, controller: Controller, first: BrokerState = BrokerState.INACTIVE) -> None:
    """R-182: who registered anew begins with `first`; who is registered no more is inactive."""
    expected = {live.broker: live for live in controller.live if live not in controller.legacy}
    for standing in controller.standings:
        if expected.get(standing.broker) != LiveBroker(standing.broker, standing.incarnation):
            turn.effects.append(CancelTimer(_timer(standing.broker)))
            standing.state = BrokerState.INACTIVE
    for broker, live in expected.items():
        known = of(controller, broker)
        if known is None:
            known = Standing(broker=broker, incarnation=live.incarnation, state=BrokerState.INITIAL)
            controller.standings = sorted([*controller.standings, known], key=_by_broker)
        if known.state is BrokerState.INITIAL or known.incarnation != live.incarnation:
            known.incarnation = live.incarnation
            move(turn, controller, known, first)
    # who is a legacy broker now was perhaps another one before the roll
    controller.standings = [s for s in controller.standings if all(s.broker != legacy.broker for legacy in controller.legacy)]


def _by_broker(standing: Standing) -> BrokerId:
    return standing.broker


def take_over(turn: Turn, controller: Controller) -> None:
    """A new controller knows of nobody's heartbeats: whoever is registered has the whole timeout to send one.

    R-182: when the cluster is first initialised all are inactive; then there is no state of a partition yet.
    """
    controller.standings = []
    take_registrations(turn, controller, BrokerState.ACTIVE if controller.states else BrokerState.INACTIVE)


def move(turn: Turn, controller: Controller, standing: Standing, state: BrokerState) -> None:
    """The broker is in this state from now on, and while it is more than inactive its silence is timed (R-187)."""
    if state is not BrokerState.INACTIVE:
        timeout = turn.config.controller_heartbeat_timeout_ms
        turn.effects.append(SetTimer(_timer(standing.broker), timeout, timeout))
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
    """The reign is over."""
    for standing in controller.standings:
        turn.effects.append(CancelTimer(_timer(standing.broker)))
    controller.standings = []
    controller.legacy = ()


def _timer(broker: BrokerId) -> str:
    return f"silent:{broker}"
