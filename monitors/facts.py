"""Facts that the rules need of a process beyond their own spans: its role, what the controller knows of brokers, its states."""

from collections.abc import Iterable
from typing import Any

from monitors.engine import Keep
from monitors.patterns import ANY, Exchange, Heard, Memory, Outcome, Sent, asked, did, heard, noted, read, replied, sent
from reference.coordination import paths
from reference.coordination.api import Children, Create, Data, Delete, Exists, GetChildren, GetData
from reference.effects import CreateReplica, Note
from reference.errors import ErrorCode
from reference.events import ShutDown, ZkState
from reference.messages import (
    EpochEnd,
    Fetch,
    InitProducerId,
    LeaderAndIsr,
    ListOffsets,
    LogInfo,
    Metadata,
    MetadataHeartbeat,
    MetadataHeartbeatReply,
    Produce,
    StopReplica,
    UpdateMetadata,
)
from reference.sealed import count
from reference.types import BrokerId, broker_address

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
    yield note.tp, None if note.kind == "replica-deleted" else note.hw


def _log_end(note: Note, memory: Memory) -> Iterable[tuple[Any, Any]]:
    """The log end offset; not known after a truncation, which may cut a sealed batch at its begin, before `offset`."""
    match note.kind:
        case "append":
            last = note.batches[-1]
            yield note.tp, last.base_offset + count(last.values)
        case "recovered":
            yield note.tp, note.leo
        case _:
            yield note.tp, None


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


def _registered(outcome: Outcome, memory: Memory) -> Iterable[tuple[Any, Any]]:
    if outcome.op.path == paths.BROKER_IDS and isinstance(outcome.answer, Children):
        yield None, frozenset(BrokerId(int(name)) for name in outcome.answer.names if name.isdecimal())


def _assigned(outcome: Outcome, memory: Memory) -> Iterable[tuple[Any, Any]]:
    topic = outcome.op.path.removeprefix(f"{paths.TOPICS}/")
    if outcome.op.path == paths.topic_path(topic) and "/" not in topic and isinstance(outcome.answer, Data):
        yield from paths.decode_topic(topic, outcome.answer.data)


def _ordered(outcome: Outcome, memory: Memory) -> Iterable[tuple[Any, Any]]:
    if outcome.op.path == paths.UNCLEAN_ELECTION and isinstance(outcome.answer, Data):
        for tp in paths.decode_preferred(outcome.answer.data):
            yield tp, True


def _told_live(send: Sent, memory: Memory) -> Iterable[tuple[Any, Any]]:
    yield None, frozenset(send.message.live_brokers)


def _heard_of(event: Heard, memory: Memory) -> Iterable[tuple[Any, Any]]:
    told = memory.of("told-live")
    if told is not None:
        yield None, told | {event.message.broker}


def _more_reads(op: GetData, memory: Memory) -> Iterable[tuple[Any, Any]]:
    tp = paths.tp_of_state_path(op.path)
    if tp is not None and not op.watch:
        yield tp, memory.of("reads", tp, 0) + 1


def _fewer_reads(outcome: Outcome, memory: Memory) -> Iterable[tuple[Any, Any]]:
    tp = paths.tp_of_state_path(outcome.op.path)
    if tp is not None and not outcome.op.watch:
        yield tp, memory.of("reads", tp, 0) - 1


FACTS: tuple[Keep, ...] = (
    Keep(fact="role", of=noted("became-leader", "became-follower", "resigned", "replica-deleted", keys=_role)),
    Keep(fact="epoch", of=noted("became-leader", "became-follower", keys=lambda note, _: [(note.tp, note.leader_epoch)])),
    Keep(fact="hw", of=noted("became-leader", "hw", "recovered", "replica-deleted", keys=_high_watermark)),
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
    Keep(fact="registered", of=read(GetChildren, keys=_registered)),
    Keep(fact="commanded", of=sent(*COMMANDS, keys=lambda send, _: [(send.to, send.message.broker_incarnation)])),
    Keep(fact="assigned", of=read(GetData, keys=_assigned)),
    Keep(
        fact="in-flight",  # the correlation of the command that a broker has not answered
        of=(
            *sent(*COMMANDS, keys=lambda send, _: [(send.to, send.message.correlation)]),
            *noted("command-unanswered", keys=lambda note, _: [(broker_address(note.broker), None)]),
        ),
    ),
    Keep(
        fact="deleted",  # partitions that are being deleted: their znodes are looked for first
        of=(
            *asked(Exists, Delete, keys=lambda op, _: [(paths.tp_of_state_path(op.path), True)]),
            *asked(Create, keys=lambda op, _: [(paths.tp_of_state_path(op.path), None)]),
        ),
    ),
    Keep(fact="ordered", of=read(GetData, keys=_ordered)),  # the partitions of unclean elections that an operator ordered
    Keep(fact="state", of=read(GetData, keys=_state)),
    Keep(
        fact="told-live",  # the brokers that serve by the last metadata told, and those heard of since
        of=(
            *sent(UpdateMetadata, keys=_told_live),
            *heard(MetadataHeartbeat, keys=_heard_of),
            *noted("controller-resigned", keys=lambda n, _: [(None, None)]),
        ),
    ),
    Keep(fact="reads", of=(*asked(GetData, keys=_more_reads), *read(GetData, keys=_fewer_reads))),  # of states, without an answer
)
