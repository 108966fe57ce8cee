"""Effects: what a machine asks its host to do. The host performs them left to right; a crash may fall between any two.

Append, Truncate and DeleteReplica reach the page cache at once and are not durable. Flush is answered later by `Flushed`, and
makes everything durable that was written to its directory before it. CreateReplica, MarkDir and MarkClean are durable at once, as
is WriteCheckpoint, which replaces a small file atomically (written aside, synced, renamed). If an effect on a directory fails,
`reference.performing` skips part of the list, and `DirFailed` is the next event of the machine.
"""

from msgspec import Struct

from reference.coordination.api import AnyOp
from reference.messages import AnyMessage, Batch
from reference.types import (
    NO_INCARNATION,
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


class Effect(Struct, frozen=True, tag=True):
    """Base class of what a node asks its host to do: messages, disk writes, timers, ZooKeeper requests, notes."""


SHUT_DOWN = "shut down"  # the reason of Halt after a shutdown in good order


class Send(Effect, frozen=True, tag=True):
    """Send a message. It may never arrive."""

    to: Address
    message: AnyMessage


class Disconnect(Effect, frozen=True, tag=True):
    """Close the connection of this peer: the only way to refuse a request that takes no answer (KAFKA-955)."""

    peer: Address


class CreateReplica(Effect, frozen=True, tag=True):
    """Create an empty log; store its birth (`reference.log.log.Log.born`) and its topic id (partition.metadata) with it."""

    dir: int
    tp: TopicPartition
    born: Incarnation = NO_INCARNATION
    topic_id: TopicId = NO_TOPIC_ID


class MarkDir(Effect, frozen=True, tag=True):
    """Store in a directory the registration that first used it, and how many directories the broker had. Durable at once."""

    dir: int
    born: Incarnation
    dirs: int


class MarkClean(Effect, frozen=True, tag=True):
    """Set or remove the clean-shutdown marker of a directory. Durable at once."""

    dir: int
    clean: bool


class DeleteReplica(Effect, frozen=True, tag=True):
    """Delete the log and its directory; not durable before the next flush."""

    dir: int
    tp: TopicPartition


class Append(Effect, frozen=True, tag=True):
    """Write batches at the end of a log."""

    dir: int
    tp: TopicPartition
    batches: tuple[Batch, ...]


class Truncate(Effect, frozen=True, tag=True):
    """Cut a log so that `to` is its log end offset (always a batch boundary)."""

    dir: int
    tp: TopicPartition
    to: Offset


class Flush(Effect, frozen=True, tag=True):
    """fsync every log of a directory; answered by Flushed with the same id."""

    dir: int
    id: int


class WriteCheckpoint(Effect, frozen=True, tag=True):
    """Replace the high watermark checkpoint of a directory. `entries` are sorted (partition, HW)."""

    dir: int
    entries: tuple[tuple[TopicPartition, Offset], ...]


class SetTimer(Effect, frozen=True, tag=True):
    """Arm the timer of this name, in place of an armed one. The host picks its time between lo and hi monotonic ms from now."""

    name: str
    lo_ms: int
    hi_ms: int


class CancelTimer(Effect, frozen=True, tag=True):
    """Disarm a timer; no error where none is armed."""

    name: str


class ZkConnect(Effect, frozen=True, tag=True):
    """Open a new session, at startup or after an expiry. Answered by ZkState("connected")."""


class ZkRequest(Effect, frozen=True, tag=True):
    """A request to ZooKeeper; answered by ZkReplied with the same id."""

    id: int
    ops: tuple[AnyOp, ...]
    atomic: bool = False


class Halt(Effect, frozen=True, tag=True):
    """End this process: after a shutdown, or when a log directory failed that the broker cannot do without."""

    reason: str


class Note(Effect, frozen=True, kw_only=True, tag=True):
    """A row of the history: a kind of history.event with its columns. The core writes no log; it emits notes."""

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
