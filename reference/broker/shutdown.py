"""A broker ends in good order: its logs are flushed, its high watermarks and the clean-shutdown markers written (R-048, R-158).

The marker says that the log of the directory is all that was written to it, so that the next start need not look for torn
batches. It is true because nothing is appended once the flush was asked for: every role is laid down before, and nothing that
arrives afterwards is heard but the disk. A directory that fails meanwhile ends the process without a marker.
"""

from reference.broker import log_dirs
from reference.broker.broker import Broker, write_checkpoints
from reference.effects import SHUT_DOWN, Halt, MarkClean
from reference.events import AnyEvent, DirFailed, Flushed
from reference.machine import Turn
from reference.replica import follower


def begin(turn: Turn, broker: Broker) -> None:
    """Lay down every role and ask for the last flushes."""
    for partition in broker.partitions.values():
        follower.resign(turn, partition)
    broker.closing = log_dirs.good(turn, broker)
    for dir_ in broker.closing:
        turn.needs_flush(dir_)


def ignores(broker: Broker, event: AnyEvent) -> bool:
    """A broker that closes hears its disk alone."""
    return broker.closing is not None and not isinstance(event, (Flushed, DirFailed))


def on_flushed(turn: Turn, broker: Broker) -> None:
    """A flush is done. One that began before the roles were laid down is followed by another (`broker.end_of_turn`)."""
    if broker.closing is None:
        return
    broker.closing = tuple(f.dir for f in broker.flushes if f.in_flight != 0 or f.dirty)
    if broker.closing:
        return
    write_checkpoints(turn, broker)
    turn.effects += [MarkClean(dir_, clean=True) for dir_ in log_dirs.good(turn, broker)]
    turn.effects.append(Halt(SHUT_DOWN))
