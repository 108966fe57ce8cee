"""`highwater judge`: judge many stored histories with the current checkers, here or on Spark (docs/data.md)."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, get_args

import typer
from msgspec import Struct

from highwater.cli import options
from highwater.cli.check_run import explained
from highwater.cli.declaration import takes
from highwater.cli.output import progress, say, say_json
from highwater.errors import UsageError
from highwater.exit_codes import WORDS, ExitCode, worst
from highwater.foreign.files import CONSISTENCY, LOG, MODELS, ModelChoice, check_asked
from highwater.foreign.own import is_own
from highwater.runs import judging
from highwater.runs.findings import in_full, in_short
from highwater.runs.judging import Case
from pipeline.items import Item, Job
from pipeline.ledger import Ledger
from pipeline.local import cores
from pipeline.owner import owned
from pipeline.session import session_if_asked
from pipeline.storage import storage_at
from pipeline.work import perform

_LIVE = {True: "live", False: "not live", None: "-"}
_ITEMS_OF_A_WORKER = 4  # fewer are judged before a worker process has started
_OUTCOMES: tuple[judging.Outcome, ...] = get_args(judging.Outcome)


class Row(Struct, frozen=True, kw_only=True):
    """One judged history as `--json` prints it. `operations` and `events` count the rows that were judged."""

    run: str
    model: str
    guessed: bool
    verdict: judging.Outcome
    live: bool | None
    anomalies: int
    kinds: tuple[str, ...]
    excused: int
    operations: int
    events: int
    digest: str
    words: str
    new: bool
    repeat: str


class Options(Struct, frozen=True, kw_only=True):
    """The options of `highwater judge`."""

    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH...", help="Stored runs, histories of other systems, folders or s3:// URIs that hold them."),
    ]
    model: Annotated[
        str,
        typer.Option(
            help=f"Model of the object under test: {', '.join(MODELS)}; if not given, `log` for runs, and guessed for others.",
            autocompletion=options.models_like,
        ),
    ] = ""
    initial: Annotated[str, typer.Option(help="Initial value, as EDN; the format's own if not given.")] = ""
    consistency: Annotated[str, typer.Option(help="Consistency models that the histories must satisfy, separated by commas.")] = (
        CONSISTENCY
    )
    on: options.OnSpark = options.OnSpark()
    jobs: options.Jobs = None
    ledger: Annotated[
        str | None,
        typer.Option(metavar="DIR", help=f"Folder or URI of the ledger; `{judging.LEDGER}` beside the runs."),
    ] = None
    again: Annotated[bool, typer.Option("--again", help="Judge all, also what the same checkers judged before.")] = False
    deadline: Annotated[
        float, typer.Option(min=0.001, help="Seconds by the clock after which the judging of one history is given up.")
    ] = judging.DEADLINE_S
    whole: options.All = False
    json: options.AsJson = False


@takes(Options)
def judge(arguments: Options) -> int:
    """Judge stored histories with the current checkers; write the verdict of each run beside it."""
    choice = ModelChoice(model=arguments.model, initial=arguments.initial, consistency=options.names_of(arguments.consistency))
    check_asked(choice)
    if is_own(choice.model):
        raise UsageError("a model of your own is for `highwater check`: a ledger keeps no verdict of code that may change")
    conf, paths, json = arguments.on.settings, arguments.paths, arguments.json
    sources = judging.find(paths, choice)
    book = Ledger(storage_at(_writable_place(arguments.ledger or judging.ledger_beside(paths))))
    job = Job(function=judging.judge_item, ledger=book.location, deadline_s=arguments.deadline)

    def do(items: list[Item]) -> None:
        if items:  # else no worker and no Spark is needed
            with progress(len(items), quiet=json) as ticker, session_if_asked(arguments.on.spark, conf) as session:
                book.forget({item.key for item in items})
                workers = arguments.jobs or min(cores(), -(-len(items) // _ITEMS_OF_A_WORKER))
                perform(items, job, spark=session, jobs=workers, on_row=lambda row: ticker.tick(row.state))

    with owned(storage_at(book.location)):
        cases = judging.judge_all(sources, choice, book, again=arguments.again, perform=do)
    unwritten = [case for case in cases if not judging.keep_verdict(case)]
    code = worst(case.exit_code for case in cases)
    if json:
        say_json(_json_document(cases, choice, book, code))
        return code
    _say_table(cases, choice, whole=arguments.whole)
    if unwritten:
        say(f"{len(unwritten)} verdicts are in the ledger alone: the folder of the run cannot be written")
    _say_totals(cases, book, code)
    return code


def _writable_place(ledger: str) -> str:
    """The ledger's place, checked if it is a local folder. Raises UsageError."""
    if "://" not in ledger:
        try:
            options.writable_folder(Path(ledger).absolute())
        except UsageError as error:
            raise UsageError(f"{error}; say with --ledger where the verdicts are kept") from error
    return ledger


