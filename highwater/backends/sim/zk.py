"""A single ZooKeeper server of the simulator (an in-memory ZooKeeper with a clock and connections), and what its clients send.

A session ends, by this server's clock, when its client was silent for the session timeout. A request in flight when its
connection broke may still be performed until the session is accepted on another connection. A `Witness` is told of commits at
the moment of the write.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from msgspec import Struct

from highwater.backends.sim import zk_rules
from highwater.backends.sim.network import Connection
from highwater.backends.sim.scheduler import MS
from highwater.backends.sim.simulation import Simulation
from highwater.rig.commits import AnyCommit, SessionEnded, commits_of
from highwater.rig.cuts import ZOOKEEPER
from reference.coordination.api import AnyAnswer, AnyOp, Change, Exists, GetChildren, GetData
from reference.coordination.memory import Fired, MemoryZooKeeper, Watches
from reference.effects import ZkRequest
from reference.types import Address

ADMINISTRATOR = Address("administrator")
_READS = (GetData, Exists, GetChildren)


class Hello(Struct, frozen=True, gc=False):
    """Client to ZooKeeper: the first message on a connection; session 0 asks for a new session."""

    session: int
    timeout_ms: int
    watches: Watches
    seen_zxid: int


class Ping(Struct, frozen=True, gc=False):
    """The heartbeat of a ZooKeeper client, and the server's answer to it."""


class Welcome(Struct, frozen=True, gc=False):
    """ZooKeeper to client: the session is accepted on this connection. The client has then seen what it implies (`zxid`)."""

    session: int
    zxid: int = 0


class Over(Struct, frozen=True, gc=False):
    """ZooKeeper to client: your session has expired."""


class Answer(Struct, frozen=True, gc=False):
    """ZooKeeper to client: the answers to the operations of one request."""

    id: int
    answers: tuple[AnyAnswer, ...]
    zxid: int


class WatchEvent(Struct, frozen=True, gc=False):
    """ZooKeeper to client: a watch fired."""

    path: str
    change: Change
    zxid: int


class Witness(Protocol):
    """Observer of the simulated ZooKeeper: is told of each commit when it is made."""

    def committed(self, commits: Iterable[AnyCommit], *, writer: Address | None = None, life: int | None = None) -> None:
        """ZooKeeper made these commits; `writer` and `life` name the node and the process that asked for them, if known."""


class Line:
    """A client connection as the simulated ZooKeeper server sees it."""

    __slots__ = ("connection", "life", "node", "session")

    def __init__(self, node: Address, life: int) -> None:
        self.node = node
        self.life = life
        self.session = 0
        self.connection: Connection


class Front(Protocol):
    """One ZooKeeper server as its clients see it."""

    address: Address

    def serve(self, line: Line, payload: object) -> None:
        """Handle a message that a client sent to this server."""


class ZooKeeper(Protocol):
    """The simulated ZooKeeper: a single server, or an ensemble."""

    @property
    def servers(self) -> Sequence[Front]:
        """The servers to which clients connect."""

    @property
    def tree(self) -> MemoryZooKeeper:
        """The znodes after all writes that have taken effect."""

    def administer(self, ops: tuple[AnyOp, ...]) -> None:
        """Perform operations in a session of their own, for an administrator who is not part of the workload."""

    def expire(self, session: int) -> bool:
        """End a session; False if nobody could."""

    def session_of(self, node: Address) -> int:
        """The session of this node's last connection; 0 if it never connected."""


def transactions(ops: tuple[AnyOp, ...], *, atomic: bool) -> int:
    """How many transactions a request makes: one for a multi, else one for each write."""
    return 1 if atomic else sum(not isinstance(op, _READS) for op in ops)


class WriteTime:
    """When the leader of one ZooKeeper is done with what it was asked for: one transaction after the other, each the same time.

    V3's Discussion 1 counts "each ZK write takes 4ms", and 40 s for 10 000 of them: they take turns. A multi is one transaction.
    Reads take no time of their own, but wait for the earlier writes of their session, because a session's requests are answered
    in order. Sessions open and close at once.
    """

    __slots__ = ("_free_ns", "_sessions", "_sim")

    def __init__(self, sim: Simulation) -> None:
        self._sim = sim
        self._free_ns = 0  # when the last write that was asked for is done
        self._sessions: dict[int, int] = {}  # the same, of each session

    def due_ns(self, session: int, count: int) -> int:
        """When a request of this session is due that makes so many transactions, in ns of virtual time."""
        now = self._sim.scheduler.now
        if count and self._sim.zk_write_ns:
            self._free_ns = self._sessions[session] = max(now, self._free_ns) + count * self._sim.zk_write_ns
        return max(now, self._sessions.get(session, 0))


