"""Performs one action of the explorer on a state, with all immediate consequences, on numbers of the state's parts.

These are part of the action, so nothing happens between them:

* a request to ZooKeeper, its reply and the watches it fires, unless `zk_async` (then each arrival is an action);
* a flush;
* the reply to a control request, which only lets the controller send the next one;
* an UpdateMetadata: it is answered at once and not delivered, because only clients need it and this client does not.

Messages in flight arrive in any order, at most once unless they are doubled. A crash drops the messages to the process, not those
it has sent.
"""

from collections import deque
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from highwater.explore import ghost as promises
from highwater.explore.canonical import Canonical
from highwater.explore.machines import ANY_VERSIONS, Machines
from highwater.explore.numbering import Parts
from highwater.explore.state import CLIENT, Flight, Ghost, Host, Spent, tp_of
from highwater.explore.steps import Brokers, Op, Step
from highwater.explore.zookeeper import ZooKeepers, standing_of
from highwater.rig.commits import AnyCommit, SessionEnded, commits_of
from reference.coordination.api import Create, Created, SessionExpired
from reference.effects import AnyEffect, ZkRequest
from reference.events import AnyEvent, Booted, Received, TimerFired, ZkReplied, ZkState
from reference.messages import Produce, ProduceReply
from reference.types import Address, Millis

Key = tuple[int, ...]  # numbers of a state's hosts, its ZooKeeper tree, its ghost, its spent faults, its messages in flight

STEP_EVENTS_MAX = 10_000  # in one action; more means an endless loop between the machines
OUTCOMES_MAX = 100_000  # remembered at a time: about 50 MB
_PATIENCE_MS = Millis(10**12)

PartKind = TypeVar("PartKind", Host, bytes, Ghost, Spent, Flight)
Fact = TypeVar("Fact")


class Witness(Protocol):
    """Observer of what happens within one action of the explorer; its methods are called in order."""

    def event(self, index: int, life: int, event: AnyEvent) -> None:
        """Called when a broker handled an event; calls for its effects follow."""

    def effect(self, index: int, life: int, effect: AnyEffect) -> None:
        """Called when an effect that a broker asked for is about to be performed."""

    def committed(self, index: int, life: int, commits: tuple[AnyCommit, ...]) -> None:
        """Called when ZooKeeper performed a request of this broker, which changed these znodes."""

    def administered(self, commits: tuple[AnyCommit, ...]) -> None:
        """Called when ZooKeeper performed a request of an administrator."""

    def session_over(self, ended: SessionEnded, deleted: tuple[str, ...]) -> None:
        """Called when ZooKeeper ended a session and deleted its ephemerals, whose paths are `deleted`."""

    def started(self, index: int, life: int) -> None:
        """Called when a broker process of the explored cluster started."""

    def stopped(self, index: int, life: int, why: str) -> None:
        """Called when a broker process of the explored cluster ended."""

    def asserted(self, index: int, life: int, words: str) -> None:
        """Called when an assertion in the code of a broker failed; its process ends."""


class Facts(dict[int, Fact], Generic[PartKind, Fact]):
    """What the search needs to know about each part of one kind, by its number; decoded when it is first asked for."""

    def __init__(self, parts: Parts, kind: type[PartKind], of: Callable[[PartKind], Fact]) -> None:
        super().__init__()
        self._parts = parts
        self._kind: type[PartKind] = kind
        self._of: Callable[[PartKind], Fact] = of

    def __missing__(self, number: int) -> Fact:
        """Compute what the search reads of a part, once."""
        part = self._parts.values[number]
        assert isinstance(part, self._kind)
        fact: Fact = self._of(part)
        self[number] = fact
        return fact


class Draft:
    """A state while an action is performed on it.

    `todo`: events (broker, number) to handle before the action is over; `ended`: brokers whose process ended.
    """

    __slots__ = ("ended", "flights", "ghost", "hosts", "spent", "todo", "witness", "zk")

    def __init__(self, key: Key, size: int, witness: Witness | None) -> None:
        self.hosts = list(key[:size])
        self.zk, self.ghost, self.spent = key[size : size + 3]
        self.flights = list(key[size + 3 :])
        self.todo: deque[tuple[int, int]] = deque()
        self.ended: tuple[int, ...] = ()
        self.witness = witness


