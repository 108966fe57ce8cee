"""Patterns: which items of a turn a rule is about, and for which keys.

A turn of a broker process is one event and the effects that the machine returned for it. Its items are, in this order: the event,
the message in it or the timer that fired; the request that the message answers; each operation that ZooKeeper answered; then for
each effect the message sent, the request that it answers, the operation asked of ZooKeeper, the timer, the note, or the effect
itself.

`keys` gets the item and the `Memory` of the process, and returns what the item is about: nothing if it is none of the rule's
business. Keys are tuples; `ANY` in a key that ends a span stands for every value in its place.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Protocol

from msgspec import Struct

from reference.config import BrokerConfig
from reference.coordination.api import AnyAnswer
from reference.events import AnyEvent
from reference.timers import Timer
from reference.types import Address

Key = tuple[Hashable, ...]
ANY = object()
ALL: Key = ()  # ends every span of a rule


class Heard(Protocol):
    """A message that the process received: the event `Received`, whose message is of the class in the pattern."""

    source: Address
    message: Any


class Sent(Protocol):
    """A message that the process sends: the effect `Send`, whose message is of the class in the pattern."""

    to: Address
    message: Any


class Exchange(Struct, frozen=True):
    """A request and its answer; `peer` is the other side."""

    peer: Address
    request: Any
    reply: Any


class Outcome(Struct, frozen=True):
    """An operation and what ZooKeeper answered.

    `alone`: it was the only one of its request; `last`: the process has not asked the same again since, as it does where a watch
    fires before the answer is there. An answer that is not the last may be left unused.
    """

    op: Any
    answer: AnyAnswer
    alone: bool
    last: bool


class OfTimer(Struct, frozen=True):
    """A timer: the effect SetTimer or the event TimerFired. `about` is a broker's id or a partition, "" if nothing."""

    about: str
    timer: Any


class Memory:
    """What rules know of a process: its settings, the event of the turn, requests without an answer, and the facts kept."""

    __slots__ = ("config", "event", "facts", "unanswered")

    def __init__(self, config: BrokerConfig) -> None:
        self.config = config
        self.event: AnyEvent | None = None
        self.unanswered: dict[tuple[Address, int], Any] = {}  # by sender and correlation
        self.facts: dict[str, dict[Any, Any]] = {}

    def of(self, fact: str, key: Any = None, default: Any = None) -> Any:
        """The value that was kept last for a key; `default` if none was."""
        return self.facts[fact].get(key, default)


Keys = Callable[[Any, Memory], Iterable[Any]]


class Pattern(Struct, frozen=True):
    """Items of one kind (`side` and class, or kind of a note) and the keys that they are about."""

    side: str
    of: type | str
    keys: Keys


def _patterns(side: str, classes: tuple[type | str, ...], keys: Keys) -> tuple[Pattern, ...]:
    return tuple(Pattern(side, of, keys) for of in classes)


def heard(*classes: type, keys: Keys) -> tuple[Pattern, ...]:
    """An event of this class, or a message of it; the item is the event (`Received` for a message)."""
    return _patterns("heard", classes, keys)


def sent(*classes: type, keys: Keys) -> tuple[Pattern, ...]:
    """A message that is sent; the item is the effect `Send`."""
    return _patterns("sent", classes, keys)


def answered(*classes: type, keys: Keys) -> tuple[Pattern, ...]:
    """An answer to a request of this class that the process sent; the item is an `Exchange`."""
    return _patterns("answered", classes, keys)


def replied(*classes: type, keys: Keys) -> tuple[Pattern, ...]:
    """An answer of the process to a request of this class; the item is an `Exchange`."""
    return _patterns("replied", classes, keys)


def granted(*classes: type, keys: Keys) -> tuple[Pattern, ...]:
    """An answer of the process without an error to a request of this class; the item is an `Exchange`."""
    return _patterns("granted", classes, keys)


def refused(*classes: type, keys: Keys) -> tuple[Pattern, ...]:
    """An answer of the process with an error to a request of this class; the item is an `Exchange`."""
    return _patterns("refused", classes, keys)


def asked(*classes: type, keys: Keys) -> tuple[Pattern, ...]:
    """An operation that the process asks of ZooKeeper; the item is the operation."""
    return _patterns("asked", classes, keys)


def read(*classes: type, keys: Keys) -> tuple[Pattern, ...]:
    """An operation that ZooKeeper answered; the item is an `Outcome`."""
    return _patterns("read", classes, keys)


def noted(*kinds: str, keys: Keys) -> tuple[Pattern, ...]:
    """A note of one of these kinds; the item is the note."""
    return _patterns("noted", kinds, keys)


def armed(*timers: Timer, keys: Keys) -> tuple[Pattern, ...]:
    """A timer of one of these kinds that is set; the item is an `OfTimer`."""
    return _patterns("armed", timers, keys)


def fired(*timers: Timer, keys: Keys) -> tuple[Pattern, ...]:
    """A timer of one of these kinds that fired; the item is an `OfTimer`."""
    return _patterns("fired", timers, keys)


def did(*classes: type, keys: Keys) -> tuple[Pattern, ...]:
    """Another effect: on a disk, a request to ZooKeeper as a whole; the item is the effect."""
    return _patterns("did", classes, keys)
