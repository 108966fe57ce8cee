"""Turns the operations of a workload process into client calls, and calls and answers into rows of the history."""

import json
from typing import get_args

from msgspec import Struct

from highwater.rig.administration import AdminCommand, AlterConfig
from highwater.rig.sessions import (
    CommitCall,
    CommittedCall,
    GroupAbandonCall,
    GroupLeaveCall,
    GroupPollCall,
    GroupPositionsCall,
    ProcessCall,
    ReadCommittedCall,
    SessionCall,
    ShareCall,
    StepCall,
    TxnCall,
    key_of,
)
from highwater.rig.topics import written
from history.op import OpType
from history.recorder import OperationColumns, Record, Recorder
from reference.client.calls import Answered, Call, EarliestCall, LatestCall, PollCall, Polled, ProduceCall
from reference.client.commands import (
    AddPartition,
    AllowReassignments,
    CancelReassignments,
    CreateTopic,
    DeleteTopic,
    DeposeController,
    EditZnode,
    ElectPreferred,
    ElectUnclean,
    ListPending,
    Reassign,
    RemovePartition,
    RequestReassignment,
)
from reference.errors import ErrorCode
from reference.types import BrokerId, Offset, topic_partition
from workloads.client import ClientF, Completion, Edit, Invocation, Micro, OwnF, PolledRecord, Process
from workloads.completion import completion_type, number_after

ADMIN_TIMEOUT_MS = 10_000  # until an administrator gives a request up
_OWN = frozenset(get_args(OwnF))
_OF_A_LOG = frozenset((*get_args(ClientF), *_OWN, "commit", "committed"))


class Reply(Struct, frozen=True, kw_only=True):
    """The outcome of a call or admin command as the client saw it; `error` by name, None for success.

    `offset`: of the first value of a produce, or the bound that was asked for; `offsets`: of each value of a produce, where they
    are known one by one. The other columns are those of `Answered`.
    """

    id: int
    error: str | None = None
    attempts: int = 0
    node: str | None = None
    topic_id: str | None = None
    offset: int | None = None
    offsets: tuple[int, ...] = ()
    leader_epoch: int | None = None
    hw: int | None = None
    records: tuple[Polled, ...] = ()
    earlier: tuple[str, ...] = ()
    found: tuple[str, ...] = ()
    told: object = None  # of a transaction or a poll of a group: the value of its completion, recorded as JSON
    positions: tuple[tuple[str, int, int], ...] = ()  # topic, partition and next position of what such a poll returned
    at_end: bool = False


def reply_of(answered: Answered) -> Reply:
    """Convert the answer of the client machine to the outcome as the client saw it."""
    return Reply(
        id=answered.id,
        error=None if answered.error is ErrorCode.NONE else answered.error.name,
        attempts=answered.attempts,
        node=answered.node,
        topic_id=written(answered.topic_id),
        offset=answered.offset,
        leader_epoch=answered.leader_epoch,
        hw=answered.hw,
        records=answered.records,
        earlier=tuple(code.name for code in answered.earlier),
        found=answered.found,
    )


class OwnCall(Struct, frozen=True, kw_only=True):
    """What a client does within its own program: it ends at once, and always succeeds."""

    id: int


