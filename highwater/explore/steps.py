"""What one broker makes of one event, as a remembered function on numbers: (host, event) -> (host after it, what leaves it).

A host is a broker's process with its disk, timers and ZooKeeper session. Effects on these are part of the host after the step;
the others (messages, requests to ZooKeeper, what the search learns of promised records) leave it and are performed in order by
`model`.
"""

from collections.abc import Callable
from typing import Literal, assert_never

from msgspec import Struct
from msgspec.structs import replace

from highwater.explore.machines import Machines, Replica, View, Waiting
from highwater.explore.numbering import Numbers, Parts
from highwater.explore.state import CLIENT, Flight, Host, values_of
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
from reference.events import AnyEvent, DirImage, Flushed, LogImage, Received, TimerFired
from reference.log.log import end_of
from reference.messages import (
    IsrChange,
    LeaderAndIsrReply,
    LogInfoReply,
    ProduceReply,
    StopReplicaReply,
    UpdateMetadata,
    UpdateMetadataReply,
)
from reference.types import Address, TopicPartition

Outlet = Literal["send", "tell", "see", "ask", "connect", "halt", "fail"]


class Op(Struct, frozen=True):
    """Something that leaves a broker in a step, caused by the effect at position `at`.

    `number`: of the flight to send, of the event to tell broker `to`, of the sighting to see, of the request to ask ZooKeeper.
    """

    do: Outlet
    at: int
    to: int = -1
    number: int = -1
    words: str = ""


class Step(Struct, frozen=True):
    """A broker's step: the host after it, what leaves it, and all its effects for a witness."""

    host: int
    ops: tuple[Op, ...]
    effects: tuple[AnyEffect, ...]
    failed: str = ""  # the assertion that failed


class Sighting(Struct, frozen=True):
    """What the search learns of promised records: the partition's log on the broker's disk when it reported something."""

    index: int
    values: tuple[str, ...]
    what: Note | ProduceReply


class HostFacts(Struct, frozen=True):
    """What the search needs to know about a host. `resting` is equal for hosts that differ in armed timers only."""

    up: bool
    timers: tuple[str, ...]
    session: int
    replicas: tuple[Replica, ...]  # one for each partition
    parked: tuple[tuple[int, TopicPartition], ...]  # positions of the brokers whose fetches are parked
    proposals: tuple[IsrChange, ...]  # ISR changes that its controller has not answered
    holds: tuple[int, ...]  # positions of the brokers whose requests it has not answered
    waiting: Waiting
    resting: int
    values: tuple[tuple[str, ...], ...]  # the records on its disk, for each partition
    held: tuple[bool, ...]  # whether it has a log of the partition
    hears: bool  # an event from ZooKeeper is in flight
    asks: bool  # a request to ZooKeeper is in flight


