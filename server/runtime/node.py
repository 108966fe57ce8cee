"""One node as a process: an asyncio loop that owns a machine, tells it what happened and performs what it asks for.

Events are handled one at a time, in the order in which they came; the effects of one are performed before the next is taken.
What a log directory refuses is told to the machine next (`reference.performing`). An assertion that fails inside the machine is
noted and ends the node: such a node must not go on.

Of a record batch the machine is given the header. Whoever sends records is answered or refused within one event, so that the
records wait here for its Append and for its note; where a batch leaves the machine they are read from the log.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Protocol, assert_never

from msgspec.structs import replace

from reference.coordination.api import AnyAnswer, AnyOp, Change, SessionState
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
from reference.events import (
    AnyEvent,
    Booted,
    ConnectionLost,
    DirFailed,
    Flushed,
    Received,
    TimerFired,
    ZkReplied,
    ZkState,
    ZkWatch,
)
from reference.machine import Now
from reference.messages import AnyMessage, Batch, FetchReply, Produce
from reference.performing import perform
from reference.sealed import HEADER_BYTES, Values
from reference.types import Address, Millis
from server.disk.disk import Disk
from server.runtime.timers import Timers

SWEEP_S = 1.0  # how long the files of a deleted replica stay


class Handles(Protocol):
    """What the runtime asks of a machine."""

    def handle(self, event: AnyEvent, *, now: Now) -> Sequence[AnyEffect]:
        """Take one event and return what is to be done, in order."""


class Network(Protocol):
    """Where Send goes."""

    def send(self, to: Address, message: AnyMessage) -> None:
        """Send or drop."""

    def disconnect(self, peer: Address) -> None:
        """Break the connection that this peer opened, if there is one."""


class Coordination(Protocol):
    """Where ZkConnect and ZkRequest go."""

    def connect(self) -> None:
        """Open a session."""

    def request(self, request_id: int, ops: tuple[AnyOp, ...], *, atomic: bool) -> None:
        """Perform operations."""


def clock() -> Now:
    """The clocks of this machine."""
    return Now(Millis(time.monotonic_ns() // 1_000_000), Millis(time.time_ns() // 1_000_000))


class Host:
    """Drives one machine. Every method belongs to the loop's thread; `stopped` is called once, with the reason."""

    def __init__(
        self,
        machine: Handles,
        disk: Disk,
        *,
        loop: asyncio.AbstractEventLoop,
        note: Callable[[Note], None],
        stopped: Callable[[str], None],
        clock: Callable[[], Now] = clock,
    ) -> None:
        self._machine = machine
        self._disk = disk
        self._loop = loop
        self._note = note
        self._stopped = stopped
        self._clock = clock
        self._timers = Timers(loop, lambda name: self.deliver(TimerFired(name)))
        self._inbox: deque[AnyEvent] = deque()
        self._busy = False
        self._over = False
        self._records: dict[Values, bytes] = {}  # of the event at hand: whole batches by their headers
        self._flushers: dict[int, ThreadPoolExecutor] = {}  # one thread for each directory: flushes end in their order
        self._network: Network | None = None
        self._coordination: Coordination | None = None

    def start(self, network: Network, coordination: Coordination) -> None:
        """Begin the life of the machine."""
        self._network = network
        self._coordination = coordination
        self._inbox.appendleft(Booted())  # listeners are open already, and somebody may have asked
        self._drain()

    def deliver(self, event: AnyEvent) -> None:
        """Tell the machine, once it has started, after all that was delivered before."""
        self._inbox.append(event)
        if self._network is not None:
            self._drain()

    def _drain(self) -> None:
        if self._busy:
            return
        self._busy = True
        try:
            while self._inbox and not self._over:
                self._handle(self._inbox.popleft())
        except BaseException:
            # Broken off in the middle of an event: what is ready in the same round of the loop must not find half of it.
            self._over = True
            raise
        finally:
            self._busy = False

    def stop(self, reason: str) -> None:
        """Nothing is handled or performed any more."""
        if self._over:
            return
        self._over = True
        self._timers.cancel_all()
        for flusher in self._flushers.values():
            flusher.shutdown(wait=True)
        self._stopped(reason)

    # --- what the world says -----------------------------------------------------------------------------------------------

    def received(self, source: Address, message: AnyMessage) -> None:
        """A message came in."""
        self.deliver(Received(source, message))

    def connection_lost(self, peer: Address) -> None:
        """The connection to a peer, or of a client, broke."""
        self.deliver(ConnectionLost(peer))

    def replied(self, request_id: int, answers: tuple[AnyAnswer, ...]) -> None:
        """ZooKeeper answered."""
        self.deliver(ZkReplied(request_id, answers))

    def watch_fired(self, path: str, change: Change) -> None:
        """A watch fired."""
        self.deliver(ZkWatch(path, change))

    def state_changed(self, state: SessionState, session: int) -> None:
        """The ZooKeeper session changed."""
        self.deliver(ZkState(state, session))

    # --- one event ---------------------------------------------------------------------------------------------------------

    def _handle(self, event: AnyEvent) -> None:
        if isinstance(event, Received):
            message, self._records = without_records(event.message)
            event = Received(event.source, message)
        try:
            effects = self._machine.handle(event, now=self._clock())
        except AssertionError as error:
            self._note(Note(kind="assertion", detail=_where(error)))
            self.stop("halt:assertion")
            return
        failed = perform(effects, self._attempt, self._disk.replicas_in, lambda: not self._over)
        self._inbox.extendleft(reversed(failed))
        self._records = {}

    def _attempt(self, effect: AnyEffect) -> str | None:
        try:
            self._perform(effect)
        except OSError as error:
            return str(error)
        return None

    def _perform(self, effect: AnyEffect) -> None:
        assert self._network is not None
        assert self._coordination is not None
        match effect:
            case Send():
                self._send(effect.to, effect.message)
            case Disconnect():
                self._network.disconnect(effect.peer)
            case CreateReplica():
                self._disk.create(effect.dir, effect.tp, effect.born, effect.topic_id)
            case MarkDir():
                self._disk.mark(effect.dir, effect.born, effect.dirs)
            case MarkClean():
                self._disk.mark_clean(effect.dir, clean=effect.clean)
            case DeleteReplica():
                self._disk.delete(effect.dir, effect.tp)
                self._loop.call_later(SWEEP_S, self._sweep, effect.dir)
            case Append():
                self._disk.append(effect.dir, effect.tp, self._whole(effect.batches))
            case Truncate():
                self._disk.truncate(effect.dir, effect.tp, effect.to)
            case Flush():
                self._flush(effect)
            case WriteCheckpoint():
                self._disk.write_checkpoint(effect.dir, effect.entries)
            case SetTimer():
                self._timers.set(effect.name, effect.lo_ms, effect.hi_ms)
            case CancelTimer():
                self._timers.cancel(effect.name)
            case ZkConnect():
                self._coordination.connect()
            case ZkRequest():
                self._coordination.request(effect.id, effect.ops, atomic=effect.atomic)
            case Halt():
                self.stop(f"halt:{effect.reason}")
            case Note():
                self._note(replace(effect, batches=self._whole(effect.batches)) if effect.batches else effect)
            case _:
                assert_never(effect)

    def _whole(self, batches: tuple[Batch, ...]) -> tuple[Batch, ...]:
        """Batches that came with the event at hand, with their records."""
        return tuple(replace(batch, values=self._records.get(batch.values, batch.values)) for batch in batches)

    def _send(self, to: Address, message: AnyMessage) -> None:
        assert self._network is not None
        if isinstance(message, FetchReply) and message.batches:
            dir_ = self._disk.dir_of(message.tp)
            try:
                whole = self._disk.with_records(dir_, message.tp, message.batches)
            except OSError as error:
                self._inbox.append(DirFailed(dir_, str(error)))
                return
            batches = tuple(replace(batch, values=data) for batch, data in zip(message.batches, whole, strict=True))
            message = replace(message, batches=batches)
        self._network.send(to, message)

    def _flusher(self, dir_: int) -> ThreadPoolExecutor:
        if dir_ not in self._flushers:
            self._flushers[dir_] = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"flush-{dir_}")
        return self._flushers[dir_]

    def _sweep(self, dir_: int) -> None:
        if not self._over:
            self._loop.run_in_executor(None, self._disk.sweep_job(dir_)).add_done_callback(partial(self._swept, dir_))

    def _swept(self, dir_: int, future: asyncio.Future[None]) -> None:
        error = None if future.cancelled() else future.exception()
        if error is not None:
            self.deliver(DirFailed(dir_, str(error)))

    def _flush(self, effect: Flush) -> None:
        future = self._flusher(effect.dir).submit(self._disk.flush_job(effect.dir))
        future.add_done_callback(partial(self._flush_done, effect))

    def _flush_done(self, effect: Flush, future: Future[None]) -> None:
        error = future.exception()
        event = Flushed(effect.dir, effect.id) if error is None else DirFailed(effect.dir, str(error))
        self._loop.call_soon_threadsafe(self._flush_answered, event)

    def _flush_answered(self, event: Flushed | DirFailed) -> None:
        self.deliver(event)


def without_records(message: AnyMessage) -> tuple[AnyMessage, dict[Values, bytes]]:
    """A message with the headers of its batches, and the whole batches by their headers."""
    match message:
        case Produce(values=bytes(whole)):
            header = whole[:HEADER_BYTES]
            return replace(message, values=header), {header: whole}
        case FetchReply(batches=batches) if batches:
            found: dict[Values, bytes] = {b.values[:HEADER_BYTES]: b.values for b in batches if isinstance(b.values, bytes)}
            bare = tuple(replace(batch, values=batch.values[:HEADER_BYTES]) for batch in batches)
            return replace(message, batches=bare), found
        case _:
            return message, {}


def _where(error: AssertionError) -> str:
    """The assertion in one line: where it stands and what it says."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "" if trace is None else f"{trace.tb_frame.f_globals.get('__name__', '?')}:{trace.tb_lineno}"
    return f"{place} {error}".strip()
