"""Convert highwater's own histories to the form of foreign ones, so that models of other objects can judge them.

Rows of `produce` and `poll` become calls of a partition log, or steps in the shape of Jepsen's queue workload. For any other
function the value is JSON, as `history.op` says, and the topic, if any, is the key. The line of a step is the index of its rows.
Operations of administrators and queries for the end of a log are left out: no model knows them.
"""

import json
from collections.abc import Hashable, Iterator, Sequence

from history.errors import HistoryError
from history.foreign.jsonlines import frozen
from history.foreign.pairing import Paired, pair
from history.foreign.step import UNKNOWN, Call, Pairs, Step
from history.history import History, by_index
from history.op import ADMIN_REQUESTS, Operation, OpType

_RECORDS = ("produce", "poll")
# What administrators do, and what is asked about a log or a group. An `f` that is not listed is a call of another system.
_LEFT_OUT = frozenset({"latest", "earliest", "commit", "committed", *ADMIN_REQUESTS, "admin-pending"})
LEFT_OUT = "operations of administrators and queries for the end of a log are left out"

_Rows = tuple[Operation, ...]


def steps(history: History) -> Iterator[Step]:
    """Yield a highwater history as if Jepsen had recorded it, with JSON values. Produces and polls keep their rows as values."""
    for index, rows in by_index(history.operations):
        first = rows[0]
        if first.f not in _LEFT_OUT:
            value = rows if first.f in _RECORDS else _value(first)
            key = None if first.f in _RECORDS else first.topic
            yield Step(index, first.process, first.type, first.f, value, key, first.time_ns, index)


def _value(row: Operation) -> Hashable:
    if row.value is None:
        return None
    try:
        return frozen(json.loads(row.value))
    except (ValueError, RecursionError) as error:
        raise HistoryError(f"row {row.index}: the value of {row.f} is not JSON: {row.value[:40]!r}") from error


def holds_records(history: History) -> bool:
    """True if the history has produces or polls, False if it has only other operations."""
    return any(operation.f in _RECORDS for operation in history.operations)


def calls(history: History) -> Paired:
    """Turn the history of one partition into calls on a log object: a sent record is an append, a polled record a read.

    A poll that returned nothing is left out: it proves nothing, because records are returned only once they are committed.
    """
    paired = pair(steps(history))
    if not holds_records(history):
        return paired
    keys = _Keys(history)
    return Paired(
        calls=_of_records(paired.calls, keys), failed=_of_records(paired.failed, keys), steps=paired.steps, unsure=paired.unsure
    )


class _Keys:
    """Numbers partitions as Jepsen's keys. Refuses a topic that was deleted and created again: rows may lack its id."""

    def __init__(self, history: History) -> None:
        ids: dict[str | None, set[str]] = {}
        for row in history.operations:
            if row.topic_id is not None:
                ids.setdefault(row.topic, set()).add(row.topic_id)
        again = sorted(str(topic) for topic, known in ids.items() if len(known) > 1)
        if again:
            raise HistoryError(f"topic {again[0]} was deleted and created again: only the model log tells the two apart")

    def of(self, row: Operation) -> str:
        return f"{row.topic}-{row.partition}"


def _of_records(calls: Sequence[Call], keys: _Keys) -> tuple[Call, ...]:
    found: list[Call] = []
    for whole in calls:
        asked: _Rows = whole.argument  # type: ignore[assignment]  # `steps` put them there
        told: _Rows = () if whole.result is UNKNOWN else whole.result  # type: ignore[assignment]
        if whole.f == "produce":
            for slot, row in enumerate(asked):
                offset = told[slot].offset if slot < len(told) else UNKNOWN
                found.append(_call(whole, len(found), row, keys, f="append", argument=row.value, result=offset))
            continue
        for row in told:
            if row.offset is not None and row.value is not None:
                found.append(_call(whole, len(found), row, keys, f="read", argument=row.offset, result=row.value))
    return tuple(found)


def _call(whole: Call, index: int, row: Operation, keys: _Keys, *, f: str, argument: Hashable, result: Hashable) -> Call:
    return Call(
        index=index, line=whole.line, process=whole.process, f=f, key=keys.of(row), argument=argument, result=result,
        start=whole.start, end=whole.end,
    )  # fmt: skip


# --- as Jepsen's queues -------------------------------------------------------------------------------------------------


def queue_steps(history: History) -> Iterator[Step]:
    """Sends and polls in the shape of Jepsen's workload for Kafka-like queues.

    A consumer of that workload continues at its position, while ours states the offset of each poll. Where the two differ, an
    `assign` of nothing and an `assign` of the partition precede the poll. Keys are numbers of partitions in the order of their
    names.
    """
    keys = _Keys(history)
    numbers = {name: number for number, name in enumerate(sorted({keys.of(r) for r in history.operations if r.f in _RECORDS}))}
    position: dict[int, tuple[int, int | None]] = {}  # process -> key, and the next offset
    asked: dict[int, _Rows] = {}
    pair(steps(history))  # raises for an inconsistent history
    for step in steps(history):
        rows: _Rows = step.value  # type: ignore[assignment]  # `steps` put them there
        if step.f not in _RECORDS:
            raise HistoryError(f"row {step.line}: {step.f} is neither a produce nor a poll")
        process, key = rows[0].process, numbers[keys.of(rows[0])]
        if step.type is OpType.INVOKE:
            asked[process] = rows
            if step.f == "poll" and position.get(process) != (key, rows[0].offset):
                yield from _assigned(step, key)
        elif step.f == "poll" and step.type is OpType.OK:
            read = [row.offset for row in rows if row.offset is not None]
            start = asked[process][0].offset
            position[process] = (key, read[-1] + 1 if read else start)
        value = _sent(step, rows, asked[process], key) if step.f == "produce" else _polled(step, rows, key)
        yield _step(step, "send" if step.f == "produce" else "poll", value)


def key_names(history: History) -> list[str]:
    """The partitions that the integer keys of `queue_steps` stand for: key k is the k-th name."""
    keys = _Keys(history)
    return sorted({keys.of(row) for row in history.operations if row.f in _RECORDS})


def _assigned(step: Step, key: int) -> Iterator[Step]:
    for value in ((), (key,)):
        for kind in (OpType.INVOKE, OpType.OK):
            yield Step(step.line, step.process, kind, "assign", value, None, step.time)


def _sent(step: Step, rows: _Rows, asked: _Rows, key: int) -> Hashable:
    if step.type is not OpType.OK:
        return tuple(("send", key, row.value) for row in asked)
    offsets = [row.offset for row in rows] + [None] * len(asked)
    return tuple(("send", key, (offset, row.value)) for row, offset in zip(asked, offsets, strict=False))


def _polled(step: Step, rows: _Rows, key: int) -> Hashable:
    if step.type is not OpType.OK:
        return (("poll",),)
    read = tuple((row.offset, row.value) for row in rows if row.offset is not None and row.value is not None)
    return (("poll", Pairs(((key, read),) if read else ())),)


def _step(step: Step, f: str, value: Hashable) -> Step:
    return Step(step.line, step.process, step.type, f, value, None, step.time)
