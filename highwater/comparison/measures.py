"""What is measured of a run: one declaration for each measure, with a function from the run to its figure.

A figure is None where the run has no sample: nothing was moved, no leader died. Times are milliseconds of the cluster's clock.
"""

from collections.abc import Callable, Iterable, Iterator
from statistics import median

from msgspec import Struct

from highwater.comparison.coordination import Coordination
from history.event import ClusterEvent, EventKind
from history.history import History
from history.op import OpType
from reports.calls import quantile

_NS_PER_MS = 1_000_000
_NS_PER_S = 1_000_000_000
_SHUTDOWN = "shutdown"  # the kind of fault
_ACKS_ALL = -1
Key = tuple[str | None, int | None]  # topic and partition


class Performed(Struct, frozen=True, kw_only=True):
    """A run as the measures take it: its history, and what it asked of ZooKeeper."""

    history: History
    coordination: Coordination


class Measure(Struct, frozen=True):
    """A name with its unit at the end, what it says, and the figure of a run."""

    name: str
    words: str
    of: Callable[[Performed], float | None]


def _median_ms(times_ns: Iterable[int]) -> float | None:
    times = list(times_ns)
    return median(times) / _NS_PER_MS if times else None


def _p99_ms(times_ns: Iterable[int]) -> float | None:
    """The 99th percentile, by nearest rank."""
    times = sorted(times_ns)
    return quantile(times, 990) / _NS_PER_MS if times else None


def _longest_ms(times_ns: Iterable[int]) -> float | None:
    times = list(times_ns)
    return max(times) / _NS_PER_MS if times else None


def _key(event: ClusterEvent) -> Key:
    return event.topic, event.partition


def _produces(performed: Performed) -> Iterator[tuple[int, list[int]]]:
    """Each acknowledged produce with acks=all: when it was invoked, and when each of its records was acknowledged, in ns."""
    for attempt in performed.history.attempts:
        invoked_row = attempt.invoke[0]
        answered = attempt.completion
        if invoked_row.f == "produce" and invoked_row.acks == _ACKS_ALL and answered and answered[0].type is OpType.OK:
            yield invoked_row.time_ns, [row.time_ns for row in answered]


def _produces_ns(performed: Performed) -> Iterator[int]:
    """From the invocation to the acknowledgement of each produce with acks=all."""
    return (acked[0] - invoked for invoked, acked in _produces(performed))


def _acknowledged(performed: Performed) -> Iterator[tuple[int, int]]:
    """Each record acknowledged under acks=all: when its produce was invoked, and when it was acknowledged, in ns."""
    return ((invoked, at) for invoked, acked in _produces(performed) for at in acked)


def _shutdowns_ns(performed: Performed) -> list[int]:
    """When controlled shutdowns began: a fault's own row, because a broker without heartbeats tells nobody."""
    begun = EventKind.FAULT_BEGUN
    return [e.time_ns for e in performed.history.events if e.kind is begun and e.partition is None and e.detail == _SHUTDOWN]


def _after_shutdowns(performed: Performed, *, side: int) -> list[tuple[int, int]]:
    """The acknowledged records that were asked for (side 0) or acknowledged (1) in the second after a shutdown began."""
    begins = _shutdowns_ns(performed)
    return [times for times in _acknowledged(performed) if any(begin <= times[side] < begin + _NS_PER_S for begin in begins)]


def _acked_after_shutdowns(performed: Performed) -> int | None:
    return len(_after_shutdowns(performed, side=1)) if _shutdowns_ns(performed) else None


def _produces_after_shutdowns_ns(performed: Performed) -> Iterator[int]:
    return (acked - invoked for invoked, acked in _after_shutdowns(performed, side=0))


