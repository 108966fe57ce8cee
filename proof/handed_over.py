"""The definition of what an asynchronous producer owes (R-130), and random histories of one, its senders and its log."""

from typing import Any

from history.op import Operation, OpType
from history.seed import Rng
from proof.log_rows import Call, Case, Operations, calls


def background(operations: Operations, events: object) -> set[str]:
    """Definition of R-130 for asynchronous producers: a record is acknowledged or in the log, and not both."""
    kinds: set[str] = set()
    handed = {row.value for call in calls(operations, "send") if call.ok for row in call.asked}
    for value in sorted({row.value or "" for row in operations}):
        produced, logged = (_of_value(operations, f, value) for f in ("produce", "log"))
        acked = any(call.ok for call in produced)
        may_be_acked = acked or any(not call.answer for call in produced)
        is_logged = any(call.ok for call in logged)
        may_be_logged = is_logged or any(not call.failed for call in logged)
        if value in handed and not may_be_acked and not may_be_logged:
            kinds.add("unlogged-loss")
        if acked and is_logged:
            kinds.add("false-log")
    return kinds


def _of_value(operations: Operations, f: str, value: str) -> list[Call]:
    return [call for call in calls(operations, f) if any(row.value == value for row in call.asked)]


def drawn_handed_over(rng: Rng) -> Case:
    """Return a random history of an asynchronous producer of one partition, its senders, and its log."""
    rows: list[Operation] = []
    acks = {f"v{number}": rng.pick((-1, -1, 1, 0)) for number in range(1 + rng.below(4))}
    ended = rng.below(8) > 0
    about = {"topic": "t", "partition": 0}

    def write(process: int, type_: OpType, f: str, values: list[str], **columns: Any) -> None:
        index = rows[-1].index + 1 if rows else 0
        for slot, value in enumerate(values):
            sent = {"acks": acks[value]} if f != "log" else {}
            row = {"index": index, "slot": slot, "process": process, "type": type_, "f": f, "value": value, **about, **sent}
            rows.append(Operation(time_ns=index, **row, **columns))  # type: ignore[arg-type]

    waiting = list(acks)
    sender = 1
    if rng.below(2):
        for value in waiting:
            write(0, OpType.INVOKE, "send", [value])
            write(0, OpType.OK, "send", [value])
    else:
        write(0, OpType.INVOKE, "send", waiting)
        if rng.below(8):
            write(0, rng.pick((OpType.OK, OpType.OK, OpType.OK, OpType.INFO, OpType.FAIL)), "send", waiting)
    while waiting:
        batch = [value for value in waiting if acks[value] == acks[waiting[0]]][: 1 + rng.below(2)]
        waiting = [value for value in waiting if value not in batch]
        if rng.below(10) == 0:
            continue  # it is forgotten
        sender += 1
        outcome = rng.pick((OpType.OK, OpType.OK, OpType.OK, OpType.INFO, OpType.FAIL, OpType.FAIL, None))
        write(sender, OpType.INVOKE, "produce", batch)
        if outcome is not None:
            write(sender, outcome, "produce", batch)
        if outcome is OpType.OK:
            logged = rng.below(12) == 0
        else:
            logged = outcome is not None and (ended or rng.below(2) == 0) and rng.below(10) > 0
        for value in batch if logged else []:
            writer = sender if outcome is not OpType.INFO else 100 + sender
            write(writer, OpType.INVOKE, "log", [value])
            how = rng.pick((OpType.OK, OpType.OK, OpType.OK, OpType.OK, OpType.OK, OpType.INFO, OpType.FAIL, None))
            if how is not None:
                write(writer, how, "log", [value])
            if how in (OpType.INFO, None):
                break
    return Case(rows, [])
