"""Messages over TCP: frames of a 4-byte length and a msgpack body; the first frame of a connection says who speaks.

To each configured peer there is one outgoing connection, opened when there is something to send and again after it broke. What
cannot be sent is dropped, as the network may: the connection refused, or more bytes waiting than `UNSENT_BYTES_MAX` because the
peer stands still. Whoever is no configured peer (a client) is answered over the connection it opened. A frame that is too long
or no message ends its connection. A message to oneself does not touch the network.
"""

import asyncio
from collections.abc import Callable, Mapping

import msgspec
from msgspec import Struct

from reference.messages import AnyMessage
from reference.types import Address

FRAME_BYTES_MAX = 64 * 1024 * 1024
UNSENT_BYTES_MAX = 64 * 1024 * 1024
PROTOCOL_VERSION = 1
_LENGTH_BYTES = 4


class Hello(Struct, frozen=True, kw_only=True):
    """The first frame of a connection."""

    address: Address
    version: int = PROTOCOL_VERSION


class FrameError(Exception):
    """What came in is no frame of ours."""


_encode = msgspec.msgpack.Encoder().encode
_decode_message: Callable[[bytes], AnyMessage] = msgspec.msgpack.Decoder(AnyMessage).decode
_decode_hello = msgspec.msgpack.Decoder(Hello).decode


def encode_frame(body: Hello | AnyMessage) -> bytes:
    """One frame."""
    data = _encode(body)
    return len(data).to_bytes(_LENGTH_BYTES, "big") + data


class FrameBuffer:
    """Bytes in as they come, bodies of whole frames out."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that are complete now; FrameError where one claims to be longer than FRAME_BYTES_MAX."""
        self._bytes += data
        frames = []
        at = 0
        while at + _LENGTH_BYTES <= len(self._bytes):
            length = int.from_bytes(self._bytes[at : at + _LENGTH_BYTES], "big")
            if length > FRAME_BYTES_MAX:
                raise FrameError(f"a frame of {length} bytes; at most {FRAME_BYTES_MAX} are taken")
            end = at + _LENGTH_BYTES + length
            if end > len(self._bytes):
                break
            frames.append(bytes(self._bytes[at + _LENGTH_BYTES : end]))
            at = end
        del self._bytes[:at]
        return frames


class _Connection(asyncio.Protocol):
    """One TCP connection. Of an incoming one the peer is known after its Hello."""

    def __init__(self, owner: "Transport", peer: Address | None) -> None:
        self.owner = owner
        self.peer = peer
        self.outgoing = peer is not None
        self.waiting: list[bytes] = []  # to be sent once the connection stands
        self.waiting_bytes = 0
        self.transport: asyncio.Transport | None = None
        self._buffer = FrameBuffer()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.owner.opened(self)
        if self.outgoing:
            transport.write(b"".join([encode_frame(Hello(address=self.owner.address)), *self.waiting]))
            self.waiting.clear()

    def send(self, frame: bytes) -> None:
        """Hand over, or drop where too much waits already."""
        if self.transport is None:
            if self.waiting_bytes + len(frame) <= UNSENT_BYTES_MAX:
                self.waiting.append(frame)
                self.waiting_bytes += len(frame)
        elif self.transport.get_write_buffer_size() + len(frame) <= UNSENT_BYTES_MAX:
            self.transport.write(frame)

    def data_received(self, data: bytes) -> None:
        try:
            for body in self._buffer.feed(data):
                if self.peer is None:
                    self.peer = self._introduced(body)
                else:
                    self.owner.received(self.peer, _decode_message(body))
        except (FrameError, msgspec.MsgspecError):
            self.close()

    def _introduced(self, body: bytes) -> Address:
        hello = _decode_hello(body)
        if hello.version != PROTOCOL_VERSION:
            raise FrameError(f"protocol version {hello.version}; this is {PROTOCOL_VERSION}")
        self.owner.introduced(self, hello.address)
        return hello.address

    def connection_lost(self, exc: Exception | None) -> None:
        self.owner.closed(self)

    def close(self) -> None:
        """Break it now."""
        if self.transport is not None:
            self.transport.abort()


class Transport:
    """The network as one address sees it. `received` gets each message with its sender, `lost` each peer that was cut off."""

    def __init__(
        self,
        address: Address,
        peers: Mapping[Address, tuple[str, int]],
        received: Callable[[Address, AnyMessage], None],
        lost: Callable[[Address], None],
    ) -> None:
        self.address = address
        self.received = received
        self._lost = lost
        self._peers = dict(peers)
        self._outgoing: dict[Address, _Connection] = {}
        self._incoming: dict[Address, _Connection] = {}  # by who introduced itself; the newest
        self._open: dict[_Connection, None] = {}
        self._dialling: dict[Address, asyncio.Task[None]] = {}
        self._server: asyncio.Server | None = None

    async def listen(self, host: str, port: int) -> int:
        """Take connections; returns the port (0 asks for any). OSError where it is taken."""
        self._server = await asyncio.get_running_loop().create_server(lambda: _Connection(self, None), host, port)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    def send(self, to: Address, message: AnyMessage) -> None:
        """Send or drop; never waits."""
        if to == self.address:
            asyncio.get_running_loop().call_soon(self.received, to, message)  # not now: its sender is still at work
            return
        frame = encode_frame(message)
        if to not in self._peers:
            incoming = self._incoming.get(to)
            if incoming is not None:
                incoming.send(frame)
            return
        if to not in self._outgoing:
            connection = self._outgoing[to] = _Connection(self, to)
            self._dialling[to] = asyncio.get_running_loop().create_task(self._dial(to, connection))
        self._outgoing[to].send(frame)

    def disconnect(self, peer: Address) -> None:
        """Break the connection that this peer opened, if there is one."""
        connection = self._incoming.get(peer)
        if connection is not None:
            connection.close()

    async def _dial(self, to: Address, connection: _Connection) -> None:
        host, port = self._peers[to]
        try:
            await asyncio.get_running_loop().create_connection(lambda: connection, host, port)
        except OSError:
            self.closed(connection)
        finally:
            self._dialling.pop(to, None)

    async def close(self) -> None:
        """Break all connections and stop listening; nobody is told."""
        self._lost = lambda _: None
        for task in list(self._dialling.values()):
            task.cancel()
        for connection in list(self._open):
            connection.close()
        if self._server is not None:
            self._server.close()
        await asyncio.sleep(0)  # aborted connections close in the loop's next round

    # --- told by connections -----------------------------------------------------------------------------------------------

    def opened(self, connection: _Connection) -> None:
        """It stands."""
        self._open[connection] = None

    def introduced(self, connection: _Connection, address: Address) -> None:
        """An incoming connection said who it is; an older one of the same address is a leftover."""
        older = self._incoming.get(address)
        self._incoming[address] = connection
        if older is not None:
            older.close()

    def closed(self, connection: _Connection) -> None:
        """It broke, or never stood."""
        self._open.pop(connection, None)
        peer = connection.peer
        if peer is None:
            return
        table = self._outgoing if connection.outgoing else self._incoming
        if table.get(peer) is connection:
            del table[peer]
        if connection.outgoing:
            self._lost(peer)
