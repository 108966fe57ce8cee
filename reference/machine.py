"""The machine protocol: events and the time go in, effects come out; nothing else (docs/ARCHITECTURE.md).

`Turn` is the handling of one event: the clock as it was read, the effects so far, and the counters from which requests get
their ids. Functions of the core take a turn, change their state and append effects.
"""

from typing import Protocol, Self

from msgspec import Struct

from reference.config import BrokerConfig
from reference.effects import AnyEffect, Note, Send
from reference.events import AnyEvent
from reference.messages import AnyMessage
from reference.types import Address, Incarnation, Millis, TopicPartition


class Now(Struct, frozen=True, array_like=True):
    """The clocks of this node: monotonic (drift moves it, jumps do not) and wall (may go back)."""

    monotonic_ms: Millis
    wall_ms: Millis


class Machine(Protocol):
    """A node of the system under test."""

    def handle(self, event: AnyEvent, *, now: Now) -> list[AnyEffect]:
        """Take one event and return what is to be done, in order."""

    def clone(self) -> Self:
        """An independent copy."""

    def fingerprint(self) -> bytes:
        """blake2b of the canonical encoding: equal states, equal bytes, in every process."""


class Ids(Struct):
    """Counters of one life of a process."""

    correlation: int = 0
    zk: int = 0
    flush: int = 0


class Turn:
    """The handling of one event by a broker.

    `deadline_ms` gathers the earliest deadline of what was parked, `flush_dirs` the directories that need a flush, `isr_due` the
    partitions whose leader wants another ISR of the controller: the broker arms one timer, asks for one flush and sends one
    request at the end of the turn.
    """

    __slots__ = ("config", "deadline_ms", "effects", "flush_dirs", "ids", "incarnation", "isr_due", "now")

    def __init__(self, now: Now, ids: Ids, config: BrokerConfig, incarnation: Incarnation) -> None:
        self.now = now
        self.ids = ids
        self.config = config
        self.incarnation = incarnation
        self.effects: list[AnyEffect] = []
        self.deadline_ms: int | None = None
        self.flush_dirs: list[int] = []
        self.isr_due: list[TopicPartition] = []

    def send(self, to: Address, message: AnyMessage) -> None:
        """Hand a message to the network."""
        self.effects.append(Send(to, message))

    def note(self, note: Note) -> None:
        """Say something about oneself."""
        self.effects.append(note)

    def due(self, deadline_ms: int) -> None:
        """Something was parked until then."""
        if self.deadline_ms is None or deadline_ms < self.deadline_ms:
            self.deadline_ms = deadline_ms

    def needs_flush(self, dir_: int) -> None:
        """What was written to this directory must become durable."""
        if dir_ not in self.flush_dirs:
            self.flush_dirs.append(dir_)

    def needs_isr_change(self, tp: TopicPartition) -> None:
        """The controller is to be asked for another ISR of this partition."""
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
