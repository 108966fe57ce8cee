"""Signs of behaviour in the history of a black box: what happened to a partition, and what happened next.

A run of the reference shows which branches its code took; another system shows rows alone. As Mallory does (Meng et al., CCS
2023, "Greybox fuzzing of distributed systems"), rows are abstracted until runs can be compared, and kept in their order. The
timeline of a partition has these events:

* what was committed: a leader elected from where, the ISR smaller, alone, larger, whole;
* what its replicas logged: truncations and the beginnings of leaders, below or above what was acknowledged;
* what its brokers did: started, stopped, registered, without a session.

Brokers are named by their role in the partition at that moment, offsets by what clients had been told; times, epochs, names and
numbers are left out. A sign is an event, or an event and the one right before it in the timeline, or how a client's call ended
and the event right before it. An event that repeats itself is one. So a run that is only slower has the same signs.
The faults of the plan are no events, because they are what the search draws. A fault is told with the event that follows it.

What it cannot see: the order of events on different partitions, and which of two events without a common broker came first by
cause rather than by chance.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

from history.event import ClusterEvent, EventKind
from history.history import History
from history.op import Operation, OpType

_NUMBERS = re.compile(r"\d+")
_ERROR_MAX = 60  # characters
_BROKER_EVENTS = {
    EventKind.NODE_STARTED: "starts",
    EventKind.NODE_STOPPED: "stops",
    EventKind.REGISTERED: "registers",
    EventKind.SESSION_ENDED: "loses its session",
    EventKind.DIR_FAILED: "has a failed directory",
}
_MS = 1_000_000

Partition = tuple[str, int] | None  # None: the cluster as a whole


class Sign(Struct, frozen=True, array_like=True):
    """A sign, and when the run showed it first: ms since clients began (negative before), at which broker (0: none)."""

    words: str
    at_ms: int
    broker: int


class _Timeline:
    """One partition so far; for the cluster as a whole, the last event alone."""

    def __init__(self) -> None:
        self.last = "begin"
        self.fault = ""  # the last one since then
        self.leader: str | None = None
        self.epoch: int | None = None
        self.isr: frozenset[str] = frozenset()
        self.elr: frozenset[str] = frozenset()
        self.replicas = 0
        self.acknowledged = 0  # offset behind the last record that a client was told of

    def role(self, node: str) -> str:
        """The role of a broker in the partition."""
        if node == self.leader:
            return "leader"
        return "in-sync replica" if node in self.isr else "eligible replica" if node in self.elr else "other broker"

    def place(self, offset: int) -> str:
        """Where an offset lies, by what clients were told."""
        return "below acknowledged" if offset < self.acknowledged else "at acknowledged" if offset else "at 0"


def signs_of(history: History) -> tuple[Sign, ...]:
    """The signs of a run, each once, in the order in which it showed them."""
    begun = min((row.time_ns for row in history.operations), default=0)
    return tuple(_Reader(begun).read(history))


class _Reader:
    """Reads the rows of one history."""

    def __init__(self, begun_ns: int) -> None:
        self._begun_ns = begun_ns
        self._timelines: dict[Partition, _Timeline] = {None: _Timeline()}
        self._seen: set[str] = set()
        self._signs: list[Sign] = []

    def read(self, history: History) -> list[Sign]:
        """All signs of the rows."""
        rows: list[Operation | ClusterEvent] = [*history.operations, *history.events]
        for row in sorted(rows, key=lambda row: row.index):
            if isinstance(row, Operation):
                self._read_operation(row)
            else:
                for partition, event in self._events_of(row):
                    self._happened(partition, event, row)
        return self._signs

    def _read_operation(self, row: Operation) -> None:
        """How a call ended, behind the last event of its partition."""
        if row.type is OpType.INVOKE:
            return
        partition = None if row.topic is None or row.partition is None else (row.topic, row.partition)
        timeline = self._timelines.setdefault(partition, _Timeline())
        error = "" if row.error is None else f" {_NUMBERS.sub('#', row.error)[:_ERROR_MAX]}"
        self._show(f"{timeline.last} > {row.f} {row.type}{error}", row.time_ns, 0)
        if row.type is OpType.OK and row.offset is not None and row.f == "produce":
            timeline.acknowledged = max(timeline.acknowledged, row.offset + 1)

    def _events_of(self, row: ClusterEvent) -> Iterator[tuple[Partition, str]]:
        """The events that a row is, with their timelines."""
        partition = None if row.topic is None or row.partition is None else (row.topic, row.partition)
        node = row.node or ""
        if row.kind in _BROKER_EVENTS:
            yield from self._at_broker(node, _BROKER_EVENTS[row.kind])
        elif row.kind in (EventKind.FAULT_BEGUN, EventKind.FAULT_ENDED) and partition is None:
            verb = "begins" if row.kind is EventKind.FAULT_BEGUN else "ends"
            for each, fault in self._at_broker(node, f"{row.detail} {verb}"):
                self._timelines[each].fault = fault
        elif partition is not None:
            timeline = self._timelines.setdefault(partition, _Timeline())
            match row.kind:
                case EventKind.ASSIGNED:
                    timeline.replicas = len(row.replicas or ())
                case EventKind.STATE_WRITTEN:
                    yield from ((partition, event) for event in _changes(timeline, row))
                case EventKind.TRUNCATE:
                    yield partition, f"{timeline.role(node)} truncates {timeline.place(row.offset or 0)}"
                case EventKind.BECAME_LEADER:
                    high_watermark = "" if row.hw is None else f", high watermark {timeline.place(row.hw)}"
                    yield partition, f"leader begins, log {timeline.place(row.leo or 0)}{high_watermark}"
                case _:
                    pass

    def _at_broker(self, node: str, event: str) -> Iterator[tuple[Partition, str]]:
        """What happens to a broker, or to the clients at a place, in all timelines."""
        for partition, timeline in self._timelines.items():
            role = "clients" if not node.startswith("b") else "broker" if partition is None else timeline.role(node)
            yield partition, f"{role}: {event}"

    def _happened(self, partition: Partition, event: str, row: ClusterEvent) -> None:
        """Add an event to a timeline."""
        timeline = self._timelines[partition]
        if event == timeline.last:
            return
        node = row.node or row.leader or ""
        broker = int(node[1:]) if node[:1] == "b" and node[1:].isdecimal() else 0
        self._show(event, row.time_ns, broker)
        self._show(f"{timeline.last} > {event}", row.time_ns, broker)
        if timeline.fault:
            self._show(f"[{timeline.fault}] > {event}", row.time_ns, broker)
        timeline.last, timeline.fault = event, ""

    def _show(self, words: str, time_ns: int, broker: int) -> None:
        if words not in self._seen:
            self._seen.add(words)
            self._signs.append(Sign(words, (time_ns - self._begun_ns) // _MS, broker))


def _changes(timeline: _Timeline, row: ClusterEvent) -> list[str]:
    """What a committed state changes, in words; the timeline takes it over."""
    events = []
    isr = frozenset(row.isr or ())
    if timeline.epoch is None:
        events.append("first leader elected")
    elif row.leader != timeline.leader:
        events.append("leaderless" if row.leader is None else f"{timeline.role(row.leader)} elected")
    elif row.leader_epoch != timeline.epoch:
        events.append("leader elected again")
    if isr != timeline.isr:
        whole = len(isr) == timeline.replicas
        size = "whole" if whole else "alone" if len(isr) == 1 else "larger" if isr > timeline.isr else "smaller"
        events.append(f"ISR {size}")
    timeline.leader, timeline.epoch = row.leader, row.leader_epoch
    timeline.isr, timeline.elr = isr, frozenset(row.elr or ())
    return events
