"""Checker of elections: only a member of the ISR or the ELR may lead, and never an emptied replica (docs/promise.md DUR-6,
DUR-7).

Judged at ZooKeeper's own writes. The leader named by a state must be in the ISR of the state before. If that ISR has fewer than
min.insync.replicas members, the leader may also be in the last ISR that had enough. An operator's order makes one election of the
ordered replica clean, if the promise allows orders; nothing makes the election of an emptied replica clean.

While the swap of its directory is unnoticed, the controller cannot know of it. Then only the broker is held to the rule: it must
not act as leader. The same holds for a state that names the registration under which the broker was emptied: the controller has
not heard yet that this session ended, and the broker registers anew afterwards.

    >>> from checkers.sketches import sketch
    >>> sketch("election", "state-written leader=b1 isr=b1,b2", "state-written leader=b3 leader_epoch=2 isr=b3")
    ['unclean-election']
"""

from checkers.engine.anomalies import Harm, Kind
from checkers.engine.checker import Checker
from checkers.engine.facts import Facts, promised
from checkers.engine.groups import PARTITION, partition_of
from checkers.engine.rows import EventRow
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Anomaly, Cut, Findings
from checkers.timeline.isr_history import IsrHistory
from checkers.timeline.wounds import NOTICE_ROWS, UNSTAMPED, Sessions, Wounded
from history.event import EventKind as K

NAME = "election"


class _Elections:
    """The states of one partition in ZooKeeper, each compared with the state before to find unclean elections."""

    def __init__(self, key: str, min_isr: int, *, by_operator: bool) -> None:
        self.key, self.by_operator = key, by_operator
        self.standing = IsrHistory(min_isr)
        self.wounded = Wounded()
        self.sessions = Sessions()
        self.emptied: dict[str, EventRow] = {}  # node -> the swap
        self.accused: set[int] = set()  # leader epochs already reported as empty-leader
        self.ordered: str | None = None
        self.anomalies: list[Anomaly] = []
        self.elections = 0
        self.from_elr = 0
        self.recoveries = 0
        self.wounds_counted_on = 0
        self.stamps: dict[str, int] = {}  # node -> the registration under which it was last in the ISR

    def see(self, row: EventRow) -> None:
        """Take in a row: an order, a state, a new leader, or what befalls replicas and sessions."""
        if row.kind == K.UNCLEAN_ELECTION_ORDERED:
            self.ordered = row.leader
        elif row.kind == K.STATE_WRITTEN:
            if row.leader is not None and row.leader_epoch != self.standing.epoch:
                self._check_election(row, row.leader)
            self.standing.see(row)
            self.stamps.update(zip(row.isr, row.stamps or (), strict=False))
            self.wounded.see(row)
            self.emptied = {node: swap for node, swap in self.emptied.items() if node in self.wounded.since}
        elif row.kind == K.BECAME_LEADER:
            if row.node in self.emptied:
                self._accuse_emptied(row, row.node)
        elif row.kind == K.WOUND:
            self.wounds_counted_on += row.node in self.standing.eligible()
            self.wounded.see(row)
            if row.detail == "swapped":
                self.emptied[row.node] = row
        else:
            self.sessions.see(row)
            self.wounded.see(row)

    def _check_election(self, row: EventRow, leader: str) -> None:
        """Count the election, and accuse it if the leader was emptied, or in neither ISR nor ELR and not ordered."""
        if self.standing.index < 0:
            return  # the first state of a partition: there was no ISR before
        self.elections += leader != self.standing.leader
        eligible = self.standing.eligible()
        if row.stamps and leader in eligible and leader in row.isr:
            if row.stamps[row.isr.index(leader)] != self.stamps.get(leader):
                self.recoveries += 1  # registered anew since it was counted on: its log was compared with the other replicas'
            else:
                self.from_elr += leader not in self.standing.isr
        ordered = self.by_operator and leader == self.ordered
        swap = self.emptied.get(leader)
        if swap is not None and not self._cannot_lead(row, leader, swap):
            self._accuse_emptied(row, leader)
        if leader not in eligible and not ordered:
            before = ", ".join(eligible) or "empty"
            words = f"{leader} was elected leader of epoch {row.leader_epoch}; ISR and ELR before: {before}"
            self._accuse("unclean-election", (self.standing.index, row.at), words)
        if leader == self.ordered:
            self.ordered = None

    def _cannot_lead(self, row: EventRow, leader: str, swap: EventRow) -> bool:
        """True if the controller could not know of the swap, or named a registration that has already ended."""
        if self.sessions.hides(swap):
            return True
        stamp = row.stamps[row.isr.index(leader)] if row.stamps and leader in row.isr else UNSTAMPED
        return stamp != UNSTAMPED and stamp == swap.incarnation

    def _accuse_emptied(self, row: EventRow, leader: str) -> None:
        """Accuse the epoch of an emptied leader, once."""
        if row.leader_epoch in self.accused:
            return
        self.accused.add(row.leader_epoch)
        words = f"{leader} leads epoch {row.leader_epoch} after its directory was swapped for an empty one"
        self._accuse("empty-leader", (self.emptied[leader].at, row.at), words)

    def _accuse(self, kind: str, witness: tuple[int, ...], words: str) -> None:
        self.anomalies.append(Anomaly(kind=kind, checker=NAME, key=self.key, witness=witness, words=words))


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Judge the elections of one partition; also counts them, and the situations that docs/promise.md VAC-3 requires."""
    topic, partition = partition_of(operations, events)
    promise = promised(facts, topic)
    if promise is None:
        return Findings()
    elections = _Elections(
        f"{topic}-{partition}",
        promise.min_insync_replicas,
        by_operator=facts.promise.unclean_election == "by_operator",
    )
    for row in events.rows:
        elections.see(row)
    counts = {
        "leader_changes": elections.elections,
        "elections_from_elr": elections.from_elr,
        "recovery_elections": elections.recoveries,
        "wounds_counted_on": elections.wounds_counted_on,
    }
    return Findings(anomalies=tuple(elections.anomalies), counts=counts)


CHECKER = Checker(
    name=NAME,
    claim="Each leader that ZooKeeper names was in the ISR or the ELR before, and was not emptied.",
    assumes="ZooKeeper's writes, the operator's election orders and destroyed data are recorded completely.",
    blind="Brokers that act as leader without being named in ZooKeeper (single-leader and isr-agreement see what they do).",
    reports=(
        Kind("unclean-election", Harm.LOSS_NEXT, 10, breaks=("DUR",), shown_by=("unclean-election",)),
        Kind("empty-leader", Harm.LOSS_NEXT, 20, breaks=("DUR",), shown_by=("no-log-birth",)),
    ),
    group_by=PARTITION,
    events=(K.STATE_WRITTEN, K.BECAME_LEADER, K.WOUND, *NOTICE_ROWS, K.UNCLEAN_ELECTION_ORDERED),
    needs=(K.STATE_WRITTEN,),
    check=check,
)
