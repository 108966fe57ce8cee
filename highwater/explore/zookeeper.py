"""ZooKeeper as a memoized function on encoded trees: (tree, request) -> (tree, answers, fired watches).

Canonical form: zxids become 0, except the czxids of registrations, which are broker incarnations and are numbered from 1 in the
order of registration. `renumbered` changes the version of the state znode, because brokers hold it too.
"""

import msgspec
from msgspec import Struct

from highwater.explore.state import TOPIC, TP
from reference.coordination import paths
from reference.coordination.api import AnyAnswer, AnyOp, Create, Data
from reference.coordination.memory import Fired, MemoryZooKeeper
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


class ZooKeepers:
    """The model of ZooKeeper on encoded trees; results are cached."""

    def __init__(self) -> None:
        self._answered: dict[tuple[bytes, int, tuple[AnyOp, ...], bool], tuple[bytes, tuple[AnyAnswer, ...], Fired]] = {}
        self._standings: dict[bytes, Standing] = {}

    def submit(
        self, tree: bytes, session: int, ops: tuple[AnyOp, ...], *, atomic: bool
    ) -> tuple[bytes, tuple[AnyAnswer, ...], Fired]:
        """Perform a session's ZooKeeper request on an encoded tree."""
        key = (tree, session, ops, atomic)
        found = self._answered.get(key)
        if found is None:
            zk = _decode(tree)
            before = zk.zxid
            answers, fired = zk.submit(session, ops, atomic=atomic)
            found = self._answered[key] = (_canonical(zk, before), answers, fired)
        return found

    def connect(self, tree: bytes) -> tuple[bytes, int]:
        """Open a ZooKeeper session on an encoded tree."""
        zk = _decode(tree)
        session = zk.connect(timeout_ms=1)
        return _canonical(zk, zk.zxid), session

    def expire(self, tree: bytes, session: int) -> tuple[bytes, tuple[str, ...], Fired]:
        """Expire a ZooKeeper session on an encoded tree; also returns the paths of its deleted ephemerals."""
        zk = _decode(tree)
        gone = tuple(zk.sessions[str(session)].ephemerals)
        before = zk.zxid
        fired = zk.expire(session)
        return _canonical(zk, before), gone, fired

    def renumbered(self, tree: bytes) -> bytes:
        """The encoded tree with the version of the state znode in canonical form."""
        zk = _decode(tree)
        if _STATE in zk.nodes:
            zk.nodes[_STATE].version = _PRESENT
        return _encode(zk)

    def standing(self, tree: bytes) -> Standing:
        """Decode what an encoded ZooKeeper tree holds of the partition."""
        found = self._standings.get(tree)
        if found is None:
            found = self._standings[tree] = _standing(_decode(tree))
        return found


def decode(tree: bytes) -> MemoryZooKeeper:
    """Decode a ZooKeeper tree, so that its commits can be recorded."""
    return _decode(tree)


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


def _standing(zk: MemoryZooKeeper) -> Standing:
    sessions = tuple(sorted(int(name) for name in zk.sessions))
    node = zk.nodes.get(_STATE)
    if node is None:
        return Standing(-1, -1, (), sessions)
    state = paths.decode_state(TP, (), Data(node.data, node.version, node.czxid))
    return Standing(node.version, state.leader_epoch, tuple(member.broker for member in state.isr), sessions, state.leader)