class ZkServer:
    """A single simulated ZooKeeper server: sessions, connections, watches and the tree of znodes."""

    __slots__ = ("_lines", "_network", "_scheduler", "_sim", "_witness", "_write_time", "address", "servers", "tree")

    def __init__(self, sim: Simulation, witness: Witness) -> None:
        self.address = ZOOKEEPER
        self.servers: tuple[Front, ...] = (self,)
        self.tree = MemoryZooKeeper.boot()
        self._sim = sim
        self._scheduler = sim.scheduler
        self._network = sim.network
        self._witness = witness
        self._write_time = WriteTime(sim)
        self._lines: dict[int, Line] = {}  # by session

    def serve(self, line: Line, payload: object) -> None:
        """Handle a message that a client sent to ZooKeeper."""
        self._sim.handled += 1
        match payload:
            case ZkRequest(id=request, ops=ops, atomic=atomic):
                self._take_request(line, request, ops, atomic)
            case Ping():
                if self._alive(line):
                    self._network.send(line.connection.back, payload)
            case Hello():
                self._open_or_resume(line, payload)
            case _:
                raise AssertionError(payload)

    def _alive(self, line: Line) -> bool:
        """Renew a session; True if it lives and this is its connection."""
        return self._lines.get(line.session) is line and self.tree.touch(line.session, now_ms=self._scheduler.now // MS)

    def _open_or_resume(self, line: Line, hello: Hello) -> None:
        """Answer a client that connects: open a session, or resume its own."""
        now_ms = self._scheduler.now // MS
        if not hello.session:
            line.session = self.tree.connect(timeout_ms=hello.timeout_ms, now_ms=now_ms)
            self._scheduler.after(hello.timeout_ms * MS, self._expire_if_due, line.session)
        elif self.tree.touch(hello.session, now_ms=now_ms):
            line.session = hello.session
            self.tree.forget_watches(line.session)
        else:
            self._network.send(line.connection.back, Over())
            return
        self._lines[line.session] = line
        self._network.send(line.connection.back, Welcome(line.session))
        self._send_watches(self.tree.watch_again(line.session, hello.watches, seen_zxid=hello.seen_zxid))

    def _take_request(self, line: Line, request: int, ops: tuple[AnyOp, ...], atomic: bool) -> None:
        """Carry out a request when the writes before it are done."""
        if not self._alive(line):
            return
        if line.connection.broken and not atomic:
            # The operations of a batch are sent one by one; a drawn number of them arrived.
            ops = ops[: self._sim.draws.below(f"late {line.node}", len(ops) + 1)]
        due_ns = self._write_time.due_ns(line.session, transactions(ops, atomic=atomic))
        if due_ns > self._scheduler.now:
            self._scheduler.at(due_ns, self._perform_request, line, request, ops, atomic)
        else:
            self._perform_request(line, request, ops, atomic)

    def _perform_request(self, line: Line, request: int, ops: tuple[AnyOp, ...], atomic: bool) -> None:
        """Carry out a request, and send the answer and the watches that it fires; not for a session that has ended meanwhile."""
        if self._lines.get(line.session) is not line:
            return
        answers, fired = zk_rules.submit(self._sim.recorder, self.tree, line.session, ops, atomic=atomic)
        self._witness.committed(commits_of(self.tree, line.session, ops, answers), writer=line.node, life=line.life)
        self._send_watches(fired)
        self._network.send(line.connection.back, Answer(request, answers, self.tree.zxid))

    def administer(self, ops: tuple[AnyOp, ...]) -> None:
        """Perform ZooKeeper operations in a session of their own, for an administrator who is not part of the workload."""
        session = self.tree.connect(timeout_ms=1)
        answers, fired = zk_rules.submit(self._sim.recorder, self.tree, session, ops)
        self._witness.committed(commits_of(self.tree, session, ops, answers), writer=ADMINISTRATOR, life=0)
        self.tree.expire(session)
        self._send_watches(fired)

    def _send_watches(self, fired: Fired) -> None:
        """Send the fired watches of sessions that are connected."""
        for session, path, change in fired:
            line = self._lines.get(session)
            if line is not None:
                self._network.send(line.connection.back, WatchEvent(path, change, self.tree.zxid))

    def _expire_if_due(self, session: int) -> None:
        """End the session at its timeout; look again then if it was heard of."""
        due_ms = self.tree.due_ms(session)
        if due_ms is None:
            return
        if due_ms * MS > self._scheduler.now:
            self._scheduler.at(due_ms * MS, self._expire_if_due, session)
        else:
            self.expire(session)

    def expire(self, session: int) -> bool:
        """Expire a session: delete its ephemerals and close its connection; do nothing if it has ended."""
        if str(session) not in self.tree.sessions:
            return True
        fired = self.tree.expire(session)
        self._witness.committed((SessionEnded(zxid=self.tree.zxid, session=session),))
        line = self._lines.pop(session, None)
        if line is not None and not line.connection.broken:
            self._network.sever(line.connection, some_arrive=False)
        self._send_watches(fired)
        return True

    def session_of(self, node: Address) -> int:
        """The session of this node's last connection to ZooKeeper; 0 if it never connected."""
        return max((line.session for line in self._lines.values() if line.node == node), default=0)
