"""`highwater chaos`: check that `safe` keeps the promise and known-bad protocols are caught (`make test-chaos`)."""

import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date
from hashlib import blake2b
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from msgspec import Struct

from highwater.behaviour.difference import Behaviour, summary
from highwater.behaviour.snapshot import PLACE, Recorded, load
from highwater.campaigns import systems
from highwater.campaigns.against import COMPARED, Comparison, compare, perform_on
from highwater.campaigns.behaviour import BEHAVING, BEHAVIOUR, CHANGED, accept, compared, next_steps, part_of
from highwater.campaigns.campaign import Request
from highwater.campaigns.changed_code import ReachOfChanges, reach_of_changes
from highwater.campaigns.chaos import PHASES, SEEDS_TO_A_GUIDED_RUN, Inputs, Means, Part, Phase, RunLine, parts_of
from highwater.campaigns.corpus import OWN, SAFE, Case, StoredPlans, load_corpus, read_plans
from highwater.campaigns.first_calls import keep_first_calls
from highwater.campaigns.marks import ONLY_IGNORED, Marks
from highwater.campaigns.marks import load as load_marks
from highwater.campaigns.pages import INDEX, JUNIT, known_causes, write_pages, write_runs
from highwater.campaigns.red import Red, annotation, cases_of, ignored_runs, lines_of, markdown, red_runs, reds
from highwater.campaigns.smaller import Smaller, shrink_failures
from highwater.campaigns.tally import tally
from highwater.cli import options
from highwater.cli.campaign import CausesFile, cleaned_up
from highwater.cli.declaration import takes
from highwater.cli.output import progress, say, say_json
from highwater.cli.webhook import Webhook
from highwater.errors import UsageError
from highwater.exit_codes import WORDS, ExitCode, worst
from highwater.plans.derive import derivation_of
from highwater.runs.provenance import Build, present_build
from highwater.runs.revisions import Revision, accepted_before, commit_of
from highwater.runs.run import Keep
from history.errors import unknown
from history.seed import format_seed
from pipeline.local import cores
from pipeline.storage import storage_at
from reference.config import VARIANTS

_SEEDS = 128
_SEEDS_ON_SYSTEM = 6  # each takes a minute or two
_CORPUS, _PLANS = Path("corpus/seeds"), Path("corpus/plans")
_FIRST_BELOW = 1 << 40  # short enough to type
_NAMED = 5  # plans of another protocol
_ANNOTATED = 10  # errors of a step that GitHub Actions shows
_COMPARED = tuple(f"{part}/" for part in BEHAVING)  # how the names of plans with a recorded behaviour begin
_CHANGED = 20  # runs that a comparison lists
_OF_CORPUS: frozenset[Phase] = frozenset({"corpus", "known-bad", "containers"})  # phases that perform entries of the corpus


class Options(Struct, frozen=True, kw_only=True):
    """The options of `highwater chaos`; `corpus` and `plans` are None where the job's own folders are meant."""

    seeds: Annotated[
        int | None,
        typer.Option(min=1, help=f"Number of seeds; {_SEEDS} if not given, {_SEEDS_ON_SYSTEM} on another system."),
        "What is run",
    ] = None
    first: Annotated[str | None, typer.Option(help="First seed; derived from the commit if not given."), "What is run"] = None
    derivation: Annotated[options.Derivation, "What is run"] = None
    parts: Annotated[
        str, typer.Option(help=f"Phases to perform, separated by commas: {', '.join(PHASES)}; all if empty."), "What is run"
    ] = ""
    corpus: Annotated[
        Path | None,
        typer.Option(help=f"Folder with the entries of the regression corpus: {_CORPUS}, for other systems {systems.CORPUS}."),
        "What is run",
    ] = None
    plans: Annotated[
        Path | None, typer.Option(help=f"Folder with the plans: {_PLANS}, for other systems {systems.PLANS}."), "What is run"
    ] = None
    protocol: Annotated[
        str,
        typer.Option(help=f"Protocol on which the stored plans are performed; {OWN}: each on the one that it names."),
        "What is run",
    ] = SAFE
    under: Annotated[options.UnderTest, "What is run"] = options.UnderTest()
    jobs: Annotated[options.Jobs, "Work"] = None
    store: Annotated[options.Store, "Results"] = Path("store/chaos")
    unknown_allowed: Annotated[
        int, typer.Option(min=0, max=100, help="Percentage of the seeds that may be UNKNOWN without failing the job."), "Verdict"
    ] = 5
    deadline: Annotated[int, typer.Option(min=1, help="Seconds after which a simulated run is given up, as hung."), "Work"] = 600
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Perform all phases; else a failed phase is the last."), "Work"
    ] = False
    fail_fast: Annotated[
        bool, typer.Option("--fail-fast", help="End at the first red run, not at the end of its phase."), "Work"
    ] = False
    against: Annotated[
        str | None,
        typer.Option(
            metavar="REV", help="Perform corpus, plans and seeds on the protocol of this commit, too; tell what is worse."
        ),
        "Verdict",
    ] = None
    accept: Annotated[
        bool,
        typer.Option("--accept", help="Perform corpus and plans, and write how they behave into the snapshot, if none is red."),
        "Verdict",
    ] = False
    snapshot: Annotated[
        Path | None,
        typer.Option(help=f"Snapshot of the behaviour: {PLACE}; of --corpus and --plans of your own none, if not given."),
        "Verdict",
    ] = None
    runs: Annotated[
        Path | None, typer.Option(help="File that gets one JSON line for each run, as soon as it has ended."), "Results"
    ] = None
    shrink: Annotated[options.Shrink, "Results"] = 60.0
    hook: Annotated[Webhook, "Results"] = Webhook()
    causes: Annotated[CausesFile, "Verdict"] = None
    bisect: Annotated[options.Bisect, "Verdict"] = False  # run_command_line converts the exit code
    json: Annotated[options.AsJson, "Results"] = False


