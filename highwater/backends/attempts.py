"""One workload process on any backend: its invocations become calls and rows, its answers completions and rows."""

from typing import assert_never

from highwater.topics import written
from history.op import OpType
from history.recorder import OperationColumns, Record, Recorder
from reference.client.calls import Answered, Call, EarliestCall, LatestCall, PollCall, ProduceCall
from reference.errors import ErrorCode
from reference.types import Offset, topic_partition
from workloads.client import Completion, Invocation, PolledRecord, Process
from workloads.completion import completion_type, number_after


class Attempts:
    """The bookkeeping of one process; `processes` is how many there are."""

    __slots__ = ("_processes", "_recorder", "calls", "number", "open", "process")

    def __init__(self, recorder: Recorder, process: Process, number: int, *, processes: int) -> None:
        self._recorder = recorder
        self._processes = processes
        self.process = process
        self.number = number  # Jepsen's: retired by an unknown outcome
        self.calls = 0
        self.open: Invocation | None = None

    def begin(self, invocation: Invocation) -> Call:
        """Record an invocation; the call that makes the attempt."""
        assert self.open is None
        self.open = invocation
        self.calls += 1
        if invocation.f == "produce":
            records = tuple(Record(value=value) for value in invocation.values)
        else:
            records = (Record(offset=invocation.offset),) if invocation.f == "poll" else ()
        self._record(OpType.INVOKE, invocation, records, _of_produce(invocation))
        tp = topic_partition(invocation.topic, invocation.partition)
        match invocation.f:
            case "produce":
                return ProduceCall(
                    id=self.calls,
                    tp=tp,
                    values=invocation.values,
                    acks=invocation.acks,
                    retries=invocation.retries,
                    idempotent=invocation.idempotent,
                )
            case "poll":
                return PollCall(id=self.calls, tp=tp, offset=Offset(invocation.offset), max_records=invocation.max_records)
            case "latest":
                return LatestCall(id=self.calls, tp=tp)
            case "earliest":
                return EarliestCall(id=self.calls, tp=tp)
            case _:
                assert_never(invocation.f)

    def end(self, answered: Answered) -> None:
        """Record the completion and tell the process."""
        invocation = self.open
        assert invocation is not None
        assert answered.id == self.calls
        self.open = None
        error = None if answered.error is ErrorCode.NONE else answered.error.name
        earlier = tuple(code.name for code in answered.earlier)
        outcome = completion_type(invocation.f, error, sent=answered.attempts > 0, earlier=earlier)
        self._record(
            outcome,
            invocation,
            _rows(invocation, answered),
            {
                "hw": answered.hw,
                "error": error,
                "node": answered.node,
                "topic_id": written(answered.topic_id),
                **_of_produce(invocation, answered.attempts),
            },
        )
        self.number = number_after(self.number, outcome, processes=self._processes)
        polled = (PolledRecord(offset=r.offset, value=r.value, leader_epoch=r.leader_epoch) for r in answered.records)
        self.process.completed(
            invocation,
            Completion(
                type=outcome,
                error=error,
                offset=answered.offset,
                leader_epoch=answered.leader_epoch,
                hw=answered.hw,
                node=answered.node,
                records=tuple(polled),
            ),
        )

    def _record(
        self,
        type: OpType,
        invocation: Invocation,
        records: tuple[Record, ...],
        columns: OperationColumns,
    ) -> None:
        columns["topic"], columns["partition"] = invocation.topic, invocation.partition
        self._recorder.operation(
            process=self.number,
            type=type,
            f=invocation.f,
            records=records,
            **columns,
        )


def _of_produce(invocation: Invocation, attempts: int | None = None) -> OperationColumns:
    if invocation.f != "produce":
        return {}
    return {"acks": invocation.acks, "delivery": "once" if invocation.idempotent else None, "attempts": attempts}


def _rows(invocation: Invocation, answered: Answered) -> tuple[Record, ...]:
    epoch = answered.leader_epoch
    match invocation.f:
        case "produce":
            first = answered.offset
            return tuple(
                Record(value=value, offset=None if first is None else first + slot, leader_epoch=epoch)
                for slot, value in enumerate(invocation.values)
            )
        case "poll" if answered.records:
            return tuple(Record(value=record.value, offset=record.offset, leader_epoch=epoch) for record in answered.records)
        case _:
            return (Record(offset=answered.offset, leader_epoch=epoch),)
