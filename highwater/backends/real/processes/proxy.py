"""TCP proxies between two processes of a run, so that network faults need no rights in the kernel.

A `Link` is one direction between two places, with any number of connections. Data leaves it in the order in which it came; the
link's condition says when. Held or late bytes wait in the proxy. With more than `WAITING_BYTES_MAX` waiting, the proxy stops
reading from the sender, as a full TCP window would. A connection that is opened while either direction is held is dialled once
both directions are joined, if its opener still waits; until then the opener sees an open connection without answers. If nobody
listens at the target, the opener's connection is reset.

The proxies run in one asyncio loop. When the loop is busy, a few milliseconds are added to every delay.
"""

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import NamedTuple

from highwater.backends.real.processes.link import Link
from highwater.backends.real.processes.picking import Picker
from highwater.backends.real.site import JOINED, HostPort
from highwater.errors import HarnessError

WAITING_BYTES_MAX = 1024 * 1024  # per direction of a connection
_RESET = struct.pack("ii", 1, 0)


Divide = Callable[[bytes], Iterable[tuple[str, bytes]]]  # splits received bytes into whole messages, each with its kind
Sockets = Callable[[], Awaitable[socket.socket]]  # makes sockets that are not connected yet, in another network
Conversation = Callable[[], tuple[Divide, Divide]]  # for a new connection: one for its requests, one for the responses


class _Piece(NamedTuple):
    """Data that waits in a flow."""

    due_s: float
    kind: str
    pickers: tuple[Picker, ...]  # that picked it
    data: bytes | None  # None: the end of the stream


class Flow:
    """One direction of a proxied connection: data that was read and not yet written, each piece with the time at which it is due.

    A piece is what one read returned or, with `divide`, a whole message with its kind. `counted`: pieces that the link delays
    count as hits of its fault. The transports are set when the sides are connected.
    """

    def __init__(self, connection: "_Connection", link: Link, *, counted: bool, divide: Divide | None = None) -> None:
        self.link = link
        self._connection = connection
        self._counted = counted
        self._divide = divide
        self.source: asyncio.Transport | None = None
        self.target: asyncio.Transport | None = None
        self._pieces_waiting: deque[_Piece] = deque()
        self.waiting_bytes = 0
        self._congested = False  # whether the target's write buffer is full
        self._due_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        link.flows[self] = None

    def feed(self, data: bytes | None) -> None:
        """Take bytes from the proxied connection's source, or None at the end of the stream."""
        loop = asyncio.get_running_loop()
        pieces: list[tuple[str, bytes | None]] = [("", data)]
        if data is not None and self._divide is not None:
            pieces = list(self._divide(data))
        for kind, piece in pieces:
            late_s = self.link.late_s()
            if self._counted and (late_s or self.link.holds(kind)):
                self.link.hits += 1
            pickers = self.link.pickers_of(kind, self._connection) if piece is not None and self._divide is not None else ()
            if any(picker.pick.cut for picker in pickers):
                self._connection.reset()
                return
            late_s += sum(picker.late_s() for picker in pickers)
            self._due_s = max(0.0 if self.link.condition == JOINED else self._due_s, loop.time() + late_s)
            self._pieces_waiting.append(_Piece(self._due_s, kind, pickers, piece))
            self.waiting_bytes += 0 if piece is None else len(piece)
        self.pump()
        self._read_if_room()

    def pump(self) -> None:
        """Write the pieces of data whose delay is over to the target."""
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.target is None:
            return
        waiting, self._pieces_waiting = self._pieces_waiting, deque()
        stopped = False  # by a message that a fault picked: nothing overtakes it
        for piece in waiting:
            stopped = stopped or self.link.is_stopped_by(piece.pickers)
            # Other kinds overtake messages of a held kind. The end of the stream overtakes nothing.
            if stopped or self._timer is not None or self.link.holds(piece.kind) or (piece.data is None and self._pieces_waiting):
                self._pieces_waiting.append(piece)
            elif piece.due_s > loop.time() and self.link.condition != JOINED:
                self._pieces_waiting.append(piece)
                self._timer = loop.call_at(piece.due_s, self.pump)
            elif piece.data is None:
                self.target.close()
                return
            else:
                for picker in piece.pickers:
                    picker.orphans += self.source is None
                self.waiting_bytes -= len(piece.data)
                self.target.write(piece.data)
        self._read_if_room()

    def congest(self, *, congested: bool) -> None:
        """The target's write buffer became full, or has room again: stop or resume writing."""
        self._congested = congested
        self._read_if_room()

    def _read_if_room(self) -> None:
        """Read from the source only while both the waiting pieces and the target's write buffer have room."""
        if self.source is None or self.source.is_closing():
            return
        if self._congested or self.waiting_bytes > WAITING_BYTES_MAX:
            self.source.pause_reading()
        else:
            self.source.resume_reading()

    def end(self) -> None:
        """Stop writing to the proxied connection's target."""
        if self._timer is not None:
            self._timer.cancel()
        self.target = None
        self.link.flows.pop(self, None)


