"""Checkers on Spark: the functions of `checkers`, unchanged, applied group by group in executors.

    operations ─┐
                ├─ by (run, *group_by) ─ cogroup ─ checkers.checker.apply ─▶ findings
    events ─────┘

The groups are those of `checkers.checker.groups`: a row whose group columns are all empty belongs to every group of its run,
so it is copied into each of them before the shuffle. Each group also gets one *heading*, a row of operations with no column
but the facts of the run and the cuts that the ledger made: it reaches the executors the way the rows do, and it makes a group
of a run that recorded nothing. Order does not survive a shuffle, so each group is sorted by index again.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce

import msgspec
import polars as pl
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql.functions import broadcast, col

from checkers.checker import Checker, Facts, Group, apply, kinds_read
from checkers.verdict import Cut
from history.schema import TableName, arrow_schema
from pipeline.load import Tables

# A row for each checker and group: its findings and, where it made some, its cuts, as JSON.
FINDINGS = "run string, findings string, cuts string"
_FINDINGS = pa.schema([("run", pa.string()), ("findings", pa.string()), ("cuts", pa.string())])


def findings_of(checkers: Sequence[Checker], tables: Tables) -> DataFrame:
    """What these checkers find in every run: columns of `FINDINGS`. The ledger is worked out at once, the rest when asked for."""
    ledger = [checker for checker in checkers if checker.phase == "ledger"]
    others = [checker for checker in checkers if checker.phase == "others"]
    if not ledger:
        return _stage(others, tables, {})
    # Kept, because both its findings and its cuts are needed.
    found = _stage(ledger, tables, {}).cache()
    cuts: dict[str, list[str]] = {}
    for row in found.where(col("cuts").isNotNull()).select("run", "cuts").collect():
        cuts.setdefault(row["run"], []).append(row["cuts"])
    return found.unionByName(_stage(others, tables, cuts)) if others else found


def _stage(checkers: Sequence[Checker], tables: Tables, cuts: Mapping[str, Sequence[str]]) -> DataFrame:
    """One shuffle for all checkers that group alike. `cuts` of each run, as JSON."""
    rows = [(run, facts, cuts.get(run, ())) for run, facts in tables.facts]
    headings = tables.operations.sparkSession.createDataFrame(rows, "run string, facts string, cuts array<string>")
    found = [
        _judged([checker for checker in checkers if checker.group_by == group_by], tables, headings)
        for group_by in sorted({checker.group_by for checker in checkers})
    ]
    return reduce(DataFrame.unionByName, found)


def _judged(checkers: Sequence[Checker], tables: Tables, headings: DataFrame) -> DataFrame:
    """The findings of checkers that have their `group_by` in common."""
    by = checkers[0].group_by
    names = sorted({name for checker in checkers for name in checker.operations})
    kinds = sorted(kinds_read(checkers))
    # What nobody reads stays out of the shuffle. A group of such rows alone is a group still, so the groups are known before.
    operations = tables.operations.where(col("f").isin(names)).unionByName(headings, allowMissingColumns=True)
    events = tables.events.where(col("kind").isin(kinds))
    if by:
        groups = tables.operations.select("run", *by).union(tables.events.select("run", *by))
        groups = groups.where(~_belongs_to_all(by)).distinct()
        operations, events = _shared_out(operations, groups, by), _shared_out(events, groups, by)
    left, right = operations.groupBy("run", *by), events.groupBy("run", *by)
    return left.cogroup(right).applyInArrow(_judge_group(tuple(checkers)), FINDINGS)


def _belongs_to_all(group_by: tuple[str, ...]) -> Column:
    return reduce(Column.__and__, [col(column).isNull() for column in group_by])


def _shared_out(frame: DataFrame, groups: DataFrame, group_by: tuple[str, ...]) -> DataFrame:
    """Rows that belong to every group, copied into each; the others as they are."""
    shared = frame.where(_belongs_to_all(group_by)).drop(*group_by)
    return frame.where(~_belongs_to_all(group_by)).unionByName(shared.join(broadcast(groups), "run"))


def _judge_group(checkers: tuple[Checker, ...]) -> Callable[[pa.Table, pa.Table], pa.Table]:
    """What an executor does with the rows of one group."""

    def judge(operations: pa.Table, events: pa.Table) -> pa.Table:
        headed = _frame(operations)
        (heading,) = headed.filter(pl.col("index").is_null()).select("run", "facts", "cuts").iter_rows(named=True)
        facts = msgspec.json.decode(heading["facts"], type=Facts)
        cuts = tuple(sorted(cut for text in heading["cuts"] for cut in msgspec.json.decode(text, type=tuple[Cut, ...])))
        operations_of_group = _rows(headed.filter(pl.col("index").is_not_null()), "operations").sort("index", "slot")
        group = Group(operations_of_group, _rows(_frame(events), "events").sort("index"))
        found = [apply(checker, group, facts, cuts) for checker in checkers]
        rows = {
            "run": [heading["run"]] * len(found),
            "findings": [msgspec.json.encode(findings).decode() for findings in found],
            "cuts": [msgspec.json.encode(findings.cuts).decode() if findings.cuts else None for findings in found],
        }
        return pa.Table.from_pydict(rows, schema=_FINDINGS)

    return judge


def _frame(table: pa.Table) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame


def _rows(frame: pl.DataFrame, table: TableName) -> pl.DataFrame:
    """The columns of the schema, in its order: checkers see what they see in one process."""
    return frame.select(arrow_schema(table).names)
