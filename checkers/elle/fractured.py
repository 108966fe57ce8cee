"""Fractured reads: a transaction sees one write of another transaction and misses a second one (Bailis and others, RAMP, 2014).

Forbidding this is what read atomic adds to read committed (Cerone, Bernardi, Gotsman: a transaction that is read from is visible,
and the last visible write is read). Stronger levels forbid it as a cycle with one rw, so it is searched for only if no stronger
level is promised.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

from checkers.elle.found import Found
from checkers.elle.table import Table

Read = tuple[int, int, int]  # reader, key, and the writer of the value that it found there (negative: none)


def is_asked_for(forbidden: frozenset[str]) -> bool:
    """True if the isolation level forbids fractured reads, and no other anomaly that it forbids includes them."""
    return "fractured-read" in forbidden and "G-single" not in forbidden


def fractured(table: Table, reads: Iterable[Read], missed: Callable[[int, int, int], bool]) -> Iterator[Found]:
    """Find the fractured reads: a transaction sees one write of another transaction and misses a second one.

    `missed(reader, key, writer)`: the writer wrote a later version of the key than the reader found.
    """
    for reader, some in groupby(sorted(reads), key=lambda read: read[0]):
        found = list(some)
        for _, seen, writer in found:
            for _, key, _ in found:
                if writer >= 0 and key != seen and missed(reader, key, writer):
                    one, two = (table.key_name(k) for k in (seen, key))
                    seer, author = table.line(reader), table.line(writer)
                    words = f"line {seer} sees the write of line {author} to key {one} but not its write to key {two}"
                    yield Found("fractured-read", key, words, (writer, reader))
