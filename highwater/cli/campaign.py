"""`highwater campaign`: run many seeds, here or on Spark, and report verdicts, faults and anomalies."""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from contextlib import closing, contextmanager, nullcontext
from datetime import date
from functools import partial
from pathlib import Path
from textwrap import shorten
from types import MappingProxyType
from typing import Annotated

import typer
from msgspec import UNSET, Struct
from msgspec.structs import asdict, replace

from highwater.backends.real import clean as cleaning
from highwater.campaigns.campaign import INTERRUPTED, Campaign, Limits, Performer, Request, Watch, exit_code
from highwater.campaigns.folder import CampaignFolder, Keeping, OnRuns, present_asked
from highwater.campaigns.generations import GENERATION
from highwater.campaigns.goals import STANDARD_FROM, chosen, never_taken, never_text, possible
from highwater.campaigns.guided import perform_guided
from highwater.campaigns.live import LivePage
from highwater.campaigns.marks import FILE, NONE, ONLY_IGNORED, Marks, load
from highwater.campaigns.mending import mend
from highwater.campaigns.order import Order
from highwater.campaigns.pages import BRANCHES, INDEX, JUNIT, known_causes, write_pages
from highwater.campaigns.smaller import Smaller, shrink_failures
from highwater.campaigns.tally import Tally
from highwater.cli import options
from highwater.cli.declaration import takes
from highwater.cli.output import Ticker, complain, first_of, progress, say, say_json
from highwater.cli.webhook import Webhook
from highwater.errors import UsageError
from highwater.exit_codes import WORDS, ExitCode
from highwater.rig.backend import REPEATABLE, BackendName
from highwater.runs.summary import Summary
from history.seed import format_seed
from pipeline.local import cores
from pipeline.owner import owned
from pipeline.session import session_if_asked
from pipeline.storage import Storage, storage_at
from pipeline.tasks import results_on_spark
from pipeline.work import perform

_CAUSES_SHOWN = 3
_NAMES_SHOWN = 6
_WIDTH = 200  # characters
_DEADLINE_S = 3600  # and this many times the seconds of a run; no simulated run takes so long
_DEADLINE_FACTOR = 10


CausesFile = Annotated[
    Path | None,
    typer.Option(
        "--causes", metavar="FILE", help=f"Causes that are known, or ignored for a while; {FILE} if not given and there is one."
    ),
]


class Outcome(Struct, frozen=True, kw_only=True):
    """The JSON object that `campaign --json` prints."""

    protocol: str
    seeds: tuple[int, int]
    exit: ExitCode
    stopped: str | None
    tally: Tally
    runs: tuple[Summary, ...]
    ignored: tuple[str, ...] = ()  # causes that do not count, each with its runs and the reason
    wall_seconds: float
    index: str
    junit: str


