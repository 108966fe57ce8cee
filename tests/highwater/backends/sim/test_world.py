"""Whole runs of the protocol: repeatable, under every fault, healed at the end."""

import msgspec
import pytest

from highwater.backends.sim.backend import SimBackend
from highwater.plans.plan import Plan
from highwater.rig.backend import Provenance, Run
from history.event import ClusterEvent, EventKind
from history.op import ADMIN_REQUESTS, OpType
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
)
from nemesis.schedule import Window
from nemesis.targets import AnyTarget, Controller, Everyone, IsrMember, LeaderOf, Minority, Named, Random
from reference.config import TopicSpec
from reference.events import AnyEvent
from tests.highwater.backends.sim.simulations import Cast, Scripted, plan

LEADER = LeaderOf(topic="t", partition=0)


def window(fault: AnyFault, target: AnyTarget = LEADER, at_ms: int = 500, until_ms: int = 2000, id: str = "f1") -> Window:
    return Window(id=id, kind="it", at_ms=at_ms, until_ms=until_ms, fault=fault, target=target)


def perform(changed_plan: Plan) -> Run:
    return SimBackend().perform(changed_plan, Provenance(run_id="r", plan_digest="d"))


def events(run: Run, *kinds: EventKind) -> list[ClusterEvent]:
    return [event for event in run.history.events if event.kind in kinds]


def nodes(run: Run, *kinds: EventKind) -> list[str | None]:
    return [event.node for event in events(run, *kinds)]


def test_plan_performed_twice_gives_the_same_history() -> None:
    changed_plan = plan(window(Partition()), window(Pause(), Random(), at_ms=700, until_ms=1500, id="f2"))

    assert perform(changed_plan).history.manifest.digest == perform(changed_plan).history.manifest.digest


def test_plan_with_other_random_draws_gives_another_history() -> None:
    assert perform(plan(draws=1)).history.manifest.digest != perform(plan(draws=2)).history.manifest.digest


def test_removing_a_fault_leaves_the_earlier_history_unchanged() -> None:
    """Draws are named by their purpose; the shrinker depends on that."""
    early, later_window = window(Slow(extra_ms=50), Random()), window(Crash(), Minority(), at_ms=2500, until_ms=2800, id="f2")
    both, history = perform(plan(early, later_window)).history, perform(plan(early)).history
    (opened,) = {event.time_ns for event in both.events if event.kind is EventKind.FAULT_BEGUN and event.fault == "f2"}

    assert [event for event in both.events if event.time_ns < opened] == [e for e in history.events if e.time_ns < opened]
    assert [op for op in both.operations if op.time_ns < opened] == [op for op in history.operations if op.time_ns < opened]


def test_run_without_faults_acknowledges_and_reads_everything() -> None:
    run = perform(plan())
    manifest = run.history.manifest

    assert manifest.outcome == "completed"
    assert run.failure is None
    produced = {op.value for op in run.history.operations if op.f == "produce" and op.type is OpType.OK}
    assert manifest.final_reads_at_ns is not None
    read = {op.value for op in run.history.operations if op.f == "poll" and op.time_ns > manifest.final_reads_at_ns}
    assert len(produced) > 50
    assert produced <= read
    assert {op.type for op in run.history.operations} == {OpType.INVOKE, OpType.OK}


def test_audit_serves_admin_requests_after_the_bound() -> None:
    """LIVE-5; a plan without an audit sends none."""
    changed_plan = msgspec.structs.replace(plan(), quiet_ms=plan().promise.bound_ms)
    run, without = perform(msgspec.structs.replace(changed_plan, audit_ms=8000)), perform(changed_plan)
    bound_ns = (run.history.manifest.healed_at_ns or 0) + changed_plan.promise.bound_ms * 1_000_000
    operations = [row for row in run.history.operations if row.f in ADMIN_REQUESTS]

    assert {"depose-controller", "add-partition", "reassign", "elect-preferred"} == {row.f for row in operations}
    assert min(row.time_ns for row in operations) >= bound_ns
    assert {row.type for row in operations} == {OpType.INVOKE, OpType.OK}
    assert [row for row in without.history.operations if row.f in ADMIN_REQUESTS] == []


def test_run_phases_follow_each_other_as_planned() -> None:
    run = perform(plan(faults_ms=3000))
    manifest = run.history.manifest
    (healed,), (final,) = events(run, EventKind.HEALED), events(run, EventKind.FINAL_READS)

    assert (manifest.healed_at_ns, manifest.final_reads_at_ns) == (healed.time_ns, final.time_ns)
    first = run.history.operations[0].time_ns
    assert 2900 <= (healed.time_ns - first) // 1_000_000 <= 3000
    assert final.time_ns - healed.time_ns >= 2_000_000_000


