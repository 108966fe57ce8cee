"""Definitions of isolation levels, decided by enumeration: does some execution at the level explain the reads?

Two families, written from the papers and sharing no code with `checkers.elle`:

- Abstract executions (Cerone, Bernardi, Gotsman 2015): an order of commits (AR), and for each transaction the earlier ones that
  it sees (VIS). Read atomic: any. Parallel snapshot isolation: VIS is transitive, and a writer of a key sees all earlier writers
  of it. Snapshot isolation: VIS is a prefix of AR. Serializable: VIS is AR. Sessions and real time: earlier transactions are
  seen.
- Version orders (Adya 1999): an order of the writers of each key gives the dependencies of each read. PL-1: no cycle of ww, and
  values of aborted transactions may be read; PL-2: none of ww and wr; PL-2+: none with one rw either; PL-3: none at all. Sessions
  and real time add edges.

Transactions of unknown outcome may have committed or not; their reads are unknown. A value that no transaction wrote, whatever
became of it, can only be older than the history: `first_states` has the values that the keys may have had then.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import combinations, pairwise, permutations, product
from typing import Any, NamedTuple

from history.foreign.pairing import Paired
from history.foreign.step import Call

Value = Hashable
Micro = tuple[str, Hashable, Value]


class Objects(NamedTuple):
    """The kind of the keys: the name of their writes, "append" or "w", and their values before the first transaction."""

    writes: str
    initial: Mapping[Hashable, Value] = {}


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
        for some_calls in combinations(perhaps, count):
            yield (*sure, *some_calls)


def must_precede(first: Call, second: Call, time: str) -> bool:
    """Whether transaction `first` must come before `second`; `time` is "" (no order), "process" or "realtime"."""
    if not time or first.end is None or first.end >= second.start:
        return False
    return time == "realtime" or first.process == second.process


def written(call: Call, key: Hashable, of: Objects) -> tuple[Value, ...]:
    """Return the values that a transaction wrote to a key, in order."""
    return tuple(m[2] for m in micros(call) if m[0] == of.writes and m[1] == key)


def empty(of: Objects) -> Value:
    """Return the value that nil stands for: nil for a register, the empty list for a list."""
    return () if of.writes == "append" else None


def after(value_before: Value, new: Sequence[Value], objects: Objects) -> Value:
    """Return the value of a key after these writes."""
    if objects.writes == "append":
        return (*value_before, *new)  # type: ignore[misc]
    return new[-1] if new else value_before


def phantoms(history: Paired, objects: Objects) -> set[tuple[Hashable, Value]]:
    """Return the values, with their keys, that were read and that no transaction wrote."""
    values_shown = {
        (key, value_shown)
        for call in history.calls
        for f, key, value in micros(call)
        if f == "r"
        for value_shown in _values_within(value, objects)
    }
    arguments: list[Any] = [call.argument for call in (*history.calls, *history.failed)]
    return values_shown - {(key, value) for part in arguments for f, key, value in part if f == objects.writes}


def _values_within(value: Value, objects: Objects) -> tuple[Value, ...]:
    """The values that a read shows, as a tuple; none for nil."""
    if value is None:
        return ()
    return value if objects.writes == "append" else (value,)  # type: ignore[return-value]


def first_states(history: Paired, objects: Objects) -> Iterator[dict[Hashable, Value]]:
    """Yield the values that the keys may have had before the first transaction: phantoms that were read, each once in a list."""
    phantoms_read = phantoms(history, objects)
    choices_of: dict[Hashable, list[Value]] = {
        key: [empty(objects)] for key in sorted({key for key, _ in phantoms_read}, key=str)
    }
    for call in history.calls:
        for f, key, value in micros(call):
            if f != "r" or key not in choices_of:
                continue
            values_shown = _values_within(value, objects)
            states = (
                [values_shown[:size] for size in range(1, len(values_shown) + 1)]
                if objects.writes == "append"
                else list(values_shown)
            )
            for state in states:
                parts = state if isinstance(state, tuple) else (state,)
                if (
                    state not in choices_of[key]
                    and len(set(parts)) == len(parts)
                    and all((key, part) in phantoms_read for part in parts)
                ):
                    choices_of[key].append(state)
    for chosen in product(*choices_of.values()):
        yield dict(zip(choices_of, chosen, strict=True))


# --- abstract executions ------------------------------------------------------------------------------------------------


def is_explained(history: Paired, level: str, time: str, objects: Objects) -> bool:
    """Whether some execution at the isolation level explains the reads. `level`: atomic, parallel, snapshot, serial."""
    for chosen in choices(history):
        for order in permutations(chosen):
            places = list(combinations(order, 2))
            if not any(must_precede(second_call, first_call, time) for first_call, second_call in places) and _can_be_completed(
                order, (), level, time, objects
            ):
                return True
    return False


def _can_be_completed(
    order: tuple[Call, ...], sights: tuple[frozenset[int], ...], level: str, time: str, objects: Objects
) -> bool:
    """Whether the order can be completed; `sights`: the places that each of the first transactions sees."""
    at = len(sights)
    if at == len(order):
        return True
    must = frozenset(i for i in range(at) if must_precede(order[i], order[at], time))
    keys = {m[1] for m in micros(order[at]) if m[0] == objects.writes}
    if level in ("parallel", "snapshot"):
        must |= {i for i in range(at) for key in keys if written(order[i], key, objects)}
    for sees in _possible_sights(at, level):
        closed = level != "parallel" or all(sights[i] <= sees for i in sees)
        if (
            must <= sees
            and closed
            and _explains_reads(order, at, sees, objects)
            and _can_be_completed(order, (*sights, sees), level, time, objects)
        ):
            return True
    return False


def _possible_sights(at: int, level: str) -> Iterator[frozenset[int]]:
    """Which earlier transactions the next one may see, at this level."""
    if level == "serial":
        yield frozenset(range(at))
    elif level == "snapshot":
        yield from (frozenset(range(count)) for count in range(at, -1, -1))
    else:
        yield from (frozenset(places) for count in range(at, -1, -1) for places in combinations(range(at), count))


_NEITHER = object()


def _goes_with(value_before: Value, value: Value, whole: Value, of: Objects) -> bool:
    return value_before is not _NEITHER and after(value_before, (value,), of) == whole


def _explains_reads(order: tuple[Call, ...], at: int, sees: frozenset[int], objects: Objects) -> bool:
    """Whether every read of the transaction shows what it sees and its own writes."""
    current: dict[Hashable, Value] = {}
    own: dict[Hashable, tuple[Value, ...]] = {}
    for f, key, value in micros(order[at]):
        if f == "r":
            if key not in current:
                last = max((i for i in sees if written(order[i], key, objects)), default=-1)
                current[key] = _value_after(order[: last + 1], key, objects)
            if current[key] is _NEITHER or current[key] != _plain(value, objects):
                return False
        else:
            own[key] = (*own.get(key, ()), value)
            whole = after(_value_after(order[:at], key, objects), own[key], objects)
            # An append by a transaction that does not see the newest version: its own view and the whole list differ, and no
            # read can match both.
            current[key] = whole if key not in current or _goes_with(current[key], value, whole, objects) else _NEITHER
    return True


def _value_after(order: Sequence[Call], key: Hashable, objects: Objects) -> Value:
    """The value of a key after the writes of these transactions, in this order."""
    version = objects.initial.get(key, empty(objects))
    for call in order:
        version = after(version, written(call, key, objects), objects)
    return version


def _plain(value: Value, of: Objects) -> Value:
    return empty(of) if value is None else value


# --- version orders -----------------------------------------------------------------------------------------------------

Edge = tuple[int, int, str]  # from, to, kind
_KINDS = {"PL-1": ("ww",), "PL-2": ("ww", "wr"), "PL-2+": ("ww", "wr"), "PL-3": ("ww", "wr", "rw")}


def is_ordered(history: Paired, level: str, time: str, objects: Objects) -> bool:
    """Whether version orders exist whose dependencies have no cycle that the isolation level forbids."""
    if not _begins_right(history, objects):
        return False
    for chosen in choices(history):
        keys = sorted({m[1] for call in chosen for m in micros(call)}, key=str)
        aborted = [*history.failed, *(call for call in history.calls if call not in chosen)]
        orders = [list(_version_orders(chosen, key, aborted, level, objects)) for key in keys]
        timed = [(a.index, b.index, time) for a, b in product(chosen, chosen) if must_precede(a, b, time)]
        for picked in product(*orders):
            edges = [edge for order, key in zip(picked, keys, strict=True) for edge in dependencies(chosen, order, key, objects)]
            if not _is_forbidden([*edges, *timed], level):
                return True
    return False


def _begins_right(history: Paired, objects: Objects) -> bool:
    """Whether each read of a list begins with the first list of its key, and each read of a register shows its first value, or
    one that some transaction wrote, whatever became of it.
    """
    phantoms_read = phantoms(history, objects)
    for call in history.calls:
        for f, key, value in micros(call):
            first, values_shown = _values_within(objects.initial.get(key), objects), _values_within(value, objects)
            if f != "r" or (values_shown[: len(first)] == first and objects.writes == "append"):
                continue
            if objects.writes == "append" or (values_shown != first and (not values_shown or (key, value) in phantoms_read)):
                return False
    return True


def _version_orders(
    chosen: Sequence[Call], key: Hashable, aborted: Sequence[Call], level: str, objects: Objects
) -> Iterator[tuple[Call, ...]]:
    """The orders of the writers of a key that its reads allow."""
    writers = [call for call in chosen if written(call, key, objects)]
    arguments: list[Any] = [call.argument for call in aborted]
    dirty = {value for part in arguments for f, about, value in part if (f, about) == (objects.writes, key)}
    for order in permutations(writers):
        if level == "PL-1":  # reads may show any prefix of one order of the written values, and values of aborted transactions
            reads = [value for call in chosen for value in _reads(call, key, objects)]
            if objects.writes == "append":
                reads = [tuple(element for element in value if element not in dirty) for value in reads]
            fits = objects.writes != "append" or any(
                all(value == whole[: len(value)] for value in reads) for whole in _mixed_lists(order, key, objects)
            )
        else:
            fits = all(_read_versions(call, order, key, objects) is not None for call in chosen)
        if fits:
            yield order


def _mixed_lists(order: Sequence[Call], key: Hashable, of: Objects) -> Iterator[tuple[Value, ...]]:
    """The lists that the writers may have left, with each writer's values in any order."""
    for parts in product(*(permutations(written(call, key, of)) for call in order)):
        yield (*_values_within(of.initial.get(key), of), *(value for part in parts for value in part))


