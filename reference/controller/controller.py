"""The controller of a broker: dispatch of watches, answers, timers and messages to its procedures (V3 overview, §A, §B, §D)."""

from typing import assert_never

from reference.controller import (
    admin,
    broker_change,
    channel,
    controller_election,
    failover,
    heartbeats,
    isr_change,
    leader_election,
    listings,
    log_dirs,
    topics,
)
from reference.controller.context import (
    AdminPath,
    AnyPending,
    BrokerList,
    Controller,
    ControllerStep,
    DirNotifications,
    Elections,
    LeaderElection,
    Outstanding,
    OwnElection,
    Reassigning,
    TopicList,
    in_office,
)
from reference.controller.outstanding import is_outstanding, retry_later
from reference.controller.reassign import move as reassign_move
from reference.controller.reassign import reassignment
from reference.coordination import paths
from reference.coordination.api import AnyAnswer, BadVersion, NoNode, SessionExpired, Unknown
from reference.errors import ErrorCode
from reference.machine import Turn
from reference.messages import (
    CommandReply,
    IsrChange,
    LeaderAndIsr,
    LeaderAndIsrReply,
    LogInfo,
    LogInfoReply,
    MetadataHeartbeat,
    StopReplica,
    StopReplicaReply,
)
from reference.types import Address, BrokerId


def on_registered(turn: Turn, controller: Controller) -> None:
    """This broker has registered and may become controller."""
    if controller.locked:
        return  # B-46
    controller_election.look(turn, controller)


def on_watch(turn: Turn, controller: Controller, path: str) -> None:
    """A ZooKeeper watch of the controller fired: brokers, topics or requests may have changed (V3 §A, §B, §D)."""
    if path == paths.CONTROLLER and controller.step is not ControllerStep.OFF:
        controller_election.look(turn, controller)
    elif path == paths.BROKER_IDS:
        listings.on_watch(turn, controller, BrokerList())
    elif path == paths.TOPICS:
        listings.on_watch(turn, controller, TopicList())
    elif path == paths.LOG_DIR_EVENTS:
        log_dirs.on_watch(turn, controller)
    elif not reassignment.on_watch(turn, controller, path):
        admin.on_watch(turn, controller, path)


def on_answer(turn: Turn, controller: Controller, sent: Outstanding, answers: tuple[AnyAnswer, ...], session: int) -> None:
    """Hand an answer of ZooKeeper to the controller's procedure that waits for it."""
    if isinstance(answers[0], SessionExpired):
        return  # ZkState("expired") follows
    controller.outstanding.remove(sent)
    if isinstance(answers[0], Unknown):
        if isinstance(sent.pending, OwnElection) and not in_office(controller):
            controller.step = ControllerStep.LOOKING
        retry_later(turn)
    elif sent.guarded and isinstance(answers[0], (BadVersion, NoNode)):
        # /controller_epoch is another one: this controller has been replaced
        controller_election.resign(turn, controller)
        controller_election.look(turn, controller)
    else:
        _dispatch(turn, controller, sent.pending, answers[1:] if sent.guarded else answers, session)
    _proceed(turn, controller)


def _dispatch(turn: Turn, controller: Controller, pending: AnyPending, answers: tuple[AnyAnswer, ...], session: int) -> None:
    """Give ZooKeeper's answers to the procedure that asked."""
    match pending:
        case OwnElection():
            _on_step(turn, controller, answers, session)
        case BrokerList():
            broker_change.on_answer(turn, controller, answers)
        case TopicList():
            topics.on_answer(turn, controller, answers)
        case LeaderElection(tp=tp):
            leader_election.on_answer(turn, controller, tp, answers)
        case Elections(partitions=partitions):
            leader_election.on_batch_answer(turn, controller, partitions, answers)
        case DirNotifications():
            log_dirs.on_answer(turn, controller, answers)
        case AdminPath(kind=kind):
            admin.on_answer(turn, controller, kind, answers)
        case Reassigning():
            reassignment.on_answer(turn, controller, answers)
        case _ as unreachable:
            assert_never(unreachable)


