"""Decide the orders of writes that no read shows: is there one without a forbidden cycle of dependencies?

For a key each pair of writes of unknown order is a choice, as in PolySI (Huang and others, 2023) and Viper (Zhang and others,
2023): one order adds a ww edge, and an rw edge from each reader of the earlier write. The choices are not tried one by one:

1. Guess: the writes of each key stand in one topological order of the known graph, the one nearest to the order of time.
2. Search the graph with the guessed edges for forbidden cycles. If there is none, these orders explain the history.
3. Otherwise each cycle excludes the pairs that it assumes. A cycle with one assumed pair forces that pair. A SAT solver chooses
   an order of all pairs met so far that no cycle excludes. If these alone make no cycle, the others are guessed, as in 1.

If the solver finds no such order, the excluded combinations are a proof: a minimal set of them is kept, and each has its cycle.
Nothing is searched where the orders cannot matter: at levels that allow every cycle with an rw; and where nobody read the writes,
outside of the cycles that the known graph has and the level allows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from pysat.formula import WCNF
from pysat.solvers import Solver

from checkers.elle.cycles import Step, counted, many_cycles
from checkers.elle.graph import RW, WW, Edges, components, joined
from checkers.elle.table import NEVER, Ints, Table

WORK_MAX = 30_000_000  # default budget, in edges visited
_ROUND = 8  # edges of the graph whose components are found in the time of a visit
_CONFLICT = 20  # visits in the time of a conflict of the solver
_SOLVER = "minisat22"


class Write(NamedTuple):
    """The last write of a transaction to a key, with the transactions that read its version."""

    key: int
    value: int
    writer: int
    readers: tuple[int, ...] = ()


Pair = tuple[Write, Write]  # the first is the earlier one


@dataclass(frozen=True, slots=True, kw_only=True)
class Unordered:
    """The writes of each key whose order is not known entirely, and the pairs of neighbours whose order is known."""

    keys: Sequence[Sequence[Write]]
    known: frozenset[Pair] = frozenset()


def within_knots(unordered: Unordered, knots: Edges, count: int) -> Unordered:
    """Return the writes whose order matters where nobody read them, so that an order adds only ww edges.

    `knots`: the edges within strongly connected components of the known graph. Writes of two components stand in a topological
    order of the components; no cycle leaves a component then, and only the writes within one are left.
    """
    labels = components(knots.source, knots.target, count)
    parts: dict[tuple[int, int], list[Write]] = {}
    for writes in unordered.keys:
        for write in writes:
            parts.setdefault((write.key, int(labels[write.writer])), []).append(write)
    return Unordered(keys=[part for part in parts.values() if len(part) > 1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A cycle of dependencies that exists if these pairs of writes are in this order."""

    assumed: tuple[Pair, ...]
    cycle: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Whether some order of the writes makes no forbidden cycle.

    `cases`: if none does, a minimal set of cycles of which every order has one. `undecided`: the number of pairs of writes on
    cycles, if the budget was too small. `order`: if one does, the dependencies that it adds.
    """

    cases: tuple[Case, ...] = ()
    undecided: int = 0
    order: Edges | None = None


def decide(
    unordered: Unordered, known: Edges, count: int, table: Table, forbidden: frozenset[str], *, work_max: int = WORK_MAX
) -> Decision:
    """Search an order of the writes that makes no forbidden cycle with the known edges, which have none by themselves."""
    if not unordered.keys:
        return Decision()
    known = counted(known, forbidden)
    places = _places_by_time(table, count)
    work = 0
    with Solver(name=_SOLVER) as solver:
        choices = _Choices(solver)
        while (possible := choices.solve((work_max - work) // _CONFLICT)) and work <= work_max:
            chosen = choices.chosen_pairs()
            graph = joined([known, _edges_of_pairs(chosen)])
            found, looked = many_cycles(graph, count, forbidden) if chosen else ([], 0)
            if not found:
                guessed = _guessed_pairs(unordered, graph, forbidden, places, set(chosen))
                found, looked = many_cycles(joined([graph, _edges_of_pairs(guessed)]), count, forbidden)
                chosen += guessed
            if not found:
                return Decision(order=_edges_of_pairs(chosen))
            work += looked + len(graph.kind) // _ROUND
            assumed = {name: pair for pair in chosen for name in _edges_of_order(pair)}
            for cycle in found:
                names = [(step.source, step.target, step.kind, step.key) for step in cycle]
                pairs = dict.fromkeys(assumed[name] for name in names if name in assumed)
                assert pairs, "the known dependencies have no forbidden cycle"
                choices.exclude(Case(assumed=tuple(pairs), cycle=cycle))
        return Decision(cases=choices.minimal()) if possible is False else Decision(undecided=choices.count)


class _Choices:
    # The pairs of writes met so far as variables of the solver, and the cases of which none may hold as clauses.

    def __init__(self, solver: Solver) -> None:
        self._solver = solver
        self._numbers: dict[Pair, int] = {}
        self._cases: dict[tuple[int, ...], Case] = {}

    @property
    def count(self) -> int:
        return len(self._numbers)

    def exclude(self, case: Case) -> None:
        """Tell the solver that not all orders that this contradiction assumes can be right."""
        clause = tuple(sorted(-self._literal_of_order(pair) for pair in case.assumed))
        if clause not in self._cases:
            self._cases[clause] = case
            self._solver.add_clause(clause)

    def _literal_of_order(self, pair: Pair) -> int:
        """The solver's number for an order of two versions: positive for the order guessed first, with which it begins."""
        number = self._numbers.get(pair) or -self._numbers.get(pair[::-1], 0)
        if not number:
            number = self._numbers[pair] = len(self._numbers) + 1
            self._solver.set_phases([number])
        return number

    def solve(self, conflicts_max: int) -> bool | None:
        """Whether some combination of orders is not excluded; None if that was not decided."""
        self._solver.conf_budget(max(conflicts_max, 1))
        possible: bool | None = self._solver.solve_limited()
        return possible

    def chosen_pairs(self) -> list[Pair]:
        signs = set(self._solver.get_model() or ())
        return [pair if number in signs else pair[::-1] for pair, number in self._numbers.items()]

    def minimal(self) -> tuple[Case, ...]:
        """A minimal set of cases that excludes every order, those that assume least first."""
        from pysat.examples.musx import MUSX  # imported here because few histories need it, and it takes 20 ms

        formula = WCNF()
        for clause in self._cases:
            formula.append(clause, weight=1)
        cases = tuple(self._cases.values())
        with MUSX(formula, solver=_SOLVER, verbosity=0) as search:
            kept = [cases[number - 1] for number in search.compute()]
        return tuple(sorted(kept, key=lambda case: (len(case.assumed), len(case.cycle))))


