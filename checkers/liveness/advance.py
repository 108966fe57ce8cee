"""Checker: a record that the whole ISR holds is committed in time (docs/promise.md LIVE-8; V3 §G: leader.hw = min of leo in ISR).

The leader raises the high watermark as soon as it knows that each member of the ISR has the record, and a member that does not
fetch leaves the ISR. So while no fault is in force the high watermark stands still only where some member lacks the next record.

A leader whose change of the ISR is open cannot know which of the two is in force, and counts a record as committed only where
min.insync.replicas members of both hold it (KAFKA-15583). So a change to fewer members holds the high watermark up until it ends:
it may have to wait for the next controller. A record is committed only when the members that an open change adds hold it, too
(KIP-497, the maximal ISR): one of them may have died since. That holds for the bound B after the first such change was asked for.

Judged are the stretches, longer than the promised time, in which neither the high watermark nor the state in ZooKeeper changes,
no fault begins or ends and no process ends: at their end every record is committed that the ISR held that long before.
Faults of a client place are none of the brokers'.

    >>> from checkers.sketches import sketch
    >>> rows = "state-written leader=b1 isr=b1,b2", "became-leader node=b1 hw=0 leo=0", "became-follower node=b2"
    >>> held = "append node=b1 offset=0 value=a", "append node=b2 offset=0 value=a detail=follower"
    >>> sketch("advance", *rows, *held, "hw node=b1 hw=1 leo=1 time_ns=9000000000")
    ['b1 raised the HW of t-0 above 0 only at row 5, though its ISR held offset 0 for 2500 ms']
"""

from checkers.engine.anomalies import HISTORIES, not_live
from checkers.engine.checker import Checker
from checkers.engine.facts import MS, PROMPT_MS, Facts, promised
from checkers.engine.groups import PARTITION, partition_of
from checkers.engine.rows import EventRow
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Cut, Findings
from checkers.timeline.replay import REPLAYED, Replicas
from history.event import EventKind as K

NAME = "advance"
_ROLES = (K.BECAME_LEADER, K.BECAME_FOLLOWER, K.RESIGNED)
_FAULTS = (K.FAULT_BEGUN, K.FAULT_ENDED)
_COLUMNS = ("index", "time_ns", "kind", "fault", "node", "leader", "detail", "isr")
_CHANGES = (K.ISR_CHANGE_SENT, K.ISR_CHANGE_ENDED)


def _late_ns(facts: Facts) -> int:
    return (facts.promise.replica_lag_time_max_ms + facts.promise.request_timeout_ms + PROMPT_MS) * MS


def _ends_of_stillness(events: Events, facts: Facts, least: int) -> list[int]:
    """The rows (their indices) that end a stretch of `_late_ns` in which nothing changed that the HW depends on, except logs.

    `least` is min.insync.replicas.
    """
    in_force: set[tuple[str, str]] = set()
    leading: str | None = None  # according to ZooKeeper: the changes of deposed leaders hold nobody else up
    shrinking: str | None = None  # the leader, while its change to fewer than `least` members is open
    last_ns: int | None = None
    end_rows: list[int] = []
    rows = events.without(*REPLAYED, K.BECAME_FOLLOWER)
    for at, time_ns, kind, fault, node, leader, detail, isr in rows.columns(*_COLUMNS):
        if kind in _FAULTS and (node is None or node in facts.client_places):
            continue
        if (kind == K.HW and detail != "leader") or (kind == K.ISR_CHANGE_SENT and (isr is None or len(isr) >= least)):
            continue
        if (kind == K.ISR_CHANGE_SENT and node != leading) or (kind == K.ISR_CHANGE_ENDED and node != shrinking):
            continue
        if last_ns is not None and time_ns - last_ns > _late_ns(facts) and not in_force and shrinking is None:
            end_rows.append(at)
        last_ns = time_ns
        if kind == K.FAULT_BEGUN:
            in_force.add((fault, node))
        elif kind == K.FAULT_ENDED:
            in_force.discard((fault, node))
        elif kind == K.ISR_CHANGE_SENT:
            shrinking = node
        elif kind == K.STATE_WRITTEN:  # the change is applied or void
            leading = leader
            shrinking = None
        elif node == shrinking and kind != K.HW:  # it is answered, or its leader is none any more
            shrinking = None
    return end_rows


