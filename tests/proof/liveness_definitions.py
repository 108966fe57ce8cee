"""What is not live, by docs/promise.md §6: over all rows, asked anew for each moment at which it must be."""

from history.event import EventKind as K
from history.op import OpType
from tests.proof.log_rows import Case, calls

BOUND_NS = 16_000_000_000  # B of the promise that all drawn histories are told under


def progress(case: Case) -> set[str]:
    """Where no fault is in force for longer than B, between faults, some write that is asked for after B is acknowledged."""
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
        # The window that ended was one that had begun, and is the last of those in force.
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
