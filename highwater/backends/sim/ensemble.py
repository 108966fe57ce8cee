"""A ZooKeeper ensemble in the simulator: servers that agree on one order of writes, and that fail, lag and serve stale reads.

What clients may rely on is what ZooKeeper's Programmer's Guide promises them.

* "Consistency Guarantees": a write takes effect once a majority of the servers has it, and all servers take effect of the same
  writes in the same order. A read is answered by the server of the session, from the writes that have taken effect there, which
  may be older than the last ones. A session's requests are answered in order. A client never sees an older state than it has
  seen: a server that lags behind the client's last zxid refuses its connection, and the client tries another server. A watch
  event comes before the data that it announces.
* "ZooKeeper Sessions": the leader alone decides that a session has expired, by the pings that the other servers pass on to it. A
  new leader gives every session its whole timeout again. A write that a session sent over its former server is not performed
  once the session was accepted by another one.

A server without a leader, and a leader without a majority, close all connections and serve nobody until a leader is elected. What
the majority has is never lost: a server keeps its log when its process ends. The servers elect and replicate as in Raft (terms,
votes for a log that is at least as new, one outstanding message to each follower) instead of by ZooKeeper's own rounds of votes;
clients cannot tell them apart. No client of the protocol calls `sync`, so the model lacks it.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Literal, assert_never

from msgspec import Struct

from highwater.backends.sim.network import Link
from highwater.backends.sim.scheduler import MS
from highwater.backends.sim.simulation import Simulation
from highwater.backends.sim.zk import ADMINISTRATOR, Answer, Hello, Line, Over, Ping, WatchEvent, Welcome, Witness
from highwater.rig.commits import SessionEnded, commits_of
from reference.coordination.api import AnyAnswer, AnyOp, Exists, GetChildren, GetData
from reference.coordination.memory import Fired, MemoryZooKeeper
from reference.effects import ZkRequest
from reference.types import Address

TICK_MS = 100
SYNC_MS = 1000  # a follower that hears no leader for so long, or a leader no majority, starts an election
ELECTION_MS_MIN = 50  # until a server without a leader asks for votes, again and again
ELECTION_MS_MAX = 400
_ADMINISTERED_MS = 10_000
_READS = (GetData, Exists, GetChildren)


# --- what is written -----------------------------------------------------------------------------------------------------


class Begin(Struct, frozen=True, gc=False):
    """The first entry of a leader. Once it is committed, so is everything before it, and the leader serves."""


class Open(Struct, frozen=True, gc=False):
    """A session is opened."""

    timeout_ms: int


class Write(Struct, frozen=True):
    """The writes of a session: a multi, or operations that stand next to each other in a request."""

    session: int
    ops: tuple[AnyOp, ...]
    atomic: bool
    writer: Address
    life: int


class Close(Struct, frozen=True, gc=False):
    """A session has expired."""

    session: int


Change = Begin | Open | Write | Close
Result = int | tuple[AnyAnswer, ...]  # the id of a new session, or the answers to writes


class Entry(Struct, frozen=True):
    """One change in the log of the servers. `id` tells a change that is sent again from a new one."""

    term: int
    id: int
    change: Change


FIRST = Entry(1, 0, Begin())


# --- between servers -----------------------------------------------------------------------------------------------------


class AskVote(Struct, frozen=True, gc=False):
    """A server without a leader asks for a vote; `last` is the term of its last entry and the length of its log."""

    term: int
    last: tuple[int, int]


class Vote(Struct, frozen=True, gc=False):
    """The answer to AskVote; `voted` is the last term in which the voter voted."""

    term: int
    granted: bool
    voted: int


class Append(Struct, frozen=True):
    """Leader to follower: the entries after the first `after`, the last of which is of term `after_term`; also a heartbeat."""

    term: int
    after: int
    after_term: int
    entries: tuple[Entry, ...]
    committed: int


class Taken(Struct, frozen=True):
    """Follower to leader: how much of the log agrees with the leader's, and the sessions that were heard of meanwhile."""

    term: int
    agrees: bool
    length: int
    heard: tuple[int, ...]


