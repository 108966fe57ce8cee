"""The state of a broker, its requests from followers and clients, its timers and its flushes.

Commands of the controller are in `commands` and `metadata`, registration in `startup`.
"""

from enum import StrEnum
from operator import itemgetter

from msgspec import Struct, field

from reference.broker.producer_ids import ProducerIds
from reference.config import min_isr_of
from reference.coordination.api import AnyAnswer
from reference.effects import Flush, WriteCheckpoint
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
from reference.replica.partition import Idle, IsrAsked, IsrStep, Leader, Partition, is_of_another_topic
from reference.types import (
    NO_CONTROLLER_EPOCH,
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


class Registration(StrEnum):
    """How far a broker is with its registration and with what it reads after it (`broker.startup` has the table)."""

    NONE = "none"
    CREATING = "creating"
    READING = "reading"
    LEARNING_TOPICS = "learning-topics"
    LEARNING_ASSIGNMENTS = "learning-assignments"
    LEARNING_STATES = "learning-states"
    REGISTERED = "registered"


LEARNING = (Registration.LEARNING_TOPICS, Registration.LEARNING_ASSIGNMENTS, Registration.LEARNING_STATES)


class DirEvent(StrEnum):
    """Whether the controller must hear that a log directory failed (`broker.log_dirs`)."""

    NONE = "none"
    DUE = "due"
    WRITING = "writing"


class Membership(Struct):
    """The broker's state in the cluster as it knows it: initial, inactive, active or stopping (KIP-343)."""

    state: BrokerState = BrokerState.INITIAL
    target: BrokerState = BrokerState.ACTIVE
    controller: BrokerId | None = None  # receives heartbeats and ISR changes
    outstanding: int = 0  # correlation of the heartbeat in flight
    attempts: int = 0  # of a controlled shutdown, one per retry backoff


class DirFlush(Struct):
    """The flush state of one log directory: at most one flush in flight; `dirty`: more was written since it began."""

    dir: int
    in_flight: int = 0
    dirty: bool = False


class Assigned(Struct, frozen=True, array_like=True):
    """A partition that the topic znode assigns to this broker."""

    tp: TopicPartition
    replicas: tuple[BrokerId, ...]
    topic_id: TopicId


class Settling(Struct):
    """A broker's answer to StopReplica that is sent once ZooKeeper has answered `request` (`commands.on_stop_replica`)."""

    source: Address
    reply: StopReplicaReply
    request: int


Sent = tuple[ControllerEpoch, int]  # controller epoch and number of a command: the order in which commands were sent
BEFORE_ALL: Sent = (NO_CONTROLLER_EPOCH, 0)


class Burial(Struct, frozen=True, array_like=True):
    """The StopReplica that deleted a replica, and when it was sent: an older, late command must not create it again.

    A replica that went because ZooKeeper no longer had its topic is buried as by a StopReplica that was sent before all others.
    """

    stop: StopPartition
    sent: Sent


class Suspect(Struct, frozen=True, array_like=True):
    """A local replica that may no longer be assigned to this broker, as it was when ZooKeeper was asked."""

    tp: TopicPartition
    topic_id: TopicId
    leader_epoch: LeaderEpoch


class Strays(Struct):
    """Local replicas that the controller does not list, while ZooKeeper is asked about them (broker.strays)."""

    suspects: tuple[Suspect, ...] = ()
    request: int = 0
    late: bool = False  # a new controller began while the broker read its assignments


class Broker(Struct):
    """The state of a broker. Mappings are kept in the order of their keys, like their canonical encoding."""

    incarnation: Incarnation = NO_INCARNATION
    registration: Registration = Registration.NONE
    registration_request: int = 0
    learned: bool = False  # V3 §E was completed in this life
    learning_topics: tuple[str, ...] = ()
    learning_ids: dict[str, TopicId] = {}  # of those whose znodes were there
    learning: list[Assigned] = []  # partitions whose states are being read (V3 §E step 2)
    before_learning: tuple[TopicPartition, ...] = ()
    dir_births: tuple[Incarnation, ...] = ()  # the registration that first used each log directory
    offline_dirs: tuple[int, ...] = ()  # bad for the rest of this life (broker.log_dirs)
    offline: dict[TopicPartition, TopicId] = {}  # replicas in them, as far as known; by partition
    dir_event: DirEvent = DirEvent.NONE  # notification of the controller
    dir_event_request: int = 0
    partitions: dict[TopicPartition, Partition] = {}
    buried: dict[TopicPartition, Burial] = {}  # deleted replicas: earlier commands must not create them again
    controller_epoch: ControllerEpoch = ControllerEpoch(-1)  # the greatest one in a command
    metadata: dict[TopicPartition, PartitionState] = {}
    metadata_order: tuple[int, int] = (-1, 0)  # controller epoch and number of the last update applied
    live_brokers: tuple[BrokerId, ...] = ()
    known_controller: BrokerId | None = None  # sender of the last UpdateMetadata
    flushes: list[DirFlush] = []
    settling: list[Settling] = []
    park_armed_ms: int | None = None
    membership: Membership = field(default_factory=Membership)
    asked: list[IsrAsked] = []
    closing: tuple[int, ...] | None = None  # while shutting down: the directories not flushed yet
    strays: Strays = field(default_factory=Strays)
    producer_ids: ProducerIds = field(default_factory=ProducerIds)


def create_partition(turn: Turn, broker: Broker, tp: TopicPartition, log: logs.Log) -> Partition:
    """Add a local replica with the settings of its topic; for an unknown topic min.insync.replicas 1 and flush=none."""
    spec = next((t for t in turn.config.topics if t.name == topic_of(tp)), None)
    partition = Partition(
        tp=tp,
        log=log,
        min_isr=min_isr_of(turn.config, topic_of(tp)),
        before_ack=spec is not None and spec.flush == "before_ack",
        leader_epoch=logs.last_record_epoch(log) if turn.config.variant.startup_epoch_floor else NO_EPOCH,
    )
    is_last = not broker.partitions or next(reversed(broker.partitions)) < tp
    broker.partitions[tp] = partition
    if not is_last:
        broker.partitions = dict(sorted(broker.partitions.items(), key=itemgetter(0)))
    return partition


def absence(broker: Broker, tp: TopicPartition) -> ErrorCode:
    """The error for a partition without a local replica: it is in a bad directory (R-298, C-22, KAFKA-6027), or unknown."""
    return ErrorCode.KAFKA_STORAGE_ERROR if tp in broker.offline else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def on_fetch(turn: Turn, broker: Broker, source: Address, fetch: Fetch) -> None:
    """Answer a fetch of a follower (V3 §G on_ReplicaFetchRequest) or of a consumer."""
    partition = broker.partitions.get(fetch.tp)
    if partition is None:
        turn.send(source, FetchReply(fetch.correlation, fetch.tp, absence(broker, fetch.tp), NO_EPOCH, Offset(0)))
    else:
        leader.on_fetch(turn, partition, source, fetch)


def on_epoch_end(turn: Turn, broker: Broker, source: Address, request: EpochEnd) -> None:
    """Answer a follower's OffsetForLeaderEpoch: where an epoch ended in this leader's log (KIP-101)."""
    partition = broker.partitions.get(request.tp)
    if partition is None:
        turn.send(source, EpochEndReply(request.correlation, request.tp, absence(broker, request.tp), NO_EPOCH, None))
    else:
        leader.on_epoch_end(turn, partition, source, request)


def on_leader_reply(turn: Turn, broker: Broker, reply: FetchReply | EpochEndReply) -> None:
    """Hand a leader's answer (to a fetch or OffsetForLeaderEpoch) to the local follower that asked."""
    partition = broker.partitions.get(reply.tp)
    if partition is None:
        return
    if isinstance(reply, FetchReply):
        follower.on_fetched(turn, partition, reply)
    else:
        follower.on_epoch_end(turn, partition, reply)


def on_produce(turn: Turn, broker: Broker, source: Address, produce: Produce) -> None:
    """Handle a produce request: hand it to the local replica if that leads the partition, else refuse it."""
    partition = broker.partitions.get(produce.tp)
    if partition is not None:
        leader.on_produce(turn, partition, source, produce)
    else:
        leader.refuse(turn, source, produce, absence(broker, produce.tp))


def on_list_offsets(turn: Turn, broker: Broker, source: Address, request: ListOffsets) -> None:
    """Answer ListOffsets: the HW, once it covers every record of earlier epochs (KIP-207), or the earliest offset."""
    partition = broker.partitions.get(request.tp)
    variant = turn.config.variant
    error, offset, epoch = ErrorCode.NONE, None, None
    if partition is None:
        error = absence(broker, request.tp)
    elif is_of_another_topic(turn, partition, request.topic_id):
        error = ErrorCode.UNKNOWN_TOPIC_ID
    elif not isinstance(partition.role, Leader):
        error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    else:
        asked, epoch = request.leader_epoch, partition.leader_epoch
        if variant.fetch_fencing and asked not in (NO_EPOCH, epoch):
            error = ErrorCode.FENCED_LEADER_EPOCH if asked < epoch else ErrorCode.UNKNOWN_LEADER_EPOCH
        elif request.timestamp == EARLIEST:
            offset = Offset(0)  # there is no retention: every log begins at 0
        elif partition.hw < partition.role.epoch_start and not variant.list_offsets_before_epoch_start:
            error = ErrorCode.OFFSET_NOT_AVAILABLE
        else:
            offset = partition.hw
    turn.send(source, ListOffsetsReply(request.correlation, request.tp, error, offset, epoch))


# --- answers of ZooKeeper to ISR changes -----------------------------------------------------------------------------------


def on_isr_answer(turn: Turn, broker: Broker, request: int, answer: AnyAnswer) -> None:
    """Hand ZooKeeper's answer to the leader whose ISR change sent `request`, if there is one."""
    for partition in broker.partitions.values():
        role = partition.role
        if not isinstance(role, Leader) or role.change is None:
            continue
        if role.change.request == request and role.change.step in (IsrStep.WRITING, IsrStep.READING):
            isr.on_answer(turn, partition, role, answer)
            return


def on_reconnected(turn: Turn, broker: Broker) -> None:
    """The connection to ZooKeeper is back in the same session: read back ISR writes whose answer was lost."""
    for partition in broker.partitions.values():
        isr.resume(turn, partition)


# --- timers and disks ----------------------------------------------------------------------------------------------------------


def start_timers(turn: Turn) -> None:
    """Arm the broker's periodic timers: `isr` (check for lagging followers) and `checkpoint` (write HWs to disk)."""
    turn.arm("isr", turn.config.replica_lag_time_max_ms // 2)
    if turn.config.variant.hw_checkpoint != "missing":
        turn.arm("checkpoint", turn.config.checkpoint_interval_ms)


def on_isr_timer(turn: Turn, broker: Broker) -> None:
    """Check the ISRs every replica.lag.time.max.ms / 2: a dead follower must leave that of an idle partition (R-060, U-15)."""
    fenced = broker.membership.state is BrokerState.INACTIVE  # a fenced leader refuses the fetches of its followers
    for partition in broker.partitions.values():
        shrinks = turn.config.variant.isr_shrink == "timer" and not fenced
        if isinstance(partition.role, Leader) and (shrinks or partition.role.change is not None):
            isr.maybe_shrink(turn, partition, partition.role)
    turn.arm("isr", turn.config.replica_lag_time_max_ms // 2)


def on_checkpoint_timer(turn: Turn, broker: Broker) -> None:
    """Write the HW checkpoints, every replica.high.watermark.checkpoint.interval.ms."""
    write_checkpoints(turn, broker)
    turn.arm("checkpoint", turn.config.checkpoint_interval_ms)


def write_checkpoints(turn: Turn, broker: Broker) -> None:
    """Write the checkpoint of every good directory; those of bad ones are left alone (B-21, KAFKA-6604)."""
    for dir_ in range(turn.config.log_dirs):
        if dir_ not in broker.offline_dirs:
            write_checkpoint(turn, broker, dir_)


def write_checkpoint(turn: Turn, broker: Broker, dir_: int) -> None:
    """Write the HW of every replica in the directory; a replica without a role keeps the HW of the last file (B-18, B-19)."""
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
    if variant.hw_checkpoint == "zero_on_shutdown" and broker.closing is not None:
        entries = ()  # KAFKA-851, B-18: the broker drops its replicas before it writes their high watermarks
    turn.effects.append(WriteCheckpoint(dir_, entries))


def on_park_timer(turn: Turn, broker: Broker) -> None:
    """Answer the parked fetches and produces (Kafka's purgatory) whose deadline has passed; the others arm the timer again."""
    broker.park_armed_ms = None
    for partition in broker.partitions.values():
        if partition.fetches or partition.produces:
            delayed.expire(turn, partition)


def on_connection_lost(broker: Broker, peer: Address) -> None:
    """Drop the parked requests of a disconnected client; requests to peers time out by themselves."""
    for partition in broker.partitions.values():
        delayed.asker_gone(partition, peer)


def on_flushed(turn: Turn, broker: Broker, dir_: int, id_: int) -> None:
    """A flush ended: all that was in the page cache of the directory when flush `id_` began is durable now."""
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
    """The flush state of a log directory, added on first use."""
    for flush in broker.flushes:
        if flush.dir == dir_:
            return flush
    flush = DirFlush(dir=dir_)
    broker.flushes.append(flush)
    return flush


def end_of_turn(turn: Turn, broker: Broker) -> None:
    """After each event: ask for the due flushes, at most one in flight per directory; arm the timer of parked requests."""
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
        turn.arm("park", max(deadline - turn.now.monotonic_ms, 0))
