"""The space-time diagram of a failure: processes as lines, rows of the history on them in order, messages as arrows between them.

Histories hold no rows of messages. Each arrow is derived from the two rows that a message connects: a follower's append came with
the reply of the leader it follows, a leader's role with a command of the controller. An arrow is therefore drawn only where both
rows are. Of a short run (a shrunk plan, a counterexample) all rows are shown, of a long one those between promise and proof.
"""

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from typing import Literal

from msgspec.structs import asdict

from checkers.causes.cause import Cause
from history.event import ClusterEvent
from history.event import EventKind as K
from history.history import History
from history.op import Operation, OpType
from reports.rows import CLIENTS, Line, event_line, operation_line, partition_key

WHOLE_MAX = 400  # rows of a run that is shown as a whole
ROWS_MAX = 160  # rows shown of a longer run
CLIENTS_MAX = 4  # clients with a line of their own; more share one
BEFORE = 12  # control rows shown before the promise
ZOOKEEPER = "ZooKeeper"

Wire = Literal["fetch", "fetch-reply", "command", "write", "watch", "client"]
Row = ClusterEvent | Operation

_END = frozenset(
    {K.ZK_STATE, K.METADATA_VIEW, K.LOG_ON_DISK, K.RECORD_ON_DISK, K.FAULT_ACTED, K.FAULT_PROBED, K.GAUGE, K.ASSIGNED}
)
_BULK = frozenset({K.APPEND, K.HW, K.FLUSHED})
_MINOR = frozenset({K.BROKER_STATE, K.FAULT_BEGUN, K.FAULT_ENDED, K.COMMAND_UNANSWERED})
_ROLES = (K.BECAME_LEADER, K.BECAME_FOLLOWER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A row of the history on the line of its process. `fields` has all its columns for the reader who wants them."""

    process: str
    line: Line
    fields: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrow:
    """A message between two processes: the rows before it and after it, what kind it is, and what it carried."""

    kind: Wire
    start: int  # row
    end: int
    source: str  # process
    target: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The rows between which a broker was down, or in the window of a fault."""

    process: str
    start: int
    end: int
    kind: Literal["down", "fault"]
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagram:
    """What a space-time diagram shows. `whole` tells that no row of the run was left out."""

    processes: tuple[str, ...]
    spots: tuple[Spot, ...]
    arrows: tuple[Arrow, ...]
    spans: tuple[Span, ...]
    left_out: int
    whole: bool


def diagram_of(history: History, cause: Cause | None) -> Diagram | None:
    """The diagram of a run: around its cause, or the whole run where it is short; None for a long run without a cause."""
    cause_rows = frozenset[int]() if cause is None else frozenset(cause.rows)
    rows = rows_of(history, cause_rows)
    whole = len(rows) <= WHOLE_MAX
    if not rows or not (whole or (cause is not None and cause.rows)):
        return None
    kept = rows if whole or cause is None else _rows_around_cause(rows, cause)
    return drawn(rows, kept, history.manifest.brokers, step=None if cause is None else cause.step, cause_rows=cause_rows)


def rows_of(history: History, told: Set[int]) -> list[Row]:
    """The rows that a diagram may show, in their order; those in `told` whatever their kind."""
    return sorted([*_events_shown(history, told), *_calls_shown(history, told)], key=lambda row: row.index)


def drawn(rows: Sequence[Row], kept: Sequence[Row], brokers: Sequence[str], *, step: int | None, cause_rows: Set[int]) -> Diagram:
    """The diagram of some of these rows."""
    process_of = _process_by_actor(kept, brokers)
    shown = {row.index for row in kept}
    arrows = [arrow for arrow in _arrows_between_rows(rows, process_of) if {arrow.start, arrow.end} <= shown]
    return Diagram(
        processes=tuple(dict.fromkeys(process_of.values())),
        spots=tuple(_spot_of_row(row, process_of, step=step, is_witness=row.index in cause_rows) for row in kept),
        arrows=tuple(arrows),
        spans=tuple(_spans_of_rows(kept, process_of)),
        left_out=len(rows) - len(kept),
        whole=len(rows) == len(kept),
    )


def _events_shown(history: History, cause_rows: Set[int]) -> Iterator[ClusterEvent]:
    """All events but those of the end and of faults on a partition, unless they are told."""
    for event in history.events:
        about_partition = event.kind in (K.FAULT_BEGUN, K.FAULT_ENDED) and event.partition is not None
        if event.index in cause_rows or (event.kind not in _END and not about_partition):
            yield event


def _calls_shown(history: History, cause_rows: Set[int]) -> Iterator[Operation]:
    """One row of each invocation and completion, that of its first record. Answers without a record only if they are told."""
    for row in history.operations:
        records = row.f == "produce" or (row.type is not OpType.INVOKE and row.value is not None)
        if row.slot == 0 and (records or row.index in cause_rows):
            yield row


def _rows_around_cause(rows: Sequence[Row], cause: Cause) -> list[Row]:
    """The rows that matter between the first and the last row of a cause, and a few control rows before."""
    cause_rows = frozenset(cause.rows)
    first, last = min(cause_rows), max(cause_rows)
    rows_of_cause = [row for row in rows if row.index in cause_rows]
    offsets = {row.offset for row in rows_of_cause if row.offset is not None}
    values = {row.value for row in rows_of_cause if row.value is not None}
    partition_rows = [row for row in rows if partition_key(row) in ("", cause.key) or row.index in cause_rows]
    before = [row for row in partition_rows if row.index < first and is_deed(row)][-BEFORE:]
    inside = [row for row in partition_rows if first - 40 <= row.index <= last and _is_of_cause(row, offsets, values, cause_rows)]
    kept = {row.index: row for row in (*before, *inside)}
    ranked = sorted(kept.values(), key=lambda row: (_rank_to_leave_out(row, cause_rows), abs(row.index - (cause.step or last))))
    return sorted(ranked[:ROWS_MAX], key=lambda row: row.index)


def is_deed(row: Row) -> bool:
    """Whether a row is an event that is neither bulk nor about a window of a fault."""
    return isinstance(row, ClusterEvent) and row.kind not in _BULK | _MINOR


def _is_of_cause(row: Row, offsets: set[int], values: set[str], cause_rows: Set[int]) -> bool:
    """Whether the row belongs into the diagram: it is told, or about these offsets and values."""
    if row.index in cause_rows:
        return True
    if isinstance(row, Operation):
        return row.value in values or (row.f == "produce" and row.offset in offsets)
    if row.kind is K.APPEND:
        return row.offset in offsets
    if row.kind in (K.HW, K.FLUSHED):
        end = row.hw if row.kind is K.HW else row.offset
        return end is not None and end - 1 in offsets
    return True


def _rank_to_leave_out(row: Row, cause_rows: Set[int]) -> int:
    """How soon a row is left out if there are too many; 0 is last."""
    if row.index in cause_rows:
        return 0
    if isinstance(row, Operation) or row.kind in _MINOR:
        return 3
    return 2 if row.kind in _BULK else 1


def _process_by_actor(rows: Sequence[Row], brokers: Sequence[str]) -> dict[str, str]:
    """The process line that each actor has in the diagram: clients first, then brokers, then ZooKeeper."""
    clients = sorted({row.process for row in rows if isinstance(row, Operation)})
    own = len(clients) <= CLIENTS_MAX
    rows_of_cause = {f"client {number}": f"client {number}" if own else CLIENTS for number in clients}
    nodes = {row.node for row in rows if isinstance(row, ClusterEvent) and row.node is not None}
    rows_of_cause.update({node: node for node in (*brokers, *sorted(nodes - {*brokers}))})
    return {**rows_of_cause, ZOOKEEPER: ZOOKEEPER}


def _actor(row: Row) -> str:
    if isinstance(row, Operation):
        return f"client {row.process}"
    return ZOOKEEPER if row.node is None or row.kind in (K.SESSION_ENDED, K.STATE_WRITTEN) else row.node


def _spot_of_row(row: Row, process_of: dict[str, str], *, step: int | None, is_witness: bool) -> Spot:
    """A row as a point of its process, with its fields."""
    line = operation_line(row) if isinstance(row, Operation) else event_line(row)
    filled = {name: value for name, value in asdict(row).items() if value is not None and name != "time_ns"}
    words = {name: ", ".join(map(str, value)) if isinstance(value, tuple | list) else value for name, value in filled.items()}
    fields = "\n".join(f"{name}: {value}" for name, value in words.items())
    return Spot(process=process_of[_actor(row)], line=replace(line, witness=is_witness, step=row.index == step), fields=fields)


# --- messages -------------------------------------------------------------------------------------------------------------------


class _Seen:
    """The last rows of each kind of each broker and partition, while the rows are read in order."""

    def __init__(self) -> None:
        self.roles: dict[tuple[str, str], ClusterEvent] = {}  # (broker, partition) -> it became leader or follower
        self.appends: dict[tuple[str, str, int, str | None], ClusterEvent] = {}
        self.copies: dict[tuple[str, int], ClusterEvent] = {}  # (partition, offset) -> the last append of a follower
        self.hws: dict[tuple[str, str], ClusterEvent] = {}
        self.states: dict[str, ClusterEvent] = {}
        self.asked: dict[str, ClusterEvent] = {}  # partition -> the ISR change that a leader asked for
        self.controller: str | None = None
        self.session: ClusterEvent | None = None  # ended, and nobody has reacted yet
        self.produces: dict[str, Operation] = {}  # value -> invocation


def _arrows_between_rows(rows: Iterable[Row], process_of: dict[str, str]) -> Iterator[Arrow]:
    """The messages that the rows tell of, each from the row that sent it to the row that it led to."""
    seen = _Seen()
    for row in rows:
        if isinstance(row, Operation):
            yield from _arrows_of_call(row, seen, process_of)
        else:
            yield from _arrows_of_event(row, seen, process_of)


def _arrows_of_call(row: Operation, seen: _Seen, process_of: dict[str, str]) -> Iterator[Arrow]:
    """The arrow of an answer; an invocation is remembered."""
    client_name = process_of.get(f"client {row.process}")
    if row.type is OpType.INVOKE:
        if row.value is not None:
            seen.produces[row.value] = row
    elif client_name is not None and row.node in process_of:
        words = f"answer to {row.f}" if row.error is None else f"answer to {row.f}: {row.error}"
        yield Arrow(kind="client", start=row.index, end=row.index, source=process_of[row.node], target=client_name, words=words)


def _arrows_of_event(row: ClusterEvent, seen: _Seen, process_of: dict[str, str]) -> Iterator[Arrow]:
    """The messages that a row of a broker or of ZooKeeper ended, from the rows that sent them."""
    key = partition_key(row)
    node = row.node or ""
    if row.kind is K.APPEND:
        yield from _arrows_of_append(row, key, node, seen, process_of)
    elif row.kind is K.HW:
        yield from _arrows_of_hw(row, key, node, seen)
    elif row.kind is K.STATE_WRITTEN:
        yield from _arrows_of_write(row, key, node, seen)
    elif row.kind in (*_ROLES, K.RESIGNED):
        state = seen.states.get(key)
        if state is not None and seen.controller is not None and state.leader_epoch == row.leader_epoch:
            words = f"LeaderAndIsr: leader {state.leader}, epoch {state.leader_epoch}"
            yield _arrow_between("command", (state, row), seen.controller, node, words)
        seen.roles[node, key] = row
        if row.kind is K.BECAME_LEADER:
            seen.hws[node, key] = row
    elif row.kind is K.ISR_CHANGE_SENT:
        seen.asked[key] = row
    elif row.kind is K.ISR_CHANGE_ENDED and (state := seen.states.get(key)) is not None:
        yield _arrow_between("watch", (state, row), ZOOKEEPER, node, f"answer to the ISR change: {row.detail}")
    elif row.kind in (K.CONTROLLER_ELECTED, K.REGISTERED):
        yield _arrow_between(
            "write", (row, row), node, ZOOKEEPER, "creates /controller" if row.kind is K.CONTROLLER_ELECTED else "registers"
        )
        if row.kind is K.CONTROLLER_ELECTED:
            yield from _arrows_of_watch(row, node, seen)
            seen.controller = node
    elif row.kind is K.SESSION_ENDED:
        seen.session = row


def _arrow_between(kind: Wire, rows: tuple[Row, Row], source: str, target: str, words: str) -> Arrow:
    return Arrow(kind=kind, start=rows[0].index, end=rows[1].index, source=source, target=target, words=words)


def _arrows_of_append(row: ClusterEvent, key: str, node: str, seen: _Seen, process_of: dict[str, str]) -> Iterator[Arrow]:
    """The arrow by which a record came: a produce, or a fetch from the leader."""
    offset = row.offset or 0
    role = seen.roles.get((node, key))
    produce = seen.produces.get(row.value or "")
    if row.detail == "follower" and role is not None and role.leader is not None:
        source = seen.appends.get((role.leader, key, offset, row.value))
        if source is not None:
            yield _arrow_between(
                "fetch-reply", (source, row), role.leader, node, f"FetchReply with {row.value} at offset {offset}"
            )
        seen.copies[key, offset] = row
    elif row.detail != "follower" and produce is not None:
        yield _arrow_between(
            "client", (produce, row), process_of.get(f"client {produce.process}", CLIENTS), node, f"Produce of {row.value}"
        )
    seen.appends[node, key, offset, row.value] = row


def _arrows_of_hw(row: ClusterEvent, key: str, node: str, seen: _Seen) -> Iterator[Arrow]:
    """The arrow that raised an HW: a follower's fetch, or the leader's answer."""
    role = seen.roles.get((node, key))
    if row.detail == "follower" and role is not None and role.leader is not None:
        source = seen.hws.get((role.leader, key))
        if source is not None:
            yield _arrow_between("fetch-reply", (source, row), role.leader, node, f"FetchReply with HW {row.hw}")
    elif row.detail == "leader" and row.hw:
        copy = seen.copies.get((key, row.hw - 1))
        if copy is not None and copy.node is not None:
            yield _arrow_between("fetch", (copy, row), copy.node, node, f"Fetch from offset {row.hw}")
    seen.hws[node, key] = row


def _arrows_of_write(row: ClusterEvent, key: str, node: str, seen: _Seen) -> Iterator[Arrow]:
    """The arrows of a write of a state: the request for it, and the write to ZooKeeper."""
    request = seen.asked.get(key)
    isr = ", ".join(row.isr or ())
    if request is not None and set(request.isr or ()) == set(row.isr or ()) and request.node is not None:
        if request.node != node:
            yield _arrow_between("command", (request, row), request.node, node, f"AlterPartition: ISR {isr}")
        del seen.asked[key]
    if node == seen.controller:
        yield from _arrows_of_watch(row, node, seen)
    if node:
        words = f"writes leader {row.leader or 'none'}, epoch {row.leader_epoch}, ISR {isr}, version {row.zk_version}"
        yield _arrow_between("write", (row, row), node, ZOOKEEPER, words)
    seen.states[key] = row


def _arrows_of_watch(row: ClusterEvent, node: str, seen: _Seen) -> Iterator[Arrow]:
    """A controller that acts after a session ended has been told of its end by a watch."""
    if seen.session is not None and node:
        yield _arrow_between(
            "watch", (seen.session, row), ZOOKEEPER, node, f"watch: the registration of {seen.session.node} is gone"
        )
        seen.session = None


def _spans_of_rows(rows: Sequence[Row], process_of: dict[str, str]) -> Iterator[Span]:
    """When brokers were down, and the windows of faults on them."""
    down: dict[str, ClusterEvent] = {}
    faults: dict[tuple[str | None, str], ClusterEvent] = {}
    last = rows[-1].index if rows else 0
    for row in rows:
        if isinstance(row, Operation) or row.node is None or row.node not in process_of:
            continue
        if row.kind is K.NODE_STOPPED:
            down[row.node] = row
        elif row.kind is K.NODE_STARTED and row.node in down:
            yield _span_of("down", down.pop(row.node), row.index)
        elif row.kind is K.FAULT_BEGUN:
            faults[row.fault, row.node] = row
        elif row.kind is K.FAULT_ENDED and (row.fault, row.node) in faults:
            yield _span_of("fault", faults.pop((row.fault, row.node)), row.index)
    yield from (_span_of("down", row, last) for row in down.values())
    yield from (_span_of("fault", row, last) for row in faults.values())


def _span_of(kind: Literal["down", "fault"], row: ClusterEvent, end: int) -> Span:
    words = f"{row.node} is down: {row.detail}" if kind == "down" else f"fault {row.fault} on {row.node}: {row.detail}"
    return Span(process=row.node or "", start=row.index, end=end, kind=kind, words=words)
