"""Facts that the rules need of a process beyond their own spans: its role, what the controller knows of brokers, its states."""

from collections.abc import Iterable
from typing import Any

from monitors.engine import Keep
from monitors.patterns import (
    ANY,
    Exchange,
    Heard,
    Memory,
    Outcome,
    Sent,
    answered,
    asked,
    did,
    fired,
    heard,
    noted,
    read,
    replied,
    sent,
)
from reference.coordination import admin_paths, paths
from reference.coordination.api import Children, Create, Created, Data, Delete, Exists, GetChildren, GetData, SetData, Written
from reference.effects import CreateReplica, Note, WriteCheckpoint
from reference.errors import ErrorCode
from reference.events import Received, ShutDown, ZkState
from reference.messages import (
    EpochEnd,
    Fetch,
    InitProducerId,
    IsrChange,
    LeaderAndIsr,
    ListOffsets,
    LogInfo,
    Metadata,
    MetadataHeartbeat,
    MetadataHeartbeatReply,
    PartitionState,
    Produce,
    StopReplica,
    UpdateMetadata,
)
from reference.sealed import count
from reference.timers import Timer
from reference.types import BrokerId, TopicPartition, broker_address

COMMANDS = (LeaderAndIsr, StopReplica, LogInfo, UpdateMetadata)
SERVED = (Produce, Fetch, EpochEnd, ListOffsets, Metadata, InitProducerId)  # requests that a fenced broker refuses


# --- this broker ------------------------------------------------------------------------------------------------------------


