"""What a machine asks its world to do. Effects are performed left to right; a crash may fall between any two.

Append, Truncate and DeleteReplica reach the page cache at once and are not durable; Flush is answered later by `Flushed` and
makes all of its directory durable that was written before it. CreateReplica, MarkDir and MarkClean are durable at once, as
is WriteCheckpoint, which replaces a small file atomically (written aside, synced, renamed). Where an effect on a directory fails,
`reference.performing` says what is left out of the rest of the list, and the machine is told `DirFailed` next.
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
    """Base of all effects."""


SHUT_DOWN = "shut down"  # the reason of a process that ended in good order


class Send(Effect, frozen=True, tag=True):
    """Hand a message to the network. No promise that it arrives."""

    to: Address
    message: AnyMessage


class Disconnect(Effect, frozen=True, tag=True):
    """Break the connection that this peer has to us: the one answer to a request that asked for none (KAFKA-955)."""

    peer: Address


class CreateReplica(Effect, frozen=True, tag=True):
    """Make an empty log with a note of its birth (`reference.log.log.Log.born`) and of its topic's id (partition.metadata)."""

    dir: int
    tp: TopicPartition
    born: Incarnation = NO_INCARNATION
    topic_id: TopicId = NO_TOPIC_ID


class MarkDir(Effect, frozen=True, tag=True):
    """Note in a directory under which registration it was first used, and among how many directories. Durable at once."""

    dir: int
    born: Incarnation
    dirs: int


class MarkClean(Effect, frozen=True, tag=True):
    """Set or remove the clean-shutdown marker of a directory. Durable at once."""

    dir: int
    clean: bool


class DeleteReplica(Effect, frozen=True, tag=True):
    """Remove a log."""

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
    """Replace the high watermark checkpoint of a directory: sorted (partition, HW)."""

    dir: int
    entries: tuple[tuple[TopicPartition, Offset], ...]


class SetTimer(Effect, frozen=True, tag=True):
    """Arm a timer of this name (replacing one that is armed) to fire between lo and hi monotonic ms from now; the world picks."""

    name: str
    lo_ms: int
    hi_ms: int


class CancelTimer(Effect, frozen=True, tag=True):
    """Disarm a timer; no error where none is armed."""

    name: str


class ZkConnect(Effect, frozen=True, tag=True):
    """Open a new session: asked for at startup and after an expiry. Answered by ZkState("connected")."""


class ZkRequest(Effect, frozen=True, tag=True):
    """Ask ZooKeeper; answered by ZkReplied with the same id."""

    id: int
    ops: tuple[AnyOp, ...]
    atomic: bool = False


class Halt(Effect, frozen=True, tag=True):
    """End this process, as after the failure of a log directory that cannot be worked around."""

    reason: str


class Note(Effect, frozen=True, kw_only=True, tag=True):
    """What the machine says about itself: a history.event kind with its columns. The core does not log, it notes."""

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


AnyEffect = (
    Send
    | Disconnect
    | CreateReplica
    | MarkDir
    | MarkClean
    | DeleteReplica
    | Append
    | Truncate
    | Flush
    | WriteCheckpoint
    | SetTimer
    | CancelTimer
    | ZkConnect
    | ZkRequest
    | Halt
    | Note
)
