"""The row with which a failure began: the earliest wrong decision that the rows show.

A cause tells how a promise was broken, in the order of time. Who looks for the mistake opens the code of one row first. That is
the decision: the request for an ISR and not the write that granted it, the election of a replica that lost records and not the
power loss, which no protocol decides. `checkers.causes.undone` does the same for a cluster that is not live.
"""

from collections.abc import Callable, Sequence

from checkers.causes.scene import Record, Scene
from checkers.causes.signature import proof
from checkers.engine.verdict import Anomaly
from history.event import ClusterEvent
from history.event import EventKind as K
from history.op import Operation

Row = ClusterEvent | Operation
_Rule = Callable[[Scene, Anomaly, Row], Row | None]
_ROLES = (K.BECAME_LEADER, K.BECAME_FOLLOWER)
_OF_SESSIONS = ("UNKNOWN_PRODUCER_ID", "OUT_OF_ORDER_SEQUENCE_NUMBER")  # refusals by what a log remembers of a producer


def decision(scene: Scene, anomaly: Anomaly, name: str, step: int | None) -> int | None:
    """The row of the decision behind the step that a cause names; the proof of the anomaly where no step is known."""
    if step is None or name in ("", "lost"):
        return proof(anomaly)
    row = scene.row(step)
    if row is None:
        return step
    earlier = (rule(scene, anomaly, row) for names, rule in _RULES if name in names)
    return next((row_index.index for row_index in earlier if row_index is not None), step)


def _request_for_isr(scene: Scene, anomaly: Anomaly, write: Row) -> Row | None:
    """The leader's request for the ISR that was written."""
    if not isinstance(write, ClusterEvent):
        return None
    sent = scene.last(K.ISR_CHANGE_SENT, before=write.index)
    return sent if sent is not None and set(sent.isr or ()) == set(write.isr or ()) else None


def _election_of_wounded(scene: Scene, anomaly: Anomaly, wound_row: Row) -> Row | None:
    """The election of a replica that the harness took records from: who lost them did not decide that."""
    if not isinstance(wound_row, ClusterEvent) or wound_row.kind is not K.WOUND:
        return None
    return next((row for row in scene.written if row.index > wound_row.index and row.leader == wound_row.node), None)


def _append_not_stored(scene: Scene, anomaly: Anomaly, start: Row) -> Row | None:
    """The append of the first record that a log lacks after a start, although nothing was cut from it and no bytes destroyed."""
    if not isinstance(start, ClusterEvent) or start.kind is not K.RECOVERED or start.detail is not None:
        return None
    appends_of_node = scene.of(K.APPEND, node=start.node, before=start.index)
    wound = scene.last(K.WOUND, node=start.node, before=start.index)
    return next((row for row in appends_of_node if row.offset == start.leo and (wound is None or row.index > wound.index)), None)


def _election_of_short_leader(scene: Scene, anomaly: Anomaly, cut: Row) -> Row | None:
    """The election of the leader that a replica truncated for, if this leader lacked the records as well.

    If that leader had been elected before the record was promised, it is the row with which it led again.
    """
    follows = scene.last(K.BECAME_FOLLOWER, node=cut.node, before=cut.index + 2)
    lead = None if follows is None else scene.last(K.BECAME_LEADER, node=follows.leader, before=cut.index)
    gone = next((row for row in reversed(scene.of(K.APPEND, node=cut.node, before=cut.index)) if row.offset == cut.offset), None)
    if lead is None or follows is None or lead.node is None or gone is None or lead.leader_epoch != follows.leader_epoch:
        return None
    if scene.holds(lead.node, Record(gone.value or "", gone.offset or 0), cut.index):
        return None
    elected = scene.election(lead.node, lead.leader_epoch)
    first = elected if elected is not None and elected.index > min(anomaly.witness) else lead
    return first if first.index > min(anomaly.witness) else None


def _start_of_new_log(scene: Scene, found: Anomaly, append: Row) -> Row | None:
    """The row with which a replica began with a log that had lost the record that it wrote over."""
    role = scene.last(K.BECAME_LEADER, K.BECAME_FOLLOWER, node=append.node, before=append.index)
    return role if role is not None and role.index > min(found.witness) else None


def _insufficient_truncation(scene: Scene, found: Anomaly, kept: Row) -> Row | None:
    """The truncation behind the record that a replica had to remove."""
    cut = scene.last(K.TRUNCATE, node=kept.node, before=kept.index)
    return cut if cut is not None and cut.index > min(found.witness) else None


def _truncation_taken_for_flush(scene: Scene, anomaly: Anomaly, promise: Row) -> Row | None:
    """The truncation to the offset up to which a member had flushed: what came after was taken for flushed."""
    words = anomaly.words.split()
    node = words[0]
    flushed = words[words.index("to") + 1].rstrip(",") if "to" in words else ""
    cut = scene.last(K.TRUNCATE, node=node, before=promise.index)
    return cut if cut is not None and str(cut.offset) == flushed else None


def _assignment_without_member(scene: Scene, anomaly: Anomaly, write: Row) -> Row | None:
    """The assignment without a member that was in the ISR before."""
    if anomaly.kind != "isr-outside-replicas":
        return None
    assigned_rows = [row for row in scene.here if row.kind is K.ASSIGNED and row.index < write.index]
    before = set(scene.isr(write.index))
    return assigned_rows[-1] if assigned_rows and before - set(assigned_rows[-1].replicas or ()) else None


