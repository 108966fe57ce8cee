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
    for reader, reads_of_reader in groupby(sorted(reads), key=lambda read: read[0]):
        reader_reads = list(reads_of_reader)
        for _, seen_key, writer in reader_reads:
            for _, key, _ in reader_reads:
                if writer >= 0 and key != seen_key and missed(reader, key, writer):
                    seen_name, key_name = (table.key_name(k) for k in (seen_key, key))
                    seer, author = table.line(reader), table.line(writer)
                    words = f"line {seer} sees the write of line {author} to key {seen_name} but not its write to key {key_name}"
                    yield Found("fractured-read", key, words, (writer, reader))