class Brokers:
    """The steps of all brokers, on numbers of hosts (`parts`), of events and of ZooKeeper requests."""

    def __init__(self, machines: Machines, parts: Parts) -> None:
        self.events: Numbers[AnyEvent] = Numbers()
        self.requests: Numbers[ZkRequest] = Numbers()
        self.sightings: Numbers[Sighting] = Numbers()
        self._machines = machines
        self._parts = parts
        self._resting: Numbers[Host] = Numbers()
        self._steps: dict[tuple[int, int, int], Step] = {}
        self._edited: dict[tuple[str, int, int | str], int] = {}
        self._busy: dict[tuple[int, int], tuple[str, ...]] = {}

    def host(self, number: int) -> Host:
        """The host with this number."""
        cached = self._parts.values[number]
        assert isinstance(cached, Host)
        return cached

    def facts_of(self, host: Host) -> HostFacts:
        """Decode what the search needs to know about a host."""
        partitions = self._machines.partitions
        view = self._machines.view(host.core) if host.up else View((Replica(),) * len(partitions))
        return HostFacts(
            up=host.up,
            timers=host.timers if host.up else (),
            session=host.session,
            replicas=view.replicas,
            parked=tuple((int(source[1:]) - 1, tp) for source, tp in view.parked),
            proposals=tuple(proposal for _, proposal in view.proposals),
            holds=tuple(int(source[1:]) - 1 for source, _ in (*view.parked, *view.proposals)),
            waiting=view.waiting,
            resting=self._resting.of(replace(host, timers=())),
            values=tuple(values_of(host, tp) for tp in partitions),
            held=tuple(any(image.tp == tp for image in host.logs) for tp in partitions),
            hears=bool(host.inbox),
            asks=bool(host.outbox),
        )

    # --- steps ----------------------------------------------------------------------------------------------------------------

    def step(self, index: int, host: int, event: int) -> Step:
        """The step of the broker at this position when it handles an event. A failed assertion of the machine stops it."""
        key = (index, host, event)
        cached = self._steps.get(key)
        if cached is None:
            cached = self._steps[key] = self._step_of_event(index, self.host(host), self.events.values[event])
        return cached

    def boot(self, index: int, host: int) -> Step:
        """The first step of a new process with the disk of this host."""
        key = (index, host, -1)
        cached = self._steps.get(key)
        if cached is None:
            was = self.host(host)
            image = (DirImage(0, True, was.logs, was.checkpoint, was.born, dirs=1),)
            core, effects = self._machines.boot(index, image, was.life + 1)
            fresh = replace(was, up=True, life=was.life + 1, core=core, outbox=(), inbox=())
            cached = self._steps[key] = self._step_of_effects(index, fresh, effects)
        return cached

    def _step_of_event(self, index: int, host: Host, event: AnyEvent) -> Step:
        """The step that a broker makes of an event; a failed assertion stops it."""
        try:
            core, effects = self._machines.handle(index, host.core, event)
        except AssertionError as error:
            return Step(self._parts.of(_stopped_host(host)), (Op("fail", 0, words=str(error)),), (), str(error) or "no words")
        return self._step_of_effects(index, replace(host, core=core), effects)

    def _step_of_effects(self, index: int, host: Host, effects: tuple[AnyEffect, ...]) -> Step:
        """Perform the effects on the host; those that concern others become operations."""
        ops: list[Op] = []
        for at, effect in enumerate(effects):
            op = self._op_of_effect(index, host, at, effect)
            if op is not None:
                ops.append(op)
            if isinstance(effect, Halt):
                host, effects = _stopped_host(host), effects[: at + 1]
                break
            host = _host_after(host, effect)
        return Step(self._parts.of(host), tuple(ops), effects)

    def _op_of_effect(self, index: int, host: Host, at: int, effect: AnyEffect) -> Op | None:
        """What an effect does outside of the broker; None if nothing."""
        match effect:
            case Send():
                return self._op_of_message(index, host, at, effect)
            case Note(kind="hw", detail="leader", tp=str(tp)) | Note(kind="became-leader", tp=str(tp)):
                return Op("see", at, number=self.sightings.of(Sighting(index, values_of(host, tp), effect)))
            case Flush(dir=dir_, id=flush):
                return Op("tell", at, to=index, number=self.events.of(Flushed(dir_, flush)))
            case ZkConnect():
                return Op("connect", at)
            case ZkRequest():
                return Op("ask", at, number=self.requests.of(effect))
            case Halt(reason=reason):
                return Op("halt", at, words=reason)
            case Note() | SetTimer() | CancelTimer() | Append() | Truncate() | CreateReplica() | DeleteReplica():
                return None
            case WriteCheckpoint() | MarkDir() | MarkClean() | Disconnect():
                return None
            case _:
                assert_never(effect)

    def _op_of_message(self, index: int, host: Host, at: int, effect: Send) -> Op | None:
        """A message to the client or a broker; some replies arrive at once."""
        message = effect.message
        if effect.to == CLIENT:
            if not isinstance(message, ProduceReply):
                return None
            return Op("see", at, number=self.sightings.of(Sighting(index, values_of(host, message.tp), message)))
        to = int(effect.to[1:]) - 1
        match message:
            case UpdateMetadata(correlation=correlation):
                reply = Received(effect.to, UpdateMetadataReply(correlation, ErrorCode.NONE))
                return Op("tell", at, to=index, number=self.events.of(reply))
            case LeaderAndIsrReply() | StopReplicaReply() | LogInfoReply() | UpdateMetadataReply():
                return Op("tell", at, to=to, number=self.events.of(Received(address(index), message)))
            case _:
                return Op("send", at, to=to, number=self._parts.of(Flight(index, to, message)))

    def busy_timers(self, index: int, host: int) -> tuple[str, ...]:
        """The armed timers of a host without idle ones (see `_is_idle`): that decides most cases."""
        key = (index, host)
        cached = self._busy.get(key)
        if cached is None:
            was = self.host(host)
            cached = self._busy[key] = tuple(timer for timer in was.timers if not self._is_idle(index, was, timer))
        return cached

    def _is_idle(self, index: int, host: Host, timer: str) -> bool:
        """Whether the machine only arms timers again, or writes the same checkpoint, when this timer runs out."""
        try:
            core, effects = self._machines.handle(index, host.core, TimerFired(timer))
        except AssertionError:
            return False
        idle = (isinstance(e, SetTimer) or (isinstance(e, WriteCheckpoint) and e.entries == host.checkpoint) for e in effects)
        return core == host.core and all(idle)

    # --- changes of a host from outside ----------------------------------------------------------------------------------------

    def host_without_process(self, host: int) -> int:
        """The host after its process ended. Requests in flight to ZooKeeper (outbox) may still arrive."""
        return self._changed_host("stopped", host, 0, lambda was: _stopped_host(was))

    def host_without_timer(self, host: int, timer: str) -> int:
        """The host after a timer ran out."""
        return self._changed_host(
            "timer", host, timer, lambda was: replace(was, timers=tuple(name for name in was.timers if name != timer))
        )

    def host_with_session(self, host: int, session: int) -> int:
        """The host with a new ZooKeeper session; what was in flight to and from ZooKeeper is dropped."""
        return self._changed_host("session", host, session, lambda was: replace(was, session=session, outbox=(), inbox=()))

    def host_with_request(self, host: int, request: int) -> int:
        """The host with one more request in flight to ZooKeeper."""
        return self._changed_host(
            "ask", host, request, lambda was: replace(was, outbox=(*was.outbox, self.requests.values[request]))
        )

    def host_without_request(self, host: int) -> int:
        """The host after its oldest request arrived at ZooKeeper."""
        return self._changed_host("asked", host, 0, lambda was: replace(was, outbox=was.outbox[1:]))

    def host_with_event(self, host: int, event: int) -> int:
        """The host with one more event in flight from ZooKeeper."""
        return self._changed_host("hear", host, event, lambda was: replace(was, inbox=(*was.inbox, self.events.values[event])))

    def host_without_event(self, host: int) -> int:
        """The host after the oldest event from ZooKeeper arrived."""
        return self._changed_host("heard", host, 0, lambda was: replace(was, inbox=was.inbox[1:]))

    def _changed_host(self, what: str, host: int, by: int | str, change: Callable[[Host], Host]) -> int:
        """The host after a change; computed once for each."""
        key = (what, host, by)
        cached = self._edited.get(key)
        if cached is None:
            cached = self._edited[key] = self._parts.of(change(self.host(host)))
        return cached


