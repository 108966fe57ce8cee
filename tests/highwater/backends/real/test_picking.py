"""A proxy that tells messages apart does something to single ones, and keeps the order of their connection."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from highwater.backends.real.processes.conversation import KINDS, of_kafka, of_quorum
from highwater.backends.real.processes.picking import REPEAT_S, Picker, repeats_s
from highwater.backends.real.site import JOINED, LinkCondition, Pick
from nemesis import messages
from reference.types import Address
from server.wire.clients.apis import ApiKey
from server.wire.codec import APIS
from tests.highwater.backends.real.test_proxy import NOTHING_S, Wire, comes, nothing_comes, play

PRODUCE, END_TXN = 0, 26
SIZE = 13


def frame(api_key: int, word: bytes) -> bytes:
    """A request; the far end returns it as it is, so its first four bytes, the API's key, are the correlation id as well."""
    head = api_key.to_bytes(2, "big") + b"\0\0"
    return (len(head) * 2 + len(word)).to_bytes(4, "big") + head + head + word


def pick(**does: object) -> LinkCondition:
    return LinkCondition(picks=(Pick(window="w", seed=1, **{"kinds": ("end-txn",), **does}),))  # type: ignore[arg-type]


def talk(scene: Callable[[Wire], Awaitable[None]]) -> None:
    play(scene, conversation=of_kafka)


def test_held_request_arrives_after_its_client_has_gone() -> None:
    """The client gave up the connection and asked again over another one: the broker gets both requests, the first one last."""

    async def scene(wire: Wire) -> None:
        wire.there.set(pick(held=True, one_connection=True))
        _, first = await wire.connect()
        first.write(frame(END_TXN, b"A"))
        await asyncio.sleep(NOTHING_S)
        first.close()
        await first.wait_closed()
        reader, second = await wire.connect()
        second.write(frame(END_TXN, b"B"))
        assert await comes(reader, SIZE) == frame(END_TXN, b"B")
        picker = wire.there.pickers["w"]

        wire.there.set(JOINED)
        await asyncio.sleep(NOTHING_S)

        assert b"".join(wire.heard) == frame(END_TXN, b"B") + frame(END_TXN, b"A")
        assert (picker.hits, picker.orphans) == (1, 1)

    talk(scene)


def test_late_request_delays_what_follows_on_its_connection() -> None:
    """Kafka answers a connection's requests in order; a client takes another order for a broken broker."""

    async def scene(wire: Wire) -> None:
        wire.there.set(pick(delay_ms=60))
        reader, writer = await wire.connect()
        writer.write(frame(END_TXN, b"A") + frame(PRODUCE, b"B"))
        other_reader, other_writer = await wire.connect()
        other_writer.write(frame(PRODUCE, b"C"))

        assert await comes(other_reader, SIZE) == frame(PRODUCE, b"C")
        assert await comes(reader, 2 * SIZE) == frame(END_TXN, b"A") + frame(PRODUCE, b"B")
        assert wire.there.pickers["w"].hits == 1

    talk(scene)


def test_cut_at_a_request_loses_it_with_its_connection() -> None:
    async def scene(wire: Wire) -> None:
        wire.there.set(pick(cut=True))
        reader, writer = await wire.connect()
        writer.write(frame(PRODUCE, b"A"))
        assert await comes(reader, SIZE) == frame(PRODUCE, b"A")
        writer.write(frame(END_TXN, b"B"))

        with pytest.raises(ConnectionResetError):
            await comes(reader, SIZE)
        assert b"".join(wire.heard) == frame(PRODUCE, b"A")

    talk(scene)


def test_cut_at_an_answer_loses_what_was_performed() -> None:
    async def scene(wire: Wire) -> None:
        wire.back.set(pick(cut=True, kinds=("end-txn-reply",)))
        reader, writer = await wire.connect()
        writer.write(frame(END_TXN, b"B"))

        with pytest.raises(ConnectionResetError):
            await comes(reader, SIZE)
        assert b"".join(wire.heard) == frame(END_TXN, b"B")

    talk(scene)


def test_fault_of_one_connection_spares_the_others() -> None:
    """One connection is dead in both directions, and a client that opens another one is served."""

    async def scene(wire: Wire) -> None:
        reader, writer = await wire.connect()
        other_reader, other_writer = await wire.connect()
        for link in (wire.there, wire.back):
            link.set(pick(held=True, one_connection=True, kinds=()))
        writer.write(frame(PRODUCE, b"A"))
        await asyncio.sleep(0.02)
        other_writer.write(frame(PRODUCE, b"B"))

        assert await comes(other_reader, SIZE) == frame(PRODUCE, b"B")
        assert await nothing_comes(reader)
        assert b"".join(wire.heard) == frame(PRODUCE, b"B")

    talk(scene)


def test_equal_traffic_is_picked_alike() -> None:
    def picked(seed: int, link: tuple[Address, Address] = (Address("p1"), Address("b1"))) -> list[bool]:
        picker = Picker(Pick(window="w", seed=seed, per_mille=250), link, {})
        return [picker.picks("end-txn", None) for _ in range(400)]

    assert picked(1) == picked(1)
    assert picked(1) != picked(2)
    assert picked(1) != picked(1, (Address("p1"), Address("b2")))
    assert 60 < sum(picked(1)) < 140


def test_lost_message_comes_with_the_first_copy_that_passes() -> None:
    assert repeats_s(lambda _: 999, 500) == 0
    assert repeats_s(lambda _: 999, 500, lost=1) == REPEAT_S
    draws = iter((0, 0, 999))
    assert repeats_s(lambda _: next(draws), 500) == 3 * REPEAT_S


def test_kinds_agree_with_the_messages_of_the_reference() -> None:
    """A kind has one name, whoever sends it."""
    for message, api in APIS.items():
        assert KINDS[int(api)].replace("-", "") == message.__name__.lower()
    shared = {int(api) for api in APIS.values()} & {*messages.KINDS}
    assert {KINDS[key] for key in shared} == {messages.KINDS[key] for key in shared}
    for key in ApiKey:
        assert messages.KINDS[key] in (key.name.lower().replace("_", "-"), "epoch-end")


def test_fetch_of_the_metadata_log_is_a_kind_of_its_own() -> None:
    """A plan that holds fetches of records would stop the quorum, too."""
    request_reader, _ = of_quorum()

    assert [kind for kind, _ in request_reader(frame(1, b"") + frame(52, b""))] == ["quorum-fetch", "vote"]


def test_kinds_among_brokers_are_kinds() -> None:
    assert {*messages.KINDS.values()} > messages.AMONG_BROKERS
    assert messages.requests(("end-txn", "end-txn-reply")) == {"end-txn"}
