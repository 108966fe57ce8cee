"""`highwater chaos`: check that `safe` keeps the promise and known-bad protocols are caught (`make test-chaos`)."""

import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from msgspec import Struct

from highwater.campaigns.against import COMPARED, Comparison, commit_of, compare, perform_on
from highwater.campaigns.chaos import PHASES, Inputs, Means, Part, Phase, RunLine, parts_of
from highwater.campaigns.corpus import load_corpus, load_plans
from highwater.campaigns.pages import INDEX, JUNIT, known_causes, write_pages, write_runs
from highwater.campaigns.red import Red, annotation, cases_of, lines_of, markdown, red_runs, reds
from highwater.campaigns.smaller import Smaller, shrink_failures
from highwater.cli import options
from highwater.cli.output import progress, say, say_json
from highwater.errors import UsageError
from highwater.exit_codes import WORDS, ExitCode, worst
from highwater.plans.derive import DERIVATION
from highwater.runs.provenance import Build, present_build
from highwater.runs.run import Keep
from history.errors import unknown
from history.seed import format_seed
from pipeline.local import cores
from pipeline.storage import storage_at

_FIRST_BELOW = 1 << 40  # short enough to type
_ANNOTATED = 10  # errors of a step that GitHub Actions shows
_CHANGED = 20  # runs that a comparison lists
_OF_CORPUS: frozenset[Phase] = frozenset({"corpus", "known-bad", "containers"})  # phases that perform entries of the corpus


_Seeds = Annotated[int, typer.Option(min=1, help="Number of seeds for `safe`.")]
_First = Annotated[str | None, typer.Option(help="First seed; derived from the commit if not given.")]
_Parts = Annotated[str, typer.Option(help=f"Phases to perform, separated by commas: {', '.join(PHASES)}; all if empty.")]
_Corpus = Annotated[Path, typer.Option(help="Folder with the entries of the regression corpus.")]
_Plans = Annotated[Path, typer.Option(help="Folder with the stored plans.")]
_UnknownAllowed = Annotated[
    int, typer.Option(min=0, max=100, help="Percentage of the seeds that may be UNKNOWN without failing the job.")
]
_Deadline = Annotated[int, typer.Option(min=1, help="Seconds after which a simulated run is given up, as hung.")]
_KeepGoing = Annotated[bool, typer.Option("--keep-going", help="Perform all phases; else a failed phase is the last.")]
_FailFast = Annotated[bool, typer.Option("--fail-fast", help="End at the first red run, not at the end of its phase.")]
_Against = Annotated[
    str | None,
    typer.Option(metavar="REV", help="Perform corpus, plans and seeds on the protocol of this commit, too; tell what is worse."),
]
_Runs = Annotated[Path | None, typer.Option(help="File that gets one JSON line for each run, as soon as it has ended.")]


class Outcome(Struct, frozen=True, kw_only=True):
    """The JSON object that `chaos --json` prints."""

    first_seed: int
    exit: ExitCode
    stages: tuple[Part, ...]
    not_performed: tuple[Phase, ...]  # because an earlier phase failed
    against: Comparison | None = None
    index: str
    junit: str


