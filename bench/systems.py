"""The plans of history's bugs on releases of Kafka and on the reference: performed again and again, recorded, told as a page.

    python -m bench.systems --plan kip101 --runs 10 kafka:0.10.2.2   # performs, and records each run in bench/systems.jsonl
    python -m bench.systems --read STORE                             # records the runs in a store
    python -m bench.systems --page > docs/real-kafka.md

`make bench-systems` is the first, with the arguments in BENCH_ARGS. One cluster runs at a time; on a busy machine times are upper
bounds. The page counts the runs of the plans as they are now; a change of a plan makes its earlier runs void.
"""

import argparse
import sys
from collections.abc import Container, Iterable, Iterator
from pathlib import Path

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from highwater.backends.real.systems.kafka.log_lines import QUOTED
from highwater.errors import UsageError
from highwater.plans.plan import Plan, is_foreign, on_system, plan_digest, system_of
from highwater.plans.systems import REFERENCE, parsed_system, words_of
from highwater.plans.text import load_plan
from highwater.runs import hazards
from highwater.runs.findings import by_kind
from highwater.runs.hazards import Shown, hazard_of
from highwater.runs.provenance import present_build
from highwater.runs.run import SUMMARY, Keep, backend_named, carry_out
from highwater.runs.summary import Summary
from history import store
from history.event import EventKind
from history.history import History
from history.op import OpType

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "bench" / "systems.jsonl"
STORE = Path("store/bench-systems")
PLANS = ("kip101", "kip101-quorum", "kip279", "kip320", "kafka7128", "unclean", "unclean-forbidden", "kip966", "end-txn-late")
ROLLS = ("roll-quorum", "roll-back", "roll")  # and seeds, on systems whose brokers start as another version
SYSTEMS = (
    "kafka:0.10.2.2",
    "kafka:0.11.0.3",
    "kafka:1.1.1",
    "kafka:2.0.1",
    "kafka:2.4.1",
    "kafka:2.8.2",
    "kafka:3.0.2",
    "kafka:3.7.2",
    "kafka:3.7.2-kraft",
    "kafka:3.9.1",
    "kafka:3.9.1-kraft",
    "kafka:4.0.1",
    "kafka:4.1.0",
    "kafka:4.2.0",
    "kafka:4.4.0",
)
SEED = "seed-"  # begins the names of plans that campaigns derive
QUOTES_MAX = 4  # lines of brokers' logs that are recorded of a run
_NS = 1e9


class Measured(Struct, frozen=True, kw_only=True):
    """One run. `subject`: a system, or a protocol of the reference; `plan_digest` leaves out story and hazard."""

    plan: str
    plan_digest: str
    run: str  # digest of its rows
    subject: str
    backend: str
    verdict: str
    live: bool | None
    hazard: Shown
    failure: str | None
    first_anomaly: str | None
    why: str | None = None  # why it is not VALID and live, where no anomaly says it; not recorded of the first runs
    slowed: float | None = None  # by other work on the machine, after healing; not recorded of the first runs
    said: tuple[str, ...]  # by brokers in their logs
    first_write_s: float | None
    seconds: float

    @property
    def outcome(self) -> str:
        """The column of the table that counts this run."""
        if self.failure is not None or self.verdict == "UNKNOWN":
            return "failed"
        if self.verdict == "INVALID":
            return "lost or diverged"
        if self.hazard != "shown":
            return "vacuous" if self.hazard == "not shown" else "kept, hazard not told"
        return "kept" if self.live else "kept, not live"


COLUMNS = ("lost or diverged", "kept", "kept, hazard not told", "kept, not live", "vacuous", "failed")


def plan_named(name: str) -> Plan:
    """A plan of `corpus/real`."""
    return load_plan(ROOT / "corpus" / "real" / f"{name}.yaml")


def subject_of(plan: Plan) -> str:
    """What a plan tests: a system, or the reference with a protocol."""
    subject = words_of(system_of(plan)) if is_foreign(plan) else f"reference, {plan.protocol}"
    return subject if plan.workload.client is UNSET else f"{subject}, client {plan.workload.client}"