def test_zookeeper_rows_show_leaders_and_registrations() -> None:
    run = perform(plan())

    written = events(run, EventKind.STATE_WRITTEN)
    assert (written[0].topic, written[0].partition, written[0].leader) == ("t", 0, "b1")
    assert written[0].isr is not None
    assert set(written[0].isr) == {"b1", "b2", "b3"}
    assert sorted(str(node) for node in nodes(run, EventKind.REGISTERED)) == ["b1", "b2", "b3"]
    assert all(event.incarnation is not None and event.life == 1 for event in events(run, EventKind.REGISTERED))


FAULTS: list[AnyFault] = [
    Partition(),
    Partition(links=("peers",), direction="inbound"),
    Partition(shape="halves"),
    Partition(shape="bridge"),
    Packets(drop_per_mille=200, duplicate_per_mille=200, reorder_per_mille=200),
    Slow(extra_ms=50),
    Clog(),
    Clog(kinds=("fetch-reply",), peer=2),
    Reset(period_ms=300),
    ClockJump(offset_ms=-60_000),
    ClockDrift(ppm=200_000),
    ClockStrobe(offset_ms=10_000, period_ms=100),
    Pause(),
    Crash(),
    CrashAt(effect="append", nth=3),
    CrashAt(effect="send:fetch-reply", before=True),
    Restart(),
    Restart(session_ends=True),
    PowerLoss(),
    ExpireSession(),
    DirUnreadable(),
    DirFile(),
    DirFile(removed=True),
    DirFailure(),
    DirFailure(drop_unflushed=True),
    DiskFull(),
    DiskSlow(extra_ms=50),
    DiskSwap(),
]


def name_of_fault(fault: AnyFault) -> str:
    return "-".join([type(fault).__name__, *(str(value) for value in msgspec.structs.astuple(fault))])


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=name_of_fault)
def test_every_fault_acts_is_recorded_and_heals(fault: AnyFault) -> None:
    """At the end each process runs, and the topic accepts writes."""
    changed_plan = plan(window(fault), draws=2)
    if isinstance(fault, DiskSlow):
        topic = msgspec.structs.replace(changed_plan.cluster.topics[0], flush="before_ack")
        changed_plan = msgspec.structs.replace(
            changed_plan, cluster=msgspec.structs.replace(changed_plan.cluster, topics=(topic,)), quiet_ms=8000
        )
    run = perform(msgspec.structs.replace(changed_plan, quiet_ms=8000))
    (count,) = run.history.manifest.faults

    assert run.history.manifest.outcome == "completed"
    assert (count.kind, count.begun) == ("it", 1)
    assert count.acted > 0
    assert sum(event.count or 0 for event in events(run, EventKind.FAULT_ACTED)) == count.acted
    assert set(nodes(run, EventKind.FAULT_BEGUN)) == set(nodes(run, EventKind.FAULT_ENDED))
    assert events(run, EventKind.ASSERTION) == []
    lives = {event.node: event.kind for event in events(run, EventKind.NODE_STARTED, EventKind.NODE_STOPPED)}
    assert lives == dict.fromkeys(("b1", "b2", "b3"), EventKind.NODE_STARTED)
    healed = run.history.manifest.healed_at_ns
    assert healed is not None
    assert any(op.type is OpType.OK and op.f == "produce" and op.time_ns > healed for op in run.history.operations)


@pytest.mark.parametrize(
    ("target", "hit"),
    [
        (Named(brokers=(2, 3)), {"b2", "b3"}),
        (LEADER, {"b1"}),
        (Everyone(), {"b1", "b2", "b3"}),
        (LeaderOf(topic="t", partition=7), set()),
    ],
)
def test_fault_hits_its_named_target(target: AnyTarget, hit: set[str]) -> None:
    assert set(nodes(perform(plan(window(Slow(extra_ms=1), target))), EventKind.FAULT_BEGUN)) == hit


@pytest.mark.parametrize(
    ("target", "count"), [(Controller(), 1), (IsrMember(topic="t", partition=0), 1), (Minority(), 1), (Random(count=2), 2)]
)
def test_fault_hits_as_many_brokers_as_its_role_has(target: AnyTarget, count: int) -> None:
    hit = nodes(perform(plan(window(Slow(extra_ms=1), target))), EventKind.FAULT_BEGUN)

    assert len(set(hit)) == count
    assert not isinstance(target, IsrMember) or hit != ["b1"]


def test_broker_stays_down_until_the_last_crash_fault_ends() -> None:
    first, second = (
        window(Crash(), Named(brokers=(2,)), 500, 1500),
        window(Crash(), Named(brokers=(2,)), at_ms=1000, until_ms=2500, id="f2"),
    )
    run = perform(plan(first, second))
    (end,) = (event.time_ns for event in events(run, EventKind.FAULT_ENDED) if event.fault == "f2")

    starts = [event.time_ns for event in events(run, EventKind.NODE_STARTED) if event.node == "b2"]
    assert starts[1:] == [end]


def test_fast_restart_registers_within_the_session_timeout() -> None:
    """B-47, KAFKA-1120: the list of brokers has the same ids before and after, although one is a new incarnation."""
    run = perform(plan(window(Restart(session_ends=True), Named(brokers=(2,)))))
    (stopped,) = (event.time_ns for event in events(run, EventKind.NODE_STOPPED))
    first, second = (event for event in events(run, EventKind.REGISTERED) if event.node == "b2")

    assert first.incarnation != second.incarnation
    assert second.time_ns - stopped < 100_000_000


