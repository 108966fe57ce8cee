"""The host performs the effects of a machine in order and delivers events to it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from reference.coordination.api import AnyOp, Exists
from reference.effects import (
    AnyEffect,
    Append,
    CancelTimer,
    CreateReplica,
    Flush,
    Halt,
    Note,
    Send,
    SetTimer,
    WriteCheckpoint,
    ZkConnect,
    ZkRequest,
)
from reference.errors import ErrorCode
from reference.events import AnyEvent, Booted, DirFailed, DirImage, Flushed, Received, TimerFired
from reference.machine import Now
from reference.messages import AnyMessage, Batch, Fetch, FetchReply, Metadata, Produce
from reference.sealed import HEADER_BYTES
from reference.types import NO_INCARNATION, Address, BrokerId, LeaderEpoch, Millis, Offset, TopicPartition
from server.disk.log_dirs import Disk
from server.runtime.node import Host
from server.wire.records import sealed
from tests.server.runtime.batches import batch, header_only

TP = TopicPartition("orders-0")
B2 = Address("b2")
PATIENCE_S = 10


class Toy:
    """A machine that answers each event from a table and records all events."""

    def __init__(self, table: Callable[[AnyEvent], Sequence[AnyEffect]]) -> None:
        self.table = table
        self.told: list[AnyEvent] = []

    def handle(self, event: AnyEvent, *, now: Now) -> Sequence[AnyEffect]:
        self.told.append(event)
        return self.table(event)


class World:
    """A network and a ZooKeeper that record their calls, and the notes, in one list."""

    def __init__(self, toy: Toy, path: Path) -> None:
        self.done: list[object] = []
        self.reasons: list[str] = []
        self.disk = Disk([path])
        self.disk.recover()
        loop = asyncio.get_running_loop()
        self.host = Host(toy, self.disk, loop=loop, note=self.done.append, stopped=self.reasons.append)
        self.begin()

    def begin(self) -> None:
        self.host.start(self, self)

    def send(self, to: Address, message: AnyMessage) -> None:
        self.done.append((to, message))

    def disconnect(self, peer: Address) -> None:
        self.done.append(("disconnect", peer))

    def connect(self) -> None:
        self.done.append("connect")

    def request(self, request_id: int, ops: tuple[AnyOp, ...], *, atomic: bool) -> None:
        self.done.append((request_id, ops, atomic))


def play(path: Path, table: Callable[[AnyEvent], Sequence[AnyEffect]], scene: Callable[[World, Toy], Awaitable[None]]) -> World:
    """Run a scene with a host whose machine answers each event by the table."""

    async def main() -> World:
        toy = Toy(table)
        world = World(toy, path)
        async with asyncio.timeout(PATIENCE_S):
            await scene(world, toy)
        world.host.stop("end of the test")
        world.disk.close()
        return world

    return asyncio.run(main())


async def deliver(toy: Toy, event: AnyEvent) -> None:
    while event not in toy.told:
        await asyncio.sleep(0.002)


async def nothing(world: World, toy: Toy) -> None:
    pass


def on_boot(*effects: AnyEffect) -> Callable[[AnyEvent], Sequence[AnyEffect]]:
    return lambda event: effects if isinstance(event, Booted) else ()


def test_machine_effects_are_performed_from_left_to_right(tmp_path: Path) -> None:
    note = Note(kind="x")
    ops = (Exists("/a", watch=True),)
    table = on_boot(ZkConnect(), Send(B2, Metadata(1)), note, ZkRequest(4, ops, atomic=True), Send(B2, Metadata(2)))

    world = play(tmp_path, table, nothing)

    assert world.done == ["connect", (B2, Metadata(1)), note, (4, ops, True), (B2, Metadata(2))]


def test_event_waits_until_earlier_effects_are_performed(tmp_path: Path) -> None:
    class Loud(World):
        def send(self, to: Address, message: AnyMessage) -> None:
            super().send(to, message)
            if message == Metadata(1):
                self.host.received(B2, Metadata(9))

    toy = Toy(
        lambda event: (Note(kind="heard"),) if isinstance(event, Received) else (Send(B2, Metadata(1)), Send(B2, Metadata(2)))
    )

    async def main() -> list[object]:
        return Loud(toy, tmp_path).done

    assert asyncio.run(main()) == [(B2, Metadata(1)), (B2, Metadata(2)), Note(kind="heard")]


def test_requests_before_the_start_are_handled_after_booted(tmp_path: Path) -> None:
    """Listeners open before the machine starts, because a node must not start if a port is in use."""

    class Early(World):
        def begin(self) -> None:
            self.host.received(B2, Metadata(9))
            super().begin()

    toy = Toy(lambda event: (Note(kind="heard"),) if isinstance(event, Received) else (Send(B2, Metadata(1)),))

    async def main() -> list[object]:
        return Early(toy, tmp_path).done

    assert asyncio.run(main()) == [(B2, Metadata(1)), Note(kind="heard")]
    assert toy.told == [Booted(), Received(B2, Metadata(9))]


def test_flushes_are_answered_in_order_when_durable(tmp_path: Path) -> None:
    table = on_boot(CreateReplica(0, TP), Append(0, TP, (batch(0, "a"),)), Flush(0, 7), Flush(0, 8))

    async def scene(world: World, toy: Toy) -> None:
        await deliver(toy, Flushed(0, 8))
        assert toy.told == [Booted(), Flushed(0, 7), Flushed(0, 8)]

    play(tmp_path, table, scene)


def test_failed_disk_effect_drops_later_sends_and_is_reported(tmp_path: Path) -> None:
    (tmp_path / TP).mkdir()
    (tmp_path / TP / "log").mkdir()  # so the replica cannot be created
    told_first: list[AnyEvent] = []

    def table(event: AnyEvent) -> Sequence[AnyEffect]:
        told_first.append(event)
        return (Send(B2, Metadata(1)), CreateReplica(0, TP), Send(B2, Metadata(2))) if isinstance(event, Booted) else ()

    world = play(tmp_path, table, nothing)

    assert world.done == [(B2, Metadata(1))]
    assert isinstance(told_first[1], DirFailed)
    assert told_first[1].dir == 0
    assert TP in told_first[1].error


def test_failed_write_and_failed_flush_fail_the_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R-291: an IOException on a write, and on the flush that makes earlier writes durable."""

    def fail(*_: object) -> None:
        raise OSError("no such disk")

    async def scene(_: World, toy: Toy) -> None:
        await deliver(toy, DirFailed(0, "no such disk"))

    monkeypatch.setattr(Disk, "flush_job", lambda *_: fail)
    play(tmp_path, on_boot(Flush(0, 1)), scene)
    monkeypatch.setattr(Disk, "write_checkpoint", fail)
    play(tmp_path, on_boot(WriteCheckpoint(0, ())), scene)


