"""The JSON values of operations of sessions, decoded.

A value of another form tells nothing. Checkers say so, and do not judge what is missing: it may be in there.
"""

from typing import TypeVar

import msgspec
from msgspec import Struct

from checkers.engine.facts import Facts, is_final
from checkers.engine.rows import Call
from checkers.engine.tables import Operations

_ACKS_ALL = -1
_T = TypeVar("_T", bound=Struct)
Placed = dict[str, list[tuple[int | None, str]]]  # by partition: offset (None: not known) and value
Polled = dict[str, list[tuple[int, str]]]


class CommittedRead(Struct, forbid_unknown_fields=True):
    """The answer to a `read-committed`; `end`: every partition was read to its end, and no transaction is open there."""

    records: Polled = {}
    end: bool = False


def is_at_the_end(facts: Facts, call: Call) -> bool:
    """Whether a read is a final one; each is if the history says that it makes none (docs/promise.md VAC-4)."""
    return is_final(facts, call.invoked_ns) or not facts.makes_final_reads


class Reader(Struct):
    """A consumer of committed records: the values that it was given, and its last final read that came to the end."""

    values: set[str] = set()
    ended: Call | None = None


class Readers:
    """The consumers of committed records of a run; each begins at the beginning (docs/promise.md SES-1)."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._clients = len(facts.client_places) or 1 << 62  # one that goes on as another process goes on where it was
        self._readers: dict[int, Reader] = {}

    def take(self, call: Call, read: CommittedRead) -> None:
        """Enter an answer."""
        reader = self._readers.setdefault(call.process % self._clients, Reader())
        reader.values.update(value for placed in read.records.values() for _, value in placed)
        if read.end and is_at_the_end(self._facts, call) and (reader.ended is None or reader.ended.invoked < call.invoked):
            reader.ended = call

    def at_the_end(self) -> list[tuple[Call, set[str]]]:
        """Of each reader that came to the end: its last read that did, and all values that it was given."""
        return [(reader.ended, reader.values) for reader in self._readers.values() if reader.ended is not None]


class Unreadable:
    """Decodes values, and counts those of another form."""

    def __init__(self, checker: str) -> None:
        self._checker = checker
        self._count = 0

    def read(self, text: str | None, form: type[_T]) -> _T | None:
        """The value in this form; None if there is no value, or if it has another form."""
        if text is None:
            return None
        try:
            return msgspec.json.decode(text, type=form)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            self._count += 1
            return None

    def answer(self, call: Call, form: type[_T]) -> _T | None:
        """The value of the call's completion."""
        return self.read(call.rows[0].value if call.rows else None, form)

    def answer_or_question(self, call: Call, form: type[_T]) -> _T | None:
        """The value of the call's completion, or if that has none, of its invocation."""
        answered = bool(call.rows) and call.rows[0].value is not None
        return self.answer(call, form) if answered else self.read(call.asked[0].value if call.asked else None, form)

    @property
    def complaints(self) -> list[str]:
        """What is to be said of values that tell nothing: one line, or none."""
        return [f"{self._checker}: {self._count} answers cannot be read"] if self._count else []


def partition_keys(operations: Operations) -> dict[int, str]:
    """The partition of each row that names one, as "t-0", by index."""
    about = operations.columns("index", "topic", "partition")
    return {index: f"{topic}-{partition}" for index, topic, partition in about if partition is not None}


def is_acknowledged(call: Call) -> bool:
    """Whether a call is a produce that was acknowledged under acks=all."""
    return call.f == "produce" and call.type == "ok" and call.asked[0].acks == _ACKS_ALL
