"""The table definition, the Structs and the document agree."""

import subprocess
import sys
import types
import typing
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from msgspec import Struct, structs

from history import schema
from history.columns import TABLES, TableName, columns_of
from history.event import ClusterEvent, EventKind
from history.history import History
from history.op import Operation
from history.recorder import EventColumns, OperationColumns
from tests.strategies import histories

ROWS: list[tuple[TableName, type[Struct]]] = [("operations", Operation), ("events", ClusterEvent)]


def _column_type(annotation: object) -> str:
    parts = [part for part in typing.get_args(annotation) if part is not types.NoneType]
    of = parts[0] if isinstance(annotation, types.UnionType) else annotation
    if of is int:
        return "int"
    if isinstance(of, type) and issubclass(of, str):
        return "text"
    if of == tuple[int, ...]:
        return "ints"
    return "texts" if of == tuple[str, ...] else f"no column type for {of}"


@pytest.mark.parametrize(("table", "row"), ROWS)
def test_history_columns_are_the_fields_of_the_row_struct(table: TableName, row: type[Struct]) -> None:
    hints = typing.get_type_hints(row)
    fields = [(name, _column_type(hints[name]), not isinstance(hints[name], types.UnionType)) for name in row.__struct_fields__]

    assert [(c.name, c.type, c.required) for c in columns_of(table)] == fields


@pytest.mark.parametrize(("row", "columns"), [(Operation, OperationColumns), (ClusterEvent, EventColumns)])
def test_recorder_accepts_each_history_column_it_does_not_set(row: type[Struct], columns: type) -> None:
    itself = {"index", "slot", "time_ns", "process", "type", "f", "kind"}
    if row is Operation:
        itself |= {"value", "offset", "leader_epoch"}  # set for each record
    hints = {name: hint for name, hint in typing.get_type_hints(row).items() if name not in itself}

    assert typing.get_type_hints(columns) == hints


@pytest.mark.parametrize("row", [Operation, ClusterEvent])
def test_history_columns_default_to_null_except_slot_zero(row: type[Struct]) -> None:
    """Rows leave defaults out of JSONL and of the digest: any other default would read as another value."""
    defaults = {f.name: f.default for f in structs.fields(row) if not f.required}

    assert {name: value for name, value in defaults.items() if value is not None} == ({"slot": 0} if row is Operation else {})


@pytest.mark.slow
@given(histories())
def test_history_rows_survive_the_conversion_to_columns(history: History) -> None:
    operations = schema.operations_of(schema.to_frame(schema.to_table("operations", history.operations)))
    events = schema.events_of(schema.to_frame(schema.to_table("events", history.events)))

    assert (operations, events) == (history.operations, history.events)


def test_empty_history_tables_have_all_columns_and_types() -> None:
    """Checkers evaluate expressions on frames of runs without rows; a column of type null would break them."""
    frame = schema.to_frame(schema.to_table("events", ()))

    assert frame.schema["isr"] == pl.List(pl.String)
    assert frame.schema["hw"] == pl.Int64
    assert frame.schema["kind"] == pl.String


def test_rows_become_columns_without_importing_pandas() -> None:
    """Arrow imports pandas for its first array: a quarter of a second in each run and each worker of a campaign."""
    code = """
import sys
from history import schema
from history.columns import TABLES, TableName, columns_of
from history.event import ClusterEvent, EventKind
schema.to_table("events", [ClusterEvent(index=0, kind=EventKind.HEALED, time_ns=1)])
sys.exit("pandas" in sys.modules)
"""

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def _events() -> pa.Table:
    return schema.to_table("events", [ClusterEvent(index=0, kind=EventKind.HEALED, time_ns=1)])


def test_table_with_the_history_schema_is_accepted() -> None:
    assert schema.complaint("events", _events()) is None


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (_events().drop_columns(["hw"]), "column hw is missing from events"),
        (_events().append_column("mood", pa.array(["good"])), "column mood of events is unknown"),
        (_events().replace_schema_metadata({}), "not the events table of a highwater history"),
        (
            _events().replace_schema_metadata({b"highwater.table": b"events"}),
            "schema version missing; this highwater reads 1 and 2",
        ),
        (
            _events().replace_schema_metadata({b"highwater.table": b"events", b"highwater.schema_version": b"99"}),
            "schema version 99; this highwater reads 1 and 2",
        ),
        (_events().set_column(2, "time_ns", pa.array(["noon"])), "column time_ns of events is string, not int64"),
        (_events().set_column(2, "time_ns", pa.array([None], pa.int64())), "column time_ns of events holds nulls"),
        (
            _events().set_column(1, "kind", pa.array(["party"])),
            "column kind of events holds 'party', which this version does not know",
        ),
        (_events().select(_events().column_names[::-1]), "the columns of events are out of order"),
    ],
)
def test_table_with_another_schema_is_refused(table: pa.Table, words: str) -> None:
    assert schema.complaint("events", table) == words


def test_history_format_document_is_written_to_a_given_path(tmp_path: Path) -> None:
    code = schema.main(["--rewrite", str(tmp_path / "format.md")])

    assert (code, (tmp_path / "format.md").read_text()) == (0, schema.document())


def test_history_format_document_names_every_column_and_kind() -> None:
    names = [c.name for _, columns in TABLES for c in columns] + [str(k) for k in EventKind]

    assert [name for name in names if f"| `{name}` |" not in schema.document()] == []
