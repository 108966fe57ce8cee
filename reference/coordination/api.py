"""ZooKeeper as data: requests, answers, watch events and session states. Two implementations pass one contract suite.

A request is a batch: many operations answered one by one (`atomic=False`), or one multi of which all or nothing happens
(`atomic=True`; on failure the operation at fault carries its error and the others `RolledBack`). Requests of one session are
performed and answered in order. A connection lost while requests are in flight answers each of them `Unknown`: it may have
happened. Watches are one-shot, belong to the session and are set again by the client library after a reconnect, which
reports at once what changed meanwhile.
"""

from typing import Literal, Protocol

from msgspec import Struct


class ZkOp(Struct, frozen=True, tag=True):
    """Base of all operations."""

    path: str


class Create(ZkOp, frozen=True, tag=True):
    """Answers Created, NodeExists or NoNode (of the parent)."""

    data: bytes
    ephemeral: bool = False
    sequential: bool = False


class Delete(ZkOp, frozen=True, tag=True):
    """Answers Deleted, BadVersion, NoNode or NotEmpty. Version -1 matches any."""

    version: int = -1


class SetData(ZkOp, frozen=True, tag=True):
    """Answers Written, BadVersion or NoNode. Version -1 matches any."""

    data: bytes
    version: int = -1


class Check(ZkOp, frozen=True, tag=True):
    """Only within a multi: answers Checked, BadVersion or NoNode."""

    version: int


class GetData(ZkOp, frozen=True, tag=True):
    """Answers Data or NoNode; a watch is left only where the node exists."""

    watch: bool = False


class Exists(ZkOp, frozen=True, tag=True):
    """Answers Data (with the bytes) or NoNode; a watch is left in both cases."""

    watch: bool = False


class GetChildren(ZkOp, frozen=True, tag=True):
    """Answers Children or NoNode; a watch is left only where the node exists."""

    watch: bool = False


AnyOp = Create | Delete | SetData | Check | GetData | Exists | GetChildren


class ZkAnswer(Struct, frozen=True, tag=True):
    """Base of all answers to one operation."""


class Created(ZkAnswer, frozen=True, tag=True):
    """The path that came to be (with its sequence number)."""

    path: str


class Deleted(ZkAnswer, frozen=True, tag=True):
    """Gone."""


class Written(ZkAnswer, frozen=True, tag=True):
    """The version after the write."""

    version: int


class Checked(ZkAnswer, frozen=True, tag=True):
    """The version was as expected."""


class Data(ZkAnswer, frozen=True, tag=True):
    """A node as it is. `owner` is the session of an ephemeral, 0 otherwise."""

    data: bytes
    version: int
    czxid: int
    owner: int = 0


class Children(ZkAnswer, frozen=True, tag=True):
    """Names of the children, sorted."""

    names: tuple[str, ...]


class BadVersion(ZkAnswer, frozen=True, tag=True):
    """Somebody else wrote."""


class NoNode(ZkAnswer, frozen=True, tag=True):
    """No such path."""


class NodeExists(ZkAnswer, frozen=True, tag=True):
    """The path is taken."""


class NotEmpty(ZkAnswer, frozen=True, tag=True):
    """The node has children."""


class RolledBack(ZkAnswer, frozen=True, tag=True):
    """Another operation of the multi failed."""


class Unknown(ZkAnswer, frozen=True, tag=True):
    """The connection was lost: it happened or it did not."""


class SessionExpired(ZkAnswer, frozen=True, tag=True):
    """The session is over: it did not happen."""


AnyAnswer = (
    Created
    | Deleted
    | Written
    | Checked
    | Data
    | Children
    | BadVersion
    | NoNode
    | NodeExists
    | NotEmpty
    | RolledBack
    | Unknown
    | SessionExpired
)

Change = Literal["created", "deleted", "changed", "children"]
SessionState = Literal["connected", "disconnected", "expired"]


class Listener(Protocol):
    """Who is told by a client library; called on the thread that owns the client."""

    def replied(self, request_id: int, answers: tuple[AnyAnswer, ...]) -> None:
        """A request is answered."""

    def watch_fired(self, path: str, change: Change) -> None:
        """A watch fired and is gone."""

    def state_changed(self, state: SessionState, session: int) -> None:
        """The session changed."""
