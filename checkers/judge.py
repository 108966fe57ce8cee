"""Judge one run in this process: the door to the three ways of judging.

    whole     run every checker on every group of rows                        (engine/whole.py)
    parts     a history stored in parts: checkers of partitions, part by part   (engine/parts.py)
    ranges    its checkers of the whole run, range by range of the index        (engine/ranges.py)

All three give the same verdict. In each the ledger of lost records judges first.
"""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from checkers.engine.checker import Checker
from checkers.engine.facts import Facts, facts_of
from checkers.engine.parts import JudgedPart, judge_parts, merged
from checkers.engine.ranges import JudgedRange
from checkers.engine.verdict import Findings, Verdict, merge
from checkers.engine.whole import judge_whole
from checkers.observing import judging, unjudged
from checkers.registry import ALL
from history.history import History


def judge(history: History, checkers: Sequence[Checker] = ALL, *, screened_min: int | None = None) -> Verdict:
    """The verdict of one recorded run. A run that is stored in parts is judged part by part, in bounded memory.

    Checkers that need rows which the run's system does not give do not judge; the verdict names them under `unchecked`.
    """
    facts = facts_of(history.manifest)
    able = judging(facts, checkers)
    if history.manifest.parts:
        all_findings = judge_parts(history, facts, able, screened_min=screened_min)
    else:
        all_findings = judge_whole(history, facts, able, screened_min=screened_min)
    return _verdict(all_findings, history, facts, checkers)


def verdict_of_pieces(
    judged: Sequence[JudgedPart], states: Sequence[JudgedRange], history: History, checkers: Sequence[Checker] = ALL
) -> Verdict:
    """The verdict of a run whose parts and ranges were judged elsewhere. HistoryError where the ranges lack rows."""
    facts = facts_of(history.manifest)
    return _verdict(merged(judged, states, history, facts, judging(facts, checkers)), history, facts, checkers)


def _verdict(all_findings: Iterable[Findings], history: History, facts: Facts, checkers: Sequence[Checker]) -> Verdict:
    verdict = merge(all_findings)
    return replace(verdict, unchecked=(*verdict.unchecked, *unjudged(history.manifest.system, facts, checkers)))
