"""Dependencies between transactions as arrays of edges, and their strongly connected components.

Nodes are transactions, numbered first, and junctions. A junction stands for "each of these" or "all that began later", so that n
readers before m writers cost n + m edges instead of n * m, and real time costs three edges for each transaction. A `JOIN` edge
leaves a junction, or joins it to its members; it belongs to the dependency that led into the junction.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Protocol

import numpy as np
import rustworkx as rx

from checkers.elle.table import NEVER, Flags, Ints, Table

WW, WR, RW, PROCESS, REALTIME, JOIN = 1, 2, 4, 8, 16, 32
NAMES = {WW: "ww", WR: "wr", RW: "rw", PROCESS: "process", REALTIME: "realtime"}
NOTHING = -2  # no key, no value


class Timed(Protocol):
    """Where in the history each transaction began and ended; the end is NEVER if the history does not show it."""

    @property
    def start(self) -> Ints:
        """The position in the history of each transaction's invocation."""
        ...

    @property
    def end(self) -> Ints:
        """The position in the history of each transaction's completion."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Edges:
    """Dependencies between transactions as arrays: source, target, kind, and the key and value that prove each."""

    source: Ints
    target: Ints
    kind: Ints
    key: Ints
    value: Ints

    def where(self, kept: Flags | Ints) -> "Edges":
        """Return the dependencies that these flags or indices select."""
        return Edges(
            source=self.source[kept], target=self.target[kept], kind=self.kind[kept], key=self.key[kept], value=self.value[kept]
        )


def edges(source: Ints, target: Ints, kind: int, *, key: Ints | None = None, value: Ints | None = None) -> Edges:
    """Make dependencies of one kind between transactions; leaves out those from a transaction to itself."""
    none = np.full(len(source), NOTHING, np.int64)
    edges_found = Edges(
        source=source,
        target=target,
        kind=np.full(len(source), kind, np.int64),
        key=none if key is None else key,
        value=none if value is None else value,
    )
    return edges_found.where(source != target)


def joined(parts: Sequence[Edges]) -> Edges:
    """Concatenate several sets of dependencies between transactions."""
    return Edges(
        source=np.concatenate([p.source for p in parts]),
        target=np.concatenate([p.target for p in parts]),
        kind=np.concatenate([p.kind for p in parts]),
        key=np.concatenate([p.key for p in parts]),
        value=np.concatenate([p.value for p in parts]),
    )


def components(source: Ints, target: Ints, count: int) -> Ints:
    """Return for each node of the dependency graph the number of its strongly connected component.

    Edges between components lead to lower numbers: both libraries number components as Tarjan's search completes them.
    """
    if not len(source):
        return np.arange(count, dtype=np.int64)
    # SciPy takes the columns as they are, a tenth of the time; it is 140 MB, so the judges of histories alone come without it.
    return scipy_components(source, target, count) if find_spec("scipy") else rustworkx_components(source, target, count)


def rustworkx_components(source: Ints, target: Ints, count: int) -> Ints:
    """`components` by rustworkx."""
    graph = rx.PyDiGraph()
    graph.add_nodes_from(range(count))
    graph.add_edges_from_no_data(list(zip(source.tolist(), target.tolist(), strict=True)))
    labels = np.empty(count, np.int64)
    for number, members in enumerate(rx.strongly_connected_components(graph)):
        labels[list(members)] = number
    return labels


def scipy_components(source: Ints, target: Ints, count: int) -> Ints:
    """`components` by SciPy."""
    # Imported here because it takes 0.1 s, and only histories with dependencies come so far.
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    matrix = coo_array((np.ones(len(source), np.int8), (source, target)), shape=(count, count)).tocsr()
    _, labels = connected_components(matrix, directed=True, connection="strong")
    return labels.astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fan:
    """Groups of transactions with helper nodes in the graph, so that one edge can lead to many members of a group.

    The pairs of `group` and `transaction` are sorted and distinct.
    """

    group: Ints
    transaction: Ints
    base: int  # the number of the first junction

    @property
    def size(self) -> int:
        """The number of helper nodes that these groups add to the dependency graph."""
        return 2 * len(self.group)

    def inside(self) -> Edges:
        """The edges along two chains of helper nodes through each group of transactions.

        Each member has two junctions: one leads to it and all members before it, the other to it and all members after it.
        """
        down = self.base + np.arange(len(self.group))
        up = down + len(self.group)
        same = self.group[1:] == self.group[:-1]
        source = np.concatenate([down, up, down[1:][same], up[:-1][same]])
        target = np.concatenate([self.transaction, self.transaction, down[:-1][same], up[1:][same]])
        return edges(source, target, JOIN)

    def into(self, group: Ints, transaction: Ints, kind: int, *, key: Ints) -> Edges:
        """Edges from each transaction to all members of its group except itself, through helper nodes."""
        size = len(self.group)
        low, high = np.searchsorted(self.group, group), np.searchsorted(self.group, group, side="right")
        pairs = (self.group << 32) + self.transaction
        at = np.searchsorted(pairs, (group << 32) + transaction)
        inside = at < size
        inside[inside] &= pairs[at[inside]] == ((group << 32) + transaction)[inside]
        below = np.where(inside, at, high)  # all members before this place
        some = below > low
        more = inside & (at + 1 < high)
        return joined(
            [
                edges(transaction[some], self.base + below[some] - 1, kind, key=key[some]),
                edges(transaction[more], self.base + size + at[more] + 1, kind, key=key[more]),
            ]
        )


def fan(group: Ints, transaction: Ints, base: int) -> Fan:
    """Make the helper nodes for these pairs of group and transaction. All numbers must be below 2**31."""
    pairs = np.unique((group << 32) + transaction)
    return Fan(group=pairs >> 32, transaction=pairs & ((1 << 32) - 1), base=base)


def process_order(table: Table) -> Edges:
    """Dependencies by process: from each completed transaction to the next one of its process.

    A transaction that never completed gets no edge, because it may take effect at any time.
    """
    order = np.lexsort((table.start, table.process))
    ok = table.ok[order]
    places = np.arange(len(order))
    latest = np.maximum.accumulate(np.where(ok, places, -1))[:-1]  # the last that returned, up to the one before
    then = places[1:]
    fits = latest >= 0
    first, then = order[latest[fits]], order[then[fits]]
    fits = (table.process[first] == table.process[then]) & (table.end[first] < table.start[then])
    return edges(first[fits], then[fits], PROCESS)


def real_time(table: Timed, base: int) -> tuple[Edges, int]:
    """Dependencies by time: from each transaction to all that were invoked after it completed."""
    done = np.flatnonzero(table.end < NEVER)
    done = done[np.argsort(table.end[done], kind="stable")]
    chain = base + np.arange(len(done))
    before = np.searchsorted(table.end[done], table.start) - 1
    followers = np.flatnonzero(before >= 0)
    edges_found = joined(
        [
            edges(done, chain, REALTIME),
            edges(chain[:-1], chain[1:], JOIN),
            edges(base + before[followers], followers, JOIN),
        ]
    )
    return edges_found, base + len(done)
