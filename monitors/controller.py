"""Rules of the controller: its office, what it tells brokers, and what it writes."""

from collections.abc import Iterable
from typing import Any

from monitors.engine import Never, Rising, Rule, Within
from monitors.facts import COMMANDS, greeting, is_in_flight
from monitors.patterns import (
    ALL,
    ANY,
    Exchange,
    Key,
    Memory,
    OfTimer,
    Outcome,
    Sent,
    answered,
    armed,
    asked,
    did,
    heard,
    noted,
    read,
    replied,
    sent,
)
from reference.config import asks_controller
from reference.coordination import paths
from reference.coordination.api import Check, Create, Data, Exists, GetChildren, GetData, SetData
from reference.effects import Note, ZkRequest
from reference.errors import ErrorCode
from reference.events import ZkState
from reference.messages import (
    IsrChange,
    LeaderAndIsr,
    MetadataHeartbeat,
    StopReplica,
    UpdateMetadata,
)
from reference.timers import Timer
from reference.types import broker_address, broker_at


def _told_states(send: Sent, memory: Memory) -> Iterable[tuple[Key, Any]]:
    """The leader epoch and the version that a command tells of each partition, by all that makes two of them comparable."""
    command = send.message
    for state in command.states:
        key = (state.tp, send.to, command.controller_epoch, command.broker_incarnation, state.topic_id)
        yield key, (state.leader_epoch, state.zk_version)


def _partition_of_new_state(op: Create, memory: Memory) -> Iterable[Key]:
    """The partition whose state znode is created; what was told of it before no longer compares."""
    tp = paths.tp_of_state_path(op.path)
    if tp is not None:
        yield tp, ANY, ANY, ANY, ANY


def _receiver(send: Sent, memory: Memory) -> Iterable[Key]:
    """The broker that a command goes to, with the registration that it names."""
    yield send.to, send.message.broker_incarnation


def _answering_broker(exchange: Exchange, memory: Memory) -> Iterable[Key]:
    """The broker that answered a command, with the registration that the command named."""
    yield exchange.peer, exchange.request.broker_incarnation


def _unguarded_writes(request: ZkRequest, memory: Memory) -> Iterable[Key]:
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


def _elections_by_old_stamp(op: SetData, memory: Memory) -> Iterable[Key]:
    """A leader elected by an older stamp than the registration accepted last: (partition, broker, stamp, accepted)."""
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


def _partition_led_by_dead(outcome: Outcome, memory: Memory) -> Iterable[Key]:
    """A partition whose state was read for an election and names a leader that is not registered.

    Nobody is asked for the end of a log before such an election: that needs all of the ISR. An operator's order does not, so the
    rule is silent once one was read, and for a partition that is deleted. In a failover by multi() the write comes later, with
    those of all other partitions.
    """
    tp, live_brokers = paths.tp_of_state_path(outcome.op.path), memory.of("told-live")
    if tp is None or not (outcome.alone and outcome.last) or outcome.op.watch:
        return
    if live_brokers is None or not isinstance(outcome.answer, Data):
        return
    leader = paths.decode_state(tp, (), outcome.answer).leader
    gone = leader is not None and leader not in live_brokers and leader not in memory.of("registered", default=())
    if gone and not memory.of("ordered", tp) and not memory.of("deleted", tp):
        yield (tp,)


def _partition_of_state(op: SetData | GetData, memory: Memory) -> Iterable[Key]:
    tp = paths.tp_of_state_path(op.path)
    if tp is not None:
        yield (tp,)


def _commands_to_strangers(send: Sent, memory: Memory) -> Iterable[Key]:
    """Partitions of a LeaderAndIsr whose receiver is not among their replicas."""
    for state in send.message.states:
        if broker_at(send.to) not in state.replicas:
            yield state.tp, send.to


def _metadata_before_greeting(send: Sent, memory: Memory) -> Iterable[Key]:
    """The receiver of partial metadata that was not told full ones before, in this term and registration."""
    if not send.message.full and not memory.of("greeted", greeting(send)):
        yield (send.to,)


def _commands_of_another_term(send: Sent, memory: Memory) -> Iterable[Key]:
    """A command of another controller, or with another epoch, than this process holds: (receiver, epoch, own epoch)."""
    if (send.message.controller, send.message.controller_epoch) != (memory.config.broker, memory.of("term")):
        yield send.to, send.message.controller_epoch, memory.of("term")


def _states_of_another_term(op: SetData | Create, memory: Memory) -> Iterable[Key]:
    """A state that a controller writes with another controller epoch than its own: (partition, epoch, own epoch)."""
    tp = paths.tp_of_state_path(op.path)
    if tp is not None and memory.of("office"):
        written = paths.decode_state(tp, (), Data(op.data, 0, 0)).controller_epoch
        if written != memory.of("term"):
            yield tp, written, memory.of("term")


