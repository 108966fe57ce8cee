"""ZooKeeper in memory: the tree, sessions and watches of one server. The caller passes requests and the time.

It decides what each operation does and which watches fire; its answers are those of `reference.coordination.api`. One zxid
counts all transactions (a multi is one), so no two nodes have the same czxid, which distinguishes registrations. Watches are
one-shot and belong to a connection: call `forget_watches` when it breaks and `watch_again` on the next one, which fires at once
for changes since the zxid that the client has seen. A session lives until `expire`; `heard_ms` is for callers that time sessions
out, others leave it at 0.

The state is plain data with string keys, so that the explorer can clone and fingerprint it.
"""

from bisect import bisect_left, insort
from hashlib import blake2b
from typing import assert_never

import msgspec
from msgspec import Struct

from reference.coordination.api import (
    AnyAnswer,
    AnyOp,
    BadVersion,
    Change,
    Check,
    Checked,
    Children,
    Create,
    Created,
    Data,
    Delete,
    Deleted,
    Exists,
    GetChildren,
    GetData,
    NodeExists,
    NoNode,
    NotEmpty,
    Refusal,
    RolledBack,
    SessionExpired,
    SetData,
    Written,
)

Fired = list[tuple[int, str, Change]]  # (session, path, change), in the order of delivery


class Znode(Struct):
    """One znode. `mzxid` is of the last change to its data, `pzxid` of the last change to its list of children."""

    data: bytes
    czxid: int
    mzxid: int
    pzxid: int
    owner: int = 0
    version: int = 0
    sequence: int = 0  # of the next sequential child
    children: list[str] = []  # sorted names


class Session(Struct):
    """One ZooKeeper session; `ephemerals` are the sorted paths of its ephemeral znodes."""

    timeout_ms: int
    heard_ms: int
    ephemerals: list[str] = []


class Watches(Struct):
    """The watches of a ZooKeeper client, as sorted paths. `exist` holds paths that did not exist when the watch was set."""

    data: list[str] = []
    exist: list[str] = []
    child: list[str] = []


_Saved = tuple[dict[str, Znode | None], dict[str, list[str]]]  # nodes by path, ephemerals by session


