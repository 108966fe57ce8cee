"""Judging transactions by a consistency model: which anomalies it forbids, and what the history proves."""

from checkers.elle import list_append, rw_register
from checkers.elle.cycles import KINDS, cycles
from checkers.elle.transactions import Edge, in_time, transactions_of
from checkers.linearizability.judge import Judgement
from checkers.verdict import Anomaly, Validity
from history.foreign.pairing import Paired

CHECKER = "elle"
MODELS = ("list-append", "rw-register")
_ANOMALIES_MAX = 8
_ALWAYS = frozenset({"duplicate-elements", "incompatible-order", "G0"})
_COMMITTED = _ALWAYS | {"G1a", "G1b", "G1c"}
_SNAPSHOT = _COMMITTED | {"internal", "G-single", "G-nonadjacent"}
_SERIALIZABLE = _SNAPSHOT | {"G2-item"}


def _timed(kinds: frozenset[str], *times: str) -> frozenset[str]:
    return kinds | {kind + time for kind in kinds if kind in KINDS for time in times}


# What each model forbids; of several all that any of them does.
FORBIDS: dict[str, frozenset[str]] = {
    "read-uncommitted": _ALWAYS,
    "read-committed": _COMMITTED,
    "snapshot-isolation": _SNAPSHOT,
    "repeatable-read": _SERIALIZABLE,
    "serializable": _SERIALIZABLE,
    "strong-session-snapshot-isolation": _timed(_SNAPSHOT, "-process"),
    "strong-session-serializable": _timed(_SERIALIZABLE, "-process"),
    "strong-snapshot-isolation": _timed(_SNAPSHOT, "-process", "-realtime"),
    "strict-serializable": _timed(_SERIALIZABLE, "-process", "-realtime"),
}


def judge(model: str, history: Paired, consistency: tuple[str, ...]) -> Judgement:
    """What the transactions prove against these consistency models."""
    forbidden = frozenset[str]().union(*(FORBIDS[name] for name in consistency))
    kind = list_append if model == "list-append" else rw_register
    committed, aborted = transactions_of(history, kind.WRITES)
    keys = list_append.ListAppend(committed, aborted) if model == "list-append" else rw_register.RwRegister(committed, aborted)
    found = [
        Anomaly(kind=name, checker=CHECKER, key=key, witness=lines, words=words)
        for name, key, words, lines in keys.anomalies()
        if name in forbidden
    ]
    # A value with two writers stands for neither: an edge from it could accuse the innocent.
    if not keys.unchecked:
        edges = [*keys.edges(), *in_time(committed)]
        lines = {t.number: t.line for t in committed}
        found.extend(_cycle(name, cycle, lines) for name, cycle in cycles(edges, len(committed), forbidden))
    validity = Validity.INVALID if found else Validity.UNKNOWN if keys.unchecked or not committed else Validity.VALID
    unchecked = keys.unchecked if committed else [*keys.unchecked, "no transaction that may have committed"]
    return Judgement(
        validity=validity,
        anomalies=tuple(found[:_ANOMALIES_MAX]),
        unchecked=tuple(unchecked),
        notes=tuple(keys.notes),
        operations=len(history.calls) + len(history.failed),
    )


def _cycle(name: str, cycle: tuple[Edge, ...], lines: dict[int, int]) -> Anomaly:
    steps = [f"line {lines[e.first]} before line {lines[e.then]}, because {e.words} ({e.kind})" for e in cycle]
    return Anomaly(
        kind=name,
        checker=CHECKER,
        key="",
        witness=tuple(lines[e.first] for e in cycle),
        words="; ".join(steps) + ": a contradiction",
    )
