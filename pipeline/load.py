"""Stored runs as two DataFrames that share the column `run`, the absolute path of a run's folder, and what is known of each.

Every file is checked at the door, by its footer: a foreign, truncated or outdated one, or one with more or fewer rows than its
manifest counts, is a HistoryError before Spark reads anything. (That rows are of their manifest's digest is for
`history.store.load_run`: here it would mean to read all in one process.)

Afterwards `operations` and `events` have the columns of `history.schema`, and `facts` holds for each run what checkers may know
of it beside the rows, as JSON; a run that recorded nothing is in it all the same.
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
from history.schema import TableName, arrow_schema


class Tables(NamedTuple):
    """`facts`: each run with its `checkers.checker.Facts` as JSON. The frames: run and the columns of their schema, unordered."""

    facts: tuple[tuple[str, str], ...]
    operations: DataFrame
    events: DataFrame


def load(spark: SparkSession, directories: Sequence[Path]) -> Tables:
    """The runs in these folders, at least one. Raises HistoryError where one of them holds no finished history."""
    assert directories
    runs = [directory.resolve() for directory in directories]
    return Tables(
        facts=tuple((str(run), _facts(run)) for run in runs),
        operations=_table(spark, [run / store.OPERATIONS for run in runs], "operations"),
        events=_table(spark, [run / store.EVENTS for run in runs], "events"),
    )


def _facts(run: Path) -> str:
    """As JSON; the files of the run are checked on the way."""
    manifest = store.load_manifest(run)
    operations = parquet.check(run / store.OPERATIONS, "operations")
    events = parquet.check(run / store.EVENTS, "events")
    store.check_rows(run, manifest, operations=operations, events=events)
    return msgspec.json.encode(facts_of(manifest)).decode()


def _table(spark: SparkSession, paths: Sequence[Path], table: TableName) -> DataFrame:
    schema = from_arrow_schema(arrow_schema(table))
    # Spark names a file by an encoded URI. A plus sign is itself in a URI, but a space to url_decode.
    file = url_decode(regexp_replace("_metadata.file_path", r"\+", "%2B"))
    run = regexp_replace(regexp_replace(file, "^file:/*", "/"), "/[^/]*$", "")
    return spark.read.schema(schema).parquet(*map(str, paths)).select(run.alias("run"), "*")
