"""A ZooKeeper ensemble in the simulator: servers that agree on one order of writes, and that fail, lag and serve stale reads.

What clients may rely on is what ZooKeeper's Programmer's Guide promises them.

* "Consistency Guarantees": a write takes effect once a majority of the servers has it, in the same order on all servers. The
  server of the session answers a read from the writes that have taken effect there, so the answer may be older than the last
  acknowledged write. A session's requests are answered in order. A client never sees an older state than it has
  seen: a server that lags behind the client's last zxid refuses its connection, and the client tries another server. A watch
  event comes before the data that it announces.
* "ZooKeeper Sessions": the leader alone decides that a session has expired, by the pings that the other servers pass on to it. A
  new leader gives every session its whole timeout again. A write that a session sent over its former server is not performed
  once the session was accepted by another one.

A server without a leader, and a leader without a majority, close all connections and serve nobody until a leader is elected. What
the majority has is never lost (`highwater.backends.sim.quorum`). The servers elect and replicate as in Raft instead of by
ZooKeeper's own rounds of votes; clients cannot tell them apart. No client of the protocol calls `sync`, so the model lacks it.
"""

from collections import deque
from functools import partial
from typing import assert_never

from msgspec import Struct

from highwater.backends.sim import zk_rules
from highwater.backends.sim.quorum import FIRST, Begin, Change, Close, Entry, Forward, Member, Open, Result, Resume, Write
from highwater.backends.sim.scheduler import MS
from highwater.backends.sim.simulation import Simulation
from highwater.backends.sim.zk import ADMINISTRATOR, Answer, Hello, Line, Over, Ping, WatchEvent, Welcome, Witness
from highwater.rig.commits import SessionEnded, commits_of
from reference.coordination.api import AnyAnswer, AnyOp, Exists, GetChildren, GetData
from reference.coordination.memory import Fired, MemoryZooKeeper
from reference.effects import ZkRequest
from reference.types import Address

_ADMINISTERED_MS = 10_000
_READS = (GetData, Exists, GetChildren)


class Ensemble:
    """The servers of a simulated ZooKeeper, and what they have in common: the one order of writes, told to the witness once."""

    def __init__(self, sim: Simulation, witness: Witness, servers: int = 3) -> None:
        self.sim = sim
        self.committed: list[Entry] = [FIRST]
        self._witness = witness
        self._sessions: dict[Address, int] = {}  # the last of each node
        self._ids = 0
        self.servers = tuple(EnsembleServer(self, Address(f"z{number}")) for number in range(1, servers + 1))
        leader = self.servers[sim.draws.below("first leader", servers)]
        for server in self.servers:
            server.join(tuple(peer_server for peer_server in self.servers if peer_server is not server), leader)

    @property
    def tree(self) -> MemoryZooKeeper:
        """The znodes after all writes that have taken effect anywhere."""
        return max(self.servers, key=lambda server: server.applied).tree

    @property
    def leader(self) -> "EnsembleServer | None":
        """The server that leads now; None without one, or while it does not serve yet."""
        leading = [server for server in self.servers if server.role == "leading" and server.serves]
        return max(leading, key=lambda server: server.term, default=None)

    def next_id(self) -> int:
        """A number for a change or a line that no other has."""
        self._ids += 1
        return self._ids

    def administer(self, ops: tuple[AnyOp, ...]) -> None:
        """Let an administrator who is not part of the workload ask for these operations, in a session of its own."""

        def write(leader: EnsembleServer, session: Result) -> None:
            assert isinstance(session, int)
            leader.propose(Write(session, ops, False, ADMINISTRATOR, 0), lambda _: close(leader, session))

        def close(leader: EnsembleServer, session: int) -> None:
            leader.propose(Close(session), lambda _: None)

        leader = self.leader
        assert leader is not None, "topics are created before the first fault"
        leader.propose(Open(_ADMINISTERED_MS), partial(write, leader))

    def expire(self, session: int) -> bool:
        """Let the leader end a session; False without a leader."""
        leader = self.leader
        if leader is not None:
            leader.propose(Close(session), lambda _: None)
        return leader is not None

    def session_of(self, node: Address) -> int:
        """The session of this node's last connection to ZooKeeper; 0 if it never connected."""
        return self._sessions.get(node, 0)

    def welcomed(self, line: Line) -> None:
        """Remember the session that a server accepted."""
        self._sessions[line.node] = line.session

    def took_effect(self, server: "EnsembleServer", entry: Entry, result: Result) -> None:
        """An entry took effect at one of the servers: the first time, the witness is told of its commits."""
        index = server.applied - 1
        if index < len(self.committed):
            assert self.committed[index] is entry, "two servers disagree on the order of writes"
            return
        assert index == len(self.committed)
        self.committed.append(entry)
        match entry.change:
            case Write(session=session, ops=ops, writer=writer, life=life):
                assert not isinstance(result, int)
                self._witness.committed(commits_of(server.tree, session, ops, result), writer=writer, life=life)
            case Close(session=session) if result:
                self._witness.committed((SessionEnded(zxid=server.tree.zxid, session=session),))