def chaos(
    *,
    seeds: _Seeds = 128,
    first: _First = None,
    derivation: options.Derivation = None,
    parts: _Parts = "",
    corpus: _Corpus = Path("corpus/seeds"),
    plans: _Plans = Path("corpus/plans"),
    jobs: options.Jobs = None,
    store: options.Store = Path("store/chaos"),
    unknown_allowed: _UnknownAllowed = 5,
    deadline: _Deadline = 600,
    keep_going: _KeepGoing = False,
    fail_fast: _FailFast = False,
    against: _Against = None,
    runs: _Runs = None,
    shrink: options.Shrink = 60.0,
    bisect: options.Bisect = False,  # run_command_line converts the exit code
    json: options.AsJson = False,
) -> int:
    """Run the corpus, stored plans and seeds on `safe`; catch the known-bad protocols; write HTML and JUnit."""
    options.check_seeds(derivation)
    build = present_build()
    low = options.seed_of(first) if first is not None else first_of(build)
    phases = _phases(parts, PHASES if against is None else COMPARED)
    if against is not None:
        commit_of(against)
    # Refuse bad input before writing anything. Users who have plans and no corpus gate with `--parts plans`.
    entries = load_corpus(corpus) if corpus.exists() or _OF_CORPUS.intersection(phases) else ()
    inputs = Inputs(
        entries=entries,
        plans=load_plans(plans, entries) if "plans" in phases else (),
        seeds=range(low, low + seeds),
        unknown_allowed=unknown_allowed,
    )
    keep = Keep(store=options.folder_of(store), report=True, only_failures=True)
    repeat = f"highwater chaos --first {low} --seeds {seeds} --derivation {DERIVATION}"
    repeat += f" --parts {','.join(phases)}" if parts else ""
    if not json:
        say(f"seed {format_seed(low)}  seeds {low} to {low + seeds - 1}")
        say(f"again   {repeat}" + (f" --against {against}" if against else ""))
    others = ("--shrink", "0", "--jobs", str(jobs or cores()), "--corpus", str(corpus), "--plans", str(plans))
    other = None if against is None else perform_on(against, (*repeat.split()[2:], *others), phases)
    lines: list[RunLine] = []
    with _lines_to(runs) as write, progress(len(entries) + len(inputs.plans) + seeds, quiet=json) as ticker:

        def seen(line: RunLine) -> None:
            lines.append(line)
            write(line)
            ticker.tick(f"{line.protocol} {line.name}")

        means = Means(build=build, keep=keep, jobs=jobs or cores(), seen=seen, fail_fast=fail_fast, deadline_s=deadline)
        going = (keep_going or other is not None) and not fail_fast
        found, left = _perform(phases, inputs, means, keep_going=going, show=not json)
    smaller = _shrunk(found, store, 0.0 if bisect or other else shrink, workers=jobs or cores(), show=not json)
    _tell(reds(found, store, smaller), found, repeat=repeat, show=not json)
    code = worst(part.code for part in found)
    _write(found, store, repeat=repeat, code=code, smaller=smaller)
    compared = None if other is None else compare(other, lines)
    outcome = Outcome(
        first_seed=low,
        exit=code if compared is None else compared.code,
        stages=found,
        not_performed=left,
        against=compared,
        index=str(store / INDEX),
        junit=str(store / JUNIT),
    )
    say_json(outcome) if json else _conclude(outcome)
    return outcome.exit


def _shrunk(found: Sequence[Part], store: Path, cpu_seconds: float, *, workers: int, show: bool) -> dict[str, Smaller]:
    """The shrunk plans of red runs, by the folder of the run; says which runs were not shrunk."""
    if any(part.interrupted for part in found):
        return {}
    plans, complaints = shrink_failures(red_runs(found), store, cpu_seconds=cpu_seconds, workers=workers)
    for line in complaints if show else ():
        say(line)
    return plans


def _write(found: Sequence[Part], store: Path, *, repeat: str, code: ExitCode, smaller: Mapping[str, Smaller]) -> None:
    """Write the summaries, the index page and the JUnit file of all runs."""
    summaries = tuple(summary for part in found for summary in part.summaries)
    storage = storage_at(store)
    write_runs(storage, "", summaries)  # first, so that it is kept if rendering a page fails
    write_pages(
        storage,
        "",
        summaries,
        title="test-chaos",
        repeat=repeat,
        cases=list(cases_of(found)),
        expected=[as_expected for part in found for as_expected in part.expected],
        code=code,
        names=[name for part in found for name in _names(part)],
        smaller=smaller,
        known=known_causes(storage, ""),
    )


def _names(part: Part) -> list[str | None]:
    """What the runs of a part are called: as their checks, which the terminal and JUnit name."""
    by_run = {check.run: check.name for check in part.checks}
    return [by_run.get(number) for number in range(len(part.summaries))]


