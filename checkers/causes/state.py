"""Causes of what goes wrong before a record is lost: elections, ISRs, high watermarks, logs that differ, two leaders."""

import re
from collections.abc import Sequence

from checkers.causes.scene import Record, Scene
from checkers.causes.telling import Clause, at, clause, indices, names, number
from checkers.engine.verdict import Anomaly
from history.event import ClusterEvent
from history.event import EventKind as K

Explanation = tuple[str, list[Clause], int | None]  # the name of the cause, its clauses, the row that did it

_DIVERGED = (
    re.compile(r"^offset (?P<offset>\d+) holds (?P<value>.+) for .+ and (?P<other>.+) for (?P<node>.+?)(?: \(|$)"),
    re.compile(r"^(?P<node>\S+) is in the ISR .*? and has (?P<other>.+) at offset (?P<offset>\d+), but .* has (?P<value>\S+)"),
    re.compile(
        r"high watermark \d+ of (?P<node>\S+) covers (?P<other>.+) at offset (?P<offset>\d+), where (?P<value>.+) is committed"
    ),
)


def explain_divergence(scene: Scene, anomaly: Anomaly) -> Explanation | None:
    """Two logs hold different records at one offset, and the replica that had to truncate kept its own."""
    match = next((m for m in (pattern.search(anomaly.words) for pattern in _DIVERGED) if m), None)
    if match is None:
        return None
    offset, proof = int(match["offset"]), max(anomaly.witness)
    node = match["node"]
    own = Record(match["other"], offset)
    record_kept = Record(match["value"], offset)
    if node not in scene.replicas:
        return None
    got = [change.row for change in scene.changes(node, own) if change.holds and change.row.index < proof]
    if not got:
        return None
    leads = scene.last(K.BECAME_LEADER, node=node, before=proof)
    follows = scene.last(K.BECAME_FOLLOWER, node=node, before=proof + 1)
    if leads is not None and (follows is None or leads.index > follows.index):
        return None  # it leads by right, so the other log had to give way: the loss tells that
    return _explain_kept_log(scene, node, own, record_kept, got=got[-1], witness=anomaly.witness)


def _explain_kept_log(
    scene: Scene, node: str, own: Record, record_kept: Record, *, got: ClusterEvent, witness: tuple[int, ...]
) -> Explanation:
    """A replica kept a record that its leader does not have: in a used epoch, by not truncating, or counted too early."""
    proof = max(witness)
    author, writer = _author(scene, own), _author(scene, record_kept)
    follows = list(scene.of(K.BECAME_FOLLOWER, node=node, before=proof + 1)[-1:])
    clauses = [clause(row) for row in (got, writer, *follows) if row is not None]
    if author is not None and writer is not None and author.leader_epoch == writer.leader_epoch and author.node != writer.node:
        again = [row for row in scene.written if (row.leader, row.leader_epoch) == (writer.node, writer.leader_epoch)][:1]
        for row in again:
            words = f"{row.node} elected {row.leader} {at(row)} in epoch {row.leader_epoch}, which was the epoch of {author.node}"
            return "epoch-not-raised", _in_order_of_rows([*clauses, Clause(words, (row.index,))]), row.index
    cut = [row for row in scene.of(K.TRUNCATE, node=node, after=got.index, before=proof) if (row.offset or 0) > own.offset][-1:]
    clauses += map(clause, cut)
    grew = [
        row
        for row in scene.of(K.APPEND, node=node, after=got.index, before=proof)
        if (row.offset or 0) > own.offset and (row.leader_epoch or 0) > (got.leader_epoch or 0) and row.detail != "leader"
    ][:1]
    for row in grew:
        words = f"{node} appended {row.value} of leader epoch {row.leader_epoch} at offset {row.offset} {at(row)}"
        leader = follows[0].leader if follows else None
        held = (
            f", although {leader} holds {record_kept.value} there"
            if leader and scene.holds(leader, record_kept, row.index)
            else ""
        )
        step = Clause(f"{words}, after {own.value} at offset {own.offset}, which it never truncated{held}", (row.index,))
        return "diverging-log-kept", _in_order_of_rows([*clauses, step]), row.index
    return _explain_hw_over_divergence(scene, node, own, follows=follows, clauses=clauses, witness=sorted(witness))


def _author(scene: Scene, record: Record) -> ClusterEvent | None:
    """The append of a record by a leader."""
    return next((row for row in scene.of(K.APPEND) if (row.value, row.offset) == record and row.detail != "follower"), None)


