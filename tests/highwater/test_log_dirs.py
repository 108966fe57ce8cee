"""KIP-112's system tests as plans, with its validation steps: 1 ZooKeeper, 3 brokers, 2 directories each (R-320).

The corpus tests that `safe` passes and a protocol with the bug does not: corpus/seeds/kip112-*.yaml.
"""

from functools import cache
from pathlib import Path

import pytest

from checkers.engine.verdict import Validity
from checkers.judge import judge
from highwater.admin.describe import of_reply, text_of
from highwater.backends.sim.backend import SimBackend
from highwater.backends.sim.world import World
from highwater.plans.text import load_plan
from highwater.rig.backend import Provenance
from highwater.rig.scene import scene_of
from history.event import ClusterEvent, EventKind
from history.history import History

PLANS = Path(__file__).parents[2] / "corpus" / "plans" / "log-dirs"
MS = 1_000_000


@cache
def history_of(name: str) -> History:
    return SimBackend().perform(load_plan(PLANS / f"{name}.yaml"), Provenance(run_id=name, plan_digest="")).history


def described(name: str, at_ms: int, topic: str = "t") -> str:
    """The line of `kafka-topics --describe` for the partition of this topic at that moment, without its leader epoch."""
    world = World(scene_of(load_plan(PLANS / f"{name}.yaml")))
    world.play_until(at_ms)
    reply = world.metadata()
    assert reply is not None
    (line,) = [line.strip() for line in text_of(of_reply(reply)).splitlines() if line.startswith(f"\tTopic: {topic}\t")]
    return line.partition("\tLeaderEpoch: ")[0]


def rows(history: History, kind: EventKind, node: str) -> list[ClusterEvent]:
    return [event for event in history.events if event.kind == kind and event.node == node]


def validate(history: History) -> None:
    """R-320: no record is lost or duplicated, and the cluster is live after the repair."""
    verdict = judge(history)
    assert (verdict.validity, verdict.live, verdict.excused) == (Validity.VALID, True, ())
    acked = [op.value for op in history.operations if op.f == "produce" and op.type == "ok"]
    assert len(acked) > 100
    read = {(op.value, op.offset) for op in history.operations if op.f == "poll" and op.type == "ok" and op.value is not None}
    assert len(read) == len({value for value, _ in read})


def acked_between(history: History, start_ms: int, end_ms: int, topic: str = "t") -> int:
    ok = [op for op in history.operations if op.f == "produce" and op.type == "ok" and op.topic == topic]
    return sum(start_ms * MS <= op.time_ns < end_ms * MS for op in ok)


def serves_alone(history: History, name: str, broker: str) -> None:
    """R-318, R-319: the broker with the failed directory serves a topic created later while the other brokers are down."""
    window = [event.time_ns for event in history.events if event.fault == "others-killed" and event.node is not None]
    alone = [op for op in history.operations if op.topic == "u" and op.type == "ok" and min(window) < op.time_ns < max(window)]
    assert ({op.node for op in alone}, {op.f for op in alone}) == ({broker}, {"produce"})
    assert len(alone) > 5
    logs = [row for row in rows(history, EventKind.LOG_ON_DISK, broker) if row.topic == "u"]
    assert [row.dir for row in logs] == [1]
    assert f"Topic: u\tPartition: 0\tLeader: {broker[1:]}\tReplicas: 1,2,3\tIsr: {broker[1:]}" in described(name, 10_000, "u")


def test_broker_starts_with_a_failed_log_dir() -> None:
    """R-317, R-320: kill the leader, chmod 000 its first directory, start it again, validate."""
    history = history_of("bootstrap")

    validate(history)
    (failed,) = rows(history, EventKind.DIR_FAILED, "b1")
    assert (failed.life, failed.dir, failed.detail) == (2, 0, "unreadable at startup")
    assert 2 in {row.life for row in rows(history, EventKind.REGISTERED, "b1")}  # it registers without the directory
    assert described("bootstrap", 9000) == "Topic: t\tPartition: 0\tLeader: 2\tReplicas: 1,2,3\tIsr: 2,3\tOffline: 1"


@pytest.mark.slow
def test_leader_moves_when_its_log_dir_fails() -> None:
    """R-318, R-320: the leader's directory is chmod 000; another replica leads, and the broker serves from its other
    directory."""
    history = history_of("leader")

    validate(history)
    (failed,) = rows(history, EventKind.DIR_FAILED, "b1")
    assert (failed.life, failed.dir, failed.detail) == (1, 0, "EACCES")
    stopped = rows(history, EventKind.NODE_STOPPED, "b1")
    assert [row.detail for row in stopped] == ["crash"]  # the restart after the directory was repaired
    assert acked_between(history, 6000, 9000) > 50
    assert described("leader", 7500) == "Topic: t\tPartition: 0\tLeader: 2\tReplicas: 1,2,3\tIsr: 2,3\tOffline: 1"
    serves_alone(history, "leader", "b1")


@pytest.mark.slow
def test_follower_leaves_the_isr_when_its_log_dir_fails() -> None:
    """R-319, R-320: a follower's directory is chmod 000; it leaves the ISR, and the broker serves from its other directory."""
    history = history_of("follower")

    validate(history)
    assert [row.detail for row in rows(history, EventKind.DIR_FAILED, "b3")] == ["EACCES"]
    assert acked_between(history, 6000, 9000) > 50
    assert described("follower", 7500) == "Topic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2,3\tIsr: 1,2\tOffline: 3"
    serves_alone(history, "follower", "b3")


def test_slow_disk_without_errors_is_not_detected() -> None:
    """R-314: KIP-112's stated limitation. The leader stays, and the partition is slow while the disk is."""
    history = history_of("slow-disk")

    validate(history)
    assert [row for row in history.events if row.kind == EventKind.DIR_FAILED] == []
    assert "Leader: 1\t" in described("slow-disk", 9000)
    assert acked_between(history, 6000, 12_000) * 3 < acked_between(history, 14_000, 20_000)