def digest_of(plan: Plan) -> str:
    """The digest of what a plan performs, on whatever system, with whatever protocol and client."""
    workload = replace(plan.workload, client=UNSET)
    return plan_digest(replace(plan, story="", protocol="", variant=None, system=UNSET, workload=workload))


def measured(plan: Plan, history: History, summary: Summary) -> Measured:
    """The record of one run; its hazard is that of the plan as it is now."""
    first = next((row.time_ns for row in history.operations if row.type is OpType.OK and row.f == "produce"), None)
    present = plan_named(plan.name) if plan.name in PLANS else plan
    hazard = hazard_of(present, history, accused=summary.verdict == "INVALID")
    anomalies = by_kind(summary.anomalies)
    return Measured(
        plan=plan.name,
        plan_digest=digest_of(plan),
        run=history.manifest.digest,
        subject=subject_of(plan),
        backend=history.manifest.backend,
        verdict=summary.verdict,
        live=summary.live,
        hazard="not told" if hazard is UNSET else hazard,
        failure=summary.failure,
        first_anomaly=anomalies[0] if anomalies else None,
        why=_why(summary),
        slowed=history.manifest.slowed,
        said=tuple(_lines_said(history))[:QUOTES_MAX],
        first_write_s=None if first is None else round(first / _NS, 1),
        seconds=round(summary.wall_seconds, 1),
    )


def _why(summary: Summary) -> str | None:
    if summary.live and summary.verdict == "VALID":
        return None
    return next(iter((*summary.not_live, *summary.unchecked)), None)


def _lines_said(history: History) -> Iterator[str]:
    for row in history.events:
        if row.kind is EventKind.TRUNCATE and (row.detail or "").startswith(QUOTED):
            yield f"{row.time_ns / _NS:.3f} s  {row.node}  {(row.detail or '').removeprefix(QUOTED)}"


def performed(plan: Plan, runs: int, folder: Path) -> Iterator[Measured]:
    """Perform the plan so many times."""
    build = present_build()
    for _ in range(runs):
        judged_run = carry_out(plan, backend_named("process"), build=build, repeat="", keep=Keep(store=folder))
        yield measured(plan, judged_run.history, judged_run.summary)


def stored(folder: Path, known: Container[str]) -> Iterator[Measured]:
    """The records of the runs below a folder; runs of other plans, unjudged and known ones (by their digest) are left out."""
    for run in store.find_runs(folder):
        if not (run / SUMMARY).exists() or store.load_manifest(run).digest in known:
            continue
        plan = load_plan(run / store.PLAN)
        if _counts(plan.name):
            yield measured(plan, store.load_run(run), msgspec.json.decode((run / SUMMARY).read_bytes(), type=Summary))


def _counts(name: str) -> bool:
    return name in (*PLANS, *ROLLS) or name.startswith(SEED)


# --- the record -----------------------------------------------------------------------------------------------------------


def recorded() -> list[Measured]:
    """All recorded runs, in the order of their plans and systems."""
    lines = RECORD.read_bytes().splitlines() if RECORD.exists() else []
    return sorted((msgspec.json.decode(line, type=Measured) for line in lines), key=lambda one: (one.plan, one.subject, one.run))


def counted(runs: Iterable[Measured]) -> list[Measured]:
    """The runs of the plans as they are now, and of seeds."""
    present = {name: digest_of(plan_named(name)) for name in (*PLANS, *ROLLS)}
    return [one for one in runs if one.plan.startswith(SEED) or one.plan_digest == present.get(one.plan)]


def record(runs: Iterable[Measured]) -> None:
    """Add runs to the record, as they come."""
    with RECORD.open("ab", buffering=0) as file:
        for run in runs:
            file.write(msgspec.json.encode(run) + b"\n")
            print(f"{run.plan} on {run.subject}: {run.outcome}; {run.first_anomaly or run.failure or run.verdict}", flush=True)  # noqa: T201


# --- the page -------------------------------------------------------------------------------------------------------------

