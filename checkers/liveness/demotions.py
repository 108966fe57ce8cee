"""Checker: no broker loses its place in a partition without a cause (docs/promise.md LIVE-10).

A controller takes a member out of the ISR, or leaves a partition without its leader, only for a cause that the history shows:

* the registration under which the ISR names the broker has ended, or its directory failed;
* the controller holds it for inactive or stopping, or has heard it before, but not under this registration yet (KIP-343);
* a fault kept answers of ZooKeeper from the controller since before the broker registered: such a list does not name it;
* the leader asked for an ISR without it;
* the partition is moved, or an operator ordered an election.

And a controller that heard a broker holds it for inactive only if faults took heartbeats away. A broker sends four heartbeats in
a session timeout, so that two of them may get lost: losses of single messages must last for nearly half of that time.

Only simulated runs are judged: on a busy machine heartbeats are late without a fault.

    >>> from checkers.sketches import sketch
    >>> first = "registered node=b2 incarnation=2", "state-written node=b9 isr=b1,b2 stamps=1,2"
    >>> sketch("demotions", *first, "state-written node=b9 isr=b1 stamps=1")
    ['b2 was removed from the ISR of t-0 at row 2 without a cause']
    >>> sketch("demotions", *first, "session-ended node=b2 incarnation=2", "state-written node=b9 isr=b1 stamps=1")
    []
"""

from checkers.engine.anomalies import HISTORIES, not_live
from checkers.engine.checker import Checker
from checkers.engine.facts import MS, Facts
from checkers.engine.groups import WHOLE_RUN
from checkers.engine.rows import ClusterRow
from checkers.engine.splits import gathered
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Cut, Findings
from checkers.timeline.wounds import stamps_of
from history.event import EventKind as K

NAME = "demotions"
HALF = 0.45  # of a session timeout: faults that last less cost at most two of the four heartbeats
_LATE_MS = 5000  # in which the controller writes what it decided, also over slow links to ZooKeeper
_SOON_MS = 1000  # in which the controller acts on an answer that came late
_LATE_ANSWERS = "answer-late"  # the name of that fault
_NEVER = 1 << 62
_LOSSES = ("packets", "lossy")  # single messages are lost, and connections go on
_OUT = ("inactive", "stopping")


