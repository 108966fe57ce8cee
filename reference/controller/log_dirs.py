"""The controller learns which replicas are offline on live brokers (KIP-112), and starts elections.

A broker whose directory failed leaves a notification. The controller reads it, deletes it, and asks that broker for the state of
all its replicas with a LeaderAndIsr (R-300). A broker that answers KAFKA_STORAGE_ERROR for a replica does not lead it and leaves
its ISR, until the broker registers again (`Channel.offline`, `context.electable`). If the controller dies between deletion and
question (U-22), the next controller asks every broker with its first commands (R-307). Only the controller of the present epoch
deletes a notification: a deposed controller could delete one that its successor has not seen.

    state       event                                 next        effects                         by
    any         a notification, or no answer          listing     list them, with a watch         _list
    listing     there are some                        reading     read each                       _read_notifications
    listing     there is none                         idle                                        _read_notifications
    reading     they are read                         deleting    delete them                     on_answer
    deleting    they are deleted                      idle        LeaderAndIsr to their brokers   on_answer
"""

from reference.controller import channel, leader_election
from reference.controller.context import Controller, ControllerStep, DirEvents, DirEventsStep, DirNotifications
from reference.controller.outstanding import ask, is_outstanding, write
from reference.coordination import paths
from reference.coordination.api import AnyAnswer, AnyOp, Children, Data, Delete, Deleted, GetChildren, GetData
from reference.errors import ErrorCode
from reference.machine import Turn
from reference.messages import LeaderAndIsr, LeaderAndIsrReply, LogInfoReply
from reference.types import BrokerId, TopicPartition

# --- notifications ----------------------------------------------------------------------------------------------------------


def watches(turn: Turn) -> tuple[AnyOp, ...]:
    """The ZooKeeper reads with which a new controller watches for failed log directories. None before KIP-112."""
    return (GetChildren(paths.LOG_DIR_EVENTS, watch=True),) if turn.config.variant.log_dir_failure == "replicas" else ()


def on_listed(controller: Controller, answers: tuple[AnyAnswer, ...]) -> None:
    """Remember whether log directory failures were notified; `begin` reads them once this controller is active."""
    controller.dir_events = DirEvents(again=any(isinstance(a, Children) and a.names for a in answers))


def begin(turn: Turn, controller: Controller) -> None:
    """The controller has become active: read the notifications of failed log directories, also new ones."""
    if controller.dir_events.again:
        _list(turn, controller)


def on_watch(turn: Turn, controller: Controller) -> None:
    """R-300: a notification of a failed log directory was created or deleted."""
    if controller.step is ControllerStep.ACTIVE and controller.dir_events.step is DirEventsStep.IDLE:
        _list(turn, controller)
    else:
        controller.dir_events.again = True


def _list(turn: Turn, controller: Controller) -> None:
    events = controller.dir_events
    events.again, events.step = False, DirEventsStep.LISTING
    ask(turn, controller, DirNotifications(), (GetChildren(paths.LOG_DIR_EVENTS, watch=True),))


def on_answer(turn: Turn, controller: Controller, answers: tuple[AnyAnswer, ...]) -> None:
    """ZooKeeper answered: the names of the log directory notifications, their data, or their deletion."""
    events = controller.dir_events
    if events.step is DirEventsStep.LISTING:
        _read_notifications(turn, controller, answers[0])
    elif events.step is DirEventsStep.READING:
        events.brokers = tuple(sorted({broker for answer in answers if (broker := _broker_of(answer)) is not None}))
        events.step = DirEventsStep.DELETING
        # U-22: a controller that dies after this leaves no notification; its successor asks every broker
        deletes = tuple(Delete(f"{paths.LOG_DIR_EVENTS}/{name}") for name in events.names)
        write(turn, controller, DirNotifications(), deletes)
    else:
        # A notification that was gone was deleted by a request whose answer was lost: ask its broker all the same.
        events.step = DirEventsStep.IDLE
        events.again = events.again or not all(isinstance(answer, Deleted) for answer in answers)
        _query(turn, controller)
    if events.step is DirEventsStep.IDLE and events.again:
        _list(turn, controller)


def _read_notifications(turn: Turn, controller: Controller, answer: AnyAnswer) -> None:
    """Read the listed notifications of failed directories."""
    events = controller.dir_events
    events.names = answer.names if isinstance(answer, Children) else ()
    events.step = DirEventsStep.READING if events.names else DirEventsStep.IDLE
    if events.names:
        ask(turn, controller, DirNotifications(), tuple(GetData(f"{paths.LOG_DIR_EVENTS}/{name}") for name in events.names))


def _broker_of(answer: AnyAnswer) -> BrokerId | None:
    return paths.decode_log_dir_event(answer.data) if isinstance(answer, Data) else None


def _query(turn: Turn, controller: Controller) -> None:
    """R-300: send LeaderAndIsr to a broker whose directory failed; its answer says which of its replicas are offline."""
    if turn.config.variant.notification_requery:
        for broker in controller.dir_events.brokers:
            channel.tell_everything(controller, broker, init=False)


def retry(turn: Turn, controller: Controller) -> None:
    """ZooKeeper's answer was lost: list the notifications of failed log directories again."""
    if controller.dir_events.step is not DirEventsStep.IDLE and not is_outstanding(controller, DirNotifications()):
        _query(turn, controller)  # the lost request may have deleted the notifications that were read
        _list(turn, controller)


# --- answers of brokers ----------------------------------------------------------------------------------------------------


def on_told(turn: Turn, controller: Controller, broker: BrokerId, request: LeaderAndIsr, reply: LeaderAndIsrReply) -> None:
    """R-294, R-297, R-307: a broker answered KAFKA_STORAGE_ERROR for a replica: it is offline; after any other code it is not."""
    if request.init and not turn.config.variant.failover_query:
        return
    for tp, error in reply.errors:
        _learn(turn, controller, broker, tp, offline=error is ErrorCode.KAFKA_STORAGE_ERROR)


def on_log_info(turn: Turn, controller: Controller, broker: BrokerId, reply: LogInfoReply) -> None:
    """A log is in a failed directory: its partition waits until the log can be read (docs/promise.md SILENT-1)."""
    for tp in reply.offline:
        _learn(turn, controller, broker, tp, offline=True)


def _learn(turn: Turn, controller: Controller, broker: BrokerId, tp: TopicPartition, *, offline: bool) -> None:
    """Note that a replica went offline or came back, tell the other brokers, and elect."""
    peer = channel.channel_of(controller, broker)
    if peer is None or (tp in peer.offline) == offline:
        return
    peer.offline = tuple(sorted((*peer.offline, tp))) if offline else tuple(other for other in peer.offline if other != tp)
    channel.tell_offline(controller, tp)
    if tp in controller.assignments:
        leader_election.start(turn, controller, tp)  # the replica leaves the ISR, another one leads (U-16)