class Attempts:
    """Records the operations of one client, one open at a time; `processes` is the number of all clients."""

    __slots__ = ("_processes", "_recorder", "calls", "number", "open", "process")

    def __init__(self, recorder: Recorder, process: Process, number: int, *, processes: int) -> None:
        self._recorder = recorder
        self._processes = processes
        self.process = process
        self.number = number  # Jepsen's process number: replaced after an unknown outcome
        self.calls = 0
        self.open: Invocation | None = None

    def begin(self, invocation: Invocation) -> Call | AdminCommand | SessionCall | OwnCall:
        """Record a client's invocation and return the call or command that performs it."""
        assert self.open is None
        self.open = invocation
        self.calls += 1
        columns = _of_produce(invocation)
        stated = invocation.deserves or invocation.logged
        if stated is not None:
            columns["error"] = stated
        self._record_rows(OpType.INVOKE, invocation, _invoked_records(invocation), columns)
        if invocation.f in _OWN:
            return OwnCall(id=self.calls)
        return self._admin_command(invocation) or self._session_call(invocation) or self._client_call(invocation)

    def _session_call(self, invocation: Invocation) -> SessionCall | None:
        """The call of a transaction or consumer group; None for other functions."""
        partition = (invocation.topic, invocation.partition)
        group = invocation.group
        match invocation.f:
            case "txn":
                return TxnCall(id=self.calls, micros=invocation.micros, aborts=invocation.aborts, reads=invocation.reads)
            case "group-poll":
                return GroupPollCall(id=self.calls, group=group, reads=invocation.reads)
            case "process":
                return ProcessCall(
                    id=self.calls,
                    group=group,
                    reads=invocation.reads,
                    writes=invocation.writes,
                    work_ms=invocation.work_ms,
                    aborts=invocation.aborts,
                )
            case "read-committed":
                return ReadCommittedCall(id=self.calls, reads=invocation.reads)
            case "init-transactions" | "txn-send" | "txn-commit" | "txn-abort":
                transactional_id, sends = invocation.transactional_id, invocation.micros
                return StepCall(id=self.calls, step=invocation.f, transactional_id=transactional_id, sends=sends)
            case "share-poll" | "share-acknowledge" | "share-leave" | "share-abandon":
                types, reads = invocation.acknowledges, invocation.reads
                return ShareCall(id=self.calls, share=invocation.f, group=group, reads=reads, acknowledges=types)
            case "group-leave":
                return GroupLeaveCall(id=self.calls, group=group)
            case "group-abandon":
                return GroupAbandonCall(id=self.calls, group=group)
            case "group-positions":
                return GroupPositionsCall(id=self.calls, group=group, reads=invocation.reads)
            case "commit":
                return CommitCall(id=self.calls, group=group, partition=partition, offset=invocation.offset)
            case "committed":
                return CommittedCall(id=self.calls, group=group, partition=partition)
            case _:
                return None

    def _client_call(self, invocation: Invocation) -> Call:
        """The call of a Kafka client."""
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
                    misuse=invocation.misuse,
                )
            case "poll":
                return PollCall(id=self.calls, tp=tp, offset=Offset(invocation.offset), max_records=invocation.max_records)
            case "latest":
                return LatestCall(id=self.calls, tp=tp)
            case "earliest":
                return EarliestCall(id=self.calls, tp=tp)
            case _:
                raise AssertionError(f"{invocation.f} is an admin command, not a call of a Kafka client")

    def _admin_command(self, invocation: Invocation) -> AdminCommand | None:
        """The command of the admin client; None for other functions."""
        tp = topic_partition(invocation.topic, invocation.partition)
        assignment = tuple(tuple(BrokerId(b) for b in replicas) for replicas in invocation.assignment)
        match invocation.f:
            case "create-topic":
                return CreateTopic(id=self.calls, topic=invocation.topic, assignment=assignment)
            case "delete-topic":
                return DeleteTopic(id=self.calls, topic=invocation.topic)
            case "add-partition":
                return AddPartition(id=self.calls, tp=tp, replicas=assignment[0])
            case "remove-partition":
                return RemovePartition(id=self.calls, tp=tp)
            case "elect-preferred":
                return ElectPreferred(id=self.calls, tps=(tp,))
            case "elect-unclean":
                return ElectUnclean(id=self.calls, tps=(tp,))
            case "reassign" | "reassign-extra":
                return Reassign(id=self.calls, tp=tp, replicas=assignment[0], extra=invocation.f == "reassign-extra")
            case "reassign-request":
                return RequestReassignment(id=self.calls, tp=tp, replicas=assignment[0])
            case "cancel-reassignments":
                return CancelReassignments(id=self.calls)
            case "allow-reassignments":
                return AllowReassignments(id=self.calls)
            case "depose-controller":
                return DeposeController(id=self.calls)
            case "edit-znode":
                assert invocation.edit is not None
                data = None if invocation.edit.data is None else invocation.edit.data.encode()
                return EditZnode(id=self.calls, path=invocation.edit.path, data=data, over=invocation.edit.over)
            case "alter-config":
                return AlterConfig(id=self.calls, topic=invocation.topic, settings=dict(invocation.settings))
            case "admin-pending":
                return ListPending(id=self.calls)
            case _:
                return None

    def end(self, answered: Reply) -> None:
        """Record the completion of the client's open operation, and tell its workload."""
        invocation = self.open
        assert invocation is not None
        assert answered.id == self.calls
        self.open = None
        error = answered.error
        outcome = completion_type(invocation.f, error, sent=answered.attempts > 0, earlier=answered.earlier)
        self._record_rows(
            outcome,
            invocation,
            _answered_records(invocation, answered),
            {
                "hw": answered.hw,
                "error": error,
                "node": answered.node,
                "topic_id": answered.topic_id,
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
                offset=answered.offsets[0] if answered.offsets else answered.offset,
                leader_epoch=answered.leader_epoch,
                hw=answered.hw,
                node=answered.node,
                records=tuple(polled),
                found=answered.found,
                positions=answered.positions,
                at_end=answered.at_end,
            ),
        )

    def _record_rows(
        self,
        type: OpType,
        invocation: Invocation,
        records: tuple[Record, ...],
        columns: OperationColumns,
    ) -> None:
        """Write a row of the history for each record of the operation."""
        if invocation.f in _OF_A_LOG:  # admin operations are about no log; their subject is in the value (`_invoked_records`)
            columns["topic"], columns["partition"] = invocation.topic, invocation.partition
        self._recorder.operation(
            process=self.number,
            type=type,
            f=invocation.f,
            records=records,
            **columns,
        )


