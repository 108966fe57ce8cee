"""What `query`, `diff` and `triage` share: their options, and an answer as text, CSV, Parquet, JSON or a page."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import pyarrow as pa
import typer
from msgspec import Struct
from msgspec.structs import replace

from highwater.cli import options
from highwater.cli.output import complain, say, say_json
from highwater.errors import UsageError
from history import parquet, store
from pipeline.questions.ask import Answer, Source, advice
from reports.analytics import Part, page_of, value_words
from reports.render import render_analytics

Format = Literal["table", "csv", "parquet", "json"]
Row = Mapping[str, object]

Dataset = Annotated[str, typer.Option("--dataset", metavar="DIR", help="Folder of a dataset, see `highwater store ingest`.")]

_ROWS_SHOWN = 40
_WIDTH_MAX = 60  # characters of a column of text


class Wanted(Struct, frozen=True, kw_only=True):
    """Where answers go."""

    form: Annotated[Format, typer.Option("--format", help="Form of the answer; parquet needs --output.")] = "table"
    output: Annotated[Path | None, typer.Option(help="File for the answer; standard output if not given.")] = None
    page: Annotated[Path | None, typer.Option(help="HTML file to write: the answer with pictures.")] = None
    json: options.AsJson = False


class Engine(Struct, frozen=True, kw_only=True):
    """Who answers."""

    spark: Annotated[
        str | None,
        typer.Option(
            "--spark", metavar="MASTER", help="Spark master that answers, for example local[*]; this process if not given."
        ),
    ] = None
    spark_conf: options.SparkConf = None


def resolve_output(wanted: Wanted) -> Wanted:
    """The output options with --json as a form. UsageError for a form without its file, and for files that cannot be written."""
    form: Format = "json" if wanted.json else wanted.form
    if form == "parquet" and wanted.output is None:
        raise UsageError("--format parquet needs --output FILE")
    for file in (wanted.output, wanted.page):
        if file is not None:
            options.writable_file(file)
    return replace(wanted, form=form)


def source_of(dataset: str, engine: Engine, campaigns: str = "") -> Source:
    """The dataset and the engine that answers. Prints a line if Spark would be the better engine."""
    conf = options.spark_settings(engine.spark, engine.spark_conf)
    source = Source(dataset=dataset, campaigns=options.names_of(campaigns), master=engine.spark, conf=conf)
    words = advice(source)
    if words is not None:
        complain(words)
    return source


def show(answers: Sequence[Answer], form: Format, output: Path | None) -> None:
    """Print answers or write them to a file. Only text and JSON hold more than one answer."""
    if form == "json":
        body = {"answers": [{"question": a.question.name, "rows": a.table.to_pylist()} for a in answers]}
        _write(output, json.dumps(body, default=str).encode() + b"\n") if output else say_json(body)
    elif form == "table":
        text = "\n".join(line for answer in answers for line in _lines_of_answer(answer, titled=len(answers) > 1))
        _write(output, text.encode() + b"\n") if output else say(text)
    else:
        if len(answers) != 1:
            raise UsageError(f"--format {form} holds one answer; name one question")
        data = _csv_bytes(answers[0].table) if form == "csv" else parquet.encode(answers[0].table)
        _write(output, data) if output else say(data.decode().removesuffix("\n"))
    if output is not None and form != "json":
        say(f"{sum(a.table.num_rows for a in answers)} rows: {output}")


def say_page(wanted: Wanted) -> None:
    """Name the page that was written."""
    if wanted.page is not None and wanted.form != "json":
        say(f"page  {wanted.page}")


def write_page(file: Path, answers: Sequence[Answer], *, title: str, dataset: str, repeat: str) -> None:
    """Write the page of these answers."""
    parts = [
        Part(
            name=answer.question.name,
            title=answer.question.title,
            words=answer.question.words,
            columns=tuple((column.name, column.words) for column in answer.question.columns),
            rows=tuple(answer.table.to_pylist()),
        )
        for answer in answers
    ]
    store.write_file(file, render_analytics(page_of(parts, title=title, dataset=dataset, repeat=repeat)))


def table_lines(names: Sequence[str], rows: Sequence[Row], *, shown: int = _ROWS_SHOWN) -> list[str]:
    """Aligned columns: a line of names, then the first rows, then how many are left out."""
    cells = [[_shortened(value_words(name, row[name])) for name in names] for row in rows[:shown]]
    widths = [max(len(name), *(len(line[i]) for line in cells), 0) for i, name in enumerate(names)]
    left = [not any(isinstance(row[name], int | float) for row in rows[:shown]) for name in names]

    def aligned(line: Sequence[str]) -> str:
        return "  ".join(
            f"{text:<{w}}" if on_left else f"{text:>{w}}" for text, w, on_left in zip(line, widths, left, strict=True)
        )

    lines = [aligned(line).rstrip() for line in (names, *cells)]
    return [*lines, f"and {len(rows) - shown} more rows; --format csv shows all"] if len(rows) > shown else lines


def _lines_of_answer(answer: Answer, *, titled: bool) -> list[str]:
    """An answer as a table of text; `titled`: below the title of its question."""
    rows: list[Row] = answer.table.to_pylist()
    names = [column.name for column in answer.question.columns]
    heading = [f"## {answer.question.title}"] if titled else []
    return [*heading, *(table_lines(names, rows) if rows else ["no rows"]), *([""] if titled else [])]


def _shortened(text: str) -> str:
    return text if len(text) <= _WIDTH_MAX else f"{text[: _WIDTH_MAX - 1]}…"


def _csv_bytes(table: pa.Table) -> bytes:
    """CSV with a head; lists are JSON, nothing is an empty field."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(table.column_names)
    for row in table.to_pylist():
        writer.writerow([json.dumps(v) if isinstance(v, list | dict) else v for v in row.values()])
    return file.getvalue().encode()


def _write(file: Path, data: bytes) -> None:
    store.write_file(file, data)
