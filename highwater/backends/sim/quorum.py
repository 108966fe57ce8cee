"""A quorum of simulated ZooKeeper servers: processes that elect a leader and agree on one log of changes.

They elect and replicate as in Raft: terms, votes for a server whose log is at least as new, one outstanding message to each
follower, a majority. A change takes effect once a majority has it, and is never lost: a server keeps its log and its votes when
its process ends. A server that looks for a leader, and a leader that hears no majority, leave the quorum and serve nobody.

What changes mean is decided by the subclass (`highwater.backends.sim.ensemble`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Literal, Self, assert_never

from msgspec import Struct

from highwater.backends.sim.network import Link
from highwater.backends.sim.scheduler import MS
from highwater.backends.sim.simulation import Simulation
from highwater.backends.sim.zk import WriteTime, transactions
from reference.coordination.api import AnyAnswer, AnyOp
from reference.types import Address

TICK_MS = 100
SYNC_MS = 1000  # a follower that hears no leader for so long, or a leader no majority, leaves the quorum
ELECTION_MS_MIN = 50  # until a server without a leader asks for votes, again and again
ELECTION_MS_MAX = 400


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


class Member(ABC):
    """One server of the quorum; `applied` counts the entries of its log that have taken effect here."""

    def __init__(self, sim: Simulation, address: Address, next_id: Callable[[], int]) -> None:
        self.address = address
        self.peers: tuple[Self, ...] = ()
        self.applied = 0
        self.role: Literal["looking", "following", "leading"] = "looking"
        self.term = 0  # of the leader that it follows, or has promised to follow
        self.up = True
        self._sim = sim
        self._next_id = next_id
        self._paused: list[partial[None]] | None = None  # what waits while the process is paused
        self._log: list[Entry] = []
        self._voted = 0  # the last term in which it voted
        self._reset_membership()
        sim.scheduler.after(TICK_MS * MS, self._tick)

    def _reset_membership(self) -> None:
        """Forget what does not outlast the process, or the membership in the quorum."""
        self._leader: Member | None = None
        self._heard_ns = self._now_ns  # of the leader
        self._candidate = 0  # the term in which it asks for votes
        self._votes: set[Address] = set()
        self._draw_election()
        self._pending: dict[int, Callable[[Result], None]] = {}  # by id of the change
        self._decided: dict[int, Callable[[bool], None]] = {}  # by id of what the leader may refuse
        self._unanswered: dict[int, Forward | Resume] = {}  # of the leader, not answered

    def _draw_election(self) -> None:
        wait_ms = self._sim.draws.between(f"vote {self.address}", ELECTION_MS_MIN, ELECTION_MS_MAX)
        self._vote_ns = self._now_ns + wait_ms * MS

    @property
    def _now_ns(self) -> int:
        return self._sim.scheduler.now

    @property
    def _majority(self) -> int:
        return (len(self.peers) + 1) // 2 + 1

    @property
    def serves(self) -> bool:
        """True once the process runs and everything committed before this leader's term has taken effect here."""
        runs = self.up and self._paused is None
        return runs and self.role != "looking" and self._log[self.applied - 1].term == self.term

    # --- what the subclass decides -------------------------------------------------------------------------------------------

    @abstractmethod
    def _leave_quorum(self) -> None:
        """The server has left the quorum: close all connections, forget all clients."""

    @abstractmethod
    def _begin_to_lead(self) -> None:
        """The server begins to lead."""

    @abstractmethod
    def _expire_silent_sessions(self) -> None:
        """The leader's part of a tick."""

    @abstractmethod
    def _apply_entry(self, entry: Entry) -> Result:
        """Let an entry take effect here."""

    @abstractmethod
    def _may_resume(self, request: Resume) -> bool:
        """Whether the leader lets a session go on over a new line."""

    @abstractmethod
    def _refuses(self, request: Forward) -> bool:
        """Whether the leader refuses a change."""

    @abstractmethod
    def _renew_sessions(self, sessions: tuple[int, ...]) -> None:
        """A follower tells the leader from which sessions it heard."""

    @abstractmethod
    def _take_sessions_heard(self) -> tuple[int, ...]:
        """The sessions from which a follower heard since it last told the leader."""

    # --- the process ---------------------------------------------------------------------------------------------------------

    def join(self, peers: tuple[Self, ...], leader: "Member") -> None:
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
                self._sim.network.send_alone(self._link_to(peer), 0, peer._lost, self)
        self._look_for_leader()
        self.up = False
        self._paused = None

    def start(self) -> None:
        """Start the process of the server again, with its log; do nothing if it runs."""
        if not self.up:
            self.up = True
            self._look_for_leader()

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
        """Perform the action now, after the pause, or never if the server is down."""
        if self._paused is not None:
            self._paused.append(action)
        elif self.up:
            self._sim.handled += 1
            action()

    def _link_to(self, peer: "Member") -> Link:
        return self._sim.network.link(self.address, peer.address)

    def _send(self, peer: "Member", message: Message) -> None:
        self._sim.network.send_alone(self._link_to(peer), 0, partial(peer._receive, self), message)

    def _receive(self, sender: "Member", payload: object) -> None:
        self._when_running(partial(self._handle, sender, payload))

    def _handle(self, sender: "Member", message: object) -> None:
        """Handle a message of another server."""
        match message:
            case AskVote():
                self._on_vote_request(sender, message)
            case Vote():
                self._count_vote(sender, message)
            case Append():
                self._on_append(sender, message)
            case Taken():
                self._on_taken(sender, message)
            case Forward() | Resume():
                if self.role == "leading" and message.term == self.term:
                    self._carry_out_as_leader(message, sender)
            case Told(id=number, alive=alive):
                self._on_answer(number, alive)
            case _:
                raise AssertionError(message)

    def _tick(self) -> None:
        """Look after the role, again and again: lead, follow, or ask for votes."""
        self._sim.scheduler.after(TICK_MS * MS, self._tick)
        if not self.up or self._paused is not None:
            return
        if self.role == "leading":
            self._tick_of_leader()
        elif self.role == "following":
            self._tick_of_follower()
        elif self._now_ns >= self._vote_ns:
            self._ask_for_votes()

    def _tick_of_leader(self) -> None:
        """A leader without a majority steps down; else it sends what is new to all."""
        followers = sum(self._now_ns - heard_ns <= SYNC_MS * MS for heard_ns in self._answered_ns.values())
        if 1 + followers < self._majority:
            self._look_for_leader()
            return
        self._expire_silent_sessions()
        for peer in self.peers:
            self._send_entries(peer)

    def _tick_of_follower(self) -> None:
        """Without word of the leader look for another one; repeat what was asked of it."""
        if self._now_ns - self._heard_ns > SYNC_MS * MS:
            self._look_for_leader()
        elif self._leader is not None:
            for message in self._unanswered.values():
                self._send(self._leader, message)

    # --- elections -------------------------------------------------------------------------------------------------------

    def _look_for_leader(self) -> None:
        """Leave the quorum, and look for a leader."""
        self._leave_quorum()
        self._reset_membership()
        self.role = "looking"

    def _lost(self, leader: object) -> None:
        self._when_running(partial(self._lost_leader, leader))

    def _lost_leader(self, leader: object) -> None:
        if self._leader is leader and self.role == "following":
            self._look_for_leader()

    def _ask_for_votes(self) -> None:
        """The vote for itself binds it only while it looks: a live leader of an earlier term is followed, and the votes lapse."""
        self._candidate = self._voted = max(self.term, self._voted) + 1
        self._votes = {self.address}
        self._draw_election()
        for peer in self.peers:
            self._send(peer, AskVote(self._candidate, self._last))

    @property
    def _last(self) -> tuple[int, int]:
        return (self._log[-1].term, len(self._log))

    def _on_vote_request(self, sender: "Member", request: AskVote) -> None:
        """Grant the vote if the candidate's term and log are not behind."""
        if self.role != "looking":
            return  # the server will hear of the leader
        granted = request.term > max(self.term, self._voted) and request.last >= self._last
        if granted:
            self._voted = self.term = request.term  # it obeys no earlier leader any more
            self._candidate = 0
            self._vote_ns = self._now_ns + SYNC_MS * MS
        self._send(sender, Vote(request.term, granted, self._voted))

    def _count_vote(self, sender: "Member", vote: Vote) -> None:
        """Count a vote; with a majority lead."""
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
        self._committed_known = {peer.address: 0 for peer in self.peers}  # how many entries it was told are committed
        self._answered_ns = {peer.address: self._now_ns for peer in self.peers}
        self._waits_for_peer = dict.fromkeys(self._next, False)  # for the answer of that peer
        self._entry_ids = {entry.id for entry in self._log}
        self._write_time = WriteTime(self._sim)
        self._begin_to_lead()
        self.propose(Begin(), lambda _: None)

    # --- the log ---------------------------------------------------------------------------------------------------------

    def propose(self, change: Change, then: Callable[[Result], None]) -> None:
        """Ask for a change, of which `then` gets the result once it took effect here; never called if the leader is lost."""
        self._request_change(Forward(self.term, self._next_id(), 0, change), then, lambda _: None)

    def _request_change(self, forward: Forward, then: Callable[[Result], None], refused: Callable[[bool], None]) -> None:
        self._pending[forward.id] = then
        self._decided[forward.id] = refused
        self._to_leader(forward)

    def _to_leader(self, message: Forward | Resume) -> None:
        """Have the leader carry this out; repeated until it has answered."""
        if self._leader is self:
            self._carry_out_as_leader(message, self)
        elif self._leader is not None:
            self._unanswered[message.id] = message
            self._send(self._leader, message)

    def _carry_out_as_leader(self, message: Forward | Resume, sender: "Member") -> None:
        """Append a change to the leader's log, or decide whether a session goes on over a new line."""
        match message:
            case Resume(id=number):
                self._answer(sender, Told(number, self._may_resume(message)))
            case Forward(id=number) if number in self._entry_ids:
                pass  # it was repeated
            case Forward(id=number) if self._refuses(message):
                self._answer(sender, Told(number, False))
            case Forward(id=number, change=change):
                if isinstance(change, Write):
                    self._renew_sessions((change.session,))
                self._entry_ids.add(number)
                due_ns = self._due_ns_of(change)
                if due_ns > self._now_ns:
                    self._sim.scheduler.at(due_ns, self._when_running, partial(self._append_if_leading, message, sender))
                else:
                    self._append_entry(number, change)
            case _:
                assert_never(message)

    def _append_if_leading(self, message: Forward, sender: "Member") -> None:
        """Append a write that had to wait for others, unless the leader is another or the session has moved since."""
        if self.role != "leading" or message.term != self.term:
            return
        if self._refuses(message):
            self._answer(sender, Told(message.id, False))
        else:
            self._append_entry(message.id, message.change)

    def _append_entry(self, number: int, change: Change) -> None:
        """Append a change to the leader's log, and send it to the others."""
        self._log.append(Entry(self.term, number, change))
        for peer in self.peers:
            if not self._waits_for_peer[peer.address]:
                self._send_entries(peer)

    def _due_ns_of(self, change: Change) -> int:
        """When the leader is done with the writes before this change and with its own."""
        if not isinstance(change, Write):
            return self._now_ns
        return self._write_time.due_ns(change.session, transactions(change.ops, atomic=change.atomic))

    def _answer(self, sender: "Member", answer: Told) -> None:
        """Answer a server's question; the leader's own it answers at once."""
        if sender is self:
            self._on_answer(answer.id, answer.alive)
        else:
            self._send(sender, answer)

    def _on_answer(self, number: int, alive: bool) -> None:
        """The leader has answered what was asked of it."""
        self._unanswered.pop(number, None)
        self._pending.pop(number, None)
        decided = self._decided.pop(number, None)
        if decided is not None:
            decided(alive)

    def _send_entries(self, peer: "Member") -> None:
        """Send a follower the entries that it lacks, and how far they are committed."""
        after = self._next[peer.address]
        before = self._log[after - 1].term if after else 0
        self._waits_for_peer[peer.address] = True
        self._committed_known[peer.address] = self.applied
        self._send(peer, Append(self.term, after, before, tuple(self._log[after:]), self.applied))

    def _on_append(self, sender: "Member", message: Append) -> None:
        """Take the leader's entries, where they fit the log, and apply what is committed."""
        if message.term < self.term:
            self._send(sender, Taken(self.term, False, 0, ()))
            return
        if self._leader is not sender or self.term != message.term:
            self._look_for_leader()
            self.role, self._leader, self.term = "following", sender, message.term
        self._heard_ns = self._now_ns
        sessions_heard = self._take_sessions_heard()
        after = message.after
        if len(self._log) < after or (after and self._log[after - 1].term != message.after_term):
            self._send(sender, Taken(self.term, False, self.applied, sessions_heard))
            return
        for index, entry in enumerate(message.entries, after):
            if index < len(self._log) and self._log[index].term != entry.term:
                assert index >= self.applied, "what took effect is never taken back"
                del self._log[index:]
            if index == len(self._log):
                self._log.append(entry)
        length = after + len(message.entries)
        self._apply_until(min(message.committed, length))
        self._send(sender, Taken(self.term, True, length, sessions_heard))

    def _on_taken(self, sender: "Member", message: Taken) -> None:
        """A follower's answer: count what it holds, and send what it lacks."""
        if self.role != "leading" or message.term < self.term:
            return
        if message.term > self.term:
            self.term = message.term  # its votes must be for a later term than the one that was promised
            self._look_for_leader()
            return
        name = sender.address
        self._answered_ns[name] = self._now_ns
        self._waits_for_peer[name] = False
        self._renew_sessions(message.heard)
        if message.agrees:
            self._match[name] = max(self._match[name], message.length)
        self._next[name] = max(self._match[name], message.length if not message.agrees else 0)
        self._commit_by_majority()
        for peer in self.peers:
            is_behind = self._next[peer.address] < len(self._log) or self._committed_known[peer.address] < self.applied
            if is_behind and not self._waits_for_peer[peer.address]:
                self._send_entries(peer)

    def _commit_by_majority(self) -> None:
        """Let take effect what a majority has, up to an entry of this leader's own term (Raft §5.4.2)."""
        lengths = sorted([len(self._log), *self._match.values()], reverse=True)[self._majority - 1]
        if lengths > self.applied and self._log[lengths - 1].term == self.term:
            self._apply_until(lengths)

    def _apply_until(self, length: int) -> None:
        """Apply the log up to this length, and answer who waits for an entry."""
        while self.applied < length:
            entry = self._log[self.applied]
            self.applied += 1
            self._unanswered.pop(entry.id, None)
            self._decided.pop(entry.id, None)
            result = self._apply_entry(entry)
            then = self._pending.pop(entry.id, None)
            if then is not None:
                then(result)
