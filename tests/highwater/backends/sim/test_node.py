"""A simulated process: effects, pauses, and ends."""

from collections.abc import Sequence
from functools import partial

from highwater.backends.sim.disk import Refusal
from highwater.backends.sim.network import Acting
from highwater.backends.sim.node import NodeHost
from highwater.backends.sim.scheduler import MS
from highwater.backends.sim.zk import ZkServer
from highwater.rig.evidence import ZkEvidence
from highwater.rig.scene import broker_config
from history.event import EventKind
from reference.effects import AnyEffect, Append, CreateReplica, Flush, Halt, Note, SetTimer
from reference.events import AnyEvent, Booted, ConnectionLost, DirFailed, Flushed, TimerFired
from reference.messages import Batch
from reference.types import NO_TOPIC_ID, Address, BrokerId, LeaderEpoch, Millis, Offset, TopicPartition
from tests.highwater.backends.sim.simulations import Cast, plan, simulation

T0 = TopicPartition("t-0")
CREATE = CreateReplica(0, T0)
APPEND = Append(0, T0, (Batch(Offset(0), LeaderEpoch(0), ("a",)),))
POKE = ConnectionLost(Address("b2"))


def machines_returning(*effects: AnyEffect) -> Cast:
    """Machines that return these effects when they are poked."""

    def script(event: AnyEvent) -> Sequence[AnyEffect]:
        return effects if event == POKE else ()

    return Cast(script)


class Den:
    """One node of a simulation."""

    def __init__(self, cast: Cast, draws: int = 1) -> None:
        self.cast = cast
        self.sim = simulation(draws)
        self.node = NodeHost(
            self.sim, ZkServer(self.sim, ZkEvidence(self.sim.recorder)), broker_config(plan(), BrokerId(1)), cast
        )
        self.sim.transport.join(self.node)
        self.node.start()

    def poke(self) -> None:
        self.node.take("b2", POKE)

    def run(self, ms: int) -> None:
        self.sim.scheduler.run_until(self.sim.scheduler.now + ms * MS)

    def told(self) -> list[AnyEvent]:
        """The events of the last life."""
        return self.cast.machines[-1].told

    def kinds(self) -> list[EventKind]:
        return [event.kind for event in self.sim.recorder.events]


def test_node_start_begins_with_booted_and_the_disk_image() -> None:
    den = Den(machines_returning(CREATE, APPEND))
    den.poke()
    den.node.stop("crash")
    den.node.start()

    assert den.told() == [Booted()]
    assert [machine.life for machine in den.cast.machines] == [1, 2]
    assert den.cast.machines[-1].image[0].logs[0].batches == APPEND.batches
    assert den.kinds() == [EventKind.NODE_STARTED, EventKind.NODE_STOPPED, EventKind.NODE_STARTED]


def test_flush_is_answered_when_it_ends() -> None:
    den = Den(machines_returning(CREATE, APPEND, Flush(0, 7)))
    den.poke()
    at_once = list(den.told())
    den.run(100)

    assert at_once == [Booted(), POKE]
    assert den.told()[-1] == Flushed(0, 7)
    assert den.node.disk.lose_unflushed(0, "test", torn=False, all_of_it=True) == []


def test_disk_effect_refused_by_a_fault_is_reported_at_once() -> None:
    den = Den(machines_returning(CREATE, Note(kind="resigned", tp=T0)))
    den.node.disk.dirs[0].refusals.append(Refusal(Acting("f1", "b1"), "EIO", reads=False))
    den.poke()

    assert den.told() == [Booted(), POKE, DirFailed(0, "EIO")]
    assert EventKind.RESIGNED not in den.kinds()
    assert den.node.failed_dirs


def test_directory_failure_during_flush_fails_the_flush() -> None:
    den = Den(machines_returning(CREATE, APPEND, Flush(0, 7)))
    den.poke()
    den.node.disk.dirs[0].refusals.append(Refusal(Acting("f1", "b1"), "EIO", reads=False))
    den.run(100)

    assert den.told()[-1] == DirFailed(0, "EIO")
    assert den.node.disk.lose_unflushed(0, "test", torn=False, all_of_it=True) == [(T0, NO_TOPIC_ID, 0)]


