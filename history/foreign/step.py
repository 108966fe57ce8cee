"""The neutral form of a foreign history: steps, one for each line, and calls, a step of invocation with its completion.

A model of `checkers.linearizability` or `checkers.elle` sees nothing else. Values are plain and hashable: numbers, text,
tuples, frozen sets, None for nil, and `Named` for keywords and booleans. The order of steps is the real-time order: Jepsen
writes them down in the order in which they happened, and its clock readings may be microseconds apart from that.
"""

from collections.abc import Hashable
from enum import Enum
from fractions import Fraction

from msgspec import Struct

from history.op import OpType


class Named(str):
    """A keyword, a symbol or a boolean: text that is written without quotes. Equal to the text of its name."""

    __slots__ = ()


class Pairs(tuple[tuple[Hashable, Hashable], ...]):
    """A map: pairs of key and value, equal to the plain tuple of them. Only who writes it down again must tell the two apart."""

    __slots__ = ()


def shown(value: Hashable) -> str:
    """A value as people read it: much as EDN, and the same whatever form the history has and in every run."""
    match value:
        case None:
            return "nil"
        case Pairs():
            return "{" + ", ".join(f"{shown(key)} {shown(inner)}" for key, inner in value) + "}"
        case tuple():
            return "[" + " ".join(map(shown, value)) + "]"
        case frozenset():
            return "#{" + " ".join(sorted(map(shown, value), key=lambda text: (len(text), text))) + "}"
        case Fraction():
            return str(value)
        case _:
            return repr(value)


class Unknown(Enum):
    """What an operation returned that nobody heard of."""

    UNKNOWN = "unknown"


UNKNOWN = Unknown.UNKNOWN


class Step(Struct, frozen=True, gc=False):
    """One line: a process invokes something, or learns what became of it."""

    line: int
    process: Hashable
    type: OpType
    f: str
    value: Hashable = None
    key: Hashable = None
    time: int | None = None
    index: int | None = None
    rebalanced: tuple[Hashable, ...] = ()  # keys that were given to the process, or taken from it, meanwhile
    rewinds: bool = False  # an assignment that begins again at the beginning


class Call(Struct, frozen=True, kw_only=True, gc=False):
    """An operation: when it was invoked, when it returned (positions in the history), what it was asked and answered.

    `end` is None where nobody knows whether it took effect; it may then do so at any time after `start`, or never. Operations
    that certainly failed are no calls.
    """

    index: int  # position among the calls, from 0
    line: int
    process: Hashable = None
    f: str
    key: Hashable = None
    argument: Hashable = None
    result: Hashable = UNKNOWN
    start: int
    end: int | None

    @property
    def crashed(self) -> bool:
        """Whether its outcome is unknown."""
        return self.end is None
