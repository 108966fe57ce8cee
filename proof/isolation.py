"""Definitions of isolation levels, decided by enumeration: does some execution at the level explain the reads?

Two families, written from the papers and sharing no code with `checkers.elle`:

- Abstract executions (Cerone, Bernardi, Gotsman 2015): an order of commits (AR), and for each transaction the earlier ones that
  it sees (VIS). Read atomic: any. Parallel snapshot isolation: VIS is transitive, and a writer of a key sees all earlier writers
  of it. Snapshot isolation: VIS is a prefix of AR. Serializable: VIS is AR. Sessions and real time: earlier transactions are
  seen.
- Version orders (Adya 1999): an order of the writers of each key gives the dependencies of each read. PL-1: no cycle of ww; PL-2:
  none of ww and wr; PL-2+: none with one rw either; PL-3: none at all. Sessions and real time add edges.

Transactions of unknown outcome may have committed or not; their reads are unknown.
"""

from collections.abc import Hashable, Iterator, Sequence
from itertools import combinations, pairwise, permutations, product
from typing import Any

from history.foreign.pairing import Paired
from history.foreign.step import Call

Value = Hashable
Micro = tuple[str, Hashable, Value]


def micros(call: Call) -> tuple[Micro, ...]:
    """Return the micro-operations of a transaction that certainly happened if it committed."""
    shown = call.argument if call.crashed else call.result
    assert isinstance(shown, tuple)
    return tuple(m for m in shown if not (call.crashed and m[0] == "r"))


def choices(history: Paired) -> Iterator[tuple[Call, ...]]:
    """Yield each possible set of committed transactions: the certain ones with any subset of those of unknown outcome."""
    sure = tuple(call for call in history.calls if not call.crashed)
    perhaps = [call for call in history.calls if call.crashed]
    for count in range(len(perhaps) + 1):
        for some in combinations(perhaps, count):
            yield (*sure, *some)


def must_precede(one: Call, two: Call, time: str) -> bool:
    """Whether transaction `one` must come before `two`; `time` is "" (no order), "process" or "realtime"."""
    if not time or one.end is None or one.end >= two.start:
        return False
    return time == "realtime" or one.process == two.process


def written(call: Call, key: Hashable, writes: str) -> tuple[Value, ...]:
    """Return the values that a transaction wrote to a key, in order."""
    return tuple(m[2] for m in micros(call) if m[0] == writes and m[1] == key)


def empty(writes: str) -> Value:
    """Return the value of a key before all writes: nil for a register, the empty list for a list."""
    return () if writes == "append" else None


def after(held: Value, new: Sequence[Value], writes: str) -> Value:
    """Return the value of a key after these writes."""
    if writes == "append":
        return (*held, *new)  # type: ignore[misc]
    return new[-1] if new else held


# --- abstract executions ------------------------------------------------------------------------------------------------


def is_explained(history: Paired, level: str, time: str, writes: str) -> bool:
    """Whether some execution at the isolation level explains the reads. `level`: atomic, parallel, snapshot, serial."""
    for chosen in choices(history):
        for order in permutations(chosen):
            places = list(combinations(order, 2))
            if not any(must_precede(two, one, time) for one, two in places) and _goes_on(order, (), level, time, writes):
                return True
    return False


def _goes_on(order: tuple[Call, ...], seen: tuple[frozenset[int], ...], level: str, time: str, writes: str) -> bool:
    # Whether the order can be completed; `seen`: the places that each of the first transactions sees.
    at = len(seen)
    if at == len(order):
        return True
    must = frozenset(i for i in range(at) if must_precede(order[i], order[at], time))
    keys = {m[1] for m in micros(order[at]) if m[0] == writes}
    if level in ("parallel", "snapshot"):
        must |= {i for i in range(at) for key in keys if written(order[i], key, writes)}
    for sees in _sights(at, level):
        closed = level != "parallel" or all(seen[i] <= sees for i in sees)
        if must <= sees and closed and _shows(order, at, sees, writes) and _goes_on(order, (*seen, sees), level, time, writes):
            return True
    return False


def _sights(at: int, level: str) -> Iterator[frozenset[int]]:
    if level == "serial":
        yield frozenset(range(at))
    elif level == "snapshot":
        yield from (frozenset(range(count)) for count in range(at, -1, -1))
    else:
        yield from (frozenset(some) for count in range(at, -1, -1) for some in combinations(range(at), count))


_NEITHER = object()


def _goes_with(held: Value, value: Value, whole: Value, writes: str) -> bool:
    return held is not _NEITHER and after(held, (value,), writes) == whole


