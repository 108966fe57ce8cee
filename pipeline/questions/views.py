"""The tables of a dataset as views of a Spark session: the rows of its committed parts."""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from pipeline.dataset import Part, parts_of
from pipeline.errors import PipelineError
from pipeline.storage import Storage, storage_at
from pipeline.tables import HIVE, TABLES, Table, arrow_schema


def make_views(spark: SparkSession, dataset: str, *, campaigns: Sequence[str] = ()) -> None:
    """Make a view of each table, limited to these campaigns if any are given.

    Raises PipelineError where there is no dataset or a campaign is not in it.
    """
    storage = storage_at(dataset)
    if storage.folder is None:
        raise PipelineError(f"{dataset}: Spark asks a dataset in a folder; copy this one")
    parts = parts_of(storage)
    if not parts:
        raise PipelineError(f"{dataset}: no dataset is stored here (highwater store ingest)")
    campaign_names = sorted({part.campaign for part in parts})
    for campaign in campaigns:
        if campaign not in campaign_names:
            raise PipelineError(f"{dataset} has no campaign {campaign!r}; known: {', '.join(campaign_names)}")
    chosen = [part for part in parts if not campaigns or part.campaign in campaigns]
    for table in TABLES:
        _frame(spark, storage, chosen, table).createOrReplaceTempView(table)


def _frame(spark: SparkSession, storage: Storage, parts: Sequence[Part], table: Table) -> DataFrame:
    """A table of these parts as a data frame, empty if no part has it."""
    names = [pa.field(name, pa.string(), nullable=False) for name in HIVE]
    schema = from_arrow_schema(pa.schema([*arrow_schema(table), *names]))
    files = [storage.path(part.path(table)) for part in parts if table in part.files]
    if not files:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).option("basePath", storage.path(table)).parquet(*files)
