"""Bookkeeping of durability in one partition: promised records, destroyed copies, missing records and why each was lost.

The state of `acked_loss`, whose docstring gives the rules and why they are sound. It takes rows in order of their index.
Every promised record ends as kept, excused with its wound, lost, or unjudged.
"""

from operator import itemgetter

from checkers.engine.rows import Call, EventRow
from checkers.engine.verdict import Anomaly, Cut, ExcusedLoss, Findings
from checkers.timeline.isr_history import ISR_ROWS, IsrHistory
from checkers.timeline.replay import REPLAYED, Replicas
from checkers.timeline.wounds import NOTICE_ROWS, Sessions, Wounded
from history.event import EventKind as K
from history.promise import TopicPromise

NAME = "acked-loss"
LEDGER_ROWS = (
    *REPLAYED,
    *ISR_ROWS,
    K.HW,
    K.BECAME_LEADER,
    K.BECAME_FOLLOWER,
    *NOTICE_ROWS,
    K.UNCLEAN_ELECTION_ORDERED,
)


class _Promised:
    # A promised record: its value, the epoch in which it was committed at the latest, and the row that promised it.

    __slots__ = ("epoch", "index", "value")

    def __init__(self, value: str, epoch: int, index: int) -> None:
        self.value, self.epoch, self.index = value, epoch, index


class _Ghosts:
    """Copies of records that a fault destroyed while no broker can have noticed the loss yet."""

    __slots__ = ("entries", "together", "wound")

    def __init__(self, wound: EventRow, entries: list[tuple[int, str]]) -> None:
        self.wound, self.entries = wound, dict(entries)
        self.together = 1  # the most replicas that were wounded at a time since then


def counts_as_wound(promise: TopicPromise, detail: str | None) -> bool:
    """Whether a fault that destroyed bytes can have destroyed a copy that counts for durability (DUR-5).

    With flush=before_ack a copy counts only once it is flushed, so only a swapped directory can destroy one.
    """
    return promise.flush == "none" or detail == "swapped"