class Outcome(Struct, frozen=True, kw_only=True):
    """The JSON object that `chaos --json` prints."""

    first_seed: int
    exit: ExitCode
    stages: tuple[Part, ...]
    not_performed: tuple[Phase, ...]  # because an earlier phase failed
    unfit: tuple[str, ...] = ()  # plans that another system cannot perform, each with the reason
    against: Comparison | None = None
    changed: tuple[str, ...] = ()  # how plans behave otherwise than the snapshot says, in lines
    ignored: tuple[str, ...] = ()  # causes that do not count, each with its runs and the reason
    changed_since: str = ""  # the commit with which the code of the protocol was compared; empty if it was not
    unreached: tuple[str, ...] = ()  # changed code that no run on `safe` came to, in lines
    index: str
    junit: str


class Job(Struct, frozen=True, kw_only=True):
    """What the chaos job performs: its phases, the parts of each, its seeds, how many runs are sure, and what does not fit."""

    seeds: range
    phases: tuple[Phase, ...]
    parts: Callable[[Phase, Means], Sequence[Callable[[], Part]]]
    runs: int
    unfit: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # for the reader, before the first run
    snapshot: Path | None = None  # with which the behaviour of corpus and plans is compared; None: it is not compared
    before: Mapping[str, Recorded] = {}  # its content
    plans: int = 0  # whose behaviour is compared


class Performed(Struct, frozen=True, kw_only=True):
    """What was performed: the parts with their runs, the phases that were not, the line of each run and how plans behaved."""

    parts: tuple[Part, ...]
    phases_left: tuple[Phase, ...]
    lines: list[RunLine]
    behaviours: dict[str, Behaviour]


