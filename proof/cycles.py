"""Compares the dependency cycles that the judge of list-append transactions reports with all cycles, by enumeration.

Only histories in which all versions are in a known order are compared. The dependencies follow the definitions, and every cycle
is found and named by Adya's and Elle's rules. A kind is proven by an edge that its cycle must have (ww for G0, wr for G1c, rw for
the others). An edge that proves a stronger kind, or the same kind with fewer time edges, does not prove a weaker one.
G-nonadjacent is a cycle of steps, each a dependency other than rw, or such a dependency followed by an rw (Cerone and Gotsman
2016); it may pass a transaction twice.
"""

import re
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise, product

from checkers.elle.judge import judge
from history.foreign.pairing import Paired
from history.foreign.step import Call
from proof.elle import Tally as Drawn
from proof.elle import histories, is_whole
from proof.isolation import Edge, Objects, dependencies, micros, must_precede, phantoms

KINDS = ("G0", "G1c", "G-single", "G-nonadjacent", "G2-item")
TIMES = ("", "process", "realtime")
_MUST = {"G0": "ww", "G1c": "wr", "G-single": "rw", "G-nonadjacent": "rw", "G2-item": "rw"}
_NAMES = frozenset(kind + (time and f"-{time}") for kind in KINDS for time in TIMES)
_STEP = re.compile(r"line (\d+) before line (\d+), because .*? \((ww|wr|rw|process|realtime)\)(?:; |: a contradiction)")
Cycle = tuple[Edge, ...]


@dataclass(slots=True)
class Tally:
    """Counts: histories on which the judge was compared with its definition, cycles in them, and disagreements."""

    histories: int = 0
    cyclic: int = 0  # of them, those with a cycle
    told: int = 0
    longest: int = 0
    by_kind: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)


def prove(count: int) -> Tally:
    """Compare the cycles that the judge reports with the enumerated ones on `count` histories.

    Skips histories whose version order is not known, or that have other anomalies.
    """
    tally = Tally()
    for history in histories("append", count, Drawn("cycles")):
        if not is_whole(history) or phantoms(history, Objects("append")) or not _is_sound(history) or not _is_in_turns(history):
            continue
        tally.histories += 1
        reported = {
            anomaly.kind: anomaly.words
            for anomaly in judge("list-append", history).anomalies
            if anomaly.kind.split("-p")[0].split("-re")[0] in KINDS
        }
        expected = shortest(_all_dependencies(history))
        tally.told += len(reported)
        tally.cyclic += bool(reported)
        for kind in reported:
            tally.by_kind[kind] = tally.by_kind.get(kind, 0) + 1
        lengths = {kind: len(_STEP.findall(words)) for kind, words in reported.items()}
        tally.longest = max([tally.longest, *lengths.values()])
        if lengths != expected:
            tally.wrong.append(f"reported {lengths}, expected {expected}: {history}")
        false = [step for words in reported.values() for step in _false_steps(words, history)]
        if false:
            tally.wrong.append(f"reported steps that are no dependencies, {false}: {history}")
    return tally


def _is_sound(history: Paired) -> bool:
    """Whether the only anomalies of a history are cycles; others would put the version order in doubt."""
    return all(anomaly.kind in _NAMES | {"lost-update"} for anomaly in judge("list-append", history).anomalies)


def _is_in_turns(history: Paired) -> bool:
    """Whether no transaction appended to a key between two appends of another: then each has one place in the order."""
    keys = {m[1] for call in history.calls for m in micros(call)}
    orders = [[call.index for call in _order_of_appends(history.calls, key)] for key in keys]
    return all(len(set(order)) == len(order) for order in orders)


def _all_dependencies(history: Paired) -> list[Edge]:
    # A transaction of unknown outcome of which no value was read may not have committed.
    """All dependencies (source, target, kind) between transactions that committed, each once, by index."""
    values_read = {(m[1], v) for c in history.calls for m in micros(c) if m[0] == "r" and isinstance(m[2], tuple) for v in m[2]}
    calls = [c for c in history.calls if not c.crashed or any((m[1], m[2]) in values_read for m in micros(c) if m[0] == "append")]
    dependencies_found: list[Edge] = []
    for key in sorted({m[1] for call in calls for m in micros(call)}, key=str):
        dependencies_found.extend(dependencies(calls, _order_of_appends(calls, key), key, Objects("append")))
    for first, second in product(calls, calls):
        if must_precede(first, second, "process"):
            dependencies_found.append((first.index, second.index, "process"))
        if must_precede(first, second, "realtime"):
            dependencies_found.append((first.index, second.index, "realtime"))
    return [edge for edge in dict.fromkeys(dependencies_found) if edge[0] != edge[1]]