class Options(Struct, frozen=True, kw_only=True):
    """The options of `highwater campaign`."""

    seeds: Annotated[str, typer.Option(help="FIRST..LAST, both included."), "What is run"]
    derivation: Annotated[options.Derivation, "What is run"] = None
    protocol: Annotated[
        str,
        typer.Option(
            help="Protocol variants, separated by commas, see `highwater protocols`; each runs every seed.",
            callback=options.lowered,
            autocompletion=options.protocols_like,
        ),
        "What is run",
    ] = "safe"
    faults: Annotated[
        list[str] | None,
        typer.Option(
            help="Fault kinds, families or mixes of `highwater faults`, separated by commas; the profile's default kinds if "
            "empty. May be repeated: each seed then runs once with each value.",
            callback=options.lowered,
            autocompletion=options.faults_like,
        ),
        "What is run",
    ] = None
    load: Annotated[options.Load, "What is run"] = options.Load()
    backend: Annotated[options.BackendOption, "What is run"] = None
    under: Annotated[options.UnderTest, "What is run"] = options.UnderTest()
    together: Annotated[
        int,
        typer.Option(
            min=1,
            help="Seeds that share a cluster of another system at a time: their faults come one after the other, the quiet time "
            "once. With --settings alike, in one process.",
        ),
        "Work",
    ] = 1
    jobs: Annotated[options.Jobs, "Work"] = None
    on: Annotated[options.OnSpark, "Work"] = options.OnSpark()
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep the finished runs of the same campaign and do the others."), "Work"
    ] = False
    deadline: Annotated[
        float | None,
        typer.Option(min=0.001, help="Seconds by the clock after which a run is given up; generous if not given."),
        "Work",
    ] = None
    store: Annotated[
        str, typer.Option(help="Folder in which runs are stored, or a URI such as s3://bucket/folder."), "Results"
    ] = "store"
    keep_all: Annotated[
        bool, typer.Option("--keep-all", help="Keep valid runs too; by default only failures are kept."), "Results"
    ] = False
    junit: Annotated[Path | None, typer.Option(help="JUnit file to write; beside the index page if not given."), "Results"] = None
    stop_after: Annotated[int | None, typer.Option(min=1, help="Stop after this many INVALID runs."), "Verdict"] = None
    unknown_allowed: Annotated[
        int, typer.Option(min=0, max=100, help="Percentage of runs that may be UNKNOWN without failing the campaign."), "Verdict"
    ] = 5
    causes: Annotated[CausesFile, "Verdict"] = None
    goals: Annotated[
        str | None,
        typer.Option(
            help="Goals that the runs together must reach: standard, none, or a YAML file with a list of names. "
            f"Default: standard for `safe` with all faults and at least {STANDARD_FROM} seeds, else none."
        ),
        "Verdict",
    ] = None
    branches: Annotated[
        bool,
        typer.Option("--branches", help="Count the branches of the protocol that runs take; name those that none took."),
        "Search",
    ] = False
    guided: Annotated[
        bool,
        typer.Option(
            "--guided",
            help="After the first seeds edit the plans whose runs took new branches, or showed new behaviour of another system.",
        ),
        "Search",
    ] = False
    generation: Annotated[
        int | None,
        typer.Option(min=1, help=f"Plans in each generation of a guided campaign; {GENERATION} if not given."),
        "Search",
    ] = None
    shrink: Annotated[options.Shrink, "Search"] = 60.0
    hook: Annotated[Webhook, "Results"] = Webhook()
    json: Annotated[options.AsJson, "Results"] = False


@takes(Options)
def campaign(arguments: Options) -> int:
    """Run many seeds on all cores or on Spark; count verdicts, faults and anomalies; write an index page and a JUnit file."""
    order = _order_of_options(arguments)
    options.check_seeds(arguments.derivation, foreign=Request(system=order.system).foreign)
    order.check()  # refuse bad input before writing anything
    if order.together > 1 and (arguments.jobs or 1) > 1:
        raise UsageError("--together needs --jobs 1: each worker would perform the seeds of the others, too")
    arguments.hook.check()
    marks = load(arguments.causes, today=date.today())
    must = chosen(
        arguments.goals, profile=order.profile, by_default=_must_reach_standard_goals(order), with_branches=order.counts_branches
    )
    place = None if arguments.junit is None else options.writable_file(arguments.junit)
    kept = _kept_backend(order)
    folder = CampaignFolder(_open_storage(arguments.store, order, arguments.on.spark), present_asked(order), kept)
    session = session_if_asked(arguments.on.spark, arguments.on.settings)
    say(_headline(order)) if not arguments.json else None
    with session as started, owned(folder.place), closing(kept) if kept else nullcontext():
        jobs = arguments.jobs or (1 if order.together > 1 else cores())
        work = partial(perform, spark=started, jobs=jobs)
        workers = None if started is None else partial(results_on_spark, started)
        causes_before = _begin_or_resume(folder, partial(mend, folder, workers), resume=arguments.resume)
        code = _perform_in_folder(folder, arguments, must, work, marks, jobs=jobs, junit=place, causes_before=causes_before)
        if kept is not None and kept.built and not arguments.json:
            say(f"clusters {kept.built.total()} built")
            for reason, count in kept.built.most_common():
                say(shorten(f"    {count} x {reason}", _WIDTH, placeholder=" …"))
        return code


def _kept_backend(order: Order) -> Keeping | None:
    """What performs the runs of another system as processes; None for other runs."""
    if not order.system or order.backend != "process":
        return None
    from highwater.backends.real.processes.kept import KeptBackend  # a simulated campaign needs no real backend

    return KeptBackend(next_plans=order.next_plans)


