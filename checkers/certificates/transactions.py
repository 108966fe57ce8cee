"""Witnesses for verdicts on transactions: an order of commits, a cycle, cases of which every order has one, or an anomaly.

The judge says which transactions contradict each other, by which key; the micro-operations that show it are tried until the
verifier accepts some. What it accepts none of is not written.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, product
from typing import Any

import numpy as np

from checkers.elle.cycles import Step, counted
from checkers.elle.found import Found
from checkers.elle.graph import JOIN, NAMES, RW, WR, WW, Edges, components, edges, joined
from checkers.elle.judge import Examination
from checkers.elle.list_append import ListAppend
from checkers.elle.orders import Case, Write
from history.foreign.pairing import Paired
from history.foreign.step import UNKNOWN, shown
from verifier.certificate import Case as CaseOf
from verifier.certificate import Cycle, Edge, NoVersionOrder, Oddity, Place, Refused, TransactionOrder, Witness
from verifier.transactions import Transactions

_Micro = tuple[str, Any, Any]
_PLACES = {  # how many places show an anomaly
    "G1a": (2,),
    "G1b": (3,),
    "future-read": (2,),
    "internal": (1,),
    "incompatible-order": (2, 3),
    "duplicate-elements": (1,),
    "lost-update": (4,),
    "phantom-read": (2,),
}


def commit_order(seen: Examination, level: str) -> TransactionOrder | None:
    """The order of commits in which the level explains every read; None if the dependencies have no such order."""
    used = counted(joined([seen.graph, *_orders_of_versions(seen, level)]), seen.forbidden)
    snapshots = level.endswith("snapshot-isolation") and not level.startswith("parallel")
    serial = level.endswith(("serializable", "repeatable-read"))
    kinds = ~0 if serial or snapshots else ~RW if not level.endswith("read-uncommitted") else ~(RW | WR)
    used = used.where((used.kind & kinds) != 0)
    if snapshots:
        used = _begins_and_commits(used, seen.count, seen.table.count)
    count = 2 * seen.count if snapshots else seen.count
    rank_from_end = -components(used.source, used.target, count)
    if len(np.unique(rank_from_end)) < count:
        return None
    committed_at = np.flatnonzero(_committed_transactions(seen))
    commit = rank_from_end[committed_at + seen.count] if snapshots else rank_from_end[committed_at]
    by_commit = np.argsort(commit)
    order = tuple(seen.numbers[at] for at in committed_at[by_commit].tolist())
    if not snapshots:
        return TransactionOrder(order=order)
    sees = np.searchsorted(commit[by_commit], rank_from_end[committed_at[by_commit]])
    return TransactionOrder(order=order, snapshots=tuple(sees.tolist()))


def _committed_transactions(seen: Examination) -> np.typing.NDArray[np.bool_]:
    """The transactions that certainly committed, and those of unknown outcome of which something was read."""
    table = seen.table
    read = ~table.write & (table.transaction < table.count)
    if isinstance(seen.keys, ListAppend):
        at = np.repeat(np.flatnonzero(read), table.length[read])
        starts = np.cumsum(table.length[read]) - table.length[read]
        offset = np.arange(len(at)) - np.repeat(starts, table.length[read])
        shown_of = {*zip(table.key[at].tolist(), table.elements[table.first[at] + offset].tolist(), strict=True)}
    else:
        shown_of = {*zip(table.key[read].tolist(), table.value[read].tolist(), strict=True)}
    is_committed = table.ok.copy()
    for micro in np.flatnonzero(table.write & (table.transaction < table.count)).tolist():
        is_committed[table.transaction[micro]] |= (int(table.key[micro]), int(table.value[micro])) in shown_of
    return is_committed


def _begins_and_commits(used: Edges, count: int, transactions: int) -> Edges:
    """The same dependencies between the begin of each transaction (its number) and its commit (behind all nodes).

    Each begins before it commits. What depends on a transaction otherwise than by an rw begins after it commits; what overwrites
    what it read commits after it begins. Of a junction one copy leads to begins, the other to commits.
    """
    anti, join = used.kind == RW, used.kind == JOIN
    plain = ~(anti | join)
    own = np.arange(transactions)
    source = [used.source[plain] + count, used.source[anti], used.source[join], used.source[join] + count, own]
    target = [used.target[plain], used.target[anti] + count, used.target[join], used.target[join] + count, own + count]
    return edges(np.concatenate(source), np.concatenate(target), JOIN)


def _orders_of_versions(seen: Examination, level: str) -> Iterator[Edges]:
    """What orders the versions of keys beside the dependencies that the history shows."""
    decided = seen.decision.order
    if decided is not None:
        yield decided
    if isinstance(seen.keys, ListAppend) and "G-single" in seen.forbidden:
        # Appends that nobody read: between knots of dependencies in the order of these, within one as it was decided.
        graph = counted(joined([seen.graph, *([decided] if decided else [])]), seen.forbidden)
        knot = components(graph.source, graph.target, seen.count)
        within = knot if decided is None else components(decided.source, decided.target, seen.count)
        for writes in seen.keys.unordered().keys:
            writers = np.array([write.writer for write in writes])
            writers = writers[np.lexsort((-within[writers], -knot[writers]))]
            yield edges(writers[:-1], writers[1:], WW)
    if level in ("read-atomic", "update-atomic"):
        # Of two writers of a key that one transaction saw, the one whose value it read there is later.
        rows = sorted({(writer, last) for writer, last, _ in _later_writers(seen)})
        source, target = np.array(rows, np.int64).reshape(-1, 2).T
        yield edges(source, target, WW)


def _later_writers(seen: Examination) -> Iterator[tuple[int, int, int]]:
    """Two writers of a key, the later one last, and a transaction that saw both and read the value of the later one there."""
    table = seen.table
    wrote = {*zip(table.transaction[table.write].tolist(), table.key[table.write].tolist(), strict=True)}
    reads: dict[int, list[tuple[int, int]]] = {}
    for reader, key, writer in seen.keys.shown()[0]:
        if writer >= 0:
            reads.setdefault(reader, []).append((key, writer))
    for reader, some in reads.items():
        for (key, last), (_, seen_writer) in product(some, some):
            if seen_writer != last and (seen_writer, key) in wrote:
                yield seen_writer, last, reader


class Contradictions:
    """Makes the witnesses of one INVALID history; `verifier` decides what is one."""

    def __init__(self, seen: Examination, history: Paired, model: str, level: str) -> None:
        calls = (*history.calls, *history.failed)
        self._seen, self._lists = seen, model == "list-append"
        self._verifier = Transactions(calls, len(history.calls), lists=self._lists, level=level, timed=not history.untimed)
        self._answered = {call.index for call in history.calls if call.result is not UNKNOWN}
        values_by_op: list[Any] = [call.result if op in self._answered else call.argument for op, call in enumerate(calls)]
        self._micros: list[Sequence[_Micro]] = values_by_op
        self._by_key: dict[Any, list[Place]] = {}
        for op, micros in enumerate(self._micros):
            for at, (_, key, _) in enumerate(micros):
                self._by_key.setdefault(key, []).append((op, at))

    def all(self) -> Iterator[Witness]:
        """The witnesses of the history, in the order in which the judge tells its anomalies."""
        for found in self._seen.alone:
            yield from self._witnesses_without_cycle(found)
        for _, steps in self._seen.cycles:
            edges = self._edges(steps, ())
            yield from [Cycle(edges=edges)] if edges else []
        cases = [self._case_with_places(case) for case in self._seen.decision.cases]
        if cases and None not in cases:
            yield NoVersionOrder(cases=tuple(case for case in cases if case))

    # --- dependencies

    def _edges(self, steps: Iterable[Step], assumed: Sequence[tuple[Place, Place]]) -> tuple[Edge, ...]:
        made = [self._edge_of_step(step, assumed) for step in steps]
        return () if None in made else tuple(edge for edge in made if edge)

    def _edge_of_step(self, step: Step, assumed: Sequence[tuple[Place, Place]]) -> Edge | None:
        """A step of a cycle as an edge with its places; None if the history does not show it."""
        key = self._seen.table.keys[step.key] if step.kind in (WW, WR, RW) else None
        numbers = self._seen.numbers
        return self._dependency_with_places(numbers[step.source], numbers[step.target], NAMES[step.kind], key, assumed)

    def _dependency_with_places(
        self, source: int, target: int, kind: str, key: Any, assumed: Sequence[tuple[Place, Place]] = ()
    ) -> Edge | None:
        """The dependency with the places that show it; None if none do."""
        timed = kind in ("process", "realtime")
        for at in [()] if timed else self._places_that_show(source, target, kind, key, assumed):
            values = " ".join(shown(self._micro(place)) for place in at)
            edge = Edge(source=source, target=target, kind=kind, at=at, shown=values)  # type: ignore[arg-type]
            try:
                if self._verifier.has_edge(edge, assumed):
                    return edge
            except Refused:
                continue
        return None

    def _places_that_show(
        self, source: int, target: int, kind: str, key: Any, assumed: Sequence[tuple[Place, Place]]
    ) -> Iterator[tuple[Place, ...]]:
        """Candidates of places that may show this dependency, the fewest first; the verifier decides."""
        for first, then in product(self._on(source, key), self._on(target, key)):
            yield first, then
            yield from ((first, then, place) for place, later_value in assumed if later_value == then)
            if kind == "wr":
                continue
            reads = [place for place in self._by_key[key] if self._micro(place)[0] == "r" and place[0] in self._answered]
            if self._lists:
                longest = max(reads, default=None, key=lambda place: len(self._micro(place)[2] or ()))
                yield from [(first, then, longest)] if longest else []
                continue
            yield from ((first, then, place) for place in self._on(target, key))
            early, later_value = (self._micro(place)[2] for place in (first, then))
            left = [place for place in self._by_key[key] if self._micro(place)[2] == early]
            found = [place for place in self._by_key[key] if self._micro(place)[2] == later_value]
            yield from (
                (first, then, first_place, second_place)
                for first_place, second_place in product(left, found)
                if first_place[0] != second_place[0]
            )
            for second_place in found:
                yield from (
                    (first, then, (second_place[0], at), second_place)
                    for at in range(len(self._micros[second_place[0]]))
                    if (second_place[0], at) != second_place
                )

    def _on(self, op: int, key: Any) -> list[Place]:
        return [(op, at) for at, micro in enumerate(self._micros[op]) if micro[1] == key]

    def _micro(self, place: Place) -> _Micro:
        return self._micros[place[0]][place[1]]

    def _case_with_places(self, case: Case) -> CaseOf | None:
        """The case as the verifier reads it; None if the history does not show one of its edges."""
        assumed = tuple((self._place_of_write(first), self._place_of_write(then)) for first, then in case.assumed)
        edges = self._edges(case.cycle, assumed)
        return CaseOf(assumed=assumed, edges=edges) if edges else None

    def _place_of_write(self, write: Write) -> Place:
        """Where the history has this write: its transaction and the number of its last such micro-operation."""
        table = self._seen.table
        own = np.flatnonzero((table.transaction == write.writer) & (table.key == write.key) & table.write)
        at = int(own[table.value[own] == write.value][-1])
        value = table.values.given(int(table.value[at]))
        writer = self._seen.numbers[write.writer]
        micros = enumerate(self._micros[writer])
        return writer, next(
            n for n, (f, key, written_value) in micros if f != "r" and (key, written_value) == (table.keys[write.key], value)
        )

    # --- anomalies without a cycle

    def _witnesses_without_cycle(self, found: Found) -> Iterator[Witness]:
        """Candidates of witnesses for an anomaly that is no cycle of dependencies."""
        key = self._seen.table.keys[found.key]
        ops = [self._seen.numbers[at] for at in found.transactions]
        if found.kind == "cyclic-versions":
            yield from self._cycle_of_writers(ops, key)
        if found.kind == "fractured-read":
            yield from self._witnesses_of_fracture(ops[0], ops[1], key)
        places = [place for op in dict.fromkeys(ops) for place in self._on(op, key)]
        for size in _PLACES.get(found.kind, ()):
            for at in product(places, repeat=size):
                if self._is_accepted(found.kind, at):
                    yield Oddity(name=found.kind, at=at)
                    return

    def _is_accepted(self, kind: str, at: tuple[Place, ...]) -> bool:
        """Whether the verifier accepts these places as proof of the contradiction."""
        try:
            return self._verifier.shows(kind, *at)
        except Refused:
            return False

    def _cycle_of_writers(self, writers: Sequence[int], key: Any) -> Iterator[Witness]:
        """A cycle of ww dependencies among these writers of the key; nothing if the history shows none."""
        later = {
            writer: {
                other_writer: edge
                for other_writer in writers
                if other_writer != writer and (edge := self._dependency_with_places(writer, other_writer, "ww", key))
            }
            for writer in writers
        }
        yield from self._cycle_in(later)

    def _witnesses_of_fracture(self, writer: int, reader: int, key: Any) -> Iterator[Witness]:
        """A fractured read by its places alone, else as a cycle through the writes and reads that other transactions saw."""
        seen = self._all_of(reader)
        wrote = self._all_of(writer)
        for at in product(wrote, seen, self._on(writer, key), self._on(reader, key)):
            if self._is_accepted("fractured-read", at):
                yield Oddity(name="fractured-read", at=at)
                return
        # These levels take no transaction of unknown outcome for aborted: the numbers of the table are those of the history.
        later: dict[int, dict[int, Edge]] = {}
        for seen_writer, last, _ in _later_writers(self._seen):
            for about in {self._micro(place)[1] for place in self._all_of(seen_writer)}:
                edge = (
                    self._dependency_with_places(seen_writer, last, "ww", about)
                    if last not in later.get(seen_writer, {})
                    else None
                )
                if edge:
                    later.setdefault(seen_writer, {})[last] = edge
        for later_reader, about, author in self._seen.keys.shown()[0]:
            edge = (
                self._dependency_with_places(author, later_reader, "wr", self._seen.table.keys[about])
                if author >= 0 and author != later_reader
                else None
            )
            if edge:
                later.setdefault(author, {}).setdefault(later_reader, edge)
        yield from self._cycle_in(later)

    def _all_of(self, op: int) -> list[Place]:
        return [(op, at) for at in range(len(self._micros[op]))]

    def _cycle_in(self, later: dict[int, dict[int, Edge]]) -> Iterator[Witness]:
        """A cycle among these dependencies, as a depth-first search meets it first."""
        done: set[int] = set()
        for begin in later:
            way: list[int] = []
            stack = [(begin, 0)]
            while stack:
                node, depth = stack.pop()
                del way[depth:]
                if node in way:
                    circle = [*way[way.index(node) :], node]
                    yield Cycle(edges=tuple(later[step][next_step] for step, next_step in pairwise(circle)))
                    return
                if node not in done:
                    done.add(node)
                    way.append(node)
                    stack += [(then, depth + 1) for then in later.get(node, ())]
