"""`highwater check`: judge one history from a file and print the verdict; nothing is stored.

Runs of highwater are judged by the checkers of the log, histories of other systems by the model given with --model.
"""

import shlex
from pathlib import Path
from time import perf_counter
from typing import Annotated

import msgspec
import typer
from msgspec import Struct

from checkers.causes.cause import cause_of, told_first
from checkers.engine.verdict import Validity, Verdict
from checkers.linearizability.judge import Judgement
from highwater.cli import options
from highwater.cli.declaration import takes
from highwater.cli.output import first_of, followed, say, say_json
from highwater.cli.run import headline
from highwater.errors import UsageError
from highwater.exit_codes import of_verdict
from highwater.foreign.files import CONSISTENCY, MODELS, Asked, arguments_of, check_asked, judge_file, page_of_file, steps_of
from highwater.foreign.guess import subject_of
from highwater.runs.memory import peak_mib
from highwater.runs.summary import VALIDITY_NAMES, in_full, in_short, worst_first
from history import store
from history.errors import HistoryError, Mistakes
from history.foreign.looks import looks_like
from history.foreign.quotes import cited
from history.foreign.read import Form, form_of
from history.history import History


class Options(Struct, frozen=True, kw_only=True):
    """The options of `highwater check`."""

    file: Annotated[Path, typer.Argument(help="A run (folder, .parquet, .jsonl), Jepsen EDN or JSON, a Porcupine log.")]
    model: Annotated[
        str | None,
        typer.Option(
            help=f"Model of the object under test: {', '.join(MODELS)}, or FILE.py:CLASS of your own; guessed from the functions "
            "in use if not given."
        ),
    ] = None
    initial: Annotated[str, typer.Option(help="Initial value, as EDN; the format's own if not given.")] = ""
    consistency: Annotated[str, typer.Option(help="Consistency models that the history must satisfy, separated by commas.")] = (
        CONSISTENCY
    )
    refines: Annotated[
        str | None,
        typer.Option(
            metavar="VARIANT", help="Check instead that each step of a run is one of this abstract model (docs/model.md)."
        ),
    ] = None
    report: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page with the anomalies drawn.")] = None
    whole: options.All = False
    json: options.AsJson = False


@takes(Options)
def check(given: Options) -> int:
    """Judge one history and print the verdict; store nothing."""
    if given.refines is not None:
        return _check_refinement(given.file, given.refines, json=given.json)
    if given.report is not None:
        options.file_of(given.report)
    try:
        return _check(given.file, given)
    except Mistakes:
        raise
    except HistoryError as error:
        looks = looks_like(given.file)
        raise HistoryError(f"{error}; the file looks like {looks}") if looks else error from error


def _check(file: Path, given: Options) -> int:
    names = tuple(name.strip() for name in given.consistency.split(","))
    if given.model is not None:  # refuse a wrong one before the file is read
        check_asked(Asked(model=given.model, initial=given.initial, consistency=names))
    began = perf_counter()
    form = form_of(file)
    subject = subject_of(file, form, given.model)
    if subject.log is not None:
        return _check_ours(file, subject.log, began, given)
    asked = Asked(model=subject.model, initial=given.initial, consistency=names)
    check_asked(asked)
    with followed(lambda: f"judging {file}, {perf_counter() - began:.0f} s", quiet=given.json):
        found = judge_file(file, asked)
    if subject.words and not given.json:
        say(subject.words)
    _say_judgement(file, form, found, _measured(began), given)
    if given.report is not None:
        html = page_of_file(file, asked, found, guess=subject.words, repeat=_repeat(file, asked))
        store.write_file(given.report, html.encode(errors="backslashreplace"))  # keys may be halves of surrogate pairs
    if not given.json:
        cut = not given.whole and len(found.anomalies) + len(found.unchecked) > 1
        _say_next(_repeat(file, asked), given, failed=bool(found.anomalies), cut=cut)
    return of_verdict(found.validity, live=None)


def _say_next(command: str, given: Options, *, failed: bool, cut: bool) -> None:
    """Print the page that was written or the command that writes it, and the command that prints every finding."""
    if given.report is not None or failed:
        say(f"page    {given.report or f'{command} --report page.html'}")
    if cut:
        say(f"all     {command} --all")


def _repeat(file: Path, asked: Asked) -> str:
    return shlex.join(["highwater", "check", str(file), *arguments_of(asked)])


