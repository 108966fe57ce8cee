"""The state of one local replica of a partition (R-009, R-010): its log, what of it is durable, its HW, and its role.

A replica is a leader, a follower or idle (it waits for word from the controller). Roles are replaced, never edited into one
another, so that nothing of an earlier epoch survives in a later one; only what clients wait for stays with the partition.
"""

from typing import Literal

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
    """What a leader knows of one follower in its epoch. `leo` None: it has not fetched yet."""

    broker: BrokerId
    incarnation: Incarnation
    leo: Offset | None
    caught_up_ms: int  # when it last had all that the leader had (KAFKA-7152)
    changed_ms: int  # when its leo last moved
    fetched_ms: int
    leader_leo_then: Offset  # the leader's LEO at that fetch
    refused_ms: int | None = None  # when the controller last refused to have it in the ISR


class IsrChange(Struct):
    """An ISR write in flight. Until it is known to have failed or to have been applied it may land at any time.

    So may those of `earlier`: they were refused on the same version, but a late copy of one may meet another answer.
    """

    wanted: tuple[IsrMember, ...]
    elr: tuple[IsrMember, ...]  # that goes with it
    request: int
    step: Literal["writing", "reading", "asking", "lost", "superseded"] = "writing"
    earlier: tuple[tuple[IsrMember, ...], ...] = ()


class IsrAsked(Struct):
    """A request to the controller for other ISRs: of which partitions, in its order."""

    correlation: int
    tps: tuple[TopicPartition, ...] = ()


class Leader(Struct, tag=True):
    """Leads since `epoch_start`. `isr` and `elr` are what ZooKeeper held at `zk_version` (R-010)."""

    epoch_start: Offset
    isr: tuple[IsrMember, ...]
    elr: tuple[IsrMember, ...]
    zk_version: ZkVersion
    followers: list[FollowerProgress] = []
    change: IsrChange | None = None


class Follower(Struct, tag=True):
    """Follows. `outstanding` is the correlation of the request in flight, 0 for none."""

    leader: BrokerId
    step: Literal["truncating", "fetching"]
    outstanding: int = 0


class Idle(Struct, frozen=True, tag=True):
    """Neither leads nor follows."""


class ParkedProduce(Struct):
    """A produce that waits for its acknowledgement: base_offset <= its records < end_offset, appended in `leader_epoch`."""

    source: Address
    correlation: int
    acks: int
    base_offset: Offset
    end_offset: Offset
    leader_epoch: LeaderEpoch
    deadline_ms: int


class ParkedFetch(Struct):
    """A fetch at the end of what its asker may see. `replica` None is a consumer."""

    source: Address
    correlation: int
    replica: BrokerId | None
    offset: Offset
    max_records: int
    deadline_ms: int
    max_bytes: int | None = None


class Partition(Struct):
    """One local replica (R-009, R-010). `leader_epoch` is that of the last command acted on (R-080)."""

    tp: TopicPartition
    log: Log
    min_isr: int
    before_ack: bool
    hw: Offset = Offset(0)
    flushed: Offset = Offset(0)  # durable LEO, kept where before_ack
    flushing: Offset = Offset(0)  # durable once the flush in flight is done
    leader_epoch: LeaderEpoch = NO_EPOCH
    controller_epoch: ControllerEpoch = ControllerEpoch(0)
    replicas: tuple[BrokerId, ...] = ()
    role: Leader | Follower | Idle = Idle()
    produces: list[ParkedProduce] = []
    fetches: list[ParkedFetch] = []


def is_of_another_topic(turn: Turn, partition: Partition, asked: TopicId) -> bool:
    """Does the asker mean another topic of the same name (KIP-516, B-61)?"""
    return turn.config.variant.topic_id and asked not in (NO_TOPIC_ID, partition.log.topic_id)


def stable_leo(partition: Partition) -> Offset:
    """How far this replica's own copy counts: what is flushed under flush=before_ack (R-134), else what is in memory (R-135).

    Which of the two is a setting of the topic (C-14, docs/promise.md DUR-5).
    """
    return partition.flushed if partition.before_ack else partition.log.leo


def append(turn: Turn, partition: Partition, batches: tuple[Batch, ...], detail: str) -> None:
    """Append and ask for the flush that the topic wants."""
    logs.append(turn, partition.log, batches)
    turn.note(Note(kind="append", tp=partition.tp, topic_id=partition.log.topic_id, batches=batches, detail=detail))
    if partition.before_ack:
        turn.needs_flush(partition.log.dir)


def truncate(turn: Turn, partition: Partition, to: Offset, why: str) -> None:
    """Cut the log; HW and durable end come down with it where they were above."""
    if to >= partition.log.leo:
        return
    logs.truncate(turn, partition.log, to)
    end = partition.log.leo  # below `to` where that was inside of a sealed batch: what comes there next is not flushed yet
    partition.flushed = min(partition.flushed, end)
    partition.flushing = min(partition.flushing, end)
    topic_id, epoch = partition.log.topic_id, partition.leader_epoch
    turn.note(Note(kind="truncate", tp=partition.tp, topic_id=topic_id, offset=to, leader_epoch=epoch, detail=why))
    if turn.config.variant.hw_clamp and partition.hw > end:
        partition.hw = end


def progress_of(leader: Leader, broker: BrokerId) -> FollowerProgress | None:
    """The follower's entry, if it has one."""
    for follower in leader.followers:
        if follower.broker == broker:
            return follower
    return None


def brokers_of(isr: tuple[IsrMember, ...]) -> tuple[BrokerId, ...]:
    """The ids alone."""
    return tuple(m.broker for m in isr)
