"""The kinds of cycles in a dependency graph, named as by Adya and Elle, decided exactly and without enumerating cycles.

A kind is defined by one edge that the cycle must have and by the edges that may close it. G0: a ww, closed by ww. G1c: a wr,
closed by ww and wr. G-single: an rw, closed by ww and wr. G-nonadjacent: an rw, closed by any edges without two rw in a row.
G2-item: an rw, closed by any edges. `-process` and `-realtime` mean that such edges were needed too. Each kind is a set of proven
edges, found for all edges at once:

- G0, G1c, G2-item: both ends of the edge are in one strongly connected component of the allowed edges.
- G-nonadjacent: the same in a graph with each node doubled; an rw edge enters the second copy, which only other edges leave.
- G-single: the edge's source is reachable from its target without an rw; sets of reachable nodes are blocks of bits.

An edge that proves a kind is not listed for weaker kinds: each level that forbids the weaker kind forbids the stronger one, too.
Shortest cycles are searched last, for the words only.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import rustworkx

from checkers.elle.graph import JOIN, PROCESS, REALTIME, RW, WR, WW, Edges, components
from checkers.elle.table import Flags, Ints

KINDS = ("G0", "G1c", "G-single", "G-nonadjacent", "G2-item")
_TIMES = {"-process": PROCESS, "-realtime": REALTIME}
_SCOPES = (("", JOIN), ("-process", JOIN | PROCESS), ("-realtime", JOIN | PROCESS | REALTIME))
_MUST = {"G0": WW, "G1c": WR, "G-single": RW, "G-nonadjacent": RW, "G2-item": RW}
_BLOCK = 4096  # bits in a set of reachable nodes
_WORK_MAX = 2_000_000  # edges visited in search of the shortest cycle of one kind
_TRIES_MAX = 64


@dataclass(frozen=True, slots=True)
class Step:
    """One dependency in a cycle of transactions: from which to which, its kind, and the key and value that prove it."""

    source: int
    target: int
    kind: int
    key: int
    value: int


def cycles(dependencies: Edges, count: int, wanted: frozenset[str]) -> Iterator[tuple[str, tuple[Step, ...]]]:
    """Find for each kind of dependency cycle in `wanted` that the graph contains one short cycle as evidence."""
    small = _Graph(tangled(dependencies, count, wanted))
    for name, proven in _proving_edges(small):
        if name in wanted:
            cycle = _shortest_cycle(small, name, proven)
            yield name, tuple(cycle)


def many_cycles(dependencies: Edges, count: int, wanted: frozenset[str]) -> tuple[list[tuple[Step, ...]], int]:
    """Find many short cycles of the kinds in `wanted`, at least one if there is any; and the number of edges visited.

    An edge that proves a kind is on one of them, unless the search for others visited as many edges as the graph has.
    """
    small = _Graph(tangled(dependencies, count, wanted))
    ways: list[list[int]] = []
    work = 0
    for name, proven in _proving_edges(small):
        done: set[int] = set()
        for number in np.flatnonzero(proven).tolist() if name in wanted else ():
            if number not in done and (work < len(dependencies.kind) or not ways):
                back, _, looked = _shortest_way_back(small, number, name, longest=len(small.kinds) + 1)
                ways.append([number, *back])
                done.update(ways[-1])
                work += looked
    return [tuple(_steps(small, way)) for way in ways], work + len(small.kinds)


def counted(dependencies: Edges, wanted: frozenset[str]) -> Edges:
    """Return the dependencies that the kinds of cycles in `wanted` may have: those by time only if a kind names them."""
    left_out = sum(kind for name, kind in _TIMES.items() if not any(level.endswith(name) for level in wanted))
    return dependencies.where((dependencies.kind & left_out) == 0) if left_out else dependencies


def tangled(dependencies: Edges, count: int, wanted: frozenset[str]) -> Edges:
    """Return the dependencies that count and lie within strongly connected components: all cycles are made of them."""
    used = counted(dependencies, wanted)
    labels = components(used.source, used.target, count)
    return used.where(labels[used.source] == labels[used.target])


class _Graph:
    # The edges within strongly connected components, with nodes renumbered from 0.

    def __init__(self, dependencies: Edges) -> None:
        self.nodes, numbers = np.unique(np.concatenate([dependencies.source, dependencies.target]), return_inverse=True)
        self.source: Ints = numbers[: len(dependencies.source)].astype(np.int64)
        self.target: Ints = numbers[len(dependencies.source) :].astype(np.int64)
        self.kind = dependencies.kind
        self.found = dependencies
        self.kinds: list[int] = dependencies.kind.tolist()
        self.targets: list[int] = self.target.tolist()
        self.out: list[list[int]] = [[] for _ in range(len(self.nodes))]
        for number, source in enumerate(self.source.tolist()):
            self.out[source].append(number)

    def within(self, kinds: int) -> Flags:
        """Flag the edges of these kinds that lie within a strongly connected component of the edges of these kinds."""
        may = (self.kind & kinds) != 0
        labels = components(self.source[may], self.target[may], len(self.nodes))
        inside: Flags = may & (labels[self.source] == labels[self.target])
        return inside


def _proving_edges(graph: _Graph) -> Iterator[tuple[str, Flags]]:
    """For each kind of cycle, return the edges that prove this kind and no stronger one.
    Leave out edges that prove the same or a stronger kind with fewer time edges, or a stronger kind with the same time edges.
    """
    before: dict[str, Flags] = {kind: np.zeros(len(graph.kind), np.bool_) for kind in KINDS}
    last = JOIN
    for suffix, extra in _SCOPES:
        if suffix and not (graph.kind & extra & ~last).any():
            continue
        last = extra
        for place, kind in enumerate(KINDS):
            proving = _edges_on_cycles(graph, kind, extra)
            proven = proving.copy()
            for other_kind in KINDS[: place + 1]:
                proven &= ~before[other_kind]
            before[kind] = before[kind] | proving
            if proven.any():
                yield kind + suffix, proven


def _edges_on_cycles(graph: _Graph, kind: str, extra: int) -> Flags:
    """The edges that prove a cycle of this kind."""
    must: Flags = graph.kind == _MUST[kind]
    match kind:
        case "G0":
            return must & graph.within(WW | extra)
        case "G1c":
            return must & graph.within(WW | WR | extra)
        case "G-single":
            return _edges_closed_without_rw(graph, extra)
        case "G-nonadjacent":
            return _edges_closed_apart(graph, extra)
        case _:
            return must & graph.within(WW | WR | RW | extra)


def _edges_closed_apart(graph: _Graph, extra: int) -> Flags:
    """The rw edges on a cycle without two adjacent rw edges (it may pass a node twice): G-nonadjacent."""
    size = len(graph.nodes)
    may = (graph.kind & (WW | WR | extra)) != 0
    join = may & (graph.kind == JOIN)
    is_unjoined = may & (graph.kind != JOIN)
    rw = graph.kind == RW
    # Any edge may leave node n; node n + size was entered by an rw. A junction keeps the copy of the edge that led into it.
    source = np.concatenate([graph.source[may], graph.source[is_unjoined] + size, graph.source[join] + size, graph.source[rw]])
    target = np.concatenate([graph.target[may], graph.target[is_unjoined], graph.target[join] + size, graph.target[rw] + size])
    labels = components(source, target, 2 * size)
    closed: Flags = rw & (labels[graph.source] == labels[graph.target + size])
    return closed


def _edges_closed_without_rw(graph: _Graph, extra: int) -> Flags:
    """The rw edges whose source is reachable from their target without another rw edge: G-single."""
    inside = graph.within(WW | WR | RW | extra)
    rw = np.flatnonzero(inside & (graph.kind == RW))
    proven = np.zeros(len(graph.kind), np.bool_)
    if not len(rw):
        return proven
    may = inside & (graph.kind != RW)
    labels = components(graph.source[may], graph.target[may], len(graph.nodes))
    parts = int(labels.max()) + 1
    pairs = np.unique((labels[graph.source[may]] << 32) + labels[graph.target[may]])
    links = [(s, t) for s, t in zip((pairs >> 32).tolist(), (pairs & ((1 << 32) - 1)).tolist(), strict=True) if s != t]
    dag: rustworkx.PyDiGraph[None, None] = rustworkx.PyDiGraph()
    dag.add_nodes_from([None] * parts)
    dag.extend_from_edge_list(links)
    leads: list[list[int]] = [[] for _ in range(parts)]
    for s, t in links:
        leads[s].append(t)
    order = list(reversed(rustworkx.topological_sort(dag)))
    begins, targets = labels[graph.source[rw]], labels[graph.target[rw]]
    goals = np.unique(begins)
    for low in range(0, len(goals), _BLOCK):
        block = goals[low : low + _BLOCK]
        bits = {goal: 1 << i for i, goal in enumerate(block.tolist())}
        reach = [0] * parts
        for node in order:
            reachable = bits.get(node, 0)
            for after in leads[node]:
                reachable |= reach[after]
            reach[node] = reachable
        for at in np.flatnonzero((begins >= block[0]) & (begins <= block[-1])).tolist():
            proven[rw[at]] = bool(reach[targets[at]] & bits[int(begins[at])])
    return proven


def _shortest_cycle(graph: _Graph, name: str, proven: Flags) -> list[Step]:
    """The shortest cycle of this kind that the first edges show."""
    best: list[int] = []
    length, work = len(graph.kind) + 1, 0  # length in dependencies: junctions do not count
    for number in np.flatnonzero(proven)[:_TRIES_MAX].tolist():
        back, far, looked = _shortest_way_back(graph, number, name, longest=length)
        work += looked
        if back and far + 1 < length:
            best = [number, *back]
            length = far + 1
        if best and (work > _WORK_MAX or length == 2):
            break
    assert best, (name, "a proven edge is on no cycle")
    return _steps(graph, best)


_PLAIN, _AFTER_RW, _AFTER_PROCESS = 0, 1, 2
_State = tuple[int, int]  # a node, and the kind of step that led to it


def _shortest_way_back(graph: _Graph, edge: int, name: str, *, longest: int) -> tuple[list[int], int, int]:
    """The shortest path that makes a cycle of this kind with an edge, its number of dependencies, and the number of edges
    visited.

    For G-nonadjacent the edge is an rw: the path begins and ends with another kind and has no two rw in a row. Consecutive
    steps of one process count as one dependency.
    """
    base, _, time = name.rpartition("-") if name.endswith(("-process", "-realtime")) else (name, "", "")
    extra = dict(_SCOPES)[f"-{time}" if time else ""]
    may = {"G0": WW, "G1c": WW | WR, "G-single": WW | WR}.get(base, WW | WR | RW) | extra
    apart = base == "G-nonadjacent"
    goal = int(graph.source[edge])
    begin = (graph.targets[edge], _AFTER_RW if apart else _PLAIN)
    came: dict[_State, tuple[_State, int]] = {}
    far = {begin: 0}
    queue = deque([begin])
    done: set[_State] = set()
    looked = 0
    while queue:
        state = queue.popleft()
        if state in done:
            continue
        done.add(state)
        node, after = state
        if node == goal and after != _AFTER_RW:
            return _path_to(came, begin, state), far[state], looked
        if far[state] >= longest:
            break
        for number in graph.out[node]:
            looked += 1
            kind = graph.kinds[number]
            if not kind & may or (after == _AFTER_RW and kind == RW):
                continue
            then = (graph.targets[number], _state_after(kind, after, apart=apart))
            free = kind == JOIN or (kind == PROCESS and after == _AFTER_PROCESS)
            cost = far[state] + (not free)
            if cost < far.get(then, len(graph.kind) + 1):
                far[then] = cost
                came[then] = (state, number)
                if free:
                    queue.appendleft(then)
                else:
                    queue.append(then)
    return [], 0, looked


def _state_after(kind: int, before: int, *, apart: bool) -> int:
    """The state of a path after an edge: whether the next may be an rw, and whether the process goes on."""
    if kind == JOIN:
        return before if before == _AFTER_RW else _PLAIN
    if kind == PROCESS:
        return _AFTER_PROCESS
    return _AFTER_RW if apart and kind == RW else _PLAIN


def _path_to(came: dict[_State, tuple[_State, int]], begin: _State, state: _State) -> list[int]:
    """The edges by which the search came to a state."""
    way: list[int] = []
    while state != begin:
        state, number = came[state]
        way.append(number)
    return way[::-1]


def _steps(graph: _Graph, way: list[int]) -> list[Step]:
    """Turn a path into dependencies between transactions: an edge that leaves a junction belongs to the edge that led into it.
    Begin the cycle at an edge that leaves a transaction, so that no dependency is cut in two.
    """
    leading = next(i for i, n in enumerate(way) if graph.kinds[n] != JOIN)
    way = way[leading:] + way[:leading]
    heads = [n for n in way if graph.kinds[n] != JOIN]
    # Merge consecutive process edges: the first transaction was before the last.
    heads = [n for at, n in enumerate(heads) if not (at and graph.kinds[n] == graph.kinds[heads[at - 1]] == PROCESS)]
    firsts = [int(graph.nodes[graph.source[n]]) for n in heads]
    return [
        Step(first, then, graph.kinds[n], int(graph.found.key[n]), int(graph.found.value[n]))
        for n, first, then in zip(heads, firsts, firsts[1:] + firsts[:1], strict=True)
    ]
