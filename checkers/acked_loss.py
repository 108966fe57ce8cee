"""Durability: every promised record stays, unless the laboratory destroyed the last copy that counted (docs/promise.md §1, §2).

One pass over one partition keeps the ledger. A record is promised from the first of: acknowledged under acks=all, below the
HW of a leader, returned to a consumer. It is missing when a leader of a later epoch starts without it, when the last
leader's log ends without it, or when a consumer reads past it. A missing record is

* excused, if at the moment a wound was noticed the wounded replica was counted on and no counted-on replica held the record
  any more (P3), or if an operator ordered the election of a replica that lacked it (P7);
* otherwise lost by the protocol: `lost-write`, whatever wounds came before or after (P2, P3);
* unjudged, where the history has no ISR changes to tell the two apart (N1).

Why it is sound: a record committed in epoch T is in the log of every leader of an epoch above T, so a leader is held only to
what was promised in epochs up to its own; a deposed leader that speaks late is accused of nothing. A destroyed copy counts as
held until its wound is noticed. Copies that the rows do not show neither accuse nor excuse.
"""

from operator import itemgetter

import polars as pl

from checkers.checker import PARTITION, Checker, Facts, partition_of, promised
from checkers.isr_history import ISR_ROWS, IsrHistory
from checkers.replay import REPLAYED, Replicas
from checkers.rows import Call, EventRow, calls, event_rows, operation_rows
from checkers.verdict import Anomaly, Cut, ExcusedLoss, Findings
from checkers.wounds import Sessions
from history.event import EventKind as K
from history.promise import TopicPromise

NAME = "acked-loss"


class _Promised:
    """A record that must stay: since when, and in which epoch it was committed at the latest."""

    __slots__ = ("epoch", "index", "value")

    def __init__(self, value: str, epoch: int, index: int) -> None:
        self.value, self.epoch, self.index = value, epoch, index


class _Ghosts:
    """Copies that a wound destroyed and that nobody can know to be gone yet."""

    __slots__ = ("entries", "wound")

    def __init__(self, wound: EventRow, entries: list[tuple[int, str]]) -> None:
        self.wound, self.entries = wound, dict(entries)


def counts_as_wound(promise: TopicPromise, detail: str | None) -> bool:
    """P5: with flush=before_ack a copy counts only once it is flushed, so only a swapped directory destroys one."""
    return promise.flush == "none" or detail == "swapped"


