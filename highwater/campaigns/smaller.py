"""Shrink the failed runs of a campaign or of the chaos job: the first of each signature, within one budget for all of them."""

import os
from collections.abc import Iterable
from pathlib import Path
from time import process_time

import msgspec
from msgspec import Struct

from checkers.engine.verdict import Verdict
from highwater.errors import HighwaterError
from highwater.exit_codes import ExitCode
from highwater.plans.text import load_plan
from highwater.runs.beside import link_to, rewrite_page, stored_run
from highwater.runs.run import SUMMARY
from highwater.runs.summary import Summary
from highwater.shrink.folder import ShrinkOrder, Shrunk, folder_of, shrink_in
from highwater.shrink.record import record
from highwater.shrink.search import Budget
from history import store as run_store
from reports.render import Link


class Smaller(Struct, frozen=True, kw_only=True):
    """What was made of a failed run: the file of its shrunk plan, and the page of the shrunk run beside its nearest neighbour.

    `link` is that page relative to the store.
    """

    plan: str
    beside: str = ""
    link: str = ""


TRIALS_MAX = 300  # of each plan


def shrink_failures(
    summaries: Iterable[Summary], store: Path, *, cpu_seconds: float, workers: int
) -> tuple[dict[str, Smaller], tuple[str, ...]]:
    """Shrink the first stored failure of each signature of simulated runs, and put the result beside its nearest neighbour.

    Returns what was made of each run (its folder in the store), and why a run was not shrunk, one line each. With 0 CPU seconds
    nothing is shrunk.
    """
    if not cpu_seconds:
        return {}, ()
    plans: dict[str, Smaller] = {}
    complaints: list[str] = []
    seconds_left = cpu_seconds
    for run in _first_run_of_each(summaries):
        if seconds_left <= 0:
            complaints.append(f"{run} is not shrunk: {cpu_seconds:g} s of CPU are spent (--shrink)")
            continue
        try:
            plan = load_plan(store / run / run_store.PLAN)
            budget = Budget(trials=TRIALS_MAX, cpu_seconds=seconds_left)
            smaller = shrink_in(folder_of(store, plan), ShrinkOrder(plan=plan), budget=budget, workers=workers)
        except KeyboardInterrupt:
            return plans, (*complaints, f"{run} is not shrunk: interrupted")
        except HighwaterError as error:
            complaints.append(f"{run} is not shrunk: {error}")
            continue
        seconds_left -= smaller.cpu_seconds
        plans[run] = Smaller(plan=smaller.plan)
        if seconds_left <= 0:
            complaints.append(f"{run} is not put beside its neighbour: {cpu_seconds:g} s of CPU are spent (--shrink)")
            continue
        began = process_time()
        try:
            page = _store_shrunk_run(run, smaller, store)
            if page is not None:
                plans[run] = Smaller(plan=smaller.plan, beside=str(page), link=page.relative_to(store).as_posix())
        except HighwaterError as error:
            complaints.append(f"{run} is not put beside its neighbour: {error}")
        seconds_left -= process_time() - began
    return plans, tuple(complaints)


def _store_shrunk_run(run: str, smaller: Shrunk, store: Path) -> Path | None:
    """Store the shrunk run and its neighbours, and let the page of the run link to them; returns the first page of two runs."""
    recorded = record(smaller, store)
    folder = store / run
    for words, page in recorded.beside:
        place = Path(os.path.relpath(page, folder)).as_posix()
        link_to(folder, Link(words=f"{words}, after shrinking", page=place))
    if recorded.beside and (folder / run_store.REPORT).exists():
        verdict = msgspec.json.decode((folder / run_store.VERDICT).read_bytes(), type=Verdict)
        repeat = msgspec.json.decode((folder / SUMMARY).read_bytes(), type=Summary).repeat
        rewrite_page(stored_run(folder, verdict), repeat=repeat)
    return recorded.beside[0][1] if recorded.beside else None


def _first_run_of_each(summaries: Iterable[Summary]) -> tuple[str, ...]:
    """The folders of the first run of each signature."""
    first: dict[str, str] = {}
    for summary in summaries:
        failed = summary.exit_code in (ExitCode.INVALID, ExitCode.NOT_LIVE) and summary.backend == "sim"
        if failed and summary.store is not None and summary.signature:
            first.setdefault(summary.signature, summary.store)
    return tuple(first.values())
