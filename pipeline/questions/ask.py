"""Asking a dataset: a session, the views, and the answers as Arrow tables.

PySpark is imported inside the functions, so that a machine without PySpark or Java gets one sentence and no traceback.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from pipeline.errors import PipelineError
from pipeline.questions.findings import Finding
from pipeline.questions.question import Column, Question
from pipeline.session import cause, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Answer(Struct, frozen=True, kw_only=True):
    """The answer to a question. Its columns are those of the question."""

    question: Question
    table: pa.Table


class Source(Struct, frozen=True, kw_only=True):
    """What is asked: a dataset, the campaigns of it (all if empty), and the Spark session that answers."""

    dataset: str  # folder
    campaigns: tuple[str, ...] = ()
    master: str = "local[*]"
    conf: dict[str, str] = {}  # settings of Spark


def ask(source: Source, questions: Sequence[Question]) -> list[Answer]:
    """Answer these questions, in this order. Raises PipelineError where Spark or the dataset cannot be used."""
    with _views(source) as spark:
        return [Answer(question=question, table=_table(spark, question.sql)) for question in questions]


def ask_sql(source: Source, sql: str) -> Answer:
    """Run one statement over the views. Raises PipelineError where Spark refuses it."""
    with _views(source) as spark:
        table = _table(spark, sql)
    own = tuple(Column(name=name, words="") for name in table.column_names)
    return Answer(question=Question(name="sql", title="SQL", words=sql, columns=own, sql=sql), table=table)


def ask_diff(source: Source, before: str, after: str) -> list[Finding]:
    """Compare two campaigns; see `pipeline.questions.diff`."""
    with _views(replace(source, campaigns=(before, after))) as spark:
        from pipeline.questions.diff import compare

        return compare(spark, before, after)


@contextmanager
def _views(source: Source) -> "Iterator[SparkSession]":
    """A Spark session that has the dataset's views."""
    with session(source.master, source.conf) as spark:
        from pipeline.questions.views import make_views

        make_views(spark, source.dataset, campaigns=source.campaigns)
        yield spark


def _table(spark: "SparkSession", sql: str) -> pa.Table:
    """The result of a statement. Raises PipelineError if Spark refuses it."""
    from pyspark.errors import PySparkException

    try:
        return spark.sql(sql).toArrow()
    except PySparkException as error:
        raise PipelineError(f"Spark refuses the statement: {cause(str(error))}") from error
