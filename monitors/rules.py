"""The rules: clauses of the documents that one process can break, each with what excuses it.

`docs/properties.md` says what each finding means; `checkers/control/clauses.py` declares them.
"""

from collections.abc import Iterable
from typing import Any

from monitors.engine import Never, Rising, Rule, Within
from monitors.facts import COMMANDS
from monitors.patterns import (
    ALL,
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
    heard,
    noted,
    read,
    replied,
    sent,
)
from reference.config import asks_controller, sends_heartbeats
from reference.coordination import paths
from reference.coordination.api import Check, Children, Create, Data, GetChildren, GetData, SetData
from reference.effects import Note, SetTimer, ZkRequest
from reference.errors import ErrorCode
from reference.events import Received, ZkState
from reference.messages import (
    EpochEnd,
    Fetch,
    InitProducerId,
    LeaderAndIsr,
    ListOffsets,
    Metadata,
    MetadataHeartbeat,
    MetadataHeartbeatReply,
    Produce,
    StopReplica,
    UpdateMetadata,
)
from reference.timers import Timer, name_of
from reference.types import BrokerId, broker_address

_SERVED = (Produce, Fetch, EpochEnd, ListOffsets, Metadata, InitProducerId)


# --- moves of replicas (KIP-236) --------------------------------------------------------------------------------------------


def _stops(send: Sent, memory: Memory, *, delete: bool | None = None) -> Iterable[Key]:
    """Replicas that a move stops on a broker that counts as active."""
    for stop in send.message.partitions:
        if stop.moved and delete in (None, stop.delete):
            yield stop.tp, send.to


def _awaited_stops(send: Sent, memory: Memory) -> Iterable[Key]:
    if not memory.of("inactive", _broker(send.to)):
        yield from _stops(send, memory)


def _awaited_first_stops(send: Sent, memory: Memory) -> Iterable[Key]:
    if not memory.of("inactive", _broker(send.to)):
        yield from _stops(send, memory, delete=False)


def _deletions(send: Sent, memory: Memory) -> Iterable[Key]:
    return _stops(send, memory, delete=True)


def _stopped(exchange: Exchange, memory: Memory) -> Iterable[Key]:
    if exchange.reply.error is not ErrorCode.STALE_BROKER_EPOCH:  # which is sent again
        for stop in exchange.request.partitions:
            yield stop.tp, exchange.peer


def _broker(address: str) -> BrokerId:
    return BrokerId(int(address[1:]))


def _not_registered(outcome: Outcome, memory: Memory) -> Iterable[Key]:
    """Spans end for brokers whose registration is over: another list, or a registration that is read anew."""
    path = outcome.op.path
    if path == paths.BROKER_IDS:
        names = outcome.answer.names if isinstance(outcome.answer, Children) else ()
        for broker in memory.of("registered", default=frozenset()):
            if str(broker) not in names:
                yield ANY, broker_address(broker)


def _newer_registration(event: Heard, memory: Memory) -> Iterable[Key]:
    heartbeat = event.message
    if heartbeat.incarnation > memory.of("accepted", heartbeat.broker, -1):
        yield ANY, broker_address(heartbeat.broker)


def _narrowed(op: SetData, memory: Memory) -> Iterable[Key]:
    """Replicas that the assignment written here leaves out."""
    prefix = f"{paths.TOPICS}/"
    topic = op.path.removeprefix(prefix)
    if not op.path.startswith(prefix) or "/" in topic:
        return
    for tp, replicas in paths.decode_topic(topic, op.data):
        for broker in memory.of("registered", default=frozenset()) - set(replicas):
            yield tp, broker_address(broker)


_STOP_ENDS = (
    *answered(StopReplica, keys=_stopped),
    *noted("broker-state", keys=lambda n, _: [(ANY, broker_address(n.broker))] if n.detail == "inactive" else []),
    *noted("controller-resigned", keys=lambda n, _: [ALL]),
    *read(GetChildren, keys=_not_registered),
    *heard(MetadataHeartbeat, keys=_newer_registration),
)

