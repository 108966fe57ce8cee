"""monotonic: values that grow by one transaction after another grow with the timestamps, too (`jepsen.cockroach.monotonic`).

`add` inserts a row `{:val :sts …}` with the largest value plus one and the timestamp of its transaction, and answers that row.
`read` answers all rows by timestamp. The last read is judged: timestamps do not fall, values grow, none is missing that an
addition answered before the read was invoked, and none is there twice. A row that no addition answered is one of an addition of
unknown outcome; more rows than those are phantoms.
"""

from collections import Counter
from collections.abc import Hashable, Iterator
from fractions import Fraction
from itertools import pairwise

from checkers.jepsen.found import Finding, Found, Model, Object, Unchecked, fields, listed, reads, whole
from history.errors import HistoryError
from history.foreign.step import Call, short

_Row = dict[Hashable, Hashable]


def findings(table: Object) -> Iterator[Finding]:
    """Find rows of the last read that are out of order, doubled or unexpected, and additions that it lacks."""
    all_reads = reads(table.calls)
    if not all_reads:
        yield Unchecked("no read certainly returned")
        return
    last = all_reads[-1]
    rows = [fields(last, row, "a row") for row in listed(last, last.result, "the answer to a read")]
    values = [whole(last, row.get("val"), "the :val of a row") for row in rows]
    yield from _rows_out_of_order(last, rows, values)
    added = {whole(call, fields(call, call.result, "a row").get("val"), "the :val of a row"): call for call in _done(table)}
    value_set = set(values)
    for value in sorted(value for value, count in Counter(values).items() if count > 1):
        yield Found("duplicate", (last.line,), f"line {last.line} reads the value {value} more than once")
    for value, call in sorted(added.items()):
        assert call.end is not None
        if value not in value_set and call.end < last.start:
            yield Found("lost", (call.line, last.line), f"line {last.line} lacks {value}, which line {call.line} added")
    perhaps = [call for call in table.calls if call.f == "add" and call.end is None and call.start < (last.end or 0)]
    unadded = sorted(value_set - set(added))
    if len(unadded) > len(perhaps):
        words = f"line {last.line} reads {len(unadded)} values that no addition answered, such as {unadded[-1]}"
        yield Found("phantom-read", (last.line,), f"{words}; {len(perhaps)} additions have an unknown outcome")


def _done(table: Object) -> list[Call]:
    return [call for call in table.calls if call.f == "add" and call.end is not None]


def _rows_out_of_order(last: Call, rows: list[_Row], values: list[int]) -> Iterator[Found]:
    """Timestamps or values that go back in the last read."""
    stamps = [_timestamp(last, row) for row in rows]
    for earlier, later in pairwise(stamps):
        if later < earlier:
            words = f"line {last.line} reads a row of timestamp {short(later)} after one of {short(earlier)}"
            yield Found("timestamps-out-of-order", (last.line,), words)
            break
    for before, after in pairwise(values):
        if after < before:
            yield Found("values-out-of-order", (last.line,), f"line {last.line} reads the value {after} after {before}")
            break


def _timestamp(last: Call, row: _Row) -> int | float | Fraction:
    stamp = row.get("sts")
    if not isinstance(stamp, int | float | Fraction):
        raise HistoryError(f"line {last.line}: the :sts of a row must be a number, not {short(stamp)}")
    return stamp


MODEL = Model(
    name="monotonic",
    claim="rows that were added with the largest value plus one grow by timestamp, and none is lost or doubled",
    kinds=("timestamps-out-of-order", "values-out-of-order", "duplicate", "lost", "phantom-read"),
    blind="Reads before the last one; which addition of unknown outcome added a row.",
    functions=("add", "read"),
    findings=findings,
)
