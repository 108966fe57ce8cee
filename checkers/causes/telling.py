"""Clauses in the past tense for rows of a history: what a broker, ZooKeeper or a client did, with its time."""

from collections.abc import Sequence
from typing import NamedTuple

from history.event import ClusterEvent
from history.event import EventKind as K
from history.op import Operation, OpType

TOGETHER_NS = 1_000_000_000  # brokers that stop within this time stop together
_STOPS = {"crash": "crashed", "power-loss": "lost power"}


class Clause(NamedTuple):
    """A part of a sentence, the rows that it tells of, in the order of index, and rows that show the other facts in it."""

    words: str
    rows: tuple[int, ...]
    facts: tuple[int, ...] = ()  # such as the write of an ISR, which may be much older


def indices(*rows: ClusterEvent | None) -> tuple[int, ...]:
    """The indices of the rows that there are."""
    return tuple(row.index for row in rows if row is not None)


def seconds(time_ns: int) -> str:
    """Format a time: "1.970 s", truncated."""
    return f"{time_ns // 1_000_000_000}.{time_ns // 1_000_000 % 1000:03d} s"


def at(row: ClusterEvent | Operation) -> str:
    """When a row was recorded: "at 1.970 s"."""
    return f"at {seconds(row.time_ns)}"


def names(nodes: Sequence[str] | None) -> str:
    """A set of brokers: "{b1,b2}"."""
    return "{" + ",".join(nodes or ()) + "}"


def listed(nodes: Sequence[str]) -> str:
    """Brokers in a sentence: "b1", "b1 and b2", "b1, b2 and b3"."""
    return nodes[0] if len(nodes) == 1 else f"{', '.join(nodes[:-1])} and {nodes[-1]}"


def clause(row: ClusterEvent | Operation) -> Clause:
    """The clause of one row alone."""
    words = answered(row) if isinstance(row, Operation) else _deed_in_words(row)
    return Clause(f"{words} {at(row)}", (row.index,))


def answered(row: Operation) -> str:
    """What a client was told or asked for."""
    by = f" by {row.node}" if row.node else ""
    value = row.value or "a record"
    offset = "" if row.offset is None else f" at offset {row.offset}"
    match row.f, row.type:
        case "produce", OpType.OK:
            return f"{value} was acknowledged{offset}{by}"
        case "produce", OpType.INVOKE:
            return f"client {row.process} asked to append {value}"
        case "produce", _:
            return f"the produce of {value} failed with {row.error or 'no answer'}{by}"
        case "poll", OpType.OK if row.value is not None:
            return f"client {row.process} read {value}{offset}{', given' if by else ''}{by}"
        case "latest", OpType.OK:
            return f"client {row.process} was told the end offset {row.offset}{by}"
        case _, OpType.OK:
            return f"{row.f} of client {row.process} was answered{offset}{by}"
        case _, OpType.INVOKE:
            return f"client {row.process} asked for {row.f}{offset}"
        case _:
            return f"{row.f} of client {row.process} ended with {row.error or 'no answer'}{by}"


