"""`highwater shrink`: the smallest plan that fails in the same way as a failing run (docs/shrink.md)."""

from pathlib import Path
from typing import Annotated

import typer
from msgspec import Struct
from msgspec.structs import asdict, replace

from checkers.engine.anomalies import NOT_LIVE
from highwater.campaigns.campaign import Request
from highwater.campaigns.corpus import SAFE, Expectation, add_entry, check_new_entry
from highwater.cli import options
from highwater.cli.declaration import takes
from highwater.cli.output import progress, say, say_json
from highwater.cli.run import headline
from highwater.errors import UsageError
from highwater.plans.plan import Plan, checked, unknown_protocol
from highwater.plans.text import load_plan
from highwater.rig.backend import BackendName
from highwater.runs.findings import ValidityName
from highwater.shrink.folder import INTERRUPTED, NEIGHBOURS, ShrinkOrder, Shrunk, folder_of, shrink_in, sizes
from highwater.shrink.record import Recorded, record
from highwater.shrink.search import Budget, Smallest
from highwater.shrink.trial import NOTHING_TO_COMPARE
from history import store as run_store
from nemesis.capability import refusals
from pipeline.local import cores
from reference.config import VARIANTS


class Options(Struct, frozen=True, kw_only=True):
    """The options of `highwater shrink`."""

    what: Annotated[
        str, typer.Argument(metavar="RUN|PLAN|SEED", help="Folder of a stored run, a plan file, or a seed."), "What is shrunk"
    ]
    protocol: Annotated[options.ProtocolIfAny, "What is shrunk"] = None
    derivation: Annotated[options.Derivation, "What is shrunk"] = None
    faults: Annotated[options.Faults, "What is shrunk"] = ""
    load: Annotated[options.Load, "What is shrunk"] = options.Load()
    against: Annotated[str, typer.Option(help="Protocol that must be VALID and live on each smaller plan."), "What is shrunk"] = (
        SAFE
    )
    backend: Annotated[options.BackendOption, "What is shrunk"] = None
    runs: Annotated[int, typer.Option(min=1, help="Runs of each plan on real nodes."), "Search"] = 1
    failing: Annotated[int, typer.Option(min=1, help="How many of them must fail."), "Search"] = 1
    trials: Annotated[int, typer.Option(min=1, help="Plans to try at most."), "Search"] = 500
    cpu_seconds: Annotated[float, typer.Option(min=0.001, help="CPU seconds to spend on trying plans."), "Search"] = 120.0
    workers: Annotated[
        int | None, typer.Option(min=1, help="Number of worker processes; one per core if not given."), "Search"
    ] = None
    keep: Annotated[
        str | None, typer.Option("--keep", metavar="NAME", help="Add the result to the regression corpus."), "Results"
    ] = None
    corpus: Annotated[Path, typer.Option(help="Folder of the corpus, for --keep."), "Results"] = Path("corpus")
    store: Annotated[options.Store, "Results"] = Path("store")
    json: Annotated[options.AsJson, "Results"] = False


@takes(Options)
def shrink(arguments: Options) -> int:
    """Find the smallest plan that fails in the same way, and the nearest plans that pass."""
    options.check_seeds(arguments.derivation, foreign=False)
    loaded = _load_plan(arguments)
    backend = options.backend_for(arguments.backend, loaded, None)
    request = Request(
        protocol=arguments.protocol or SAFE, faults=options.names_of(arguments.faults), backend=backend, **asdict(arguments.load)
    )
    plan = _plan_of(arguments, loaded, request)
    _check_shrinkable(plan, arguments, backend)
    order = ShrinkOrder(plan=plan, against=arguments.against, backend=backend, runs=arguments.runs, failing=arguments.failing)
    folder = folder_of(options.writable_folder(arguments.store), plan, backend)
    if not arguments.json:
        say(headline(plan))
    budget = Budget(trials=arguments.trials, cpu_seconds=arguments.cpu_seconds)
    workers = arguments.workers or (cores() if backend == "sim" else 1)
    with progress(arguments.trials, quiet=arguments.json) as ticker:
        trials_told = 0

        def tell(smallest: Smallest) -> None:
            nonlocal trials_told
            for _ in range(smallest.trials - trials_told):
                ticker.tick(f"{len(smallest.plan.schedule)} windows, {smallest.seen.operations} operations")
            trials_told = smallest.trials

        shrunk = shrink_in(folder, order, budget=budget, workers=workers, tell=tell)
    smallest = load_plan(Path(shrunk.plan))
    recorded = record(shrunk, arguments.store) if shrunk.stopped != INTERRUPTED and backend == "sim" else None
    say_json(shrunk) if arguments.json else _say_result(shrunk, folder, recorded)
    if arguments.keep is not None and shrunk.stopped != INTERRUPTED:
        entry, file = add_entry(
            arguments.corpus, arguments.keep, smallest, story=_why(plan, shrunk), expect=_expectations(plan, shrunk)
        )
        if not arguments.json:
            say(f"kept    {entry}, {file}")
    return shrunk.exit


