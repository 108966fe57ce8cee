"""Messages between nodes over real sockets: order, matching of replies, broken connections and limits."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from reference.errors import ErrorCode
from reference.messages import (
    AnyMessage,
    Fetch,
    FetchReply,
    IsrMember,
    LogInfo,
    LogInfoReply,
    Metadata,
    PartitionState,
    UpdateMetadata,
    UpdateMetadataReply,
)
from reference.types import (
    NO_EPOCH,
    Address,
    BrokerId,
    ControllerEpoch,
    Incarnation,
    LeaderEpoch,
    Millis,
    Offset,
    TopicId,
    TopicPartition,
    ZkVersion,
)
from server.runtime import transport
from server.runtime.transport import Transport
from server.wire.codec import request_frame

PATIENCE_S = 10
B1, B2 = Address("b1"), Address("b2")
TP = TopicPartition("orders-0")


def question(correlation: int) -> LogInfo:
    return LogInfo(correlation, BrokerId(1), ControllerEpoch(3), Incarnation(70), (TP,))


def answer(correlation: int) -> LogInfoReply:
    return LogInfoReply(correlation, ErrorCode.NONE)


class End:
    """One node's transport, with the messages that it received."""

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

    def received(self, source: Address, message: AnyMessage) -> None:
        self.heard.append((source, message))

    def messages(self) -> list[AnyMessage]:
        return [message for _, message in self.heard]


async def has_heard(end: End, count: int) -> None:
    await until(lambda: len(end.heard) == count)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.005)


def skip(seconds: float) -> None:
    """Advance the loop's clock."""
    loop = asyncio.get_running_loop()
    loop.time = partial(_later, loop.time, seconds)  # type: ignore[method-assign]  # timers ask it


def _later(time: Callable[[], float], seconds: float) -> float:
    return time() + seconds


def play(scene: Callable[[End, End, int], Awaitable[None]]) -> None:
    """Run a scene with b1, which knows b2, and b2, which listens; the third argument is b2's port."""

    async def main() -> None:
        first, second = End(B1), End(B2)
        port = await second.open({}, port=0)
        await first.open({B2: port})
        await scene(first, second, port)
        await first.transport.close()
        await second.transport.close()

    asyncio.run(main())


def test_requests_of_one_broker_arrive_in_order() -> None:
    async def scene(first: End, second: End, port: int) -> None:
        questions = [question(n) for n in range(500)]
        for log_info in questions:
            first.transport.send(B2, log_info)
        await until(lambda: len(second.heard) == 500)

        assert second.heard == [(Address("@1"), log_info) for log_info in questions]
        assert first.lost == []

    play(scene)


def test_replies_match_requests_in_any_order() -> None:
    """A parked fetch of one partition must not delay the follower's other fetches."""

    async def scene(first: End, second: End, port: int) -> None:
        for n in (1, 2, 3):
            first.transport.send(B2, question(n))
        await until(lambda: len(second.heard) == 3)
        source = second.heard[0][0]
        for n in (2, 3, 1):
            second.transport.send(source, answer(n))
        second.transport.send(source, answer(2))  # a second reply is dropped
        second.transport.send(Address("@99"), answer(2))
        await until(lambda: len(first.heard) == 3)

        assert first.heard == [(B2, answer(2)), (B2, answer(3)), (B2, answer(1))]

    play(scene)


def test_message_of_a_broker_to_itself_is_delivered_later() -> None:
    """The controller is a broker too: all its effects must be performed before its own broker gets the message."""

    async def scene(node: End, second: End, port: int) -> None:
        node.transport.send(B1, Metadata(1))
        at_once = list(node.heard)
        await until(lambda: bool(node.heard))

        assert at_once == []
        assert node.heard == [(B1, Metadata(1))]

    play(scene)


def test_fetch_by_topic_id_works_after_update_metadata() -> None:
    """KIP-516: a fetch has no topic name; the leader learned name and id from the controller."""

    async def scene(first: End, second: End, port: int) -> None:
        fetch = Fetch(2, TP, BrokerId(1), Incarnation(7), LeaderEpoch(0), Offset(0), Millis(5), 10, TopicId(77))
        member = IsrMember(BrokerId(2), Incarnation(8))
        state = PartitionState(
            TP,
            BrokerId(2),
            member.incarnation,
            LeaderEpoch(0),
            (member,),
            ControllerEpoch(1),
            ZkVersion(0),
            (BrokerId(2), BrokerId(1)),
            topic_id=TopicId(77),
        )
        command = UpdateMetadata(1, BrokerId(1), ControllerEpoch(1), Incarnation(8), (BrokerId(1),), (state,))
        first.transport.send(B2, fetch)
        first.transport.send(B2, command)
        first.transport.send(B2, fetch)
        await until(lambda: len(second.heard) == 3)

        unknown, update_metadata, known = second.messages()
        assert isinstance(unknown, Fetch)
        assert unknown.tp != TP
        assert (update_metadata, known) == (command, fetch)
        reply = FetchReply(2, TP, ErrorCode.NONE, LeaderEpoch(0), Offset(0))
        second.transport.send(Address("@1"), UpdateMetadataReply(1, ErrorCode.NONE))
        second.transport.send(Address("@1"), reply)
        await until(lambda: len(first.heard) == 2)
        assert first.messages() == [UpdateMetadataReply(1, ErrorCode.NONE), reply]

    play(scene)


def test_unsendable_request_is_dropped_and_peer_reported_lost() -> None:
    async def scene(first: End, second: End, port: int) -> None:
        await second.transport.close()
        first.transport.send(B2, question(1))
        first.transport.send(Address("b9"), question(2))  # not a known peer
        await until(lambda: first.lost == [B2])
        await second.open({}, port=port)
        first.transport.send(B2, question(3))
        await until(lambda: bool(second.heard))

        assert second.messages() == [question(3)]

    play(scene)


