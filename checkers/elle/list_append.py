"""list-append: `[:append k v]` and `[:r k [v …]]`. A read of a list names all versions before it, so the order is known.

The version order of a key is its longest read. Appends that certainly committed and that nobody read come after all that was
read. Values must be appended once per key; a read value that nobody appended is noted, for a history may be a window of another.
"""

from collections.abc import Hashable, Iterator, Sequence
from itertools import pairwise

from checkers.elle.transactions import Edge, Transaction

WRITES = "append"
Found = tuple[str, str, str, tuple[int, ...]]  # kind, key, words, lines


class ListAppend:
    """What is known of the keys of a history."""

    def __init__(self, committed: Sequence[Transaction], aborted: Sequence[Transaction]) -> None:
        self._transactions = committed
        self._appender: dict[tuple[Hashable, Hashable], Transaction] = {}
        self._aborted = {(k, v): t for t in aborted for f, k, v in t.micros if f == WRITES}
        self.unchecked: list[str] = []
        self.notes: list[str] = []
        self._last: dict[tuple[int, Hashable], Hashable] = {}
        for transaction in committed:
            for f, key, value in transaction.micros:
                if f == WRITES:
                    if self._appender.setdefault((key, value), transaction) is not transaction:
                        self.unchecked.append(f"key {key}: {value!r} is appended twice, so its versions have no names")
                    self._last[transaction.number, key] = value
        self._reads = [(t, k, self._list(t, v), i) for t in committed for i, (f, k, v) in enumerate(t.micros) if f == "r"]
        self._longest: dict[Hashable, tuple[Hashable, ...]] = {}
        for _, key, values, _ in self._reads:
            if len(values) > len(self._longest.get(key, ())):
                self._longest[key] = values

    def _list(self, transaction: Transaction, value: Hashable) -> tuple[Hashable, ...]:
        if value is None:
            return ()
        if not isinstance(value, tuple):
            self.unchecked.append(f"line {transaction.line}: a read of {value!r}, which is no list")
            return ()
        return value

    def anomalies(self) -> Iterator[Found]:
        """What a single read proves."""
        strangers = 0
        for transaction, key, values, at in self._reads:
            where = str(key)
            if len(set(values)) < len(values):
                yield "duplicate-elements", where, f"line {transaction.line} reads {values}", (transaction.line,)
            if self._longest.get(key, ())[: len(values)] != values:
                words = f"line {transaction.line} reads {values}, which is no beginning of {self._longest[key]}"
                yield "incompatible-order", where, words, (transaction.line,)
            for value in values:
                if (key, value) in self._aborted and (key, value) not in self._appender:
                    writer = self._aborted[key, value]
                    words = f"line {transaction.line} reads {value!r}, which line {writer.line} appended and took back"
                    yield "G1a", where, words, (writer.line, transaction.line)
                strangers += (key, value) not in self._appender and (key, value) not in self._aborted
            if values:
                last = self._appender.get((key, values[-1]), transaction)
                if last is not transaction and self._last[last.number, key] != values[-1]:
                    words = f"line {transaction.line} reads {values[-1]!r}, which line {last.line} went on from"
                    yield "G1b", where, words, (last.line, transaction.line)
            yield from self._internal(transaction, key, values, at)
        if strangers:
            self.notes.append(f"{strangers} values were read that nobody here appended")

    def _internal(self, transaction: Transaction, key: Hashable, values: tuple[Hashable, ...], at: int) -> Iterator[Found]:
        """A transaction sees its own past: what it read of the key last, and then what it appended."""
        own: list[Hashable] = []
        for f, k, value in reversed(transaction.micros[:at]):
            if k == key and f == WRITES:
                own.insert(0, value)
            elif k == key:
                own = [*(value if isinstance(value, tuple) else ()), *own]
                if tuple(own) != values:
                    yield "internal", str(key), f"line {transaction.line} reads {values} after {tuple(own)}", (transaction.line,)
                return
        if own and values[-len(own) :] != tuple(own):
            yield (
                "internal",
                str(key),
                f"line {transaction.line} reads {values} after appending {tuple(own)}",
                (transaction.line,),
            )

    def edges(self) -> Iterator[Edge]:
        """ww between neighbours of the version order, wr to readers, rw from readers to the next version."""
        seen = {(key, value) for key, values in self._longest.items() for value in values}
        unread: dict[Hashable, list[tuple[Hashable, Transaction]]] = {}
        for (key, value), writer in self._appender.items():
            if (key, value) not in seen and writer.known:
                unread.setdefault(key, []).append((value, writer))
        for key, values in self._longest.items():
            for one, two in pairwise(values):
                yield from _edge(self._appender.get((key, one)), self._appender.get((key, two)), "ww", key, two)
            for value, writer in unread.get(key, ()):
                yield from _edge(self._appender.get((key, values[-1])), writer, "ww", key, value)
        for transaction, key, values, at in self._reads:
            if any(f == WRITES and k == key for f, k, _ in transaction.micros[:at]):
                continue  # its own append stands between it and the others
            if values:
                yield from _edge(self._appender.get((key, values[-1])), transaction, "wr", key, values[-1])
            longest = self._longest.get(key, ())
            if longest[: len(values)] != values:
                continue
            if len(values) < len(longest):
                after = longest[len(values)]
                yield from _edge(transaction, self._appender.get((key, after)), "rw", key, after)
            else:
                for value, writer in unread.get(key, ()):
                    yield from _edge(transaction, writer, "rw", key, value)


def _edge(first: Transaction | None, then: Transaction | None, kind: str, key: Hashable, value: Hashable) -> Iterator[Edge]:
    if first is None or then is None or first is then:
        return
    did = {"ww": "appended after it", "wr": "read", "rw": "appended, which it did not see,"}[kind]
    yield Edge(first=first.number, then=then.number, kind=kind, words=f"line {then.line} {did} {value!r} of key {key}")
