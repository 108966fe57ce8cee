"""Runs until a known-bad protocol is caught: plain seeds against the guided search (docs/campaigns.md).

    python -m bench.guided [VARIANT ...] [--firsts 1000,2000] [--budget 60] [--modes plain,guided] [--within S]
    python -m bench.guided --page docs/campaigns.md

Caught means that a run is INVALID, not live, or crashes in the protocol, and `safe` is VALID and live on the same plan. Each
measurement is one line of bench/guided.jsonl, so that an interrupted bench goes on where it was. Without names, guided runs are
made for rarely caught variants alone. Counts of runs do not depend on the machine, its load or the number of workers. The first
seeds of the table were not used while the search was written.
"""

import argparse
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from statistics import median_low
from time import monotonic
from typing import Literal, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from checkers.engine.anomalies import UNKNOWN
from highwater.campaigns.campaign import Request
from highwater.campaigns.generations import GENERATION, Search, shown_by
from highwater.catalogue.mutants import catches, load_mutants
from highwater.cli.output import say
from highwater.errors import UsageError
from highwater.exit_codes import ExitCode
from highwater.plans.plan import Plan
from highwater.plans.text import load_plan
from highwater.runs.provenance import Build, present_build
from highwater.runs.summary import Summary
from highwater.runs.workers import Task, perform
from nemesis.kinds import KINDS

ROOT = Path(__file__).resolve().parents[1]
CORPUS = ROOT / "corpus"
ROWS = ROOT / "bench" / "guided.jsonl"
FIRSTS = tuple(range(1000, 10_000, 1000))
BUDGET = 60
RARE_ABOVE = 10  # runs: the median of plain seeds
_DESTROYING = {kind.name for kind in KINDS if kind.destroys == "everything"}
_BUILD = Build(commit="", dirty=False, versions={})

Mode = Literal["plain", "guided"]
MODES: tuple[Mode, ...] = get_args(Mode)


class Row(Struct, frozen=True, kw_only=True):
    """One measurement. `runs`: until the variant was caught, else all that were performed."""

    variant: str
    mode: Mode
    first: int
    caught: bool
    runs: int
    by: str  # the worst anomaly, or why the run is not live
    plan: str  # that caught it
    cpu_s: float
    commit: str = ""  # of the measured code: seven digits of its name in git


def measure(variant: str, mode: Mode, first: int, budget: int) -> Row:
    """Perform runs until one catches the variant or the budget is used."""
    runs = 0
    cpu_s = 0.0
    commit = present_build().commit[:7]
    for plan, summary in _runs(Request(protocol=variant, faults=faults_of(variant)), mode, first, budget):
        runs, cpu_s = runs + 1, cpu_s + summary.cpu_seconds
        by = caught_by(summary)
        if by is not None and _spares_safe(plan):
            caught = True
            found = plan.name
            break
    else:
        caught, by, found = False, "", ""
    return Row(
        variant=variant,
        mode=mode,
        first=first,
        caught=caught,
        runs=runs,
        by=by or "",
        plan=found,
        cpu_s=round(cpu_s, 1),
        commit=commit,
    )


def _spares_safe(plan: Plan) -> bool:
    """Whether `safe` is VALID and live on a plan: otherwise its run says nothing of the variant."""
    safe = perform(Task(plan=replace(plan, protocol="safe"), repeat="", build=_BUILD))
    return safe.exit_code is ExitCode.VALID


def _runs(request: Request, mode: Mode, first: int, budget: int) -> Iterator[tuple[Plan, Summary]]:
    if mode == "plain":
        for seed in range(first, first + budget):
            plan = request.plan(seed)
            yield plan, perform(Task(plan=plan, repeat="", build=_BUILD))
        return
    search = Search(request, first=first, runs=budget, generation=GENERATION)
    while planned := search.planned():
        summaries = []
        for planned_run in planned:
            summaries.append(perform(Task(plan=planned_run.plan, repeat="", build=_BUILD, branches=True)))
            yield planned_run.plan, summaries[-1]
        search.learn(planned, [shown_by(summary) for summary in summaries])