def _explain_hw_over_divergence(
    scene: Scene, node: str, own: Record, *, follows: list[ClusterEvent], clauses: list[Clause], witness: list[int]
) -> Explanation:
    """A high watermark moved over the wrong record before the replica had cut it: a leader's that counted it, or its own.

    If neither did, the cause is that the replica kept its log.
    """
    moves = [row for row in scene.events_at(witness) if row.kind in (K.HW, K.BECAME_LEADER)]
    counting = next((row for row in moves if row.node != node and node in scene.isr(row.index)), None)
    own_move = next((row for row in moves if row.node == node), None)
    if counting is not None:
        epoch, later = follows[0].leader_epoch if follows else None, counting.leader_epoch
        is_stale = epoch is not None and later is not None and epoch < later and follows[0].index < counting.index
        why = f"which still followed in epoch {epoch} and held" if is_stale else "which had yet to truncate"
        leader = f"{counting.node}, leader of epoch {counting.leader_epoch}"
        words = f"{leader}, moved its HW to {counting.hw} {at(counting)} and counted {node}, {why} {own.value}"
        name = "stale-follower-counted" if is_stale else "hw-before-truncation"
        return name, _in_order_of_rows([*clauses, Clause(words, (counting.index,))]), counting.index
    if own_move is not None:
        words = f"{node} moved its HW to {own_move.hw} {at(own_move)}, over {own.value}, which it had yet to truncate"
        return "hw-before-truncation", _in_order_of_rows([*clauses, Clause(words, (own_move.index,))]), own_move.index
    return "diverging-log-kept", _in_order_of_rows(clauses), max(row for clause in clauses for row in clause.rows)


def _in_order_of_rows(clauses: Sequence[Clause]) -> list[Clause]:
    """The clauses by their last rows, each once."""
    return sorted(dict.fromkeys(clauses), key=lambda one: one.rows[-1])


def explain_election(scene: Scene, anomaly: Anomaly) -> Explanation | None:
    """ZooKeeper was told a leader that may not lead: outside the ISR and ELR, emptied, or of too few."""
    row = next((row for row in reversed(scene.events_at(anomaly.witness)) if row.kind is K.STATE_WRITTEN), None)
    if row is None or row.leader is None:
        return None
    before = scene.state(row.index)
    wounds = [event for event in scene.of(K.WOUND, node=row.leader, before=row.index) if event.partition is not None]
    clauses = [clause(event) for event in wounds[-1:]]
    isr = (
        "" if before is None else f", with ISR {names(before.isr)}{f' and ELR {names(before.elr)}' if before.elr else ''} before"
    )
    allowed = (*((before and before.isr) or ()), *((before and before.elr) or ()))
    outside = before is not None and row.leader not in allowed
    end = scene.log_end(row.leader, row.index)
    log = "" if end is None else f"; its log ended at {end}"
    how = " from outside" if outside else ""
    words = f"{row.node} elected {row.leader} leader of epoch {row.leader_epoch} {at(row)}{how}{isr}{log}"
    name = "unclean-election" if outside else anomaly.kind
    facts = indices(before, scene.row_of_log_end(row.leader, row.index))
    return name, [*clauses, Clause(words, (row.index,), facts)], row.index


def explain_two_in_one_role(scene: Scene, anomaly: Anomaly) -> Explanation | None:
    """Two brokers led one epoch, or were controller in one epoch."""
    rows = scene.events_at(anomaly.witness)
    if len(rows) < 2:
        return None
    first, second = rows[0], rows[-1]
    epoch = second.leader_epoch if second.leader_epoch is not None else second.controller_epoch
    words = f"{clause(second).words}, in the same epoch {epoch}"
    return anomaly.kind, [clause(first), *_clauses_between(scene, first, second), Clause(words, (second.index,))], second.index


def _clauses_between(scene: Scene, first: ClusterEvent, second: ClusterEvent) -> list[Clause]:
    """The sessions that ended between two rows: why there was a second one."""
    return [clause(row) for row in scene.of(K.SESSION_ENDED, node=first.node, after=first.index, before=second.index)[-1:]]


def explain_high_watermark(scene: Scene, anomaly: Anomaly) -> Explanation | None:
    """A high watermark fell, or rose above the log end."""
    rows = [row for row in scene.events_at(anomaly.witness) if row.kind in (K.HW, K.BECAME_LEADER)]
    if not rows:
        return None
    last = rows[-1]
    if anomaly.kind == "hw-above-leo":
        words = f"{last.node} moved its HW to {last.hw} {at(last)}, above the end {number(last.leo)} of its own log"
        before = scene.last(K.BECAME_LEADER, K.BECAME_FOLLOWER, node=last.node, before=last.index)
        return "hw-above-leo", [*([clause(before)] if before else []), Clause(words, (last.index,))], last.index
    first = rows[0]
    kinds = (K.NODE_STOPPED, K.NODE_STARTED, K.RECOVERED, K.TRUNCATE, K.BECAME_FOLLOWER, K.BECAME_LEADER, K.DIR_FAILED)
    answers = (K.ISR_CHANGE_SENT, K.ISR_CHANGE_ENDED)
    between = scene.of(*kinds, *answers, node=last.node, after=first.index, before=last.index)[-4:]
    start = f"{first.node} had HW {first.hw} {at(first)}"
    clauses = [
        Clause(start, (first.index,)),
        *map(clause, between),
        _clause_of_fallen_hw(scene, last),
    ]
    return "hw-went-back", clauses, last.index