def _isr_changes_ns(performed: Performed) -> Iterator[int]:
    """From the moment when a leader asks for another ISR to the one when it knows what came of it (V3 §G, KIP-343)."""
    sent: dict[tuple[Key, str | None], int] = {}
    for event in performed.history.events:
        whose = (_key(event), event.node)
        if event.kind is EventKind.ISR_CHANGE_SENT:
            sent.setdefault(whose, event.time_ns)
        elif event.kind is EventKind.ISR_CHANGE_ENDED and whose in sent:
            yield event.time_ns - sent.pop(whose)


def _leaderless_ns(performed: Performed) -> Iterator[int]:
    """From the end of a leader's process to the next leader of its partition; partitions that get none have no sample."""
    leaders: dict[Key, str | None] = {}
    died: dict[Key, int] = {}
    for event in performed.history.events:
        if event.kind is EventKind.NODE_STOPPED:
            for key in [key for key, leader in leaders.items() if leader == event.node]:
                died[key] = event.time_ns
                del leaders[key]
        elif event.kind is EventKind.BECAME_LEADER:
            key = _key(event)
            leaders[key] = event.node
            if key in died:
                yield event.time_ns - died.pop(key)


def _unready_ns(performed: Performed) -> Iterator[int]:
    """V3, Discussion 6: from the write that names another leader to the moment when that broker leads."""
    named: dict[Key, tuple[str | None, int]] = {}
    for event in performed.history.events:
        key = _key(event)
        if event.kind is EventKind.STATE_WRITTEN and (key not in named or named[key][0] != event.leader):
            named[key] = event.leader, event.time_ns
        elif event.kind is EventKind.BECAME_LEADER and key in named and named[key][0] == event.node and named[key][1] >= 0:
            yield event.time_ns - named[key][1]
            named[key] = event.node, -1  # a later epoch of the same leader is no sample


def _refused_by_the_named(performed: Performed) -> int:
    """V3, Discussion 6: requests that a broker refused as no leader while ZooKeeper named it: it was not ready."""
    refusals = [
        row[0]
        for attempt in performed.history.attempts
        if (row := attempt.completion) and row[0].error == "NOT_LEADER_OR_FOLLOWER" and row[0].node is not None
    ]
    rows = [(row.time_ns, 1, row.node, (row.topic, row.partition)) for row in refusals]
    for event in performed.history.events:
        if event.kind is EventKind.STATE_WRITTEN:
            rows.append((event.time_ns, 0, event.leader, _key(event)))
    named: dict[Key, str | None] = {}
    count = 0
    for _, is_refusal, node, key in sorted(rows, key=lambda row: row[:2]):
        if is_refusal:
            count += named.get(key) == node
        else:
            named[key] = node
    return count


def _moves_ns(performed: Performed, way: str) -> Iterator[int]:
    """From the beginning of each move that goes this way to its end."""
    begun: dict[Key, int] = {}
    for event in performed.history.events:
        if event.kind not in (EventKind.REASSIGNMENT_BEGUN, EventKind.REASSIGNMENT_ENDED):
            continue
        key, goes = _key(event), (event.detail or "").partition(" ")[0].rstrip(":,")
        if event.kind is EventKind.REASSIGNMENT_ENDED:
            if key in begun and goes == way:
                yield event.time_ns - begun[key]
            begun.pop(key, None)
        elif goes == way:
            begun.setdefault(key, event.time_ns)  # a controller that takes over begins it again
        else:
            begun.pop(key, None)


def _wanted_ns(performed: Performed) -> Iterator[int]:
    """From an administrator's last request for a partition's replicas to the end of the move there; none if no move led there."""
    asked: dict[Key, tuple[int, str]] = {}
    for attempt in performed.history.attempts:
        invoked_row = attempt.invoke[0]
        if attempt.completion and attempt.completion[0].type is OpType.FAIL:
            continue  # a request that was refused asks for nothing
        if invoked_row.f in ("reassign", "reassign-extra", "reassign-request"):
            name, _, replicas = (invoked_row.value or "").partition(" on ")
            topic, _, index = name.rpartition("-")
            asked[topic, int(index)] = invoked_row.time_ns, f"forward to {replicas}"
    for event in performed.history.events:
        since_ns, words = asked.get(_key(event), (0, ""))
        if event.kind is EventKind.REASSIGNMENT_ENDED and event.detail == words and event.time_ns >= since_ns:
            del asked[_key(event)]
            yield event.time_ns - since_ns


