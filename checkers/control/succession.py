"""Checker: each state of a partition follows from the one before it (V3 §A step 3.2, step 3.3, R-021, R-144; KIP-966; U-18).

* The leader epoch rises by one where the leader changes or nobody leads any more, and never by more. Outside of a move no write
  raises it for nothing: with the same leader and the same ISR. A move does so to begin (R-051) and to lead from the target
  (R-235), but not a third time while no fault is in force and nothing else happens to the partition or a broker; where the same
  controller turned it round before its end, once more, for its first epoch may still be on its way. If an operator
  removes its entry by hand, the move ends in a further epoch: the replicas that the topic znode names must follow again, and
  brokers obey only a greater epoch (R-080).
* An election takes nobody into the ISR: it keeps members under the registrations that they had, or its leader is alone in it. A
  write that leaves nobody in the lead leaves the ISR as it was.
* The new ISR is what is alive of the old one. So it has no member that the controller knew to be gone: if the controller left out
  a broker whose registration had ended, it had read so, and all that ended earlier. The same holds for silence that it noted.
* A leader that stays in the ISR stays the leader; the next one is the first of the ISR in the order of the assignment. Only an
  operator's order of the preferred replica and a move change that.
* The ELR is what left the ISR while it had fewer than min.insync.replicas members, and is not in it; else it is empty. Only an
  ordered unclean election and a move make it smaller. A leader that was in neither may lack records that they hold: they count
  no more, so the ELR is empty (docs/promise.md DUR-7).

A controller that reads a heartbeat of a new registration knows of this one alone, so such a bounce says nothing about others.
One that hears a heartbeat after the end of its registration believes it until it has read ZooKeeper again (R-190).
A state in a new znode (version 0) is the first one: a partition that was removed and is added again keeps the id of its topic.
On real brokers the notes of controllers and the rows of ZooKeeper come by different clocks: there a move or an order counts from
the beginning of the run, and who was known to be gone is not judged.

    >>> from checkers.sketches import sketch
    >>> rows = "assigned replicas=b1,b2", "state-written leader=b1 isr=b1,b2"
    >>> sketch("succession", *rows, "state-written leader=b2 leader_epoch=2 isr=b1,b2 node=b3")
    ['wrong-leader']
    >>> sketch("succession", *rows, "state-written leader=b2 leader_epoch=2 isr=b2 node=b3")
    []
"""

from collections.abc import Iterator

from checkers.engine.anomalies import HISTORIES, Harm, Kind
from checkers.engine.checker import Checker
from checkers.engine.facts import Facts, promised
from checkers.engine.groups import WHOLE_RUN
from checkers.engine.rows import ClusterRow
from checkers.engine.splits import gathered
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Anomaly, Cut, Findings
from checkers.timeline.moves import EDIT, given_up
from checkers.timeline.wounds import stamps_of
from history.event import EventKind as K

NAME = "succession"
_ORDERS = ("elect-preferred", EDIT)  # of an operator, after which the first replica may lead without another cause
_OUT = ("inactive", "stopping")
_IDLE_MAX = 2  # epochs in a row by which a move changes neither leader nor ISR
_OF_BROKERS = (K.REGISTERED, K.SESSION_ENDED, K.NODE_STARTED, K.DIR_FAILED, K.BROKER_STATE, K.FAULT_BEGUN, K.FAULT_ENDED)
_Member = tuple[str, int | None]  # a broker, and the registration under which it is counted