@takes(Options)
def chaos(arguments: Options) -> int:
    """Run the corpus, stored plans and seeds on `safe`, or on another system; catch what is known to be bad; write pages."""
    build = present_build()
    low = options.seed_of(arguments.first) if arguments.first is not None else first_of(build)
    under = arguments.under
    request = Request(system=under.name, described=under.file, jars=under.build, client=under.library)
    foreign = request.foreign
    options.check_seeds(arguments.derivation, foreign=foreign)
    if under.client and not foreign:
        raise UsageError("--client needs --system: the reference has clients of its own")
    seeds = range(low, low + (arguments.seeds or (_SEEDS_ON_SYSTEM if foreign else _SEEDS)))
    # Refuse bad input before writing anything.
    arguments.hook.check()
    marks = load_marks(arguments.causes, today=date.today())
    job = _job_on_system(arguments, seeds, request) if foreign else _job_on_reference(arguments, seeds)
    store = options.writable_folder(arguments.store)
    workers = arguments.jobs or cores()
    show = not arguments.json
    repeat = _repeat_command(arguments, request, job)
    if show:
        _show_head(job, repeat + (f" --against {arguments.against}" if arguments.against else ""))
    other_commit = (
        None
        if arguments.against is None
        else perform_on(arguments.against, _arguments_for_commit(arguments, repeat, workers), job.phases)
    )
    earlier = None if foreign else _earlier_protocol(arguments)
    reach = ReachOfChanges() if earlier is None else reach_of_changes(earlier)
    with cleaned_up("process" if foreign else "sim"):
        performed = _perform_job(arguments, job, build, store=store, workers=workers, marks=marks, reach=reach)
    is_interrupted = any(part.interrupted for part in performed.parts)
    looked_into = None if is_interrupted else earlier  # an interrupted job searches no further
    parts, changed = _compare_behaviour(job, performed, looked_into, accepting=arguments.accept, show=show)
    if show:
        for line in reach.lines():
            say(line)
    smaller = _shrink_red_runs(
        parts, store, 0.0 if arguments.bisect or other_commit or foreign else arguments.shrink, workers=workers, show=show
    )
    if looked_into is not None:
        _keep_first_calls(looked_into, parts, store, show=show)
    _say_reds(reds(parts, store, smaller, marks), parts, repeat=repeat, show=show)
    code = worst(part.code for part in parts)
    _write_pages_of_all(parts, store, repeat=repeat, code=code, smaller=smaller, marks=marks)
    comparison = None if other_commit is None else compare(other_commit, performed.lines, performed.behaviours)
    outcome = Outcome(
        first_seed=low,
        exit=code if comparison is None else comparison.code,
        stages=parts,
        not_performed=performed.phases_left,
        unfit=job.unfit,
        against=comparison,
        changed=changed,
        ignored=tuple(marks.lines(ignored_runs(parts))),
        changed_since=reach.since,
        unreached=reach.unreached(),
        index=str(store / INDEX),
        junit=str(store / JUNIT),
    )
    _say_last_line(outcome) if show else say_json(outcome)
    arguments.hook.tell(outcome, outcome.exit)
    return outcome.exit


def _perform_job(
    arguments: Options, job: Job, build: Build, *, store: Path, workers: int, marks: Marks, reach: ReachOfChanges
) -> Performed:
    """Perform the job; each run's line goes to the file and the progress bar as soon as the run has ended."""
    lines: list[RunLine] = []
    behaviours: dict[str, Behaviour] = {}
    with _line_writer(arguments.runs) as write, progress(job.runs, quiet=arguments.json) as ticker:

        def show_line(line: RunLine) -> None:
            lines.append(line)
            write(line)
            ticker.tick(f"{line.protocol} {line.name}")

        means = Means(
            build=build,
            keep=Keep(store=store, report=True, only_failures=True),
            jobs=workers,
            on_line=show_line,
            fail_fast=arguments.fail_fast,
            deadline_s=arguments.deadline,
            marks=marks,
            on_behaviour=behaviours.__setitem__,
            watched=reach.watched,
            on_taken=reach.take,
        )
        going = (arguments.keep_going or arguments.against is not None) and not arguments.fail_fast
        parts, phases_left = _perform_phases(job, means, keep_going=going, show=not arguments.json)
    return Performed(parts=parts, phases_left=phases_left, lines=lines, behaviours=behaviours)


def _compare_behaviour(
    job: Job, performed: Performed, earlier: Revision | None, *, accepting: bool, show: bool
) -> tuple[tuple[Part, ...], tuple[str, ...]]:
    """Compare how plans behaved with the snapshot, or accept it. Returns the parts, with one of the behaviour, and its lines."""
    parts = performed.parts
    now = {name: behaviour for name, behaviour in performed.behaviours.items() if name.startswith(_COMPARED)}
    if job.snapshot is None or not (now or accepting):
        return parts, ()
    is_whole = set(BEHAVING) <= set(job.phases) and len(now) == job.plans
    if accepting:
        is_green = is_whole and all(part.code is ExitCode.VALID for part in parts)
        words = f"accepted     {job.snapshot}" if is_green else "not accepted, because a run is red or missing"
        lines = tuple(accept(job.snapshot, now)) if is_green else ()
    else:
        differences = compared(job.before, now, all_plans=is_whole)
        parts = (*parts, part_of(differences, now))
        words = (
            f"{CHANGED:<12} {len(differences)} of {len(now)} plans"
            if differences
            else f"ok           {len(now)} plans as accepted"
        )
        meant = f"if this is meant: highwater chaos --accept, and commit {job.snapshot} with the change"
        lines = (*summary(differences, len(now)), *next_steps(differences, now, earlier), meant) if differences else ()
    if show:
        say(f"{BEHAVIOUR:<22} {words}")
        for line in lines:
            say(f"    {line}")
    return parts, lines