def _deed_in_words(row: ClusterEvent) -> str:
    """What a row says that somebody did."""
    name = row.node or "the harness"
    partition = "" if row.partition is None else f" of {row.topic}-{row.partition}"
    match row.kind:
        case K.NODE_STARTED:
            return f"{name} started"
        case K.NODE_STOPPED:
            return f"{name} {stopped(row)}"
        case K.REGISTERED:
            return f"{name} registered in ZooKeeper"
        case K.SESSION_ENDED:
            return f"ZooKeeper ended the session of {name}"
        case K.CONTROLLER_ELECTED:
            epoch = "" if row.controller_epoch is None else f" with controller epoch {row.controller_epoch}"
            return f"{name} became controller{epoch}"
        case K.STATE_WRITTEN:
            leader = row.leader or "none"
            isr = names(row.isr)
            return f"{name} wrote leader {leader}, leader epoch {number(row.leader_epoch)}, ISR {isr}{partition}"
        case K.ISR_CHANGE_SENT:
            return f"{name} asked for ISR {names(row.isr)}{partition}"
        case K.ISR_CHANGE_ENDED:
            return f"the ISR change of {name} ended ({row.detail}): it assumed ISR {names(row.isr)}"
        case K.BECAME_LEADER:
            return (
                f"{name} became leader{partition} in epoch {row.leader_epoch} with LEO {number(row.leo)} and HW {number(row.hw)}"
            )
        case K.BECAME_FOLLOWER:
            return f"{name} followed {row.leader or 'nobody'} in epoch {row.leader_epoch}"
        case K.RECOVERED:
            return f"{name} found LEO {number(row.leo)} and HW {number(row.hw)} on its disk"
        case K.APPEND:
            return f"{name} appended {row.value} at offset {row.offset} (leader epoch {row.leader_epoch})"
        case K.TRUNCATE:
            return f"{name} truncated its log to offset {row.offset} ({row.detail or 'no reason given'})"
        case K.HW:
            return f"{name} moved its HW to {row.hw} with LEO {number(row.leo)}"
        case K.WOUND:
            return f"{name} lost its log from offset {number(row.offset)} on ({row.detail})"
        case K.REPLICA_DELETED:
            return f"{name} deleted its replica{partition}"
        case K.DIR_FAILED:
            return f"log directory {row.dir} of {name} failed"
        case K.TOPIC_DELETED:
            return f"the removal{partition} was requested"
        case K.REASSIGNMENT_BEGUN | K.REASSIGNMENT_ENDED:
            done = "began" if row.kind is K.REASSIGNMENT_BEGUN else "ended"
            return f"the move{partition} {done} ({row.detail or 'no detail given'})"
        case K.CONTROLLER_RESIGNED:
            return f"{name} resigned as controller"
        case K.RESIGNED:
            return f"{name} resigned as replica{partition} in epoch {row.leader_epoch}"
        case K.FAULT_BEGUN:
            return f"fault {row.detail} began on {name}"
        case K.FENCED | K.UNFENCED:
            return f"{name} {'fenced itself' if row.kind is K.FENCED else 'accepted requests again'}"
        case K.RULE_BROKEN:
            return broken_rule(row)
        case K.COMMAND_UNANSWERED:
            return f"{row.broker} did not answer {row.detail} of controller {name}"
        case _:
            return f"{name}: {row.kind}{partition}{'' if row.detail is None else f' ({row.detail})'}"


def broken_rule(row: ClusterEvent) -> str:
    """Who broke which clause, and how: the rule's own name is left out."""
    rule, _, words = (row.detail or "").partition(": ")
    sentence, _, clauses = words.removesuffix(")").rpartition(" (")
    return (
        f"{row.node or 'a process'} broke {clauses}: {sentence}"
        if sentence
        else f"{row.node or 'a process'} broke a rule: {rule}"
    )


def stopped(row: ClusterEvent) -> str:
    """How a process stopped: "crashed", "lost power", "halted: why"."""
    detail = row.detail or ""
    return _STOPS.get(detail, f"halted: {detail.partition(':')[2]}" if detail.startswith("halt:") else "stopped")


def stops(rows: Sequence[ClusterEvent]) -> list[Clause]:
    """What stopped several brokers: brokers that stopped alike, one after the other, share a clause."""
    groups: list[list[ClusterEvent]] = []
    for row in rows:
        last = groups[-1] if groups else []
        near = bool(last) and row.time_ns - last[0].time_ns <= TOGETHER_NS
        if near and stopped(last[0]) == stopped(row) and row.node not in [stopped_row.node for stopped_row in last]:
            groups[-1].append(row)
        else:
            groups.append([row])
    return [_clause_of_stop(group) for group in groups]


def _clause_of_stop(group: Sequence[ClusterEvent]) -> Clause:
    """The stop of one broker, or of several at about the same time."""
    first, last = group[0], group[-1]
    same = seconds(first.time_ns) == seconds(last.time_ns)
    when = at(first) if same else f"at {seconds(first.time_ns).removesuffix(' s')} to {seconds(last.time_ns)}"
    brokers = listed([row.node or "?" for row in group])
    return Clause(f"{brokers} {stopped(first)} {when}", tuple(row.index for row in group))


def number(value: int | None) -> str:
    """A number of a row, or that the row does not tell it."""
    return "unknown" if value is None else str(value)