def _order_of_appends(calls: Sequence[Call], key: Hashable) -> tuple[Call, ...]:
    """The transactions that appended to the key, in the order of the longest read, unread appends last."""
    longest: tuple[Hashable, ...] = ()
    for call in calls:
        for f, about, value in micros(call):
            if f == "r" and about == key and isinstance(value, tuple) and len(value) > len(longest):
                longest = value
    writer = {m[2]: call for call in calls for m in micros(call) if m[0] == "append" and m[1] == key}
    unread = [value for value in writer if value not in longest]
    order = [writer[value] for value in (*longest, *unread)]
    return tuple(writer for writer, _ in groupby(order))


def all_cycles(edges: Sequence[Edge]) -> Iterator[Cycle]:
    """Every simple cycle of a dependency graph, starting at its lowest node."""
    leaving: dict[int, list[Edge]] = {}
    for edge in edges:
        leaving.setdefault(edge[0], []).append(edge)

    def walk(way: Cycle, start: int, visited: frozenset[int]) -> Iterator[Cycle]:
        for edge in leaving.get(way[-1][1] if way else start, ()):
            if edge[1] == start:
                yield (*way, edge)
            elif edge[1] > start and edge[1] not in visited:
                yield from walk((*way, edge), start, visited | {edge[1]})

    for start in sorted(leaving):
        yield from walk((), start, frozenset({start}))


def apart_cycles(edges: Sequence[Edge]) -> Iterator[Cycle]:
    """Every dependency cycle with more than one rw edge and without two rw edges in a row."""
    plain = [edge for edge in edges if edge[2] != "rw"]
    steps = [(edge,) for edge in plain] + [
        (edge_before, rw) for edge_before in plain for rw in edges if rw[2] == "rw" and rw[0] == edge_before[1]
    ]
    inner: list[Edge] = [(step[0][0], step[-1][1], str(at)) for at, step in enumerate(steps)]
    for way in all_cycles(inner):
        cycle = tuple(edge for _, _, at in way for edge in steps[int(at)])
        if sum(edge[2] == "rw" for edge in cycle) > 1:
            yield cycle


def named(cycle: Cycle) -> tuple[int, int] | None:
    """The name (kind and time edges) of a dependency cycle, as indices in TIMES and KINDS; None for one that proves nothing."""
    kinds = [kind for _, _, kind in cycle]
    time = _time(cycle)
    rw = kinds.count("rw")
    adjacent = any(a == b == "rw" for a, b in pairwise([*kinds, kinds[0]]))
    if rw == 0:
        return (time, 1) if "wr" in kinds else (time, 0) if "ww" in kinds else None
    return (time, 2) if rw == 1 else (time, 4) if adjacent else None


def _time(cycle: Cycle) -> int:
    kinds = {kind for _, _, kind in cycle}
    return 2 if "realtime" in kinds else 1 if "process" in kinds else 0


def shortest(edges: Sequence[Edge]) -> dict[str, int]:
    """For each kind of cycle to be reported, the length of the shortest cycle that proves it."""
    lengths_by_edge: dict[Edge, dict[tuple[int, int], int]] = {}
    cycles = [(named(cycle), cycle) for cycle in all_cycles(edges)]
    cycles.extend(((_time(cycle), 3), cycle) for cycle in apart_cycles(edges))
    for name, cycle in cycles:
        if name is None:
            continue
        for edge in cycle:
            if edge[2] == _MUST[KINDS[name[1]]]:
                lengths = lengths_by_edge.setdefault(edge, {})
                lengths[name] = min(lengths.get(name, len(cycle)), len(cycle))
    found: dict[str, int] = {}
    for lengths in lengths_by_edge.values():
        for (time, kind), length in lengths.items():
            if not any((t, k) != (time, kind) and t <= time and k <= kind for t, k in lengths):
                full = KINDS[kind] + (TIMES[time] and f"-{TIMES[time]}")
                found[full] = min(found.get(full, length), length)
    return found


def _false_steps(words: str, history: Paired) -> list[tuple[str, ...]]:
    """The steps that the judge's words name and that are no dependencies; all of them if they form no cycle."""
    true = {(str(history.calls[a].line), str(history.calls[b].line), kind) for a, b, kind in _all_dependencies(history)}
    steps = _STEP.findall(words)
    joined = all(edge[1] == next_step[0] for edge, next_step in pairwise([*steps, steps[0]]))
    return [step for step in steps if step not in true] or ([] if joined else steps)
