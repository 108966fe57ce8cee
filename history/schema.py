"""The two tables of a history as Arrow tables and Polars frames, and the document of their columns (`history.columns`)."""

import sys
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import cast

import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from history.columns import EVENTS, OPERATIONS, TABLES, Column, ColumnType, TableName, columns_of, unread_version
from history.event import ClusterEvent, EventKind
from history.manifest import READ_VERSIONS, SCHEMA_VERSION, RunManifest
from history.op import Operation, OpType
from history.versions import ADDED, MOVED

_ARROW: dict[ColumnType, pa.DataType] = {
    "int": pa.int64(),
    "text": pa.string(),
    "texts": pa.list_(pa.string()),
    "ints": pa.list_(pa.int64()),
}
_POLARS: dict[ColumnType, pl.DataType] = {
    "int": pl.Int64(),
    "text": pl.String(),
    "texts": pl.List(pl.String),
    "ints": pl.List(pl.Int64),
}
_VERSION_KEY = b"highwater.schema_version"
_TABLE_KEY = b"highwater.table"


def _arrow_schema(table: TableName, version: int) -> pa.Schema:
    columns = [column for column in columns_of(table) if column.since <= version]
    fields = [pa.field(column.name, _ARROW[column.type], nullable=not column.required) for column in columns]
    return pa.schema(fields, metadata={_VERSION_KEY: str(version).encode(), _TABLE_KEY: table.encode()})


_SCHEMAS = {(table, version): _arrow_schema(table, version) for table, _ in TABLES for version in READ_VERSIONS}


def arrow_schema(table: TableName, version: int = SCHEMA_VERSION) -> pa.Schema:
    """The Arrow schema, with the table's name and the schema version in its metadata."""
    return _SCHEMAS[table, version]


def version_of(schema: pa.Schema) -> int | None:
    """The schema version in the metadata of a stored table; None for a version that this program does not read."""
    stated = (schema.metadata or {}).get(_VERSION_KEY, b"")
    return next((version for version in READ_VERSIONS if str(version).encode() == stated), None)


def to_table(table: TableName, rows: Sequence[Operation] | Sequence[ClusterEvent]) -> pa.Table:
    """Convert rows to an Arrow table."""
    return frame_to_table(table, rows_to_frame(table, rows))


def rows_to_frame(table: TableName, rows: Sequence[Operation] | Sequence[ClusterEvent]) -> pl.DataFrame:
    """Convert rows to a Polars frame, column by column: 50,000 events take about 60 ms.

    Not by Arrow, which imports pandas for its first array if that is installed: a quarter of a second in each process.
    """
    columns = columns_of(table)
    return pl.DataFrame([pl.Series(c.name, list(map(attrgetter(c.name), rows)), _POLARS[c.type]) for c in columns])


def frame_to_table(table: TableName, frame: pl.DataFrame) -> pa.Table:
    """Convert a Polars frame to an Arrow table, which also names the table and the schema version."""
    return frame.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(arrow_schema(table))


def to_frame(table: pa.Table) -> pl.DataFrame:
    """Convert an Arrow table to a Polars frame, without a copy of the numbers."""
    return cast(pl.DataFrame, pl.from_arrow(table))


def upgraded_table(table: TableName, arrow: pa.Table) -> pa.Table:
    """Convert a history's table of any readable schema version to this version's columns and metadata."""
    schema = arrow_schema(table)
    if version_of(arrow.schema) == SCHEMA_VERSION:
        return arrow.cast(schema)
    columns = {name: arrow.column(name) for name in arrow.column_names}
    if table == "events":
        columns |= {name: pa.nulls(len(arrow), schema.field(name).type) for name in ADDED}
        for kind, old, new in MOVED:
            moved = pc.equal(columns["kind"], str(kind))
            columns[new] = pc.if_else(moved, columns[old], columns[new])
            columns[old] = pc.if_else(moved, None, columns[old])
    return pa.table([columns[name] for name in schema.names], schema=schema)


def operations_of(frame: pl.DataFrame) -> tuple[Operation, ...]:
    """Convert an operations frame of this schema to rows."""
    # Through JSON, because both sides do that in native code: half the time of Python dicts.
    return msgspec.json.decode(frame.write_json(), type=tuple[Operation, ...])


def events_of(frame: pl.DataFrame) -> tuple[ClusterEvent, ...]:
    """Convert an events frame of this schema to rows."""
    return msgspec.json.decode(frame.write_json(), type=tuple[ClusterEvent, ...])


def complaint(table: TableName, arrow: pa.Table) -> str | None:
    """Why an Arrow table is not a valid `table` of a history, as one clause for an error message; None if it is valid."""
    return schema_complaint(table, arrow.schema) or content_complaint(table, arrow)


def content_complaint(table: TableName, arrow: pa.Table) -> str | None:
    """Why the values in a history's table are invalid: nulls, or an unknown type or kind. None if they are valid."""
    for field in arrow_schema(table):
        if not field.nullable and field.name in arrow.column_names and arrow.column(field.name).null_count:
            return f"column {field.name} of {table} holds nulls"
    name, words = ("type", [str(t) for t in OpType]) if table == "operations" else ("kind", [str(k) for k in EventKind])
    unknown_values = (
        [text for text in arrow.column(name).unique().to_pylist() if text not in words] if name in arrow.column_names else []
    )
    return f"column {name} of {table} holds {min(unknown_values)!r}, which this version does not know" if unknown_values else None


