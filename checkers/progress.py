"""Checker of progress during the run: if no fault is active for longer than the bound B, writes are acknowledged again.

docs/promise.md §6 bounds the silence after healing by B. A calm in the middle of a run, when every fault that began has ended, is
no different: from B after its start until the next fault begins, writes with acks=all to a partition must be acknowledged.
Silence while a fault is in force may be right (SILENT-1); `checkers.availability` judges the end of the run.

    >>> from checkers.sketches import sketch
    >>> silent = "invoke produce value=a time_ns=30000000000", "info produce value=a time_ns=31000000000"
    >>> ends = "fault-begun fault=g time_ns=60000000000", "healed time_ns=70000000000"
    >>> sketch("progress", "fault-begun fault=f", "fault-ended fault=f", *silent, *ends)
    ['no acks=all produce to t-0 was acknowledged between rows 2 and 3, though no fault was in force']
"""

import polars as pl

from checkers.availability import MS
from checkers.checker import PARTITION, Checker, Facts, partition_of
from checkers.rows import calls, operation_rows
from checkers.verdict import Cut, Findings
from history.event import EventKind as K

NAME = "progress"


def _calms(events: pl.DataFrame, until_ns: int) -> list[tuple[int, int]]:
    """The start and end (ns) of each period of a run in which no fault was active."""
    in_force: set[str] = set()
    since: int | None = None
    calms: list[tuple[int, int]] = []
    columns = (events[name].to_list() for name in ("time_ns", "kind", "fault"))
    for time_ns, kind, fault in zip(*columns, strict=True):
        if kind == K.FAULT_BEGUN:
            if not in_force and since is not None:
                calms.append((since, time_ns))
            in_force.add(fault or "")
        elif fault in in_force:
            in_force.discard(fault)
            since = time_ns if not in_force else since
    return [(start, min(end, until_ns)) for start, end in calms]


def check(operations: pl.DataFrame, events: pl.DataFrame, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Judge progress of one partition; the count `acked_under_faults` is how many calls were acknowledged before the faults
    ended.
    """
    topic, number = partition_of(operations, events)
    if facts.healed_at_ns is None:
        return Findings()
    healed, bound = facts.healed_at_ns, facts.promise.bound_ms * MS
    done = operations.filter((pl.col("type") == "ok") & (pl.col("slot") == 0) & (pl.col("time_ns") < healed))
    why: list[str] = []
    calms = [(start, end) for start, end in _calms(events, healed) if end - start > bound]
    writes = [call for call in calls(operation_rows(operations)) if call.asked[0].acks == -1] if calms else []
    for start, end in calms:
        tried = [call for call in writes if call.rows and call.invoked_ns >= start + bound and call.rows[0].time_ns < end]
        if tried and not any(call.type == "ok" for call in tried):
            rows = f"between rows {tried[0].invoked} and {tried[-1].ended}"
            why.append(f"no acks=all produce to {topic}-{number} was acknowledged {rows}, though no fault was in force")
    return Findings(not_live=tuple(why), live_judged=bool(why), counts={"acked_under_faults": done.height})


CHECKER = Checker(
    name=NAME,
    claim="From the bound B after all faults have ended until the next one begins, acks=all writes are acknowledged.",
    assumes="The harness records when each fault begins and ends.",
    blind="Periods without faults that are shorter than the bound B; partitions without writes in such a period.",
    kinds=(),
    group_by=PARTITION,
    operations=("produce",),
    events=(K.FAULT_BEGUN, K.FAULT_ENDED),
    of_the_living=True,
    check=check,
)
