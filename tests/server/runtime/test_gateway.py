"""Client connections over real sockets: limits are enforced, and one bad connection does not affect the others."""

import asyncio
import socket
from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from reference.messages import Metadata, MetadataReply, Request
from reference.types import Address, Millis
from server.runtime.gateway import Gateway, Limits
from server.wire.clients.apis import ApiKey
from server.wire.clients.metadata import MetadataRequest
from server.wire.clients.tasks import AnyResult, AnyTask, Done, MakeTopic
from server.wire.clients.topics import CreatableTopic, CreateTopicsRequest
from server.wire.entities import write_request
from server.wire.framing import RequestHeader, encode_frame, encode_request_header
from tests.server.wire.talking import FACING, ME

PATIENCE_S = 10


class GatewayNode:
    """A node that answers at once, or only when the test says so."""

    def __init__(self, limits: Limits) -> None:
        self.gateway = Gateway(self, limits)
        self.asked: list[tuple[Address, Request]] = []
        self.tasks: list[AnyTask] = []
        self.lost_ones: list[Address] = []
        self.answers = True

    def received(self, source: Address, message: Request) -> None:
        self.asked.append((source, message))
        if self.answers:
            self.answer(source, message)

    def answer(self, source: Address, message: Request) -> None:
        self.gateway.send(source, MetadataReply(message.correlation, (ME,), (), controller=ME))

    def perform(self, task: AnyTask, answer: Callable[[AnyResult], None]) -> None:
        self.tasks.append(task)
        answer(Done(task.correlation))

    def lost(self, source: Address) -> None:
        self.lost_ones.append(source)


def request_frame(correlation: int) -> bytes:
    header = RequestHeader(api_key=ApiKey.METADATA, api_version=8, correlation=correlation)
    body = write_request(header.api_key, header.api_version, MetadataRequest(topics=()))
    return encode_frame(encode_request_header(header), *body)


