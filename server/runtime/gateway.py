"""Where clients come in: listeners, connections, their limits (`Limits`); what clients say is `server.wire.clients`.

A connection is an address of its own, "@c1", "@c2", …, to the machine. What is malformed, too large or not served closes its
connection; so does one that is silent for too long, one too many, and one that would hold more memory than all of them may. A
client that does not read its answers is not read from.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Protocol

from msgspec import Struct

from reference.messages import Reply, Request
from reference.types import Address
from server.runtime.node import clock
from server.runtime.silence import Watch
from server.wire.clients.exchange import Facing
from server.wire.clients.session import Session
from server.wire.clients.tasks import AnyResult, AnyTask, Done, Pause, Task
from server.wire.framing import WireError

UNSENT_BYTES_HIGH = 1024 * 1024  # above it a connection is not read from
PREFIX = "@c"  # of the addresses of clients; "@" alone begins those of nodes


class Limits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one listener takes; Kafka's name in the comment where it has one."""

    connections: int = 1024  # max.connections
    connections_per_address: int = 512  # max.connections.per.ip
    request_bytes: int = 16 * 1024 * 1024  # socket.request.max.bytes
    in_flight: int = 8  # requests in progress of one connection; what comes beyond waits
    idle_ms: int = 600_000  # connections.max.idle.ms
    held_bytes: int = 256 * 1024 * 1024  # of all connections: of requests that have not begun, of responses not sent
    batch_bytes: int = 1_048_588  # message.max.bytes
    response_bytes: int = 16 * 1024 * 1024  # fetch.max.bytes, of records

    def __post_init__(self) -> None:
        """All of them are positive."""
        for name in self.__struct_fields__:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is not above 0")


class Inside(Protocol):
    """What a listener asks of its node."""

    def received(self, source: Address, message: Request) -> None:
        """A question to the machine; its answer comes by `Gateway.send`."""

    def perform(self, task: AnyTask, answer: Callable[[AnyResult], None]) -> None:
        """A task; answered once, perhaps before this returns."""

    def lost(self, source: Address) -> None:
        """A connection is gone: nobody waits for what was asked over it."""


class Gateway:
    """The listeners for clients of one node. Belongs to the loop's thread."""

    def __init__(self, inside: Inside, limits: Limits) -> None:
        self.inside = inside
        self.limits = limits
        self.held = 0
        self._last = 0
        self._connections: dict[Address, _Connection] = {}
        self._by_host: dict[str, int] = {}
        self._servers: list[asyncio.Server] = []

    async def listen(self, host: str, port: int, facing: Facing) -> int:
        """Take connections that see the cluster so; returns the port (0 asks for any). OSError where it is taken."""
        server = await asyncio.get_running_loop().create_server(partial(_Connection, self, facing), host, port)
        self._servers.append(server)
        bound: int = server.sockets[0].getsockname()[1]
        return bound

    def send(self, to: Address, message: Reply) -> None:
        """An answer of the machine; dropped where its connection is gone."""
        connection = self._connections.get(to)
        if connection is not None:
            connection.hear(message)

    def disconnect(self, peer: Address) -> None:
        """Break this connection, if it stands."""
        connection = self._connections.get(peer)
        if connection is not None:
            connection.hang_up()

    async def close(self) -> None:
        """Stop listening and close all connections; what is written already is sent."""
        for server in self._servers:
            server.close()
        for connection in list(self._connections.values()):
            connection.hang_up()
        await asyncio.sleep(0)

    # --- told by connections -----------------------------------------------------------------------------------------------

    def admit(self, connection: "_Connection", host: str) -> Address | None:
        """The address of a new connection; None where there are too many."""
        limits = self.limits
        if len(self._connections) >= limits.connections or self._by_host.get(host, 0) >= limits.connections_per_address:
            return None
        self._last += 1
        address = Address(f"{PREFIX}{self._last}")
        self._connections[address] = connection
        self._by_host[host] = self._by_host.get(host, 0) + 1
        return address

    def is_over(self) -> bool:
        """Do all connections hold more than they may? Nothing tells of what is sent meanwhile: they are asked again first."""
        if self.held > self.limits.held_bytes:
            for connection in self._connections.values():
                connection.count()
        return self.held > self.limits.held_bytes

    def forget(self, address: Address, host: str) -> None:
        """A connection is gone."""
        del self._connections[address]
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]
        self.inside.lost(address)


