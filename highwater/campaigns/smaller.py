"""Shrink the failed runs of a campaign or of the chaos job: the first of each signature, within one budget for all of them."""

from collections.abc import Iterable
from pathlib import Path

from highwater.errors import HighwaterError
from highwater.exit_codes import ExitCode
from highwater.plans.text import load_plan
from highwater.runs.summary import Summary
from highwater.shrink.folder import Asked, folder_of, shrink_in
from highwater.shrink.search import Budget
from history import store as run_store

TRIALS_MAX = 300  # of each plan


def shrink_failures(
    summaries: Iterable[Summary], store: Path, *, cpu_seconds: float, workers: int
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Shrink the first stored failure of each signature of simulated runs.

    Returns the file of the smaller plan for each run (its folder in the store), and why a run was not shrunk, one line each.
    With 0 CPU seconds nothing is shrunk.
    """
    if not cpu_seconds:
        return {}, ()
    plans: dict[str, str] = {}
    complaints: list[str] = []
    left = cpu_seconds
    for run in _first_of_each(summaries):
        if left <= 0:
            complaints.append(f"{run} is not shrunk: {cpu_seconds:g} s of CPU are spent (--shrink)")
            continue
        try:
            plan = load_plan(store / run / run_store.PLAN)
            budget = Budget(trials=TRIALS_MAX, cpu_seconds=left)
            smaller = shrink_in(folder_of(store, plan), Asked(plan=plan), budget=budget, workers=workers)
        except KeyboardInterrupt:
            return plans, (*complaints, f"{run} is not shrunk: interrupted")
        except HighwaterError as error:
            complaints.append(f"{run} is not shrunk: {error}")
            continue
        left -= smaller.cpu_seconds
        plans[run] = smaller.plan
    return plans, tuple(complaints)


def _first_of_each(summaries: Iterable[Summary]) -> tuple[str, ...]:
    """The folders of the first run of each signature."""
    first: dict[str, str] = {}
    for summary in summaries:
        failed = summary.exit_code in (ExitCode.INVALID, ExitCode.NOT_LIVE) and summary.backend == "sim"
        if failed and summary.store is not None and summary.signature:
            first.setdefault(summary.signature, summary.store)
    return tuple(first.values())
