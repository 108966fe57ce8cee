"""Client listeners, client connections and their limits (`Limits`); `server.wire.clients` decodes the requests.

To the machine each connection is an address of its own, "@c1", "@c2", …. A connection is closed if a request is malformed, too
large or of an unsupported API, if the connection is idle for too long or exceeds the number of connections, or if all connections
together hold more than `held_bytes`. If a client does not read its responses, its requests are not read.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Protocol

from msgspec import Struct

from reference.messages import Reply, Request
from reference.types import Address
from server.runtime.node import clock
from server.runtime.timers import SilenceTimer
from server.wire.clients.exchange import Facing
from server.wire.clients.session import Session
from server.wire.clients.tasks import AnyResult, AnyTask, Done, Pause, Task
from server.wire.framing import WireError

UNSENT_BYTES_HIGH = 1024 * 1024  # of responses not sent; above it no requests are read
PREFIX = "@c"  # of the addresses of clients; addresses of incoming node connections are "@" and a number


class Limits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of the client listeners; the comment gives Kafka's name if there is one."""

    connections: int = 1024  # max.connections
    connections_per_address: int = 512  # max.connections.per.ip
    request_bytes: int = 16 * 1024 * 1024  # socket.request.max.bytes
    in_flight: int = 8  # requests in progress of one connection; further ones wait
    idle_ms: int = 600_000  # connections.max.idle.ms
    held_bytes: int = 256 * 1024 * 1024  # over all connections: requests not started and responses not sent
    batch_bytes: int = 1_048_588  # message.max.bytes
    response_bytes: int = 16 * 1024 * 1024  # fetch.max.bytes, of records

    def __post_init__(self) -> None:
        """ValueError if a limit is below 1."""
        for name in self.__struct_fields__:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")


class GatewayNode(Protocol):
    """Interface by which the gateway passes requests of clients to its broker."""

    def received(self, source: Address, message: Request) -> None:
        """Hand a client's request to the broker machine; the reply comes through `Gateway.send`."""

    def perform(self, task: AnyTask, answer: Callable[[AnyResult], None]) -> None:
        """Perform a task (administration, log directories) for a client; `answer` is called once, perhaps at once."""

    def lost(self, source: Address) -> None:
        """A client's connection broke; replies to its requests would be dropped."""


class Gateway:
    """The listeners of one broker for clients, and their connections. Call only on the loop's thread."""

    def __init__(self, node: GatewayNode, limits: Limits) -> None:
        self.node = node
        self.limits = limits
        self.held = 0
        self._last = 0
        self._connections: dict[Address, _Connection] = {}
        self._by_host: dict[str, int] = {}
        self._servers: list[asyncio.Server] = []

    async def listen(self, host: str, port: int, facing: Facing) -> int:
        """Listen for clients; returns the port (port 0 picks a free one).

        OSError if the port is in use.
        """
        server = await asyncio.get_running_loop().create_server(partial(_Connection, self, facing), host, port)
        self._servers.append(server)
        bound: int = server.sockets[0].getsockname()[1]
        return bound

    def send(self, to: Address, message: Reply) -> None:
        """Send the broker's reply to a client; dropped if the client's connection broke."""
        connection = self._connections.get(to)
        if connection is not None:
            connection.hear(message)

    def disconnect(self, peer: Address) -> None:
        """Close this client's connection, if it is open."""
        connection = self._connections.get(peer)
        if connection is not None:
            connection.hang_up()

    async def close(self) -> None:
        """Stop listening for clients and close their connections, after the bytes already written are sent."""
        for server in self._servers:
            server.close()
        for connection in list(self._connections.values()):
            connection.hang_up()
        await asyncio.sleep(0)

    # --- called by connections ---------------------------------------------------------------------------------------------

    def admit(self, connection: "_Connection", host: str) -> Address | None:
        """The address of a new client connection; None if a limit on connections is reached."""
        limits = self.limits
        if len(self._connections) >= limits.connections or self._by_host.get(host, 0) >= limits.connections_per_address:
            return None
        self._last += 1
        address = Address(f"{PREFIX}{self._last}")
        self._connections[address] = connection
        self._by_host[host] = self._by_host.get(host, 0) + 1
        return address

    def is_over(self) -> bool:
        """True if all client connections together hold more than `held_bytes` of requests not started and responses not sent.

        asyncio does not report bytes that it has sent, so every connection is counted again before the answer is True.
        """
        if self.held > self.limits.held_bytes:
            for connection in self._connections.values():
                connection.count()
        return self.held > self.limits.held_bytes

    def forget(self, address: Address, host: str) -> None:
        """Remove a client connection that broke, and tell the broker."""
        del self._connections[address]
        self._by_host[host] -= 1
        if not self._by_host[host]:
            del self._by_host[host]
        self.node.lost(address)


