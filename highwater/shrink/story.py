"""The story of a failure: what happens in the run, from the rows of its history up to the proof."""

from collections.abc import Iterator

from checkers.causes.signature import Signature
from history.event import ClusterEvent
from history.event import EventKind as K
from history.history import History

SENTENCES_MAX = 14
S = 1_000_000_000  # ns

# Rows that change what a log holds, who leads, or who runs; the others are left out first where there are too many.
_DECISIVE = (K.FAULT_BEGUN, K.STATE_WRITTEN, K.BECAME_LEADER, K.TRUNCATE, K.WOUND, K.UNCLEAN_ELECTION_ORDERED)
_TOLD = (
    *_DECISIVE,
    K.FAULT_ENDED,
    K.NODE_STARTED,
    K.SESSION_ENDED,
    K.CONTROLLER_ELECTED,
    K.RECOVERED,
    K.DIR_FAILED,
    K.REPLICA_DELETED,
    K.TOPIC_DELETED,
    K.REASSIGNMENT_BEGUN,
    K.REASSIGNMENT_ENDED,
)


def story(history: History, failure: Signature, *, zero_ns: int) -> tuple[str, ...]:
    """Tell a failure in a few sentences; seconds count from the start of the workload, at `zero_ns`."""
    last_ns = history.manifest.end_ns if failure.at_ns is None else failure.at_ns
    rows = _rows(history, failure.key)
    events = [event for event in rows if zero_ns <= event.time_ns <= last_ns]
    sentences = list(_sentences(events, zero_ns))
    if len(sentences) > SENTENCES_MAX:
        sentences = list(_sentences([event for event in events if event.kind in _DECISIVE], zero_ns))
    left_out = max(0, len(sentences) - SENTENCES_MAX)
    head = [*_start(rows, failure.key, zero_ns), *([f"The next {left_out} steps are left out."] if left_out else [])]
    moment = "At the end" if failure.at_ns is None else f"At {(failure.at_ns - zero_ns) / S:.3f} s"
    where = f" of {failure.key}" if failure.key and failure.key not in failure.words else ""
    return (*head, *sentences[left_out:], f"{moment} it is proven{where}: {failure.words}.")


def _rows(history: History, key: str) -> list[ClusterEvent]:
    """The rows to tell: of nodes, and of the partition of the failure (of all partitions where it has none)."""
    telling_rows = [event for event in history.events if event.kind in _TOLD]
    partitions = {f"{event.topic}-{event.partition}" for event in telling_rows if event.partition is not None}
    return [
        event
        for event in telling_rows
        if event.partition is None or key not in partitions or f"{event.topic}-{event.partition}" == key
    ]


def _start(rows: list[ClusterEvent], key: str, zero_ns: int) -> list[str]:
    """Who leads the partition of the failure when the workload begins."""
    written = [
        row for row in rows if row.kind is K.STATE_WRITTEN and row.time_ns < zero_ns and f"{row.topic}-{row.partition}" == key
    ]
    return [f"{last.leader or 'Nobody'} leads {key} at first, with ISR {','.join(last.isr or ())}." for last in written[-1:]]


def _sentences(events: list[ClusterEvent], zero_ns: int) -> Iterator[str]:
    """One sentence for each moment; what several brokers do at one moment is said once."""
    moments: dict[tuple[int, str], list[str]] = {}
    for event in events:
        words = _words(event)
        if words:
            moments.setdefault((event.time_ns // 1_000_000, words), []).append(event.node or "")
    for (at_ms, words), nodes in moments.items():
        names = ", ".join(dict.fromkeys(node for node in nodes if node))
        yield f"At {at_ms / 1000 - zero_ns / S:.3f} s {words.format(who=names)}."


def _words(event: ClusterEvent) -> str:
    """What a row says, with {who} for the broker; empty if it says nothing new."""
    partition = f"{event.topic}-{event.partition}"
    match event.kind:
        case K.FAULT_BEGUN:
            return f"{event.detail} begins on {{who}}" if event.partition is None else ""
        case K.FAULT_ENDED:
            return f"{event.detail} ends on {{who}}" if event.partition is None else ""
        case K.NODE_STARTED:
            return "{who} starts again" if (event.life or 1) > 1 else ""
        case K.SESSION_ENDED:
            return "ZooKeeper ends the session of {who}"
        case K.CONTROLLER_ELECTED:
            return "{who} becomes controller"
        case K.STATE_WRITTEN:
            isr = ",".join(event.isr or ()) or "empty"
            return f"{{who}} writes leader {event.leader or 'none'}, epoch {event.leader_epoch}, ISR {isr} of {partition}"
        case K.BECAME_LEADER:
            return f"{{who}} leads epoch {event.leader_epoch} of {partition} with LEO {event.leo} and HW {event.hw}"
        case K.RECOVERED:
            return f"{{who}} finds LEO {event.leo} and HW {event.hw} of {partition} on its disk"
        case K.TRUNCATE:
            return f"{{who}} truncates {partition} at offset {event.offset}, {event.detail}"
        case K.WOUND:
            return f"{{who}} loses {partition} from offset {event.offset} on ({event.detail})" if event.topic else ""
        case K.DIR_FAILED:
            return f"{{who}} reports log directory {event.dir} as failed"
        case K.REPLICA_DELETED:
            return f"{{who}} deletes its replica of {partition}"
        case K.TOPIC_DELETED:
            return f"the removal of {partition} is requested"
        case K.REASSIGNMENT_BEGUN | K.REASSIGNMENT_ENDED:
            done = "begins" if event.kind is K.REASSIGNMENT_BEGUN else "ends"
            return f"the move of {partition} {done} ({event.detail})"
        case K.UNCLEAN_ELECTION_ORDERED:
            return f"an operator orders the election of {event.leader} for {partition}"
        case _:
            return ""
