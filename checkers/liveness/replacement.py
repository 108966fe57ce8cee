"""Checker of availability under a fault: a broker that alone is cut off is replaced in time (docs/promise.md LIVE-6; KIP-343).

While one broker is cut off from the other brokers or from ZooKeeper, or is down, and no other fault is in force, the rest of the
cluster is whole and must go on. From the promised time after the beginning of such a period until its end, no partition may be
led by that broker or be without a leader while another member of its ISR could lead: registered under the incarnation that the
ISR names since before the period, and without a failed directory.

A controller that is cut off from the brokers and not from ZooKeeper is left out: nothing in KIP-343 deposes it. The promised time
covers one election of a controller within two session timeouts, that of the successor of a controller that was cut off. From
each other one, and from the end of such a controller, it counts anew, because a new controller takes all brokers for active.

The same holds for a broker that has reported the failure of the directory with its replica, two session timeouts sooner, since
nobody waits for a session or a heartbeat (KIP-112).

Then the others also serve writes (LIVE-7): once the leader has had the time to take the broker out of the ISR, a produce with
acks=all is acknowledged again, if the ISR without that broker has min.insync.replicas members.

    >>> from checkers.sketches import sketch
    >>> cut = "fault-begun fault=f node=b1 detail=isolate-one"
    >>> rows = "registered node=b2 incarnation=2", "state-written leader=b1 isr=b1,b2 stamps=1,2", "controller-elected node=b3"
    >>> sketch("replacement", *rows, cut, "fault-ended fault=f node=b1 time_ns=90000000000", "healed time_ns=90000000001")
    ['b1 leads t-0, though b2 could and b1 was cut off alone from row 3 to row 4']
"""

from typing import NamedTuple

from checkers.engine import screens
from checkers.engine.anomalies import not_live
from checkers.engine.calms import CUT_OFF, DIRECTORIES, Times, excuses, place_of
from checkers.engine.checker import Checker
from checkers.engine.facts import MS, Facts, promised
from checkers.engine.groups import PARTITION, partition_of
from checkers.engine.rows import Call, EventRow
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Cut, Findings
from history.event import EventKind as K

NAME = "replacement"
# The faults under which one broker no longer does its part, while the others need nothing from it.
ALONE = (*CUT_OFF, "crash-leader", "crash-isr-member", "crash-random", "controller-kill", "pause-long")
_TRIED_MIN = 3  # writes in a period; one or two may be those of a client whose requests are wrong on purpose
_LOOKED_AT = (K.FAULT_BEGUN, K.FAULT_ENDED, K.DIR_FAILED, K.REGISTERED, K.CONTROLLER_ELECTED)


class _Period(NamedTuple):
    """A time in which one broker alone could not serve: the rows that begin and end it, and the time when it is replaced.

    `cut_off` is false if only its directory failed.
    """

    node: str
    begun: int
    since_ns: int
    due_ns: int
    ended: int
    until_ns: int
    cut_off: bool


class _Faults:
    """The faults in force, and the brokers without the directory in which they have their replica of the partition."""

    def __init__(self) -> None:
        self.in_force: dict[tuple[str, str], str] = {}  # (fault, node) -> its kind
        self._failing: dict[tuple[str, int | None], bool] = {}  # (node, dir of the replica) -> reported as failed

    def see(self, kind: str, fault: str, node: str, detail: str, dir_: int | None, *, named: bool) -> None:
        """A fault begins or ends, or a directory fails as a fault intended."""
        if kind == K.FAULT_BEGUN:
            self.in_force[fault, node] = detail
            if named and detail in DIRECTORIES:
                self._failing.setdefault((node, dir_), False)
        elif kind == K.FAULT_ENDED:
            self.in_force.pop((fault, node), None)
        elif kind == K.DIR_FAILED and (node, dir_) in self._failing:
            self._failing[node, dir_] = True
        elif kind == K.REGISTERED:
            self._failing = {place: is_reported for place, is_reported in self._failing.items() if place[0] != node}

    def alone(self) -> tuple[str, bool] | None:
        """The only broker that cannot serve the partition now, and whether it is cut off; None if there is no such broker."""
        failing_nodes = {node for (node, _), reported in self._failing.items() if reported}
        others = {node for (_, node), kind in self.in_force.items() if kind not in DIRECTORIES or node not in failing_nodes}
        if len(failing_nodes) == 1 and not others:
            return next(iter(failing_nodes)), False
        cut_off = [node for (_, node), kind in self.in_force.items() if kind in ALONE]
        return (cut_off[0], True) if len(self.in_force) == 1 and cut_off and not failing_nodes - {*cut_off} else None

    def keep_in_office(self, controller: str | None) -> bool:
        """Whether a fault cuts the controller off from the brokers and leaves it its ZooKeeper: nothing deposes it."""
        return any(node == controller and kind in ("cut-peers", "cut-peers-long") for (_, node), kind in self.in_force.items())


