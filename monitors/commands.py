"""Rules of what a controller tells brokers: states that it holds, all of them to begin with, and which replicas are offline."""

from collections.abc import Iterable, Iterator

from monitors.controller import greeting_answered, greeting_sent
from monitors.engine import Never, Rule, Within
from monitors.facts import greeting, is_in_flight, is_same_isr, is_unreadable
from monitors.patterns import (
    ALL,
    ANY,
    Exchange,
    Heard,
    Key,
    Memory,
    OfTimer,
    Outcome,
    Sent,
    answered,
    armed,
    asked,
    fired,
    heard,
    noted,
    read,
    replied,
    sent,
)
from reference.config import asks_controller
from reference.coordination import paths
from reference.coordination.api import Create, Data, Delete, Exists, GetData, NoNode, SetData, Written
from reference.effects import Note
from reference.errors import ErrorCode
from reference.events import ZkReplied
from reference.messages import (
    IsrChange,
    LeaderAndIsr,
    MetadataHeartbeat,
    StopReplica,
    UpdateMetadata,
)
from reference.timers import Timer
from reference.types import BrokerId, BrokerState, broker_address, broker_at, topic_of


def _states_not_in_zookeeper(send: Sent, memory: Memory) -> Iterable[Key]:
    """The states of a command that ZooKeeper neither showed to this process nor took from it."""
    for state in send.message.states:
        held = memory.of("held", (state.tp, state.leader_epoch, state.zk_version))
        if held is None or held[0] != state.leader or not is_same_isr(held[1], state.isr):
            yield state.tp, send.to, state.leader_epoch, state.zk_version


def _partitions_left_out(send: Sent, memory: Memory) -> Iterator[Key]:
    """Partitions that the first command to a broker leaves out, in the turn in which the last state or registration was read."""
    command = send.message
    is_first = not memory.of("spoken-to", send.to) if command.init else _is_new_registration(send, memory)
    if not is_first or not isinstance(memory.event, ZkReplied):
        return
    listed = {state.tp for state in command.states}
    for tp, replicas in memory.facts["assigned"].items():
        has_state = memory.of("state", tp) is not None and not memory.of("deleted", tp)
        is_gone = topic_of(tp) not in memory.of("topics", default=())
        if not command.init and (is_gone or memory.of("moving", tp)):
            continue
        if has_state and broker_at(send.to) in replicas and tp not in listed:
            yield tp, send.to


def _is_new_registration(send: Sent, memory: Memory) -> bool:
    """Whether a broker was told something under an earlier registration, and nothing under this one."""
    return memory.of("commanded", send.to, -1) not in (-1, send.message.broker_incarnation)


def _command_without_init(send: Sent, memory: Memory) -> Iterable[Key]:
    """(receiver, term, registration) of a command without INIT."""
    if not send.message.init:
        yield greeting(send)


def _first_command_without_init(send: Sent, memory: Memory) -> Iterable[Key]:
    """The receiver and the controller epoch of a term's first command, if it lacks INIT."""
    takes_office = isinstance(memory.event, ZkReplied) and memory.of("office") and not memory.of("commanding")
    if takes_office and not send.message.init:
        yield send.to, send.message.controller_epoch


def _created_replicas(exchange: Exchange, memory: Memory) -> Iterable[Key]:
    """New replicas that a broker has created at the controller's command: (partition, broker, its incarnation)."""
    if exchange.reply.error is ErrorCode.NONE and is_in_flight(exchange, memory):
        codes = dict(exchange.reply.errors)
        for tp in (tp for tp in exchange.request.new if codes.get(tp) is ErrorCode.NONE):
            yield tp, exchange.peer, exchange.request.broker_incarnation


def _counting_called_new(send: Sent, memory: Memory) -> Iterable[Key]:
    """Replicas in ISR or ELR that a command calls new; others may be told so again, after a failed directory (KAFKA-10314)."""
    broker = broker_at(send.to)
    for state in send.message.states:
        if state.tp in send.message.new and broker in {member.broker for member in (*state.isr, *state.elr)}:
            yield state.tp, send.to, send.message.broker_incarnation


