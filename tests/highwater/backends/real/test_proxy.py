"""A proxy forwards data in order, as the condition of its link allows."""

import asyncio
import random
import socket
from collections.abc import Awaitable, Callable

import pytest

from highwater.backends.real.processes.link import Link
from highwater.backends.real.processes.proxy import WAITING_BYTES_MAX, Conversation, Flow, Proxy
from highwater.backends.real.site import JOINED, LinkCondition
from highwater.backends.real.zookeeper.local import free_port
from reference.types import Address

HOST = "127.0.0.1"
HELD = LinkCondition(held=True)
SOON_S = 5.0
NOTHING_S = 0.1


class Far(asyncio.Protocol):
    """Echoes what it receives, in capitals."""

    def __init__(self, wire: "Wire") -> None:
        self.wire = wire

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.wire.far.append(transport)

    def data_received(self, data: bytes) -> None:
        self.wire.heard.append(data)
        self.transport.write(data.upper())


class Wire:
    """A proxy from "a" to "b"; the far end echoes what it receives, in capitals."""

    def __init__(self, conversation: Conversation | None = None) -> None:
        chance, ones = random.Random(1), dict[str, object]()
        self.conversation = conversation
        self.there = Link((Address("a"), Address("b")), chance, ones)
        self.back = Link((Address("b"), Address("a")), chance, ones)
        self.heard: list[bytes] = []
        self.near: list[asyncio.StreamWriter] = []
        self.far: list[asyncio.Transport] = []

    async def open(self, *, listening: bool = True) -> None:
        self.server = await asyncio.get_running_loop().create_server(lambda: Far(self), HOST, 0)
        target = self.server.sockets[0].getsockname()[:2] if listening else (HOST, free_port())
        self.proxy = Proxy(self.there, self.back, target, conversation=self.conversation)
        self.port = await self.proxy.listen(HOST)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(HOST, self.port)
        self.near.append(writer)
        return reader, writer

    async def close(self) -> None:
        await self.proxy.close()
        self.server.close()
        for transport in [*self.far, *(writer.transport for writer in self.near)]:
            transport.abort()
        await asyncio.sleep(0.01)


def play(scene: Callable[[Wire], Awaitable[None]], *, listening: bool = True, conversation: Conversation | None = None) -> None:
    async def run() -> None:
        wire = Wire(conversation)
        await wire.open(listening=listening)
        try:
            await asyncio.wait_for(scene(wire), 20)
        finally:
            await wire.close()

    asyncio.run(run())


async def nothing_comes(reader: asyncio.StreamReader) -> bool:
    """Whether nothing can be read for NOTHING_S seconds."""
    try:
        await asyncio.wait_for(reader.read(1), NOTHING_S)
    except TimeoutError:
        return True
    return False


async def comes(reader: asyncio.StreamReader, size: int) -> bytes:
    return await asyncio.wait_for(reader.readexactly(size), SOON_S)


def test_proxy_forwards_bytes_in_both_directions() -> None:
    async def scene(wire: Wire) -> None:
        reader, writer = await wire.connect()
        writer.write(b"hello")

        assert await comes(reader, 5) == b"HELLO"
        assert (wire.there.hits, wire.back.hits) == (0, 0)

    play(scene)


def test_stopped_link_delivers_in_order_after_the_fault() -> None:
    """TCP retransmits until data is acknowledged: it arrives late, but in order."""

    async def scene(wire: Wire) -> None:
        reader, writer = await wire.connect()
        writer.write(b"a")
        assert await comes(reader, 1) == b"A"
        wire.there.set(HELD)
        for letter in (b"b", b"c", b"d"):
            writer.write(letter)
            await asyncio.sleep(0.01)
        assert await nothing_comes(reader)
        assert b"".join(wire.heard) == b"a"

        wire.there.set(JOINED)

        assert await comes(reader, 3) == b"BCD"
        assert wire.there.hits >= 1

    play(scene)


def test_link_stopped_in_one_direction_delivers_in_the_other() -> None:
    """In a one-way cut requests arrive and answers do not."""

    async def scene(wire: Wire) -> None:
        reader, writer = await wire.connect()
        writer.write(b"a")
        await comes(reader, 1)
        wire.back.set(HELD)
        writer.write(b"b")
        assert await nothing_comes(reader)

        assert b"".join(wire.heard) == b"ab"

    play(scene)


@pytest.mark.parametrize("held", ["there", "back"])
def test_connection_over_a_stopped_link_opens_after_the_fault(held: str) -> None:
    """A TCP handshake needs both directions."""

    async def scene(wire: Wire) -> None:
        link: Link = getattr(wire, held)
        link.set(HELD)
        reader, writer = await wire.connect()
        writer.write(b"a")
        assert await nothing_comes(reader)
        assert wire.far == []

        link.set(JOINED)

        assert await comes(reader, 1) == b"A"

    play(scene)


def test_connection_that_its_opener_gave_up_is_never_dialled() -> None:
    async def scene(wire: Wire) -> None:
        wire.there.set(HELD)
        _, writer = await wire.connect()
        writer.write(b"a")
        writer.close()
        await writer.wait_closed()
        await asyncio.sleep(NOTHING_S)

        wire.there.set(JOINED)

        await asyncio.sleep(NOTHING_S)
        assert wire.far == []
        assert wire.there.flows == {}

    play(scene)


