"""A history of transactions as columns: one row for each transaction, micro-operation and element read.

A million transactions are judged on these arrays; Python objects are made only for explanations. Micro-operations of a
transaction are adjacent and in order. Reads of transactions of unknown outcome prove nothing and are left out.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from history.errors import HistoryError
from history.foreign.pairing import Paired
from history.foreign.step import UNKNOWN, Call, named, short

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
NEVER = 1 << 62  # the end of a transaction of unknown outcome
NIL = -1
_VALUE_BITS = 31
_LARGEST = 1 << 62  # numpy integers have 64 bits


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The transactions of a history as arrays. Those that certainly failed come last, outside of the dependency graph."""

    calls: tuple[Call, ...]
    count: int  # transactions that may have committed
    process: Ints
    start: Ints
    end: Ints
    transaction: Ints  # of each micro-operation
    key: Ints
    write: Flags
    value: Ints  # of a write, or of a read of a register
    first: Ints  # of a read of a list: index of its first element
    length: Ints  # of a read of a list: number of elements
    elements: Ints
    keys: tuple[Hashable, ...]
    values: "Values"
    odd: tuple[str, ...]  # reads of lists whose value is not a list

    @property
    def ok(self) -> Flags:
        """For each transaction, whether it certainly committed."""
        return self.end < NEVER

    def line(self, transaction: int) -> int:
        """The history's line of the transaction's invocation."""
        return self.calls[transaction].line

    def key_name(self, key: int) -> str:
        """A key as messages name it."""
        return named(self.keys[key])

    def list_of(self, micro: int) -> tuple[int, ...]:
        """Return the elements that one read of a list returned."""
        first = int(self.first[micro])
        return tuple(self.elements[first : first + int(self.length[micro])].tolist())

    def shown(self, values: Sequence[int]) -> str:
        """Format a read's list of values for messages; only the last 12 values if it is longer."""
        words = ", ".join(self.values.name(v) for v in values[-12:])
        return f"[{'… ' if len(values) > 12 else ''}{words}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """Numbers for the values of a history, so that arrays can hold them: one code for each value."""

    least: int
    names: tuple[Hashable, ...] | None

    def given(self, value: int) -> Hashable:
        """Return the value with this code, as the history has it."""
        if value == NIL:
            return None
        return value + self.least if self.names is None else self.names[value]

    def name(self, value: int) -> str:
        """Return the value with this code, formatted for messages."""
        if value == NIL:
            return "nil"
        return str(value + self.least) if self.names is None else short(self.names[value])


def packed(key: Ints, value: Ints) -> Ints:
    """Pack the codes of a key and a value into one number: both are below 2**31, and nil is -1."""
    return (key << 32) + value + 1


def table_of(paired: Paired, writes: str, *, lists: bool) -> Table:
    """Turn a history of transactions into arrays. Raises HistoryError if a call is not a transaction."""
    calls = (*paired.calls, *paired.failed)
    reader = _Reader(writes, lists=lists)
    reader.read(calls)
    processes: dict[Hashable, int] = {}
    count = len(paired.calls)
    raw = [*reader.value, *reader.elements]
    numbers, values = _values_as_numbers(raw)
    split = len(reader.value)
    return Table(
        calls=calls,
        count=count,
        process=np.fromiter((processes.setdefault(c.process, len(processes)) for c in paired.calls), np.int64, count),
        start=np.fromiter((c.start for c in paired.calls), np.int64, count),
        end=np.fromiter((NEVER if c.end is None else c.end for c in paired.calls), np.int64, count),
        transaction=np.array(reader.transaction, np.int64),
        key=np.array(reader.key, np.int64),
        write=np.array(reader.write, np.bool_),
        value=numbers[:split],
        first=np.array(reader.first, np.int64),
        length=np.array(reader.length, np.int64),
        elements=numbers[split:],
        keys=tuple(reader.keys),
        values=values,
        odd=tuple(reader.odd),
    )


class _Reader:
    """Columns as lists while they are filled; `Table` says what they mean. `writes` is the word of a write: append or w."""

    def __init__(self, writes: str, *, lists: bool) -> None:
        self._writes = writes
        self._lists = lists
        self.keys: dict[Hashable, int] = {}
        self.transaction: list[int] = []
        self.key: list[int] = []
        self.write: list[bool] = []
        self.value: list[Hashable] = []
        self.first: list[int] = []
        self.length: list[int] = []
        self.elements: list[Hashable] = []
        self.odd: list[str] = []

    def read(self, calls: Sequence[Call]) -> None:
        """Fill the arrays from the history's transactions. Hot loop: it uses local names only."""
        writes, lists, keys, elements = self._writes, self._lists, self.keys, self.elements
        add_transaction, add_key, add_write = self.transaction.append, self.key.append, self.write.append
        add_value, add_first, add_length = self.value.append, self.first.append, self.length.append
        for number, call in enumerate(calls):
            unknown = call.result is UNKNOWN
            for micro in _checked_micros(call, call.argument if unknown else call.result):
                f, key, value = micro
                write = f == writes
                size = 0
                add_to = len(elements)
                if write:
                    if value is None:
                        raise HistoryError(
                            f"line {call.line}: nil must not be written: it stands for the version before all writes"
                        )
                elif f != "r":
                    raise HistoryError(f"line {call.line}: a micro-operation must be r or {writes}, not {short(f)}")
                elif unknown:
                    continue
                elif lists:
                    if type(value) is tuple and None not in value:
                        elements.extend(value)
                        size = len(value)
                    elif value is not None:
                        self.odd.append(f"line {call.line}: a read must return a list of values, not {short(value)}")
                        continue
                    value = 0  # a placeholder of the type that most values have
                add_transaction(number)
                add_key(keys.setdefault(key, len(keys)))
                add_write(write)
                add_value(value)
                add_first(add_to)
                add_length(size)


def _checked_micros(call: Call, value: Hashable) -> tuple[tuple[Hashable, Hashable, Hashable], ...]:
    """The micro-operations of a transaction, checked. HistoryError if one is not [f key value]."""
    if not isinstance(value, tuple):
        raise HistoryError(f"line {call.line}: a transaction must be a list of [f key value], not {short(value)}")
    for micro in value:
        if not isinstance(micro, tuple) or len(micro) != 3:
            raise HistoryError(f"line {call.line}: a micro-operation must be [f key value], not {short(micro)}")
    return value


def _values_as_numbers(raw: list[Hashable]) -> tuple[Ints, Values]:
    """Values as numbers, and what turns these back: integers in a narrow range keep their order, others are counted."""
    kinds = set(map(type, raw))
    if kinds <= {int, type(None)}:
        present = [v for v in raw if v is not None] if type(None) in kinds else raw
        least, most = (min(present), max(present)) if present else (0, 0)  # type: ignore[type-var]  # all are integers
        assert isinstance(least, int)
        assert isinstance(most, int)
        if most - least < 1 << _VALUE_BITS and least > -_LARGEST and most < _LARGEST:
            nil = least + NIL
            values_given = raw if present is raw else [nil if v is None else v for v in raw]
            return np.array(values_given, np.int64) - least, Values(least=least, names=None)
    names: dict[Hashable, int] = {}
    numbers = [NIL if v is None else names.setdefault(v, len(names)) for v in raw]
    return np.array(numbers, np.int64), Values(least=0, names=tuple(names))
