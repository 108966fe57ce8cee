"""The tables of a dataset as views of a Spark session."""

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col
from pyspark.sql.pandas.types import from_arrow_schema

from pipeline.errors import PipelineError
from pipeline.tables import HIVE, TABLES, Table, arrow_schema


def campaigns_of(dataset: Path) -> list[str]:
    """The campaigns of a dataset, sorted. Raises PipelineError where the folder is no dataset."""
    found = sorted(unquote(path.name.partition("=")[2]) for path in (dataset / "runs").glob("campaign=*"))
    if not found:
        raise PipelineError(f"{dataset}: not a dataset of runs: it has no folder runs/campaign=NAME (highwater store ingest)")
    return found


def make_views(spark: SparkSession, dataset: Path, *, campaigns: Sequence[str] = ()) -> None:
    """Make a view of each table, limited to these campaigns if any are given.

    Raises PipelineError where the folder is no dataset or a campaign is not in it.
    """
    known = campaigns_of(dataset)
    for campaign in campaigns:
        if campaign not in known:
            raise PipelineError(f"{dataset} has no campaign {campaign!r}; known: {', '.join(known)}")
    for table in TABLES:
        frame = _frame(spark, dataset, table)
        chosen = frame.where(col("campaign").isin(list(campaigns))) if campaigns else frame
        chosen.createOrReplaceTempView(table)


def _frame(spark: SparkSession, dataset: Path, table: Table) -> DataFrame:
    folder = dataset / table
    # Spark would take a campaign `007` for a number.
    names = [pa.field(name, pa.string(), nullable=False) for name in HIVE]
    schema = from_arrow_schema(pa.schema([*arrow_schema(table), *names]))
    files = sorted(str(path) for path in folder.glob("campaign=*/protocol=*/*.parquet"))
    if not files:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).option("basePath", str(folder)).parquet(*files)
