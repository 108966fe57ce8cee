"""adya-g2: of two inserts that each found no row of a key, at most one commits (`jepsen.tests.adya/g2-checker`).

`insert [key [a b]]` reads, in one transaction, the rows of the key in two tables by a predicate, and inserts row `a` into the
one or row `b` into the other only if it found none. Where two inserts of a key commit, neither saw the other: an anti-dependency
cycle by predicates, Adya's G2, which serializability forbids. An insert that found a row, or was aborted, fails.
"""

from collections.abc import Hashable, Iterator

from checkers.jepsen.found import Finding, Found, Model, Object, Unchecked, reads
from history.errors import HistoryError
from history.foreign.step import Call, short


def findings(tables: Object) -> Iterator[Finding]:
    """Find the keys of which two inserts committed. A key shows nothing unless a second one was answered, too."""
    committed: dict[Hashable, list[Call]] = {}
    for call in reads(tables.calls, "insert"):
        committed.setdefault(_key_of_insert(call), []).append(call)
    tried = {*map(_key_of_insert, tables.failed)}
    if not any(len(calls_of_key) > 1 or key in tried for key, calls_of_key in committed.items()):
        yield Unchecked("no key of which one insert committed and another was answered")
    for key, (first, *others) in committed.items():
        for call in others:
            words = f"line {call.line} inserts a row of key {short(key)}, and so did line {first.line}: neither saw the other's"
            yield Found("G2", (first.line, call.line), words)


def _key_of_insert(call: Call) -> Hashable:
    """The key of an insert. Raises HistoryError for another argument."""
    key, rows = call.key, call.argument
    if isinstance(rows, tuple) and len(rows) == 2 and isinstance(rows[1], tuple):
        key, rows = (rows[0] if key is None else (key, rows[0])), rows[1]
    if not (isinstance(rows, tuple) and len(rows) == 2 and rows.count(None) == 1):
        raise HistoryError(
            f"line {call.line}: an insert must have [key [row nil]] or [key [nil row]], not {short(call.argument)}"
        )
    return key


MODEL = Model(
    name="adya-g2",
    claim="of two inserts of a key that each saw no row of it, at most one commits",
    kinds=("G2",),
    blind="Inserts of unknown outcome; cycles through several keys.",
    functions=("insert",),
    answers=("insert",),
    findings=findings,
    keyed=False,
)