def _start_in_old_epoch(scene: Scene, anomaly: Anomaly, write: Row) -> Row | None:
    """The row with which a leader began, if the controller epoch that it writes was over then."""
    lead = scene.last(K.BECAME_LEADER, node=write.node, before=write.index)
    if lead is None or not isinstance(write, ClusterEvent) or write.leader != write.node or write.controller_epoch is None:
        return None
    elected = scene.last(K.CONTROLLER_ELECTED, before=lead.index)
    return lead if elected is not None and (elected.controller_epoch or 0) > write.controller_epoch else None


def _order_of_deletion(scene: Scene, found: Anomaly, deletion: Row) -> Row | None:
    """The order to remove a partition of this name, which a broker carried out on the present one."""
    return scene.last(K.TOPIC_DELETED, before=deletion.index)


def _removal_of_record(scene: Scene, anomaly: Anomaly, answer: Row) -> Row | None:
    """The removal of a record that a later leadership still remembers: a produce that was parked before it is gone with it."""
    gone = scene.last(K.TRUNCATE, node=answer.node, before=answer.index)
    lead = scene.last(K.BECAME_LEADER, node=answer.node, before=answer.index)
    return gone if gone is not None and lead is not None and gone.index < lead.index else None


def _record_in_its_place(scene: Scene, anomaly: Anomaly, answer: Row) -> Row | None:
    """The record that holds the offset at which one was acknowledged that is in no log: it was taken for a retry of that one.

    None where both are of one client, which then numbered them alike itself.
    """
    if not isinstance(answer, Operation):
        return None
    appends_of_node = scene.of(K.APPEND, node=answer.node, before=answer.index)
    held = next((row for row in reversed(appends_of_node) if row.offset == answer.offset), None)
    return None if held is None or held.value in _values_produced_by(scene, answer.process) else held


def _values_produced_by(scene: Scene, process: int) -> set[str | None]:
    """The values that a client produced. Its process gets another number after a call of unknown outcome."""
    frame = scene.history.operations_frame
    clients = len(scene.history.manifest.client_places)
    own = frame["process"] % clients == process % clients if clients else frame["process"] == process
    return {*frame.filter(own & (frame["f"] == "produce"))["value"].to_list()}


def _recovery_after_swap(scene: Scene, anomaly: Anomaly, write: Row) -> Row | None:
    """The first start of the elected leader after its directory was swapped for another one."""
    if not isinstance(write, ClusterEvent) or write.leader is None:
        return None
    swaps = [row for row in scene.of(K.WOUND, node=write.leader, before=write.index) if row.detail == "swapped"]
    starts = scene.of(K.RECOVERED, node=write.leader, after=swaps[-1].index, before=write.index) if swaps else ()
    return starts[0] if starts else None


def _row_that_forgot_producer(scene: Scene, anomaly: Anomaly, answer: Row) -> Row | None:
    """The row after which a log no longer knew a producer: its truncation, else the last append of that producer."""
    if not isinstance(answer, Operation) or answer.error not in _OF_SESSIONS:
        return None
    cut = scene.last(K.TRUNCATE, K.RECOVERED, node=answer.node, before=answer.index)
    if cut is not None and cut.index > min(anomaly.witness):
        return cut
    if answer.error != "UNKNOWN_PRODUCER_ID":
        return None
    values = _values_produced_by(scene, answer.process)
    kept = [row for row in scene.of(K.APPEND, node=answer.node, before=answer.index) if row.value in values]
    return kept[-1] if kept else None


def _start_with_unreached_hw(scene: Scene, anomaly: Anomaly, moved: Row) -> Row | None:
    """The start at which a replica read a high watermark that it had never reached.

    Where the broker had deleted a replica of an earlier topic of this name, the mark is of that one, and it began with that.
    """
    start = scene.last(K.RECOVERED, node=moved.node, before=moved.index)
    if start is None or scene.of(K.HW, node=moved.node, after=start.index, before=moved.index):
        return None
    reached = [row.hw or 0 for row in scene.of(K.HW, K.RECOVERED, *_ROLES, node=moved.node, before=start.index)]
    if (start.hw or 0) <= max(reached, default=0):
        return None
    deleted = [
        row
        for row in scene.history.of_kind(K.REPLICA_DELETED)
        if (row.node, row.topic, row.partition) == (moved.node, scene.topic, scene.partition) and row.index < start.index
    ]
    return deleted[-1] if deleted else start


_RULES: Sequence[tuple[tuple[str, ...], _Rule]] = (
    (("joined-isr-too-early",), _request_for_isr),
    (("committed-below-min-isr",), _start_with_unreached_hw),
    (("lost-unflushed", "disk-emptied"), _election_of_wounded),
    (("lost-unflushed",), _append_not_stored),
    (("truncated",), _election_of_short_leader),
    (("log-begun-anew",), _start_of_new_log),
    (("diverging-log-kept",), _insufficient_truncation),
    (("promised-before-flush",), _truncation_taken_for_flush),
    (("stale-write",), _assignment_without_member),
    (("stale-write",), _start_in_old_epoch),
    (("deleted-while-it-counts",), _order_of_deletion),
    (("acknowledged-after-removal",), _removal_of_record),
    (("in-no-log",), _record_in_its_place),
    (("empty-leader",), _recovery_after_swap),
    (("wrong-error",), _row_that_forgot_producer),
)
