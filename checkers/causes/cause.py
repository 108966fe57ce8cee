"""The cause of a failed run in one sentence, built from the rows of the partition in which something was lost first.

The worst anomaly is told (`checkers.severity`), of several the one that was proven first. A cause is a function over the history
that recognises one way to break a promise, and names the row that did it. Where none fits, the sentence says what is known: the
rows that prove the anomaly, and who held the record last. It never guesses.
"""

import re
from collections.abc import Callable

from msgspec import Struct

from checkers.causes import clients, loss, state
from checkers.causes.lost import loss_of
from checkers.causes.origin import decision
from checkers.causes.scene import Record, Scene, scene_of
from checkers.causes.signature import first_proven, may_lead_to, nearness, of_lack, proof
from checkers.causes.silence import silence
from checkers.causes.state import Explanation
from checkers.causes.telling import Clause, clause
from checkers.causes.undone import called_for, first_lack
from checkers.control.clauses import RULES
from checkers.engine.anomalies import Harm
from checkers.engine.verdict import Anomaly, Verdict, without_count
from checkers.severity import harm, severity
from history.history import History

_LOST = (
    re.compile(r"^(?P<node>\S+) (?:leads|already led) epoch .* the promised record (?P<value>.+?) at offset (?P<offset>\d+)"),
    re.compile(r"^at the end the log of (?P<node>[^,]+), .* the promised record (?P<value>.+?) at offset (?P<offset>\d+)"),
    re.compile(r"^(?P<node>\S+) truncated (?P<value>.+) at offset (?P<offset>\d+), which was committed"),
    re.compile(r"^(?P<node>\S+) is in the ISR .*? and ends at .* at offset (?P<offset>\d+), but .* has (?P<value>\S+)"),
    re.compile(r"^(?P<node>process \d+) read from .* the promised record (?P<value>.+?) at offset (?P<offset>\d+)"),
    re.compile(r"^(?P<value>.+) was acknowledged at offset (?P<offset>\d+), and later (?P<node>.*)"),
)
_LATER = re.compile(r", and later (.*)$")


class Cause(Struct, frozen=True, kw_only=True):
    """What broke a promise. `rows` are told, `step` did it, and with `origin`, the first of `rows`, it began.

    `name` is of the library of causes; `lost` for a record of which no row tells how it went, empty for other unknown causes.
    """

    name: str
    sentence: str
    key: str  # the partition, or empty for the whole run
    words: str  # of the finding that is told: an anomaly, or what a cluster that is not live lacks
    anomaly: Anomaly | None  # None for a run that is not live
    step: int | None
    origin: int | None  # the wrong decision, or what called for a step that nobody took (checkers/causes/origin.py)
    rows: tuple[int, ...]
    facts: tuple[int, ...] = ()  # other rows, which show what the sentence says beside: an ISR, who followed whom


def cause_of(history: History, verdict: Verdict) -> Cause | None:
    """The cause of a run that is INVALID or not live; None for any other."""
    if verdict.anomalies:
        anomaly = told_first(verdict)
        scene = scene_of(history, anomaly.key, _topic_id(history, anomaly))
        explanation = _explain(scene, anomaly)
        return _cause_of(
            anomaly, explanation, anomaly.key, anomaly.words, origin=_row_of_origin(scene, verdict, anomaly, explanation)
        )
    if not verdict.not_live:
        return None
    sign = of_lack(history, first_lack(verdict.not_live))
    explanation = silence(history, sign)
    began = called_for(scene_of(history, sign.key), sign.words)
    return _cause_of(None, explanation, sign.key, sign.words, origin=explanation[2] if began is None else began)


def _row_of_origin(scene: Scene, verdict: Verdict, found: Anomaly, explanation: Explanation) -> int | None:
    """The row of the earliest wrong decision: that of what is told, or of what was proven in the partition before."""
    began = decision(scene, found, explanation[0], explanation[2])
    may_follow = [
        anomaly for anomaly in verdict.anomalies if may_lead_to(scene.history, anomaly, found) and anomaly.key == found.key
    ]
    first = first_proven([found, *may_follow])
    if first is found or not first.witness or began is None:
        return began
    name, _, step = _explain(scene, first)
    earlier = decision(scene, first, name, step)
    return began if earlier is None else min(began, earlier)


def told_first(verdict: Verdict) -> Anomaly:
    """The anomaly that a reader is told of first: of those that do the worst harm the one that was proven first."""
    return min(
        verdict.anomalies,
        key=lambda found: (
            _rank_of_harm(found),
            proof(found) is None,
            proof(found),
            nearness(found),
            severity(found.kind),
            found,
        ),
    )