def _periods_out_of_service(events: Events, facts: Facts) -> list[_Period]:
    """The periods before healing in which one broker alone could not serve the partition, for longer than the promise."""
    succession_ms = 2 * facts.promise.session_timeout_ms
    patience_ms = {True: facts.promise.replacement_ms, False: facts.promise.replacement_ms - succession_ms}
    faults = _Faults()
    since: tuple[tuple[str, bool], int, int] | None = None
    elections: list[int] = []  # since then; the promised time covers the first of them
    controller: str | None = None
    periods = []
    rows = events.of(*_LOOKED_AT).columns("index", "time_ns", "kind", "fault", "node", "detail", "dir", "partition")
    for at, time_ns, kind, fault, node, detail, dir_, partition in rows:
        if node in facts.client_places:
            continue  # a fault of clients excuses no broker
        faults.see(kind, fault, node, detail, dir_, named=partition is not None)
        alone = faults.alone()
        if since is not None and (alone is None or alone != since[0]):
            (broker, cut_off), begun, since_ns = since
            covered_ms = succession_ms if cut_off else patience_ms[cut_off]
            due_ns = _due_ns(since_ns, patience_ms[cut_off] * MS, covered_ms * MS, elections)
            periods.append(_Period(broker, begun, since_ns, due_ns, at, time_ns, cut_off))
        if alone is None:
            since = None
        elif since is None or alone != since[0]:
            since = (alone, at, time_ns)
            elections = [time_ns] if faults.keep_in_office(controller) else []
        if kind == K.CONTROLLER_ELECTED:
            controller = node
            elections.append(time_ns)
    return [period for period in periods if period.due_ns < period.until_ns]


def _due_ns(since_ns: int, patience_ns: int, covered_ns: int, elections: list[int]) -> int:
    """When a leader must be replaced: each election until then prolongs the time, but the first if it is covered already."""
    due_ns = since_ns + patience_ns
    is_covered = bool(elections) and elections[0] <= since_ns + covered_ns
    for elected_ns in elections[is_covered:]:
        due_ns = elected_ns + patience_ns if elected_ns <= due_ns else due_ns
    return due_ns