def _job_on_reference(arguments: Options, seeds: range) -> Job:
    """The job on the reference: its parts, its cases and the number of runs."""
    phases = _phases_named(arguments.parts, PHASES if arguments.against is None else COMPARED)
    if arguments.accept:
        if arguments.parts or arguments.against is not None:
            raise UsageError("--accept performs corpus and plans; remove --parts and --against")
        phases = BEHAVING
    place = _snapshot_of(arguments, phases)
    if arguments.against is not None:
        commit_of(arguments.against, option="--against")
    # Users who have plans and no corpus gate with `--parts plans`.
    corpus = arguments.corpus or _CORPUS
    entries = load_corpus(corpus) if corpus.exists() or _OF_CORPUS.intersection(phases) else ()
    stored = _read_stored_plans(arguments, entries) if "plans" in phases else StoredPlans(cases=())
    inputs = Inputs(
        entries=entries,
        plans=stored.cases,
        unread=stored.unread,
        seeds=seeds,
        unknown_allowed=arguments.unknown_allowed,
    )
    return Job(
        seeds=seeds,
        phases=phases,
        parts=lambda phase, means: parts_of(phase, inputs, means),
        runs=len(entries) + len(inputs.plans) + len(seeds) + len(seeds) // SEEDS_TO_A_GUIDED_RUN,
        snapshot=place,
        before={} if place is None or arguments.accept else load(place),
        plans=len(inputs.plans) + sum(case.expectation.protocol == SAFE for case in entries),
        notes=_notes_on_protocols(arguments, stored),
    )


def _read_stored_plans(arguments: Options, entries: Sequence[Case]) -> StoredPlans:
    """The plans of the folder, beside the corpus's `entries`, on the protocol of the options. UsageError for an unknown one."""
    if arguments.protocol not in (OWN, *VARIANTS):
        raise UsageError(unknown("protocol", arguments.protocol, (OWN, *VARIANTS)))
    if arguments.protocol != SAFE and arguments.accept:
        raise UsageError("--accept keeps how plans behave on safe; remove --protocol")
    return read_plans(arguments.plans or _PLANS, entries, protocol=arguments.protocol)


def _notes_on_protocols(arguments: Options, stored: StoredPlans) -> tuple[str, ...]:
    """Lines on which protocol the user's plans are performed; none for those of this repository, most of which break others."""
    if arguments.plans is None or not stored.cases:
        return ()
    on = "the protocol that each names" if arguments.protocol == OWN else arguments.protocol
    notes = [f"{len(stored.cases)} plans on {on}"]
    if stored.elsewhere:
        names = ", ".join(stored.elsewhere[:_NAMED]) + (" …" if len(stored.elsewhere) > _NAMED else "")
        notes.append(f"{len(stored.elsewhere)} of them name another protocol: {names}; --protocol {OWN} performs each on its own")
    return tuple(notes)


def _snapshot_of(arguments: Options, phases: Sequence[Phase]) -> Path | None:
    """The snapshot of these phases; None where none is asked for or kept: of plans of the user, for --bisect and --against."""
    own = arguments.corpus is not None or arguments.plans is not None
    if arguments.bisect or arguments.against is not None or not set(phases).intersection(BEHAVING):
        return None
    if arguments.snapshot is None and own:
        if arguments.accept:
            raise UsageError("--accept needs --snapshot FILE, because --corpus or --plans names other plans")
        return None
    return arguments.snapshot or PLACE


def _job_on_system(arguments: Options, seeds: range, request: Request) -> Job:
    """The job on another system. UsageError for options that only the reference has."""
    if arguments.against is not None:
        raise UsageError(f"--against compares two commits of the reference, not of {request.system}; remove --system")
    if arguments.accept:
        raise UsageError(f"--accept keeps the behaviour of the reference, not of {request.system}; remove --system")
    if arguments.jobs is not None and arguments.jobs > 1:
        raise UsageError(f"--jobs must be 1 with --system, not {arguments.jobs}: one cluster runs at a time")
    phases = _phases_named(arguments.parts, systems.PHASES, of=f" for {request.system}")
    cases = systems.cases_on(
        request,
        phases,
        corpus=arguments.corpus or systems.CORPUS,
        plans=arguments.plans or systems.PLANS,
        seeds=seeds,
    )
    return Job(
        seeds=seeds,
        phases=phases,
        parts=lambda phase, means: systems.parts_of(phase, cases[phase].fit, means, unknown_allowed=arguments.unknown_allowed),
        runs=sum(len(phase.fit) for phase in cases.values()),
        unfit=tuple(f"{name}: {reason}" for phase in cases.values() for name, reason in phase.unfit),
    )


