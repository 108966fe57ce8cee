"""A second opinion on runs: the judge of linearizability, which sees clients alone, beside the checkers of runs.

`make second-opinion` performs seeds of `safe`, which must never be accused, and the runs of corpus/mutants.yaml in which the
checkers find a lost or doubled record, and judges each as the model `partition-log` (`history.foreign.ours`). The judge of
linearizability shares no code with those checkers. What it cannot see: a record that is lost where nobody reads again.
`python -m bench.second_opinion --write docs/evidence.md` replaces the table there.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from msgspec import Struct

from checkers.engine.verdict import Validity, Verdict
from checkers.linearizability.collections import PartitionLog
from checkers.linearizability.judge import Judgement
from checkers.linearizability.judge import judge as judge_log
from highwater.backends.sim.backend import SimBackend
from highwater.catalogue.mutants import load_mutants, plans_of
from highwater.plans.derive import derive
from highwater.plans.plan import Plan
from highwater.runs.provenance import present_build
from highwater.runs.run import judge, perform
from history.foreign import ours

_MUTANTS = Path("corpus/mutants.yaml")
_OF_RECORDS = frozenset({"lost-write", "duplicate", "inconsistent-offsets"})  # findings that reads of clients may show
_SEEDS_OF_A_ROW = 3  # of the seeds that may catch a variant
_BEGIN, _END = "<!-- second opinion -->", "<!-- end of the second opinion -->"


class Opinions(Struct):
    """How many runs of one protocol there were, and what both sides said of them."""

    runs: int = 0
    found: int = 0  # runs with a lost or doubled record, by the checkers
    agreed: int = 0  # of these, INVALID by the model
    others: int = 0  # runs with other findings, or with losses that wounds excuse, that are INVALID by the model
    accused: int = 0  # runs without any finding that are INVALID by the model
    undecided: int = 0
    strange: list[str] = []  # msgspec copies it


def _opinions(plans: Iterator[Plan]) -> Opinions:
    build = present_build()
    opinions = Opinions()
    for plan in plans:
        history = perform(plan, SimBackend(), build).history
        verdict, second = judge(history), judge_log(PartitionLog(), ours.calls(history).calls)
        _count(opinions, plan, verdict, second)
    return opinions


def _count(opinions: Opinions, plan: Plan, verdict: Verdict, second: Judgement) -> None:
    opinions.runs += 1
    wrong = any(anomaly.kind in _OF_RECORDS for anomaly in verdict.anomalies)
    opinions.found += wrong
    opinions.undecided += second.validity is Validity.UNKNOWN
    if second.validity is not Validity.INVALID:
        if wrong:
            opinions.strange.append(f"not seen: {plan.name} of {plan.protocol}, {verdict.anomalies[0].words}")
        return
    if wrong:
        opinions.agreed += 1
    elif verdict.validity is Validity.INVALID or verdict.excused:
        opinions.others += 1
    else:
        opinions.accused += 1
        opinions.strange.append(f"accused: {plan.name} of {plan.protocol}: {second.anomalies[0].words}")


def _known_bad() -> Iterator[Plan]:
    for row in load_mutants(_MUTANTS).caught:
        for plan, _ in zip(plans_of(row, _MUTANTS.parent), range(_SEEDS_OF_A_ROW), strict=False):
            yield plan


def _table(safe: Opinions, bad: Opinions) -> str:
    head = (
        "| runs | number | with a lost or doubled record | of these INVALID as `partition-log` "
        "| INVALID, with other findings | accused | UNKNOWN |\n"
    )
    rows = [
        f"| {what} | {opinions.runs} | {opinions.found} | {opinions.agreed} | "
        f"{opinions.others} | {opinions.accused} | {opinions.undecided} |"
        for what, opinions in (("`safe`", safe), ("known-bad protocols", bad))
    ]
    return head + "|---|---|---|---|---|---|---|\n" + "\n".join(rows) + "\n"


def main(
    first: Annotated[int, typer.Option(help="First seed of safe.")] = 5000,
    seeds: Annotated[int, typer.Option(help="How many seeds of safe.")] = 300,
    write: Annotated[Path | None, typer.Option(help="Page whose table is replaced.")] = None,
) -> None:
    """Print the table and what the two sides disagree on; exit with 1 if a run without any finding is accused."""
    safe = _opinions(derive(seed) for seed in range(first, first + seeds))
    bad = _opinions(_known_bad())
    table = _table(safe, bad)
    sys.stdout.write(table)
    for line in (*safe.strange, *bad.strange):
        sys.stdout.write(f"{line}\n")
    if write is not None:
        before, _, rest = write.read_text(encoding="utf-8").partition(_BEGIN)
        write.write_text(f"{before}{_BEGIN}\n\n{table}\n{_END}{rest.partition(_END)[2]}", encoding="utf-8")
    raise typer.Exit(1 if safe.accused or bad.accused else 0)


if __name__ == "__main__":
    typer.run(main)