class Ledger:
    """The promised records and the replicas' copies of one partition. Takes rows in order; call `findings` after the last."""

    def __init__(self, *, topic: str, partition: int, promise: TopicPromise, by_operator: bool) -> None:
        self.topic, self.partition, self.promise, self.by_operator = topic, partition, promise, by_operator
        self.replicas = Replicas()
        self.logs_told = False  # until a broker notes something of its log, no log is known to lack anything
        self.standing = IsrHistory(promise.min_insync_replicas)
        self.sessions = Sessions()
        self.wounded = Wounded()
        self.promised: dict[int, _Promised] = {}
        self.promised_values: list[str | None] = []  # values of `promised` by offset, to compare whole logs at once
        self.contested: list[tuple[int, _Promised]] = []  # promised at an offset where another value was promised first
        self.committed = 0  # offsets below it were promised by the HW of a leader
        self.ghosts: dict[str, list[_Ghosts]] = {}
        self.destroyed: dict[tuple[int, str], int] = {}  # records whose last counted-on copy is gone -> row of the wound
        self.gone: set[tuple[int, str]] = set()  # judged already
        self.lost: set[tuple[int, str]] = set()  # the part of `gone` that a later HW of a leader does not promise again
        self.top_epoch, self.top_node, self.top_index = -1, "", -1  # the leader of the highest epoch so far
        self.top_log: list[str | None] = []  # its log when it became leader
        self.dropped_at: dict[str, int] = {}  # node -> row at which it deleted its replica
        self.following: dict[str, int] = {}  # node -> epoch of the leader it fetches from
        self.ordered: tuple[str, int] | None = None  # the replica that an operator ordered to lead, and the row of the order
        # epoch -> the row of the order that elected its leader, and that replica's log at the time
        self.elected_by_order: dict[int, tuple[int, list[str | None]]] = {}
        self.in_office: list[str | None] | None = None  # the last leader's log before it was wounded in office
        self.anomalies: list[Anomaly] = []
        self.excused: list[ExcusedLoss] = []
        self.cuts: list[Cut] = []
        self.unjudged = 0
        self.count_promised = 0

    # --- events ---------------------------------------------------------------------------------------------------------

    def see(self, row: EventRow) -> None:
        """Apply one event of a broker, ZooKeeper or the harness to the partition's promised records and copies."""
        kind = row.kind
        if kind == K.HW:
            if row.detail == "leader":
                self._commit(row.node, row.hw, row.leader_epoch, row.at)
        elif kind == K.WOUND:
            self._wound(row)
        elif kind in REPLAYED:
            self.logs_told = True
            self.replicas.replay(row)
            if kind == K.REPLICA_DELETED:
                self.dropped_at[row.node] = row.at
            if kind == K.APPEND and self.following.get(row.node) == self.top_epoch:
                self._fill_in(row.offset, row.value, row.at)
        elif kind in ISR_ROWS:
            self._elect(row)
            self.standing.see(row)
        elif kind == K.BECAME_LEADER:
            self._lead(row)
        elif kind == K.BECAME_FOLLOWER:
            self.following[row.node] = row.leader_epoch
        elif kind == K.UNCLEAN_ELECTION_ORDERED:
            self.ordered = (row.leader or "", row.at)
        else:
            self.sessions.see(row)
            if kind in (K.SESSION_ENDED, K.DIR_FAILED):
                self._notice(row.node)
        if kind in (K.REGISTERED, K.STATE_WRITTEN):
            self.wounded.see(row)

    def _commit(self, node: str, hw: int, epoch: int, index: int) -> None:
        """The leader's HW rises: what lies below it is promised."""
        if hw <= self.committed:
            return
        values = self.replicas.log(node).values
        for offset in range(self.committed, min(hw, len(values))):
            value = values[offset]
            if value is not None:
                if (offset, value) not in self.lost and not self._is_of_the_past(offset, epoch):
                    self.gone.discard((offset, value))  # it was excused, came back, and is promised once more
                self.promise_record(offset, value, epoch, index)
        if not self._is_of_the_past(hw - 1, epoch):
            self.committed = hw

    def _fill_in(self, offset: int, value: str, index: int) -> None:
        """Fill in an entry of the last leader's log that no row showed, from what a follower or consumer got from it.

        The leader found the entry on its disk at startup. Power loss may undo a truncation, so the value may differ from the
        one that was at this offset before.
        """
        log = self.replicas.log(self.top_node)
        if offset >= len(log.values) or log.values[offset] is not None:
            return
        log.values[offset] = value
        if offset in self.promised and self.promised[offset].value != value:
            how = f"{self.top_node} leads epoch {self.top_epoch} with {value} instead of"
            self._judge_missing([offset], epoch=self.top_epoch, witness=index, how=how)

    def _elect(self, row: EventRow) -> None:
        """Apply an election: if an operator ordered it, excuse the records that the elected replica lacked (DUR-7)."""
        elected = row.kind == K.STATE_WRITTEN and row.leader_epoch > self.standing.epoch
        if self.by_operator and self.ordered and elected and row.leader == self.ordered[0]:
            self.elected_by_order[row.leader_epoch] = self.ordered[1], list(self.replicas.log(row.leader).values)
            self.ordered = None

    def _wound(self, row: EventRow) -> None:
        """A fault destroys bytes: what the replica held becomes a ghost, which counts until the wound is noticed."""
        if row.node == self.top_node and self.in_office is None:
            self.in_office = list(self.replicas.log(row.node).values)
        entries = self.replicas.replay(row)
        if not counts_as_wound(self.promise, row.detail):
            return
        self.wounded.see(row)
        if entries:
            self.ghosts.setdefault(row.node, []).append(_Ghosts(row, entries))
        for ghosts in self.ghosts.values():
            for ghost in ghosts:
                ghost.together = max(ghost.together, len(self.wounded.since))
        self._notice(row.node)

    def _notice(self, node: str) -> None:
        """For each copy of the node whose loss can now be noticed, decide whether it was the last that counted (DUR-3)."""
        ghosts = self.ghosts.get(node, [])
        noticed = [g for g in ghosts if not self.sessions.hides(g.wound)]
        if not noticed:
            return
        self.ghosts[node] = [g for g in ghosts if g not in noticed]
        counted = self.standing.counted_on()
        if node not in counted:
            return
        for ghost in noticed:
            if ghost.together < self.promise.min_insync_replicas:
                continue  # DUR-4
            for offset, value in ghost.entries.items():
                if self.is_last_copy(offset, value, counted):
                    self.destroyed[(offset, value)] = ghost.wound.at

    def is_last_copy(self, offset: int, value: str, counted: tuple[str, ...]) -> bool:
        """True if no replica that counts holds the record. A destroyed copy counts as held until its loss is noticed."""
        for node in counted:
            if self.replicas.log(node).holds(offset, value):
                return False
            if any(ghost.entries.get(offset) == value for ghost in self.ghosts.get(node, ())):
                return False
        return True

    def _lead(self, row: EventRow) -> None:
        """A replica leads: what it lacks of the promised records is lost or excused."""
        epoch = row.leader_epoch
        log = self.replicas.log(row.node)
        self.following.pop(row.node, None)
        if epoch >= self.top_epoch:
            self.top_epoch, self.top_node, self.top_index, self.top_log = epoch, row.node, row.at, list(log.values)
            self.in_office = None
        for entry in [entry for entry in self.destroyed if log.holds(*entry)]:
            del self.destroyed[entry]  # this leader still has the record: the wound does not excuse a later loss
        if self.logs_told and log.values[: len(self.promised_values)] != self.promised_values:
            missing = [
                offset
                for offset, record in self.promised.items()
                if record.epoch <= epoch and not log.may_hold(offset, record.value)
            ]
            self._judge_missing(missing, epoch=epoch, witness=row.at, how=f"{row.node} leads epoch {epoch} without")
            if row.node == self.top_node:
                self._judge_contested(epoch, row.at, f"{row.node} leads epoch {epoch} without")
        self._commit(row.node, row.hw, epoch, row.at)

    # --- promises -------------------------------------------------------------------------------------------------------

    def promise_record(self, offset: int, value: str, epoch: int | None, index: int) -> None:
        """Record that the protocol promises this record from this row on."""
        if epoch is None:
            epoch = self.top_epoch
        if (offset, value) in self.gone or self._is_of_the_past(offset, epoch):
            return
        if offset in self.promised:
            self._contest_offset(offset, _Promised(value, epoch, index))
            return
        self.count_promised += 1
        self.promised[offset] = _Promised(value, epoch, index)
        lack = offset + 1 - len(self.promised_values)
        if lack > 0:
            self.promised_values.extend([None] * lack)
        self.promised_values[offset] = value
        # A later leader may have been elected already: it must have every record that is committed in an earlier epoch.
        lacked = offset >= len(self.top_log) or self.top_log[offset] not in (value, None)
        if lacked and epoch < self.top_epoch and self.logs_told:
            how = f"{self.top_node} already led epoch {self.top_epoch} without"
            self._judge_missing([offset], epoch=self.top_epoch, witness=self.top_index, how=how)

    def _contest_offset(self, offset: int, contesting: _Promised) -> None:
        """Apply a second value that is promised at an offset which already holds a promised value.

        It is lost at once if the last leader holds the first value, otherwise when a later leader lacks it.
        """
        first_promised = self.promised[offset]
        if contesting.value == first_promised.value:
            return
        self.contested.append((offset, contesting))
        if self.replicas.log(self.top_node).holds(offset, first_promised.value):
            self._judge_contested(self.top_epoch, first_promised.index, f"{self.top_node} leads epoch {self.top_epoch} without")

    def _judge_contested(self, epoch: int, witness: int, how: str) -> None:
        """Judge the contested values that the last leader lacks."""
        log = self.replicas.log(self.top_node)
        missing = [
            contest for contest in self.contested if contest[1].epoch <= epoch and not log.may_hold(contest[0], contest[1].value)
        ]
        for offset, contesting in sorted(missing, key=itemgetter(0)):
            self.contested.remove((offset, contesting))
            self.count_promised += 1
            promised_there = self.promised.get(offset)
            first = self.promised_values[offset]
            committed = self.committed
            self.promised[offset] = contesting
            self._judge_missing([offset], epoch=epoch, witness=witness, how=how)
            if promised_there is not None:
                self.promised[offset], self.promised_values[offset], self.committed = promised_there, first, committed

    def _is_of_the_past(self, offset: int, epoch: int) -> bool:
        """True if an excused loss removed this offset and the epoch is older than that loss (CUT-1)."""
        return bool(self.cuts) and any(offset >= cut.offset and epoch < cut.leader_epoch for cut in self.cuts)

    def read(self, call: Call) -> None:
        """Apply an answered poll: the records that it returned are promised, and promised records that it skipped are missing."""
        got = [(row.offset, row) for row in call.rows if row.offset is not None and row.value is not None]
        if not got:
            return
        for offset, row in got:
            assert row.value is not None
            if row.leader_epoch == self.top_epoch:
                self._fill_in(offset, row.value, row.at)
            self.promise_record(offset, row.value, row.leader_epoch, row.at)
        offsets = {offset for offset, _ in got}
        start = call.asked[0].offset
        last = max(offsets)
        if start is None or (min(offsets) >= start and last - start + 1 == len(offsets)):
            return
        passed = [
            offset
            for offset in range(start, last)
            if offset not in offsets and offset in self.promised and self.promised[offset].index < call.invoked
        ]
        how = f"process {call.process} read from {start} to {last} without"
        self._judge_missing(passed, epoch=self.top_epoch, witness=call.ended, how=how)

    # --- judgement ------------------------------------------------------------------------------------------------------

    def _judge_missing(self, missing: list[int], *, epoch: int, witness: int, how: str) -> None:
        """Classify the records missing from a log as excused, lost or unjudged, each record once."""
        lost_offsets: list[int] = []
        first_excused: int | None = None
        for offset in sorted(missing):
            value = self.promised[offset].value
            wound = self.destroyed.get((offset, value), self._order(offset, self.promised[offset], epoch))
            if wound is None:
                lost_offsets.append(offset)
                continue
            loss = ExcusedLoss(topic=self.topic, partition=self.partition, offset=offset, value=value, wound=wound)
            self.excused.append(loss)
            first_excused = offset if first_excused is None else first_excused
        cut_before = any(cut.leader_epoch == epoch and cut.offset <= (first_excused or 0) for cut in self.cuts)
        if first_excused is not None and not cut_before:
            self.cuts.append(Cut(topic=self.topic, partition=self.partition, offset=first_excused, leader_epoch=epoch))
        if lost_offsets and self.standing.index < 0:
            self.unjudged += len(lost_offsets)
        elif lost_offsets:
            self._accuse(lost_offsets, witness, how)
        self.lost.update((offset, self.promised[offset].value) for offset in lost_offsets)
        for offset in missing:
            self.gone.add((offset, self.promised.pop(offset).value))
            self.promised_values[offset] = None
            self.committed = min(self.committed, offset)

    def _order(self, offset: int, record: _Promised, epoch: int) -> int | None:
        """The row of the operator's order that elected this epoch's leader, if that replica lacked the record."""
        order, had = self.elected_by_order.get(epoch, (None, []))
        return order if record.epoch < epoch and (offset >= len(had) or had[offset] != record.value) else None

    def _accuse(self, lost_offsets: list[int], witness: int, how: str) -> None:
        """Accuse the loss of these offsets."""
        first = self.promised[lost_offsets[0]]
        and_more = f" and {len(lost_offsets) - 1} more up to offset {lost_offsets[-1]}" if len(lost_offsets) > 1 else ""
        words = f"{how} the promised record {first.value} at offset {lost_offsets[0]}{and_more}; no wound excuses it"
        key = f"{self.topic}-{self.partition}"
        rows = tuple(sorted({first.index, witness}))
        self.anomalies.append(Anomaly(kind="lost-write", checker=NAME, key=key, witness=rows, words=words))

    def findings(self) -> Findings:
        """Judge the end of the run, where the last leader must hold every promised record; return all findings."""
        log = self.replicas.log(self.top_node)
        # A wound to the leader in office is no loss yet: the run ended before a successor was elected. Nor is the deletion of a
        # leader's replica that was moved away: the run, or the partition, ended before the leader named in ZooKeeper had begun to
        # lead, which is when it would be judged.
        if self.in_office is not None:
            log.values = self.in_office
        named, standing = self.standing.leader, self.standing.epoch
        moved = named not in (None, self.top_node) and standing > self.top_epoch
        moved = moved and self.dropped_at.get(self.top_node, -1) > self.top_index
        if self.logs_told and self.top_index >= 0 and not moved:
            missing = [
                offset
                for offset, record in self.promised.items()
                if record.epoch <= self.top_epoch and not log.may_hold(offset, record.value)
            ]
            how = f"at the end the log of {self.top_node}, leader of epoch {self.top_epoch}, lacks"
            self._judge_missing(missing, epoch=self.top_epoch, witness=max(log.shrunk, self.top_index), how=how)
            self._judge_contested(self.top_epoch, max(log.shrunk, self.top_index), how)
        name = f"{self.topic}-{self.partition}"
        unchecked = (
            f"{NAME}: {self.unjudged} promised records of {name} are missing, and no ISR changes were recorded to judge them"
        )
        return Findings(
            anomalies=tuple(self.anomalies),
            excused=tuple(self.excused),
            cuts=tuple(self.cuts),
            unchecked=(unchecked,) if self.unjudged else (),
            counts={"promised": self.count_promised, "excused": len(self.excused)},
        )