def _check_ours(file: Path, history: History, began: float, given: Options) -> int:
    # Imported here because it imports every backend, which takes longer than judging a small history of another system.
    from highwater.runs.run import judge, write_page

    with followed(lambda: f"judging {file}, {perf_counter() - began:.0f} s", quiet=given.json):
        verdict = judge(history)
    command = f"highwater check {shlex.quote(str(file))}"
    if given.report is not None:
        write_page(given.report, history, verdict, plan="", repeat=command)
    measured = {"operations": history.operation_count, **_measured(began)}
    code = of_verdict(verdict.validity, live=verdict.live)
    if given.json:
        say_json({"file": str(file), **encoded(verdict), **measured})
        return code
    say(headline(history.manifest))
    say(_first_line(file, verdict.validity, measured))
    cause = cause_of(history, verdict)
    if cause is not None:
        say(f"cause   {cause.sentence}")
    lines = explained(verdict, whole=given.whole)
    for line in lines:
        say(f"  {line}")
    _say_next(command, given, failed=cause is not None, cut=lines != explained(verdict, whole=True))
    return code


def _check_refinement(file: Path, variant: str, *, json: bool) -> int:
    from highwater.explore.abstract.rules import VARIANTS
    from highwater.runs.conformance import validate

    if variant not in VARIANTS:
        raise UsageError(f"unknown variant {variant!r} of kafka-replication; known: {', '.join(VARIANTS)}")
    if form_of(file) is not Form.OURS:
        raise UsageError(f"{file}: --refines needs a run of highwater")
    trace = validate(store.load(file), VARIANTS[variant])
    validity = Validity.INVALID if trace.unfit else Validity.VALID if trace.explained else Validity.UNKNOWN
    if json:
        say_json({"file": str(file), "refines": variant, "verdict": VALIDITY_NAMES[validity], **msgspec.structs.asdict(trace)})
        return of_verdict(validity, live=None)
    say(f"{VALIDITY_NAMES[validity]}: {file}: {trace.rows} rows of partitions, compared with {variant}")
    for unfit in trace.unfit:
        say(f"  row {unfit.row} of {unfit.topic}-{unfit.partition} is no step of {variant}: {unfit.wrong}")
    say(f"  explained by: {', '.join(f'{action} {count}' for action, count in trace.explained.items()) or 'nothing'}")
    return of_verdict(validity, live=None)


def _first_line(file: Path, validity: Validity, measured: dict[str, float]) -> str:
    spent = f"{measured['operations']} operations, {measured['seconds']} s, {measured['peak_mb']} MB"
    return f"{VALIDITY_NAMES[validity]}: {file}: {spent}"


def _say_judgement(file: Path, form: Form, found: Judgement, measured: dict[str, float], given: Options) -> None:
    verdict = VALIDITY_NAMES[found.validity]
    if given.json:
        # `longest` may hold a million calls; programs that need it call the judge directly.
        body = {k: v for k, v in msgspec.structs.asdict(found).items() if k not in ("validity", "longest", "cycles")}
        say_json({"file": str(file), "verdict": verdict, **body, **measured})
        return
    say(_first_line(file, found.validity, {"operations": found.operations, **measured}))
    say_findings = in_full if given.whole else in_short
    told = worst_first(found.anomalies)[: None if given.whole else 1]
    quoted = cited(steps_of(file, form), {line for anomaly in told for line in anomaly.witness}) if told else {}
    for place, words in enumerate(say_findings(found.anomalies, unchecked=found.unchecked)):
        say(f"  {words}")
        witness = dict.fromkeys(line for line in told[place].witness if line in quoted) if place < len(told) else ()
        quotes = [f"line {line}: {quoted[line].words}" for line in witness]
        for text in quotes if given.whole else first_of(quotes):
            say(f"    {text}")
    for note in found.notes:
        say(f"  {note}")


def _measured(began: float) -> dict[str, float]:
    return {"seconds": round(perf_counter() - began, 3), "peak_mb": peak_mib()}


def encoded(verdict: Verdict) -> dict[str, object]:
    """Convert a verdict to a JSON object, with the name of its validity under `verdict`."""
    return {
        "verdict": VALIDITY_NAMES[verdict.validity],
        **{k: v for k, v in msgspec.structs.asdict(verdict).items() if k != "validity"},
    }


def explained(verdict: Verdict, *, whole: bool) -> tuple[str, ...]:
    """The findings of a verdict: all of them, or the worst and how many there are."""
    excused = [f"{e.topic}-{e.partition} offset {e.offset} {e.value!r}, by the wound in row {e.wound}" for e in verdict.excused]
    worst = told_first(verdict) if verdict.anomalies else None
    say_findings = in_full if whole else in_short
    anomalies = sorted(verdict.anomalies, key=lambda found: found != worst)
    return say_findings(anomalies, not_live=verdict.not_live, excused=excused, unchecked=verdict.unchecked)