class MemoryZooKeeper(Struct):
    """One ZooKeeper server in memory. Operations are performed at once, in the order of the calls."""

    nodes: dict[str, Znode] = {}
    sessions: dict[str, Session] = {}
    data_watches: dict[str, list[int]] = {}  # path -> sorted sessions
    child_watches: dict[str, list[int]] = {}
    zxid: int = 0
    last_session: int = 0

    @staticmethod
    def boot() -> "MemoryZooKeeper":
        """A new ZooKeeper whose tree has the root alone."""
        return MemoryZooKeeper(nodes={"/": Znode(b"", 0, 0, 0)})

    # --- sessions ---------------------------------------------------------------------------------------------------------

    def connect(self, *, timeout_ms: int, now_ms: int = 0) -> int:
        """Open a session and return its id; ids are never reused."""
        self.last_session += 1
        self.sessions[str(self.last_session)] = Session(timeout_ms, now_ms)
        return self.last_session

    def touch(self, session: int, *, now_ms: int) -> bool:
        """Record that a ZooKeeper client was heard. False if its session is over."""
        session_state = self.sessions.get(str(session))
        if session_state is None:
            return False
        session_state.heard_ms = now_ms
        return True

    def due_ms(self, session: int) -> int | None:
        """When the caller must expire this session if its client stays silent; None if it is over."""
        session_state = self.sessions.get(str(session))
        return None if session_state is None else session_state.heard_ms + session_state.timeout_ms

    def expire(self, session: int) -> Fired:
        """End a session that timed out or was closed: its ephemerals are deleted in one transaction."""
        session_state = self.sessions.pop(str(session), None)
        if session_state is None:
            return []
        self.forget_watches(session)
        self.zxid += 1
        changes: list[tuple[str, Change]] = []
        for path in session_state.ephemerals:
            self._remove(path, changes)
        return self._fire(changes)

    # --- watches of a connection ------------------------------------------------------------------------------------------

    def forget_watches(self, session: int) -> None:
        """Remove all watches of a session whose connection broke."""
        for table in (self.data_watches, self.child_watches):
            for path in [path for path, sessions in table.items() if session in sessions]:
                table[path].remove(session)
                if not table[path]:
                    del table[path]

    def watch_again(self, session: int, watches: Watches, *, seen_zxid: int) -> Fired:
        """Set watches on a new connection; a watch whose node changed since `seen_zxid` fires instead."""
        fired: Fired = []
        for path in watches.data:
            node = self.nodes.get(path)
            if node is None:
                fired.append((session, path, "deleted"))
            elif node.mzxid > seen_zxid:
                fired.append((session, path, "changed"))
            else:
                _watch(self.data_watches, path, session)
        for path in watches.exist:
            if path in self.nodes:
                fired.append((session, path, "created"))
            else:
                _watch(self.data_watches, path, session)
        for path in watches.child:
            node = self.nodes.get(path)
            if node is None:
                fired.append((session, path, "deleted"))
            elif node.pzxid > seen_zxid:
                fired.append((session, path, "children"))
            else:
                _watch(self.child_watches, path, session)
        return fired

    def _fire(self, changes: list[tuple[str, Change]]) -> Fired:
        """The watch events of these changes; a watch that fires is removed."""
        fired: Fired = []
        for path, change in changes:
            if change == "children":
                fired += [(session, path, change) for session in self.child_watches.pop(path, ())]
                continue
            watchers = self.data_watches.pop(path, [])
            if change == "deleted":
                # A session that watched both data and children of the node is told once that it is deleted.
                watchers = sorted({*watchers, *self.child_watches.pop(path, ())})
            fired += [(session, path, change) for session in watchers]
        return fired

    # --- operations -------------------------------------------------------------------------------------------------------

    def submit(self, session: int, ops: tuple[AnyOp, ...], *, atomic: bool = False) -> tuple[tuple[AnyAnswer, ...], Fired]:
        """Perform a request of a session; return one answer per operation, and the watches of all sessions that fired."""
        if str(session) not in self.sessions:
            return (SessionExpired(),) * len(ops), []
        changes: list[tuple[str, Change]] = []
        if atomic:
            return self._multi(session, ops, changes), self._fire(changes)
        answers: list[AnyAnswer] = []
        fired: Fired = []
        for op in ops:
            assert not isinstance(op, Check)  # only within a multi
            if isinstance(op, GetData | Exists | GetChildren):
                answers.append(self._read(session, op))
                continue
            self.zxid += 1
            answers.append(self._write(session, op, changes))
            if changes:
                fired += self._fire(changes)
                changes = []
        return tuple(answers), fired

    def _multi(self, session: int, ops: tuple[AnyOp, ...], changes: list[tuple[str, Change]]) -> tuple[AnyAnswer, ...]:
        """Perform the operations in order; if one is refused undo all and answer RolledBack for the others."""
        self.zxid += 1
        saved = self._copies(session, ops)
        answers: list[AnyAnswer] = []
        for op in ops:
            assert not isinstance(op, GetData | Exists | GetChildren)  # a multi only writes and checks
            answer = self._write(session, op, changes)
            answers.append(answer)
            if isinstance(answer, Refusal):
                self._restore(saved, [path for path, change in changes if change == "created"])
                changes.clear()
                at = len(answers) - 1
                return tuple(answer if i == at else RolledBack() for i in range(len(ops)))
        return tuple(answers)

    def _copies(self, session: int, ops: tuple[AnyOp, ...]) -> _Saved:
        """Copies of the nodes and ephemerals that a multi may change, except sequential nodes, whose names are unknown."""
        nodes: dict[str, Znode | None] = {}
        owners = {session}
        for op in ops:
            for path in (op.path, _parent(op.path)):
                node = self.nodes.get(path)
                nodes[path] = node and msgspec.structs.replace(node, children=list(node.children))
                owners.add(node.owner if node else 0)
        return nodes, {str(o): list(self.sessions[str(o)].ephemerals) for o in sorted(owners) if str(o) in self.sessions}

    def _restore(self, saved: _Saved, created: list[str]) -> None:
        """Undo a multi: delete the created nodes, put the copies back."""
        self.zxid -= 1
        nodes, ephemerals = saved
        for path in created:
            self.nodes.pop(path, None)
        for path, node in nodes.items():
            if node is not None:
                self.nodes[path] = node
        for owner, paths in ephemerals.items():
            self.sessions[owner].ephemerals = paths

    def _read(self, session: int, op: GetData | Exists | GetChildren) -> AnyAnswer:
        """Answer a read, and set its watch; only an exists watches a node that is not there."""
        node = self.nodes.get(op.path)
        if op.watch and (node is not None or isinstance(op, Exists)):
            _watch(self.child_watches if isinstance(op, GetChildren) else self.data_watches, op.path, session)
        if node is None:
            return NoNode()
        if isinstance(op, GetChildren):
            return Children(tuple(node.children))
        return Data(node.data, node.version, node.czxid, node.owner)

    def _write(self, session: int, op: Create | Delete | SetData | Check, changes: list[tuple[str, Change]]) -> AnyAnswer:
        """Answer a write or check and append its changes for the watches; the version must match unless it is -1."""
        if isinstance(op, Create):
            return self._create(session, op, changes)
        node = self.nodes.get(op.path)
        if node is None:
            return NoNode()
        if op.version not in (-1, node.version):
            return BadVersion()
        match op:
            case Check():
                return Checked()
            case SetData(data=data):
                node.data = data
                node.version += 1
                node.mzxid = self.zxid
                changes.append((op.path, "changed"))
                return Written(node.version)
            case Delete():
                if node.children:
                    return NotEmpty()
                self._remove(op.path, changes)
                return Deleted()
            case _:
                assert_never(op)

    def _create(self, session: int, op: Create, changes: list[tuple[str, Change]]) -> AnyAnswer:
        """Create a node below an existing parent, with the next sequence number if it is sequential."""
        parent_path = _parent(op.path)
        parent = self.nodes.get(parent_path)
        if parent is None or parent.owner:
            return NoNode()  # ephemerals have no children
        path = f"{op.path}{parent.sequence:010d}" if op.sequential else op.path
        if path in self.nodes:
            return NodeExists()
        owner = session if op.ephemeral else 0
        self.nodes[path] = Znode(op.data, self.zxid, self.zxid, self.zxid, owner)
        insort(parent.children, path.rpartition("/")[2])
        parent.sequence += 1  # ZooKeeper counts every creation, not only the sequential ones
        parent.pzxid = self.zxid
        if owner:
            insort(self.sessions[str(session)].ephemerals, path)
        changes += [(path, "created"), (parent_path, "children")]
        return Created(path)

    def _remove(self, path: str, changes: list[tuple[str, Change]]) -> None:
        """Delete a node, and take it from its parent and its session."""
        node = self.nodes.pop(path)
        parent_path, _, name = path.rpartition("/")
        parent = self.nodes[parent_path or "/"]
        del parent.children[bisect_left(parent.children, name)]
        parent.pzxid = self.zxid
        owner = self.sessions.get(str(node.owner))
        if owner is not None:
            owner.ephemerals.remove(path)
        changes += [(path, "deleted"), (parent_path or "/", "children")]

    # --- for the explorer -------------------------------------------------------------------------------------------------

    def clone(self) -> "MemoryZooKeeper":
        """A copy that shares no mutable state with the original."""
        return _DECODER.decode(_ENCODER.encode(self))

    def fingerprint(self) -> bytes:
        """A hash of ZooKeeper's whole state: equal states give equal bytes in every process."""
        return blake2b(_ENCODER.encode(self), digest_size=16).digest()


def _watch(table: dict[str, list[int]], path: str, session: int) -> None:
    sessions = table.setdefault(path, [])
    if session not in sessions:
        insort(sessions, session)


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


_ENCODER = msgspec.msgpack.Encoder(order="deterministic")
_DECODER = msgspec.msgpack.Decoder(MemoryZooKeeper)
