"""What an administrator can ask for, and what it means in ZooKeeper: the znode that asks, and when it is done.

"Created by admin" in the documents: a client puts a request under /admin and the controller deletes it when it is done (R-147,
R-149, V3 §H). A topic is made by its own znode (V3 §B); that is all of it.
"""

from typing import assert_never

from msgspec import Struct

from reference.coordination import paths
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


class ListPending(Struct, frozen=True, kw_only=True, tag=True):
    """Which requests stand under /admin?"""

    id: int


Command = CreateTopic | DeleteTopic | AddPartition | RemovePartition | ElectPreferred | ListPending
_Ask = CreateTopic | DeleteTopic | AddPartition | RemovePartition | ElectPreferred

# requests that are one znode each, and those that are a znode for each partition below a znode for each topic
SINGLE = (paths.PREFERRED_ELECTION, paths.DELETE_TOPICS)
NESTED = (paths.PARTITIONS_ADD, paths.PARTITIONS_REMOVE)


class Script(Struct, frozen=True):
    """Make `parents` where they are missing, then `path` with `data`; done when it is there, or gone again (`until_gone`).

    `taken` is the error where somebody else's request stands there.
    """

    parents: tuple[str, ...]
    path: str
    data: bytes
    until_gone: bool = True
    taken: ErrorCode = ErrorCode.REASSIGNMENT_IN_PROGRESS


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
        case AddPartition(tp=tp, replicas=replicas):
            above = (ADMIN, paths.PARTITIONS_ADD, f"{paths.PARTITIONS_ADD}/{topic_of(tp)}")
            return Script(above, paths.partition_add_path(tp), paths.replicas_payload(replicas))
        case RemovePartition(tp=tp):
            above = (ADMIN, paths.PARTITIONS_REMOVE, f"{paths.PARTITIONS_REMOVE}/{topic_of(tp)}")
            return Script(above, paths.partition_remove_path(tp), b"")
        case _:
            assert_never(command)