class _State:
    """The state of one partition in ZooKeeper, and what may take a place from its replicas."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.topic_id: str | None = None
        self.leader: str | None = None
        self.stamps: dict[str, int | None] = {}  # member of the ISR -> its registration
        self.assigned: tuple[str, ...] | None = None
        self.moves = False  # it was moved, or an election was ordered: from then on it is not judged
        self.unwanted: set[str] = set()  # whom the leader asked to take out of the ISR since the last write


class _Cluster:
    """The brokers and the faults in force after the rows applied so far."""

    def __init__(self, session_ms: int) -> None:
        self.session_ns = session_ms * MS
        self.registered: dict[str, int] = {}
        self.since: dict[str, int] = {}  # broker -> when it registered
        self.answered_late: dict[str, int] = {}  # broker -> until when a fault kept ZooKeeper's answers from it
        self.out: dict[str, tuple[str, int]] = {}  # broker -> the state in which a controller held it last, and since when
        self.out_before: dict[str, int] = {}  # broker -> when it was last let out of such a state
        self.broken: set[str] = set()  # brokers with a failed directory
        self.reported: set[tuple[str, int]] = set()  # registrations under which one failed: what the controller heard of
        self.stopped: set[tuple[str, int]] = set()  # registrations whose process has ended
        self.heard: dict[tuple[str, str, int], str] = {}  # (controller, broker, registration) -> its state
        self.in_force: dict[tuple[str, str], int] = {}  # fault -> since when
        self.past: list[tuple[int, int, str]] = []  # begin, end and name of the faults that ended
        self.kinds: dict[str, str] = {}  # of the faults
        self.partitions: dict[tuple[str, int], _State] = {}

    def see(self, row: ClusterRow) -> list[str]:
        """Apply a row; say who lost a place by it without a cause."""
        match row.kind:
            case K.REGISTERED:
                self.registered[row.node], self.since[row.node] = row.incarnation, row.time_ns
            case K.SESSION_ENDED if self.registered.get(row.node) == row.incarnation:
                del self.registered[row.node]
            case K.NODE_STARTED:
                self.broken.discard(row.node)
            case K.NODE_STOPPED:
                self.stopped.add((row.node, self.registered.get(row.node, -1)))
            case K.DIR_FAILED:
                self.broken.add(row.node)
                self.reported.add((row.node, self.registered.get(row.node, -1)))
            case K.FAULT_BEGUN:
                self.in_force.setdefault((row.fault, row.node), row.time_ns)
                self.kinds[row.fault] = row.detail
                if row.detail == _LATE_ANSWERS:
                    self.answered_late[row.node] = _NEVER
            case K.FAULT_ENDED if (row.fault, row.node) in self.in_force:
                self.past.append((self.in_force.pop((row.fault, row.node)), row.time_ns, row.fault))
                if self.kinds[row.fault] == _LATE_ANSWERS:
                    self.answered_late[row.node] = row.time_ns
            case K.BROKER_STATE:
                return self._see_heartbeat(row)
            case _ if row.partition is not None:
                key = (row.topic, row.partition)
                if key not in self.partitions:
                    self.partitions[key] = _State(f"{row.topic}-{row.partition}")
                return self._see_partition(row, self.partitions[key])
            case _:
                pass
        return []

    def _see_heartbeat(self, row: ClusterRow) -> list[str]:
        """How a controller holds a broker; a change to inactive needs lost heartbeats or an ended registration."""
        registration = (row.node, row.broker, row.incarnation)
        before, self.heard[registration] = self.heard.get(registration), row.detail
        if row.detail in _OUT:
            self.out[row.broker] = (row.detail, row.time_ns)
        elif self.out.pop(row.broker, None) is not None:
            self.out_before[row.broker] = row.time_ns
        ended = (row.broker, row.incarnation) in self.stopped or self.registered.get(row.broker) != row.incarnation
        if (before, row.detail) != ("active", "inactive") or ended or self._is_excused(row.time_ns):
            return []
        return [f"controller {row.node} treated {row.broker} as inactive at row {row.at}, but faults took at most two heartbeats"]

    def _is_excused(self, now: int) -> bool:
        """Whether faults may have taken more than two heartbeats in a row.

        A cut connection stands still for some time after the cut, because TCP repeats what was lost ever more rarely.
        """
        spans = [*self.past, *((begun, now, fault) for (fault, _), begun in self.in_force.items())]
        since = now - self.session_ns
        if any(ended > since - _LATE_MS * MS and self.kinds[fault] not in _LOSSES for _, ended, fault in spans):
            return True
        reached, total = since, 0
        for begun, ended, _ in sorted(spans):
            total += max(0, ended - max(begun, reached))
            reached = max(reached, ended)
        return total >= HALF * self.session_ns

    def _see_partition(self, row: ClusterRow, state: _State) -> list[str]:
        """Take in a row about a partition; its state may show a member or leader that was lost without a cause."""
        if row.kind == K.ASSIGNED:
            state.assigned = row.replicas
        elif row.kind == K.ISR_CHANGE_SENT:
            state.unwanted |= {member for member in state.stamps if member not in row.isr}
        elif row.kind == K.STATE_WRITTEN:
            return self._see_state(row, state)
        else:
            state.moves = True
        return []

    def _see_state(self, row: ClusterRow, state: _State) -> list[str]:
        """The members and the leader that this state lost without a cause."""
        before, leader = (state.stamps, state.leader) if row.topic_id == state.topic_id else ({}, None)
        state.topic_id = row.topic_id
        state.stamps = self._stamps_of_isr(row)
        state.leader = row.leader
        unwanted, state.unwanted = state.unwanted, set()
        if state.moves or row.node == leader == row.leader:
            return []
        out = [node for node in before if node not in state.stamps and node not in unwanted]
        removed_nodes = [node for node in out if not self._has_cause(node, before[node], row, state)]
        complaints = [
            f"{node} was removed from the ISR of {state.name} at row {row.at} without a cause" for node in removed_nodes
        ]
        if leader in before and row.leader is None and not self._has_cause(leader, before[leader], row, state):
            complaints.append(f"{state.name} lost its leader {leader} at row {row.at} and got no other, without a cause")
        return complaints

    def _stamps_of_isr(self, row: ClusterRow) -> dict[str, int | None]:
        """The registrations of the ISR; of a member that was told in an older layout the one that it has now (R-316)."""
        stamps = stamps_of(row.isr, row.stamps)
        if row.stamps is None:
            return stamps
        return {node: self.registered.get(node) if stamp is None else stamp for node, stamp in stamps.items()}

    def _has_cause(self, node: str, stamp: int | None, row: ClusterRow, state: _State) -> bool:
        """Whether anything that this controller may know explains that the broker lost its place."""
        now = row.time_ns
        late_ns = self.answered_late.get(row.node, -1)
        unknown = self.since.get(node, -1) < late_ns and now < late_ns + _SOON_MS * MS
        is_gone = stamp is not None and self.registered.get(node) != stamp
        lately = now - self.out_before.get(node, -self.session_ns) < self.session_ns + _LATE_MS * MS
        dropped = state.assigned is not None and node not in state.assigned
        failed = node in self.broken or (node, stamp) in self.reported
        inactive = node in self.out or self._is_unheard(row.node, node, stamp)
        return is_gone or unknown or dropped or failed or inactive or (lately and node in self.out_before)

    def _is_unheard(self, controller: str, node: str, stamp: int | None) -> bool:
        """Whether the controller had heartbeats of the broker, and none under this registration, which is inactive until then.

        Only a leader of an earlier protocol takes such a member into the ISR: it writes to ZooKeeper without asking.
        """
        registrations = {heard_stamp for by, broker, heard_stamp in self.heard if (by, broker) == (controller, node)}
        return bool(registrations) and stamp is not None and stamp not in registrations


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Find brokers that lost a place without a cause. Ignores `cuts` (excused losses)."""
    if not facts.simulated:
        return Findings()
    cluster = _Cluster(facts.promise.session_timeout_ms)
    complaints = [complaint for row in events.as_rows(ClusterRow) for complaint in cluster.see(row)]
    return Findings(not_live=tuple(complaints), live_judged=bool(complaints))


CHECKER = Checker(
    name=NAME,
    claim="A controller takes a broker out of an ISR, or a leadership away, only for a cause, and holds no broker for inactive "
    "that it could hear.",
    assumes="Controllers record the states in which they hold brokers; the harness records when each fault begins and ends.",
    blind="Partitions that were moved, or for which an election was ordered; leaders that are replaced by another one; runs of "
    "real brokers.",
    reports=(not_live(unshown=HISTORIES),),
    group_by=WHOLE_RUN,
    events=(
        K.REGISTERED,
        K.SESSION_ENDED,
        K.NODE_STARTED,
        K.NODE_STOPPED,
        K.DIR_FAILED,
        K.FAULT_BEGUN,
        K.FAULT_ENDED,
        K.BROKER_STATE,
        K.STATE_WRITTEN,
        K.ASSIGNED,
        K.ISR_CHANGE_SENT,
        K.REASSIGNMENT_BEGUN,
        K.UNCLEAN_ELECTION_ORDERED,
    ),
    complexity="n in the rows, times the number of faults",
    check=check,
    split=gathered(check),
)