def _places_by_time(table: Table, count: int) -> Ints:
    """Numbers for the nodes: the latest transaction has 0, junctions come behind all transactions.

    The search for components begins with 0 and completes what depends on a node before the node. So nodes that no edges order
    stand in the order of time.
    """
    middle = np.where(table.end < NEVER, (table.start + table.end) // 2, table.start)
    places = np.arange(count)
    places[np.argsort(-middle, kind="stable")] = np.arange(table.count)
    return places


def _guessed_pairs(unordered: Unordered, graph: Edges, forbidden: frozenset[str], places: Ints, chosen: set[Pair]) -> list[Pair]:
    """The pairs of neighbours in the guessed order of each key, without those that the graph has."""
    kinds = ~0 if "G2-item" in forbidden else ~RW  # else a cycle with rw edges may be allowed
    used = graph.where((graph.kind & kinds) != 0)
    rank_from_end = -components(places[used.source], places[used.target], len(places))[places]
    writers = np.array([write.writer for writes in unordered.keys for write in writes])
    rank = dict(zip(writers.tolist(), rank_from_end[writers].tolist(), strict=True))
    orders = (sorted(writes, key=lambda write: rank[write.writer]) for writes in unordered.keys)
    pairs = (pair for order in orders for pair in pairwise(order))
    return [pair for pair in pairs if pair not in unordered.known and pair not in chosen]


def _edges_of_order(pair: Pair) -> list[tuple[int, int, int, int]]:
    """The edges that an order of two writes adds: source, target, kind and key."""
    first, then = pair
    return [(first.writer, then.writer, WW, then.key), *((reader, then.writer, RW, then.key) for reader in first.readers)]


def _edges_of_pairs(pairs: Sequence[Pair]) -> Edges:
    """The edges that the orders of all these pairs add."""
    rows = [(*name, pair[1].value) for pair in pairs for name in _edges_of_order(pair) if name[0] != name[1]]
    source, target, kind, key, value = np.array(rows, np.int64).reshape(-1, 5).T
    return Edges(source=source, target=target, kind=kind, key=key, value=value)
