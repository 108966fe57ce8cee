"""What the `chaos` job says of a check that is not as expected: on the terminal, in JUnit and to GitHub."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import shorten

from msgspec import Struct
from msgspec.structs import replace

from checkers.engine.verdict import Validity
from checkers.severity import SEVERITY, severity
from highwater.campaigns.chaos import Check, Part
from highwater.campaigns.corpus import SAFE
from highwater.campaigns.marks import NONE, Marks
from highwater.campaigns.pages import row_of
from highwater.campaigns.smaller import Smaller
from highwater.exit_codes import WORDS, ExitCode
from highwater.runs.first_call import kept_first_call
from highwater.runs.summary import Summary, next_commands
from history import store
from reports.index import RunRow

_SHOWN = 3  # red checks that are told in full; one screen has no room for more
_NAMED = 10
_WIDTH = 130  # characters of those that are only named
_KINDS = 5  # reasons of one check


class Red(Struct, frozen=True, kw_only=True):
    """A check that is not as expected. `plan`, `page`, `smaller` and `beside` are files, empty where there is none."""

    part: str = ""
    name: str
    sentence: str  # entry, verdict, worst anomaly
    reasons: tuple[str, ...] = ()  # worst first
    cause: str = ""  # in one sentence
    call: str = ""  # the first one that answers otherwise than by an earlier commit, in one sentence
    plan: str
    page: str = ""
    repeat: str
    smaller: str = ""  # the file of the shrunk plan
    beside: str = ""  # the page of the shrunk run beside its nearest neighbour
    rank: int = len(SEVERITY)  # of the worst anomaly; lower is worse
    signature: str = ""  # of the cause; reds of one signature have one cause
    mark: str = ""  # what the team decided about the cause
    todo: tuple[str, ...] = ()  # commands that look further


def reds(parts: Iterable[Part], folder: Path, smaller: Mapping[str, Smaller] | None = None, marks: Marks = NONE) -> list[Red]:
    """The checks of these parts that are not as expected, worst first.

    `folder` is the store; `smaller` has the shrunk plans of runs, by their folder in the store.
    """
    found = [replace(red, mark=marks.words(red.signature)) for red in _unexpected_checks(parts, folder, smaller or {})]
    return sorted(found, key=lambda red: red.rank)


def red_runs(parts: Iterable[Part]) -> list[Summary]:
    """The runs on `safe` that are not as expected, in the order in which `reds` are told: the first of a cause is looked into.

    A known-bad protocol fails on purpose.
    """
    red = (part.summaries[check.run] for part in parts for check in part.checks if check.met is False and check.run is not None)
    return sorted((run for run in red if run.played == SAFE), key=_rank)


def _rank(run: Summary) -> int:
    """The severity of the worst anomaly of a run; lower is worse."""
    return -1 if run.crash else min((severity(anomaly.kind)[0] for anomaly in run.anomalies), default=len(SEVERITY))


def ignored_runs(parts: Iterable[Part]) -> Iterator[Summary]:
    """The runs that failed for a cause that is ignored; where some may be UNKNOWN, also those that are."""
    for part in parts:
        for check in part.checks:
            if check.met is None and check.run is not None:
                yield part.summaries[check.run]


def _unexpected_checks(parts: Iterable[Part], folder: Path, smaller: Mapping[str, Smaller]) -> Iterator[Red]:
    """The checks that are not as expected, with the run that showed each and its shrunk plan."""
    for part in parts:
        for check in part.checks:
            if check.met is not False:
                continue
            if check.run is None:
                yield Red(part=part.name, name=check.name, sentence=check.complaint, plan=check.plan, repeat=check.repeat)
                continue
            run = part.summaries[check.run]
            red = red_of(run, folder, sentence=check.complaint, plan=check.plan)
            red = replace(red, part=part.name, name=check.name, repeat=check.repeat)
            less = smaller.get(run.store or "")
            if less is not None:
                todo = tuple(command for command in red.todo if not command.startswith("highwater shrink "))
                red = replace(red, smaller=less.plan, beside=less.beside, todo=todo)
            yield red


def red_of(run: Summary, folder: Path, *, sentence: str, plan: str = "") -> Red:
    """One run that is not as expected. `folder` is its store, `plan` the file of its plan where that is not the stored one."""
    stored = str(folder / run.store / store.PLAN) if run.store else ""
    first_call = kept_first_call(folder / run.store) if run.store else None
    return Red(
        name=run.name,
        sentence=sentence,
        reasons=run.reasons[:_KINDS],
        cause=run.cause,
        call=first_call.sentence if first_call is not None and not first_call.missing else "",
        plan=plan or stored,
        page=str(folder / run.report) if run.report else "",
        repeat=run.repeat,
        rank=_rank(run),
        signature=run.signature,
        todo=tuple(next_commands(run, folder / run.store)) if run.store else (),
    )


def lines_of(reds_shown: Sequence[Red]) -> Iterator[str]:
    """The lines for the terminal, cause by cause, worst first: a check in full and the names of others with its cause.

    Causes after the first ones are only named. The last lines are the commands that look further into the first check.
    """
    causes = _by_cause(reds_shown)
    for red, *others in causes[:_SHOWN]:
        yield red.sentence
        if red.cause:
            yield f"    cause   {red.cause}"
        if red.call:
            yield f"    call    {red.call}"
        yield from (f"    {reason}" for reason in red.reasons[1:])
        yield from (f"    {name:<7} {value}" for name, value in _places(red) if value)
        if others:
            names = ", ".join(anomaly.name for anomaly in others[:_KINDS])
            yield f"    same    {names}{f' and {len(others) - _KINDS} more' if len(others) > _KINDS else ''}"
    for red, *others in causes[_SHOWN:_NAMED]:
        more = f" (and {len(others)} more of this cause)" if others else ""
        yield f"{shorten(red.sentence, _WIDTH, placeholder=' …')}{more}"
    if len(causes) > _NAMED:
        yield f"and {sum(map(len, causes[_NAMED:]))} more of {len(causes) - _NAMED} causes"
    if reds_shown:
        yield from (f"next    {command}" for command in reds_shown[0].todo)


def _by_cause(reds_shown: Sequence[Red]) -> list[list[Red]]:
    """Red checks of one signature together, in the order of the first of each; one without a signature stands alone."""
    causes: dict[str, list[Red]] = {}
    for number, red in enumerate(reds_shown):
        causes.setdefault(red.signature or str(number), []).append(red)
    return list(causes.values())


def _places(red: Red) -> tuple[tuple[str, str], ...]:
    places = (("plan", red.plan), ("shrunk", red.smaller), ("beside", red.beside), ("page", red.page), ("repeat", red.repeat))
    return (("sign", red.signature), ("mark", red.mark), *places)


def cases_of(parts: Iterable[Part], marks: Marks = NONE) -> Iterator[RunRow]:
    """All checks as test cases of the JUnit file, and as rows of the index page."""
    for part in parts:
        for check in part.checks:
            run = None if check.run is None else part.summaries[check.run]
            row = _bare(check) if run is None else row_of(run, "", expected=check.met, marks=marks)
            yield replace(
                row, name=check.name, protocol=part.name, expected=check.met, error=check.complaint, repeat=check.repeat
            )


def _bare(check: Check) -> RunRow:
    """A check about several runs, or about none."""
    validity = Validity.VALID if check.met else None if check.code is ExitCode.LABORATORY_FAILED else Validity.INVALID
    return RunRow(name="", seed=None, protocol="", validity=validity, live=True, wall_seconds=check.wall_seconds)


def annotation(red: Red) -> str:
    """The line that makes GitHub Actions show an error at the plan."""
    place = f" file={_property(red.plan)},title={_property(red.name)}" if red.plan else f" title={_property(red.name)}"
    cause = f"{red.cause}\n" if red.cause else ""
    call = f"{red.call}\n" if red.call else ""
    message = f"{red.sentence}\n{cause}{call}{red.page}\n{red.repeat}".rstrip()
    return f"::error{place}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def markdown(parts: Sequence[Part], reds_shown: Sequence[Red], *, repeat: str) -> str:
    """The step summary for GitHub Actions: a line for each part, and the checks that are not as expected."""
    text = "## highwater chaos\n\n| part | result | runs |\n| --- | --- | --- |\n"
    for part in parts:
        text += f"| {part.name} | {WORDS[part.code] if part.code else 'ok'} | {len(part.summaries)} |\n"
    for red in reds_shown[:_NAMED]:
        lines = [f"{name}: `{value}`" for name, value in _places(red) if value]
        text += f"\n### {_escaped_words(red.name)}\n\n{_paragraph(red.sentence)}{_paragraph(red.cause)}{_paragraph(red.call)}"
        text += "".join(f"* {line}\n" for line in lines)
    if len(reds_shown) > _NAMED:
        text += f"\nand {len(reds_shown) - _NAMED} more\n"
    return f"{text}\nAgain: `{repeat}`\n"


def _paragraph(text: str) -> str:
    return f"{_escaped_words(text)}\n\n" if text else ""


def _escaped_words(text: str) -> str:
    """Values of histories may look like Markdown or HTML."""
    return "".join(f"\\{letter}" if letter in "\\`*_[]<>|#" else letter for letter in text)
