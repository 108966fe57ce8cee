"""Checker: which clauses of the documents a broker process broke, by rules over its turns (`monitors`).

A turn is one event of a process and what it did about it. Most of a turn leaves no row: heartbeats and their answers, what a
controller holds in its memory when it sends, requests that wait and why they ended. So the rules are judged while the run goes
on, and a row is recorded only where one is broken: "rule: what the process did (clause)".

>>> from checkers.sketches import sketch
>>> sketch("clauses", "rule-broken node=b1 partition=0 detail=narrowed-early:b2-has-not-answered")
['narrowed-early']
"""

import polars as pl

from checkers.engine.anomalies import PLANTED, Harm, Kind, unknown
from checkers.engine.checker import Checker
from checkers.engine.facts import Facts
from checkers.engine.groups import WHOLE_RUN
from checkers.engine.splits import gathered
from checkers.engine.verdict import Anomaly, Cut, Findings
from history.event import EventKind as K

NAME = "clauses"


def _rule(name: str, rank: int, *breaks: str) -> Kind:
    return Kind(name, Harm.BROKEN_STEP, rank, breaks=breaks, unshown=PLANTED)


RULES: tuple[Kind, ...] = (
    _rule("deleted-before-stopped", 10, "RES"),
    _rule("stale-member-elected", 20, "ISR"),
    _rule("unguarded-write", 30, "CTL"),
    _rule("older-controller-obeyed", 40, "CTL"),
    _rule("outlives-its-session", 50, "CTL"),
    _rule("command-out-of-office", 60, "CTL"),
    _rule("answered-out-of-office", 70, "CTL"),
    _rule("leader-truncated", 80, "LM"),
    _rule("appended-out-of-role", 90, "LM"),
    _rule("fetched-from-another", 100, "LM"),
    _rule("older-state-told", 110, "SL"),
    _rule("dead-leader-kept", 120, "LIVE"),
    _rule("refusal-does-not-fence", 130, "SL"),
    _rule("served-while-fenced", 140, "SL"),
    _rule("late-answer-counts", 150, "SL"),
    _rule("narrowed-early", 160, "RES"),
    _rule("two-commands-in-flight", 170, "META"),
    _rule("closed-while-leading", 180, "LIVE"),
    _rule("parked-request-lost", 190, "LIVE"),
    _rule("older-metadata-told", 200, "META"),
)
_NAMES = frozenset(kind.name for kind in RULES)


def check(operations: pl.DataFrame, events: pl.DataFrame, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Report one anomaly for each broken rule; a rule that this version does not know makes the verdict UNKNOWN."""
    columns = (events[name].to_list() for name in ("index", "node", "topic", "partition", "detail"))
    anomalies, doubts = [], []
    for at, node, topic, partition, detail in zip(*columns, strict=True):
        rule, _, words = (detail or "").partition(":")
        if rule not in _NAMES:
            doubts.append(f"row {at} says that {node or 'a process'} broke a rule that is not known: {detail or 'none'}")
            continue
        key = "" if topic is None else f"{topic}-{partition}"
        anomalies.append(Anomaly(kind=rule, checker=NAME, key=key, witness=(at,), words=f"{node}: {words.strip()}"))
    return Findings(anomalies=tuple(anomalies), unchecked=tuple(doubts))


CHECKER = Checker(
    name=NAME,
    claim="No process breaks a clause that has a rule over its turns.",
    assumes="The backend watches every turn of every process: the simulator does.",
    blind="Clauses without a rule; processes whose turns nobody sees: real ones.",
    reports=(*RULES, unknown(unshown="a history of another version shows it (tests/checkers/test_clauses.py)")),
    group_by=WHOLE_RUN,
    events=(K.RULE_BROKEN,),
    check=check,
    split=gathered(check),
)
