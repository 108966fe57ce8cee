"""Liveness checks: the cluster is whole again in time after all faults ended; never part of safety (docs/promise.md §6).

B after the harness has healed the cluster, it must be whole: one controller, every broker registered, every partition led by the
leader in ZooKeeper with all assigned replicas in the ISR, acks=all acknowledged again, logs equal and committed to the end, and
final readers given every acknowledged record. From then on every kind of request is served (LIVE-5). The state is checked twice:
B after healing and at the end. Only one silence is right after healing: a partition of which every counted-on replica was emptied
(SILENT-2). It is counted.

A replica also counts as emptied if its directory was swapped before its broker made a log of it, although it was counted on
already: the broker cannot know on return that the directory held nothing.

Liveness is not judged (`live` is null) if the run did not heal, or ended before the bound.

    >>> from checkers.sketches import sketch
    >>> rows = "state-written leader=b1 isr=b1,b2", "registered node=b1 incarnation=1"
    >>> sketch("availability-cluster", *rows, "controller-elected node=b1", "healed")
    ['b2 is not registered at the end', 'b3 is not registered at the end']
    >>> rows = "state-written leader=b1 isr=b1,b2", "became-leader node=b1 hw=0 leo=0"
    >>> sketch("availability", *rows, "became-follower node=b2", "became-follower node=b3", "healed")
    ['b3 not in the ISR of t-0 at the end']
"""

from checkers.engine import screens
from checkers.engine.anomalies import not_live
from checkers.engine.checker import Checker, cuts_of
from checkers.engine.facts import MS, Facts, promised, recovery_deadline_ns
from checkers.engine.groups import PARTITION, WHOLE_RUN, partition_of
from checkers.engine.rows import Call, EventRow
from checkers.engine.splits import gathered
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Cut, Findings
from checkers.liveness.audits import belied, misrefused, pending_requests, slow, unpreferred, unserved
from checkers.liveness.confirmed import undeleted, unmade
from checkers.liveness.orders import ROWS as ORDER_ROWS
from checkers.liveness.orders import forgotten
from checkers.timeline.isr_history import ISR_ROWS, IsrHistory
from checkers.timeline.moves import ROWS as MOVE_ROWS
from checkers.timeline.moves import dropped, misled, undone, unexplained, unheard
from checkers.timeline.replay import REPLAYED, Replicas
from checkers.timeline.wounds import Wounded
from history.event import EventKind as K
from history.op import ADMIN_REQUESTS

NAME = "availability"
_MOVES = "/admin/reassign"
_MAY_BE_LATE = (None, "REQUEST_TIMED_OUT", "NETWORK_EXCEPTION")  # errors of a slow machine; librdkafka's begin with "_"
NO_LEADER = "LEADER_NOT_AVAILABLE"
Times = list[int]  # ns, of the writes of a partition's state
_MADE = (K.BECAME_LEADER, K.BECAME_FOLLOWER, K.RECOVERED, K.APPEND)
_ROLES = (K.BECAME_LEADER, K.BECAME_FOLLOWER, K.RESIGNED, K.NODE_STOPPED)


# --- LIVE-1: the cluster --------------------------------------------------------------------------------------------------------


