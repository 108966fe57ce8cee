"""The bookkeeping of windows that all backends share."""

from highwater.rig.nemesis import Holds, Nemesis
from history.event import EventKind
from history.manifest import FaultCount
from history.recorder import Recorder
from history.seed import Draws
from nemesis.faults import AnyFault, Crash, DirUnreadable, Partition
from nemesis.schedule import Window
from nemesis.targets import AnyTarget, ClientPlace, Controller, Named
from reference.coordination.memory import MemoryZooKeeper
from reference.types import Address, TopicPartition
from tests.highwater.backends.sim.simulations import plan

TREE = MemoryZooKeeper.boot()
B1 = Named(brokers=(1,))


def window(fault: AnyFault, target: AnyTarget = B1) -> Window:
    return Window(id="f1", kind="k", at_ms=0, until_ms=9, fault=fault, target=target)


def nemesis(opened: Window) -> Nemesis:
    logs = (TopicPartition("t-0"),)
    return Nemesis(plan(opened), Recorder(lambda: 0), Draws(1), logs=lambda _, __: logs)


def test_fault_without_a_matching_broker_does_not_begin() -> None:
    opened = window(Crash(), Controller())
    nemesis_found = nemesis(opened)

    assert nemesis_found.begin(opened, TREE) == ()
    assert nemesis_found.open_windows() == ()
    assert nemesis_found.recorder.events == []
    assert nemesis_found.counts() == (FaultCount(kind="k", begun=0, acted=0),)


def test_partition_into_halves_begins_on_every_broker() -> None:
    opened = window(Partition(shape="halves"))

    assert nemesis(opened).begin(opened, TREE) == ("b1", "b2", "b3")


def test_fault_of_a_client_place_begins_at_that_place() -> None:
    opened = window(Partition(), ClientPlace(place=2))

    assert nemesis(opened).begin(opened, TREE) == ("p2",)


def test_unreadable_dir_fault_is_recorded_for_each_replica() -> None:
    opened = window(DirUnreadable())
    nemesis_found = nemesis(opened)
    (broker,) = nemesis_found.begin(opened, TREE)
    assert nemesis_found.end("f1") == (opened, ("b1",))
    nemesis_found.acted(opened, Address("b1"), 2)
    nemesis_found.acted(opened, Address("b1"), 0)
    nemesis_found.ended(opened, broker)

    assert [(row.kind, row.node, row.topic, row.count) for row in nemesis_found.recorder.events] == [
        (EventKind.FAULT_BEGUN, "b1", None, None),
        (EventKind.FAULT_BEGUN, "b1", "t", None),
        (EventKind.FAULT_ACTED, "b1", None, 2),
        (EventKind.FAULT_ENDED, "b1", None, None),
        (EventKind.FAULT_ENDED, "b1", "t", None),
    ]
    assert nemesis_found.counts() == (FaultCount(kind="k", begun=1, acted=2),)
    assert nemesis_found.end("f1") is None


def test_process_restarts_only_when_its_last_fault_ends() -> None:
    holds = Holds()
    holds.down = 2

    assert [holds.release(), holds.release(), holds.release()] == [False, True, True]
