"""Judge a history that is stored in parts (history.parts), one part and one range of the index at a time.

    part 1, 2, …        checkers of partitions  ─▶ findings ─┐
    range 1, 2, …       checkers of the run     ─▶ states   ─┴─ merged ─▶ findings of the history

Parts and ranges are independent of each other: each is a piece of work for one process, reads its rows with filters and keeps
findings and small states. The verdict equals that of the whole history in one frame. A part is judged by the ledger first and
then by the other checkers, because an excused loss concerns its own partition only; checkers of the run get all cuts.
"""

from collections.abc import Sequence

import polars as pl
import pyarrow as pa
from msgspec import Struct

from checkers.engine import ranges, whole
from checkers.engine.checker import Checker
from checkers.engine.columns import NAMES
from checkers.engine.facts import Facts, complete
from checkers.engine.groups import PARTITION
from checkers.engine.ranges import RANGE_ROWS, JudgedRange, judge_range
from checkers.engine.verdict import Findings, joined
from history.errors import HistoryError
from history.history import History
from history.manifest import StoredPart
from history.parts import partitions_in

SHARED = 0  # the number of the part with the rows that belong to every partition


class JudgedPart(Struct, frozen=True, kw_only=True):
    """What the checkers of partitions found in one part."""

    findings: Findings


def judge_parts(
    history: History, facts: Facts, checkers: Sequence[Checker], *, screened_min: int | None, range_rows: int = RANGE_ROWS
) -> list[Findings]:
    """What these checkers find in a history that is stored in parts, with the rows of one part or range in memory."""
    shared = history.part(SHARED)
    judged_parts = [
        judge_part(history.part(number), shared, stored, facts, checkers, screened_min=screened_min)
        for number, stored in enumerate(history.manifest.parts)
        if number != SHARED
    ]
    states = [judge_range(history, first, last, facts, checkers) for first, last in history.index_ranges(range_rows)]
    return merged(judged_parts, states, history, facts, checkers)


def judge_part(
    part: History,
    shared: History,
    stored: StoredPart,
    facts: Facts,
    checkers: Sequence[Checker],
    *,
    screened_min: int | None = None,
) -> JudgedPart:
    """Judge one part by the checkers of partitions. Raises HistoryError where it holds rows of other partitions than stated."""
    named = partitions_in(part.operations_of(("topic", "partition")), part.events_table)
    if named != stored.partitions:
        raise HistoryError(f"{stored.name}: the part holds other partitions than the manifest says")
    every = shared.operations_frame

    def rows() -> whole.Rows:
        return whole.Rows(
            count=part.operation_rows + every.height,
            operations=lambda: pl.concat([part.operations_frame, every]),
            kept=lambda keep: pl.concat([part.operations_kept(keep), keep(every)]),
            events=complete(pl.concat([part.events_frame, shared.events_frame]).sort("index"), facts),
            coded=lambda: _rows_of_part(part.operations_of(NAMES), shared.operations_table.select(NAMES)),
            screened_min=screened_min,
        )

    of_partitions = [checker for checker in checkers if checker.group_by == PARTITION]
    return JudgedPart(findings=joined(whole.judged(rows, facts, of_partitions)))


def _rows_of_part(operations: pa.Table, shared: pa.Table) -> pa.Table:
    """The rows of a part and of every partition, sorted; texts may be dictionaries."""
    if not shared.num_rows:
        return operations
    plain = operations.cast(shared.schema)
    return pa.concat_tables([plain, shared]).sort_by([("index", "ascending"), ("slot", "ascending")])


def merged(
    judged_parts: Sequence[JudgedPart], states: Sequence[JudgedRange], history: History, facts: Facts, checkers: Sequence[Checker]
) -> list[Findings]:
    """The findings of all parts and all ranges of a history.

    Raises HistoryError where the ranges do not hold every row that the manifest counts.
    """
    findings_of_parts = [part.findings for part in judged_parts]
    cuts = tuple(sorted(cut for findings in findings_of_parts for cut in findings.cuts))
    return [*findings_of_parts, *ranges.merged(states, history, facts, cuts, checkers)]
