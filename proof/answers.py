"""The definition of what a leader may answer to a produce, and random histories of producers, some of which break a rule."""

from history.op import Operation, OpType
from history.seed import Rng
from proof.log_rows import Call, Case, Events, Operations, calls

_OF_SEQUENCES = {"OUT_OF_ORDER_SEQUENCE_NUMBER", "DUPLICATE_SEQUENCE_NUMBER", "INVALID_PRODUCER_EPOCH"}
_OF_REQUESTS = {"INVALID_REQUEST", "INVALID_REQUIRED_ACKS"}
_OF_REPLICAS = {"NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"}
_ERRORS = (*sorted(_OF_SEQUENCES | _OF_REQUESTS | _OF_REPLICAS), "UNKNOWN_PRODUCER_ID", "NOT_LEADER_OR_FOLLOWER")


def answers(operations: Operations, events: Events) -> set[str]:
    """Definition of `answers`: which produces got an answer that a leader may not give."""
    produced = calls(operations, "produce")
    return {kind for call in produced if (kind := _wrong(call, produced)) is not None}


def _wrong(call: Call, produced: list[Call]) -> str | None:
    asked = call.asked[0]
    given = None if not call.answer or call.ok else call.answer[0].error
    if asked.error is None:
        if given in _OF_REQUESTS or (asked.acks != -1 and given in _OF_REPLICAS):
            return "wrong-error"
        known = asked.delivery != "once" or _acknowledged_before(call, produced) > 0
        return "wrong-error" if given in _OF_SEQUENCES | {"UNKNOWN_PRODUCER_ID"} and known else None
    needed = 8 if asked.error == "DUPLICATE_SEQUENCE_NUMBER" else 1
    if asked.delivery == "once" and _acknowledged_before(call, produced) < needed:
        return None
    if call.ok:
        return "misuse-acknowledged"
    return "wrong-error" if given in (_OF_SEQUENCES | _OF_REQUESTS) - {asked.error} else None


def _acknowledged_before(call: Call, produced: list[Call]) -> int:
    """How many produces of the process were acknowledged under acks=all, the last ones before this call without a gap."""
    asked = call.asked[0]
    earlier = [one for one in produced if one.asked[0].process == asked.process and one.asked[0].index < asked.index]
    count = 0
    for one in reversed(earlier):
        first = one.asked[0]
        if not one.ok or first.delivery != "once" or first.acks != -1 or first.error is not None:
            break
        count += 1
    return count


def drawn_answers(rng: Rng) -> Case:
    """Return a random history of two producers that often write well for a while, then wrongly."""
    rows: list[Operation] = []

    def call(process: int, *, good: bool) -> None:
        about: dict[str, object] = {"process": process, "f": "produce", "topic": "t", "partition": 0, "value": f"v{len(rows)}"}
        about["acks"] = -1 if good or rng.below(2) else 1
        about["delivery"] = "once" if good or rng.below(4) else None
        deserved = None if good or rng.below(3) == 0 else rng.pick(_ERRORS[:6])
        index = len(rows)
        rows.append(Operation(index=index, type=OpType.INVOKE, time_ns=index, error=deserved, **about))  # type: ignore[arg-type]
        if good or rng.below(5) == 0:
            told = {**about, "offset": index}
            rows.append(Operation(index=index + 1, type=OpType.OK, time_ns=index + 1, **told))  # type: ignore[arg-type]
            return
        type_, error = rng.pick((OpType.FAIL, OpType.INFO)), deserved if rng.below(3) == 0 else rng.pick((None, *_ERRORS))
        rows.append(Operation(index=index + 1, type=type_, time_ns=index + 1, error=error, **about))  # type: ignore[arg-type]

    for _ in range(1 + rng.below(4)):
        process = rng.below(2)
        for _ in range(rng.pick((0, 0, 1, 7, 8))):
            call(process, good=True)
        call(process, good=False)
    return Case(rows, [])
