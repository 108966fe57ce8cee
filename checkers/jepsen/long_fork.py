"""long-fork: all readers see the writes of different transactions in one order (`jepsen.tests.long-fork`).

`write [[:w k v]]` writes a key once, `read [[:r k nil] …]` reads a group of keys. Under snapshot isolation each read shows the
writes up to some moment, so of two reads of a group one has seen all that the other has. Parallel snapshot isolation allows that
each has seen a write which the other has not: a long fork.
"""

from collections import Counter
from collections.abc import Hashable, Iterator
from itertools import pairwise

from checkers.jepsen.found import Finding, Found, Model, Object, Unchecked, reads
from history.errors import HistoryError
from history.foreign.step import UNKNOWN, Call, short

_Micro = tuple[Hashable, Hashable, Hashable]
_Version = tuple[Hashable, Hashable]  # key and value
_Keys = list[Hashable]  # those of one read that had been written


def findings(group: Object) -> Iterator[Finding]:
    """Find long forks, and reads of values that were not written, in all groups of keys."""
    writes = [(call, _micros(call, "w")[0]) for call in group.calls if call.f == "write"]
    aborted = [(call, _micros(call, "w")[0]) for call in group.failed if call.f == "write"]
    counts = Counter(key for _, (_, key, _) in (*writes, *aborted))
    again = frozenset(key for key, count in counts.items() if count > 1)
    if again:
        yield Unchecked(f"keys {short(again)} are written several times, so their versions cannot be told apart")
    reads_told = [(call, _micros(call, "r")) for call in reads(group.calls)]
    yield from _unwritten_reads(reads_told, {micro[1:] for _, micro in writes}, {micro[1:]: call for call, micro in aborted})
    groups: dict[frozenset[Hashable], list[tuple[Call, _Keys]]] = {}
    for call, micros in reads_told:
        keys_seen = [key for _, key, value in micros if value is not None]
        groups.setdefault(frozenset(key for _, key, _ in micros), []).append((call, keys_seen))
    if sum(map(len, groups)) > len(frozenset().union(*groups)):
        yield Unchecked("some reads share a part of their keys only, and are not compared")
    for keys, group_reads in groups.items():
        if not keys & again:
            yield from _forks(group_reads)


def _micros(call: Call, f: str) -> tuple[_Micro, ...]:
    """The micro-operations of a transaction. Raises HistoryError if it has others."""
    value = call.argument if call.result is UNKNOWN else call.result
    parts = value if isinstance(value, tuple) else (None,)
    micros = [
        micro_there for micro_there in parts if isinstance(micro_there, tuple) and len(micro_there) == 3 and micro_there[0] == f
    ]
    if len(micros) < len(parts) or (f == "w" and len(parts) != 1):
        what = "one [:w key value]" if f == "w" else "a list of [:r key value]"
        raise HistoryError(f"line {call.line}: {call.f} must have {what}, not {short(value)}")
    return tuple(micros)


def _unwritten_reads(
    reads_told: list[tuple[Call, tuple[_Micro, ...]]],
    written: set[tuple[Hashable, Hashable]],
    aborted: dict[tuple[Hashable, Hashable], Call],
) -> Iterator[Found]:
    """Reads of values that were not written, or whose write failed."""
    for call, micros in reads_told:
        for _, key, value in micros:
            if value is None or (key, value) in written:
                continue
            words = f"line {call.line} reads {short(value)} of key {short(key)}"
            writer = aborted.get((key, value))
            if writer is None:
                yield Found("phantom-read", (call.line,), f"{words}, which nobody wrote")
            else:
                yield Found("G1a", (writer.line, call.line), f"{words}, whose write in line {writer.line} failed")


def _forks(reads_of_group: list[tuple[Call, _Keys]]) -> Iterator[Found]:
    """Pairs of reads of which each has seen a key that the other has not."""
    # Of reads in the order of what they saw, two neighbours show a fork if any two do.
    ranked = sorted(reads_of_group, key=lambda first: (len(first[1]), first[0].index))
    for (first, less), (second, keys_of_second) in pairwise(ranked):
        missing = [key for key in less if key not in keys_of_second]
        if missing:
            extra = next(key for key in keys_of_second if key not in less)
            words = (
                f"line {first.line} has seen key {short(missing[0])} and not key {short(extra)}, "
                f"line {second.line} key {short(extra)} and not key {short(missing[0])}"
            )
            yield Found("long-fork", (first.line, second.line), words)


MODEL = Model(
    name="long-fork",
    claim="of two reads of a group of keys, one has seen every write that the other has",
    kinds=("long-fork", "phantom-read", "G1a"),
    blind="Real time and the order within processes; keys that are written twice; reads that share a part of their keys only.",
    functions=("write", "read"),
    findings=findings,
    keyed=False,
)