class Ledger:
    """One pass over the rows of one partition, told in order of their index; `findings` after the last."""

    def __init__(self, *, topic: str, partition: int, promise: TopicPromise, by_operator: bool) -> None:
        self.topic, self.partition, self.promise, self.by_operator = topic, partition, promise, by_operator
        self.replicas = Replicas()
        self.logs_told = False  # no broker spoke of its log: nobody lacks anything that we know of
        self.standing = IsrHistory(promise.min_insync_replicas)
        self.sessions = Sessions()
        self.promised: dict[int, _Promised] = {}
        self.promised_values: list[str | None] = []  # the same by offset, to compare whole logs at once
        self.committed = 0  # offsets below were promised by the HW of a leader
        self.ghosts: dict[str, list[_Ghosts]] = {}
        self.destroyed: dict[tuple[int, str], int] = {}  # the last counted-on copy is gone -> index of the wound
        self.gone: set[tuple[int, str]] = set()  # judged already
        self.top_epoch, self.top_node, self.top_index = -1, "", -1  # the leader of the highest epoch so far
        self.top_log: list[str | None] = []  # as it was when it became leader
        self.wounded_at: dict[str, int] = {}
        self.ordered: tuple[str, int] | None = None
        self.anomalies: list[Anomaly] = []
        self.excused: list[ExcusedLoss] = []
        self.cuts: list[Cut] = []
        self.unjudged = 0
        self.count_promised = 0

    # --- events ---------------------------------------------------------------------------------------------------------

    def see(self, row: EventRow) -> None:
        """Apply one event."""
        kind = row.kind
        if kind == K.HW:
            if row.detail == "leader":
                self._commit(row.node, row.hw, row.leader_epoch, row.at)
        elif kind == K.WOUND:
            self._wound(row)
        elif kind in REPLAYED:
            self.logs_told = True
            self.replicas.replay(row)
        elif kind in ISR_ROWS:
            self.standing.see(row)
        elif kind == K.BECAME_LEADER:
            self._lead(row)
        elif kind == K.UNCLEAN_ELECTION_ORDERED:
            self.ordered = (row.leader or "", row.at)
        else:
            self.sessions.see(row)
            if kind == K.SESSION_ENDED:
                self._notice(row.node)

    def _commit(self, node: str, hw: int, epoch: int, index: int) -> None:
        if hw <= self.committed:
            return
        values = self.replicas.log(node).values
        for offset in range(self.committed, min(hw, len(values))):
            value = values[offset]
            if value is not None:
                self.promise_record(offset, value, epoch, index)
        if not self._of_the_past(hw - 1, epoch):
            self.committed = hw

    def _wound(self, row: EventRow) -> None:
        entries = self.replicas.replay(row)
        self.wounded_at[row.node] = row.at
        if entries and counts_as_wound(self.promise, row.detail):
            self.ghosts.setdefault(row.node, []).append(_Ghosts(row, entries))
            self._notice(row.node)

    def _notice(self, node: str, *, at_end: bool = False) -> None:
        """Decide for each copy whose loss can be known from now on whether it was the last that counted (P3)."""
        ghosts = self.ghosts.get(node, [])
        noticed = [g for g in ghosts if at_end or not self.sessions.lasts(node, g.wound.incarnation)]
        if not noticed:
            return
        self.ghosts[node] = [g for g in ghosts if g not in noticed]
        counted = self.standing.counted_on()
        if node not in counted:
            return
        for ghost in noticed:
            for offset, value in ghost.entries.items():
                if self.is_last_copy(offset, value, counted):
                    self.destroyed[(offset, value)] = ghost.wound.at

    def is_last_copy(self, offset: int, value: str, counted: tuple[str, ...]) -> bool:
        """No counted-on replica holds the record; a copy that is destroyed but not noticed counts as held."""
        for node in counted:
            if self.replicas.log(node).holds(offset, value):
                return False
            if any(ghost.entries.get(offset) == value for ghost in self.ghosts.get(node, ())):
                return False
        return True

    def _lead(self, row: EventRow) -> None:
        epoch = row.leader_epoch
        log = self.replicas.log(row.node)
        if epoch >= self.top_epoch:
            self.top_epoch, self.top_node, self.top_index, self.top_log = epoch, row.node, row.at, list(log.values)
        for entry in [entry for entry in self.destroyed if log.holds(*entry)]:
            del self.destroyed[entry]  # a leader has it after all: losing it from here on is another matter
        if self.logs_told and log.values[: len(self.promised_values)] != self.promised_values:
            missing = [
                offset
                for offset, record in self.promised.items()
                if record.epoch <= epoch and not log.may_hold(offset, record.value)
            ]
            order = self.ordered[1] if self.by_operator and self.ordered and self.ordered[0] == row.node else None
            self._judge(missing, epoch=epoch, witness=row.at, how=f"{row.node} leads epoch {epoch} without", order=order)
        if self.ordered and self.ordered[0] == row.node:
            self.ordered = None

    # --- promises -------------------------------------------------------------------------------------------------------

    def promise_record(self, offset: int, value: str, epoch: int | None, index: int) -> None:
        """From this row on the record must stay."""
        if epoch is None:
            epoch = self.top_epoch
        if offset in self.promised or (offset, value) in self.gone or self._of_the_past(offset, epoch):
            return
        self.count_promised += 1
        self.promised[offset] = _Promised(value, epoch, index)
        lack = offset + 1 - len(self.promised_values)
        if lack > 0:
            self.promised_values.extend([None] * lack)
        self.promised_values[offset] = value
        # The next leader may have been elected already: it must have had what is committed in an epoch before its own.
        lacked = offset >= len(self.top_log) or self.top_log[offset] not in (value, None)
        if lacked and epoch < self.top_epoch and self.logs_told:
            how = f"{self.top_node} led epoch {self.top_epoch} already without"
            self._judge([offset], epoch=self.top_epoch, witness=self.top_index, how=how)

    def _of_the_past(self, offset: int, epoch: int) -> bool:
        """C1: the word of an earlier generation about offsets that an excused loss took."""
        return any(offset >= cut.offset and epoch < cut.leader_epoch for cut in self.cuts)

    def read(self, call: Call) -> None:
        """A poll that was answered: what it returned is promised; what it passed over is missing."""
        got = [(row.offset, row) for row in call.rows if row.offset is not None and row.value is not None]
        if not got:
            return
        for offset, row in got:
            assert row.value is not None
            self.promise_record(offset, row.value, row.leader_epoch, row.at)
        start, last = call.asked[0].offset, max(offset for offset, _ in got)
        if start is None or last - start + 1 == len(got):
            return
        offsets = {offset for offset, _ in got}
        passed = [
            offset
            for offset in range(start, last)
            if offset not in offsets and offset in self.promised and self.promised[offset].index < call.invoked
        ]
        how = f"process {call.process} read from {start} to {last} without"
        self._judge(passed, epoch=self.top_epoch, witness=call.ended, how=how)

    # --- judgement ------------------------------------------------------------------------------------------------------

    def _judge(self, missing: list[int], *, epoch: int, witness: int, how: str, order: int | None = None) -> None:
        """Sort what is missing into excused, lost and unjudged, each record once."""
        lost: list[int] = []
        first_excused: int | None = None
        for offset in sorted(missing):
            value = self.promised[offset].value
            wound = self.destroyed.get((offset, value), order)
            if wound is None:
                lost.append(offset)
                continue
            loss = ExcusedLoss(topic=self.topic, partition=self.partition, offset=offset, value=value, wound=wound)
            self.excused.append(loss)
            first_excused = offset if first_excused is None else first_excused
        if first_excused is not None:
            self.cuts.append(Cut(topic=self.topic, partition=self.partition, offset=first_excused, leader_epoch=epoch))
        if lost and self.standing.index < 0:
            self.unjudged += len(lost)
        elif lost:
            self._accuse(lost, witness, how)
        for offset in missing:
            self.gone.add((offset, self.promised.pop(offset).value))
            self.promised_values[offset] = None
            self.committed = min(self.committed, offset)

    def _accuse(self, lost: list[int], witness: int, how: str) -> None:
        first = self.promised[lost[0]]
        more = f" and {len(lost) - 1} more up to offset {lost[-1]}" if len(lost) > 1 else ""
        words = f"{how} the promised record {first.value} at offset {lost[0]}{more}; no wound took its last copy that counted"
        key = f"{self.topic}-{self.partition}"
        rows = tuple(sorted({first.index, witness}))
        self.anomalies.append(Anomaly(kind="lost-write", checker=NAME, key=key, witness=rows, words=words))

    def findings(self) -> Findings:
        """The end of the run: what wounds nobody noticed are noticed now, and the last leader must hold what was promised."""
        for node in sorted(self.ghosts):
            self._notice(node, at_end=True)
        log = self.replicas.log(self.top_node)
        # A leader wounded in office is no loss yet: the run ended before its successor was found.
        if self.logs_told and 0 <= self.top_index > self.wounded_at.get(self.top_node, -1):
            missing = [
                offset
                for offset, record in self.promised.items()
                if record.epoch <= self.top_epoch and not log.may_hold(offset, record.value)
            ]
            how = f"at the end the log of {self.top_node}, leader of epoch {self.top_epoch}, is without"
            self._judge(missing, epoch=self.top_epoch, witness=max(log.shrunk, self.top_index), how=how)
        name = f"{self.topic}-{self.partition}"
        unchecked = f"{NAME}: {self.unjudged} promised records of {name} are missing, and no ISR changes to judge them by"
        return Findings(
            anomalies=tuple(self.anomalies),
            excused=tuple(self.excused),
            cuts=tuple(self.cuts),
            unchecked=(unchecked,) if self.unjudged else (),
            counts={"promised": self.count_promised, "excused": len(self.excused)},
        )


