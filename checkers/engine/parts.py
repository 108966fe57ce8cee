"""Judge a history that is stored in parts (history.parts), one part and one range of the index at a time.

    part 1, 2, …        checkers of partitions  ─▶ findings ─┐
    range 1, 2, …       checkers of the run     ─▶ states   ─┴─ merged ─▶ verdict

Parts and ranges are independent of each other: each is a piece of work for one process, reads its rows with filters and keeps
findings and small states. The verdict equals that of the whole history in one frame. A part is judged by the ledger first and
then by the other checkers, because an excused loss concerns its own partition only; checkers of the run get all cuts.
"""

from collections.abc import Sequence

import polars as pl
import pyarrow as pa
from msgspec import Struct

from checkers.engine.checker import PARTITION, Checker, condensed, facts_of, lacking, unchecked
from checkers.engine.columns import NAMES
from checkers.engine.screening import SCREENED_MIN, Rows, findings, without_collector
from checkers.engine.verdict import Findings, Verdict, joined, merge
from history import parts, schema
from history.errors import HistoryError
from history.history import History
from history.manifest import StoredPart
from history.schema import TableName

RANGE_ROWS = 2_000_000
SHARED = 0  # the number of the part with the rows that belong to every partition


class JudgedPart(Struct, frozen=True, kw_only=True):
    """What the checkers of partitions found in one part."""

    findings: Findings


class JudgedRange(Struct, frozen=True, kw_only=True):
    """The states of the checkers of the run after one range of the index, by name of the checker, and what was read."""

    first: int
    states: dict[str, bytes]
    kinds: tuple[str, ...]  # of the events
    operation_rows: int
    event_rows: int


def judge(
    history: History, checkers: Sequence[Checker], *, range_rows: int = RANGE_ROWS, screened_min: int = SCREENED_MIN
) -> Verdict:
    """The verdict of a run that is stored in parts, in this process and with the rows of one part or range in memory."""
    shared = history.part(SHARED)
    judged = [
        judge_part(history.part(number), shared, part, checkers, screened_min=screened_min)
        for number, part in enumerate(history.manifest.parts)
        if number != SHARED
    ]
    ranges = [judge_range(history, first, last, checkers) for first, last in history.index_ranges(range_rows)]
    return merged(judged, ranges, history, checkers)


def judge_part(
    part: History, shared: History, stored: StoredPart, checkers: Sequence[Checker], *, screened_min: int = SCREENED_MIN
) -> JudgedPart:
    """Judge one part by the checkers of partitions. Raises HistoryError where it holds rows of other partitions than stated."""
    events = part.events_frame
    named = parts.partitions_in(part.operations_of(("topic", "partition")), part.events_table)
    if named != stored.partitions:
        raise HistoryError(f"{stored.name}: the part holds other partitions than the manifest says")
    every = shared.operations_frame
    rows = Rows(
        count=part.operation_rows + every.height,
        operations=lambda: pl.concat([part.operations_frame, every]),
        kept=lambda keep: pl.concat([part.operations_kept(keep), keep(every)]),
        events=pl.concat([events, shared.events_frame]).sort("index"),
        coded=lambda: _together(part.operations_of(NAMES), shared.operations_table.select(NAMES)),
        screened_min=screened_min,
    )
    of_partitions = tuple(checker for checker in checkers if checker.group_by == PARTITION)
    with without_collector():
        return JudgedPart(findings=joined(findings(rows, facts_of(part.manifest), of_partitions)))


def _together(operations: pa.Table, shared: pa.Table) -> pa.Table:
    """The rows of a part and of every partition, sorted; texts may be dictionaries."""
    if not shared.num_rows:
        return operations
    plain = operations.cast(shared.schema)
    return pa.concat_tables([plain, shared]).sort_by([("index", "ascending"), ("slot", "ascending")])


def judge_range(history: History, first: int, last: int, checkers: Sequence[Checker]) -> JudgedRange:
    """Compute the states of the checkers of the run for the rows from index `first` to index `last`."""
    facts = facts_of(history.manifest)
    of_the_run = [checker for checker in checkers if checker.split is not None]
    names = sorted({"index", "slot", "f"}.union(*(checker.split.columns for checker in of_the_run if checker.split is not None)))
    some = _frame(history.between("operations", first, last, names), "operations", names)
    events = _frame(history.between("events", first, last, _all("events")), "events", _all("events")).sort("index")
    some = some.sort("index", "slot")
    states = {}
    for checker in of_the_run:
        assert checker.split is not None
        operations = some if checker.split.columns else _of_kind(history, first, last, checker, some)
        kinds = [str(kind) for kind in checker.events]
        states[checker.name] = checker.split.partial(
            operations.filter(pl.col("f").is_in(checker.operations)), events.filter(pl.col("kind").is_in(kinds)), facts
        )
    return JudgedRange(
        first=first,
        states=states,
        kinds=tuple(sorted(events["kind"].unique().to_list())),
        operation_rows=some.height,
        event_rows=events.height,
    )


def _of_kind(history: History, first: int, last: int, checker: Checker, some: pl.DataFrame) -> pl.DataFrame:
    """All columns of the operations that a checker of few operations reads; they are read only if there are any."""
    wanted = list(checker.operations) if some["f"].is_in(checker.operations).any() else []
    names = _all("operations")
    tables = history.between("operations", first, last, names) if wanted else []
    return _frame(tables, "operations", names).filter(pl.col("f").is_in(wanted)).sort("index", "slot")


def _all(table: TableName) -> list[str]:
    return [column.name for column in schema.columns_of(table)]


def _frame(tables: list[pa.Table], table: TableName, names: Sequence[str]) -> pl.DataFrame:
    empty = schema.arrow_schema(table).empty_table().select(names)
    return schema.to_frame(pa.concat_tables([empty, *tables]))


def merged(judged: Sequence[JudgedPart], ranges: Sequence[JudgedRange], history: History, checkers: Sequence[Checker]) -> Verdict:
    """Merge all parts and all ranges of a history to its verdict.

    Raises HistoryError where the ranges do not hold every row that the manifest counts.
    """
    facts, manifest = facts_of(history.manifest), history.manifest
    in_order = sorted(ranges, key=lambda one: one.first)
    read = sum(one.operation_rows for one in in_order), sum(one.event_rows for one in in_order)
    if read != (manifest.operation_rows, manifest.event_rows):
        raise HistoryError(
            f"the footers of the parts do not fit their rows: ranges of the index hold {read[0]} and {read[1]} rows"
        )
    found = [part.findings for part in judged]
    cuts = tuple(sorted(cut for findings in found for cut in findings.cuts))
    kinds = {kind for one in in_order for kind in one.kinds}
    for checker in checkers:
        if checker.split is not None:
            states = [one.states[checker.name] for one in in_order]
            lacks = lacking(checker, kinds)
            found.append(unchecked(checker, lacks, "") if lacks else condensed(checker.split.merge(states, facts, cuts)))
    return merge(found)
