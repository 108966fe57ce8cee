"""The state of a link is measured at its receiving end, one direction at a time."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from highwater.backends.real.processes.conversation import of_kafka
from highwater.backends.real.processes.links import ProxyLinks
from highwater.backends.real.site import JOINED, LinkCondition, Pair
from reference.errors import ErrorCode
from reference.messages import EpochEnd, EpochEndReply
from reference.types import Address, BrokerId, LeaderEpoch, Offset, TopicPartition
from server.wire.codec import reply_frame, request_frame, version_of

HOST = "127.0.0.1"
A, B = Address("b1"), Address("b2")
THERE: Pair = (A, B)
BACK: Pair = (B, A)
HELD = LinkCondition(held=True)


def play(scene: Callable[[ProxyLinks], Awaitable[None]]) -> None:
    async def run() -> None:
        links = ProxyLinks(HOST, random.Random(1))
        server = await asyncio.get_running_loop().create_server(asyncio.Protocol, HOST, 0)
        try:
            for opener, listener in (THERE, BACK):
                await links.wire(opener, listener, server.sockets[0].getsockname()[:2])
            await asyncio.wait_for(scene(links), 20)
        finally:
            await links.close()
            server.close()
            await asyncio.sleep(0.01)

    asyncio.run(run())


def test_probe_proves_that_a_link_is_stopped_and_healed() -> None:
    async def scene(links: ProxyLinks) -> None:
        held_proof = await (await links.set({THERE: HELD, BACK: HELD}))()
        joined = await (await links.set({THERE: JOINED, BACK: JOINED}))()

        assert (held_proof.holds, joined.holds) == (True, True)
        assert held_proof.detail == "b1>b2: nothing arrived in 150 ms; b2>b1: nothing arrived in 150 ms"
        assert joined.detail.startswith("b1>b2: a packet arrived after ")

    play(scene)


def test_proof_of_a_one_way_cut_shows_the_other_direction() -> None:
    async def scene(links: ProxyLinks) -> None:
        proof = await (await links.set({THERE: HELD}))()

        assert proof.holds
        assert "b1>b2: nothing arrived in 150 ms, while b2>b1 delivers in" in proof.detail

    play(scene)


def test_link_cut_without_effect_is_detected() -> None:
    """A probe that cannot fail proves nothing."""

    async def scene(links: ProxyLinks) -> None:
        probe = await links.set({THERE: HELD})
        await links.set({THERE: JOINED})
        proof = await probe()

        assert not proof.holds
        assert "b1>b2: a packet arrived after" in proof.detail

    play(scene)


def test_link_that_is_not_healed_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("highwater.backends.real.processes.links.ARRIVES_S_MAX", 0.2)

    async def scene(links: ProxyLinks) -> None:
        probe = await links.set({THERE: JOINED})
        await links.set({THERE: HELD})

        assert not (await probe()).holds

    play(scene)


def test_slow_link_is_proven_by_its_slowest_packet() -> None:
    async def scene(links: ProxyLinks) -> None:
        slow = await (await links.set({THERE: LinkCondition(delay_ms=100)}))()

        assert slow.holds
        assert links.counts()[THERE] == 0  # the harness's own packets do not count

    play(scene)


def test_probe_reopens_a_broken_connection() -> None:
    async def scene(links: ProxyLinks) -> None:
        for beats in links._beats.values():
            beats._proxy.reset()
        await asyncio.sleep(0.02)
        proof = await (await links.set({THERE: JOINED, BACK: JOINED}))()

        assert proof.holds

    play(scene)


def test_link_reset_breaks_and_counts_all_its_connections() -> None:
    async def run() -> None:
        links = ProxyLinks(HOST, random.Random(1))
        server = await asyncio.get_running_loop().create_server(asyncio.Protocol, HOST, 0)
        there = await links.wire(A, B, server.sockets[0].getsockname()[:2])
        readers = [await asyncio.open_connection(*there) for _ in range(3)]
        await asyncio.sleep(0.05)

        assert await links.reset([BACK]) == 3

        for reader, writer in readers:
            with pytest.raises(ConnectionResetError):
                await asyncio.wait_for(reader.read(1), 5)
            writer.transport.abort()
        await links.close()
        server.close()
        await asyncio.sleep(0.01)

    asyncio.run(run())


# --- conversations of brokers ------------------------------------------------------------------------------------------------

EPOCH_END = EpochEnd(7, TopicPartition("t-0"), BrokerId(2), LeaderEpoch(1), LeaderEpoch(1))


def test_proxy_tells_message_kinds_of_requests_and_replies() -> None:
    request_reader, answered = of_kafka()
    version = version_of(EPOCH_END)
    request = request_frame(EPOCH_END, client_id="b2")
    reply = reply_frame(EPOCH_END, version, EpochEndReply(7, EPOCH_END.tp, ErrorCode.NONE, LeaderEpoch(1), Offset(3)))

    assert list(request_reader(request[:9])) == []
    assert list(request_reader(request[9:])) == [("epoch-end", request)]
    assert list(answered(reply)) == [("epoch-end-reply", reply)]
    assert list(answered(reply)) == [("", reply)]  # no request is open any more


def test_bytes_that_are_no_kafka_frame_pass_unchanged() -> None:
    request_reader, _ = of_kafka()
    garbage = b"\xff" * 32

    assert list(request_reader(garbage)) == [("", garbage)]
    assert list(request_reader(b"more")) == [("", b"more")]
