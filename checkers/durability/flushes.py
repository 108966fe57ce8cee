"""Checker: under flush=before_ack every copy that counts is flushed at every moment (docs/promise.md DUR-5).

A power loss shows a record that was committed before it was flushed only in the few milliseconds before the flush. This checker
needs no power loss: it compares what the disks hold with what was promised. Whenever a leader advances the HW, a produce with
acks=all is acknowledged, or a replica joins the ISR, each counted-on replica must have flushed every promised record.

Rows `flushed` say up to where a log survives a power loss; a truncation, the end of a recovered log and a deletion lower that. A
replica that lost bytes to a fault is left out until it is in the ISR under a new incarnation (CUT-2), and so is a replica that
was deleted outside of the ISR. An excused loss lowers what was promised (CUT-1).

    >>> from checkers.sketches import sketch
    >>> rows = "state-written leader=b1 isr=b1,b2", "append node=b1 offset=0 value=a", "flushed node=b1 offset=1"
    >>> sketch("flushes", *rows, "append node=b2 offset=0 value=a detail=follower", "hw node=b1 hw=1 leo=1")
    ['unflushed']
"""

from checkers.engine.anomalies import BROKEN_MACHINE, Harm, Kind
from checkers.engine.checker import Checker, cuts_of
from checkers.engine.facts import Facts, promised
from checkers.engine.groups import PARTITION, partition_of
from checkers.engine.rows import EventRow
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Anomaly, Cut, Findings
from checkers.timeline.isr_history import ISR_ROWS, IsrHistory
from checkers.timeline.wounds import WOUND_ROWS, Wounded
from history.event import EventKind as K

NAME = "flushes"
_SHORTENS = (K.TRUNCATE, K.RECOVERED, K.REPLICA_DELETED)


class _Disks:
    """What the disks of one partition's replicas hold, and what was promised of it, after the rows seen so far."""

    def __init__(self, key: str, min_isr: int, cuts: tuple[Cut, ...]) -> None:
        self._key, self._cuts = key, cuts
        self._isr = IsrHistory(min_isr)
        self._wounded = Wounded()
        self._flushed: dict[str, int] = {}  # node -> the end of what it has flushed
        self._dropped: set[str] = set()  # nodes whose replica was deleted outside of the ISR
        self._promised, self._by = 0, -1  # the end of what was promised, and the row that promised it last
        self._accused: set[tuple[str, int]] = set()
        self.anomalies: list[Anomaly] = []

    def see(self, row: EventRow) -> None:
        """Apply one row about the replicas, their disks or the ISR."""
        if row.kind == K.FLUSHED:
            self._flushed[row.node] = row.offset
        elif row.kind in _SHORTENS:
            self._shorten(row)
        elif row.kind == K.HW:
            if row.detail == "leader":
                self.promise(row.hw, row.leader_epoch, row.at)
        elif row.kind == K.BECAME_LEADER:
            self._apply_cuts(row.leader_epoch)
        if row.kind in WOUND_ROWS:
            self._wounded.see(row)
        if row.kind in ISR_ROWS:
            self._isr.see(row)
        if row.kind == K.STATE_WRITTEN:
            self._dropped -= set(row.isr)
            self._apply_cuts(row.leader_epoch)
            self._check_counted(row.at)

    def promise(self, end: int, epoch: int, at: int) -> None:
        """The records below `end` are promised by a leader of this epoch."""
        end = min([end, *(cut.offset for cut in self._cuts if epoch < cut.leader_epoch)])
        if end > self._promised:
            self._promised, self._by = end, at
        self._check_counted(at)

    def _apply_cuts(self, epoch: int) -> None:
        """From this epoch on, what an excused loss took is promised no more."""
        for cut in self._cuts:
            if cut.leader_epoch == epoch:
                self._promised = min(self._promised, cut.offset)

    def _shorten(self, row: EventRow) -> None:
        """A log lost its end: what was flushed of it is gone too."""
        if row.kind == K.REPLICA_DELETED:
            self._flushed.pop(row.node, None)
            if row.node not in self._isr.counted_on():
                self._dropped.add(row.node)
            return
        end = row.offset if row.kind == K.TRUNCATE else row.leo or 0
        self._flushed[row.node] = min(self._flushed.get(row.node, 0), end)

    def _check_counted(self, at: int) -> None:
        """Accuse a counted-on replica that has not flushed what is promised."""
        for node in self._isr.counted_on():
            flushed = self._flushed.get(node, 0)
            if flushed >= self._promised or node in self._wounded.since or node in self._dropped:
                continue
            if (node, self._promised) not in self._accused:
                self._accused.add((node, self._promised))
                words = f"{node} counts for {self._key} and has flushed up to {flushed}, but up to {self._promised} is promised"
                witness = tuple(sorted({self._by, at}))
                self.anomalies.append(Anomaly(kind="unflushed", checker=NAME, key=self._key, witness=witness, words=words))


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Check that counted-on replicas have flushed what is promised; judges only histories with rows of flushes."""
    topic, partition = partition_of(operations, events)
    record = promised(facts, topic)
    if record is None or record.flush != "before_ack" or K.FLUSHED not in events.words:
        return Findings()
    disks = _Disks(f"{topic}-{partition}", record.min_insync_replicas, cuts_of(cuts, topic, partition))
    produce_rows = operations.columns("type", "acks", "index", "offset", "leader_epoch")
    acknowledged = (row for type_, acks, *row in produce_rows if type_ == "ok" and acks == -1)
    promises = ((at, offset, epoch or 0) for at, offset, epoch in acknowledged if offset is not None)
    answer = next(promises, None)
    for row in events.rows:
        while answer is not None and answer[0] < row.at:
            disks.promise(answer[1] + 1, answer[2], answer[0])
            answer = next(promises, None)
        disks.see(row)
    return Findings(anomalies=tuple(disks.anomalies))


CHECKER = Checker(
    name=NAME,
    claim="Under flush=before_ack, each replica that counts for durability has flushed every promised record, at every moment.",
    assumes="The harness records what each flush made durable; brokers record truncations and HWs, ZooKeeper its writes.",
    blind="Real disks, which write no rows of flushes; flush=none; replicas that lost data until they rejoin the ISR.",
    reports=(Kind("unflushed", Harm.LOSS_NEXT, 40, breaks=("DUR",), unshown=BROKEN_MACHINE),),
    group_by=PARTITION,
    operations=("produce",),
    events=(
        K.FLUSHED,
        K.TRUNCATE,
        K.RECOVERED,
        K.REPLICA_DELETED,
        K.HW,
        K.BECAME_LEADER,
        K.WOUND,
        K.REGISTERED,
        *ISR_ROWS,
    ),
    check=check,
)
