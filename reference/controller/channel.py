"""Control requests to brokers: direct RPC, batched, one in flight for each broker, sent again until answered (V3 §A step 4).

A state that changes while a request is in flight replaces the queued one, so a broker is always told the latest (B-54). The queue
ends with the registration that it was made for.
"""

from operator import attrgetter

from msgspec.structs import replace

from reference.config import Variant
from reference.controller.context import Channel, Controller, LiveBroker, offline_replicas, served_by
from reference.effects import CancelTimer, Note
from reference.errors import ErrorCode
from reference.machine import Turn
from reference.messages import (
    AnyCommand,
    CommandReply,
    LeaderAndIsr,
    LogInfo,
    PartitionState,
    StopPartition,
    StopReplica,
    UpdateMetadata,
)
from reference.timers import Timer, name_of
from reference.types import NO_TOPIC_ID, BrokerId, TopicPartition, broker_address, topic_of


def channel_of(controller: Controller, broker: BrokerId) -> Channel | None:
    """The queue of control requests to a broker; None if the broker is not live."""
    for channel in controller.channels:
        if channel.broker == broker:
            return channel
    return None


def open_channels(turn: Turn, controller: Controller, live: tuple[LiveBroker, ...]) -> tuple[BrokerId, ...]:
    """Keep one queue of control requests for each live registration; return the brokers with a new one."""
    channels = []
    for channel in controller.channels:
        if LiveBroker(channel.broker, channel.incarnation) in live:
            channels.append(channel)
        else:
            turn.effects.append(CancelTimer(name_of(Timer.CHANNEL, channel.broker)))
    connected = {channel.broker for channel in channels}
    fresh = [Channel(broker=b.broker, incarnation=b.incarnation) for b in live if b.broker not in connected]
    controller.channels = sorted(channels + fresh, key=attrgetter("broker"))
    return tuple(channel.broker for channel in fresh)


def stamped(controller: Controller, state: PartitionState) -> PartitionState:
    """The partition state with the id of its topic (KIP-516)."""
    return replace(state, topic_id=controller.topic_ids.get(topic_of(state.tp), NO_TOPIC_ID))


def tell_state(controller: Controller, state: PartitionState, *, to: tuple[BrokerId, ...] | None = None) -> None:
    """Queue LeaderAndIsr for the replicas, or for `to`, and metadata for every broker (V3 §A step 4, R-238)."""
    state = stamped(controller, state)
    for channel in controller.channels:
        if channel.broker in (state.replicas if to is None else to):
            channel.states[state.tp] = state
        _queue_metadata(channel, state)


def tell_metadata(controller: Controller, state: PartitionState) -> None:
    """Queue metadata of a partition whose leader knows the state. A queued LeaderAndIsr must not carry an older one."""
    state = stamped(controller, state)
    for channel in controller.channels:
        if state.tp in channel.states:
            channel.states[state.tp] = state
        _queue_metadata(channel, state)


def _queue_metadata(channel: Channel, state: PartitionState) -> None:
    """Queue metadata of one partition for a broker, unless a full update, which has all partitions, is due anyway."""
    if not channel.metadata_full:
        channel.metadata[state.tp] = state
    channel.metadata_due = True


def tell_everything(controller: Controller, broker: BrokerId, *, init: bool) -> None:
    """Queue all states and metadata for a broker: a new registration, or a new controller (V3 §D step 4)."""
    channel = channel_of(controller, broker)
    if channel is None:
        return
    channel.init = channel.init or init
    _tell_all_metadata(channel)
    for state in controller.states.values():
        if broker in state.replicas:
            channel.states[state.tp] = stamped(controller, state)


def tell_what_is_gone(controller: Controller) -> None:
    """Queue full metadata for every broker, because partitions were deleted."""
    for channel in controller.channels:
        _tell_all_metadata(channel)


def _tell_all_metadata(channel: Channel) -> None:
    channel.metadata, channel.metadata_due, channel.metadata_full = {}, True, True


def tell_offline(controller: Controller, tp: TopicPartition) -> None:
    """Queue the metadata of one partition for every broker: its offline replicas have changed (R-304)."""
    state = controller.states.get(tp)
    if state is not None:
        for channel in controller.channels:
            _queue_metadata(channel, stamped(controller, state))


