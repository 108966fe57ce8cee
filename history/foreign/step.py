"""A foreign history in one neutral form: a `Step` for each line, and a `Call` for each invocation with its completion.

The models of `checkers.linearizability` and `checkers.elle` see nothing else. Values are plain and hashable: whole numbers, names
as text, tuples, frozen sets, `Pairs` for maps, None for nil, and `Atom` for everything else. The order of steps is the real-time
order: Jepsen writes steps in the order in which they happened, while its clock readings may differ by microseconds.
"""

import re
from collections.abc import Hashable, Sequence
from enum import Enum

from msgspec import Struct

from history.op import OpType


class Atom(Struct, frozen=True, gc=False):
    """A value that is neither nil, a whole number nor a name: equal only to a value of the same kind with the same text.

    EDN compares by `=` of Clojure: `1` and `1.0`, `:a` and `"a"`, `true` and `:true` are different values. A whole number is a
    Python int and a name (the keyword `:a`) is a Python str, because models compare names; everything else is an atom. JSON has
    one kind of number and one kind of text: there numbers are int or float, text is str, and only booleans are atoms.
    """

    kind: str  # string, symbol, character, float, decimal, ratio, boolean, or the tag of a tagged literal: "#inst"
    value: str  # equal for equal values: 1.0M and 1.00M are both "1"

    def __repr__(self) -> str:
        match self.kind:
            case "string":
                return '"' + _HALF.sub(_escaped_half, self.value.translate(_ESCAPES)) + '"'
            case "character":
                return "\\" + _CHARACTERS.get(self.value, self.value)
            case "decimal":
                return f"{self.value}M"
            case _:
                return f"{self.kind} {self.value}" if self.kind.startswith("#") else self.value

    def __str__(self) -> str:
        return self.value if self.kind == "string" else repr(self)


TRUE, FALSE = Atom("boolean", "true"), Atom("boolean", "false")
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "\b": "\\b", "\f": "\\f"})
_HALF = re.compile("[\ud800-\udfff]")  # half of a surrogate pair: JSON can hold it, UTF-8 cannot
_WIDTH = 160  # characters of a value in a message
_CHARACTERS = {"\n": "newline", " ": "space", "\t": "tab", "\r": "return", "\b": "backspace", "\f": "formfeed"}


def _escaped_half(half: re.Match[str]) -> str:
    return f"\\u{ord(half.group()):04x}"


class Pairs(tuple[tuple[Hashable, Hashable], ...]):
    """A map of a history: pairs of key and value, in one order for equal maps. A list of the same pairs is another value."""

    __slots__ = ()
    __hash__ = tuple.__hash__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pairs) and tuple.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other


def map_of(items: Sequence[Hashable]) -> dict[Hashable, Hashable]:
    """The map that is written as these keys and values in turn. ValueError, with what the map has, if it is none."""
    if len(items) % 2:
        raise ValueError("a key without a value")
    fields = dict(zip(items[::2], items[1::2], strict=True))
    if len(fields) * 2 != len(items):
        raise ValueError("one key twice")
    return fields


def pairs_of(items: Sequence[Hashable]) -> Pairs:
    """The same map as a value. ValueError as for `map_of`."""
    pairs = map_of(items).items()
    return Pairs(sorted(pairs, key=_place) if len(pairs) > 1 else pairs)


def _place(pair: tuple[Hashable, Hashable]) -> str:
    return shown(pair[0])


def text_of(value: Hashable) -> str | None:
    """The text of a string, read from EDN or JSON; None if the value is no string."""
    if isinstance(value, Atom):
        return value.value if value.kind == "string" else None
    return value if isinstance(value, str) else None


def as_json(value: Hashable) -> Hashable:
    """A value that was given as EDN, as it would be if it had been read from JSON."""
    match value:
        case Atom(kind="string"):
            return value.value
        case Atom(kind="float"):
            return float(value.value)
        case Pairs():
            return Pairs((as_json(key), as_json(inner)) for key, inner in value)
        case tuple():
            return tuple(map(as_json, value))
        case _:
            return value


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
        case _:
            return repr(value)


def short(value: Hashable) -> str:
    """Format a value as `shown` does, with `…` in the middle of a long one: lists differ at their ends."""
    return _cut(shown(value))


def named(value: Hashable) -> str:
    """Format a value for readers: as `short`, and a name without quotes."""
    name = text_of(value)
    return short(value) if not name or not name.isprintable() else _cut(name)


def _cut(text: str) -> str:
    half = _WIDTH // 2
    return text if len(text) <= _WIDTH else f"{text[:half]} … {text[-half:]}"


def tells(f: str, invoked: Hashable, answered: Hashable) -> bool:
    """Whether the answer of a call that succeeded is worth showing: not if it repeats the question, but nil was read."""
    return answered is not UNKNOWN and (answered != invoked or (invoked is None and f not in ("acquire", "release")))


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