class _Cluster:
    """The state of one partition, the registrations and the controller, after the rows applied so far."""

    def __init__(self) -> None:
        self.state: EventRow | None = None
        self.registered: dict[str, tuple[int | None, int]] = {}  # node -> its incarnation, and since when
        self.failed: set[str] = set()  # nodes with a failed directory in this registration
        self.controller: str | None = None

    def see(self, row: EventRow) -> None:
        """Take in who is registered, who is controller, and the partition's state."""
        if row.kind == K.STATE_WRITTEN:
            self.state = row
        elif row.kind == K.REGISTERED:
            self.registered[row.node] = (row.incarnation, row.time_ns)
            self.failed.discard(row.node)
        elif row.kind == K.SESSION_ENDED and self.registered.get(row.node, (row.incarnation, 0))[0] == row.incarnation:
            self.registered.pop(row.node, None)
            self.controller = None if self.controller == row.node else self.controller
        elif row.kind == K.DIR_FAILED:
            self.failed.add(row.node)
        elif row.kind == K.CONTROLLER_ELECTED:
            self.controller = row.node

    def able(self, period: _Period) -> list[str]:
        """The members of the ISR, without the broker that is cut off, that could lead all the time."""
        state = self.state
        if state is None or self.controller in (None, period.node):
            return []
        stamps = dict(zip(state.isr, state.stamps or (), strict=False))
        return [
            node
            for node in state.isr
            if node != period.node and node in self.registered and node not in self.failed
            if self.registered[node][0] == stamps.get(node) and self.registered[node][1] < period.since_ns
        ]


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Judge whether brokers that were cut off alone were replaced, and whether writes went on without them.

    The counts `lone_periods` and `lone_writes` say how often the one and the other was judged.
    """
    if facts.promise.replacement_ms == 0:
        return Findings()
    topic, number = partition_of(operations, events)
    rows = events.rows
    periods = _periods_out_of_service(events, facts)
    if not periods:
        return Findings()
    complaints = [words for period in periods if (words := _late_replacement(rows, period, f"{topic}-{number}"))]
    hit = excuses(events, facts)
    answered = [call for call in operations.calls if call.asked[0].acks == -1 and call.rows]
    writes = [call for call in answered if not _is_excused(call, hit.get(place_of(facts, call.process), []))]
    judged = 0
    for period in periods:
        tried = _calls_owed(rows, period, writes, facts, topic)
        judged += bool(tried)
        if tried and not any(call.type == "ok" for call in tried):
            span = f"between rows {tried[0].invoked} and {max(call.ended for call in tried)}"
            happened = f"none of {len(tried)} acks=all produces to {topic}-{number} was acknowledged"
            complaints.append(f"{happened} {span}, though only {period.node} was cut off")
    counts = {"lone_periods": len(periods), "lone_writes": judged}
    return Findings(not_live=tuple(complaints), live_judged=bool(complaints), counts=counts)


def _late_replacement(rows: list[EventRow], period: _Period, name: str) -> str | None:
    """Say that the broker still leads, or nobody does, when it must have been replaced (LIVE-6)."""
    cluster = _cluster_at(rows, period.due_ns)
    able = cluster.able(period)
    leader = None if cluster.state is None else cluster.state.leader
    if not able or leader not in (None, period.node):
        return None
    happened = f"no broker leads {name}" if leader is None else f"{leader} leads {name}"
    lack = "was cut off alone" if period.cut_off else "alone had no directory for it"
    return f"{happened}, though {able[0]} could and {period.node} {lack} from row {period.begun} to row {period.ended}"


def _calls_owed(rows: list[EventRow], period: _Period, writes: list[Call], facts: Facts, topic: str) -> list[Call]:
    """The writes of a period of which one must be acknowledged (LIVE-7); none if the others need not serve writes."""
    promise = promised(facts, topic)
    due_ns = period.due_ns + (2 * facts.promise.replica_lag_time_max_ms + facts.promise.request_timeout_ms) * MS
    if promise is None or due_ns >= period.until_ns:
        return []
    cluster = _cluster_at(rows, due_ns)
    able = cluster.able(period)
    if cluster.state is None or cluster.state.leader not in able or len(able) < promise.min_insync_replicas:
        return []
    tried = [call for call in writes if due_ns <= call.invoked_ns and call.rows[0].time_ns < period.until_ns]
    return tried if len(tried) >= _TRIED_MIN else []


def _is_excused(call: Call, times: Times) -> bool:
    """Whether a fault of the client's own place may have kept it from the brokers (LIVE-9)."""
    return any(begun <= call.rows[0].time_ns and call.invoked_ns < ended for begun, ended in times)


def _cluster_at(rows: list[EventRow], time_ns: int) -> _Cluster:
    """The cluster as the rows before this time show it."""
    cluster = _Cluster()
    for row in rows:
        if row.time_ns >= time_ns:
            break
        cluster.see(row)
    return cluster


CHECKER = Checker(
    name=NAME,
    claim="A broker that alone is cut off, down or without the replica leads nothing after the promised time, if others could; "
    "acks=all writes then go on without it.",
    assumes="The harness records when each fault begins and ends, and on which brokers; ZooKeeper's writes are complete.",
    blind="Periods with more than one fault; controllers that only the brokers cannot reach; what follows the promised time; "
    f"periods with fewer than {_TRIED_MIN} writes.",
    reports=(not_live("LIVE", shown_by=("no-heartbeat",)),),
    group_by=PARTITION,
    operations=("produce",),
    events=(
        K.FAULT_BEGUN,
        K.FAULT_ENDED,
        K.STATE_WRITTEN,
        K.REGISTERED,
        K.SESSION_ENDED,
        K.DIR_FAILED,
        K.CONTROLLER_ELECTED,
    ),
    needs=(K.STATE_WRITTEN,),
    check=check,
    screen=screens.replacement,
    tied_if_named=(K.FAULT_BEGUN,),
)