def _repeat_command(arguments: Options, request: Request, job: Job) -> str:
    """The command that performs the same runs again."""
    repeat = f"highwater chaos --first {job.seeds[0]} --seeds {len(job.seeds)}"
    repeat += f" --derivation {derivation_of(foreign=request.foreign)}{request.words}"
    repeat += f" --protocol {arguments.protocol}" if arguments.protocol != SAFE else ""
    return repeat + (f" --parts {','.join(job.phases)}" if arguments.parts else "")


def _arguments_for_commit(given: Options, repeat: str, workers: int) -> tuple[str, ...]:
    """The arguments of the same job on the protocol of another commit."""
    folders = ("--corpus", str(given.corpus or _CORPUS), "--plans", str(given.plans or _PLANS))
    return (*repeat.split()[2:], "--shrink", "0", "--jobs", str(workers), *folders)


def _show_head(job: Job, again: str) -> None:
    """Print the first lines of the job: its seeds, the command that repeats it, and what is special about its plans."""
    say(f"seed {format_seed(job.seeds[0])}  seeds {job.seeds[0]} to {job.seeds[-1]}")
    say(f"again   {again}")
    for line in job.notes:
        say(f"plans   {line}")
    for line in job.unfit:
        say(f"unfit   {line}")


def _shrink_red_runs(parts: Sequence[Part], store: Path, cpu_seconds: float, *, workers: int, show: bool) -> dict[str, Smaller]:
    """The shrunk plans of red runs, by the folder of the run; says which runs were not shrunk."""
    if any(part.interrupted for part in parts):
        return {}
    plans, complaints = shrink_failures(red_runs(parts), store, cpu_seconds=cpu_seconds, workers=workers)
    for line in complaints if show else ():
        say(line)
    return plans


def _earlier_protocol(arguments: Options) -> Revision | None:
    """The other protocol that the present one is compared with: that of --against, or the one that was accepted last."""
    named = arguments.against
    return accepted_before(arguments.snapshot or PLACE) if named is None else Revision(name=named, words=named)


def _keep_first_calls(earlier: Revision, parts: Sequence[Part], store: Path, *, show: bool) -> None:
    """Find what the protocol does otherwise in red runs than the earlier one."""
    try:
        keep_first_calls(red_runs(parts), store, earlier)
    except UsageError as error:
        if show:
            say(f"no first call: {error}")


def _write_pages_of_all(
    parts: Sequence[Part], store: Path, *, repeat: str, code: ExitCode, smaller: Mapping[str, Smaller], marks: Marks
) -> None:
    """Write the summaries, the index page and the JUnit file of all runs."""
    summaries = tuple(summary for part in parts for summary in part.summaries)
    storage = storage_at(store)
    write_runs(storage, "", summaries)  # first, so that it is kept if rendering a page fails
    write_pages(
        storage,
        "",
        summaries,
        tally(summaries),
        title="test-chaos",
        repeat=repeat,
        cases=list(cases_of(parts, marks)),
        expected=[as_expected for part in parts for as_expected in part.expected],
        code=code,
        names=[name for part in parts for name in _names_of_runs(part)],
        smaller=smaller,
        known=known_causes(storage, ""),
        marks=marks,
    )


def _names_of_runs(part: Part) -> list[str | None]:
    """What the runs of a part are called: as their checks, which the terminal and JUnit name."""
    by_run = {check.run: check.name for check in part.checks}
    return [by_run.get(number) for number in range(len(part.summaries))]


def _say_last_line(outcome: Outcome) -> None:
    """Print the last line: how many runs, and the outcome."""
    if outcome.against is not None:
        _show_comparison(outcome.against)
    runs = sum(len(part.summaries) for part in outcome.stages)
    red = {part.name for part in outcome.stages if part.code is not ExitCode.VALID}
    words = CHANGED if red == {BEHAVIOUR} else ONLY_IGNORED if outcome.ignored and not red else WORDS[outcome.exit]
    for line in outcome.ignored:
        say(f"ignored {line}")
    words = words if outcome.against is None else "worse" if outcome.exit is ExitCode.INVALID else "not worse"
    say(f"{runs} runs: {words}; {outcome.index}, {outcome.junit}")


