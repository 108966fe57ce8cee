"""Witnesses about transactions: an order of commits, cycles of dependencies, anomalies that need no cycle.

An order of commits gives the versions of every key; each read must then show a version that its level allows. Each dependency is
read off the micro-operations that it names. The levels are those of Adya's thesis and of Cerone, Bernardi and Gotsman.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any

from history.foreign.step import UNKNOWN, Call
from verifier.certificate import Cycle, Edge, NoVersionOrder, Oddity, Place, TransactionOrder, must

# What each level promises. committed: no read of aborted or intermediate values, no cycle of ww and wr. atomic: a transaction is
# seen whole. updates: none is lost. view: no cycle with one rw. snapshot: none without two rw in a row. serial: none at all.
_VIEW = "committed updates view"
_LEVELS = {
    "read-uncommitted": "",
    "read-committed": "committed",
    "cursor-stability": "committed updates",
    "read-atomic": "committed atomic",
    "update-atomic": "committed atomic updates",
    "consistent-view": _VIEW,
    "parallel-snapshot-isolation": f"{_VIEW} atomic",
    "snapshot-isolation": f"{_VIEW} atomic snapshot",
    "repeatable-read": f"{_VIEW} atomic snapshot serial",
    "serializable": f"{_VIEW} atomic snapshot serial",
}
_TIMES = {"strong-session-": "process", "strong-": "realtime", "strict-": "realtime", "": ""}
_Micro = tuple[str, Any, Any]  # function ("" for a read of unknown answer), key, value
_Pair = tuple[Place, Place]


class Transactions:
    """The transactions of a history, judged by one level. `count`: how many of the calls may have committed."""

    def __init__(self, calls: Sequence[Call], count: int, *, lists: bool, level: str) -> None:
        prefix = next(prefix for prefix in _TIMES if level.startswith(prefix))
        must(level.removeprefix(prefix) in _LEVELS, f"the level {level!r} is not known")
        self._level, self._time = _LEVELS[level.removeprefix(prefix)].split(), _TIMES[prefix]
        self._calls, self._count, self._lists = calls, count, lists
        self._micros = [_micros(call, op < count and call.result is not UNKNOWN, lists=lists) for op, call in enumerate(calls)]
        self._writers: dict[tuple[Any, Any], list[Place]] = {}
        self._shown: set[tuple[Any, Any]] = set()
        for op, micros in enumerate(self._micros):
            for at, (f, key, value) in enumerate(micros):
                if f == "r":
                    self._shown.update((key, one) for one in (value if lists else [value]))
                elif f:
                    self._writers.setdefault((key, value), []).append((op, at))

    def verify(self, witness: TransactionOrder | Cycle | NoVersionOrder | Oddity) -> None:
        """Return if the witness proves that the level is kept, or broken; raise Refused if not."""
        match witness:
            case TransactionOrder():
                self._verify_order(witness.order, witness.snapshots)
            case Cycle():
                self.verify_cycle(witness.edges)
            case NoVersionOrder():
                for case in witness.cases:
                    for first, then in case.assumed:
                        (_, key, _), (_, other, _) = self._last_write(first), self._last_write(then)
                        must(key == other and first[0] != then[0], "an assumption is not about two writes of one key")
                    self.verify_cycle(case.edges, case.assumed)
                must(not _avoidable([frozenset(case.assumed) for case in witness.cases]), "some order has none of the cases")
            case Oddity():
                must(self.shows(witness.name, *witness.at), f"these places do not show {witness.name}, or the level allows it")

    # --- micro-operations

    def _read(self, place: Place) -> _Micro:
        f, key, value = self._micro(place)
        must(f == "r", f"{place} is not a read with a known answer")
        return f, key, value

    def _write(self, place: Place) -> _Micro:
        f, key, value = self._micro(place)
        must(f not in ("", "r") and self._writers[key, value] == [place], f"{place} is not the only write of a value")
        return f, key, value

    def _last_write(self, place: Place) -> _Micro:
        found = self._write(place)
        must(self._is_committed(place[0]), f"{place[0]} may not have committed")
        must(self._lists or self._on(place[0], found[1], "w")[-1] == place, f"{place} is overwritten by its own transaction")
        return found

    def _micro(self, place: Place) -> _Micro:
        op, at = place
        must(0 <= op < len(self._calls) and 0 <= at < len(self._micros[op]), f"there is no micro-operation {place}")
        return self._micros[op][at]

    def _on(self, op: int, key: Any, functions: str = "rw") -> list[Place]:
        """The micro-operations of a transaction on one key: reads with an answer, writes, or both."""
        some = [((op, at), "r" if f == "r" else "w") for at, (f, one, _) in enumerate(self._micros[op]) if f and one == key]
        return [place for place, f in some if f in functions]

    def _has(self, read: _Micro, write: _Micro) -> bool:
        return read[1] == write[1] and (write[2] in read[2] if self._lists else write[2] == read[2])

    def _is_committed(self, op: int) -> bool:
        wrote = [micro[1:] for micro in self._micros[op] if micro[0] not in ("", "r")]
        return op < self._count and (self._calls[op].end is not None or any(one in self._shown for one in wrote))

    # --- cycles

    def verify_cycle(self, edges: Sequence[Edge], assumed: Sequence[_Pair] = ()) -> None:
        """Return if each dependency exists, given the assumed orders of writes, and the level forbids their cycle."""
        for edge, then in zip(edges, (*edges[1:], *edges[:1]), strict=True):
            must(edge.target == then.source, "the dependencies are not a cycle")
            must(self.has_edge(edge, assumed), f"the dependency {edge.kind} of {edge.source} and {edge.target} is not shown")
        kinds = [edge.kind for edge in edges]
        count, apart = kinds.count("rw"), all(pair != ("rw", "rw") for pair in pairwise((*kinds, *kinds[:1])))
        needs = "view" if count == 1 else "snapshot" if count and apart else "serial" if count else "committed"
        allowed = needs not in self._level and (count or "wr" in kinds)
        must({*kinds} & {"ww", "wr", "rw"} and not allowed, "the level allows such a cycle")

    def has_edge(self, edge: Edge, assumed: Sequence[_Pair] = ()) -> bool:
        """Whether a dependency is where it says, given the assumed orders of writes."""
        ends = [place[0] for place in edge.at[:2]]
        if edge.kind in ("process", "realtime"):
            return self._in_time(edge.source, edge.target, edge.kind) and self._time in (edge.kind, "realtime")
        must(ends == [edge.source, edge.target] and edge.source != edge.target, "a dependency is of other operations")
        must(len(edge.at) <= 4, "a dependency names too many places")
        first, then, *proof = edge.at
        if edge.kind == "wr":
            return self._is_committed(first[0]) and self._has(self._read(then), self._write(first))
        late = self._last_write(then)
        early = self._read(first) if edge.kind == "rw" else self._last_write(first)
        if early[1] != late[1]:
            return False
        befores = [(place, then) for place in proof if edge.kind == "rw" and not self._lists and (place, then) in assumed]
        if (first, then) in assumed or any(self._has(early, self._last_write(place)) for place, _ in befores):
            return True
        if self._lists and edge.kind == "rw":
            return not self._has(early, late)
        if self._lists:
            shown = self._read(proof[0])[2] if proof and self._has(self._read(proof[0]), early) else ()
            return early[2] in shown and (late[2] not in shown or shown.index(early[2]) < shown.index(late[2]))
        return self._is_before(first, then, proof)

    def _in_time(self, source: int, target: int, kind: str) -> bool:
        must(0 <= source < self._count and 0 <= target < self._count, "an operation that is not of the history")
        one, two = self._calls[source], self._calls[target]
        return one.end is not None and one.end < two.start and (kind == "realtime" or one.process == two.process)

    def _is_before(self, first: Place, then: Place, proof: Sequence[Place]) -> bool:
        # Whether the version of a register that is written or read at `first` is before the one that is written at `then`.
        (_, key, value), (_, _, late) = self._micro(first), self._micro(then)
        micros = [self._micro(place) for place in proof]
        if not proof or value == late:
            return value != late and (value is None or (key, value) not in self._writers)
        if len(proof) == 1:  # the transaction that wrote the later one had read the earlier one
            found = (proof[0][0], micros[0]) == (then[0], ("r", key, value)) and self._on(then[0], key)[0] == proof[0]
            return found and "committed" in self._level
        (one, _), (two, _) = proof
        found = micros[1] == ("r", key, late) and self._on(two, key)[0] == proof[1]
        if one == two:  # a transaction found the later one, and saw another write of the transaction that wrote the earlier one
            seen = any(micros[0] == ("r", *micro[1:]) for micro in self._micros[first[0]] if micro[0] not in ("", "r"))
            return found and seen and first[0] not in (one, then[0]) and "atomic" in self._level
        left = (self._on(one, key, "w") or self._on(one, key)[:1])[-1:]  # what the transaction left there
        kept = "view" in self._level and self._time != "" and self._in_time(one, two, self._time)
        return kept and left == [proof[0]] and micros[0][1:] == (key, value) and (found or proof[1] == then)

    # --- anomalies without a cycle

    def shows(self, name: str, *at: Place) -> bool:
        """Whether these places show an anomaly of this name, and the level forbids it."""
        match name, at:
            case "G1a", (write, read):
                return self._holds("committed") and write[0] >= self._count and self._has(self._read(read), self._write(write))
            case "G1b", (write, over, read):
                (_, key, value), (_, other, last) = self._write(write), self._read(read)
                later = over[0] == write[0] != read[0] and over[1] > write[1] and self._write(over)[1] == key == other
                return self._holds("committed") and later and (last[-1:] == (value,) if self._lists else last == value)
            case "future-read", (read, write):
                later = read[0] == write[0] and read[1] < write[1]
                return self._holds("committed") and later and self._has(self._read(read), self._write(write))
            case "internal", (read,):
                return self._holds("atomic") and self._contradicts_itself(read)
            case "incompatible-order", (one, two) if self._lists:
                (_, key, value), (_, other, more) = sorted((self._read(one), self._read(two)), key=lambda micro: len(micro[2]))
                return self._holds("committed") and key == other and more[: len(value)] != value
            case "incompatible-order", (one, two, read) if self._lists:
                micros, shown = (self._write(one), self._write(two)), self._read(read)
                torn = self._has(shown, micros[1]) and micros[0][2] not in shown[2][: shown[2].index(micros[1][2])]
                return self._holds("committed") and torn and one[0] == two[0] and one[1] < two[1] and micros[0][1] == micros[1][1]
            case "duplicate-elements", (read,):
                _, key, shown = self._read(read)
                return self._lists and any(shown.count(one) > max(1, len(self._writers.get((key, one), ()))) for one in shown)
            case "lost-update", (read, write, other, over):
                key, same = self._read(read)[1], self._read(read) == self._read(other)
                alone = (
                    read[0] == write[0] != other[0] == over[0] and key == self._last_write(write)[1] == self._last_write(over)[1]
                )
                first = [self._on(place[0], key)[:1] for place in (read, other)] == [[read], [other]]
                return self._holds("updates") and same and alone and first
            case "phantom-read", (read, other):
                return self._is_phantom(self._read(read), self._read(other))
            case "fractured-read", (write, read, missed, other):
                alone = write[0] == missed[0] not in (read[0], other[0]) and read[0] == other[0]
                (_, key, value), (_, same, late) = self._read(other), self._last_write(missed)
                lacks = late not in value if self._lists else value is None or (key, value) not in self._writers
                return (
                    self._holds("atomic") and alone and self._has(self._read(read), self._write(write)) and key == same and lacks
                )
        return False

    def _holds(self, word: str) -> bool:
        return word in self._level

    def _contradicts_itself(self, read: Place) -> bool:
        # Whether a read does not show what its transaction read and wrote there before.
        _, key, value = self._read(read)
        held: tuple[Any, ...] | None = None
        own: tuple[Any, ...] = ()
        for place in self._on(read[0], key):
            if place == read:
                break
            f, _, one = self._micro(place)
            if f == "r":
                held, own = (one,), ()
            else:
                held, own = ((one,) if not self._lists else held and ((*held[0], one),)), (*own, one)
        return held[0] != value if held else self._lists and own != () and value[-len(own) :] != own

    def _is_phantom(self, read: _Micro, other: _Micro) -> bool:
        # Whether a read shows a value that nobody wrote and that was not there before, as the other read shows.
        (_, key, value), (_, same, shown) = read, other
        if not self._lists:
            strange = value is not None and (key, value) not in self._writers
            return key == same and strange and shown != value and (shown is None or (key, shown) not in self._writers)
        unwritten = [(key, one) not in self._writers for one in value]
        if True not in unwritten or key != same:
            return False
        last = len(value) - unwritten[::-1].index(True)  # all up to there would be older than the history
        return not all(unwritten[:last]) or shown[:last] != value[:last] or len({*value[:last]}) < last

    # --- an order of commits

    def _verify_order(self, order: Sequence[int], snapshots: Sequence[int]) -> None:
        place = {op: at for at, op in enumerate(order)}
        must(len(place) == len(order) and place.keys() <= {*range(self._count)}, "an operation is in the order twice, or none")
        missing = [op for op in range(self._count) if self._calls[op].end is not None and op not in place]
        must(not missing, f"operation {missing[:1]} committed and is not in the order")
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
            over += [(key, seen) for key, seen in first.items() if self._micro(self._on(op, key)[0])[0] == "r"]
        must(not self._holds("updates") or len(over) == len({*over}), "two transactions read one version and wrote over it")

    def _verify_time(self, place: dict[int, int], sight: dict[int, int]) -> None:
        # What returned before a transaction was invoked, of its process or of all, committed before what it sees.
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
        # Each read shows at least what is in the past of its transaction: what it has seen there, and what these had seen.
        deep, past = self._holds("view"), dict[int, dict[Any, int]]()
        for at, op in enumerate(order if not self._holds("snapshot") and (deep or self._holds("atomic")) else ()):
            before = {versions.writers[key][seen - 1] for key, seen in shown[op] if seen}
            if deep:
                before |= {versions.writers[key][seen - 1] for key in versions.keys(op) if (seen := versions.own[op, key])}
                before |= {one for one in order[:at] if self._time and self._in_time(one, op, self._time)}
            base: dict[Any, int] = {}
            for key, seen in (item for one in before for item in past[one].items()):
                base[key] = max(seen, base.get(key, 0))
            late = [key for key, seen in shown[op] if seen < base.get(key, 0)]
            must(not late, f"operation {op} does not see a write to key {late[:1]} that is in its past")
            past[op] = {**(base if deep else {}), **{key: versions.own[op, key] + 1 for key in versions.keys(op)}}

    def _reads_of(self, op: int, versions: "_Versions") -> Iterator[tuple[Any, int]]:
        # Each key that a transaction reads from others, with the number of transactions that had written it by then.
        for at, (f, key, value) in enumerate(self._micros[op]):
            if f != "r":
                continue
            own = [self._micro(place)[2] for place in self._on(op, key, "w") if place[1] < at]
            if self._holds("atomic"):
                must(not self._contradicts_itself((op, at)), f"operation {op} contradicts itself about key {key}")
            if not self._level:
                known = [(key, one) for one in ([] if value is None else value if self._lists else [value])]
                must(all(one in self._writers for one in known), f"operation {op} reads what nobody wrote")
                sure = [one for _, one in known if any(writer < self._count for writer, _ in self._writers[key, one])]
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

    def __init__(self, order: Sequence[int], micros: Sequence[Sequence[_Micro]], *, lists: bool) -> None:
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


def _micros(call: Call, known: bool, *, lists: bool) -> tuple[_Micro, ...]:
    given: Any = call.result if known else call.argument
    nil = () if lists else None
    some = tuple((f if known or f != "r" else "", key, nil if value is None else value) for f, key, value in given)
    must(not lists or all(type(value) is tuple for f, _, value in some if f == "r"), "a read of a list that is no list")
    return some


def _avoidable(cases: Sequence[frozenset[_Pair]]) -> bool:
    # Whether some order of each pair of writes makes none of the cases true.
    if not cases or not all(cases):
        return not cases
    one = next(iter(sorted(cases, key=len)[0]))
    for first, then in (one[::-1], one):
        left = [case - {(first, then)} for case in cases if (then, first) not in case]
        if _avoidable(left):
            return True
    return False
