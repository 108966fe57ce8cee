"""The broker: its local replicas, its registration, what it tells clients; dispatch of what concerns them.

Commands of the controller are in `leader_and_isr`, `stop_replica` and `metadata`; the way into the cluster is in `startup`.
"""

from typing import Literal

from msgspec import Struct, field

from reference.broker.producer_ids import ProducerIds
from reference.config import min_isr_of
from reference.coordination.api import AnyAnswer
from reference.effects import Flush, Note, SetTimer, WriteCheckpoint
from reference.errors import ErrorCode
from reference.log import log as logs
from reference.machine import Turn
from reference.messages import (
    EARLIEST,
    EpochEnd,
    EpochEndReply,
    Fetch,
    FetchReply,
    ListOffsets,
    ListOffsetsReply,
    PartitionState,
    Produce,
    StopPartition,
    StopReplicaReply,
)
from reference.replica import delayed, follower, high_watermark, isr, leader
from reference.replica.partition import Idle, IsrAsked, Leader, Partition, is_of_another_topic
from reference.types import (
    NO_EPOCH,
    NO_INCARNATION,
    Address,
    BrokerId,
    BrokerState,
    ControllerEpoch,
    Incarnation,
    LeaderEpoch,
    Offset,
    TopicId,
    TopicPartition,
    topic_of,
)

# the step of broker.startup in progress
Registration = Literal["none", "creating", "reading", "learning-topics", "learning-assignments", "learning-states", "registered"]


class Membership(Struct):
    """What this broker is in the cluster, as far as it knows (KIP-343)."""

    state: BrokerState = BrokerState.INITIAL
    target: BrokerState = BrokerState.ACTIVE
    controller: BrokerId | None = None  # to whom heartbeats and ISR changes go
    outstanding: int = 0  # the heartbeat in flight
    attempts: int = 0  # at controlled shutdown, one for each retry backoff


class DirFlush(Struct):
    """The flushes of one directory: at most one in flight, and whether more was written since."""

    dir: int
    in_flight: int = 0
    dirty: bool = False


class Assigned(Struct, frozen=True, array_like=True):
    """A partition that is this broker's own, as its topic's znode says."""

    tp: TopicPartition
    replicas: tuple[BrokerId, ...]
    topic_id: TopicId


class Settling(Struct):
    """The answer to a StopReplica that waits until ZooKeeper has seen all that was sent to it before."""

    source: Address
    reply: StopReplicaReply
    request: int


Sent = tuple[ControllerEpoch, int]  # by which reign, and how-many-th of its requests: the order of a controller's commands


class Burial(Struct, frozen=True, array_like=True):
    """A replica was deleted by this command, which was sent then."""

    stop: StopPartition
    sent: Sent


class Suspect(Struct, frozen=True, array_like=True):
    """A replica that is perhaps nobody's, as it was when that was asked."""

    tp: TopicPartition
    topic_id: TopicId
    leader_epoch: LeaderEpoch


class Strays(Struct):
    """What a broker holds and its controller does not list, while it asks ZooKeeper (broker.strays)."""

    suspects: tuple[Suspect, ...] = ()
    request: int = 0
    late: bool = False  # a reign began while the broker read what is assigned to it


