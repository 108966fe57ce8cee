"""Checker of promptness: a step that nothing hinders does not wait for a timer (docs/promise.md LIVE-12).

Such a step takes a few messages. One that takes longer has lost its way, and a timer found it: the next time nothing may find it.
Judged are the steps of which the history shows both ends:

* a leader that sends an ISR change learns the result (KIP-497, V3 §G);
* a broker whose registration ended, or that the controller holds for inactive, is taken out of each ISR in which another member
  can lead (V3 §A, KIP-343); while none can, perhaps because the others registered anew, a recovery election may have to wait;
* a broker in controlled shutdown gives up the lead of each partition in whose ISR another member can lead, also one that joined
  later (KIP-343 stopping, R-184); the controller looks at each of its heartbeats, of which four go into a session timeout;
* a partition without a leader, also one whose leader and ISR registered anew, gets one when all of its ISR and ELR are back
  (docs/promise.md DUR-7, KIP-966); this takes a command and a question more, and brokers that ever lacked a directory or lost
  bytes of one are left out;
* a leader that the controller wrote is known to each live replica (V3 §A step 4), also to one that registers later, and that of a
  new partition also to a broker with a failed directory, which has another one (KIP-112, R-302); not to one that a move takes off
  the partition, once its target replicas are in the ISR (R-234);
* a new partition gets a state (V3 §B);
* a replica in a directory that failed gives up its role in the same instant, and waits for no command (KIP-112);
* a move whose target replicas are in the ISR takes its next step, until it ends (V3 §F, KIP-236); one that an operator may have
  stopped by hand, by an edit below /admin, is left out.

Each must follow within `DUE_MS` (`debts`), counted from the time when nothing hinders it any more: for `CALM_MS`
(`calms.still_ms` after a slow link) no fault has hit a broker that takes part, and the controller has been in office for
`TERM_MS`. ISR changes, elections and new partitions get `TURN_MS` more for each that is due already or at the same time, since
the controller makes one after the other; a move whose write may meet another one gets `RETRY_MS` more. Only simulated runs are
judged: on a busy machine everything may be late.

    >>> from checkers.sketches import sketch
    >>> known = "registered node=b2 incarnation=2", "controller-elected node=b9", "state-written node=b9 isr=b1,b2 leader=b1"
    >>> asked, late = "isr-change-sent node=b1 isr=b1,b2,b3", "final-reads time_ns=2000000000"
    >>> sketch("promptness", *known, asked, late)[0]
    'b1 does not know the result of its ISR change of t-0 500 ms after row 3'
    >>> sketch("promptness", "controller-elected node=b9", asked, "isr-change-ended node=b1 isr=b1,b2,b3", late)
    []
"""

from collections.abc import Iterable

from checkers.engine.anomalies import not_live
from checkers.engine.calms import CALM_MS, DIRECTORIES
from checkers.engine.checker import Checker
from checkers.engine.facts import MS, Facts, promised
from checkers.engine.groups import WHOLE_RUN
from checkers.engine.rows import ClusterRow
from checkers.engine.splits import gathered
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Cut, Findings
from checkers.liveness.debts import RETRY_MS, TERM_MS, TURN_MS, Debts, Partition
from checkers.liveness.dir_roles import Roles
from checkers.timeline.moves import EDIT, way_and_target
from checkers.timeline.wounds import stamps_of
from history.event import EventKind as K

NAME = "promptness"
_WAITING = ("inactive", "stopping")


