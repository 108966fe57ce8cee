"""Rules of a broker that leads and follows: commands, fetches, appends, answers to clients (V3 §C, §G)."""

from collections.abc import Iterable
from typing import Any

from monitors.engine import Never, Rising, Rule, Within
from monitors.facts import COMMANDS, number_of, obeyed_command
from monitors.patterns import (
    ANY,
    Exchange,
    Heard,
    Key,
    Memory,
    Sent,
    did,
    granted,
    heard,
    noted,
    refused,
    replied,
    sent,
)
from reference.config import asks_controller, sends_heartbeats
from reference.effects import Note, ZkRequest
from reference.errors import ErrorCode
from reference.events import Received, ZkReplied
from reference.messages import (
    LATEST,
    EpochEnd,
    Fetch,
    IsrChange,
    LeaderAndIsr,
    ListOffsets,
    LogInfo,
    MetadataHeartbeatReply,
    Produce,
    StopReplica,
)
from reference.sealed import count
from reference.types import NO_CONTROLLER_EPOCH


def _unanswered_requests(note: Note, memory: Memory) -> Iterable[Key]:
    """The unanswered fetches and produces of the partition that a note is about; a produce with acks=0 takes no answer."""
    for (source, correlation), request in memory.unanswered.items():
        takes_an_answer = isinstance(request, Fetch) or (isinstance(request, Produce) and request.acks != 0)
        if takes_an_answer and request.tp == note.tp:
            yield note.tp, source, correlation


def _answered_request(exchange: Exchange, memory: Memory) -> Iterable[Key]:
    """(partition, sender, correlation) of an answer."""
    yield exchange.request.tp, exchange.peer, exchange.request.correlation


def _stale_command(event: Heard, memory: Memory) -> Iterable[Key]:
    """(sender, correlation) of a command of an earlier controller than one that was obeyed. V3's StopReplica names no epoch."""
    if NO_CONTROLLER_EPOCH < event.message.controller_epoch < memory.of("obeyed", default=NO_CONTROLLER_EPOCH):
        yield event.source, event.message.correlation


def _fetches_from_other(send: Sent, memory: Memory) -> Iterable[Key]:
    """(partition, receiver) of a follower's request to a broker that is not its leader."""
    message = send.message
    return [(message.tp, send.to)] if message.replica is not None and memory.of("role", message.tp) != send.to else ()


def _appends_out_of_role(note: Note, memory: Memory) -> Iterable[Key]:
    """(partition, role that the note tells) of an append, if the replica has another role."""
    return [(note.tp, note.detail)] if (memory.of("role", note.tp) == "") is not (note.detail == "leader") else ()


def _closes_while_leading(note: Note, memory: Memory) -> Iterable[Key]:
    """A replica that leads resigns in the turn of an answered heartbeat, or of the order to shut down."""
    event = memory.event
    is_heartbeat_reply = isinstance(event, Received) and isinstance(event.message, MetadataHeartbeatReply)
    if memory.of("shutting-down") and not memory.of("fenced") and memory.of("role", note.tp) == "" and is_heartbeat_reply:
        yield (note.tp,)


def _served_without_leading(exchange: Exchange, memory: Memory) -> Iterable[Key]:
    return [(exchange.request.tp, exchange.peer)] if memory.of("role", exchange.request.tp) != "" else ()


def _fetches_in_other_epoch(send: Sent, memory: Memory) -> Iterable[Key]:
    """A follower's fetch in another leader epoch than its own: (partition, epoch of the fetch, own epoch)."""
    message = send.message
    epoch = memory.of("epoch", send.message.tp)
    is_other = message.replica is not None and message.leader_epoch != epoch
    return [(message.tp, message.leader_epoch, epoch)] if is_other else ()


def _fetches_off_log_end(send: Sent, memory: Memory) -> Iterable[Key]:
    """A follower's fetch from another offset than its log end: (partition, offset, log end)."""
    message = send.message
    end = memory.of("leo", send.message.tp)
    is_elsewhere = message.replica is not None and end is not None and message.offset != end
    return [(message.tp, message.offset, end)] if is_elsewhere else ()


def _acknowledged_above_hw(exchange: Exchange, memory: Memory) -> Iterable[Key]:
    """An acks=all acknowledgement beyond the HW: (partition, offset of the first record, HW)."""
    request = exchange.request
    reply = exchange.reply
    hw = memory.of("hw", exchange.request.tp)
    is_above = request.acks == -1 and hw is not None and reply.offset + count(request.values) > hw
    return [(request.tp, reply.offset, hw)] if is_above else ()


def _fetch_with_wrong_hw(exchange: Exchange, memory: Memory) -> Iterable[Key]:
    """(partition, HW told, HW)."""
    reply = exchange.reply
    hw = memory.of("hw", exchange.request.tp)
    return [(exchange.request.tp, reply.hw, hw)] if hw is not None and reply.hw != hw else ()


