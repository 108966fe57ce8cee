"""A run of the simulator that stands still: it is performed in a thread of its own, which waits between two actions.

Only one of the two threads ever runs.
"""

from threading import Semaphore, Thread

from highwater.backends.sim.network import Flight
from highwater.backends.sim.node import NodeHost
from highwater.backends.sim.scheduler import MS, Scheduler
from highwater.backends.sim.world import TooManyEvents, World
from highwater.inspect.moment import Coming, Moment, Process
from highwater.inspect.playback import Playback, Stop
from highwater.plans.plan import Plan
from highwater.rig.scene import scene_of
from history.recorder import Recorder
from monitors.watch import no_watch, watch_of
from reference.log.log import end_of
from reference.node import Node


class _Steps(Scheduler):
    """A scheduler that stands still before an action, or after the last one of a span, where the playback waits."""

    __slots__ = ("_playback",)

    def __init__(self, playback: "SimPlayback") -> None:
        super().__init__()
        self._playback = playback

    def run_until(self, end_ns: int) -> None:
        heap, between = self._heap, self._playback.between
        while heap and heap[0][0] <= end_ns:
            between(heap[0][0])
            super().run_next()
        self.now = end_ns
        between(end_ns + 1)


class _Abandoned(BaseException):
    """Ends the thread of a playback that nobody needs any more."""


class SimPlayback(Playback):
    """Performs a plan of the simulator. `watched`: by the rules, which take a quarter of the time and only record broken ones."""

    def __init__(self, plan: Plan, *, watched: bool = True) -> None:
        self._world = World(scene_of(plan), scheduler=_Steps(self), watch=watch_of if watched else no_watch)
        self._stop: Stop = lambda next_ns: True
        self._go, self._stands = Semaphore(0), Semaphore(0)
        self._error: Exception | None = None
        self._abandoned = False
        self._thread = Thread(target=self._perform, daemon=True)
        self._thread.start()
        self._wait()

    def close(self) -> None:
        """End the performance where it stands."""
        if not self.ended:
            self._abandoned = True
            self._go.release()
        self._thread.join()

    @property
    def now_ns(self) -> int:
        """The virtual time of the moment."""
        return self._world.sim.scheduler.now

    @property
    def recorder(self) -> Recorder:
        """The rows that the run has recorded."""
        return self._world.sim.recorder

    def moment(self) -> Moment:
        """The run as it stands; to be read before it goes on."""
        world = self._world
        return Moment(
            time_ns=self.now_ns,
            rows=self.row_count,
            processes=[_process(host) for host in world.nodes.values()],
            znodes=world.server.tree.nodes,
            coming=[_coming(flight, self.now_ns) for flight in world.sim.network.flights()],
            clients=[client.address for client in world.clients],
        )

    def run(self, stop: Stop) -> None:
        """Go on until `stop` or the end of the run; no action if `stop` holds already."""
        if self.ended or stop(self.next_ns):
            return
        self._stop = stop
        self._go.release()
        self._wait()

    def _wait(self) -> None:
        self._stands.acquire()
        if self._error is not None:
            raise self._error

    def _perform(self) -> None:
        try:
            self.between(0)
            self._world.play()
        except (_Abandoned, TooManyEvents):  # a run of too many events ends where it stands
            pass
        except Exception as error:  # noqa: BLE001 - whatever it is, the thread that waits raises it
            self._error = error  # raised by the thread that waits
        self.ended = True
        self._stands.release()

    def between(self, next_ns: int) -> None:
        """Stand still here if the reader wants to; called by the scheduler before each action."""
        if self.calls is not None:
            self.calls.end()
        self.actions += 1
        if not self._stop(next_ns):
            return
        self.next_ns = next_ns
        self._stands.release()
        self._go.acquire()
        if self._abandoned:
            raise _Abandoned
        if self.calls is not None:
            self.calls.begin()


def _process(host: NodeHost) -> Process:
    return Process(
        name=host.address,
        up=host.up,
        paused=host.paused,
        life=host.life,
        state=host.machine.state if isinstance(host.machine, Node) else None,
        now=host.clock.now(),
        timers=host.timers.due_ms() if host.up else {},
        logs={
            tp: end_of(log.batches[-1]) if log.batches else 0
            for directory in host.disk.dirs
            for tp, log in sorted(directory.logs.items())
        },
    )


def _coming(flight: Flight, now_ns: int) -> Coming:
    if flight.waits:
        when = "has arrived, and waits for one that was sent before it"
    else:
        when = "held back by a fault" if flight.due_ns is None else f"in {(flight.due_ns - now_ns) / MS:.3f} ms"
    return Coming(source=flight.source, target=flight.target, payload=flight.payload, when=when)
