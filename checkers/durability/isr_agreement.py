"""Checker of replica agreement: all ISR members hold the same records below the high watermark (docs/oracles.md §7.1, §8.1).

WeakIsr: every record below the HW of a presumed leader is at the same offset on every member of the leader's own ISR. StrongIsr:
the same for every member of the ISR in ZooKeeper. Both are compared whenever an HW or an ISR changes or a log gets shorter.
Wounded replicas are left out until they are in the ISR under a new incarnation (docs/promise.md CUT-2). For leaders of an epoch
before a cut, the offsets that the cut took are left out (CUT-1). Entries that the rows do not show agree with everything.

A leader asks for a new member only once that replica's log reaches the leader's HW (V3 §G, R-058) and the offset at which the
leader's epoch began (KAFKA-7128). All records that were committed before are below that offset, and right after an election the
leader's HW may be below some of them. The request is judged, because the member may have fetched the rest when ZooKeeper has the
new ISR, and because all that follows from a wrong request is told by other checkers much later. Not judged are replicas that are
left out as above or below, and those that obeyed a later epoch: they may have truncated since the fetch that the leader saw.

A replica that was deleted while it was outside ZooKeeper's ISR (V3 §F step 3.2.4, R-236) is left out until it is in ZooKeeper's
ISR again. A leader that has not heard of the deletion may still list it in its ISR. That is sound: the replica fetches no more,
so nothing is committed by that ISR.

Both rules are needed: without the epoch fence on fetches only WeakIsr fails; without the fence on ISR expansion StrongIsr fails
first.

    >>> from checkers.sketches import sketch
    >>> rows = "state-written leader=b1 isr=b1,b2", "append node=b1 offset=0 value=a"
    >>> sketch("isr-agreement", *rows, "became-leader node=b1 hw=1 leo=1 isr=b1,b2")
    ['strong-isr', 'weak-isr']
    >>> lacking = "append node=b1 offset=0 value=a", "became-leader node=b1 hw=0 leo=1 isr=b1"
    >>> sketch("isr-agreement", "state-written leader=b1 isr=b1", *lacking, "isr-change-sent node=b1 isr=b1,b2")
    ['early-join']
    >>> behind = "append node=b1 offset=0 value=a", "became-leader node=b1 hw=0 leo=0 isr=b1", "hw node=b1 hw=1 detail=leader"
    >>> sketch("isr-agreement", "state-written leader=b1 isr=b1", *behind, "isr-change-sent node=b1 isr=b1,b2")
    ['joined-below-hw']
"""

from typing import Literal

from checkers.engine.anomalies import Harm, Kind
from checkers.engine.checker import Checker, cuts_of
from checkers.engine.facts import Facts
from checkers.engine.groups import PARTITION, partition_of
from checkers.engine.rows import EventRow
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Anomaly, Cut, Findings
from checkers.timeline.replay import REPLAYED, Replicas
from checkers.timeline.wounds import Wounded
from history.event import EventKind as K

NAME = "isr-agreement"
_ENDS_OFFICE = (K.BECAME_FOLLOWER, K.RESIGNED, K.NODE_STOPPED, K.NODE_STARTED)


class _Leading:
    """A broker that believes it leads: its own epoch, HW and ISR, the row that last changed them, and where the epoch began."""

    __slots__ = ("at", "epoch", "hw", "isr", "since", "start")

    def __init__(self, row: EventRow) -> None:
        self.epoch, self.hw, self.isr, self.at = row.leader_epoch, row.hw or 0, row.isr or (), row.at
        self.start, self.since = row.leo or 0, row.at