class _Known:
    """What the rows so far say of registrations, and what each controller noted of brokers."""

    def __init__(self) -> None:
        self.ended: dict[tuple[str, int], int] = {}  # registration -> the row in which it ended
        self.latest: dict[str, int] = {}  # broker -> its last registration
        self.noted: dict[tuple[str, str, int], tuple[str, int]] = {}  # (controller, broker, registration) -> state, since when
        self.broken: set[str] = set()  # brokers with a failed directory
        self.in_force: set[tuple[str, str]] = set()  # faults, and where
        self.changed_at = -1  # the last row about a broker or a fault

    def see(self, row: ClusterRow) -> None:
        """Apply a row about a broker or a fault."""
        self.changed_at = row.at
        if row.kind == K.FAULT_BEGUN:
            self.in_force.add((row.fault, row.node))
        elif row.kind == K.FAULT_ENDED:
            self.in_force.discard((row.fault, row.node))
        elif row.kind == K.REGISTERED:
            self.latest[row.node] = row.incarnation
        elif row.kind == K.SESSION_ENDED:
            self.ended[row.node, row.incarnation] = row.at
        elif row.kind == K.NODE_STARTED:
            self.broken.discard(row.node)
            self.noted = {key: state for key, state in self.noted.items() if key[0] != row.node}
        elif row.kind == K.DIR_FAILED:
            self.broken.add(row.node)
        else:
            self.noted[row.node, row.broker, row.incarnation] = (row.detail, row.at)

    def members_known_gone(self, writer: str, left_out: list[_Member], members: list[_Member]) -> list[str]:
        """The members of an ISR that its writer knew to be gone, because of whom it left out."""
        end_rows = [end for member in left_out if (end := self._row_of_ended_registration(writer, member)) is not None]
        silent = [since for member in left_out if (since := self._row_of_silence(writer, member)) is not None]
        return [
            node
            for node, stamp in members
            if stamp is not None and not self._was_heard(writer, node, stamp)
            if self.ended.get((node, stamp), max(end_rows, default=-1)) < max(end_rows, default=-1)
            or (self._row_of_silence(writer, (node, stamp)) or max(silent, default=-1)) < max(silent, default=-1)
        ]

    def _was_heard(self, writer: str, node: str, stamp: int) -> bool:
        """Whether the controller held this registration of the broker for active when it ended, or after."""
        # a heartbeat that comes after the end of its registration is believed until ZooKeeper is read again.
        state, since = self.noted.get((writer, node, stamp), ("", -1))
        return state == "active" and since > self.ended.get((node, stamp), since)

    def _row_of_ended_registration(self, writer: str, member: _Member) -> int | None:
        """The row in which a registration ended, if that alone can be why its broker was left out."""
        node, stamp = member
        if stamp is None or node in self.broken or self.latest.get(node) != stamp:
            return None
        return None if self.noted.get((writer, node, stamp), ("", -1))[0] in _OUT else self.ended.get((node, stamp))

    def _row_of_silence(self, writer: str, member: _Member) -> int | None:
        """The row since which this controller holds a broker for inactive."""
        state, since = self.noted.get((writer, member[0], member[1] or -1), ("", -1))
        return since if state == "inactive" else None