def _latest_other_than_hw(exchange: Exchange, memory: Memory) -> Iterable[Key]:
    """(partition, latest offset told, HW)."""
    request = exchange.request
    reply = exchange.reply
    hw = memory.of("hw", exchange.request.tp)
    is_other = request.timestamp == LATEST and hw is not None and reply.offset != hw
    return [(request.tp, reply.offset, hw)] if is_other else ()


def _records_above_hw(exchange: Exchange, memory: Memory) -> Iterable[Key]:
    """Records at or above the HW in the answer to a client's fetch: (partition, offset of their batch, HW)."""
    reply = exchange.reply
    if exchange.request.replica is not None or not reply.batches:
        return ()
    last = reply.batches[-1]
    is_above = last.base_offset + count(last.values) > reply.hw
    return [(exchange.request.tp, last.base_offset, reply.hw)] if is_above else ()


def _proposed_out_of_role(send: Sent, memory: Memory) -> Iterable[Key]:
    """Partitions that this broker proposes an ISR for though it does not lead, or without itself in it."""
    for change in send.message.changes:
        if memory.of("role", change.tp) != "" or all(member.broker != memory.config.broker for member in change.isr):
            yield (change.tp,)


def _proposed_on_other_version(send: Sent, memory: Memory) -> Iterable[Key]:
    """An ISR change on another znode version than the one from which the broker leads."""
    for change in send.message.changes:
        version = memory.of("led-from", change.tp)
        if version is not None and change.zk_version != version:
            yield change.tp, change.zk_version, version


def _role_not_commanded(note: Note, memory: Memory) -> Iterable[Key]:
    """A role that neither the command of this turn gave, nor a state that was read from ZooKeeper."""
    event = memory.event
    if isinstance(event, ZkReplied):
        return
    states = event.message.states if isinstance(event, Received) and isinstance(event.message, LeaderAndIsr) else ()
    leader = memory.config.broker if note.kind == "became-leader" else note.leader
    if all((state.tp, state.leader, state.leader_epoch) != (note.tp, leader, note.leader_epoch) for state in states):
        yield note.tp, note.leader_epoch


def _role_epoch(note: Note, memory: Memory) -> Iterable[tuple[Key, Any]]:
    """The leader epoch in which a replica takes a role, by partition and topic id."""
    yield (note.tp, note.topic_id), note.leader_epoch


def _wrong_log_ends(exchange: Exchange, memory: Memory) -> Iterable[Key]:
    """(partition, log end told, log end)."""
    for end in exchange.reply.ends:
        held = memory.of("leo", end.tp)
        if held is not None and end.leo != held:
            yield end.tp, end.leo, held


def _replicas_not_stopped(exchange: Exchange, memory: Memory) -> Iterable[Key]:
    """A replica that keeps its role though the answer says that it was stopped; a deletion is answered later.

    A late copy of a command from before a deletion is about the replica that was deleted, not about the one made since.
    """
    request = exchange.request
    errors = dict(exchange.reply.errors)
    for stop in request.partitions if exchange.reply.error is ErrorCode.NONE else ():
        is_late = (request.controller_epoch, request.number) <= memory.of("buried", stop.tp, (-1, -1))
        claims = not stop.delete and not is_late and errors.get(stop.tp) is ErrorCode.NONE
        if claims and memory.of("role", stop.tp) is not None:
            yield stop.tp, exchange.peer


def _commander_behind_request(request: ZkRequest, memory: Memory) -> Iterable[Key]:
    """The sender of the LeaderAndIsr in whose turn ZooKeeper is asked."""
    event = memory.event
    if isinstance(event, Received) and isinstance(event.message, LeaderAndIsr):
        yield (event.source,)


def _denied_though_offline(exchange: Exchange, memory: Memory) -> Iterable[Key]:
    """(partition, client) of a denial, if the replica is known and only its directory has failed."""
    tp = exchange.request.tp
    is_offline = memory.of("failed-dir", memory.of("dir", tp))
    is_denied = exchange.reply.error in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return [(tp, exchange.peer)] if is_offline and is_denied else ()