class _State:
    """One partition: its state in ZooKeeper, its assignment, and the move under way."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.written: ClusterRow | None = None
        self.stamps: dict[str, int | None] = {}  # member of the ISR -> its registration
        self.assigned: tuple[str, ...] = ()
        self.way = ""  # of the move: forward, back or down; empty: none
        self.target: tuple[str, ...] = ()  # of the move, also while an edit may have stopped it
        self.left: set[str] = set()  # brokers that the move takes off the partition, and that have stopped their replica
        self.for_target = False  # whether the state was written for the target replicas alone, as far as rows can tell

    @property
    def leader(self) -> str | None:
        """The leader that ZooKeeper names."""
        return None if self.written is None else self.written.leader


class _Cluster:
    """The brokers and partitions after the rows applied so far, and the steps that must follow."""

    def __init__(self, facts: Facts, edited: list[tuple[int, int]]) -> None:
        self.facts = facts
        self._edited = edited  # when an operator's edit may have taken a move's request away, from and to
        self.debts = Debts(facts.promise)
        self.registered: dict[str, int] = {}
        self.registered_ns: dict[str, int] = {}  # broker -> when it registered last
        self.lives: dict[str, int] = {}  # broker -> its latest process
        self.stopped: set[str] = set()  # brokers whose process ended and did not register again
        self.hurt: set[str] = set()  # brokers of which a directory failed or lost bytes, at any time
        self.waiting: dict[str, str] = {}  # brokers that the controller holds for inactive or stopping -> which of the two
        self.broken: set[str] = set()  # brokers with a failed directory
        self.roles = Roles()
        self.partitions: dict[Partition, _State] = {}
        self.deleted: set[Partition] = set()  # of topics whose deletion was requested
        self.removed: dict[Partition, str | None] = {}  # whose removal was requested -> the id of the topic then

    def see(self, row: ClusterRow) -> None:
        """Apply one row."""
        debts = self.debts
        self.look(row.time_ns)
        debts.late += self.roles.see(row)
        match row.kind:
            case K.FAULT_BEGUN | K.FAULT_ENDED:
                if row.partition is None and row.node not in self.facts.client_places:
                    debts.see_fault(row)
            case K.CONTROLLER_ELECTED:
                debts.controller, debts.in_office_ns, self.waiting = row.node, row.time_ns, {}
                debts.settle("over")  # this one has not heard yet who is in controlled shutdown
                self._forget_moves()  # the controller before may have ended them; this one notes those that it goes on with
            case K.CONTROLLER_RESIGNED:
                debts.resigned(row.node)
            case K.BROKER_STATE if row.node == debts.controller:
                self._see_heartbeat(row)
            case K.REGISTERED:
                self.registered[row.node], self.registered_ns[row.node] = row.incarnation, row.time_ns
                self.waiting.pop(row.node, None)
                if (row.life or 0) < self.lives.get(row.node, 0):
                    self.stopped.add(row.node)  # ZooKeeper performed the request of a process that has ended
                else:
                    self.stopped.discard(row.node)
                for tp, state in self.partitions.items():
                    self._owe_telling(tp, state, row, (row.node,))
                    self._owe_election(tp, state, row)
            case K.SESSION_ENDED if self.registered.get(row.node) == row.incarnation:
                del self.registered[row.node]
                debts.resigned(row.node)
                debts.settle("told", row.node)
                for tp in [tp for tp, state in self.partitions.items() if state.leader == row.node]:
                    debts.settle("told", partition=tp)  # the next leader is told
                self._defer_waits_for(row.node)
                self._owe_removal_from_isr(row, row.node, "its registration ended")
            case K.WOUND:
                self.hurt.add(row.node)
                self._defer_waits_for(row.node)
            case K.NODE_STARTED:
                self.lives[row.node] = row.life or 0
                self.broken.discard(row.node)
                self._forget_debts(row.node)
            case K.NODE_STOPPED:
                self.broken.discard(row.node)
                self.stopped.add(row.node)
                debts.resigned(row.node)
                self._forget_debts(row.node)
                self._defer_waits_for(row.node)
            case K.DIR_FAILED:
                self.broken.add(row.node)
                self._forget_debts(row.node)
                self.hurt.add(row.node)
                self._defer_waits_for(row.node)
            case _ if row.partition is not None:
                self._see_partition((row.topic, row.partition), row)
            case _:
                pass

    def look(self, now: int) -> None:
        """Tell which steps are late, without the moves that an operator's edit may have stopped.

        A broker that is gone stays in the ISR while no other member can lead, and a move waits while its target replicas are not
        in the ISR under their present registration. Where all registered anew, the recovery election waits for the logs of all,
        also of one that a fault keeps away (docs/promise.md SILENT-1). `_owe_election` says when it is due.
        """
        while self._edited and self._edited[0][0] <= now:
            self._forget_moves()
            if self._edited[0][1] >= now:
                break
            self._edited.pop(0)
        for (step, broker, tp), debt in self.debts.open.items():
            state = self.partitions[tp]
            if (step == "out" and not self._others(state, broker)) or (step == "move" and not self._is_ready(tp, state)):
                debt.stalled_ns = now
        self.debts.look(now)

    def _forget_moves(self) -> None:
        """Expect no step of a move any longer."""
        self.debts.settle("move")
        for state in self.partitions.values():
            state.way = ""

    def _see_heartbeat(self, row: ClusterRow) -> None:
        """How the controller holds a broker: what a stopping or inactive one has to give up is due."""
        if row.detail in _WAITING:
            self.waiting[row.broker] = row.detail
            self._defer_waits_for(row.broker)
            if row.detail == "stopping":
                for tp, state in self.partitions.items():
                    self._owe_handover(tp, state, row)
            if row.detail == "inactive" and self.registered.get(row.broker) == row.incarnation:
                self._owe_removal_from_isr(row, row.broker, f"{row.node} holds it for inactive")
        else:
            self.waiting.pop(row.broker, None)
            self.debts.settle("out", row.broker)
            self.debts.settle("over", row.broker)
        for tp, state in self.partitions.items():
            if row.broker not in self.waiting:
                self._owe_election(tp, state, row)
            self._owe_step_of_move(tp, state, row)  # its answers are awaited only while it is active

    def _owe_removal_from_isr(self, row: ClusterRow, broker: str, cause: str) -> None:
        """A broker is gone: each ISR that names it must be written without it, if another member can lead."""
        for tp, state in self.partitions.items():
            if state.leader is not None and state.stamps.get(broker) == row.incarnation and self._others(state, broker):
                others = [node for node in state.stamps if node != broker]
                electors = (*others, *((state.written and state.written.elr) or ()))
                complaint = f"{broker} is still in the ISR of {state.name}, though {cause},"
                self.debts.owe(("out", broker, tp), row, electors, complaint)

    def _owe_handover(self, tp: Partition, state: _State, row: ClusterRow) -> None:
        """R-184: a leader in controlled shutdown is to be replaced, if another member of the ISR can lead."""
        leader = state.leader
        if leader is None or self.waiting.get(leader) != "stopping" or leader not in (state.target or state.assigned):
            return  # a move replaces a leader that is not in its target
        others = self._others(state, leader)
        if others and self.registered.get(leader) == state.stamps.get(leader) and leader not in self.broken | self.stopped:
            complaint = f"{leader} still leads {state.name}, though it shuts down and {' and '.join(sorted(others))} could lead,"
            more_ms = self.facts.promise.session_timeout_ms
            self.debts.owe(("over", leader, tp), row, (leader, *others), complaint, more_ms=more_ms).spared = ("shutdown",)

    def _members_in_service(self, state: _State, nodes: Iterable[str]) -> list[str]:
        """Those of the nodes that are in the ISR under their present registration and in service."""
        present = [node for node in nodes if node in state.stamps and self.registered.get(node) == state.stamps[node]]
        absent = self.waiting.keys() | self.broken | self.stopped
        return [node for node in present if node not in absent]

    def _others(self, state: _State, broker: str) -> list[str]:
        """The members of the ISR beside this broker that can lead."""
        return self._members_in_service(state, [node for node in state.stamps if node != broker])

    def _see_partition(self, tp: Partition, row: ClusterRow) -> None:
        """A row about a partition settles what was due, and makes the next steps due."""
        if row.kind == K.ASSIGNED:
            self.deleted.discard(tp)
        elif tp in self.deleted:
            return  # its state is still written while its replicas are being deleted
        state = self.partitions.setdefault(tp, _State(f"{row.topic}-{row.partition}"))
        if row.kind in (K.ASSIGNED, K.REASSIGNMENT_BEGUN):
            self._excuse_moves(row)
        match row.kind:
            case K.ISR_CHANGE_SENT:
                complaint = f"{row.node} does not know the result of its ISR change of {state.name}"
                self.debts.owe(("isr", row.node, tp), row, (row.node,), complaint)
            case K.ISR_CHANGE_ENDED:
                self.debts.settle("isr", row.node, tp)
            case K.BECAME_LEADER | K.BECAME_FOLLOWER | K.RESIGNED:
                self.debts.settle("isr", row.node, tp)
                self.debts.settle("over", row.node, tp)
                if row.kind == K.RESIGNED and state.target and row.node not in state.target:
                    state.left.add(row.node)
                if row.kind == K.RESIGNED or state.written is None or row.leader_epoch >= state.written.leader_epoch:
                    self.debts.settle("told", row.node, tp)  # one that resigned was told to stop
            case K.STATE_WRITTEN:
                self._see_state(tp, state, row)
            case K.ASSIGNED:
                self._see_assignment(tp, state, row)
            case K.TOPIC_DELETED:
                self.debts.settle(partition=tp)
                del self.partitions[tp]
                self.deleted.add(tp)
                self.removed[tp] = row.topic_id
            case K.REASSIGNMENT_BEGUN:
                (state.way, state.target), state.left, state.for_target = way_and_target(row.detail or ""), set(), False
                if self._edited and self._edited[0][0] <= row.time_ns:
                    state.way = ""
                self._owe_step_of_move(tp, state, row)
            case K.REASSIGNMENT_ENDED | K.REASSIGNMENT_REFUSED:
                state.way, state.target, state.left, state.for_target = "", (), set(), False
                self.debts.settle("move", partition=tp)
            case _:
                self._owe_step_of_move(tp, state, row)

    def _see_state(self, tp: Partition, state: _State, row: ClusterRow) -> None:
        """A state was written: followers must hear of it, and a move goes on."""
        before, state.written = state.written, row
        was_ready = self._is_ready(tp, state)
        state.stamps = stamps_of(row.isr, row.stamps)
        state.for_target = was_ready or self._is_ready(tp, state)  # the controller then uses the target assignment
        self.debts.settle("made", partition=tp)
        for key in [key for key in self.debts.open if key[0] == "out" and key[2] == tp]:
            debt = self.debts.open[key]
            if row.leader is None or state.stamps.get(key[1], -1) != debt.incarnation:
                self.debts.drop(key)
            else:  # V3 §A step 3.3: the leader wrote first, so the controller reads again
                debt.restart(row)
        self.debts.settle("led", partition=tp)
        self.debts.settle("over", partition=tp)
        self._owe_handover(tp, state, row)
        if row.leader is None:
            self.debts.settle("told", partition=tp)
            self._owe_election(tp, state, row)
        elif before is None or row.leader_epoch > before.leader_epoch:
            self._owe_telling(tp, state, row, state.assigned)
        self._owe_step_of_move(tp, state, row)

    def _owe_telling(self, tp: Partition, state: _State, row: ClusterRow, brokers: Iterable[str]) -> None:
        """These brokers, where they have a replica and are live, must learn the leader.

        One that registered just now may have refused a command, since it did not know that yet; the controller then pauses.
        """
        if state.written is None or state.leader is None:
            return
        if state.stamps.get(state.leader) not in (None, self.registered.get(state.leader)):
            return  # it is to be replaced, and perhaps the controller waits for the ends of logs
        is_new = row is state.written and row.zk_version == 0
        for broker in brokers:
            present = broker in self.registered and broker not in self.stopped and (is_new or broker not in self.broken)
            leaves = broker in state.left or (state.for_target and broker not in state.target)
            if present and broker in state.assigned and not leaves:
                complaint = f"{broker} does not know epoch {state.written.leader_epoch} of {state.name}"
                more_ms = RETRY_MS if row.time_ns < self.registered_ns[broker] + RETRY_MS * MS else 0
                debt = self.debts.owe(("told", broker, tp), row, (broker,), complaint, more_ms=more_ms)
                debt.spared = DIRECTORIES if broker in self.broken else ()

    def _owe_election(self, tp: Partition, state: _State, row: ClusterRow) -> None:
        """A partition that nobody can lead as stamped: one is elected when all are back that may hold committed records."""
        written = state.written
        key = ("led", "", tp)
        if written is None or key in self.debts.open:
            return
        if written.leader is not None and any(of in (None, self.registered.get(node)) for node, of in state.stamps.items()):
            return  # that member can lead
        members = {*written.isr, *(written.elr or ())}
        absent = self.waiting.keys() | self.stopped | self.hurt
        if members and all(node in self.registered and node not in absent for node in members):
            complaint = f"nobody leads {state.name}, though its ISR and ELR are back,"
            self.debts.owe(key, row, members, complaint, more_ms=2 * self.facts.promise.request_timeout_ms)

    def _forget_debts(self, node: str) -> None:
        """The broker forgets its ISR changes and commands, all or those of a directory: none of them is owed any more."""
        self.debts.settle("isr", node)
        self.debts.settle("told", node)

    def _defer_waits_for(self, node: str) -> None:
        """A broker went: who waits for it to lead, again or in place of one that shuts down, waits on."""
        for key in [key for key, debt in self.debts.open.items() if key[0] in ("led", "over") and node in debt.brokers]:
            self.debts.drop(key)

    def _see_assignment(self, tp: Partition, state: _State, row: ClusterRow) -> None:
        """An assignment: a new partition needs a state."""
        state.assigned = row.replicas
        for broker in {key[1] for key in self.debts.open if key[0] == "told" and key[2] == tp} - {*row.replicas}:
            self.debts.settle("told", broker, tp)
        live = [node for node in row.replicas if node in self.registered and node not in self.waiting]
        # A move that a removal ends may write the assignment once more: nobody can tell that from an addition.
        if state.written is None and live and self.removed.get(tp, "") != row.topic_id:
            self.debts.owe(("made", "", tp), row, live, f"{state.name} has no state")
        self._owe_step_of_move(tp, state, row)

    def _owe_step_of_move(self, tp: Partition, state: _State, row: ClusterRow) -> None:
        """A move whose target replicas are in the ISR must go on: the next row about the partition follows soon."""
        self.debts.settle("move", partition=tp)
        if not state.way or state.leader is None:
            return
        if self._is_ready(tp, state):
            # Any may hold a replica to be deleted, and one that stops is asked until its session ends.
            active = [node for node in self.registered if self.waiting.get(node) != "inactive"]
            if self.stopped.intersection(active):
                return
            complaint = f"the move of {state.name} {state.way} to {', '.join(state.target)} took no step"
            others = (
                sum(bool(state_there.way) for state_there in self.partitions.values()) - 1
            )  # the controller first writes what it has begun
            self.debts.owe(("move", "", tp), row, active, complaint, more_ms=TURN_MS * others)

    def _excuse_moves(self, row: ClusterRow) -> None:
        """The agent's write is one for all moves; it checks every topic and request that it has read (V3 §F, KIP-236)."""
        for (step, _, _), debt in self.debts.open.items():
            if step == "move":
                debt.restart(row, more_ms=RETRY_MS)

    def _is_ready(self, tp: Partition, state: _State) -> bool:
        """Whether a move is under way and enough of its target replicas are in the ISR for its next step."""
        promise = promised(self.facts, tp[0])
        least = 1 if promise is None else max(promise.min_insync_replicas, 1)
        members_needed = min(least, len(state.target)) if state.way == "back" else len(state.target)
        return bool(state.target) and len(self._members_in_service(state, state.target)) >= members_needed


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Find the steps that were late. Ignores `cuts` (excused losses)."""
    if not facts.simulated:
        return Findings()
    cluster = _Cluster(facts, _periods_of_edits(operations, facts))
    for row in events.as_rows(ClusterRow):
        cluster.see(row)
    cluster.look(facts.end_ns)
    late_debts = tuple(cluster.debts.late)
    return Findings(not_live=late_debts, live_judged=bool(late_debts))


def _periods_of_edits(operations: Operations, facts: Facts) -> list[tuple[int, int]]:
    """When edits of an operator were under way, or the controller might still read what was there before."""
    by_hand = operations.of(EDIT).calls
    spans = [(call.invoked_ns, call.rows[0].time_ns if call.type in ("ok", "fail") else facts.end_ns) for call in by_hand]
    times: list[tuple[int, int]] = []
    for begun, ended in sorted(spans):
        since = begun
        until = ended + TERM_MS * MS
        if times and since <= times[-1][1]:
            since, until = times[-1][0], max(until, times.pop()[1])
        times.append((since, until))
    return times


CHECKER = Checker(
    name=NAME,
    claim="A step of the protocol that nothing hinders is done at once: ISR changes, elections, hand-overs, commands, new "
    "partitions, moves.",
    assumes="The harness records when each fault begins and ends, and at which brokers; ZooKeeper's writes are complete.",
    blind=f"Steps of brokers that a fault hit in the last {CALM_MS} ms; the first {TERM_MS} ms of a controller; "
    "replicas of which no row tells the directory; runs of real brokers.",
    reports=(not_live(shown_by=("log-dir-keep-leader",)),),
    group_by=WHOLE_RUN,
    operations=(EDIT,),
    events=(
        K.REGISTERED,
        K.SESSION_ENDED,
        K.NODE_STARTED,
        K.NODE_STOPPED,
        K.DIR_FAILED,
        K.WOUND,
        K.FAULT_BEGUN,
        K.FAULT_ENDED,
        K.BROKER_STATE,
        K.CONTROLLER_ELECTED,
        K.CONTROLLER_RESIGNED,
        K.STATE_WRITTEN,
        K.ASSIGNED,
        K.TOPIC_DELETED,
        K.ISR_CHANGE_SENT,
        K.ISR_CHANGE_ENDED,
        K.BECAME_LEADER,
        K.BECAME_FOLLOWER,
        K.RESIGNED,
        K.REPLICA_DELETED,
        K.RECOVERED,
        K.REASSIGNMENT_BEGUN,
        K.REASSIGNMENT_ENDED,
        K.REASSIGNMENT_REFUSED,
    ),
    complexity="n in the rows",
    check=check,
    split=gathered(check),
)