def check(operations: pl.DataFrame, events: pl.DataFrame, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Keep the ledger of one partition. `cuts` are ignored: this checker is where they come from."""
    topic, partition = partition_of(operations, events)
    promise = promised(facts, topic)
    if promise is None:
        return Findings()
    ledger = Ledger(
        topic=topic,
        partition=partition,
        promise=promise,
        by_operator=facts.promise.unclean_election == "by_operator",
    )
    answered = [call for call in calls(operation_rows(operations)) if call.type == "ok"]
    steps: list[tuple[int, EventRow | None, Call | None]] = [(row.at, row, None) for row in event_rows(events)]
    steps.extend((call.ended, None, call) for call in answered)
    steps.sort(key=itemgetter(0))
    for _, row, call in steps:
        if row is not None:
            ledger.see(row)
        elif call is not None and call.f == "poll":
            ledger.read(call)
        elif call is not None and call.asked[0].acks == -1:
            for record in call.rows:
                if record.offset is not None and record.value is not None:
                    ledger.promise_record(record.offset, record.value, record.leader_epoch, record.at)
    return ledger.findings()


CHECKER = Checker(
    name=NAME,
    claim="A promised record stays at its offset; it is missing only where the laboratory destroyed the last copy that counted.",
    assumes="Brokers note each append, truncation and HW; ZooKeeper's writes and the laboratory's wounds are complete.",
    blind="Loss of records that were never promised; what happened to copies between an append and its note.",
    kinds=("lost-write",),
    group_by=PARTITION,
    operations=("produce", "poll"),
    events=(
        *REPLAYED,
        *ISR_ROWS,
        K.HW,
        K.BECAME_LEADER,
        K.REGISTERED,
        K.SESSION_ENDED,
        K.UNCLEAN_ELECTION_ORDERED,
    ),
    stage="ledger",
    check=check,
)