def test_rearmed_timer_of_a_machine_fires_once_in_its_range(tmp_path: Path) -> None:
    table = on_boot(
        SetTimer("again", Millis(1), Millis(1)),
        SetTimer("again", Millis(30), Millis(60)),
        SetTimer("never", Millis(5), Millis(5)),
        CancelTimer("never"),
        CancelTimer("no such timer"),
    )

    async def scene(world: World, toy: Toy) -> None:
        start = asyncio.get_running_loop().time()
        await deliver(toy, TimerFired("again"))
        assert asyncio.get_running_loop().time() - start >= 0.029
        assert toy.told == [Booted(), TimerFired("again")]

    play(tmp_path, table, scene)


def test_halted_machine_gets_no_events_and_sends_nothing(tmp_path: Path) -> None:
    def table(event: AnyEvent) -> Sequence[AnyEffect]:
        return (SetTimer("t", Millis(0), Millis(0)), Halt("because"), Send(B2, Metadata(1)))

    async def scene(world: World, toy: Toy) -> None:
        world.host.received(B2, Metadata(2))
        await asyncio.sleep(0.02)
        assert toy.told == [Booted()]

    world = play(tmp_path, table, scene)

    assert world.done == []
    assert world.reasons == ["halt:because"]


def test_failed_assertion_is_noted_with_its_line_and_halts(tmp_path: Path) -> None:
    def table(event: AnyEvent) -> Sequence[AnyEffect]:
        raise AssertionError("hw above leo")

    world = play(tmp_path, table, nothing)

    (note,) = world.done
    assert isinstance(note, Note)
    assert note.kind == "assertion"
    assert note.detail is not None
    assert note.detail.endswith("hw above leo")
    assert "test_node:" in note.detail
    assert world.reasons == ["halt:assertion"]