def _rank_of_harm(found: Anomaly) -> int:
    """How bad the anomaly is, 1 the worst; kinds of no known harm come last."""
    return harm(found.kind) or max(Harm)


def _cause_of(anomaly: Anomaly | None, explanation: Explanation, key: str, of: str, *, origin: int | None) -> Cause:
    """Join the clauses of an explanation to one sentence, and their rows to one list, the origin first."""
    name, clauses, step = explanation
    words = [part.words for part in clauses]
    sentence = "; ".join(words[:-1]) + ("; and " if len(words) > 2 else "; " if len(words) > 1 else "") + words[-1] + "."
    began = () if origin is None else (origin,)
    rows = tuple(dict.fromkeys((*began, *(row for part in clauses for row in part.rows))))
    facts = tuple(dict.fromkeys(row for part in clauses for row in part.facts if row not in rows))
    return Cause(
        name=name, sentence=sentence, key=key, words=of, anomaly=anomaly, step=step, origin=origin, rows=rows, facts=facts
    )


def _explain(scene: Scene, anomaly: Anomaly) -> Explanation:
    """The first explanation that fits the anomaly, of those for its kind; else one by its witnesses alone."""
    for explain in (_explain_loss, *(function for kinds, function in _BY_KIND if anomaly.kind in kinds)):
        explanation = explain(scene, anomaly) if anomaly.witness else None
        if explanation is not None and explanation[0]:
            return explanation
    return _explain_by_witnesses(scene, anomaly)


def _explain_loss(scene: Scene, anomaly: Anomaly) -> Explanation | None:
    """The explanation of a lost record: which step removed it, and why nobody had it any more. None for other anomalies."""
    match = next((m for m in (pattern.search(anomaly.words) for pattern in _LOST) if m), None)
    if match is None:
        return None
    record = Record(match["value"], int(match["offset"]))
    explained = loss_of(scene, record, node=match["node"], witness=anomaly.witness)
    if explained is None:
        return None
    name, clauses, step = loss.explain(explained)
    later = _LATER.search(anomaly.words)
    if later is not None and "was acknowledged at offset" in anomaly.words:
        at = clause(scene.rows(max(anomaly.witness))[0]).words.rpartition(" at ")[2]
        loss_words = without_count(later[1]).replace("process ", "client ", 1)
        loss_words = re.sub(r" there\b", f" at offset {record.offset}", loss_words)
        clauses.append(Clause(f"{loss_words} at {at}", (max(anomaly.witness),)))
    return (name or "lost", clauses, step)


def _explain_by_witnesses(scene: Scene, anomaly: Anomaly) -> Explanation:
    """What is known where no cause fits: the anomaly in its words, and the rows that prove it."""
    rows = [row for row in map(scene.row, anomaly.witness) if row is not None]
    where = f" on {anomaly.key}" if anomaly.key and anomaly.key not in anomaly.words else ""
    clauses = [Clause(f"{anomaly.kind}{where}: {without_count(anomaly.words)}", ()), *map(clause, rows[-4:])]
    return "", clauses, proof(anomaly)


def _topic_id(history: History, anomaly: Anomaly) -> str | None:
    """The id of the topic that an anomaly is about, from its last witness that names one."""
    for index in reversed(anomaly.witness):
        row = history.row(index)
        first = row[0] if isinstance(row, tuple) else row
        if first is not None and first.topic_id is not None:
            return first.topic_id
    return None


_BY_KIND: tuple[tuple[tuple[str, ...], Callable[[Scene, Anomaly], Explanation | None]], ...] = (
    (("inconsistent-offsets", "strong-isr", "weak-isr", "uncommitted-below-hw", "log-mismatch"), state.explain_divergence),
    (("unclean-election", "empty-leader", "short-electorate", "leader-outside-isr"), state.explain_election),
    (("two-leaders", "two-elected", "two-controllers"), state.explain_two_in_one_role),
    (("hw-regressed", "hw-above-leo"), state.explain_high_watermark),
    (("unflushed",), state.explain_unflushed),
    (("deposed-controller", "unentitled-write", "epoch-regressed", "isr-outside-replicas"), state.explain_wrong_writer),
    (("fenced-commit", "fenced-append", "fenced-answer"), state.explain_fenced),
    (("wrongly-deleted", "resurrected"), state.explain_deletion),
    (tuple(kind.name for kind in RULES), state.explain_broken_rule),
    (("duplicate", "sequence-doubled"), clients.explain_second_append),
    (
        (
            "read-above-hw",
            "out-of-range",
            "latest-regressed",
            "position-regressed",
            "poll-skip",
            "misuse-acknowledged",
            "wrong-error",
        ),
        clients.explain_wrong_answer,
    ),
)
