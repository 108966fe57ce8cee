"""Compares the judge of transactions with the definitions of isolation levels on many small histories.

- The verdict is INVALID if and only if no execution of that level explains the reads, whatever the keys held before the first
  transaction.
- Otherwise it is VALID, but UNKNOWN if a value was read that no transaction wrote, or if no certain transaction read anything.
- In complete histories under strict serializability every reported cycle exists, dependency by dependency, and is as short as any
  cycle of its kind that proves no stronger kind (`proof.cycles`).
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, permutations, product

from checkers.certificates.certify import NoCertificate, certify_transactions
from checkers.elle.consistency import FORBIDS
from checkers.elle.judge import NO_ORDER, judge
from checkers.engine.verdict import Validity
from history.foreign.pairing import Paired
from history.foreign.step import Call
from history.seed import Rng
from proof.isolation import Objects, first_states, is_explained, is_ordered, micros, phantoms
from proof.shapes import shapes
from proof.transactions import drawn, tangled, unread

# Level -> (definition, order that is known besides values).
_BASE = {
    "read-uncommitted": "PL-1", "read-committed": "PL-2", "consistent-view": "PL-2+", "read-atomic": "atomic",
    "parallel-snapshot-isolation": "parallel", "snapshot-isolation": "snapshot", "serializable": "serial",
    "repeatable-read": "serial",
}  # fmt: skip
LEVELS: dict[str, tuple[str, str]] = {name: (kind, "") for name, kind in _BASE.items()}
LEVELS |= {f"strong-session-{name}": (kind, "process") for name, kind in _BASE.items() if f"strong-session-{name}" in FORBIDS}
LEVELS |= {f"strong-{name}": (kind, "realtime") for name, kind in _BASE.items() if f"strong-{name}" in FORBIDS}
LEVELS["strict-serializable"] = ("serial", "realtime")
_NAMES = sorted(LEVELS)
_DRAWS = (tangled, drawn, unread)


@dataclass(slots=True)
class Tally:
    """Counts of the histories on which the judge was compared with its definition.

    `unordered`: impossible, and only because no order of the writes is possible.
    """

    name: str
    possible: int = 0
    impossible: int = 0
    unordered: int = 0
    older: int = 0  # explained only by values that are older than the history
    exhaustive: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        """The number of histories on which the judge of transactions was compared."""
        return self.possible + self.impossible + self.older


def is_possible(history: Paired, consistency: str, objects: Objects) -> bool:
    """Whether the definition of this isolation level allows the history, from these first values of the keys."""
    kind, time = LEVELS[consistency]
    decide = is_ordered if kind.startswith("PL") else is_explained
    return decide(history, kind, time, objects)


# --- every history of two or three transactions with three micro-operations ----------------------------------------------


def every(writes: str, total: int) -> Iterator[Paired]:
    """Yield all histories of `total` micro-operations on two keys in two or three transactions, up to the names of the keys."""
    for sizes in _sizes_of_transactions(total):
        for flat in product(product((True, False), ("x", "y")), repeat=total):
            if flat[0][1] == "y":
                continue  # the same with the keys exchanged
            yield from _histories_filled(writes, sizes, flat)


def _sizes_of_transactions(total: int) -> Iterator[tuple[int, ...]]:
    """Each way to divide the micro-operations among two or three transactions: how many each has."""
    for count in (2, 3):
        for cuts in combinations(range(1, total), count - 1):
            yield tuple(b - a for a, b in zip((0, *cuts), (*cuts, total), strict=True))


def _histories_filled(writes: str, sizes: tuple[int, ...], flat: Sequence[tuple[bool, str]]) -> Iterator[Paired]:
    """All histories of micro-operations on these keys: every answer of each read, every overlap of the transactions."""
    values = {key: [at for at, (write, about) in enumerate(flat) if write and about == key] for key in ("x", "y")}
    answers = {key: list(_possible_answers(writes, held)) for key, held in values.items()}
    options = [[at] if write else answers[key] for at, (write, key) in enumerate(flat)]
    for chosen in product(*options):
        rows = [(writes if write else "r", key, value) for (write, key), value in zip(flat, chosen, strict=True)]
        parts, low = [], 0
        for size in sizes:
            parts.append(tuple(rows[low : low + size]))
            low += size
        for spans in shapes(len(sizes)):
            yield _history_of_transactions(
                [(part, span, process) for process, (part, span) in enumerate(zip(parts, spans, strict=True))]
            )


def _possible_answers(writes: str, held: list[int]) -> Iterator[Hashable]:
    """What a read may answer: nil or one value written; of a list any values written, in any order."""
    if writes != "append":
        yield from (None, *held)
        return
    for count in range(len(held) + 1):
        yield from permutations(held, count)


def _history_of_transactions(rows: list[tuple[Hashable, tuple[int, int], int]]) -> Paired:
    """The history of transactions given as value, (start, end) and process."""
    calls = [
        Call(index=at, line=at + 1, process=process, f="txn", argument=value, result=value, start=start, end=end)
        for at, (value, (start, end), process) in enumerate(rows)
    ]
    return Paired(calls=tuple(calls), failed=(), steps=2 * len(calls))


# --- the comparison -----------------------------------------------------------------------------------------------------


def histories(writes: str, count: int, tally: Tally) -> Iterator[Paired]:
    """Yield `count` histories of transactions: first all short ones, which may fill half, then random ones."""
    total = 2
    while True:
        fresh = list(every(writes, total)) if total < 5 else []
        if not fresh or tally.exhaustive + len(fresh) > count // 2:
            break
        tally.exhaustive += len(fresh)
        yield from fresh
        total += 1
    seen: set[tuple[object, ...]] = set()
    number = 0
    while len(seen) < count - tally.exhaustive:
        number += 1
        history = _DRAWS[number % len(_DRAWS)](Rng(number).fork(writes), writes)
        name = tuple((c.process, c.argument, c.result, c.start, c.end) for c in (*history.calls, *history.failed))
        if name not in seen:
            seen.add(name)
            yield history


def prove(writes: str, count: int, levels: Sequence[str] = _NAMES) -> Tally:
    """Compare the judge of transactions with the definitions on `count` histories, the isolation levels in turn."""
    model = "list-append" if writes == "append" else "rw-register"
    tally = Tally(model)
    for number, history in enumerate(histories(writes, count, tally)):
        consistency = levels[number % len(levels)]
        if consistency.endswith("read-uncommitted") and not is_of_one_order(history):
            consistency = consistency.replace("un", "")  # with unrestricted reads the order of versions is unknown
        firsts = [Objects(writes, first) for first in first_states(history, Objects(writes))]
        has_phantoms = bool(phantoms(history, Objects(writes)))
        explained = any(is_possible(history, consistency, first) for first in firsts)
        possible, older = explained and not has_phantoms, explained and has_phantoms
        tally.possible += possible
        tally.older += older
        tally.impossible += not explained
        found = judge(model, history, (consistency,))
        tally.unordered += any(anomaly.kind == NO_ORDER for anomaly in found.anomalies)
        silent = not any(f == "r" for call in history.calls if not call.crashed for f, _, _ in micros(call))
        right = Validity.INVALID if not explained else Validity.UNKNOWN if has_phantoms or silent else Validity.VALID
        if found.validity is not right:
            tally.wrong.append(f"{found.validity.name}, not {right.name}, under {consistency} ({found.anomalies}): {history}")
        elif right is not Validity.UNKNOWN:
            try:
                certify_transactions(model, history, (consistency,), found)
            except NoCertificate as reason:
                tally.wrong.append(f"{right.name} without a certificate under {consistency} ({reason}): {history}")
    return tally


def is_whole(history: Paired) -> bool:
    """Whether all versions of the lists are in a known order: at most one transaction appended unread values to each key."""
    appended = {(key, value): call for call in history.calls for f, key, value in micros(call) if f == "append"}
    lists = [(key, value) for call in history.calls for f, key, value in micros(call) if f == "r" and isinstance(value, tuple)]
    read = {(key, value) for key, values in lists for value in values}
    unread: dict[Hashable, set[int]] = {}
    for (key, value), call in appended.items():
        if (key, value) not in read:
            if call.crashed:
                return False
            unread.setdefault(key, set()).add(call.index)
    return read - phantoms(history, Objects("append")) <= set(appended) and all(len(some) == 1 for some in unread.values())


def is_of_one_order(history: Paired) -> bool:
    """Whether of any two lists read from a key one is a prefix of the other."""
    read: dict[Hashable, list[tuple[Hashable, ...]]] = {}
    for call in history.calls:
        for f, key, value in micros(call):
            if f == "r" and isinstance(value, tuple):
                read.setdefault(key, []).append(value)
    return all(a[: len(b)] == b[: len(a)] for lists in read.values() for a, b in combinations(lists, 2))
