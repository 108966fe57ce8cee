"""Messages over real sockets: in order, to whom they belong, and dropped without harm where there is nobody."""

import asyncio
from collections.abc import Awaitable, Callable

from hypothesis import given
from hypothesis import strategies as st

from reference.errors import ErrorCode
from reference.messages import AnyMessage, LogInfoReply, Metadata, MetadataReply
from reference.runtime.transport import FRAME_BYTES_MAX, FrameBuffer, Transport, encode_frame
from reference.types import Address

PATIENCE_S = 10
B1, B2, C1 = Address("b1"), Address("b2"), Address("c1")


class End:
    """One end, with what it heard."""

    def __init__(self, address: Address) -> None:
        self.heard: list[tuple[Address, AnyMessage]] = []
        self.lost: list[Address] = []
        self.address = address

    async def open(self, peers: dict[Address, int], *, port: int | None = None) -> int:
        where = {peer: ("127.0.0.1", at) for peer, at in peers.items()}
        self.transport = Transport(
            self.address, where, lambda source, message: self.heard.append((source, message)), self.lost.append
        )
        return await self.transport.listen("127.0.0.1", port) if port is not None else 0


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.005)


def played(scene: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await scene()

    asyncio.run(main())


def test_messages_arrive_in_order_with_their_sender() -> None:
    async def scene() -> None:
        one, two = End(B1), End(B2)
        port = await two.open({}, port=0)
        await one.open({B2: port})
        messages = [Metadata(n) for n in range(500)]
        for message in messages:
            one.transport.send(B2, message)
        await until(lambda: len(two.heard) == 500)

        assert two.heard == [(B1, message) for message in messages]
        assert one.lost == []
        await one.transport.close()
        await two.transport.close()

    played(scene)


def test_a_client_is_answered_over_the_connection_it_opened() -> None:
    async def scene() -> None:
        client, broker = End(C1), End(B1)
        port = await broker.open({}, port=0)
        await client.open({B1: port})
        client.transport.send(B1, Metadata(1))
        await until(lambda: bool(broker.heard))
        broker.transport.send(C1, MetadataReply(1, (), ()))
        await until(lambda: bool(client.heard))

        assert client.heard == [(B1, MetadataReply(1, (), ()))]
        await client.transport.close()
        await broker.transport.close()

    played(scene)


def test_a_message_to_oneself_comes_back_later_and_not_at_once() -> None:
    """The controller is a broker too, and its effects must all be performed before its own broker hears of them."""

    async def scene() -> None:
        one = End(B1)
        await one.open({})
        one.transport.send(B1, Metadata(1))
        at_once = list(one.heard)
        await until(lambda: bool(one.heard))

        assert at_once == []
        assert one.heard == [(B1, Metadata(1))]
        await one.transport.close()

    played(scene)


def test_what_cannot_be_sent_is_dropped_and_the_peer_told_lost() -> None:
    async def scene() -> None:
        one, two = End(B1), End(B2)
        port = await two.open({}, port=0)
        await two.transport.close()
        await one.open({B2: port})
        one.transport.send(B2, Metadata(1))
        one.transport.send(C1, Metadata(2))  # nobody of this name ever came
        await until(lambda: one.lost == [B2])
        await two.open({}, port=port)
        one.transport.send(B2, Metadata(3))
        await until(lambda: bool(two.heard))

        assert two.heard == [(B1, Metadata(3))]
        await one.transport.close()
        await two.transport.close()

    played(scene)


def test_a_broken_connection_is_told_and_opened_again() -> None:
    async def scene() -> None:
        one, two = End(B1), End(B2)
        port = await two.open({}, port=0)
        await one.open({B2: port})
        one.transport.send(B2, Metadata(1))
        await until(lambda: bool(two.heard))
        await two.transport.close()
        await until(lambda: one.lost == [B2])
        await two.open({}, port=port)
        one.transport.send(B2, Metadata(2))
        await until(lambda: len(two.heard) == 2)

        assert two.heard == [(B1, Metadata(1)), (B1, Metadata(2))]
        await one.transport.close()
        await two.transport.close()

    played(scene)


def test_who_talks_nonsense_is_cut_off_and_the_others_are_not() -> None:
    async def scene() -> None:
        one, two = End(B1), End(B2)
        port = await two.open({}, port=0)
        await one.open({B2: port})
        for nonsense in (b"GET / HTTP/1.1\r\n\r\n", encode_frame(Metadata(1)), b"\xff\xff\xff\xff"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(nonsense)
            async with asyncio.timeout(PATIENCE_S):
                assert await reader.read() == b""
            writer.close()
        one.transport.send(B2, LogInfoReply(7, ErrorCode.NONE))
        await until(lambda: bool(two.heard))

        assert two.heard == [(B1, LogInfoReply(7, ErrorCode.NONE))]
        await one.transport.close()
        await two.transport.close()

    played(scene)


@given(st.lists(st.binary(max_size=20), max_size=6), st.lists(st.integers(1, 9), min_size=1, max_size=9))
def test_frames_come_out_whole_however_the_bytes_are_cut(bodies: list[bytes], sizes: list[int]) -> None:
    stream = b"".join(len(body).to_bytes(4, "big") + body for body in bodies)
    buffer = FrameBuffer()
    out: list[bytes] = []
    turn = 0
    while stream:
        size = sizes[turn % len(sizes)]
        turn += 1
        out += buffer.feed(stream[:size])
        stream = stream[size:]

    assert out == bodies
    assert FRAME_BYTES_MAX < 2**31