class Broker(Struct):
    """What a broker knows. Mappings are kept in the order of their keys, as their canonical encoding has them."""

    incarnation: Incarnation = NO_INCARNATION
    registration: Registration = "none"
    registration_request: int = 0
    learned: bool = False  # V3 §E was gone through in this life
    learning_topics: tuple[str, ...] = ()
    learning: list[Assigned] = []  # partitions whose states are being read (V3 §E step 2)
    before_learning: tuple[TopicPartition, ...] = ()
    stopped: tuple[TopicPartition, ...] = ()  # deleted by command while assignments were being read
    dir_births: tuple[Incarnation, ...] = ()  # of each log directory
    offline_dirs: tuple[int, ...] = ()  # bad for the rest of this life (broker.log_dirs)
    offline: dict[TopicPartition, TopicId] = {}  # replicas in them, as far as known
    dir_event: Literal["none", "due", "writing"] = "none"  # the notification of the controller
    dir_event_request: int = 0
    partitions: dict[TopicPartition, Partition] = {}
    buried: dict[TopicPartition, Burial] = {}  # replicas that were deleted: earlier commands do not bring them back
    controller_epoch: ControllerEpoch = ControllerEpoch(-1)  # the greatest seen in a command
    metadata: dict[TopicPartition, PartitionState] = {}
    metadata_order: tuple[int, int] = (-1, 0)  # controller epoch and number of the last update taken
    live_brokers: tuple[BrokerId, ...] = ()
    known_controller: BrokerId | None = None  # who told this broker of the cluster last
    flushes: list[DirFlush] = []
    settling: list[Settling] = []
    park_armed_ms: int | None = None
    membership: Membership = field(default_factory=Membership)
    asked: list[IsrAsked] = []
    closing: tuple[int, ...] | None = None  # shutting down: the directories that are not flushed yet
    strays: Strays = field(default_factory=Strays)
    producer_ids: ProducerIds = field(default_factory=ProducerIds)


def create_partition(turn: Turn, broker: Broker, tp: TopicPartition, log: logs.Log) -> Partition:
    """Take up a local replica with the settings of its topic; unknown topics have the defaults of a safe topic."""
    spec = next((t for t in turn.config.topics if t.name == topic_of(tp)), None)
    partition = Partition(
        tp=tp,
        log=log,
        min_isr=min_isr_of(turn.config, topic_of(tp)),
        before_ack=spec is not None and spec.flush == "before_ack",
        leader_epoch=logs.last_record_epoch(log) if turn.config.variant.startup_epoch_floor else NO_EPOCH,
    )
    broker.partitions = dict(sorted([*broker.partitions.items(), (tp, partition)], key=_by_name))
    return partition


def _by_name(item: tuple[TopicPartition, Partition]) -> TopicPartition:
    return item[0]


def absence(broker: Broker, tp: TopicPartition) -> ErrorCode:
    """What to answer about a replica that does not serve here: it is in a bad directory (C-22, KAFKA-6027), or unknown."""
    return ErrorCode.KAFKA_STORAGE_ERROR if tp in broker.offline else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def on_fetch(turn: Turn, broker: Broker, source: Address, fetch: Fetch) -> None:
    """V3 §G, or a consumer's fetch."""
    partition = broker.partitions.get(fetch.tp)
    if partition is None:
        turn.send(source, FetchReply(fetch.correlation, fetch.tp, absence(broker, fetch.tp), NO_EPOCH, Offset(0)))
    else:
        leader.on_fetch(turn, partition, source, fetch)


def on_fetch_reply(turn: Turn, broker: Broker, reply: FetchReply) -> None:
    """An answer to this broker's fetcher."""
    partition = broker.partitions.get(reply.tp)
    if partition is not None:
        follower.on_fetched(turn, partition, reply)


def on_epoch_end(turn: Turn, broker: Broker, source: Address, request: EpochEnd) -> None:
    """OffsetForLeaderEpoch."""
    partition = broker.partitions.get(request.tp)
    if partition is None:
        turn.send(source, EpochEndReply(request.correlation, request.tp, absence(broker, request.tp), NO_EPOCH, None))
    else:
        leader.on_epoch_end(turn, partition, source, request)


def on_epoch_end_reply(turn: Turn, broker: Broker, reply: EpochEndReply) -> None:
    """An answer to this broker's question."""
    partition = broker.partitions.get(reply.tp)
    if partition is not None:
        follower.on_epoch_end(turn, partition, reply)


def on_produce(turn: Turn, broker: Broker, source: Address, produce: Produce) -> None:
    """Records of a client."""
    partition = broker.partitions.get(produce.tp)
    if partition is not None:
        leader.on_produce(turn, partition, source, produce)
    else:
        leader.refuse(turn, source, produce, absence(broker, produce.tp))


