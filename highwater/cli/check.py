"""`highwater check`: judge histories from files, folders or standard input, and print a verdict on each; nothing is stored.

Runs of highwater are judged by the checkers of the log, histories of other systems by the model given with --model, or guessed.
Of several histories each is judged, also after one that is refused; the last line counts the verdicts. The exit code is the
worst.
"""

import shlex
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from glob import glob, has_magic
from pathlib import Path
from time import perf_counter
from typing import Annotated

import msgspec
import typer
from msgspec import Struct

from checkers.engine.verdict import Validity
from highwater.cli import options
from highwater.cli.declaration import takes
from highwater.cli.output import complain, first_of, say, say_json, show_while_working
from highwater.errors import UsageError
from highwater.exit_codes import WORDS, ExitCode, of_verdict, worst
from highwater.foreign.files import (
    CONSISTENCY,
    MODELS,
    ModelChoice,
    arguments_of,
    check_asked,
    histories_below,
    page_of_file,
    steps_of,
)
from highwater.foreign.guess import Ruled, judge_subject, subject_of
from highwater.run_folder import temporary_folder
from highwater.runs.findings import VALIDITY_NAMES, in_full, in_short, worst_first
from highwater.runs.memory import peak_mib
from history import store
from history.errors import HistoryError, Mistakes
from history.foreign.looks import looks_like
from history.foreign.quotes import cited
from history.foreign.read import Form, form_of

_STDIN = "-"
_OUTCOMES = {ExitCode.USAGE: "refused", ExitCode.NOT_LIVE: WORDS[ExitCode.NOT_LIVE]}  # others have their names


class Options(Struct, frozen=True, kw_only=True):
    """The options of `highwater check`."""

    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="Runs (folder, .parquet, .jsonl), Jepsen's EDN, history.txt or JSON, Porcupine logs; folders and patterns of "
            "them; - for standard input.",
        ),
    ]
    model: Annotated[
        str,
        typer.Option(
            help=f"Model of the object under test: {', '.join(MODELS)}, or FILE.py:CLASS of your own; guessed from the functions "
            "in use if not given.",
            autocompletion=options.models_like,
        ),
    ] = ""
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
    certificate: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write what proves the verdict; `highwater verify` checks it (docs/certificates.md)."),
    ] = None
    whole: options.All = False
    json: options.AsJson = False


class Place(Struct, frozen=True, kw_only=True):
    """A history to judge, and its name for the reader."""

    file: Path
    name: str


@takes(Options)
def check(arguments: Options) -> int:
    """Judge histories and print a verdict on each; store nothing."""
    model_choice = ModelChoice(
        model=arguments.model, initial=arguments.initial, consistency=options.names_of(arguments.consistency)
    )
    if arguments.refines is None:
        check_asked(model_choice)  # refuse wrong options before a file is read
    names = [name for path in arguments.paths for name in _histories_meant_by(path, model_choice)]
    of_one = {"report": arguments.report, "certificate": arguments.certificate, "refines": arguments.refines}
    for option, value in of_one.items():
        if isinstance(value, Path):
            options.writable_file(value)
        if value is not None and len(names) > 1:
            raise UsageError(f"--{option} takes one history, not {len(names)}")
    codes = [_check_one(name, model_choice, arguments) for name in names]
    code = worst(codes)
    if len(codes) > 1:
        _say_totals(codes, code, arguments)
    return code


def _histories_meant_by(path: str, model_choice: ModelChoice) -> list[str]:
    """The histories that an argument of the command means: a file, those in a folder, or those that fit a pattern."""
    if path == _STDIN:
        return [path]
    if has_magic(path) and not Path(path).exists():
        names = [name for place in sorted(glob(path, recursive=True)) for name in _histories_meant_by(place, model_choice)]
        if not names:
            raise UsageError(f"{path}: no file has a name of this pattern")
        return names
    try:
        return histories_below(Path(path), model_choice) if Path(path).is_dir() else [path]
    except HistoryError:
        return [path]  # reading it says why it is no history


@contextmanager
def _file_of_history(name: str) -> Iterator[Path]:
    """The file of a history; standard input is copied, for it is read more than once."""
    if name != _STDIN:
        yield Path(name)
        return
    with temporary_folder("history") as folder:
        file = folder / "stdin"
        with file.open("wb") as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
        yield file


def _check_one(name: str, model_choice: ModelChoice, arguments: Options) -> ExitCode:
    """Judge one history; a file that cannot be judged is told, and does not end the command."""
    with _file_of_history(name) as file:
        place = Place(file=file, name=name)
        try:
            if arguments.refines is not None:
                # Imported here, as below, because it needs the checkers of logs: a history of another system is judged without.
                from highwater.cli.check_run import check_refinement

                return check_refinement(place, arguments.refines, json=arguments.json)
            return _judge_and_print(place, model_choice, arguments)
        except (HistoryError, UsageError) as error:
            complaints = [line.replace(str(file), name) for line in _complaints_of(error, file)]
    for line in complaints:
        complain(line)
    if arguments.json:
        say_json({"file": name, "error": "; ".join(complaints), "exit": ExitCode.USAGE})
    return ExitCode.USAGE


def _complaints_of(error: HistoryError | UsageError, file: Path) -> tuple[str, ...]:
    """The lines that say why a file cannot be judged, and what it looks like instead."""
    if isinstance(error, Mistakes):
        return error.lines
    looks = looks_like(file) if isinstance(error, HistoryError) else ""
    return (f"{error}; the file looks like {looks}" if looks else str(error),)


