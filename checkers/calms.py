"""The calms of a run: the periods in which no fault was in force."""

import polars as pl

from checkers.checker import MS, Facts
from history.event import EventKind as K


def calms(events: pl.DataFrame, facts: Facts) -> list[tuple[int, int]]:
    """Return each period before healing in which writes must be acknowledged, as start and end in ns.

    It starts B after the last fault in force ended and ends when the next one begins.
    """
    if facts.healed_at_ns is None:
        return []
    bound = facts.promise.bound_ms * MS
    rows = events.filter(pl.col("kind").is_in([str(K.FAULT_BEGUN), str(K.FAULT_ENDED)]))
    in_force: set[str] = set()
    since: int | None = None
    found: list[tuple[int, int]] = []
    columns = (rows[name].to_list() for name in ("time_ns", "kind", "fault"))
    for time_ns, kind, fault in zip(*columns, strict=True):
        if kind == K.FAULT_BEGUN:
            if not in_force and since is not None:
                found.append((since + bound, min(time_ns, facts.healed_at_ns)))
            in_force.add(fault or "")
        elif fault in in_force:
            in_force.discard(fault)
            since = time_ns if not in_force else since
    return [(start, end) for start, end in found if start < end]