HAZARDS = "\n".join(f"* **{name}**: {words}" for name, words in hazards.WORDS.items())
_INTRODUCTION = f"""# Bugs of history on real Kafka

Each plan below makes one bug of Kafka's past possible. It runs on releases before and after the repair, and on the reference.
This page is generated: `python -m bench.systems --page` counts the runs in `bench/systems.jsonl`.

* **lost or diverged**: the run is INVALID. Clients were told of a record, and later read another one at its offset; or a
  transaction was not isolated.
* **kept**: the run is VALID and live, and the hazard was met: something was at stake.
* **kept, hazard not told**: the same, but the release logs too little to say whether the hazard was met.
* **kept, not live**: nothing was lost, and after the bound B a partition still could not be written or read.
* **vacuous**: nothing was lost, and the hazard was not met. Such a run shows nothing; `highwater run` ends with exit code 11.
* **failed**: the harness failed, or evidence was missing.

A plan names its hazard: what must happen for a run to show anything. An anomaly shows it by itself.
`kafka:4.1.0-truncates-to-hw` is 4.1.0 with a mistake that was put into it ([systems.md](systems.md#a-build-of-your-own)).

{HAZARDS}

Runs are counted for the plans as they are now, on a machine with two cores and other work: elections came late at times.
A release without a row was not tried with the plan. Rows of fewer than five runs are what the shared machine had time for.
The first write is the first one that was acknowledged, counted from the start of the run.
A quotation is what brokers wrote to their logs in one of the runs, with the seconds since its start; at most {QUOTES_MAX} lines.
"""


def page(runs: Iterable[Measured]) -> str:
    """The text of docs/real-kafka.md."""
    found = list(runs)
    return "\n".join([_INTRODUCTION, *(_section(plan_named(name), found) for name in PLANS), _rolls(found), _seeds(found)])


_COUNTED = "| on | runs | VALID and live | not live | INVALID | UNKNOWN or failed | slowed by |"
_SLOWED = "Slowed by: after healing, work took so many times its CPU time, because of other work on the machine."


_ROLLS_HEAD = """## Rolling upgrades

Brokers become another release one after the other, with crashes ([systems.md](systems.md#mixed-versions-and-rolling-upgrades)):

* `highwater run --plan corpus/real/roll-quorum.yaml --system kafka:3.9.1-kraft..4.1.0`
* `highwater run --seed 1 --seconds 57 --system kafka:2.8.2..3.9.1 --faults roll,crash-leader,controller-kill,crash-isr-member`

"""


def _rolls(runs: list[Measured]) -> str:
    """The section of rolling upgrades: the plans, and seeds whose faults are named with the kind `roll`."""
    rolled_runs = [run for run in runs if _is_rolled(run)]
    lines = _ROLLS_HEAD.splitlines()
    lines += [f"{_COUNTED} seeds |", f"|{'---|' * 8}"]
    for subject, plan in sorted({(run.subject, _plan_or_seeds(run)) for run in rolled_runs}):
        these = [run for run in rolled_runs if (run.subject, _plan_or_seeds(run)) == (subject, plan)]
        lines.append(_counted_row(f"{subject}, {plan}", these))
    lines += ["", _SLOWED, *_reasons(rolled_runs), ""]
    return "\n".join(lines)


def _seeds(runs: list[Measured]) -> str:
    seed_runs = [run for run in runs if run.plan.startswith(SEED) and not _is_rolled(run)]
    lines = ["## Fresh seeds", "", "Runs of campaigns within the promise, with the faults that a release can suffer:", ""]
    lines += ["`highwater campaign --system kafka:3.9.1 --seeds 1..50 --seconds 60 --jobs 1 --keep-all`", ""]
    lines += [f"{_COUNTED} seeds |", f"|{'---|' * 8}"]
    lines += [
        _counted_row(subject, [run for run in seed_runs if run.subject == subject])
        for subject in sorted({o.subject for o in seed_runs})
    ]
    return "\n".join([*lines, "", _SLOWED, *_reasons(seed_runs)]).rstrip() + "\n"


def _is_rolled(run: Measured) -> bool:
    return ".." in run.subject or run.plan in ROLLS


def _plan_or_seeds(run: Measured) -> str:
    return "seeds" if run.plan.startswith(SEED) else run.plan


