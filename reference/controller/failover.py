"""A new controller takes over (V3 §D steps 3 to 9).

The new controller reads everything from ZooKeeper, which is the truth (R-066), and tells every broker everything, because
commands of the former controller may have been lost (R-044).
"""

from reference.controller import admin, broker_change, channel, leader_election, listings, log_dirs, standings
from reference.controller.context import ADMIN_KINDS, BrokerList, Controller, ControllerStep, OwnElection, TopicList
from reference.controller.outstanding import ask
from reference.controller.reassign import reassignment
from reference.coordination import paths
from reference.coordination.api import AnyAnswer, AnyOp, Children, Data, Exists, GetChildren, GetData
from reference.machine import Turn
from reference.types import TopicId


def begin(turn: Turn, controller: Controller) -> None:
    """A new controller lists brokers and topics, with watches."""
    controller.step = ControllerStep.LISTING
    ops = (
        Exists(paths.CONTROLLER, watch=True),
        GetChildren(paths.BROKER_IDS, watch=True),
        GetChildren(paths.TOPICS, watch=True),
        *reassignment.watches(turn),
        *admin.watches(),
        *log_dirs.watches(turn),
    )
    ask(turn, controller, OwnElection(), ops)


def on_listed(turn: Turn, controller: Controller, answers: tuple[AnyAnswer, ...]) -> None:
    """A new controller has the lists of brokers and topics: read each registration and each assignment."""
    _, brokers, topics, *requests = answers
    count = len(reassignment.watches(turn))
    reassignment.on_listed(turn, controller, tuple(requests[:count]))
    admin.on_listed(controller, tuple(requests[count : count + len(ADMIN_KINDS)]))
    log_dirs.on_listed(controller, tuple(requests[count + len(ADMIN_KINDS) :]))
    controller.brokers_listing.names = brokers.names if isinstance(brokers, Children) else ()
    controller.topics = topics.names if isinstance(topics, Children) else ()
    controller.step = ControllerStep.READING
    ops: list[AnyOp] = [GetData(f"{paths.BROKER_IDS}/{name}") for name in controller.brokers_listing.names]
    ops += [GetData(paths.topic_path(topic)) for topic in controller.topics]
    ask(turn, controller, OwnElection(), tuple(ops))  # never empty: this broker is registered


def on_read(turn: Turn, controller: Controller, answers: tuple[AnyAnswer, ...]) -> None:
    """V3 §D step 3: read the LeaderAndISR path for each partition."""
    names = controller.brokers_listing.names
    broker_change.take_over(controller, broker_change.registrations(names, answers[: len(names)]))
    controller.legacy = broker_change.legacy_registrations(names, answers[: len(names)])
    controller.assignments, controller.topic_ids = {}, {}
    for topic, answer in zip(controller.topics, answers[len(names) :], strict=True):
        if isinstance(answer, Data):
            controller.topic_ids[topic] = TopicId(answer.czxid)
            controller.assignments.update(paths.decode_topic(topic, answer.data))
    controller.step = ControllerStep.STATES
    if controller.assignments:
        ask(turn, controller, OwnElection(), tuple(GetData(paths.state_path(tp)) for tp in sorted(controller.assignments)))
    else:
        on_states(turn, controller, ())


def on_states(turn: Turn, controller: Controller, answers: tuple[AnyAnswer, ...]) -> None:
    """A new controller has the partition states: see first which partitions are being deleted."""
    controller.states = {
        tp: paths.decode_state(tp, replicas, answer)
        for (tp, replicas), answer in zip(sorted(controller.assignments.items()), answers, strict=True)
        if isinstance(answer, Data)
    }
    controller.step = ControllerStep.REMOVALS
    if turn.config.variant.removals_first:
        admin.begin_removals(turn, controller)
    proceed(turn, controller)


def proceed(turn: Turn, controller: Controller) -> None:
    """Take office once no deletion is left to be read.

    The former controller may have deleted replicas of a partition that is listed still. If the new one commanded it, a broker
    would create its replica again and fetch the deleted records (B-62).
    """
    if controller.step is not ControllerStep.REMOVALS:
        return
    if not (turn.config.variant.removals_first and admin.reads_removals(controller)):
        _take_office(turn, controller)


def _take_office(turn: Turn, controller: Controller) -> None:
    """V3 §D steps 4 to 9: a new controller tells every broker all partition states (R-044), elects, and takes up requests."""
    controller.step = ControllerStep.ACTIVE
    standings.take_over(turn, controller)
    channel.open_channels(turn, controller, controller.live)
    for live in controller.live:
        # V3 §D step 4: LeaderAndISR with the flag INIT; its answers say which replicas are offline
        channel.tell_everything(controller, live.broker, init=True)
    # V3 §D step 5: call on_broker_change(). This broker saw no change while the former controller was in office, so it looks at
    # each partition that has a state.
    for tp in sorted(controller.states):
        leader_election.start(turn, controller, tp)
    # V3 §D step 6: call init_leaders() for the partitions without a leader, which are those without a state
    for tp in sorted(controller.assignments.keys() - controller.states.keys()):
        leader_election.start(turn, controller, tp)
    # watches may have fired between the listing and now
    listings.resume(turn, controller, BrokerList())
    listings.resume(turn, controller, TopicList())
    log_dirs.begin(turn, controller)
    reassignment.begin(turn, controller)  # V3 §D step 7: call on_partitions_reassigned()
    admin.begin(turn, controller)
