"""The definition of records that outlive their topic, as clients and disks show it (DUR-8), and random histories."""

from history.event import ClusterEvent
from history.event import EventKind as K
from history.op import Operation, OpType
from history.seed import Rng
from proof.log_rows import Call, Case, calls

_READERS = 5  # the number of the process that reads
_TOPICS = ("1", "2", "3")


def deleted_records(case: Case) -> set[str]:
    """Definition: no value that was certainly appended once, to a topic that was deleted, is at the end in the newest one."""
    made = {topic: min(rows) for topic in _TOPICS if (rows := _rows(case, topic, K.ASSIGNED))}
    deleted = {topic: min(rows) for topic in _TOPICS if (rows := _rows(case, topic, K.TOPIC_DELETED))}
    if len(made) < 2:
        return set()
    newest = max(made, key=lambda topic: made[topic])
    if newest in deleted:
        return set()
    seen = {row.value for row in case.events if row.kind is K.RECORD_ON_DISK}
    for call in calls(case.operations, "poll"):
        if call.ok and call.asked[0].time_ns >= (case.final_reads_at_ns or 0):
            seen |= {row.value for row in call.answer}
    sends = calls(case.operations, "produce")
    for value in seen - {None}:
        of_value = [call for call in sends if call.asked[0].value == value]
        if len(of_value) != 1:
            continue
        before = [topic for topic in made if made[topic] < of_value[0].asked[0].index]
        owner = max(before, key=lambda topic: made[topic], default="")
        if owner == newest or not _ended_before(of_value[0], deleted.get(owner, -1)):
            continue
        if all(_ended_before(of_value[0], made[topic]) for topic in made if made[topic] > made[owner]):
            return {"other-topic"}
    return set()


def _rows(case: Case, topic: str, kind: K) -> list[int]:
    return [row.index for row in case.events if row.topic_id == topic and row.kind is kind]


def _ended_before(call: Call, row: int) -> bool:
    """Whether the produce was acknowledged before this row, and was sent once."""
    asked = call.asked[0]
    certain = call.ok and asked.acks != 0 and asked.delivery is None and call.answer[0].attempts == 1
    return certain and call.answer[0].index < row


def drawn_deleted_records(rng: Rng) -> Case:
    """Return a random history of up to three topics of one name in turn, of writes to them, and of reads and disks at the end."""
    operations: list[Operation] = []
    events: list[ClusterEvent] = []
    about = {"topic": "t", "partition": 0}
    index = 0

    def event(kind: K, **columns: object) -> None:
        nonlocal index
        events.append(ClusterEvent(index=index, kind=kind, time_ns=index, **about, **columns))  # type: ignore[arg-type]
        index += 1

    def operation(type_: OpType, f: str, process: int, **columns: object) -> None:
        nonlocal index
        row = {**about, "type": type_, "f": f, "process": process, **columns}
        operations.append(Operation(index=index, time_ns=index, **row))  # type: ignore[arg-type]
        index += 1

    for topic in _TOPICS[: 1 + rng.below(3)]:
        event(K.ASSIGNED, topic_id=topic, replicas=("b1",))
        for _ in range(rng.below(3)):
            sent = {"value": f"v{rng.below(4)}", "acks": rng.pick((-1, -1, 1, 0)), "delivery": rng.pick((None, None, "once"))}
            operation(OpType.INVOKE, "produce", int(topic), **sent)
            if rng.below(4) == 0:
                event(K.TOPIC_DELETED, topic_id=topic)
            answer = rng.pick((OpType.OK, OpType.OK, OpType.INFO))
            operation(answer, "produce", int(topic), offset=0, attempts=rng.pick((1, 1, 2)), **sent)
        if rng.below(3):
            event(K.TOPIC_DELETED, topic_id=topic)
    final_reads_at_ns = index - rng.below(2)
    if rng.below(2):
        operation(OpType.INVOKE, "poll", _READERS, offset=0)
        operation(rng.pick((OpType.OK, OpType.OK, OpType.FAIL)), "poll", _READERS, offset=0, value=f"v{rng.below(4)}")
    if rng.below(2):
        event(K.RECORD_ON_DISK, node="b1", dir=0, offset=0, leader_epoch=0, value=f"v{rng.below(4)}")
    return Case(operations, events, final_reads_at_ns=final_reads_at_ns, end_ns=index)