def _counted_row(name: str, runs: list[Measured]) -> str:
    """A row of a table with _COUNTED and the seeds of the runs."""
    valid = [run for run in runs if run.verdict == "VALID" and run.failure is None]
    invalid = sum(run.verdict == "INVALID" for run in runs)
    live = sum(run.live is True for run in valid)
    seeds = sorted(int(run.plan.removeprefix(SEED)) for run in runs if run.plan.startswith(SEED))
    counts = (len(runs), live, len(valid) - live, invalid, len(runs) - len(valid) - invalid)
    return f"| {name} | {' | '.join(map(str, counts))} | {_slowed_in_words(runs)} | {', '.join(map(str, seeds))} |"


def _reasons(runs: list[Measured]) -> list[str]:
    """A line for each run that is not VALID and live."""
    bad = [run for run in runs if run.verdict != "VALID" or run.failure is not None or not run.live]
    lines = [f"* {run.plan} on {run.subject}: {run.first_anomaly or run.failure or run.why or 'not live'}" for run in bad]
    head = "Each run that is not VALID and live, with its reason ([systems.md](systems.md#fresh-seeds) explains them):"
    return ["", head, "", *lines] if lines else []


def _slowed_in_words(runs: Iterable[Measured]) -> str:
    found = sorted(one.slowed for one in runs if one.slowed is not None)
    return f"{found[0]} to {found[-1]}" if found else "not measured"


def _section(plan: Plan, runs: list[Measured]) -> str:
    plan_runs = [run for run in runs if run.plan == plan.name]
    path = f"corpus/real/{plan.name}.yaml"
    head = f"| on | backend | runs | {' | '.join(COLUMNS)} | first write after |\n|{'---|' * (4 + len(COLUMNS))}"
    rows = sorted({(run.backend != "sim", not run.subject.startswith(REFERENCE), run.subject, run.backend) for run in plan_runs})
    table = [_row(subject, backend, plan_runs) for _, _, subject, backend in rows]
    parts = [
        f"## {plan.name}",
        "",
        plan.story.strip().replace(". ", ".\n"),
        "",
        f"Hazard: {plan.hazard}. Plan: `{path}`.",
        "",
        head,
        *table,
        "",
    ]
    example = next(
        (run for run in plan_runs if run.outcome == COLUMNS[0] and run.backend != "sim" and run.subject.startswith("kafka")), None
    )
    if example is not None:
        parts += [f"`highwater run --plan {path} --system {example.subject}`:", "", "```", str(example.first_anomaly), "```", ""]
    for run in _quotable(plan_runs):
        parts += [f"{run.subject}, {run.outcome}:", "", "```", *run.said, "```", ""]
    return "\n".join(parts)


def _row(subject: str, backend: str, runs: list[Measured]) -> str:
    these = [run for run in runs if (run.subject, run.backend) == (subject, backend)]
    counts = " | ".join(str(sum(run.outcome == column for run in these)) for column in COLUMNS)
    first = sorted({round(run.first_write_s) for run in these if run.first_write_s is not None and backend != "sim"})
    writes = "never" if not first else f"{first[0]} s" if len(first) == 1 else f"{first[0]} to {first[-1]} s"
    writes = "" if backend == "sim" or plan_named(runs[0].plan).workload.name == "transactions" else writes
    return f"| {subject} | {backend} | {len(these)} | {counts} | {writes} |"


def _quotable(runs: list[Measured]) -> Iterator[Measured]:
    """One run that lost and one that kept all records, with what their brokers said."""
    for outcome in COLUMNS[:2]:
        yield from [one for one in runs if one.outcome == outcome and one.said][:1]


def main() -> None:
    """Perform and record runs, record stored ones, or print the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("systems", nargs="*", default=SYSTEMS)
    parser.add_argument("--plan", choices=PLANS, default=PLANS[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--store", type=Path, default=STORE)
    parser.add_argument("--read", type=Path, action="append", default=[])
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    if options.page:
        sys.stdout.write(page(counted(recorded())))
        return
    for folder in options.read:
        record(stored(folder, {run.run for run in recorded()}))
    for system in () if options.read else options.systems:
        record(performed(on_system(plan_named(options.plan), parsed_system(system)), options.runs, options.store))


if __name__ == "__main__":
    try:
        main()
    except UsageError as error:
        sys.exit(f"bench.systems: {error}")
