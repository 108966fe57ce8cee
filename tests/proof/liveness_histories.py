"""Drawn histories of faults, healing and what comes of it."""

from history.event import ClusterEvent
from history.event import EventKind as K
from history.op import Operation, OpType
from history.seed import Rng
from tests.proof.log_rows import Case

SECOND = 1_000_000_000
HEALED_NS = 150 * SECOND


def drawn_progress(rng: Rng) -> Case:
    """Windows of two faults, with calms between them, and a client that writes all the time and is answered or not."""
    events: list[ClusterEvent] = []
    operations: list[Operation] = []
    index, now, mute = 0, 0, rng.below(3) == 0
    in_force: set[str] = set()
    while now < 170 and index < 90:
        now += 1 + rng.below(9)
        if rng.below(4) == 0:
            fault = f"f{rng.below(2)}"
            begins = fault not in in_force if rng.below(12) else rng.below(2) == 0
            (in_force.add if begins else in_force.discard)(fault)
            kind = K.FAULT_BEGUN if begins else K.FAULT_ENDED
            events.append(ClusterEvent(index=index, kind=kind, time_ns=now * SECOND, fault=fault, detail="crash"))
            index += 1
            mute = rng.below(2) == 0
            continue
        acks = -1 if rng.below(5) else 1
        about = {"process": 1, "f": "produce", "topic": "t", "partition": 0, "value": f"v{index}", "acks": acks}
        later = now + rng.below(4)
        answer = rng.pick((OpType.INFO, OpType.FAIL)) if mute or rng.below(4) == 0 else OpType.OK
        told = {**about, "offset": index} if answer is OpType.OK else about
        operations.append(Operation(index=index, type=OpType.INVOKE, time_ns=now * SECOND, **about))  # type: ignore[arg-type]
        operations.append(Operation(index=index + 1, type=answer, time_ns=later * SECOND, **told))  # type: ignore[arg-type]
        index, now = index + 2, later
    return Case(operations, events, healed_at_ns=HEALED_NS)
