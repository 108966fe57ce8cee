"""The base of a machine: an event and the time go in, effects come out (docs/ARCHITECTURE.md).

Each machine (`reference.node.Node`, `reference.client`) offers `handle(event, now=…)`, which returns effects to be performed in
order, `clone()`, and `fingerprint()`, the blake2b of its canonical encoding: equal states have equal bytes in every process.
`Turn` is the handling of one event: the clocks as read, the effects so far, and the counters from which requests get their ids.
Functions of the core take a turn, change their state and append effects.
"""

from hashlib import blake2b
from typing import Self

import msgspec
from msgspec import Struct

from reference.config import BrokerConfig
from reference.effects import AnyEffect, Note, Send, SetTimer
from reference.messages import AnyMessage
from reference.types import Address, Creation, Incarnation, Millis, TopicPartition

_encode = msgspec.msgpack.Encoder(order="deterministic").encode


class Machine(Struct):
    """Base class of protocol machines (clients, controller, broker) whose fields are their whole state."""

    def clone(self) -> Self:
        """A copy that shares no mutable state with the original."""
        return msgspec.msgpack.decode(_encode(self), type=type(self))

    def fingerprint(self) -> bytes:
        """A hash of the machine's state, 16 bytes: equal states give equal bytes in every process."""
        return blake2b(_encode(self), digest_size=16).digest()


class Now(Struct, frozen=True, array_like=True):
    """The clocks of this node: monotonic (drift moves it, jumps do not) and wall (may go back)."""

    monotonic_ms: Millis
    wall_ms: Millis


class Ids(Struct):
    """The last ids that a process gave: to requests to peers and to ZooKeeper, flushes and new logs; each starts at 0."""

    correlation: int = 0
    zk: int = 0
    flush: int = 0
    log: int = 0


class Tally(Struct):
    """What one process has done since its start, for its metrics (`reference.metrics`); no part of its state."""

    isr_shrinks: int = 0
    isr_expands: int = 0
    leader_elections: int = 0  # that this process decided as controller
    unclean_elections: int = 0
    last_election_ms: int = 0  # on the wall clock; 0: none yet


class Turn:
    """The handling of one event by a broker: collects the effects, and what is due once all handlers have run.

    `deadline_ms` is the earliest deadline of a request parked in this turn, `flush_dirs` the directories that need a flush, and
    `isr_due` the partitions whose leader must ask the controller for another ISR. At the end of the turn the broker arms one
    timer, asks for one flush for each directory and sends one ISR request.
    """

    __slots__ = ("config", "deadline_ms", "effects", "flush_dirs", "ids", "incarnation", "isr_due", "now", "tally")

    def __init__(self, now: Now, ids: Ids, config: BrokerConfig, incarnation: Incarnation, tally: Tally | None = None) -> None:
        self.now = now
        self.ids = ids
        self.config = config
        self.incarnation = incarnation
        self.effects: list[AnyEffect] = []
        self.deadline_ms: int | None = None
        self.flush_dirs: list[int] = []
        self.isr_due: list[TopicPartition] = []
        self.tally = Tally() if tally is None else tally

    def send(self, to: Address, message: AnyMessage) -> None:
        """Add the effect that sends a message."""
        self.effects.append(Send(to, message))

    def arm(self, timer: str, ms: int) -> None:
        """Add the effect that arms a timer to fire after exactly this time."""
        self.effects.append(SetTimer(timer, ms, ms))

    def retry(self, timer: str) -> None:
        """Arm a timer for another try, after a drawn pause of retry_backoff_ms to twice that."""
        pause = self.config.retry_backoff_ms
        self.effects.append(SetTimer(timer, pause, 2 * pause))

    def note(self, note: Note) -> None:
        """Add the effect that records a row in the run's history."""
        self.effects.append(note)

    def due(self, deadline_ms: int) -> None:
        """Remember that a request was parked until this time (monotonic ms), so that a timer is armed for it."""
        if self.deadline_ms is None or deadline_ms < self.deadline_ms:
            self.deadline_ms = deadline_ms

    def needs_flush(self, dir_: int) -> None:
        """Ask for a flush of this log directory once the present event is handled."""
        if dir_ not in self.flush_dirs:
            self.flush_dirs.append(dir_)

    def needs_isr_change(self, tp: TopicPartition) -> None:
        """Ask the controller, once the present event is handled, to change the ISR of this partition."""
        if tp not in self.isr_due:
            self.isr_due.append(tp)

    def correlation(self) -> int:
        """A fresh id for a request to a peer."""
        self.ids.correlation += 1
        return self.ids.correlation

    def zk_id(self) -> int:
        """A fresh id for a request to ZooKeeper."""
        self.ids.zk += 1
        return self.ids.zk

    def flush_id(self) -> int:
        """A fresh id for a flush."""
        self.ids.flush += 1
        return self.ids.flush

    def creation(self) -> Creation:
        """The mark of a log that the broker creates now: later than those of all logs that it created before."""
        self.ids.log += 1
        return Creation(self.incarnation, self.ids.log)