def caught_by(summary: Summary) -> str | None:
    """Why a run is red; None if it is VALID and live, or UNKNOWN."""
    if summary.crash is not None:
        return f"crash at {summary.crash}"
    if summary.verdict == "INVALID":
        return summary.anomalies[0].kind
    return "not live" if summary.live is False else None


def read_rows(path: Path = ROWS) -> list[Row]:
    """All measurements, the latest of each kind."""
    lines = path.read_bytes().splitlines() if path.exists() else []
    rows = [msgspec.json.decode(line, type=Row) for line in lines]
    return list({(row.variant, row.mode, row.first): row for row in rows}.values())


def is_done(row: Row | None, budget: int) -> bool:
    """Whether a measurement need not be made again for this budget."""
    return row is not None and (row.caught or row.runs >= budget)


class Counts(Struct, frozen=True, kw_only=True):
    """The measurements of one variant in one mode, sorted; `None` is a variant that was not caught within the budget."""

    runs: tuple[int | None, ...]
    budget: int

    @property
    def median(self) -> int | None:
        """The lower median; None: above the budget."""
        found = median_low(self.budget + 1 if runs is None else runs for runs in self.runs)
        return found if found <= self.budget else None

    @property
    def words(self) -> str:
        """Median, and the least and the greatest."""
        shown = [f"> {self.budget}" if runs is None else str(runs) for runs in (self.median, self.runs[0], self.runs[-1])]
        return f"{shown[0]} ({shown[1]} to {shown[2]})" if shown[1] != shown[2] else shown[0]


def counts_of(rows: Iterable[Row], mode: Mode, budget: int) -> Counts | None:
    """The counts of one variant; None where nothing was measured."""
    found = [row.runs if row.caught and row.runs <= budget else None for row in rows if row.mode == mode and is_done(row, budget)]
    if not found:
        return None
    return Counts(runs=tuple(sorted(found, key=lambda runs: budget + 1 if runs is None else runs)), budget=budget)


def is_rare(plain: Counts | None) -> bool:
    """Whether plain seeds need more than RARE_ABOVE runs in the median; False if they were not measured."""
    return plain is not None and (plain.median is None or plain.median > RARE_ABOVE)


def variants() -> list[str]:
    """The known-bad protocols that a run shows to be wrong, in the order of corpus/mutants.yaml.

    One that only makes runs UNKNOWN breaks no promise, so no number of runs catches it.
    """
    return list(dict.fromkeys(row.protocol for row in catches(load_mutants(CORPUS / "mutants.yaml")) if row.kind != UNKNOWN))


def faults_of(variant: str) -> tuple[str, ...]:
    """The fault mix of a campaign without `--faults`, or `all` if the variant's plan destroys what the default kinds spare."""
    plans = [
        load_plan(CORPUS / row.plan)
        for row in load_mutants(CORPUS / "mutants.yaml").caught
        if row.protocol == variant and row.plan is not None
    ]
    return ("all",) if any(window.kind in _DESTROYING for plan in plans for window in plan.schedule) else ()


@cache
def _at_most_half(plain: Counts, guided: Counts) -> str:
    """Whether guided runs need at most half of the plain ones in the median, as far as the budget shows it."""
    if guided.median is None:
        return "neither" if plain.median is None else "no"
    if plain.median is None:
        return "yes" if 2 * guided.median <= plain.budget + 1 else "sooner"
    return "yes" if 2 * guided.median <= plain.median else "no"


def page(rows: Sequence[Row], budget: int) -> str:
    """The figures in docs/campaigns.md, below the marker."""
    by_variant = {name: [row for row in rows if row.variant == name and row.first in FIRSTS] for name in variants()}
    done = {(row.variant, row.mode, row.first) for row in rows if is_done(row, budget)}
    lines, frequent, open_ = [], [], []
    halved = rare = 0
    for name, found in by_variant.items():
        plain = counts_of(found, "plain", budget)
        if plain is None:
            open_.append(name)
            continue
        if not is_rare(plain):
            frequent.append(f"`{name}` {plain.words}")
            continue
        rare += 1
        both = [row for row in found if {(row.variant, mode, row.first) for mode in MODES} <= done]
        plain, guided = counts_of(both, "plain", budget), counts_of(both, "guided", budget)
        if plain is None or guided is None:
            open_.append(name)
            continue
        message = _at_most_half(plain, guided)
        halved += message == "yes"
        kinds = ", ".join(sorted({row.by.split(" at ")[0] for row in found if row.caught and row.mode == "guided"}))
        lines.append(f"| `{name}` | {len(plain.runs)} | {plain.words} | {guided.words} | {message} | {kinds} |")
    summary = f"On {halved} of {rare} rarely caught variants the guided search needs at most half the runs."
    return _PAGE.format(
        budget=budget,
        firsts=", ".join(map(str, FIRSTS)),
        rare=RARE_ABOVE,
        generation=GENERATION,
        commits="; ".join(f"{mode} runs {_commits(rows, mode)}" for mode in MODES),
        summary=summary,
        all=" and ".join(f"`{name}`" for name in variants() if faults_of(name)),
        table="\n".join(lines),
        frequent="; ".join(frequent) or "none",
        open=", ".join(f"`{name}`" for name in open_) or "none",
    )