class Forward(Struct, frozen=True):
    """Follower to leader: a change that a client asks for over this line. Repeated until it takes effect."""

    term: int
    id: int
    line: int
    change: Change


class Resume(Struct, frozen=True, gc=False):
    """Follower to leader: a client wants to go on with a session over this line."""

    term: int
    id: int
    line: int
    session: int


class Told(Struct, frozen=True, gc=False):
    """Leader to follower: whether a session goes on. False also refuses a change of a session that has moved elsewhere."""

    id: int
    alive: bool


Message = AskVote | Vote | Append | Taken | Forward | Resume | Told


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
            server.join(tuple(other for other in self.servers if other is not server), leader)

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


class Talk:
    """The conversation of a server with the client of one connection. `busy`: a write of it has not taken effect yet."""

    __slots__ = ("busy", "id", "line", "works")

    def __init__(self, line: Line, id_: int) -> None:
        self.line = line
        self.id = id_
        self.works: deque[Work] = deque()
        self.busy = False


class EnsembleServer:
    """One server of a simulated ensemble. Its log, its tree and its votes outlast its process."""

    def __init__(self, ensemble: Ensemble, address: Address) -> None:
        self.address = address
        self.peers: tuple[EnsembleServer, ...] = ()
        self.tree = MemoryZooKeeper.boot()
        self.applied = 0  # entries of the log that have taken effect here
        self.role: Literal["looking", "following", "leading"] = "looking"
        self.term = 0  # of the leader that it follows, or has promised to follow
        self.up = True
        self._paused: list[partial[None]] | None = None  # what waits while the process is paused
        self._ensemble = ensemble
        self._sim = ensemble.sim
        self._log: list[Entry] = []
        self._voted = 0  # the last term in which it voted
        self._forget()
        self._sim.scheduler.after(TICK_MS * MS, self._tick)

    def _forget(self) -> None:
        self._leader: EnsembleServer | None = None
        self._heard_ns = self._now_ns  # of the leader
        self._votes: set[Address] = set()  # for itself, in the term `_candidate`
        self._candidate = 0
        self._vote_ns = self._now_ns + self._sim.draws.between(f"vote {self.address}", ELECTION_MS_MIN, ELECTION_MS_MAX) * MS
        self._talks: dict[Line, Talk] = {}
        self._lines: dict[int, Line] = {}  # by session
        self._pending: dict[int, Callable[[Result], None]] = {}  # by id of the change
        self._decided: dict[int, Callable[[bool], None]] = {}  # by id of what the leader may refuse
        self._asked: dict[int, Forward | Resume] = {}  # of the leader, not answered
        self._touched: dict[int, None] = {}  # sessions that were heard of since the leader was told

    @property
    def _now_ns(self) -> int:
        return self._sim.scheduler.now

    @property
    def _majority(self) -> int:
        return (len(self.peers) + 1) // 2 + 1

    @property
    def serves(self) -> bool:
        """True once everything that was committed before this leader's term has taken effect here."""
        return self.up and self.role != "looking" and self.applied > 0 and self._log[self.applied - 1].term == self.term

    # --- the process -----------------------------------------------------------------------------------------------------

    def join(self, peers: "tuple[EnsembleServer, ...]", leader: "EnsembleServer") -> None:
        """Begin in an ensemble that has elected its first leader; called once."""
        self.peers = peers
        self._log, self.applied = [FIRST], 1
        if leader is self:
            self.lead(1)
        else:
            self.role, self.term, self._leader = "following", 1, leader

    def kill(self) -> None:
        """End the process of the server; the servers that follow it notice when their connections break."""
        if not self.up:
            return
        for peer in self.peers:
            if peer._leader is self:
                self._sim.network.send_alone(self._to(peer), 0, peer._lost, self)
        self._look()
        self.up = False
        self._paused = None

    def start(self) -> None:
        """Start the process of the server again, with its log; do nothing if it runs."""
        if not self.up:
            self.up = True
            self._look()

    def pause(self) -> None:
        """Stop the process of the server; what arrives waits."""
        if self.up and self._paused is None:
            self._paused = []

    def resume(self) -> None:
        """Let a stopped process go on with what has arrived meanwhile."""
        waiting, self._paused = self._paused or [], None
        for action in waiting:
            action()

    def _when_running(self, action: "partial[None]") -> None:
        if self._paused is not None:
            self._paused.append(action)
        elif self.up:
            self._sim.handled += 1
            action()

    def _to(self, peer: "EnsembleServer") -> Link:
        return self._sim.network.link(self.address, peer.address)

    def _send(self, peer: "EnsembleServer", message: Message) -> None:
        self._sim.network.send_alone(self._to(peer), 0, partial(peer._receive, self), message)

    def _receive(self, sender: "EnsembleServer", payload: object) -> None:
        self._when_running(partial(self._heed, sender, payload))

    def _heed(self, sender: "EnsembleServer", message: object) -> None:
        match message:
            case AskVote():
                self._vote(sender, message)
            case Vote():
                self._count(sender, message)
            case Append():
                self._take(sender, message)
            case Taken():
                self._taken(sender, message)
            case Forward() | Resume():
                if self.role == "leading" and message.term == self.term:
                    self._carry_out(message, sender)
            case Told(id=number, alive=alive):
                self._told(number, alive)
            case _:
                raise AssertionError(message)

    def _tick(self) -> None:
        self._sim.scheduler.after(TICK_MS * MS, self._tick)
        if not self.up or self._paused is not None:
            return
        if self.role == "leading":
            self._rule()
        elif self.role == "following":
            if self._now_ns - self._heard_ns > SYNC_MS * MS:
                self._look()
            elif self._leader is not None:
                for message in self._asked.values():
                    self._send(self._leader, message)
        elif self._now_ns >= self._vote_ns:
            self._ask_for_votes()

    # --- elections -------------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Leave the quorum: close all connections, and look for a leader."""
        for line in self._talks:
            self._hang_up(line)
        self._forget()
        self.role = "looking"

    def _lost(self, leader: object) -> None:
        self._when_running(partial(self._lost_leader, leader))

    def _lost_leader(self, leader: object) -> None:
        if self._leader is leader and self.role == "following":
            self._look()

    def _ask_for_votes(self) -> None:
        # The vote for itself binds it only while it looks: a live leader of an earlier term is followed, and the votes lapse.
        self._candidate = self._voted = max(self.term, self._voted) + 1
        self._votes = {self.address}
        self._vote_ns = self._now_ns + self._sim.draws.between(f"vote {self.address}", ELECTION_MS_MIN, ELECTION_MS_MAX) * MS
        for peer in self.peers:
            self._send(peer, AskVote(self._candidate, self._last))

    @property
    def _last(self) -> tuple[int, int]:
        return (self._log[-1].term if self._log else 0, len(self._log))

    def _vote(self, sender: "EnsembleServer", asked: AskVote) -> None:
        if self.role != "looking":
            return  # the server will hear of the leader
        granted = asked.term > max(self.term, self._voted) and asked.last >= self._last
        if granted:
            self._voted = self.term = asked.term  # it obeys no earlier leader any more
            self._candidate = 0
            self._vote_ns = self._now_ns + SYNC_MS * MS
        self._send(sender, Vote(asked.term, granted, self._voted))

    def _count(self, sender: "EnsembleServer", vote: Vote) -> None:
        self._voted = max(self._voted, vote.voted)
        if self.role == "looking" and vote.granted and vote.term == self._candidate:
            self._votes.add(sender.address)
            if len(self._votes) >= self._majority:
                self.lead(vote.term)

    def lead(self, term: int) -> None:
        """Begin to lead, in a term that no other server leads in."""
        self.role, self.term, self._leader = "leading", term, self
        self._voted = max(self._voted, term)
        self._next = {peer.address: len(self._log) for peer in self.peers}
        self._match = {peer.address: 0 for peer in self.peers}
        self._knows = {peer.address: 0 for peer in self.peers}  # how many entries it was told are committed
        self._answered_ns = {peer.address: self._now_ns for peer in self.peers}
        self._waits = dict.fromkeys(self._next, False)  # for the answer of that peer
        self._owners: dict[int, int] = {}  # the line over which a session talks
        self._known = {entry.id for entry in self._log}
        self._due_ns = {int(name): self._now_ns + found.timeout_ms * MS for name, found in self.tree.sessions.items()}
        self._closing: set[int] = set()
        self.propose(Begin(), lambda _: None)

    def _rule(self) -> None:
        """The leader's part of a tick: give up without a majority; expire sessions; send heartbeats."""
        followers = sum(self._now_ns - heard_ns <= SYNC_MS * MS for heard_ns in self._answered_ns.values())
        if 1 + followers < self._majority:
            self._look()
            return
        for session, due_ns in list(self._due_ns.items()):
            if due_ns <= self._now_ns and session not in self._closing:
                self._closing.add(session)
                self.propose(Close(session), lambda _: None)
        for peer in self.peers:
            self._append(peer)

    # --- the log ---------------------------------------------------------------------------------------------------------

    def propose(self, change: Change, then: Callable[[Result], None]) -> None:
        """Ask for a change, of which `then` gets the result once it took effect here; never called if the leader is lost."""
        self._ask_leader(Forward(self.term, self._ensemble.next_id(), 0, change), then)

    def _ask_leader(self, forward: Forward, then: Callable[[Result], None]) -> None:
        self._pending[forward.id] = then
        self._to_leader(forward)

    def _to_leader(self, message: Forward | Resume) -> None:
        if self._leader is self:
            self._carry_out(message, self)
        elif self._leader is not None:
            self._asked[message.id] = message
            self._send(self._leader, message)

    def _carry_out(self, message: Forward | Resume, sender: "EnsembleServer") -> None:
        """Append a change to the leader's log, or decide whether a session goes on over a new line."""
        match message:
            case Resume(id=number, line=line, session=session):
                alive = session in self._due_ns and session not in self._closing
                if alive:
                    self._owners[session] = line
                    self._touch(session)
                self._tell(sender, Told(number, alive))
            case Forward(id=number) if number in self._known:
                pass  # it was repeated
            case Forward(id=number, line=line, change=Write(session=session)) if line != self._owners.get(session, line):
                self._tell(sender, Told(number, False))  # the session has moved
            case Forward(id=number, change=change):
                self._known.add(number)
                if isinstance(change, Write):
                    self._touch(change.session)
                self._log.append(Entry(self.term, number, change))
                for peer in self.peers:
                    if not self._waits[peer.address]:
                        self._append(peer)
            case _:
                assert_never(message)

    def _tell(self, sender: "EnsembleServer", told: Told) -> None:
        if sender is self:
            self._told(told.id, told.alive)
        else:
            self._send(sender, told)

    def _told(self, number: int, alive: bool) -> None:
        self._asked.pop(number, None)
        self._pending.pop(number, None)
        decided = self._decided.pop(number, None)
        if decided is not None:
            decided(alive)

    def _append(self, peer: "EnsembleServer") -> None:
        after = self._next[peer.address]
        before = self._log[after - 1].term if after else 0
        self._waits[peer.address] = True
        self._knows[peer.address] = self.applied
        self._send(peer, Append(self.term, after, before, tuple(self._log[after:]), self.applied))

    def _take(self, sender: "EnsembleServer", message: Append) -> None:
        if message.term < self.term:
            self._send(sender, Taken(self.term, False, 0, ()))
            return
        if self._leader is not sender or self.term != message.term:
            self._look()
            self.role, self._leader, self.term = "following", sender, message.term
        self._heard_ns = self._now_ns
        heard, self._touched = tuple(self._touched), {}
        after = message.after
        if len(self._log) < after or (after and self._log[after - 1].term != message.after_term):
            self._send(sender, Taken(self.term, False, self.applied, heard))
            return
        for index, entry in enumerate(message.entries, after):
            if index < len(self._log) and self._log[index].term != entry.term:
                assert index >= self.applied, "what took effect is never taken back"
                del self._log[index:]
            if index == len(self._log):
                self._log.append(entry)
        length = after + len(message.entries)
        self._apply_until(min(message.committed, length))
        self._send(sender, Taken(self.term, True, length, heard))

    def _taken(self, sender: "EnsembleServer", message: Taken) -> None:
        if self.role != "leading" or message.term < self.term:
            return
        if message.term > self.term:
            self.term = message.term  # its votes must be for a later term than the one that was promised
            self._look()
            return
        name = sender.address
        self._answered_ns[name] = self._now_ns
        self._waits[name] = False
        for session in message.heard:
            self._touch(session)
        if message.agrees:
            self._match[name] = max(self._match[name], message.length)
        self._next[name] = max(self._match[name], message.length if not message.agrees else 0)
        self._commit()
        for peer in self.peers:
            late = self._next[peer.address] < len(self._log) or self._knows[peer.address] < self.applied
            if late and not self._waits[peer.address]:
                self._append(peer)

    def _commit(self) -> None:
        """Let take effect what a majority has, up to an entry of this leader's own term (Raft §5.4.2)."""
        held = sorted([len(self._log), *self._match.values()], reverse=True)[self._majority - 1]
        if held > self.applied and self._log[held - 1].term == self.term:
            self._apply_until(held)

    def _apply_until(self, length: int) -> None:
        while self.applied < length:
            entry = self._log[self.applied]
            self.applied += 1
            self._asked.pop(entry.id, None)
            self._decided.pop(entry.id, None)
            result, fired = self._perform(entry.change)
            self._ensemble.took_effect(self, entry, result)
            self._fire(fired)
            if isinstance(entry.change, Close):
                self._close(entry.change.session)
            then = self._pending.pop(entry.id, None)
            if then is not None:
                then(result)

    def _perform(self, change: Change) -> tuple[Result, Fired]:
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
                return self.tree.submit(session, ops, atomic=atomic)
            case Close(session=session):
                if self.role == "leading":
                    self._due_ns.pop(session, None)
                return int(str(session) in self.tree.sessions), self.tree.expire(session)
            case _:
                assert_never(change)

    def _fire(self, fired: Fired) -> None:
        for session, path, change in fired:
            line = self._lines.get(session)
            if line is not None:
                self._sim.network.send(line.connection.back, WatchEvent(path, change, self.tree.zxid))

    def _touch(self, session: int) -> None:
        found = self.tree.sessions.get(str(session))
        if self.role != "leading":
            self._touched[session] = None
        elif found is not None and session in self._due_ns:
            self._due_ns[session] = self._now_ns + found.timeout_ms * MS

    def _close(self, session: int) -> None:
        line = self._lines.pop(session, None)
        if line is not None:
            self._talks.pop(line, None)
            self._hang_up(line)

    def _hang_up(self, line: Line) -> None:
        self.tree.forget_watches(line.session)
        if not line.connection.broken:
            self._sim.network.sever(line.connection, some_arrive=False)

    # --- clients ---------------------------------------------------------------------------------------------------------

    def serve(self, line: Line, payload: object) -> None:
        """Handle a message that a client sent to this server."""
        if self.up:
            self._when_running(partial(self._serve, line, payload))
        elif not line.connection.broken:
            self._sim.network.sever(line.connection, some_arrive=False)  # refused

    def _serve(self, line: Line, payload: object) -> None:
        if not self.serves:
            self._hang_up(line)
            return
        match payload:
            case Hello():
                self._greet(line, payload)
            case Ping() if self._hears(line):
                self._sim.network.send(line.connection.back, payload)
            case ZkRequest() if self._hears(line):
                self._queue(line, payload)
            case Ping() | ZkRequest():
                pass  # the session has ended, or talks over another connection
            case _:
                raise AssertionError(payload)

    def _hears(self, line: Line) -> bool:
        """Renew a session; True if it lives and this is its connection to this server."""
        if self._lines.get(line.session) is not line:
            return False
        self._touch(line.session)
        return True

    def _greet(self, line: Line, hello: Hello) -> None:
        if hello.seen_zxid > self.tree.zxid:
            self._hang_up(line)  # the client has seen more than this server has
            return
        talk = self._talks[line] = Talk(line, self._ensemble.next_id())
        if not hello.session:
            self.propose(Open(hello.timeout_ms), partial(self._opened, talk))
            return
        number = self._ensemble.next_id()
        self._decided[number] = partial(self._resumed, talk, hello)
        self._to_leader(Resume(self.term, number, talk.id, hello.session))

    def _opened(self, talk: Talk, session: Result) -> None:
        assert isinstance(session, int)
        # With the zxid the client stays away from servers that do not know its session yet.
        self._welcome(talk, session, zxid=self.tree.zxid)

    def _resumed(self, talk: Talk, hello: Hello, alive: bool) -> None:
        if not alive or str(hello.session) not in self.tree.sessions:
            self._sim.network.send(talk.line.connection.back, Over())
            self._talks.pop(talk.line, None)
        elif not talk.line.connection.broken:
            self.tree.forget_watches(hello.session)
            self._welcome(talk, hello.session, zxid=0)  # what it has seen stands until its watches have told it more
            self._fire(self.tree.watch_again(hello.session, hello.watches, seen_zxid=hello.seen_zxid))

    def _welcome(self, talk: Talk, session: int, *, zxid: int) -> None:
        line = talk.line
        line.session = session
        former = self._lines.pop(session, None)
        if former is not None:
            self._talks.pop(former, None)
        self._lines[session] = line
        self._ensemble.welcomed(line)
        self._sim.network.send(line.connection.back, Welcome(session, zxid))

    def _queue(self, line: Line, request: ZkRequest) -> None:
        if line.connection.broken and not request.atomic:
            # The operations of a batch are sent one by one; a drawn number of them arrived.
            arrived = request.ops[: self._sim.draws.below(f"late {line.node}", len(request.ops) + 1)]
            request = ZkRequest(request.id, arrived)
        talk = self._talks[line]
        talk.works.append(Work(request))
        self._go_on(talk)

    def _go_on(self, talk: Talk) -> None:
        """Work off the requests of a client in order: reads from this server's tree, writes through the leader."""
        while talk.works and not talk.busy and self._lines.get(talk.line.session) is talk.line:
            work = talk.works[0]
            request, done = work.request, len(work.answers)
            if done == len(request.ops):
                talk.works.popleft()
                answer = Answer(request.id, tuple(work.answers), self.tree.zxid)
                self._sim.network.send(talk.line.connection.back, answer)
            elif isinstance(request.ops[done], _READS):
                answers, _ = self.tree.submit(talk.line.session, (request.ops[done],))
                work.answers += answers
            else:
                talk.busy = True
                write = Write(talk.line.session, _writes(request, done), request.atomic, talk.line.node, talk.line.life)
                forward = Forward(self.term, self._ensemble.next_id(), talk.id, write)
                self._decided[forward.id] = partial(self._moved, talk)
                self._ask_leader(forward, partial(self._wrote, talk, work))

    def _wrote(self, talk: Talk, work: Work, answers: Result) -> None:
        assert not isinstance(answers, int)
        work.answers += answers
        talk.busy = False
        self._go_on(talk)

    def _moved(self, talk: Talk, _: bool) -> None:
        """The leader refused a write because the session goes on over another line: close this one."""
        if self._lines.get(talk.line.session) is talk.line:
            self._close(talk.line.session)
        self._talks.pop(talk.line, None)


def _writes(request: ZkRequest, start: int) -> tuple[AnyOp, ...]:
    """The writes from `start` on that stand next to each other in a request; all of a multi."""
    end = start
    while end < len(request.ops) and (request.atomic or not isinstance(request.ops[end], _READS)):
        end += 1
    return request.ops[start:end]