def _perform_in_folder(
    folder: CampaignFolder,
    arguments: Options,
    must: tuple[str, ...],
    work: Performer,
    marks: Marks,
    *,
    jobs: int,
    junit: Path | None,
    causes_before: Set[str] | None,
) -> int:
    """Perform the campaign of the folder, write its pages, print its result; the exit code. `must`: names of goals."""
    order, store, json = folder.asked.order, arguments.store, arguments.json
    with progress(order.runs, quiet=json) as ticker, cleaned_up(order.backend):
        watch = Watch(Limits(invalid_runs=arguments.stop_after))
        carry_out = partial(perform_guided, folder, store=store) if arguments.guided else folder.perform
        performed = carry_out(
            work,
            watch,
            _tick_and_count(ticker, LivePage(folder)),
            deadline_s=arguments.deadline or _deadline_s_of_run(order.seconds),
            goals=must,
        )
    code = exit_code(performed, unknown_allowed_percent=arguments.unknown_allowed, marks=marks)
    (write := partial(_write_index_and_junit, folder, performed, junit=junit, code=code, known=causes_before, marks=marks))()
    branches_file = _write_branches(folder, performed.summaries)
    pages = (f"{_folder_as_named(folder, store)}/{INDEX}", str(junit or f"{_folder_as_named(folder, store)}/{JUNIT}"))
    outcome = _outcome_of(performed, order, code, pages, marks)
    if json:
        say_json(outcome)
        arguments.hook.tell(outcome, code)
        return code
    smaller = _shrink_failures(
        performed, marks, store, order, cpu_seconds=0.0 if arguments.on.spark else arguments.shrink, workers=jobs
    )
    write(smaller=smaller) if smaller else None  # once more: what is written already must not wait for the shrinker
    show(performed, code, smaller, causes_before, marks)
    say(
        f"pages   {', '.join(pages)}"
        + (f"; branches: {branches_file}: {_folder_as_named(folder, store)}/{BRANCHES}" if branches_file else "")
    )
    arguments.hook.tell(outcome, code)
    return code


def _order_of_options(arguments: Options) -> Order:
    """The campaign that the options mean."""
    seeds = options.seeds_of(arguments.seeds)
    return Order(
        first=seeds[0],
        last=seeds[-1],
        protocols=tuple(dict.fromkeys(options.names_of(arguments.protocol))),
        mixes=tuple(dict.fromkeys(options.names_of(mix) for mix in arguments.faults or [""])),
        **asdict(arguments.load),
        backend=options.backend_for(arguments.backend, None, arguments.under.system),
        system=arguments.under.name,
        described=arguments.under.file,
        jars=arguments.under.build,
        client=arguments.under.library,
        keep_all=arguments.keep_all,
        branches=arguments.branches,
        together=arguments.together,
        generation=_generation_size(arguments.generation, guided=arguments.guided),
    )


def _tick_and_count(ticker: Ticker, page: LivePage) -> OnRuns:
    """A function that moves the progress bar and the live page by so many runs."""

    def tick(runs: int, words: str) -> None:
        ticker.tick(words, runs)
        page.count(runs)

    return tick


def _deadline_s_of_run(seconds: int | None) -> float:
    """After how many seconds by the clock a run is given up."""
    return _DEADLINE_S + _DEADLINE_FACTOR * (seconds or 0)


def _begin_or_resume(folder: CampaignFolder, mended: Callable[[], list[str]], *, resume: bool) -> Set[str] | None:
    """Resume the folder's campaign or empty the folder; returns the signatures that the store knew before (`known_causes`)."""
    resumed = resume and folder.is_resumable()
    known_signatures = known_causes(folder.storage, folder.under, resumed=resumed)
    if resumed:
        for words in first_of(mended()):
            complain(words)
    else:
        folder.begin()
    return known_signatures


