"""The definition of what a leader may answer, and random histories of producers, some of which break a rule, and readers."""

from history.event import ClusterEvent
from history.event import EventKind as K
from history.op import Operation, OpType
from history.seed import Rng
from proof.log_rows import Call, Case, Events, calls

_OF_SEQUENCES = {"OUT_OF_ORDER_SEQUENCE_NUMBER", "DUPLICATE_SEQUENCE_NUMBER", "INVALID_PRODUCER_EPOCH"}
_OF_REQUESTS = {"INVALID_REQUEST", "INVALID_REQUIRED_ACKS"}
_OF_OFFSETS = {"OFFSET_NOT_AVAILABLE", "OFFSET_OUT_OF_RANGE"}
_OF_REPLICAS = {"NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"}
_ROLES = {K.BECAME_LEADER, K.BECAME_FOLLOWER, K.RESIGNED, K.NODE_STOPPED}
_ERRORS = (*sorted(_OF_SEQUENCES | _OF_REQUESTS | _OF_REPLICAS), "UNKNOWN_PRODUCER_ID", "NOT_LEADER_OR_FOLLOWER")


def answers(case: Case) -> set[str]:
    """Definition of `answers`: which produces and requests for the first offset got an answer that a leader may not give."""
    produced = calls(case.operations, "produce")
    kinds = {kind for call in produced if (kind := _wrong_kind(call, produced)) is not None}
    denied = case.simulated and any(_is_denied(call, case.events) for call in produced)
    firsts = calls(case.operations, "earliest")
    unsaid = any(call.answer and not call.ok and call.answer[0].error in _OF_OFFSETS for call in firsts)
    return kinds | {"wrong-error"} if denied or unsaid else kinds


def _is_denied(call: Call, events: Events) -> bool:
    """Whether a leader said that it appended nothing, though it surely had appended the batch of an earlier attempt by then."""
    request = call.asked[0]
    if not call.answer or call.ok or call.answer[0].error != "NOT_ENOUGH_REPLICAS":
        return False
    if (request.delivery, request.acks, request.error) != ("once", -1, None):
        return False
    node = call.answer[0].node
    values = {row.value for row in call.asked}
    during = [row for row in events if request.index < row.index < call.answer[0].index]
    own = [row for row in during if row.node == node]
    appends = [row.index for row in own if row.kind is K.APPEND and row.detail == "leader" and row.value in values]
    if not appends or any(row.kind in _ROLES for row in own):
        return False
    before = [row for row in during if row.index < min(appends)]
    asks = any(row.kind in (K.ISR_CHANGE_SENT, K.ISR_CHANGE_ENDED) and row.node == node for row in before)
    return not asks and not any(row.kind is K.STATE_WRITTEN for row in before)


def _wrong_kind(call: Call, produced: list[Call]) -> str | None:
    """The kind of a wrong answer to a produce, None if it may be given."""
    request = call.asked[0]
    error = None if not call.answer or call.ok else call.answer[0].error
    if request.error is None:
        if error in _OF_REQUESTS or (request.acks != -1 and error in _OF_REPLICAS):
            return "wrong-error"
        is_known = request.delivery != "once" or _acknowledged_before(call, produced) > 0
        return "wrong-error" if error in _OF_SEQUENCES | {"UNKNOWN_PRODUCER_ID"} and is_known else None
    needed = 8 if request.error == "DUPLICATE_SEQUENCE_NUMBER" else 1
    is_known = request.error != "UNKNOWN_PRODUCER_ID"
    if request.delivery == "once" and is_known and _acknowledged_before(call, produced) < needed:
        return None
    if call.ok:
        return "misuse-acknowledged"
    return "wrong-error" if error in (_OF_SEQUENCES | _OF_REQUESTS) - {request.error} else None