def _json_document(cases: Sequence[Case], choice: ModelChoice, book: Ledger, code: ExitCode) -> dict[str, object]:
    """The JSON object of all verdicts."""
    return {
        "exit": code,
        "ledger": book.location,
        "digest": judging.digest_of_table(cases),
        "runs": [_json_row(case, choice) for case in cases],
    }


def _json_row(case: Case, choice: ModelChoice) -> Row:
    """The JSON object of one history."""
    verdict = case.ruling.verdict
    return Row(
        run=case.source.path,
        model=case.ruling.model or (LOG if verdict is not None else choice.model),
        guessed=bool(case.ruling.guess),
        verdict=case.outcome,
        live=None if verdict is None else verdict.live,
        anomalies=len(case.anomalies),
        kinds=tuple(sorted({anomaly.kind for anomaly in case.anomalies})),
        excused=0 if verdict is None else len(verdict.excused),
        operations=case.ruling.operations,
        events=case.ruling.events,
        digest=case.ruling.digest,
        words=case.words,
        new=case.new,
        repeat=judging.command(case.source, choice),
    )


def _say_table(cases: Sequence[Case], choice: ModelChoice, *, whole: bool) -> None:
    """Print a line for each history, and why if it is not VALID."""
    say(f"{'verdict':<8} {'liveness':<8} {'anomalies':>9} {'operations':>10} {'events':>10}  history")
    for case in cases:
        ruling = case.ruling
        live = _LIVE[None if ruling.verdict is None else ruling.verdict.live]
        counts = f"{len(case.anomalies):>9} {ruling.operations:>10} {ruling.events:>10}"
        say(f"{case.outcome:<8} {live:<8} {counts}  {case.source.path}")
        for line in _lines_of_verdict(case, whole=whole):
            say(f"  {line}")
        if case.exit_code is not ExitCode.VALID:
            say(f"  repeat: {judging.command(case.source, choice)}")


def _lines_of_verdict(case: Case, *, whole: bool) -> Sequence[str]:
    """The lines that explain a verdict."""
    if case.ruling.verdict is not None:
        return explained(case.ruling.verdict, whole=whole)
    judgement = case.ruling.judgement
    if judgement is None:
        return (case.words,)
    guess = (case.ruling.guess,) if case.ruling.guess else ()
    return (*(in_full if whole else in_short)(judgement.anomalies, unchecked=judgement.unchecked), *judgement.notes, *guess)


def _say_totals(cases: Sequence[Case], book: Ledger, code: ExitCode) -> None:
    """Print how many histories had each outcome, and where the verdicts are kept."""
    counted = Counter(case.outcome for case in cases)
    verdicts = ", ".join(f"{counted[outcome]} {outcome}" for outcome in _OUTCOMES if counted[outcome])
    new = sum(case.new for case in cases)
    say(f"{len(cases)} histories: {verdicts}; {WORDS[code]}")
    say(f"{new} judged now, {len(cases) - new} before; ledger {book.location}, table {judging.digest_of_table(cases)[:16]}")