REPLICAS: tuple[Rule, ...] = (
    Never(
        name="offline-replica-denied",
        clause="R-298, C-22",
        says="{1} was told that the broker does not lead {0}, whose directory failed, and not KAFKA_STORAGE_ERROR",
        what=refused(Produce, Fetch, ListOffsets, EpochEnd, keys=_denied_though_offline),
    ),
    Never(
        name="not-stopped",
        clause="R-039",
        says="the replica of {0} goes on, though {1} was told that it stopped",
        what=replied(StopReplica, keys=_replicas_not_stopped),
    ),
    Never(
        name="command-asks-zookeeper",
        clause="R-069",
        says="a command of {0} made the broker ask ZooKeeper",
        holds=asks_controller,
        what=did(ZkRequest, keys=_commander_behind_request),
    ),
    Never(
        name="served-out-of-role",
        clause="R-131, R-055",
        says="a request of {1} for {0} was carried out by a replica that does not lead",
        what=granted(Produce, Fetch, EpochEnd, ListOffsets, keys=_served_without_leading),
    ),
    Never(
        name="fetched-in-another-epoch",
        clause="KIP-320",
        says="a replica of {0} fetched in epoch {1} while it followed in epoch {2}",
        holds=lambda config: config.variant.fetch_fencing,
        what=sent(Fetch, keys=_fetches_in_other_epoch),
    ),
    Never(
        name="fetched-elsewhere",
        clause="R-037",
        says="a replica of {0} fetched from offset {1}; its log ends at {2}",
        what=sent(Fetch, keys=_fetches_off_log_end),
    ),
    Never(
        name="acknowledged-above-hw",
        clause="R-140",
        says="records of {0} at offset {1} were acknowledged to acks=all while the high watermark was {2}",
        what=granted(Produce, keys=_acknowledged_above_hw),
    ),
    Never(
        name="another-hw-told",
        clause="R-016",
        says="the high watermark of {0} was told as {1}; it is {2}",
        what=granted(Fetch, keys=_fetch_with_wrong_hw),
    ),
    Never(
        name="latest-is-not-hw",
        clause="KIP-207",
        says="the latest offset of {0} was told as {1}; the high watermark is {2}",
        what=granted(ListOffsets, keys=_latest_other_than_hw),
    ),
    Never(
        name="given-above-hw",
        clause="R-136",
        says="a consumer was given records of {0} from offset {1} on, above the high watermark {2}",
        holds=lambda config: config.variant.consumer_limit == "hw",
        what=granted(Fetch, keys=_records_above_hw),
    ),
    Never(
        name="proposal-out-of-role",
        clause="R-192",
        says="an ISR of {0} was proposed by a replica that does not lead, or without it",
        what=sent(IsrChange, keys=_proposed_out_of_role),
    ),
    Never(
        name="other-version-proposed",
        clause="R-010, R-195",
        says="the first ISR proposed for {0} is from version {1} of its state; the command that made this replica leader has {2}",
        holds=lambda config: config.variant.isr_change_version,
        what=sent(IsrChange, keys=_proposed_on_other_version),
    ),
    Never(
        name="role-not-commanded",
        clause="R-031, R-032",
        says="a replica of {0} took a role in epoch {1} that no command of this turn names",
        what=noted("became-leader", "became-follower", keys=_role_not_commanded),
    ),
    Rising(
        name="role-epoch-falls",
        clause="R-080",
        says="the replica of {0} took a role in epoch {3} after epoch {2}",
        holds=lambda config: config.variant.leader_change == "epoch" and config.variant.follower_change == "epoch",
        of=noted("became-leader", "became-follower", keys=_role_epoch),
        until=noted("replica-deleted", keys=lambda note, _: [(note.tp, ANY)]),
    ),
    Never(
        name="wrong-log-end",
        clause="docs/promise.md DUR-6",
        says="the log of {0} was said to end at {1}; it ends at {2}",
        what=replied(LogInfo, keys=_wrong_log_ends),
    ),
    Within(
        name="parked-request-lost",
        clause="R-039, KAFKA-1148, KAFKA-9198",
        says="the replica of {0} leads no more, and the parked request of {1} was not answered",
        holds=lambda config: config.variant.purgatory_epoch_check,
        after=noted("replica-deleted", "resigned", "became-follower", keys=_unanswered_requests),
        then=replied(Fetch, Produce, keys=_answered_request),
    ),
    Never(
        name="older-controller-obeyed",
        clause="B-45",
        says="a command of {0} was obeyed after one of a later controller",
        holds=lambda config: config.variant.controller_epoch and config.variant.controller_epoch_check,
        since=heard(*COMMANDS, keys=_stale_command),
        until=heard(*COMMANDS, keys=number_of),
        what=replied(*COMMANDS, keys=obeyed_command),
    ),
    Never(
        name="fetched-from-another",
        clause="R-032",
        says="a replica of {0} asked {1}, which is not the leader that it follows",
        what=sent(Fetch, EpochEnd, keys=_fetches_from_other),
    ),
    Never(
        name="appended-out-of-role",
        clause="R-131",
        says="{0} took records as {1} without that role",
        what=noted("append", keys=_appends_out_of_role),
    ),
    Never(
        name="leader-truncated",
        clause="R-037",
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
