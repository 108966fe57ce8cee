"""`highwater chaos`: check that `safe` keeps the promise and known-bad protocols are caught (`make test-chaos`)."""

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from msgspec import Struct

from checkers.verdict import Validity
from highwater.campaigns.chaos import PHASES, Check, Inputs, Means, Part, Phase, RunLine, parts_of
from highwater.campaigns.corpus import load_corpus, load_plans
from highwater.campaigns.pages import INDEX, JUNIT, write_pages, write_runs
from highwater.cli import options
from highwater.cli.output import progress, say, say_json
from highwater.errors import UsageError
from highwater.exit_codes import WORDS, ExitCode, worst
from highwater.runs.provenance import Build, present_build
from highwater.runs.run import Keep
from history.seed import format_seed
from pipeline.local import cores
from pipeline.storage import storage_at
from reports.index import RunRow

_FIRST_BELOW = 1 << 40  # short enough to type
_VALIDITY = {ExitCode.VALID: Validity.VALID, ExitCode.UNKNOWN: Validity.UNKNOWN, ExitCode.NOT_LIVE: Validity.VALID}


class Outcome(Struct, frozen=True, kw_only=True):
    """The JSON object that `chaos --json` prints."""

    first_seed: int
    exit: ExitCode
    stages: tuple[Part, ...]
    not_performed: tuple[Phase, ...]  # because an earlier phase failed
    index: str
    junit: str


def chaos(
    *,
    seeds: Annotated[int, typer.Option(min=1, help="Number of seeds for `safe`.")] = 200,
    first: Annotated[str | None, typer.Option(help="First seed; derived from the commit if not given.")] = None,
    parts: Annotated[str, typer.Option(help=f"Phases to perform, separated by commas: {', '.join(PHASES)}; all if empty.")] = "",
    corpus: Annotated[Path, typer.Option(help="Folder with the entries of the regression corpus.")] = Path("corpus/seeds"),
    plans: Annotated[Path, typer.Option(help="Folder with the stored plans.")] = Path("corpus/plans"),
    jobs: options.Jobs = None,
    store: options.Store = Path("store/chaos"),
    unknown_allowed: Annotated[
        int, typer.Option(min=0, max=100, help="Percentage of the seeds that may be UNKNOWN without failing the job.")
    ] = 5,
    deadline: Annotated[int, typer.Option(min=1, help="Seconds after which a simulated run is given up, as hung.")] = 600,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Perform all phases; else a failed phase is the last.")
    ] = False,
    fail_fast: Annotated[
        bool, typer.Option("--fail-fast", help="End at the first red run, not at the end of its phase.")
    ] = False,
    runs: Annotated[Path | None, typer.Option(help="File that gets one JSON line for each run, as soon as it has ended.")] = None,
    json: options.AsJson = False,
) -> int:
    """Run the corpus, stored plans and seeds on `safe`; catch the known-bad protocols; write HTML and JUnit."""
    build = present_build()
    low = options.seed_of(first) if first is not None else _first_of(build)
    phases = _phases(parts)
    entries = load_corpus(corpus)  # refuse bad input before writing anything
    inputs = Inputs(
        entries=entries,
        plans=load_plans(plans, entries),
        seeds=range(low, low + seeds),
        unknown_allowed=unknown_allowed,
    )
    repeat = f"highwater chaos --first {low} --seeds {seeds}" + (f" --parts {','.join(phases)}" if parts else "")
    if not json:
        say(f"seed {format_seed(low)}  seeds {low} to {low + seeds - 1}")
        say(f"again   {repeat}")
    folder = options.folder_of(store)
    total = len(inputs.entries) + len(inputs.plans) + seeds
    with _lines_to(runs) as write, progress(total, quiet=json) as ticker:

        def seen(line: RunLine) -> None:
            write(line)
            ticker.tick(f"{line.protocol} {line.name}")

        means = Means(
            build=build,
            keep=Keep(store=folder, report=True, only_failures=True),
            jobs=jobs or cores(),
            seen=seen,
            fail_fast=fail_fast,
            deadline_s=deadline,
        )
        found, left = _perform(phases, inputs, means, keep_going=keep_going and not fail_fast, show=not json)
    code = worst(part.code for part in found)
    summaries = tuple(summary for part in found for summary in part.summaries)
    cases = [_case(part, check) for part in found for check in part.checks]
    storage = storage_at(store)
    write_runs(storage, "", summaries)  # first, so that it is kept if rendering a page fails
    write_pages(storage, "", summaries, title="test-chaos", repeat=repeat, cases=cases)
    index, junit = str(store / INDEX), str(store / JUNIT)
    if json:
        say_json(Outcome(first_seed=low, exit=code, stages=found, not_performed=left, index=index, junit=junit))
    else:
        say(f"{len(summaries)} runs: {WORDS[code]}; {index}, {junit}")
    return code


def _first_of(build: Build) -> int:
    """The first seed of a commit: the same for everybody who checks it. Random outside of a git repository."""
    if not build.commit:
        return secrets.randbelow(_FIRST_BELOW)
    return int.from_bytes(blake2b(build.commit.encode(), digest_size=8).digest()) % _FIRST_BELOW


def _phases(text: str) -> tuple[Phase, ...]:
    names = options.names_of(text)
    unknown = [name for name in names if name not in PHASES]
    if unknown:
        raise UsageError(f"unknown part {unknown[0]!r}; known: {', '.join(PHASES)}")
    return tuple(phase for phase in PHASES if phase in names or not names)


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
        yield lambda line: _write(file.write, line)


def _write(write: Callable[[bytes], object], line: RunLine) -> None:
    write(msgspec.json.encode(line) + b"\n")


def _case(part: Part, check: Check) -> RunRow:
    """One check of the `chaos` job as a test case of the JUnit file."""
    failed = check.code is ExitCode.LABORATORY_FAILED
    return RunRow(
        name=check.name,
        seed=None,
        protocol=part.name,
        validity=None if failed else _VALIDITY.get(check.code, Validity.INVALID),
        live=check.code is not ExitCode.NOT_LIVE,
        words=(check.complaint,) if check.complaint else (),
        wall_seconds=check.wall_seconds,
        error=check.complaint,
    )


def _show(part: Part) -> None:
    verdicts = [s.verdict for s in part.summaries]
    counts = ", ".join(f"{verdicts.count(v)} {v}" for v in ("VALID", "UNKNOWN", "INVALID") if v in verdicts)
    say(f"{part.name:<22} {WORDS[part.code] if part.code else 'ok':<12} {counts}".rstrip())
    for complaint in (*(check.complaint for check in part.checks if check.complaint), *filter(None, [part.stopped])):
        say(f"    {complaint}")
