"""What an administrator can ask for, and what it means in ZooKeeper: the znode that asks, and when it is done.

"Created by admin" in the documents: a client puts a request under /admin and the controller deletes it when it is done (R-147,
R-149, V3 §H). A topic is made by its own znode (V3 §B); that is all of it. A reassignment takes its time, and meanwhile it can be
added to and rolled back (KIP-236): it is asked for, and not waited for.
"""

from typing import assert_never

from msgspec import Struct

from reference.coordination import admin_paths, paths
from reference.coordination.admin_paths import Reassignment
from reference.coordination.api import AnyOp, Check, Create, Delete
from reference.coordination.reassignment_requests import Request, request_payload
from reference.errors import ErrorCode
from reference.types import BrokerId, TopicPartition, topic_of

ADMIN = "/admin"


class CreateTopic(Struct, frozen=True, kw_only=True, tag=True):
    """Partition i of the topic has the replicas assignment[i], preferred first."""

    id: int
    topic: str
    assignment: tuple[tuple[BrokerId, ...], ...]


class DeleteTopic(Struct, frozen=True, kw_only=True, tag=True):
    """The topic and everything in it."""

    id: int
    topic: str


class AddPartition(Struct, frozen=True, kw_only=True, tag=True):
    """One partition more."""

    id: int
    tp: TopicPartition
    replicas: tuple[BrokerId, ...]


class RemovePartition(Struct, frozen=True, kw_only=True, tag=True):
    """One partition less."""

    id: int
    tp: TopicPartition


class ElectPreferred(Struct, frozen=True, kw_only=True, tag=True):
    """Let the first replica of each of these lead again."""

    id: int
    tps: tuple[TopicPartition, ...]


class ElectUnclean(Struct, frozen=True, kw_only=True, tag=True):
    """Let anybody lead these where nobody can without loss (docs/promise.md DUR-7)."""

    id: int
    tps: tuple[TopicPartition, ...]


class Reassign(Struct, frozen=True, kw_only=True, tag=True):
    """Other replicas for a partition (R-148); `extra` beside what is on its way already (R-231)."""

    id: int
    tp: TopicPartition
    replicas: tuple[BrokerId, ...]
    extra: bool = False


class RequestReassignment(Struct, frozen=True, kw_only=True, tag=True):
    """The same by proposal B of KIP-236 (R-245): also in place of what is in flight, and back to what it was (R-247)."""

    id: int
    tp: TopicPartition
    replicas: tuple[BrokerId, ...]


class CancelReassignments(Struct, frozen=True, kw_only=True, tag=True):
    """Roll back all that is pending (R-233)."""

    id: int


class AllowReassignments(Struct, frozen=True, kw_only=True, tag=True):
    """End the cancellation (R-239)."""

    id: int


class ListPending(Struct, frozen=True, kw_only=True, tag=True):
    """Which requests stand under /admin?"""

    id: int


_Ask = (
    CreateTopic
    | DeleteTopic
    | AddPartition
    | RemovePartition
    | ElectPreferred
    | ElectUnclean
    | Reassign
    | RequestReassignment
    | CancelReassignments
    | AllowReassignments
)
Command = _Ask | ListPending

# requests that are one znode each, many below one, and a znode for each partition below a znode for each topic
SINGLE = (
    paths.PREFERRED_ELECTION,
    paths.UNCLEAN_ELECTION,
    paths.DELETE_TOPICS,
    admin_paths.REASSIGN,
    admin_paths.REASSIGN_EXTRA,
    admin_paths.REASSIGN_CANCEL,
)
BELOW = (admin_paths.REQUESTS,)
NESTED = (paths.PARTITIONS_ADD, paths.PARTITIONS_REMOVE, admin_paths.REASSIGNMENTS)


class Script(Struct, frozen=True):
    """Make `parents` where they are missing, then `path` with `data`; done when it is there, or gone again (`until_gone`).

    `taken` is the error where somebody else's request stands there. `beside`: only while this node is there too, or
    NO_REASSIGNMENT_IN_PROGRESS. `gone`: it is deleted instead, which may be done twice. `sequential`: ZooKeeper adds a number, so
    nobody can tell afterwards whether the znode was made.
    """

    parents: tuple[str, ...]
    path: str
    data: bytes
    until_gone: bool = True
    taken: ErrorCode = ErrorCode.REASSIGNMENT_IN_PROGRESS
    beside: str | None = None
    gone: bool = False
    sequential: bool = False


def ops_of(wanted: Script) -> tuple[AnyOp, ...]:
    """What is asked of ZooKeeper; all or nothing where it stands `beside` something."""
    if wanted.gone:
        return (Delete(wanted.path),)
    if wanted.beside is not None:
        return Check(wanted.beside, -1), Create(wanted.path, wanted.data)
    own = Create(wanted.path, wanted.data, sequential=wanted.sequential)
    return (*(Create(path, b"") for path in wanted.parents), own)


def script(command: _Ask) -> Script:
    """How it is asked for."""
    match command:
        case CreateTopic(topic=topic, assignment=assignment):
            data = paths.topic_payload(assignment)
            return Script(paths.PERSISTENT, paths.topic_path(topic), data, False, ErrorCode.TOPIC_ALREADY_EXISTS)
        case DeleteTopic(topic=topic):
            return Script((ADMIN,), paths.DELETE_TOPICS, paths.delete_topics_payload((topic,)))
        case ElectPreferred(tps=tps):
            return Script((ADMIN,), paths.PREFERRED_ELECTION, paths.preferred_payload(tps))
        case ElectUnclean(tps=tps):
            return Script((ADMIN,), paths.UNCLEAN_ELECTION, paths.preferred_payload(tps))
        case AddPartition(tp=tp, replicas=replicas):
            above = (ADMIN, paths.PARTITIONS_ADD, f"{paths.PARTITIONS_ADD}/{topic_of(tp)}")
            return Script(above, paths.partition_add_path(tp), paths.replicas_payload(replicas))
        case RemovePartition(tp=tp):
            above = (ADMIN, paths.PARTITIONS_REMOVE, f"{paths.PARTITIONS_REMOVE}/{topic_of(tp)}")
            return Script(above, paths.partition_remove_path(tp), b"")
        case Reassign(tp=tp, replicas=replicas, extra=extra):
            path = admin_paths.REASSIGN_EXTRA if extra else admin_paths.REASSIGN
            return Script((ADMIN,), path, admin_paths.reassignments_payload({tp: Reassignment(replicas)}), False)
        case RequestReassignment(tp=tp, replicas=replicas):
            data = request_payload(Request({tp: replicas}))
            return Script((ADMIN, admin_paths.REQUESTS), admin_paths.REQUEST, data, False, sequential=True)
        case CancelReassignments():
            # without anything pending there is nothing to roll back; who finds it there has what was wanted
            return Script((), admin_paths.REASSIGN_CANCEL, b"", False, ErrorCode.NONE, beside=admin_paths.REASSIGN)
        case AllowReassignments():
            return Script((), admin_paths.REASSIGN_CANCEL, b"", False, gone=True)
        case _:
            assert_never(command)