def test_unreadable_log_dir_takes_its_replicas_offline() -> None:
    run = perform(plan(window(DirUnreadable())))

    rows = [(event.node, event.topic, event.partition, event.dir) for event in events(run, EventKind.FAULT_BEGUN)]
    assert rows == [("b1", None, None, None), ("b1", "t", 0, 0)]


def test_dir_file_fault_fails_every_access_until_it_ends() -> None:
    """R-321: the earlier text of KIP-112 makes a directory fail so; a directory that is moved aside loses nothing."""
    run = perform(plan(window(DirFile())))

    assert [event.detail for event in events(run, EventKind.DIR_FAILED)] == ["ENOTDIR"]
    assert events(run, EventKind.WOUND) == []
    assert len({event.leo for event in events(run, EventKind.LOG_ON_DISK)}) == 1


def test_removed_directory_comes_back_empty() -> None:
    """R-321, R-303: its logs are lost when the process ends, and the broker creates its replicas again."""
    run = perform(plan(window(DirFile(removed=True))))

    rows = [event for event in run.history.events if event.node == "b1"]
    wounds = [event for event in rows if event.kind is EventKind.WOUND]
    stopped = [event.index for event in rows if event.kind is EventKind.NODE_STOPPED]
    assert [(event.partition, event.offset, event.detail) for event in wounds] == [(0, 0, "swapped"), (None, None, "swapped")]
    assert stopped[0] < wounds[0].index
    assert len({event.leo for event in events(run, EventKind.LOG_ON_DISK)}) == 1


def test_power_loss_is_recorded_for_logs_with_lost_records() -> None:
    run = perform(plan(window(PowerLoss(lose_all=True), Named(brokers=(2,)))))

    (wound,) = events(run, EventKind.WOUND)
    (registered, *_) = (event for event in events(run, EventKind.REGISTERED) if event.node == "b2")
    assert (wound.node, wound.topic, wound.partition, wound.dir, wound.offset) == ("b2", "t", 0, 0, 0)
    assert (wound.incarnation, wound.detail) == (registered.incarnation, "power-loss")


def test_device_drop_loses_data_only_when_its_process_ends() -> None:
    """A process serves from its page cache until it notices the failure, so nothing is destroyed before."""
    run = perform(plan(window(DirFailure(drop_unflushed=True), Named(brokers=(2,)))))

    rows = [event for event in run.history.events if event.node == "b2"]
    (wound,) = (event for event in rows if event.kind is EventKind.WOUND)
    before = [e.kind for e in rows if e.index < wound.index and e.kind in (EventKind.NODE_STARTED, EventKind.NODE_STOPPED)]
    assert wound.detail == "dropped"
    assert before == [EventKind.NODE_STARTED, EventKind.NODE_STOPPED]


def test_flush_before_ack_survives_power_loss_everywhere() -> None:
    changed_plan = plan(window(PowerLoss(lose_all=True), Everyone()))
    topic = TopicSpec(name="t", partitions=1, replication_factor=3, min_insync_replicas=2, flush="before_ack")
    changed_plan = msgspec.structs.replace(
        changed_plan, cluster=msgspec.structs.replace(changed_plan.cluster, topics=(topic,)), quiet_ms=8000
    )
    run = perform(changed_plan)

    acked = {op.value for op in run.history.operations if op.f == "produce" and op.type is OpType.OK}
    final = run.history.manifest.final_reads_at_ns
    assert final is not None
    assert acked <= {op.value for op in run.history.operations if op.f == "poll" and op.time_ns > final}


def test_run_beyond_its_event_limit_is_a_harness_failure() -> None:
    run = perform(msgspec.structs.replace(plan(), limit_events=100))

    assert run.history.manifest.outcome == "harness-fault"
    assert run.failure is not None
    assert "100" in run.failure


def test_interrupted_run_keeps_its_rows() -> None:
    def script(event: AnyEvent) -> tuple[()]:
        if sum(len(machine.told) for machine in cast.machines) > 5:
            raise KeyboardInterrupt
        return ()

    cast = Cast(script)
    run = SimBackend(cast).perform(plan(), Provenance(run_id="r", plan_digest="d"))

    assert run.history.manifest.outcome == "interrupted"
    assert nodes(run, EventKind.NODE_STARTED) == ["b1", "b2", "b3"]
    assert isinstance(cast.machines[0], Scripted)


def test_node_with_a_failed_assertion_stays_down() -> None:
    def script(event: AnyEvent) -> tuple[()]:
        raise AssertionError("wrong from the start")

    run = SimBackend(Cast(script)).perform(plan(), Provenance(run_id="r", plan_digest="d"))

    assert nodes(run, EventKind.ASSERTION) == ["b1", "b2", "b3"]
    assert len(events(run, EventKind.NODE_STARTED)) == 3
