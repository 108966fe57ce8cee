"""The two tables as Parquet files, for machines: Spark, DuckDB, pandas, R.

The schema (history.schema) stands in the file with its version; a reader refuses a file of another version, with a column
missing, unknown or of another type, with nulls where there must be none, and with words it does not know.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from history.errors import HistoryError
from history.schema import TableName, arrow_schema, columns_of, complaint, content_complaint, schema_complaint

_DIGEST_KEY = b"highwater.digest"


def encode(table: pa.Table, *, digest: str = "") -> bytes:
    """The bytes of a Parquet file, zstd compressed; `digest` of the history that it is a table of."""
    if digest:
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), _DIGEST_KEY: digest.encode()})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", write_page_checksum=True)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def read(path: Path, table: TableName) -> pa.Table:
    """A table of this schema; HistoryError where the file is truncated, foreign or absent."""
    try:
        # The file's own columns, not the wanted ones: a file with others must be refused, not read in part.
        found = pq.ParquetFile(path, page_checksum_verification=True).read()
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from error
    refusal = complaint(table, found)
    if refusal is not None:
        raise HistoryError(f"{path}: {refusal}")
    return found.cast(arrow_schema(table))


def read_columns(path: Path, table: TableName, names: Sequence[str]) -> pa.Table:
    """Some columns of a file that `check` passed, texts as dictionaries: a tenth of the memory of all of them.

    Raises HistoryError as `read` does, as far as these columns show it.
    """
    texts = [column.name for column in columns_of(table) if column.type == "text" and column.name in names]
    try:
        with pq.ParquetFile(path, read_dictionary=texts, page_checksum_verification=True) as file:
            found = file.read(columns=list(names), use_threads=False)
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from error
    refusal = content_complaint(table, found)
    if refusal is not None:
        raise HistoryError(f"{path}: {refusal}")
    return found


def parts(path: Path, table: TableName) -> Iterator[pa.Table]:
    """All rows of a file that `check` passed, a row group (some million rows) at a time; HistoryError as `read`."""
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            for group in range(file.num_row_groups):
                found = file.read_row_group(group, use_threads=False)
                refusal = content_complaint(table, found)
                if refusal is not None:
                    raise HistoryError(f"{path}: {refusal}")
                yield found.cast(arrow_schema(table))
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from error


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


def digest_of(path: Path) -> str:
    """The digest that a file which `check` passed was written with; empty where it has none."""
    with pq.ParquetFile(path) as file:
        return str((file.schema_arrow.metadata or {}).get(_DIGEST_KEY, b"").decode(errors="replace"))


def _unreadable(path: Path, error: Exception) -> HistoryError:
    if isinstance(error, FileNotFoundError):
        return HistoryError(f"{path}: no such file")
    return HistoryError(f"{path}: no whole Parquet file: {' '.join(str(error).split())}")
