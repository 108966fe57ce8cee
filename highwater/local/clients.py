"""Clients of a run on this machine: each workload process drives one client machine over TCP connections of its own.

The loop's clock times calls out, the machine decides what came of them, `highwater.backends.attempts` records both ends.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from highwater.backends.attempts import Attempts
from reference.client.calls import Answered, Call
from reference.client.client import Client, Outputs
from reference.client.commands import Command
from reference.effects import CancelTimer, Send, SetTimer
from reference.events import AnyEvent, ConnectionLost, Received, TimerFired
from reference.messages import AnyMessage
from reference.runtime.node import clock
from reference.runtime.timers import Timers
from reference.runtime.transport import Transport
from reference.types import Address, BrokerId, Millis
from workloads.client import Done, Invocation, Phase, Sleep


class Phases:
    """Which phase the run is in, and waiting for the next."""

    def __init__(self) -> None:
        self.now: Phase = "faults"
        self._changed = asyncio.Event()

    def enter(self, phase: Phase) -> None:
        """The next phase."""
        self.now = phase
        self._changed.set()
        self._changed = asyncio.Event()

    async def changed(self, timeout_ms: int | None = None) -> None:
        """Until the phase changes, or so long."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), None if timeout_ms is None else timeout_ms / 1000)


class ClientHost:
    """Drives one client machine: one call at a time."""

    def __init__(self, address: Address, brokers: Mapping[Address, tuple[str, int]], *, request_timeout_ms: int) -> None:
        ids = tuple(BrokerId(int(broker[1:])) for broker in brokers)
        self._machine = Client.boot(address, ids, request_timeout_ms=Millis(request_timeout_ms))
        self._transport = Transport(address, brokers, self._received, self._lost)
        self._timers = Timers(asyncio.get_running_loop(), lambda name: self._handle(TimerFired(name)))
        self._answer: asyncio.Future[Answered] | None = None

    async def call(self, call: Call) -> Answered:
        """Make one attempt; ends within the request timeout."""
        answer: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        self._answer = answer
        self._perform(self._machine.start(call, now=clock()))
        return await answer

    async def close(self) -> None:
        """Break all connections."""
        self._timers.cancel_all()
        await self._transport.close()

    def _received(self, source: Address, message: AnyMessage) -> None:
        self._handle(Received(source, message))

    def _lost(self, peer: Address) -> None:
        self._handle(ConnectionLost(peer))

    def _handle(self, event: AnyEvent) -> None:
        self._perform(self._machine.handle(event, now=clock()))

    def _perform(self, outputs: Outputs) -> None:
        for output in outputs:
            match output:
                case Send():
                    self._transport.send(output.to, output.message)
                case SetTimer():
                    self._timers.set(output.name, output.lo_ms, output.hi_ms)
                case CancelTimer():
                    self._timers.cancel(output.name)
                case Answered():
                    assert self._answer is not None
                    if not self._answer.done():  # given up at the end of the run
                        self._answer.set_result(output)
                case _:
                    raise AssertionError(f"a client has no business with {output}")


class Worker:
    """Performs one workload process to its end."""

    def __init__(self, attempts: Attempts, host: ClientHost) -> None:
        self._attempts = attempts
        self._host = host

    async def run(self, phases: Phases) -> None:
        """Until it is done in the final phase."""
        loop = asyncio.get_running_loop()
        start = loop.time()
        while True:
            phase = phases.now
            match self._attempts.process.next(now_ms=int((loop.time() - start) * 1000), phase=phase):
                case Sleep(ms=ms):
                    await phases.changed(max(1, ms))
                case Done() if phase == "final":
                    return
                case Done():
                    await phases.changed()
                case Invocation() as invocation:
                    call = self._attempts.begin(invocation)
                    assert not isinstance(call, Command), "the backend refuses workloads with an administrator"
                    self._attempts.end(await self._host.call(call))
