"""rw-register: `[:w k v]` and `[:r k v]`. Values are written once per key; nil is the first version.

Version order is known in part: nil is before everything, and what a transaction wrote comes after what it read before. That is
less than list-append says, so fewer anomalies can be seen. A read value that nobody wrote is noted, for a history may be a
window of another.
"""

from collections.abc import Hashable, Iterator, Sequence

from checkers.elle.list_append import Found
from checkers.elle.transactions import Edge, Transaction

WRITES = "w"


class RwRegister:
    """What is known of the keys of a history."""

    def __init__(self, committed: Sequence[Transaction], aborted: Sequence[Transaction]) -> None:
        self._transactions = committed
        self._aborted = {(k, v): t for t in aborted for f, k, v in t.micros if f == WRITES}
        self._writer: dict[tuple[Hashable, Hashable], Transaction] = {}
        self._writes: dict[Hashable, list[tuple[Hashable, Transaction]]] = {}
        self._last: dict[tuple[int, Hashable], Hashable] = {}
        self.unchecked: list[str] = []
        self.notes: list[str] = []
        for transaction in committed:
            for f, key, value in transaction.micros:
                if f == WRITES:
                    if self._writer.setdefault((key, value), transaction) is not transaction:
                        self.unchecked.append(f"key {key}: {value!r} is written twice, so its versions have no names")
                    self._last[transaction.number, key] = value
            for key in {k: None for f, k, _ in transaction.micros if f == WRITES}:
                self._writes.setdefault(key, []).append((self._last[transaction.number, key], transaction))
        self._outer = [(t, key, value) for t in committed for key, value in _outer_reads(t)]

    def anomalies(self) -> Iterator[Found]:
        """What a single read proves."""
        strangers = 0
        for transaction, key, value in self._outer:
            if value is None:
                continue
            writer = self._writer.get((key, value))
            lost = self._aborted.get((key, value))
            if writer is None and lost is not None:
                words = f"line {transaction.line} reads {value!r}, which line {lost.line} wrote and took back"
                yield "G1a", str(key), words, (lost.line, transaction.line)
            elif writer is None:
                strangers += 1
            elif writer is not transaction and self._last[writer.number, key] != value:
                words = f"line {transaction.line} reads {value!r}, which line {writer.line} wrote over"
                yield "G1b", str(key), words, (writer.line, transaction.line)
        for transaction in self._transactions:
            held: dict[Hashable, Hashable] = {}
            for f, key, value in transaction.micros:
                if f == "r" and key in held and held[key] != value:
                    words = f"line {transaction.line} reads {value!r} after {held[key]!r}"
                    yield "internal", str(key), words, (transaction.line,)
                held[key] = value
        if strangers:
            self.notes.append(f"{strangers} values were read that nobody here wrote")

    def edges(self) -> Iterator[Edge]:
        """wr to readers; ww and rw as far as the version order is known."""
        readers: dict[tuple[Hashable, Hashable], list[Transaction]] = {}
        for transaction, key, value in self._outer:
            readers.setdefault((key, value), []).append(transaction)
            writer = self._writer.get((key, value))
            if writer is not None and writer is not transaction:
                yield _edge(writer, transaction, "wr", f"read {value!r} of key {key}")
        for key, writes in self._writes.items():
            for reader in readers.get((key, None), ()):
                for value, writer in writes:
                    # Written values are seen by nobody who reads nil, if they were written at all.
                    if writer is not reader and (writer.known or (key, value) in readers):
                        yield _edge(reader, writer, "rw", f"wrote {value!r} of key {key}, which was nil to it")
        for transaction, key, value in self._outer:
            if (transaction.number, key) not in self._last or value is None:
                continue
            before = self._writer.get((key, value))
            if before is not None and before is not transaction:
                yield _edge(before, transaction, "ww", f"read {value!r} of key {key} and wrote over it")
            for reader in readers[key, value]:
                if reader is not transaction:
                    yield _edge(reader, transaction, "rw", f"wrote over {value!r} of key {key}, which it had read")


def _outer_reads(transaction: Transaction) -> Iterator[tuple[Hashable, Hashable]]:
    touched: set[Hashable] = set()
    for f, key, value in transaction.micros:
        if f == "r" and key not in touched:
            yield key, value
        touched.add(key)


def _edge(first: Transaction, then: Transaction, kind: str, words: str) -> Edge:
    return Edge(first=first.number, then=then.number, kind=kind, words=f"line {then.line} {words}")