def _write_index_and_junit(
    folder: CampaignFolder,
    performed: Campaign,
    *,
    junit: Path | None,
    code: ExitCode,
    known: Set[str] | None,
    marks: Marks,
    smaller: Mapping[str, Smaller] = MappingProxyType({}),
) -> None:
    """Write the index page and the JUnit file."""
    order = folder.asked.order
    write_pages(
        folder.storage,
        folder.under,
        performed.summaries,
        performed.tally,
        title=order.title,
        repeat=order.command(),
        junit=junit,
        code=code,
        smaller=smaller,
        known=known,
        marks=marks,
    )


def _folder_as_named(folder: CampaignFolder, store: str) -> str:
    """The folder as the user names it."""
    return folder.storage.path(folder.under) if folder.storage.folder is None else f"{store.rstrip('/')}/{folder.under}"


def _headline(order: Order) -> str:
    played = f"system {order.system}" if order.system else f"protocol {', '.join(order.protocols)}"
    return f"seeds {format_seed(order.first)} to {format_seed(order.last)}  {played}"


def _generation_size(size: int | None, *, guided: bool) -> int:
    """How many plans a generation has; 0 if the campaign is not guided. Raises UsageError."""
    if size is not None and not guided:
        raise UsageError("--generation needs --guided")
    return (size or GENERATION) if guided else 0


def _write_branches(folder: CampaignFolder, summaries: Collection[Summary]) -> str:
    """Write which branches no run took; returns how many there are in words, "" if they were not counted."""
    if not folder.asked.order.counts_branches:
        return ""
    protocols = folder.asked.order.protocols
    never, possible_count = never_taken(summaries, protocols), len(possible(protocols))
    folder.storage.write(f"{folder.under}/{BRANCHES}", never_text(never).encode())
    return f"{possible_count - len(never)} of {possible_count} taken, {len(never)} never"


def _outcome_of(performed: Campaign, order: Order, code: ExitCode, pages: tuple[str, str], marks: Marks) -> Outcome:
    """The object that --json prints, and that a webhook is told."""
    return Outcome(
        protocol=",".join(order.protocols),
        seeds=(order.first, order.last),
        exit=code,
        stopped=performed.stopped,
        tally=performed.tally,
        runs=tuple(replace(summary, reach=UNSET, signs=UNSET) for summary in performed.summaries),
        ignored=tuple(marks.lines(performed.summaries)),
        wall_seconds=performed.wall_seconds,
        index=pages[0],
        junit=pages[1],
    )


def _shrink_failures(
    performed: Campaign, marks: Marks, store: str, order: Order, *, cpu_seconds: float, workers: int
) -> dict[str, Smaller]:
    """The shrunk plans of simulated runs in a local store, by the folder of the run; says which runs were not shrunk.

    Runs of an ignored cause are left out: the seconds are for those that are red.
    """
    if order.backend != "sim" or "://" in store or performed.stopped == INTERRUPTED:
        return {}
    red = (summary for summary in performed.summaries if not marks.ignores(summary.signature))
    plans, complaints = shrink_failures(red, Path(store), cpu_seconds=cpu_seconds, workers=workers)
    for line in complaints:
        say(line)
    return plans


def _must_reach_standard_goals(order: Order) -> bool:
    """Whether the campaign must reach the standard goals."""
    all_faults = all(not mix or "all" in mix for mix in order.mixes)
    return order.protocols == ("safe",) and all_faults and order.seconds is None and len(order.seeds) >= STANDARD_FROM


def _open_storage(store: str, order: Order, spark: str | None) -> Storage:
    """Open the store. UsageError or PipelineError if it cannot be written or does not fit the other options."""
    storage = storage_at(store)
    if spark is not None and (order.counts_branches or order.generation):
        raise UsageError(f"{'--guided' if order.generation else '--branches'} runs on this machine only; remove --spark")
    if order.backend not in REPEATABLE:
        if spark is not None:
            raise UsageError(f"--spark performs simulated runs; --backend {order.backend} runs on this machine only")
        if storage.folder is None:
            raise UsageError(f"--backend {order.backend} needs a store on this machine, not {store}")
    if order.generation and storage.folder is None:
        raise UsageError(f"--guided needs a store on this machine, not {store}: its plans are files that `highwater run` reads")
    if storage.folder is not None:
        options.writable_folder(Path(store))
    return storage


