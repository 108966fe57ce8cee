"""A run that proves nothing is UNKNOWN, not VALID (docs/promise.md §7).

Reasons: too few acknowledgements under acks=all, no fault that acted, no election, a required mark that did not occur, a run that
did not end as planned, or a loss excused under profile `within`, whose ledger must be empty (VAC-2).

    >>> from checkers.sketches import sketch
    >>> sketch("vacuity", "ok poll")
    ['vacuity: no fault acted', 'vacuity: no leader was elected']
"""

from collections import Counter
from collections.abc import Sequence

import polars as pl
from msgspec import Struct

from checkers.engine.anomalies import unknown
from checkers.engine.checker import Checker
from checkers.engine.facts import Facts
from checkers.engine.groups import WHOLE_RUN
from checkers.engine.splits import ranged
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Cut, Findings
from history.event import EventKind as K

NAME = "vacuity"
_COLUMNS = ("index", "process", "type", "f", "value", "acks")


class _Asked(Struct, frozen=True, kw_only=True):
    """The acks that one process asked for in a range, at the end of it."""

    acks: int | None  # None if it asked for none in this range
    before: int  # acknowledged records before it asked, whose acks an earlier range tells


class _Range(Struct, frozen=True, kw_only=True):
    """The state of a range of the index."""

    asked_for: int
    acked: int
    read: int
    processes: dict[int, _Asked]
    acted: dict[str, int]  # kind of fault -> times
    kinds: set[str]  # of events


def _range_of(operations: Operations, events: Events, facts: Facts) -> _Range:
    """What one range proves: acknowledged records, reads, faults that acted, kinds of events."""
    # A completion need not repeat the acks of its invocation: take the last acks that the process asked for.
    with_acks = operations.frame.with_columns(acks=pl.col("acks").forward_fill().over("process"))
    acknowledged = (pl.col("type") == "ok") & (pl.col("f") == "produce")
    last = with_acks.group_by("process").agg(
        pl.col("acks").last(), (acknowledged & pl.col("acks").is_null()).sum().alias("before")
    )
    counts = with_acks.select(
        acked=(acknowledged & (pl.col("acks") == -1)).sum()
        + _count_of_committed(with_acks, '["send"')
        + ((pl.col("type") == "ok") & (pl.col("f") == "txn-commit")).sum(),
        read=_count_of_committed(with_acks, '["poll",{"')
        + ((pl.col("type") == "ok") & (pl.col("f") == "poll") & pl.col("value").is_not_null()).sum(),
    )
    acted: Counter[str] = Counter()
    for kind, times in events.of(K.FAULT_ACTED).columns("detail", "count"):
        acted[kind or ""] += 1 if times is None else times
    return _Range(
        asked_for=operations.frame.filter(pl.col("type") == "invoke")["index"].n_unique(),
        acked=counts["acked"][0],
        read=counts["read"][0],
        processes={process: _Asked(acks=acks, before=before) for process, acks, before in last.iter_rows()},
        acted=acted,
        kinds=set(events.words),
    )


def _count_of_committed(operations: pl.DataFrame, micro: str) -> int:
    """How many transactions with such a micro-operation are certainly done."""
    done = (pl.col("type") == "ok") & (pl.col("f") == "txn") & pl.col("value").str.contains(micro, literal=True)
    return operations.filter(done).height


def _count_of_acked(ranges: Sequence[_Range]) -> int:
    """Count the records acknowledged under acks=all, also where an earlier range tells the acks."""
    acks: dict[int, int | None] = {}
    acked = 0
    for range_ in ranges:
        acked += range_.acked
        for process, acks_asked in range_.processes.items():
            acked += acks_asked.before if acks.get(process) == -1 else 0
            acks[process] = acks.get(process) if acks_asked.acks is None else acks_asked.acks
    return acked


def _counts_of_acting(facts: Facts, ranges: Sequence[_Range]) -> dict[str, int]:
    """How often each kind of fault took effect: the manifest's count, or the number of rows if that is higher."""
    counted: Counter[str] = Counter()
    for range_ in ranges:
        counted.update(range_.acted)
    acted = {fault.kind: fault.acted for fault in facts.faults}
    return {**acted, **{kind: max(times, acted.get(kind, 0)) for kind, times in counted.items()}}


def _merge_ranges(ranges: Sequence[_Range], facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Why the run proves nothing, if it does, and its counts."""
    acked, acted = _count_of_acked(ranges), _counts_of_acting(facts, ranges)
    kinds = {kind for range_ in ranges for kind in range_.kinds}
    complaints: list[str] = []
    if facts.outcome != "completed":
        complaints.append(f"the outcome of the run is {facts.outcome}")
    if acked < facts.min_acked:
        complaints.append(f"{acked} records acknowledged under acks=all, fewer than {facts.min_acked}")
    if not facts.recorded and not any(acted.values()):
        complaints.append("no fault acted")
    if "coordination" in facts.observes and not {K.BECAME_LEADER, K.STATE_WRITTEN} & kinds:
        complaints.append("no leader was elected")
    for mark in facts.required_marks:
        happened = acted.get(mark.removeprefix("fault:"), 0) > 0 if mark.startswith("fault:") else mark in kinds
        if not happened:
            complaints.append(f"the required mark {mark} did not occur")
    if cuts and facts.promise.profile == "within":
        complaints.append("a loss was excused under profile within, whose ledger must be empty")
    counts = {
        "operations": sum(range_.asked_for for range_ in ranges),
        "acked": acked,
        "read": sum(range_.read for range_ in ranges),
        "faults": sum(acted.values()),
    }
    return Findings(unchecked=tuple(f"{NAME}: {reason}" for reason in complaints), counts=counts)


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Judge whether the run proves anything; counts client `operations`, `acked` and `read` records, and `faults`."""
    return _merge_ranges([_range_of(operations, events, facts)], facts, cuts)


CHECKER = Checker(
    name=NAME,
    claim="The run is not vacuous: it had acknowledgements, faults, elections, and the marks that its plan requires.",
    assumes="The manifest counts the faults that acted.",
    blind="Whether the faults hit the moments that matter; campaigns measure that.",
    reports=(unknown(shown_by=("lag-by-wall-clock",)),),
    group_by=WHOLE_RUN,
    operations=("produce", "poll", "latest", "earliest", "txn", "txn-commit"),
    events=tuple(K),
    check=check,
    split=ranged(_Range, columns=_COLUMNS, partial=_range_of, merge=_merge_ranges),
)
