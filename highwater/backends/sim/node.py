"""One simulated broker process: runs the broker machine, performs its effects, and can be killed and paused.

A process is `up`, perhaps `paused`, or down. Events for a paused process wait; on resume they come in drawn order, but in order
from each source. A failed assertion of the machine is recorded and ends the process. The machine is told at once of an effect
that a directory refuses (`reference.performing`).
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol, assert_never

from highwater.backends.sim.clock import Clock
from highwater.backends.sim.disk import Disk, Mark
from highwater.backends.sim.scheduler import MS
from highwater.backends.sim.simulation import Simulation
from highwater.backends.sim.timers import Timers
from highwater.backends.sim.traps import Trap
from highwater.backends.sim.zk import ZooKeeper
from highwater.backends.sim.zk_client import ZkClient
from highwater.rig.evidence import Notebook
from highwater.rig.topics import written
from history.event import EventKind
from monitors.engine import Watch
from monitors.watch import watch_of
from reference.config import BrokerConfig
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
from reference.events import AnyEvent, Booted, DirFailed, DirImage, Flushed, TimerFired
from reference.machine import Now
from reference.performing import perform
from reference.types import Address, broker_address, index_of, topic_of

BOOT_CLOCK_NS_MAX = 10**15  # a monotonic clock starts at a drawn time up to this
WALL_OFFSET_NS_MAX = 10**7  # correct wall clocks differ by up to this
AMBUSH_NS = 5 * MS
FAILURES_MAX = 100  # consecutive failures of directories; more are taken for an endless loop
_SELF = "self"  # source of timers and of the disk


class Handler(Protocol):
    """A broker machine as its simulated process sees it."""

    def handle(self, event: AnyEvent, *, now: Now) -> list[AnyEffect]:
        """Let the broker machine handle one event; return the effects that the process must perform."""


Boot = Callable[[BrokerConfig, tuple[DirImage, ...], int], Handler]
Watching = Callable[[BrokerConfig], Watch]  # the rules by which one life of a broker is judged while it goes on


class NodeHost:
    """A simulated broker process, with the clock, disk and address that it keeps over restarts."""

    def __init__(
        self,
        sim: Simulation,
        server: ZooKeeper,
        config: BrokerConfig,
        boot: Boot,
        *,
        durable: frozenset[str] = frozenset(),
        watch: Watching = watch_of,
    ) -> None:
        """`durable`: the topics whose promise counts on flushes; rows say up to where their logs are flushed."""
        self.address: Address = broker_address(config.broker)
        self.config = config
        self.life = 0
        self.up = False
        self.paused = False
        self.wrong = False  # an assertion failed; the node is not started again
        self.failed_dirs = False  # this life was told of a directory that failed
        self.machine: Handler | None = None
        self.event: AnyEvent | None = None  # the one that the machine handles, or has handled last
        self._sim = sim
        self._server = server
        self._boot = boot
        self._events_waiting: dict[str, deque[partial[None]]] = {}  # by source, while paused
        self._ambush: partial[None] | None = None
        self.traps: list[Trap] = []
        self.disk = Disk(self.address, config.log_dirs, sim.draws, sim.flush_ns)
        self.clock = Clock(
            sim.scheduler,
            monotonic_ns=sim.draws.below(f"clock {self.address}", BOOT_CLOCK_NS_MAX),
            wall_offset_ns=sim.draws.below(f"wall {self.address}", WALL_OFFSET_NS_MAX),
        )
        self.zk = ZkClient(self, server, sim, timeout_ms=config.session_timeout_ms)
        self.timers = Timers(sim.scheduler, sim.draws, self.clock, owner=self.address, fire=self._ring)
        self.notes = Notebook(sim.recorder, self.address)
        self._new_watch = watch
        self._watch: Watch  # of this life
        self._durable = durable

    # --- life and death -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the simulated broker with the data on its disk; do nothing if it runs already."""
        if self.up:
            return
        self.life += 1
        self.up = True
        image = self.disk.image()
        self.failed_dirs = not all(dir_image.readable for dir_image in image)
        self.zk = ZkClient(self, self._server, self._sim, timeout_ms=self.config.session_timeout_ms)
        self.timers = Timers(self._sim.scheduler, self._sim.draws, self.clock, owner=self.address, fire=self._ring)
        self.notes.life = self.life
        self._watch = self._new_watch(self.config)
        self._sim.recorder.event(EventKind.NODE_STARTED, node=self.address, life=self.life)
        for index in range(len(self.disk.dirs)):
            self._note_flushed(index)  # a power loss may have spared what was never flushed
        try:
            self.machine = self._boot(self.config, image, self.life)
        except AssertionError as error:
            self._halt_on(error)
            return
        self._handle(Booted())

    def stop(self, reason: str, *, silent_ns: int | None = None) -> None:
        """End the broker process; do nothing if it is down. `silent_ns`: as if its host died, peers notice only later."""
        if not self.up:
            return
        self.up = False
        self.paused = False
        self._events_waiting.clear()
        self.machine = None
        self.timers.cancel_all()
        self.zk.died()
        self._sim.transport.ended(self.address, silent_ns=silent_ns)
        self._sim.recorder.event(EventKind.NODE_STOPPED, node=self.address, life=self.life, detail=reason)

    def ambush(self, blow: "partial[None]") -> None:
        """End the broker process, by `blow`, at a random moment: at once, or between two effects within a few ms."""
        if not self.up or self.paused or self._sim.draws.ratio(f"ambush {self.address}", 1, 2):
            blow()
            return
        self.spring()
        self._ambush = blow
        self._sim.scheduler.after(AMBUSH_NS, self._spring, blow)

    def spring(self) -> None:
        """End the broker process now if `ambush` has scheduled its end for later."""
        if self._ambush is not None:
            self._spring(self._ambush)

    def _spring(self, blow: "partial[None]") -> None:
        if self._ambush is blow:
            self._ambush = None
            blow()

    def pause(self) -> None:
        """Pause the broker process; do nothing if it is down."""
        self.paused = self.up

    def resume(self) -> None:
        """Resume a paused broker. It first handles the events that waited, in an order drawn by source."""
        self.paused = False
        waiting, self._events_waiting = self._events_waiting, {}
        life = self.life
        while waiting and self.life == life and self.up:
            sources = list(waiting)
            source = sources[self._sim.draws.below(f"resume {self.address}", len(sources))]
            action = waiting[source].popleft()
            if not waiting[source]:
                del waiting[source]
            action()

    def _halt_on(self, error: AssertionError) -> None:
        self.wrong = True
        self._sim.recorder.event(EventKind.ASSERTION, node=self.address, life=self.life, detail=_assertion_in_words(error))
        self.stop("halt:assertion")

    # --- events -----------------------------------------------------------------------------------------------------------------

    def take(self, source: str, event: AnyEvent) -> None:
        """Hand an event to the broker machine; while the process is paused, the event waits."""
        if self.paused:
            self._events_waiting.setdefault(source, deque()).append(partial(self._handle, event))
        elif self.up:
            self._handle(event)

    def run(self, source: str, action: "partial[None]") -> None:
        """Run an action inside the broker process; while it is paused, the action waits."""
        if self.paused:
            self._events_waiting.setdefault(source, deque()).append(action)
        elif self.up:
            action()

    def later(self, delay_ns: int, source: str, action: "partial[None]") -> None:
        """Run an action inside the broker process after a delay, unless it has ended or restarted by then."""
        self._sim.scheduler.after(delay_ns, self._run_in, self.life, source, action)

    def _run_in(self, life: int, source: str, action: "partial[None]") -> None:
        if self.life == life:
            self.run(source, action)

    def _ring(self, name: str) -> None:
        self.take(f"timer {name}" if self.paused else _SELF, TimerFired(name))

    def _handle(self, event: AnyEvent, failures: int = 0) -> None:
        """Hand an event to the machine and perform its effects; an ambush crashes the broker between two of them."""
        machine = self.machine
        if machine is None:
            return
        self._sim.handled += 1
        self.event = event
        try:
            effects = machine.handle(event, now=self.clock.now())
            assert failures < FAILURES_MAX
        except AssertionError as error:
            self._halt_on(error)
            return
        for broken in self._watch.turn(event, effects):
            self.notes.write(broken)
        if self._ambush is not None and len(effects) > 1:
            # A crash may fall between any two effects.
            self._perform_all(machine, effects[: self._survive(len(effects))], failures)
            self.spring()
        else:
            self._perform_all(machine, effects, failures)

    # --- effects --------------------------------------------------------------------------------------------------------------

    def _survive(self, effects: int) -> int:
        return 1 + self._sim.draws.below(f"ambush {self.address}", effects - 1)

    def _perform_all(self, machine: Handler, effects: list[AnyEffect], failures: int) -> None:
        """Perform effects; for a directory that fails, the machine gets an event, and the rest of its effects is dropped."""
        attempt = self._perform_unless_trapped if self.traps else self._perform
        for failed in perform(effects, attempt, self.disk.replicas_in, lambda: self.machine is machine):
            if self.machine is machine:
                self.failed_dirs = True
                self._handle(failed, failures + 1)

    def _perform_unless_trapped(self, effect: AnyEffect) -> str | None:
        """Perform an effect unless a crash point ends the process before it; returns a log directory's error."""
        trap = next((trap for trap in self.traps if trap.springs(effect)), None)
        if trap is not None and trap.before:
            trap.strike(effect)
        if not self.up:
            return None
        error = self._perform(effect)
        if trap is not None and not trap.before:
            trap.strike(effect)
        return error

    def _perform(self, effect: AnyEffect) -> str | None:
        """Perform an effect. Returns the error where a directory refuses."""
        match effect:
            case Send():
                self._sim.transport.send(self, effect.to, effect.message)
            case Disconnect():
                self._sim.transport.reset(effect.peer, self.address)
            case Note():
                self.notes.write(effect)
            case SetTimer():
                self.timers.arm(effect)
            case Append() | Truncate() | CreateReplica() | MarkDir() | MarkClean() | DeleteReplica() | WriteCheckpoint():
                return self.disk.perform(effect)
            case CancelTimer():
                self.timers.cancel(effect.name)
            case Flush():
                return self._begin_flush(effect)
            case ZkRequest():
                self.zk.ask(effect)
            case ZkConnect():
                self.zk.connect()
            case Halt():
                self.stop(f"halt:{effect.reason}")
            case _:
                assert_never(effect)
        return None

    def _begin_flush(self, effect: Flush) -> str | None:
        """Begin a flush, which ends after a drawn time; the error if the directory refuses."""
        error = self.disk.refuses(effect.dir, needs_room=False)
        if error is not None:
            return error
        mark = self.disk.flush_mark(effect.dir)
        self.later(self.disk.flush_delay_ns(effect.dir), _SELF, partial(self._on_flushed, effect, mark))
        return None

    def _on_flushed(self, effect: Flush, mark: Mark) -> None:
        """The flush ends: its bytes are durable, unless the directory failed meanwhile."""
        error = self.disk.refuses(effect.dir, needs_room=False)
        if error is not None:  # the directory failed during the flush: nothing became durable
            self.failed_dirs = True
            self._handle(DirFailed(effect.dir, error))
            return
        self.disk.flushed(effect.dir, mark)
        self._note_flushed(effect.dir)
        self._handle(Flushed(effect.dir, effect.id))

    def _note_flushed(self, index: int) -> None:
        """Record up to where the logs in a directory are durable, where that has changed and the promise counts on it."""
        if not self._durable:
            return
        for tp, topic_id, end in self.disk.durable_ends(index):
            topic = topic_of(tp)
            if topic in self._durable:
                self._sim.recorder.event(
                    EventKind.FLUSHED,
                    node=self.address,
                    life=self.life,
                    topic=topic,
                    topic_id=written(topic_id),
                    partition=index_of(tp),
                    dir=index,
                    offset=end,
                )


def _assertion_in_words(error: AssertionError) -> str:
    """Format a failed assertion with its module and line, without a file path."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "" if trace is None else f"{trace.tb_frame.f_globals.get('__name__')}:{trace.tb_lineno}"
    return f"{where} {error}".strip()
