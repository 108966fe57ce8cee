"""Crash points: the process is killed right after or right before one effect."""

import pytest

from highwater.backends.sim.node import NodeHost
from highwater.backends.sim.scheduler import MS
from highwater.backends.sim.world import World
from history.event import EventKind
from nemesis.faults import CrashAt
from nemesis.schedule import Window
from nemesis.targets import Named
from reference.effects import AnyEffect, Append, CreateReplica, Send, WriteCheckpoint
from reference.errors import ErrorCode
from reference.events import AnyEvent, Booted
from reference.messages import Batch, LeaderAndIsrReply, UpdateMetadataReply
from reference.types import Address, BrokerId, LeaderEpoch, Offset, TopicPartition
from tests.highwater.backends.sim.simulations import Cast, plan

TP = TopicPartition("t-0")


def batch(offset: int) -> Batch:
    return Batch(Offset(offset), LeaderEpoch(1), ("x",))


def script(event: AnyEvent) -> tuple[AnyEffect, ...]:
    """At its start each machine creates a log, appends twice, sends two answers and writes a checkpoint."""
    if not isinstance(event, Booted):
        return ()
    return (
        CreateReplica(0, TP),
        Append(0, TP, (batch(0),)),
        Send(Address("b1"), UpdateMetadataReply(1, ErrorCode.NONE)),
        Append(0, TP, (batch(1),)),
        Send(Address("b1"), LeaderAndIsrReply(2, ErrorCode.NONE)),
        WriteCheckpoint(0, ((TP, Offset(2)),)),
    )


def played(fault: CrashAt) -> World:
    """Start b2 within the window, and look at it before the window ends."""
    window = Window(id="f1", kind="it", at_ms=100, until_ms=900, fault=fault, target=Named(brokers=(2,)))
    world = World(plan(window), Cast(script))
    world.faults.plan(0)
    world.sim.scheduler.run_until(200 * MS)
    node(world).start()
    return world


def node(world: World) -> NodeHost:
    return world.nodes[BrokerId(2)]


def on_disk(world: World) -> tuple[int, int]:
    """The number of batches and of checkpoint entries."""
    (directory,) = node(world).disk.dirs
    return len(directory.logs[TP].batches) if TP in directory.logs else -1, len(directory.checkpoint)


@pytest.mark.parametrize(
    ("fault", "left"),
    [
        (CrashAt(effect="create-replica", before=True), (-1, 0)),
        (CrashAt(effect="create-replica"), (0, 0)),
        (CrashAt(effect="append", nth=1), (1, 0)),
        (CrashAt(effect="append", nth=2, before=True), (1, 0)),
        (CrashAt(effect="append", nth=2), (2, 0)),
        (CrashAt(effect="send:leader-and-isr-reply", before=True), (2, 0)),
        (CrashAt(effect="send", nth=1), (1, 0)),
        (CrashAt(effect="write-checkpoint"), (2, 1)),
    ],
)
def test_crash_at_fault_performs_only_effects_before_the_crash(fault: CrashAt, left: tuple[int, int]) -> None:
    """A crash may fall between any two effects (reference.effects); here the plan names them."""
    world = played(fault)

    assert on_disk(world) == left
    assert not node(world).up


def test_crash_at_fault_restarts_the_broker_when_it_ends() -> None:
    world = played(CrashAt(effect="create-replica"))
    # the next life finds the log there
    node(world).disk.dirs[0].logs.clear()
    world.sim.scheduler.run_until(1000 * MS)

    kinds = [event.kind for event in world.sim.recorder.events if event.node == "b2"]
    assert kinds[:4] == [EventKind.FAULT_BEGUN, EventKind.NODE_STARTED, EventKind.NODE_STOPPED, EventKind.NODE_STARTED]
    assert [count.acted for count in world.faults.counts()] == [1]


def test_crash_at_fault_without_its_effect_kills_no_broker() -> None:
    world = played(CrashAt(effect="append", nth=3))
    world.sim.scheduler.run_until(1000 * MS)

    assert on_disk(world) == (2, 1)
    assert [count.acted for count in world.faults.counts()] == [0]
