"""Anomalies that need no cycle, and whether a transaction of lists sees itself.

A transaction sees its own past: what it read of a key last, and then what it appended; and never its future.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from checkers.elle.table import Table


@dataclass(frozen=True, slots=True)
class Found:
    """An anomaly that needs no cycle."""

    kind: str
    key: int
    words: str
    transactions: tuple[int, ...]


def sees_itself(table: Table, micros: Sequence[int], is_ambiguous: Callable[[int, int], bool]) -> Iterator[Found]:
    """What one transaction did with one key, in its order. `is_ambiguous(key, value)`: more than one appended that value."""
    held: tuple[int, ...] | None = None  # what it read last and appended since
    own: tuple[int, ...] = ()
    foreseen: set[int] = set()
    for micro in micros:
        reader, key = int(table.transaction[micro]), int(table.key[micro])
        line = table.line(reader)
        if table.write[micro]:
            value = int(table.value[micro])
            if value in foreseen and not is_ambiguous(key, value):
                words = f"line {line} reads {table.values.name(value)} before it appends it"
                yield Found("future-read", key, words, (reader,))
            own = (*own, value)
            held = None if held is None else (*held, value)
            continue
        values = table.list_of(micro)
        if held is not None and values != held:
            yield Found("internal", key, f"line {line} reads {table.shown(values)} after {table.shown(held)}", (reader,))
        elif held is None and own and values[-len(own) :] != own:
            words = f"line {line} reads {table.shown(values)} after appending {table.shown(own)}"
            yield Found("internal", key, words, (reader,))
        held = values
        foreseen |= set(values) - set(own)