class _Connection(asyncio.Protocol):
    """One client's TCP connection to the broker: its unanswered requests and unsent responses."""

    def __init__(self, gateway: Gateway, facing: Facing) -> None:
        limits = gateway.limits
        self._gateway = gateway
        self._session = Session(facing, request_bytes_max=limits.request_bytes, in_flight_max=limits.in_flight)
        self._address: Address | None = None
        self._host = ""
        self._transport: asyncio.Transport | None = None
        self._bytes_held = 0
        self._settling = False
        self._reading = True
        self._is_over = False
        self._silence = SilenceTimer(gateway.limits.idle_ms / 1000, self._abort_idle)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit the client, or close the connection if a limit is reached."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        name = transport.get_extra_info("peername")
        self._host = name[0] if name else ""
        self._address = self._gateway.admit(self, self._host)
        if self._address is None:
            self._is_over = True
            transport.abort()
            return
        transport.set_write_buffer_limits(high=UNSENT_BYTES_HIGH)
        self._silence.start()

    def data_received(self, data: bytes) -> None:
        """Feed the bytes to the session; a client that breaks the protocol is cut off after its earlier answers."""
        if self._is_over:
            return
        self._silence.restart()
        try:
            self._session.feed(data, clock().monotonic_ms)
        except WireError:
            self._send_and_ask()
            self.hang_up()
            return
        self._send_and_ask()

    def hear(self, answer: Reply | AnyResult) -> None:
        """Take the broker's reply, or the result of a task, for this client connection."""
        if self._is_over:
            return
        try:
            self._session.hear(answer, clock().monotonic_ms)
        except WireError:
            self._send_and_ask()
            self.hang_up()
            return
        self._send_and_ask()

    def pause_writing(self) -> None:
        self._session.is_held = True
        self._send_and_ask()

    def resume_writing(self) -> None:
        if not self._is_over:
            self._session.is_held = False
            self.hear(Done(0))  # no request has correlation 0; this makes the session start the requests that wait

    def connection_lost(self, exc: Exception | None) -> None:
        """Give back what the connection counted for, and forget its client."""
        self._is_over = True
        self._silence.stop()
        if self._address is not None:
            self._gateway.held -= self._bytes_held
            self._gateway.forget(self._address, self._host)
            self._address = None

    def count(self) -> None:
        """Update the gateway's total of the bytes that client connections hold."""
        if self._transport is not None:
            buffered = self._session.buffered + self._transport.get_write_buffer_size()
            self._gateway.held += buffered - self._bytes_held
            self._bytes_held = buffered

    def hang_up(self) -> None:
        """Close the client connection after the bytes already written are sent; read no more requests."""
        self._is_over = True
        if self._transport is not None and not self._transport.is_closing():
            self._transport.close()

    # --- after each input --------------------------------------------------------------------------------------------------

    def _send_and_ask(self) -> None:
        """Write the session's responses and start its requests. A reply that arrives meanwhile is handled by the running loop."""
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
        self._count_bytes()

    def _ask(self, ask: Request | AnyTask) -> None:
        """Send a request of the session to the machine or the administration; a pause ends by itself."""
        if self._address is None:
            return
        if isinstance(ask, Pause):
            asyncio.get_running_loop().call_later(ask.ms / 1000, self.hear, Done(ask.correlation))
        elif isinstance(ask, Task):
            self._gateway.node.perform(ask, self.hear)
        else:
            self._gateway.node.received(self._address, ask)

    def _count_bytes(self) -> None:
        """Update the bytes that this connection holds: above the limit abort it, else pause or resume reading."""
        transport = self._transport
        if transport is None or self._address is None:
            return
        self.count()
        if self._gateway.is_over():
            self._is_over = True
            transport.abort()
            return
        wants = not (self._session.is_full or self._is_over)
        if wants != self._reading and not transport.is_closing():
            self._reading = wants
            if wants:
                transport.resume_reading()
            else:
                transport.pause_reading()

    def _abort_idle(self) -> None:
        """Abort a client connection that was idle for `idle_ms`."""
        self._is_over = True
        if self._transport is not None:
            # Not close(): it waits for unsent bytes, and a client that does not read would keep the connection open.
            self._transport.abort()
