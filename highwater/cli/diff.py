"""`highwater diff`: two campaigns of a dataset side by side; the exit code says what is worse in the second one."""

from typing import Annotated

import typer
from msgspec import Struct, structs

from highwater.cli.answers import Dataset, Engine, Wanted, resolve_output, say_page, show, source_of
from highwater.cli.declaration import takes
from highwater.cli.output import first_of, say, say_json
from highwater.exit_codes import WORDS, ExitCode, worst
from history import store
from pipeline.questions.ask import Answer, ask_diff
from pipeline.questions.findings import COLUMNS, LEVEL, TOLERATED, Finding, What, table_of
from pipeline.questions.question import Question
from reports.analytics import Comparison, DiffPage, protocol_views, side_words
from reports.render import render_diff

EXITS: dict[What, ExitCode] = {
    "new-anomaly": ExitCode.INVALID,
    "invalid": ExitCode.INVALID,
    "not-live": ExitCode.NOT_LIVE,
    "unknown": ExitCode.UNKNOWN,
    "recovery": ExitCode.UNKNOWN,
    "coverage": ExitCode.UNKNOWN,
    "protocol": ExitCode.UNKNOWN,
}

RULES = (
    "Exit 10: a plan is INVALID or shows a new kind of anomaly. Exit 12: a plan is not live. This is proven if both campaigns "
    "performed the plan and it was better before, or if the first campaign had no such plan of the protocol; else Fisher's test "
    "decides.",
    f"Exit 11: recovery from a fault is slower by more than {TOLERATED} %, by the sign test over the plans of both campaigns, or "
    "by the Mann-Whitney test if they share none.",
    "Exit 11: more plans are UNKNOWN or fewer plans reach a pair of protocol state and fault, by Fisher's test; or a protocol is "
    "gone.",
    f"All tests are one-sided. Each p is corrected for the number of tests and must not exceed {LEVEL}.",
)


class Options(Struct, frozen=True, kw_only=True):
    """The options of `highwater diff`."""

    before: Annotated[str, typer.Argument(help="The campaign to compare with.")]
    after: Annotated[str, typer.Argument(help="The campaign that must not be worse.")]
    dataset: Dataset
    engine: Engine = Engine()
    wanted: Wanted = Wanted()


@takes(Options)
def diff(arguments: Options) -> int:
    """Compare two campaigns: new anomalies, lost liveness, slower recovery, less coverage; exit with 10, 12 or 11 if worse."""
    before = arguments.before
    after = arguments.after
    answers_wanted = resolve_output(arguments.wanted)
    findings = ask_diff(source_of(arguments.dataset, arguments.engine), before, after)
    code = worst(EXITS[finding.what] for finding in findings if finding.worse)
    if answers_wanted.page is not None:
        repeat = f"highwater diff {before} {after} --dataset {arguments.dataset}"
        store.write_file(answers_wanted.page, render_diff(_diff_page(findings, before, after, code, repeat)))
    if answers_wanted.form == "json" and answers_wanted.output is None:
        say_json({"before": before, "after": after, "exit": code, "level": LEVEL, "findings": findings})
    elif answers_wanted.form == "table" and answers_wanted.output is None:
        _say_comparison(findings, before, after, code)
    else:
        question = Question(name="diff", title=f"{before} and {after}", words="", columns=COLUMNS, sql="")
        show([Answer(question=question, table=table_of(findings))], answers_wanted.form, answers_wanted.output)
    say_page(answers_wanted)
    return code


def _say_comparison(findings: list[Finding], before: str, after: str, code: ExitCode) -> None:
    """Print what became worse, after a line for each protocol."""
    rows = [_comparison(finding) for finding in findings]
    say(f"{before} and {after}: {_result(code)}; {len(rows)} comparisons")
    for name in sorted({row.protocol for row in rows}):
        plain = [row for row in rows if row.protocol == name and row.what in ("invalid", "not-live", "unknown")]
        if plain:
            say(f"  {name}: " + ", ".join(f"{r.what} {side_words(r, 'before')}, then {side_words(r, 'after')}" for r in plain))
    worse = [row for row in rows if row.worse]
    for line in first_of([_worse_line(row) for row in worse]):
        say(f"  {line}")


def _worse_line(row: Comparison) -> str:
    what = " ".join(part for part in (row.what, row.protocol, row.subject) if part)
    why = "proven" if row.p is None else f"p {row.p:.2g}"
    return f"worse  {what}: {side_words(row, 'before')}, then {side_words(row, 'after')} ({why})"


def _comparison(finding: Finding) -> Comparison:
    return Comparison(**structs.asdict(finding))


def _result(code: ExitCode) -> str:
    return "nothing is worse" if code is ExitCode.VALID else f"worse, {WORDS[code]}"


def _diff_page(findings: list[Finding], before: str, after: str, code: ExitCode, repeat: str) -> DiffPage:
    """The comparison as a page."""
    rows = tuple(_comparison(finding) for finding in findings)
    tones = {ExitCode.VALID: "valid", ExitCode.INVALID: "invalid"}
    return DiffPage(
        before=before,
        after=after,
        result=_result(code).capitalize(),
        tone=tones.get(code, "unknown"),
        repeat=repeat,
        rules=RULES,
        worse=tuple(row for row in rows if row.worse),
        protocols=protocol_views(rows, before=before, after=after),
    )
