"""Drives one protocol machine on an asyncio loop: delivers events to it and performs its effects.

Events are handled one at a time, in the order of their arrival; the effects of one event are performed before the next event is
handled. When a log directory fails, the machine gets DirFailed as its next event (`reference.performing`). An assertion that
fails inside the machine is noted and ends the node.

The machine sees only the header of each record batch. It accepts or refuses a batch within the event that brought it, so this
module keeps the records of the current event for its Append and Note effects. Batches to be sent are read from the log.
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
from server.disk.log_dirs import Disk
from server.runtime.timers import Timers

SWEEP_S = 1.0  # from the deletion of a replica to the removal of its files


class Handles(Protocol):
    """Interface of a protocol machine: it handles events and returns effects."""

    def handle(self, event: AnyEvent, *, now: Now) -> Sequence[AnyEffect]:
        """Let the protocol machine handle one event; returns the effects to perform, in order."""


class Network(Protocol):
    """Interface that performs a machine's Send and Disconnect effects."""

    def send(self, to: Address, message: AnyMessage) -> None:
        """Send a message, or drop it if it cannot be sent; never blocks."""

    def disconnect(self, peer: Address) -> None:
        """Break the connection that this peer opened, if there is one."""


class Coordination(Protocol):
    """Interface that performs a machine's ZkConnect and ZkRequest effects over a ZooKeeper client."""

    def connect(self) -> None:
        """Open a new ZooKeeper session; the machine hears of it by an event."""

    def request(self, request_id: int, ops: tuple[AnyOp, ...], *, atomic: bool) -> None:
        """Perform ZooKeeper operations in order; `atomic` performs all or none."""