class _Agreement:
    """The logs, leaders and ISRs of one partition, compared after each row that affects them."""

    def __init__(self, key: str, cuts: tuple[Cut, ...]) -> None:
        self.key, self.cuts = key, cuts
        self.replicas = Replicas()
        self.wounded = Wounded()
        self.isr: tuple[str, ...] = ()
        self.dropped: set[str] = set()  # deleted outside of the ISR in ZooKeeper
        self.leading: dict[str, _Leading] = {}
        self.obeyed: dict[str, int] = {}  # broker -> the last leader epoch in which it took a role
        self.agreed: dict[tuple[str, str], int] = {}  # (leader, member): their logs are known to agree below this offset
        self.accused: set[tuple[str, int, str]] = set()  # (kind, epoch, member)
        self.anomalies: list[Anomaly] = []

    def see(self, row: EventRow) -> None:
        """Update logs, leaders and ISRs by the next row, and compare the logs that the row lets differ or be compared further."""
        kind = row.kind
        if kind == K.HW:
            leader = self._leadership_in_epoch(row)
            if row.detail == "leader" and leader is not None:
                leader.hw, leader.at = row.hw, row.at
                self._compare_members(row.node, row.at)
        elif kind in REPLAYED:
            if kind == K.WOUND:
                self.wounded.see(row)
            if kind == K.REPLICA_DELETED and row.node not in self.isr:
                self.dropped.add(row.node)
            if self.replicas.replay(row) or kind == K.REPLICA_DELETED:
                self._forget_agreement_above(row.node, row.at)
        elif kind == K.BECAME_LEADER:
            self.leading[row.node] = _Leading(row)
            self.obeyed[row.node] = row.leader_epoch
            self._compare_members(row.node, row.at)
        elif kind == K.ISR_CHANGE_SENT:
            self._judge_joining(row)
        elif kind == K.ISR_CHANGE_ENDED:
            leader = self._leadership_in_epoch(row)
            if leader is not None:
                leader.isr = row.isr
                self._compare_members(row.node, row.at)
        elif kind == K.STATE_WRITTEN:
            self.wounded.see(row)
            self.isr = row.isr
            self.dropped -= set(row.isr)
            for node in self.leading:
                self._compare_members(node, row.at)
        elif kind in _ENDS_OFFICE:
            self.leading.pop(row.node, None)
            if kind == K.BECAME_FOLLOWER:
                self.obeyed[row.node] = row.leader_epoch
        else:
            self.wounded.see(row)

    def _leadership_in_epoch(self, row: EventRow) -> _Leading | None:
        """The leadership of the row's broker; None if it does not lead in the row's epoch."""
        leader = self.leading.get(row.node)
        return leader if leader is not None and leader.epoch == row.leader_epoch else None

    def _judge_joining(self, row: EventRow) -> None:
        """Judge the members that a leader wants to take into its ISR by the length of their logs."""
        leader = self.leading.get(row.node)
        if leader is None or row.node in self.wounded.since:
            return
        for member in row.isr:
            if member in leader.isr or member == row.node or self._is_left_out(member):
                continue
            if self.obeyed.get(member, -1) > leader.epoch:
                continue
            end = len(self.replicas.log(member).values)
            end_in_words = f"{row.node} wants {member} in its ISR, whose log ends at {end}"
            if end < leader.start:
                words = f"{end_in_words}; epoch {leader.epoch} of {row.node} began at {leader.start}"
                self._report("early-join", leader.epoch, member, (leader.since, row.at), words)
            if end < self._limit(leader):
                words = f"{end_in_words}; the high watermark of {row.node}, leader of epoch {leader.epoch}, is {leader.hw}"
                self._report("joined-below-hw", leader.epoch, member, (leader.at, row.at), words)

    def _limit(self, leader: _Leading) -> int:
        """The high watermark of a leader, without what an excused loss took from its epoch (CUT-1)."""
        return min([leader.hw, *(cut.offset for cut in self.cuts if leader.epoch < cut.leader_epoch)])

    def _is_left_out(self, member: str) -> bool:
        return member in self.wounded.since or member in self.dropped

    def _forget_agreement_above(self, node: str, at: int) -> None:
        """Compare the log of this broker anew from its end on, which moved down: other records may be appended there."""
        leo = len(self.replicas.log(node).values)
        for pair, upto in self.agreed.items():
            if node in pair and upto > leo:
                self.agreed[pair] = leo
        for leader in self.leading:
            if leader != node:
                self._compare_members(leader, at)

    def _compare_members(self, node: str, at: int) -> None:
        """Report each ISR member whose log differs from that of leader `node` below its HW; `at` is the row that led to this."""
        leader = self.leading[node]
        if node in self.wounded.since:
            return
        limit = self._limit(leader)
        for member in sorted({*leader.isr, *self.isr}):
            if member == node or self._is_left_out(member) or self.agreed.get((node, member), 0) >= limit:
                continue
            offset = self._first_difference(node, member, limit)
            if offset is None:
                # An HW above the end of the log: the entries that will follow below it are not compared yet.
                self.agreed[(node, member)] = min(limit, len(self.replicas.log(node).values))
                continue
            if member in leader.isr:
                self._accuse("weak-isr", node, member, offset, at)
            if member in self.isr:
                self._accuse("strong-isr", node, member, offset, at)

    def _first_difference(self, node: str, member: str, limit: int) -> int | None:
        """The first offset below `limit` at which the member lacks or contradicts the leader's record; None if there is none."""
        known = self.agreed.get((node, member), 0)
        leader_log, member_log = self.replicas.log(node).values, self.replicas.log(member).values
        limit = min(limit, len(leader_log))
        if len(member_log) >= limit and leader_log[known:limit] == member_log[known:limit]:
            return None
        for offset in range(known, limit):
            value = leader_log[offset]
            if value is not None and not self.replicas.log(member).may_hold(offset, value):
                return offset
        return None

    def _accuse(self, kind: Literal["weak-isr", "strong-isr"], node: str, member: str, offset: int, at: int) -> None:
        """Report that a member of the ISR lacks, or has another record than, the leader below the leader's HW."""
        leader = self.leading[node]
        whose = f"the ISR of {node}" if kind == "weak-isr" else "the ISR in ZooKeeper"
        member_log = self.replicas.log(member).values
        has = f"has {member_log[offset]}" if offset < len(member_log) else f"ends at {len(member_log)}"
        value = self.replicas.log(node).values[offset]
        words = (
            f"{member} is in {whose} and {has} at offset {offset}, "
            f"but {node}, leader of epoch {leader.epoch} with high watermark {leader.hw}, has {value}"
        )
        self._report(kind, leader.epoch, member, tuple(sorted({leader.at, at})), words)

    def _report(self, kind: str, epoch: int, member: str, witness: tuple[int, ...], words: str) -> None:
        if (kind, epoch, member) not in self.accused:
            self.accused.add((kind, epoch, member))
            self.anomalies.append(Anomaly(kind=kind, checker=NAME, key=self.key, witness=witness, words=words))


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Check that ISR members agree below the high watermark, by replaying the logs of one partition's replicas."""
    topic, partition = partition_of(operations, events)
    agreement = _Agreement(f"{topic}-{partition}", cuts_of(cuts, topic, partition))
    for row in events.rows:
        agreement.see(row)
    return Findings(anomalies=tuple(agreement.anomalies))


