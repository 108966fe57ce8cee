"""What the models of Jepsen's take and give: the calls of one object, and anomalies or gaps found in them."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from history.errors import HistoryError
from history.foreign.step import Call, Pairs, short


class Object(NamedTuple):
    """The calls on one object (one key of `jepsen.independent`), in order of invocation, and how they are to be judged.

    `initial` is the object's state before the first call, if it was given; `strict`: linearizability was asked for.
    """

    calls: Sequence[Call]  # those that may have taken effect
    failed: Sequence[Call] = ()
    initial: Hashable = None
    strict: bool = False


class Found(NamedTuple):
    """An anomaly: `lines` are the lines of the fewest invocations that show it."""

    kind: str
    lines: tuple[int, ...]
    words: str


class Unchecked(NamedTuple):
    """Something of an object that cannot be judged, and why: the verdict is UNKNOWN at best."""

    words: str


class Note(NamedTuple):
    """A fact for the reader that does not affect the verdict."""

    words: str


Finding = Found | Unchecked | Note


class Model(Struct, frozen=True, kw_only=True):
    """One model of Jepsen's: its functions, the anomalies that it names, and the rule that finds them.

    `answers` are the functions whose answers may be wrong: without one of them nothing was observed. `keyed`: values
    `[key value]` of `jepsen.independent` are objects of their own.
    """

    name: str
    claim: str
    kinds: tuple[str, ...]
    blind: str
    functions: tuple[str, ...]
    answers: tuple[str, ...] = ("read",)
    findings: Callable[[Object], Iterator[Finding]]
    keyed: bool = True


def reads(calls: Sequence[Call], f: str = "read") -> list[Call]:
    """Return the reads that certainly returned, in order of invocation."""
    return [call for call in calls if call.f == f and call.end is not None]


def fields(call: Call, value: Hashable, what: str) -> dict[Hashable, Hashable]:
    """Return a map of a history as a dictionary. HistoryError, with the line, if it is no map."""
    if not isinstance(value, Pairs) and value != ():
        raise HistoryError(f"line {call.line}: {what} must be a map, not {short(value)}")
    return dict(value)


def listed(call: Call, value: Hashable, what: str) -> tuple[Hashable, ...]:
    """Return the values of a list or set of a history. HistoryError, with the line, if it is neither."""
    if not isinstance(value, tuple | frozenset) or isinstance(value, Pairs):
        raise HistoryError(f"line {call.line}: {what} must be a list or a set, not {short(value)}")
    return tuple(value)


def whole(call: Call, value: Hashable, what: str) -> int:
    """Return a whole number of a history. HistoryError, with the line, if it is none."""
    if not isinstance(value, int):
        raise HistoryError(f"line {call.line}: {what} must be a whole number, not {short(value)}")
    return value