class Outcome(Struct, frozen=True):
    """What the brokers and ZooKeeper make of the events of an action; it depends on neither messages in flight nor spent faults.

    `hosts` are canonical, `sent` are new messages that are not, `ended` are brokers whose process ended.
    """

    hosts: Key
    zk: int
    ghost: int
    sent: Key
    ended: tuple[int, ...]
    renaming: int  # number of the renaming of messages


class Transitions:
    """Performs actions on drafts of states. Every method for an action assumes that the action is possible."""

    def __init__(self, machines: Machines, size: int, *, epoch_end_recheck: bool, zk_async: bool, keep_versions: bool) -> None:
        """`keep_versions`: do not renumber the versions of the state znode. The others are as in variant and `Bounds`."""
        self.parts = Parts()
        self.brokers = Brokers(machines, self.parts)
        self._zookeepers = ZooKeepers(self.parts, self.brokers.events, self.brokers.requests)
        self._canonical = Canonical(machines, self.parts, self.brokers, epoch_end_recheck=epoch_end_recheck)
        self._size = size
        self._keep_versions = keep_versions
        self.zk_async = zk_async
        self.hosts = Facts(self.parts, Host, self.brokers.facts_of)
        self.flights = Facts(self.parts, Flight, self._canonical.facts_of)
        self.standings = Facts(self.parts, bytes, lambda tree: standing_of(tree, len(machines.partitions)))
        self.ghosts = Facts(self.parts, Ghost, lambda ghost: ghost)
        self.spent = Facts(self.parts, Spent, lambda spent: spent)
        self._outcomes: dict[tuple[int | tuple[int, int], ...], Outcome] = {}
        self._seen: dict[tuple[int, int], int] = {}  # (ghost, sighting) -> ghost
        self._produced: dict[tuple[int, int], tuple[int, int]] = {}  # (ghost, partition) -> (ghost, event)
        self._counted: dict[tuple[int, str], int] = {}  # (spent, fault) -> spent

    def draft(self, key: Key, witness: Witness | None = None) -> Draft:
        """A draft of a state, on which one action can be performed."""
        return Draft(key, self._size, witness)

    def state_after(self, draft: Draft) -> Key:
        """Let the brokers handle all events of the action; the state after it, in canonical form."""
        outcome = self._cached_outcome(draft) if draft.witness is None else self._outcome(draft)
        return self._state_after_outcome(outcome, tuple(draft.flights), draft.spent)

    def state_after_arrival(self, key: Key, position: int) -> Key:
        """The state after a message in flight arrives. Most actions are arrivals whose outcome is known: they need no draft."""
        fixed_parts = self._size + 3
        arrival = self.flights[key[fixed_parts + position]].arrival
        outcome = self._outcomes.get((*key[: fixed_parts - 1], arrival))
        if outcome is None:
            draft = self.draft(key)
            self.deliver(draft, position)
            return self.state_after(draft)
        return self._state_after_outcome(
            outcome, key[fixed_parts : fixed_parts + position] + key[fixed_parts + position + 1 :], key[fixed_parts - 1]
        )

    def _state_after_outcome(self, outcome: Outcome, flights: Key, spent: int) -> Key:
        """The state after an action: messages to processes that ended are dropped, the network is put into canonical form."""
        if outcome.ended:
            flights = tuple([flight for flight in flights if self.flights[flight].to not in outcome.ended])
        flights += outcome.sent
        network = self._canonical.network(flights, self.flights, outcome.renaming) if flights else ()
        return (*outcome.hosts, outcome.zk, outcome.ghost, spent, *network)

    def _cached_outcome(self, draft: Draft) -> Outcome:
        """The outcome of a draft; computed once."""
        key: tuple[int | tuple[int, int], ...] = (*draft.hosts, draft.zk, draft.ghost, *draft.todo)
        cached = self._outcomes.get(key)
        if cached is None:
            if len(self._outcomes) >= OUTCOMES_MAX:
                self._outcomes.clear()
            cached = self._outcomes[key] = self._outcome(draft)
        return cached

    def _outcome(self, draft: Draft) -> Outcome:
        """Perform what the draft has to do, and put the result into canonical form."""
        earlier, draft.flights, draft.ended = draft.flights, [], ()
        self.settle(draft)
        sent, draft.flights = tuple(draft.flights), earlier
        zk = draft.zk
        versions = ANY_VERSIONS
        if not self._keep_versions:
            tree_standing = self.standings[zk]
            versions = tree_standing.versions
            if not tree_standing.renumbered:
                zk = self._zookeepers.with_canonical_versions(zk)
        facts = [self.hosts[host] for host in draft.hosts]
        hosts = self._canonical.hosts(draft.hosts, facts, versions)
        renaming = self._canonical.renaming(facts, versions)
        return Outcome(hosts, zk, draft.ghost, sent, draft.ended, renaming)

    # --- actions --------------------------------------------------------------------------------------------------------------

    def deliver(self, draft: Draft, position: int) -> None:
        """A message in flight arrives."""
        facts = self.flights[draft.flights.pop(position)]
        draft.todo.append(facts.arrival)

    def lose(self, draft: Draft, position: int) -> None:
        """A message in flight is lost."""
        del draft.flights[position]
        draft.spent = self._spent_with(draft.spent, "losses")

    def double(self, draft: Draft, position: int) -> None:
        """A message in flight is doubled."""
        draft.flights.append(draft.flights[position])
        draft.spent = self._spent_with(draft.spent, "doubles")

    def produce(self, draft: Draft, index: int, to: int) -> None:
        """A client sends the next record of a partition to a broker."""
        cached = self._produced.get((draft.ghost, to))
        if cached is None:
            ghost = self.ghosts[draft.ghost]
            number = ghost.produced + 1
            event = Received(Address(CLIENT), Produce(number, tp_of(to), -1, (f"v{number}",), _PATIENCE_MS))
            after = self.parts.of(replace(ghost, produced=number))
            cached = self._produced[draft.ghost, to] = (after, self.brokers.events.of(event))
        draft.ghost, event_number = cached
        draft.todo.append((index, event_number))

    def fire(self, draft: Draft, index: int, timer: str) -> None:
        """An armed timer runs out."""
        draft.hosts[index] = self.brokers.host_without_timer(draft.hosts[index], timer)
        draft.todo.append((index, self.brokers.events.of(TimerFired(timer))))

    def crash(self, draft: Draft, index: int) -> None:
        """A broker process ends; its page cache and its ZooKeeper session remain."""
        draft.spent = self._spent_with(draft.spent, "crashes")
        draft.hosts[index] = self.brokers.host_without_process(draft.hosts[index])
        self._end_process(draft, index, "crash")

    def start(self, draft: Draft, index: int) -> None:
        """A broker process starts again with the data on its disk."""
        step = self.brokers.boot(index, draft.hosts[index])
        if draft.witness is not None:
            draft.witness.started(index, self.brokers.host(step.host).life)
        self._perform_step(draft, index, step, Booted())

    def expire(self, draft: Draft, index: int) -> None:
        """ZooKeeper ends the session of a broker, which is not told."""
        facts = self.hosts[draft.hosts[index]]
        if facts.up:
            draft.spent = self._spent_with(draft.spent, "expiries")
        change = self._zookeepers.expire(draft.zk, facts.session)
        draft.zk = change.tree
        if draft.witness is not None:
            ended = SessionEnded(zxid=self._zookeepers.tree_numbered(draft.zk).zxid, session=facts.session)
            draft.witness.session_over(ended, change.gone)
        self._tell_watchers(draft, change.fired)

    def notice(self, draft: Draft, index: int) -> None:
        """A broker learns that its session has expired."""
        draft.todo.append((index, self.brokers.events.of(ZkState("expired"))))

    def perform_oldest(self, draft: Draft, index: int) -> None:
        """ZooKeeper performs the oldest pending request of a broker."""
        request = self.brokers.requests.of(self.brokers.host(draft.hosts[index]).outbox[0])
        draft.hosts[index] = self.brokers.host_without_request(draft.hosts[index])
        self._submit(draft, index, request)

    def hear_oldest(self, draft: Draft, index: int) -> None:
        """A broker receives the oldest pending event from ZooKeeper."""
        event = self.brokers.events.of(self.brokers.host(draft.hosts[index]).inbox[0])
        draft.hosts[index] = self.brokers.host_without_event(draft.hosts[index])
        draft.todo.append((index, event))

    def administer(self, draft: Draft, ops: tuple[Create, ...]) -> None:
        """Create znodes as an administrator, in a session of its own; only the last must be new."""
        draft.zk, session = self._zookeepers.connect(draft.zk)
        change = self._zookeepers.submit(draft.zk, session, self.brokers.requests.of(ZkRequest(0, ops)))
        assert isinstance(change.answers[-1], Created)
        draft.zk = change.tree
        if draft.witness is not None:
            draft.witness.administered(commits_of(self._zookeepers.tree_numbered(draft.zk), session, ops, change.answers))
        self._tell_watchers(draft, change.fired)
        draft.zk = self._zookeepers.expire(draft.zk, session).tree

    def move(self, draft: Draft, ops: tuple[Create, ...]) -> None:
        """An administrator asks the controller to move a partition."""
        draft.spent = self._spent_with(draft.spent, "moves")
        self.administer(draft, ops)

    # --- steps of the brokers -------------------------------------------------------------------------------------------------

    def settle(self, draft: Draft) -> None:
        """Let the brokers handle the queued events until no event is left."""
        todo = draft.todo
        for _ in range(STEP_EVENTS_MAX):
            if not todo:
                return
            index, event = todo.popleft()
            host = draft.hosts[index]
            if self.hosts[host].up:
                self._perform_step(draft, index, self.brokers.step(index, host, event), self.brokers.events.values[event])
        raise AssertionError(f"one action caused more than {STEP_EVENTS_MAX} events")

    def _perform_step(self, draft: Draft, index: int, step: Step, event: AnyEvent) -> None:
        """Put the broker into the state after the step, and perform what leaves the broker."""
        draft.hosts[index] = step.host
        if draft.witness is not None:
            self._perform_before_witness(draft, draft.witness, index, step, event)
            return
        for op in step.ops:
            self._perform_op(draft, index, op)

    def _perform_before_witness(self, draft: Draft, witness: Witness, index: int, step: Step, event: AnyEvent) -> None:
        """Perform a step before a witness, who is told of each effect just before it is performed."""
        life = self.brokers.host(step.host).life
        if step.failed:
            witness.asserted(index, life, step.failed)
        else:
            witness.event(index, life, event)
        ops = {op.at: op for op in step.ops}
        for at, effect in enumerate(step.effects):
            witness.effect(index, life, effect)
            if at in ops:
                self._perform_op(draft, index, ops[at])
        if step.failed:
            self._perform_op(draft, index, step.ops[0])

    def _perform_op(self, draft: Draft, index: int, op: Op) -> None:
        """Perform one operation: send, tell, see, ask, connect or end."""
        do = op.do
        if do == "send":
            if self.hosts[draft.hosts[op.to]].up:
                draft.flights.append(op.number)
        elif do == "tell":
            draft.todo.append((op.to, op.number))
        elif do == "see":
            draft.ghost = self._ghost_after_sighting(draft.ghost, op.number)
        elif do == "ask":
            self._ask_zookeeper(draft, index, op.number)
        elif do == "connect":
            draft.zk, session = self._zookeepers.connect(draft.zk)
            draft.hosts[index] = self.brokers.host_with_session(draft.hosts[index], session)
            self._send_from_zookeeper(draft, index, self.brokers.events.of(ZkState("connected", session)))
        elif do == "halt":
            self._end_process(draft, index, f"halt:{op.words}")
        else:
            draft.ghost = self._ghost_after_failure(draft.ghost, f"an assertion fails at b{index + 1}: {op.words}")
            self._end_process(draft, index, "halt:assertion")

    def _ghost_after_sighting(self, ghost: int, sighting: int) -> int:
        """What the ghost knows after a sighting."""
        key = (ghost, sighting)
        cached = self._seen.get(key)
        if cached is None:
            was, sighted = self.ghosts[ghost], self.brokers.sightings.values[sighting]
            if isinstance(sighted.what, ProduceReply):
                now = promises.after_reply(was, sighted.values, sighted.what)
            else:
                now = promises.after_note(was, sighted.values, sighted.index, sighted.what)
            cached = self._seen[key] = self.parts.of(now)
        return cached

    def _ghost_after_failure(self, ghost: int, words: str) -> int:
        was = self.ghosts[ghost]
        return self.parts.of(replace(was, wrong=was.wrong or words))

    def _end_process(self, draft: Draft, index: int, reason: str) -> None:
        """A process ended: messages to it are dropped."""
        facts = self.flights
        draft.ended += (index,)
        draft.flights = [flight for flight in draft.flights if facts[flight].to != index]
        if draft.witness is not None:
            draft.witness.stopped(index, self.brokers.host(draft.hosts[index]).life, reason)

    def _spent_with(self, spent: int, fault: str) -> int:
        """The faults spent so far and one more of this field of `Spent`."""
        key = (spent, fault)
        cached = self._counted.get(key)
        if cached is None:
            was = self.spent[spent]
            cached = self._counted[key] = self.parts.of(replace(was, **{fault: getattr(was, fault) + 1}))
        return cached

    # --- ZooKeeper ------------------------------------------------------------------------------------------------------------

    def _ask_zookeeper(self, draft: Draft, index: int, request: int) -> None:
        """A broker sends a request to ZooKeeper, which performs it at once or when the search chooses."""
        if self.zk_async:
            draft.hosts[index] = self.brokers.host_with_request(draft.hosts[index], request)
        else:
            self._submit(draft, index, request)

    def _submit(self, draft: Draft, index: int, request: int) -> None:
        """ZooKeeper performs a request, or refuses it if the session is over."""
        session = self.hosts[draft.hosts[index]].session
        if session not in self.standings[draft.zk].sessions:
            self._refuse(draft, index, self.brokers.requests.values[request])
            return
        change = self._zookeepers.submit(draft.zk, session, request)
        draft.zk = change.tree
        if draft.witness is not None:
            ops = self.brokers.requests.values[request].ops
            commits = commits_of(self._zookeepers.tree_numbered(draft.zk), session, ops, change.answers)
            draft.witness.committed(index, self.brokers.host(draft.hosts[index]).life, commits)
        if change.fired:
            self._tell_watchers(draft, change.fired)
        self._send_from_zookeeper(draft, index, change.reply)

    def _refuse(self, draft: Draft, index: int, request: ZkRequest) -> None:
        """By asking, the broker reaches ZooKeeper and learns that its session has expired."""
        events = self.brokers.events
        self._send_from_zookeeper(draft, index, events.of(ZkReplied(request.id, (SessionExpired(),) * len(request.ops))))
        under_way = [events.values[event] for to, event in draft.todo if to == index]
        under_way += self.brokers.host(draft.hosts[index]).inbox
        if not any(isinstance(event, ZkState) for event in under_way):
            self._send_from_zookeeper(draft, index, events.of(ZkState("expired")))

    def _tell_watchers(self, draft: Draft, fired: tuple[tuple[int, int], ...]) -> None:
        """Send each fired watch (session, event) to the broker that has the session."""
        for session, event in fired:
            for index, host in enumerate(draft.hosts):
                if self.hosts[host].session == session:
                    self._send_from_zookeeper(draft, index, event)

    def _send_from_zookeeper(self, draft: Draft, index: int, event: int) -> None:
        """A broker gets an event of its ZooKeeper client, at once or when the search chooses."""
        if not self.hosts[draft.hosts[index]].up:
            return
        if self.zk_async:
            draft.hosts[index] = self.brokers.host_with_event(draft.hosts[index], event)
        else:
            draft.todo.append((index, event))
