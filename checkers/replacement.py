"""Checker of availability under a fault: a broker that alone is cut off is replaced in time (docs/promise.md LIVE-6; KIP-343).

While one broker is cut off from the other brokers or from ZooKeeper, or is down, and no other fault is in force, the rest of the
cluster is whole and must go on. From the promised time after the beginning of such a period until its end, no partition may be
led by that broker or be without a leader while another member of its ISR could lead: registered under the incarnation that the
ISR names since before the period, and without a failed directory.

A controller that is cut off from the brokers and not from ZooKeeper is left out: nothing in KIP-343 deposes it.

The same holds for a broker that has reported the failure of the directory with its replica, two session timeouts sooner, since
nobody waits for a session or a heartbeat (KIP-112).

    >>> from checkers.sketches import sketch
    >>> cut = "fault-begun fault=f node=b1 detail=isolate-one"
    >>> rows = "registered node=b2 incarnation=2", "state-written leader=b1 isr=b1,b2 stamps=1,2", "controller-elected node=b3"
    >>> sketch("replacement", *rows, cut, "fault-ended fault=f node=b1 time_ns=90000000000", "healed time_ns=90000000001")
    ['b1 leads t-0, though b2 could and b1 was cut off alone from row 3 to row 4']
"""

from typing import NamedTuple

import polars as pl

from checkers.checker import MS, PARTITION, Checker, Facts, partition_of
from checkers.rows import EventRow, event_rows
from checkers.verdict import Cut, Findings
from history.event import EventKind as K

NAME = "replacement"
# The faults under which one broker no longer does its part, while the others need nothing from it.
ALONE = (
    "isolate-one",
    "isolate-leader",
    "isolate-controller",
    "isolate-long",
    "cut-peers",
    "cut-peers-long",
    "cut-zookeeper",
    "cut-zookeeper-long",
    "crash-leader",
    "crash-isr-member",
    "crash-random",
    "controller-kill",
    "pause-long",
)


_DIRECTORIES = ("dir-unreadable", "dir-file", "dir-removed", "dir-failure", "dir-drop")
_LOOKED_AT = (K.FAULT_BEGUN, K.FAULT_ENDED, K.DIR_FAILED, K.REGISTERED)


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
        if kind == K.FAULT_BEGUN:
            self.in_force[fault, node] = detail
            if named and detail in _DIRECTORIES:
                self._failing.setdefault((node, dir_), False)
        elif kind == K.FAULT_ENDED:
            self.in_force.pop((fault, node), None)
        elif kind == K.DIR_FAILED and (node, dir_) in self._failing:
            self._failing[node, dir_] = True
        elif kind == K.REGISTERED:
            self._failing = {place: told for place, told in self._failing.items() if place[0] != node}

    def alone(self) -> tuple[str, bool] | None:
        """The only broker that cannot serve the partition now, and whether it is cut off; None if there is no such broker."""
        lost = {node for (node, _), reported in self._failing.items() if reported}
        others = {node for (_, node), kind in self.in_force.items() if kind not in _DIRECTORIES or node not in lost}
        if len(lost) == 1 and not others:
            return next(iter(lost)), False
        cut_off = [node for (_, node), kind in self.in_force.items() if kind in ALONE]
        return (cut_off[0], True) if len(self.in_force) == 1 and cut_off and not lost - {*cut_off} else None


def _periods(events: pl.DataFrame, facts: Facts) -> list[_Period]:
    """The periods before healing in which one broker alone could not serve the partition, for longer than the promise."""
    rows = events.filter(pl.col("kind").is_in([str(kind) for kind in _LOOKED_AT]))
    patience_ms = {True: facts.promise.replacement_ms, False: facts.promise.replacement_ms - 2 * facts.promise.session_timeout_ms}
    faults = _Faults()
    since: tuple[tuple[str, bool], int, int] | None = None
    found = []
    names = ("index", "time_ns", "kind", "fault", "node", "detail", "dir", "partition")
    for at, time_ns, kind, fault, node, detail, dir_, partition in zip(*(rows[n].to_list() for n in names), strict=True):
        if node in facts.client_places:
            continue  # a fault of clients excuses no broker
        faults.see(kind, fault, node, detail, dir_, named=partition is not None)
        alone = faults.alone()
        if since is not None and (alone is None or alone != since[0]):
            (who, cut_off), begun, since_ns = since
            found.append(_Period(who, begun, since_ns, since_ns + patience_ms[cut_off] * MS, at, time_ns, cut_off))
        if alone is None:
            since = None
        elif since is None or alone != since[0]:
            since = alone, at, time_ns
    return [period for period in found if period.due_ns < period.until_ns]


class _Cluster:
    """The state of one partition, the registrations and the controller, after the rows applied so far."""

    def __init__(self) -> None:
        self.state: EventRow | None = None
        self.registered: dict[str, tuple[int | None, int]] = {}  # node -> its incarnation, and since when
        self.failed: set[str] = set()  # nodes with a failed directory in this registration
        self.controller: str | None = None

    def see(self, row: EventRow) -> None:
        if row.kind == K.STATE_WRITTEN:
            self.state = row
        elif row.kind == K.REGISTERED:
            self.registered[row.node] = (row.incarnation, row.time_ns)
            self.failed.discard(row.node)
        elif row.kind == K.SESSION_ENDED and self.registered.get(row.node, (None, 0))[0] == row.incarnation:
            del self.registered[row.node]
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


def check(operations: pl.DataFrame, events: pl.DataFrame, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Judge whether brokers that were cut off alone were replaced; the count `lone_periods` says how often that was judged."""
    if facts.promise.replacement_ms == 0:
        return Findings()
    topic, number = partition_of(operations, events)
    rows = event_rows(events)
    why: list[str] = []
    periods = _periods(events, facts)
    for period in periods:
        cluster = _Cluster()
        for row in rows:
            if row.time_ns >= period.due_ns:
                break
            cluster.see(row)
        able = cluster.able(period)
        leader = None if cluster.state is None else cluster.state.leader
        if able and leader in (None, period.node):
            what = f"no broker leads {topic}-{number}" if leader is None else f"{leader} leads {topic}-{number}"
            lack = "was cut off alone" if period.cut_off else "alone had no directory for it"
            why.append(f"{what}, though {able[0]} could and {period.node} {lack} from row {period.begun} to row {period.ended}")
    return Findings(not_live=tuple(why), live_judged=bool(why), counts={"lone_periods": len(periods)})


CHECKER = Checker(
    name=NAME,
    claim="A broker that alone is cut off, down or without the replica leads nothing after the promised time, if others could.",
    assumes="The harness records when each fault begins and ends, and on which brokers; ZooKeeper's writes are complete.",
    blind="Periods with more than one fault; controllers that only the brokers cannot reach; what follows the promised time.",
    kinds=(),
    group_by=PARTITION,
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
)
