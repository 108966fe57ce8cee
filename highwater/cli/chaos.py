"""`highwater chaos`: check that `safe` keeps the promise and known-bad protocols are caught (`make test-chaos`)."""

import secrets
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from msgspec import Struct

from checkers.verdict import Validity
from highwater.campaigns.chaos import (
    KNOWN_BAD,
    Check,
    Means,
    Part,
    catch,
    fresh_seeds,
    in_containers,
    repeat_elsewhere,
    replay_corpus,
)
from highwater.campaigns.corpus import Case, load_corpus
from highwater.campaigns.pages import INDEX, JUNIT, write_pages, write_runs
from highwater.cli import options
from highwater.cli.output import progress, say, say_json
from highwater.exit_codes import WORDS, ExitCode, worst
from highwater.runs.provenance import present_build
from highwater.runs.run import Keep
from history.seed import format_seed
from pipeline.local import cores
from pipeline.storage import storage_at
from reports.index import RunRow

_FRESH_BELOW = 1 << 40  # short enough to type
_VALIDITY = {ExitCode.VALID: Validity.VALID, ExitCode.UNKNOWN: Validity.UNKNOWN, ExitCode.NOT_LIVE: Validity.VALID}


class Outcome(Struct, frozen=True, kw_only=True):
    """The JSON object that `chaos --json` prints."""

    first_seed: int
    exit: ExitCode
    stages: tuple[Part, ...]
    index: str
    junit: str


def chaos(
    *,
    seeds: Annotated[int, typer.Option(min=1, help="Number of fresh seeds for `safe`.")] = 200,
    first: Annotated[str | None, typer.Option(help="First fresh seed; random if not given.")] = None,
    corpus: Annotated[Path, typer.Option(help="Folder with the entries of the regression corpus.")] = Path("corpus/seeds"),
    jobs: options.Jobs = None,
    store: options.Store = Path("store/chaos"),
    unknown_allowed: Annotated[
        int, typer.Option(min=0, max=100, help="Percentage of runs that may be UNKNOWN without failing the job.")
    ] = 5,
    json: options.AsJson = False,
) -> int:
    """Replay the corpus, run fresh seeds on `safe` over every fault mix, catch the known-bad protocols; write HTML and JUnit."""
    low = options.seed_of(first) if first is not None else secrets.randbelow(_FRESH_BELOW)
    if not json:
        say(f"seed {format_seed(low)}  fresh seeds {low} to {low + seeds - 1}")
        say(f"again   highwater chaos --first {low} --seeds {seeds}")
    entries = load_corpus(corpus)  # refuse bad input before writing anything
    parts: list[Part] = []
    with progress(len(entries) + seeds, quiet=json) as ticker:
        means = Means(
            build=present_build(),
            keep=Keep(store=options.folder_of(store), report=True, only_failures=True),
            jobs=jobs or cores(),
            seen=lambda summary: ticker.tick(f"{summary.protocol} {summary.plan}"),
        )
        for perform in _parts(entries, range(low, low + seeds), means, unknown_allowed):
            parts.append(perform())
            if not json:
                _show(parts[-1])
            if parts[-1].interrupted:
                break
    code = worst(part.code for part in parts)
    runs = tuple(summary for part in parts for summary in part.summaries)
    cases = [_case(part, check) for part in parts for check in part.checks]
    repeat = f"highwater chaos --first {low} --seeds {seeds}"
    storage = storage_at(store)
    write_runs(storage, "", runs)  # first, so that it is kept if rendering a page fails
    write_pages(storage, "", runs, title="test-chaos", repeat=repeat, cases=cases)
    if json:
        say_json(Outcome(first_seed=low, exit=code, stages=tuple(parts), index=str(store / INDEX), junit=str(store / JUNIT)))
    else:
        say(f"{len(runs)} runs: {WORDS[code]}; {store / INDEX}, {store / JUNIT}")
    return code


def _parts(entries: tuple[Case, ...], seeds: range, means: Means, unknown_allowed: int) -> list[Callable[[], Part]]:
    """The parts of the `chaos` job (corpus, fresh seeds, known-bad protocols) in order, not yet started."""
    return [
        partial(replay_corpus, entries, means),
        partial(repeat_elsewhere, seeds[0]),
        partial(fresh_seeds, seeds, means, unknown_allowed_percent=unknown_allowed),
        *(partial(catch, bad, seeds[0], means) for bad in KNOWN_BAD),
        partial(in_containers, entries, means),
    ]


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
