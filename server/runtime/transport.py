"""Messages between brokers over TCP, as requests and responses of Kafka's protocol (`server.wire.codec`).

A node has one outgoing connection to each peer. It is opened for the first request and again after it broke. Responses are
matched to requests by correlation id and handed on in any order, so that a parked fetch of one partition delays no other
request. Each incoming connection has an address of its own, "@1", "@2", …; replies are sent to that address. A message is
dropped, as a network may drop it, when the connection is refused or more than UNSENT_BYTES_MAX bytes wait because the peer does
not read. A frame that is malformed, too large or no request between nodes closes its connection. A message to the node itself
does not use the network. Requests have the versions of this broker's inter-broker protocol; one in a version that its code does
not know closes its connection, as one that is malformed does.

TCP retransmits lost packets with a backoff that doubles: after a packet drop of 60 s the next attempt may come 60 s later.
Therefore a requester closes a connection on which it has waited too long for a response, and its next request opens another one.
The other end closes an incoming connection that is idle for long: the packets that closed it may have been lost too.

A fetch names its topic by id. The transport learns ids from the LeaderAndIsr and UpdateMetadata messages that it receives: a
broker cannot lead a partition before such a message named it.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import cast, get_args

from reference.messages import AnyMessage, LeaderAndIsr, UpdateMetadata
from reference.types import NO_TOPIC_ID, Address, TopicId, topic_of
from server.runtime.timers import SilenceTimer
from server.wire.codec import (
    TODAY,
    Dialect,
    NodeReply,
    NodeRequest,
    read_reply,
    read_request,
    reply_frame,
    request_frame,
    version_of,
)
from server.wire.framing import FrameBuffer, WireError, read_correlation, read_request_header

FRAME_BYTES_MAX = 64 * 1024 * 1024
UNSENT_BYTES_MAX = 64 * 1024 * 1024  # of one connection
HELD_BYTES_MAX = 256 * 1024 * 1024  # of incomplete frames, over all incoming connections
CONNECTIONS_MAX = 256  # incoming
DIAL_S_MAX = 5.0  # socket.connection.setup.timeout.ms
SILENCE_S_MAX = 5.0  # without a response while requests are open; process.py sets it from the request timeout
IDLE_S_MAX = 60.0  # of an incoming connection (connections.max.idle.ms)
OPEN_MAX = 10_000  # unanswered requests of one connection; beyond that the oldest is forgotten
TOPICS_MAX = 100_000  # topic ids that are remembered; beyond that the oldest is forgotten

_REQUESTS = get_args(NodeRequest)


class Transport:
    """One broker's TCP connections to others. Calls `received` for each message and `lost` for each broken connection."""

    def __init__(
        self,
        address: Address,
        peers: Mapping[Address, tuple[str, int]],
        received: Callable[[Address, AnyMessage], None],
        lost: Callable[[Address], None],
        *,
        silence_s_max: float = SILENCE_S_MAX,
        dialect: Dialect = TODAY,
    ) -> None:
        self.address = address
        self.silence_s_max = silence_s_max
        self.dialect = dialect
        self.held = 0
        self._received = received
        self._lost = lost
        self._peers = dict(peers)
        self._topics: dict[TopicId, str] = {}
        self._outgoing: dict[Address, _Outgoing] = {}
        self._incoming: dict[Address, _Incoming] = {}
        self._last = 0
        self._dialling: dict[Address, asyncio.Task[None]] = {}
        self._server: asyncio.Server | None = None

    async def listen(self, host: str, port: int) -> int:
        """Listen for other brokers; returns the port (port 0 picks a free one). OSError if the port is in use."""
        self._server = await asyncio.get_running_loop().create_server(lambda: _Incoming(self), host, port)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    def send(self, to: Address, message: AnyMessage) -> None:
        """Send a message to another broker, or drop it if it cannot be sent; never blocks."""
        if to == self.address:
            asyncio.get_running_loop().call_soon(self.received, to, message)  # later: the sender is still performing effects
        elif isinstance(message, _REQUESTS):
            self._ask(to, cast(NodeRequest, message))
        elif to in self._incoming:
            self._incoming[to].answer(cast(NodeReply, message))

    def disconnect(self, peer: Address) -> None:
        """Abort the connection that the broker at this address opened, if there is one."""
        connection = self._incoming.get(peer)
        if connection is not None:
            connection.close()

    def _ask(self, to: Address, request: NodeRequest) -> None:
        """Send a request to a peer, over a new connection if there is none."""
        if to not in self._peers:
            return
        if to not in self._outgoing:
            connection = self._outgoing[to] = _Outgoing(self, to)
            self._dialling[to] = asyncio.get_running_loop().create_task(self._dial(to, connection))
        self._outgoing[to].ask(request)

    async def _dial(self, to: Address, connection: "_Outgoing") -> None:
        """Connect to the peer; if that fails, the machine hears that the connection broke."""
        host, port = self._peers[to]
        try:
            async with asyncio.timeout(DIAL_S_MAX):
                await asyncio.get_running_loop().create_connection(lambda: connection, host, port)
        except OSError:
            self.broken(connection)
        finally:
            self._dialling.pop(to, None)

    async def close(self) -> None:
        """Abort all connections to brokers and stop listening, without calling `lost`."""
        self._lost = lambda _: None
        for task in list(self._dialling.values()):
            task.cancel()
        for outgoing in list(self._outgoing.values()):
            outgoing.close()
        for incoming in list(self._incoming.values()):
            incoming.close()
        if self._server is not None:
            self._server.close()
        await asyncio.sleep(0)  # aborted connections close in the loop's next round

    # --- called by connections ---------------------------------------------------------------------------------------------

    def received(self, source: Address, message: AnyMessage) -> None:
        """Learn the topic ids in a broker's message and hand it to the node."""
        if isinstance(message, LeaderAndIsr | UpdateMetadata):
            for state in message.states:
                self._learn_topic(state.topic_id, topic_of(state.tp))
        self._received(source, message)

    def _learn_topic(self, topic_id: TopicId, topic: str) -> None:
        """Remember the name of a topic id, of TOPICS_MAX at most."""
        if topic_id != NO_TOPIC_ID and topic_id not in self._topics:
            self._topics[topic_id] = topic
            if len(self._topics) > TOPICS_MAX:
                del self._topics[next(iter(self._topics))]

    def topic_of(self, topic_id: TopicId) -> str | None:
        """The name of the topic that has or had this id, or None if unknown; ids are never reused."""
        return self._topics.get(topic_id)

    def admit(self, connection: "_Incoming") -> Address | None:
        """The address for a new connection from a broker; None if CONNECTIONS_MAX are open."""
        if len(self._incoming) >= CONNECTIONS_MAX:
            return None
        self._last += 1
        address = Address(f"@{self._last}")
        self._incoming[address] = connection
        return address

    def gone(self, address: Address) -> None:
        """Forget a connection that another broker opened and that broke."""
        self._incoming.pop(address, None)

    def broken(self, connection: "_Outgoing") -> None:
        """Forget a connection to a broker that broke or could not be opened, and report the broker as lost."""
        if self._outgoing.get(connection.peer) is connection:
            del self._outgoing[connection.peer]
        self._lost(connection.peer)


