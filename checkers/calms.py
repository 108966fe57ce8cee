"""The calms of a run: the periods in which no fault of a broker was in force, and when faults excuse the clients at one place."""

import polars as pl

from checkers.checker import MS, Facts
from history.event import EventKind as K

Times = list[tuple[int, int]]  # ns, each from its begin to its end


def place_of(facts: Facts, process: int) -> str:
    """The place of a client process; empty if the run names no places."""
    places = facts.client_places
    return places[process % len(places)] if places else ""


def calms(events: pl.DataFrame, facts: Facts) -> list[tuple[int, int]]:
    """Return each period before healing in which writes must be acknowledged, as start and end in ns.

    It starts B after the last fault in force ended and ends when the next one begins. Faults that hit only the clients at one
    place do not end it: clients at other places go on. Where the first fault is of that kind, the cluster was whole until then.
    """
    if facts.healed_at_ns is None:
        return []
    bound = facts.promise.bound_ms * MS
    in_force: set[str] = set()
    since: int | None = None
    found: list[tuple[int, int]] = []
    only_places = False  # whether a place was hit since the cluster was calm
    for time_ns, kind, fault, node in _ends(events):
        if node in facts.client_places:
            since = time_ns if since is None and not in_force else since
            only_places = True
        elif kind == K.FAULT_BEGUN:
            if not in_force and since is not None:
                found.append((since + bound, min(time_ns, facts.healed_at_ns)))
            in_force.add(fault)
            only_places = False
        elif fault in in_force:
            in_force.discard(fault)
            since = time_ns if not in_force else since
    if only_places and not in_force and since is not None:
        found.append((since + bound, facts.healed_at_ns))
    return [(start, end) for start, end in found if start < end]


def excuses(events: pl.DataFrame, facts: Facts) -> dict[str, Times]:
    """For each place of clients the times, in ns, at which its clients need not be served: a fault of it, and B after that."""
    found: dict[str, Times] = {}
    begun: dict[tuple[str, str], int] = {}
    for time_ns, kind, fault, node in _ends(events):
        if node not in facts.client_places:
            continue
        if kind == K.FAULT_BEGUN:
            begun[fault, node] = time_ns
        elif (fault, node) in begun:
            found.setdefault(node, []).append((begun.pop((fault, node)), time_ns + facts.promise.bound_ms * MS))
    for (_, node), time_ns in begun.items():
        found.setdefault(node, []).append((time_ns, facts.end_ns))
    return found


def _ends(events: pl.DataFrame) -> list[tuple[int, str, str, str]]:
    rows = events.filter(pl.col("kind").is_in([str(K.FAULT_BEGUN), str(K.FAULT_ENDED)]))
    columns = (rows[name].to_list() for name in ("time_ns", "kind", "fault", "node"))
    return [(time_ns, kind, fault or "", node or "") for time_ns, kind, fault, node in zip(*columns, strict=True)]
