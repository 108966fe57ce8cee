"""Judge one run in this process: run every checker on every group of rows, the ledger of lost records first."""

import polars as pl
from msgspec.structs import replace

from checkers.engine import parts
from checkers.engine.checker import Checker, facts_of
from checkers.engine.columns import NAMES
from checkers.engine.screening import SCREENED_MIN, Rows, findings, without_collector
from checkers.engine.verdict import Verdict, merge
from checkers.observing import judging, observed, unjudged
from checkers.registry import ALL
from history.history import History


def judge(history: History, checkers: tuple[Checker, ...] = ALL, *, screened_min: int = SCREENED_MIN) -> Verdict:
    """The verdict of one recorded run. A run that is stored in parts is judged part by part, in bounded memory.

    Checkers that need rows which the run's system does not give do not judge; the verdict names them under `unchecked`. Rows of
    a source that is not complete are for pages alone.
    """
    if history.manifest.parts:
        return parts.judge(history, checkers, screened_min=screened_min)
    system, facts = history.manifest.system, facts_of(history.manifest)
    if system is None:
        return _judged(history, history.events_frame, checkers, screened_min)
    complete = history.events_frame.filter(pl.col("kind").is_in([str(kind) for kind in observed(facts)]))
    verdict = _judged(history, complete, judging(facts, checkers), screened_min)
    return replace(verdict, unchecked=(*verdict.unchecked, *unjudged(system, facts, checkers)))


def _judged(history: History, events: pl.DataFrame, checkers: tuple[Checker, ...], screened_min: int) -> Verdict:
    run = Rows(
        count=history.operation_rows,
        operations=lambda: history.operations_frame,
        kept=history.operations_kept,
        events=events,
        coded=lambda: history.operations_of(NAMES),
        screened_min=screened_min,
    )
    with without_collector():
        return merge(findings(run, facts_of(history.manifest), checkers))
