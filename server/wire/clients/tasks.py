"""What an exchange asks of the process beside its machine: administration by znodes, the directories, a little time.

Each has an answer with the same correlation, from the counter that numbers the requests to the machine too.
"""

from msgspec import Struct

from reference.errors import ErrorCode
from reference.types import BrokerId, Millis, TopicPartition


class Task(Struct, frozen=True, tag=True):
    """Base of all tasks."""

    correlation: int


class Pause(Task, frozen=True, tag=True):
    """Time passes."""

    ms: Millis


class MakeTopic(Task, frozen=True, tag=True):
    """Ask for a topic; partition i has the replicas assignment[i], preferred first."""

    topic: str
    assignment: tuple[tuple[BrokerId, ...], ...]
    timeout_ms: Millis


class DropTopic(Task, frozen=True, tag=True):
    """Ask for the deletion of a topic, and wait until the controller has done it."""

    topic: str
    timeout_ms: Millis


class Move(Task, frozen=True, tag=True):
    """Ask for other replicas of a partition; that it is asked is all (KIP-455)."""

    tp: TopicPartition
    replicas: tuple[BrokerId, ...]
    timeout_ms: Millis


class CancelMoves(Task, frozen=True, tag=True):
    """Roll back what is on its way, all of it (KIP-236)."""

    timeout_ms: Millis


class ListMoves(Task, frozen=True, tag=True):
    """Which partitions are on their way?"""

    timeout_ms: Millis


class ListDirs(Task, frozen=True, tag=True):
    """What do the log directories hold?"""


AnyTask = Pause | MakeTopic | DropTopic | Move | CancelMoves | ListMoves | ListDirs


class Done(Struct, frozen=True, tag=True):
    """Time has passed; or what became of a request."""

    correlation: int
    error: ErrorCode = ErrorCode.NONE


class PendingMove(Struct, frozen=True):
    """A partition on its way: the replicas it shall have, and those it had where that is written down."""

    tp: TopicPartition
    replicas: tuple[BrokerId, ...]
    original: tuple[BrokerId, ...] = ()


class Moves(Struct, frozen=True, tag=True):
    """Answers ListMoves."""

    correlation: int
    error: ErrorCode
    pending: tuple[PendingMove, ...] = ()


class Directory(Struct, frozen=True):
    """A log directory: does it serve, and how many bytes does each log take? None of a bad one is known."""

    path: str
    online: bool
    sizes: tuple[tuple[TopicPartition, int], ...] = ()


class Dirs(Struct, frozen=True, tag=True):
    """Answers ListDirs."""

    correlation: int
    directories: tuple[Directory, ...]


AnyResult = Done | Moves | Dirs
