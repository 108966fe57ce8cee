"""Performs one action of the explorer on a state of the explored cluster, with all immediate consequences.

These are part of the action, so nothing happens between them:

* a request to ZooKeeper, its reply and the watches it fires, unless `zk_async` (then each arrival is an action);
* a flush;
* the reply to a control request, which only lets the controller send the next one;
* an UpdateMetadata: it is answered at once and not delivered, because only clients need it and this client does not.

Messages in flight arrive in any order, at most once. A crash drops the messages to the process, not those it has sent.
"""

from collections import deque
from typing import Protocol, assert_never

from msgspec.structs import replace

from highwater.explore import ghost
from highwater.explore.canonical import Rules, bytes_of, canonical
from highwater.explore.state import CLIENT, TP, Flight, Host, State
from highwater.explore.zookeeper import decode
from highwater.plans.actions import (
    AnyAction,
    Crash,
    Deliver,
    Expire,
    Fire,
    Lose,
    Notice,
    Produce,
    Restart,
    ZkHear,
    ZkPerform,
)
from highwater.rig.commits import AnyCommit, SessionEnded, commits_of
from reference.coordination.api import Create, Created, SessionExpired
from reference.coordination.memory import Fired
from reference.effects import (
    AnyEffect,
    Append,
    CancelTimer,
    CreateReplica,
    DeleteReplica,
    Disconnect,
    Flush,
    Halt,
    MarkClean,
    MarkDir,
    Note,
    Send,
    SetTimer,
    Truncate,
    WriteCheckpoint,
    ZkConnect,
    ZkRequest,
)
from reference.errors import ErrorCode
from reference.events import AnyEvent, Booted, DirImage, Flushed, LogImage, Received, TimerFired, ZkReplied, ZkState, ZkWatch
from reference.log.log import end_of
from reference.messages import (
    AnyMessage,
    LeaderAndIsrReply,
    LogInfoReply,
    ProduceReply,
    StopReplicaReply,
    UpdateMetadata,
    UpdateMetadataReply,
)
from reference.messages import Produce as ProduceRequest
from reference.types import Address, Millis

STEP_EVENTS_MAX = 10_000  # in one action; more means an endless loop between the machines
_PATIENCE_MS = Millis(10**12)


class Witness(Protocol):
    """Observer of what happens within one action of the explorer; its methods are called in order."""

    def event(self, index: int, life: int, event: AnyEvent) -> None:
        """Called when a broker handled an event; calls for its effects follow."""

    def effect(self, index: int, life: int, effect: AnyEffect) -> None:
        """Called when an effect that a broker asked for is about to be performed."""

    def committed(self, index: int, life: int, commits: tuple[AnyCommit, ...]) -> None:
        """Called when ZooKeeper performed a request of this broker, which changed these znodes."""

    def session_over(self, ended: SessionEnded, gone: tuple[str, ...]) -> None:
        """Called when ZooKeeper ended a session and deleted its ephemerals, whose paths are `gone`."""

    def started(self, index: int, life: int) -> None:
        """Called when a broker process of the explored cluster started."""

    def stopped(self, index: int, life: int, why: str) -> None:
        """Called when a broker process of the explored cluster ended."""

    def asserted(self, index: int, life: int, words: str) -> None:
        """Called when an assertion in the code of a broker failed; its process ends."""


class Impossible(Exception):  # noqa: N818 - not an error of the program
    """The explorer's action is not possible in this state; the message says why."""


