"""Transactions: calls whose value is a list of micro-operations `[f key value]`, and the order that time gives them."""

from collections.abc import Hashable, Iterator, Sequence

from msgspec import Struct

from history.errors import HistoryError
from history.foreign.pairing import Paired
from history.foreign.step import UNKNOWN, Call

Micro = tuple[str, Hashable, Hashable]


class Transaction(Struct, frozen=True, kw_only=True):
    """One transaction: what it did, as its completion tells; of unknown outcome, what it was asked."""

    number: int
    line: int
    process: Hashable
    micros: tuple[Micro, ...]
    start: int
    end: int | None

    @property
    def known(self) -> bool:
        """Whether it certainly committed."""
        return self.end is not None


class Edge(Struct, frozen=True, kw_only=True):
    """`first` comes before `then`: `kind` is ww, wr, rw, process or realtime, `words` why."""

    first: int
    then: int
    kind: str
    words: str


def transactions_of(paired: Paired, writes: str) -> tuple[list[Transaction], list[Transaction]]:
    """Those that may have committed and those that certainly did not. HistoryError where one is none."""
    return [_read(c, writes) for c in paired.calls], [_read(c, writes) for c in paired.failed]


def _read(call: Call, writes: str) -> Transaction:
    value = call.argument if call.result is UNKNOWN else call.result
    if not isinstance(value, tuple) or not all(isinstance(m, tuple) and len(m) == 3 for m in value):
        raise HistoryError(f"line {call.line}: a transaction is a list of [f key value], not {value!r}")
    for micro in value:
        if micro[0] not in ("r", writes):
            raise HistoryError(f"line {call.line}: {micro[0]!r} is neither r nor {writes}")
    micros = value if call.result is not UNKNOWN else tuple(m for m in value if m[0] != "r")
    return Transaction(
        number=call.index, line=call.line, process=call.process, micros=micros, start=call.start, end=call.end
    )  # fmt: skip


def in_time(transactions: Sequence[Transaction]) -> Iterator[Edge]:
    """Process order, and real-time order without what follows from other edges."""
    last: dict[Hashable, Transaction] = {}
    points = sorted([(t.start, 0, t) for t in transactions] + [(t.end, 1, t) for t in transactions if t.end is not None], key=_at)
    frontier: dict[int, Transaction] = {}  # returned, and followed by none that returned
    before: dict[int, tuple[int, ...]] = {}
    for _, kind, transaction in points:
        if kind == 0:
            if transaction.process in last:
                one = last[transaction.process]
                yield Edge(
                    first=one.number, then=transaction.number, kind="process", words=f"process {one.process} did it before"
                )
            before[transaction.number] = tuple(frontier)
            for one in frontier.values():
                words = f"line {one.line} had returned before line {transaction.line} was invoked"
                yield Edge(first=one.number, then=transaction.number, kind="realtime", words=words)
        else:
            for number in before[transaction.number]:
                frontier.pop(number, None)
            frontier[transaction.number] = transaction
            last[transaction.process] = transaction


def _at(point: tuple[int, int, Transaction]) -> tuple[int, int]:
    return point[0], point[1]
