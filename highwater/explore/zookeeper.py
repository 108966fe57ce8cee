"""ZooKeeper as a remembered function on numbers: (tree, request) -> (tree, reply, fired watches).

Canonical form: zxids become 0, except the czxids of registrations, which are broker incarnations and are numbered from 1 in the
order of registration. `renumbered` changes the version of the state znode, because brokers hold it too.
"""

import msgspec
from msgspec import Struct

from highwater.explore.parts import Numbers, Parts
from highwater.explore.state import TOPIC, TP
from reference.coordination import paths
from reference.coordination.api import AnyAnswer, Create, Data
from reference.coordination.memory import Fired, MemoryZooKeeper
from reference.effects import ZkRequest
from reference.events import AnyEvent, ZkReplied, ZkWatch
from reference.types import BrokerId

_REGISTRATIONS = f"{paths.BROKER_IDS}/"
_STATE = paths.state_path(TP)
_PRESENT = 1  # the canonical version of the state znode


class Standing(Struct, frozen=True):
    """What ZooKeeper holds of the partition. `version` and `leader_epoch` are -1 without a state znode."""

    version: int
    leader_epoch: int
    isr: tuple[BrokerId, ...]
    sessions: tuple[int, ...]
    leader: BrokerId | None = None


_encode = msgspec.msgpack.Encoder(order="deterministic").encode
_decode = msgspec.msgpack.Decoder(MemoryZooKeeper).decode


class Change(Struct, frozen=True):
    """What ZooKeeper does in one go: the tree after it, the watches that fire, and the reply if a broker asked.

    `fired` holds (session, number of the event), `reply` the number of an event; `gone` the paths of deleted ephemerals.
    """

    tree: int
    fired: tuple[tuple[int, int], ...] = ()
    reply: int = -1
    answers: tuple[AnyAnswer, ...] = ()
    gone: tuple[str, ...] = ()


class ZooKeepers:
    """The model of ZooKeeper on numbers of encoded trees (`parts`), of events and of requests; results are remembered."""

    def __init__(self, parts: Parts, events: Numbers[AnyEvent], requests: Numbers[ZkRequest]) -> None:
        self._parts = parts
        self._events = events
        self._requests = requests
        self._submitted: dict[tuple[int, int, int], Change] = {}
        self._expired: dict[tuple[int, int], Change] = {}
        self._connected: dict[int, tuple[int, int]] = {}
        self._renumbered: dict[int, int] = {}

    def decoded(self, tree: int) -> MemoryZooKeeper:
        """The ZooKeeper tree with this number, for reading."""
        found = self._parts.values[tree]
        assert isinstance(found, bytes)
        return _decode(found)

    def submit(self, tree: int, session: int, request: int) -> Change:
        """Perform a session's request on a tree."""
        key = (tree, session, request)
        found = self._submitted.get(key)
        if found is None:
            zk = self.decoded(tree)
            before = zk.zxid
            asked = self._requests.values[request]
            answers, fired = zk.submit(session, asked.ops, atomic=asked.atomic)
            reply = self._events.of(ZkReplied(asked.id, answers))
            after = self._parts.of(_canonical(zk, before))
            found = self._submitted[key] = Change(after, self._watches(fired), reply, answers)
        return found

    def connect(self, tree: int) -> tuple[int, int]:
        """Open a session: the tree after it and the session."""
        found = self._connected.get(tree)
        if found is None:
            zk = self.decoded(tree)
            session = zk.connect(timeout_ms=1)
            found = self._connected[tree] = (self._parts.of(_canonical(zk, zk.zxid)), session)
        return found

    def expire(self, tree: int, session: int) -> Change:
        """Expire a session."""
        key = (tree, session)
        found = self._expired.get(key)
        if found is None:
            zk = self.decoded(tree)
            gone = tuple(zk.sessions[str(session)].ephemerals)
            before = zk.zxid
            fired = zk.expire(session)
            after = self._parts.of(_canonical(zk, before))
            found = self._expired[key] = Change(after, self._watches(fired), gone=gone)
        return found

    def renumbered(self, tree: int) -> int:
        """The tree with the version of the state znode in canonical form."""
        found = self._renumbered.get(tree)
        if found is None:
            zk = self.decoded(tree)
            if _STATE in zk.nodes:
                zk.nodes[_STATE].version = _PRESENT
            found = self._renumbered[tree] = self._parts.of(_encode(zk))
        return found

    def _watches(self, fired: Fired) -> tuple[tuple[int, int], ...]:
        return tuple((session, self._events.of(ZkWatch(path, change))) for session, path, change in fired)


def empty() -> bytes:
    """The encoded tree of a new ZooKeeper."""
    return _canonical(MemoryZooKeeper.boot(), 0)


def new_topic(replicas: tuple[BrokerId, ...]) -> Create:
    """The request that creates the explored topic with its one partition."""
    return Create(paths.topic_path(TOPIC), paths.topic_payload((replicas,)))


def _canonical(zk: MemoryZooKeeper, before: int) -> bytes:
    # `zxid` counts registrations: `before` is the former count, and a node with a greater czxid is new.
    fresh = [node for path, node in zk.nodes.items() if path.startswith(_REGISTRATIONS) and node.czxid > before]
    assert len(fresh) <= 1, "one request registers at most one broker"
    for path, node in zk.nodes.items():
        node.mzxid = node.pzxid = node.sequence = 0
        if not path.startswith(_REGISTRATIONS):
            node.czxid = 0
    for node in fresh:
        node.czxid = before + 1
    zk.zxid = before + len(fresh)
    return _encode(zk)


def standing(tree: bytes) -> Standing:
    """Decode what an encoded ZooKeeper tree holds of the partition."""
    zk = _decode(tree)
    sessions = tuple(sorted(int(name) for name in zk.sessions))
    node = zk.nodes.get(_STATE)
    if node is None:
        return Standing(-1, -1, (), sessions)
    state = paths.decode_state(TP, (), Data(node.data, node.version, node.czxid))
    return Standing(node.version, state.leader_epoch, tuple(member.broker for member in state.isr), sessions, state.leader)