def _acknowledged_before(call: Call, produced: list[Call]) -> int:
    """How many produces of the process were acknowledged under acks=all, the last ones before this call without a gap."""
    request = call.asked[0]
    earlier = [
        produce for produce in produced if produce.asked[0].process == request.process and produce.asked[0].index < request.index
    ]
    count = 0
    for produce in reversed(earlier):
        first = produce.asked[0]
        if not produce.ok or first.delivery != "once" or first.acks != -1 or first.error is not None:
            break
        count += 1
    return count


def drawn_answers(rng: Rng) -> Case:
    """Return a random history of two producers that often write well for a while, then wrongly, or in two attempts.

    In one of four, a consumer asks for an offset and is refused or not.
    """
    rows: list[Operation] = []
    events: list[ClusterEvent] = []

    def about_next(process: int) -> dict[str, object]:
        return {"process": process, "f": "produce", "topic": "t", "partition": 0, "value": f"v{len(rows)}"}

    def write_call(type_: OpType, **columns: object) -> None:
        index = len(rows) + len(events)
        rows.append(Operation(index=index, type=type_, time_ns=index, **columns))  # type: ignore[arg-type]

    def call(process: int, *, good: bool) -> None:
        about = about_next(process)
        about["acks"] = -1 if good or rng.below(2) else 1
        about["delivery"] = "once" if good or rng.below(4) else None
        deserved = None if good or rng.below(3) == 0 else rng.pick(_ERRORS[:-1])
        write_call(OpType.INVOKE, error=deserved, **about)
        if good or rng.below(5) == 0:
            write_call(OpType.OK, offset=len(rows), **about)
            return
        type_ = rng.pick((OpType.FAIL, OpType.INFO))
        error = deserved if rng.below(3) == 0 else rng.pick((None, *_ERRORS))
        write_call(type_, error=error, **about)

    def retried(process: int) -> None:
        about = {**about_next(process), "acks": -1 if rng.below(6) else 1, "delivery": "once" if rng.below(6) else None}
        write_call(OpType.INVOKE, error=None, **about)
        for _ in range(rng.below(4)):
            value = about["value"] if rng.below(4) else "another"
            events.append(_drawn_event(rng, len(rows) + len(events), str(value)))
        error = rng.pick(("NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"))
        write_call(OpType.INFO, error=error, node="b1", **about)

    def write_invocation() -> None:
        about = {"process": 2, "f": rng.pick(("earliest", "latest")), "topic": "t", "partition": 0}
        write_call(OpType.INVOKE, **about)
        error = rng.pick((None, *sorted(_OF_OFFSETS), "NOT_LEADER_OR_FOLLOWER"))
        write_call(OpType.OK if error is None else OpType.INFO, error=error, offset=0 if error is None else None, **about)

    if rng.below(4) == 0:
        write_invocation()
    for _ in range(1 + rng.below(4)):
        process = rng.below(2)
        for _ in range(rng.pick((0, 0, 1, 7, 8))):
            call(process, good=True)
        if rng.below(3):
            call(process, good=False)
        else:
            retried(process)
    return Case(rows, events, simulated=True)


def _drawn_event(rng: Rng, index: int, value: str) -> ClusterEvent:
    """An event of the partition, mostly an append of the leader."""
    kind = rng.pick((K.APPEND, K.APPEND, K.APPEND, K.BECAME_FOLLOWER, K.STATE_WRITTEN, K.ISR_CHANGE_SENT, K.ISR_CHANGE_ENDED))
    node = rng.pick(("b1", "b1", "b1", "b2"))
    isr = ("b1",)
    where = {
        "index": index,
        "kind": kind,
        "time_ns": index,
        "node": node,
        "life": 1,
        "topic": "t",
        "partition": 0,
        "leader_epoch": 1,
    }
    if kind is K.APPEND:
        detail = "leader" if rng.below(4) else "follower"
        return ClusterEvent(**where, offset=index, value=value, detail=detail)  # type: ignore[arg-type]
    return ClusterEvent(**where, leader="b1", isr=isr, zk_version=1, controller_epoch=1)  # type: ignore[arg-type]