class _Side(asyncio.Protocol):
    """One of the two TCP connections that a proxied connection consists of."""

    def __init__(self, flow: Flow, back: Flow, lost: Callable[[], None]) -> None:
        self._flow = flow
        self._back = back
        self._lost = lost

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._flow.source = transport
        self._back.target = transport
        self._back.pump()

    def data_received(self, data: bytes) -> None:
        self._flow.feed(data)

    def pause_writing(self) -> None:
        self._back.congest(congested=True)

    def resume_writing(self) -> None:
        self._back.congest(congested=False)

    def connection_lost(self, exc: Exception | None) -> None:
        self._back.end()
        self._flow.source = None
        self._flow.feed(None)
        self._lost()


class Proxy:
    """Accepts the connections from one process to another and opens each anew at its target, with a socket of `sockets`.

    `counted` is whether its data adds to the hits of its links. With a `conversation`, messages can be held by their kinds.
    """

    def __init__(
        self,
        outward: Link,
        back: Link,
        target: HostPort,
        *,
        counted: bool = True,
        conversation: Conversation | None = None,
        sockets: Sockets | None = None,
    ) -> None:
        self.counted = counted
        self.conversation = conversation
        self.sockets = sockets
        self.there = outward
        self.back = back
        self._target = target
        self._server: asyncio.Server | None = None
        self._open_connections: dict[_Connection, None] = {}

    async def listen(self, host: str, wanted: int = 0) -> int:
        """Let the proxy listen at this port, or at one that the kernel assigns; returns the port. OSError if it is taken."""
        self._server = await asyncio.get_running_loop().create_server(self._new_connection, host, wanted)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def listen_on(self, listening: socket.socket) -> None:
        """Let the proxy accept the connections of a socket that listens already."""
        self._server = await asyncio.get_running_loop().create_server(self._new_connection, sock=listening)

    def reset(self) -> int:
        """Reset all connections of the proxy with RST; returns their number."""
        broken = list(self._open_connections)
        for connection in broken:
            connection.reset()
        return len(broken)

    async def close(self) -> None:
        """Reset all connections of the proxy and stop listening."""
        if self._server is not None:
            self._server.close()
        self.reset()
        await asyncio.sleep(0)  # aborted connections close in the loop's next round

    def _new_connection(self) -> asyncio.Protocol:
        return _Connection(self, self._target, self._open_connections).near


class _Connection:
    """One connection through a proxy: the opener's connection to the proxy, and the proxy's own to the target."""

    def __init__(self, proxy: Proxy, target: HostPort, register: "dict[_Connection, None]") -> None:
        requests, answers = (None, None) if proxy.conversation is None else proxy.conversation()
        self._outward = Flow(self, proxy.there, counted=proxy.counted, divide=requests)
        self._back = Flow(self, proxy.back, counted=proxy.counted, divide=answers)
        self._target = target
        self._sockets = proxy.sockets
        self._register = register
        self.near = _Side(self._outward, self._back, self._on_opener_ended)
        self._far = _Side(self._back, self._outward, self._on_side_ended)
        self._sides = 2
        register[self] = None
        self._dialling = asyncio.get_running_loop().create_task(self._connect_to_target())

    async def _connect_to_target(self) -> None:
        """Connect to the target once no fault holds the link; if that fails, reset the opener."""
        host, port = self._target
        links = (self._outward.link, self._back.link)
        while any(link.condition.held for link in links):
            for link in links:
                await link.joined()
        for link in links:
            await link.cross()
        loop = asyncio.get_running_loop()
        try:
            if self._sockets is None:
                await loop.create_connection(lambda: self._far, host, port)
                return
            opened = await self._sockets()
            await loop.sock_connect(opened, self._target)
            await loop.create_connection(lambda: self._far, sock=opened)
        except (OSError, HarnessError):
            self._reset_both_sides()

    def reset(self) -> None:
        """Reset the proxied connection at both ends."""
        self._dialling.cancel()
        self._reset_both_sides()

    def _reset_both_sides(self) -> None:
        """Reset both sides, as after a lost connection."""
        self._outward.end()
        self._back.end()
        for transport in (self._outward.source, self._back.source):
            if transport is not None and not transport.is_closing():
                transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                transport.abort()
        self._register.pop(self, None)

    def _on_opener_ended(self) -> None:
        """The opener's side has ended."""
        if not self._dialling.done():
            # The opener gave up before the far side was dialled.
            self._dialling.cancel()
            self._outward.end()
            self._register.pop(self, None)
        self._on_side_ended()

    def _on_side_ended(self) -> None:
        """Forget the connection when both sides have ended."""
        self._sides -= 1
        if not self._sides:
            self._outward.end()
            self._back.end()
            self._register.pop(self, None)
