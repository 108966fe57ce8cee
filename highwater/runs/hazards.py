"""Whether a run met the hazard that its plan is about. A run that did not is vacuous: it shows nothing, however it was judged.

A plan of `corpus/real` makes a bug of the past possible. On a real cluster elections and bursts come when they come, so a release
may keep all records because it is repaired, or because nothing was at stake. The rows tell which; those of Kafka come from its
log, and old releases log too little. An anomaly shows the hazard by itself.

`WORDS` says what each hazard is.
"""

from collections.abc import Iterator
from typing import Literal, assert_never

from msgspec import UNSET, UnsetType

from highwater.plans.plan import Hazard, Plan
from history.event import ClusterEvent, EventKind
from history.history import History
from history.op import OpType

Shown = Literal["shown", "not shown", "not told"]
WORDS: dict[Hazard, str] = {
    "unknown-hw": "a leader began with a high watermark below what had been acknowledged",
    "parted-logs": "a replica held other records than the leader before the last: it truncated below where that leader had begun",
    "missed-elections": "while a running replica had no session, another replica was elected, and then one more",
    "outlived-isr": "no member of the ISR had a session, and another broker had one",
    "last-replica": "the only member of the ISR lost acknowledged records",
    "orphan-request": "a request arrived after its client had given up the connection",
}


def hazard_of(plan: Plan, history: History, *, accused: bool) -> Shown | UnsetType:
    """Whether the run met its plan's hazard; UNSET for a plan without one. `accused`: an anomaly was found."""
    if plan.hazard is UNSET:
        return UNSET
    if accused:
        return "shown"
    measures = list(_measures(plan.hazard, history))
    return "not told" if not measures else "shown" if max(measures) > 0 else "not shown"


def _measures(hazard: Hazard, history: History) -> Iterator[int]:
    """For each row that could show the hazard, by how many records or elections it does."""
    match hazard:
        case "unknown-hw":
            return _unknown(history)
        case "parted-logs":
            return _records_cut(history)
        case "missed-elections":
            return _elections_missed(history)
        case "outlived-isr":
            return _isr_without_brokers(history)
        case "last-replica":
            return _records_lost_by_last_member(history)
        case "orphan-request":
            return (row.count for row in _of_kind(history, EventKind.FAULT_PROBED) if row.count is not None)
        case _:
            assert_never(hazard)


def _unknown(history: History) -> Iterator[int]:
    for row in _of_kind(history, EventKind.BECAME_LEADER):
        if row.hw is not None:
            yield acknowledged_before(history, row.time_ns) - row.hw


def acknowledged_before(history: History, time_ns: int) -> int:
    """The end of the records that were acknowledged under acks=all before this time."""
    done = (row for row in history.operations if row.type is OpType.OK and row.f == "produce" and row.time_ns < time_ns)
    return max((row.offset + 1 for row in done if row.offset is not None), default=0)


def _records_cut(history: History) -> Iterator[int]:
    """How many records each truncation cut below the LEO of the last leader."""
    began: ClusterEvent | None = None
    leaders = _of_kind(history, EventKind.BECAME_LEADER)
    for row in history.events:
        if row.kind is EventKind.BECAME_LEADER:
            if row.leo is not None:
                began = row
                yield 0
            if row is leaders[-1]:
                return
        elif row.kind is EventKind.TRUNCATE and began is not None and began.leo is not None and row.offset is not None:
            yield began.leo - row.offset


def _elections_missed(history: History) -> Iterator[int]:
    """How many elections the broker without a session missed, at each write of the state."""
    running: set[str | None] = set()
    missed: dict[str | None, int] = {}  # by running replica without a session: elections of another leader since then
    leader: str | None = None
    for row in history.events:
        match row.kind:
            case EventKind.NODE_STARTED:
                running.add(row.node)
            case EventKind.NODE_STOPPED:
                running.discard(row.node)
                missed.pop(row.node, None)
            case EventKind.SESSION_ENDED if row.node in running:
                missed[row.node] = 0
            case EventKind.REGISTERED:
                missed.pop(row.node, None)
            case EventKind.STATE_WRITTEN:
                if row.leader not in (leader, None):
                    missed = {node: count + 1 for node, count in missed.items()}
                    leader = row.leader
                yield max(missed.values(), default=0) - 1


def _isr_without_brokers(history: History) -> Iterator[int]:
    """1 whenever brokers are registered and none of the ISR is."""
    registered: set[str | None] = set()
    isr: set[str | None] = set()
    for row in history.events:
        match row.kind:
            case EventKind.REGISTERED:
                registered.add(row.node)
            case EventKind.SESSION_ENDED:
                registered.discard(row.node)
            case EventKind.STATE_WRITTEN:
                isr = {*(row.isr or ())}
        if isr:
            yield 1 if registered and not registered & isr else 0


def _records_lost_by_last_member(history: History) -> Iterator[int]:
    """How many acknowledged records the only member of the ISR lost."""
    isr: tuple[str, ...] = ()
    for row in history.events:
        if row.kind is EventKind.STATE_WRITTEN:
            isr = tuple(row.isr or ())
            yield 0
        elif row.kind is EventKind.WOUND and row.offset is not None and isr == (row.node,):
            yield acknowledged_before(history, row.time_ns) - row.offset


def _of_kind(history: History, kind: EventKind) -> list[ClusterEvent]:
    return [row for row in history.events if row.kind is kind]
