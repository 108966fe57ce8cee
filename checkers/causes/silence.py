"""Causes of a cluster that is not live: who did not answer, what was refused last, what stands since when."""

import re

from checkers.causes.scene import Scene, scene_of
from checkers.causes.signature import Signature
from checkers.causes.state import Explanation
from checkers.causes.telling import Clause, at, clause, names, number
from history.event import EventKind as K
from history.history import History

_NAMING_ROWS = ("advance", "brokers", "clients", "demotions", "laggards", "metadata", "promptness")  # their words name the rows


def silence(history: History, signature: Signature) -> Explanation:
    """The state that stands, and the last step of those that had to change it."""
    scene = scene_of(history, signature.key)
    node = next((word for word in re.findall(r"\w+", signature.words) if word in history.manifest.brokers), None)
    head = Clause(f"not live: {signature.words}", ())
    if signature.checker in _NAMING_ROWS:
        named = [scene.row(int(index)) for index in re.findall(r"\brow (\d+)", signature.words)]
        return _explanation_of_parts(head, [clause(row) for row in named if row is not None])
    if "is not registered" in signature.words or "controller" in signature.words:
        rows = [
            *scene.of(K.SESSION_ENDED, K.REGISTERED, node=node)[-2:],
            *scene.of(K.CONTROLLER_ELECTED, K.CONTROLLER_RESIGNED)[-2:],
        ]
        return _explanation_of_parts(head, [clause(row) for row in sorted(rows, key=lambda row: row.index)])
    state = scene.written[-1] if scene.written else None
    clauses = []
    if state is not None:
        words = f"leader {state.leader or 'none'}, leader epoch {state.leader_epoch}, ISR {names(state.isr)}"
        clauses.append(
            Clause(f"since {at(state).removeprefix('at ')} ZooKeeper had {words}, written by {state.node}", (state.index,))
        )
    if "the ISR" in signature.words and node is not None:
        return _explanation_of_parts(head, [*clauses, *_out_of_the_isr(scene, node)])
    role = scene.last(K.BECAME_LEADER, K.BECAME_FOLLOWER, K.RESIGNED, node=node) if node is not None else None
    if role is not None:
        restart = scene.of(K.NODE_STOPPED, K.NODE_STARTED, node=node, after=role.index)[-2:]
        clauses += map(clause, (role, *restart))
    if "/admin" in signature.words or "moved" in signature.words:
        moves = (K.REASSIGNMENT_BEGUN, K.REASSIGNMENT_ENDED, K.REASSIGNMENT_REFUSED, K.REQUEST_REFUSED, K.CONTROLLER_ELECTED)
        move_rows = scene.of(*moves) if scene.key else history.of_kind(*moves)
        clauses += map(clause, move_rows[-3:])
    # The first command that was lost since then; a controller repeats what is not answered.
    last_row_told = max((row for part in clauses for row in part.rows), default=-1)
    unanswered = [row for row in scene.of(K.COMMAND_UNANSWERED) if node is None or row.broker == node]
    clauses += [clause(row) for row in ([row for row in unanswered if row.index > last_row_told] or unanswered[-1:])[:1]]
    if state is not None and state.leader is None:
        clauses += [clause(row) for row in scene.of(K.WOUND, K.NODE_STOPPED, K.SESSION_ENDED, before=state.index)[-2:]]
    return _explanation_of_parts(head, clauses)


def _out_of_the_isr(scene: Scene, node: str) -> list[Clause]:
    """How a replica left the ISR, and what became of the leader's requests to take it in again."""
    out = [row for row in scene.written[:-1] if node in (row.isr or ())]
    left = next((row for row in scene.written if out and row.index > out[-1].index), None)
    clauses = [] if left is None else [Clause(f"{node} left the ISR {at(left)}, by a write of {left.node}", (left.index,))]
    leader = scene.written[-1].leader if scene.written else None
    change_requests = [row for row in scene.of(K.ISR_CHANGE_SENT, node=leader) if node in (row.isr or ())]
    ended = [
        row for row in scene.of(K.ISR_CHANGE_ENDED, node=leader) if change_requests and row.index > change_requests[-1].index
    ]
    if change_requests and ended and ended[0].detail != "applied":
        last_request = change_requests[-1]
        words = f"{leader} asked to add it {at(last_request)} with version {number(last_request.zk_version)}: {ended[0].detail}"
        clauses.append(Clause(words, (last_request.index, ended[0].index)))
    elif not change_requests:
        refused_changes = [row for row in scene.of(K.ISR_CHANGE_ENDED, node=leader) if row.detail == "refused"][-1:]
        clauses += [Clause(f"{leader} never asked to add it", ()), *map(clause, refused_changes)]
    end, longest = scene.log_end(node, 1 << 62), scene.log_end(leader or "", 1 << 62)
    if end is not None and longest is not None:
        clauses.append(Clause(f"at the end its log ended at {end}, that of leader {leader} at {longest}", ()))
    return clauses


def _explanation_of_parts(head: Clause, parts: list[Clause]) -> Explanation:
    """The explanation by these clauses; its step is the last row that they name."""
    rows = [row for part in parts for row in part.rows]
    return "not-live", [head, *parts], max(rows, default=None)
