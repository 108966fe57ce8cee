"""Cycles of dependencies, and what each is called (Adya, and Elle's names for those that need time).

Strongly connected components first: a cycle lies within one. In each the mildest edges that suffice are tried first, and the
shortest cycle of the first kind found is reported: G0 of ww alone; G1c of ww and wr; G-single with one rw; G-nonadjacent with
several, no two of them neighbours; G2-item with any. `-process` and `-realtime` say that time was needed to close it.
"""

from collections import deque
from collections.abc import Iterator, Sequence

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from checkers.elle.transactions import Edge

KINDS = ("G0", "G1c", "G-single", "G-nonadjacent", "G2-item")
_TIMES: tuple[tuple[str, frozenset[str]], ...] = (
    ("", frozenset()),
    ("-process", frozenset({"process"})),
    ("-realtime", frozenset({"process", "realtime"})),
)
_Graph = dict[int, list[Edge]]


def cycles(edges: Sequence[Edge], count: int, wanted: frozenset[str]) -> Iterator[tuple[str, tuple[Edge, ...]]]:
    """Of each component the first kind among `wanted` that has a cycle, and the shortest of it found."""
    for time, extra in _TIMES:
        names = [kind + time for kind in KINDS if kind + time in wanted]
        if not names:
            continue
        used = [edge for edge in edges if edge.kind in extra or edge.kind in ("ww", "wr", "rw")]
        found = False
        for component in _components(used, count):
            for name in names:
                cycle = _cycle(component, name.removesuffix(time), extra)
                if cycle is not None:
                    found = True
                    yield name, cycle
                    break
        if found:
            return  # what needs more time would repeat it


def _components(edges: Sequence[Edge], count: int) -> Iterator[_Graph]:
    if not edges:
        return
    first = np.fromiter((e.first for e in edges), np.int32, len(edges))
    then = np.fromiter((e.then for e in edges), np.int32, len(edges))
    matrix = coo_array((np.ones(len(edges), np.int8), (first, then)), shape=(count, count)).tocsr()
    _, labels = connected_components(matrix, directed=True, connection="strong")
    graphs: dict[int, _Graph] = {}
    for at in np.flatnonzero(labels[first] == labels[then]).tolist():
        edge = edges[at]
        graphs.setdefault(int(labels[edge.first]), {}).setdefault(edge.first, []).append(edge)
    for label in sorted(graphs):
        yield graphs[label]


def _cycle(graph: _Graph, kind: str, extra: frozenset[str]) -> tuple[Edge, ...] | None:
    """The shortest cycle of this kind: through an edge that it must have, and back by edges that it may have."""
    must = {"G0": "ww", "G1c": "wr"}.get(kind, "rw")
    may = extra | ({"ww"} if kind == "G0" else {"ww", "wr"} if kind != "G2-item" else {"ww", "wr", "rw"})
    best: tuple[Edge, ...] | None = None
    for number in sorted(graph):
        for edge in graph[number]:
            if edge.kind != must:
                continue
            back = _path(graph, edge, may, apart=kind == "G-nonadjacent")
            if back is not None and (best is None or len(back) + 1 < len(best)):
                best = (edge, *back)
            if best is not None and len(best) == 2:
                return best
    return best


def _path(graph: _Graph, edge: Edge, may: frozenset[str], *, apart: bool) -> tuple[Edge, ...] | None:
    """The shortest way from the end of `edge`, which is an rw where `apart`, to its beginning.

    Where `apart`, rw edges may be used too, but never two in a row; the last edge must be none, for `edge` follows it.
    """
    start = (edge.then, True)
    came: dict[tuple[int, bool], tuple[tuple[int, bool], Edge]] = {}
    queue = deque([start])
    seen = {start}
    while queue:
        node = queue.popleft()
        for step in graph.get(node[0], ()):
            risky = apart and step.kind == "rw"
            if (risky and node[1]) or (not risky and step.kind not in may):
                continue
            after = (step.then, risky if apart else True)
            if after in seen:
                continue
            seen.add(after)
            came[after] = (node, step)
            if step.then == edge.first and not risky:
                return _walked(came, start, after)
            queue.append(after)
    return None


def _walked(
    came: dict[tuple[int, bool], tuple[tuple[int, bool], Edge]], start: tuple[int, bool], node: tuple[int, bool]
) -> tuple[Edge, ...]:
    way: list[Edge] = []
    while node != start or not way:
        node, edge = came[node]
        way.append(edge)
        if node == start:
            break
    return tuple(reversed(way))
