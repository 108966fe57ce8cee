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

from typing import NamedTuple

from checkers.engine import screens
from checkers.engine.anomalies import BROKEN_MACHINE, not_live
from checkers.engine.calms import calms, excuses, place_of
from checkers.engine.checker import Checker
from checkers.engine.facts import Facts
from checkers.engine.groups import PARTITION, partition_of
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Cut, Findings
from history.event import EventKind as K

NAME = "progress"


class _Write(NamedTuple):
    """A completed produce with acks=all: rows and times of invocation and completion, and the type of the completion."""

    process: int
    asked: int
    asked_ns: int
    ended: int
    ended_ns: int
    type: str


def _writes_by_end(operations: Operations) -> list[_Write]:
    """The completed produces with acks=all, in the order of their ends."""
    open_produces: dict[
        int, tuple[int, int] | None
    ] = {}  # process -> row and time, if its last turn is an invocation with acks=all
    writes: list[_Write] = []
    last = -1
    for process, at, time_ns, type_, acks in operations.columns("process", "index", "time_ns", "type", "acks"):
        if at == last:
            continue  # another record of the same turn
        last = at
        before = open_produces.get(process)
        if type_ != "invoke" and before is not None:
            writes.append(_Write(process, *before, at, time_ns, type_))
        open_produces[process] = (at, time_ns) if type_ == "invoke" and acks == -1 else None
    return writes


def _writes_by_place(writes: list[_Write], events: Events, facts: Facts) -> dict[str, list[_Write]]:
    """The produces of the clients at each place, without those that a fault of that place excuses."""
    calls_by_place: dict[str, list[_Write]] = {}
    excused = excuses(events, facts)
    place_of_process = {process: place_of(facts, process) for process in {write.process for write in writes}}
    for place in sorted(set(place_of_process.values())):
        owed = [write for write in writes if place_of_process[write.process] == place]
        for begun, ended in excused.get(place, ()):
            owed = [write for write in owed if write.ended_ns < begun or write.asked_ns >= ended]
        calls_by_place[place] = owed
    return calls_by_place


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Judge progress of one partition; the count `acked_under_faults` is how many calls were acknowledged before the faults
    ended.
    """
    topic, number = partition_of(operations, events)
    if facts.healed_at_ns is None:
        return Findings()
    rows = operations.columns("type", "slot", "time_ns")
    done = sum(1 for type_, slot, time_ns in rows if type_ == "ok" and slot == 0 and time_ns < facts.healed_at_ns)
    complaints: list[str] = []
    periods = calms(events, facts)
    several = len(set(facts.client_places)) > 1
    by_place = _writes_by_place(_writes_by_end(operations), events, facts) if periods else {}
    for start, end in periods:
        for place, owed in by_place.items():
            tried = [write for write in owed if write.asked_ns >= start and write.ended_ns < end]
            if tried and not any(write.type == "ok" for write in tried):
                by = f" by the clients at {place}" if several else ""
                between = f"between rows {tried[0].asked} and {tried[-1].ended}"
                calm = "though no fault hit them or a broker" if several else "though no fault was in force"
                complaints.append(f"no acks=all produce to {topic}-{number}{by} was acknowledged {between}, {calm}")
    return Findings(not_live=tuple(complaints), live_judged=bool(complaints), counts={"acked_under_faults": done})


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
