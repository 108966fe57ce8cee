"""Faults at one effect: a crash right after or before it, a lost or late answer of ZooKeeper, a deposed controller."""

from typing import get_args

import pytest

from highwater.backends.sim import traps
from highwater.backends.sim.node import NodeHost
from highwater.backends.sim.scheduler import MS
from highwater.backends.sim.traps import steps_of
from highwater.backends.sim.world import World
from highwater.rig.scene import scene_of
from history.event import EventKind
from nemesis.faults import AnswerLate, AnswerLost, AnyFault, CrashAt, DeposedAt, ZkStep
from nemesis.schedule import Window
from nemesis.targets import Named
from reference.coordination import paths
from reference.coordination.api import AnyOp, Check, Create, Delete, Exists, GetData, SetData, Unknown
from reference.effects import AnyEffect, Append, CreateReplica, Send, WriteCheckpoint, ZkConnect, ZkRequest
from reference.errors import ErrorCode
from reference.events import AnyEvent, Booted, ZkReplied, ZkState
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


def world_in_window(fault: CrashAt) -> World:
    """Start b2 within the window, and look at it before the window ends."""
    window = Window(id="f1", kind="it", at_ms=100, until_ms=900, fault=fault, target=Named(brokers=(2,)))
    world = World(scene_of(plan(window)), Cast(script))
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
    world = world_in_window(fault)

    assert on_disk(world) == left
    assert not node(world).up


def test_crash_at_fault_restarts_the_broker_when_it_ends() -> None:
    world = world_in_window(CrashAt(effect="create-replica"))
    # the next life finds the log there
    node(world).disk.dirs[0].logs.clear()
    world.sim.scheduler.run_until(1000 * MS)

    kinds = [event.kind for event in world.sim.recorder.events if event.node == "b2"]
    assert kinds[:4] == [EventKind.FAULT_BEGUN, EventKind.NODE_STARTED, EventKind.NODE_STOPPED, EventKind.NODE_STARTED]
    assert [count.acted for count in world.faults.counts()] == [1]


def test_crash_at_fault_without_its_effect_kills_no_broker() -> None:
    world = world_in_window(CrashAt(effect="append", nth=3))
    world.sim.scheduler.run_until(1000 * MS)

    assert on_disk(world) == (2, 1)
    assert [count.acted for count in world.faults.counts()] == [0]


STATE = paths.state_path(TP)


@pytest.mark.parametrize(
    ("op", "steps"),
    [
        (Create("/brokers/ids/1", b""), {"registration"}),
        (Create("/controller", b""), {"controller-election"}),
        (SetData("/controller_epoch", b"", 1), {"controller-epoch"}),
        (Check("/controller_epoch", 1), set()),
        (SetData(STATE, b"", 1), {"partition-state"}),
        (GetData(STATE), {"read-partition-state"}),
        (SetData("/brokers/topics/t", b"", 1), {"topic"}),
        (GetData("/brokers/topics/t"), {"read-topic"}),
        (GetData("/brokers/ids/1"), {"read-brokers"}),
        (Delete("/admin/delete_topics"), {"admin"}),
        (SetData("/admin/reassign_partitions", b"", 1), {"reassignment"}),
        (Exists("/admin/reassign_partitions"), {"read-admin"}),
        (Create("/log_dir_event_notification/log_dir_event_", b""), {"log-dir-event"}),
    ],
)
def test_zookeeper_request_is_at_the_step_of_its_znode(op: AnyOp, steps: set[str]) -> None:
    assert steps_of(ZkRequest(1, (op,))) == steps


def test_each_named_step_is_that_of_some_request() -> None:
    """A step that no request takes would never strike."""
    assert {name for _, name in traps.ZNODES} | {"partition-state"} | set(traps.READ.values()) == set(get_args(ZkStep))


def events_of_registration(fault: AnyFault, until_ms: int) -> tuple[World, list[AnyEvent]]:
    """b2 connects to ZooKeeper within the window of the fault and creates a registration; what it is told until `until_ms`."""
    window = Window(id="f1", kind="it", at_ms=100, until_ms=900, fault=fault, target=Named(brokers=(2,)))

    def script(event: AnyEvent) -> tuple[AnyEffect, ...]:
        if isinstance(event, Booted):
            return (ZkConnect(),)
        if isinstance(event, ZkState) and event.state == "connected" and not events_seen:
            events_seen.append(event)
            return (ZkRequest(7, (Create(paths.broker_path(BrokerId(2)), b""),)),)
        return ()

    events_seen: list[AnyEvent] = []
    cast = Cast(script)
    world = World(scene_of(plan(window)), cast)
    world.server.administer(tuple(Create(path, b"") for path in ("/brokers", paths.BROKER_IDS, paths.CONTROLLER)))
    world.faults.plan(0)
    world.sim.scheduler.run_until(200 * MS)
    node(world).start()
    world.sim.scheduler.run_until(until_ms * MS)
    return world, [event for event in cast.machines[-1].told if isinstance(event, ZkReplied)]


def registered(world: World) -> bool:
    return paths.broker_path(BrokerId(2)) in world.server.tree.nodes


def test_request_whose_answer_is_lost_was_performed() -> None:
    world, events = events_of_registration(AnswerLost(step="registration"), 890)

    assert [event.answers for event in events if isinstance(event, ZkReplied)] == [(Unknown(),)]
    assert registered(world)


def test_late_answer_arrives_when_the_fault_ends() -> None:
    assert events_of_registration(AnswerLate(step="registration"), 890)[1] == []
    world, events = events_of_registration(AnswerLate(step="registration"), 1000)

    assert len(events) == 1
    assert registered(world)


def test_write_of_a_deposed_controller_arrives_after_its_end() -> None:
    world, events = events_of_registration(DeposedAt(step="registration"), 890)

    assert (registered(world), paths.CONTROLLER in world.server.tree.nodes, events) == (False, False, [])
    assert registered(events_of_registration(DeposedAt(step="registration"), 1000)[0])