def test_machine_gets_no_event_after_an_exception(tmp_path: Path) -> None:
    """The loop runs one more round; a half performed event could acknowledge records that are not appended."""

    def table(event: AnyEvent) -> Sequence[AnyEffect]:
        if isinstance(event, Received):
            raise KeyError("orders-0")
        return ()

    async def scene(world: World, toy: Toy) -> None:
        with pytest.raises(KeyError):
            world.host.received(B2, Metadata(1))
        world.host.received(B2, Metadata(2))
        assert toy.told == [Booted(), Received(B2, Metadata(1))]

    play(tmp_path, table, scene)


ASKED = Fetch(5, TP, BrokerId(2), NO_INCARNATION, LeaderEpoch(0), Offset(0), Millis(0), 10)


def leading(event: AnyEvent) -> Sequence[AnyEffect]:
    """A machine with one log: it appends every produce and answers every fetch with the whole log."""
    match event:
        case Booted():
            return (CreateReplica(0, TP),)
        case Received(message=Produce(values=values)):
            appended = (Batch(Offset(0), LeaderEpoch(3), values),)
            return Append(0, TP, appended), Note(kind="append", batches=appended)
        case Received(message=FetchReply(batches=batches)):
            return Append(0, TP, batches), Note(kind="append", batches=batches)
        case Received(message=Fetch() as fetch):
            return (
                Send(
                    B2,
                    FetchReply(
                        fetch.correlation, TP, ErrorCode.NONE, LeaderEpoch(3), Offset(1), (header_only(stored_batch("a", "b")),)
                    ),
                ),
            )
        case _:
            return ()


def stored_batch(*values: str) -> Batch:
    return batch(0, *values, epoch=3)


def answer(*batches: Batch) -> FetchReply:
    return FetchReply(5, TP, ErrorCode.NONE, LeaderEpoch(3), Offset(1), batches)


def test_machine_sees_headers_only_disk_and_follower_get_records(tmp_path: Path) -> None:
    """The records of a broker are limited by its disk, not by its memory."""
    whole = sealed(["a", "b"])

    async def scene(world: World, toy: Toy) -> None:
        world.host.received(B2, Produce(4, TP, 1, whole, Millis(0)))
        world.host.received(B2, ASKED)
        assert toy.told[1:] == [Received(B2, Produce(4, TP, 1, whole[:HEADER_BYTES], Millis(0))), Received(B2, ASKED)]
        noted = Note(kind="append", batches=(Batch(Offset(0), LeaderEpoch(3), whole),))
        assert world.done == [noted, (B2, answer(stored_batch("a", "b")))]

    play(tmp_path, leading, scene)
    assert (tmp_path / TP / "00000000000000000000.log").read_bytes() == stored_batch("a", "b").values


def test_follower_appends_the_records_of_the_fetch_reply(tmp_path: Path) -> None:
    batches = stored_batch("a", "b"), replace(batch(2, "c", epoch=3))

    async def scene(world: World, toy: Toy) -> None:
        world.host.received(B2, answer(*batches))
        assert toy.told[1:] == [Received(B2, answer(*map(header_only, batches)))]
        assert world.done == [Note(kind="append", batches=batches)]

    play(tmp_path, leading, scene)
    segment = tmp_path / TP / "00000000000000000000.log"
    assert segment.read_bytes() == b"".join(b.values for b in batches if isinstance(b.values, bytes))


def test_unreadable_records_fail_the_directory_and_are_not_sent(tmp_path: Path) -> None:
    """R-291: an IOException on a read makes the directory offline too."""

    async def scene(world: World, toy: Toy) -> None:
        world.host.received(B2, Produce(4, TP, 1, sealed(["x", "y"]), Millis(0)))
        world.host.received(B2, ASKED)
        assert [event for event in toy.told if isinstance(event, DirFailed)] != []
        assert [done for done in world.done if not isinstance(done, Note)] == []

    play(tmp_path / "read", leading, scene)
    damaged = tmp_path / "start" / TP / "partition.metadata"
    damaged.mkdir(parents=True)  # reading it is an error

    assert Disk([tmp_path / "start"]).recover() == (DirImage(0, readable=False),)