class Client:
    """One client connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def answered(self) -> int:
        """The correlation id of the next response."""
        size = int.from_bytes(await self.reader.readexactly(4), "big")
        return int.from_bytes((await self.reader.readexactly(size))[:4], "big")

    async def is_closed(self) -> bool:
        """True if the connection is closed without another byte."""
        try:
            return await self.reader.read(1) == b""
        except ConnectionResetError:
            return True


Dial = Callable[[], Awaitable[Client]]


def play(scene: Callable[[GatewayNode, Dial], Awaitable[None]], **limits: int) -> None:
    """Run a scene with a gateway on a free port and a function that connects a client."""

    async def main() -> None:
        node = GatewayNode(replace(Limits(), **limits))
        port = await node.gateway.listen("127.0.0.1", 0, FACING)
        clients: list[Client] = []

        async def dial() -> Client:
            clients.append(Client(*await asyncio.open_connection("127.0.0.1", port)))
            return clients[-1]

        async with asyncio.timeout(PATIENCE_S):
            await scene(node, dial)
        for client in clients:
            client.writer.close()
        await node.gateway.close()
        await asyncio.sleep(0)

    asyncio.run(main())


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0.005)


def test_each_client_connection_has_its_own_address() -> None:
    async def scene(node: GatewayNode, dial: Dial) -> None:
        for number in (1, 2):
            client = await dial()
            client.writer.write(request_frame(7))
            assert await client.answered() == 7
            assert node.asked[-1] == (f"@c{number}", Metadata(1))

    play(scene)


def test_client_requests_may_arrive_pipelined_and_in_pieces() -> None:
    async def scene(node: GatewayNode, dial: Dial) -> None:
        client = await dial()
        data = b"".join(request_frame(n) for n in range(100))
        for at in range(0, len(data), 7):
            client.writer.write(data[at : at + 7])
        assert [await client.answered() for _ in range(100)] == list(range(100))

    play(scene)


def test_excess_client_connection_is_closed() -> None:
    async def scene(node: GatewayNode, dial: Dial) -> None:
        first, second = await dial(), await dial()
        for client in (first, second):
            client.writer.write(request_frame(1))
            await client.answered()
        assert await (await dial()).is_closed()
        first.writer.close()
        while True:
            third = await dial()
            third.writer.write(request_frame(3))
            if not await third.is_closed():
                break

    play(scene, connections_per_address=2)
    play(scene, connections=2)


def test_gateway_limits_requests_in_progress() -> None:
    """Further requests must stay in the client's buffers, not in the broker's memory."""

    async def scene(node: GatewayNode, dial: Dial) -> None:
        node.answers = False
        client = await dial()
        client.writer.write(b"".join(request_frame(n) for n in range(6)))
        await until(lambda: len(node.asked) == 2)
        await asyncio.sleep(0.02)
        assert len(node.asked) == 2
        node.answers = True
        for source, message in list(node.asked):
            node.answer(source, message)
        assert [await client.answered() for _ in range(6)] == list(range(6))

    play(scene, in_flight=2)


def test_idle_connection_is_closed() -> None:
    async def scene(node: GatewayNode, dial: Dial) -> None:
        silent, busy = await dial(), await dial()
        closed = asyncio.ensure_future(silent.is_closed())
        while not closed.done():
            busy.writer.write(request_frame(1))
            await busy.answered()
            await asyncio.sleep(0.01)
        assert closed.result()
        for _ in range(20):  # longer than idle_ms
            busy.writer.write(request_frame(1))
            await busy.answered()
            await asyncio.sleep(0.01)

    play(scene, idle_ms=100)


def test_idle_client_that_does_not_read_is_aborted() -> None:
    """TCP keeps unsent bytes forever: without an abort the connection would keep its slot and its memory."""

    async def scene(node: GatewayNode, dial: Dial) -> None:
        wordy = replace(FACING, advertised={ME: ("x" * 30_000, 9092)})
        port = await node.gateway.listen("127.0.0.1", 0, wordy)
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(b"".join(request_frame(correlation) for correlation in range(1000)))
            await until(lambda: node.gateway.held > 0)
            await until(lambda: node.gateway.held == 0)

    play(scene, idle_ms=300)


def test_gateway_limits_the_bytes_held_by_all_connections() -> None:
    async def scene(node: GatewayNode, dial: Dial) -> None:
        greedy, modest = await dial(), await dial()
        greedy.writer.write((90_000).to_bytes(4, "big") + bytes(6000))
        assert await greedy.is_closed()
        await until(lambda: node.gateway.held == 0)
        modest.writer.write(request_frame(1))
        assert await modest.answered() == 1

    play(scene, held_bytes=5000)


def test_sent_responses_do_not_count_as_held_bytes() -> None:
    """A response that waited for its reader must not stay counted until the next request of its connection."""

    async def scene(node: GatewayNode, dial: Dial) -> None:
        wordy = replace(FACING, advertised={ME: ("x" * 30_000, 9092)})
        port = await node.gateway.listen("127.0.0.1", 0, wordy)
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1000)
        client = Client(reader, writer)
        answers = 0
        while node.gateway.held < 1000:  # answers that their client does not read
            client.writer.write(request_frame(answers))
            answers += 1
            while len(node.asked) < answers:
                await asyncio.sleep(0)
        for _ in range(answers):
            await client.answered()
        node.gateway.limits = replace(node.gateway.limits, held_bytes=node.gateway.held)
        modest = await dial()
        modest.writer.write(request_frame(1)[:-1])  # passes the limit, so that the gateway counts again
        await until(lambda: node.gateway.held < 1000)
        modest.writer.write(request_frame(1)[-1:])
        assert await modest.answered() == 1
        writer.close()

    play(scene)


def test_malformed_or_large_request_closes_only_its_connection() -> None:
    async def scene(node: GatewayNode, dial: Dial) -> None:
        modest = await dial()
        for nonsense in (b"GET / HTTP/1.1\r\n\r\n", (2000).to_bytes(4, "big"), encode_frame(b"\x00\x07" + bytes(20))):
            client = await dial()
            client.writer.write(nonsense)
            assert await client.is_closed()
        client = await dial()
        client.writer.write(request_frame(5) + encode_frame(b"nonsense"))
        assert await client.answered() == 5  # the request before it is answered
        assert await client.is_closed()
        modest.writer.write(request_frame(1))
        assert await modest.answered() == 1

    play(scene, request_bytes=1000)


def test_reply_to_a_closed_connection_is_dropped() -> None:
    async def scene(node: GatewayNode, dial: Dial) -> None:
        node.answers = False
        client = await dial()
        client.writer.write(request_frame(1))
        await until(lambda: len(node.asked) == 1)
        source, message = node.asked[0]
        node.gateway.disconnect(source)
        assert await client.is_closed()
        node.answer(source, message)
        node.gateway.disconnect(source)

    play(scene)


def test_broker_learns_of_each_closed_client_connection() -> None:
    """Otherwise the node would keep parked requests until the client's own timeout."""

    async def scene(node: GatewayNode, dial: Dial) -> None:
        node.answers = False
        first, second = await dial(), await dial()
        for client in (first, second):
            client.writer.write(request_frame(1))
        await until(lambda: len(node.asked) == 2)
        (source, _), (second_client, _) = node.asked
        second.writer.write(b"nonsense")  # closed by this end
        await until(lambda: node.lost_ones == ["@c2"])
        first.writer.close()
        await until(lambda: node.lost_ones == ["@c2", "@c1"])

        assert {source, second_client} == set(node.lost_ones)

    play(scene)


def test_answering_a_client_may_pause_and_perform_tasks() -> None:
    """The gateway performs pauses itself and hands the other tasks to the node."""

    async def scene(node: GatewayNode, dial: Dial) -> None:
        client = await dial()
        header = RequestHeader(api_key=ApiKey.CREATE_TOPICS, api_version=4, correlation=9)
        topic = CreatableTopic(name="new", num_partitions=1, replication_factor=1, assignments=(), configs=())
        body = CreateTopicsRequest(topics=(topic,), timeout_ms=50, validate_only=False)
        began_s = asyncio.get_running_loop().time()
        client.writer.write(encode_frame(encode_request_header(header), *write_request(19, 4, body)))
        assert await client.answered() == 9
        assert asyncio.get_running_loop().time() - began_s > 0.04  # it polled for a topic that never appeared
        assert node.tasks == [MakeTopic(2, "new", ((ME,),), Millis(50))]
        assert len(node.asked) > 2

    play(scene)