def test_broken_connection_is_reported_and_reopened() -> None:
    async def scene(first: End, second: End, port: int) -> None:
        first.transport.send(B2, question(1))
        await until(lambda: bool(second.heard))
        second.transport.disconnect(second.heard[0][0])
        await until(lambda: first.lost == [B2])
        second.transport.send(second.heard[0][0], answer(1))  # to a closed connection
        first.transport.send(B2, question(2))
        await until(lambda: len(second.heard) == 2)

        assert second.heard == [(Address("@1"), question(1)), (Address("@2"), question(2))]

    play(scene)


@pytest.mark.parametrize(
    "nonsense",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x0a\x00\x03\x00\x08\x00\x00\x00\x01\xff\xff",  # Metadata is for clients
        request_frame(question(1))[:-6] + b"\xff" * 6,
    ],
    ids=["http", "length", "metadata", "body"],
)
def test_malformed_request_closes_only_its_connection(nonsense: bytes) -> None:
    async def scene(first: End, second: End, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(nonsense)
        async with asyncio.timeout(PATIENCE_S):
            assert await reader.read() == b""
        writer.close()
        first.transport.send(B2, question(7))
        await until(lambda: bool(second.heard))

        assert second.messages() == [question(7)]

    play(scene)


def test_reply_without_request_closes_the_connection() -> None:
    async def main() -> None:
        async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"\x00\x00\x00\x04\x00\x00\x00\x63")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        node = End(B1)
        await node.open({B2: server.sockets[0].getsockname()[1]})
        node.transport.send(B2, question(1))
        await until(lambda: node.lost == [B2])

        assert node.heard == []
        await node.transport.close()
        server.close()

    asyncio.run(main())


def test_excess_incoming_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "CONNECTIONS_MAX", 1)

    async def scene(first: End, second: End, port: int) -> None:
        first.transport.send(B2, question(1))
        await until(lambda: bool(second.heard))
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        async with asyncio.timeout(PATIENCE_S):
            assert await reader.read() == b""
        writer.close()
        first.transport.send(B2, question(2))
        await until(lambda: len(second.heard) == 2)

    play(scene)


def test_transport_limits_bytes_of_incomplete_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "HELD_BYTES_MAX", 1000)

    async def scene(first: End, second: End, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write((100_000).to_bytes(4, "big") + bytes(2000))
        async with asyncio.timeout(PATIENCE_S):
            assert await reader.read() == b""
        writer.close()
        await until(lambda: second.transport.held == 0)
        first.transport.send(B2, question(1))
        await until(lambda: bool(second.heard))

    play(scene)


def test_connect_attempt_without_answer_is_given_up() -> None:
    """If the SYN was dropped, TCP repeats it with backoff, perhaps a minute after the network is whole again."""

    async def main() -> None:
        full = socket.create_server(("127.0.0.1", 0), backlog=0)
        with full, socket.create_connection(full.getsockname()):  # the accept queue is full
            node = End(B1)
            await node.open({B2: full.getsockname()[1]})
            node.transport.send(B2, question(1))
            await asyncio.sleep(0)
            skip(transport.DIAL_S_MAX)
            await until(lambda: node.lost == [B2])
            await node.transport.close()

    asyncio.run(main())


def test_silent_peer_is_asked_over_a_new_connection() -> None:
    """After a packet drop of a minute, TCP may retransmit up to a minute after the network is whole again."""

    async def scene(first: End, second: End, port: int) -> None:
        first.transport.send(B2, question(1))
        await until(lambda: len(second.heard) == 1)
        skip(transport.SILENCE_S_MAX)
        await until(lambda: first.lost == [B2])
        first.transport.send(B2, question(2))
        await until(lambda: len(second.heard) == 2)

        assert second.heard == [(Address("@1"), question(1)), (Address("@2"), question(2))]

    play(scene)


def test_connection_with_traffic_or_no_request_stays_open() -> None:
    """One request may wait long (a deletion waits for ZooKeeper) while others are answered."""

    async def scene(first: End, second: End, port: int) -> None:
        first.transport.send(B2, question(1))
        for n in (2, 3, 4, 5):
            first.transport.send(B2, question(n))
            await has_heard(second, n)
            second.transport.send(Address("@1"), answer(n))
            await has_heard(first, n - 1)
            skip(transport.SILENCE_S_MAX / 2)
            await asyncio.sleep(0)
        second.transport.send(Address("@1"), answer(1))
        await has_heard(first, 5)
        skip(2 * transport.SILENCE_S_MAX)
        first.transport.send(B2, question(6))
        await has_heard(second, 6)

        assert first.lost == []

    play(scene)


def test_idle_incoming_connection_is_closed() -> None:
    """The packets that close a connection may be lost; without a limit such connections would fill CONNECTIONS_MAX."""

    async def scene(first: End, second: End, port: int) -> None:
        first.transport.send(B2, question(1))
        await until(lambda: bool(second.heard))
        second.transport.send(Address("@1"), answer(1))
        await until(lambda: bool(first.heard))
        skip(transport.IDLE_S_MAX)
        await until(lambda: first.lost == [B2])

    play(scene)


def test_fetch_without_leader_epoch_round_trips() -> None:
    """A fetch without a leader epoch has the epoch -1, here and on the wire."""

    async def scene(first: End, second: End, port: int) -> None:
        fetch = Fetch(2, TP, BrokerId(1), Incarnation(7), NO_EPOCH, Offset(0), Millis(5), 10)
        first.transport.send(B2, fetch)
        await until(lambda: bool(second.heard))

        assert second.messages() == [fetch]

    play(scene)