def _copied_in_vain(performed: Performed) -> int | None:
    """Records that followers copied into replicas which were deleted; None if no replica was."""
    copied: dict[tuple[Key, str | None], int] = {}
    lost, deleted = 0, 0
    for event in performed.history.events:
        whose = (_key(event), event.node)
        if event.kind is EventKind.APPEND and event.detail == "follower":
            copied[whose] = copied.get(whose, 0) + 1
        elif event.kind is EventKind.REPLICA_DELETED:
            lost += copied.pop(whose, 0)
            deleted += 1
    return lost if deleted else None


def _count(performed: Performed, kind: EventKind) -> int:
    return sum(event.kind is kind for event in performed.history.events)


MEASURES = (
    Measure("produce_median_ms", "a produce with acks=all until its answer, median", lambda run: _median_ms(_produces_ns(run))),
    Measure("produce_p99_ms", "the same, 99th percentile", lambda run: _p99_ms(_produces_ns(run))),
    Measure("acknowledged", "records acknowledged under acks=all", lambda run: sum(1 for _ in _acknowledged(run))),
    Measure(
        "shutdown_acknowledged", "records acknowledged in the second after controlled shutdowns began", _acked_after_shutdowns
    ),
    Measure(
        "shutdown_p99_ms",
        "a produce asked for in that second until its answer, 99th percentile",
        lambda run: _p99_ms(_produces_after_shutdowns_ns(run)),
    ),
    Measure("shutdown_most_ms", "the same, the longest", lambda run: _longest_ms(_produces_after_shutdowns_ns(run))),
    Measure("leaderless_median_ms", "a dead leader until the next one, median", lambda run: _median_ms(_leaderless_ns(run))),
    Measure("leaderless_most_ms", "the same, the longest", lambda run: _longest_ms(_leaderless_ns(run))),
    Measure(
        "unready_median_ms", "ZooKeeper names another leader until it leads, median", lambda run: _median_ms(_unready_ns(run))
    ),
    Measure("unready_most_ms", "the same, the longest", lambda run: _longest_ms(_unready_ns(run))),
    Measure("refused_unready", "requests refused by the leader that ZooKeeper names: it was not ready", _refused_by_the_named),
    Measure(
        "isr_change_median_ms",
        "an ISR change until its outcome, median",
        lambda run: _median_ms(_isr_changes_ns(run)),
    ),
    Measure("isr_change_p99_ms", "the same, 99th percentile", lambda run: _p99_ms(_isr_changes_ns(run))),
    Measure("move_median_ms", "a move of a partition until its end, median", lambda run: _median_ms(_moves_ns(run, "forward"))),
    Measure("cancel_median_ms", "a cancelled move until it is undone, median", lambda run: _median_ms(_moves_ns(run, "back"))),
    Measure(
        "wanted_median_ms",
        "the last request for a partition's replicas until they are assigned, median",
        lambda run: _median_ms(_wanted_ns(run)),
    ),
    Measure("copied_in_vain", "records in replicas that were deleted", _copied_in_vain),
    Measure("states_written", "partition states written to ZooKeeper", lambda run: _count(run, EventKind.STATE_WRITTEN)),
    Measure("zookeeper_writes", "transactions of ZooKeeper", lambda run: run.coordination.transactions),
    Measure("admin_znodes_most", "znodes below /admin, the most at a time", lambda run: run.coordination.admin_znodes),
    Measure("admin_znode_bytes", "the largest znode below /admin, in bytes", lambda run: run.coordination.admin_bytes),
    Measure("watches_most", "watches in ZooKeeper, the most at a time", lambda run: run.coordination.watches),
    Measure("messages", "messages between processes", lambda run: sum(count.count for count in run.history.manifest.messages)),
)