@contextmanager
def cleaned_up(backend: BackendName) -> Iterator[None]:
    """On exit, remove what abandoned runs on real nodes left behind, also after an exception."""
    try:
        yield
    finally:
        if backend != "sim":
            deque(cleaning.clean(), maxlen=0)


def show(
    performed: Campaign,
    code: ExitCode,
    smaller: Mapping[str, Smaller],
    known_signatures: Set[str] | None = None,
    marks: Marks = NONE,
) -> None:
    """Print the result of a campaign in about ten lines: the totals, and one line for each cause of failures.

    `smaller` has the shrunk plans by the folder of the run, `known_signatures` those of earlier campaigns of the store.
    The pages and `--json` have the rest.
    """
    numbers = performed.tally
    verdicts = ", ".join(f"{count} {name}" for name, count in numbers.verdicts.items() if count)
    live = f"{numbers.live} live, {numbers.not_live} not live"
    word = ONLY_IGNORED if code is ExitCode.VALID and marks.lines(performed.summaries) else WORDS[code]
    say(f"{numbers.runs} of {performed.wanted} runs: {verdicts or 'none'}; {live}; {word}")
    if performed.stopped:
        say(f"stopped {performed.stopped}")
    how = "simulated" if all(summary.backend == "sim" for summary in performed.summaries) else "of runs"
    say(
        f"        {numbers.acked} acknowledged, {numbers.excused} losses excused, {numbers.leader_changes} leader changes, "
        f"{numbers.recovery_elections} recovery elections, {numbers.elections_from_elr} from the ELR, "
        f"{numbers.sim_seconds:.0f} s {how} in {performed.wall_seconds:.0f} s"
    )
    idle = [fault.kind for fault in numbers.faults if not fault.acted]
    if numbers.faults:
        acted = len(numbers.faults) - len(idle)
        say(f"faults  {acted} of {len(numbers.faults)} kinds acted" + (f"; never: {_names_in_short(idle)}" if idle else ""))
    never = [_goal_in_short(goal.name) for goal in numbers.reached if not goal.count]
    say(
        f"reached {len(numbers.reached) - len(never)} of {len(numbers.reached)} situations"
        + (f"; never: {_names_in_short(never)}" if never else "")
    )
    if numbers.missed and not performed.stopped:
        say(f"missed  {', '.join(numbers.missed)}: goals that no run reached")
    show_failures(performed.summaries, smaller, known_signatures, marks)


def _goal_in_short(goal: str) -> str:
    return goal.removeprefix("message:").removeprefix("error:")


def _names_in_short(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return ", ".join(names[:_NAMES_SHOWN]) + more


def show_failures(
    summaries: Collection[Summary], smaller: Mapping[str, Smaller], known_signatures: Set[str] | None = None, marks: Marks = NONE
) -> None:
    """Print one failed run for each cause, new causes first, with its shrunk plan or the command that repeats it.

    Of a cause that is ignored it prints one line.
    """
    causes: dict[str, list[Summary]] = {}
    for summary in summaries:
        if marks.code_of(summary) is not ExitCode.VALID:
            causes.setdefault(summary.signature or f"{summary.words} {summary.failure or ''}", []).append(summary)
    ranked = sorted(causes.items(), key=lambda cause: (known_signatures is None or cause[0] in known_signatures, -len(cause[1])))
    for signature, failed in ranked[:_CAUSES_SHOWN]:
        first = next((run for run in failed if run.store in smaller), failed[0])
        mark = marks.words(signature)
        new = (
            "new: " if known_signatures is not None and first.signature and signature not in known_signatures and not mark else ""
        )
        reason = next(iter(first.reasons), "")
        say(shorten(f"{new}{len(failed)} x {first.words}: {first.name}: {reason}", _WIDTH, placeholder=" …"))
        if mark:
            say(f"    mark    {mark}")
        less = smaller.get(first.store or "")
        say(f"    {f'shrunk  {less.plan}' if less else f'repeat  {first.repeat}'}")
        if less is not None and less.beside:
            say(f"    beside  {less.beside}")
    if len(ranked) > _CAUSES_SHOWN:
        say(f"and {len(ranked) - _CAUSES_SHOWN} more causes")
    for line in marks.lines(summaries):
        say(f"ignored {line}")