def test_close_over_a_stopped_link_arrives_after_the_bytes() -> None:
    async def scene(wire: Wire) -> None:
        reader, writer = await wire.connect()
        writer.write(b"a")
        await comes(reader, 1)
        wire.there.set(HELD)
        writer.write(b"b")
        writer.close()
        await asyncio.sleep(NOTHING_S)
        assert not wire.far[0].is_closing()

        wire.there.set(JOINED)

        while not wire.far[0].is_closing():
            await asyncio.sleep(0.01)
        assert b"".join(wire.heard) == b"ab"

    play(scene)


def test_slow_link_keeps_the_order_of_bytes() -> None:
    async def scene(wire: Wire) -> None:
        reader, writer = await wire.connect()
        wire.there.set(LinkCondition(delay_ms=30))
        for number in range(10):
            writer.write(b"%d" % number)
            await asyncio.sleep(0.005)

        assert await comes(reader, 10) == b"0123456789"
        assert wire.there.hits > 1

    play(scene)


@pytest.mark.slow
def test_lost_packet_delays_everything_behind_it() -> None:
    """TCP retransmits it: no byte is missing, and none overtakes another."""

    async def scene(wire: Wire) -> None:
        reader, writer = await wire.connect()
        writer.write(b"a")
        await comes(reader, 1)
        wire.there.set(LinkCondition(loss_per_mille=500))
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        while not wire.there.hits:
            writer.write(b"b")
            await asyncio.sleep(0.01)
        writer.write(b"!")
        while await comes(reader, 1) != b"!":
            pass

        assert loop.time() - began_s > 0.19

    play(scene)


def test_healed_link_delivers_what_was_late() -> None:
    """Else bytes that were lost six times would be late for 12 s after the fault, and all behind them."""

    async def scene(wire: Wire) -> None:
        reader, writer = await wire.connect()
        writer.write(b"a")
        await comes(reader, 1)
        wire.there.set(LinkCondition(loss_per_mille=1000))
        writer.write(b"late")
        assert await nothing_comes(reader)
        wire.there.set(JOINED)
        writer.write(b"!")

        assert await comes(reader, 5) == b"LATE!"

    play(scene)


def test_connection_over_a_lossy_link_opens_after_the_fault() -> None:
    async def scene(wire: Wire) -> None:
        wire.there.set(LinkCondition(loss_per_mille=1000))
        reader, writer = await wire.connect()
        writer.write(b"a")
        assert await nothing_comes(reader)
        wire.there.set(JOINED)

        assert await comes(reader, 1) == b"A"

    play(scene)


def test_reset_fault_breaks_both_ends_of_a_connection() -> None:
    async def scene(wire: Wire) -> None:
        reader, writer = await wire.connect()
        writer.write(b"a")
        await comes(reader, 1)

        assert wire.proxy.reset() == 1

        with pytest.raises(ConnectionResetError):
            await asyncio.wait_for(reader.read(1), SOON_S)
        while not wire.far[0].is_closing():
            await asyncio.sleep(0.01)
        assert wire.proxy.reset() == 0

    play(scene)


def test_opener_is_reset_if_the_target_does_not_listen() -> None:
    async def scene(wire: Wire) -> None:
        reader, _ = await wire.connect()

        with pytest.raises(ConnectionResetError):
            await asyncio.wait_for(reader.read(1), SOON_S)

    play(scene, listening=False)


def test_proxy_buffers_a_bounded_number_of_bytes() -> None:
    """A cut of an hour must not fill the harness's memory."""

    async def scene(wire: Wire) -> None:
        reader, writer = await wire.connect()
        writer.write(b"a")
        await comes(reader, 1)
        wire.there.set(HELD)
        piece = bytes(1024 * 1024)
        for _ in range(32):
            writer.write(piece)
        await asyncio.sleep(0.2)
        (flow,) = wire.there.flows

        assert isinstance(flow, Flow)
        assert flow.waiting_bytes < 2 * WAITING_BYTES_MAX

        wire.there.set(JOINED)
        received = 0
        while received < 32 * len(piece):
            received += len(await asyncio.wait_for(reader.read(1 << 20), SOON_S))

    play(scene)


def test_proxy_stops_reading_if_the_far_end_takes_nothing() -> None:
    """Writing late data makes room in the proxy's queue but fills the target's write buffer; both count."""

    async def scene(wire: Wire) -> None:
        reader, writer = await wire.connect()
        writer.write(b"a")
        await comes(reader, 1)
        (flow,) = wire.there.flows
        assert isinstance(flow, Flow)
        assert flow.target is not None
        wire.far[0].pause_reading()
        for transport, buffer in ((flow.target, socket.SO_SNDBUF), (wire.far[0], socket.SO_RCVBUF)):
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, buffer, 65536)  # else the kernel takes all of it
        wire.there.set(HELD)
        for _ in range(32):
            writer.write(bytes(1024 * 1024))
        await asyncio.sleep(NOTHING_S)

        wire.there.set(JOINED)

        await asyncio.sleep(2 * NOTHING_S)
        assert flow.waiting_bytes + flow.target.get_write_buffer_size() < 2 * WAITING_BYTES_MAX

        wire.far[0].resume_reading()
        while sum(map(len, wire.heard)) < 5 * WAITING_BYTES_MAX:
            await asyncio.sleep(0.01)

    play(scene)