def _reads(call: Call, key: Hashable, of: Objects) -> list[Any]:
    return [_plain(m[2], of) for m in micros(call) if m[0] == "r" and m[1] == key]


def _read_versions(call: Call, order: tuple[Call, ...], key: Hashable, objects: Objects) -> list[int] | None:
    """For each read of another's version: how many writers of the order come before. None if a read fits no version.

    After its own writes a transaction may see any stage of these.
    """
    states = [_value_after(order[:count], key, objects) for count in range(len(order) + 1)]
    own_place = order.index(call) if call in order else -1
    versions: list[int] = []
    own: tuple[Value, ...] = ()
    for f, about, value in micros(call):
        if about != key:
            continue
        if f == objects.writes:
            own = (*own, value)
            continue
        value = _plain(value, objects)
        if any(value == after(states[own_place], own[: stage + 1], objects) for stage in range(len(own))):
            continue
        if value not in states or (own_place >= 0 and states.index(value) == own_place + 1):
            return None
        versions.append(states.index(value))
    return versions


def dependencies(chosen: Sequence[Call], order: tuple[Call, ...], key: Hashable, objects: Objects) -> Iterator[Edge]:
    """Return the direct dependencies between transactions through one key, given the order of its writers."""
    for writer, next_writer in pairwise(order):
        yield writer.index, next_writer.index, "ww"
    for call in chosen:
        for count in _read_versions(call, order, key, objects) or ():
            if count:
                yield order[count - 1].index, call.index, "wr"
            if count < len(order):
                yield call.index, order[count].index, "rw"


def _is_forbidden(edges: Sequence[Edge], level: str) -> bool:
    """Whether the edges have a cycle that the level forbids."""
    plain = [(a, b) for a, b, kind in edges if a != b and (kind in _KINDS[level] or kind in ("process", "realtime"))]
    if any(leads(plain, b, a) for a, b in plain):
        return True
    return level == "PL-2+" and any(leads(plain, b, a) for a, b, kind in edges if kind == "rw" and a != b)


def leads(edges: Sequence[tuple[int, int]], start: int, goal: int) -> bool:
    """Whether a path of dependencies leads from transaction `start` to `goal`."""
    visited = {start}
    to_visit = [start]
    while to_visit:
        node = to_visit.pop()
        for a, b in edges:
            if a == node and b not in visited:
                visited.add(b)
                to_visit.append(b)
    return goal in visited
