"""Checker: a follower that lags leaves the ISR (docs/promise.md LIVE-7; V3 §G, KAFKA-7152: replica.lag.time.max).

A member of the ISR holds each record within replica.lag.time.max of the leader's append, else it was not caught up in that time,
and the leader proposes an ISR without it. It looks every half of that time. A follower that fetches all the time lags, too, if
each fetch brings less than what the leader appends meanwhile: as a member it would hold up every acks=all.

The leader needs nobody to propose. So only what stops it excuses it: a change of the ISR under way, whoever answers late; a fault
of its process or clock; that it is fenced, and so refuses its followers (R-186); the end of its epoch. A replica that joins
counts from then on.

    >>> from checkers.sketches import sketch
    >>> rows = "state-written leader=b1 isr=b1,b2", "became-leader node=b1 leo=0 hw=0", "append node=b1 offset=0 value=a"
    >>> sketch("laggards", *rows, "gauge node=b3 gauge=0 time_ns=9000000000")
    ['b2 lacks offset 0 of t-0, which b1 appended at row 2, and was still in the ISR 2500 ms later']
    >>> sketch("laggards", *rows, "isr-change-sent node=b1 isr=b1 time_ns=2000000000", "gauge node=b3 gauge=0 time_ns=9000000000")
    []
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from checkers.engine.anomalies import HISTORIES, not_live
from checkers.engine.checker import Checker
from checkers.engine.facts import MS, PROMPT_MS, Facts
from checkers.engine.groups import PARTITION, partition_of
from checkers.engine.rows import EventRow
from checkers.engine.tables import Events, Operations
from checkers.engine.verdict import Cut, Findings
from history.event import EventKind as K
from history.fault_kinds import family_of

NAME = "laggards"
_CHANGE = (K.ISR_CHANGE_SENT, K.ISR_CHANGE_ENDED)
_ENDS = (K.BECAME_FOLLOWER, K.RESIGNED, K.NODE_STOPPED)
_Ints = npt.NDArray[np.int64]
_OFFSET, _TIME, _INDEX, _IS_LED = range(4)  # the lines of an array of appends
_NEVER = np.iinfo(np.int64).max


def _patience_ms(facts: Facts) -> int:
    lag_ms = facts.promise.replica_lag_time_max_ms
    return lag_ms + lag_ms // 2 + PROMPT_MS


class _Stretch(NamedTuple):
    """A time in which one leader could propose, and in which one follower was in its ISR."""

    leader: str
    member: str
    since_ns: int
    until_ns: int


class _Reign:
    """The leader of an epoch, and who is in the ISR; it is free to propose since `free_ns`, which is None while it is not."""

    def __init__(self, row: EventRow, isr: tuple[str, ...]) -> None:
        self.leader, self.epoch = row.node, row.leader_epoch
        self.members = {node: row.time_ns for node in isr if node != row.node}
        self.free_ns: int | None = row.time_ns
        self.asks = False  # a change of the ISR is under way

    def rest_of_stretches(self, until_ns: int, *, free: bool) -> Iterator[_Stretch]:
        """The stretches that end now."""
        yield from self._stretches_of(until_ns, self.members)
        self.free_ns = until_ns if free else None

    def joined(self, row: EventRow) -> Iterator[_Stretch]:
        """The ISR is another one: the stretches of those who left."""
        yield from self._stretches_of(row.time_ns, [node for node in self.members if node not in row.isr])
        self.members = {node: self.members.get(node, row.time_ns) for node in row.isr if node != self.leader}

    def _stretches_of(self, until_ns: int, members: Iterable[str]) -> Iterator[_Stretch]:
        """The stretches of these members, which end now."""
        if self.free_ns is not None:
            for node in members:
                yield _Stretch(self.leader, node, max(self.members[node], self.free_ns), until_ns)


class _Hindrances:
    """What keeps nodes from proposing: faults of their process or clock, and that they are fenced."""

    def __init__(self) -> None:
        self._faults: Counter[str] = Counter()  # node -> how many are in force
        self._fenced: set[str] = set()

    def see(self, row: EventRow) -> bool:
        """Apply a row; return whether it says something of its node."""
        match row.kind:
            case K.FAULT_BEGUN | K.FAULT_ENDED if family_of(row.detail or "") in ("pause", "clock"):
                self._faults[row.node] += 1 if row.kind == K.FAULT_BEGUN else -1
            case K.FENCED:
                self._fenced.add(row.node)
            case K.UNFENCED | K.NODE_STOPPED:
                self._fenced.discard(row.node)
            case _:
                return False
        return True

    def are_of(self, node: str) -> bool:
        """Whether something hinders the node."""
        return self._faults[node] > 0 or node in self._fenced


def _stretches(rows: list[EventRow], facts: Facts) -> Iterator[_Stretch]:
    """Per follower the times in which its leader could have seen it lag, without a hindrance."""
    reign: _Reign | None = None
    isr: tuple[str, ...] = ()
    hindrances = _Hindrances()
    for row in rows:
        changes = hindrances.see(row)
        match row.kind:
            case K.STATE_WRITTEN:
                isr = row.isr
                if reign is not None and row.leader_epoch > reign.epoch:
                    yield from reign.rest_of_stretches(row.time_ns, free=False)
                    reign = None
                elif reign is not None:
                    yield from reign.joined(row)
            case K.BECAME_LEADER:
                if reign is not None:
                    yield from reign.rest_of_stretches(row.time_ns, free=False)
                reign = _Reign(row, isr)
                yield from reign.rest_of_stretches(row.time_ns, free=not hindrances.are_of(row.node))
            case _ if reign is None or row.node != reign.leader:
                pass
            case _ if row.kind in _ENDS:
                yield from reign.rest_of_stretches(row.time_ns, free=False)
                reign = None
            case _ if changes or row.kind in _CHANGE:
                if row.kind in _CHANGE:
                    reign.asks = row.kind == K.ISR_CHANGE_SENT
                yield from reign.rest_of_stretches(row.time_ns, free=not reign.asks and not hindrances.are_of(row.node))
            case _:
                pass
    if reign is not None:
        yield from reign.rest_of_stretches(facts.end_ns, free=False)


class _Appends:
    """The first append of each offset by one node since a time: offsets in order, with times and rows.

    `appends`: an array of four lines (`_OFFSET` and the following) with a column for each append.
    """

    def __init__(self, appends: _Ints, since_ns: int) -> None:
        since = appends[:, appends[_TIME] >= since_ns]
        self.offset, first = np.unique(since[_OFFSET], return_index=True)
        self.time_ns: _Ints = since[_TIME, first]
        self.at: _Ints = since[_INDEX, first]

    def times(self, offsets: _Ints) -> _Ints:
        """When each of these offsets was appended; _NEVER for the others."""
        if not len(self.offset):
            return np.full(len(offsets), _NEVER)
        place = np.minimum(np.searchsorted(self.offset, offsets), len(self.offset) - 1)
        return np.where(self.offset[place] == offsets, self.time_ns[place], _NEVER)


def _appends_by_node(events: Events) -> dict[str, _Ints]:
    """The appends of each node as an array for `_Appends`."""
    by_node: dict[str, list[tuple[int, int, int, int]]] = {}
    columns = ("node", "offset", "time_ns", "index", "detail")
    for node, offset, time_ns, at, detail in events.of(K.APPEND).columns(*columns):
        if offset is not None:
            by_node.setdefault(str(node), []).append((offset, time_ns, at, detail not in (None, "follower")))
    return {node: np.array(appended, np.int64).T for node, appended in by_node.items()}


def _first_late_record(stretch: _Stretch, appends: dict[str, _Ints], patience_ns: int) -> tuple[int, int] | None:
    """The offset and the row of the first record that the member lacked for too long within the stretch."""
    appends_of_leader = appends.get(stretch.leader)
    if appends_of_leader is None or stretch.until_ns - stretch.since_ns <= patience_ns:
        return None
    written = appends_of_leader[
        :, (appends_of_leader[_IS_LED] == 1) & (appends_of_leader[_TIME] < stretch.until_ns - patience_ns)
    ]
    leader_appends = _Appends(written, stretch.since_ns)
    if not len(leader_appends.offset):
        return None
    member_appends = appends.get(stretch.member)
    has = (
        np.full(len(leader_appends.offset), _NEVER)
        if member_appends is None
        else _Appends(member_appends, stretch.since_ns).times(leader_appends.offset)
    )
    late_records = np.flatnonzero(
        (has > leader_appends.time_ns + patience_ns) & (leader_appends.time_ns + patience_ns < stretch.until_ns)
    )
    return (int(leader_appends.offset[late_records[0]]), int(leader_appends.at[late_records[0]])) if len(late_records) else None


def check(operations: Operations, events: Events, facts: Facts, cuts: tuple[Cut, ...]) -> Findings:
    """Find members of the ISR that lagged and stayed. Ignores `cuts` (excused losses)."""
    if not facts.simulated:
        return Findings()
    topic, number = partition_of(operations, events)
    stretches = list(_stretches(events.without(K.APPEND).rows, facts))
    patience_ms = _patience_ms(facts)
    if not any(stretch_there.until_ns - stretch_there.since_ns > patience_ms * MS for stretch_there in stretches):
        return Findings()
    appends = _appends_by_node(events)
    complaints: dict[str, str] = {}
    for stretch in stretches:
        lag = None if stretch.member in complaints else _first_late_record(stretch, appends, patience_ms * MS)
        if lag is not None:
            offset, at = lag
            happened = f"{stretch.member} lacks offset {offset} of {topic}-{number}, which {stretch.leader} appended at row {at}"
            complaints[stretch.member] = f"{happened}, and was still in the ISR {patience_ms} ms later"
    return Findings(not_live=tuple(complaints.values()), live_judged=bool(complaints))


CHECKER = Checker(
    name=NAME,
    claim="A follower that lags behind its leader for longer than replica.lag.time.max is to leave the ISR, also if it fetches.",
    assumes="Brokers record each append and each proposal to change the ISR; ZooKeeper's writes are complete.",
    blind="Lags while a change of the ISR is under way; records from before the member joined; real brokers; histories "
    "without rows of states; deleted topics.",
    reports=(not_live(unshown=HISTORIES),),
    group_by=PARTITION,
    events=(
        K.APPEND,
        K.STATE_WRITTEN,
        K.BECAME_LEADER,
        K.BECAME_FOLLOWER,
        K.RESIGNED,
        K.NODE_STOPPED,
        K.ISR_CHANGE_SENT,
        K.ISR_CHANGE_ENDED,
        K.FENCED,
        K.UNFENCED,
        K.FAULT_BEGUN,
        K.FAULT_ENDED,
    ),
    of_the_living=True,
    check=check,
)