class _States:
    """The states of one partition, each judged against the one before."""

    def __init__(self, name: str, least: int, given_up: list[tuple[int, float]]) -> None:
        self.name, self._least = name, least
        self._given_up = given_up  # when an operator may have removed the entry of a move
        self.before: ClusterRow | None = None
        self.assigned: tuple[str, ...] = ()
        self.moves = False  # from the first move on only the epoch and the ISR are judged
        self.ordered = False  # an unclean election was ordered
        self.preferred = False  # a preferred one may have been
        self._mover: str | None = None  # the controller of the move under way
        self._late_epochs = 0  # epochs of a move that was turned round which may still be on their way
        self._idle = 0  # epochs in a row that changed nothing, as long as nothing happened meanwhile
        self._since = -1  # the row after which they are counted

    def see(self, row: ClusterRow, known: _Known | None) -> list[Anomaly]:
        """Apply a row about the partition; say what is wrong with a state."""
        if row.kind in (K.ASSIGNED, K.REASSIGNMENT_BEGUN):
            self._idle, self._late_epochs, self._since = 0, 0, row.at
        if row.kind == K.ASSIGNED:
            self.assigned = row.replicas or self.assigned
        elif row.kind == K.REASSIGNMENT_BEGUN:
            # that in which the move before it began (seed 210334 of `--faults all`)
            self._late_epochs = int(self._mover == row.node)
            self.moves, self._mover = True, row.node
        elif row.kind == K.REASSIGNMENT_ENDED:
            self._mover = None
        elif row.kind == K.UNCLEAN_ELECTION_ORDERED:
            self.ordered = True
        elif row.isr is not None:
            return self._check_state(row, known)
        return []

    def _check_state(self, row: ClusterRow, known: _Known | None) -> list[Anomaly]:
        """The anomalies of a written state, compared with the one before it."""
        before, self.before = self.before, row
        complaints: list[tuple[str, str]] = []
        if before is None or before.topic_id != row.topic_id or row.zk_version == 0:  # a new state znode
            complaints += self._wrong_leader(row, None)
            return [self._anomaly(kind, words, row, row) for kind, words in complaints]
        complaints += self._wrong_epoch(row, before, known)
        if row.leader is None or row.leader_epoch != before.leader_epoch:
            complaints += self._wrong_isr(row, before)
            complaints += self._wrong_leader(row, before) + self._gone_members(row, before, known)
        complaints += self._wrong_elr(row, before)
        self.ordered &= known is None or row.leader is None or len(row.isr or ()) < self._least
        return [self._anomaly(kind, words, before, row) for kind, words in complaints]

    def _anomaly(self, kind: str, words: str, before: ClusterRow, row: ClusterRow) -> Anomaly:
        witness = tuple(sorted({before.at, row.at}))
        return Anomaly(kind=kind, checker=NAME, key=self.name, witness=witness, words=f"{self.name}: {words}")

    def _wrong_epoch(self, row: ClusterRow, before: ClusterRow, known: _Known | None) -> list[tuple[str, str]]:
        """The epoch goes up by one with another leader, and not without a reason."""
        step = row.leader_epoch - before.leader_epoch
        if step < 0:
            return []  # state-writes reports it
        if step > 1 or (step == 0 and row.leader != before.leader):
            change = f"{before.leader or 'nobody'} leads epoch {before.leader_epoch}, then {row.leader or 'nobody'} epoch"
            return [("wrong-epoch", f"{change} {row.leader_epoch}")]
        idle = step == 1 and row.leader == before.leader and _members_of(row, before) == _members_of(before, row)
        if not idle or known is None or known.in_force:
            self._idle, self._since = 0, row.at
        elif known.changed_at > before.at:
            self._idle, self._since = 1, known.changed_at
        else:
            self._idle += 1
        if idle and (not self.moves or self._idle > _IDLE_MAX + self._late_epochs + self._may_end_given_up_move(row)):
            return [("wrong-epoch", f"epoch {row.leader_epoch} has the leader and the ISR of epoch {before.leader_epoch}")]
        return []

    def _may_end_given_up_move(self, row: ClusterRow) -> bool:
        """Whether the last of the epochs counted may be the one in which a move ends whose entry an operator removed. An edit
        that ended before them gives none: after it a move can do no more than lead from its target and end.
        """
        return any(invoked < row.at and ended > self._since for invoked, ended in self._given_up)

    def _wrong_isr(self, row: ClusterRow, before: ClusterRow) -> list[tuple[str, str]]:
        """An election adds nobody to the ISR but an unclean leader, and keeps it if nobody leads."""
        added = [node for node, stamp in _members_of(row, before) if (node, stamp) not in _members_of(before, row)]
        if row.leader is None and _members_of(row, before) != _members_of(before, row):
            return [("wrong-isr", f"nobody leads epoch {row.leader_epoch}, and the ISR is not the one before")]
        if added and row.isr != (row.leader,):
            return [("wrong-isr", f"the election of epoch {row.leader_epoch} took {', '.join(added)} into the ISR")]
        return []

    def _gone_members(self, row: ClusterRow, before: ClusterRow, known: _Known | None) -> list[tuple[str, str]]:
        """Members that the controller took into the ISR although it knew that they were gone."""
        left_out = [member for member in _members_of(before, row) if member not in _members_of(row, before)]
        if known is None or row.leader is None or self.moves or row.node == before.leader:
            return []
        known_gone = known.members_known_gone(row.node, left_out, _members_of(row))
        return [
            ("wrong-isr", f"{node} is in the ISR of epoch {row.leader_epoch}, and {row.node} knew it gone") for node in known_gone
        ]

    def _wrong_leader(self, row: ClusterRow, before: ClusterRow | None) -> list[tuple[str, str]]:
        """The leader stays if it may; else it is the first assigned replica of the ISR."""
        isr = row.isr or ()
        if row.leader is None or self.moves or row.leader not in self.assigned or (before and before.leader == row.leader):
            return []
        first = next((node for node in self.assigned if node in isr), None)
        may_go = before is None or before.leader not in isr or (self.preferred and row.leader == self.assigned[0])
        if before is not None and not may_go:
            return [("wrong-leader", f"{row.leader} leads epoch {row.leader_epoch}, though {before.leader} is in its ISR")]
        if row.leader != first:
            return [("wrong-leader", f"{row.leader} leads epoch {row.leader_epoch}, though {first} is the first of its ISR")]
        return []

    def _wrong_elr(self, row: ClusterRow, before: ClusterRow) -> list[tuple[str, str]]:
        """The ELR is what left a short ISR, and else empty."""
        isr, elr = set(row.isr or ()), set(row.elr or ())
        counted = {*(before.isr or ()), *(before.elr or ())}
        if row.leader is not None and row.leader not in counted:
            if not elr:
                return []
            return [("wrong-elr", f"the ELR is {_list(elr)}; it must be empty, for {row.leader} was in neither ISR nor ELR")]
        expected = (counted - isr) if len(isr) < self._least else set()
        if elr == expected or self.moves or self.ordered:
            return []
        return [("wrong-elr", f"the ELR is {_list(elr)}; it must be {_list(expected)}, for the ISR is {_list(isr)}")]