class _Connection(asyncio.Protocol):
    """One connection of a client."""

    def __init__(self, gateway: Gateway, facing: Facing) -> None:
        limits = gateway.limits
        self._gateway = gateway
        self._session = Session(facing, request_bytes_max=limits.request_bytes, in_flight_max=limits.in_flight)
        self._address: Address | None = None
        self._host = ""
        self._transport: asyncio.Transport | None = None
        self._held = 0
        self._settling = False
        self._reading = True
        self._over = False
        self._watch = Watch(gateway.limits.idle_ms / 1000, self._fell_silent)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        name = transport.get_extra_info("peername")
        self._host = name[0] if name else ""
        self._address = self._gateway.admit(self, self._host)
        if self._address is None:
            self._over = True
            transport.abort()
            return
        transport.set_write_buffer_limits(high=UNSENT_BYTES_HIGH)
        self._watch.begin()

    def data_received(self, data: bytes) -> None:
        if self._over:
            return
        self._watch.heard()
        try:
            self._session.feed(data, clock().monotonic_ms)
        except WireError:
            self._settle()
            self.hang_up()
            return
        self._settle()

    def hear(self, answer: Reply | AnyResult) -> None:
        """An answer to something that was asked for this connection."""
        if self._over:
            return
        try:
            self._session.hear(answer, clock().monotonic_ms)
        except WireError:
            self._settle()
            self.hang_up()
            return
        self._settle()

    def pause_writing(self) -> None:
        self._session.is_held = True
        self._settle()

    def resume_writing(self) -> None:
        if not self._over:
            self._session.is_held = False
            self.hear(Done(0))  # which nobody waits for: it goes on with what waits

    def connection_lost(self, exc: Exception | None) -> None:
        self._over = True
        self._watch.end()
        if self._address is not None:
            self._gateway.held -= self._held
            self._gateway.forget(self._address, self._host)
            self._address = None

    def count(self) -> None:
        """What it holds now."""
        if self._transport is not None:
            held = self._session.buffered + self._transport.get_write_buffer_size()
            self._gateway.held += held - self._held
            self._held = held

    def hang_up(self) -> None:
        """Close it; what is written is sent, nothing more is heard."""
        self._over = True
        if self._transport is not None and not self._transport.is_closing():
            self._transport.close()

    # --- what came of it ---------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Send what is to be sent, ask what is to be asked. The machine may answer while it is asked: that waits its turn."""
        if self._settling or self._transport is None:
            return
        self._settling = True
        session = self._session
        try:
            while (session.asks or session.out) and not self._transport.is_closing():
                if session.out:
                    out, session.out = session.out, []
                    self._transport.writelines(out)
                asks, session.asks = session.asks, []
                for ask in asks:
                    self._ask(ask)
        finally:
            self._settling = False
        self._account()

    def _ask(self, ask: Request | AnyTask) -> None:
        if self._address is None:
            return
        if isinstance(ask, Pause):
            asyncio.get_running_loop().call_later(ask.ms / 1000, self.hear, Done(ask.correlation))
        elif isinstance(ask, Task):
            self._gateway.inside.perform(ask, self.hear)
        else:
            self._gateway.inside.received(self._address, ask)

    def _account(self) -> None:
        """Tell what is held, and read on or not."""
        transport = self._transport
        if transport is None or self._address is None:
            return
        self.count()
        if self._gateway.is_over():
            self._over = True
            transport.abort()
            return
        wants = not (self._session.is_full or self._over)
        if wants != self._reading and not transport.is_closing():
            self._reading = wants
            if wants:
                transport.resume_reading()
            else:
                transport.pause_reading()

    def _fell_silent(self) -> None:
        """A client that has said nothing for too long is gone, whatever TCP thinks of it."""
        self._over = True
        if self._transport is not None:
            # Not closed: what it does not read would never be sent, and the connection never end.
            self._transport.abort()
