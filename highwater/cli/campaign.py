"""`highwater campaign`: run many seeds and report verdicts, faults and anomalies."""

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
from highwater.runs.provenance import present_build
from highwater.runs.run import BackendName, Keep
from highwater.runs.summary import Summary
from highwater.runs.workers import Done, cores
from history.seed import format_seed

_FAILURES_SHOWN = 20


class Outcome(Struct, frozen=True, kw_only=True):
    """The JSON object that `campaign --json` prints."""

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
    keep_all: Annotated[bool, typer.Option("--keep-all", help="Keep valid runs too; by default only failures are kept.")] = False,
    junit: Annotated[Path | None, typer.Option(help="JUnit file to write; beside the index page if not given.")] = None,
    stop_after: Annotated[int | None, typer.Option(min=1, help="Stop after this many INVALID runs.")] = None,
    unknown_allowed: Annotated[
        int, typer.Option(min=0, max=100, help="Percentage of runs that may be UNKNOWN without failing the campaign.")
    ] = 5,
    goals: Annotated[
        str | None,
        typer.Option(
            help="Goals that the runs together must reach: standard, none, or a YAML file with a list of names. "
            f"Default: standard for `safe` with all faults and at least {STANDARD_FROM} seeds, else none."
        ),
    ] = None,
    json: options.AsJson = False,
) -> int:
    """Run many seeds on all cores; count verdicts, faults and anomalies; write an index page and a JUnit file."""
    wanted = options.seeds_of(seeds)
    kinds = options.names_of(faults)
    request = Request(protocol=protocol, faults=kinds, profile=profile, seconds=seconds, workload=workload, backend=backend)
    request.check(wanted)  # refuse bad input before writing anything
    wide = protocol == "safe" and (not request.faults or "all" in request.faults) and seconds is None
    must = chosen(goals, profile=profile, by_default=wide and len(wanted) >= STANDARD_FROM)
    here = present_build()
    place = None if junit is None else options.file_of(junit)
    keep = Keep(store=options.folder_of(store), report=True, only_failures=not keep_all)
    if not json:
        say(f"seeds {format_seed(wanted[0])} to {format_seed(wanted[-1])}  protocol {protocol}")
    with progress(len(wanted), quiet=json) as ticker:

        def seen(done: Done) -> None:
            ticker.tick(f"{done.summary.plan} {done.summary.verdict}")

        tasks = (request.task(seed, build=here, keep=keep) for seed in wanted)
        limits = Limits(invalid_runs=stop_after)
        with _cleaned_up(backend):
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
def _cleaned_up(backend: BackendName) -> Iterator[None]:
    """On exit, remove what abandoned runs on real nodes left behind, also after an exception."""
    try:
        yield
    finally:
        if backend != "sim":
            deque(cleaning.clean(), maxlen=0)


def show(found: Campaign, code: ExitCode) -> None:
    """Print the result of a campaign: the totals, the faults, each anomaly with its first seed, and the failed runs."""
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
        say(f"missed  {', '.join(numbers.missed)}: goals that no run reached")
    for anomaly in numbers.anomalies:
        say(f"found   {anomaly.kind} in {anomaly.runs} runs, first: {anomaly.repeat}")
    show_failures(found.summaries)


def _short(goal: str) -> str:
    return goal.removeprefix("message:").removeprefix("error:")


def show_failures(summaries: Sequence[Summary]) -> None:
    """Print each run whose exit code is not 0, with the command that repeats it; at most 20 runs."""
    failures = [s for s in summaries if s.exit_code is not ExitCode.VALID]
    for summary in failures[:_FAILURES_SHOWN]:
        why = next(iter((*(a.words for a in summary.anomalies), *summary.not_live, *summary.unchecked)), "")
        say(f"  {summary.words}: {summary.plan}: {why}")
        say(f"    repeat: {summary.repeat}")
    if len(failures) > _FAILURES_SHOWN:
        say(f"  and {len(failures) - _FAILURES_SHOWN} more")
