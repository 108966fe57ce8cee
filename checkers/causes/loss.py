"""Tells how a promised record was lost: the promise, the step that took it from a replica, the election of that replica."""

from checkers.causes.loss_causes import CAUSES
from checkers.causes.lost import Loss, facts_of_removal, removed
from checkers.causes.scene import Scene
from checkers.causes.telling import Clause, answered, at, clause, indices, listed, names, stops
from history.event import ClusterEvent
from history.event import EventKind as K

_STOPS_MAX = 4  # clauses about brokers that stopped
_CHANGES_MAX = 3  # clauses about elections and the ISR


def explain(loss: Loss) -> tuple[str, list[Clause], int | None]:
    """The name of the cause, the clauses of its sentence in order, and the row that did it."""
    name, step = next((cause_found for cause_found in (cause(loss) for cause in CAUSES) if cause_found is not None), ("", None))
    clauses = [*_clauses_of_replicas(loss), *([] if step is None else [step])]
    removal = loss.removal
    if step is None:
        clauses += _last_change(loss)
    elif removal is not None and removal.index not in step.rows and removal.index > loss.promised:
        clauses.append(Clause(removed(loss, removal), (removal.index,), facts_of_removal(loss, removal)))
    elected = _clause_of_earlier_election(loss)
    clauses += [] if elected is None else [elected]
    clauses.sort(
        key=lambda told_clause: told_clause.rows[-1 if told_clause is step else 0]
    )  # a step comes after the request for it
    covered = {row for told_clause in clauses for row in told_clause.rows}
    if elected is not None and loss.lead is not None:
        words = f"{loss.node} led epoch {loss.lead.leader_epoch} without {loss.record.value} {at(loss.lead)}"
        clauses.append(_clause_with_holders(loss, words, loss.lead))
    elif loss.election is not None and loss.election.index > loss.promised and loss.election.index not in covered:
        clauses.append(_clause_of_election(loss))
    elif loss.lead is not None and loss.election is None and loss.lead.index not in covered:
        clauses.append(clause(loss.lead))
    if (cut := loss.shown_by) is not None:
        words = f"{cut.node} truncated its log to offset {cut.offset} {at(cut)}, as a follower of {loss.node}, as its log says"
        clauses.append(Clause(words, (cut.index,), indices(loss.scene.state(cut.index))))
    itself = step is not None and step.rows[-1] == loss.promise.index and isinstance(loss.promise, ClusterEvent)
    return name, clauses if itself else [_clause_of_promise(loss), *clauses], None if step is None else step.rows[-1]


def _clause_of_promise(loss: Loss) -> Clause:
    """What promised the record: a commit, an acknowledgement, or a read."""
    row = loss.promise
    index = loss.promised
    state = loss.scene.state(index)
    isr = "" if state is None else f" with ISR {names(state.isr)}"
    value = loss.record.value
    if isinstance(row, ClusterEvent):
        words = f"{value} was committed at offset {loss.record.offset} by {row.node} {at(row)}{isr}"
    elif row.f == "produce":
        words = f"{value} (offset {loss.record.offset}) was acknowledged {at(row)}{isr}"
    else:
        words = f"{answered(row)} {at(row)}{isr}"
    return Clause(words, (row.index,), indices(state))


def _clauses_of_replicas(loss: Loss) -> list[Clause]:
    """Who of the replicas stopped and came back between the promise and the election, and how the ISR shrank."""
    scene, first = loss.scene, loss.promised
    removal = loss.removal
    last = loss.end if loss.election is None else max(loss.election.index, removal.index if removal is not None else -1)
    replicas = scene.replicas
    stopped = [
        row
        for row in scene.of(K.NODE_STOPPED, after=first, before=last)
        if row.node in replicas and not (removal is not None and removal.kind is K.WOUND and _same_moment(row, removal))
    ]
    clauses = stops(stopped)[-_STOPS_MAX:]
    back = [row for row in scene.of(K.NODE_STARTED, node=loss.node, after=first, before=last) if (row.life or 2) > 1]
    clauses += [Clause(f"{loss.node} came back {at(row)}", (row.index,)) for row in back[-1:]]
    return clauses + _clauses_of_state_changes(scene, first, last, but=loss.node)


def _same_moment(row: ClusterEvent, other: ClusterEvent) -> bool:
    return row.node == other.node and abs(row.time_ns - other.time_ns) < 100_000_000


def _clauses_of_state_changes(scene: Scene, first: int, last: int, *, but: str) -> list[Clause]:
    """The elections of other brokers between two rows, and the last shrinking of the ISR."""
    clauses = []
    before = scene.state(first)
    shrunk = None
    for row in scene.written:
        if first < row.index < last:
            anew = before is not None and row.leader not in (before.leader, None)
            if anew and row.leader != but:
                words = f"{row.leader} was elected leader of epoch {row.leader_epoch} with ISR {names(row.isr)} {at(row)}"
                clauses.append(Clause(words, (row.index,)))
            elif not anew and before is not None and set(row.isr or ()) < set(before.isr or ()):
                shrunk = row
            before = row
    if shrunk is not None:
        clauses.append(Clause(f"the ISR shrank to {names(shrunk.isr)} {at(shrunk)}", (shrunk.index,)))
    return clauses[-_CHANGES_MAX:]


def _clause_of_election(loss: Loss) -> Clause:
    """The election of the replica that lacked the record, and where the record still was."""
    row = loss.election
    assert row is not None
    words = f"{loss.node} was elected leader of epoch {row.leader_epoch} without {loss.record.value} {at(row)}"
    return _clause_with_holders(loss, words, row)


def _clause_of_earlier_election(loss: Loss) -> Clause | None:
    """The election of a replica that still had the record then and lost it before it began to lead."""
    row, removal = loss.election, loss.removal
    if row is None or removal is None or not loss.promised < row.index < removal.index:
        return None
    return Clause(f"{loss.node} was elected leader of epoch {row.leader_epoch} {at(row)}", (row.index,))


def _clause_with_holders(loss: Loss, words: str, row: ClusterEvent) -> Clause:
    """A clause about a row, with the other replicas that held the record then: those that were up, else those that were down."""
    scene, record = loss.scene, loss.record
    holders = [node for node in scene.holders(record, row.index) if node != loss.node]
    up = [node for node in holders if scene.runs(node, row.index)]
    still = f", although {listed(up)} still held it" if up else ""
    if holders and not up:
        still = f", while {listed(holders)}, which held it, {'was' if len(holders) == 1 else 'were'} down"
    return Clause(f"{words}{still}", (row.index,), scene.arrivals(record, up or holders, row.index))


def _last_change(loss: Loss) -> list[Clause]:
    """What is known where no cause fits: who held the record last."""
    scene = loss.scene
    last = [change for node in scene.replicas for change in scene.changes(node, loss.record) if change.row.index <= loss.proof]
    if not last:
        return []
    changed = max(last, key=lambda change: change.row.index)
    holders = scene.holders(loss.record, loss.proof + 1)
    holders_in_words = f"{listed(holders)} held it at the end" if holders else "no replica held it at the end"
    words = f"{clause(changed.row).words}: {holders_in_words}; which step removed it is not known"
    return [Clause(words, (changed.row.index,), scene.arrivals(loss.record, holders, loss.proof + 1))]
