"""Synthetic histories for the tests of reports. They are plausible but need not be correct.

`small_loss` is a handwritten run of the loss that truncation to the high watermark causes. `random_run` has any size and is drawn
from a seed.
"""

from dataclasses import dataclass, field
from typing import Any

from checkers.engine.verdict import Anomaly, Findings, Verdict, merge
from history.event import EventKind
from history.history import History
from history.manifest import Assignment, FaultCount, RunManifest
from history.op import OpType
from history.promise import Promise, TopicPromise
from history.recorder import Record, Recorder
from history.seed import Rng

MS = 1_000_000
BROKERS = ("b1", "b2", "b3")


def manifest_of(
    *, brokers: tuple[str, ...] = BROKERS, partitions: int = 1, end_ms: int = 30_000, faults: tuple[FaultCount, ...] = ()
) -> RunManifest:
    """A manifest of one topic, "orders", replicated on every broker."""
    return RunManifest(
        run_id="7-v3",
        seed=7,
        draws=7,
        plan_digest="51a3",
        protocol="v3",
        backend="sim",
        commit="0123abc",
        dirty=False,
        versions={"python": "3.11"},
        outcome="completed",
        promise=Promise(
            topics=(TopicPromise(topic="orders"),), session_timeout_ms=6000, replica_lag_time_max_ms=4000, request_timeout_ms=2000
        ),
        brokers=brokers,
        assignments=tuple(Assignment(topic="orders", partition=n, replicas=brokers) for n in range(partitions)),
        healed_at_ns=end_ms * 2 // 3 * MS,
        final_reads_at_ns=end_ms * 5 // 6 * MS,
        end_ns=end_ms * MS,
        faults=faults,
        digest="9f00",
        sim_seconds=end_ms / 1000,
        events_handled=1234,
    )


@dataclass
class Scene:
    """A recorder whose clock is set by the test."""

    now_ms: int = 0
    recorder: Recorder = field(init=False)

    def __post_init__(self) -> None:
        self.recorder = Recorder(lambda: self.now_ms * MS)

    def at(self, ms: int) -> Recorder:
        """Set the clock and return the recorder."""
        self.now_ms = ms
        return self.recorder

    def produce(self, process: int, value: str, *, start: int, end: int, offset: int | None) -> int:
        """Record a produce with acks=all and return the index of its completion. Without an offset the outcome is unknown."""
        invocation: dict[str, Any] = {"process": process, "f": "produce", "topic": "orders", "partition": 0, "acks": -1}
        self.at(start).operation(type=OpType.INVOKE, records=(Record(value=value),), **invocation)
        if offset is None:
            return self.at(end).operation(
                type=OpType.INFO, records=(Record(value=value),), error="REQUEST_TIMED_OUT", **invocation
            )
        answer = Record(value=value, offset=offset, leader_epoch=1)
        return self.at(end).operation(type=OpType.OK, records=(answer,), node="b1", **invocation)