def _load_plan(arguments: Options) -> Plan | None:
    """The plan of a run folder or a plan file; None for a seed. UsageError for a file that cannot be read."""
    path = Path(arguments.what)
    if not path.exists() and path.suffix not in (".yaml", ".yml"):
        return None
    return load_plan(path / run_store.PLAN if path.is_dir() else path)


def _plan_of(arguments: Options, plan: Plan | None, request: Request) -> Plan:
    """The plan that was loaded, or that of a seed. Raises UsageError."""
    what = arguments.what
    if plan is None:
        return request.plan(options.seed_not_file(what, files="run folder or plan file"))
    if arguments.derivation is not None or request != Request(protocol=request.protocol, backend=request.backend):
        raise UsageError(f"{what} is a file or folder with a plan; only --protocol may be combined with it")
    return plan if arguments.protocol is None else checked(replace(plan, protocol=arguments.protocol, variant=None))


def _check_shrinkable(plan: Plan, arguments: Options, backend: BackendName) -> None:
    """Refuse what cannot be shrunk or kept, before anything is written."""
    if plan.path:
        raise UsageError(f"{plan.name}: the path of an explorer is shortest already")
    if arguments.against not in VARIANTS:
        raise UsageError(unknown_protocol(arguments.against))
    if backend == "sim" and arguments.runs > 1:
        raise UsageError("--runs is for --backend process and docker: a simulated run is always the same")
    if arguments.failing > arguments.runs:
        raise UsageError(f"--failing must be at most --runs ({arguments.runs}), not {arguments.failing}")
    for reason in refusals(backend, plan.schedule)[:1]:
        raise UsageError(f"{plan.name}: {reason}")
    if arguments.keep is not None:
        check_new_entry(arguments.corpus, arguments.keep)
        if plan.variant is not None:
            raise UsageError("--keep needs a named protocol; the plan has a variant of its own")


def _say_result(shrunk: Shrunk, folder: Path, recorded: Recorded | None) -> None:
    """Print the shrunk plan's failure, what became smaller, and where the files are."""
    say(f"{shrunk.verdict}: {shrunk.signature}")
    say("        " + ", ".join(f"{name} {before} -> {after}" for name, before, after in sizes(shrunk) if before != after))
    for sentence in shrunk.story:
        say(f"  {sentence}")
    for neighbour in shrunk.neighbours:
        say(f"{'passes' if neighbour.passes else 'fails':<7} {neighbour.words}")
    say(f"compare {shrunk.compared}")
    say(
        f"spent   {shrunk.trials} trials, {shrunk.cpu_seconds:.0f} s of CPU"
        + (f"; stopped: {shrunk.stopped}" if shrunk.stopped else "")
    )
    say(f"plan    {shrunk.plan}")
    if shrunk.neighbours:
        say(f"        {folder / NEIGHBOURS}")
    if recorded is not None:
        say(f"report  {recorded.page}")
        for words, page in recorded.beside:
            say(f"beside  {page}  ({words})")
    if shrunk.stopped:
        say("again   the same command goes on from here" + ("" if shrunk.stopped == INTERRUPTED else ", with a larger budget"))


def _why(plan: Plan, shrunk: Shrunk) -> str:
    return f"Shrunk from {plan.name} on {plan.protocol}, which has the signature {shrunk.signature}."


def _expectations(plan: Plan, shrunk: Shrunk) -> tuple[Expectation, ...]:
    """A shrunk plan must go on to fail on its protocol, and `safe` must not fail on it."""
    survives = Expectation(protocol=SAFE, verdict="VALID", live=True)
    if plan.protocol == SAFE or shrunk.compared.startswith(NOTHING_TO_COMPARE):
        return (survives,)
    kind = shrunk.signature.partition("/")[0]
    if kind != NOT_LIVE:
        return (Expectation(protocol=plan.protocol, verdict="INVALID", kinds=(kind,)), survives)
    verdict: ValidityName = "UNKNOWN" if shrunk.verdict.startswith("UNKNOWN") else "VALID"
    return (Expectation(protocol=plan.protocol, verdict=verdict, live=False), survives)
