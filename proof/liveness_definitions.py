"""Definitions of liveness (docs/promise.md §6), computed from all rows for each moment at which it is required."""

from collections.abc import Iterator

from history.event import ClusterEvent
from history.event import EventKind as K
from history.op import OpType
from proof.durability import counted_on, is_whole
from proof.log_rows import Case, Events, calls, log_at

BOUND_NS = 16_000_000_000  # B of the promise of all random histories
PATIENCE_NS = 500_000_000  # its request timeout
_ROLES = (K.BECAME_LEADER, K.BECAME_FOLLOWER, K.RESIGNED, K.NODE_STOPPED)


def progress(case: Case) -> set[str]:
    """Definition of progress: if no fault is active for longer than B, some write sent after B is acknowledged."""
    found: set[str] = set()
    starts = [row for row in case.events if row.kind is K.FAULT_BEGUN]
    for ended in (row for row in case.events if row.kind is K.FAULT_ENDED):
        in_force = {
            one.fault
            for one in starts
            if one.index < ended.index
            and not any(
                row.kind is K.FAULT_ENDED and row.fault == one.fault and one.index < row.index <= ended.index
                for row in case.events
            )
        }
        # The window that ended had begun, and was the last one in force.
        began = [one.index for one in starts if one.fault == ended.fault and one.index < ended.index]
        over = [r.index for r in case.events if r.kind is K.FAULT_ENDED and r.fault == ended.fault and r.index < ended.index]
        following = [row.time_ns for row in starts if row.index > ended.index]
        if in_force or max(began, default=-1) <= max(over, default=-1) or not following:
            continue
        last = min(following[0], case.healed_at_ns or 0)
        tried = [
            call
            for call in calls(case.operations, "produce")
            if call.asked[0].acks == -1 and call.answer
            and ended.time_ns + BOUND_NS <= call.asked[0].time_ns and call.answer[0].time_ns < last
        ]  # fmt: skip
        if last > ended.time_ns + BOUND_NS and tried and not any(call.answer[0].type is OpType.OK for call in tried):
            found.add(f"silent between {tried[0].asked[0].index} and {tried[-1].answer[0].index}")
    return found


def availability(case: Case) -> set[str]:
    """Definition of LIVE-2 and LIVE-3 of one partition, B after the faults and at the end, unless SILENT-2 applies."""
    deadline = (case.healed_at_ns or 0) + BOUND_NS
    in_time = [row for row in case.events if row.time_ns <= deadline]
    found: set[str] = set()
    if len(in_time) < len(case.events) and not _is_emptied(case, in_time):
        found |= {f"{what} in time" for what in _lacks(in_time)}
    if _is_emptied(case, case.events):
        return found
    found |= {f"{what} at the end" for what in _lacks(case.events)} | set(_logs(case.events))
    produced = calls(case.operations, "produce")
    late = [one for one in produced if one.asked[0].acks == -1 and one.asked[0].time_ns >= deadline]
    found |= {"no-ack"} if late and not any(one.ok for one in late) else set()
    for call in (*produced, *calls(case.operations, "poll"), *calls(case.operations, "latest")):
        found |= (
            {f"hung {call.asked[0].index}"} if not call.answer and call.asked[0].time_ns + PATIENCE_NS < case.end_ns else set()
        )
    return found | _unread(case)


def _states(rows: Events) -> list[ClusterEvent]:
    return [row for row in rows if row.kind is K.STATE_WRITTEN]


def _lacks(rows: Events) -> Iterator[str]:
    """What a partition lacks of: a leader, a full ISR, and replicas that all act in the leader epoch of ZooKeeper."""
    state = _states(rows)[-1]
    if state.leader is None:
        yield "offline"
        return
    for node in _assigned(rows):
        if node not in (state.isr or ()):
            yield f"outside {node}"
        roles = [row for row in rows if row.node == node and row.kind in _ROLES]
        if not roles or roles[-1].kind in (K.RESIGNED, K.NODE_STOPPED) or roles[-1].leader_epoch != state.leader_epoch:
            yield f"deaf {node}"


def _assigned(rows: Events) -> tuple[str, ...]:
    return ([("b1", "b2", "b3")] + [row.replicas or () for row in rows if row.kind is K.ASSIGNED])[-1]


def _logs(rows: Events) -> Iterator[str]:
    """LIVE-2: the logs of all replicas are equal, and committed to their end."""
    leader = _states(rows)[-1].leader
    if leader is None:
        return
    last = rows[-1].index
    ours = log_at(rows, leader, last)
    yield from (f"differs {node}" for node in _assigned(rows) if log_at(rows, node, last) != ours)
    marks = [
        row.hw
        for at, row in enumerate(rows)
        if row.kind is K.HW and row.detail == "leader" and _states(rows[:at]) and _states(rows[:at])[-1].leader == row.node
    ]
    if ours and (not marks or marks[-1] != len(ours)):
        yield "uncommitted"


def _is_emptied(case: Case, rows: Events) -> bool:
    # Whether the partition is offline and every counted-on replica was emptied and has not rejoined.
    counted = counted_on(rows, rows[-1].index, case.m)
    swapped = [row for row in rows if row.kind is K.WOUND and row.detail == "swapped"]
    emptied = {one.node for one in swapped if not any(is_whole(rows, one, row) for row in rows)}
    return _states(rows)[-1].leader is None and bool(counted) and counted <= emptied


def _unread(case: Case) -> set[str]:
    """LIVE-3: final readers missed an offset that was acknowledged or read before they began."""
    final = case.final_reads_at_ns
    if final is None:
        return set()
    polls = [call for call in calls(case.operations, "poll") if call.ok]
    acked = [call for call in calls(case.operations, "produce") if call.ok and call.asked[0].acks == -1]
    owed = {row.offset for call in (*acked, *polls) for row in call.answer if row.time_ns <= final and row.value is not None}
    given = {row.offset for call in polls if call.asked[0].time_ns >= final for row in call.answer if row.value is not None}
    return {"unread"} if owed - given else set()
