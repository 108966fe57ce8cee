"""A promised record that was lost: what promised it, which replica lacks it, with which row that replica lost it."""

from dataclasses import dataclass

from checkers.causes.scene import Record, Scene
from checkers.causes.telling import at, indices, number
from history.event import ClusterEvent
from history.event import EventKind as K
from history.op import Operation

TO_HW = "to its high watermark"


@dataclass(frozen=True)
class Loss:
    """A promised record, and the replica that leads or answers without it."""

    scene: Scene
    record: Record
    promise: Operation | ClusterEvent  # the answer that promised it to a client, else the high watermark that covered it
    commit: ClusterEvent | None  # the high watermark of a leader that covered it; None where no row tells it
    node: str
    proof: int  # the row that proves it
    lead: ClusterEvent | None  # the row with which that broker began to lead without the record
    election: ClusterEvent | None  # the write to ZooKeeper before it
    shown_by: ClusterEvent | None = None  # where no log is seen: the truncation of a follower that shows that `node` lacked it

    @property
    def end(self) -> int:
        """The row up to which the replica is looked at: its election in the log, else the proof."""
        return self.proof if self.lead is None else self.lead.index

    @property
    def promised(self) -> int:
        """The first row by which the record was promised."""
        return self.promise.index if self.commit is None else min(self.promise.index, self.commit.index)

    @property
    def removal(self) -> ClusterEvent | None:
        """The row with which the replica last lost the record; None if it never held it, or holds it."""
        changes = [one for one in self.scene.changes(self.node, self.record) if one.row.index <= self.end]
        return changes[-1].row if changes and not changes[-1].holds else None


def loss_of(scene: Scene, record: Record, *, node: str, witness: tuple[int, ...]) -> Loss | None:
    """The loss of a record at a broker, as an anomaly with these witnesses proves it; None where nothing promised the record."""
    proof = max(witness)
    events = [event for event in map(scene.event, witness) if event is not None]
    commit = next((event for event in events if event.kind is K.HW), None) or _first_commit(scene, record)
    acknowledged, read = scene.answers(record, "produce"), scene.answers(record, "poll")
    promise = next(iter((*acknowledged, *((commit,) if commit else ()), *read)), None)
    if promise is None:
        return None
    if not scene.of(K.APPEND):
        return _loss_by_log_lines(scene, record, promise, node=node, proof=proof)
    lead = next((event for event in events if event.kind is K.BECAME_LEADER and event.node == node), None)
    if lead is None and (last := scene.event(proof)) is not None and last.kind is not K.BECAME_LEADER:
        after = scene.of(K.BECAME_LEADER, node=node, after=proof)
        # It may have fetched the record again before it led.
        without = bool(after) and last.kind is K.TRUNCATE and not scene.holds(node, record, after[0].index)
        lead = after[0] if without else None
    election = None if lead is None else scene.election(node, lead.leader_epoch)
    return Loss(scene=scene, record=record, promise=promise, commit=commit, node=node, proof=proof, lead=lead, election=election)


def _loss_by_log_lines(scene: Scene, record: Record, promise: Operation | ClusterEvent, *, node: str, proof: int) -> Loss:
    """The loss where no row tells what the logs held, by the first truncation at or below the record.

    The follower that truncated may lead later. Or its leader lacked the record: one that joined the ISR after the promise.
    """
    election: ClusterEvent | None = None
    shown_by: ClusterEvent | None = None
    members = scene.isr(promise.index)
    for cut in scene.of(K.TRUNCATE, after=promise.index, before=proof):
        if (cut.offset or 0) > record.offset:
            continue
        state = scene.state(cut.index)
        leader_row = (
            None if state is None or state.leader in (cut.node, None) else scene.election(state.leader or "", state.leader_epoch)
        )
        if leader_row is not None and leader_row.index > promise.index and leader_row.leader not in members:
            node, election, shown_by = leader_row.leader or node, leader_row, cut
            break
        won = next((row for row in scene.written if row.index > cut.index and row.leader == cut.node), None)
        if won is not None and won.index < proof:
            node, election = cut.node or node, won
            break
    return Loss(
        scene=scene,
        record=record,
        promise=promise,
        commit=None,
        node=node,
        proof=proof,
        lead=None,
        election=election,
        shown_by=shown_by,
    )


def _first_commit(scene: Scene, record: Record) -> ClusterEvent | None:
    """The first row in which a leader that held the record raised its HW above it."""
    rows = (row for row in scene.of(K.HW, K.BECAME_LEADER) if row.hw is not None and row.hw > record.offset)
    return next((row for row in rows if row.detail != "follower" and scene.holds(row.node or "", record, row.index)), None)


def removed(loss: Loss, row: ClusterEvent) -> str:
    """How a row took the record from a replica."""
    value = loss.record.value
    match row.kind:
        case K.TRUNCATE if row.detail == TO_HW:
            stored = _stored_hw(loss, row)
            kind = "checkpointed HW" if stored is not None and stored.kind is K.RECOVERED else "HW"
            after = _followed_at(loss, row)
            when = "" if after is None else f", as a follower of {after.leader} in epoch {number(after.leader_epoch)}"
            return f"{row.node} truncated its log to its {kind} {row.offset} {at(row)}{when}"
        case K.TRUNCATE:
            followed = _followed_at(loss, row)
            by = "" if followed is None else f" as a follower of {followed.leader} in epoch {number(followed.leader_epoch)}"
            return f"{row.node} truncated its log to offset {row.offset}, {row.detail or 'no reason given'},{by} {at(row)}"
        case K.WOUND if row.detail in ("swapped", "dropped"):
            return f"the log directory of {row.node} was replaced by an empty one {at(row)}"
        case K.WOUND:
            return f"the power loss of {row.node} {at(row)} took {value}, which was not flushed"
        case K.RECOVERED:
            return f"{row.node} found its log without {value} on its disk {at(row)} (LEO {row.leo})"
        case K.APPEND:
            return f"{row.node} appended {row.value} at offset {row.offset}, where it had held {value}, {at(row)}"
        case _:
            return f"{row.node} deleted its replica {at(row)}"


def facts_of_removal(loss: Loss, row: ClusterEvent) -> tuple[int, ...]:
    """The rows that show what the words about a truncation take from elsewhere: its high watermark, and whom it followed."""
    if row.kind is not K.TRUNCATE:
        return ()
    return indices(_stored_hw(loss, row) if row.detail == TO_HW else None, _followed_at(loss, row))


def _stored_hw(loss: Loss, cut: ClusterEvent) -> ClusterEvent | None:
    """The row with which a replica got the high watermark that it had when it truncated."""
    return loss.scene.last(K.RECOVERED, K.HW, node=cut.node, before=cut.index)


def _followed_at(loss: Loss, cut: ClusterEvent) -> ClusterEvent | None:
    """The row with which a replica began to follow the leader for which it truncated; None where there is none.

    A broker that truncates to its high watermark may do so before it notes its role.
    """
    role = loss.scene.last(K.BECAME_FOLLOWER, node=cut.node, before=cut.index + (2 if cut.detail == TO_HW else 1))
    return None if role is None or role.leader in (None, cut.node) else role


def behind(loss: Loss, index: int) -> str:
    """Where the log of the replica ended right before a row, and where the record is; empty where no row tells it."""
    end = loss.scene.log_end(loss.node, index)
    if end is None:
        return ""
    record = loss.record
    where = f"and {record.value} is at offset {record.offset}" if end <= record.offset else f"without {record.value}"
    return f": the log of {loss.node} ended at {end}, {where}"