def check_cluster(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Judge liveness of the whole cluster after all faults ended (LIVE-1, LIVE-4 and LIVE-5):

    one controller, every broker registered, every assigned partition in ZooKeeper, no open request in /admin, each request
    after the bound carried out. Without rows of states the run is judged too, unless a broker became leader: then the rows are
    missing, else no partition ever had a leader.
    """
    deadline = recovery_deadline_ns(facts)
    if deadline is None:
        return Findings()
    happened = events.words
    if K.BECAME_LEADER in happened and K.STATE_WRITTEN not in happened:
        return Findings(unchecked=("availability-cluster: became-leader rows, but no state-written rows",))
    complaints: list[str] = []
    registered: dict[str, int | None] = {}
    controller: str | None = None
    partitions: set[tuple[str, int]] = set()
    when = "in time"
    columns = (events.column(name) for name in ("time_ns", "kind", "node", "incarnation", "topic", "partition"))
    for time_ns, kind, node, incarnation, topic, partition in zip(*columns, strict=True):
        if time_ns > deadline and when == "in time":
            complaints.extend(_cluster_lacks(facts, registered, controller, "B after healing"))
            when = "late"
        if kind == K.REGISTERED:
            registered[node] = incarnation
        elif kind == K.SESSION_ENDED and registered.get(node) == incarnation:
            del registered[node]
            controller = None if controller == node else controller
        elif kind == K.CONTROLLER_ELECTED:
            controller = node
        elif kind == K.CONTROLLER_RESIGNED and controller == node:
            controller = None
        elif kind == K.STATE_WRITTEN:
            partitions.add((topic, partition))
    complaints.extend(_cluster_lacks(facts, registered, controller, "at the end"))
    never = {(assigned.topic, assigned.partition) for assigned in facts.assignments} - partitions | _leaderless_partitions(events)
    complaints.extend(f"{topic}-{partition} never had a leader" for topic, partition in sorted(never))
    pending = pending_requests(operations.calls, facts)
    named = events.columns("index", "topic", "partition")
    about = {at: f"{topic}-{partition}" for at, topic, partition in named if partition is not None}
    fit = [row for row in events.rows if row.at in about]
    leaders: dict[str, str | None] = {}
    for row in fit:
        if row.kind == K.STATE_WRITTEN:
            leaders[about[row.at]] = row.leader
        elif row.kind == K.TOPIC_DELETED:
            leaders.pop(about[row.at], None)
    # SILENT-2: a partition without a leader cannot be moved. Whether it may be without one is judged with the partition.
    offline = None in leaders.values()
    complaints.extend(complaint for complaint in pending if not offline or not complaint.startswith(_MOVES))
    done = operations.calls
    placed = [(about[row.at], row) for row in fit]
    elected = events.of(K.CONTROLLER_ELECTED).column("index")
    complaints.extend((*undone(done, placed), *unheard(done, placed), *misled(done, placed, elected), *belied(done, placed)))
    complaints.extend(dropped(done, events) if facts.simulated else ())
    refusals = events.of(K.REQUEST_REFUSED)
    refused = refusals.column("detail")
    complaints.extend(unexplained(done, refusals.columns("index", "detail")))
    complaints.extend(unmade(done, placed, refused))
    complaints.extend(undeleted(done, placed, refused) if facts.simulated else ())
    complaints.extend(forgotten(done, events, facts))
    complaints.extend(unserved(done, deadline, offline=offline))
    complaints.extend(misrefused(done, facts))
    complaints.extend(unpreferred(done, placed, deadline))
    complaints.extend(slow(done, facts, deadline))
    return Findings(not_live=tuple(complaints), live_judged=True)


def _leaderless_partitions(events: Events) -> set[tuple[str, int]]:
    """The partitions that were made, exist at the end, and never had a state. A topic made again is another one."""
    created: set[tuple[str, int, str | None]] = set()
    over: set[tuple[str, int, str | None]] = set()
    columns = (events.column(name) for name in ("kind", "topic", "partition", "topic_id"))
    for kind, topic, partition, id_ in zip(*columns, strict=True):
        if kind == K.ASSIGNED:
            created.add((topic, partition, id_))
        elif kind in (K.TOPIC_DELETED, K.STATE_WRITTEN):
            over.add((topic, partition, id_))
    return {(topic, partition) for topic, partition, _ in created - over}


def _cluster_lacks(facts: Facts, registered: dict[str, int | None], controller: str | None, when: str) -> list[str]:
    why = [f"{broker} is not registered {when}" for broker in facts.brokers if broker not in registered]
    return why if controller is not None else [*why, f"no broker is controller {when}"]


# --- LIVE-2 and LIVE-3: a partition ---------------------------------------------------------------------------------------------


class _Partition:
    """The leader, ISR and logs of one partition after the rows applied so far."""

    def __init__(self, name: str, assigned: tuple[str, ...], min_isr: int) -> None:
        self.name, self.assigned = name, assigned
        self.standing = IsrHistory(min_isr)
        self.replicas = Replicas()
        self.wounded = Wounded()
        self.emptied: set[str] = set()
        self.made: set[str] = set()  # nodes that have made a log of it
        self.epochs: dict[str, int] = {}  # node -> the leader epoch that it acts in
        self.hw = -1
        self.written: Times = []

    def see(self, row: EventRow) -> None:
        """Take in a row of the partition."""
        kind = row.kind
        if kind == K.ASSIGNED:
            self.assigned = row.replicas
        if kind in _MADE:
            self.made.add(row.node)
        elif kind == K.REPLICA_DELETED:
            self.made.discard(row.node)
        if kind in REPLAYED:
            self.replicas.replay(row)
        if kind in ISR_ROWS:
            self.standing.see(row)
            self.written += [row.time_ns] if kind == K.STATE_WRITTEN else []
        if kind in (K.WOUND, K.REGISTERED, K.STATE_WRITTEN):
            self.wounded.see(row)
            self.emptied &= set(self.wounded.since)
            if kind == K.WOUND and row.detail == "swapped":
                self.emptied.add(row.node)
        elif kind in (K.BECAME_LEADER, K.BECAME_FOLLOWER):
            self.epochs[row.node] = row.leader_epoch
        elif kind in (K.RESIGNED, K.NODE_STOPPED):
            self.epochs.pop(row.node, None)
        elif kind == K.HW and row.detail == "leader" and row.node == self.standing.leader:
            self.hw = row.hw

    def see_swap(self, row: EventRow) -> None:
        """Note that the log directory was replaced by an empty one before the broker made a log of the partition there."""
        if row.node not in self.made:
            self.wounded.see(row)
            self.emptied.add(row.node)

    @property
    def exists(self) -> bool:
        """Whether the partition has been assigned to brokers."""
        return bool(self.assigned)

    def is_emptied(self) -> bool:
        """True if the harness emptied every replica that counts, so that the partition may stay offline (SILENT-2)."""
        counted = self.standing.counted_on()
        return bool(counted) and self.standing.leader is None and all(node in self.emptied for node in counted)

    def lacks(self, when: str) -> list[str]:
        """Describe what the partition lacks: a leader, a full ISR, or replicas in ZooKeeper's leader epoch (LIVE-1, LIVE-2)."""
        if self.standing.leader is None:
            return [f"{self.name} has no leader {when}"]
        complaints = []
        absent = [node for node in self.assigned if node not in self.standing.isr]
        if absent:
            complaints.append(f"{', '.join(absent)} not in the ISR of {self.name} {when}")
        for node in self.assigned:
            epoch = self.epochs.get(node)
            # A leader's own ISR change keeps the epoch; a controller that raises it tells every replica.
            if epoch != self.standing.epoch:
                says = "acts in no epoch" if epoch is None else f"acts in epoch {epoch}"
                complaints.append(f"{node} {says} of {self.name}, ZooKeeper has {self.standing.epoch}, {when}")
        return complaints

    def log(self) -> list[str | None]:
        """The log of the leader that ZooKeeper names; empty if there is none."""
        return [] if self.standing.leader is None else self.replicas.log(self.standing.leader).values

    def disagrees(self) -> list[str]:
        """Describe which replicas' logs differ or are not committed to their end when the run ends (LIVE-2)."""
        leader = self.standing.leader
        if leader is None:
            return []
        values = self.replicas.log(leader).values
        complaints = [
            f"the log of {node} differs from that of leader {leader} of {self.name} at the end"
            for node in self.assigned
            if not _are_alike(self.replicas.log(node).values, values)
        ]
        if values and self.hw != len(values):
            complaints.append(f"the high watermark of {self.name} is {self.hw} at the end, the log end offset is {len(values)}")
        return complaints


def _are_alike(log: list[str | None], other_log: list[str | None]) -> bool:
    """True if two replica logs have equal length and no differing value. An unknown entry (None) agrees with every value."""
    return log == other_log or (
        len(log) == len(other_log)
        and not any(a != b for a, b in zip(log, other_log, strict=True) if a is not None and b is not None)
    )


def _complaints_of_clients(
    calls: list[Call], facts: Facts, deadline: int, partition: _Partition, cuts: tuple[Cut, ...]
) -> list[str]:
    """Describe what clients missed after the bound B: answers (LIVE-2, LIVE-5, LIVE-8) or records in final reads (LIVE-3)."""
    name = partition.name
    patience = facts.promise.request_timeout_ms * MS
    late_calls = [call for call in calls if call.invoked_ns >= deadline and not _was_refused_by_client(call)]
    informed = _calls_that_knew_the_leader(late_calls, partition.written, patience)
    kinds_asked = {
        "acks=all produce to": [call for call in late_calls if call.f == "produce" and call.asked[0].acks == -1],
        "acks=1 produce to": [call for call in informed if call.asked[0].acks == 1],
        "poll of": [call for call in late_calls if call.f == "poll"],
        "question for the latest offset of": [call for call in late_calls if call.f == "latest"],
    }
    complaints = [
        f"no {what} {name} was answered with success after the bound"
        for what, calls_ in kinds_asked.items()
        if calls_ and not any(call.type == "ok" for call in calls_)
    ]
    for call in informed:
        if call.asked[0].acks in (-1, 1) and call.type in ("fail", "info") and not _is_late(error := call.rows[0].error):
            complaints.append(
                f"process {call.process} knew the leader of {name} and got {error} for its produce at row {call.invoked}"
            )
    sent = [row.value for call in informed if call.asked[0].acks == 0 for row in call.asked]
    if sent and not set(sent) & set(partition.log()):
        complaints.append(
            f"none of {len(sent)} records that were sent to {name} with acks=0 after the bound is in the log at the end"
        )
    complaints.extend(slow(late_calls, facts, deadline))
    ends_withheld = [call for call in calls if call.f == "latest" and call.type == "ok" and call.rows[0].offset is None]
    complaints.extend(
        f"process {call.process} was told no end offset of {name} by the answer at row {call.ended}" for call in ends_withheld
    )
    hung = [call for call in calls if not call.type and call.invoked_ns + patience < facts.end_ns]
    complaints.extend(f"process {call.process} got no answer to its {call.f} at row {call.invoked}" for call in hung)
    return (
        complaints
        if facts.final_reads_at_ns is None
        else complaints + _unseen_records(calls, facts.final_reads_at_ns, name, cuts)
    )


def _untold_silence(calls: list[Call], deadline: int, name: str) -> list[str]:
    """Describe that no client was told that the partition rightly has no leader (SILENT-2), but only that time was up.

    Where a call succeeded, somebody led it.
    """
    late_calls = [call for call in calls if call.invoked_ns >= deadline and call.rows]
    if any(call.type == "ok" or call.rows[0].error == NO_LEADER for call in late_calls):
        return []
    return [f"no client was told that {name} has no leader"] if late_calls else []


def _was_refused_by_client(call: Call) -> bool:
    # librdkafka asks for a topic's partitions every five minutes, and refuses to send to one that it has not heard of.
    return bool(call.rows) and call.rows[0].error in ("_UNKNOWN_PARTITION", "_UNKNOWN_TOPIC")


def _is_late(error: str | None) -> bool:
    return error in _MAY_BE_LATE or str(error).startswith("_")


def _calls_that_knew_the_leader(late_calls: list[Call], written: Times, patience_ns: int) -> list[Call]:
    """Return the produces whose process knew the leader: its last acks=all produce was acknowledged, and no state written since.

    With stale metadata a produce may get lost: the answer to acks=0 does not tell the client that it asked the wrong broker.
    `patience_ns` widens the time without a written state on both sides: a leader that was just replaced may still acknowledge,
    and a request arrives later than it is sent.
    """
    informed: list[Call] = []
    knows: dict[int, int | None] = {}  # process -> since when
    for call in sorted((call for call in late_calls if call.f == "produce"), key=lambda call: call.invoked):
        since = knows.get(call.process)
        until = call.invoked_ns + patience_ns
        if since is not None and not any(since - patience_ns <= time_ns <= until for time_ns in written):
            informed.append(call)
        if call.asked[0].acks == -1:
            knows[call.process] = call.invoked_ns if call.type == "ok" else None
    return informed


def _unseen_records(calls: list[Call], final_ns: int, name: str, cuts: tuple[Cut, ...]) -> list[str]:
    """Return the records that were acknowledged or read earlier and that no final reader got (LIVE-3)."""
    owed: dict[int, str] = {}
    for call in calls:
        # A record acknowledged during the final reads may lie behind the end offset that the readers were told.
        before = call.type == "ok" and call.rows[0].time_ns <= final_ns
        if before and (call.f == "poll" or (call.f == "produce" and call.asked[0].acks == -1)):
            for row in call.rows:
                epoch = -1 if row.leader_epoch is None else row.leader_epoch
                is_cut = any(row.offset is not None and row.offset >= c.offset and epoch < c.leader_epoch for c in cuts)
                if row.offset is not None and row.value is not None and not is_cut:
                    owed[row.offset] = row.value
    final = [call for call in calls if call.f == "poll" and call.invoked_ns >= final_ns and call.type == "ok"]
    read = {row.offset for call in final for row in call.rows if row.offset is not None and row.value is not None}
    missing = sorted(owed.keys() - read)
    if not missing:
        return []
    last = max(read, default=-1)
    if last < missing[-1]:
        reached = f"ended at offset {last}" if read else "got nothing"
        return [f"final readers of {name} {reached}, though offset {missing[-1]} was acknowledged"]
    and_more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
    return [f"final readers of {name} never got {owed[missing[0]]} at offset {missing[0]}{and_more}"]


def check_partition(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Judge liveness of one partition; the count `offline_rightly` is 1 if it may stay offline (SILENT-2)."""
    topic, number = partition_of(operations, events)
    deadline, promise = recovery_deadline_ns(facts), promised(facts, topic)
    if deadline is None or promise is None:
        return Findings()
    name = f"{topic}-{number}"
    assigned = next((a.replicas for a in facts.assignments if (a.topic, a.partition) == (topic, number)), ())
    partition = _Partition(name, assigned, promise.min_insync_replicas)
    complaints: list[str] = []
    looked = False
    whole = {row.at: row for row in events.swaps}
    for row in sorted([*events.rows, *whole.values()], key=lambda row: row.at) if whole else events.rows:
        if row.time_ns > deadline and not looked:
            looked = True
            complaints.extend(partition.lacks("B after healing") if partition.exists and not partition.is_emptied() else [])
        if row.at in whole:
            partition.see_swap(row)
        else:
            partition.see(row)
    calls = operations.calls
    if partition.is_emptied():
        complaints.extend(_untold_silence(calls, deadline, name))
        return Findings(not_live=tuple(complaints), live_judged=True, counts={"offline_rightly": 1})
    complaints.extend(partition.lacks("at the end"))
    complaints.extend(partition.disagrees())
    complaints.extend(_complaints_of_clients(calls, facts, deadline, partition, cuts_of(cuts, topic, number)))
    return Findings(not_live=tuple(complaints), live_judged=True)


CLUSTER = Checker(
    name="availability-cluster",
    claim="At the bound B after healing, and at the end, one broker is controller, all are registered; admin actions are "
    "done, as confirmed, each that is requested after the bound succeeds, and none is refused because of one that is not there; "
    "a new controller goes on with all moves, not with some.",
    assumes="ZooKeeper's registrations are complete.",
    blind="What changes between the two checks and back; requests under /admin that no administrator read; moves that "
    "were cancelled, or requested while an extra request for the partition might be waiting.",
    reports=(
        not_live(
            "LIVE",
            shown_by=(
                "controller-outlives-its-session",
                "reassign-failover-aborts",
                "reassign-failover-zombie",
                "reassign-failover-premature",
            ),
        ),
    ),
    group_by=WHOLE_RUN,
    operations=("admin-pending", *ADMIN_REQUESTS),
    events=(
        *dict.fromkeys((*ORDER_ROWS, *MOVE_ROWS)),
        K.CONTROLLER_RESIGNED,
        K.BECAME_LEADER,
        K.REQUEST_REFUSED,
    ),
    needs=(K.REGISTERED,),
    check=check_cluster,
    split=gathered(check_cluster),
)

PARTITIONS = Checker(
    name=NAME,
    claim="At the bound B after healing, and at the end, each partition has its leader, its whole ISR and equal logs; it serves "
    "each acknowledged record, and each kind of request.",
    assumes="Brokers record each role, append and HW; the workload produces and reads after healing.",
    blind="What changes between the two checks and back; requests that no client sent.",
    reports=(
        not_live(
            "LIVE",
            "META",
            shown_by=(
                "leader-by-role",
                "epoch-before-transition",
                "stuck-zk-version",
                "lag-by-last-change",
                "empty-isr",
                "control-requests-once",
                "no-broker-incarnation",
                "command-of-another-life",
                "reassign-removes-its-leader",
            ),
        ),
    ),
    group_by=PARTITION,
    operations=("produce", "poll", "latest"),
    events=(*REPLAYED, *ISR_ROWS, *_ROLES, K.REGISTERED, K.HW, K.ASSIGNED),
    needs=(K.STATE_WRITTEN,),
    of_the_living=True,
    check=check_partition,
    screen=screens.availability,
)
