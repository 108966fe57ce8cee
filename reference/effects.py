"""Effects: what a machine asks its host process to do, performed left to right; a crash may fall between any two.

Append, Truncate and DeleteReplica reach the page cache at once and are not durable. Flush is answered later by `Flushed`, and
makes everything durable that was written to its directory before it. CreateReplica, MarkDir and MarkClean are durable at once, as
is WriteCheckpoint, which replaces a small file atomically (written aside, synced, renamed). If an effect on a directory fails,
`reference.performing` skips part of the list, and `DirFailed` is the next event of the machine.
"""

from msgspec import Struct

from reference.coordination.api import AnyOp
from reference.messages import AnyMessage, Batch
from reference.types import (
    NO_CREATION,
    NO_INCARNATION,
    NO_TOPIC_ID,
    Address,
    BrokerId,
    ControllerEpoch,
    Creation,
    Incarnation,
    LeaderEpoch,
    Offset,
    TopicId,
    TopicPartition,
    ZkVersion,
)


class Effect(Struct, frozen=True, tag=True):
    """Base class of what a node asks its host to do: messages, disk writes, timers, ZooKeeper requests, notes."""


SHUT_DOWN = "shut down"  # the reason of Halt after a shutdown in good order


class Send(Effect, frozen=True, tag=True):
    """Effect: send a message. It may never arrive."""

    to: Address
    message: AnyMessage


class Disconnect(Effect, frozen=True, tag=True):
    """Effect: close this peer's connection, the only way to refuse a request that takes no answer (KAFKA-955)."""

    peer: Address


class CreateReplica(Effect, frozen=True, tag=True):
    """Effect: create an empty log; store with it its birth, its topic id and when it was created (partition.metadata)."""

    dir: int
    tp: TopicPartition
    born: Incarnation = NO_INCARNATION
    topic_id: TopicId = NO_TOPIC_ID
    created: Creation = NO_CREATION


class MarkDir(Effect, frozen=True, tag=True):
    """Effect: store in a log directory the registration that first used it, and how many directories the broker had."""

    dir: int
    born: Incarnation
    dirs: int


class MarkClean(Effect, frozen=True, tag=True):
    """Effect: set or remove the clean-shutdown marker of a log directory. Durable at once."""

    dir: int
    clean: bool


class DeleteReplica(Effect, frozen=True, tag=True):
    """Effect: delete the log of a replica and its folder; not durable before the next flush."""

    dir: int
    tp: TopicPartition


class Append(Effect, frozen=True, tag=True):
    """Effect: write batches at the end of a log, into the page cache."""

    dir: int
    tp: TopicPartition
    batches: tuple[Batch, ...]


class Truncate(Effect, frozen=True, tag=True):
    """Effect: cut a log so that `to` is its log end offset (always a batch boundary)."""

    dir: int
    tp: TopicPartition
    to: Offset


class Flush(Effect, frozen=True, tag=True):
    """Effect: fsync every log of a directory; answered by event Flushed with the same id."""

    dir: int
    id: int


class WriteCheckpoint(Effect, frozen=True, tag=True):
    """Effect: replace the high watermark checkpoint of a directory. `entries` are sorted (partition, HW)."""

    dir: int
    entries: tuple[tuple[TopicPartition, Offset], ...]


class SetTimer(Effect, frozen=True, tag=True):
    """Effect: arm the timer of this name, or arm it anew. The host picks a time from lo to hi monotonic ms from now."""

    name: str
    lo_ms: int
    hi_ms: int


class CancelTimer(Effect, frozen=True, tag=True):
    """Effect: disarm a timer; no error if it is not armed."""

    name: str


class ZkConnect(Effect, frozen=True, tag=True):
    """Effect: open a new ZooKeeper session, at startup or after an expiry. Answered by ZkState("connected")."""


class ZkRequest(Effect, frozen=True, tag=True):
    """Effect: send ZooKeeper a request; answered by ZkReplied with the same id."""

    id: int
    ops: tuple[AnyOp, ...]
    atomic: bool = False


class Halt(Effect, frozen=True, tag=True):
    """Effect: end this process, after a shutdown or when too many log directories have failed to go on."""

    reason: str


class Note(Effect, frozen=True, kw_only=True, tag=True):
    """Effect: record a row in the run's history: an event kind with its columns. The core writes no log."""

    kind: str
    tp: TopicPartition | None = None
    topic_id: TopicId | None = None
    broker: BrokerId | None = None
    leader: BrokerId | None = None
    leader_epoch: LeaderEpoch | None = None
    controller_epoch: ControllerEpoch | None = None
    zk_version: ZkVersion | None = None
    isr: tuple[BrokerId, ...] | None = None
    hw: Offset | None = None
    leo: Offset | None = None
    offset: Offset | None = None
    gauge: int | None = None
    batches: tuple[Batch, ...] = ()  # of an append note: one row for each value
    dir: int | None = None
    incarnation: Incarnation | None = None
    detail: str | None = None


# the effects on a log directory: they fail if it fails
OnDisk = CreateReplica | MarkDir | MarkClean | DeleteReplica | Append | Truncate | Flush | WriteCheckpoint
OnReplica = CreateReplica | DeleteReplica | Append | Truncate
AnyEffect = Send | Disconnect | OnDisk | SetTimer | CancelTimer | ZkConnect | ZkRequest | Halt | Note