def _stopped_replicas(send: Sent, memory: Memory) -> Iterable[Key]:
    """The replicas that a StopReplica names; they may be created anew."""
    for stop in send.message.partitions:
        yield stop.tp, send.to, ANY


def _partition_of_new_state(op: Create, memory: Memory) -> Iterable[Key]:
    """The partition whose state znode is created, on any broker and for any incarnation."""
    tp = paths.tp_of_state_path(op.path)
    if tp is not None:
        yield tp, ANY, ANY


def _states_to_tell(outcome: Outcome, memory: Memory) -> Iterator[Key]:
    """(partition, address) of each replica to tell a new leader epoch that ZooKeeper took, if its broker waits for nothing."""
    tp = paths.tp_of_state_path(outcome.op.path)
    before = None if tp is None else memory.of("state", tp)
    if before is None or not isinstance(outcome.answer, Written) or not memory.of("office"):
        return
    if memory.of("deleted", tp) or memory.of("moving", tp):
        return
    if paths.decode_state(before.tp, (), Data(outcome.op.data, 0, 0)).leader_epoch <= before.leader_epoch:
        return
    for broker in memory.of("replicas", tp, ()):
        address = broker_address(broker)
        # One that comes back is told when its registration has been read.
        is_listed = broker in memory.of("registered", default=()) and not memory.of("unread", str(broker))
        is_known = is_listed and memory.of("commanded", address) == memory.of("living", str(broker))
        if is_known and memory.of("spoken-to", address) and not memory.of("busy", address):
            yield tp, address


def _partitions_told(send: Sent, memory: Memory) -> Iterator[Key]:
    """(partition, address) of all that a command tells its receiver; a StopReplica tells of all, for stops go first."""
    for state in send.message.states if isinstance(send.message, LeaderAndIsr) else ():
        yield state.tp, send.to
    if isinstance(send.message, StopReplica):
        for tp in memory.facts["replicas"]:
            yield tp, send.to


def _stops_of_strangers(send: Sent, memory: Memory) -> Iterator[Key]:
    """Partitions that a StopReplica names to a broker that is not among their replicas, but for those moved away from it.

    A deletion stops the replicas that it read, also those that a move, whose write was under way, has dropped since, whatever
    the controller has read after that.
    """
    for stop in send.message.partitions:
        replicas = memory.of("replicas", stop.tp)
        if stop.moved or replicas is None:
            continue
        if broker_at(send.to) not in (*replicas, *memory.of("read-to-delete", stop.tp, ())):
            yield stop.tp, send.to


def _elections_of_unreadable(op: SetData, memory: Memory) -> Iterable[Key]:
    """A state that the controller writes with a leader whose replica it knows to be unreadable."""
    tp = paths.tp_of_state_path(op.path)
    if tp is None or not memory.of("office"):
        return
    leader = paths.decode_state(tp, (), Data(op.data, 0, 0)).leader
    if leader is not None and is_unreadable(memory, tp, leader):
        yield tp, broker_address(leader)


def _unlisted_yet_online(send: Sent, memory: Memory) -> Iterable[Key]:
    """Replicas that metadata call online on a broker that they do not list."""
    for state in send.message.states:
        for broker in state.replicas:
            if broker not in send.message.live_brokers and broker not in state.offline:
                yield state.tp, broker_address(broker)


def _writes_without_next_epoch(op: SetData, memory: Memory) -> Iterable[Key]:
    """Writes of a state that no leader proposed and that do not begin the next leader epoch: (partition, epoch, epoch before)."""
    tp = paths.tp_of_state_path(op.path)
    before = None if tp is None else memory.of("state", tp)
    if before is None or not memory.of("office"):
        return
    wanted = paths.decode_state(before.tp, (), Data(op.data, 0, 0))
    proposed = (isr for about, isr in memory.facts["proposal"] if about == tp)
    is_proposed = wanted.leader == before.leader and any(is_same_isr(isr, wanted.isr) for isr in proposed)
    if wanted.leader_epoch != before.leader_epoch + 1 and not (is_proposed and wanted.leader_epoch == before.leader_epoch):
        yield tp, wanted.leader_epoch, before.leader_epoch


