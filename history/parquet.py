"""The two tables as Parquet files, for Spark, DuckDB, pandas and R.

The file holds its schema (history.schema) with the schema version. A reader upgrades the earlier versions of `history.versions`.
It refuses any other version, a missing or unknown column, a column of another type, nulls in a required column, and unknown words
in `type` or `kind`.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from history.columns import TableName, columns_of
from history.errors import HistoryError
from history.manifest import SCHEMA_VERSION
from history.schema import complaint, content_complaint, schema_complaint, upgraded_table, version_of

_DIGEST_KEY = b"highwater.digest"
# What reading a damaged file raises; names of columns that are not UTF-8 raise the last one.
_UNREADABLE = (OSError, pa.ArrowException, UnicodeDecodeError)


def encode(table: pa.Table, *, digest: str = "", group_rows: int | None = None) -> bytes:
    """Encode any table as a Parquet file, zstd compressed. `digest` is that of the history, if the table belongs to one.

    A row group has `group_rows` rows, by default about a million.
    """
    if digest:
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), _DIGEST_KEY: digest.encode()})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=group_rows, compression="zstd", write_page_checksum=True)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def read(path: Path, table: TableName) -> pa.Table:
    """Read a table of this schema. Raises HistoryError where the file is truncated, foreign or absent."""
    try:
        # Read all columns of the file and not the wanted ones: a file with other columns must be refused, not read in part.
        rows = pq.ParquetFile(path, page_checksum_verification=True).read()
        rows.validate(full=True)  # a text that is not UTF-8 would end Polars; takes 1 ms for 20,000 rows
    except _UNREADABLE as error:
        raise _unreadable(path, error) from error
    refusal = complaint(table, rows)
    if refusal is not None:
        raise HistoryError(f"{path}: {refusal}")
    return upgraded_table(table, rows)


def read_columns(path: Path, table: TableName, names: Sequence[str]) -> pa.Table:
    """Read some columns of a file that `check` passed, texts as dictionaries: a tenth of the memory of all columns.

    Raises HistoryError as `read` does, as far as these columns show an error.
    """
    if not is_current(path):
        return read(path, table).select(names)
    texts = [column.name for column in columns_of(table) if column.type == "text" and column.name in names]
    try:
        with pq.ParquetFile(path, read_dictionary=texts, page_checksum_verification=True) as file:
            rows = file.read(columns=list(names), use_threads=False)
    except _UNREADABLE as error:
        raise _unreadable(path, error) from error
    refusal = content_complaint(table, rows)
    if refusal is not None:
        raise HistoryError(f"{path}: {refusal}")
    return rows


def parts(path: Path, table: TableName) -> Iterator[pa.Table]:
    """Read all rows of a file that `check` passed, a row group (about a million rows) at a time. Raises HistoryError as `read`
    does.
    """
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            for group in range(file.num_row_groups):
                rows = file.read_row_group(group, use_threads=False)
                refusal = content_complaint(table, rows)
                if refusal is not None:
                    raise HistoryError(f"{path}: {refusal}")
                yield upgraded_table(table, rows)
    except _UNREADABLE as error:
        raise _unreadable(path, error) from error


class IndexedRows(NamedTuple):
    """A row group of a file: its number, its first and last index, and its number of rows."""

    group: int
    first: int
    last: int
    rows: int


def indexed_rows(path: Path) -> list[IndexedRows]:
    """The row groups of a file, from its footer. Raises HistoryError as `read` does, and where the footer has no bounds."""
    try:
        with pq.ParquetFile(path) as file:
            return _indexed_rows(file, path)
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from error


def _indexed_rows(file: pq.ParquetFile, path: Path) -> list[IndexedRows]:
    """The non-empty row groups with the first and last index of each."""
    groups = []
    if "index" not in file.schema_arrow.names:
        raise HistoryError(f"{path}: column index is missing")
    column = file.schema_arrow.names.index("index")
    for number in range(file.num_row_groups):
        group = file.metadata.row_group(number)
        if group.num_rows:
            bounds = group.column(column).statistics
            if bounds is None or not bounds.has_min_max:
                raise HistoryError(f"{path}: the footer has no bounds of column index, so the file cannot be read by range")
            groups.append(IndexedRows(number, bounds.min, bounds.max, group.num_rows))
    return groups


def read_between(path: Path, table: TableName, first: int, last: int, names: Sequence[str]) -> pa.Table | None:
    """Read some columns, with `index` among them, of the rows of a range of the index from a file that `check` passed.

    None where there are none. Reads only row groups that may hold such rows. Raises HistoryError as `read` does.
    """
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            groups = [rows.group for rows in _indexed_rows(file, path) if rows.first <= last and rows.last >= first]
            if not groups:
                return None
            found = file.read_row_groups(groups, columns=list(names), use_threads=False)
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from error
    index = found["index"]
    found = found.filter(pc.and_(pc.greater_equal(index, first), pc.less_equal(index, last)))
    refusal = content_complaint(table, found)
    if refusal is not None:
        raise HistoryError(f"{path}: {refusal}")
    return found


def check(path: Path, table: TableName) -> int:
    """Check the schema of a file and return its number of rows. Reads the footer alone, and columns that may hold nulls but must
    not. Raises HistoryError where the file does not fit.
    """
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            refusal = schema_complaint(table, file.schema_arrow) or content_complaint(
                table, file.read(columns=_doubtful(file, table))
            )
            rows = file.metadata.num_rows
    except _UNREADABLE as error:
        raise _unreadable(path, error) from error
    if refusal is not None:
        raise HistoryError(f"{path}: {refusal}")
    return int(rows)


def _doubtful(file: pq.ParquetFile, table: TableName) -> list[str]:
    """The required columns that the file declares as nullable; our own writer never does."""
    return [column.name for column in columns_of(table) if column.required and file.schema_arrow.field(column.name).nullable]


def is_current(path: Path) -> bool:
    """Whether a file is of this schema version and not of an earlier one. Reads the footer alone."""
    try:
        with pq.ParquetFile(path) as file:
            return version_of(file.schema_arrow) == SCHEMA_VERSION
    except _UNREADABLE as error:
        raise _unreadable(path, error) from error


def digest_of(path: Path) -> str:
    """The digest that a file was written with; empty where it has none. Reads the footer alone."""
    try:
        with pq.ParquetFile(path) as file:
            return str((file.schema_arrow.metadata or {}).get(_DIGEST_KEY, b"").decode(errors="replace"))
    except _UNREADABLE as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> HistoryError:
    if isinstance(error, FileNotFoundError):
        return HistoryError(f"{path}: no such file")
    return HistoryError(f"{path}: not a complete Parquet file: {' '.join(str(error).split())}")
