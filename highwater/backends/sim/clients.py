"""Simulated clients: each has a Kafka client and an admin client, and at most one open operation."""

from collections.abc import Sequence
from functools import partial
from typing import assert_never

from highwater.backends.sim.clock import Clock
from highwater.backends.sim.scheduler import MS
from highwater.backends.sim.simulation import Simulation
from highwater.backends.sim.timers import Timers
from highwater.backends.sim.zk import ZooKeeper
from highwater.backends.sim.zk_client import ZkClient
from highwater.rig.administration import AdminCommand, AlterConfig
from highwater.rig.attempts import ADMIN_TIMEOUT_MS, Attempts, OwnCall, Reply, reply_of
from highwater.rig.scene import Scene
from highwater.rig.sessions import SessionCall
from reference.client.admin import TIMER as ADMIN_TIMER
from reference.client.admin import Admin
from reference.client.calls import Answered, Call
from reference.client.client import Client
from reference.client.commands import Command
from reference.effects import CancelTimer, Send, SetTimer, ZkConnect, ZkRequest
from reference.events import AnyEvent, TimerFired, ZkReplied, ZkState, ZkWatch
from reference.types import Address, Millis
from workloads.client import Done, Invocation, Phase, Sleep

_ADMIN_TIMER_FIRED = TimerFired(ADMIN_TIMER)
_FROM_ZOOKEEPER = (ZkState, ZkReplied, ZkWatch)


class ClientHost:
    """A simulated client process, which no fault stops. `idle`: its workload has finished the phase."""

    def __init__(self, sim: Simulation, server: ZooKeeper, scene: Scene, number: int) -> None:
        self.address = Address(f"c{number}")
        self.place = scene.client_places[number]
        self.life = 1
        self.up = True
        self.idle = True
        self.phase: Phase = "faults"
        self._sim = sim
        self._zero_ns = 0
        self._attempts = Attempts(sim.recorder, scene.processes[number], number, processes=len(scene.processes))
        brokers = scene.brokers
        first = number % len(scene.brokers)
        timeout_ms = Millis(scene.plan.workload.request_timeout_ms)
        self._client = Client.boot(self.address, brokers[first:] + brokers[:first], request_timeout_ms=timeout_ms)
        # A lost ZooKeeper session hides the outcome of a command no longer than the session timeout.
        self._admin = Admin(timeout_ms=Millis(ADMIN_TIMEOUT_MS))
        self._zk = ZkClient(self, server, sim, timeout_ms=scene.plan.cluster.session_timeout_ms)
        self._clock = Clock(sim.scheduler, monotonic_ns=0)
        self._timers = Timers(sim.scheduler, sim.draws, self._clock, owner=self.address, fire=self._ring)

    def begin(self, phase: Phase, *, zero_ns: int) -> None:
        """Begin a phase of the workload; `zero_ns` is the virtual time at which the workload started."""
        self.phase = phase
        self._zero_ns = zero_ns
        if self.idle:
            self.idle = False
            self._start_next_operation()

    def take(self, source: str, event: AnyEvent) -> None:
        """Hand an event to the simulated client's machine."""
        self._sim.handled += 1
        if isinstance(event, _FROM_ZOOKEEPER) or event == _ADMIN_TIMER_FIRED:
            self._perform_effects(self._admin.handle(event))
        else:
            self._perform_effects(self._client.handle(event, now=self._clock.now()))

    def run(self, source: str, action: "partial[None]") -> None:
        """Run an action inside the simulated client."""
        action()

    def later(self, delay_ns: int, source: str, action: "partial[None]") -> None:
        """Run an action inside the simulated client after a delay."""
        self._sim.scheduler.after(delay_ns, action)

    def _ring(self, name: str) -> None:
        self.take(self.address, TimerFired(name))

    def _start_next_operation(self) -> None:
        """Ask the workload process of this client for its next operation."""
        if self._attempts.open is not None:
            return
        now_ms = (self._sim.scheduler.now - self._zero_ns) // MS
        match self._attempts.process.next(now_ms=now_ms, phase=self.phase):
            case Invocation() as invocation:
                self._sim.handled += 1
                self._start_call(self._attempts.begin(invocation))
            case Sleep(ms=ms):
                self._sim.scheduler.after(max(1, ms) * MS, self._start_next_operation)
            case Done():
                self.idle = True
            case unexpected:
                assert_never(unexpected)

    def _start_call(self, call: Call | AdminCommand | SessionCall | OwnCall) -> None:
        """Hand the call to the admin client or the Kafka client; what the process does by itself has ended."""
        assert not isinstance(call, SessionCall | AlterConfig), "SimBackend.refuse refuses these plans before the run"
        if isinstance(call, OwnCall):
            self._end(Reply(id=call.id))
        elif isinstance(call, Command):
            self._perform_effects(self._admin.start(call))
        else:
            self._perform_effects(self._client.start(call, now=self._clock.now()))

    def _perform_effects(self, outputs: Sequence[object]) -> None:
        """Perform the effects of a client machine; an answer ends the open operation."""
        for output in outputs:
            match output:
                case Send():
                    self._sim.transport.send(self, output.to, output.message)
                case SetTimer():
                    self._timers.arm(output)
                case CancelTimer():
                    self._timers.cancel(output.name)
                case ZkConnect():
                    self._zk.connect()
                case ZkRequest():
                    self._zk.ask(output)
                case Answered():
                    self._end(reply_of(output))
                case _:
                    raise AssertionError(f"a simulated client cannot perform the effect {output}")

    def _end(self, outcome: Reply) -> None:
        """End the open operation; the next one begins behind the effects that still belong to it."""
        self._attempts.end(outcome)
        self._sim.scheduler.after(0, self._start_next_operation)
