"""`highwater run`: perform one run from a seed or a plan, and judge its history."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from msgspec import UNSET
from msgspec.structs import replace

from highwater.campaigns.campaign import Request
from highwater.cli import options
from highwater.cli.output import first_of, say, say_json
from highwater.errors import UsageError
from highwater.exit_codes import ExitCode
from highwater.plans.derive import MIXED
from highwater.plans.plan import REFERENCE, Plan, checked, is_foreign, on_system, parsed_system, system_of, words_of
from highwater.plans.text import load_plan
from highwater.runs.provenance import present_build
from highwater.runs.run import Keep, backend_named, carry_out
from highwater.runs.summary import Summary, by_kind
from history.manifest import RunManifest
from history.seed import format_seed


def run(
    *,
    seed: Annotated[str | None, typer.Option(help="Seed: decimal, 0x…, or 16 hex digits.")] = None,
    derivation: options.Derivation = None,
    plan: Annotated[Path | None, typer.Option(help="Plan file (YAML) instead of a seed.")] = None,
    protocol: options.ProtocolIfAny = None,
    faults: options.Faults = "",
    profile: options.ProfileOption = "within",
    seconds: options.Seconds = None,
    workload: options.Workload = MIXED,
    backend: options.BackendOption = None,
    system: options.System = None,
    described: options.With = None,
    store: options.Store = Path("store"),
    no_store: Annotated[bool, typer.Option("--no-store", help="Store nothing.")] = False,
    report: Annotated[bool, typer.Option(help="Write the report page.")] = True,
    bisect: options.Bisect = False,  # run_command_line converts the exit code
    json: options.AsJson = False,
) -> int:
    """Perform one plan, judge the recorded history, and store it with its report."""
    loaded = None if plan is None else load_plan(plan)
    backend = options.backend_for(backend, loaded, system)
    request = Request(
        protocol=protocol or "safe",
        faults=options.names_of(faults),
        profile=profile,
        seconds=seconds,
        workload=workload,
        backend=backend,
        system=system or "",
    )
    if derivation is not None and seed is None:
        raise UsageError("--derivation needs --seed")
    options.check_seeds(derivation)
    chosen, repeat = _chosen(seed, plan, loaded, protocol, request)
    if described is not None:
        chosen = checked(on_system(chosen, options.asked_system(system or REFERENCE, described)))
        repeat += f" --with {described}"
    keep = Keep(store=None if no_store else options.folder_of(store), report=report)
    if not json:
        say(headline(chosen))
    summary = carry_out(chosen, backend_named(backend), build=present_build(), repeat=repeat, keep=keep).summary
    summary = replace(summary, store=_below(store, summary.store), report=_below(store, summary.report))
    say_json(summary) if json else show(summary)
    return summary.exit_code


def _below(store: Path, name: str | None) -> str | None:
    """The path of a name relative to the store."""
    return None if name is None else str(store / name)


def _chosen(seed: str | None, path: Path | None, plan: Plan | None, protocol: str | None, request: Request) -> tuple[Plan, str]:
    if (seed is None) == (path is None):
        raise UsageError("give either --seed S or --plan FILE")
    if seed is not None:
        number = options.seed_of(seed)
        return request.plan(number), request.command(number)
    assert path is not None
    assert plan is not None
    if request != Request(protocol=request.protocol, backend=request.backend, system=request.system):
        raise UsageError("only --protocol, --backend and --system may be combined with --plan; remove the other options")
    if plan.path and request.backend != "sim":
        raise UsageError(f"{path}: a plan with an explorer path runs on backend sim only, not {request.backend}")
    repeat = f"highwater run --plan {path}"
    if protocol is not None:
        plan = checked(replace(plan, protocol=protocol, variant=None))
        repeat += f" --protocol {protocol}"
    if request.system:
        plan = checked(on_system(plan, parsed_system(request.system)))
        repeat += f" --system {request.system}"
    implied = options.backend_for(None, plan, None)
    return plan, repeat + (f" --backend {request.backend}" if request.backend != implied else "")


def headline(of: Plan | RunManifest) -> str:
    """The line that names a run and its verdict; every output about one run starts with it."""
    seed = f"seed {format_seed(of.seed)}" if of.seed is not None else f"draws {format_seed(of.draws)}"
    seed += f"  derivation {of.derivation}" if of.derivation else ""
    return f"{seed}  {'plan ' + of.name if isinstance(of, Plan) else 'run ' + of.run_id}  {_played(of)}"


def _played(of: Plan | RunManifest) -> str:
    """What was under test: the reference with a protocol, or another system."""
    if isinstance(of, Plan):
        return f"system {words_of(system_of(of))}" if is_foreign(of) else f"protocol {of.protocol}"
    if of.system is None:
        return f"protocol {of.protocol}"
    return f"system {of.system.name}:{of.system.version}".removesuffix(":")


def show(summary: Summary) -> None:
    """Print the verdict with its reasons, the numbers, the paths of the stored files and the command that repeats the run."""
    say(f"{summary.words}: {', '.join(_numbers(summary))}")
    for line in (*by_kind(summary.anomalies), *first_of((*summary.unchecked, *summary.not_live))):
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
    sys.stdout.flush()


def _numbers(summary: Summary) -> list[str]:
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
