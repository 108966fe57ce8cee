"""The behaviour of a run: rows in words of the protocol, in the order in which they happened.

    row                       from
    state-written, assigned … each event of the history that a node or ZooKeeper did; faults are left out
    LeaderAndIsr sent …       each request of the controller, for an ISR change or for the end of an epoch, and its answer
    Fetch refused …           each answer with an error, of any kind
    append, hw, flushed       64 rows of one node and partition as one, by their digest
    messages, answers         at the end: how many messages of each kind arrived, and how the clients' calls ended

Registrations and topics are numbered in the order in which they came, because their ids in ZooKeeper count every write of the
run. Names of Python code are in no row, so a refactoring leaves all rows as they are.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import assert_never

from msgspec import Struct

from history.event import ClusterEvent, EventKind
from history.history import History
from history.op import Operation, OpType
from reference.errors import ErrorCode
from reference.messages import (
    AnyMessage,
    EpochEnd,
    EpochEndReply,
    FetchReply,
    InitProducerIdReply,
    IsrChange,
    IsrChangeReply,
    IsrMember,
    LeaderAndIsr,
    LeaderAndIsrReply,
    ListOffsetsReply,
    LogInfo,
    LogInfoReply,
    MetadataHeartbeatReply,
    MetadataReply,
    PartitionState,
    ProduceReply,
    Reply,
    StopReplica,
    StopReplicaReply,
    UpdateMetadata,
    UpdateMetadataReply,
)
from reference.types import NO_TOPIC_ID, Address, Incarnation, TopicId, TopicPartition, topic_of

MESSAGES, ANSWERS = "messages", "answers"  # rules of the counts at the end
BLOCK = 64  # rows of one log that make one row of the behaviour
_BY_DETAIL = frozenset(
    {
        EventKind.ISR_CHANGE_ENDED,
        EventKind.BROKER_STATE,
        EventKind.TRUNCATE,
        EventKind.REASSIGNMENT_BEGUN,
        EventKind.REASSIGNMENT_ENDED,
        EventKind.APPEND,
        EventKind.HW,
    }
)
_OF_LOGS = frozenset({EventKind.APPEND, EventKind.HW, EventKind.FLUSHED})
# What the harness does to the run, or counts. Which faults act follows from how many messages there are.
_OF_THE_HARNESS = frozenset(
    {
        EventKind.FAULT_BEGUN,
        EventKind.FAULT_ENDED,
        EventKind.FAULT_ACTED,
        EventKind.FAULT_PROBED,
        EventKind.HEALED,
        EventKind.FINAL_READS,
    }
)
_WITH_OWN_WORDS = frozenset(
    {"index", "kind", "time_ns", "node", "topic", "topic_id", "partition", "incarnation", "isr", "stamps"}
)
_COLUMNS = tuple(name for name in ClusterEvent.__struct_fields__ if name not in _WITH_OWN_WORDS)


class Row(Struct, frozen=True, array_like=True):
    """One row of a behaviour. Rows that share one of their `subjects`, a node, a partition or a log, have an order."""

    rule: str
    words: str
    subjects: tuple[str, ...]
    time_ns: int


class SentMessage(Struct, frozen=True):
    """A message at the moment at which it was sent; `index` is that of the next row of the history."""

    index: int
    time_ns: int
    sender: Address
    to: Address
    message: AnyMessage


def rows_of(history: History, messages_sent: Sequence[SentMessage]) -> tuple[Row, ...]:
    """The behaviour of a run from its history and the messages that its nodes sent."""
    names = _Names(history.events)
    logs = _Logs()
    rows: list[Row] = []
    messages = iter(messages_sent)
    message = next(messages, None)
    for event in history.events:
        while message is not None and message.index <= event.index:
            rows += _rows_of_message(message, names)
            message = next(messages, None)
        if event.kind in _OF_LOGS:
            rows += logs.add(event)
        elif event.kind not in _OF_THE_HARNESS:
            rows.append(_row_of_event(event, names))
    while message is not None:
        rows += _rows_of_message(message, names)
        message = next(messages, None)
    end_ns = history.events[-1].time_ns if history.events else 0
    rows += logs.rest(end_ns)
    rows += (Row(MESSAGES, f"{kind}: {count}", (), end_ns) for kind, count in _arrived(history))
    rows += (Row(ANSWERS, f"{kind}: {count}", (), end_ns) for kind, count in _answers(history.operations))
    return tuple(rows)


class _Names:
    """The numbers of registrations and of topics that have one name."""

    def __init__(self, events: Sequence[ClusterEvent]) -> None:
        self._registrations: dict[int, int] = {}
        self._topics: dict[str, int] = {}
        nodes: Counter[str] = Counter()
        topics: Counter[str] = Counter()
        for event in events:
            if event.kind is EventKind.REGISTERED and event.incarnation not in self._registrations:
                assert event.node is not None
                assert event.incarnation is not None
                nodes[event.node] += 1
                self._registrations[event.incarnation] = nodes[event.node]
            if event.topic_id is not None and event.topic is not None and event.topic_id not in self._topics:
                topics[event.topic] += 1
                self._topics[event.topic_id] = topics[event.topic]

    def registration(self, incarnation: int) -> str:
        """ "" for the first registration of a broker, "#2" for the second, "#?" for one that never was."""
        number = self._registrations.get(incarnation)
        return "" if number == 1 else f"#{'?' if number is None else number}"

    def topic(self, name: str, topic_id: str | None) -> str:
        """The name of a topic, with "#2" for the second of its name."""
        number = 1 if topic_id is None else self._topics.get(topic_id, "?")
        return name if number == 1 else f"{name}#{number}"

    def partition(self, tp: TopicPartition, topic_id: TopicId) -> str:
        """A partition as messages name it."""
        topic = self.topic(topic_of(tp), None if topic_id == NO_TOPIC_ID else str(topic_id))
        return f"{topic}-{tp.rpartition('-')[2]}"

    def members(self, members: Sequence[IsrMember]) -> str:
        """The members of an ISR or ELR."""
        return _list(f"b{member.broker}{self.registration(member.incarnation)}" for member in members)


class _Logs:
    """Puts the rows of each log into blocks."""

    def __init__(self) -> None:
        self._open_words: defaultdict[tuple[str, str], list[str]] = defaultdict(list)

    def add(self, event: ClusterEvent) -> Iterator[Row]:
        """Add a row of a log; gives the row of its block where this is full."""
        detail = f" of the {event.detail}" if event.detail else ""
        key = f"{event.kind}{detail}", f"{event.node} {event.topic}-{event.partition}"
        block = self._open_words[key]
        block.append(f"{event.offset} {event.hw} {event.leo} {event.leader_epoch} {event.value}")
        if len(block) == BLOCK:
            yield _block(key, block, event.time_ns)
            block.clear()

    def rest(self, end_ns: int) -> Iterator[Row]:
        """The rows of the blocks that are not full at the end."""
        return (_block(key, block, end_ns) for key, block in sorted(self._open_words.items()) if block)


def _block(key: tuple[str, str], block: Sequence[str], time_ns: int) -> Row:
    rule, log = key
    digest = blake2b("\n".join(block).encode(), digest_size=8).hexdigest()
    return Row(rule, f"{log}: {len(block)} rows, digest {digest}, the last: {block[-1]}", (f"{rule} {log}",), time_ns)


def _row_of_event(event: ClusterEvent, names: _Names) -> Row:
    """The row of an event that is not about the records of a log."""
    by_detail = event.kind in _BY_DETAIL and event.detail
    rule = f"{event.kind}: {event.detail}" if by_detail else event.kind.value
    words = [] if event.node is None else [event.node]
    subjects = list(words)
    if event.topic is not None:
        subjects.append(f"{event.topic}-{event.partition}")
        words.append(f"{names.topic(event.topic, event.topic_id)}-{event.partition}")
    if event.incarnation is not None:
        words.append(f"registration{names.registration(event.incarnation) or '#1'}")
    if event.isr is not None:
        stamps = [""] * len(event.isr) if event.stamps is None else [names.registration(stamp) for stamp in event.stamps]
        words.append("isr=" + _list(f"{member}{stamp}" for member, stamp in zip(event.isr, stamps, strict=True)))
    for name in _COLUMNS:
        value = getattr(event, name)
        if value is not None and not (by_detail and name == "detail"):
            words.append(f"{name}={_list(value) if isinstance(value, tuple) else value}")
    return Row(rule, " ".join(words), tuple(subjects), event.time_ns)


def _rows_of_message(sent: SentMessage, names: _Names) -> Iterator[Row]:
    """The row of a message; none for an answer without news."""
    message = sent.message
    match message:
        case LeaderAndIsr() | StopReplica() | UpdateMetadata() | LogInfo() | IsrChange() | EpochEnd():
            rule, words, partitions = _request(message, names)
        case _:
            rule, words, partitions = _reply(message, names)  # type: ignore[arg-type]  # the tap lets only these pass
    if rule:
        subjects = (sent.sender, *(str(tp) for tp in partitions))
        yield Row(rule, f"{sent.sender} to {sent.to}: {words}".rstrip(": "), subjects, sent.time_ns)


_Words = tuple[str, str, Sequence[TopicPartition]]
_Request = LeaderAndIsr | StopReplica | UpdateMetadata | LogInfo | IsrChange | EpochEnd


def _request(message: _Request, names: _Names) -> _Words:
    """Rule, words and partitions of a request of the controller, or about the ISR or an epoch."""
    match message:
        case LeaderAndIsr():
            states = "; ".join(_state(state, names) for state in message.states)
            words = f"{_sender(message, names)} {'all; ' if message.init else ''}{states} new={_list(message.new)}"
            return "LeaderAndIsr sent", words, [state.tp for state in message.states]
        case StopReplica():
            stops = "; ".join(
                f"{names.partition(stop.tp, stop.topic_id)} epoch={stop.leader_epoch}"
                f"{' delete' if stop.delete else ''}{' moved' if stop.moved else ''}"
                for stop in message.partitions
            )
            return "StopReplica sent", f"{_sender(message, names)} {stops}", [stop.tp for stop in message.partitions]
        case UpdateMetadata():
            states = "; ".join(_state(state, names) for state in message.states)
            live = f"{'full ' if message.full else ''}live={_list(f'b{broker}' for broker in message.live_brokers)}"
            words = f"{_sender(message, names)} {live} {states}"
            return "UpdateMetadata sent", words, [state.tp for state in message.states]
        case LogInfo():
            return "LogInfo sent", f"{_sender(message, names)} {_list(message.partitions)}", message.partitions
        case IsrChange():
            changes = "; ".join(
                f"{names.partition(change.tp, change.topic_id)} epoch={change.leader_epoch} isr={names.members(change.isr)} "
                f"zk_version={change.zk_version}"
                for change in message.changes
            )
            words = f"b{message.broker}{names.registration(message.incarnation)} {changes}"
            return "IsrChange sent", words, [change.tp for change in message.changes]
        case EpochEnd():
            partition = names.partition(message.tp, message.topic_id)
            words = f"{partition} epoch={message.leader_epoch} current={message.current_leader_epoch}"
            return "OffsetForLeaderEpoch sent", words, [message.tp]
        case _:
            assert_never(message)


def _reply(message: Reply, names: _Names) -> _Words:
    """Rule, words and partitions of an answer; an empty rule where it is only counted."""
    match message:
        case LeaderAndIsrReply() | StopReplicaReply():
            kind = "LeaderAndIsr" if isinstance(message, LeaderAndIsrReply) else "StopReplica"
            errors = _list(f"{tp} {error.name}" for tp, error in message.errors)
            return _answered(kind, message.error), errors, [tp for tp, _ in message.errors]
        case UpdateMetadataReply():
            return _refused("UpdateMetadata", message.error), "", ()
        case LogInfoReply():
            log_ends_in_words = _list(f"{end.tp} epoch={end.last_epoch} leo={end.leo}" for end in message.ends)
            words = f"{log_ends_in_words} offline={_list(message.offline)}"
            return _answered("LogInfo", message.error), words, [end.tp for end in message.ends]
        case IsrChangeReply():
            results = "; ".join(
                f"{result.error.name} {'' if result.state is None else _state(result.state, names)}" for result in message.results
            )
            refusal = next((result.error for result in message.results if result.error is not ErrorCode.NONE), message.error)
            tps = [result.state.tp for result in message.results if result.state is not None]
            return _answered("IsrChange", refusal), results, tps
        case EpochEndReply():
            words = f"{message.tp} epoch={message.leader_epoch} end={message.end_offset}"
            return _answered("OffsetForLeaderEpoch", message.error), words, [message.tp]
        case MetadataHeartbeatReply():
            return _refused("MetadataHeartbeat", message.error), f"state={message.current_state.value}", ()
        case FetchReply():
            return _refused("Fetch", message.error), message.tp, [message.tp]
        case ProduceReply():
            return _refused("Produce", message.error), message.tp, [message.tp]
        case ListOffsetsReply():
            return _refused("ListOffsets", message.error), message.tp, [message.tp]
        case MetadataReply():
            return _refused("Metadata", message.error), "", ()
        case InitProducerIdReply():
            return _refused("InitProducerId", message.error), "", ()
        case _:
            assert_never(message)


def _answered(kind: str, error: ErrorCode) -> str:
    return _refused(kind, error) or f"{kind} answered"


def _refused(kind: str, error: ErrorCode) -> str:
    return "" if error is ErrorCode.NONE else f"{kind} refused with {error.name}"


def _sender(command: LeaderAndIsr | StopReplica | UpdateMetadata | LogInfo, names: _Names) -> str:
    """As whom a controller speaks, and to which registration."""
    to = names.registration(Incarnation(command.broker_incarnation)) or "#1"
    return f"controller=b{command.controller} controller_epoch={command.controller_epoch} registration{to}"


def _state(state: PartitionState, names: _Names) -> str:
    """A partition's state as messages tell it."""
    leader = "none" if state.leader is None else f"b{state.leader}{names.registration(state.leader_incarnation)}"
    return (
        f"{names.partition(state.tp, state.topic_id)} leader={leader} leader_epoch={state.leader_epoch} "
        f"isr={names.members(state.isr)} elr={names.members(state.elr)} zk_version={state.zk_version} "
        f"controller_epoch={state.controller_epoch} replicas={_list(f'b{broker}' for broker in state.replicas)} "
        f"offline={_list(f'b{broker}' for broker in state.offline)}"
    )


def _list(items: Sequence[object] | Iterator[str]) -> str:
    return "{" + ",".join(map(str, items)) + "}"


def _arrived(history: History) -> list[tuple[str, int]]:
    """How many messages of each kind and error arrived."""
    return [(f"{count.kind} {count.error or ''}".rstrip(), count.count) for count in history.manifest.messages]


def _answers(operations: Sequence[Operation]) -> list[tuple[str, int]]:
    """How the calls of clients ended, by kind of call, type and error."""
    ended = Counter(
        f"{row.f} {row.type} {row.error or ''}".rstrip() for row in operations if row.type is not OpType.INVOKE and row.slot == 0
    )
    return sorted(ended.items())
