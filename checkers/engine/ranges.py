"""Judge a history by ranges of the index: the checkers of the whole run, which cannot be cut by partition.

Each range gives a small state of each checker; `merged` makes the findings of all states, in order.
"""

from collections.abc import Iterator, Sequence

import polars as pl
import pyarrow as pa
from msgspec import Struct

from checkers.engine.checker import Checker, condensed, lacking, narrow, unchecked
from checkers.engine.facts import Facts, complete
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Cut, Findings
from history import schema
from history.columns import TableName, columns_of
from history.errors import HistoryError
from history.history import History

RANGE_ROWS = 2_000_000


class JudgedRange(Struct, frozen=True, kw_only=True):
    """The states of the checkers of the run after one range of the index, by name of the checker, and what was read."""

    first: int
    states: dict[str, bytes]
    kinds: tuple[str, ...]  # of the events
    operation_rows: int
    event_rows: int


def judge_range(history: History, first: int, last: int, facts: Facts, checkers: Sequence[Checker]) -> JudgedRange:
    """Compute the states of the checkers of the run for the rows from index `first` to index `last`."""
    of_the_run = [(checker, checker.split) for checker in checkers if checker.split is not None]
    names = sorted({"index", "slot", "f"}.union(*(split.columns for _, split in of_the_run)))
    some_frame = _frame(history.between("operations", first, last, names), "operations", names).sort("index", "slot")
    events = _frame(history.between("events", first, last, _all("events")), "events", _all("events")).sort("index")
    complete_events = Events(complete(events, facts))
    some = Operations(some_frame)
    states = {}
    for checker, split in of_the_run:
        operations = some if split.columns else Operations(_operations_read(history, first, last, checker, some_frame))
        states[checker.name] = split.partial(*narrow(checker, operations, complete_events), facts)
    return JudgedRange(
        first=first,
        states=states,
        kinds=tuple(sorted(complete_events.words)),
        operation_rows=some_frame.height,
        event_rows=events.height,
    )


def _operations_read(history: History, first: int, last: int, checker: Checker, operations: pl.DataFrame) -> pl.DataFrame:
    """All columns of the operations that a checker of few operations reads; they are read only if there are any."""
    functions = list(checker.operations) if operations["f"].is_in(checker.operations).any() else []
    names = _all("operations")
    tables = history.between("operations", first, last, names) if functions else []
    return _frame(tables, "operations", names).filter(pl.col("f").is_in(functions)).sort("index", "slot")


def _all(table: TableName) -> list[str]:
    return [column.name for column in columns_of(table)]


def _frame(tables: list[pa.Table], table: TableName, names: Sequence[str]) -> pl.DataFrame:
    empty = schema.arrow_schema(table).empty_table().select(names)
    return schema.to_frame(pa.concat_tables([empty, *tables]))


def merged(
    states: Sequence[JudgedRange], history: History, facts: Facts, cuts: tuple[Cut, ...], checkers: Sequence[Checker]
) -> Iterator[Findings]:
    """The findings of the checkers of the run, from the states of all ranges.

    Raises HistoryError where the ranges do not hold every row that the manifest counts.
    """
    manifest = history.manifest
    in_order = sorted(states, key=lambda judged_parts: judged_parts.first)
    read = (
        sum(judged_parts.operation_rows for judged_parts in in_order),
        sum(judged_parts.event_rows for judged_parts in in_order),
    )
    if read != (manifest.operation_rows, manifest.event_rows):
        raise HistoryError(
            f"the footers of the parts do not fit their rows: ranges of the index hold {read[0]} and {read[1]} rows"
        )
    kinds = {kind for judged_parts in in_order for kind in judged_parts.kinds}
    for checker in checkers:
        if checker.split is not None:
            lacks = lacking(checker, kinds)
            in_turn = [judged_parts.states[checker.name] for judged_parts in in_order]
            yield unchecked(checker, lacks, "") if lacks else condensed(checker.split.merge(in_turn, facts, cuts))