def on_list_offsets(turn: Turn, broker: Broker, source: Address, request: ListOffsets) -> None:
    """Where consumers may read to, not before it is known to have reached what was committed (KIP-207); or from where."""
    partition = broker.partitions.get(request.tp)
    variant = turn.config.variant
    error = ErrorCode.NONE
    if partition is not None and is_of_another_topic(turn, partition, request.topic_id):
        turn.send(source, ListOffsetsReply(request.correlation, request.tp, ErrorCode.UNKNOWN_TOPIC_ID))
        return
    if partition is None or not isinstance(partition.role, Leader):
        error = absence(broker, request.tp) if partition is None else ErrorCode.NOT_LEADER_OR_FOLLOWER
        turn.send(source, ListOffsetsReply(request.correlation, request.tp, error))
        return
    asked = request.leader_epoch
    if variant.fetch_fencing and asked not in (NO_EPOCH, partition.leader_epoch):
        error = ErrorCode.FENCED_LEADER_EPOCH if asked < partition.leader_epoch else ErrorCode.UNKNOWN_LEADER_EPOCH
    elif request.timestamp == EARLIEST:
        turn.send(source, ListOffsetsReply(request.correlation, request.tp, error, Offset(0), partition.leader_epoch))
        return  # there is no retention: every log begins at 0
    elif partition.hw < partition.role.epoch_start and not variant.list_offsets_before_epoch_start:
        error = ErrorCode.OFFSET_NOT_AVAILABLE
    offset = partition.hw if error is ErrorCode.NONE else None
    turn.send(source, ListOffsetsReply(request.correlation, request.tp, error, offset, partition.leader_epoch))


# --- ZooKeeper's answers to ISR changes --------------------------------------------------------------------------------------


def on_isr_answer(turn: Turn, broker: Broker, request: int, answer: AnyAnswer) -> bool:
    """Was this the answer to an ISR change of a leader? If so it is dealt with."""
    for partition in broker.partitions.values():
        role = partition.role
        change = role.change if isinstance(role, Leader) else None
        if (
            isinstance(role, Leader)
            and change is not None
            and change.request == request
            and change.step in ("writing", "reading")
        ):
            isr.on_answer(turn, partition, role, answer)
            return True
    return False


def on_reconnected(turn: Turn, broker: Broker) -> None:
    """The session lives on: go on with what was lost."""
    for partition in broker.partitions.values():
        isr.resume(turn, partition)


# --- timers and disks ----------------------------------------------------------------------------------------------------------


def start_timers(turn: Turn) -> None:
    """The two periodic ones."""
    half = turn.config.replica_lag_time_max_ms // 2
    turn.effects.append(SetTimer("isr", half, half))
    if turn.config.variant.hw_checkpoint != "missing":
        turn.effects.append(SetTimer("checkpoint", turn.config.checkpoint_interval_ms, turn.config.checkpoint_interval_ms))


def on_isr_timer(turn: Turn, broker: Broker) -> None:
    """Every replica.lag.time.max.ms / 2: without it a dead follower would stay in the ISR of an idle partition (R-060, U-15)."""
    fenced = broker.membership.state is BrokerState.INACTIVE  # it refuses the fetches that it would miss here
    for partition in broker.partitions.values():
        looked_at = turn.config.variant.isr_shrink == "timer" and not fenced
        if isinstance(partition.role, Leader) and (looked_at or partition.role.change is not None):
            isr.maybe_shrink(turn, partition, partition.role)
    half = turn.config.replica_lag_time_max_ms // 2
    turn.effects.append(SetTimer("isr", half, half))


def on_checkpoint_timer(turn: Turn, broker: Broker) -> None:
    """Every replica.high.watermark.checkpoint.interval.ms."""
    write_checkpoints(turn, broker)
    turn.effects.append(SetTimer("checkpoint", turn.config.checkpoint_interval_ms, turn.config.checkpoint_interval_ms))


