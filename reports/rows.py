"""Describes rows of a history: one sentence for an operation or a cluster event, and the selection of events for the log.

The words name the columns that matter for the kind. The index leads to the full row.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from history.event import ClusterEvent, EventKind
from history.op import Operation, OpType
from reports.session_words import session_words

Tone = Literal["call", "ok", "fail", "info", "election", "isr", "node", "fault", "wound", "replica", "milestone", "assertion"]

CLIENTS = "clients"  # all clients, as the filters of a page name them
_TONES: dict[EventKind, Tone] = {
    EventKind.NODE_STARTED: "node",
    EventKind.NODE_STOPPED: "node",
    EventKind.REGISTERED: "node",
    EventKind.SESSION_ENDED: "node",
    EventKind.CONTROLLER_ELECTED: "election",
    EventKind.CONTROLLER_RESIGNED: "election",
    EventKind.BROKER_STATE: "election",
    EventKind.COMMAND_UNANSWERED: "election",
    EventKind.FENCED: "node",
    EventKind.UNFENCED: "node",
    EventKind.STATE_WRITTEN: "election",
    EventKind.ISR_CHANGE_SENT: "isr",
    EventKind.ISR_CHANGE_ENDED: "isr",
    EventKind.BECAME_LEADER: "election",
    EventKind.BECAME_FOLLOWER: "replica",
    EventKind.RESIGNED: "election",
    EventKind.DIR_FAILED: "node",
    EventKind.GAUGE: "node",
    EventKind.RECOVERED: "replica",
    EventKind.APPEND: "replica",
    EventKind.TRUNCATE: "replica",
    EventKind.FLUSHED: "replica",
    EventKind.HW: "replica",
    EventKind.ASSIGNED: "election",
    EventKind.REASSIGNMENT_BEGUN: "election",
    EventKind.REASSIGNMENT_ENDED: "election",
    EventKind.REASSIGNMENT_REFUSED: "election",
    EventKind.REQUEST_REFUSED: "election",
    EventKind.TOPIC_DELETED: "election",
    EventKind.REPLICA_DELETED: "replica",
    EventKind.WOUND: "wound",
    EventKind.FAULT_BEGUN: "fault",
    EventKind.FAULT_ENDED: "fault",
    EventKind.FAULT_ACTED: "fault",
    EventKind.FAULT_PROBED: "fault",
    EventKind.HEALED: "milestone",
    EventKind.FINAL_READS: "milestone",
    EventKind.UNCLEAN_ELECTION_ORDERED: "election",
    EventKind.CONFIGURED: "election",
    EventKind.ASSERTION: "assertion",
    EventKind.RULE_BROKEN: "assertion",
    EventKind.ZK_STATE: "milestone",
    EventKind.METADATA_VIEW: "milestone",
    EventKind.METADATA_TOLD: "assertion",
    EventKind.LOG_ON_DISK: "milestone",
    EventKind.RECORD_ON_DISK: "milestone",
}
_OF_SESSIONS = frozenset(
    (
        *("txn", "group-poll", "group-leave", "group-abandon", "group-positions", "process", "read-committed"),
        *("init-transactions", "txn-send", "txn-commit", "txn-abort"),
        *("share-poll", "share-acknowledge", "share-leave", "share-abandon"),
    )
)  # whose values are JSON
_OUTCOMES: dict[OpType, Tone] = {OpType.INVOKE: "call", OpType.OK: "ok", OpType.FAIL: "fail", OpType.INFO: "info"}
# Left out of logs: appends, flushes and HW moves are too many and mostly shown in the figures, FAULT_ACTED is summed in the table
# of faults, and the state at the end of the run is reported only where it is inconsistent.
_END = frozenset({EventKind.ZK_STATE, EventKind.METADATA_VIEW, EventKind.LOG_ON_DISK, EventKind.RECORD_ON_DISK})
_BULK = frozenset({EventKind.APPEND, EventKind.FLUSHED, EventKind.HW, EventKind.FAULT_ACTED, EventKind.GAUGE}) | _END


class Source(NamedTuple):
    """Where the reference makes a kind of row: the function, or each that may have, and the numbers of their statements."""

    functions: tuple[str, ...]
    statements: tuple[int, ...]

    @property
    def words(self) -> str:
        """The statements (R) and the functions in short, for example follower._truncate_by."""
        names = " or ".join(function.rpartition("/")[2] for function in self.functions)
        return ", ".join((*(f"R-{number:03d}" for number in self.statements[:3]), names))


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One row of a history as a line of a log. `where` is a partition or "".

    `witness` marks the proof of an anomaly, `step` the row that the cause names as what did it.
    """

    index: int
    time_ns: int
    who: str
    where: str
    words: str
    tone: Tone
    kind: str = ""  # of an event, with its detail where that is a word of the protocol; empty for an operation
    witness: bool = False
    step: bool = False


