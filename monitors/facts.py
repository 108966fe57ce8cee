"""Facts that the rules need of a process beyond their own spans: its role, what the controller knows of brokers, its states."""

from collections.abc import Iterable
from typing import Any

from monitors.engine import Keep
from monitors.logs import LOG_FACTS
from monitors.patterns import (
    ANY,
    Exchange,
    Heard,
    Key,
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
from reference.effects import CancelTimer, CreateReplica, Note, WriteCheckpoint
from reference.errors import ErrorCode
from reference.events import Received, ShutDown, ZkState
from reference.messages import (
    EpochEnd,
    Fetch,
    InitProducerId,
    IsrChange,
    IsrMember,
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
from reference.timers import Timer, timer_named
from reference.types import NO_INCARNATION, NO_TOPIC_ID, BrokerId, TopicPartition, broker_address

COMMANDS = (LeaderAndIsr, StopReplica, LogInfo, UpdateMetadata)
SERVED = (Produce, Fetch, EpochEnd, ListOffsets, Metadata, InitProducerId)  # requests that a fenced broker refuses


def number_of(event: Heard, memory: Memory) -> Iterable[Key]:
    """(sender, correlation) of a request, which its answer names. The next process of the sender counts from the beginning."""
    yield event.source, event.message.correlation


def obeyed_command(exchange: Exchange, memory: Memory) -> Iterable[Key]:
    """(sender, correlation) of a command that was answered without error."""
    if exchange.reply.error is ErrorCode.NONE:
        yield exchange.peer, exchange.reply.correlation


# --- this broker ------------------------------------------------------------------------------------------------------------


def _leader_followed(note: Note, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """(partition, the address of the leader that the replica follows); "" where it leads, None without a role."""
    match note.kind:
        case "became-leader":
            yield note.tp, ""
        case "became-follower":
            yield note.tp, None if note.leader is None else broker_address(note.leader)
        case _:
            yield note.tp, None


def _high_watermark(note: Note, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """(partition, its HW), None once the replica is deleted."""
    return [(note.tp, None if note.kind == "replica-deleted" else note.hw)]


def _reset_heartbeat(event: Heard | ZkState, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """No heartbeat is awaited any more: its answer has come, or the session has expired."""
    if isinstance(event, ZkState):
        if event.state == "expired":
            yield None, None
    elif event.message.correlation == memory.of("heartbeat"):
        yield None, None


def _epoch_obeyed(exchange: Exchange, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """The greatest controller epoch of which a command was obeyed."""
    if exchange.reply.error is ErrorCode.NONE:
        yield None, max(exchange.request.controller_epoch, memory.of("obeyed", default=-1))


def _order_of_deletion(event: Heard, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """(partition, (controller epoch, number) of the latest command that deleted its replica)."""
    command = event.message
    for stop in command.partitions:
        if stop.delete:
            yield stop.tp, max((command.controller_epoch, command.number), memory.of("buried", stop.tp, (-1, -1)))


def _correlation_of_fetch(send: Sent, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """(partition, correlation) of a follower's request; a client's has none."""
    return [] if send.message.replica is None else [(send.message.tp, send.message.correlation)]


def _states_told(exchange: Exchange, memory: Memory) -> Iterable[tuple[Any, Any]]:
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
        yield state.tp, state if known is None or _is_no_older(state, known) else known


def _is_no_older(state: PartitionState, known: PartitionState) -> bool:
    """By topic, epoch and version; a state in a layout without topic ids is of the known topic (R-316)."""
    if state.topic_id != known.topic_id and NO_TOPIC_ID not in (state.topic_id, known.topic_id):
        return state.topic_id > known.topic_id
    return (state.leader_epoch, state.zk_version) >= (known.leader_epoch, known.zk_version)


def is_same_isr(isr: tuple[IsrMember, ...], other_isr: tuple[IsrMember, ...]) -> bool:
    """Whether two ISRs are one; a member without a registration, as in an older layout, stands for its broker (R-316)."""
    return isr == other_isr or (
        [member.broker for member in isr] == [member.broker for member in other_isr]
        and all(a == b or NO_INCARNATION in (a.incarnation, b.incarnation) for a, b in zip(isr, other_isr, strict=True))
    )


def _metadata_order(exchange: Exchange, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """The greatest (controller epoch, number) of the UpdateMetadata requests that this broker has accepted."""
    command = exchange.request
    if exchange.reply.error is ErrorCode.NONE:
        order = (command.controller_epoch, command.number)
        yield None, max(order, memory.of("metadata-order", default=order))


def greeting(send: Sent) -> tuple[Any, ...]:
    """A registration and the controller's epoch: what full metadata is owed to first."""
    return send.to, send.message.controller_epoch, send.message.broker_incarnation


# --- the controller ---------------------------------------------------------------------------------------------------------


def _incarnation_accepted(exchange: Exchange, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """(broker, the latest incarnation of which a heartbeat was accepted)."""
    request = exchange.request
    if exchange.reply.error is ErrorCode.NONE:
        yield request.broker, max(request.incarnation, memory.of("accepted", request.broker, -1))


def _state_read(outcome: Outcome, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """(partition, its state as ZooKeeper showed it)."""
    tp = paths.tp_of_state_path(outcome.op.path)
    if tp is not None and isinstance(outcome.answer, Data):
        yield tp, paths.decode_state(tp, (), outcome.answer)


def is_in_flight(exchange: Exchange, memory: Memory) -> bool:
    """Whether this answers the command in flight; the controller does not hear an answer that comes after the timeout."""
    return bool(memory.of("in-flight", exchange.peer) == exchange.request.correlation)


def _leader_and_isr_held(outcome: Outcome, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """((partition, leader epoch, version), (leader, ISR)) of a state that ZooKeeper showed or took."""
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


def _unreadable_replicas(exchange: Exchange, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """((partition, broker, incarnation), True) for each replica that a broker says is in a failed directory."""
    if not is_in_flight(exchange, memory):
        return
    broker = exchange.peer[1:]
    if isinstance(exchange.request, LogInfo):
        for tp in exchange.reply.offline:
            yield (tp, broker, exchange.request.broker_incarnation), True
    else:
        for tp, error in exchange.reply.errors:
            yield (tp, broker, exchange.request.broker_incarnation), error is ErrorCode.KAFKA_STORAGE_ERROR or None


def _registered_brokers(outcome: Outcome, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """The ids of the brokers that the last list of registrations names."""
    if outcome.op.path == paths.BROKER_IDS and isinstance(outcome.answer, Children):
        yield None, frozenset(BrokerId(int(name)) for name in outcome.answer.names if name.isdecimal())


def _listed_topics(outcome: Outcome, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """The names of the last list of topics."""
    if outcome.op.path == paths.TOPICS and isinstance(outcome.answer, Children):
        yield None, frozenset(outcome.answer.names)


def _registrations_to_read(outcome: Outcome, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """(broker as text, True) of each that came into the list or whose registration was missing; None once it is read."""
    name = outcome.op.path.removeprefix(f"{paths.BROKER_IDS}/")
    if outcome.op.path == paths.BROKER_IDS and isinstance(outcome.answer, Children):
        known = memory.of("registered", default=())
        yield from ((name, True) for name in outcome.answer.names if name.isdecimal() and BrokerId(int(name)) not in known)
    elif name.isdecimal():
        yield name, None if isinstance(outcome.answer, Data) else True


def _owning_session(outcome: Outcome, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """(path, the session that this ephemeral znode belongs to), by the last answer about it."""
    match outcome.answer:
        case Data(owner=owner) if owner:
            yield outcome.op.path, owner
        case Created() if outcome.op.ephemeral:
            yield outcome.op.path, memory.of("session")


def topic_at(path: str) -> str | None:
    """The topic whose znode stands at this path; None for other paths."""
    topic = path.removeprefix(f"{paths.TOPICS}/")
    return topic if path == paths.topic_path(topic) and "/" not in topic else None


def _assigned_replicas(outcome: Outcome, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """(partition, its replicas), as ZooKeeper showed them or took them from this process."""
    topic = topic_at(outcome.op.path)
    if topic is None:
        return
    match outcome.answer:
        case Data(data=data):
            yield from paths.decode_topic(topic, data)
        case Written() | Created():
            yield from paths.decode_topic(topic, outcome.op.data)


def _version_of_assignment(outcome: Outcome, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """(topic, version of its znode), as ZooKeeper showed it or made it at this process's request."""
    topic = topic_at(outcome.op.path)
    if topic is not None and isinstance(outcome.answer, Data | Written):
        yield topic, outcome.answer.version


def _replicas_read_to_delete(outcome: Outcome, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """(partition, the replicas that were read until a deletion looked for its state znode)."""
    tp = paths.tp_of_state_path(outcome.op.path)
    if tp is not None:
        yield tp, frozenset({*memory.of("read-to-delete", tp, ()), *memory.of("assigned", tp, ())})


def _moving_partitions(outcome: Outcome, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """The partitions of the reassignment that was read, each with True."""
    if outcome.op.path == admin_paths.REASSIGN and isinstance(outcome.answer, Data):
        for tp in admin_paths.decode_reassignments(outcome.answer.data)[0]:
            yield tp, True


def _pending_moves(outcome: Outcome, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """(partition, its entry: the replicas that it moves to, the original ones) of the reassignment that was read last."""
    if outcome.op.path == admin_paths.REASSIGN:
        yield ANY, None
        if isinstance(outcome.answer, Data):
            yield from admin_paths.decode_reassignments(outcome.answer.data)[0].items()


def _brokers_notifying(outcome: Outcome, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """(address, True) of the broker that notified of a failed directory."""
    if outcome.op.path.startswith(f"{paths.LOG_DIR_EVENTS}/") and isinstance(outcome.answer, Data):
        broker = paths.decode_log_dir_event(outcome.answer.data)
        if broker is not None:
            yield broker_address(broker), True


def _states_obeyed(exchange: Exchange, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """((address, registration, partition), state) of a command that was obeyed."""
    if exchange.reply.error is ErrorCode.NONE and is_in_flight(exchange, memory):
        for state in exchange.request.states:
            yield (exchange.peer, exchange.request.broker_incarnation, state.tp), state


def _states_ended(send: Sent, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """((address, registration, partition), None) of each replica that is stopped."""
    for stop in send.message.partitions:
        yield (send.to, send.message.broker_incarnation, stop.tp), None


def _moves_asked_beside(outcome: Outcome, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """The partitions of the extra reassignment that was read last, each with True."""
    if outcome.op.path == admin_paths.REASSIGN_EXTRA:
        yield ANY, None
        if isinstance(outcome.answer, Data):
            yield from ((tp, True) for tp in admin_paths.decode_reassignments(outcome.answer.data)[0])


def _cancellation(outcome: Outcome, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """Whether the znode was there that cancels all moves."""
    if outcome.op.path == admin_paths.REASSIGN_CANCEL:
        yield None, isinstance(outcome.answer, Data) or None


def _deletions_told(send: Sent, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """((partition, address, incarnation), True) of each replica that is told to delete its log."""
    for stop in send.message.partitions:
        if stop.delete:
            yield (stop.tp, send.to, send.message.broker_incarnation), True


def _broker_free_again(exchange: Exchange, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """The address of a broker that answered the command in flight and waits for no repetition, with None."""
    if is_in_flight(exchange, memory) and exchange.reply.error is not ErrorCode.STALE_BROKER_EPOCH:
        yield exchange.peer, None


def _elections_ordered(outcome: Outcome, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """The partitions of the unclean election that was read, each with True."""
    if outcome.op.path == paths.UNCLEAN_ELECTION and isinstance(outcome.answer, Data):
        for tp in paths.decode_preferred(outcome.answer.data):
            yield tp, True


def _forget_all(note: Note, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """The pair that clears a fact."""
    yield ANY, None


def _latest_registration(item: Outcome | Heard, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """(broker as text, its latest registration that the controller has read, or heard of)."""
    if isinstance(item, Outcome):
        name = item.op.path.removeprefix(f"{paths.BROKER_IDS}/")
        if name.isdecimal() and isinstance(item.answer, Data):
            yield name, item.answer.czxid
    elif memory.of("office"):
        name = str(item.message.broker)
        yield name, max(item.message.incarnation, memory.of("living", name, -1))


def _legacy_registration(outcome: Outcome, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """(broker as text, its registration) if the controller has read that it sends no heartbeats (R-206); None for another."""
    name = outcome.op.path.removeprefix(f"{paths.BROKER_IDS}/")
    if name.isdecimal() and isinstance(outcome.answer, Data):
        yield name, outcome.answer.czxid if paths.is_legacy_registration(outcome.answer.data) else None


def _version_led_from(note: Note, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """(partition, version of the state by which its replica leads), None when it no longer does."""
    command = memory.event.message if isinstance(memory.event, Received) else None
    commanded_states = command.states if note.kind == "became-leader" and isinstance(command, LeaderAndIsr) else ()
    yield note.tp, next((state.zk_version for state in commanded_states if state.tp == note.tp), None)


def _readable_after_stop(send: Sent, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """Replicas that may be created again in another directory: one that is stopped, all of a deleted partition."""
    stops = {stop.tp: stop.moved for stop in send.message.partitions}
    for key in [*memory.facts["unreadable"]]:
        tp, broker, _ = key
        if tp in stops and (broker_address(broker) == send.to or not stops[tp]):
            yield key, None


def is_unreadable(memory: Memory, tp: TopicPartition, broker: BrokerId) -> bool:
    """Whether the broker has answered, under its latest registration, that its replica is in a failed directory."""
    return bool(memory.of("unreadable", (tp, str(broker), memory.of("living", str(broker)))))


def _live_brokers_told(send: Sent, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """The live brokers of the metadata that are sent."""
    yield None, frozenset(send.message.live_brokers)


def _live_with_sender(event: Heard, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """The live brokers told last, and the sender of this heartbeat."""
    live_brokers = memory.of("told-live")
    if live_brokers is not None:
        yield None, live_brokers | {event.message.broker}


def _standing_dropped(effect: CancelTimer, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """R-182: a broker whose registration is gone is inactive, without a note; its timer may fire once more after a pause."""
    timer, about = timer_named(effect.name)
    if timer is Timer.SILENCE:
        yield BrokerId(int(about)), None


FACTS: tuple[Keep, ...] = (
    *LOG_FACTS,
    Keep(fact="role", of=noted("became-leader", "became-follower", "resigned", "replica-deleted", keys=_leader_followed)),
    Keep(fact="epoch", of=noted("became-leader", "became-follower", keys=lambda note, _: [(note.tp, note.leader_epoch)])),
    Keep(
        fact="hw",
        of=(
            *noted("became-leader", "hw", "recovered", "replica-deleted", keys=_high_watermark),
            *did(CreateReplica, keys=lambda created, _: [(created.tp, None)]),
        ),
    ),
    Keep(
        fact="led-from",  # the version of the state in the command that made a replica leader, until an ISR change is answered
        of=(
            *noted("became-leader", "became-follower", "resigned", "replica-deleted", keys=_version_led_from),
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
            *sent(Fetch, EpochEnd, keys=_correlation_of_fetch),
            *noted("became-leader", "became-follower", "resigned", keys=lambda note, _: [(note.tp, None)]),
        ),
    ),
    Keep(fact="metadata", of=replied(UpdateMetadata, keys=_states_told)),
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
    Keep(fact="buried", of=heard(StopReplica, keys=_order_of_deletion)),
    Keep(fact="obeyed", of=replied(*COMMANDS, keys=_epoch_obeyed)),
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
            *did(CancelTimer, keys=_standing_dropped),
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
    Keep(fact="accepted", of=replied(MetadataHeartbeat, keys=_incarnation_accepted)),
    Keep(fact="unread", of=read(GetChildren, GetData, keys=_registrations_to_read)),  # registrations that came, also again
    Keep(fact="topics", of=read(GetChildren, keys=_listed_topics)),
    Keep(fact="registered", of=read(GetChildren, keys=_registered_brokers)),
    Keep(fact="commanded", of=sent(*COMMANDS, keys=lambda send, _: [(send.to, send.message.broker_incarnation)])),
    Keep(fact="assigned", of=(*noted("controller-elected", keys=_forget_all), *read(GetData, keys=_assigned_replicas))),
    Keep(fact="topic-version", of=read(GetData, SetData, keys=_version_of_assignment)),
    Keep(fact="legacy", of=read(GetData, keys=_legacy_registration)),
    Keep(fact="listed", of=read(GetData, keys=_latest_registration)),  # the same, without what only heartbeats name
    Keep(fact="living", of=(*read(GetData, keys=_latest_registration), *heard(MetadataHeartbeat, keys=_latest_registration))),
    Keep(
        fact="unreadable",  # replicas in a failed directory, as their brokers answered under this registration
        of=(
            *answered(LeaderAndIsr, LogInfo, keys=_unreadable_replicas),
            *sent(StopReplica, keys=_readable_after_stop),
            *noted("controller-elected", keys=_forget_all),
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
            *answered(*COMMANDS, keys=_broker_free_again),
            *fired(Timer.CHANNEL, keys=lambda item, _: [(broker_address(BrokerId(int(item.about))), None)]),
        ),
    ),
    Keep(
        fact="moving", of=read(GetData, Exists, keys=_moving_partitions)
    ),  # partitions that were reassigned: replicas that go are told less
    Keep(  # brokers whose notification of a failed directory was read in this term
        fact="notified",
        of=(*read(GetData, keys=_brokers_notifying), *noted("controller-elected", keys=_forget_all)),
    ),
    Keep(
        fact="answered",  # the state of a partition that a registration has obeyed in this term, until its replica is stopped
        of=(
            *answered(LeaderAndIsr, keys=_states_obeyed),
            *sent(StopReplica, keys=_states_ended),
            *noted("controller-elected", keys=_forget_all),
        ),
    ),
    Keep(fact="pending", of=read(Exists, keys=_pending_moves)),
    Keep(fact="extra", of=read(Exists, keys=_moves_asked_beside)),
    Keep(fact="cancelled", of=read(Exists, keys=_cancellation)),
    Keep(
        fact="told-to-delete",
        of=(*sent(StopReplica, keys=_deletions_told), *noted("controller-elected", keys=_forget_all)),
    ),
    Keep(
        fact="replicas",
        of=(*noted("controller-elected", keys=_forget_all), *read(GetData, SetData, Create, keys=_assigned_replicas)),
    ),
    Keep(
        fact="deleted",  # partitions that are being deleted: their znodes are looked for first
        of=(
            *asked(Exists, Delete, keys=lambda op, _: [(paths.tp_of_state_path(op.path), True)]),
            *asked(Create, keys=lambda op, _: [(paths.tp_of_state_path(op.path), None)]),
        ),
    ),
    Keep(
        fact="read-to-delete",  # every replica that the deletion of a partition has read: it stops all of them
        of=(
            *noted("controller-elected", keys=_forget_all),
            *read(Exists, keys=_replicas_read_to_delete),
            *asked(Create, keys=lambda op, _: [(paths.tp_of_state_path(op.path), None)]),
        ),
    ),
    Keep(fact="session", of=heard(ZkState, keys=lambda event, _: [(None, event.session)] if event.state == "connected" else [])),
    Keep(fact="owns", of=read(Create, GetData, Exists, keys=_owning_session)),
    Keep(
        fact="ordered", of=read(GetData, keys=_elections_ordered)
    ),  # the partitions of unclean elections that an operator ordered
    Keep(  # of a partition that gets a state anew, after its deletion, the one that was read is of the former one
        fact="state",
        of=(
            *noted("controller-elected", keys=_forget_all),
            *read(GetData, keys=_state_read),
            *asked(Create, keys=lambda op, _: [(paths.tp_of_state_path(op.path), None)]),
        ),
    ),
    Keep(fact="held", of=read(GetData, SetData, Create, keys=_leader_and_isr_held)),
    Keep(
        fact="spoken-to",  # brokers that were sent a command in this term
        of=(*sent(*COMMANDS, keys=lambda send, _: [(send.to, True)]), *noted("controller-elected", keys=_forget_all)),
    ),
    Keep(
        fact="told-live",  # the brokers that serve by the last metadata told, and those heard of since
        of=(
            *sent(UpdateMetadata, keys=_live_brokers_told),
            *heard(MetadataHeartbeat, keys=_live_with_sender),
            *noted("controller-resigned", keys=lambda n, _: [(None, None)]),
        ),
    ),
)
