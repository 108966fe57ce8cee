"""The ways to lose a record: each is a function over the rows between the promise and the proof.

The first that fits tells the sentence; `CAUSES` has their order, the special before the general.
"""

from collections.abc import Callable
from itertools import pairwise

from checkers.causes.lost import TO_HW, Loss, behind, facts_of_removal, removed
from checkers.causes.telling import Clause, at, clause, indices, listed, names
from history.event import EventKind as K
from history.op import Operation

Found = tuple[str, Clause]  # the name of a cause, and the clause of the step that did it


def _read_past(loss: Loss) -> Found | None:
    """A consumer was given later records without one that its broker held: no step removed it."""
    rows = loss.scene.rows(loss.proof)
    holders = loss.scene.holders(loss.record, loss.proof)
    if not loss.node.startswith("process ") or not rows or not holders:
        return None
    nodes_read = loss.scene.replicas if rows[0].node is None else (rows[0].node,)
    if not set(nodes_read) <= set(holders):
        return None
    held = f"although {listed(holders)} held it"
    words = f"client {rows[0].process} read past offset {loss.record.offset} {at(rows[0])} without {loss.record.value}, {held}"
    return "read-past", Clause(words, (loss.proof,), loss.scene.arrivals(loss.record, holders, loss.proof))


def _late_acknowledgement(loss: Loss) -> Found | None:
    """A broker answered a produce after the record was gone: it had parked the request, and lost the leadership meanwhile."""
    row = loss.promise
    if not isinstance(row, Operation) or row.node is None or loss.scene.holders(loss.record, row.index):
        return None
    gone = [
        change.row for change in loss.scene.changes(row.node, loss.record) if not change.holds and change.row.index < row.index
    ]
    if not gone:
        return None
    removal = gone[-1]
    words = (
        f"{row.node} answered as leader of epoch {row.leader_epoch}, although it had removed {loss.record.value} before: "
        f"{clause(removal).words}"
    )
    return "acknowledged-after-removal", Clause(words, (removal.index, row.index))


def _commit_below_min_isr(loss: Loss) -> Found | None:
    """A leader committed with fewer members of the ISR than min.insync.replicas."""
    row = loss.commit
    promised = next((t for t in loss.scene.history.manifest.promise.topics if t.topic == loss.scene.topic), None)
    state = None if row is None else loss.scene.state(row.index)
    if row is None or promised is None or state is None or not state.isr or len(state.isr) >= promised.min_insync_replicas:
        return None
    needed = promised.min_insync_replicas
    value = f"{loss.record.value} (offset {loss.record.offset})"
    words = f"{row.node} moved its HW over {value} {at(row)} with ISR {names(state.isr)}, fewer than min.insync.replicas={needed}"
    return "committed-below-min-isr", Clause(words, (row.index,), indices(state))


def _second_lead_of_epoch(loss: Loss) -> Found | None:
    """A broker that had lost its log led its old epoch again: nobody had elected it anew."""
    lead, removal = loss.lead, loss.removal
    if lead is None or removal is None or (loss.election is not None and loss.election.index > removal.index):
        return None
    before = loss.scene.of(K.BECAME_LEADER, node=lead.node, before=removal.index)
    if not any(row.leader_epoch == lead.leader_epoch for row in before):
        return None
    words = f"{lead.node} led epoch {lead.leader_epoch} again {at(lead)} with LEO {lead.leo}, without a new election"
    return "led-again-without-election", Clause(words, (lead.index,))


def _truncation_to_hw(loss: Loss) -> Found | None:
    """A replica cut its log at its own high watermark, which was behind what the leader had promised (KIP-101)."""
    row = loss.removal
    if row is None or row.kind is not K.TRUNCATE or row.detail != TO_HW:
        return None
    return "truncated-to-hw", Clause(removed(loss, row), (row.index,), facts_of_removal(loss, row))