def _invoked_records(invocation: Invocation) -> tuple[Record, ...]:
    """What an invocation asks for, as records of its row."""
    name = topic_partition(invocation.topic, invocation.partition)
    replicas = " ".join(",".join(map(str, of)) for of in invocation.assignment)
    match invocation.f:
        case "produce" | "send" | "log":
            return tuple(Record(value=value) for value in invocation.values)
        case "poll":
            return (Record(offset=invocation.offset),)
        case "txn":
            return (Record(value=_json([_micro(micro) for micro in invocation.micros])),)
        case "group-poll" | "group-leave" | "group-abandon" | "group-positions":
            commits = {"commits": invocation.commits} if invocation.commits else {}
            return (Record(value=_json({"group": invocation.group, **commits})),)
        case "process" | "share-poll" | "share-acknowledge" | "share-leave" | "share-abandon":
            return (Record(value=_json({"group": invocation.group})),)
        case "init-transactions" | "txn-send" | "txn-commit" | "txn-abort":
            return (Record(value=_json(_step(invocation))),)
        case "commit" | "committed":
            return (Record(value=invocation.group, offset=invocation.offset if invocation.f == "commit" else None),)
        case "create-topic":
            return (Record(value=f"{invocation.topic} on {replicas}"),)
        case "delete-topic":
            return (Record(value=invocation.topic),)
        case "add-partition" | "reassign" | "reassign-extra" | "reassign-request":
            return (Record(value=f"{name} on {replicas}"),)
        case "remove-partition" | "elect-preferred" | "elect-unclean":
            return (Record(value=name),)
        case "edit-znode":
            assert invocation.edit is not None
            return (Record(value=_edit_in_words(invocation.edit)),)
        case "alter-config":
            return (Record(value=" ".join([invocation.topic, *(f"{name}={value}" for name, value in invocation.settings)])),)
        case _:
            return ()


def _micro(micro: Micro) -> list[str]:
    return ["poll"] if micro.value is None else ["send", key_of((micro.topic, micro.partition)), micro.value]


def _step(invocation: Invocation) -> dict[str, object]:
    """What a step asks for: the transactional id, and the records by partition, their offsets unknown."""
    sends: dict[str, list[list[object]]] = {}
    for micro in invocation.micros:
        sends.setdefault(key_of((micro.topic, micro.partition)), []).append([None, micro.value])
    return {"id": invocation.transactional_id, **({"sends": sends} if sends else {})}


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _edit_in_words(edit: Edit) -> str:
    if edit.data is None:
        return f"{edit.path} deleted"
    return f"{edit.path} {'overwritten' if edit.over else 'created'} with {edit.data!r}"


def _of_produce(invocation: Invocation, attempts: int | None = None) -> OperationColumns:
    if invocation.f != "produce":
        return {}
    return {"acks": invocation.acks, "delivery": "once" if invocation.idempotent else None, "attempts": attempts}


def _answered_records(invocation: Invocation, answered: Reply) -> tuple[Record, ...]:
    """What was answered, as records of the completion's row."""
    epoch = answered.leader_epoch
    match invocation.f:
        case "produce":
            offsets = answered.offsets or _consecutive(answered.offset, len(invocation.values))
            return tuple(
                Record(value=value, offset=offset, leader_epoch=epoch)
                for value, offset in zip(invocation.values, offsets, strict=True)
            )
        case "send" | "log":
            return _invoked_records(invocation)
        case "poll" if answered.records:
            return tuple(Record(value=record.value, offset=record.offset, leader_epoch=epoch) for record in answered.records)
        case "admin-pending":
            return tuple(Record(value=path) for path in answered.found)
        case "cancel-reassignments" if answered.found:
            return tuple(Record(value=name) for name in answered.found)
        case "txn" | "process" | "read-committed" | "txn-send" | "share-poll" | "share-acknowledge":
            return (Record(value=None if answered.told is None else _json(answered.told)),)
        case "group-poll" | "group-leave" | "group-abandon" | "group-positions":
            return (Record(value=None if answered.told is None else _json(answered.told)),)
        case "init-transactions" | "txn-commit" | "txn-abort" | "share-leave" | "share-abandon":
            return _invoked_records(invocation)
        case "commit" | "committed":
            return (Record(value=invocation.group, offset=invocation.offset if invocation.f == "commit" else answered.offset),)
        case _:
            return (Record(offset=answered.offset, leader_epoch=epoch),)


def _consecutive(first: int | None, count: int) -> tuple[int | None, ...]:
    return tuple(None if first is None else first + slot for slot in range(count))
