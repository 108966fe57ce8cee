"""Checker: what brokers tell clients is true once nothing has changed for a while (docs/promise.md LIVE-13, R-304, R-311).

`convergence` compares the metadata with ZooKeeper at the very end. This checker judges them during the run, while
brokers are down too: which brokers serve, who is controller, and of each partition the leader, leader epoch, ISR, replicas and
offline replicas. A deleted partition is told no more. A client that is told of a dead broker as if it served loses its time
there.

The controller pushes each change. So an answer must be right once for `lag_ms` neither what it is about has changed, nor the
controller, nor the broker that answers, and no fault hit those two or a link among others. After such a fault a command may be
lost once more on a connection that stands still, and is sent again. Faults of single other brokers are no excuse. The ISR is left
out where the leader wrote it itself (V3 §G tells nobody), and replicas of a broker whose directory failed are judged only where
the harness recorded that the fault withholds them.

The simulator asks every broker several times a second, beside the clients and without a message, so that looking changes nothing.
It records only the answers that this rule refuses (`metadata-told`), because there are many.

    >>> from checkers.sketches import sketch
    >>> lives = "registered node=b1 incarnation=1", "registered node=b2 incarnation=2", "controller-elected node=b1"
    >>> state = "state-written node=b1 leader=b1 isr=b1,b2", "session-ended node=b2 incarnation=2"
    >>> told = "metadata-told node=b1 leader=b1 isr=b1,b2 replicas=b1,b2 detail=- time_ns=60000000000"
    >>> sketch("metadata", *lives, *state, told)
    ['b1 tells that no replica of t-0 is offline at row 5, though b2 is']
"""

from collections.abc import Iterator
from typing import NamedTuple

from checkers.engine.anomalies import HISTORIES, not_live
from checkers.engine.calms import CALM_MS, is_of_one_broker, still_ms
from checkers.engine.checker import Checker
from checkers.engine.facts import MS, Facts
from checkers.engine.groups import WHOLE_RUN
from checkers.engine.splits import gathered
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Cut, Findings
from history.event import EventKind as K
from history.fault_kinds import family_of
from history.promise import Promise

NAME = "metadata"
OF_CLUSTER = "cluster"  # detail of a row without a partition: `replicas` are the brokers that serve, `leader` is the controller
ABSENT = "absent"  # detail of a row about a partition that the answer does not list
NONE = "-"  # detail of a row about a partition without offline replicas; else they are joined by commas
KINDS = (
    K.NODE_STARTED,
    K.NODE_STOPPED,
    K.REGISTERED,
    K.SESSION_ENDED,
    K.CONTROLLER_ELECTED,
    K.CONTROLLER_RESIGNED,
    K.BROKER_STATE,
    K.FENCED,
    K.UNFENCED,
    K.DIR_FAILED,
    K.STATE_WRITTEN,
    K.ASSIGNED,
    K.TOPIC_DELETED,
    K.FAULT_BEGUN,
    K.FAULT_ENDED,
)
_READ = frozenset(map(str, KINDS))
_Name = tuple[str, int]  # a partition


class Row(NamedTuple):
    """One event. Columns that the kind does not fill are None, whatever their type says."""

    at: int  # index of the row
    time_ns: int
    kind: str
    node: str
    broker: str
    incarnation: int | None
    topic: str
    topic_id: str | None
    partition: int | None
    leader: str | None
    leader_epoch: int | None
    isr: tuple[str, ...] | None
    elr: tuple[str, ...] | None
    replicas: tuple[str, ...] | None
    dir: int | None
    fault: str
    detail: str | None


class Known:
    """The state of one partition in ZooKeeper, and since when it stands."""

    def __init__(self) -> None:
        self.state: Row | None = None
        self.assigned: tuple[str, ...] | None = None
        self.since_ns = 0
        self.withheld: set[str] = set()  # nodes whose replica a fault withholds now