MOVES: tuple[Rule, ...] = (
    Never(
        name="narrowed-early",
        clause="R-238.5",
        says="the assignment of {0} was written without {1}, which has not answered StopReplica",
        holds=lambda config: config.variant.reassign_order == "ar_last",
        since=sent(StopReplica, keys=_awaited_stops),
        until=_STOP_ENDS,
        what=asked(SetData, keys=_narrowed),
    ),
    Never(
        name="deleted-before-stopped",
        clause="R-236, R-237",
        says="{1} was told to delete its replica of {0} before it answered that it had stopped it",
        since=sent(StopReplica, keys=_awaited_first_stops),
        until=_STOP_ENDS,
        what=sent(StopReplica, keys=_deletions),
    ),
)


# --- what the controller tells ----------------------------------------------------------------------------------------------


def _told_states(send: Sent, memory: Memory) -> Iterable[tuple[Key, Any]]:
    command = send.message
    for state in command.states:
        key = (state.tp, send.to, command.controller_epoch, command.broker_incarnation, state.topic_id)
        yield key, (state.leader_epoch, state.zk_version)


def _new_state(op: Create, memory: Memory) -> Iterable[Key]:
    tp = paths.tp_of_state_path(op.path)
    if tp is not None:
        yield tp, ANY, ANY, ANY, ANY


def _commanded(send: Sent, memory: Memory) -> Iterable[Key]:
    yield send.to, send.message.broker_incarnation


def _command_ended(exchange: Exchange, memory: Memory) -> Iterable[Key]:
    yield exchange.peer, exchange.request.broker_incarnation


def _unguarded(request: ZkRequest, memory: Memory) -> Iterable[Key]:
    """Partitions whose state is written without a check of the controller's epoch in the same multi."""
    if not memory.of("office"):
        return
    first = request.ops[0]
    if request.atomic and isinstance(first, Check) and first.path == paths.CONTROLLER_EPOCH:
        return
    for op in request.ops:
        tp = paths.tp_of_state_path(op.path)
        if tp is not None and isinstance(op, SetData | Create):
            yield (tp,)


def _stale_leader(op: SetData, memory: Memory) -> Iterable[Key]:
    """A leader elected by a stamp that is older than a registration whose heartbeat the controller has accepted."""
    tp = paths.tp_of_state_path(op.path)
    if tp is None or not memory.of("office"):
        return
    wanted = paths.decode_state(tp, (), Data(op.data, 0, 0))
    before = memory.of("state", tp)
    if wanted.leader is None or before is None or wanted.leader == before.leader:
        return
    accepted = memory.of("accepted", wanted.leader, -1)
    if wanted.leader_incarnation < accepted:
        yield tp, broker_address(wanted.leader), wanted.leader_incarnation, accepted


def _expired_in_office(event: ZkState, memory: Memory) -> Iterable[Key]:
    """The session of a controller that has told brokers something; one that closes ignores all but its disks."""
    if event.state == "expired" and memory.of("commanding") and not memory.of("shutting-down"):
        yield ()


def _dead_leader(outcome: Outcome, memory: Memory) -> Iterable[Key]:
    """A partition whose state was read for an election and names a leader that is not registered.

    Nobody is asked for the end of a log before such an election: that needs all of the ISR. An operator's order does not, so the
    rule is silent once one was read; and the answer to a read counts only if no other one of the partition is under way.
    """
    tp, told = paths.tp_of_state_path(outcome.op.path), memory.of("told-live")
    if tp is None or not outcome.alone or outcome.op.watch or told is None or not isinstance(outcome.answer, Data):
        return
    leader = paths.decode_state(tp, (), outcome.answer).leader
    gone = leader is not None and leader not in told and leader not in memory.of("registered", default=())
    if gone and memory.of("reads", tp) == 1 and not memory.of("ordered", tp):
        yield (tp,)


def _election_of(op: SetData | GetData, memory: Memory) -> Iterable[Key]:
    tp = paths.tp_of_state_path(op.path)
    if tp is not None:
        yield (tp,)


