"""A foreign history in one neutral form: a `Step` for each line, and a `Call` for each invocation with its completion.

The models of `checkers.linearizability` and `checkers.elle` see nothing else. Values are plain and hashable: numbers, text,
tuples, frozen sets, None for nil, and `Named` for keywords and booleans. The order of steps is the real-time order: Jepsen writes
steps in the order in which they happened, while its clock readings may differ by microseconds.
"""

from collections.abc import Hashable
from enum import Enum
from fractions import Fraction

from msgspec import Struct

from history.op import OpType


class Named(str):
    """A keyword, a symbol or a boolean: text written without quotes. Equal to the text of its name."""

    __slots__ = ()


class Pairs(tuple[tuple[Hashable, Hashable], ...]):
    """A map of a Jepsen history: pairs of key and value, equal to the plain tuple of them. Only the export tells them apart."""

    __slots__ = ()


def shown(value: Hashable) -> str:
    """Format a value of a foreign history for messages, much as EDN: the same text in every run."""
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
    """The result of an operation whose answer was not received."""

    UNKNOWN = "unknown"


UNKNOWN = Unknown.UNKNOWN


class Step(Struct, frozen=True, gc=False):
    """One line of a foreign history: an invocation of a process or its completion."""

    line: int
    process: Hashable
    type: OpType
    f: str
    value: Hashable = None
    key: Hashable = None
    time: int | None = None
    index: int | None = None
    rebalanced: tuple[Hashable, ...] = ()  # keys assigned to or revoked from the process meanwhile
    rewinds: bool = False  # the assignment starts again at the beginning


class Call(Struct, frozen=True, kw_only=True, gc=False):
    """One operation of a foreign history: its positions in the history, what it was asked and what was answered.

    `end` is None where it is unknown whether the operation took effect; it may do so at any time after `start`, or never.
    Operations that certainly failed are not calls.
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
        """True if the outcome of this operation is unknown."""
        return self.end is None