def write_checkpoints(turn: Turn, broker: Broker) -> None:
    """Those of all good directories: each has a file of its own, and that of a bad one is left alone (B-21, KAFKA-6604)."""
    for dir_ in range(turn.config.log_dirs):
        if dir_ not in broker.offline_dirs:
            write_checkpoint(turn, broker, dir_)


def write_checkpoint(turn: Turn, broker: Broker, dir_: int) -> None:
    """Write every replica's HW; those that have no role yet keep what the file said (B-18, B-19)."""
    variant = turn.config.variant
    if variant.hw_checkpoint == "missing":
        return
    without_idle = variant.hw_checkpoint == "eager" or (broker.learned and not variant.create_replica_without_leader)
    entries = tuple(
        sorted(
            (partition.tp, partition.hw)
            for partition in broker.partitions.values()
            if partition.log.dir == dir_ and not (without_idle and isinstance(partition.role, Idle))
        )
    )
    turn.effects.append(WriteCheckpoint(dir_, () if _lets_go(turn, broker) else entries))


def _lets_go(turn: Turn, broker: Broker) -> bool:
    """KAFKA-851, B-18: the broker that shuts down has let go of its replicas before it writes their high watermarks."""
    return turn.config.variant.hw_checkpoint == "zero_on_shutdown" and broker.closing is not None


def on_park_timer(turn: Turn, broker: Broker) -> None:
    """The first of the parked requests has waited long enough."""
    broker.park_armed_ms = None
    for partition in broker.partitions.values():
        if partition.fetches or partition.produces:
            delayed.expire(turn, partition)


def on_connection_lost(broker: Broker, peer: Address) -> None:
    """What this broker has asked that peer runs into its timers; what a client has asked nobody waits for any more."""
    for partition in broker.partitions.values():
        delayed.asker_gone(partition, peer)


def on_flushed(turn: Turn, broker: Broker, dir_: int, id_: int) -> None:
    """What stood in the page cache at that flush is durable."""
    flush = _flush_of(broker, dir_)
    if flush.in_flight != id_:
        return
    flush.in_flight = 0
    for partition in broker.partitions.values():
        if partition.log.dir == dir_ and partition.before_ack and partition.flushing > partition.flushed:
            partition.flushed = partition.flushing
            if isinstance(partition.role, Leader):
                high_watermark.advance(turn, partition, partition.role)
            else:
                follower.on_flushed(turn, partition)
    if flush.dirty:
        turn.needs_flush(dir_)


def _flush_of(broker: Broker, dir_: int) -> DirFlush:
    for flush in broker.flushes:
        if flush.dir == dir_:
            return flush
    flush = DirFlush(dir=dir_)
    broker.flushes.append(flush)
    return flush


def end_of_turn(turn: Turn, broker: Broker) -> None:
    """Ask for the flushes that were wanted, one in flight for each directory, and arm the timer of parked requests."""
    for dir_ in turn.flush_dirs:
        if dir_ in broker.offline_dirs:
            continue
        flush = _flush_of(broker, dir_)
        flush.dirty = flush.in_flight != 0
        if flush.dirty:
            continue
        flush.in_flight = turn.flush_id()
        for partition in broker.partitions.values():
            if partition.log.dir == dir_:
                partition.flushing = partition.log.leo
        turn.effects.append(Flush(dir_, flush.in_flight))
    deadline = turn.deadline_ms
    if deadline is not None and (broker.park_armed_ms is None or deadline < broker.park_armed_ms):
        broker.park_armed_ms = deadline
        wait = max(deadline - turn.now.monotonic_ms, 0)
        turn.effects.append(SetTimer("park", wait, wait))


def recovered_note(partition: Partition, cut: bool) -> Note:
    """How a replica was found at startup."""
    return Note(
        kind="recovered",
        tp=partition.tp,
        topic_id=partition.log.topic_id,
        leo=partition.log.leo,
        hw=partition.hw,
        dir=partition.log.dir,
        detail="cut at a bad CRC" if cut else None,
    )