def _role(note: Note, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """Whom the replica follows: the address of its leader, "" where it leads."""
    match note.kind:
        case "became-leader":
            yield note.tp, ""
        case "became-follower":
            yield note.tp, None if note.leader is None else broker_address(note.leader)
        case _:
            yield note.tp, None


def _high_watermark(note: Note, memory: Memory) -> Iterable[tuple[Any, Any]]:
    return [(note.tp, None if note.kind == "replica-deleted" else note.hw)]


def _log_end(note: Note, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """The log end offset; not known after a truncation, which may cut a sealed batch at its begin, before `offset`."""
    match note.kind:
        case "append":
            last = note.batches[-1]
            return [(note.tp, last.base_offset + count(last.values))]
        case "recovered":
            return [(note.tp, note.leo)]
        case _:
            return [(note.tp, None)]


def _reset_heartbeat(event: Heard | ZkState, memory: Memory) -> Iterable[tuple[Any, Any]]:
    if isinstance(event, ZkState):
        if event.state == "expired":
            yield None, None
    elif event.message.correlation == memory.of("heartbeat"):
        yield None, None


def _obeyed(exchange: Exchange, memory: Memory) -> Iterable[tuple[Any, Any]]:
    if exchange.reply.error is ErrorCode.NONE:
        yield None, max(exchange.request.controller_epoch, memory.of("obeyed", default=-1))


def _buried(event: Heard, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """The latest command that deleted a replica, by the controller's epoch and its number."""
    command = event.message
    for stop in command.partitions:
        if stop.delete:
            yield stop.tp, max((command.controller_epoch, command.number), memory.of("buried", stop.tp, (-1, -1)))


def _last_fetch(send: Sent, memory: Memory) -> Iterable[tuple[Any, Any]]:
    return [] if send.message.replica is None else [(send.message.tp, send.message.correlation)]


def _told_metadata(exchange: Exchange, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """The states that the controller told last; an earlier state of a partition replaces no later one."""
    command = exchange.request
    order = (command.controller_epoch, command.number)
    if exchange.reply.error is not ErrorCode.NONE or order < memory.of("metadata-order", default=order):
        return
    before = dict(memory.facts["metadata"])
    if command.full:
        yield ANY, None
    for state in command.states:
        known = before.get(state.tp)
        yield state.tp, state if known is None or _age(known) <= _age(state) else known


def _age(state: PartitionState) -> tuple[int, int, int]:
    return state.topic_id, state.leader_epoch, state.zk_version


def _metadata_order(exchange: Exchange, memory: Memory) -> Iterable[tuple[Any, Any]]:
    command = exchange.request
    if exchange.reply.error is ErrorCode.NONE:
        order = (command.controller_epoch, command.number)
        yield None, max(order, memory.of("metadata-order", default=order))


def greeting(send: Sent) -> tuple[Any, ...]:
    """A registration and the controller's epoch: what full metadata is owed to first."""
    return send.to, send.message.controller_epoch, send.message.broker_incarnation


# --- the controller ---------------------------------------------------------------------------------------------------------


def _accepted(exchange: Exchange, memory: Memory) -> Iterable[tuple[Any, Any]]:
    request = exchange.request
    if exchange.reply.error is ErrorCode.NONE:
        yield request.broker, max(request.incarnation, memory.of("accepted", request.broker, -1))


def _state(outcome: Outcome, memory: Memory) -> Iterable[tuple[Any, Any]]:
    tp = paths.tp_of_state_path(outcome.op.path)
    if tp is not None and isinstance(outcome.answer, Data):
        yield tp, paths.decode_state(tp, (), outcome.answer)


def is_in_flight(exchange: Exchange, memory: Memory) -> bool:
    """Whether this answers the command in flight; the controller does not hear an answer that comes after the timeout."""
    return bool(memory.of("in-flight", exchange.peer) == exchange.request.correlation)


def _held(outcome: Outcome, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """A state as ZooKeeper showed or took it: by partition, leader epoch and version the leader and the ISR."""
    tp = paths.tp_of_state_path(outcome.op.path)
    if tp is None:
        return
    match outcome.answer:
        case Data():
            node = outcome.answer
        case Written(version=version):
            node = Data(outcome.op.data, version, 0)
        case Created():
            node = Data(outcome.op.data, 0, 0)
        case _:
            return
    state = paths.decode_state(tp, (), node)
    yield (tp, state.leader_epoch, state.zk_version), (state.leader, state.isr)


def _unreadable(exchange: Exchange, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """Which replicas a broker says are in a failed directory."""
    if not is_in_flight(exchange, memory):
        return
    broker = exchange.peer[1:]
    if isinstance(exchange.request, LogInfo):
        for tp in exchange.reply.offline:
            yield (tp, broker, exchange.request.broker_incarnation), True
    else:
        for tp, error in exchange.reply.errors:
            yield (tp, broker, exchange.request.broker_incarnation), error is ErrorCode.KAFKA_STORAGE_ERROR or None


def _registered(outcome: Outcome, memory: Memory) -> Iterable[tuple[Any, Any]]:
    if outcome.op.path == paths.BROKER_IDS and isinstance(outcome.answer, Children):
        yield None, frozenset(BrokerId(int(name)) for name in outcome.answer.names if name.isdecimal())


def _registered_before(outcome: Outcome, memory: Memory) -> Iterable[tuple[Any, Any]]:
    if outcome.op.path == paths.BROKER_IDS:
        yield None, memory.of("registered")


def _owner(outcome: Outcome, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """The session that an ephemeral znode belongs to, by the last answer about it."""
    match outcome.answer:
        case Data(owner=owner) if owner:
            yield outcome.op.path, owner
        case Created() if outcome.op.ephemeral:
            yield outcome.op.path, memory.of("session")


def topic_at(path: str) -> str | None:
    """The topic whose znode stands at this path; None for other paths."""
    topic = path.removeprefix(f"{paths.TOPICS}/")
    return topic if path == paths.topic_path(topic) and "/" not in topic else None


def _assigned(outcome: Outcome, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """The replicas of partitions, as ZooKeeper showed them or took them from this process."""
    topic = topic_at(outcome.op.path)
    if topic is None:
        return
    match outcome.answer:
        case Data(data=data):
            yield from paths.decode_topic(topic, data)
        case Written() | Created():
            yield from paths.decode_topic(topic, outcome.op.data)


def _moving(outcome: Outcome, memory: Memory) -> Iterable[tuple[Any, Any]]:
    if outcome.op.path == admin_paths.REASSIGN and isinstance(outcome.answer, Data):
        for tp in admin_paths.decode_reassignments(outcome.answer.data)[0]:
            yield tp, True


def _idle(exchange: Exchange, memory: Memory) -> Iterable[tuple[Any, Any]]:
    if is_in_flight(exchange, memory) and exchange.reply.error is not ErrorCode.STALE_BROKER_EPOCH:
        yield exchange.peer, None


def _ordered(outcome: Outcome, memory: Memory) -> Iterable[tuple[Any, Any]]:
    if outcome.op.path == paths.UNCLEAN_ELECTION and isinstance(outcome.answer, Data):
        for tp in paths.decode_preferred(outcome.answer.data):
            yield tp, True


def _forgotten(note: Note, memory: Memory) -> Iterable[tuple[Any, Any]]:
    yield ANY, None


def _living(item: Outcome | Heard, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """The latest registration of a broker that the controller has read, or heard of."""
    if isinstance(item, Outcome):
        name = item.op.path.removeprefix(f"{paths.BROKER_IDS}/")
        if name.isdecimal() and isinstance(item.answer, Data):
            yield name, item.answer.czxid
    elif memory.of("office"):
        name = str(item.message.broker)
        yield name, max(item.message.incarnation, memory.of("living", name, -1))


def _led_from(note: Note, memory: Memory) -> Iterable[tuple[Any, Any]]:
    command = memory.event.message if isinstance(memory.event, Received) else None
    told = command.states if note.kind == "became-leader" and isinstance(command, LeaderAndIsr) else ()
    yield note.tp, next((state.zk_version for state in told if state.tp == note.tp), None)


def _stopped(send: Sent, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """A replica that is stopped may be created again in another directory, and all replicas of a partition that is deleted."""
    stops = {stop.tp: stop.moved for stop in send.message.partitions}
    for key in [*memory.facts["unreadable"]]:
        tp, broker, _ = key
        if tp in stops and (broker_address(broker) == send.to or not stops[tp]):
            yield key, None


def is_unreadable(memory: Memory, tp: TopicPartition, broker: BrokerId) -> bool:
    """Whether the broker has answered, under its latest registration, that its replica is in a failed directory."""
    return bool(memory.of("unreadable", (tp, str(broker), memory.of("living", str(broker)))))


def _told_live(send: Sent, memory: Memory) -> Iterable[tuple[Any, Any]]:
    yield None, frozenset(send.message.live_brokers)


def _heard_of(event: Heard, memory: Memory) -> Iterable[tuple[Any, Any]]:
    told = memory.of("told-live")
    if told is not None:
        yield None, told | {event.message.broker}


FACTS: tuple[Keep, ...] = (
    Keep(fact="role", of=noted("became-leader", "became-follower", "resigned", "replica-deleted", keys=_role)),
    Keep(fact="epoch", of=noted("became-leader", "became-follower", keys=lambda note, _: [(note.tp, note.leader_epoch)])),
    Keep(
        fact="hw",
        of=(
            *noted("became-leader", "hw", "recovered", "replica-deleted", keys=_high_watermark),
            *did(CreateReplica, keys=lambda created, _: [(created.tp, None)]),
        ),
    ),
    Keep(
        fact="leo",
        of=(
            *noted("append", "recovered", "truncate", "replica-deleted", keys=_log_end),
            *did(CreateReplica, keys=lambda created, _: [(created.tp, 0)]),
        ),
    ),
    Keep(
        fact="dir",
        of=(
            *noted("recovered", "replica-deleted", keys=lambda note, _: [(note.tp, note.dir)]),
            *did(CreateReplica, keys=lambda created, _: [(created.tp, created.dir)]),
        ),
    ),
    Keep(
        fact="led-from",  # the version of the state in the command that made a replica leader, until an ISR change is answered
        of=(
            *noted("became-leader", "became-follower", "resigned", "replica-deleted", keys=_led_from),
            *answered(IsrChange, keys=lambda exchange, _: [(change.tp, None) for change in exchange.request.changes]),
        ),
    ),
    Keep(
        fact="proposed",  # the correlation of the last proposal for a partition that waits for its answer
        of=(
            *sent(IsrChange, keys=lambda send, _: [(change.tp, send.message.correlation) for change in send.message.changes]),
            *noted("became-leader", "became-follower", "resigned", keys=lambda note, _: [(note.tp, None)]),
            *fired(Timer.ASK_ISR, keys=lambda item, _: [(item.about, None)]),
        ),
    ),
    Keep(  # the ISRs that leaders have proposed to this broker
        fact="proposal", of=heard(IsrChange, keys=lambda e, _: [((change.tp, change.isr), True) for change in e.message.changes])
    ),
    Keep(fact="checkpoint", of=did(WriteCheckpoint, keys=lambda e, _: [(e.dir, tuple(tp for tp, _ in e.entries))])),
    Keep(
        fact="fetch",  # the correlation of a follower's last request
        of=(
            *sent(Fetch, EpochEnd, keys=_last_fetch),
            *noted("became-leader", "became-follower", "resigned", keys=lambda note, _: [(note.tp, None)]),
        ),
    ),
    Keep(fact="metadata", of=replied(UpdateMetadata, keys=_told_metadata)),
    Keep(fact="metadata-order", of=replied(UpdateMetadata, keys=_metadata_order)),
    Keep(fact="failed-dir", of=noted("dir-failed", keys=lambda note, _: [(note.dir, True)])),
    Keep(
        fact="registration",
        of=(
            *noted("registered", keys=lambda note, _: [(None, note.incarnation)]),
            *heard(ZkState, keys=lambda event, _: [(None, None)] if event.state == "expired" else []),
        ),
    ),
    Keep(fact="fenced", of=noted("fenced", "unfenced", keys=lambda note, _: [(None, note.kind == "fenced" or None)])),
    Keep(fact="shutting-down", of=heard(ShutDown, keys=lambda event, _: [(None, True)])),
    Keep(
        fact="heartbeat",  # the correlation of the one that waits for its answer
        of=(
            *sent(MetadataHeartbeat, keys=lambda send, _: [(None, send.message.correlation)]),
            *heard(MetadataHeartbeatReply, ZkState, keys=_reset_heartbeat),
        ),
    ),
    Keep(fact="buried", of=heard(StopReplica, keys=_buried)),
    Keep(fact="obeyed", of=replied(*COMMANDS, keys=_obeyed)),
    Keep(
        fact="office",
        of=noted("controller-elected", "controller-resigned", keys=lambda n, _: [(None, n.kind == "controller-elected" or None)]),
    ),
    Keep(fact="term", of=noted("controller-elected", keys=lambda note, _: [(None, note.controller_epoch)])),
    Keep(fact="greeted", of=sent(UpdateMetadata, keys=lambda send, _: [(greeting(send), True)])),  # brokers told full metadata
    Keep(
        fact="standing",  # what the controller thinks of a broker
        of=(
            *noted("broker-state", keys=lambda note, _: [(note.broker, (note.detail, note.incarnation))]),
            *noted("controller-resigned", keys=lambda note, _: [(ANY, None)]),
        ),
    ),
    Keep(
        fact="commanding",
        of=(
            *sent(*COMMANDS, keys=lambda send, _: [(None, True)]),
            *noted("controller-elected", "controller-resigned", keys=lambda n, _: [(None, None)]),
        ),
    ),
    Keep(fact="accepted", of=replied(MetadataHeartbeat, keys=_accepted)),
    Keep(fact="registered-before", of=read(GetChildren, keys=_registered_before)),
    Keep(fact="registered", of=read(GetChildren, keys=_registered)),
    Keep(fact="commanded", of=sent(*COMMANDS, keys=lambda send, _: [(send.to, send.message.broker_incarnation)])),
    Keep(fact="assigned", of=(*noted("controller-elected", keys=_forgotten), *read(GetData, keys=_assigned))),
    Keep(fact="listed", of=read(GetData, keys=_living)),  # the same, without what only heartbeats name
    Keep(fact="living", of=(*read(GetData, keys=_living), *heard(MetadataHeartbeat, keys=_living))),
    Keep(
        fact="unreadable",  # replicas in a failed directory, as their brokers answered under this registration
        of=(
            *answered(LeaderAndIsr, LogInfo, keys=_unreadable),
            *sent(StopReplica, keys=_stopped),
            *noted("controller-elected", keys=_forgotten),
        ),
    ),
    Keep(
        fact="in-flight",  # the correlation of the command that a broker has not answered
        of=(
            *sent(*COMMANDS, keys=lambda send, _: [(send.to, send.message.correlation)]),
            *noted("command-unanswered", keys=lambda note, _: [(broker_address(note.broker), None)]),
        ),
    ),
    Keep(
        fact="busy",  # brokers that are told nothing now: a command is in flight, or is sent again later
        of=(
            *sent(*COMMANDS, keys=lambda send, _: [(send.to, True)]),
            *answered(*COMMANDS, keys=_idle),
            *fired(Timer.CHANNEL, keys=lambda item, _: [(broker_address(BrokerId(int(item.about))), None)]),
        ),
    ),
    Keep(
        fact="moving", of=read(GetData, Exists, keys=_moving)
    ),  # partitions that were reassigned: replicas that go are told less
    Keep(fact="replicas", of=(*noted("controller-elected", keys=_forgotten), *read(GetData, SetData, Create, keys=_assigned))),
    Keep(
        fact="deleted",  # partitions that are being deleted: their znodes are looked for first
        of=(
            *asked(Exists, Delete, keys=lambda op, _: [(paths.tp_of_state_path(op.path), True)]),
            *asked(Create, keys=lambda op, _: [(paths.tp_of_state_path(op.path), None)]),
        ),
    ),
    Keep(fact="session", of=heard(ZkState, keys=lambda event, _: [(None, event.session)] if event.state == "connected" else [])),
    Keep(fact="owns", of=read(Create, GetData, Exists, keys=_owner)),
    Keep(fact="ordered", of=read(GetData, keys=_ordered)),  # the partitions of unclean elections that an operator ordered
    Keep(fact="state", of=(*noted("controller-elected", keys=_forgotten), *read(GetData, keys=_state))),
    Keep(fact="held", of=read(GetData, SetData, Create, keys=_held)),
    Keep(
        fact="spoken-to",  # brokers that were sent a command in this term
        of=(*sent(*COMMANDS, keys=lambda send, _: [(send.to, True)]), *noted("controller-elected", keys=_forgotten)),
    ),
    Keep(
        fact="told-live",  # the brokers that serve by the last metadata told, and those heard of since
        of=(
            *sent(UpdateMetadata, keys=_told_live),
            *heard(MetadataHeartbeat, keys=_heard_of),
            *noted("controller-resigned", keys=lambda n, _: [(None, None)]),
        ),
    ),
)