def first_of(build: Build) -> int:
    """The first seed of a commit: the same for everybody who checks it. Random outside of a git repository."""
    if not build.commit:
        return secrets.randbelow(_FIRST_BELOW)
    return int.from_bytes(blake2b(build.commit.encode(), digest_size=8).digest()) % _FIRST_BELOW


def _phases_named(text: str, all_phases: Sequence[Phase], *, of: str = "") -> tuple[Phase, ...]:
    """The parts that are named, in the order of the job; all if none is named."""
    names = options.names_of(text)
    for name in names:
        if name not in all_phases:
            raise UsageError(unknown(f"part{of}", name, all_phases))
    return tuple(phase for phase in all_phases if phase in names or not names)


def _perform_phases(job: Job, means: Means, *, keep_going: bool, show: bool) -> tuple[tuple[Part, ...], tuple[Phase, ...]]:
    """Perform the phases until one fails; the parts that were performed, and the phases that were not."""
    parts: list[Part] = []
    phases = job.phases
    for number, phase in enumerate(phases):
        for perform in job.parts(phase, means):
            parts.append(perform())
            if show:
                _say_part(parts[-1])
            if parts[-1].interrupted:
                return tuple(parts), tuple(phases[number + 1 :])
        phases_left = tuple(phases[number + 1 :])
        if phases_left and not keep_going and worst(part.code for part in parts) is not ExitCode.VALID:
            if show:
                say(f"stopped after {phase}; not performed: {', '.join(phases_left)} (--keep-going performs all)")
            return tuple(parts), phases_left
    return tuple(parts), ()


@contextmanager
def _line_writer(path: Path | None) -> Iterator[Callable[[RunLine], None]]:
    """A function that appends a line to a new file at once; it does nothing without a path."""
    if path is None:
        yield lambda line: None
        return
    with options.writable_file(path).open("wb", buffering=0) as file:
        yield lambda line: _append(file.write, line)


def _append(write: Callable[[bytes], object], line: RunLine) -> None:
    write(msgspec.json.encode(line) + b"\n")


def _say_reds(reds_found: Sequence[Red], parts: Sequence[Part], *, repeat: str, show: bool) -> None:
    """Tell what is not as expected: on the terminal, and to GitHub Actions where its variables are set."""
    if show:
        for line in lines_of([red for red in reds_found if red.part != BEHAVIOUR]):  # these were told
            say(line)
        if os.environ.get("GITHUB_ACTIONS") == "true":
            for red in reds_found[:_ANNOTATED]:
                say(annotation(red))
    place = os.environ.get("GITHUB_STEP_SUMMARY")
    if place:
        with Path(place).open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(markdown(parts, reds_found, repeat=repeat))


def _show_comparison(comparison: Comparison) -> None:
    """The runs that differ, worse ones first, and the numbers of both protocols."""
    runs = f"{comparison.runs} runs of each, {comparison.other_histories} with another history"
    say(f"against {comparison.revision} {comparison.commit[:12]}  {runs}")
    width = max((len(run.name) for run in comparison.changed), default=0)
    for run in comparison.changed[:_CHANGED]:
        say(f"    {'worse' if run.worse else 'better':<6}  {run.name:<{width}}  {run.before} -> {run.now}  {run.repeat}")
    if len(comparison.changed) > _CHANGED:
        say(f"    and {len(comparison.changed) - _CHANGED} more; --json lists all")
    worse = next((run for run in comparison.changed if run.worse), None)
    if worse is not None:
        say(f"    beside  highwater report RUN --beside {comparison.revision}  shows where a stored run parts from it")
    if not comparison.changed:
        say("    no run became better or worse")
    for line in comparison.behaviour:
        say(f"    {line}")
    say(f"    acknowledged produces: {comparison.acked[0]} before, {comparison.acked[1]} now")
    if comparison.lost:
        say(f"    {comparison.lost} runs cannot be compared: they ended on one side only, or had another plan")


def _say_part(part: Part) -> None:
    """Print the line of a part."""
    verdicts = [s.verdict for s in part.summaries]
    counts = ", ".join(f"{verdicts.count(v)} {v}" for v in ("VALID", "UNKNOWN", "INVALID") if v in verdicts)
    say(f"{part.name:<22} {WORDS[part.code] if part.code else 'ok':<12} {counts}".rstrip())
    if part.stopped:
        say(f"    {part.stopped}")