class Standing:
    """What is true of the cluster after the rows seen so far, and since when.

    `lag_ms` is the time in which brokers must learn it, and `healing_ms` that after a fault.
    """

    def __init__(self, promise: Promise) -> None:
        self._promise = promise
        self.lag_ms = promise.session_timeout_ms + 2 * promise.request_timeout_ms
        self.healing_ms = max(self.lag_ms, CALM_MS + promise.request_timeout_ms)
        self._registered: dict[str, int | None] = {}
        self._inactive: dict[str, int | None] = {}  # node -> registration that the controller holds for inactive
        # Nodes of whose registration the controller has said nothing yet, and whether its process is over. A controller that
        # holds a new registration for inactive does not say so where it held the one before for inactive.
        self._untold: dict[str, bool] = {}
        self._tells_states = False  # whether the controller knows states of brokers at all (KIP-343)
        self._changed: dict[str, int] = {}  # node -> when it was registered, lost that, or changed its state at the controller
        self._controller: str | None = None
        self._elected_ns = 0
        self._acted: dict[str, int] = {}  # node -> when it last started, was fenced or unfenced
        self._dirs: dict[str, bool] = {}  # nodes of which a directory failed -> whether that process is over
        self._partitions: dict[_Name, Known] = {}
        self._deleted: dict[tuple[str, int, str | None], int] = {}  # with the topic's id -> when its deletion was requested
        self._in_force: dict[tuple[str, str], str] = {}
        self._last_hit_ns: dict[str, int] = {}  # node, or "" for links -> when the last fault there ended
        self.settled_ns = 0  # from when on it no longer depends on the time what is wrong

    # --- what happened ----------------------------------------------------------------------------------------------------

    def see(self, row: Row) -> None:
        """Apply one row."""
        self._settle(row.time_ns)
        match row.kind:
            case K.FAULT_BEGUN | K.FAULT_ENDED:
                self._see_fault(row)
            case K.STATE_WRITTEN | K.ASSIGNED | K.TOPIC_DELETED:
                self._see_partition(row)
            case K.CONTROLLER_ELECTED:
                self._controller, self._elected_ns, self._inactive = row.node, row.time_ns, {}
                self._tells_states = False
            case K.CONTROLLER_RESIGNED if row.node == self._controller:
                self._controller, self._elected_ns = None, row.time_ns
            case K.BROKER_STATE if row.node == self._controller:
                self._changed[row.broker] = row.time_ns
                self._tells_states = True
                self._untold.pop(row.broker, None)
                self._inactive.pop(row.broker, None)
                if row.detail == "inactive":
                    self._inactive[row.broker] = row.incarnation
            case K.REGISTERED:
                self._registered[row.node] = row.incarnation
                self._untold[row.node] = False
                self._changed[row.node] = row.time_ns
                # Only now does the controller know of the new process, which may have found a directory unreadable before this.
                if self._dirs.get(row.node):
                    del self._dirs[row.node]
            case K.SESSION_ENDED if self._registered.get(row.node) == row.incarnation:
                del self._registered[row.node]
                self._changed[row.node] = row.time_ns
                if row.node == self._controller:
                    self._controller, self._elected_ns = None, row.time_ns
            case K.DIR_FAILED:
                self._dirs[row.node] = False
                self._changed[row.node] = row.time_ns
            case K.NODE_STARTED | K.NODE_STOPPED | K.FENCED | K.UNFENCED:
                self._acted[row.node] = row.time_ns
                if row.kind == K.NODE_STOPPED and row.node in self._untold:
                    self._untold[row.node] = True
                if row.kind == K.NODE_STARTED and row.node in self._dirs:
                    self._dirs[row.node] = True
            case _:
                pass

    def _settle(self, changed_ns: int) -> None:
        self.settled_ns = max(self.settled_ns, changed_ns + self.healing_ms * MS)

    def _see_partition(self, row: Row) -> None:
        """The truth about a partition changes: its state, its assignment, its deletion."""
        if row.partition is None:
            return
        name = row.topic, row.partition
        if row.kind == K.TOPIC_DELETED:
            self._partitions.pop(name, None)
            self._deleted[*name, row.topic_id] = row.time_ns
            return
        if row.kind == K.ASSIGNED:
            self._deleted.pop((*name, row.topic_id), None)  # a partition of the topic was added again
        elif (*name, row.topic_id) in self._deleted:
            return  # its state is still written while its replicas are being deleted
        partition = self._partitions.setdefault(name, Known())
        partition.since_ns = row.time_ns
        if row.kind == K.STATE_WRITTEN:
            partition.state = row
        else:
            partition.assigned = row.replicas

    def _see_fault(self, row: Row) -> None:
        """A fault begins or ends: where it is, and until when it may still act."""
        node = row.node or ""
        begins = row.kind == K.FAULT_BEGUN
        if row.partition is not None:
            partition = self._partitions.setdefault((row.topic, row.partition), Known())
            partition.withheld.add(node) if begins else partition.withheld.discard(node)
            self._changed[node] = row.time_ns
        elif begins:
            self._in_force[row.fault, node] = row.detail or ""
        else:
            detail = self._in_force.pop((row.fault, node), "")
            where = node if is_local(detail) else ""
            ended_ns = (
                row.time_ns + (still_ms(detail, self._promise) - CALM_MS) * MS
            )  # a slow link holds what it delayed for longer
            self._last_hit_ns[where] = max(self._last_hit_ns.get(where, 0), ended_ns)
            self._settle(ended_ns)

    def partitions(self) -> list[_Name]:
        """The partitions that have a state, in the order of their names."""
        return sorted(name for name, partition in self._partitions.items() if partition.state is not None)

    @property
    def controller(self) -> str | None:
        """The controller, as elected in ZooKeeper."""
        return self._controller

    def settled_partitions(self, now_ns: int) -> dict[_Name, Known] | None:
        """The partitions that exist; None if one of them has changed lately, or if one may still be about to be deleted."""
        deletions = list(self._deleted.values())
        if deletions and (self._in_force or not self._stands(now_ns, max(deletions + list(self._last_hit_ns.values())))):
            return None
        return self._partitions if all(self._stands(now_ns, p.since_ns) for p in self._partitions.values()) else None

    def inactive(self, now_ns: int) -> set[str] | None:
        """The registered brokers that the controller holds for inactive; None if a broker has changed lately."""
        if not all(self._stands(now_ns, changed_ns) for changed_ns in self._changed.values()):
            return None
        return {node for node, incarnation in self._inactive.items() if self._registered.get(node, -1) == incarnation}

    # --- what an answer must say --------------------------------------------------------------------------------------------

    def is_calm(self, now_ns: int, node: str) -> bool:
        """Whether the broker and the controller have been left alone for so long that the broker knows everything."""
        changed_ns = max(self._elected_ns, self._acted.get(node, 0), self._changed.get(node, 0))
        hits = [self._last_hit_ns[place] for place in ("", node, self._controller) if place in self._last_hit_ns]
        stands = self._stands(now_ns, changed_ns) and all(now_ns - hit_ns >= self.healing_ms * MS for hit_ns in hits)
        hit = any(where in (node, self._controller) or not is_local(detail) for (_, where), detail in self._in_force.items())
        return not hit and self._controller is not None and stands and node in self._registered

    def _stands(self, now_ns: int, since_ns: int) -> bool:
        return now_ns - since_ns >= self.lag_ms * MS

    def _must_be_listed(self, now_ns: int, node: str) -> bool | None:
        """Whether the metadata must list the broker; None if that has changed lately, or if nobody can know."""
        if not self._stands(now_ns, self._changed.get(node, 0)):
            return None
        if self._tells_states and node in self._registered and self._untold.get(node, False):
            return None  # its process ended before the controller heard of it
        return node in self._registered and (node not in self._inactive or self._inactive[node] != self._registered[node])

    def wrong(self, now_ns: int, told: Row) -> str | None:
        """Say what is wrong with an answer, or with what it says of one partition; None if nothing is, or nobody can know."""
        return self.wrong_in_calm(now_ns, told) if self.is_calm(now_ns, told.node) else None

    def wrong_in_calm(self, now_ns: int, gauge_row: Row) -> str | None:
        """The same for a broker that `is_calm`."""
        return (
            self._complaint_of_cluster(now_ns, gauge_row)
            if gauge_row.detail == OF_CLUSTER
            else self._complaint_of_partition(now_ns, gauge_row)
        )

    def _complaint_of_cluster(self, now_ns: int, row: Row) -> str | None:
        """What is wrong in an answer about the cluster: the controller, or a broker that serves or not."""
        if row.leader != self._controller:
            return f"{row.leader or 'no broker'} is controller at row {row.at}, though {self._controller} is"
        listed = set(row.replicas or ())
        for node in sorted({*self._changed, *listed}):
            serves = self._must_be_listed(now_ns, node)
            if serves is not None and serves is not (node in listed):
                return f"{node} {'serves' if node in listed else 'does not serve'} at row {row.at}, which is wrong"
        return None

    def _complaint_of_partition(self, now_ns: int, row: Row) -> str | None:
        """What is wrong in an answer about a partition; None if it is right or may not be known yet."""
        name = f"{row.topic}-{row.partition}"
        partition = self._partitions.get((row.topic, row.partition or 0))
        if row.detail != ABSENT and self._is_gone(now_ns, row):
            return f"{name} exists at row {row.at}, though its deletion was requested"
        if partition is None or partition.state is None or not self._stands(now_ns, partition.since_ns):
            return None
        state = partition.state
        where = f"at row {row.at}"
        if row.detail == ABSENT:
            return f"{name} does not exist {where}, though {state.leader} leads it" if state.leader is not None else None
        if (row.leader, row.leader_epoch) != (state.leader, state.leader_epoch):
            is_ = f"{state.leader or 'no broker'} does in epoch {state.leader_epoch}"
            return f"{row.leader or 'no broker'} leads {name} in epoch {row.leader_epoch} {where}, though {is_}"
        if partition.assigned is not None and row.replicas != partition.assigned:
            return f"{name} is on {_words(row.replicas)} {where}, though it is on {_words(partition.assigned)}"
        if state.node != state.leader and set(row.isr or ()) != set(state.isr or ()):
            return f"the ISR of {name} is {_words(row.isr)} {where}, though it is {_words(state.isr)}"
        return self._complaint_of_offline(now_ns, row, partition, f"of {name} is offline {where}")

    def _is_gone(self, now_ns: int, row: Row) -> bool:
        """Whether a partition must be gone by now: its deletion was asked for long enough ago, without a fault since."""
        # A request waits until the one before it is done, and that one for brokers which a fault may stop.
        since_ns = self._deleted.get((row.topic, row.partition or 0, row.topic_id))
        hit_ns = max(self._last_hit_ns.values(), default=0)
        return since_ns is not None and not self._in_force and self._stands(now_ns, max(since_ns, hit_ns))

    def _complaint_of_offline(self, now_ns: int, row: Row, known_partition: Known, what: str) -> str | None:
        """What is wrong in the list of offline replicas."""
        offline = () if row.detail in (None, NONE) else tuple(row.detail.split(","))
        for node in row.replicas or ():
            serves = self._must_be_listed(now_ns, node)
            out = None if serves is None else not serves or self._lacks_directory(node, known_partition)
            if out and node not in offline:
                return f"{_words(offline) if offline else 'no replica'} {what}, though {node} is"
            if out is False and node in offline:
                return f"{node} {what}, though it serves"
        return None

    def _lacks_directory(self, node: str, known_partition: Known) -> bool | None:
        """Whether the broker's directory for the partition has failed; None if that is not known."""
        if node not in self._dirs:
            return None if node in known_partition.withheld else False
        return True if node in known_partition.withheld else None