CHECKER = Checker(
    name=NAME,
    claim="Below the HW of a leader every member of its ISR, and of the ISR in ZooKeeper, has the same log (WeakIsr, StrongIsr); "
    "a leader asks only for members whose logs reach its HW and the start of its epoch.",
    assumes="Brokers record each append, truncation, HW and ISR change; ZooKeeper's writes are recorded completely.",
    blind="Replicas outside the ISR, replicas that lost data until they rejoin it, and offsets that an excused loss took.",
    reports=(
        Kind("weak-isr", Harm.LOSS_NEXT, 60, breaks=("ISR",), shown_by=("no-fetch-fencing",)),
        Kind(
            "strong-isr",
            Harm.LOSS_NEXT,
            50,
            breaks=("ISR",),
            shown_by=("kip279", "diverging-is-counted", "isr-expand-v3", "isr-no-member-epoch", "isr-unassigned-unfenced"),
        ),
        Kind("joined-below-hw", Harm.LOSS_NEXT, 65, breaks=("ISR",), shown_by=("isr-expand-v3",)),
        Kind("early-join", Harm.LOSS_NEXT, 70, breaks=("ISR",), shown_by=("kip320", "isr-join-hw-only")),
    ),
    group_by=PARTITION,
    events=(
        *REPLAYED,
        K.HW,
        K.BECAME_LEADER,
        K.ISR_CHANGE_SENT,
        K.ISR_CHANGE_ENDED,
        K.STATE_WRITTEN,
        K.REGISTERED,
        *_ENDS_OFFICE,
    ),
    needs=(K.STATE_WRITTEN,),
    complexity="n log n in the rows, plus the part of the logs not compared yet for each change of an HW, an ISR or a leader",
    check=check,
)
