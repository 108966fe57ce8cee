"""Asking a dataset: in this process or on Spark, with the answers as Arrow tables.

The engines are imported inside the functions, so that a machine without PySpark or Java gets one sentence and no traceback.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import MappingProxyType
from typing import Protocol, TypeVar

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from pipeline.dataset import Part, parts_of
from pipeline.errors import PipelineError
from pipeline.questions.findings import Finding
from pipeline.questions.question import Column, Question, tables_in
from pipeline.session import session
from pipeline.storage import Storage, storage_at
from pipeline.tables import OF_A_RECORD, TABLES, Table
from pipeline.verification import whole_parts

Asked = TypeVar("Asked")
ROWS_HERE_MAX = 200_000_000  # of a dataset that is asked in this process without advice


class Answer(Struct, frozen=True, kw_only=True):
    """The answer to a question. Its columns are those of the question."""

    question: Question
    table: pa.Table


class Source(Struct, frozen=True, kw_only=True):
    """What is asked: a dataset, and the campaigns of it (all if empty)."""

    dataset: str  # folder
    campaigns: tuple[str, ...] = ()
    master: str | None = None  # of the Spark that answers; None: this process does
    conf: dict[str, str] = {}  # settings of Spark


class Engine(Protocol):
    """What answers statements of Spark SQL over the tables of a dataset. Raises PipelineError for one that it refuses."""

    def table(self, sql: str, names: Mapping[str, str] = MappingProxyType({})) -> pa.Table:
        """The rows of a statement; `names` are the values of its parameters (`:before`)."""
        ...


def advice(source: Source) -> str | None:
    """A sentence for a dataset that is large for this process; None for any other, or if Spark answers."""
    if source.master is not None:
        return None
    try:
        parts = parts_of(storage_at(source.dataset))
    except (OSError, PipelineError):
        return None  # told when it is asked
    chosen = (part for part in parts if not source.campaigns or part.campaign in source.campaigns)
    rows = sum(file.rows for part in chosen for file in part.files.values())
    if rows <= ROWS_HERE_MAX:
        return None
    return f"{source.dataset}: {rows:,} rows for one process; Spark would rather answer: --spark MASTER"


def ask(source: Source, questions: Sequence[Question]) -> list[Answer]:
    """Answer these questions, in this order. Raises PipelineError where the engine or the dataset cannot be used."""

    def answers(engine: Engine) -> list[Answer]:
        return [Answer(question=question, table=engine.table(question.sql)) for question in questions]

    return _answer_of(source, tables_in(*(question.sql for question in questions)), answers)


def ask_sql(source: Source, sql: str) -> Answer:
    """Run one statement in Spark's dialect over the tables. Raises PipelineError where it is refused."""
    table = _answer_of(source, tables_in(sql), lambda engine: engine.table(sql))
    own = tuple(Column(name=name, words="") for name in table.column_names)
    return Answer(question=Question(name="sql", title="SQL", words=sql, columns=own, sql=sql), table=table)


def ask_diff(source: Source, before: str, after: str) -> list[Finding]:
    """Compare two campaigns; see `pipeline.questions.diff`."""
    from pipeline.questions.diff import compare

    return _answer_of(replace(source, campaigns=(before, after)), OF_A_RECORD, lambda engine: compare(engine, before, after))


def _answer_of(source: Source, tables: Sequence[Table], answer: Callable[[Engine], Asked]) -> Asked:
    """What an engine answers. Files are compared with their manifests first, before Spark starts.

    A compaction may take files away under a question: then it is asked again, of the parts that are there now.
    """
    storage, parts = opened(source.dataset, source.campaigns, tables)
    with _engine_maker(source) as engine:
        while True:
            try:
                return answer(engine(storage, parts))
            except PipelineError:
                before = {part.id for part in parts}
                parts = opened(source.dataset, source.campaigns, tables)[1]
                if {part.id for part in parts} == before:
                    raise


@contextmanager
def _engine_maker(source: Source) -> Iterator[Callable[[Storage, Sequence[Part]], Engine]]:
    """Makes the engine of some parts."""
    if source.master is None:
        from pipeline.questions.in_process import InProcess

        yield InProcess
        return
    with session(source.master, source.conf) as spark:
        from pipeline.questions.on_spark import OnSpark

        yield partial(OnSpark, spark)


def opened(dataset: str, campaigns: Sequence[str] = (), tables: Sequence[Table] = TABLES) -> tuple[Storage, list[Part]]:
    """The parts of a dataset, of these campaigns if any are given; their files of these tables are whole.

    Raises PipelineError where there is no dataset, a campaign is not in it, or a file is not as it was written.
    """
    storage = storage_at(dataset)
    if storage.folder is None:
        raise PipelineError(f"{dataset}: a dataset is asked in a folder; copy this one")
    known = sorted({part.campaign for part in parts_of(storage)})
    if not known:
        whole_parts(storage, tables)  # it may have lost all of them
        raise PipelineError(f"{dataset}: no dataset is stored here (highwater store ingest)")
    for campaign in campaigns:
        if campaign not in known:
            whole_parts(storage, tables, (campaign,))  # it may have lost its manifests
            raise PipelineError(f"{dataset} has no campaign {campaign!r}; known: {', '.join(known)}")
    return storage, whole_parts(storage, tables, campaigns)
