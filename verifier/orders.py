"""Witnesses that transactions keep a level: an order of commits.

It gives the versions of every key. Each read must show a version that the level allows: at a serial level the newest one, with
snapshots the newest one in the snapshot, else any that the past of the transaction does not rule out.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any

from verifier.certificate import TransactionOrder, must
from verifier.transactions import Micro, Transactions


class Commits(Transactions):
    """The transactions of a history, and whether an order of their commits explains them at one level."""

    def verify_order(self, witness: TransactionOrder) -> None:
        """Return if the order proves that the level is kept; raise Refused if not."""
        order, snapshots = witness.order, witness.snapshots
        place = {op: at for at, op in enumerate(order)}
        must(len(place) == len(order) and place.keys() <= {*range(self._count)}, "an operation is in the order twice, or none")
        missing = [op for op in range(self._count) if self._calls[op].end is not None and op not in place]
        must(not missing, f"operation {missing[:1]} committed and is not in the order")
        must(len(snapshots) in (0, len(order)), "there is not a snapshot for each operation of the order")
        sight = {**place, **dict(zip(order, snapshots, strict=bool(snapshots)))} if self._holds("snapshot") else place
        must(not (snapshots and self._holds("serial")), "the level has no snapshots")
        must(all(0 <= sight[op] <= place[op] for op in order), "a snapshot is later than its commit")
        self._verify_time(place, sight)
        versions = _Versions(order, self._micros, lists=self._lists)
        shown = {op: [*self._reads_of(op, versions)] for op in order}
        must(any(f == "r" for op in order for f, _, _ in self._micros[op]), "nothing was read")
        for op in order:
            for key in versions.keys(op) if self._holds("snapshot") else ():
                must(versions.before(key, sight[op]) == versions.own[op, key], f"operation {op} writes over what it does not see")
            for key, version in shown[op]:
                seen = versions.before(key, sight[op])
                exact = self._holds("snapshot") and version != seen
                must(not exact and (version <= seen or not self._level), f"operation {op} reads a version that it cannot see")
        self._verify_views(order, shown, versions)
        over: list[tuple[Any, int]] = []
        for op in order:
            first = {key: seen for key, seen in reversed(shown[op]) if (op, key) in versions.own}
            over += [(key, seen) for key, seen in first.items() if self._micro(self._places_on(op, key)[0])[0] == "r"]
        must(not self._holds("updates") or len(over) == len({*over}), "two transactions read one version and wrote over it")

    def _verify_time(self, place: dict[int, int], sight: dict[int, int]) -> None:
        """What returned before a transaction was invoked, of its process or of all, committed before what it sees."""
        groups: dict[Any, list[int]] = {}
        for op in place:
            groups.setdefault(self._calls[op].process if self._time == "process" else None, []).append(op)
        for ops in groups.values() if self._time else ():
            done = sorted((end, place[op]) for op in ops if (end := self._calls[op].end) is not None)
            latest = [-1, *accumulate((at for _, at in done), max)]
            for op in ops:
                seen = latest[bisect_left(done, (self._calls[op].start,))]
                must(seen < sight[op], f"operation {op} does not see one that had returned before it was invoked")

    def _verify_views(self, order: Sequence[int], shown: dict[int, list[tuple[Any, int]]], versions: "_Versions") -> None:
        """Each read shows at least what is in the past of its transaction: what it has seen there, and what these had seen."""
        deep, past = self._holds("view"), dict[int, dict[Any, int]]()
        for at, op in enumerate(order if not self._holds("snapshot") and (deep or self._holds("atomic")) else ()):
            before = {versions.writers[key][seen - 1] for key, seen in shown[op] if seen}
            if deep:
                before |= {versions.writers[key][seen - 1] for key in versions.keys(op) if (seen := versions.own[op, key])}
                before |= {operation for operation in order[:at] if self._time and self._in_time(operation, op, self._time)}
            base: dict[Any, int] = {}
            for key, seen in (item for operation in before for item in past[operation].items()):
                base[key] = max(seen, base.get(key, 0))
            late_keys = [key for key, seen in shown[op] if seen < base.get(key, 0)]
            must(not late_keys, f"operation {op} does not see a write to key {late_keys[:1]} that is in its past")
            past[op] = {**(base if deep else {}), **{key: versions.own[op, key] + 1 for key in versions.keys(op)}}

    def _reads_of(self, op: int, versions: "_Versions") -> Iterator[tuple[Any, int]]:
        """Each key that a transaction reads from others, with the number of transactions that had written it by then."""
        for at, (f, key, value) in enumerate(self._micros[op]):
            if f != "r":
                continue
            own = [self._micro(place)[2] for place in self._places_on(op, key, "w") if place[1] < at]
            if self._holds("atomic"):
                must(not self._contradicts_itself((op, at)), f"operation {op} contradicts itself about key {key}")
            if not self._level:
                known = [(key, one) for one in ([] if value is None else value if self._lists else [value])]
                must(all(one in self._writers for one in known), f"operation {op} reads what nobody wrote")
                sure = [one for _, one in known if any((writer, key) in versions.own for writer, _ in self._writers[key, one])]
                must(not self._lists or versions.fits(key, sure), f"operation {op} reads another order")
                continue
            seen = versions.shown(key, value)
            begun = versions.marks[key][versions.own[op, key]] if self._lists and own else 0
            is_own = seen is not None and begun < len(value) <= begun + len(own) if self._lists and own else value in own
            must(is_own or seen not in (None, -1, versions.own.get((op, key), -3) + 1), f"operation {op} reads no version")
            if not is_own and seen is not None:
                yield key, seen


class _Versions:
    """The versions of each key, if transactions commit in this order: after how many of its writers, and what it holds."""

    def __init__(self, order: Sequence[int], micros: Sequence[Sequence[Micro]], *, lists: bool) -> None:
        self._lists = lists
        self.writers, self.places, self.whole, self.marks = (
            defaultdict[Any, Any](kind) for kind in (list, list, list, lambda: [0])
        )
        self.own: dict[tuple[int, Any], int] = {}  # of a transaction and a key: how many had written it before
        self._numbers: dict[tuple[Any, Any], int] = {}
        self._keys: dict[int, list[Any]] = {}
        self._longest: dict[Any, list[Any]] = {}
        for at, op in enumerate(order):
            wrote: dict[Any, list[Any]] = {}
            for f, key, value in micros[op]:
                if f not in ("", "r"):
                    wrote.setdefault(key, []).append(value)
            self._keys[op] = [*wrote]
            for key, values in wrote.items():
                self.own[op, key] = len(self.writers[key])
                self.writers[key].append(op)
                self.places[key].append(at)
                self.whole[key] += values
                self.marks[key].append(len(self.whole[key]))
                must(lists or (key, values[-1]) not in self._numbers, f"a value is written twice to key {key}")
                self._numbers[key, len(self.whole[key]) if lists else values[-1]] = len(self.writers[key])

    def keys(self, op: int) -> list[Any]:
        """The keys that a transaction wrote."""
        return self._keys[op]

    def before(self, key: Any, sight: int) -> int:
        """How many had written a key among the first `sight` transactions."""
        return bisect_left(self.places[key], sight)

    def fits(self, key: Any, shown: list[Any]) -> bool:
        """Whether a list shows the writers of a key in this order, the values of each in any order that all reads have."""
        longest = self._longest.setdefault(key, shown)
        self._longest[key] = max(longest, shown, key=len)
        grouped = all({*shown[low:high]} <= {*self.whole[key][low:high]} for low, high in pairwise(self.marks[key]))
        return (
            grouped and all(one == two for one, two in zip(longest, shown, strict=False)) and len(shown) <= len(self.whole[key])
        )

    def shown(self, key: Any, value: Any) -> int | None:
        """The version that a read shows: after how many of its writers; None if none, -1 within the list of one."""
        if not self._lists:
            return 0 if value is None else self._numbers.get((key, value))
        fits = self.whole[key][: len(value)] == [*value]
        return (self._numbers.get((key, len(value)), -1) if value else 0) if fits else None