CONTROLLER: tuple[Rule, ...] = (
    Within(
        name="dead-leader-kept",
        clause="R-021, R-023, KAFKA-3096",
        says="the state of {0} was read, its leader is not registered, and no other state was written",
        holds=asks_controller,
        after=read(GetData, keys=_dead_leader),
        then=asked(SetData, GetData, keys=_election_of),
    ),
    Rising(
        name="older-state-told",
        clause="R-069, KAFKA-9212",
        says="{1} was told (leader epoch, version) {6} of {0} after {5}",
        of=sent(LeaderAndIsr, keys=_told_states),
        until=asked(Create, keys=_new_state),
    ),
    Rising(
        name="older-metadata-told",
        clause="R-238, KAFKA-9212",
        says="{1} was told metadata of (leader epoch, version) {6} of {0} after {5}",
        of=sent(UpdateMetadata, keys=_told_states),
        until=asked(Create, keys=_new_state),
    ),
    Never(
        name="command-out-of-office",
        clause="R-071",
        says="a command was sent to {0} by a broker that is not controller",
        what=sent(*COMMANDS, keys=lambda send, memory: [] if memory.of("office") else [(send.to,)]),
    ),
    Never(
        name="two-commands-in-flight",
        clause="C-05",
        says="{0} was sent a command while another one was in flight",
        since=sent(*COMMANDS, keys=_commanded),
        until=(
            *answered(*COMMANDS, keys=_command_ended),
            *noted("command-unanswered", keys=lambda n, _: [(broker_address(n.broker), n.incarnation)]),
            *noted("controller-resigned", keys=lambda n, _: [ALL]),
        ),
        what=sent(*COMMANDS, keys=_commanded),
    ),
    Never(
        name="unguarded-write",
        clause="KAFKA-6082",
        says="the state of {0} was written without a check of the controller's epoch",
        holds=lambda config: config.variant.zk_guard and asks_controller(config),
        what=did(ZkRequest, keys=_unguarded),
    ),
    Never(
        name="stale-member-elected",
        clause="R-147, KIP-380",
        says="{1} was elected leader of {0} under registration {2}, though its heartbeat under {3} had been accepted",
        holds=lambda config: config.variant.broker_incarnation,
        what=asked(SetData, keys=_stale_leader),
    ),
    Within(
        name="outlives-its-session",
        clause="R-071",
        says="the controller did not resign when its session expired",
        after=heard(ZkState, keys=_expired_in_office),
        then=noted("controller-resigned", keys=lambda n, _: [()]),
    ),
    Never(
        name="answered-out-of-office",
        clause="R-192",
        says="a broker that is not controller accepted a request of {0}",
        what=replied(
            MetadataHeartbeat,
            keys=lambda x, m: [(x.peer,)] if x.reply.error is ErrorCode.NONE and not m.of("office") else [],
        ),
    ),
)


# --- heartbeats and the fence (KIP-343) -------------------------------------------------------------------------------------


def _refusal(event: Heard, memory: Memory) -> Iterable[Key]:
    reply = event.message
    if (
        reply.error is ErrorCode.INVALID_INCARNATION_ID
        and reply.correlation == memory.of("heartbeat")
        and not memory.of("fenced")
    ):
        yield ()


def _late_reply(event: Heard, memory: Memory) -> Iterable[Key]:
    if event.message.correlation != memory.of("heartbeat"):
        yield ()


def _while_fenced(event: Heard, memory: Memory) -> Iterable[Key]:
    if memory.of("fenced"):
        yield event.source, event.message.correlation


def _served(exchange: Exchange, memory: Memory) -> Iterable[Key]:
    if exchange.reply.error is not ErrorCode.BROKER_NOT_AVAILABLE:
        yield exchange.peer, exchange.reply.correlation


