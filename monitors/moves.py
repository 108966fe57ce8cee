"""Rules of the controller while replicas move from one broker to another (KIP-236)."""

from collections.abc import Iterable

from monitors.engine import Never, Rule
from monitors.facts import COMMANDS, topic_at
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
    heard,
    noted,
    read,
    sent,
)
from reference.coordination import paths
from reference.coordination.api import Children, Data, GetChildren, GetData, SetData
from reference.errors import ErrorCode
from reference.messages import (
    MetadataHeartbeat,
    StopReplica,
    UpdateMetadata,
)
from reference.types import BrokerId, broker_address, broker_at


def _replicas_moved_away(send: Sent, memory: Memory, *, delete: bool | None = None) -> Iterable[Key]:
    """(partition, address) of the replicas that a move stops; `delete` chooses those that are deleted, or those that are not."""
    for stop in send.message.partitions:
        if stop.moved and delete in (None, stop.delete):
            yield stop.tp, send.to


def _awaited_stops(send: Sent, memory: Memory) -> Iterable[Key]:
    """The replicas that a move stops on a broker that counts as active."""
    if _is_active(send, memory):
        yield from _replicas_moved_away(send, memory)


def _awaited_first_stops(send: Sent, memory: Memory) -> Iterable[Key]:
    """The same, of the stops that come before a deletion."""
    if _is_active(send, memory):
        yield from _replicas_moved_away(send, memory, delete=False)


def _replicas_deleted(send: Sent, memory: Memory) -> Iterable[Key]:
    """The replicas that a move deletes."""
    return _replicas_moved_away(send, memory, delete=True)


def _stops_answered(exchange: Exchange, memory: Memory) -> Iterable[Key]:
    """The stops that a broker answered; STALE_BROKER_EPOCH does not count, for the command is sent again."""
    if exchange.reply.error is not ErrorCode.STALE_BROKER_EPOCH:  # which is sent again
        for stop in exchange.request.partitions:
            yield stop.tp, exchange.peer


def _is_active(send: Sent, memory: Memory) -> bool:
    """Whether the receiver counts: the metadata told last lists it, and this registration was noted as active or stopping.

    A broker that the last list of registrations leaves out does not count: the controller drops it once it has read the others.
    A broker without heartbeats always counts (R-206), whether the controller itself sends some or not. The controller notes no
    state of a registration that is over, so one of the two alone may be of another registration.
    """
    broker = broker_at(send.to)
    if broker not in memory.of("registered", default=(broker,)):
        return False
    state, incarnation = memory.of("standing", broker, ("inactive", None))
    is_noted = state != "inactive" and incarnation == send.message.broker_incarnation
    is_legacy = not memory.config.variant.heartbeat or memory.of("legacy", str(broker)) == send.message.broker_incarnation
    return is_legacy or (is_noted and broker in (memory.of("told-live") or ()))


def _brokers_left_out(send: Sent, memory: Memory) -> Iterable[Key]:
    """The registered brokers that the metadata do not list as live, for any partition."""
    for broker in memory.of("registered", default=frozenset()):
        if broker not in send.message.live_brokers:
            yield ANY, broker_address(broker)


def _registrations_over(outcome: Outcome, memory: Memory) -> Iterable[Key]:
    """Spans end for brokers whose registration is over: another list, or a registration that is read anew."""
    path = outcome.op.path
    if path == paths.BROKER_IDS:
        names = outcome.answer.names if isinstance(outcome.answer, Children) else ()
        for broker in memory.of("registered", default=frozenset()):
            if str(broker) not in names:
                yield ANY, broker_address(broker)


def _registration_replaced(outcome: Outcome, memory: Memory) -> Iterable[Key]:
    """The registration that was read is another one than that which was commanded."""
    name = outcome.op.path.removeprefix(f"{paths.BROKER_IDS}/")
    if outcome.op.path != name and name.isdecimal():
        address = broker_address(BrokerId(int(name)))
        if not isinstance(outcome.answer, Data) or outcome.answer.czxid != memory.of("commanded", address):
            yield ANY, address


def _newly_commanded(send: Sent, memory: Memory) -> Iterable[Key]:
    """The receiver, if the command names another registration than the last one to it."""
    if send.message.broker_incarnation != memory.of("commanded", send.to):
        yield ANY, send.to


def _newly_registered(event: Heard, memory: Memory) -> Iterable[Key]:
    """The sender of a heartbeat whose registration is later than any accepted before."""
    heartbeat = event.message
    if heartbeat.incarnation > memory.of("accepted", heartbeat.broker, -1):
        yield ANY, broker_address(heartbeat.broker)


def _replicas_dropped(op: SetData, memory: Memory) -> Iterable[Key]:
    """Replicas that the assignment written here leaves out and the one that was read last has."""
    topic = topic_at(op.path)
    if topic is None:
        return
    for tp, replicas in paths.decode_topic(topic, op.data):
        for broker in memory.of("assigned", tp, ()):
            if broker not in replicas:
                yield tp, broker_address(broker)


_STOP_ENDS = (
    *answered(StopReplica, keys=_stops_answered),
    *noted("broker-state", keys=lambda n, _: [(ANY, broker_address(n.broker))] if n.detail == "inactive" else []),
    *noted("controller-resigned", keys=lambda n, _: [ALL]),
    *read(GetChildren, keys=_registrations_over),
    *read(GetData, keys=_registration_replaced),
    *sent(*COMMANDS, keys=_newly_commanded),
    *sent(UpdateMetadata, keys=_brokers_left_out),
    *heard(MetadataHeartbeat, keys=_newly_registered),
)

MOVES: tuple[Rule, ...] = (
    Never(
        name="narrowed-early",
        clause="R-236, R-238",
        says="the assignment of {0} was written without {1}, which has not answered StopReplica",
        holds=lambda config: config.variant.reassign_order == "ar_last",
        since=sent(StopReplica, keys=_awaited_stops),
        until=_STOP_ENDS,
        what=asked(SetData, keys=_replicas_dropped),
    ),
    Never(
        name="deleted-before-stopped",
        clause="R-236, R-237",
        says="{1} was told to delete its replica of {0} before it answered that it had stopped it",
        since=sent(StopReplica, keys=_awaited_first_stops),
        until=_STOP_ENDS,
        what=sent(StopReplica, keys=_replicas_deleted),
    ),
)
