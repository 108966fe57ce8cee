"""What happened to one offset: the appends at it, the HWs that passed it, the truncations, and the answers to clients.

The story explains a loss. It uses the evidence rows of the nodes; without them it holds only the operations of clients.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from history.event import ClusterEvent, EventKind
from history.history import History
from history.op import Operation, OpType
from reports.rows import Line, event_line, operation_line

AFTER_MAX = 10  # lines after the last witness
_CONTEXT = frozenset({EventKind.STATE_WRITTEN, EventKind.BECAME_LEADER, EventKind.UNCLEAN_ELECTION_ORDERED})
_CONTEXT_OF_OTHERS = frozenset({EventKind.STATE_WRITTEN, EventKind.UNCLEAN_ELECTION_ORDERED})
_OF_THE_NODE = frozenset({EventKind.NODE_STARTED, EventKind.NODE_STOPPED, EventKind.SESSION_ENDED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One offset of one partition, of which the page tells what happened to it."""

    topic: str
    partition: int
    offset: int

    @property
    def words(self) -> str:
        """The offset in words: "orders-0, offset 17"."""
        return f"{self.topic}-{self.partition}, offset {self.offset}"


@dataclass(slots=True)
class _Copies:
    """The brokers that hold the record at one offset, and those whose HW covers it, while events are read in order."""

    offset: int
    unseen: bool = False  # appends are not in the history: any truncation at or below the offset may have removed the record
    births: list[int] = field(default_factory=list)  # indices of appends at times when no node held the offset
    holders: set[str] = field(default_factory=set)
    covered: set[str] = field(default_factory=set)

    def changed_by(self, event: ClusterEvent) -> bool:
        """Whether this event changed which brokers hold the record at the offset, or whose HW covers it."""
        node = event.node or ""
        match event.kind:
            case EventKind.APPEND if event.offset == self.offset:
                if not self.holders:
                    self.births.append(event.index)
                self.holders.add(node)
                return True
            case EventKind.HW | EventKind.BECAME_LEADER if event.hw is not None:
                was, now = node in self.covered, event.hw > self.offset
                (self.covered.add if now else self.covered.discard)(node)
                return was != now
            case EventKind.TRUNCATE | EventKind.WOUND:
                return self._has_removed(node, kept_to=event.offset or 0)
            case EventKind.RECOVERED:
                return self._has_removed(node, kept_to=event.leo or 0)
            case EventKind.REPLICA_DELETED:
                return self._has_removed(node, kept_to=0)
            case EventKind.RECORD_ON_DISK:
                return event.offset == self.offset
            case _:
                return False

    def _has_removed(self, node: str, *, kept_to: int) -> bool:
        """Whether this replica's log lost the record now."""
        if kept_to > self.offset or not (self.unseen or node in self.holders):
            return False
        self.holders.discard(node)
        self.covered.discard(node)
        return True


def story_of(place: Place, history: History, *, witness: Iterable[int] = ()) -> tuple[Line, ...]:
    """The lines that tell what happened to one offset: its rows, the witnesses, and the elections and stops between them.

    An offset may be written, lost and written again. The story covers the generation of the first witness: it begins with the
    first append of this generation and ends soon after the last witness.
    """
    pointed = frozenset(witness)
    system = history.manifest.system
    copies = _Copies(place.offset, unseen=system is not None and "notes" not in system.observes)
    # A witness may change the copies too, so `changed_by` is called before the index is tested.
    touching = [e for e in history.events if (_same_partition(e, place) and copies.changed_by(e)) or e.index in pointed]
    calls = [row for row in history.operations if _speaks_of(row, place)]
    calls += [
        row for index in sorted(pointed) for row in witness_rows(history, index, place.offset) if isinstance(row, Operation)
    ]
    lines_by_row = {(row.index, row.slot): operation_line(row, witness=row.index in pointed) for row in calls}
    lines_by_row |= {(event.index, 0): event_line(event, witness=event.index in pointed) for event in touching}
    first = max((birth for birth in copies.births if birth <= min(pointed, default=birth)), default=0)
    lines_by_row = {key: line for key, line in lines_by_row.items() if line.witness or line.index >= first}
    if not lines_by_row:
        return ()
    later = sorted(index for index, _ in lines_by_row if index > max(pointed, default=0))
    last = later[min(AFTER_MAX, len(later)) - 1] if pointed and later else max(index for index, _ in lines_by_row)
    around = _context_events(place, history.events, first=min(lines_by_row)[0], last=last)
    lines_by_row = {(event.index, 0): event_line(event) for event in around} | lines_by_row
    return tuple(lines_by_row[key] for key in sorted(lines_by_row) if key[0] <= last)


def witness_rows(history: History, index: int, offset: int | None) -> tuple[Operation | ClusterEvent, ...]:
    """The rows of an anomaly's witness to show: of an operation with many records those at the offset, else first and last."""
    rows = history.row(index)
    if rows is None:
        return ()
    if isinstance(rows, ClusterEvent):
        return (rows,)
    if len(rows) < 3:
        return rows
    return tuple(row for row in rows if row.offset is not None and row.offset == offset) or (rows[0], rows[-1])


def _speaks_of(row: Operation, place: Place) -> bool:
    """Whether an operation told a client of the record at this offset."""
    return row.type is OpType.OK and row.offset == place.offset and row.f != "latest" and _same_partition(row, place)


def _same_partition(row: Operation | ClusterEvent, place: Place) -> bool:
    return row.partition == place.partition and row.topic == place.topic


def _context_events(place: Place, events: Sequence[ClusterEvent], *, first: int, last: int) -> list[ClusterEvent]:
    """The state before the first line, then every election of the partition, and every start and stop of its replicas.
    The writer of a partition's state need not hold a replica: the controller writes it too.
    """
    replicas = {e.node for e in events if e.node is not None and _same_partition(e, place) and e.kind not in _CONTEXT_OF_OTHERS}
    events_around: list[ClusterEvent] = []
    leader_event: ClusterEvent | None = None
    for event in events:
        if event.index > last:
            break
        if event.kind in _CONTEXT and _same_partition(event, place):
            if event.index >= first:
                events_around.append(event)
            elif event.kind is EventKind.STATE_WRITTEN:
                leader_event = event
        elif event.kind in _OF_THE_NODE and event.node in replicas and event.index >= first:
            events_around.append(event)
    return events_around if leader_event is None else [leader_event, *events_around]
