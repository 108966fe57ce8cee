"""Tasks for the process instead of the machine, to answer a client: admin requests by znodes, log directories, pauses.

Each task has a result with the same correlation id. Tasks and requests to the machine share one counter of correlation ids.
"""

from msgspec import Struct

from reference.errors import ErrorCode
from reference.types import BrokerId, Millis, TopicPartition


class Task(Struct, frozen=True, tag=True):
    """Base class of tasks for the broker process: topic changes, reassignments, log directories, pauses."""

    correlation: int


class Pause(Task, frozen=True, tag=True):
    """Task of the broker process: wait for `ms`; answered by Done."""

    ms: Millis


class MakeTopic(Task, frozen=True, tag=True):
    """Task: create a topic by znode; partition i has the replicas assignment[i], preferred first. Answered by Done."""

    topic: str
    assignment: tuple[tuple[BrokerId, ...], ...]
    timeout_ms: Millis


class DropTopic(Task, frozen=True, tag=True):
    """Task: delete a topic by znode; answered by Done when the controller has removed the request."""

    topic: str
    timeout_ms: Millis


class Move(Task, frozen=True, tag=True):
    """Task: request a reassignment by znode; answered by Done as soon as the request is written (KIP-455)."""

    tp: TopicPartition
    replicas: tuple[BrokerId, ...]
    timeout_ms: Millis


class CancelMoves(Task, frozen=True, tag=True):
    """Task: roll back all pending reassignments (KIP-236); answered by Done."""

    timeout_ms: Millis


class ListMoves(Task, frozen=True, tag=True):
    """Task: list the pending reassignments; answered by Moves."""

    timeout_ms: Millis


class ListDirs(Task, frozen=True, tag=True):
    """Task: list the log directories and the sizes of their logs; answered by Dirs."""


AnyTask = Pause | MakeTopic | DropTopic | Move | CancelMoves | ListMoves | ListDirs


class Done(Struct, frozen=True, tag=True):
    """The answer to a task without other data: its error, or NONE."""

    correlation: int
    error: ErrorCode = ErrorCode.NONE


class PendingMove(Struct, frozen=True):
    """A pending reassignment: the target replicas, and the original ones if the znode has them."""

    tp: TopicPartition
    replicas: tuple[BrokerId, ...]
    original: tuple[BrokerId, ...] = ()


class Moves(Struct, frozen=True, tag=True):
    """The answer to ListMoves: the pending reassignments."""

    correlation: int
    error: ErrorCode
    pending: tuple[PendingMove, ...] = ()


class Directory(Struct, frozen=True):
    """A log directory and the size in bytes of each log; `sizes` is empty for a failed directory."""

    path: str
    online: bool
    sizes: tuple[tuple[TopicPartition, int], ...] = ()


class Dirs(Struct, frozen=True, tag=True):
    """The answer to ListDirs: the log directories, or the error of a broker that does not tell about them."""

    correlation: int
    directories: tuple[Directory, ...]
    error: ErrorCode = ErrorCode.NONE


AnyResult = Done | Moves | Dirs
