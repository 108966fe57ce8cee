"""A message in a few words: what it asks or tells of a partition, such as leader, leader epoch, ISR, offset or error.

Left out are correlation ids, the records themselves beyond the first ones, and fields at their defaults. Of a message about many
partitions the ones that are looked at are told, else all.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TypeVar, assert_never, get_args

from msgspec import Struct

from highwater.rig.evidence import names
from reference.errors import ErrorCode
from reference.log.log import end_of
from reference.messages import (
    LATEST,
    AnyCommand,
    AnyMessage,
    Batch,
    EpochEnd,
    EpochEndReply,
    Fetch,
    FetchReply,
    InitProducerId,
    InitProducerIdReply,
    IsrChange,
    IsrChangeReply,
    LeaderAndIsr,
    LeaderAndIsrReply,
    ListOffsets,
    ListOffsetsReply,
    LogEnd,
    LogInfo,
    LogInfoReply,
    Metadata,
    MetadataHeartbeat,
    MetadataHeartbeatReply,
    MetadataReply,
    PartitionState,
    Produce,
    ProduceReply,
    StopPartition,
    StopReplica,
    StopReplicaReply,
    UpdateMetadata,
    UpdateMetadataReply,
)
from reference.replica.partition import brokers_of
from reference.sealed import count
from reference.types import BrokerId, LeaderEpoch, TopicPartition, broker_address

_Part = TypeVar("_Part", PartitionState, StopPartition, LogEnd)
_VALUES_MAX = 3
_MESSAGES: tuple[type, ...] = get_args(AnyMessage)
_BULK = ("data", "id", "correlation", "values", "records")  # fields of other messages that are long or say nothing to a reader


def message_words(payload: object, wanted: str = "") -> str:
    """What a message says, for example "orders-0 from offset 7, epoch 1"; `wanted` is the partition that is looked at."""
    if not isinstance(payload, _MESSAGES):
        return _other_words(payload)
    return "; ".join(part for part in _parts(payload, wanted) if part)  # type: ignore[arg-type]  # it is of `AnyMessage`


def is_about(payload: object, wanted: str) -> bool:
    """Whether a message may be of interest to who looks at a partition; one that names no partition is."""
    fields = [getattr(payload, name, ()) for name in ("states", "partitions", "changes", "ends", "offline")]
    named = {getattr(item, "tp", item) for item in (payload, *chain(*fields)) if isinstance(getattr(item, "tp", item), str)}
    return not wanted or not named or wanted in named


def _parts(message: AnyMessage, wanted: str) -> Iterator[str]:
    """The parts of the words of a message."""
    match message:
        case Fetch() | EpochEnd() | FetchReply() | EpochEndReply():
            yield _replication_words(message)
        case LeaderAndIsr() | StopReplica() | UpdateMetadata() | LogInfo():
            yield from _command_parts(message, wanted)
        case LeaderAndIsrReply() | StopReplicaReply():
            yield _error(message.error)
            yield from (f"{tp} {_error(error)}" for tp, error in message.errors)
        case UpdateMetadataReply():
            yield _error(message.error)
        case LogInfoReply():
            yield _error(message.error)
            log_ends = _chosen(message.ends, wanted)
            yield from (f"{end.tp} ends at {end.leo}, last epoch {end.last_epoch}" for end in log_ends)
            yield from (f"{tp} offline" for tp in message.offline)
        case MetadataHeartbeat() | MetadataHeartbeatReply() | IsrChange() | IsrChangeReply():
            yield from _request_parts(message)
        case _:
            yield from _client_parts(message, wanted)


def _replication_words(message: Fetch | EpochEnd | FetchReply | EpochEndReply) -> str:
    """The words of what followers and consumers ask a leader, and of its answers."""
    match message:
        case Fetch():
            last = "" if message.last_epoch < 0 else f", last epoch {message.last_epoch}"
            who = ", for a consumer" if message.replica is None else ""
            return f"{message.tp} from offset {message.offset}{_known_epoch(message.leader_epoch)}{last}{who}"
        case FetchReply():
            cut = message.diverging
            rest = f", epoch {cut.leader_epoch} ends at {cut.end_offset}" if cut is not None else ""
            error = "" if message.error is ErrorCode.NONE else f"{_error(message.error)}, "
            return f"{message.tp} {error}{_records(message.batches)}, HW {message.hw}, epoch {message.leader_epoch}{rest}"
        case EpochEnd():
            current = _known_epoch(message.current_leader_epoch)
            return f"{message.tp} where does epoch {message.leader_epoch} end{current}"
        case EpochEndReply():
            end = "nothing known" if message.end_offset is None else f"epoch {message.leader_epoch} ends at {message.end_offset}"
            return f"{message.tp} {end if message.error is ErrorCode.NONE else _error(message.error)}"
        case _:
            assert_never(message)


def _command_parts(message: AnyCommand, wanted: str) -> Iterator[str]:
    """The words of a command of the controller."""
    sender = f"controller {broker_address(message.controller)} of epoch {message.controller_epoch}"
    match message:
        case LeaderAndIsr():
            yield f"{sender}, its first" if message.init else sender
            yield from _states(message.states, wanted, new=message.new)
        case StopReplica():
            yield sender
            for item in _chosen(message.partitions, wanted):
                yield f"{item.tp} epoch {item.leader_epoch}, {'delete' if item.delete else 'keep the log'}"
        case UpdateMetadata():
            yield f"{sender}{', all metadata' if message.full else ''}, live {_set(message.live_brokers)}"
            yield from _states(message.states, wanted)
        case LogInfo():
            yield sender
            yield " ".join(map(str, message.partitions))
        case _:
            assert_never(message)


def _request_parts(message: MetadataHeartbeat | MetadataHeartbeatReply | IsrChange | IsrChangeReply) -> Iterator[str]:
    """The words of what a broker asks the controller, and of the answer."""
    match message:
        case MetadataHeartbeat():
            wanted_state = _name(message.target_state)
            yield f"{broker_address(message.broker)}, incarnation {message.incarnation}, wants to be {wanted_state}"
        case MetadataHeartbeatReply():
            yield _name(message.current_state) if message.error is ErrorCode.NONE else _error(message.error)
        case IsrChange():
            yield f"{broker_address(message.broker)}, incarnation {message.incarnation}"
            for change in message.changes:
                isr = _set(brokers_of(change.isr))
                yield f"{change.tp} epoch {change.leader_epoch}, ISR {isr}, version {change.zk_version}"
        case IsrChangeReply():
            yield _error(message.error)
            for result in message.results:
                yield _error(result.error) if result.state is None else _state(result.state)
        case _:
            assert_never(message)


def _client_parts(
    message: Produce
    | ProduceReply
    | InitProducerId
    | InitProducerIdReply
    | ListOffsets
    | ListOffsetsReply
    | Metadata
    | MetadataReply,
    wanted: str,
) -> Iterator[str]:
    """The words of what a client asks, and of the answer."""
    match message:
        case Produce():
            number = "" if message.base_sequence < 0 else f", producer {message.producer_id} sequence {message.base_sequence}"
            yield f"{message.tp} {_values(message.values)}, acks={'all' if message.acks == -1 else message.acks}{number}"
        case ProduceReply() | ListOffsetsReply():
            place = f"offset {message.offset}, epoch {message.leader_epoch}"
            yield f"{message.tp} {place if message.error is ErrorCode.NONE else _error(message.error)}"
        case InitProducerId():
            return
        case InitProducerIdReply():
            number = f"producer {message.producer_id}, epoch {message.producer_epoch}"
            yield number if message.error is ErrorCode.NONE else _error(message.error)
        case ListOffsets():
            end_asked = "end" if message.timestamp == LATEST else "earliest"
            yield f"{message.tp} {end_asked} offset{_known_epoch(message.leader_epoch)}"
        case Metadata():
            return
        case MetadataReply():
            controller = "" if message.controller is None else f", controller {broker_address(message.controller)}"
            yield f"{_error(message.error)}, live {_set(message.brokers)}{controller}"
            yield from _states(message.states, wanted)
        case _:
            assert_never(message)


def _states(states: Iterable[PartitionState], wanted: str, new: Sequence[TopicPartition] = ()) -> Iterator[str]:
    for state in _chosen(states, wanted):
        yield f"{_state(state)}{', new replica' if state.tp in new else ''}"


def _state(state: PartitionState) -> str:
    leader = "none" if state.leader is None else broker_address(state.leader)
    elr = f", ELR {_set(brokers_of(state.elr))}" if state.elr else ""
    isr = f"ISR {_set(brokers_of(state.isr))}{elr}"
    return f"{state.tp} leader {leader}, epoch {state.leader_epoch}, {isr}, version {state.zk_version}"


def _chosen(parts: Iterable[_Part], wanted: str) -> list[_Part]:
    """The parts about the partition that is looked at; all if it is none of them, or none is looked at."""
    parts = list(parts)
    return [part for part in parts if part.tp == wanted] or parts


def _records(batches: Sequence[Batch]) -> str:
    if not batches:
        return "no records"
    return f"records {batches[0].base_offset} to {end_of(batches[-1]) - 1}"


def _values(values: tuple[str, ...] | bytes) -> str:
    if isinstance(values, bytes):
        return f"{count(values)} records"
    more = f" and {len(values) - _VALUES_MAX} more" if len(values) > _VALUES_MAX else ""
    return f"{' '.join(values[:_VALUES_MAX])}{more}"


def _known_epoch(epoch: LeaderEpoch) -> str:
    return "" if epoch < 0 else f", epoch {epoch}"


def _error(error: ErrorCode) -> str:
    return "no error" if error is ErrorCode.NONE else _name(error)


def _name(value: object) -> str:
    return str(getattr(value, "name", value))


def _set(brokers: tuple[BrokerId, ...]) -> str:
    return "{" + ",".join(names(brokers)) + "}"


# --- messages of ZooKeeper ------------------------------------------------------------------------------------------------------


def _other_words(payload: object) -> str:
    """The fields of a message between a process and ZooKeeper, or between its servers."""
    fields = getattr(payload, "__struct_fields__", ())
    held = ((name, _field(getattr(payload, name))) for name in fields if name not in _BULK)
    return ", ".join(f"{name} {value}" for name, value in held if value not in ("None", "", "-1", "False"))


def _field(value: object) -> str:
    """A field in words: of operations and answers their kind, and what they name."""
    if isinstance(value, tuple | list):
        return " ".join(_field(item) for item in value)
    if isinstance(value, Struct):
        words = _other_words(value)
        return f"{type(value).__name__}{f' ({words})' if words else ''}"
    return str(value)