class _Open(dict[int, tuple[NodeRequest, int]]):
    # Unanswered requests with their API versions, by correlation id, the oldest first.

    def add(self, request: NodeRequest, version: int) -> None:
        """Keep a request until its answer comes; of more than OPEN_MAX the oldest is dropped."""
        self.pop(request.correlation, None)
        self[request.correlation] = (request, version)
        if len(self) > OPEN_MAX:
            del self[next(iter(self))]


class _Outgoing(asyncio.Protocol):
    """A connection that this broker opened to another one: sends requests, receives responses."""

    def __init__(self, owner: Transport, peer: Address) -> None:
        self.peer = peer
        self._owner = owner
        self._open = _Open()
        self._frames_waiting: list[bytes] = []  # frames to send once the connection is open
        self._waiting_bytes = 0
        self._transport: asyncio.Transport | None = None
        self._buffer = FrameBuffer(FRAME_BYTES_MAX)
        self._silence = SilenceTimer(owner.silence_s_max, self._fell_silent)

    def ask(self, request: NodeRequest) -> None:
        """Send a request to the broker, or drop it if more than UNSENT_BYTES_MAX bytes would wait."""
        dialect = self._owner.dialect
        version = version_of(request, dialect.protocol)
        frame = request_frame(request, version=version, client_id=self._owner.address, sender=dialect.sender)
        if self._transport is None:
            if self._waiting_bytes + len(frame) > UNSENT_BYTES_MAX:
                return
            self._frames_waiting.append(frame)
            self._waiting_bytes += len(frame)
        elif self._transport.get_write_buffer_size() + len(frame) > UNSENT_BYTES_MAX:
            return
        else:
            self._transport.write(frame)
            if not self._open:
                self._silence.start()
        self._open.add(request, version)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the requests that waited for the connection."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.writelines(self._frames_waiting)
        self._frames_waiting.clear()
        self._silence.start()

    def data_received(self, data: bytes) -> None:
        """Decode responses and hand them to the machine; one that answers no request closes the connection."""
        self._silence.restart()
        try:
            for frame in self._buffer.feed(data):
                request = self._open.pop(read_correlation(frame), None)
                if request is None:
                    raise WireError("response with an unknown correlation id")
                self._owner.received(self.peer, read_reply(*request, frame))
        except WireError:
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._silence.stop()
        self._owner.broken(self)

    def _fell_silent(self) -> None:
        if self._open:
            self.close()

    def close(self) -> None:
        """Abort the connection to the broker."""
        if self._transport is not None:
            self._transport.abort()