def is_control(event: ClusterEvent) -> bool:
    """Whether an event helps to explain a run: an election, an ISR change, a start or stop, a truncation, a fault."""
    return event.kind not in _BULK


def partition_key(row: Operation | ClusterEvent) -> str:
    """The partition of a row as "orders-0"; "" for a row without a partition."""
    return "" if row.topic is None or row.partition is None else f"{row.topic}-{row.partition}"


def known(value: object) -> object:
    """A column for a sentence; "unknown" for one that the row lacks."""
    return "unknown" if value is None else value


def process_of(name: str) -> str:
    """Who acts, as the filters of a page name it: a broker, ZooKeeper, or all clients together."""
    return CLIENTS if name.startswith("client ") else name


def operation_line(row: Operation, *, witness: bool = False) -> Line:
    """Format a client operation as a line of the log."""
    return Line(
        index=row.index,
        time_ns=row.time_ns,
        who=f"client {row.process}",
        where=partition_key(row),
        words=_operation_words(row),
        tone=_OUTCOMES[row.type],
        witness=witness,
    )


def event_line(row: ClusterEvent, *, witness: bool = False) -> Line:
    """Format a cluster event as a line of the log."""
    return Line(
        index=row.index,
        time_ns=row.time_ns,
        who=row.node or ("ZooKeeper" if row.kind is EventKind.STATE_WRITTEN else "harness"),
        where=partition_key(row),
        words=_event_words(row),
        tone=_TONES[row.kind],
        kind=_kind(row),
        witness=witness,
    )


def _kind(row: ClusterEvent) -> str:
    if row.kind is EventKind.STATE_WRITTEN:
        return f"{row.kind}:{'leader' if row.node == row.leader else 'other'}"
    return f"{row.kind}:{row.detail}" if row.kind in (EventKind.TRUNCATE, EventKind.HW, EventKind.APPEND) else str(row.kind)


def folded(lines: Iterable[Line]) -> tuple[Line, ...]:
    """Join neighbouring log lines with the same words and time of several nodes into one line that names the nodes."""
    out: list[Line] = []
    for line in lines:
        last = out[-1] if out else None
        if (
            last is not None
            and line.tone in ("fault", "node")
            and not (line.witness or last.witness or line.step or last.step)
            and (line.time_ns, line.where, line.words) == (last.time_ns, last.where, last.words)
        ):
            out[-1] = replace(last, who=f"{last.who}, {line.who}")
        else:
            out.append(line)
    return tuple(out)


def _operation_words(row: Operation) -> str:
    """What a client asks for or is told."""
    value = "" if row.value is None else f" {session_words(row.f, row.value) if row.f in _OF_SESSIONS else row.value}"
    at = "" if row.offset is None else f" at offset {row.offset}"
    by = "" if row.node is None else f" by {row.node}"
    epoch = "" if row.leader_epoch is None else f" (leader epoch {row.leader_epoch})"
    why = "" if row.error is None else f": {row.error}"
    match row.f, row.type:
        case "produce", OpType.INVOKE:
            acks = {-1: "all", None: "?"}.get(row.acks, row.acks)
            return f"asks to append{value}, acks={acks}"
        case "produce", OpType.OK:
            return (
                f"is told that{value} is committed{at}{by}{epoch}"
                if row.acks in (-1, None)
                else (f"is told that{value} is written{at}{by}{epoch}, acks={row.acks}")
            )
        case "poll", OpType.INVOKE:
            return f"polls from offset {known(row.offset)}"
        case "poll", OpType.OK if row.value is None:
            return f"gets nothing{by}"
        case "poll", OpType.OK:
            return f"reads{value}{at}{by}{epoch}"
        case "latest", OpType.INVOKE:
            return "asks for the end offset"
        case "latest", OpType.OK:
            return f"is told that the end offset is {known(row.offset)}{by}{epoch}"
        case _, OpType.INVOKE:
            return f"asks for {row.f}{value}{at}"
        case _, OpType.OK:
            return f"{row.f} succeeds:{value}{at}{by}{epoch}"
        case _, OpType.FAIL:
            return f"{row.f}{value} certainly had no effect{by}{why}"
        case _, OpType.INFO:
            return f"does not know the outcome of {row.f}{value}{by}{why}"
        case _:
            raise AssertionError(row.type)


