"""Asking a dataset: a session, the views, and the answers as Arrow tables.

PySpark is imported inside the functions, so that a machine without PySpark or Java gets one sentence and no traceback.
"""

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from pipeline.dataset import Part, parts_of, whole_parts
from pipeline.errors import PipelineError
from pipeline.questions.findings import Finding
from pipeline.questions.question import Column, Question
from pipeline.session import cause, session
from pipeline.storage import Storage, storage_at
from pipeline.tables import OF_A_RECORD, TABLES, Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Asked = TypeVar("Asked")


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

    def answers(spark: "SparkSession") -> list[Answer]:
        return [Answer(question=question, table=_table(spark, question.sql)) for question in questions]

    return _asked(source, tables_in(*(question.sql for question in questions)), answers)


def ask_sql(source: Source, sql: str) -> Answer:
    """Run one statement over the views. Raises PipelineError where Spark refuses it."""
    table = _asked(source, tables_in(sql), lambda spark: _table(spark, sql))
    own = tuple(Column(name=name, words="") for name in table.column_names)
    return Answer(question=Question(name="sql", title="SQL", words=sql, columns=own, sql=sql), table=table)


def ask_diff(source: Source, before: str, after: str) -> list[Finding]:
    """Compare two campaigns; see `pipeline.questions.diff`."""

    def findings(spark: "SparkSession") -> list[Finding]:
        from pipeline.questions.diff import compare

        return compare(spark, before, after)

    return _asked(replace(source, campaigns=(before, after)), OF_A_RECORD, findings)


def tables_in(*statements: str) -> tuple[Table, ...]:
    """The tables that these SQL statements name, or more: every word counts."""
    words = {word.lower() for sql in statements for word in re.findall(r"\w+", sql)}
    return tuple(table for table in TABLES if table in words)


def _asked(source: Source, tables: Sequence[Table], answer: "Callable[[SparkSession], Asked]") -> Asked:
    """What the views answer. Files are compared with their manifests first, before Spark starts.

    A compaction may take files away under a question: then it is asked again, of the parts that are there now.
    """
    storage, parts = opened(source.dataset, source.campaigns, tables)
    with session(source.master, source.conf) as spark:
        from pyspark.errors import PySparkException

        from pipeline.questions.views import make_views

        while True:
            make_views(spark, storage, parts)
            try:
                return answer(spark)
            except (PipelineError, PySparkException):
                before = {part.id for part in parts}
                parts = opened(source.dataset, source.campaigns, tables)[1]
                if {part.id for part in parts} == before:
                    raise


def opened(dataset: str, campaigns: Sequence[str] = (), tables: Sequence[Table] = TABLES) -> tuple[Storage, list[Part]]:
    """The parts of a dataset, of these campaigns if any are given; their files of these tables are whole.

    Raises PipelineError where there is no dataset, a campaign is not in it, or a file is not as it was written.
    """
    storage = storage_at(dataset)
    if storage.folder is None:
        raise PipelineError(f"{dataset}: Spark asks a dataset in a folder; copy this one")
    known = sorted({part.campaign for part in parts_of(storage)})
    if not known:
        raise PipelineError(f"{dataset}: no dataset is stored here (highwater store ingest)")
    for campaign in campaigns:
        if campaign not in known:
            raise PipelineError(f"{dataset} has no campaign {campaign!r}; known: {', '.join(known)}")
    return storage, whole_parts(storage, tables, campaigns)


def _table(spark: "SparkSession", sql: str) -> pa.Table:
    """The result of a statement. Raises PipelineError if Spark refuses it."""
    from pyspark.errors import PySparkException

    try:
        return spark.sql(sql).toArrow()
    except PySparkException as error:
        raise PipelineError(f"Spark refuses the statement: {cause(str(error))}") from error
