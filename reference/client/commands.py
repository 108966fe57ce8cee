"""Commands of an administrator and their znodes in ZooKeeper: the request to create, and when the command is done.

"Created by admin" in the documents: a client creates a request under /admin and the controller deletes it when it is done (R-147,
R-149, V3 §H). A topic is created by its own znode (V3 §B). The client does not wait for the end of a reassignment, which may be
extended or rolled back meanwhile (KIP-236).
"""

from typing import assert_never

from msgspec import Struct

from reference.coordination import admin_paths, paths
from reference.coordination.admin_paths import Reassignment
from reference.coordination.api import AnyOp, Check, Create, Delete, SetData
from reference.coordination.reassignment_requests import Request, request_payload
from reference.errors import ErrorCode
from reference.types import BrokerId, TopicPartition, topic_of

ADMIN = "/admin"


class _Command(Struct, frozen=True, kw_only=True, tag=True):
    id: int  # of the Answered


class CreateTopic(_Command, frozen=True, kw_only=True, tag=True):
    """Create a topic; partition i has the replicas assignment[i], preferred first."""

    topic: str
    assignment: tuple[tuple[BrokerId, ...], ...]


class DeleteTopic(_Command, frozen=True, kw_only=True, tag=True):
    """Delete a topic and all of its records."""

    topic: str


class AddPartition(_Command, frozen=True, kw_only=True, tag=True):
    """Add a partition with these replicas, preferred first."""

    tp: TopicPartition
    replicas: tuple[BrokerId, ...]


class RemovePartition(_Command, frozen=True, kw_only=True, tag=True):
    """Delete a partition and its records."""

    tp: TopicPartition


class ElectPreferred(_Command, frozen=True, kw_only=True, tag=True):
    """Elect the preferred replica of each partition (R-147)."""

    tps: tuple[TopicPartition, ...]


class ElectUnclean(_Command, frozen=True, kw_only=True, tag=True):
    """Elect any live replica of each partition that has no safe candidate; records may be lost (docs/promise.md DUR-7)."""

    tps: tuple[TopicPartition, ...]


class Reassign(_Command, frozen=True, kw_only=True, tag=True):
    """Move a partition to other replicas (R-148); `extra`: through the path for moves beside those in flight (R-231)."""

    tp: TopicPartition
    replicas: tuple[BrokerId, ...]
    extra: bool = False


class RequestReassignment(_Command, frozen=True, kw_only=True, tag=True):
    """Move a partition by proposal B of KIP-236 (R-245); it may replace or revert one in flight (R-247)."""

    tp: TopicPartition
    replicas: tuple[BrokerId, ...]


class CancelReassignments(_Command, frozen=True, kw_only=True, tag=True):
    """Roll back all pending reassignments (R-233)."""


class AllowReassignments(_Command, frozen=True, kw_only=True, tag=True):
    """Delete the cancel znode of KIP-236, so that the controller accepts reassignments again (R-239)."""


class DeposeController(_Command, frozen=True, kw_only=True, tag=True):
    """Delete /controller, so that the brokers elect a controller anew (R-001, R-040)."""


class EditZnode(_Command, frozen=True, kw_only=True, tag=True):
    """Edit a znode by hand: delete it without `data`, else create it with its parents; with `over` overwrite one that exists."""

    path: str
    data: bytes | None
    over: bool


class ListPending(_Command, frozen=True, kw_only=True, tag=True):
    """List the admin requests that are still under /admin."""


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
    | DeposeController
    | EditZnode
)
Command = _Ask | ListPending


def placed(brokers: tuple[BrokerId, ...], *, partitions: int, replication_factor: int) -> tuple[tuple[BrokerId, ...], ...]:
    """The assignment of a new topic (R-132; 0.8 article, "Replica placement"): the replicas of each partition, preferred first.

    The article sorts brokers and partitions and puts replica j of partition i on broker (i + j) mod n. This spreads the leaders
    over all brokers, and also the load of a broker that dies. The first replica is the preferred one (R-003).
    """
    assert 1 <= replication_factor <= len(brokers)
    order, n = sorted(brokers), len(brokers)
    return tuple(tuple(order[(i + j) % n] for j in range(replication_factor)) for i in range(partitions))


# Requests of one znode each; parents of many requests; parents of a znode per topic with a znode per partition.
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
    """How a command acts on ZooKeeper: create `parents`, then `path` with `data`; with `until_gone` wait for its deletion.

    `taken` is the error if another request exists at `path`. `beside`: create it only if this node exists, else
    NO_REASSIGNMENT_IN_PROGRESS. `gone`: delete `path` instead; this may be repeated. `sequential`: ZooKeeper appends a number, so
    the client cannot find out afterwards whether the znode was created. `over`: write to a znode that exists, too.
    """

    parents: tuple[str, ...]
    path: str
    data: bytes
    until_gone: bool = True
    taken: ErrorCode = ErrorCode.REASSIGNMENT_IN_PROGRESS
    beside: str | None = None
    gone: bool = False
    sequential: bool = False
    over: bool = False


def ops_of(wanted: Script) -> tuple[AnyOp, ...]:
    """The ZooKeeper operations that write a command's znode; with `beside` they must be one multi."""
    if wanted.gone:
        return (Delete(wanted.path),)
    if wanted.beside is not None:
        return Check(wanted.beside, -1), Create(wanted.path, wanted.data)
    own = Create(wanted.path, wanted.data, sequential=wanted.sequential)
    over = (SetData(wanted.path, wanted.data, -1),) if wanted.over else ()
    return (*(Create(path, b"") for path in wanted.parents), own, *over)


def script(command: _Ask) -> Script:
    """The znode that an administrator's command writes, and when the command is done."""
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
            # without a reassignment there is nothing to roll back; a cancellation that exists already is a success
            return Script((), admin_paths.REASSIGN_CANCEL, b"", False, ErrorCode.NONE, beside=admin_paths.REASSIGN)
        case AllowReassignments():
            return Script((), admin_paths.REASSIGN_CANCEL, b"", False, gone=True)
        case DeposeController():
            return Script((), paths.CONTROLLER, b"", False, gone=True)
        case EditZnode(path=path, data=None):
            return Script((), path, b"", False, gone=True)
        case EditZnode(path=path, data=data, over=over):
            names = path.split("/")
            parents = tuple("/".join(names[:depth]) for depth in range(2, len(names)))
            return Script(parents, path, data or b"", False, over=over, sequential=path == admin_paths.REQUEST)
        case _:
            assert_never(command)
