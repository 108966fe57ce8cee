"""Anomalies of transactions that need no cycle, and the check that a transaction's list reads contain its own appends.

A transaction's read of a key returns what it last read there plus what it appended since, and never a value that it appends
later.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from checkers.elle.table import Table


@dataclass(frozen=True, slots=True)
class Found:
    """An anomaly of transactions that needs no dependency cycle, with the transactions that show it."""

    kind: str
    key: int
    words: str
    transactions: tuple[int, ...]


def sees_itself(table: Table, micros: Sequence[int], is_ambiguous: Callable[[int, int], bool]) -> Iterator[Found]:
    """Check that a transaction's reads of one list contain its own earlier appends and no later ones.

    `is_ambiguous(key, value)`: several transactions appended that value.
    """
    list_held: tuple[int, ...] | None = None  # the last read plus the appends since
    own: tuple[int, ...] = ()
    foreseen: set[int] = set()
    for micro in micros:
        reader, key = int(table.transaction[micro]), int(table.key[micro])
        line = table.line(reader)
        if table.write[micro]:
            value = int(table.value[micro])
            if value in foreseen and not is_ambiguous(key, value):
                words = f"line {line} reads {table.values.name(value)} before appending it"
                yield Found("future-read", key, words, (reader,))
            own = (*own, value)
            list_held = None if list_held is None else (*list_held, value)
            continue
        values = table.list_of(micro)
        if list_held is not None and values != list_held:
            yield Found("internal", key, f"line {line} reads {table.shown(values)} after {table.shown(list_held)}", (reader,))
        elif list_held is None and own and values[-len(own) :] != own:
            words = f"line {line} reads {table.shown(values)} after appending {table.shown(own)}"
            yield Found("internal", key, words, (reader,))
        list_held = values
        foreseen |= set(values) - set(own)
