"""Convert highwater's own histories to the form of foreign ones, so that models of other objects can judge them.

Rows of `produce` and `poll` become calls of a partition log, or steps in the shape of Jepsen's queue workload. For any other
function the value is JSON, as `history.op` says, and the topic, if any, is the key. The line of a step is the index of its rows.
Operations of administrators and queries for the end of a log are left out: no model knows them.
"""

import json
from collections.abc import Hashable, Iterable, Iterator, Sequence

from msgspec.structs import replace

from history.errors import HistoryError
from history.foreign.jsonlines import frozen
from history.foreign.pairing import Paired, pair
from history.foreign.step import UNKNOWN, Call, Pairs, Step
from history.history import History, by_index
from history.op import ADMIN_REQUESTS, Operation, OpType

_RECORDS = ("produce", "poll")
_ACKS_ALL = -1
_DELETIONS = ("delete-topic", "remove-partition")
# What administrators do, and what is asked about a log or a group. An `f` that is not listed is a call of another system.
_LEFT_OUT = frozenset({"latest", "earliest", "send", "log", "commit", "committed", *ADMIN_REQUESTS, "admin-pending"})
LEFT_OUT = "operations of administrators and queries for the end of a log are left out"

_Rows = tuple[Operation, ...]


def steps(history: History) -> Iterator[Step]:
    """Yield a highwater history as if Jepsen had recorded it, with JSON values. Produces and polls keep their rows as values."""
    return _steps_of_rows(history, ends=False)


def _steps_of_rows(history: History, *, ends: bool) -> Iterator[Step]:
    """The rows of each invocation and completion as one step. `ends`: also final readers' questions for the end of a log."""
    final = history.manifest.final_reads_at_ns if ends else None
    for index, rows in by_index(history.operations):
        first = rows[0]
        if first.f not in _LEFT_OUT or (first.f == "latest" and final is not None and first.time_ns >= final):
            is_of_log = first.f in _RECORDS or first.f == "latest"
            value = rows if is_of_log else _decoded_value(first)
            key = None if is_of_log else first.topic
            yield Step(index, first.process, first.type, first.f, value, key, first.time_ns, index)


def _decoded_value(row: Operation) -> Hashable:
    """The value of an operation, which is JSON in a column of text."""
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
    """Turn the history of a run into calls on log objects: a sent record is an append, a polled record a read.

    A poll that returned nothing is left out: it proves nothing, because records are returned only once they are committed. What
    a log does not promise, it is not held to (docs/promise.md ORD-3, DUR-3): a record that was not sent with acks=all may be
    lost, and a producer that is not idempotent may write a record once for each time that it sent it. A log's end is a call, too,
    where the final readers asked for it: before, a new leader may not know yet how far its log is committed.
    """
    if not holds_records(history):
        return pair(steps(history))
    sent, paired = _SentRecords(history), pair(_steps_of_rows(history, ends=True))
    return Paired(
        calls=_calls_on_logs(paired.calls, sent),
        failed=_calls_on_logs(paired.failed, sent),
        steps=paired.steps,
        unsure=paired.unsure,
    )