def _proceed(turn: Turn, controller: Controller) -> None:
    """Let every procedure of the controller go on: what it waited for may have happened."""
    failover.proceed(turn, controller)
    leader_election.proceed(turn, controller)
    reassignment.proceed(turn, controller)
    admin.proceed(turn, controller)
    channel.pump(turn, controller)


def _on_step(turn: Turn, controller: Controller, answers: tuple[AnyAnswer, ...], session: int) -> None:
    """Give ZooKeeper's answer about this broker's own office to the function for its step (V3 §D).

    In office it looks only to learn that it was replaced. Who is off, or watches another controller, asked in an earlier term.
    """
    match controller.step:
        case ControllerStep.LOOKING | ControllerStep.REMOVALS | ControllerStep.ACTIVE:
            controller_election.on_looked(turn, controller, answers, session)
        case ControllerStep.CLAIMING:
            controller_election.on_claimed(turn, controller, answers)
        case ControllerStep.RAISING_EPOCH:
            controller_election.on_epoch_raised(turn, controller, answers[0])
        case ControllerStep.LISTING:
            failover.on_listed(turn, controller, answers)
        case ControllerStep.READING:
            failover.on_read(turn, controller, answers)
        case ControllerStep.STATES:
            failover.on_states(turn, controller, answers)
        case ControllerStep.OFF | ControllerStep.WATCHING:
            pass


def on_timer(turn: Turn, controller: Controller) -> None:
    """Repeat each step of the controller whose ZooKeeper answer was lost."""
    if (controller.step is ControllerStep.LOOKING or in_office(controller)) and not is_outstanding(controller, OwnElection()):
        controller_election.look(turn, controller)
    if in_office(controller):
        listings.retry(turn, controller)
        leader_election.retry(turn, controller)
        log_dirs.retry(turn, controller)
        admin.retry(turn, controller)
        reassignment.retry(turn, controller)


def on_reply(turn: Turn, controller: Controller, broker: BrokerId, reply: CommandReply) -> None:
    """A broker answered a control request: hand the answer to the procedures that wait for it."""
    request = channel.on_reply(turn, controller, broker, reply)
    if request is None:
        return
    if reply.error is ErrorCode.STALE_CONTROLLER_EPOCH:
        controller_election.look(turn, controller)  # there may be a newer controller: then this one resigns
    elif isinstance(request, LogInfo) and isinstance(reply, LogInfoReply):
        log_dirs.on_log_info(turn, controller, broker, reply)
        leader_election.on_log_info(turn, controller, broker, request, reply)
        _proceed(turn, controller)
    elif isinstance(request, LeaderAndIsr) and isinstance(reply, LeaderAndIsrReply):
        log_dirs.on_told(turn, controller, broker, request, reply)
        channel.pump(turn, controller)
    elif isinstance(request, StopReplica) and isinstance(reply, StopReplicaReply):
        reassign_move.on_stopped(controller, reply)
        _proceed(turn, controller)


def on_request(turn: Turn, controller: Controller, source: Address, request: MetadataHeartbeat | IsrChange) -> None:
    """A broker sends a heartbeat, or a leader proposes another ISR (KIP-343)."""
    if isinstance(request, MetadataHeartbeat):
        heartbeats.on_heartbeat(turn, controller, source, request)
    else:
        isr_change.on_isr_change(turn, controller, source, request)
    channel.pump(turn, controller)


def on_silence(turn: Turn, controller: Controller, broker: BrokerId) -> None:
    """A broker sent the controller no heartbeat in time (KIP-343): what waits for its answers goes on (R-183, R-244)."""
    heartbeats.on_silence(turn, controller, broker)
    _proceed(turn, controller)


def on_expired(turn: Turn, controller: Controller) -> None:
    """The ZooKeeper session is over, and with it /controller if this broker created it."""
    if turn.config.variant.session_handler_lock and controller.step is ControllerStep.ACTIVE:
        # KAFKA-4360: the handler of the new session waits for a lock that the resigning controller holds
        controller.locked = True
    controller_election.resign(turn, controller)
