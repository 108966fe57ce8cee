"""AlterPartitionReassignments 0, ListPartitionReassignments 0 and DescribeLogDirs 0 to 1.

Reassignments are those of KIP-236: requested by a znode and performed by the current controller. KIP-236 rolls back all pending
reassignments at once, while KIP-455 cancels single partitions. Therefore a request must cancel all pending ones or is refused.
"""

from collections.abc import Generator

from msgspec import Struct

from reference.errors import ErrorCode
from reference.messages import MetadataReply, PartitionState
from reference.types import BrokerId, Millis, TopicPartition, index_of, topic_of
from server.wire.clients.errors import EdgeError, client_code
from server.wire.clients.exchange import Call, Exchange, Heard, metadata_of
from server.wire.clients.metadata import live_brokers
from server.wire.clients.names import asked_partition
from server.wire.clients.tasks import CancelMoves, Dirs, Done, ListDirs, ListMoves, Move, Moves, PendingMove

Result = tuple[int, str | None]


class ReassignablePartition(Struct, frozen=True):
    """One partition of AlterPartitionReassignments; `replicas` None cancels its reassignment."""

    partition_index: int
    replicas: tuple[int, ...] | None


class ReassignableTopic(Struct, frozen=True):
    """One topic of an AlterPartitionReassignments request."""

    name: str
    partitions: tuple[ReassignablePartition, ...]


class AlterRequest(Struct, frozen=True, kw_only=True):
    """An AlterPartitionReassignments request."""

    timeout_ms: int
    topics: tuple[ReassignableTopic, ...]


class AlteredPartition(Struct, frozen=True, kw_only=True):
    """The result of one partition in an AlterPartitionReassignments response."""

    partition_index: int
    error_code: int
    error_message: str | None


class AlteredTopic(Struct, frozen=True):
    """The results of one topic in an AlterPartitionReassignments response."""

    name: str
    partitions: tuple[AlteredPartition, ...]


class AlterResponse(Struct, frozen=True, kw_only=True):
    """The fields of an AlterPartitionReassignments response that the broker sets."""

    error_code: int = 0
    error_message: str | None = None
    responses: tuple[AlteredTopic, ...] = ()


def alter(call: Call, request: AlterRequest) -> Exchange:
    """Answer AlterPartitionReassignments: first all cancellations, then one move after the other."""
    metadata = yield from metadata_of(call)
    if metadata.controller != call.facing.broker:
        return AlterResponse(error_code=ErrorCode.NOT_CONTROLLER, error_message=f"the controller is {metadata.controller}")
    deadline_ms = call.now_ms + max(request.timeout_ms, 0)
    targets = {
        asked_partition(topic.name, partition.partition_index): partition.replicas
        for topic in request.topics
        for partition in topic.partitions
    }
    results: dict[TopicPartition, Result] = {}
    cancelled = [tp for tp, replicas in targets.items() if replicas is None]
    if cancelled:
        results.update((yield from _cancel_moves(call, cancelled, _ms_left(call, deadline_ms))))
    for tp, replicas in targets.items():
        if replicas is None:
            continue
        refusal = _refusal_of_move(call, metadata, tp, replicas)
        if refusal is None:
            brokers = tuple(BrokerId(broker) for broker in replicas)
            call.ask(Move(call.number(), tp, brokers, _ms_left(call, deadline_ms)))
            result = yield
            assert isinstance(result, Done)
            refusal = _result_of(result.error)
        results[tp] = refusal
    return AlterResponse(
        responses=tuple(
            AlteredTopic(topic.name, tuple(_altered_partition(topic.name, partition, results) for partition in topic.partitions))
            for topic in request.topics
        )
    )


def _ms_left(call: Call, deadline_ms: int) -> Millis:
    return Millis(max(deadline_ms - call.now_ms, 0))


def _result_of(error: ErrorCode) -> Result:
    return client_code(error), None if error is ErrorCode.NONE else error.name


def _altered_partition(topic: str, partition: ReassignablePartition, results: dict[TopicPartition, Result]) -> AlteredPartition:
    error, text = results[asked_partition(topic, partition.partition_index)]
    return AlteredPartition(partition_index=partition.partition_index, error_code=error, error_message=text)


def _refusal_of_move(call: Call, metadata: MetadataReply, tp: TopicPartition, replicas: tuple[int, ...]) -> Result | None:
    """Why the move cannot be asked for: unknown partition, bad replicas, a dead broker; None if it can."""
    if all(state.tp != tp for state in metadata.states):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{tp} does not exist"
    if not replicas or len(set(replicas)) < len(replicas):
        return EdgeError.INVALID_REPLICA_ASSIGNMENT, f"{tp}: replicas must not be empty or name a broker twice"
    dead_brokers = sorted(set(replicas) - set(live_brokers(call.facing, metadata)))
    if dead_brokers:
        return EdgeError.INVALID_REPLICA_ASSIGNMENT, f"{tp}: broker {dead_brokers[0]} is not alive"
    return None


def _cancel_moves(call: Call, tps: list[TopicPartition], left_ms: Millis) -> Generator[None, Heard, dict[TopicPartition, Result]]:
    """Cancel the moves of these partitions; refused if other moves are pending, since all are cancelled together."""
    call.ask(ListMoves(call.number(), left_ms))
    moves = yield
    assert isinstance(moves, Moves)
    if moves.error is not ErrorCode.NONE:
        return dict.fromkeys(tps, _result_of(moves.error))
    pending = {move.tp for move in moves.pending}
    results = {tp: _result_of(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS) for tp in tps if tp not in pending}
    cancellable = [tp for tp in tps if tp in pending]
    left_out = sorted(pending - set(cancellable))
    if cancellable and left_out:
        text = f"all that is pending is cancelled together, and {left_out[0]} is not in the request"
        results.update(dict.fromkeys(cancellable, (int(ErrorCode.INVALID_REQUEST), text)))
    elif cancellable:
        call.ask(CancelMoves(call.number(), left_ms))
        result = yield
        assert isinstance(result, Done)
        results.update(dict.fromkeys(cancellable, _result_of(result.error)))
    return results