def small_loss() -> tuple[History, Verdict]:
    """b2 truncates to its HW after a restart, is elected, and b1 follows it: the record at offset 1 is lost on all replicas."""
    scene = Scene()
    at = scene.at
    for node in ("b1", "b2"):
        at(0).event(EventKind.NODE_STARTED, node=node, life=1)
        at(5).event(EventKind.REGISTERED, node=node, life=1, incarnation=10)
    at(10).event(EventKind.CONTROLLER_ELECTED, node="b1", controller_epoch=1)
    place: dict[str, Any] = {"topic": "orders", "partition": 0}
    state: dict[str, Any] = {"topic": "orders", "partition": 0, "controller_epoch": 1, "elr": ()}
    columns: dict[str, Any] = {"topic": "orders", "partition": 0}
    at(20).event(EventKind.STATE_WRITTEN, node="b1", leader="b1", leader_epoch=1, zk_version=1, isr=("b1", "b2"), **state)
    at(25).event(EventKind.BECAME_LEADER, node="b1", life=1, leader_epoch=1, leo=0, hw=0, isr=("b1", "b2"), **place)
    at(26).event(EventKind.BECAME_FOLLOWER, node="b2", life=1, leader_epoch=1, leader="b1", **place)
    for offset, value in enumerate(("v1", "v2")):
        start = 1000 + 1000 * offset
        record: dict[str, Any] = {**place, "life": 1, "leader_epoch": 1}
        at(start + 2).event(EventKind.APPEND, node="b1", offset=offset, value=value, detail="leader", **record)
        at(start + 5).event(EventKind.APPEND, node="b2", offset=offset, value=value, detail="follower", **record)
        at(start + 9).event(EventKind.HW, node="b1", hw=offset + 1, leo=offset + 1, detail="leader", **record)
        if offset == 0:
            at(start + 12).event(EventKind.HW, node="b2", hw=1, leo=1, detail="follower", **record)
        acked = scene.produce(0, value, start=start + 15, end=start + 20, offset=offset)
    at(3000).event(EventKind.FAULT_BEGUN, fault="f1", node="b2", detail="crash")
    at(3000).event(EventKind.NODE_STOPPED, node="b2", life=1, detail="crash")
    at(3100).event(EventKind.FAULT_ACTED, fault="f1", node="b2", detail="crash", count=1)
    at(5000).event(EventKind.FAULT_ENDED, fault="f1", node="b2", detail="crash")
    at(5000).event(EventKind.NODE_STARTED, node="b2", life=2)
    at(5010).event(EventKind.RECOVERED, node="b2", life=2, leo=2, hw=1, dir=0, **place)
    cut = at(5020).event(EventKind.TRUNCATE, node="b2", life=2, offset=1, detail="to its high watermark", **place)
    at(5500).event(EventKind.FAULT_BEGUN, fault="f2", node="b1", detail="power-loss")
    at(5500).event(EventKind.NODE_STOPPED, node="b1", life=1, detail="power-loss")
    at(6000).event(EventKind.SESSION_ENDED, node="b1", incarnation=10)
    at(6010).event(EventKind.CONTROLLER_ELECTED, node="b2", controller_epoch=2)
    at(6020).event(EventKind.STATE_WRITTEN, node="b2", leader="b2", leader_epoch=2, zk_version=2, isr=("b2",), **state)
    at(6025).event(EventKind.BECAME_LEADER, node="b2", life=2, leader_epoch=2, leo=1, hw=1, isr=("b2",), **place)
    scene.produce(1, "v3", start=6100, end=8100, offset=None)
    at(20_000).event(EventKind.HEALED)
    at(25_000).event(EventKind.FINAL_READS)
    at(25_100).operation(process=2, type=OpType.INVOKE, f="poll", records=(Record(offset=0),), **columns)
    got = (Record(value="v1", offset=0, leader_epoch=1),)
    read = at(25_120).operation(process=2, type=OpType.OK, f="poll", records=got, node="b2", **columns)
    lost_write = Anomaly(
        kind="lost",
        checker="durability",
        key="orders-0",
        witness=(acked, cut, read),
        words="v2 was acknowledged at offset 1 and is in no log that counts <script>alert(1)</script>",
    )
    faults = (FaultCount(kind="crash", begun=1, acted=1), FaultCount(kind="power-loss", begun=1, acted=0))
    history = scene.recorder.history(manifest_of(faults=faults))
    return history, merge([Findings(anomalies=(lost_write,), live_judged=True, counts={"promised records": 2})])


def random_run(*, seed: int, partitions: int, seconds: int, calls_per_s: int) -> History:
    """A random run: followers trail, brokers crash, leaders move, one call in fifty is unknown."""
    world = _World(rng=Rng(seed), partitions=partitions)
    for number, node in enumerate(BROKERS):
        world.scene.at(number).event(EventKind.NODE_STARTED, node=node, life=1)
        world.scene.at(number).event(EventKind.REGISTERED, node=node, incarnation=number + 1)
    world.scene.at(5).event(EventKind.CONTROLLER_ELECTED, node="b1", controller_epoch=1)
    world.elect_all(10)
    step = 1000 // calls_per_s
    for call in range(seconds * calls_per_s):
        now = 100 + call * step
        if now % 10_000 < step and now > 5000:
            world.crash_or_start(now)
        world.call(now, step)
    return world.scene.recorder.history(manifest_of(partitions=partitions, end_ms=seconds * 1000 + 1000))