# --- heartbeats -------------------------------------------------------------------------------------------------------------


def _senders_to_time(event: Heard, memory: Memory) -> Iterable[Key]:
    """The sender of a heartbeat whose registration the controller counts, as text."""
    heartbeat = event.message
    if memory.of("office") and memory.of("standing", heartbeat.broker, (None, None))[1] == heartbeat.incarnation:
        yield (str(heartbeat.broker),)


def _refused_senders(exchange: Exchange, memory: Memory) -> Iterable[Key]:
    """The sender of a heartbeat that the controller refuses, as text."""
    if exchange.reply.error is not ErrorCode.NONE:
        yield (str(exchange.request.broker),)


def _silent_broker(item: OfTimer, memory: Memory) -> Iterable[Key]:
    """The broker whose silence the controller times out and that still counts as active or stopping."""
    state, _ = memory.of("standing", BrokerId(int(item.about)), ("inactive", None))
    if memory.of("office") and state != "inactive":
        yield (item.about,)


def _broker_made_inactive(note: Note, memory: Memory) -> Iterable[Key]:
    """The broker that a note says is inactive now, as text."""
    if note.detail == BrokerState.INACTIVE.name.lower():
        yield (str(note.broker),)


# --- proposals --------------------------------------------------------------------------------------------------------------


def _peers_given_wrong_results(exchange: Exchange, memory: Memory) -> Iterable[Key]:
    """The proposer, if its answer has results for other or fewer partitions, or accepts an ISR that it did not propose."""
    changes, reply = exchange.request.changes, exchange.reply
    if reply.error is not ErrorCode.NONE:
        return
    if len(changes) != len(reply.results):
        yield (exchange.peer,)
        return
    for change, result in zip(changes, reply.results, strict=True):
        state = result.state
        is_other = state is not None and state.tp != change.tp
        is_refusal = result.error is not ErrorCode.NONE
        if is_other or not (is_refusal or (state is not None and is_same_isr(state.isr, change.isr))):
            yield (exchange.peer,)


# --- notifications of failed directories ------------------------------------------------------------------------------------


def _notification_read(outcome: Outcome, memory: Memory) -> Iterable[Key]:
    """The path of a notification of a failed directory that the controller has read."""
    is_told = outcome.op.path.startswith(paths.LOG_DIR_EVENT) and isinstance(outcome.answer, Data) and outcome.last
    if is_told and memory.of("office"):
        yield (outcome.op.path,)


def _vacant_office(outcome: Outcome, memory: Memory) -> Iterable[Key]:
    """The path of the controller's znode, if it was found missing by a broker out of office."""
    is_free = outcome.op.path == paths.CONTROLLER and isinstance(outcome.answer, NoNode) and outcome.last
    if is_free and not memory.of("office"):
        yield (outcome.op.path,)


