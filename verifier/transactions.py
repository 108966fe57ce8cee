"""Witnesses that transactions break a level: cycles of dependencies, and anomalies that need no cycle.

Each dependency is read off the micro-operations that it names. The levels are those of Adya's thesis and of Cerone, Bernardi and
Gotsman.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from history.foreign.step import UNKNOWN, Call
from verifier.calls import are_micros
from verifier.certificate import Cycle, Edge, NoVersionOrder, Oddity, Place, must

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
Micro = tuple[str, Any, Any]  # function ("" for a read of unknown answer), key, value
_Pair = tuple[Place, Place]


class Transactions:
    """The transactions of a history, judged by one level. `count`: how many of the calls may have committed.

    Unless `timed`, the order in time is known within each process only.
    """

    def __init__(self, calls: Sequence[Call], count: int, *, lists: bool, level: str, timed: bool = True) -> None:
        prefix = next(prefix for prefix in _TIMES if level.startswith(prefix))
        must(level.removeprefix(prefix) in _LEVELS, f"the level {level!r} is not known")
        self._level, self._time = _LEVELS[level.removeprefix(prefix)].split(), _TIMES[prefix]
        self._time = "process" if self._time == "realtime" and not timed else self._time
        self._calls, self._count, self._lists = calls, count, lists
        self._micros = [_micros_of(call, op < count and call.result is not UNKNOWN, lists=lists) for op, call in enumerate(calls)]
        self._writers: dict[tuple[Any, Any], list[Place]] = {}
        self._shown: set[tuple[Any, Any]] = set()
        for op, micros in enumerate(self._micros):
            for at, (f, key, value) in enumerate(micros):
                if f == "r":
                    self._shown.update((key, element) for element in (value if lists else [value]))
                elif f:
                    self._writers.setdefault((key, value), []).append((op, at))

    def verify(self, witness: Cycle | NoVersionOrder | Oddity) -> None:
        """Return if the witness proves that the level is broken; raise Refused if not."""
        match witness:
            case Cycle():
                self.verify_cycle(witness.edges)
            case NoVersionOrder():
                for case in witness.cases:
                    for first, then in case.assumed:
                        (_, key, _), (_, other_key, _) = self._last_write(first), self._last_write(then)
                        must(key == other_key and first[0] != then[0], "an assumption is not about two writes of one key")
                    self.verify_cycle(case.edges, case.assumed)
                must(not _are_avoidable([frozenset(case.assumed) for case in witness.cases]), "some order has none of the cases")
            case Oddity():
                must(self.shows(witness.name, *witness.at), f"these places do not show {witness.name}, or the level allows it")

    # --- micro-operations

    def _read(self, place: Place) -> Micro:
        f, key, value = self._micro(place)
        must(f == "r", f"{place} is not a read with a known answer")
        return f, key, value

    def _write(self, place: Place) -> Micro:
        f, key, value = self._micro(place)
        must(f not in ("", "r") and self._writers[key, value] == [place], f"{place} is not the only write of a value")
        return f, key, value

    def _last_write(self, place: Place) -> Micro:
        found = self._write(place)
        must(self._is_committed(place[0]), f"{place[0]} may not have committed")
        must(
            self._lists or self._places_on(place[0], found[1], "w")[-1] == place, f"{place} is overwritten by its own transaction"
        )
        return found

    def _micro(self, place: Place) -> Micro:
        op, at = place
        must(0 <= op < len(self._calls) and 0 <= at < len(self._micros[op]), f"there is no micro-operation {place}")
        return self._micros[op][at]

    def _places_on(self, op: int, key: Any, functions: str = "rw") -> list[Place]:
        """The micro-operations of a transaction on one key: reads with an answer, writes, or both."""
        some = [((op, at), "r" if f == "r" else "w") for at, (f, one, _) in enumerate(self._micros[op]) if f and one == key]
        return [place for place, f in some if f in functions]

    def _has(self, read: Micro, write: Micro) -> bool:
        return read[1] == write[1] and (write[2] in read[2] if self._lists else write[2] == read[2])

    def _is_committed(self, op: int) -> bool:
        # Where aborted values may be read, a read of its values does not show that a transaction committed.
        wrote = [micro[1:] for micro in self._micros[op] if micro[0] not in ("", "r")] if self._holds("committed") else []
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
        edge_operations = [place[0] for place in edge.at[:2]]
        if edge.kind in ("process", "realtime"):
            must(not edge.at, "an order in time is not shown by places")
            return self._in_time(edge.source, edge.target, edge.kind) and self._time in (edge.kind, "realtime")
        must(edge_operations == [edge.source, edge.target] and edge.source != edge.target, "a dependency is of other operations")
        places = 2 if edge.kind == "wr" or (edge.kind == "rw" and self._lists) else 3 if self._lists else 4
        must(len(edge.at) <= places, "a dependency names too many places")
        first, then, *proof = edge.at
        if edge.kind == "wr":
            return self._is_committed(first[0]) and self._has(self._read(then), self._write(first))
        later_write = self._last_write(then)
        early = self._read(first) if edge.kind == "rw" else self._last_write(first)
        if early[1] != later_write[1]:
            return False
        befores = [(place, then) for place in proof if edge.kind == "rw" and not self._lists and (place, then) in assumed]
        if (first, then) in assumed or any(self._has(early, self._last_write(place)) for place, _ in befores):
            return True
        if self._lists and edge.kind == "rw":
            return not self._has(early, later_write)
        if self._lists:
            shown = self._read(proof[0])[2] if proof and self._has(self._read(proof[0]), early) else ()
            return early[2] in shown and (later_write[2] not in shown or shown.index(early[2]) < shown.index(later_write[2]))
        return self._is_before(first, then, proof)

    def _in_time(self, source: int, target: int, kind: str) -> bool:
        must(0 <= source < self._count and 0 <= target < self._count, "an operation that is not of the history")
        one, two = self._calls[source], self._calls[target]
        return one.end is not None and one.end < two.start and (kind == "realtime" or one.process == two.process)

    def _is_before(self, first: Place, then: Place, proof: Sequence[Place]) -> bool:
        """Whether the version of a register that is written or read at `first` is before the one that is written at `then`."""
        (_, key, value), (_, _, late) = self._micro(first), self._micro(then)
        micros = [self._micro(place) for place in proof]
        if not proof or value == late:
            return value != late and (value is None or (key, value) not in self._writers)
        if len(proof) == 1:  # the transaction that wrote the later one had read the earlier one
            found = (proof[0][0], micros[0]) == (then[0], ("r", key, value)) and self._places_on(then[0], key)[0] == proof[0]
            return found and "committed" in self._level
        (one, _), (two, _) = proof
        found = micros[1] == ("r", key, late) and self._places_on(two, key)[0] == proof[1]
        if one == two:  # a transaction found the later one, and saw another write of the transaction that wrote the earlier one
            seen = any(micros[0] == ("r", *micro[1:]) for micro in self._micros[first[0]] if micro[0] not in ("", "r"))
            return found and seen and first[0] not in (one, then[0]) and "atomic" in self._level
        left = (self._places_on(one, key, "w") or self._places_on(one, key)[:1])[-1:]  # what the transaction left there
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
                first = [self._places_on(place[0], key)[:1] for place in (read, other)] == [[read], [other]]
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
        """Whether a read does not show what its transaction read and wrote there before."""
        _, key, value = self._read(read)
        held: tuple[Any, ...] | None = None
        own: tuple[Any, ...] = ()
        for place in self._places_on(read[0], key):
            if place == read:
                break
            f, _, value_here = self._micro(place)
            if f == "r":
                held, own = (value_here,), ()
            else:
                held, own = ((value_here,) if not self._lists else held and ((*held[0], value_here),)), (*own, value_here)
        return held[0] != value if held else self._lists and own != () and value[-len(own) :] != own

    def _is_phantom(self, read: Micro, read_micro: Micro) -> bool:
        """Whether a read shows a value that nobody wrote and that was not there before, as the other read shows."""
        (_, key, value), (_, same, shown) = read, read_micro
        if not self._lists:
            is_unwritten = value is not None and (key, value) not in self._writers
            return key == same and is_unwritten and shown != value and (shown is None or (key, shown) not in self._writers)
        unwritten = [(key, element) not in self._writers for element in value]
        if True not in unwritten or key != same:
            return False
        last = len(value) - unwritten[::-1].index(True)  # all up to there would be older than the history
        return not all(unwritten[:last]) or shown[:last] != value[:last] or len({*value[:last]}) < last


def _micros_of(call: Call, known: bool, *, lists: bool) -> tuple[Micro, ...]:
    micros: Any = call.result if known else call.argument
    must(are_micros(micros, ("r", "append" if lists else "w")), f"line {call.line} is no transaction of this model")
    nil = () if lists else None
    some = tuple((f if known or f != "r" else "", key, nil if value is None else value) for f, key, value in micros)
    must(not lists or all(type(value) is tuple for f, _, value in some if f == "r"), "a read of a list that is no list")
    return some


def _are_avoidable(cases: Sequence[frozenset[_Pair]]) -> bool:
    """Whether some order of each pair of writes makes none of the cases true."""
    if not cases or not all(cases):
        return not cases
    smallest_case = next(iter(sorted(cases, key=len)[0]))
    for first, then in (smallest_case[::-1], smallest_case):
        left = [case - {(first, then)} for case in cases if (then, first) not in case]
        if _are_avoidable(left):
            return True
    return False
