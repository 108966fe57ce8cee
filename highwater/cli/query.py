"""`highwater query` and `highwater triage`: questions about a dataset of runs, answered by Spark."""

from typing import Annotated

import typer
from msgspec import Struct

from highwater.cli.answers import Dataset, Engine, Row, Wanted, resolve_output, say_page, show, source_of, write_page
from highwater.cli.declaration import takes
from highwater.cli.output import say, say_json
from highwater.errors import UsageError
from pipeline.questions.ask import ask, ask_sql
from pipeline.questions.catalogue import QUESTIONS, question_named
from pipeline.questions.failures import TRIAGE
from pipeline.tables import TABLES

ALL = "all"

CampaignFilter = Annotated[str, typer.Option(help="Campaigns to ask about, separated by commas; all if not given.")]


class QueryOptions(Struct, frozen=True, kw_only=True):
    """The options of `highwater query`."""

    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="A question, or `all`; without it the questions are listed.")
    ] = None
    sql: Annotated[str | None, typer.Option(help="A statement in Spark's dialect over the tables of the dataset.")] = None
    dataset: Dataset = ""
    campaign: CampaignFilter = ""
    engine: Engine = Engine()
    wanted: Wanted = Wanted()


@takes(QueryOptions)
def query(arguments: QueryOptions) -> int:
    """Answer a question about the runs of a dataset, as text, CSV, Parquet, JSON or a page with pictures."""
    name, sql, dataset = arguments.name, arguments.sql, arguments.dataset
    if name is None and sql is None:
        _say_questions(json=arguments.wanted.json)
        return 0
    if name is not None and sql is not None:
        raise UsageError("give the name of a question or --sql, not both")
    if not dataset:
        raise UsageError("--dataset DIR is missing: the dataset that `highwater store ingest` wrote")
    answers_wanted = resolve_output(arguments.wanted)
    questions = QUESTIONS if name == ALL else () if name is None else (question_named(name),)
    if len(questions) > 1 and answers_wanted.form in ("csv", "parquet"):
        raise UsageError(f"--format {answers_wanted.form} holds one answer; name one question, not {ALL}")
    source = source_of(dataset, arguments.engine, arguments.campaign)
    answers = ask(source, questions) if sql is None else [ask_sql(source, sql)]
    if answers_wanted.page is not None:
        repeat = f"highwater query {name or '--sql ...'} --dataset {dataset}{_filter(arguments.campaign)}"
        title = "All questions" if name == ALL else answers[0].question.title
        write_page(answers_wanted.page, answers, title=title, dataset=dataset, repeat=repeat)
    show(answers, answers_wanted.form, answers_wanted.output)
    say_page(answers_wanted)
    return 0


def _filter(campaign: str) -> str:
    return f" --campaign {campaign}" if campaign else ""


def _say_questions(*, json: bool) -> None:
    """Print the questions that can be asked."""
    if json:
        say_json({"questions": [{"name": q.name, "words": q.words, "columns": q.columns} for q in QUESTIONS]})
        return
    width = max(len(question.name) for question in QUESTIONS)
    for question in QUESTIONS:
        say(f"{question.name:<{width}}  {question.words}")
    say(f"{ALL:<{width}}  All of them, on one page with --page.")
    say(f"--sql asks the tables {', '.join(TABLES)}.")


class TriageOptions(Struct, frozen=True, kw_only=True):
    """The options of `highwater triage`."""

    dataset: Dataset
    campaign: CampaignFilter = ""
    engine: Engine = Engine()
    wanted: Wanted = Wanted()


@takes(TriageOptions)
def triage(arguments: TriageOptions) -> int:
    """Count the causes of failed runs, each with the command that repeats its plan with the fewest fault windows."""
    answers_wanted = resolve_output(arguments.wanted)
    dataset = arguments.dataset
    answers = ask(source_of(dataset, arguments.engine, arguments.campaign), [TRIAGE])
    if answers_wanted.page is not None:
        repeat = f"highwater triage --dataset {dataset}{_filter(arguments.campaign)}"
        write_page(answers_wanted.page, answers, title=TRIAGE.title, dataset=dataset, repeat=repeat)
    if answers_wanted.form == "table" and answers_wanted.output is None:
        _say_causes(answers[0].table.to_pylist())
    else:
        show(answers, answers_wanted.form, answers_wanted.output)
    say_page(answers_wanted)
    return 0


def _say_causes(rows: list[Row]) -> None:
    """Print the causes of failed runs, by campaign and protocol."""
    groups: dict[tuple[object, object], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["campaign"], row["protocol"]), []).append(row)
    for (campaign, protocol), causes in groups.items():
        say(f"{campaign} {protocol}: {causes[0]['failed']} failed runs, {len(causes)} causes")
        for cause in causes:
            say(f"  {cause['runs']:>4} runs  {cause['signature'] or 'no signature'}")
            say(f"             {cause['words']}" + (f" (in effect: {cause['in_effect']})" if cause["in_effect"] else ""))
            say(f"             repeat: {cause['repeat']}  ({cause['fault_windows']} fault windows)")
    if not rows:
        say("no failed runs")
