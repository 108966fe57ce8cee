"""The two tables as Parquet files, for machines: Spark, DuckDB, pandas, R.

The schema (history.schema) stands in the file with its version; a reader refuses a file of another version, with a column
missing, unknown or of another type, with nulls where there must be none, and with words it does not know.
"""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from history.errors import HistoryError
from history.schema import TableName, arrow_schema, complaint, schema_complaint


def encode(table: pa.Table) -> bytes:
    """The bytes of a Parquet file, zstd compressed."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    data: bytes = sink.getvalue().to_pybytes()
    return data


def read(path: Path, table: TableName) -> pa.Table:
    """A table of this schema; HistoryError where the file is truncated, foreign or absent."""
    try:
        # The file's own columns, not the wanted ones: a file with others must be refused, not read in part.
        found = pq.ParquetFile(path).read()
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from error
    refusal = complaint(table, found)
    if refusal is not None:
        raise HistoryError(f"{path}: {refusal}")
    return found.cast(arrow_schema(table))


def check(path: Path, table: TableName) -> int:
    """The rows of a file; HistoryError unless it holds the schema of this table. Reads the footer alone."""
    try:
        with pq.ParquetFile(path) as file:
            found, rows = file.schema_arrow, file.metadata.num_rows
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from error
    refusal = schema_complaint(table, found)
    if refusal is not None:
        raise HistoryError(f"{path}: {refusal}")
    return int(rows)


def _unreadable(path: Path, error: Exception) -> HistoryError:
    if isinstance(error, FileNotFoundError):
        return HistoryError(f"{path}: no such file")
    return HistoryError(f"{path}: no whole Parquet file: {' '.join(str(error).split())}")
