"""Checkers on Spark: the functions of `checkers`, unchanged, applied group by group in executors.

    operations ─┐
                ├─ by (run, *group_by) ─ cogroup ─ checkers.checker.apply ─▶ findings
    events ─────┘

The groups are those of `checkers.checker.groups`. A row whose group columns are all empty belongs to every group of its run, so
it is copied into each group before the shuffle. Each group also gets a *heading*: a row of operations that holds only the facts
of the run and the cuts of the ledger. The heading carries this data to the executors, and it gives a run without rows a group. A
shuffle does not keep the order, so each group is sorted by index again.
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

# One row for each checker and group: its findings and, if any, its cuts, as JSON.
FINDINGS = "run string, findings string, cuts string"
_FINDINGS = pa.schema([("run", pa.string()), ("findings", pa.string()), ("cuts", pa.string())])


def findings_of(checkers: Sequence[Checker], tables: Tables) -> DataFrame:
    """Run these checkers on every run; return their findings with the columns of `FINDINGS`.

    The ledger runs at once, because its cuts are needed by the rest, which run lazily.
    """
    ledger = [checker for checker in checkers if checker.phase == "ledger"]
    others = [checker for checker in checkers if checker.phase == "others"]
    if not ledger:
        return _stage(others, tables, {})
    # Cached, because both its findings and its cuts are used.
    found = _stage(ledger, tables, {}).cache()
    cuts: dict[str, list[str]] = {}
    for row in found.where(col("cuts").isNotNull()).select("run", "cuts").collect():
        cuts.setdefault(row["run"], []).append(row["cuts"])
    return found.unionByName(_stage(others, tables, cuts)) if others else found


def _stage(checkers: Sequence[Checker], tables: Tables, cuts: Mapping[str, Sequence[str]]) -> DataFrame:
    """Run all checkers with the same groups in one shuffle. `cuts` holds the cuts (excused losses) of each run, as JSON."""
    rows = [(run, facts, cuts.get(run, ())) for run, facts in tables.facts]
    headings = tables.operations.sparkSession.createDataFrame(rows, "run string, facts string, cuts array<string>")
    found = [
        _judged([checker for checker in checkers if checker.group_by == group_by], tables, headings)
        for group_by in sorted({checker.group_by for checker in checkers})
    ]
    return reduce(DataFrame.unionByName, found)


def _judged(checkers: Sequence[Checker], tables: Tables, headings: DataFrame) -> DataFrame:
    """The findings of checkers that share their `group_by`."""
    by = checkers[0].group_by
    names = sorted({name for checker in checkers for name in checker.operations})
    kinds = sorted(kinds_read(checkers))
    # Rows that no checker reads stay out of the shuffle. The groups are collected before, because a group of only such rows
    # counts.
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
    """Copy the rows that belong to every group into each group; keep the other rows as they are."""
    shared = frame.where(_belongs_to_all(group_by)).drop(*group_by)
    return frame.where(~_belongs_to_all(group_by)).unionByName(shared.join(broadcast(groups), "run"))


def _judge_group(checkers: tuple[Checker, ...]) -> Callable[[pa.Table, pa.Table], pa.Table]:
    """Return the function that an executor applies to the rows of one group."""

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
    """Select the columns of the schema in its order, so that checkers see the same frames as in one process."""
    return frame.select(arrow_schema(table).names)
