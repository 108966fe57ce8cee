"""What is done to a link is measured at its far end, one direction at a time."""

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from highwater.backends.real.processes.conversation import between_brokers
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


def test_a_held_link_is_proven_held_and_joined_again_proven_joined() -> None:
    async def scene(links: ProxyLinks) -> None:
        held = await (await links.set({THERE: HELD, BACK: HELD}))()
        joined = await (await links.set({THERE: JOINED, BACK: JOINED}))()

        assert (held.holds, joined.holds) == (True, True)
        assert held.detail == "b1>b2: nothing arrived in 150 ms; b2>b1: nothing arrived in 150 ms"
        assert joined.detail.startswith("b1>b2: a packet arrived after ")

    play(scene)


def test_a_cut_in_one_direction_is_proven_with_the_other_direction_that_delivers() -> None:
    async def scene(links: ProxyLinks) -> None:
        proof = await (await links.set({THERE: HELD}))()

        assert proof.holds
        assert "b1>b2: nothing arrived in 150 ms, while b2>b1 delivers in" in proof.detail

    play(scene)


def test_a_cut_that_does_not_act_is_found_out() -> None:
    """A probe that cannot fail proves nothing."""

    async def scene(links: ProxyLinks) -> None:
        probe = await links.set({THERE: HELD})
        await links.set({THERE: JOINED})
        proof = await probe()

        assert not proof.holds
        assert "b1>b2: a packet arrived after" in proof.detail

    play(scene)


def test_a_link_that_is_not_healed_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("highwater.backends.real.processes.links.ARRIVES_S_MAX", 0.2)

    async def scene(links: ProxyLinks) -> None:
        probe = await links.set({THERE: JOINED})
        await links.set({THERE: HELD})

        assert not (await probe()).holds

    play(scene)


def test_a_slow_link_is_proven_by_the_slowest_of_some_packets() -> None:
    async def scene(links: ProxyLinks) -> None:
        slow = await (await links.set({THERE: LinkCondition(delay_ms=100)}))()

        assert slow.holds
        assert links.counts()[THERE] == 0  # the laboratory's own packets do not count

    play(scene)


def test_a_proof_goes_on_after_its_connection_was_broken() -> None:
    async def scene(links: ProxyLinks) -> None:
        for beats in links._beats.values():
            beats._proxy.reset()
        await asyncio.sleep(0.02)
        proof = await (await links.set({THERE: JOINED, BACK: JOINED}))()

        assert proof.holds

    play(scene)


def test_a_reset_breaks_the_connections_of_both_wires_and_says_how_many() -> None:
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


# --- what brokers say ---------------------------------------------------------------------------------------------------------

EPOCH_END = EpochEnd(7, TopicPartition("t-0"), BrokerId(2), LeaderEpoch(1), LeaderEpoch(1))


def test_messages_are_told_apart_and_answers_by_what_they_answer() -> None:
    asked, answered = between_brokers()
    version = version_of(EPOCH_END)
    request = request_frame(EPOCH_END, client_id="b2")
    reply = reply_frame(EPOCH_END, version, EpochEndReply(7, EPOCH_END.tp, ErrorCode.NONE, LeaderEpoch(1), Offset(3)))

    assert list(asked(request[:9])) == []
    assert list(asked(request[9:])) == [("epoch-end", request)]
    assert list(answered(reply)) == [("epoch-end-reply", reply)]
    assert list(answered(reply)) == [("", reply)]  # nobody asked for another one


def test_what_is_no_message_goes_on_as_it_came() -> None:
    asked, _ = between_brokers()
    garbage = b"\xff" * 32

    assert list(asked(garbage)) == [("", garbage)]
    assert list(asked(b"more")) == [("", b"more")]
