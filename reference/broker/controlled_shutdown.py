"""Controlled shutdown (KIP-343 stopping, R-184, R-191, R-158): leaderships move away before the process ends.

A heartbeat tells the controller that this broker is stopping; the controller takes it out of every ISR that has another member,
and elects one of those where it led. The broker goes on serving until it leads nothing, or until its retries are used up.
Every heartbeat names the registration, so that a late copy does not stop the next life (B-49).
"""

from reference.broker import heartbeats, shutdown
from reference.broker.broker import Broker
from reference.config import sends_heartbeats
from reference.effects import SetTimer
from reference.machine import Turn
from reference.replica.partition import Leader
from reference.types import NO_INCARNATION, BrokerState


def begin(turn: Turn, broker: Broker) -> None:
    """The operator asks for the end. Who has nobody to tell just ends (R-205)."""
    membership = broker.membership
    membership.target = BrokerState.STOPPING
    if not sends_heartbeats(turn.config) or broker.incarnation == NO_INCARNATION or heartbeats.is_fenced(broker):
        shutdown.begin(turn, broker)
    elif membership.attempts == 0:
        _attempt(turn, broker)


def _attempt(turn: Turn, broker: Broker) -> None:
    broker.membership.attempts += 1
    heartbeats.beat(turn, broker)
    backoff = turn.config.controlled_shutdown_retry_backoff_ms
    turn.effects.append(SetTimer("hand-over", backoff, backoff))


def on_timer(turn: Turn, broker: Broker) -> None:
    """Somebody is still led from here: once more, or let them find another leader when this one is gone (R-158)."""
    if broker.membership.attempts < turn.config.controlled_shutdown_max_retries:
        _attempt(turn, broker)
    else:
        shutdown.begin(turn, broker)


def end_of_turn(turn: Turn, broker: Broker) -> None:
    """The controller knows that this broker stops, and nothing is led here any more: end."""
    state, stopping = broker.membership.state, BrokerState.STOPPING
    if state is not stopping or broker.membership.target is not stopping or broker.closing is not None:
        return
    if not any(isinstance(partition.role, Leader) for partition in broker.partitions.values()):
        shutdown.begin(turn, broker)
