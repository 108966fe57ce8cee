"""Causes of what clients saw: duplicates, reads above the high watermark, ends that went back."""

import re

from checkers.causes.scene import Scene
from checkers.causes.state import Explanation
from checkers.causes.telling import Clause, answered, at, clause, indices
from checkers.engine.verdict import Anomaly, without_count
from history.event import EventKind as K
from history.op import Operation, OpType

_RULED = ("misuse-acknowledged", "wrong-error", "poll-skip", "position-regressed")  # the rows alone do not say what is wrong
_TWICE = re.compile(r"(?P<value>\S+)(?: of an idempotent producer)?(?: is)? at offsets (?P<first>\d+) and (?P<second>\d+)")


def explain_second_append(scene: Scene, anomaly: Anomaly) -> Explanation | None:
    """A produce was sent again, and a leader appended its record a second time."""
    match = _TWICE.search(anomaly.words)
    if match is None:
        return None
    value = match["value"]
    places = (int(match["first"]), int(match["second"]))
    rows = [row for row in scene.of(K.APPEND) if row.value == value and row.offset in places and row.detail != "follower"]
    firsts = [next((row for row in rows if row.offset == offset), None) for offset in places]
    clauses = [clause(row) for row in firsts if row is not None]
    ended = [row for row in _rows_of_produces(scene, value) if row.type is not OpType.INVOKE][:1]
    clauses += [Clause(f"{_answer_and_attempts(row)} {at(row)}", (row.index,)) for row in ended]
    if not clauses:
        return None
    if firsts[1] is None:
        return "duplicate-by-retry", clauses, None
    again = f"{clause(firsts[1]).words}, a second time"
    clauses = [part for part in clauses if part.rows != (firsts[1].index,)]
    clauses.append(Clause(again, (firsts[1].index,)))
    return "duplicate-by-retry", sorted(clauses, key=lambda explained: explained.rows[-1]), firsts[1].index


def _answer_and_attempts(row: Operation) -> str:
    """What a client was told of its call, and after how many attempts if there were several."""
    times = f", after {row.attempts} attempts" if row.attempts and row.attempts > 1 else ""
    return f"{answered(row)}{times}"


def _rows_of_produces(scene: Scene, value: str) -> list[Operation]:
    """The rows of the produces that sent a value, in the order of index."""
    frame = scene.history.operations_frame
    indices = frame.filter((frame["value"] == value) & (frame["f"] == "produce"))["index"].to_list()
    return [row for index in indices for row in scene.rows(index) if row.value == value]


def explain_wrong_answer(scene: Scene, anomaly: Anomaly) -> Explanation | None:
    """A broker gave a client an answer that its log and high watermark do not allow."""
    answers = [scene.rows(index) for index in sorted(anomaly.witness)]
    rows_given = [_row_shown(rows, anomaly) for rows in answers if rows]
    if not rows_given:
        return None
    last = rows_given[-1]
    clauses = [Clause(f"{answered(row)} {at(row)}", (row.index,)) for row in rows_given]
    node = last.node
    if node is not None:
        leader_row = scene.last(K.BECAME_LEADER, node=node, before=last.index)
        clauses += [clause(leader_row)] if leader_row is not None else []
        hw, end = scene.high_watermark(node, last.index), scene.log_end(node, last.index)
        if hw is not None:
            clauses[len(rows_given) - 1] = Clause(
                f"{clauses[len(rows_given) - 1].words}, while its HW was {hw} and its log ended at {end}",
                (last.index,),
                indices(scene.row_of_high_watermark(node, last.index), scene.row_of_log_end(node, last.index)),
            )
    clauses.sort(key=lambda explained: explained.rows[-1])
    if anomaly.kind in _RULED:
        clauses.insert(0, Clause(without_count(anomaly.words), ()))
    return anomaly.kind, clauses, last.index


def _row_shown(rows: tuple[Operation, ...], found: Anomaly) -> Operation:
    """The row of an answer that the anomaly speaks of: that of the offset or value in its words."""
    words = re.split(r"[^\w.-]+", found.words)
    return next((row for row in rows if row.value in words or str(row.offset) in words), rows[0])
