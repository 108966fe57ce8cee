"""`highwater compare`: the same plans on two variants of the protocol, with what each of them costs."""

import os
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from shlex import join, split
from typing import Annotated

import pyarrow as pa
import typer
from msgspec import Struct
from msgspec.structs import asdict, replace

from highwater.backends.sim.backend import SimBackend
from highwater.campaigns.campaign import Request
from highwater.campaigns.load import words_of_load
from highwater.cli import options
from highwater.cli.answers import Wanted, resolve_output, say_page, show, write_page
from highwater.cli.declaration import takes
from highwater.cli.output import status
from highwater.comparison.pairs import LEVEL, PAIRS_MIN, Measured, Pair, Weighed, pairs_of, weighed
from highwater.errors import UsageError
from highwater.plans.plan import DRAWS_END, Plan, unknown_protocol
from highwater.plans.text import load_plan
from highwater.runs.provenance import present_build
from pipeline.questions.ask import Answer
from pipeline.questions.question import Question, columns
from reference.config import VARIANTS

_NAME = "compare"
_VERDICTS = columns(protocol="the variant", runs="its runs", valid="of them VALID", live="of them live")
_MEASURES = columns(
    measure="what is measured, with its unit at the end",
    pairs="plans of which both runs have a figure",
    first="median over the runs of the first variant",
    first_q1="their lower quartile",
    first_q3="their upper quartile",
    second="median over the runs of the second variant",
    second_q1="their lower quartile",
    second_q3="their upper quartile",
    difference="median of the differences within a pair, second less first",
    low=f"lower end of its interval at {LEVEL} %, by resampling the pairs",
    high="upper end",
    shown=f"whether the second has less or more of it: the interval lies on one side of 0 (at least {PAIRS_MIN} pairs)",
    words="what the figure of a run is",
)


class Options(Struct, frozen=True, kw_only=True):
    """The options of `highwater compare`."""

    first: Annotated[str, typer.Argument(callback=options.lowered, help="Protocol variant to compare with.")]
    second: Annotated[str, typer.Argument(callback=options.lowered, help="Protocol variant that is compared.")]
    plan: Annotated[list[Path] | None, typer.Option(help="Plan file (YAML); may be given several times.")] = None
    draws: Annotated[int, typer.Option(min=1, help="How often each plan file is performed, each time with other draws.")] = 20
    seeds: Annotated[str | None, typer.Option(help="Seeds, as 1..20, in place of plan files.")] = None
    faults: options.Faults = ""
    load: options.Load = options.Load()
    jobs: options.Jobs = None
    wanted: Wanted = Wanted()


@takes(Options)
def compare(arguments: Options) -> int:
    """Perform the same plans on two variants and weigh what each costs: latencies, moves, failovers, writes of ZooKeeper."""
    output = resolve_output(arguments.wanted)
    for name in (arguments.first, arguments.second):
        if name not in VARIANTS:
            raise UsageError(unknown_protocol(name))
    if arguments.first == arguments.second:
        raise UsageError(f"{arguments.first} is compared with itself: name two variants")
    plans, plan_arguments = _plans_to_perform(arguments)
    pairs = []
    jobs = min(arguments.jobs or os.cpu_count() or 1, len(plans))
    with status(quiet=output.form == "json") as say_status:
        for pair in pairs_of(plans, arguments.first, arguments.second, present_build(), jobs=jobs):
            pairs.append(pair)
            say_status(f"{2 * len(pairs)} of {2 * len(plans)} runs")
    answers = [
        _table_of_verdicts(pairs, arguments.first, arguments.second),
        _table_of_measures(weighed(pairs), arguments.first, arguments.second),
    ]
    match output.form:
        case "table":
            show([answers[0], _shortened(answers[1])], output.form, output.output)
        case "json":
            show(answers, output.form, output.output)
        case _:
            show(answers[1:], output.form, output.output)
    if output.page is not None:
        repeat = join(["highwater", _NAME, arguments.first, arguments.second, *plan_arguments])
        title = f"{arguments.first} and {arguments.second} on the same plans"
        write_page(output.page, [answers[0], _for_page(answers[1])], title=title, dataset="", repeat=repeat)
    say_page(output)
    return 0


def _plans_to_perform(arguments: Options) -> tuple[list[Plan], list[str]]:
    """The plans to perform, and the options that choose them. UsageError where none or both kinds are given."""
    if (arguments.seeds is None) == (not arguments.plan):
        raise UsageError(f"give either --seeds A..B or --plan FILE; given: {'neither' if arguments.seeds is None else 'both'}")
    if arguments.seeds is not None:
        request = Request(protocol=arguments.first, faults=options.names_of(arguments.faults), **asdict(arguments.load))
        faults = ["--faults", arguments.faults] if arguments.faults else []
        return [request.plan(number) for number in options.seeds_of(arguments.seeds)], [
            "--seeds",
            arguments.seeds,
            *faults,
            *split(" ".join(words_of_load(request))),
        ]
    files = arguments.plan or []
    plans = [
        replace(plan, draws=(plan.draws + number) % DRAWS_END)
        for plan in map(load_plan, files)
        for number in range(arguments.draws)
    ]
    for plan in plans:
        refusal = SimBackend().refuse(plan)
        if refusal is not None:
            raise UsageError(f"{plan.name}: {refusal}")
    return plans, [*chain.from_iterable(("--plan", str(path)) for path in files), "--draws", str(arguments.draws)]


def _table_of_verdicts(pairs: Sequence[Pair], first: str, second: str) -> Answer:
    """How many runs of each variant were VALID and live."""
    rows = [_verdict_counts(first, [pair.first for pair in pairs]), _verdict_counts(second, [pair.second for pair in pairs])]
    words = "Each plan was performed once on each variant. A run that is not VALID broke the promise, or could not be judged."
    return Answer(
        question=Question(name="verdicts", title="Verdicts", words=words, columns=_VERDICTS, sql=""),
        table=pa.Table.from_pylist(rows),
    )


def _verdict_counts(protocol: str, runs: Sequence[Measured]) -> dict[str, object]:
    return {
        "protocol": protocol,
        "runs": len(runs),
        "valid": sum(r.valid for r in runs),
        "live": sum(r.live is True for r in runs),
    }


def _table_of_measures(rows: Sequence[Weighed], first: str, second: str) -> Answer:
    """The measures as a table."""
    words = (
        f"Here {first} is called first, and {second} second. Each plan is compared with itself: “shown” says of which measures"
        f" the second has less or more. Where the variants do not differ, {100 - LEVEL} of 100 intervals lie beside 0 by chance;"
        f" here are {len(rows)}."
    )
    table = pa.Table.from_pylist([{**asdict(row), "shown": row.shown} for row in rows]).select([c.name for c in _MEASURES])
    return Answer(
        question=Question(name="measures", title="What each costs", words=words, columns=_MEASURES, sql=""), table=table
    )


def _for_page(answer: Answer) -> Answer:
    """The measures with what differs first, so that a narrow window shows it; pairs and quartiles last."""
    last = ("pairs", "first_q1", "first_q3", "second_q1", "second_q3")
    kept = sorted(answer.question.columns, key=lambda column: last.index(column.name) if column.name in last else -1)
    return Answer(question=replace(answer.question, columns=tuple(kept)), table=answer.table)


def _shortened(answer: Answer) -> Answer:
    """The measures without quartiles and words, as wide as a terminal."""
    kept = tuple(column for column in answer.question.columns if not column.name.endswith(("_q1", "_q3", "words")))
    return Answer(question=replace(answer.question, columns=kept), table=answer.table)