def schema_complaint(table: TableName, actual: pa.Schema) -> str | None:
    """Why the schema of a history's table is invalid: its name, version or columns. None if it is valid."""
    metadata = actual.metadata or {}
    name = metadata.get(_TABLE_KEY, b"").decode(errors="replace")
    if name != table:
        return f"not the {table} table of a highwater history"
    version = version_of(actual)
    if version is None:
        return unread_version(metadata.get(_VERSION_KEY, b"").decode(errors="replace") or "missing")
    expected = arrow_schema(table, version)
    for field in expected:
        if field.name not in actual.names:
            return f"column {field.name} is missing from {table}"
        if actual.field(field.name).type != field.type:
            return f"column {field.name} of {table} is {actual.field(field.name).type}, not {field.type}"
    unknown_columns = sorted(name for name in actual.names if name not in expected.names)
    if unknown_columns:
        return f"column {unknown_columns[0]} of {table} is unknown"
    return None if actual.names == expected.names else f"the columns of {table} are out of order"


# --- the document -----------------------------------------------------------------------------------------------------

_DOCUMENT = """\
# The format of a history

Generated from `history/schema.py` by `python -m history.schema --rewrite docs/history-format.md`; a test compares.

A history is a manifest and two tables: *operations*, what clients asked and were told, and *events*, what was observed of
nodes, ZooKeeper and the harness.
One counter numbers the rows of both tables, so `index` is the order of recording.
The schema version is {version}.
Version 1 lacks the columns `broker`, `count`, `gauge` and `digest`.
A reader moves `leader` of `broker-state`, `offset` of `fault-acted` and `gauge`, and `value` of `log-on-disk` there.
A reader refuses any other version.

## On disk

| form | files | for |
|---|---|---|
| Parquet | `operations.parquet`, `events.parquet`, `manifest.json` in the folder of a run | machines: Spark, DuckDB, pandas, R |
| Parquet in parts | `operations/part-*.parquet`, `events/part-*.parquet`, `manifest.json` | over 2,000,000 rows |
| JSONL | one file, `*.jsonl` | people, corpora, and runs that are still being recorded |

The Arrow schema of each Parquet file holds `highwater.table` and `highwater.schema_version` in its metadata.
The metadata also holds `highwater.digest`, the digest of the rows of both files, where it is known.
The pages of the file have checksums.
The manifest counts the rows of both files, has their digest and, under `files`, the SHA-256 of each file.
A reader refuses files that do not fit the manifest.
A manifest from before `files` was added has none; the digest and the checksums of the pages then prove the rows.

A history in parts has no table as a whole; `parts` of the manifest lists them with their partitions and numbers of rows.
Part 0 has the rows without topic and partition.
Each other part has all rows of some partitions: about 500,000 rows, or one larger partition.
A part is sorted by `index` and has row groups of 16,384 rows whose footers hold the bounds of `index`.
A reader can therefore judge a part alone, and can take a range of the index from all parts.

Each line of a JSONL file is an object with one key.
The first line is `{{"manifest": …}}`.
Each following line is one row, `{{"op": …}}` or `{{"event": …}}`, in the order of `index`.
Columns that are null are left out, and so is a `slot` of 0.
The last line is `{{"end": {{"operations": n, "events": m}}}}` with the number of rows; a file without it was cut off.
Keys that are not columns are refused.

## What a history does not hold

A history does not hold the plan, the variant's switches or the state of the machines.

## Manifest

{manifest}

## Operations

The table of operations has one row for each record of an invocation or completion.
The invocation of a produce of three values is three rows that share an `index`, with `slot` 0, 1, 2.
Its completion is three more rows with another `index`.
A poll that returned nothing is one row without a value.

{operations}

## Events

{events}

### Kinds

{kinds}
"""


def _column_rows(columns: Sequence[Column]) -> str:
    lines = [f"| `{c.name}` | {c.type} | {'yes' if c.required else ''} | {c.words} |" for c in columns]
    return "\n".join(["| column | type | always | meaning |", "|---|---|---|---|", *lines])


def document() -> str:
    """Return the text of docs/history-format.md, generated from the definition of the tables."""
    manifest = ", ".join(f"`{field.name}`" for field in msgspec.structs.fields(RunManifest))
    return _DOCUMENT.format(
        version=SCHEMA_VERSION,
        manifest=f"Keys: {manifest}.",
        operations=_column_rows(OPERATIONS),
        events=_column_rows(EVENTS),
        kinds="\n".join(["| kind | columns |", "|---|---|", *(f"| `{k}` | {k.words} |" for k in EventKind)]),
    )


def main(arguments: Sequence[str]) -> int:
    """Write docs/history-format.md with `--rewrite FILE`. Any other arguments are a usage error (exit code 2)."""
    if len(arguments) != 2 or arguments[0] != "--rewrite":
        sys.stderr.write("usage: python -m history.schema --rewrite docs/history-format.md\n")
        return 2
    Path(arguments[1]).write_text(document(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