def _list(nodes: set[str]) -> str:
    return ", ".join(sorted(nodes)) or "empty"


def _members_of(row: ClusterRow, beside: ClusterRow | None = None) -> list[_Member]:
    """The ISR of a state, with registrations only where the state beside it has them, too."""
    stamps = stamps_of(row.isr or (), row.stamps)
    stamps_beside = stamps if beside is None else stamps_of(beside.isr or (), beside.stamps)
    is_stamped = row.stamps is not None and (beside is None or beside.stamps is not None)
    return [
        (node, stamp if is_stamped and stamps_beside.get(node, stamp) is not None else None) for node, stamp in stamps.items()
    ]


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Judge each state of each partition against the one before. Ignores `cuts` (excused losses): they excuse no write."""
    rows = events.as_rows(ClusterRow)
    known = _Known()
    done = operations.of(EDIT).calls
    states = {key: _States(f"{key[0]}-{key[1]}", least, given_up(done, *key)) for key, least in _least_isr_sizes(rows, facts)}
    keeps_elr = any(row.elr for row in rows)
    preferred = _preferred_orders(operations)
    for row in () if facts.simulated else rows:
        if row.partition is not None and row.kind in (K.REASSIGNMENT_BEGUN, K.UNCLEAN_ELECTION_ORDERED):
            states[row.topic, row.partition].see(row, None)
    anomalies: list[Anomaly] = []
    for row in rows:
        if row.kind in _OF_BROKERS or row.partition is None:
            known.see(row)
            continue
        state = states[row.topic, row.partition]
        orders = [preferred[name] for name in (state.name, None) if name in preferred]
        state.preferred = any(at < row.at or not facts.simulated for at in orders)
        anomalies += [
            anomaly for anomaly in state.see(row, known if facts.simulated else None) if keeps_elr or anomaly.kind != "wrong-elr"
        ]
    return Findings(anomalies=tuple(anomalies))


def _least_isr_sizes(rows: list[ClusterRow], facts: Facts) -> Iterator[tuple[tuple[str, int], int]]:
    """Each partition with its min.insync.replicas."""
    for topic, partition in {(row.topic, row.partition) for row in rows if row.partition is not None}:
        promise = promised(facts, topic)
        yield (topic, partition), 1 if promise is None else promise.min_insync_replicas


def _preferred_orders(operations: Operations) -> dict[str | None, int]:
    """The first row by which an operator may have ordered the preferred leader: by partition; None: of any partition."""
    rows_of_orders: dict[str | None, int] = {}
    for at, f, value in operations.of(*_ORDERS).columns("index", "f", "value"):
        rows_of_orders.setdefault(value if f == "elect-preferred" else None, at)
    return rows_of_orders


CHECKER = Checker(
    name=NAME,
    claim="Each state of a partition follows from the one before: epochs rise by one, elections keep what lives of the ISR, the "
    "first of it leads, and the ELR is what left a short ISR.",
    assumes="ZooKeeper's writes, registrations and assignments, moves and orders are recorded completely and in their order.",
    blind="Leader and ELR of partitions that were moved; idle epochs of moves while a fault is in force, and one of a move whose "
    "entry an operator may have removed by hand; brokers that a controller did not know to be gone.",
    reports=(
        Kind("wrong-epoch", Harm.USURPED, 70, breaks=("ISR",), unshown=HISTORIES),
        Kind("wrong-isr", Harm.USURPED, 90, breaks=("ISR",), shown_by=("reassign-removes-its-leader",)),
        Kind("wrong-leader", Harm.USURPED, 100, breaks=("ISR",), unshown=HISTORIES),
        Kind("wrong-elr", Harm.USURPED, 80, breaks=("ISR",), unshown=HISTORIES),
    ),
    group_by=WHOLE_RUN,
    operations=_ORDERS,
    events=(
        K.STATE_WRITTEN,
        K.ASSIGNED,
        K.REASSIGNMENT_BEGUN,
        K.REASSIGNMENT_ENDED,
        K.UNCLEAN_ELECTION_ORDERED,
        *_OF_BROKERS,
    ),
    needs=(K.STATE_WRITTEN,),
    complexity="n in the rows",
    check=check,
    split=gathered(check),
)