class _SentRecords:
    """What the rows of a run tell about its records: which topic of a name they went to, and how often they were sent."""

    def __init__(self, history: History) -> None:
        self._ids: dict[str | None, dict[str, int]] = {}  # topic -> its ids, numbered from 1
        self._read: dict[tuple[str | None, int | None, str | None], dict[str | None, set[int]]] = {}  # ids and offsets of a value
        for row in history.operations:
            if row.topic_id is not None:
                known = self._ids.setdefault(row.topic, {})
                known.setdefault(row.topic_id, len(known) + 1)
            if row.f == "poll" and row.type is OpType.OK and row.offset is not None:
                offsets = self._read.setdefault((row.topic, row.partition, row.value), {})
                offsets.setdefault(row.topic_id, set()).add(row.offset)
        gone = (row.value for row in history.operations if row.f in _DELETIONS and row.type is OpType.INVOKE)
        self._deletions_asked = frozenset(gone)  # topics, and partitions of topics, that an administrator asked to delete
        self._completion_of = {attempt.invoke[0].index: attempt.completion for attempt in history.attempts}

    def log_key(self, line: int, invoked_row: Operation) -> str:
        """The name of the log that an invocation used: topic-partition, and /2, /3 … if the topic was created again."""
        answer = self._completion_of.get(line, ())
        by_answer = answer[0].topic_id if answer else None
        read = (
            self._read.get((invoked_row.topic, invoked_row.partition, invoked_row.value), {})
            if invoked_row.f == "produce"
            else {}
        )
        # A produce of unknown outcome may have reached a topic that its client did not know yet: it is where it was read.
        topic_key = next(iter(read)) if read and not (answer and answer[0].type is OpType.OK) else by_answer
        number = self._ids.get(invoked_row.topic, {}).get(topic_key or "", 1)
        return f"{invoked_row.topic}-{invoked_row.partition}" + (f"/{number}" if number > 1 else "")

    def is_kept(self, row: Operation) -> bool:
        """Whether a record that was acknowledged is promised to stay: sent with acks=all, to a log that nobody deletes."""
        return row.acks == _ACKS_ALL and not {row.topic, f"{row.topic}-{row.partition}"} & self._deletions_asked

    def extra_copies_max(self, line: int, invoked_row: Operation) -> int:
        """How many copies beside the first a record may have in its log, because its producer may have sent it again."""
        if invoked_row.delivery is not None:
            return 0
        answer = self._completion_of.get(line, ())
        if answer and answer[0].attempts is not None:
            return max(answer[0].attempts - 1, 0)
        read = self._read.get((invoked_row.topic, invoked_row.partition, invoked_row.value), {})
        return max((len(offsets) for offsets in read.values()), default=1) - 1


def _calls_on_logs(calls: Sequence[Call], sent: _SentRecords) -> tuple[Call, ...]:
    """One call per record: appends, reads and ends of logs; a batch of unknown outcome may have been appended more than once."""
    record_calls: list[Call] = []
    for whole in calls:
        sent_rows: _Rows = whole.argument  # type: ignore[assignment]  # `steps` put them there
        answered_rows: _Rows = () if whole.result is UNKNOWN else whole.result  # type: ignore[assignment]
        key = sent.log_key(whole.line, sent_rows[0])
        if whole.f == "produce":
            for slot, row in enumerate(sent_rows):
                if row.value is None:
                    continue  # a request without records
                certain = slot < len(answered_rows) and sent.is_kept(row)
                append = _call_on_log(whole, len(record_calls), key, f="append", argument=row.value, result=UNKNOWN, end=None)
                record_calls.append(replace(append, result=answered_rows[slot].offset, end=whole.end) if certain else append)
                record_calls += [
                    replace(append, index=len(record_calls) + n) for n in range(sent.extra_copies_max(whole.line, row))
                ]
            continue
        for row in answered_rows:
            if whole.f == "latest":
                if row.offset is not None:
                    record_calls.append(
                        _call_on_log(whole, len(record_calls), key, f="end", argument=None, result=row.offset, end=whole.end)
                    )
            elif row.offset is not None and row.value is not None:
                record_calls.append(
                    _call_on_log(whole, len(record_calls), key, f="read", argument=row.offset, result=row.value, end=whole.end)
                )
    return tuple(record_calls)


def _call_on_log(whole: Call, index: int, key: str, *, f: str, argument: Hashable, result: Hashable, end: int | None) -> Call:
    return Call(
        index=index, line=whole.line, process=whole.process, f=f, key=key, argument=argument, result=result,
        start=whole.start, end=end,
    )  # fmt: skip


# --- as Jepsen's queues -------------------------------------------------------------------------------------------------