def _names(nodes: tuple[str, ...] | None) -> str:
    return "[" + ", ".join(nodes or ()) + "]"


def _event_words(row: ClusterEvent) -> str:
    return _node_words(row) or _state_words(row) or _replica_words(row) or _harness_words(row)


def _node_words(row: ClusterEvent) -> str:
    """What a broker does; "" for other rows."""
    life = "" if row.life is None else f" (life {row.life})"
    match row.kind:
        case EventKind.NODE_STARTED:
            return f"starts{life}"
        case EventKind.NODE_STOPPED:
            return f"stops{life}: {row.detail or 'no reason given'}"
        case EventKind.REGISTERED:
            return f"is registered in ZooKeeper{life} as incarnation {known(row.incarnation)}"
        case EventKind.SESSION_ENDED:
            return f"loses its ZooKeeper session, incarnation {known(row.incarnation)}"
        case EventKind.CONTROLLER_ELECTED:
            return f"becomes controller{_in_controller_epoch(row)}"
        case EventKind.BROKER_STATE:
            return f"considers {known(row.broker)}, incarnation {known(row.incarnation)}, {row.detail or 'unknown'}"
        case EventKind.COMMAND_UNANSWERED:
            return (
                f"gets no answer to {known(row.detail)} from {known(row.broker)}, incarnation {known(row.incarnation)}, in time"
            )
        case EventKind.FENCED:
            return f"fences itself{life}: refuses requests of clients and followers"
        case EventKind.UNFENCED:
            return f"accepts requests again{life}"
        case EventKind.CONTROLLER_RESIGNED:
            return f"resigns as controller{_in_controller_epoch(row)}"
        case EventKind.DIR_FAILED:
            return f"reports log directory {known(row.dir)} as failed{life}: {row.detail or 'no reason given'}"
        case EventKind.GAUGE:
            return f"gauge {known(row.detail)}: {known(row.gauge)}"
        case _:
            return ""


def _in_controller_epoch(row: ClusterEvent) -> str:
    # Protocols before KIP-380 have no controller epoch.
    return "" if row.controller_epoch is None else f", controller epoch {row.controller_epoch}"


def _state_words(row: ClusterEvent) -> str:
    """What happens to a partition's state; "" for other rows."""
    match row.kind:
        case EventKind.STATE_WRITTEN:
            elr = f", ELR {_names(row.elr)}" if row.elr else ""
            leader = row.leader or "none"
            return (
                f"writes to ZooKeeper: leader {leader}, leader epoch {known(row.leader_epoch)}, ISR {_names(row.isr)}{elr}"
                f" (version {known(row.zk_version)})"
            )
        case EventKind.ISR_CHANGE_SENT:
            return f"asks for ISR {_names(row.isr)}, leader epoch {known(row.leader_epoch)}, version {known(row.zk_version)}"
        case EventKind.ISR_CHANGE_ENDED:
            return f"ISR change {row.detail or 'ended'}: assumes ISR {_names(row.isr)}, leader epoch {known(row.leader_epoch)}"
        case EventKind.ASSIGNED:
            return f"ZooKeeper assigns replicas {_names(row.replicas)}"
        case EventKind.REASSIGNMENT_BEGUN:
            return f"starts to move the partition {known(row.detail)}"
        case EventKind.REASSIGNMENT_ENDED:
            return f"has moved the partition {known(row.detail)}"
        case EventKind.REASSIGNMENT_REFUSED:
            return f"refuses to move the partition: {known(row.detail)}"
        case EventKind.REQUEST_REFUSED:
            return f"refuses a request: {known(row.detail)}"
        case EventKind.CONFIGURED:
            return f"the settings of a topic are written: {known(row.detail)}"
        case EventKind.UNCLEAN_ELECTION_ORDERED:
            return f"an operator orders the unclean election of {known(row.leader)}"
        case _:
            return ""