class _Incoming(asyncio.Protocol):
    """A connection that another broker opened: receives requests, sends responses."""

    def __init__(self, owner: Transport) -> None:
        self._owner = owner
        self._open = _Open()
        self._address: Address | None = None
        self._transport: asyncio.Transport | None = None
        self._buffer = FrameBuffer(FRAME_BYTES_MAX)
        self._bytes_held = 0
        self._silence = SilenceTimer(IDLE_S_MAX, self.close)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Give the peer's connection an address, or refuse it."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._address = self._owner.admit(self)
        if self._address is None:
            transport.abort()
        else:
            self._silence.start()

    def data_received(self, data: bytes) -> None:
        """Decode requests and hand them to the machine; bytes that are no request close the connection."""
        self._silence.restart()
        try:
            for frame in self._buffer.feed(data):
                if self._address is None:
                    return
                header, at = read_request_header(frame)
                request = read_request(header, frame, at, self._owner.topic_of, self._owner.dialect.release)
                self._open.add(request, header.api_version)
                self._owner.received(self._address, request)
        except WireError:
            self.close()
        self._count_bytes(self._buffer.pending)

    def answer(self, reply: NodeReply) -> None:
        """Send a response to the broker; abort the connection if more than UNSENT_BYTES_MAX bytes would wait."""
        request = self._open.pop(reply.correlation, None)
        if request is None or self._transport is None:
            return
        frame = reply_frame(*request, reply)
        if self._transport.get_write_buffer_size() + len(frame) > UNSENT_BYTES_MAX:
            self.close()
        else:
            self._transport.write(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the machine that answers to this peer go nowhere."""
        self._silence.stop()
        self._count_bytes(0)
        if self._address is not None:
            self._owner.gone(self._address)
            self._address = None

    def close(self) -> None:
        """Abort the connection that a broker opened."""
        if self._transport is not None:
            self._transport.abort()

    def _count_bytes(self, unread: int) -> None:
        """Count the bytes held for this connection; close it if all of them together are too many."""
        self._owner.held += unread - self._bytes_held
        self._bytes_held = unread
        if self._owner.held > HELD_BYTES_MAX:
            self.close()
