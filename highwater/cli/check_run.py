"""`highwater check` of a run of highwater: by the checkers of the log, or step by step by an abstract model."""

import shlex
from time import perf_counter

import msgspec

from checkers.causes.cause import Cause, cause_of, told_first
from checkers.engine.verdict import Validity, Verdict
from highwater.cli.check import Options, Place, first_line, measured, say_next
from highwater.cli.output import complain, say, say_json, show_while_working
from highwater.cli.run import headline
from highwater.errors import UsageError
from highwater.exit_codes import ExitCode, of_verdict
from highwater.explore.abstract.rules import VARIANTS
from highwater.foreign.files import LOG
from highwater.runs.conformance import validate
from highwater.runs.findings import VALIDITY_NAMES, in_full, in_short, told_then_worst
from highwater.runs.page import write_page
from highwater.runs.run import judge
from highwater.runs.summary import origin_words, told_first_of
from history import store
from history.foreign.read import Form, form_of
from history.history import History


def check_run(place: Place, history: History, began: float, arguments: Options) -> ExitCode:
    """Judge a run of highwater, print the verdict, write its page. `began`: the time of `perf_counter` before it was read."""
    with show_while_working(lambda: f"judging {place.name}, {perf_counter() - began:.0f} s", quiet=arguments.json):
        verdict = judge(history)
    command = f"highwater check {shlex.quote(place.name)}"
    if arguments.certificate is not None:
        complain("no certificate: verdicts on logs have none")
    if arguments.report is not None:
        write_page(arguments.report, history, verdict, plan="", repeat=command)
    spent = {"operations": history.operation_count, **measured(began)}
    code = of_verdict(verdict.validity, live=verdict.live)
    if arguments.json:
        say_json({"file": place.name, "model": LOG, "guessed": False, "exit": code, **encoded(verdict), **spent})
        return code
    say(headline(history.manifest))
    say(first_line(place, verdict.validity, spent))
    cause = cause_of(history, verdict)
    if cause is not None:
        say(f"cause   {cause.sentence}")
        if origin := origin_words(history, cause):
            say(f"origin  {origin}")
    lines = explained(verdict, cause, whole=arguments.whole)
    for line in lines:
        say(f"  {line}")
    say_next(command, arguments, failed=cause is not None, cut=lines != explained(verdict, cause, whole=True))
    return code


def check_refinement(place: Place, variant: str, *, json: bool) -> ExitCode:
    """Compare a run with a variant of the abstract model, and print which rows are no step of it."""
    if variant not in VARIANTS:
        raise UsageError(f"unknown variant {variant!r} of kafka-replication; known: {', '.join(VARIANTS)}")
    if form_of(place.file) is not Form.OURS:
        raise UsageError(f"{place.name}: --refines needs a run of highwater")
    trace = validate(store.load(place.file), VARIANTS[variant])
    validity = Validity.INVALID if trace.unfit else Validity.VALID if trace.explained else Validity.UNKNOWN
    if json:
        say_json({"file": place.name, "refines": variant, "verdict": VALIDITY_NAMES[validity], **msgspec.structs.asdict(trace)})
        return of_verdict(validity, live=None)
    say(f"{VALIDITY_NAMES[validity]}: {place.name}: {trace.rows} rows of partitions, compared with {variant}")
    for unfit in trace.unfit:
        say(f"  row {unfit.row} of {unfit.topic}-{unfit.partition} is no step of {variant}: {unfit.wrong}")
    say(f"  explained by: {', '.join(f'{action} {count}' for action, count in trace.explained.items()) or 'nothing'}")
    return of_verdict(validity, live=None)


def encoded(verdict: Verdict) -> dict[str, object]:
    """Convert a verdict to a JSON object, with the name of its validity under `verdict`."""
    return {
        "verdict": VALIDITY_NAMES[verdict.validity],
        **{k: v for k, v in msgspec.structs.asdict(verdict).items() if k != "validity"},
    }


def explained(verdict: Verdict, cause: Cause | None = None, *, whole: bool) -> tuple[str, ...]:
    """The findings of a verdict, first the one that its cause tells: all of them, or the first and how many there are."""
    excused = [f"{e.topic}-{e.partition} offset {e.offset} {e.value!r}, by the wound in row {e.wound}" for e in verdict.excused]
    say_findings = in_full if whole else in_short
    anomalies = told_then_worst(verdict.anomalies, told_first(verdict) if verdict.anomalies else None)
    not_live = verdict.not_live if cause is None else told_first_of(verdict.not_live, cause)
    return say_findings(anomalies, not_live=not_live, excused=excused, unchecked=verdict.unchecked)
