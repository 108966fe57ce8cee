"""Checker of progress during the run: if no fault is active for longer than the bound B, writes are acknowledged again.

docs/promise.md §6 bounds the silence after healing by B. A calm in the middle of a run, when every fault that began has ended, is
no different: from B after its start until the next fault begins, writes with acks=all to a partition must be acknowledged.
Where clients are at several places, this holds for those at each place, and a fault that hits only the clients at one place
excuses nobody else (LIVE-9).
Silence while a fault is in force may be right (SILENT-1); `checkers.liveness.availability` judges the end of the run.

    >>> from checkers.sketches import sketch
    >>> silent = "invoke produce value=a time_ns=30000000000", "info produce value=a time_ns=31000000000"
    >>> ends = "fault-begun fault=g time_ns=60000000000", "healed time_ns=70000000000"
    >>> sketch("progress", "fault-begun fault=f", "fault-ended fault=f", *silent, *ends)
    ['no acks=all produce to t-0 was acknowledged between rows 2 and 3, though no fault was in force']
"""

import polars as pl

from checkers.engine import screens
from checkers.engine.anomalies import BROKEN_MACHINE, not_live
from checkers.engine.calms import calms, excuses, place_of
from checkers.engine.checker import Checker
from checkers.engine.facts import Facts
from checkers.engine.groups import PARTITION, partition_of
from checkers.engine.verdict import Cut, Findings
from history.event import EventKind as K

NAME = "progress"


def _writes(operations: pl.DataFrame) -> pl.DataFrame:
    """The completed produces with acks=all: rows and times of invocation and completion, and the type of the completion."""
    turns = operations.unique("index", keep="first", maintain_order=True)
    before = {f"{name}_before": pl.col(name).shift().over("process") for name in ("index", "time_ns", "type", "acks")}
    answered = (pl.col("type") != "invoke") & (pl.col("type_before") == "invoke") & (pl.col("acks_before") == -1)
    return turns.with_columns(**before).filter(answered)


def _by_place(writes: pl.DataFrame, events: pl.DataFrame, facts: Facts) -> dict[str, pl.DataFrame]:
    """The produces of the clients at each place, without those that a fault of that place excuses."""
    calls_by_place: dict[str, pl.DataFrame] = {}
    excused = excuses(events, facts)
    processes = sorted(set(writes["process"].to_list()))
    for place in sorted({place_of(facts, process) for process in processes}):
        owed = writes.filter(pl.col("process").is_in([one for one in processes if place_of(facts, one) == place]))
        for begun, ended in excused.get(place, ()):
            owed = owed.filter((pl.col("time_ns") < begun) | (pl.col("time_ns_before") >= ended))
        calls_by_place[place] = owed
    return calls_by_place


def check(operations: pl.DataFrame, events: pl.DataFrame, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Judge progress of one partition; the count `acked_under_faults` is how many calls were acknowledged before the faults
    ended.
    """
    topic, number = partition_of(operations, events)
    if facts.healed_at_ns is None:
        return Findings()
    done = operations.filter((pl.col("type") == "ok") & (pl.col("slot") == 0) & (pl.col("time_ns") < facts.healed_at_ns))
    why: list[str] = []
    periods = calms(events, facts)
    writes = _writes(operations) if periods else operations
    several = len(set(facts.client_places)) > 1
    by_place = _by_place(writes, events, facts) if periods else {}
    for start, end in periods:
        for place, owed in by_place.items():
            tried = owed.filter((pl.col("time_ns_before") >= start) & (pl.col("time_ns") < end))
            if tried.height and not (tried["type"] == "ok").any():
                by = f" by the clients at {place}" if several else ""
                rows = f"between rows {tried['index_before'][0]} and {tried['index'][-1]}"
                calm = "though no fault hit them or a broker" if several else "though no fault was in force"
                why.append(f"no acks=all produce to {topic}-{number}{by} was acknowledged {rows}, {calm}")
    return Findings(not_live=tuple(why), live_judged=bool(why), counts={"acked_under_faults": done.height})


CHECKER = Checker(
    name=NAME,
    claim="From the bound B after all faults have ended until the next begins, acks=all writes of each place are acknowledged.",
    assumes="The harness records when each fault begins and ends.",
    blind="Periods without faults that are shorter than the bound B; partitions without writes in such a period.",
    reports=(not_live("LIVE", unshown=BROKEN_MACHINE),),
    group_by=PARTITION,
    operations=("produce",),
    events=(K.FAULT_BEGUN, K.FAULT_ENDED),
    tied_if_named=(K.FAULT_BEGUN, K.FAULT_ENDED),
    of_the_living=True,
    check=check,
    screen=screens.progress,
)