def _other_truncation(loss: Loss) -> Found | None:
    """A replica cut its log, and no cause before this one fits (`CAUSES`)."""
    row = loss.removal
    if row is None or row.kind is not K.TRUNCATE:
        return None
    return "truncated", Clause(removed(loss, row), (row.index,), facts_of_removal(loss, row))


def _destroyed_bytes(loss: Loss) -> Found | None:
    """A power loss took records that were not flushed, or a log directory was emptied."""
    row = loss.removal
    if row is None or row.kind not in (K.WOUND, K.RECOVERED):
        return None
    name = "disk-emptied" if row.detail in ("swapped", "dropped") else "lost-unflushed"
    return name, Clause(removed(loss, row), (row.index,))


def _log_begun_anew(loss: Loss) -> Found | None:
    """A replica began its log anew and wrote over the record."""
    row = loss.removal
    if row is None or row.kind not in (K.APPEND, K.REPLICA_DELETED):
        return None
    failed = loss.scene.last(K.DIR_FAILED, node=loss.node, before=row.index)
    why = "" if failed is None else f", after log directory {failed.dir} had failed {at(failed)}"
    name, anew = ("log-begun-anew", ", in a log begun anew") if row.kind is K.APPEND else ("replica-deleted", "")
    return name, Clause(f"{removed(loss, row)}{anew}{why}", (*indices(failed), row.index))


def _unclean_election(loss: Loss) -> Found | None:
    """ZooKeeper was told a leader that was not in the ISR."""
    row = loss.election
    before = None if row is None else loss.scene.state(row.index)
    if row is None or before is None or loss.node in (*(before.isr or ()), *(before.elr or ())):
        return None
    order = loss.scene.last(K.UNCLEAN_ELECTION_ORDERED, before=row.index)
    ordered = "" if order is None or order.leader != loss.node else " by order of an operator"
    lag = behind(loss, row.index)
    epoch = f"leader of epoch {row.leader_epoch}"
    words = f"{row.node} elected {loss.node} {epoch} {at(row)}{ordered} outside the ISR {names(before.isr)}"
    facts = indices(before, loss.scene.row_of_log_end(loss.node, row.index))
    return "unclean-election", Clause(f"{words}{lag}", (*indices(order if ordered else None), row.index), facts)


def _promise_of_deposed_leader(loss: Loss) -> Found | None:
    """A leader that another one had replaced still committed or acknowledged."""
    row = loss.commit or loss.promise
    lead = loss.lead
    if lead is None or row.index < lead.index or row.node is None or row.node == loss.node:
        return None
    words = f"{row.node} promised it {at(row)} in leader epoch {row.leader_epoch}, after {clause(lead).words}"
    return "stale-leader-committed", Clause(words, (lead.index, row.index))


def _join_without_record(loss: Loss) -> Found | None:
    """A replica was taken into the ISR before it had what was committed."""
    scene, removal = loss.scene, loss.removal
    first = loss.promised if removal is None else max(loss.promised, removal.index)
    for before, row in pairwise(scene.written):
        joined = loss.node in (row.isr or ()) and loss.node not in (before.isr or ()) and row.leader != loss.node
        if not joined or not first < row.index <= loss.end or scene.holds(loss.node, loss.record, row.index):
            continue
        if row.leader is None or not scene.holds(row.leader, loss.record, row.index):
            continue
        sent = scene.last(K.ISR_CHANGE_SENT, before=row.index)
        is_of_request = sent is not None and set(sent.isr or ()) == set(row.isr or ())
        request_in_words = f", as {sent.node} had asked {at(sent)}," if is_of_request and sent is not None else ""
        request = sent if request_in_words else None
        lag = behind(loss, row.index).removeprefix(":") or f" it did not have {loss.record.value}"
        words = f"{row.node} added {loss.node} to the ISR {at(row)}{request_in_words} although{lag}"
        facts = indices(scene.row_of_log_end(loss.node, row.index))
        return "joined-isr-too-early", Clause(words, (*indices(request), row.index), facts)
    return None