def _words(nodes: tuple[str, ...] | None) -> str:
    return ", ".join(nodes or ()) or "none"


def is_read(kind: str) -> bool:
    """Whether `Standing` looks at events of this kind."""
    return kind in _READ


def _complaints(rows: list[Row], promise: Promise) -> Iterator[str]:
    """What brokers told clients that was not true."""
    standing = Standing(promise)
    for row in rows:
        if row.kind != K.METADATA_TOLD:
            standing.see(row)
        elif (words := standing.wrong(row.time_ns, row)) is not None:
            yield f"{row.node} tells that {words}"


def is_local(kind: str) -> bool:
    """Whether a fault leaves all but the broker or the place that it hits as they are."""
    return is_of_one_broker(kind) or family_of(kind) == "place"


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Judge the answers that the harness recorded. Ignores `cuts` (excused losses)."""
    if K.METADATA_TOLD not in events.words:
        return Findings()
    complaints = tuple(_complaints(events.as_rows(Row), facts.promise))
    return Findings(not_live=complaints, live_judged=bool(complaints))


CHECKER = Checker(
    name=NAME,
    claim="Brokers tell clients the truth about brokers, controller, leaders, ISRs, replicas and offline replicas, once it "
    "stands for a session timeout and two request timeouts, also while other brokers are down.",
    assumes="The harness records each answer that is wrong by this rule.",
    blind="Answers soon after a change, or after a fault of the controller, of the broker that answers, or of links; ISRs that a "
    "leader wrote itself; real backends.",
    reports=(not_live(unshown=HISTORIES),),
    group_by=WHOLE_RUN,
    events=(*KINDS, K.METADATA_TOLD),
    check=check,
    split=gathered(check),
)
