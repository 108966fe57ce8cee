"""Definitions of liveness (docs/promise.md §6), computed from all rows for each moment at which it is required."""

from collections.abc import Iterator
from itertools import pairwise

from history.event import ClusterEvent
from history.event import EventKind as K
from history.op import OpType
from proof.durability import counted_on, is_whole
from proof.log_rows import Call, Case, Events, calls, log_at

REPLACEMENT_NS = 5_000_000_000  # the promised time in which a broker that alone is cut off is replaced
SUCCESSION_NS = 2_000_000_000  # two session timeouts, in which the successor of a controller that was cut off is elected
WRITTEN_NS = 2_500_000_000  # from then on: 2 replica.lag.time.max and a request timeout, until writes go on
_ALONE = ("isolate-one", "cut-peers-long", "crash-leader")  # those kinds of LIVE-6 that the random histories draw
BOUND_NS = 16_000_000_000  # B of the promise of all random histories
PROMPT_NS = 1_000_000_000  # within which each request is answered (LIVE-8)
PATIENCE_NS = 500_000_000  # its request timeout
_ROLES = (K.BECAME_LEADER, K.BECAME_FOLLOWER, K.RESIGNED, K.NODE_STOPPED)


def progress(case: Case) -> set[str]:
    """Definition of progress: if no fault is active for longer than B, some write sent after B is acknowledged."""
    complaints: set[str] = set()
    starts = [row for row in case.events if row.kind is K.FAULT_BEGUN]
    for ended in (row for row in case.events if row.kind is K.FAULT_ENDED):
        in_force = {
            event.fault
            for event in starts
            if event.index < ended.index
            and not any(
                row.kind is K.FAULT_ENDED and row.fault == event.fault and event.index < row.index <= ended.index
                for row in case.events
            )
        }
        # The window that ended had begun, and was the last one in force.
        began = [event.index for event in starts if event.fault == ended.fault and event.index < ended.index]
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
            complaints.add(f"silent between {tried[0].asked[0].index} and {tried[-1].answer[0].index}")
    return complaints


def replacement(case: Case) -> set[str]:
    """Definition of LIVE-6 and LIVE-7, for each moment at which the promised time of a period has passed."""
    complaints: set[str] = set()
    for begun, ended in pairwise([row for row in case.events if row.kind in (K.FAULT_BEGUN, K.FAULT_ENDED)]):
        lone = _faults_in_force(case.events, begun)
        if len(lone) != 1 or lone[0].detail not in _ALONE:
            continue
        node = lone[0].node
        replaced_ns = _replaced_ns(case.events, begun, lone[0])
        past = [row for row in case.events if row.time_ns < replaced_ns]
        leader = [row.leader for row in _states(past)][-1:]
        if replaced_ns < ended.time_ns and leader in ([None], [node]) and _others_that_could_lead(past, node, begun):
            complaints.add("unreplaced")
        written_ns = replaced_ns + WRITTEN_NS
        past = [row for row in case.events if row.time_ns < written_ns]
        others = _others_that_could_lead(past, node, begun)
        if len(others) < case.m or _states(past)[-1].leader not in others:
            continue
        tried = [
            call
            for call in calls(case.operations, "produce")
            if call.asked[0].acks == -1 and written_ns <= call.asked[0].time_ns
            and call.answer and call.answer[0].time_ns < ended.time_ns
        ]  # fmt: skip
        if len(tried) >= 3 and not any(call.ok for call in tried):
            complaints.add("unwritten")
    return complaints


def _replaced_ns(events: Events, begun: ClusterEvent, fault: ClusterEvent) -> int:
    """When the promised time of a period has passed; it counts anew from each election that it does not cover."""
    elected = [row for row in events if row.kind is K.CONTROLLER_ELECTED]
    before = [row.node for row in elected if row.index < begun.index]
    later = [row.time_ns for row in elected if row.index > begun.index]
    deposed_by_nothing = before[-1:] == [fault.node] and "cut-peers" in str(fault.detail)
    due_ns = begun.time_ns + REPLACEMENT_NS
    covered = not deposed_by_nothing and bool(later) and later[0] <= begun.time_ns + SUCCESSION_NS
    for time_ns in later[covered:]:
        if time_ns <= due_ns:
            due_ns = time_ns + REPLACEMENT_NS
    return due_ns


