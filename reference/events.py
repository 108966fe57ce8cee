"""Events: the inputs of a machine. It handles one at a time and returns a list of effects."""

from msgspec import Struct

from reference.coordination.api import AnyAnswer, Change, SessionState
from reference.messages import AnyMessage, Batch, LeaderAndIsrReply
from reference.types import NO_CREATION, NO_INCARNATION, NO_TOPIC_ID, Address, Creation, Incarnation, TopicId, TopicPartition


class Event(Struct, frozen=True, tag=True):
    """Base class of what a node reacts to: messages, timers, ZooKeeper answers, finished flushes."""


class Booted(Event, frozen=True, tag=True):
    """Event: the process was started; its first event."""


class Received(Event, frozen=True, tag=True):
    """Event: a message from `source` arrived."""

    source: Address
    message: AnyMessage


class TimerFired(Event, frozen=True, tag=True):
    """Event: the timer of this name fired and is no longer armed."""

    name: str


class ZkReplied(Event, frozen=True, tag=True):
    """Event: ZooKeeper answered request `id`: one answer per operation, or all Unknown, or all SessionExpired."""

    id: int
    answers: tuple[AnyAnswer, ...]


class ZkWatch(Event, frozen=True, tag=True):
    """Event: a ZooKeeper watch fired; watches are one-shot."""

    path: str
    change: Change


class ZkState(Event, frozen=True, tag=True):
    """Event: the ZooKeeper session changed: `connected` with its id, `disconnected`, `expired`."""

    state: SessionState
    session: int = 0


class Flushed(Event, frozen=True, tag=True):
    """Event: a flush is done: everything written to the directory before Flush `id` is durable."""

    dir: int
    id: int


class DirFailed(Event, frozen=True, tag=True):
    """Event: a disk effect on this log directory failed; `reference.performing` skipped part of the list of effects.

    `unanswered`: the answers to LeaderAndIsr among them, with their receivers.
    """

    dir: int
    error: str
    unanswered: tuple[tuple[Address, LeaderAndIsrReply], ...] = ()


class ConnectionLost(Event, frozen=True, tag=True):
    """The connection to `peer` broke. Requests in flight have an unknown outcome; brokers may ignore the event and time out.

    If the peer is a client (only real processes report this), the answers to its requests reach no process any more.
    """

    peer: Address


class ShutDown(Event, frozen=True, tag=True):
    """The operator asked this process to end in good order (SIGTERM); it ends with Halt(SHUT_DOWN)."""


class LogImage(Struct, frozen=True):
    """One log as found on disk; the last batch may not be intact."""

    tp: TopicPartition
    batches: tuple[Batch, ...]
    born: Incarnation = NO_INCARNATION
    topic_id: TopicId = NO_TOPIC_ID
    created: Creation = NO_CREATION


class DirImage(Struct, frozen=True):
    """A log directory as found at startup; `logs` is empty if the directory is unreadable."""

    dir: int
    readable: bool
    logs: tuple[LogImage, ...] = ()
    checkpoint: tuple[tuple[TopicPartition, int], ...] = ()
    born: Incarnation = NO_INCARNATION  # NO_INCARNATION: never used before, or replaced by another directory
    dirs: int = 0  # how many directories the broker had when this one was marked
    clean: bool = False  # the last process that used it ended in good order


AnyEvent = Booted | Received | TimerFired | ZkReplied | ZkWatch | ZkState | Flushed | DirFailed | ConnectionLost | ShutDown
