"""Workload processes on the stage: each is a client machine with one operation open at a time."""

from collections.abc import Sequence
from typing import assert_never

from highwater.backends.attempts import Attempts
from highwater.sim.clock import Clock
from highwater.sim.scheduler import MS
from highwater.sim.stage import Stage
from highwater.sim.timers import Timers
from reference.client.calls import Answered
from reference.client.client import Client
from reference.effects import CancelTimer, Send, SetTimer
from reference.events import AnyEvent, TimerFired
from reference.types import Address, BrokerId, Millis
from workloads.client import Done, Invocation, Phase, Process, Sleep


class ClientHost:
    """A client process; never stopped. `idle` once its workload process is done with the phase."""

    def __init__(self, stage: Stage, process: Process, number: int, *, processes: int, brokers: tuple[BrokerId, ...]) -> None:
        self.address = Address(f"c{number}")
        self.life = 1
        self.up = True
        self.idle = True
        self.phase: Phase = "faults"
        self._stage = stage
        self._zero_ns = 0
        self._attempts = Attempts(stage.recorder, process, number, processes=processes)
        first = number % len(brokers)
        timeout_ms = Millis(stage.plan.workload.request_timeout_ms)
        self._client = Client.boot(self.address, brokers[first:] + brokers[:first], request_timeout_ms=timeout_ms)
        self._clock = Clock(stage.scheduler, monotonic_ns=0)
        self._timers = Timers(stage.scheduler, stage.draws, self._clock, owner=self.address, fire=self._ring)

    def begin(self, phase: Phase, *, zero_ns: int) -> None:
        """A phase begins; `zero_ns` is when the workload began."""
        self.phase = phase
        self._zero_ns = zero_ns
        if self.idle:
            self.idle = False
            self._go_on()

    def take(self, source: str, event: AnyEvent) -> None:
        """An event for the client machine."""
        self._stage.handled += 1
        self._perform(self._client.handle(event, now=self._clock.now()))

    def _ring(self, name: str) -> None:
        self.take(self.address, TimerFired(name))

    def _go_on(self) -> None:
        """Ask the workload process what to do now."""
        if self._attempts.open is not None:
            return
        now_ms = (self._stage.scheduler.now - self._zero_ns) // MS
        match self._attempts.process.next(now_ms=now_ms, phase=self.phase):
            case Invocation() as invocation:
                self._stage.handled += 1
                self._perform(self._client.start(self._attempts.begin(invocation), now=self._clock.now()))
            case Sleep(ms=ms):
                self._stage.scheduler.after(max(1, ms) * MS, self._go_on)
            case Done():
                self.idle = True
            case unexpected:
                assert_never(unexpected)

    def _perform(self, outputs: Sequence[object]) -> None:
        for output in outputs:
            match output:
                case Send():
                    self._stage.transport.send(self, output.to, output.message)
                case SetTimer():
                    self._timers.arm(output)
                case CancelTimer():
                    self._timers.cancel(output.name)
                case Answered():
                    self._attempts.end(output)
                    # Later, for the effects behind the answer belong to the call that has ended.
                    self._stage.scheduler.after(0, self._go_on)
                case _:
                    raise AssertionError(f"a client does not ask for {output}")
