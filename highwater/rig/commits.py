"""Commits of ZooKeeper: one value for each change to a znode, the same for the in-memory model and a real transaction log.

Evidence is derived from these alone (`highwater.rig.evidence`). A simulated server and the explorer make them with `commits_of`;
`highwater.backends.real.zookeeper.transaction_log` reads them from the log of a real server.
"""

from typing import Final

from msgspec import Struct

from reference.coordination.api import AnyAnswer, AnyOp, Create, Created, Delete, Deleted, SetData, Written
from reference.coordination.memory import MemoryZooKeeper

UNTIMED_MS: Final = 0  # `time_ms` of a commit whose rows take their time from the recorder


class Commit(Struct, frozen=True, kw_only=True):
    """Base class: one committed change to one znode. `time_ms` is the server's wall clock, `session` that of the writer."""

    zxid: int
    session: int
    time_ms: int = UNTIMED_MS


class NodeCreated(Commit, frozen=True, kw_only=True):
    """ZooKeeper commit: a znode was created, at version 0; its czxid is `zxid`."""

    path: str
    data: bytes
    ephemeral: bool


class NodeWritten(Commit, frozen=True, kw_only=True):
    """ZooKeeper commit: the data of a znode was replaced; `version` is the one after the write."""

    path: str
    data: bytes
    version: int


class NodeDeleted(Commit, frozen=True, kw_only=True):
    """ZooKeeper commit: a znode was deleted by a request, not by the end of its session."""

    path: str


class SessionEnded(Commit, frozen=True, kw_only=True):
    """ZooKeeper commit: a session expired or was closed; all its ephemerals are deleted in this transaction."""


AnyCommit = NodeCreated | NodeWritten | NodeDeleted | SessionEnded


def commits_of(
    tree: MemoryZooKeeper, session: int, ops: tuple[AnyOp, ...], answers: tuple[AnyAnswer, ...]
) -> tuple[AnyCommit, ...]:
    """The changes that a session's request made to ZooKeeper's tree, given the tree after the request.

    The zxid of a creation is the znode's czxid. Other commits, and creations that the same request undid, carry the tree's zxid.
    """
    commits: list[AnyCommit] = []
    for op, answer in zip(ops, answers, strict=True):
        match op, answer:
            case (Create(data=data, ephemeral=ephemeral), Created(path=path)):
                node = tree.nodes.get(path)
                zxid = tree.zxid if node is None else node.czxid
                commits.append(NodeCreated(zxid=zxid, session=session, path=path, data=data, ephemeral=ephemeral))
            case (SetData(path=path, data=data), Written(version=version)):
                commits.append(NodeWritten(zxid=tree.zxid, session=session, path=path, data=data, version=version))
            case (Delete(path=path), Deleted()):
                commits.append(NodeDeleted(zxid=tree.zxid, session=session, path=path))
            case _:
                pass
    return tuple(commits)