def mark_new(controller: Controller, tp: TopicPartition, brokers: tuple[BrokerId, ...]) -> None:
    """R-302: these brokers are to create this replica, which they never had (NewReplica to Online). Repeated until answered.

    Call this after the state is queued. It ends with the registration: a broker that starts with a bad directory may have created
    the replica there in its former life.
    """
    for channel in controller.channels:
        if channel.broker in brokers and tp in channel.states and tp not in channel.new:
            channel.new = tuple(sorted((*channel.new, tp)))


def tell_live_brokers(controller: Controller) -> None:
    """Queue the list of live brokers for every broker."""
    for channel in controller.channels:
        channel.metadata_due = True


def stop_replica(controller: Controller, stop: StopPartition, replicas: tuple[BrokerId, ...]) -> None:
    """Queue StopReplica to these brokers (V3 §B step 2), and drop every queued command for the partition."""
    tp = stop.tp
    if stop.topic_id == NO_TOPIC_ID:
        stop = replace(stop, topic_id=controller.topic_ids.get(topic_of(tp), NO_TOPIC_ID))
    for channel in controller.channels:
        _forget_command(channel, tp)
        if channel.broker in replicas:
            channel.stops[tp] = stop


def drop_replica(controller: Controller, stop: StopPartition, replicas: tuple[BrokerId, ...]) -> None:
    """Queue StopReplica to these brokers while the others keep their replicas (R-236, R-237)."""
    stop = replace(stop, topic_id=controller.topic_ids.get(topic_of(stop.tp), NO_TOPIC_ID), moved=True)
    for channel in controller.channels:
        if channel.broker in replicas:
            _forget_command(channel, stop.tp)
            channel.stops[stop.tp] = stop


def is_stopping(channel: Channel, tp: TopicPartition) -> bool:
    """Whether a StopReplica for this partition is not answered yet."""
    in_flight = channel.in_flight.partitions if isinstance(channel.in_flight, StopReplica) else ()
    return tp in channel.stops or any(stop.tp == tp for stop in in_flight)


def _forget_command(channel: Channel, tp: TopicPartition) -> None:
    """Take a partition that is deleted or lost its replica out of the commands that are queued or in flight."""
    if isinstance(channel.in_flight, LeaderAndIsr):
        others = tuple(state for state in channel.in_flight.states if state.tp != tp)
        channel.in_flight = replace(channel.in_flight, states=others)  # sent again, it must not create the replica again
    channel.states.pop(tp, None)
    channel.new = tuple(other for other in channel.new if other != tp)
    channel.offline = tuple(other for other in channel.offline if other != tp)


def ask_log(controller: Controller, broker: BrokerId, tp: TopicPartition) -> None:
    """Queue a LogInfo to a broker: the controller needs the end of this log for an election."""
    channel = channel_of(controller, broker)
    if channel is not None and tp not in channel.logs:
        channel.logs = (*channel.logs, tp)


def pump(turn: Turn, controller: Controller) -> None:
    """Send the next queued request to each broker that has none in flight (R-017, R-069, R-082, R-156, C-05)."""
    for channel in controller.channels:
        if channel.in_flight is None and not channel.backing_off:
            _send_next(turn, controller, channel)


def _send_next(turn: Turn, controller: Controller, channel: Channel) -> None:
    """Send the next request to the broker, if any: StopReplica, then LeaderAndIsr, LogInfo, UpdateMetadata."""
    me, epoch, incarnation = turn.config.broker, controller.epoch, channel.incarnation
    if channel.stops:
        number, stops = turn.correlation(), tuple(channel.stops[tp] for tp in sorted(channel.stops))
        channel.in_flight = StopReplica(number, me, epoch, incarnation, stops, number)
        channel.stops = {}
    elif channel.states or channel.init:
        states = tuple(channel.states[tp] for tp in sorted(channel.states))
        new = tuple(tp for tp in channel.new if tp in channel.states)
        number = turn.correlation()
        channel.in_flight = LeaderAndIsr(number, me, epoch, incarnation, channel.init, states, new, number)
        channel.states, channel.init = {}, False
    elif channel.logs:
        channel.in_flight = LogInfo(turn.correlation(), me, epoch, incarnation, channel.logs)
        channel.logs = ()
    elif channel.metadata_due and not _all_wait(turn.config.variant, controller, channel):
        full = channel.metadata_full
        metadata = {tp: stamped(controller, s) for tp, s in controller.states.items()} if full else channel.metadata
        waiting = {tp: s for tp, s in metadata.items() if not full and _waits_for_leader(turn.config.variant, controller, s)}
        states = tuple(_with_offline(controller, metadata[tp]) for tp in sorted(metadata) if tp not in waiting)
        number, live = turn.correlation(), served_by(controller)
        channel.in_flight = UpdateMetadata(number, me, epoch, incarnation, live, states, full, number)
        channel.metadata, channel.metadata_due, channel.metadata_full = waiting, bool(waiting), False
    else:
        return
    turn.send(broker_address(channel.broker), channel.in_flight)
    turn.arm(name_of(Timer.CHANNEL, channel.broker), turn.config.request_timeout_ms)