def _others_that_could_lead(past: Events, node: str | None, begun: ClusterEvent) -> list[str]:
    """The members of the ISR that could lead in place of this broker; none without a controller elsewhere."""
    states = _states(past)
    controllers = [row for row in past if row.kind is K.CONTROLLER_ELECTED]
    if not states or not controllers or controllers[-1].node == node:
        return []
    if _has_ended(past, controllers[-1].node, controllers[-1].index):
        return []
    members = dict(zip(states[-1].isr or (), states[-1].stamps or (), strict=True))
    return [member for member, stamp in members.items() if member != node and _could_lead(past, member, stamp, begun)]


def _faults_in_force(events: Events, last: ClusterEvent) -> list[ClusterEvent]:
    """The faults that began until this row and did not end."""
    rows_before = [row for row in events if row.index <= last.index]
    return [
        row
        for row in rows_before
        if row.kind is K.FAULT_BEGUN
        and not any(
            event.kind is K.FAULT_ENDED and (event.fault, event.node) == (row.fault, row.node) and event.index > row.index
            for event in rows_before
        )
    ]


def _could_lead(past: Events, node: str, stamp: int, begun: ClusterEvent) -> bool:
    """Whether the broker was registered as this state names it, before the fault, and no directory of it had failed."""
    registrations = [row for row in past if row.kind is K.REGISTERED and row.node == node]
    if not registrations or registrations[-1].incarnation != stamp or registrations[-1].time_ns >= begun.time_ns:
        return False
    failed = any(row.kind is K.DIR_FAILED and row.node == node and row.index > registrations[-1].index for row in past)
    return not failed and not _has_ended(past, node, registrations[-1].index)


def _has_ended(past: Events, node: str | None, since: int) -> bool:
    """Whether the session under which the node was registered last has ended after this row."""
    registered = [row for row in past if row.kind is K.REGISTERED and row.node == node]
    return any(
        row.kind is K.SESSION_ENDED
        and row.node == node
        and row.index > since
        and [earlier_row.incarnation for earlier_row in registered if earlier_row.index < row.index][-1:] == [row.incarnation]
        for row in past
    )


def availability(case: Case) -> set[str]:
    """Definition of LIVE-2 and LIVE-3 of one partition, B after the faults and at the end, unless SILENT-2 applies."""
    deadline = (case.healed_at_ns or 0) + BOUND_NS
    in_time = [row for row in case.events if row.time_ns <= deadline]
    complaints: set[str] = set()
    if len(in_time) < len(case.events) and not _is_emptied(case, in_time):
        complaints |= {f"{what} in time" for what in _lacks_of_partition(in_time)}
    produced = calls(case.operations, "produce")
    if _is_emptied(case, case.events):
        every = (*produced, *calls(case.operations, "poll"), *calls(case.operations, "latest"))
        late_calls = [call for call in every if call.answer and call.asked[0].time_ns >= deadline]
        served = any(call.ok for call in late_calls)
        no_leader = "LEADER_NOT_AVAILABLE" in {call.answer[0].error for call in late_calls}
        return complaints | ({"untold"} if late_calls and not served and not no_leader else set())
    complaints |= {f"{what} at the end" for what in _lacks_of_partition(case.events)} | set(_complaints_of_logs(case.events))
    complaints |= _kinds_unserved(case, deadline)
    end_answers = [call.answer[0] for call in calls(case.operations, "latest") if call.ok]
    complaints |= {f"endless {row.index}" for row in end_answers if row.offset is None}
    for call in (*produced, *calls(case.operations, "poll"), *calls(case.operations, "latest")):
        request = call.asked[0]
        if call.answer and request.time_ns >= deadline and call.answer[0].time_ns - request.time_ns > PROMPT_NS:
            complaints.add(f"slow {request.index}")
        complaints |= (
            {f"hung {call.asked[0].index}"} if not call.answer and call.asked[0].time_ns + PATIENCE_NS < case.end_ns else set()
        )
    return complaints | _unread_offsets(case)