# --- ListPartitionReassignments --------------------------------------------------------------------------------------------


class ListedTopic(Struct, frozen=True):
    """The wanted partitions of one topic in a ListPartitionReassignments request."""

    name: str
    partition_indexes: tuple[int, ...]


class ListRequest(Struct, frozen=True, kw_only=True):
    """A ListPartitionReassignments request; `topics` None means all."""

    timeout_ms: int
    topics: tuple[ListedTopic, ...] | None


class OngoingPartition(Struct, frozen=True, kw_only=True):
    """A partition with a pending reassignment (KIP-455)."""

    partition_index: int
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


class OngoingTopic(Struct, frozen=True):
    """The pending reassignments of one topic in a ListPartitionReassignments response."""

    name: str
    partitions: tuple[OngoingPartition, ...]


class ListResponse(Struct, frozen=True, kw_only=True):
    """The fields of a ListPartitionReassignments response that the broker sets."""

    error_code: int = 0
    error_message: str | None = None
    topics: tuple[OngoingTopic, ...] = ()


def list_moves(call: Call, request: ListRequest) -> Exchange:
    """Answer ListPartitionReassignments from the znodes of KIP-236; only the controller answers."""
    metadata = yield from metadata_of(call)
    if metadata.controller != call.facing.broker:
        return ListResponse(error_code=ErrorCode.NOT_CONTROLLER, error_message=f"the controller is {metadata.controller}")
    call.ask(ListMoves(call.number(), Millis(max(request.timeout_ms, 0))))
    moves = yield
    assert isinstance(moves, Moves)
    if moves.error is not ErrorCode.NONE:
        return ListResponse(error_code=client_code(moves.error), error_message=moves.error.name)
    requested = None
    if request.topics is not None:
        requested = {asked_partition(topic.name, index) for topic in request.topics for index in topic.partition_indexes}
    states = {state.tp: state for state in metadata.states}
    rows: dict[str, list[OngoingPartition]] = {}
    for move in moves.pending:
        if requested is None or move.tp in requested:
            rows.setdefault(topic_of(move.tp), []).append(_ongoing_partition(move, states.get(move.tp)))
    return ListResponse(topics=tuple(OngoingTopic(name, tuple(of)) for name, of in rows.items()))


def _ongoing_partition(move: PendingMove, state: PartitionState | None) -> OngoingPartition:
    """KIP-455: while a reassignment is pending, list the original and the target replicas together."""
    before = move.original or (() if state is None else state.replicas)
    adding = tuple(broker for broker in move.replicas if broker not in before)
    removing = tuple(broker for broker in before if broker not in move.replicas)
    return OngoingPartition(
        partition_index=index_of(move.tp), replicas=(*before, *adding), adding_replicas=adding, removing_replicas=removing
    )


# --- DescribeLogDirs -------------------------------------------------------------------------------------------------------


class DescribableTopic(Struct, frozen=True):
    """The wanted partitions of one topic in a DescribeLogDirs request."""

    topic: str
    partitions: tuple[int, ...]


class DescribeRequest(Struct, frozen=True):
    """A DescribeLogDirs request; `topics` None means all."""

    topics: tuple[DescribableTopic, ...] | None


class DescribedPartition(Struct, frozen=True, kw_only=True):
    """One log and its size in bytes in a DescribeLogDirs response; the offset lag is not set."""

    partition_index: int
    partition_size: int


class DescribedTopic(Struct, frozen=True):
    """The logs of one topic in one log directory (DescribeLogDirs response)."""

    name: str
    partitions: tuple[DescribedPartition, ...]


class DescribedDir(Struct, frozen=True, kw_only=True):
    """One log directory in a DescribeLogDirs response; KAFKA_STORAGE_ERROR if it failed."""

    error_code: int
    log_dir: str
    topics: tuple[DescribedTopic, ...]


class DescribeResponse(Struct, frozen=True):
    """The fields of a DescribeLogDirs response that the broker sets."""

    results: tuple[DescribedDir, ...]


def describe_dirs(call: Call, request: DescribeRequest) -> Exchange:
    """Answer DescribeLogDirs with the directories of this broker only, as Kafka's brokers do.

    These versions have no error for the whole response: that of a fenced broker stands at each directory.
    """
    call.ask(ListDirs(call.number()))
    answer = yield
    assert isinstance(answer, Dirs)
    requested = None
    if request.topics is not None:
        requested = {asked_partition(topic.topic, index) for topic in request.topics for index in topic.partitions}
    results = []
    for directory in answer.directories:
        rows: dict[str, list[DescribedPartition]] = {}
        for tp, size in directory.sizes:
            if requested is None or tp in requested:
                row = DescribedPartition(partition_index=index_of(tp), partition_size=size)
                rows.setdefault(topic_of(tp), []).append(row)
        topics = tuple(DescribedTopic(name, tuple(of)) for name, of in rows.items())
        error = answer.error if directory.online or answer.error else ErrorCode.KAFKA_STORAGE_ERROR
        results.append(DescribedDir(error_code=error, log_dir=directory.path, topics=topics))
    return DescribeResponse(tuple(results))
