"""Which effects are performed when a directory fails, in the simulator and on real files (R-290, R-291)."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from highwater.backends.sim.disk import Refusal
from highwater.backends.sim.network import Acting
from highwater.backends.sim.node import NodeHost
from highwater.backends.sim.zk import ZkServer
from highwater.rig.evidence import ZkEvidence
from highwater.rig.scene import broker_config
from reference.coordination.api import AnyOp
from reference.effects import AnyEffect, Append, CreateReplica, Flush, Note, Send, SetTimer
from reference.errors import ErrorCode
from reference.events import AnyEvent, DirFailed, DirImage, Flushed, Received, TimerFired
from reference.messages import AnyMessage, LeaderAndIsrReply, Metadata
from reference.types import Address, BrokerId, TopicPartition
from server.disk.log_dirs import Disk
from server.runtime.node import Host
from tests.highwater.backends.sim.simulations import Cast, Script, Scripted, plan, simulation
from tests.server.runtime.batches import batch, header_only

BAD, GOOD = TopicPartition("t-0"), TopicPartition("t-1")
A = batch(0, "a")
POKE = TimerFired("poke")
PATIENCE_S = 10


class Played:
    """The result: events of the machine after the poke, content of its disk, its notes and its messages."""

    def __init__(
        self, told: list[AnyEvent], image: tuple[DirImage, ...], noted: list[TopicPartition | None], sent: list[AnyMessage]
    ) -> None:
        self.told, self.image, self.noted, self.sent = told, image, noted, sent


def simulated(script: Script, _: Path) -> Played:
    """A node of the simulator whose directory 0 fails every access during the poke."""
    scene = simulation()
    server = ZkServer(scene, ZkEvidence(scene.recorder))
    cast, silent = Cast(script), Cast(lambda _: ())
    hosts = [
        NodeHost(scene, server, replace(broker_config(plan(), BrokerId(i)), log_dirs=2), boot)
        for i, boot in ((1, cast), (2, silent))
    ]
    for host in hosts:
        scene.transport.join(host)
        host.start()
    refusal = Refusal(Acting("f1", "b1"), "EIO", reads=False)
    hosts[0].disk.dirs[0].refusals.append(refusal)
    hosts[0].take("test", POKE)
    scene.scheduler.run_until(scene.scheduler.now + 10**9)
    hosts[0].disk.dirs[0].refusals.remove(refusal)
    notes = [e for e in scene.recorder.events if e.kind == "resigned"]
    return Played(
        told=cast.machines[-1].told[2:],
        image=hosts[0].disk.image(),
        noted=[None if e.topic is None else TopicPartition(f"{e.topic}-{e.partition}") for e in notes],
        sent=[e.message for e in silent.machines[-1].told if isinstance(e, Received)],
    )


class _World:
    """A network and a ZooKeeper for a real node."""

    def __init__(self) -> None:
        self.sent: list[AnyMessage] = []

    def disconnect(self, peer: Address) -> None:
        """Do nothing: no peer opened a connection."""

    def send(self, to: Address, message: AnyMessage) -> None:
        self.sent.append(message)

    def connect(self) -> None:
        raise AssertionError("no session may be opened in this test")

    def request(self, request_id: int, ops: tuple[AnyOp, ...], *, atomic: bool) -> None:
        raise AssertionError("ZooKeeper may not be used in this test")


def real(script: Script, path: Path) -> Played:
    """A node on real files: directory 0 is a file (R-321), so nothing can be created in it."""
    machine = Scripted(script)
    notes: list[Note] = []
    world = _World()
    paths = [path / "0", path / "1"]

    async def main() -> None:
        disk = Disk(paths)
        disk.recover()
        host = Host(machine, disk, loop=asyncio.get_running_loop(), note=notes.append, stopped=lambda _: None)
        host.start(world, world)
        paths[0].rmdir()
        paths[0].write_text("")
        host.deliver(POKE)
        async with asyncio.timeout(PATIENCE_S):
            while Flushed(1, 7) not in machine.told:
                await asyncio.sleep(0.002)
        host.stop("end of the test")
        disk.close()

    asyncio.run(main())
    events = [replace(event, error="EIO") if isinstance(event, DirFailed) else event for event in machine.told[2:]]
    return Played(told=events, image=Disk(paths).recover(), noted=[note.tp for note in notes], sent=world.sent)


World = Callable[[Script, Path], Played]
both = pytest.mark.parametrize("world", [simulated, real])


def poked(effects: Sequence[AnyEffect]) -> Script:
    """A machine that returns these effects once."""
    return lambda event: effects if event == POKE else ()


EFFECTS: tuple[AnyEffect, ...] = (
    Send(Address("b2"), Metadata(1)),
    CreateReplica(0, BAD),
    Append(0, BAD, (A,)),
    Note(kind="resigned", tp=BAD),
    Send(Address("b2"), Metadata(2)),
    CreateReplica(1, GOOD),
    Append(1, GOOD, (A,)),
    Note(kind="resigned", tp=GOOD),
    Flush(0, 6),
    Flush(1, 7),
    SetTimer("t", 1, 1),
)


@both
def test_effects_on_other_dirs_go_on_after_a_dir_failure(world: World, tmp_path: Path) -> None:
    """R-290: dropping the whole rest of the list would lose records and timers of replicas in good directories."""
    played = world(poked(EFFECTS), tmp_path)

    assert Flushed(1, 7) in played.told
    assert TimerFired("t") in played.told
    assert [tuple(map(header_only, log.batches)) for log in played.image[1].logs] == [(header_only(A),)]


@both
def test_machine_gets_directory_failure_once_as_next_event(world: World, tmp_path: Path) -> None:
    """R-291, B-63 f: an event handled in between could append after the failed write."""
    played = world(poked(EFFECTS), tmp_path)

    assert played.told[0] == DirFailed(0, "EIO")
    assert [event for event in played.told if isinstance(event, DirFailed)] == [DirFailed(0, "EIO")]


@both
def test_replica_sends_nothing_after_a_failed_write(world: World, tmp_path: Path) -> None:
    """B-63 f (KAFKA-10778): an effect after a failed append may be its acknowledgement."""
    played = world(poked(EFFECTS), tmp_path)

    assert played.noted == [GOOD]
    assert played.sent == [Metadata(1)]


@both
def test_skipped_command_answer_comes_back_to_the_machine(world: World, tmp_path: Path) -> None:
    """R-294: the controller waits for it, and would send this broker no other command until its request timeout."""
    reply = LeaderAndIsrReply(1, ErrorCode.NONE, ((BAD, ErrorCode.NONE),))
    played = world(poked([*EFFECTS, Send(Address("b2"), reply)]), tmp_path)

    assert played.sent == [Metadata(1)]
    assert played.told[0] == DirFailed(0, "EIO", ((Address("b2"), reply),))


@both
def test_all_effects_are_performed_if_no_directory_fails(world: World, tmp_path: Path) -> None:
    """R-290: effects are dropped only after a failure."""
    played = world(poked([*EFFECTS[:1], *EFFECTS[5:8], Flush(1, 7), Send(Address("b2"), Metadata(2))]), tmp_path)

    assert played.noted == [GOOD]
    assert played.sent == [Metadata(1), Metadata(2)]