class Transition:
    """A working copy of a state of the explored cluster: `perform` changes it, `state` returns the result."""

    def __init__(self, rules: Rules, state: State, witness: Witness | None = None) -> None:
        self._rules = rules
        self._machines = rules.machines
        self._zookeepers = rules.zookeepers
        self._witness = witness
        self.hosts = list(state.hosts)
        self.zk = state.zk
        self.network = list(state.network)
        self.ghost = state.ghost
        self.spent = state.spent
        self._todo: deque[tuple[int, AnyEvent]] = deque()

    # --- actions --------------------------------------------------------------------------------------------------------------

    def perform(self, action: AnyAction) -> None:
        """Perform an action of the explorer and all its immediate consequences. Raises Impossible."""
        match action:
            case Deliver():
                flight = self._take(action)
                self._tell(flight.to, Received(_address(flight.source), flight.message))
            case Lose():
                self._take(action)
                self.spent = replace(self.spent, losses=self.spent.losses + 1)
            case Produce():
                self._produce(self._up(action.node))
            case Fire():
                self._fire(self._up(action.node), action.timer)
            case Crash():
                self._stop(self._up(action.node), "crash")
                self.spent = replace(self.spent, crashes=self.spent.crashes + 1)
            case Restart():
                self._start(_position(action.node, self.hosts))
            case Expire():
                self._expire(_position(action.node, self.hosts))
            case Notice():
                self._notice(self._up(action.node))
            case ZkPerform():
                self._perform_oldest(_position(action.node, self.hosts))
            case ZkHear():
                index = self._up(action.node)
                host = self.hosts[index]
                if not host.inbox:
                    raise Impossible(f"no event from ZooKeeper to {action.node} is in flight")
                self.hosts[index] = replace(host, inbox=host.inbox[1:])
                self._tell(index, host.inbox[0])
            case _:
                assert_never(action)
        self._settle()

    def state(self) -> State:
        """The explored cluster's state after the actions, in canonical form."""
        raw = State(tuple(self.hosts), self.zk, tuple(self.network), self.ghost, self.spent)
        return canonical(self._rules, raw)

    def create_topic(self, op: Create) -> None:
        """Create a topic as an administrator, in a session of its own."""
        self.zk, session = self._zookeepers.connect(self.zk)
        self.zk, answers, fired = self._zookeepers.submit(self.zk, session, (op,), atomic=False)
        assert isinstance(answers[0], Created)
        self._tell_watchers(fired)
        self.zk, _, _ = self._zookeepers.expire(self.zk, session)
        self._settle()

    def _up(self, node: str) -> int:
        index = _position(node, self.hosts)
        if not self.hosts[index].up:
            raise Impossible(f"{node} is down")
        return index

    def _take(self, action: Deliver | Lose) -> Flight:
        source, to = _position(action.source, self.hosts), _position(action.to, self.hosts)
        alike = [f for f in self.network if f.source == source and f.to == to and type(f.message).__name__ == action.message]
        if action.nth >= len(alike):
            raise Impossible(f"no {action.message} number {action.nth} from {action.source} to {action.to} is in flight")
        flight = alike[0] if len(alike) == 1 else sorted(alike, key=bytes_of)[action.nth]
        self.network.remove(flight)
        return flight

    def _produce(self, index: int) -> None:
        number = self.ghost.produced + 1
        self.ghost = replace(self.ghost, produced=number)
        request = ProduceRequest(number, TP, -1, (f"v{number}",), _PATIENCE_MS)
        self._tell(index, Received(Address(CLIENT), request))

    def _fire(self, index: int, timer: str) -> None:
        host = self.hosts[index]
        if timer not in host.timers:
            raise Impossible(f"b{index + 1} has no timer {timer}")
        self.hosts[index] = replace(host, timers=tuple(name for name in host.timers if name != timer))
        self._tell(index, TimerFired(timer))

    def _stop(self, index: int, why: str) -> None:
        host = self.hosts[index]
        # Requests in flight to ZooKeeper (outbox) may still arrive.
        self.hosts[index] = replace(host, up=False, core=b"", timers=(), inbox=())
        self.network = [flight for flight in self.network if flight.to != index]
        if self._witness is not None:
            self._witness.stopped(index, host.life, why)

    def _start(self, index: int) -> None:
        host = self.hosts[index]
        if host.up:
            raise Impossible(f"b{index + 1} is up")
        image = (DirImage(0, True, host.logs, host.checkpoint, host.born, dirs=1),)
        life = host.life + 1
        core, effects = self._machines.boot(index, image, life)
        self.hosts[index] = replace(host, up=True, life=life, core=core, outbox=(), inbox=())
        if self._witness is not None:
            self._witness.started(index, life)
        self._follow(index, Booted(), effects)

    def _expire(self, index: int) -> None:
        host = self.hosts[index]
        if host.session not in self._zookeepers.standing(self.zk).sessions:
            raise Impossible(f"b{index + 1} has no session")
        if host.up:
            self.spent = replace(self.spent, expiries=self.spent.expiries + 1)
        self.zk, gone, fired = self._zookeepers.expire(self.zk, host.session)
        if self._witness is not None:
            self._witness.session_over(SessionEnded(zxid=decode(self.zk).zxid, session=host.session), gone)
        self._tell_watchers(fired)

    def _notice(self, index: int) -> None:
        if self.hosts[index].session in self._zookeepers.standing(self.zk).sessions:
            raise Impossible(f"the session of b{index + 1} has not expired")
        self._tell(index, ZkState("expired"))

    # --- machines and their effects -------------------------------------------------------------------------------------------

    def _tell(self, index: int, event: AnyEvent) -> None:
        self._todo.append((index, event))

    def _settle(self) -> None:
        """Deliver the queued events to the brokers until no event is left."""
        for _ in range(STEP_EVENTS_MAX):
            if not self._todo:
                return
            index, event = self._todo.popleft()
            if self.hosts[index].up:
                self._handle(index, event)
        raise AssertionError(f"one action caused more than {STEP_EVENTS_MAX} events")

    def _handle(self, index: int, event: AnyEvent) -> None:
        try:
            core, effects = self._machines.handle(index, self.hosts[index].core, event)
        except AssertionError as error:
            words = f"an assertion fails at b{index + 1}: {error}"
            self.ghost = replace(self.ghost, wrong=self.ghost.wrong or words)
            if self._witness is not None:
                self._witness.asserted(index, self.hosts[index].life, str(error))
            self._stop(index, "halt:assertion")
            return
        self.hosts[index] = replace(self.hosts[index], core=core)
        self._follow(index, event, effects)

    def _follow(self, index: int, event: AnyEvent, effects: tuple[AnyEffect, ...]) -> None:
        life = self.hosts[index].life
        if self._witness is not None:
            self._witness.event(index, life, event)
        for effect in effects:
            if self._witness is not None:
                self._witness.effect(index, life, effect)
            self._effect(index, effect)
            if not self.hosts[index].up:
                return

    def _effect(self, index: int, effect: AnyEffect) -> None:
        host = self.hosts[index]
        match effect:
            case Send(to=to, message=message):
                self._send(index, to, message)
            case Note():
                self.ghost = ghost.see(self.ghost, host, index, effect)
            case Append() | Truncate() | CreateReplica() | DeleteReplica():
                self.hosts[index] = replace(host, logs=_written(host.logs, effect))
            case WriteCheckpoint(entries=entries):
                self.hosts[index] = replace(host, checkpoint=entries)
            case MarkDir(born=born):
                self.hosts[index] = replace(host, born=born)
            case MarkClean():
                pass  # no explored process shuts down cleanly
            case Flush(dir=dir_, id=flush):
                self._tell(index, Flushed(dir_, flush))
            case SetTimer(name=name):
                if name not in host.timers:
                    self.hosts[index] = replace(host, timers=tuple(sorted((*host.timers, name))))
            case CancelTimer(name=name):
                if name in host.timers:
                    self.hosts[index] = replace(host, timers=tuple(timer for timer in host.timers if timer != name))
            case ZkConnect():
                self.zk, session = self._zookeepers.connect(self.zk)
                self.hosts[index] = replace(host, session=session, outbox=(), inbox=())
                self._hear(index, ZkState("connected", session))
            case ZkRequest():
                self._ask(index, effect)
            case Disconnect():
                pass  # the explorer's client never uses acks=0
            case Halt(reason=reason):
                self._stop(index, f"halt:{reason}")
            case _:
                assert_never(effect)

    def _send(self, index: int, to: Address, message: AnyMessage) -> None:
        if to == CLIENT:
            if isinstance(message, ProduceReply):
                self.ghost = ghost.answered(self.ghost, self.hosts[index], message)
            return
        receiver = _position(to, self.hosts)
        match message:
            case UpdateMetadata(correlation=correlation):
                self._tell(index, Received(to, UpdateMetadataReply(correlation, ErrorCode.NONE)))
            case LeaderAndIsrReply() | StopReplicaReply() | LogInfoReply() | UpdateMetadataReply():
                self._tell(receiver, Received(_address(index), message))
            case _:
                if self.hosts[receiver].up:
                    self.network.append(Flight(index, receiver, message))

    # --- ZooKeeper ------------------------------------------------------------------------------------------------------------

    def _ask(self, index: int, request: ZkRequest) -> None:
        if self._rules.zk_async:
            host = self.hosts[index]
            self.hosts[index] = replace(host, outbox=(*host.outbox, request))
        else:
            self._submit(index, request)

    def _perform_oldest(self, index: int) -> None:
        host = self.hosts[index]
        if not host.outbox:
            raise Impossible(f"no request from b{index + 1} to ZooKeeper is in flight")
        self.hosts[index] = replace(host, outbox=host.outbox[1:])
        self._submit(index, host.outbox[0])

    def _submit(self, index: int, request: ZkRequest) -> None:
        host = self.hosts[index]
        if host.session not in self._zookeepers.standing(self.zk).sessions:
            # By asking, the broker reaches ZooKeeper and learns that its session has expired.
            self._hear(index, ZkReplied(request.id, (SessionExpired(),) * len(request.ops)))
            under_way = [event for to, event in self._todo if to == index] + list(host.inbox)
            if not any(isinstance(event, ZkState) for event in under_way):
                self._hear(index, ZkState("expired"))
            return
        self.zk, answers, fired = self._zookeepers.submit(self.zk, host.session, request.ops, atomic=request.atomic)
        if self._witness is not None:
            commits = commits_of(decode(self.zk), host.session, request.ops, answers)
            self._witness.committed(index, host.life, commits)
        self._tell_watchers(fired)
        self._hear(index, ZkReplied(request.id, answers))

    def _tell_watchers(self, fired: Fired) -> None:
        for session, path, change in fired:
            for index, host in enumerate(self.hosts):
                if host.session == session:
                    self._hear(index, ZkWatch(path, change))

    def _hear(self, index: int, event: AnyEvent) -> None:
        host = self.hosts[index]
        if not host.up:
            return
        if self._rules.zk_async:
            self.hosts[index] = replace(host, inbox=(*host.inbox, event))
        else:
            self._tell(index, event)


def _address(index: int) -> Address:
    return Address(f"b{index + 1}")


def _position(node: str, hosts: list[Host]) -> int:
    digits = node.removeprefix("b")
    if not digits.isdecimal() or not 1 <= int(digits) <= len(hosts):
        raise Impossible(f"unknown broker {node}; brokers are b1 to b{len(hosts)}")
    return int(digits) - 1


def _written(logs: tuple[LogImage, ...], effect: Append | Truncate | CreateReplica | DeleteReplica) -> tuple[LogImage, ...]:
    others = tuple(log for log in logs if log.tp != effect.tp)
    found = next((log for log in logs if log.tp == effect.tp), LogImage(effect.tp, ()))
    batches, born, topic_id = found.batches, found.born, found.topic_id
    match effect:
        case Append(batches=more):
            batches += more
        case Truncate(to=to):
            batches = tuple(batch for batch in batches if end_of(batch) <= to)
        case CreateReplica():
            born, topic_id = effect.born, effect.topic_id
        case DeleteReplica():
            return others
        case _:
            assert_never(effect)
    return (*others, LogImage(effect.tp, batches, born, topic_id))
