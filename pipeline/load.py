"""Stored runs as two DataFrames with the column `run`, the absolute path of a run's folder, and the facts of each run.

Every file is checked by its footer before Spark reads it. A foreign, truncated or outdated file, or one whose number of rows
differs from its manifest, raises HistoryError. The digest of the rows is not checked: that would mean to read everything in one
process (`history.store.load_run` does it).

`operations` and `events` have the columns of `history.schema`. `facts` holds for each run, as JSON, what checkers may know beside
the rows; a run without rows is in it too.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import regexp_replace, url_decode
from pyspark.sql.pandas.types import from_arrow_schema

from checkers.checker import facts_of
from history import parquet, store
from history.errors import HistoryError
from history.schema import TableName, arrow_schema


class Tables(NamedTuple):
    """The stored runs as Spark tables.

    `facts` holds each run with its `checkers.checker.Facts` as JSON. The frames have `run` and the schema's columns, unordered.
    """

    facts: tuple[tuple[str, str], ...]
    operations: DataFrame
    events: DataFrame


def load(spark: SparkSession, directories: Sequence[Path]) -> Tables:
    """Load the runs in these folders, at least one. Raises HistoryError where a folder holds no finished history."""
    assert directories
    runs = [directory.resolve() for directory in directories]
    return Tables(
        facts=tuple((str(run), _facts(run)) for run in runs),
        operations=_table(spark, [run / store.OPERATIONS for run in runs], "operations"),
        events=_table(spark, [run / store.EVENTS for run in runs], "events"),
    )


def _facts(run: Path) -> str:
    """Check the files of a run and return its facts as JSON."""
    manifest = store.load_manifest(run)
    operations = parquet.check(run / store.OPERATIONS, "operations")
    events = parquet.check(run / store.EVENTS, "events")
    if not store.is_current(run):
        raise HistoryError(f"{run}: Spark does not read earlier schema versions; judge this run with checkers.single.judge")
    store.check_rows(run, manifest, operations=operations, events=events)
    return msgspec.json.encode(facts_of(manifest)).decode()


def _table(spark: SparkSession, paths: Sequence[Path], table: TableName) -> DataFrame:
    schema = from_arrow_schema(arrow_schema(table))
    # Spark names a file by an encoded URI. In a URI a plus sign is literal, but url_decode would turn it into a space.
    file = url_decode(regexp_replace("_metadata.file_path", r"\+", "%2B"))
    run = regexp_replace(regexp_replace(file, "^file:/*", "/"), "/[^/]*$", "")
    return spark.read.schema(schema).parquet(*map(str, paths)).select(run.alias("run"), "*")