def queue_steps(history: History) -> Iterator[Step]:
    """Sends and polls in the shape of Jepsen's workload for Kafka-like queues.

    A consumer of that workload continues at its position, while ours states the offset of each poll. Where the two differ, an
    `assign` of nothing and an `assign` of the partition precede the poll. Keys are numbers of partitions in the order of their
    names.
    """
    sent = _SentRecords(history)
    paired = pair(steps(history))
    key_of = {call.line: sent.log_key(call.line, call.argument[0]) for call in (*paired.calls, *paired.failed)}  # type: ignore[index]
    numbers = {name: number for number, name in enumerate(_sorted_names(key_of.values()))}
    position: dict[int, tuple[int, int | None]] = {}  # process -> key, and the next offset
    invocations: dict[int, _Rows] = {}
    another = 1 + max(row.process for row in history.operations)  # a process that sends a record again
    for step in steps(history):
        rows: _Rows = step.value  # type: ignore[assignment]  # `steps` put them there
        if step.f not in _RECORDS:
            raise HistoryError(f"row {step.line}: {step.f} is neither a produce nor a poll")
        process = rows[0].process
        if step.type is OpType.INVOKE:
            invocations[process] = rows
        line = invocations[process][0].index
        key = numbers[key_of[line]]
        if step.type is OpType.INVOKE:
            if step.f == "poll" and position.get(process) != (key, rows[0].offset):
                yield from _assign_steps(step, key)
        elif step.f == "poll" and step.type is OpType.OK:
            read = [row.offset for row in rows if row.offset is not None]
            start = invocations[process][0].offset
            position[process] = (key, read[-1] + 1 if read else start)
        if step.f == "poll":
            yield _step_with(step, "poll", _value_of_poll(step, rows, key))
            continue
        if step.type is OpType.OK and not sent.is_kept(invocations[process][0]):
            step = replace(step, type=OpType.INFO)  # nobody promised to keep the record
        yield _step_with(step, "send", _value_of_send(step, rows, invocations[process], key))
        if step.type is not OpType.INVOKE and step.type is not OpType.FAIL:
            for _ in range(max(sent.extra_copies_max(line, row) for row in invocations[process])):
                for kind in (OpType.INVOKE, OpType.INFO):
                    again = replace(step, process=another, type=kind)
                    yield _step_with(again, "send", _value_of_send(again, (), invocations[process], key))
                another += 1


def key_names(history: History) -> list[str]:
    """The logs that the integer keys of `queue_steps` stand for: key k is the k-th name."""
    sent = _SentRecords(history)
    paired = pair(steps(history))
    return _sorted_names(sent.log_key(call.line, call.argument[0]) for call in (*paired.calls, *paired.failed))  # type: ignore[index]


def _sorted_names(keys: Iterable[str]) -> list[str]:
    return sorted(set(keys))


def _assign_steps(step: Step, key: int) -> Iterator[Step]:
    # An assignment of nothing and one of this key: so the consumer gives up its position.
    for value in ((), (key,)):
        for kind in (OpType.INVOKE, OpType.OK):
            yield Step(step.line, step.process, kind, "assign", value, None, step.time)


def _value_of_send(step: Step, rows: _Rows, invoked: _Rows, key: int) -> Hashable:
    """The records of a produce as Jepsen's sends: ("send", key, value), and (offset, value) once they are acknowledged."""
    if step.type is not OpType.OK:
        return tuple(("send", key, row.value) for row in invoked)
    offsets = [row.offset for row in rows] + [None] * len(invoked)
    return tuple(("send", key, (offset, row.value)) for row, offset in zip(invoked, offsets, strict=False))


def _value_of_poll(step: Step, rows: _Rows, key: int) -> Hashable:
    """The records of a poll as Jepsen's: ("poll", {key: ((offset, value), …)}) once they are answered."""
    if step.type is not OpType.OK:
        return (("poll",),)
    read = tuple((row.offset, row.value) for row in rows if row.offset is not None and row.value is not None)
    return (("poll", Pairs(((key, read),) if read else ())),)


def _step_with(step: Step, f: str, value: Hashable) -> Step:
    return Step(step.line, step.process, step.type, f, value, None, step.time)
