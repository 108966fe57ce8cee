"""ZooKeeper as a remembered function on numbers: (tree, request) -> (tree, reply, fired watches).

Canonical form: zxids become 0, except the czxids of registrations, which are broker incarnations and are numbered from 1 in the
order of registration. `with_canonical_versions` changes the versions of the state znodes, because brokers hold it too.
"""

from typing import Literal

import msgspec
from msgspec import Struct

from highwater.explore.machines import Versions
from highwater.explore.numbering import Numbers, Parts
from highwater.explore.state import TOPIC, tp_of
from reference.coordination import paths
from reference.coordination.admin_paths import (
    PARTITIONS_REASSIGNED,
    REASSIGN,
    Reassignment,
    partition_reassigned_path,
    reassignments_payload,
)
from reference.coordination.api import AnyAnswer, Create, Data
from reference.coordination.memory import Fired, MemoryZooKeeper, Znode
from reference.effects import ZkRequest
from reference.events import AnyEvent, ZkReplied, ZkWatch
from reference.types import BrokerId, TopicPartition

_ADMIN = "/admin"
_REGISTRATIONS = f"{paths.BROKER_IDS}/"
_PRESENT = 1  # the canonical version of a state znode


class Stated(Struct, frozen=True):
    """What ZooKeeper holds of one partition. `leader_epoch` is -1 without a state znode."""

    leader_epoch: int = -1
    leader: BrokerId | None = None
    isr: tuple[BrokerId, ...] = ()
    assigned: tuple[BrokerId, ...] = ()  # AR in the topic znode


class Standing(Struct, frozen=True):
    """What the search needs to know about a tree; `moving`: it holds a request to move partitions."""

    sessions: tuple[int, ...]
    versions: Versions
    partitions: tuple[Stated, ...]
    moving: bool
    renumbered: bool  # whether the versions are in canonical form


_encode = msgspec.msgpack.Encoder(order="deterministic").encode
tree_of = msgspec.msgpack.Decoder(MemoryZooKeeper).decode  # decodes a tree, the part of a state


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

    def tree_numbered(self, tree: int) -> MemoryZooKeeper:
        """The ZooKeeper tree with this number, for reading."""
        encoded_tree = self._parts.values[tree]
        assert isinstance(encoded_tree, bytes)
        return tree_of(encoded_tree)

    def submit(self, tree: int, session: int, request: int) -> Change:
        """Perform a session's request on a tree."""
        key = (tree, session, request)
        cached = self._submitted.get(key)
        if cached is None:
            zk = self.tree_numbered(tree)
            before = zk.zxid
            zk_request = self._requests.values[request]
            answers, fired = zk.submit(session, zk_request.ops, atomic=zk_request.atomic)
            reply = self._events.of(ZkReplied(zk_request.id, answers))
            after = self._parts.of(_canonical_tree(zk, before))
            cached = self._submitted[key] = Change(after, self._watch_events(fired), reply, answers)
        return cached

    def connect(self, tree: int) -> tuple[int, int]:
        """Open a session: the tree after it and the session."""
        cached = self._connected.get(tree)
        if cached is None:
            zk = self.tree_numbered(tree)
            session = zk.connect(timeout_ms=1)
            cached = self._connected[tree] = (self._parts.of(_canonical_tree(zk, zk.zxid)), session)
        return cached

    def expire(self, tree: int, session: int) -> Change:
        """Expire a session."""
        key = (tree, session)
        cached = self._expired.get(key)
        if cached is None:
            zk = self.tree_numbered(tree)
            deleted = tuple(zk.sessions[str(session)].ephemerals)
            before = zk.zxid
            fired = zk.expire(session)
            after = self._parts.of(_canonical_tree(zk, before))
            cached = self._expired[key] = Change(after, self._watch_events(fired), gone=deleted)
        return cached

    def with_canonical_versions(self, tree: int) -> int:
        """The tree with the versions of the state znodes in canonical form."""
        cached = self._renumbered.get(tree)
        if cached is None:
            zk = self.tree_numbered(tree)
            for path, node in zk.nodes.items():
                if paths.tp_of_state_path(path) is not None:
                    node.version = _PRESENT
            cached = self._renumbered[tree] = self._parts.of(_encode(zk))
        return cached

    def _watch_events(self, fired: Fired) -> tuple[tuple[int, int], ...]:
        return tuple((session, self._events.of(ZkWatch(path, change))) for session, path, change in fired)


def empty() -> bytes:
    """The encoded tree of a new ZooKeeper."""
    return _canonical_tree(MemoryZooKeeper.boot(), 0)


def topic_request(replicas: tuple[BrokerId, ...], partitions: int) -> Create:
    """The request that creates the explored topic."""
    return Create(paths.topic_path(TOPIC), paths.topic_payload((replicas,) * partitions))


def move_requests(tp: TopicPartition, replicas: tuple[BrokerId, ...], path: Literal["json", "v3"]) -> tuple[Create, ...]:
    """The requests that ask the controller to move a partition (switch `reassign_path`); above the znode some may exist."""
    if path == "json":
        return Create(_ADMIN, b""), Create(REASSIGN, reassignments_payload({tp: Reassignment(replicas)}))
    request_path = partition_reassigned_path(tp)
    above = (_ADMIN, PARTITIONS_REASSIGNED, request_path.rpartition("/")[0])
    return (*(Create(path, b"") for path in above), Create(request_path, paths.replicas_payload(replicas)))


def _canonical_tree(zk: MemoryZooKeeper, before: int) -> bytes:
    """The encoded tree with its zxids in canonical form: `zxid` counts registrations, of which there were `before`."""
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


def standing_of(tree: bytes, partitions: int) -> Standing:
    """Decode what the search needs to know about an encoded ZooKeeper tree."""
    zk = tree_of(tree)
    topic = zk.nodes.get(paths.topic_path(TOPIC))
    assigned = dict(paths.decode_topic(TOPIC, topic.data)) if topic is not None else {}
    tps = tuple(tp_of(index) for index in range(partitions))
    nodes = [zk.nodes.get(paths.state_path(tp)) for tp in tps]
    versions = tuple(-1 if node is None else node.version for node in nodes)
    return Standing(
        sessions=tuple(sorted(int(name) for name in zk.sessions)),
        versions=versions,
        partitions=tuple(_partition_state(tp, node, assigned.get(tp, ())) for tp, node in zip(tps, nodes, strict=True)),
        moving=any(path == REASSIGN or path.startswith(f"{PARTITIONS_REASSIGNED}/") for path in zk.nodes),
        renumbered=all(version in (-1, _PRESENT) for version in versions),
    )


def _partition_state(tp: TopicPartition, node: Znode | None, assigned: tuple[BrokerId, ...]) -> Stated:
    """What the state znode of a partition says, if there is one, with the partition's assignment."""
    if node is None:
        return Stated(assigned=assigned)
    state = paths.decode_state(tp, assigned, Data(node.data, node.version, node.czxid))
    return Stated(state.leader_epoch, state.leader, tuple(member.broker for member in state.isr), assigned)