class _World:
    """The leader and the log length of each partition."""

    def __init__(self, rng: Rng, partitions: int) -> None:
        self.rng = rng
        self.scene = Scene()
        self.leaders = {n: BROKERS[n % 3] for n in range(partitions)}
        self.epochs = dict.fromkeys(range(partitions), 0)
        self.logs = {(n, b): 0 for n in range(partitions) for b in BROKERS}
        self.down: str | None = None

    def elect_all(self, now: int) -> None:
        isr = tuple(node for node in BROKERS if node != self.down)
        for n, leader in self.leaders.items():
            if leader == self.down:
                leader = self.leaders[n] = isr[0]
            self.epochs[n] += 1
            place: dict[str, Any] = {"topic": "orders", "partition": n, "leader_epoch": self.epochs[n]}
            length = self.logs[n, leader]
            self.scene.at(now).event(EventKind.STATE_WRITTEN, node="b1", leader=leader, isr=isr, **place)
            self.scene.at(now + 1).event(EventKind.BECAME_LEADER, node=leader, leo=length, hw=length, isr=isr, **place)
            for node in isr:
                if node == leader:
                    continue
                self.scene.at(now + 2).event(EventKind.BECAME_FOLLOWER, node=node, leader=leader, **place)
                if self.logs[n, node] > length:
                    self.logs[n, node] = length
                    self.scene.at(now + 2).event(EventKind.TRUNCATE, node=node, offset=length, detail="by epoch", **place)

    def crash_or_start(self, now: int) -> None:
        at = self.scene.at(now)
        if self.down is None:
            self.down = self.rng.pick(BROKERS)
            at.event(EventKind.FAULT_BEGUN, fault=f"f{now // 20_000}", node=self.down, detail="crash")
            at.event(EventKind.FAULT_ACTED, fault=f"f{now // 20_000}", node=self.down, detail="crash", count=1)
            at.event(EventKind.NODE_STOPPED, node=self.down, life=1, detail="crash")
        else:
            at.event(EventKind.FAULT_ENDED, fault=f"f{(now - 10_000) // 20_000}", node=self.down, detail="crash")
            at.event(EventKind.NODE_STARTED, node=self.down, life=2)
            self.down = None
        self.elect_all(now + 2)

    def call(self, now: int, step: int) -> None:
        n = self.rng.below(len(self.leaders))
        process = self.rng.below(8)
        value = f"v{now}"
        invocation: dict[str, Any] = {"topic": "orders", "partition": n, "acks": -1}
        self.scene.at(now).operation(
            process=process, type=OpType.INVOKE, f="produce", records=(Record(value=value),), **invocation
        )
        leader = self.leaders[n]
        offset = self.logs[n, leader]
        for node in BROKERS:
            if node != self.down and (node == leader or self.rng.ratio(9, 10)):
                self._append(n, node, offset, value)
        unknown = self.rng.ratio(1, 50)
        self.scene.at(now + 1 + self.rng.below(step - 1)).operation(
            process=process,
            type=OpType.INFO if unknown else OpType.OK,
            f="produce",
            records=(Record(value=value, offset=None if unknown else offset),),
            error="REQUEST_TIMED_OUT" if unknown else None,
            node=leader,
            **invocation,
        )

    def _append(self, n: int, node: str, offset: int, value: str) -> None:
        place: dict[str, Any] = {"topic": "orders", "partition": n, "leader_epoch": self.epochs[n], "node": node}
        for missing in range(self.logs[n, node], offset + 1):
            self.scene.recorder.event(EventKind.APPEND, offset=missing, value=value, **place)
        self.logs[n, node] = offset + 1
        self.scene.recorder.event(EventKind.HW, hw=offset, leo=offset + 1, **place)
