"""Judging one run in this process: every checker over every group, the ledger first."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

import polars as pl

from checkers.checker import Checker, Facts, apply, facts_of, groups
from checkers.registry import ALL
from checkers.verdict import Cut, Findings, Verdict, merge
from history.history import History


def judge(history: History, checkers: tuple[Checker, ...] = ALL) -> Verdict:
    """The verdict of one recorded run."""
    return judge_frames(history.operations_frame, history.events_frame, facts_of(history.manifest), checkers)


def judge_frames(operations: pl.DataFrame, events: pl.DataFrame, facts: Facts, checkers: tuple[Checker, ...] = ALL) -> Verdict:
    """The same for frames with the columns of `history.schema`."""
    with _without_collector():
        return merge(_findings(operations, events, facts, checkers))


@contextmanager
def _without_collector() -> Iterator[None]:
    """Rows make no cycles, and the collector would walk all of them again and again: half of the time of judging."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _findings(operations: pl.DataFrame, events: pl.DataFrame, facts: Facts, checkers: tuple[Checker, ...]) -> list[Findings]:
    grouped = {by: groups(operations, events, by) for by in sorted({checker.group_by for checker in checkers})}
    found: list[Findings] = []
    cuts: tuple[Cut, ...] = ()
    for stage in ("ledger", "others"):
        for checker in checkers:
            if checker.stage == stage:
                found.extend(apply(checker, group, facts, cuts) for group in grouped[checker.group_by])
        cuts = tuple(sorted(cut for findings in found for cut in findings.cuts))
    return found