def _replica_words(row: ClusterEvent) -> str:
    """What a replica does; "" for other rows."""
    why = "" if row.detail is None else f" ({known(row.detail)})"
    match row.kind:
        case EventKind.BECAME_LEADER:
            end = f"LEO {known(row.leo)}, HW {known(row.hw)}"
            return f"leads under leader epoch {known(row.leader_epoch)}: {end}, ISR {_names(row.isr)}"
        case EventKind.BECAME_FOLLOWER:
            return f"follows {row.leader or 'no leader'} under leader epoch {known(row.leader_epoch)}"
        case EventKind.RESIGNED:
            return f"resigns as leader or follower, leader epoch {known(row.leader_epoch)}"
        case EventKind.RECOVERED:
            return f"finds its replica at startup: LEO {known(row.leo)}, HW {known(row.hw)}"
        case EventKind.APPEND:
            return f"appends {known(row.value)} at offset {known(row.offset)}, leader epoch {known(row.leader_epoch)}{why}"
        case EventKind.TRUNCATE:
            return f"truncates to offset {known(row.offset)}{why}"
        case EventKind.FLUSHED:
            return f"has flushed what is below offset {known(row.offset)}"
        case EventKind.HW:
            return f"moves its HW to {known(row.hw)}, LEO {known(row.leo)}{why}"
        case EventKind.REPLICA_DELETED:
            return "deletes its replica"
        case EventKind.TOPIC_DELETED:
            return f"the topic is deleted (id {known(row.topic_id)})"
        case _:
            return ""


def _harness_words(row: ClusterEvent) -> str:
    """What the harness does or records."""
    fault = "" if row.fault is None else f" {known(row.fault)}"
    match row.kind:
        case EventKind.WOUND:
            first = "" if row.offset is None else f" from offset {known(row.offset)} on"
            return f"wound by {row.detail or 'the harness'}: bytes destroyed{first} (dir {known(row.dir)})"
        case EventKind.FAULT_BEGUN:
            return f"fault{fault} begins: {known(row.detail)}"
        case EventKind.FAULT_ENDED:
            return f"fault{fault} ends: {known(row.detail)}"
        case EventKind.FAULT_ACTED:
            return f"fault{fault} acted {known(row.count)} times: {known(row.detail)}"
        case EventKind.FAULT_PROBED:
            return f"probe of fault {known(row.fault)}: {known(row.detail)}"
        case EventKind.HEALED:
            return "all faults have ended"
        case EventKind.FINAL_READS:
            return "the final reads begin"
        case EventKind.ZK_STATE:
            return f"final state in ZooKeeper: {_leader_in_words(row)}, version {known(row.zk_version)}"
        case EventKind.METADATA_VIEW:
            return f"final metadata: {_leader_in_words(row)}"
        case EventKind.METADATA_TOLD:
            return (
                f"wrong metadata: {_leader_in_words(row)}, of {', '.join(row.replicas or ()) or 'no broker'}, {known(row.detail)}"
            )
        case EventKind.LOG_ON_DISK:
            hw = "" if row.hw is None else f", HW {row.hw} in its checkpoint"
            return f"final log in directory {known(row.dir)}: LEO {known(row.leo)}{hw}"
        case EventKind.RECORD_ON_DISK:
            epoch = "" if (row.leader_epoch or 0) < 0 else f" of leader epoch {known(row.leader_epoch)}"
            return f"has {known(row.value)}{epoch} at offset {known(row.offset)} at the end"
        case EventKind.RULE_BROKEN:
            return f"broke a clause: {known(row.detail)}"
        case EventKind.ASSERTION:
            return f"an assertion of the system under test failed: {known(row.detail)}"
        case _:
            raise AssertionError(row.kind)


def _leader_in_words(row: ClusterEvent) -> str:
    replicas = ", ".join(row.replicas or ()) or "none"
    return f"leader {row.leader or 'none'}, leader epoch {known(row.leader_epoch)}, replicas {replicas}"