def _waits_for_leader(variant: Variant, controller: Controller, state: PartitionState) -> bool:
    """R-081: whether the leader of this state has not answered the command that makes it the leader.

    A full update waits for nobody: its receiver would take what is missing for deleted.
    """
    channel = None if variant.client_routing == "at_once" or state.leader is None else channel_of(controller, state.leader)
    if channel is None:
        return False
    in_flight = channel.in_flight.states if isinstance(channel.in_flight, LeaderAndIsr) else ()
    return state.tp in channel.states or any(sent.tp == state.tp for sent in in_flight)


def _all_wait(variant: Variant, controller: Controller, channel: Channel) -> bool:
    """Whether an update would tell nothing: it has partitions, and the leaders of all have still to answer."""
    told = channel.metadata.values()
    return not channel.metadata_full and bool(told) and all(_waits_for_leader(variant, controller, state) for state in told)


def _with_offline(controller: Controller, state: PartitionState) -> PartitionState:
    """R-304, R-311: add to a state the replicas that are offline at the moment of sending."""
    offline = offline_replicas(controller, state.tp, state.replicas)
    return state if offline == state.offline else replace(state, offline=offline)


def _requeue(channel: Channel) -> None:
    """Queue an unanswered control request again; newer queued states of a partition replace its own."""
    match channel.in_flight:
        case StopReplica(partitions=partitions):
            channel.stops = {stop.tp: stop for stop in partitions} | channel.stops
        case LeaderAndIsr(states=states, init=init):
            channel.states = {s.tp: s for s in states} | channel.states
            channel.init = channel.init or init
        case LogInfo(partitions=tps):
            channel.logs = tps + tuple(tp for tp in channel.logs if tp not in tps)
        case UpdateMetadata(states=states, full=full):
            channel.metadata_full = channel.metadata_full or full
            channel.metadata = {} if channel.metadata_full else {s.tp: s for s in states} | channel.metadata
            channel.metadata_due = True
        case None:
            pass
    channel.in_flight = None


def on_timer(turn: Turn, controller: Controller, broker: BrokerId) -> None:
    """A broker did not answer a control request in time (R-017, R-077): send it again, with the changes since."""
    channel = channel_of(controller, broker)
    if channel is not None:
        _alert(turn, controller, channel)
        if turn.config.variant.controller_send_retry or channel.backing_off:
            _requeue(channel)
        channel.in_flight = None  # B-54: without a retry the channel goes on as if the broker had answered
        channel.backing_off = False
        _send_next(turn, controller, channel)


def _alert(turn: Turn, controller: Controller, channel: Channel) -> None:
    """R-077, V3 Discussion 6: tell the administrator of the timeout: the broker may need too long to become leader."""
    if channel.in_flight is None:
        return  # the timer ended a pause
    turn.note(
        Note(
            kind="command-unanswered",
            controller_epoch=controller.epoch,
            broker=channel.broker,
            incarnation=channel.incarnation,
            detail=type(channel.in_flight).__name__,
        )
    )


def on_reply(turn: Turn, controller: Controller, broker: BrokerId, reply: CommandReply) -> AnyCommand | None:
    """The request that a broker's reply answers; None if no answer is awaited, or the request is to be sent again."""
    channel = channel_of(controller, broker)
    if channel is None or channel.in_flight is None or channel.in_flight.correlation != reply.correlation:
        return None
    request = channel.in_flight
    if reply.error is ErrorCode.STALE_BROKER_EPOCH and turn.config.variant.broker_epoch_newer == "again":
        # The broker does not know its registration yet (KAFKA-9839), or has a newer one, which the watch will show.
        _requeue(channel)
        channel.backing_off = True
        turn.retry(name_of(Timer.CHANNEL, broker))
        return None
    channel.in_flight = None
    turn.effects.append(CancelTimer(name_of(Timer.CHANNEL, broker)))
    if isinstance(request, LeaderAndIsr) and reply.error is ErrorCode.NONE:
        channel.new = tuple(tp for tp in channel.new if tp not in request.new)
    if reply.error is ErrorCode.NONE:
        _send_next(turn, controller, channel)
    return request
