"""Rules of the controller while replicas move from one broker to another (KIP-236)."""

from collections.abc import Iterable, Iterator

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
from reference.coordination import admin_paths, paths
from reference.coordination.api import Children, Create, Data, GetChildren, GetData, SetData
from reference.errors import ErrorCode
from reference.messages import (
    MetadataHeartbeat,
    StopReplica,
    UpdateMetadata,
)
from reference.types import BrokerId, TopicPartition, broker_address, broker_at

_NO_MOVE = admin_paths.Reassignment(())


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


def _replicas_left_out(op: SetData, memory: Memory) -> Iterator[tuple[TopicPartition, BrokerId]]:
    """Replicas that the assignment written here leaves out and the one that was read last has.

    None where the write names an older version: ZooKeeper refuses it.
    """
    topic = topic_at(op.path)
    if topic is None or op.version not in (-1, memory.of("topic-version", topic, op.version)):
        return
    for tp, replicas in paths.decode_topic(topic, op.data):
        for broker in memory.of("assigned", tp, ()):
            if broker not in replicas:
                yield tp, broker


def _replicas_dropped(op: SetData, memory: Memory) -> Iterable[Key]:
    """The same, each as (partition, address)."""
    for tp, broker in _replicas_left_out(op, memory):
        yield tp, broker_address(broker)


def _replicas_dropped_untold(op: SetData, memory: Memory) -> Iterable[Key]:
    """Replicas that are dropped on a registered broker that was not told to delete them, though it waits for no answer."""
    for tp, broker in _replicas_left_out(op, memory):
        address = broker_address(broker)
        is_listed = broker in memory.of("registered", default=()) and not memory.of("unread", str(broker))
        registration = memory.of("living", str(broker))
        is_free = memory.of("commanded", address) == registration and not memory.of("busy", address)
        if is_listed and is_free and not memory.of("told-to-delete", (tp, address, registration)):
            yield tp, address


def _is_rolled_back(tp: TopicPartition, memory: Memory) -> bool:
    """Whether the move of a partition is cancelled, or another one is asked for beside it."""
    return bool(memory.of("cancelled") or memory.of("extra", tp))


def _originals_dropped(op: SetData, memory: Memory) -> Iterable[Key]:
    """Original replicas that are dropped though the move is to be rolled back."""
    for tp, broker in _replicas_left_out(op, memory):
        if _is_rolled_back(tp, memory) and broker in memory.of("pending", tp, _NO_MOVE).original:
            yield tp, broker_address(broker)


def _entries_added(op: SetData | Create, memory: Memory) -> Iterable[Key]:
    """Partitions of the pending reassignment that is written here, and was not the one read last, while all moves go back."""
    if op.path == admin_paths.REASSIGN and memory.of("cancelled"):
        for tp in admin_paths.decode_reassignments(op.data)[0]:
            if tp not in memory.facts["pending"]:
                yield (tp,)


def _originals_replaced(op: SetData, memory: Memory) -> Iterable[Key]:
    """(partition, original replicas written, those read) of entries whose original replicas are written anew."""
    if op.path == admin_paths.REASSIGN:
        for tp, entry in admin_paths.decode_reassignments(op.data)[0].items():
            before = memory.of("pending", tp, _NO_MOVE).original
            if before and entry.original != before:
                yield tp, entry.original, before


def _in_another_order(op: SetData, memory: Memory) -> Iterable[Key]:
    """(partition, replicas written, replicas wanted) of an assignment that ends a move in another order."""
    topic = topic_at(op.path)
    for tp, replicas in () if topic is None else paths.decode_topic(topic, op.data):
        move, before = memory.of("pending", tp, _NO_MOVE), memory.of("assigned", tp, ())
        wanted = move.replicas
        original = move.original if _is_rolled_back(tp, memory) else wanted
        adds_none = {*replicas} <= {*before}
        if adds_none and replicas not in (before, wanted, original) and {*replicas} == {*wanted}:
            yield tp, replicas, wanted


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
        name="begun-while-cancelled",
        clause="R-239",
        says="the move of {0} was written as pending while /admin/reassign_cancel existed",
        holds=lambda config: config.variant.reassign_rollback,
        what=asked(SetData, Create, keys=_entries_added),
    ),
    Never(
        name="original-replaced",
        clause="R-230, R-232",
        says="the original replicas of {0} were written as {1}; they were {2}",
        holds=lambda config: config.variant.reassign_rollback,
        what=asked(SetData, keys=_originals_replaced),
    ),
    Never(
        name="assigned-in-another-order",
        clause="R-151, R-238",
        says="{0} was assigned to {1} at the end of its move, and was to be assigned to {2}",
        what=asked(SetData, keys=_in_another_order),
    ),
    Never(
        name="narrowed-untold",
        clause="R-237, R-238",
        says="the assignment of {0} was written without {1}, which was not told to delete its replica",
        holds=lambda config: config.variant.reassign_order == "ar_last",
        what=asked(SetData, keys=_replicas_dropped_untold),
    ),
    Never(
        name="cancelled-move-goes-on",
        clause="R-233, R-243",
        says="{1}, an original replica of {0}, was dropped though the move is to be rolled back",
        holds=lambda config: config.variant.reassign_rollback and config.variant.reassignment == "A",
        what=asked(SetData, keys=_originals_dropped),
    ),
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