def test_halt_ends_the_process_and_drops_later_effects() -> None:
    failed = [Note(kind="dir-failed", dir=dir_) for dir_ in range(2)]
    den = Den(machines_returning(*failed, Halt("no directory left"), Note(kind="resigned")))
    den.poke()

    assert not den.node.up
    assert den.kinds() == [EventKind.NODE_STARTED, EventKind.DIR_FAILED, EventKind.DIR_FAILED, EventKind.NODE_STOPPED]
    assert den.sim.recorder.events[-1].detail == "halt:no directory left"


def test_failed_assertion_is_recorded_and_ends_the_process() -> None:
    def script(event: AnyEvent) -> Sequence[AnyEffect]:
        assert event != POKE, "hw beyond leo"
        return ()

    den = Den(Cast(script))
    den.poke()

    row = den.sim.recorder.events[1]
    assert (row.kind, row.node, row.life) == (EventKind.ASSERTION, "b1", 1)
    assert row.detail is not None
    assert row.detail.startswith("tests.")
    assert "hw beyond leo" in row.detail
    assert den.node.wrong
    assert not den.node.up


def test_machine_that_keeps_using_a_failed_dir_is_stopped() -> None:
    den = Den(Cast(lambda event: (CREATE,) if event != Booted() else ()))
    den.node.disk.dirs[0].refusals.append(Refusal(Acting("f1", "b1"), "EIO", reads=False))
    den.poke()

    assert EventKind.ASSERTION in den.kinds()


def test_events_during_a_pause_wait_in_order_per_source() -> None:
    orders = set()
    for draws in range(30):
        den = Den(Cast(), draws)
        den.node.pause()
        for peer in ("b2", "b3"):
            den.node.take(peer, ConnectionLost(Address(f"{peer}-1")))
            den.node.take(peer, ConnectionLost(Address(f"{peer}-2")))
        assert den.told() == [Booted()]
        den.node.resume()
        order = tuple(event.peer for event in den.told() if isinstance(event, ConnectionLost))
        assert sorted(order) == ["b2-1", "b2-2", "b3-1", "b3-2"]
        assert order.index(Address("b2-1")) < order.index(Address("b2-2"))
        assert order.index(Address("b3-1")) < order.index(Address("b3-2"))
        orders.add(order)

    assert len(orders) > 1


def test_overdue_timers_fire_after_a_pause() -> None:
    den = Den(Cast(lambda event: (SetTimer("t", Millis(50), Millis(50)),) if event == Booted() else ()))
    den.node.pause()
    den.run(500)
    during = list(den.told())
    den.node.resume()

    assert during == [Booted()]
    assert den.told() == [Booted(), TimerFired("t")]
    first, last = den.cast.machines[-1].times
    assert last.monotonic_ms - first.monotonic_ms == 500


def test_timers_and_flushes_end_with_their_process() -> None:
    cast = machines_returning(CREATE, APPEND, Flush(0, 1), SetTimer("t", Millis(50), Millis(50)))
    den = Den(cast)
    den.poke()
    den.node.stop("crash")
    den.node.start()
    den.run(500)

    assert den.told() == [Booted()]


def test_crash_may_fall_between_two_effects() -> None:
    notes = [Note(kind="resigned"), Note(kind="resigned"), Note(kind="resigned")]
    counts = set()
    for draws in range(40):
        den = Den(machines_returning(*notes), draws)
        den.node.ambush(_stop(den.node))
        den.poke()
        den.run(10)
        assert not den.node.up
        counts.add(den.kinds().count(EventKind.RESIGNED))

    assert counts == {0, 1, 2}


def _stop(node: NodeHost) -> "partial[None]":
    return partial(node.stop, "crash")


def test_what_a_broker_reports_becomes_history_rows() -> None:
    batches = (Batch(Offset(4), LeaderEpoch(2), ("a", "b")),)
    den = Den(
        machines_returning(
            Note(kind="append", tp=T0, batches=batches, detail="leader"), Note(kind="registered", incarnation=None)
        )
    )
    den.poke()

    rows = [row for row in den.sim.recorder.events if row.kind is EventKind.APPEND]
    assert [(row.topic, row.partition, row.offset, row.value, row.leader_epoch, row.detail) for row in rows] == [
        ("t", 0, 4, "a", 2, "leader"),
        ("t", 0, 5, "b", 2, "leader"),
    ]
