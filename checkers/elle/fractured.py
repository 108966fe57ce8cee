"""Fractured reads: a transaction that sees one write of another and misses a second one (Bailis and others, RAMP, 2014).

Read atomicity is just this beyond read committed (Cerone, Bernardi, Gotsman: who is read from is seen, and of all that are seen
the last is read). Stronger levels forbid it as a cycle with one rw; it is looked for where nothing stronger is promised.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

from checkers.elle.found import Found
from checkers.elle.table import Table

Read = tuple[int, int, int]  # reader, key, and who wrote what it found there; below 0 nobody


def is_asked_for(forbidden: frozenset[str]) -> bool:
    """Whether nothing else that is forbidden covers it."""
    return "fractured-read" in forbidden and "G-single" not in forbidden


def fractured(table: Table, reads: Iterable[Read], missed: Callable[[int, int, int], bool]) -> Iterator[Found]:
    """`missed(reader, key, writer)`: whether the writer wrote the key after what the reader found there."""
    for reader, some in groupby(sorted(reads), key=lambda read: read[0]):
        found = list(some)
        for _, seen, writer in found:
            for _, key, _ in found:
                if writer >= 0 and key != seen and missed(reader, key, writer):
                    one, two = (table.keys[k] for k in (seen, key))
                    words = (
                        f"line {table.line(reader)} sees what line {table.line(writer)} wrote of key {one} and not of key {two}"
                    )
                    yield Found("fractured-read", key, words, (writer, reader))