def _conclude(outcome: Outcome) -> None:
    if outcome.against is not None:
        _show_comparison(outcome.against)
    runs = sum(len(part.summaries) for part in outcome.stages)
    words = WORDS[outcome.exit] if outcome.against is None else "worse" if outcome.exit is ExitCode.INVALID else "not worse"
    say(f"{runs} runs: {words}; {outcome.index}, {outcome.junit}")


def first_of(build: Build) -> int:
    """The first seed of a commit: the same for everybody who checks it. Random outside of a git repository."""
    if not build.commit:
        return secrets.randbelow(_FIRST_BELOW)
    return int.from_bytes(blake2b(build.commit.encode(), digest_size=8).digest()) % _FIRST_BELOW


def _phases(text: str, known: Sequence[Phase]) -> tuple[Phase, ...]:
    names = options.names_of(text)
    for name in names:
        if name not in known:
            raise UsageError(unknown("part", name, known))
    return tuple(phase for phase in known if phase in names or not names)


def _perform(
    phases: Sequence[Phase], inputs: Inputs, means: Means, *, keep_going: bool, show: bool
) -> tuple[tuple[Part, ...], tuple[Phase, ...]]:
    """Perform the phases until one fails; the parts that were performed, and the phases that were not."""
    found: list[Part] = []
    for number, phase in enumerate(phases):
        for perform in parts_of(phase, inputs, means):
            found.append(perform())
            if show:
                _show(found[-1])
            if found[-1].interrupted:
                return tuple(found), tuple(phases[number + 1 :])
        left = tuple(phases[number + 1 :])
        if left and not keep_going and worst(part.code for part in found) is not ExitCode.VALID:
            if show:
                say(f"stopped after {phase}; not performed: {', '.join(left)} (--keep-going performs all)")
            return tuple(found), left
    return tuple(found), ()


@contextmanager
def _lines_to(path: Path | None) -> Iterator[Callable[[RunLine], None]]:
    """A function that appends a line to a new file at once; it does nothing without a path."""
    if path is None:
        yield lambda line: None
        return
    with options.file_of(path).open("wb", buffering=0) as file:
        yield lambda line: _append(file.write, line)


def _append(write: Callable[[bytes], object], line: RunLine) -> None:
    write(msgspec.json.encode(line) + b"\n")


def _tell(found: Sequence[Red], parts: Sequence[Part], *, repeat: str, show: bool) -> None:
    """Tell what is not as expected: on the terminal, and to GitHub Actions where its variables are set."""
    if show:
        for line in lines_of(found):
            say(line)
        if os.environ.get("GITHUB_ACTIONS") == "true":
            for red in found[:_ANNOTATED]:
                say(annotation(red))
    place = os.environ.get("GITHUB_STEP_SUMMARY")
    if place:
        with Path(place).open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(markdown(parts, found, repeat=repeat))


def _show_comparison(found: Comparison) -> None:
    """The runs that differ, worse ones first, and the numbers of both protocols."""
    say(f"against {found.revision} {found.commit[:12]}  {found.runs} runs of each, {found.other_histories} with another history")
    width = max((len(run.name) for run in found.changed), default=0)
    for run in found.changed[:_CHANGED]:
        say(f"    {'worse' if run.worse else 'better':<6}  {run.name:<{width}}  {run.before} -> {run.now}  {run.repeat}")
    if len(found.changed) > _CHANGED:
        say(f"    and {len(found.changed) - _CHANGED} more; --json lists all")
    if not found.changed:
        say("    no run became better or worse")
    say(f"    acknowledged produces: {found.acked[0]} before, {found.acked[1]} now")
    if found.lost:
        say(f"    {found.lost} runs cannot be compared: they ended on one side only, or had another plan")


def _show(part: Part) -> None:
    verdicts = [s.verdict for s in part.summaries]
    counts = ", ".join(f"{verdicts.count(v)} {v}" for v in ("VALID", "UNKNOWN", "INVALID") if v in verdicts)
    say(f"{part.name:<22} {WORDS[part.code] if part.code else 'ok':<12} {counts}".rstrip())
    if part.stopped:
        say(f"    {part.stopped}")
