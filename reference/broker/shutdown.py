"""Controlled shutdown of a broker: leaderships move away first, then the logs are flushed and closed (R-048, R-158).

Controlled shutdown (KIP-343 stopping, R-184, R-191): a heartbeat tells the controller that this broker is stopping. The
controller takes it out of every ISR that has another member, and elects one of those where it led. The broker goes on serving
until it leads nothing, or until its retries are used up. Every heartbeat names the registration, so a late copy does not stop the
next life (B-49).

Closing: the broker flushes its logs and writes its high watermarks and the clean-shutdown markers. A marker says that the log
directory holds all that was written to it, so the next start need not look for torn batches. It is true because nothing is
appended after the flush was asked for: the broker resigns every role before, and then ignores every event but those of its disks.
If a directory fails meanwhile, the process ends without a marker.
"""

from reference.broker import heartbeats, log_dirs
from reference.broker.broker import Broker, write_checkpoints
from reference.config import sends_heartbeats
from reference.effects import SHUT_DOWN, Halt, MarkClean
from reference.events import AnyEvent, DirFailed, Flushed
from reference.machine import Turn
from reference.replica import follower
from reference.replica.partition import Leader
from reference.types import NO_INCARNATION, BrokerState


def begin(turn: Turn, broker: Broker) -> None:
    """The operator asked this process to end. A broker that sends no heartbeats or is fenced closes at once (R-205)."""
    membership = broker.membership
    membership.target = BrokerState.STOPPING
    if not sends_heartbeats(turn.config) or broker.incarnation == NO_INCARNATION or heartbeats.is_fenced(broker):
        _close(turn, broker)
    elif membership.attempts == 0:
        _attempt(turn, broker)


def _attempt(turn: Turn, broker: Broker) -> None:
    broker.membership.attempts += 1
    heartbeats.beat(turn, broker)
    turn.arm("hand-over", turn.config.controlled_shutdown_retry_backoff_ms)


def on_timer(turn: Turn, broker: Broker) -> None:
    """The broker still leads partitions during its shutdown: ask again, or close when the retries are used up (R-158)."""
    if broker.membership.attempts < turn.config.controlled_shutdown_max_retries:
        _attempt(turn, broker)
    else:
        _close(turn, broker)


def end_of_turn(turn: Turn, broker: Broker) -> None:
    """Close the shutting-down broker once the controller knows that it stops and it leads no partition any more."""
    state, stopping = broker.membership.state, BrokerState.STOPPING
    if state is not stopping or broker.membership.target is not stopping or broker.closing is not None:
        return
    if not any(isinstance(partition.role, Leader) for partition in broker.partitions.values()):
        _close(turn, broker)


# --- closing --------------------------------------------------------------------------------------------------------------------


def _close(turn: Turn, broker: Broker) -> None:
    """Stop leading and following, then ask for the last flush of each working directory."""
    for partition in broker.partitions.values():
        follower.resign(turn, partition)
    broker.closing = log_dirs.good(turn, broker)
    for dir_ in broker.closing:
        turn.needs_flush(dir_)


def ignores(broker: Broker, event: AnyEvent) -> bool:
    """True while the broker closes, for every event except those of its disks."""
    return broker.closing is not None and not isinstance(event, (Flushed, DirFailed))


def on_flushed(turn: Turn, broker: Broker) -> None:
    """A flush ended during shutdown. If it began before the replicas resigned, another one follows."""
    if broker.closing is None:
        return
    broker.closing = tuple(f.dir for f in broker.flushes if f.in_flight != 0 or f.dirty)
    if broker.closing:
        return
    write_checkpoints(turn, broker)
    turn.effects += [MarkClean(dir_, clean=True) for dir_ in log_dirs.good(turn, broker)]
    turn.effects.append(Halt(SHUT_DOWN))
