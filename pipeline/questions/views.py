"""The tables of a dataset as views of a Spark session: the rows of its committed parts."""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from pipeline.dataset import Part
from pipeline.storage import Storage
from pipeline.tables import HIVE, TABLES, Table, arrow_schema


def make_views(spark: SparkSession, storage: Storage, parts: Sequence[Part]) -> None:
    """Make a view of each table: the rows of these parts."""
    for table in TABLES:
        _frame(spark, storage, parts, table).createOrReplaceTempView(table)


def _frame(spark: SparkSession, storage: Storage, parts: Sequence[Part], table: Table) -> DataFrame:
    """A table of these parts as a data frame, empty if no part has it."""
    names = [pa.field(name, pa.string(), nullable=False) for name in HIVE]
    schema = from_arrow_schema(pa.schema([*arrow_schema(table), *names]))
    files = [storage.path(part.path(table)) for part in parts if table in part.files]
    if not files:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).option("basePath", storage.path(table)).parquet(*files)
