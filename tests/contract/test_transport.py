"""The transport contract with the simulator and with TCP."""

import asyncio
from collections.abc import Callable, Iterator

import pytest

from highwater.backends.sim.scheduler import MS
from reference.events import AnyEvent, ConnectionLost, Received
from reference.messages import AnyMessage, LogInfo, LogInfoReply
from reference.types import Address
from server.runtime.transport import Transport
from tests.contract.transport import B1, B2, Bench, TransportContract
from tests.highwater.backends.sim.simulations import simulation

PATIENCE_S = 20


class _Endpoint:
    """A process of the simulator."""

    def __init__(self, address: Address, heard: Callable[[Received | ConnectionLost], None]) -> None:
        self.address = address
        self.life = 1
        self.up = True
        self._on_event = heard

    def take(self, source: str, event: AnyEvent) -> None:
        assert isinstance(event, Received | ConnectionLost)
        self._on_event(event)


class SimulatedBench:
    """Two endpoints of the simulator."""

    def __init__(self) -> None:
        self.server: list[Received] = []
        self.client: list[Received | ConnectionLost] = []
        self._sim = simulation()
        self._one, self._two = _Endpoint(B1, self.client.append), _Endpoint(B2, self._take)
        self._sim.transport.join(self._one)
        self._sim.transport.join(self._two)

    def _take(self, event: Received | ConnectionLost) -> None:
        assert isinstance(event, Received)
        self.server.append(event)

    def ask(self, request: LogInfo) -> None:
        self._sim.transport.send(self._one, B2, request)

    def answer(self, to: Address, reply: LogInfoReply) -> None:
        self._sim.transport.send(self._two, to, reply)

    def until(self, condition: Callable[[], bool]) -> None:
        for _ in range(1000):
            if condition():
                return
            self._run(10)
        raise AssertionError("it never came about")

    def settle(self) -> None:
        self._run(1000)

    def end_server(self) -> None:
        self._two.up = False
        self._sim.transport.ended(B2, silent_ns=None)

    def begin_server(self) -> None:
        self._two.up = True
        self._two.life += 1

    def _run(self, ms: int) -> None:
        scheduler = self._sim.scheduler
        scheduler.run_until(scheduler.now + ms * MS)


class RealBench:
    """Two nodes' transports over loopback, in a loop that runs while the test waits."""

    def __init__(self) -> None:
        self.server: list[Received] = []
        self.client: list[Received | ConnectionLost] = []
        self._loop = asyncio.new_event_loop()
        self._port = 0
        self.begin_server()
        self._one = Transport(B1, {B2: ("127.0.0.1", self._port)}, self._client_heard, self._client_lost)

    def begin_server(self) -> None:
        self._two = Transport(B2, {}, self._server_heard, lambda _: None)
        self._port = self._loop.run_until_complete(self._two.listen("127.0.0.1", self._port))

    def end_server(self) -> None:
        self._loop.run_until_complete(self._two.close())

    def ask(self, request: LogInfo) -> None:
        async def work() -> None:
            self._one.send(B2, request)

        self._loop.run_until_complete(work())

    def answer(self, to: Address, reply: LogInfoReply) -> None:
        async def work() -> None:
            self._two.send(to, reply)

        self._loop.run_until_complete(work())

    def until(self, condition: Callable[[], bool]) -> None:
        async def work() -> None:
            async with asyncio.timeout(PATIENCE_S):
                while not condition():
                    await asyncio.sleep(0.002)

        self._loop.run_until_complete(work())

    def settle(self) -> None:
        self._loop.run_until_complete(asyncio.sleep(0.05))

    def close(self) -> None:
        self._loop.run_until_complete(self._one.close())
        self._loop.run_until_complete(self._two.close())
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    def _server_heard(self, source: Address, message: AnyMessage) -> None:
        self.server.append(Received(source, message))

    def _client_heard(self, source: Address, message: AnyMessage) -> None:
        self.client.append(Received(source, message))

    def _client_lost(self, peer: Address) -> None:
        self.client.append(ConnectionLost(peer))


class TestSimulated(TransportContract):
    """The contract with the simulator's network."""

    @pytest.fixture
    def bench(self) -> Bench:
        """Two nodes."""
        return SimulatedBench()


class TestReal(TransportContract):
    """The contract with TCP over loopback."""

    @pytest.fixture
    def bench(self) -> Iterator[Bench]:
        """Two nodes."""
        bench = RealBench()
        yield bench
        bench.close()