def address(index: int) -> Address:
    """The address of the broker at this position."""
    return Address(f"b{index + 1}")


def _stopped_host(host: Host) -> Host:
    return replace(host, up=False, core=(), timers=(), inbox=())


def _host_after(host: Host, effect: AnyEffect) -> Host:
    """The host after an effect; effects that leave the host do not change it."""
    match effect:
        case Append() | Truncate() | CreateReplica() | DeleteReplica():
            return replace(host, logs=_logs_after(host.logs, effect))
        case WriteCheckpoint(entries=entries):
            return replace(host, checkpoint=entries)
        case MarkDir(born=born):
            return replace(host, born=born)
        case SetTimer(name=name):
            return host if name in host.timers else replace(host, timers=tuple(sorted((*host.timers, name))))
        case CancelTimer(name=name):
            return replace(host, timers=tuple(timer for timer in host.timers if timer != name)) if name in host.timers else host
        case MarkClean() | Disconnect():
            return host  # no explored process shuts down cleanly, and the explorer's client never uses acks=0
        case Send() | Note() | Flush() | ZkConnect() | ZkRequest() | Halt():
            return host
        case _:
            assert_never(effect)


def _logs_after(logs: tuple[LogImage, ...], effect: Append | Truncate | CreateReplica | DeleteReplica) -> tuple[LogImage, ...]:
    """The logs of a directory after this effect."""
    others = tuple(log for log in logs if log.tp != effect.tp)
    log_before = next((log for log in logs if log.tp == effect.tp), LogImage(effect.tp, ()))
    batches, born, topic_id = log_before.batches, log_before.born, log_before.topic_id
    match effect:
        case Append(batches=appended):
            batches += appended
        case Truncate(to=to):
            batches = tuple(batch for batch in batches if end_of(batch) <= to)
        case CreateReplica():
            born, topic_id = effect.born, effect.topic_id
        case DeleteReplica():
            return others
        case _:
            assert_never(effect)
    return (*others, LogImage(effect.tp, batches, born, topic_id))