def _writes_on_other_version(op: SetData, memory: Memory) -> Iterable[Key]:
    """A state written on another version than was read, and a topic written on any: (partition or path, version, wanted)."""
    tp = paths.tp_of_state_path(op.path)
    if not memory.of("office"):
        return
    if tp is not None:
        state = memory.of("state", tp)
        if state is not None and op.version != state.zk_version:
            yield tp, op.version, state.zk_version
    elif op.path.startswith(f"{paths.TOPICS}/") and op.version < 0:
        yield op.path, op.version, "none"


def _stale_proposals_accepted(exchange: Exchange, memory: Memory) -> Iterable[Key]:
    """Proposals accepted though their broker does not lead the epoch that the controller read last."""
    for change, result in zip(exchange.request.changes, exchange.reply.results, strict=False):  # an error has no results
        state = memory.of("state", change.tp)
        if result.error is not ErrorCode.NONE or state is None:
            continue
        if change.leader_epoch < state.leader_epoch or state.leader != exchange.request.broker:
            yield change.tp, exchange.peer, change.leader_epoch


def _command_number(send: Sent, memory: Memory) -> Iterable[tuple[Key, Any]]:
    """The number of a command, by the controller epoch."""
    yield (send.message.controller_epoch,), send.message.number


def _repeatable(note: Note, memory: Memory) -> Iterable[Key]:
    """A LeaderAndIsr may have nothing left to tell: its partitions were deleted meanwhile."""
    if note.broker is not None and note.detail in ("StopReplica", "UpdateMetadata"):
        yield (broker_address(note.broker),)


def greeting_sent(send: Sent, memory: Memory) -> Iterable[Key]:
    """(receiver, term, registration) of a command with INIT."""
    if send.message.init:
        yield greeting(send)


def greeting_answered(exchange: Exchange, memory: Memory) -> Iterable[Key]:
    """(receiver, term, registration) of the answer to the command in flight; one after the timeout is not heard."""
    request = exchange.request
    if exchange.reply.error is ErrorCode.NONE and is_in_flight(exchange, memory):
        yield exchange.peer, request.controller_epoch, request.broker_incarnation


def _reads_without_watch(op: Exists | GetChildren, memory: Memory) -> Iterable[Key]:
    """The path of a znode that a controller must watch and reads without a watch."""
    is_watched = op.path.startswith("/admin/") or op.path in (paths.CONTROLLER, paths.BROKER_IDS, paths.LOG_DIR_EVENTS)
    if is_watched and not op.watch and memory.of("office"):
        yield (op.path,)


def _early_silence_timers(item: OfTimer, memory: Memory) -> Iterable[Key]:
    """A broker whose silence is timed shorter than the configured timeout, with the shortest length of its timer in ms."""
    if item.timer.lo_ms < memory.config.controller_heartbeat_timeout_ms:
        yield item.about, item.timer.lo_ms


def _registrations_watched(op: GetChildren, memory: Memory) -> Iterable[Key]:
    """The list of registrations, watched by a process that is not controller."""
    if op.path == paths.BROKER_IDS and op.watch and not memory.of("office"):
        yield (op.path,)


def _told_nothing_new(send: Sent, memory: Memory) -> Iterable[Key]:
    """The receiver of a command whose every state it has obeyed already, and that notified of no failed directory."""
    command = send.message
    if command.init or not command.states or memory.of("notified", send.to):
        return
    if all(memory.of("answered", (send.to, command.broker_incarnation, state.tp)) == state for state in command.states):
        yield (send.to,)