def _clause_of_fallen_hw(scene: Scene, row: ClusterEvent) -> Clause:
    """The fall of a high watermark; for a follower also which leader told it, and the high watermark of that one."""
    fell = f"{row.node} moved its HW back to {row.hw} {at(row)}"
    follows = scene.last(K.BECAME_FOLLOWER, node=row.node, before=row.index)
    leads = scene.last(K.BECAME_LEADER, node=row.node, before=row.index)
    if follows is None or follows.leader is None or (leads is not None and leads.index > follows.index):
        return Clause(fell, (row.index,))
    noted = scene.row_of_high_watermark(follows.leader, row.index)
    clause_on_leader = f", as a follower of {follows.leader}, whose HW was {number(None if noted is None else noted.hw)}"
    return Clause(f"{fell}{clause_on_leader}", (row.index,), indices(follows, noted))


def explain_unflushed(scene: Scene, anomaly: Anomaly) -> Explanation | None:
    """A leader promised records that a replica it counted had not flushed."""
    row = scene.event(max(anomaly.witness))
    match = re.match(r"^(\S+) counts for .* and has flushed up to (\d+), but up to (\d+) is promised", anomaly.words)
    if row is None or match is None:
        return None
    node, flushed, promised = match.groups()
    words = f"{clause(row).words}: it promised up to offset {promised}, while {node} had flushed only up to {flushed}"
    return "promised-before-flush", [Clause(words, (row.index,))], row.index


def explain_wrong_writer(scene: Scene, anomaly: Anomaly) -> Explanation | None:
    """A state was written by a broker that no longer had the right to write it."""
    row = next((row for row in reversed(scene.events_at(anomaly.witness)) if row.kind is K.STATE_WRITTEN), None)
    if row is None:
        return None
    now = scene.last(K.CONTROLLER_ELECTED, before=row.index)
    before = scene.state(row.index)
    clauses = [clause(event) for event in (now, before) if event is not None]
    words = f"{clause(row).words} with controller epoch {number(row.controller_epoch)}"
    return "stale-write", _in_order_of_rows([*clauses, Clause(words, (row.index,))]), row.index


def explain_broken_rule(scene: Scene, found: Anomaly) -> Explanation | None:
    """A process broke a clause that has a rule over its turns: the row says all that is known."""
    row = next((row for row in scene.events_at(found.witness) if row.kind is K.RULE_BROKEN), None)
    return None if row is None else (found.kind, [clause(row)], row.index)


def explain_deletion(scene: Scene, anomaly: Anomaly) -> Explanation | None:
    """A replica was deleted while it counted, or came back after its deletion."""
    rows = scene.events_at(anomaly.witness)
    deleted = next((row for row in rows if row.kind is K.REPLICA_DELETED), None)
    if deleted is None:
        return None
    moves = (K.REASSIGNMENT_BEGUN, K.REASSIGNMENT_ENDED, K.TOPIC_DELETED)
    deletion_requests = scene.of(*moves, before=deleted.index)[-2:]
    state = scene.state(deleted.index)
    clauses = [clause(row) for row in (*deletion_requests, *([state] if state is not None else []))]
    if rows[-1].index == deleted.index:
        isr = scene.isr(deleted.index)
        inside = f", while it was in the ISR {names(isr)}" if deleted.node in isr else ""
        step = Clause(f"{clause(deleted).words}{inside}", (deleted.index,))
        return "deleted-while-it-counts", _in_order_of_rows([*clauses, step]), deleted.index
    again = Clause(f"{clause(rows[-1]).words}, after the deletion", (rows[-1].index,))
    return "back-after-deletion", _in_order_of_rows([*clauses, clause(deleted), again]), rows[-1].index


def explain_fenced(scene: Scene, anomaly: Anomaly) -> Explanation | None:
    """A broker that had fenced itself went on."""
    proof = max(anomaly.witness)
    row = scene.event(proof)
    node = row.node if row is not None else next((proof_row.node for proof_row in scene.rows(proof)), None)
    fence = scene.last(K.FENCED, node=node, before=proof)
    if fence is None:
        return None
    last = clause(row) if row is not None else clause(scene.rows(proof)[0])
    return "stale-leader-went-on", [clause(fence), last], proof
