"""Causes of a cluster that is not live: who did not answer, what was refused last, what stands since when."""

import re

from checkers.causes.scene import Scene, scene_of
from checkers.causes.signature import Signature
from checkers.causes.state import Explanation
from checkers.causes.telling import Clause, at, clause, names, number
from history.event import EventKind as K
from history.history import History

_NAMING_ROWS = ("advance", "brokers", "clients", "demotions", "laggards", "metadata", "promptness")  # their words name the rows


def silence(history: History, found: Signature) -> Explanation:
    """The state that stands, and the last step of those that had to change it."""
    scene = scene_of(history, found.key)
    node = next((word for word in re.findall(r"\w+", found.words) if word in history.manifest.brokers), None)
    head = Clause(f"not live: {found.words}", ())
    if found.checker in _NAMING_ROWS:
        named = [scene.row(int(index)) for index in re.findall(r"\brow (\d+)", found.words)]
        return _explanation_of_parts(head, [clause(row) for row in named if row is not None])
    if "is not registered" in found.words or "controller" in found.words:
        rows = [
            *scene.of(K.SESSION_ENDED, K.REGISTERED, node=node)[-2:],
            *scene.of(K.CONTROLLER_ELECTED, K.CONTROLLER_RESIGNED)[-2:],
        ]
        return _explanation_of_parts(head, [clause(row) for row in sorted(rows, key=lambda row: row.index)])
    state = scene.written[-1] if scene.written else None
    parts = []
    if state is not None:
        words = f"leader {state.leader or 'none'}, leader epoch {state.leader_epoch}, ISR {names(state.isr)}"
        parts.append(
            Clause(f"since {at(state).removeprefix('at ')} ZooKeeper had {words}, written by {state.node}", (state.index,))
        )
    if "the ISR" in found.words and node is not None:
        return _explanation_of_parts(head, [*parts, *_out_of_the_isr(scene, node)])
    role = scene.last(K.BECAME_LEADER, K.BECAME_FOLLOWER, K.RESIGNED, node=node) if node is not None else None
    if role is not None:
        restart = scene.of(K.NODE_STOPPED, K.NODE_STARTED, node=node, after=role.index)[-2:]
        parts += map(clause, (role, *restart))
    if "/admin" in found.words or "moved" in found.words:
        moves = (K.REASSIGNMENT_BEGUN, K.REASSIGNMENT_ENDED, K.REASSIGNMENT_REFUSED, K.REQUEST_REFUSED, K.CONTROLLER_ELECTED)
        asked = scene.of(*moves) if scene.key else history.of_kind(*moves)
        parts += map(clause, asked[-3:])
    # The first command that was lost since then; a controller repeats what is not answered.
    told = max((row for part in parts for row in part.rows), default=-1)
    unanswered = [row for row in scene.of(K.COMMAND_UNANSWERED) if node is None or row.broker == node]
    parts += [clause(row) for row in ([row for row in unanswered if row.index > told] or unanswered[-1:])[:1]]
    if state is not None and state.leader is None:
        parts += [clause(row) for row in scene.of(K.WOUND, K.NODE_STOPPED, K.SESSION_ENDED, before=state.index)[-2:]]
    return _explanation_of_parts(head, parts)


def _out_of_the_isr(scene: Scene, node: str) -> list[Clause]:
    """How a replica left the ISR, and what became of the leader's requests to take it in again."""
    out = [row for row in scene.written[:-1] if node in (row.isr or ())]
    left = next((row for row in scene.written if out and row.index > out[-1].index), None)
    parts = [] if left is None else [Clause(f"{node} left the ISR {at(left)}, by a write of {left.node}", (left.index,))]
    leader = scene.written[-1].leader if scene.written else None
    asked = [row for row in scene.of(K.ISR_CHANGE_SENT, node=leader) if node in (row.isr or ())]
    ended = [row for row in scene.of(K.ISR_CHANGE_ENDED, node=leader) if asked and row.index > asked[-1].index]
    if asked and ended and ended[0].detail != "applied":
        words = f"{leader} asked to add it {at(asked[-1])} with version {number(asked[-1].zk_version)}: {ended[0].detail}"
        parts.append(Clause(words, (asked[-1].index, ended[0].index)))
    elif not asked:
        refused = [row for row in scene.of(K.ISR_CHANGE_ENDED, node=leader) if row.detail == "refused"][-1:]
        parts += [Clause(f"{leader} never asked to add it", ()), *map(clause, refused)]
    end, longest = scene.log_end(node, 1 << 62), scene.log_end(leader or "", 1 << 62)
    if end is not None and longest is not None:
        parts.append(Clause(f"at the end its log ended at {end}, that of leader {leader} at {longest}", ()))
    return parts


def _explanation_of_parts(head: Clause, parts: list[Clause]) -> Explanation:
    """The explanation by these clauses; its step is the last row that they name."""
    rows = [row for part in parts for row in part.rows]
    return "not-live", [head, *parts], max(rows, default=None)