def _say_totals(codes: list[ExitCode], code: ExitCode, arguments: Options) -> None:
    """Print how many histories had each outcome."""
    counted = {_OUTCOMES.get(outcome, outcome.name): count for outcome, count in sorted(Counter(codes).items())}
    if arguments.json:
        say_json({"histories": len(codes), "counts": counted, "exit": code})
        return
    say(f"{len(codes)} histories: {', '.join(f'{count} {words}' for words, count in counted.items())}; {WORDS[code]}")


def _judge_and_print(place: Place, model_choice: ModelChoice, arguments: Options) -> ExitCode:
    """Judge a history and print the verdict; write the page and the certificate if they are asked for. The exit code."""
    began = perf_counter()
    form = form_of(place.file)
    subject = subject_of(place.file, form, model_choice.model)
    if subject.log is not None:
        from highwater.cli.check_run import check_run

        return check_run(place, subject.log, began, arguments)
    with show_while_working(lambda: f"judging {place.name}, {perf_counter() - began:.0f} s", quiet=arguments.json):
        ruled = judge_subject(place.file, subject, model_choice)
    judgement = ruled.found
    if ruled.words and not arguments.json:
        say(ruled.words)
    _say_judgement(place, form, ruled, measured(began), arguments)
    if arguments.certificate is not None:
        _write_certificate(place, ruled, arguments.certificate, json=arguments.json)
    repeat = _repeat_command(place, ruled.asked)
    if arguments.report is not None:
        html = page_of_file(place.file, ruled.asked, judgement, guess=ruled.words, repeat=repeat, name=place.name)
        store.write_file(arguments.report, html.encode(errors="backslashreplace"))  # keys may be halves of surrogate pairs
    if not arguments.json:
        cut = not arguments.whole and len(judgement.anomalies) + len(judgement.unchecked) > 1
        say_next(repeat, arguments, failed=bool(judgement.anomalies), cut=cut)
    return of_verdict(judgement.validity, live=None)


def _write_certificate(place: Place, ruled: Ruled, out: Path, *, json: bool) -> None:
    """Write what proves the verdict, or say on stderr why nothing can."""
    # Imported here because most files are judged without a certificate.
    from checkers.certificates.certify import NoCertificate
    from highwater.foreign.certificates import certificate_of

    try:
        store.write_file(out, msgspec.json.encode(certificate_of(place.file, ruled.asked, ruled.found)) + b"\n")
    except NoCertificate as reason:
        complain(f"no certificate: {reason}")
        return
    if not json:
        say(f"proof   highwater verify {shlex.quote(place.name)} {shlex.quote(str(out))}")


def say_next(command: str, arguments: Options, *, failed: bool, cut: bool) -> None:
    """Print the page that was written or the command that writes it, and the command that prints every finding."""
    if arguments.report is not None or failed:
        say(f"page    {arguments.report or f'{command} --report page.html'}")
    if cut:
        say(f"all     {command} --all")


def _repeat_command(place: Place, asked: ModelChoice) -> str:
    return shlex.join(["highwater", "check", place.name, *arguments_of(asked)])


def first_line(place: Place, validity: Validity, measured: dict[str, float]) -> str:
    """The verdict on a history, and what judging it took."""
    spent = f"{measured['operations']} operations, {measured['seconds']} s, {measured['peak_mb']} MB"
    return f"{VALIDITY_NAMES[validity]}: {place.name}: {spent}"


def _say_judgement(place: Place, form: Form, ruled: Ruled, measured: dict[str, float], arguments: Options) -> None:
    """Print a judgement: in short the worst anomaly, in full all with the lines that they cite."""
    judgement = ruled.found
    if arguments.json:
        # `longest` may hold a million calls; programs that need it call the judge directly.
        body = {k: v for k, v in msgspec.structs.asdict(judgement).items() if k not in ("validity", "longest", "cycles")}
        guess = {"guessed": ruled.guess is not None, "others": ruled.guess.others if ruled.guess else ()}
        code = of_verdict(judgement.validity, live=None)
        verdict = {"verdict": VALIDITY_NAMES[judgement.validity], "exit": code}
        say_json({"file": place.name, "model": ruled.asked.model, **guess, **verdict, **body, **measured})
        return
    say(first_line(place, judgement.validity, {"operations": judgement.operations, **measured}))
    say_findings = in_full if arguments.whole else in_short
    cited_anomalies = worst_first(judgement.anomalies)[: None if arguments.whole else 1]
    quoted = (
        cited(steps_of(place.file, form), {line for anomaly in cited_anomalies for line in anomaly.witness})
        if cited_anomalies
        else {}
    )
    for at, words in enumerate(say_findings(judgement.anomalies, unchecked=judgement.unchecked)):
        say(f"  {words}")
        witness = (
            dict.fromkeys(line for line in cited_anomalies[at].witness if line in quoted) if at < len(cited_anomalies) else ()
        )
        quotes = [f"line {line}: {quoted[line].words}" for line in witness]
        for text in quotes if arguments.whole else first_of(quotes):
            say(f"    {text}")
    for note in judgement.notes:
        say(f"  {note}")


def measured(began: float) -> dict[str, float]:
    """The seconds since a moment, and the peak memory of this process in MB."""
    return {"seconds": round(perf_counter() - began, 3), "peak_mb": peak_mib()}
