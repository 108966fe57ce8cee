"""Judge one run in this process: run every checker on every group of rows, the ledger of lost records first."""

from checkers import parts
from checkers.checker import Checker, facts_of
from checkers.columns import NAMES
from checkers.registry import ALL
from checkers.screening import SCREENED_MIN, Rows, findings, without_collector
from checkers.verdict import Verdict, merge
from history.history import History


def judge(history: History, checkers: tuple[Checker, ...] = ALL, *, screened_min: int = SCREENED_MIN) -> Verdict:
    """The verdict of one recorded run. A run that is stored in parts is judged part by part, in bounded memory."""
    if history.manifest.parts:
        return parts.judge(history, checkers, screened_min=screened_min)
    run = Rows(
        count=history.operation_rows,
        operations=lambda: history.operations_frame,
        kept=history.operations_kept,
        events=history.events_frame,
        coded=lambda: history.operations_of(NAMES),
        screened_min=screened_min,
    )
    with without_collector():
        return merge(findings(run, facts_of(history.manifest), checkers))