CONTROLLER: tuple[Rule, ...] = (
    Never(
        name="asked-without-notification",
        clause="R-300",
        says="{0} was told again what it had obeyed, and no log directory of it had failed",
        holds=lambda config: config.variant.notification_requery and config.variant.reassign_widens,
        what=sent(LeaderAndIsr, keys=_told_nothing_new),
    ),
    Never(
        name="watched-out-of-office",
        clause="R-146",
        says="{0} is watched by a broker that is not controller",
        what=asked(GetChildren, keys=_registrations_watched),
    ),
    Never(
        name="init-repeated",
        clause="R-042",
        says="{0} was sent a command with the flag INIT after it had answered one",
        holds=lambda config: config.variant.controller_epoch,
        since=answered(LeaderAndIsr, keys=greeting_answered),
        what=sent(LeaderAndIsr, keys=greeting_sent),
    ),
    Never(
        name="unwatched-read",
        clause="V3 §A, §D, §F; KIP-236",
        says="{0} was read without a watch, so that its next change would not be heard of",
        holds=lambda config: config.variant.reassignment == "A" and config.variant.reassign_failover == "resume",
        what=asked(Exists, GetChildren, keys=_reads_without_watch),
    ),
    Never(
        name="silence-too-early",
        clause="R-187, R-204",
        says="broker {0} is given {1} ms for its next heartbeat, less than controller.heartbeat.timeout.ms",
        what=armed(Timer.SILENCE, keys=_early_silence_timers),
    ),
    Never(
        name="stranger-told",
        clause="V3 §A step 4",
        says="{1} was told a state of {0}, of which it has no replica",
        holds=lambda config: config.variant.reassign_widens,
        what=sent(LeaderAndIsr, keys=_commands_to_strangers),
    ),
    Never(
        name="first-metadata-not-full",
        clause="R-311",
        says="the first metadata that {0} was told does not list all partitions",
        what=sent(UpdateMetadata, keys=_metadata_before_greeting),
    ),
    Never(
        name="another-epoch-used",
        clause="R-154, R-155",
        says="epoch {1} was used in place of the controller's own, {2}: {0}",
        holds=lambda config: config.variant.controller_epoch and asks_controller(config),
        what=(*sent(*COMMANDS, keys=_commands_of_another_term), *asked(SetData, Create, keys=_states_of_another_term)),
    ),
    Never(
        name="unconditional-write",
        clause="R-005, R-155",
        says="{0} was written on version {1}; the version read is {2}",
        holds=asks_controller,
        what=asked(SetData, keys=_writes_on_other_version),
    ),
    Never(
        name="stale-proposal-accepted",
        clause="R-203, U-13",
        says="the ISR that {1} proposed for {0} in epoch {2} was accepted, though it does not lead",
        what=replied(IsrChange, keys=_stale_proposals_accepted),
    ),
    Rising(
        name="command-number-falls",
        clause="R-064",
        says="after command {1} of epoch {0} number {2} was sent",
        of=sent(LeaderAndIsr, StopReplica, UpdateMetadata, keys=_command_number),
    ),
    Within(
        name="command-not-repeated",
        clause="R-017, B-54",
        says="{0} did not answer a command, and was sent none again",
        holds=lambda config: config.variant.controller_send_retry,
        after=noted("command-unanswered", keys=_repeatable),
        then=sent(*COMMANDS, keys=lambda send, _: [(send.to,)]),
    ),
    Within(
        name="dead-leader-kept",
        clause="R-021, R-023, KAFKA-3096",
        says="the state of {0} was read, its leader is not registered, and no other state was written",
        holds=lambda config: asks_controller(config) and config.variant.failover_writes != "multi",
        after=read(GetData, keys=_partition_led_by_dead),
        then=asked(SetData, GetData, keys=_partition_of_state),
    ),
    Rising(
        name="older-state-told",
        clause="B-54, KAFKA-9212",
        says="{1} was told (leader epoch, version) {6} of {0} after {5}",
        of=sent(LeaderAndIsr, keys=_told_states),
        until=asked(Create, keys=_partition_of_new_state),
    ),
    Rising(
        name="older-metadata-told",
        clause="B-54, KAFKA-9212",
        says="{1} was told metadata of (leader epoch, version) {6} of {0} after {5}",
        of=sent(UpdateMetadata, keys=_told_states),
        until=asked(Create, keys=_partition_of_new_state),
    ),
    Never(
        name="command-out-of-office",
        clause="R-071, R-146",
        says="a command was sent to {0} by a broker that is not controller",
        what=sent(*COMMANDS, keys=lambda send, memory: [] if memory.of("office") else [(send.to,)]),
    ),
    Never(
        name="two-commands-in-flight",
        clause="C-05, R-156",
        says="{0} was sent a command while another one was in flight",
        since=sent(*COMMANDS, keys=_receiver),
        until=(
            *answered(*COMMANDS, keys=_answering_broker),
            *noted("command-unanswered", keys=lambda n, _: [(broker_address(n.broker), n.incarnation)]),
            *noted("controller-resigned", keys=lambda n, _: [ALL]),
        ),
        what=sent(*COMMANDS, keys=_receiver),
    ),
    Never(
        name="unguarded-write",
        clause="KAFKA-6082",
        says="the state of {0} was written without a check of the controller's epoch",
        holds=lambda config: config.variant.zk_guard and asks_controller(config),
        what=did(ZkRequest, keys=_unguarded_writes),
    ),
    Never(
        name="stale-member-elected",
        clause="R-147, KIP-380",
        says="{1} was elected leader of {0} under registration {2}, though its heartbeat under {3} had been accepted",
        holds=lambda config: config.variant.broker_incarnation,
        what=asked(SetData, keys=_elections_by_old_stamp),
    ),
    Within(
        name="outlives-its-session",
        clause="R-001, KAFKA-4360",
        says="the controller did not resign when its session expired",
        after=heard(ZkState, keys=_expired_in_office),
        then=noted("controller-resigned", keys=lambda n, _: [()]),
    ),
    Never(
        name="answered-out-of-office",
        clause="R-195",
        says="a broker that is not controller accepted a request of {0}",
        what=replied(
            MetadataHeartbeat,
            keys=lambda x, m: [(x.peer,)] if x.reply.error is ErrorCode.NONE and not m.of("office") else [],
        ),
    ),
)