def clock() -> Now:
    """The monotonic and the wall clock of this machine, in ms."""
    return Now(Millis(time.monotonic_ns() // 1_000_000), Millis(time.time_ns() // 1_000_000))


class Host:
    """Drives one protocol machine. Call every method on the loop's thread; `stopped` is called once, with the reason."""

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
        self._is_over = False
        self._records: dict[Values, bytes] = {}  # whole batches of the current event, by header
        self._flushers: dict[int, ThreadPoolExecutor] = {}  # one thread for each directory: its flushes finish in order
        self._network: Network | None = None
        self._coordination: Coordination | None = None

    def start(self, network: Network, coordination: Coordination) -> None:
        """Deliver Booted as the machine's first event, then the events that arrived before this call."""
        self._network = network
        self._coordination = coordination
        self._inbox.appendleft(Booted())  # listeners are open already, so requests may have arrived
        self._drain()

    def deliver(self, event: AnyEvent) -> None:
        """Queue an event for the protocol machine; handled at once if the machine has started and is idle."""
        self._inbox.append(event)
        if self._network is not None:
            self._drain()

    def _drain(self) -> None:
        """Handle queued events one by one; a nested call leaves them to the running one."""
        if self._busy:
            return
        self._busy = True
        try:
            while self._inbox and not self._is_over:
                self._handle(self._inbox.popleft())
        except BaseException:
            # The event is half performed. Callbacks that are ready in this round of the loop must not reach the machine.
            self._is_over = True
            raise
        finally:
            self._busy = False

    def stop(self, reason: str) -> None:
        """Handle no more events and effects; wait for running flushes and report the reason."""
        if self._is_over:
            return
        self._is_over = True
        self._timers.cancel_all()
        for flusher in self._flushers.values():
            flusher.shutdown(wait=True)
        self._stopped(reason)

    # --- events ------------------------------------------------------------------------------------------------------------

    def received(self, source: Address, message: AnyMessage) -> None:
        """Deliver a message of a broker or client to the protocol machine."""
        self.deliver(Received(source, message))

    def connection_lost(self, peer: Address) -> None:
        """Tell the protocol machine that the connection to a peer, or of a client, broke."""
        self.deliver(ConnectionLost(peer))

    def replied(self, request_id: int, answers: tuple[AnyAnswer, ...]) -> None:
        """Deliver an answer of ZooKeeper to the protocol machine."""
        self.deliver(ZkReplied(request_id, answers))

    def watch_fired(self, path: str, change: Change) -> None:
        """Deliver a watch event of ZooKeeper to the protocol machine."""
        self.deliver(ZkWatch(path, change))

    def state_changed(self, state: SessionState, session: int) -> None:
        """Tell the protocol machine of a change of its ZooKeeper session."""
        self.deliver(ZkState(state, session))

    # --- one event ---------------------------------------------------------------------------------------------------------

    def _handle(self, event: AnyEvent) -> None:
        """Hand one event to the machine and perform its effects; a failed assertion halts the broker."""
        if isinstance(event, Received):
            message, self._records = without_records(event.message)
            event = Received(event.source, message)
        try:
            effects = self._machine.handle(event, now=self._clock())
        except AssertionError as error:
            self._note(Note(kind="assertion", detail=_place_and_message(error)))
            self.stop("halt:assertion")
            return
        failed = perform(effects, self._perform_or_error, self._disk.replicas_in, lambda: not self._is_over)
        self._inbox.extendleft(reversed(failed))
        self._records = {}

    def _perform_or_error(self, effect: AnyEffect) -> str | None:
        """Perform an effect; the words of the error where the disk refuses."""
        try:
            self._perform(effect)
        except OSError as error:
            return str(error)
        return None

    def _perform(self, effect: AnyEffect) -> None:
        """Perform one effect of the machine."""
        assert self._network is not None
        assert self._coordination is not None
        match effect:
            case Send():
                self._send(effect.to, effect.message)
            case Disconnect():
                self._network.disconnect(effect.peer)
            case CreateReplica():
                self._disk.create(effect.dir, effect.tp, effect.born, effect.topic_id, created=effect.created)
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
        """Replace the header of each batch of the current event by the whole batch."""
        return tuple(replace(batch, values=self._records.get(batch.values, batch.values)) for batch in batches)

    def _send(self, to: Address, message: AnyMessage) -> None:
        """Send a message; the batches of a fetch reply get their records from the disk, and a disk error is an event."""
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

    def _flusher_of(self, dir_: int) -> ThreadPoolExecutor:
        """The thread that flushes this directory, started when it is first needed."""
        if dir_ not in self._flushers:
            self._flushers[dir_] = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"flush-{dir_}")
        return self._flushers[dir_]

    def _sweep(self, dir_: int) -> None:
        if not self._is_over:
            self._loop.run_in_executor(None, self._disk.sweep_job(dir_)).add_done_callback(partial(self._on_swept, dir_))

    def _on_swept(self, dir_: int, future: asyncio.Future[None]) -> None:
        """Report the directory as failed if the sweep of its deleted replicas failed."""
        error = None if future.cancelled() else future.exception()
        if error is not None:
            self.deliver(DirFailed(dir_, str(error)))

    def _flush(self, effect: Flush) -> None:
        future = self._flusher_of(effect.dir).submit(self._disk.flush_job(effect.dir))
        future.add_done_callback(partial(self._on_flushed, effect))

    def _on_flushed(self, effect: Flush, future: Future[None]) -> None:
        """On the flushing thread: give the event loop the result of a flush."""
        error = future.exception()
        event = Flushed(effect.dir, effect.id) if error is None else DirFailed(effect.dir, str(error))
        self._loop.call_soon_threadsafe(self._flush_answered, event)

    def _flush_answered(self, event: Flushed | DirFailed) -> None:
        self.deliver(event)


def without_records(message: AnyMessage) -> tuple[AnyMessage, dict[Values, bytes]]:
    """Strip a message's record batches to their headers, as the machine reads them; also returns the whole batches."""
    match message:
        case Produce(values=bytes(whole)):
            header = whole[:HEADER_BYTES]
            return replace(message, values=header), {header: whole}
        case FetchReply(batches=batches) if batches:
            bytes_by_header: dict[Values, bytes] = {
                b.values[:HEADER_BYTES]: b.values for b in batches if isinstance(b.values, bytes)
            }
            bare = tuple(replace(batch, values=batch.values[:HEADER_BYTES]) for batch in batches)
            return replace(message, batches=bare), bytes_by_header
        case _:
            return message, {}


def _place_and_message(error: AssertionError) -> str:
    """Format a failed assertion in one line: module:line and message."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = "" if trace is None else f"{trace.tb_frame.f_globals.get('__name__', '?')}:{trace.tb_lineno}"
    return f"{place} {error}".strip()
