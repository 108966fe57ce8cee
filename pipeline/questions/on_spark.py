"""Answers of Spark: the tables of a dataset as views of a session, the rows of its committed parts."""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from pipeline.dataset import Part
from pipeline.errors import PipelineError
from pipeline.questions.question import tables_in
from pipeline.session import cause
from pipeline.storage import Storage
from pipeline.tables import HIVE, Table, arrow_schema


class OnSpark:
    """The views of a dataset in a Spark session: the rows of these parts."""

    def __init__(self, spark: SparkSession, storage: Storage, parts: Sequence[Part]) -> None:
        self._spark = spark
        self._storage, self._parts = storage, parts
        self._made: set[Table] = set()

    def table(self, sql: str, names: Mapping[str, str] = MappingProxyType({})) -> pa.Table:
        """The rows of a statement; `names` are the values of its parameters. Raises PipelineError."""
        try:
            # Spark looks for the files of a view as it is made: of tables that nobody asks for they were not compared.
            for table in tables_in(sql):
                if table not in self._made:
                    _frame_of_table(self._spark, self._storage, self._parts, table).createOrReplaceTempView(table)
                    self._made.add(table)
            return self._spark.sql(sql, args=dict(names)).toArrow()
        except (Py4JError, PySparkException) as error:  # the former of a file that vanished as its rows were fetched
            raise PipelineError(f"the statement is refused: {cause(str(error))}") from error


def _frame_of_table(spark: SparkSession, storage: Storage, parts: Sequence[Part], table: Table) -> DataFrame:
    """The rows of a table's files as a DataFrame of its schema; empty if no part has any."""
    names = [pa.field(name, pa.string(), nullable=False) for name in HIVE]
    schema = from_arrow_schema(pa.schema([*arrow_schema(table), *names]))
    files = [_literal(storage.path(part.path(table))) for part in parts if table in part.files]
    if not files:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).option("basePath", storage.path(table)).parquet(*files)


def _literal(path: str) -> str:
    """A path as a pattern of Hadoop that only this path fits."""
    return re.sub(r"[*?\[\]{}\\]", r"\\\g<0>", path)