def _shows(order: tuple[Call, ...], at: int, sees: frozenset[int], writes: str) -> bool:
    held: dict[Hashable, Value] = {}
    own: dict[Hashable, tuple[Value, ...]] = {}
    for f, key, value in micros(order[at]):
        if f == "r":
            if key not in held:
                last = max((i for i in sees if written(order[i], key, writes)), default=-1)
                held[key] = _version(order[: last + 1], key, writes)
            if held[key] is _NEITHER or held[key] != _plain(value, writes):
                return False
        else:
            own[key] = (*own.get(key, ()), value)
            whole = after(_version(order[:at], key, writes), own[key], writes)
            # An append by a transaction that does not see the newest version: its own view and the whole list differ, and no
            # read can match both.
            held[key] = whole if key not in held or _goes_with(held[key], value, whole, writes) else _NEITHER
    return True


def _version(order: Sequence[Call], key: Hashable, writes: str) -> Value:
    held = empty(writes)
    for call in order:
        held = after(held, written(call, key, writes), writes)
    return held


def _plain(value: Value, writes: str) -> Value:
    return empty(writes) if value is None else value


# --- version orders -----------------------------------------------------------------------------------------------------

Edge = tuple[int, int, str]  # from, to, kind
_KINDS = {"PL-1": ("ww",), "PL-2": ("ww", "wr"), "PL-2+": ("ww", "wr"), "PL-3": ("ww", "wr", "rw")}


def is_ordered(history: Paired, level: str, time: str, writes: str) -> bool:
    """Whether version orders exist whose dependencies have no cycle that the isolation level forbids."""
    for chosen in choices(history):
        keys = sorted({m[1] for call in chosen for m in micros(call)}, key=str)
        orders = [list(_version_orders(chosen, key, level, writes)) for key in keys]
        timed = [(a.index, b.index, time) for a, b in product(chosen, chosen) if must_precede(a, b, time)]
        for picked in product(*orders):
            edges = [edge for order, key in zip(picked, keys, strict=True) for edge in dependencies(chosen, order, key, writes)]
            if not _is_forbidden([*edges, *timed], level):
                return True
    return False


def _version_orders(chosen: Sequence[Call], key: Hashable, level: str, writes: str) -> Iterator[tuple[Call, ...]]:
    writers = [call for call in chosen if written(call, key, writes)]
    for order in permutations(writers):
        if level == "PL-1":  # reads may show any prefix of one order of the written values
            reads = [value for call in chosen for value in _reads(call, key, writes)]
            fits = writes != "append" or any(
                all(value == whole[: len(value)] for value in reads) for whole in _mixed(order, key, writes)
            )
        else:
            fits = all(_read_versions(call, order, key, writes) is not None for call in chosen)
        if fits:
            yield order


def _mixed(order: Sequence[Call], key: Hashable, writes: str) -> Iterator[tuple[Value, ...]]:
    # The lists that the writers may have left, with each writer's values in any order.
    for parts in product(*(permutations(written(call, key, writes)) for call in order)):
        yield tuple(value for part in parts for value in part)


def _reads(call: Call, key: Hashable, writes: str) -> list[Any]:
    return [_plain(m[2], writes) for m in micros(call) if m[0] == "r" and m[1] == key]


def _read_versions(call: Call, order: tuple[Call, ...], key: Hashable, writes: str) -> list[int] | None:
    # For each read of another's version: how many writers of the order come before. None if a read fits no version.
    #
    # After its own writes a transaction may see any stage of these.
    states = [_version(order[:count], key, writes) for count in range(len(order) + 1)]
    mine = order.index(call) if call in order else -1
    found: list[int] = []
    own: tuple[Value, ...] = ()
    for f, about, value in micros(call):
        if about != key:
            continue
        if f == writes:
            own = (*own, value)
            continue
        value = _plain(value, writes)
        if any(value == after(states[mine], own[: stage + 1], writes) for stage in range(len(own))):
            continue
        if value not in states or (mine >= 0 and states.index(value) == mine + 1):
            return None
        found.append(states.index(value))
    return found


def dependencies(chosen: Sequence[Call], order: tuple[Call, ...], key: Hashable, writes: str) -> Iterator[Edge]:
    """Return the direct dependencies between transactions through one key, given the order of its writers."""
    for one, two in pairwise(order):
        yield one.index, two.index, "ww"
    for call in chosen:
        for count in _read_versions(call, order, key, writes) or ():
            if count:
                yield order[count - 1].index, call.index, "wr"
            if count < len(order):
                yield call.index, order[count].index, "rw"


def _is_forbidden(edges: Sequence[Edge], level: str) -> bool:
    plain = [(a, b) for a, b, kind in edges if a != b and (kind in _KINDS[level] or kind in ("process", "realtime"))]
    if any(leads(plain, b, a) for a, b in plain):
        return True
    return level == "PL-2+" and any(leads(plain, b, a) for a, b, kind in edges if kind == "rw" and a != b)


def leads(edges: Sequence[tuple[int, int]], start: int, goal: int) -> bool:
    """Whether a path of dependencies leads from transaction `start` to `goal`."""
    met, left = {start}, [start]
    while left:
        node = left.pop()
        for a, b in edges:
            if a == node and b not in met:
                met.add(b)
                left.append(b)
    return goal in met