def _commits(rows: Iterable[Row], mode: Mode) -> str:
    return ", ".join(sorted({row.commit for row in rows if row.mode == mode and row.commit})) or "not recorded"


MARKER = "<!-- generated: python -m bench.guided --page docs/campaigns.md -->\n"
_PAGE = """
`guided` performs what `--guided --generation {generation}` performs from the same first seed.
The numbers are the median and, in brackets, the least and the greatest over the first seeds {firsts}, as many as were measured.
{all} are measured with `--faults all`, because the default kinds spare what must be destroyed to show them.
`> {budget}` means not caught within {budget} runs.
`sooner`: guided runs caught the variant within {budget}, plain ones did not, and whether half the runs are enough is open.
The measured code: {commits}.

A variant is rarely caught if plain seeds need more than {rare} runs in the median.

**{summary}**

| variant | first seeds | plain | guided | at most half | guided found |
| --- | --- | --- | --- | --- | --- |
{table}

Caught by plain seeds within {rare} runs in the median, so no search is needed: {frequent}.

Not measured yet: {open}.
"""


def document() -> str:
    """The figures of the stored measurements."""
    return page(read_rows(ROWS), BUDGET)


def main() -> int:
    """Make the measurements that are missing, or print the page."""
    parser = argparse.ArgumentParser(prog="bench.guided", description=__doc__)
    parser.add_argument("variants", nargs="*", metavar="VARIANT")
    parser.add_argument("--firsts", default=",".join(map(str, FIRSTS)), help="first seeds, separated by commas")
    parser.add_argument("--budget", type=int, default=BUDGET, help="runs of one measurement")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--rows", type=Path, default=ROWS, help="file of the measurements")
    parser.add_argument("--within", type=float, default=float("inf"), metavar="S", help="begin nothing after S seconds")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the figures into this document, below its marker")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if options.page is not None:
        head, _, _ = options.page.read_text(encoding="utf-8").partition(MARKER)
        options.page.write_text(head + MARKER + page(read_rows(options.rows), options.budget), encoding="utf-8")
        return 0
    try:
        _measure(options)
    except UsageError as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        return 130
    return 0


def _measure(options: argparse.Namespace) -> None:
    modes = [mode for mode in MODES if mode in options.modes.split(",")]
    if options.budget < 1 or not modes:
        raise UsageError("--budget must be at least 1, and --modes must name plain, guided or both")
    start = monotonic()
    known_rows = {(row.variant, row.mode, row.first): row for row in read_rows(options.rows)}
    for mode in modes:
        for first in map(int, options.firsts.split(",")):
            for variant in options.variants or variants():
                found = known_rows.get((variant, mode, first))
                plain = counts_of((row for row in known_rows.values() if row.variant == variant), "plain", options.budget)
                if is_done(found, options.budget) or (mode == "guided" and not options.variants and not is_rare(plain)):
                    continue
                if monotonic() - start > options.within:
                    return
                row = measure(variant, mode, first, options.budget)
                known_rows[variant, mode, first] = row
                with options.rows.open("ab") as file:
                    file.write(msgspec.json.encode(row) + b"\n")
                say(f"{variant} {mode} {first}: {row.runs if row.caught else f'> {row.runs}'} {row.by} ({row.cpu_s} s)")


if __name__ == "__main__":
    sys.exit(main())
