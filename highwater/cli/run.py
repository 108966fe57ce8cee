"""`highwater run`: perform one run from a seed or a plan, and judge its history."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Annotated

import typer
from msgspec import UNSET, Struct
from msgspec.structs import replace

from highwater.backends.sim.backend import SimBackend
from highwater.backends.sim.world import World
from highwater.cli import options
from highwater.cli.choosing import Choice, chosen, perform
from highwater.cli.declaration import takes
from highwater.cli.output import say, say_json, show_while_working
from highwater.exit_codes import ExitCode
from highwater.plans.plan import Plan, is_foreign, system_of
from highwater.plans.systems import words_of
from highwater.rig.backend import Backend, BackendName
from highwater.runs.findings import in_short
from highwater.runs.run import Keep, backend_named
from highwater.runs.summary import Summary, next_commands
from history import store
from history.manifest import RECORDED, RunManifest
from history.seed import format_seed


class Options(Struct, frozen=True, kw_only=True):
    """The options of `highwater run`."""

    choice: Annotated[Choice, "What is run"] = Choice()
    store: Annotated[options.Store, "Results"] = Path("store")
    no_store: Annotated[bool, typer.Option("--no-store", help="Store nothing."), "Results"] = False
    report: Annotated[bool, typer.Option(help="Write the report page."), "Results"] = True
    bisect: Annotated[options.Bisect, "Results"] = False  # run_command_line converts the exit code
    json: Annotated[options.AsJson, "Results"] = False


@takes(Options)
def run(arguments: Options) -> int:
    """Perform one plan, judge the recorded history, and store it with its report."""
    plan = chosen(arguments.choice)
    keep = Keep(store=None if arguments.no_store else options.writable_folder(arguments.store), report=arguments.report)
    if not arguments.json:
        say(headline(plan.plan))
    with _backend_with_progress(plan.backend, quiet=arguments.json) as performer:
        summary = perform(plan, keep, performer).summary
    if summary.store is not None:
        store.set_latest(arguments.store, arguments.store / summary.store)
    summary = replace(summary, store=_below(arguments.store, summary.store), report=_below(arguments.store, summary.report))
    say_json(summary) if arguments.json else show(summary)
    return summary.exit_code


@contextmanager
def _backend_with_progress(backend: BackendName, *, quiet: bool) -> Iterator[Backend]:
    """The backend of this name; while it performs, the terminal shows how far it is."""
    began, worlds = monotonic(), list[World]()

    def words() -> str:
        spent = f"{monotonic() - began:.0f} s"
        if not worlds:
            return spent
        simulated = worlds[0].sim
        rows = len(simulated.recorder.operations) + len(simulated.recorder.events)
        return f"{simulated.scheduler.now / 1e9:.0f} s simulated in {spent}, {rows} rows"

    with show_while_working(words, quiet=quiet):
        yield SimBackend(watch=worlds.append) if backend == "sim" else backend_named(backend)


def _below(store: Path, name: str | None) -> str | None:
    """The path of a name relative to the store."""
    return None if name is None else str(store / name)


def headline(subject: Plan | RunManifest) -> str:
    """The line that names a run and its verdict; every output about one run starts with it."""
    if isinstance(subject, RunManifest) and subject.backend == RECORDED:
        return f"recorded  {_system_in_words(subject)}"
    seed = f"seed {format_seed(subject.seed)}" if subject.seed is not None else f"draws {format_seed(subject.draws)}"
    seed += f"  derivation {subject.derivation}" if subject.derivation else ""
    return (
        f"{seed}  {'plan ' + subject.name if isinstance(subject, Plan) else 'run ' + subject.run_id}  {_system_in_words(subject)}"
    )


def _system_in_words(subject: Plan | RunManifest) -> str:
    """What was under test: the reference with a protocol, or another system."""
    if isinstance(subject, Plan):
        played = f"system {words_of(system_of(subject))}" if is_foreign(subject) else f"protocol {subject.protocol}"
        return played if subject.workload.client is UNSET else f"{played}  client {subject.workload.client}"
    if subject.system is None:
        return f"protocol {subject.protocol}"
    return f"system {words_of(subject.system)}"


def show(summary: Summary, *, folder: str | None = None) -> None:
    """Print the first screen of a run: the verdict, its cause, the worst finding, the stored files, and what to type next.

    `folder` is where the run is stored, if this command did not store it.
    """
    say(f"{summary.words}: {', '.join(_counts_in_words(summary))}")
    if summary.failure:
        say(f"failed  {summary.failure}")
    if summary.cause:
        say(f"cause   {summary.cause}")
    if summary.origin:
        say(f"origin  {summary.origin}")
    for line in in_short(summary.anomalies, not_live=summary.not_live, unchecked=summary.unchecked):
        say(f"  {line}")
    if summary.faults:
        say("faults  " + ", ".join(f"{f.kind} {f.acted}/{f.begun}" for f in summary.faults) + "  (acted/begun)")
    if summary.digest:
        say(f"digest  {summary.digest}")
    if summary.store:
        say(f"stored  {summary.store}")
    if summary.report:
        say(f"report  {summary.report}")
    if summary.exit_code is not ExitCode.VALID:
        say(f"repeat  {summary.repeat}")
    run = folder or summary.store
    if run and (summary.anomalies or summary.not_live or summary.unchecked):
        say(f"all     highwater check {run} --all")
    for command in next_commands(summary, run) if run else ():
        say(f"{command.split()[1]:<7} {command}")
    sys.stdout.flush()


def _counts_in_words(summary: Summary) -> list[str]:
    """The counts of a run, in words."""
    how = "simulated" if summary.backend == "sim" else "of run"
    # Without coordination nobody counts the changes.
    unseen = summary.system is not UNSET and not summary.leader_changes
    leaders = [] if unseen else [f"{summary.leader_changes} leader changes"]
    numbers = [
        f"{summary.ops} operations",
        f"{summary.acked} acknowledged",
        *leaders,
        f"{summary.sim_seconds:.0f} s {how} in {summary.wall_seconds:.1f} s",
    ]
    return [*numbers, f"{summary.excused} losses excused"] if summary.excused else numbers