class Work(Struct):
    """A request of a client that its server works off, operation by operation."""

    request: ZkRequest
    answers: list[AnyAnswer] = []


class Conversation:
    """The conversation of a server with the client of one connection. `busy`: a write of it has not taken effect yet."""

    __slots__ = ("busy", "id", "line", "works")

    def __init__(self, line: Line, id_: int) -> None:
        self.line = line
        self.id = id_
        self.works: deque[Work] = deque()
        self.busy = False


class EnsembleServer(Member):
    """One server of a simulated ensemble: its tree, and its conversations with clients. Its tree outlasts its process."""

    def __init__(self, ensemble: Ensemble, address: Address) -> None:
        self.tree = MemoryZooKeeper.boot()
        self._ensemble = ensemble
        self._reset_clients()
        super().__init__(ensemble.sim, address, ensemble.next_id)

    def _reset_clients(self) -> None:
        self._conversations: dict[Line, Conversation] = {}
        self._lines: dict[int, Line] = {}  # by session
        self._touched: dict[int, None] = {}  # sessions that were heard of since the leader was told

    # --- in the quorum -------------------------------------------------------------------------------------------------------

    def _leave_quorum(self) -> None:
        for line in self._conversations:
            self._hang_up(line)
        self._reset_clients()

    def _begin_to_lead(self) -> None:
        """Every session gets its whole timeout anew, because the last leader alone knew when it was heard of."""
        self._due_ns = {
            int(name): self._now_ns + known_session.timeout_ms * MS for name, known_session in self.tree.sessions.items()
        }
        self._owners: dict[int, int] = {}  # the line over which a session talks
        self._closing: set[int] = set()

    def _expire_silent_sessions(self) -> None:
        """Propose the end of each session that was not heard of for its timeout."""
        for session, due_ns in list(self._due_ns.items()):
            if due_ns <= self._now_ns and session not in self._closing:
                self._closing.add(session)
                self.propose(Close(session), lambda _: None)

    def _may_resume(self, request: Resume) -> bool:
        """Whether the session lives; if so, its client talks over this line from now on."""
        alive = request.session in self._due_ns and request.session not in self._closing
        if alive:
            self._owners[request.session] = request.line
            self._renew_session(request.session)
        return alive

    def _refuses(self, request: Forward) -> bool:
        """Whether a write comes over a line that its session has left."""
        change = request.change
        return isinstance(change, Write) and request.line != self._owners.get(change.session, request.line)

    def _renew_sessions(self, sessions: tuple[int, ...]) -> None:
        for session in sessions:
            self._renew_session(session)

    def _take_sessions_heard(self) -> tuple[int, ...]:
        news, self._touched = tuple(self._touched), {}
        return news

    # --- what takes effect ---------------------------------------------------------------------------------------------------

    def _apply_entry(self, entry: Entry) -> Result:
        """Carry out a committed change on this server, and send the watches that it fires."""
        result, fired = self._result_of(entry.change)
        self._ensemble.took_effect(self, entry, result)
        self._send_watches(fired)
        if isinstance(entry.change, Close):
            self._close_session(entry.change.session)
        return result

    def _result_of(self, change: Change) -> tuple[Result, Fired]:
        """The change's result in this server's tree, with the watches that fire."""
        match change:
            case Begin():
                return 0, []
            case Open(timeout_ms=timeout_ms):
                self.tree.zxid += 1
                session = self.tree.connect(timeout_ms=timeout_ms)
                if self.role == "leading":
                    self._due_ns[session] = self._now_ns + timeout_ms * MS
                return session, []
            case Write(session=session, ops=ops, atomic=atomic):
                return zk_rules.submit(self._sim.recorder, self.tree, session, ops, atomic=atomic)
            case Close(session=session):
                if self.role == "leading":
                    self._due_ns.pop(session, None)
                return int(str(session) in self.tree.sessions), self.tree.expire(session)
            case _:
                assert_never(change)

    def _send_watches(self, fired: Fired) -> None:
        """Send the fired watches of sessions that are connected to this server."""
        for session, path, change in fired:
            line = self._lines.get(session)
            if line is not None:
                self._sim.network.send(line.connection.back, WatchEvent(path, change, self.tree.zxid))

    def _renew_session(self, session: int) -> None:
        """The session was heard of: the leader moves its end, others report it later."""
        known_session = self.tree.sessions.get(str(session))
        if self.role != "leading":
            self._touched[session] = None
        elif known_session is not None and session in self._due_ns:
            self._due_ns[session] = self._now_ns + known_session.timeout_ms * MS

    def _close_session(self, session: int) -> None:
        """Close the connection of a session, if it is to this server."""
        line = self._lines.pop(session, None)
        if line is not None:
            self._conversations.pop(line, None)
            self._hang_up(line)

    def _hang_up(self, line: Line) -> None:
        self.tree.forget_watches(line.session)
        if not line.connection.broken:
            self._sim.network.sever(line.connection, some_arrive=False)

    # --- clients ---------------------------------------------------------------------------------------------------------

    def serve(self, line: Line, payload: object) -> None:
        """Handle a message that a client sent to this server."""
        if self.up:
            self._when_running(partial(self._handle_client_message, line, payload))
        elif not line.connection.broken:
            self._sim.network.sever(line.connection, some_arrive=False)  # refused

    def _handle_client_message(self, line: Line, payload: object) -> None:
        """Handle a message of a client."""
        if not self.serves:
            self._hang_up(line)
            return
        match payload:
            case Hello():
                self._open_or_resume(line, payload)
            case Ping() if self._is_renewed(line):
                self._sim.network.send(line.connection.back, payload)
            case ZkRequest() if self._is_renewed(line):
                self._queue_request(line, payload)
            case Ping() | ZkRequest():
                pass  # the session has ended, or talks over another connection
            case _:
                raise AssertionError(payload)

    def _is_renewed(self, line: Line) -> bool:
        """Renew the session of this connection; False if the session has ended, or is no longer connected by it."""
        if self._lines.get(line.session) is not line:
            return False
        self._renew_session(line.session)
        return True

    def _open_or_resume(self, line: Line, hello: Hello) -> None:
        """Answer a client that connects: open a session, or resume its own; not if it has seen more than this server."""
        if hello.seen_zxid > self.tree.zxid:
            self._hang_up(line)  # the client has seen more than this server has
            return
        conversation = self._conversations[line] = Conversation(line, self._ensemble.next_id())
        if not hello.session:
            self.propose(Open(hello.timeout_ms), partial(self._on_opened, conversation))
            return
        number = self._ensemble.next_id()
        self._decided[number] = partial(self._on_resumed, conversation, hello)
        self._to_leader(Resume(self.term, number, conversation.id, hello.session))

    def _on_opened(self, conversation: Conversation, session: Result) -> None:
        assert isinstance(session, int)
        # With the zxid the client stays away from servers that do not know its session yet.
        self._tie_to_session(conversation, session, zxid=self.tree.zxid)

    def _on_resumed(self, conversation: Conversation, hello: Hello, alive: bool) -> None:
        """The leader has decided about a session that a client wants back."""
        if not alive or str(hello.session) not in self.tree.sessions:
            self._sim.network.send(conversation.line.connection.back, Over())
            self._conversations.pop(conversation.line, None)
        elif not conversation.line.connection.broken:
            self.tree.forget_watches(hello.session)
            # what it has seen stands until its watches have told it more
            self._tie_to_session(conversation, hello.session, zxid=0)
            self._send_watches(self.tree.watch_again(hello.session, hello.watches, seen_zxid=hello.seen_zxid))

    def _tie_to_session(self, conversation: Conversation, session: int, *, zxid: int) -> None:
        """Tie the session to this line, and tell the client."""
        line = conversation.line
        line.session = session
        former = self._lines.pop(session, None)
        if former is not None:
            self._conversations.pop(former, None)
        self._lines[session] = line
        self._ensemble.welcomed(line)
        self._sim.network.send(line.connection.back, Welcome(session, zxid))

    def _queue_request(self, line: Line, request: ZkRequest) -> None:
        """Queue a request behind the earlier ones of its client."""
        if line.connection.broken and not request.atomic:
            # The operations of a batch are sent one by one; a drawn number of them arrived.
            arrived = request.ops[: self._sim.draws.below(f"late {line.node}", len(request.ops) + 1)]
            request = ZkRequest(request.id, arrived)
        conversation = self._conversations[line]
        conversation.works.append(Work(request))
        self._work_off(conversation)

    def _work_off(self, conversation: Conversation) -> None:
        """Work off the requests of a client in order: reads from this server's tree, writes through the leader."""
        while conversation.works and not conversation.busy and self._lines.get(conversation.line.session) is conversation.line:
            work = conversation.works[0]
            request = work.request
            done = len(work.answers)
            if done == len(request.ops):
                conversation.works.popleft()
                answer = Answer(request.id, tuple(work.answers), self.tree.zxid)
                self._sim.network.send(conversation.line.connection.back, answer)
            elif isinstance(request.ops[done], _READS):
                answers, _ = zk_rules.submit(self._sim.recorder, self.tree, conversation.line.session, (request.ops[done],))
                work.answers += answers
            else:
                conversation.busy = True
                write = Write(
                    conversation.line.session,
                    _adjacent_writes(request, done),
                    request.atomic,
                    conversation.line.node,
                    conversation.line.life,
                )
                forward = Forward(self.term, self._ensemble.next_id(), conversation.id, write)
                self._request_change(
                    forward, partial(self._on_written, conversation, work), partial(self._on_moved, conversation)
                )

    def _on_written(self, conversation: Conversation, work: Work, answers: Result) -> None:
        """A client's write took effect: go on with its next operation."""
        assert not isinstance(answers, int)
        work.answers += answers
        conversation.busy = False
        self._work_off(conversation)

    def _on_moved(self, conversation: Conversation, _: bool) -> None:
        """The leader refused a write because the session goes on over another line: close this one."""
        if self._lines.get(conversation.line.session) is conversation.line:
            self._close_session(conversation.line.session)
        self._conversations.pop(conversation.line, None)


def _adjacent_writes(request: ZkRequest, start: int) -> tuple[AnyOp, ...]:
    """The writes from `start` on that stand next to each other in a request; all of a multi."""
    end = start
    while end < len(request.ops) and (request.atomic or not isinstance(request.ops[end], _READS)):
        end += 1
    return request.ops[start:end]
