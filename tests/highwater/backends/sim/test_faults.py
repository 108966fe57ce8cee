"""Any schedule leaves nothing behind, however its windows overlap."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from highwater.backends.sim.clock import EPOCH_NS
from highwater.backends.sim.ensemble import Ensemble
from highwater.backends.sim.scheduler import MS
from highwater.backends.sim.world import World
from highwater.plans.plan import Plan
from highwater.rig.scene import scene_of
from history.event import EventKind
from nemesis.faults import (
    AnyFault,
    ClockDrift,
    ClockJump,
    ClockStrobe,
    Clog,
    Crash,
    CrashAt,
    DirFailure,
    DirFile,
    DirUnreadable,
    DiskFull,
    DiskSlow,
    DiskSwap,
    ExpireSession,
    Packets,
    Partition,
    Pause,
    PowerLoss,
    Reset,
    Restart,
    Slow,
    ZooKeeperDown,
    ZooKeeperLinks,
)
from nemesis.schedule import Window
from nemesis.targets import AnyTarget, ClientPlace, Everyone, Minority, Named, Random
from tests.highwater.backends.sim.simulations import Cast, plan

END_MS = 3000

faults: st.SearchStrategy[AnyFault] = st.one_of(
    st.builds(Partition, shape=st.sampled_from(["isolate", "halves", "majorities-ring", "bridge"])),
    st.just(Packets(drop_per_mille=300)),
    st.just(Slow(extra_ms=20)),
    st.builds(Clog, kinds=st.sampled_from([(), ("fetch",)])),
    st.just(Reset(period_ms=200)),
    st.builds(ClockJump, offset_ms=st.integers(-5000, 5000)),
    st.builds(ClockDrift, ppm=st.integers(-400_000, 400_000)),
    st.just(ClockStrobe(offset_ms=700, period_ms=90)),
    st.sampled_from([Pause(), Crash(), Restart(), PowerLoss(), ExpireSession(), DiskSwap(), Restart(session_ends=True)]),
    st.builds(CrashAt, nth=st.integers(1, 3), before=st.booleans()),
    st.sampled_from([DirUnreadable(), DirFailure(), DirFailure(drop_unflushed=True), DiskFull(), DiskSlow()]),
    st.sampled_from([DirFile(), DirFile(removed=True)]),
)
at_places: st.SearchStrategy[AnyFault] = st.sampled_from(
    [Partition(peer=1), Partition(), Packets(drop_per_mille=300), Slow(extra_ms=20), Clog(), Reset(period_ms=200)]
)
of_servers: st.SearchStrategy[AnyFault] = st.one_of(
    st.builds(ZooKeeperDown, how=st.sampled_from(["kill", "pause", "cut"]), servers=st.integers(1, 3)),
    st.builds(ZooKeeperLinks, how=st.sampled_from(["cut", "slow"]), servers=st.integers(1, 3), extra_ms=st.just(300)),
)
targets: st.SearchStrategy[AnyTarget] = st.sampled_from(
    [Named(brokers=(1,)), Named(brokers=(1, 2)), Random(), Minority(), Everyone()]
)
spans = st.tuples(st.integers(0, END_MS - 1), st.integers(1, END_MS)).map(lambda span: (span[0], min(END_MS, span[0] + span[1])))


Drawn = tuple[AnyFault, AnyTarget, tuple[int, int]]


def spread(plan_: Plan, *, servers: int = 1) -> Plan:
    """The same plan with two producers, at two places, and so many ZooKeeper servers."""
    workload = replace(plan_.workload, producers=2, places=2)
    return replace(plan_, workload=workload, cluster=replace(plan_.cluster, zookeeper=servers))


def windows(drawn: list[Drawn]) -> list[Window]:
    return [
        Window(id=f"f{number}", kind="it", at_ms=at_ms, until_ms=until_ms, fault=fault, target=target)
        for number, (fault, target, (at_ms, until_ms)) in enumerate(drawn)
    ]


@pytest.mark.slow
@given(
    st.lists(
        st.one_of(
            st.tuples(faults, targets, spans),
            st.tuples(at_places, st.builds(ClientPlace, place=st.integers(1, 2)), spans),
            st.tuples(of_servers, st.just(Everyone()), spans),
        ),
        max_size=10,
    ),
    st.integers(0, 100),
)
def test_no_fault_has_an_effect_after_healing(drawn: list[Drawn], draws: int) -> None:
    world = World(scene_of(spread(plan(*windows(drawn), draws=draws), servers=3)), Cast())
    scheduler = world.sim.scheduler
    for node in world.nodes.values():
        node.start()
    world.faults.plan(0)
    scheduler.run_until(END_MS * MS)
    world.faults.heal()
    begun = [e for e in world.sim.recorder.events if e.kind is EventKind.FAULT_BEGUN]
    ended = [e for e in world.sim.recorder.events if e.kind is EventKind.FAULT_ENDED]
    scheduler.run_until((END_MS + 30_000) * MS)

    assert len({(e.fault, e.node) for e in begun}) == len({(e.fault, e.node) for e in ended})
    for node in world.nodes.values():
        assert node.up
        assert not node.paused
        assert not any(directory.refusals or directory.slows for directory in node.disk.dirs)
        now = node.clock.now()
        assert now.wall_ms == EPOCH_NS // MS + scheduler.now // MS
    for link in world.sim.network.links():
        assert [link.cuts, link.clogs, link.stops, link.slows, link.losses, link.held] == [[], [], [], [], [], []]
    assert not world.sim.transport.lossy()
    assert isinstance(world.server, Ensemble)
    assert [(server.up, server.serves) for server in world.server.servers] == [(True, True)] * 3


@pytest.mark.parametrize(
    ("fault", "served"),
    [
        (Partition(), (False, True)),
        (Partition(direction="inbound"), (False, True)),
        (Slow(extra_ms=300_000), (False, True)),
        (Packets(drop_per_mille=1000), (False, True)),
        (Clog(peer=1), (True, True)),
    ],
)
def test_fault_of_one_client_place_leaves_the_other_alone(fault: AnyFault, served: tuple[bool, bool]) -> None:
    """The producers are at p1 and p2; a place that is cut off from one broker of three still reaches a leader of a partition."""
    at_p1 = Window(id="f1", kind="it", at_ms=500, until_ms=END_MS, fault=fault, target=ClientPlace(place=1))
    plan_ = spread(plan(at_p1))
    topic = replace(plan_.cluster.topics[0], partitions=3)
    world = World(scene_of(replace(plan_, cluster=replace(plan_.cluster, topics=(topic,)))))
    world.play_until(END_MS)
    began = next(e.time_ns for e in world.sim.recorder.events if e.kind is EventKind.FAULT_BEGUN)
    done = [op.process % 3 for op in world.sim.recorder.operations if op.f == "produce" and op.type == "ok"]
    late_places = [
        op.process % 3
        for op in world.sim.recorder.operations
        if op.f == "produce" and op.type == "ok" and op.time_ns > began + 50 * MS
    ]

    assert {0, 1} <= set(done)
    assert (0 in late_places, 1 in late_places) == served


@pytest.mark.parametrize("fault", [ZooKeeperDown(how=how) for how in ("kill", "pause", "cut")] + [ZooKeeperLinks()])
def test_brokers_go_on_while_one_of_three_servers_is_lost(fault: AnyFault) -> None:
    down = Window(id="f1", kind="it", at_ms=100, until_ms=9000, fault=fault)
    world = World(scene_of(spread(plan(down, faults_ms=10_000), servers=3)))
    world.play_until(9000)
    began = next(e.time_ns for e in world.sim.recorder.events if e.kind is EventKind.FAULT_BEGUN)
    acked = [
        op for op in world.sim.recorder.operations if op.f == "produce" and op.type == "ok" and op.time_ns > began + 5000 * MS
    ]
    world.faults.heal()
    servers = {e.node for e in world.sim.recorder.events if e.kind is EventKind.FAULT_ACTED}

    assert acked != []
    assert len(servers & {"z1", "z2", "z3"}) == 1


@given(st.lists(spans, min_size=1, max_size=6))
def test_process_is_down_exactly_while_a_crash_fault_holds(crashes: list[tuple[int, int]]) -> None:
    schedule = windows([(Crash(), Named(brokers=(2,)), span) for span in crashes])
    world = World(scene_of(plan(*schedule)), Cast())
    for node in world.nodes.values():
        node.start()
    world.faults.plan(0)
    late_ms = 5  # a blow may wait a moment for a better place to fall
    for instant in sorted({edge for span in crashes for edge in span}):
        world.sim.scheduler.run_until((instant + late_ms) * MS)
        at = world.sim.scheduler.now // MS
        held = any(start + late_ms <= at < end for start, end in crashes)
        free = not any(start <= at < end for start, end in crashes)
        node = next(node for node in world.nodes.values() if node.address == "b2")
        assert not (held and node.up)
        assert not (free and not node.up)


@pytest.mark.parametrize(
    ("fault", "off", "acted"),
    [
        (ClockJump(offset_ms=-400), (-400 * MS, 0), 1),
        (ClockDrift(ppm=90_000), (0, 90_000), 1),
        (ClockStrobe(offset_ms=700, period_ms=90), (700 * MS, 0), 9),
        (ClockJump(offset_ms=0), (0, 0), 0),
    ],
)
def test_clock_fault_counts_only_when_it_moves_the_clock(fault: AnyFault, off: tuple[int, int], acted: int) -> None:
    """Counting a fault without effect would overstate a campaign's coverage."""
    world = World(scene_of(plan(*windows([(fault, Named(brokers=(1,)), (100, 900))]))), Cast())
    first, second, *_ = world.nodes.values()
    for node in world.nodes.values():
        node.start()
    world.faults.plan(0)
    world.sim.scheduler.run_until(500 * MS)
    during = (first.clock.off, second.clock.off)
    world.sim.scheduler.run_until(1000 * MS)

    assert during == (off, (0, 0))
    assert first.clock.off == (0, 0)
    assert [count.acted for count in world.faults.counts()] == [acted]