def _commit_without_member(loss: Loss) -> Found | None:
    """A leader moved its high watermark over a record that a member of the ISR did not have."""
    scene, row = loss.scene, loss.commit
    if row is None or row.node is None or scene.holds(loss.node, loss.record, row.index):
        return None
    state = scene.state(row.index)
    steps = scene.of(K.BECAME_LEADER, K.ISR_CHANGE_SENT, K.ISR_CHANGE_ENDED, node=row.node, before=row.index)
    known = [known_row for known_row in steps if known_row.kind is not K.ISR_CHANGE_SENT][-1:]
    if loss.node not in {node for known_row in (*known, *([state] if state else [])) for node in known_row.isr or ()}:
        return None
    change, sent = "", steps[-1]
    if sent.kind is K.ISR_CHANGE_SENT:
        counted = "already counted without" if loss.node not in (sent.isr or ()) else "did not count"
        change = f": it {counted} {loss.node} while its change to ISR {names(sent.isr)}, sent {at(sent)}, was not answered"
    value = f"{loss.record.value} (offset {loss.record.offset})"
    words = f"{row.node} moved its HW over {value} {at(row)}, although {loss.node} was in the ISR and did not have it{change}"
    return "committed-without-isr-member", Clause(words, (*((sent.index,) if change else ()), row.index), indices(state))


def _truncation_in_server_log(loss: Loss) -> Found | None:
    """The logs are unknown, but a line in the log of a broker says that it truncated, and ZooKeeper that it was elected then."""
    scene = loss.scene
    if scene.of(K.APPEND) or loss.election is None:
        return None
    cut = scene.last(K.TRUNCATE, node=loss.node, before=loss.election.index)
    if cut is None or cut.index < loss.promised:
        return None
    state = scene.state(cut.index)
    follower = "" if state is None or state.leader in (None, cut.node) else f", as a follower of {state.leader}"
    return "truncated", Clause(
        f"{cut.node} truncated its log to offset {cut.offset} {at(cut)}{follower}, as its server log says",
        (cut.index,),
        indices(state if follower else None),
    )


def _join_shown_by_truncation(loss: Loss) -> Found | None:
    """The logs are unknown, but a replica joined the ISR after the promise, and a follower truncated below the record for it."""
    cut, elected = loss.shown_by, loss.election
    if cut is None or elected is None:
        return None
    written = [row for row in loss.scene.written if loss.promised < row.index <= elected.index]
    row = next((row for row in written if loss.node in (row.isr or ())), None)
    if row is None or row.leader == loss.node:
        return None
    words = f"{row.node} added {loss.node} to the ISR {at(row)}, now {names(row.isr)}, although it lacked {loss.record.value}"
    return "joined-isr-too-early", Clause(words, (row.index,))


def _promise_without_append(loss: Loss) -> Found | None:
    """No broker noted an append of the record: the one that promised it could not write."""
    scene = loss.scene
    if not scene.of(K.APPEND) or any(scene.changes(node, loss.record) for node in scene.replicas):
        return None
    node = loss.promise.node
    failed = scene.of(K.DIR_FAILED, K.WOUND, node=node) or scene.of(K.FAULT_BEGUN, node=node, before=loss.promised)[-1:]
    why = f" ({clause(failed[0]).words})" if failed else ""
    words = f"no broker noted an append of {loss.record.value}, though {node or 'a broker'} promised it{why}"
    return "in-no-log", Clause(words, (*indices(*failed[:1]), loss.promise.index))


CAUSES: tuple[Callable[[Loss], Found | None], ...] = (
    _join_shown_by_truncation,
    _truncation_in_server_log,
    _promise_without_append,
    _read_past,
    _late_acknowledgement,
    _commit_below_min_isr,
    _second_lead_of_epoch,
    _join_without_record,
    _truncation_to_hw,
    _destroyed_bytes,
    _other_truncation,
    _log_begun_anew,
    _unclean_election,
    _promise_of_deposed_leader,
    _commit_without_member,
)