def _kinds_unserved(case: Case, deadline: int) -> set[str]:
    """LIVE-2 and LIVE-5: the kinds of requests that were sent after the deadline, and of which none was carried out."""
    complaints = set()
    late_calls = [
        call for f in ("produce", "poll", "latest") for call in calls(case.operations, f) if call.asked[0].time_ns >= deadline
    ]
    for kind in ("produce -1", "produce 1", "poll None", "latest None"):
        calls_of_kind = [call for call in late_calls if f"{call.asked[0].f} {call.asked[0].acks}" == kind]
        calls_of_kind = [call for call in calls_of_kind if kind != "produce 1" or _knows_the_leader(case, late_calls, call)]
        complaints |= {f"no-answer {kind}"} if calls_of_kind and not any(call.ok for call in calls_of_kind) else set()
    for call in late_calls:
        operation = call.asked[0]
        refused = bool(call.answer) and not call.ok and call.answer[0].error not in (None, "REQUEST_TIMED_OUT")
        if operation.f == "produce" and operation.acks in (-1, 1) and refused and _knows_the_leader(case, late_calls, call):
            complaints.add(f"refused {operation.index}")
    silent = [
        call
        for call in late_calls
        if call.asked[0].f == "produce" and call.asked[0].acks == 0 and _knows_the_leader(case, late_calls, call)
    ]
    unanswered = {row.value for call in silent for row in call.asked}
    leader = _states(case.events)[-1].leader
    log = {} if leader is None else log_at(case.events, leader, case.events[-1].index)
    return complaints | ({"not-in-log"} if unanswered and not unanswered & set(log.values()) else set())


def _knows_the_leader(case: Case, late_calls: list[Call], call: Call) -> bool:
    """Its process's last produce under acks=all succeeded, and no state was written from a request timeout before it until the
    request has timed out.
    """
    request = call.asked[0]
    earlier = [
        call_there.asked[0]
        for call_there in late_calls
        if call_there.asked[0].process == request.process and call_there.asked[0].index < request.index
    ]
    last = max((row.index for row in earlier if row.f == "produce" and row.acks == -1), default=None)
    return any(
        call_there.ok
        and not any(
            call_there.asked[0].time_ns - PATIENCE_NS <= row.time_ns <= request.time_ns + PATIENCE_NS
            for row in _states(case.events)
        )
        for call_there in late_calls
        if call_there.asked[0].index == last
    )


def _states(rows: Events) -> list[ClusterEvent]:
    return [row for row in rows if row.kind is K.STATE_WRITTEN]


def _lacks_of_partition(rows: Events) -> Iterator[str]:
    """What a partition lacks of: a leader, a full ISR, and replicas that all act in the leader epoch of ZooKeeper."""
    state = _states(rows)[-1]
    if state.leader is None:
        yield "offline"
        return
    for node in _assigned_replicas(rows):
        if node not in (state.isr or ()):
            yield f"outside {node}"
        roles = [row for row in rows if row.node == node and row.kind in _ROLES]
        if not roles or roles[-1].kind in (K.RESIGNED, K.NODE_STOPPED) or roles[-1].leader_epoch != state.leader_epoch:
            yield f"deaf {node}"


def _assigned_replicas(rows: Events) -> tuple[str, ...]:
    return ([("b1", "b2", "b3")] + [row.replicas or () for row in rows if row.kind is K.ASSIGNED])[-1]


def _complaints_of_logs(rows: Events) -> Iterator[str]:
    """LIVE-2: the logs of all replicas are equal, and committed to their end."""
    leader = _states(rows)[-1].leader
    if leader is None:
        return
    last = rows[-1].index
    leader_log = log_at(rows, leader, last)
    yield from (f"differs {node}" for node in _assigned_replicas(rows) if log_at(rows, node, last) != leader_log)
    marks = [
        row.hw
        for at, row in enumerate(rows)
        if row.kind is K.HW and row.detail == "leader" and _states(rows[:at]) and _states(rows[:at])[-1].leader == row.node
    ]
    if leader_log and (not marks or marks[-1] != len(leader_log)):
        yield "uncommitted"


def _is_emptied(case: Case, rows: Events) -> bool:
    """Whether the partition is offline and every counted-on replica was emptied and has not rejoined."""
    counted = counted_on(rows, rows[-1].index, case.m)
    swapped = [row for row in rows if row.kind is K.WOUND and row.detail == "swapped"]
    emptied = {event.node for event in swapped if not any(is_whole(rows, event, row) for row in rows)}
    return _states(rows)[-1].leader is None and bool(counted) and counted <= emptied


def _unread_offsets(case: Case) -> set[str]:
    """LIVE-3: final readers missed an offset that was acknowledged or read before they began."""
    final = case.final_reads_at_ns
    if final is None:
        return set()
    polls = [call for call in calls(case.operations, "poll") if call.ok]
    acked = [call for call in calls(case.operations, "produce") if call.ok and call.asked[0].acks == -1]
    owed = {row.offset for call in (*acked, *polls) for row in call.answer if row.time_ns <= final and row.value is not None}
    offsets_read = {
        row.offset for call in polls if call.asked[0].time_ns >= final for row in call.answer if row.value is not None
    }
    return {"unread"} if owed - offsets_read else set()
