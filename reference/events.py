"""What a machine is told. One event at a time; the answer is a list of effects."""

from msgspec import Struct

from reference.coordination.api import AnyAnswer, Change, SessionState
from reference.messages import AnyMessage, Batch
from reference.types import NO_INCARNATION, NO_TOPIC_ID, Address, Incarnation, TopicId, TopicPartition


class Event(Struct, frozen=True, tag=True):
    """Base of all events."""


class Booted(Event, frozen=True, tag=True):
    """The process runs: the first event of a life."""


class Received(Event, frozen=True, tag=True):
    """A message came in."""

    source: Address
    message: AnyMessage


class TimerFired(Event, frozen=True, tag=True):
    """An armed timer ran out."""

    name: str


class ZkReplied(Event, frozen=True, tag=True):
    """ZooKeeper answered a request: one answer for each operation; all Unknown or all SessionExpired where the session failed."""

    id: int
    answers: tuple[AnyAnswer, ...]


class ZkWatch(Event, frozen=True, tag=True):
    """A watch fired (and is gone)."""

    path: str
    change: Change


class ZkState(Event, frozen=True, tag=True):
    """The session changed: `connected` with its id, `disconnected`, `expired`."""

    state: SessionState
    session: int = 0


class Flushed(Event, frozen=True, tag=True):
    """What was written to the directory before that Flush is durable."""

    dir: int
    id: int


class DirFailed(Event, frozen=True, tag=True):
    """An effect on this directory failed; `reference.performing` says what was left out of the rest of the list."""

    dir: int
    error: str


class ConnectionLost(Event, frozen=True, tag=True):
    """A connection broke. To a peer: requests in flight on it have an unknown outcome; brokers may ignore it and time out.

    That of a client, where a process tells of it: nobody takes the answers to what was asked over it.
    """

    peer: Address


class ShutDown(Event, frozen=True, tag=True):
    """The operator asks this process to end in good order (SIGTERM); it ends with Halt(SHUT_DOWN)."""


class LogImage(Struct, frozen=True):
    """One log as found on disk; the last batch may not be intact."""

    tp: TopicPartition
    batches: tuple[Batch, ...]
    born: Incarnation = NO_INCARNATION
    topic_id: TopicId = NO_TOPIC_ID


class DirImage(Struct, frozen=True):
    """A log directory as found at startup. Unreadable directories have no logs to show."""

    dir: int
    readable: bool
    logs: tuple[LogImage, ...] = ()
    checkpoint: tuple[tuple[TopicPartition, int], ...] = ()
    born: Incarnation = NO_INCARNATION  # NO_INCARNATION: never used before, or not the directory that was
    dirs: int = 0  # how many directories the broker had when this one was marked
    clean: bool = False  # the process that used it last ended in good order, and nobody has used it since


AnyEvent = Booted | Received | TimerFired | ZkReplied | ZkWatch | ZkState | Flushed | DirFailed | ConnectionLost | ShutDown