class _Partition:
    """The leader, ISR, roles and logs of one partition after the rows applied so far."""

    def __init__(self, least: int) -> None:
        self._least = least
        self._replicas = Replicas()
        self._roles: dict[str, int] = {}  # node -> the leader epoch in which it leads or follows
        self.leader: str | None = None
        self._epoch = -1
        self._isr: tuple[str, ...] = ()
        self._wanted: set[str] = set()  # the members of ISRs that the leader asked for, without an answer
        self._asked_ns = 0  # when it asked for the first of them
        self.hw = 0

    def see(self, row: EventRow) -> None:
        """Apply one row."""
        if row.kind in REPLAYED:
            self._replicas.replay(row)
        elif row.kind == K.STATE_WRITTEN:
            self.leader, self._epoch, self._isr = row.leader, row.leader_epoch, row.isr
            self._wanted.clear()
        elif row.kind == K.ISR_CHANGE_SENT and row.node == self.leader:
            self._asked_ns = self._asked_ns if self._wanted else row.time_ns
            self._wanted.update(row.isr)
        elif row.kind == K.ISR_CHANGE_ENDED and row.node == self.leader:
            self._wanted.clear()
        elif row.kind in (K.BECAME_LEADER, K.BECAME_FOLLOWER):
            self._roles[row.node] = row.leader_epoch
            if row.node == self.leader:
                self._wanted.clear()
            self.hw = row.hw if row.kind == K.BECAME_LEADER else self.hw
        elif row.kind in (K.RESIGNED, K.NODE_STOPPED):
            self._roles.pop(row.node, None)
        elif row.kind == K.HW and row.node == self.leader:
            self.hw = row.hw

    def replicated_offset(self, now_ns: int, answered_ns: int) -> int:
        """The log end that the maximal ISR has reached; 0 if the ISR is short, or a member does not act in the present epoch.

        A change of the ISR counts for `answered_ns`: longer than that none may stay open.
        """
        acting = all(self._roles.get(node) == self._epoch for node in self._isr)
        if self.leader is None or not acting or len(self._isr) < self._least:
            return 0
        wanted = self._wanted if now_ns - self._asked_ns <= answered_ns else set()
        return min(len(self._replicas.log(node).values) for node in {*self._isr, *wanted})


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Find records that were committed late or never, although the whole ISR held them. Ignores `cuts`: they excuse no delay."""
    topic, number = partition_of(operations, events)
    promise = promised(facts, topic)
    still_ends = _ends_of_stillness(events, facts, promise.min_insync_replicas) if facts.simulated and promise is not None else []
    if promise is None or not still_ends:
        return Findings()
    rows = events.rows
    times = dict(events.columns("index", "time_ns"))
    partition = _Partition(promise.min_insync_replicas)
    place = 0
    complaints = []
    for end in still_ends:
        due_ns = times[end] - _late_ns(facts)
        while place < len(rows) and rows[place].at < end and rows[place].time_ns < due_ns:
            partition.see(rows[place])
            place += 1
        offsets_held = partition.replicated_offset(due_ns, facts.promise.bound_ms * MS)
        if offsets_held > partition.hw:
            happened = f"{partition.leader} raised the HW of {topic}-{number} above {partition.hw} only at row {end}"
            complaints.append(f"{happened}, though its ISR held offset {offsets_held - 1} for {_late_ns(facts) // MS} ms")
    return Findings(not_live=tuple(complaints), live_judged=bool(complaints))


CHECKER = Checker(
    name=NAME,
    claim="While no fault is in force, a record that every member of the ISR holds is below the high watermark in time.",
    assumes="Brokers record appends, roles, ISR changes and HWs of leaders; the harness records when each fault begins and ends.",
    blind="Runs of real brokers; partitions that are written all the time, where the high watermark never stands still for long; "
    "leaders whose change to fewer than min.insync.replicas members stays open, or, for less than B, one to members that lack "
    "the record.",
    reports=(not_live(unshown=HISTORIES),),
    group_by=PARTITION,
    events=(*REPLAYED, *_ROLES, *_FAULTS, *_CHANGES, K.STATE_WRITTEN, K.HW, K.NODE_STOPPED),
    needs=(K.STATE_WRITTEN,),
    of_the_living=True,
    check=check,
)
