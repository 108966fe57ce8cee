"""ZooKeeper's requests, answers, watch events and session states as data.

Two implementations pass one contract suite: `memory`, and `server.kazoo_client` over a real ZooKeeper.

A request is a batch of operations, answered one by one (`atomic=False`), or a multi that is performed as a whole or not at all
(`atomic=True`; on failure the operation at fault gets its error and the others `RolledBack`). Requests of one session are
performed and answered in order. If the connection breaks, each request in flight is answered `Unknown`: it may have been
performed. Watches are one-shot and belong to the session; the client library sets them again after a reconnect, and then reports
at once what changed meanwhile.
"""

from typing import Literal

from msgspec import Struct


class ZkOp(Struct, frozen=True, tag=True):
    """Base class of all ZooKeeper operations."""

    path: str


class Create(ZkOp, frozen=True, tag=True):
    """Create a znode; answered by Created, NodeExists or NoNode (the parent is missing)."""

    data: bytes
    ephemeral: bool = False
    sequential: bool = False


class Delete(ZkOp, frozen=True, tag=True):
    """Delete a znode; answered by Deleted, BadVersion, NoNode or NotEmpty. Version -1 matches any."""

    version: int = -1


class SetData(ZkOp, frozen=True, tag=True):
    """Replace a znode's data; answered by Written, BadVersion or NoNode. Version -1 matches any."""

    data: bytes
    version: int = -1


class Check(ZkOp, frozen=True, tag=True):
    """Check a znode's version within a multi; answered by Checked, BadVersion or NoNode."""

    version: int


class GetData(ZkOp, frozen=True, tag=True):
    """Read a znode; answered by Data or NoNode; the watch is set only if the node exists."""

    watch: bool = False


class Exists(ZkOp, frozen=True, tag=True):
    """Ask whether a znode exists; answered by Data (with the bytes) or NoNode; the watch is set in both cases."""

    watch: bool = False


class GetChildren(ZkOp, frozen=True, tag=True):
    """List a znode's children; answered by Children or NoNode; the watch is set only if the node exists."""

    watch: bool = False


AnyOp = Create | Delete | SetData | Check | GetData | Exists | GetChildren


class ZkAnswer(Struct, frozen=True, tag=True):
    """Base class of all answers to one ZooKeeper operation."""


class Created(ZkAnswer, frozen=True, tag=True):
    """ZooKeeper's answer: the znode was created at this path, with its sequence number if it has one."""

    path: str


class Deleted(ZkAnswer, frozen=True, tag=True):
    """ZooKeeper's answer: the znode was deleted."""


class Written(ZkAnswer, frozen=True, tag=True):
    """ZooKeeper's answer: the data was replaced; has the version after the write."""

    version: int


class Checked(ZkAnswer, frozen=True, tag=True):
    """ZooKeeper's answer: the znode's version was as expected."""


class Data(ZkAnswer, frozen=True, tag=True):
    """ZooKeeper's answer: the data of a znode. `owner` is the session of an ephemeral, 0 otherwise."""

    data: bytes
    version: int
    czxid: int
    owner: int = 0


class Children(ZkAnswer, frozen=True, tag=True):
    """ZooKeeper's answer: the names of a znode's children, sorted."""

    names: tuple[str, ...]


class BadVersion(ZkAnswer, frozen=True, tag=True):
    """ZooKeeper's answer: the znode has another version, because another session wrote it."""


class NoNode(ZkAnswer, frozen=True, tag=True):
    """ZooKeeper's answer: there is no znode at this path."""


class NodeExists(ZkAnswer, frozen=True, tag=True):
    """ZooKeeper's answer: a znode of this path exists already."""


class NotEmpty(ZkAnswer, frozen=True, tag=True):
    """ZooKeeper's answer: the znode to delete has children."""


class RolledBack(ZkAnswer, frozen=True, tag=True):
    """ZooKeeper's answer: another operation of the multi failed, so this one was not performed."""


class Unknown(ZkAnswer, frozen=True, tag=True):
    """No answer of ZooKeeper: the connection was lost, and the operation may or may not have been performed."""


class SessionExpired(ZkAnswer, frozen=True, tag=True):
    """ZooKeeper's answer: the session has expired; the operation was not performed."""


Refusal = BadVersion | NoNode | NodeExists | NotEmpty  # the operation was at fault
AnyAnswer = Created | Deleted | Written | Checked | Data | Children | Refusal | RolledBack | Unknown | SessionExpired

Change = Literal["created", "deleted", "changed", "children"]
SessionState = Literal["connected", "disconnected", "expired"]
