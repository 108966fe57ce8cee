"""The state of one local replica of a partition (R-009, R-010): its log, the durable part of it, its HW, and its role.

A replica is a leader, a follower or idle (it waits for a command). A new role replaces the old one as a whole, so no state of an
earlier epoch survives in a later one. Only the parked requests of clients stay with the partition.
"""

from enum import StrEnum

from msgspec import Struct

from reference.effects import Note
from reference.log import log as logs
from reference.log.log import Log
from reference.machine import Turn
from reference.messages import Batch, IsrMember
from reference.types import (
    NO_EPOCH,
    NO_TOPIC_ID,
    Address,
    BrokerId,
    ControllerEpoch,
    Incarnation,
    LeaderEpoch,
    Offset,
    TopicId,
    TopicPartition,
    ZkVersion,
)


class FollowerProgress(Struct):
    """A leader's knowledge of one follower in this epoch. Times in ms. `leo` is None until it has fetched."""

    broker: BrokerId
    incarnation: Incarnation
    leo: Offset | None = None
    caught_up_ms: int = 0  # when it last had every record of the leader (KAFKA-7152)
    changed_ms: int = 0  # when its leo last moved
    fetched_ms: int = 0
    leader_leo_then: Offset = Offset(0)  # the leader's LEO at that fetch
    refused_ms: int | None = None  # when the controller last refused it as a member of the ISR


class IsrStep(StrEnum):
    """How far a leader's ISR change is (`replica.isr` has the table)."""

    WRITING = "writing"
    READING = "reading"
    ASKING = "asking"
    LOST = "lost"
    SUPERSEDED = "superseded"


class IsrChange(Struct):
    """A leader's ISR change in flight. It may take effect at any time until it is known to be applied or to have failed.

    So may the ISRs of `earlier`: they were refused on the same version, but a late copy may be accepted.
    """

    wanted: tuple[IsrMember, ...]
    elr: tuple[IsrMember, ...] = ()  # written with it to ZooKeeper
    request: int = 0
    step: IsrStep = IsrStep.WRITING
    earlier: tuple[tuple[IsrMember, ...], ...] = ()


class IsrAsked(Struct):
    """A broker's request to the controller to change ISRs: its partitions, in the order of the request."""

    correlation: int
    tps: tuple[TopicPartition, ...] = ()


class Leader(Struct, tag=True):
    """The leader role of a replica, since offset `epoch_start`. `isr` and `elr` are as in ZooKeeper at `zk_version` (R-010)."""

    epoch_start: Offset
    isr: tuple[IsrMember, ...]
    elr: tuple[IsrMember, ...]
    zk_version: ZkVersion
    followers: list[FollowerProgress] = []
    change: IsrChange | None = None
    knows_elr: bool = True  # False until it has read the state, if the command's layout had no ELR


class FollowerStep(StrEnum):
    """What a follower asks its leader for (`replica.follower`)."""

    TRUNCATING = "truncating"
    FETCHING = "fetching"


class Follower(Struct, tag=True):
    """The follower role of a replica. `outstanding` is the correlation of the fetch in flight, 0 for none."""

    leader: BrokerId
    step: FollowerStep
    outstanding: int = 0


class Idle(Struct, frozen=True, tag=True):
    """The role of a replica that is neither leader nor follower."""


class Parked(Struct):
    """Base class of requests that wait at a leader: the sender, and the monotonic ms at which they are answered in any case."""

    source: Address
    correlation: int
    deadline_ms: int


class ParkedProduce(Parked):
    """A produce that waits for its acknowledgement; its records are at base_offset <= offset < end_offset."""

    acks: int
    base_offset: Offset
    end_offset: Offset
    leader_epoch: LeaderEpoch


class ParkedFetch(Parked):
    """A fetch that waits for records to become visible. `replica` is None for a consumer."""

    replica: BrokerId | None
    offset: Offset
    max_records: int
    max_bytes: int | None = None


class Partition(Struct):
    """One local replica (R-009, R-010). `leader_epoch` is that of the last command obeyed (R-080)."""

    tp: TopicPartition
    log: Log
    min_isr: int
    before_ack: bool
    hw: Offset = Offset(0)
    flushed: Offset = Offset(0)  # durable LEO, kept if before_ack
    flushing: Offset = Offset(0)  # the LEO that the flush in flight makes durable
    leader_epoch: LeaderEpoch = NO_EPOCH
    controller_epoch: ControllerEpoch = ControllerEpoch(0)
    replicas: tuple[BrokerId, ...] = ()
    role: Leader | Follower | Idle = Idle()
    produces: list[ParkedProduce] = []
    fetches: list[ParkedFetch] = []


def is_of_another_topic(turn: Turn, partition: Partition, topic_id: TopicId) -> bool:
    """True if a request names another topic of the same name, deleted or created again (KIP-516, B-61)."""
    ids = {topic_id, partition.log.topic_id} - {NO_TOPIC_ID}  # the log of a command in an older layout has none
    return turn.config.variant.topic_id and len(ids) > 1


def note_of(partition: Partition, kind: str) -> Note:
    """A history row about this replica, with its LEO and HW."""
    return Note(kind=kind, tp=partition.tp, topic_id=partition.log.topic_id, leo=partition.log.leo, hw=partition.hw)


def stable_leo(partition: Partition) -> Offset:
    """This replica's own LEO as counted for the HW: the flushed LEO with flush=before_ack (R-134), else that in memory (R-135).

    `flush` is a setting of the topic (C-14, docs/promise.md DUR-5).
    """
    return partition.flushed if partition.before_ack else partition.log.leo


def append(turn: Turn, partition: Partition, batches: tuple[Batch, ...], detail: str) -> None:
    """Append to a replica's log and record that; ask for a flush if the topic has flush=before_ack."""
    logs.append(turn, partition.log, batches)
    turn.note(Note(kind="append", tp=partition.tp, topic_id=partition.log.topic_id, batches=batches, detail=detail))
    if partition.before_ack:
        turn.needs_flush(partition.log.dir)


def truncate(turn: Turn, partition: Partition, to: Offset, why: str) -> None:
    """Truncate a replica's log and record that; lower the durable LEO and, with hw_clamp, the HW to the new end."""
    if to >= partition.log.leo:
        return
    logs.truncate(turn, partition.log, to)
    end = partition.log.leo  # below `to` if that was inside a sealed batch; records appended there are not flushed yet
    partition.flushed = min(partition.flushed, end)
    partition.flushing = min(partition.flushing, end)
    topic_id, epoch = partition.log.topic_id, partition.leader_epoch
    turn.note(Note(kind="truncate", tp=partition.tp, topic_id=topic_id, offset=to, leader_epoch=epoch, detail=why))
    if turn.config.variant.hw_clamp and partition.hw > end:
        partition.hw = end


def progress_of(leader: Leader, broker: BrokerId) -> FollowerProgress | None:
    """What the leader knows of a follower; None for a replica that has not fetched and is not in the ISR."""
    for follower in leader.followers:
        if follower.broker == broker:
            return follower
    return None


def brokers_of(isr: tuple[IsrMember, ...]) -> tuple[BrokerId, ...]:
    """The broker ids of ISR members, in the order of the ISR."""
    return tuple(m.broker for m in isr)
