"""A schedule: windows in which faults hold. Every window closes, so every schedule ends healed.

`validate` decides whether a schedule can be performed on a cluster of a given shape. It knows the plan, not the run: whom
`leader-of` hits is found out only when its window opens.
"""

from collections.abc import Iterator, Sequence
from typing import assert_never

from msgspec import Struct

from history.promise import Flush
from nemesis.faults import (
    AnyFault,
    ClockDrift,
    ClockStrobe,
    Clog,
    CrashAt,
    DirFailure,
    DirFile,
    DirUnreadable,
    DiskFull,
    DiskSlow,
    DiskSwap,
    Packets,
    Partition,
    Reset,
    Slow,
    ZooKeeperDown,
)
from nemesis.targets import AnyTarget, Controller, Everyone, IsrMember, LeaderOf, Minority, Named, Random

MAX_WINDOWS = 1000
_DRIFT_PPM_MAX = 900_000


class Window(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fault on a target from `at_ms` to `until_ms` after the start of the workload."""

    id: str  # names the draws of this window: "f3"
    kind: str  # the name people use and campaigns count: "controller-kill", "partition-leader", "power-loss" ...
    at_ms: int
    until_ms: int
    fault: AnyFault
    target: AnyTarget = Everyone()


class TopicFacts(Struct, frozen=True, kw_only=True):
    """What a schedule must know of one topic."""

    name: str
    partitions: int  # numbered from 0
    min_insync_replicas: int
    flush: Flush


class Shape(Struct, frozen=True, kw_only=True):
    """What a schedule must know of the cluster it is for; brokers are numbered from 1, directories from 0."""

    brokers: int
    log_dirs: int
    topics: tuple[TopicFacts, ...]
    control_requests: tuple[str, ...] = ("leader-and-isr",)  # message kinds by which controllers and brokers speak
    session_timeout_ms: int
    replica_lag_time_max_ms: int
    end_ms: int  # everything is healed here


class Complaint(Struct, frozen=True, kw_only=True):
    """Why a schedule is refused: the window at `index`, and one sentence that names it."""

    index: int
    sentence: str


def broker_ids(shape: Shape) -> tuple[int, ...]:
    """All brokers of a cluster."""
    return tuple(range(1, shape.brokers + 1))


def validate(windows: Sequence[Window], shape: Shape) -> tuple[Complaint, ...]:
    """Everything that is wrong with a schedule, in the order of its windows; empty for a schedule that can be performed."""
    found: list[Complaint] = []
    if len(windows) > MAX_WINDOWS:
        sentence = f"a schedule has at most {MAX_WINDOWS} windows, this has {len(windows)}"
        found.append(Complaint(index=MAX_WINDOWS, sentence=sentence))
    ids: set[str] = set()
    for index, window in enumerate(windows[:MAX_WINDOWS]):
        sentences = [*_times(window, shape), *_fault(window.fault, shape), *_target(window.target, shape)]
        if window.id in ids:
            sentences.append("its id is taken by an earlier window")
        ids.add(window.id)
        earlier = next((other for other in windows[:index] if clash(other, window)), None)
        if earlier is not None:
            sentences.append(f"it overlaps with window {earlier.id}, the same fault on the same brokers: nest them or part them")
        slowest = _slowest_ppm([*windows[:index], window], window.at_ms)
        if slowest < -_DRIFT_PPM_MAX:
            sentences.append(f"the drifts at {window.at_ms} ms may add up to {slowest} ppm: no clock is so slow")
        found += [Complaint(index=index, sentence=f"window {window.id} ({window.kind}): {said}") for said in sentences]
    return tuple(found)


def clash(one: Window, other: Window) -> bool:
    """Whether the end of one window would undo what the other still wants: the same fault, the same brokers, partial overlap."""
    if one.until_ms <= other.at_ms or other.until_ms <= one.at_ms:
        return False
    if one.at_ms < other.at_ms < one.until_ms < other.until_ms or other.at_ms < one.at_ms < other.until_ms < one.until_ms:
        return _same_means(one.fault, other.fault) and _surely_meet(one.target, other.target)
    return False


def _same_means(one: AnyFault, other: AnyFault) -> bool:
    """The same kind of fault; on directories, also the same directory."""
    if type(one) is not type(other):
        return False
    return _directory(one) == _directory(other)


def _surely_meet(one: AnyTarget, other: AnyTarget) -> bool:
    """Known from the plan alone to hit a common broker. Roles may move between two windows: the backend sorts those out."""
    if isinstance(one, Everyone) or isinstance(other, Everyone):
        return isinstance(one, Named | Everyone) and isinstance(other, Named | Everyone)
    return isinstance(one, Named) and isinstance(other, Named) and any(broker in other.brokers for broker in one.brokers)


def _times(window: Window, shape: Shape) -> Iterator[str]:
    if window.at_ms < 0:
        yield f"it begins at {window.at_ms} ms, before the start"
    if window.until_ms <= window.at_ms:
        yield f"it ends at {window.until_ms} ms, not after its begin at {window.at_ms} ms"
    if window.until_ms > shape.end_ms:
        yield f"a plan that cannot heal: it is open until {window.until_ms} ms and the faults end at {shape.end_ms} ms"


def _slowest_ppm(windows: Sequence[Window], at_ms: int) -> int:
    """How slow a clock may run that all windows open at this time hit."""
    faults = [window.fault for window in windows if window.at_ms <= at_ms < window.until_ms]
    return sum(min(0, fault.ppm) for fault in faults if isinstance(fault, ClockDrift))


def _directory(fault: AnyFault) -> int | None:
    return fault.dir if isinstance(fault, DirUnreadable | DirFile | DirFailure | DiskFull | DiskSlow | DiskSwap) else None


def _fault(fault: AnyFault, shape: Shape) -> Iterator[str]:
    directory = _directory(fault)
    if directory is not None and not 0 <= directory < shape.log_dirs:
        yield f"there is no log directory {directory}: each broker has {shape.log_dirs}, numbered from 0"
    if isinstance(fault, Packets):
        shares = (fault.drop_per_mille, fault.duplicate_per_mille, fault.reorder_per_mille)
        if not all(0 <= share <= 1000 for share in shares):
            yield "a share of packets is a number from 0 to 1000"
        if fault.copy_late_ms_max < 1:
            yield "copy_late_ms_max must be above 0"
    if isinstance(fault, ZooKeeperDown) and fault.servers < 1:
        yield "servers must be at least 1"
    if isinstance(fault, CrashAt) and fault.nth < 1:
        yield "effects are counted from 1"
    if isinstance(fault, Reset | ClockStrobe) and fault.period_ms <= 0:
        yield "period_ms must be above 0"
    if isinstance(fault, Slow | DiskSlow) and fault.extra_ms < 0:
        yield "extra_ms must not be below 0"
    if isinstance(fault, ClockDrift) and fault.ppm > _DRIFT_PPM_MAX:
        yield f"ppm must not be above {_DRIFT_PPM_MAX}"
    if isinstance(fault, Partition | Slow | Clog | Reset) and not fault.links:
        yield "no links are named: nothing would happen"
    if isinstance(fault, Packets | Clog) and fault.peer is not None and not 1 <= fault.peer <= shape.brokers:
        yield _no_broker(fault.peer, shape)


def _target(target: AnyTarget, shape: Shape) -> Iterator[str]:
    match target:
        case Named(brokers=brokers):
            if not brokers:
                yield "no broker is named"
            yield from (_no_broker(broker, shape) for broker in brokers if not 1 <= broker <= shape.brokers)
        case LeaderOf(topic=topic, partition=partition) | IsrMember(topic=topic, partition=partition):
            facts = next((facts for facts in shape.topics if facts.name == topic), None)
            if facts is None:
                yield f"there is no topic {topic!r}, only {', '.join(facts.name for facts in shape.topics)}"
            elif not 0 <= partition < facts.partitions:
                yield f"topic {topic} has no partition {partition}, only 0 to {facts.partitions - 1}"
        case Random(count=count):
            if not 1 <= count <= shape.brokers:
                yield f"{count} brokers cannot be drawn from {shape.brokers}"
        case Controller() | Minority() | Everyone():
            pass
        case _:
            assert_never(target)


def _no_broker(broker: int, shape: Shape) -> str:
    return f"there is no broker {broker}, only 1 to {shape.brokers}"