COMMANDS: tuple[Rule, ...] = (
    Never(
        name="state-not-held",
        clause="R-012, R-076, V3 §A step 4",
        says="{1} was told of epoch {2}, version {3} of {0}, which is not what ZooKeeper holds for these",
        what=sent(LeaderAndIsr, UpdateMetadata, keys=_states_not_in_zookeeper),
    ),
    Within(
        name="state-not-told",
        clause="R-025, R-076, V3 §A step 4",
        says="a new leader epoch of {0} was written, and {1} was not told",
        holds=lambda config: (
            config.variant.reassignment == "A" and config.variant.reassign_path == "json" and asks_controller(config)
        ),
        after=read(SetData, keys=_states_to_tell),
        then=sent(LeaderAndIsr, StopReplica, keys=_partitions_told),
    ),
    Never(
        name="stranger-stopped",
        clause="R-028, R-064",
        says="{1} was told to stop a replica of {0}, of which it has none",
        what=sent(StopReplica, keys=_stops_of_strangers),
    ),
    Never(
        name="init-incomplete",
        clause="R-042, R-181, R-301, R-307",
        says="the first command to {1} leaves out {0}, of which it has a replica",
        what=sent(LeaderAndIsr, keys=_partitions_left_out),
    ),
    Never(
        name="init-dropped",
        clause="R-011, R-042",
        says="{0} has not answered a command with the flag INIT, and the next one lacks it",
        holds=lambda config: config.variant.controller_epoch and config.variant.controller_send_retry,
        since=sent(LeaderAndIsr, keys=greeting_sent),
        until=(*answered(LeaderAndIsr, keys=greeting_answered), *noted("controller-resigned", keys=lambda n, _: [ALL])),
        what=sent(LeaderAndIsr, keys=_command_without_init),
    ),
    Never(
        name="init-missing",
        clause="R-042",
        says="the first command of the controller of epoch {1}, to {0}, lacks the flag INIT",
        holds=lambda config: config.variant.controller_epoch,
        what=sent(LeaderAndIsr, keys=_first_command_without_init),
    ),
    Never(
        name="new-replica-again",
        clause="R-302",
        says="{1} was told that its replica of {0}, which counts, is new after it had created it",
        since=answered(LeaderAndIsr, keys=_created_replicas),
        until=(
            *sent(StopReplica, keys=_stopped_replicas),
            *asked(Create, keys=_partition_of_new_state),
            *noted("controller-resigned", keys=lambda n, _: [ALL]),
        ),
        what=sent(LeaderAndIsr, keys=_counting_called_new),
    ),
    Never(
        name="unreadable-replica-elected",
        clause="R-294, R-301",
        says="{1} was made leader of {0} after it had answered that its replica is in a failed directory",
        holds=lambda config: config.variant.failover_query and config.variant.log_dir_failure == "replicas",
        what=asked(SetData, keys=_elections_of_unreadable),
    ),
    Never(
        name="offline-replica-not-told",
        clause="R-304",
        says="metadata that do not list {1} call its replica of {0} online",
        what=sent(UpdateMetadata, keys=_unlisted_yet_online),
    ),
    Never(
        name="epoch-not-raised",
        clause="R-024",
        says="the state of {0} was written with leader epoch {1} after {2}",
        holds=lambda config: config.variant.epoch_bump == "every_write" and asks_controller(config),
        what=asked(SetData, keys=_writes_without_next_epoch),
    ),
    Within(
        name="heartbeat-not-timed",
        clause="R-187",
        says="broker {0} sent a heartbeat, and its next one is not timed anew",
        after=heard(MetadataHeartbeat, keys=_senders_to_time),
        then=(*armed(Timer.SILENCE, keys=lambda item, _: [(item.about,)]), *replied(MetadataHeartbeat, keys=_refused_senders)),
    ),
    Within(
        name="silence-ignored",
        clause="R-187",
        says="broker {0} sent no heartbeat in time, and does not count as inactive",
        after=fired(Timer.SILENCE, keys=_silent_broker),
        then=noted("broker-state", keys=_broker_made_inactive),
    ),
    Never(
        name="results-mixed-up",
        clause="R-198, R-203",
        says="the results for {0} are not those of what it proposed",
        what=replied(IsrChange, keys=_peers_given_wrong_results),
    ),
    Within(
        name="notification-kept",
        clause="R-300",
        says="the notification {0} was read and not deleted",
        holds=lambda config: config.variant.log_dir_failure == "replicas",
        after=read(GetData, keys=_notification_read),
        then=asked(Delete, keys=lambda op, _: [(op.path,)]),
    ),
    Within(
        name="office-not-claimed",
        clause="R-041",
        says="{0} does not exist, and the broker did not try to create it",
        after=read(Exists, keys=_vacant_office),
        then=asked(Create, keys=lambda op, _: [(op.path,)]),
    ),
)
