"""Answers in this process: DuckDB reads the files of a dataset, and SQLGlot translates the statements from Spark's dialect.

For datasets that one machine holds: it needs no Java and starts at once. Spark gives the same answers (tests/pipeline).
"""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from pipeline.dataset import Part
from pipeline.errors import PipelineError
from pipeline.questions.question import tables_in
from pipeline.storage import Storage
from pipeline.tables import HIVE, Table, arrow_schema

_MESSAGE_MAX = 300


class InProcess:
    """The views of a dataset in DuckDB: the rows of these parts."""

    def __init__(self, storage: Storage, parts: Sequence[Part]) -> None:
        self._connection = duckdb.connect()
        self._storage, self._parts = storage, parts
        self._made: set[Table] = set()

    def table(self, sql: str, names: Mapping[str, str] = MappingProxyType({})) -> pa.Table:
        """The rows of a statement of Spark SQL; `names` are the values of its parameters. Raises PipelineError."""
        try:
            statement = sqlglot.parse_one(sql, read="spark")
        except SqlglotError as error:
            raise PipelineError(f"the statement is refused: {_line(error)}") from error
        if not isinstance(statement, exp.Query):
            raise PipelineError("the statement is refused: only a SELECT asks for rows")
        try:
            # DuckDB opens the files of a view as it is made: of tables that nobody asks for they were not compared.
            for table in tables_in(sql):
                if table not in self._made:
                    self._make_view(self._storage, self._parts, table)
                    self._made.add(table)
            found = self._connection.sql(statement.sql("duckdb"), params=dict(names) or None).to_arrow_table()
        except duckdb.Error as error:
            raise PipelineError(f"the statement is refused: {_line(error)}") from error
        return found.cast(pa.schema([_narrow(field) for field in found.schema]))

    def _make_view(self, storage: Storage, parts: Sequence[Part], table: Table) -> None:
        """Make the files of a table known by its name; an empty table if no part has rows."""
        files = [storage.path(part.path(table)) for part in parts if table in part.files]
        if files:
            types = ", ".join(f"{name}: varchar" for name in HIVE)
            quoted = ", ".join("'" + _literal(file).replace("'", "''") + "'" for file in files)
            options = f"hive_partitioning=true, hive_types={{{types}}}"
            self._connection.execute(f"create view {table} as select * from read_parquet([{quoted}], {options})")
        else:
            empty = arrow_schema(table).empty_table()
            for name in HIVE:
                empty = empty.append_column(name, pa.array([], pa.string()))
            self._connection.register(table, empty)


def _literal(path: str) -> str:
    """A path as a pattern of DuckDB that only this path fits."""
    return re.sub(r"[*?\[]", r"[\g<0>]", path)


def _narrow(field: pa.Field) -> pa.Field:
    """Sums and counts are 64-bit integers, as in Spark; DuckDB's have 128 bits."""
    whole = pa.types.is_decimal(field.type) and field.type.scale == 0
    return pa.field(field.name, pa.int64() if whole else field.type)


def _line(error: Exception) -> str:
    """The first line of an error's message."""
    return " ".join(str(error).strip().partition("\n")[0].split())[:_MESSAGE_MAX]