FENCE: tuple[Rule, ...] = (
    Within(
        name="refusal-does-not-fence",
        clause="R-190, B-43",
        says="the controller refused the registration, and the broker did not fence itself",
        after=heard(MetadataHeartbeatReply, keys=_refusal),
        then=noted("fenced", keys=lambda n, _: [()]),
    ),
    Never(
        name="late-answer-counts",
        clause="R-185",
        says="an answer to an earlier heartbeat changed the fence",
        since=heard(MetadataHeartbeatReply, keys=_late_reply),
        in_turn=True,
        what=(
            *did(SetTimer, keys=lambda timer, _: [()] if timer.name == name_of(Timer.FENCE) else []),
            *noted("fenced", "unfenced", keys=lambda n, _: [()]),
        ),
    ),
    Never(
        name="served-while-fenced",
        clause="R-186",
        says="a request that {0} sent while the broker was fenced was carried out",
        since=heard(*_SERVED, keys=_while_fenced),
        what=replied(*_SERVED, keys=_served),
    ),
)


# --- brokers and their replicas ---------------------------------------------------------------------------------------------


def _parked(note: Note, memory: Memory) -> Iterable[Key]:
    for (source, correlation), request in memory.unanswered.items():
        takes_an_answer = isinstance(request, Fetch) or (isinstance(request, Produce) and request.acks != 0)
        if takes_an_answer and request.tp == note.tp:
            yield note.tp, source, correlation


def _request_ended(exchange: Exchange, memory: Memory) -> Iterable[Key]:
    yield exchange.request.tp, exchange.peer, exchange.request.correlation


def _stale_command(event: Heard, memory: Memory) -> Iterable[Key]:
    if event.message.controller_epoch < memory.of("obeyed", default=-1):
        yield event.source, event.message.correlation


def _obedience(exchange: Exchange, memory: Memory) -> Iterable[Key]:
    if exchange.reply.error is ErrorCode.NONE:
        yield exchange.peer, exchange.reply.correlation


def _fetch_from_other(send: Sent, memory: Memory) -> Iterable[Key]:
    message = send.message
    if message.replica is not None and memory.of("role", message.tp) != send.to:
        yield message.tp, send.to


def _append(note: Note, memory: Memory) -> Iterable[Key]:
    if (memory.of("role", note.tp) == "") is not (note.detail == "leader"):
        yield note.tp, note.detail


def _closes_while_leading(note: Note, memory: Memory) -> Iterable[Key]:
    """A replica that leads resigns in the turn of an answered heartbeat, or of the order to shut down."""
    event = memory.event
    told = isinstance(event, Received) and isinstance(event.message, MetadataHeartbeatReply)
    if memory.of("shutting-down") and not memory.of("fenced") and memory.of("role", note.tp) == "" and told:
        yield (note.tp,)


BROKER: tuple[Rule, ...] = (
    Within(
        name="parked-request-lost",
        clause="R-039, KAFKA-9198",
        says="the replica of {0} was deleted, and the parked request of {1} was not answered",
        after=noted("replica-deleted", keys=_parked),
        then=replied(Fetch, Produce, keys=_request_ended),
    ),
    Never(
        name="older-controller-obeyed",
        clause="R-008",
        says="a command of {0} was obeyed after one of a later controller",
        holds=lambda config: config.variant.controller_epoch and config.variant.controller_epoch_check,
        since=heard(*COMMANDS, keys=_stale_command),
        what=replied(*COMMANDS, keys=_obedience),
    ),
    Never(
        name="fetched-from-another",
        clause="R-036",
        says="a replica of {0} asked {1}, which is not the leader that it follows",
        what=sent(Fetch, EpochEnd, keys=_fetch_from_other),
    ),
    Never(
        name="appended-out-of-role",
        clause="R-035",
        says="{0} took records as {1} without that role",
        what=noted("append", keys=_append),
    ),
    Never(
        name="leader-truncated",
        clause="R-034",
        says="the leader of {0} truncated its log",
        what=noted("truncate", keys=lambda n, m: [(n.tp,)] if m.of("role", n.tp) == "" else []),
    ),
    Never(
        name="closed-while-leading",
        clause="R-184, KAFKA-6029",
        says="the broker gave {0} up in its shutdown before another one led it",
        holds=sends_heartbeats,
        what=noted("resigned", keys=_closes_while_leading),
    ),
)

RULES: tuple[Rule, ...] = (*MOVES, *CONTROLLER, *FENCE, *BROKER)
