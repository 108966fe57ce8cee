"""`highwater campaign`: many seeds, one table of what was found."""

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from msgspec import Struct

from highwater.backends.real import clean as cleaning
from highwater.campaigns.campaign import Campaign, Limits, Request, Tally, exit_code, folder_of, run_campaign, tally
from highwater.campaigns.goals import STANDARD_FROM, chosen
from highwater.campaigns.pages import write_pages
from highwater.cli import options
from highwater.cli.output import progress, say, say_json
from highwater.exit_codes import WORDS, ExitCode
from highwater.plans.derive import MIXED
from highwater.runs.provenance import laboratory
from highwater.runs.run import BackendName, Keep
from highwater.runs.summary import Summary
from highwater.runs.workers import Done, cores
from history.seed import format_seed

_FAILURES_SHOWN = 20


class Outcome(Struct, frozen=True, kw_only=True):
    """What `campaign --json` prints."""

    protocol: str
    seeds: tuple[int, int]
    exit: ExitCode
    stopped: str | None
    tally: Tally
    runs: tuple[Summary, ...]
    wall_seconds: float
    index: str
    junit: str


def campaign(
    *,
    seeds: Annotated[str, typer.Option(help="FIRST..LAST, both included.")],
    protocol: options.Protocol = "safe",
    faults: options.Faults = "",
    profile: options.ProfileOption = "within",
    seconds: options.Seconds = None,
    workload: options.Workload = MIXED,
    backend: options.BackendOption = "sim",
    jobs: options.Jobs = None,
    store: options.Store = Path("store"),
    keep_all: Annotated[bool, typer.Option("--keep-all", help="Keep valid runs too, not failures alone.")] = False,
    junit: Annotated[Path | None, typer.Option(help="Where the JUnit file goes; beside the index page if not given.")] = None,
    stop_after: Annotated[int | None, typer.Option(min=1, help="Stop after so many INVALID runs.")] = None,
    unknown_allowed: Annotated[int, typer.Option(min=0, max=100, help="Percent of UNKNOWN runs that are no failure.")] = 5,
    goals: Annotated[
        str | None,
        typer.Option(
            help="What all runs together must reach: standard, none, or a YAML list of names. "
            f"Standard from {STANDARD_FROM} seeds of `safe` over all faults on; every campaign shows the table."
        ),
    ] = None,
    json: options.AsJson = False,
) -> int:
    """Perform many seeds on all cores; count verdicts, faults and anomalies; write an index page and a JUnit file."""
    wanted = options.seeds_of(seeds)
    kinds = options.names_of(faults)
    request = Request(protocol=protocol, faults=kinds, profile=profile, seconds=seconds, workload=workload, backend=backend)
    request.check(wanted)  # bad input is refused before anything is written
    wide = protocol == "safe" and (not request.faults or "all" in request.faults) and seconds is None
    must = chosen(goals, profile=profile, by_default=wide and len(wanted) >= STANDARD_FROM)
    here = laboratory()
    place = None if junit is None else options.file_of(junit)
    keep = Keep(store=options.folder_of(store), report=True, only_failures=not keep_all)
    if not json:
        say(f"seeds {format_seed(wanted[0])} to {format_seed(wanted[-1])}  protocol {protocol}")
    with progress(len(wanted), quiet=json) as ticker:

        def seen(done: Done) -> None:
            ticker.tick(f"{done.summary.plan} {done.summary.verdict}")

        tasks = (request.task(seed, laboratory=here, keep=keep) for seed in wanted)
        limits = Limits(invalid_runs=stop_after)
        with _nothing_left(backend):
            found = run_campaign(tasks, wanted=len(wanted), jobs=jobs or cores(), limits=limits, seen=seen, goals=must)
    folder = folder_of(store, protocol=protocol, first=wanted[0], last=wanted[-1])
    title = f"{protocol}, seeds {wanted[0]} to {wanted[-1]}"
    repeat = request.command(0).replace("run --seed 0", f"campaign --seeds {wanted[0]}..{wanted[-1]}")
    pages = write_pages(folder, found.summaries, title=title, repeat=repeat, junit=place, goals=must)
    code = exit_code(found, unknown_allowed_percent=unknown_allowed)
    if json:
        say_json(
            Outcome(
                protocol=protocol,
                seeds=(wanted[0], wanted[-1]),
                exit=code,
                stopped=found.stopped,
                tally=tally(found.summaries, must),
                runs=found.summaries,
                wall_seconds=found.wall_seconds,
                index=str(pages.index),
                junit=str(pages.junit),
            )
        )
    else:
        show(found, code)
        say(f"pages   {pages.index}, {pages.junit}")
    return code


@contextmanager
def _nothing_left(backend: BackendName) -> Iterator[None]:
    """Of runs on real nodes that are given up in the middle, however that comes about."""
    try:
        yield
    finally:
        if backend != "sim":
            deque(cleaning.clean(), maxlen=0)


def show(found: Campaign, code: ExitCode) -> None:
    """A campaign for people: totals, faults, anomalies with the first seed of each, the runs that failed."""
    numbers = tally(found.summaries, found.goals)
    verdicts = ", ".join(f"{count} {name}" for name, count in numbers.verdicts.items() if count)
    live = f"{numbers.live} live, {numbers.not_live} not live"
    say(f"{numbers.runs} of {found.wanted} runs: {verdicts or 'none'}; {live}; {WORDS[code]}")
    if found.stopped:
        say(f"stopped {found.stopped}")
    how = "simulated" if all(summary.backend == "sim" for summary in found.summaries) else "of runs"
    say(
        f"        {numbers.acked} acknowledged, {numbers.excused} losses excused, {numbers.leader_changes} leader changes, "
        f"{numbers.recovery_elections} recovery elections, {numbers.elections_from_elr} from the ELR, "
        f"{numbers.sim_seconds:.0f} s {how} in {found.wall_seconds:.0f} s"
    )
    if numbers.faults:
        say("faults  " + ", ".join(f"{f.kind} {f.acted}/{f.begun}" for f in numbers.faults) + "  (acted/begun)")
    say("reached " + ", ".join(f"{_short(goal.name)} {goal.count}" for goal in numbers.reached if goal.count))
    say("never   " + ", ".join(_short(goal.name) for goal in numbers.reached if not goal.count))
    if numbers.missed and not found.stopped:
        say(f"missed  {', '.join(numbers.missed)}: what never happened was not tested")
    for anomaly in numbers.anomalies:
        say(f"found   {anomaly.kind} in {anomaly.runs} runs, first: {anomaly.repeat}")
    show_failures(found.summaries)


def _short(goal: str) -> str:
    return goal.removeprefix("message:").removeprefix("error:")


def show_failures(summaries: Sequence[Summary]) -> None:
    """One line for each run that is not VALID and live, with the command that repeats it."""
    failures = [s for s in summaries if s.exit_code is not ExitCode.VALID]
    for summary in failures[:_FAILURES_SHOWN]:
        why = next(iter((*(a.words for a in summary.anomalies), *summary.not_live, *summary.unchecked)), "")
        say(f"  {summary.words}: {summary.plan}: {why}")
        say(f"    repeat: {summary.repeat}")
    if len(failures) > _FAILURES_SHOWN:
        say(f"  and {len(failures) - _FAILURES_SHOWN} more")
