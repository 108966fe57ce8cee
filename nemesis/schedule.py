"""A fault schedule: windows, each with a fault that is active from begin to end. Every window closes, so every run ends healed.

`validate` decides whether a schedule can be performed on a cluster of a given shape. It knows the plan and not the run: which
broker `leader-of` hits is known only when its window opens.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import assert_never

from msgspec import Struct

from history.promise import Flush
from nemesis.fault_rules import complaints
from nemesis.faults import (
    DRIFT_PPM_MAX,
    AnyFault,
    Decommission,
    DiskFault,
    Join,
    LinkFault,
    Packets,
    Partition,
    Roll,
    drift_ppm,
)
from nemesis.targets import (
    INTERNAL,
    AnyTarget,
    ClientPlace,
    Controller,
    Everyone,
    Minority,
    Named,
    OfPartition,
    Random,
)

MAX_WINDOWS = 1000


class Window(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fault on a target, active from `at_ms` to `until_ms` after the start of the workload."""

    id: str  # names the draws of this window: "f3"
    kind: str  # the name in the catalogue, by which campaigns count: "controller-kill", "power-loss" ...
    at_ms: int
    until_ms: int
    fault: AnyFault
    target: AnyTarget = Everyone()


class TopicFacts(Struct, frozen=True, kw_only=True):
    """The parameters of a topic on which fault schedules depend."""

    name: str
    partitions: int  # numbered from 0
    min_insync_replicas: int
    flush: Flush


class Shape(Struct, frozen=True, kw_only=True):
    """The parameters of a cluster on which fault schedules depend; brokers are numbered from 1, log directories from 0."""

    brokers: int
    log_dirs: int
    topics: tuple[TopicFacts, ...]
    control_requests: tuple[str, ...] = ("leader-and-isr",)  # message kinds between controllers and brokers
    session_timeout_ms: int
    replica_lag_time_max_ms: int
    end_ms: int  # everything is healed here
    zookeeper: int = 1  # servers
    places: int = 1  # of clients, numbered from 1
    requests: tuple[str, ...] = ()  # that clients send to brokers (nemesis/messages.py)
    internal_topics: tuple[str, ...] = ()  # that the system keeps for these clients


class Complaint(Struct, frozen=True, kw_only=True):
    """Why a fault schedule is refused: the number of the bad fault in it, and one sentence that names it."""

    index: int
    sentence: str


def broker_ids(shape: Shape) -> tuple[int, ...]:
    """The ids of all brokers: 1 to `shape.brokers`."""
    return tuple(range(1, shape.brokers + 1))


def validate(windows: Sequence[Window], shape: Shape) -> tuple[Complaint, ...]:
    """All reasons why a fault schedule cannot be performed, in the order of its windows; none if it can."""
    complaints_found: list[Complaint] = []
    if len(windows) > MAX_WINDOWS:
        sentence = f"a schedule has at most {MAX_WINDOWS} windows, this has {len(windows)}"
        complaints_found.append(Complaint(index=MAX_WINDOWS, sentence=sentence))
    ids: set[str] = set()
    for index, window in enumerate(windows[:MAX_WINDOWS]):
        sentences = [
            *_complaints_of_times(window, shape),
            *complaints(window.fault, brokers=shape.brokers, log_dirs=shape.log_dirs, servers=shape.zookeeper),
            *_complaints_of_target(window.target, shape),
            *_complaints_of_membership(window),
            *(_complaints_of_place(window.fault) if isinstance(window.target, ClientPlace) else ()),
        ]
        if window.id in ids:
            sentences.append("an earlier window has the same id")
        ids.add(window.id)
        earlier = next((earlier_window for earlier_window in windows[:index] if clash(earlier_window, window)), None)
        if earlier is not None:
            sentences.append(
                f"it partly overlaps window {earlier.id}, the same fault on the same brokers: nest them or separate them"
            )
        slowest = _slowest_ppm([*windows[:index], window], window.at_ms)
        if slowest < -DRIFT_PPM_MAX:
            sentences.append(f"the drifts at {window.at_ms} ms may add up to {slowest} ppm; the least is -{DRIFT_PPM_MAX} ppm")
        complaints_found += [Complaint(index=index, sentence=f"window {window.id} ({window.kind}): {said}") for said in sentences]
    return tuple(complaints_found)


def clash(first: Window, second: Window) -> bool:
    """Whether two fault windows put the same fault on the same brokers and overlap: the end of one would undo the other's."""
    if first.until_ms <= second.at_ms or second.until_ms <= first.at_ms:
        return False
    if (
        first.at_ms < second.at_ms < first.until_ms < second.until_ms
        or second.at_ms < first.at_ms < second.until_ms < first.until_ms
    ):
        return _same_means(first.fault, second.fault) and _surely_meet(first.target, second.target)
    return False


def _same_means(first: AnyFault, second: AnyFault) -> bool:
    """Whether two faults are of one type and, for log directories, on the same directory."""
    if type(first) is not type(second):
        return False
    return not isinstance(first, DiskFault) or not isinstance(second, DiskFault) or first.dir == second.dir


def _surely_meet(first: AnyTarget, second: AnyTarget) -> bool:
    """Whether two targets name a common broker in every run. Roles may move between windows: backends handle those."""
    if isinstance(first, Everyone) or isinstance(second, Everyone):
        return isinstance(first, Named | Everyone) and isinstance(second, Named | Everyone)
    return isinstance(first, Named) and isinstance(second, Named) and any(broker in second.brokers for broker in first.brokers)


def _complaints_of_times(window: Window, shape: Shape) -> Iterator[str]:
    """What is wrong with the window's times."""
    if window.at_ms < 0:
        yield f"at_ms must be at least 0, not {window.at_ms}"
    if window.until_ms <= window.at_ms:
        yield f"until_ms must be greater than at_ms ({window.until_ms} <= {window.at_ms})"
    if window.until_ms > shape.end_ms:
        yield f"a plan that cannot heal: it is open until {window.until_ms} ms and the faults end at {shape.end_ms} ms"


def rolls_of(schedule: Iterable[Window]) -> tuple[Roll, ...]:
    """The rolls of a schedule, in its order."""
    return tuple(window.fault for window in schedule if isinstance(window.fault, Roll))


def _complaints_of_membership(window: Window) -> Iterator[str]:
    """What is wrong with a window in which a broker joins the cluster or leaves it."""
    if not isinstance(window.fault, Join | Decommission):
        return
    if not isinstance(window.target, Named):
        yield "a broker that joins or leaves is named: its target is {target: named, brokers: [...]}"
    if isinstance(window.fault, Join) and window.at_ms:
        yield f"a broker that joins is not there from the beginning on: at_ms must be 0, not {window.at_ms}"


def _slowest_ppm(windows: Sequence[Window], at_ms: int) -> int:
    """The drift, in ppm, of a clock that is slowed down by all fault windows open at this time."""
    return sum(min(0, drift_ppm(window.fault)) for window in windows if window.at_ms <= at_ms < window.until_ms)


def _complaints_of_target(target: AnyTarget, shape: Shape) -> Iterator[str]:
    """What in the target the cluster's shape does not have."""
    match target:
        case Named(brokers=brokers):
            if not brokers:
                yield "brokers must name at least one broker"
            yield from (_no_broker(broker, shape) for broker in brokers if not 1 <= broker <= shape.brokers)
        case OfPartition():
            yield from _complaints_of_partition(target, shape)
        case Random(count=count):
            if not 1 <= count <= shape.brokers:
                yield f"count must be from 1 to {shape.brokers}, not {count}"
        case ClientPlace(place=place):
            if not 1 <= place <= shape.places:
                yield f"there is no client place {place}, only 1 to {shape.places}"
        case Controller() | Minority() | Everyone():
            pass
        case _:
            assert_never(target)


def _complaints_of_partition(target: OfPartition, shape: Shape) -> Iterator[str]:
    """That the partition is none of the plan's. How many an internal topic has is the system's matter, if it has the topic."""
    topic, partition = target.topic, target.partition
    if topic.startswith(INTERNAL):
        if partition < 0:
            yield f"topic {topic} has no partition {partition}"
        return
    facts = next((facts for facts in shape.topics if facts.name == topic), None)
    if facts is None:
        yield f"there is no topic {topic!r}, only {', '.join(facts.name for facts in shape.topics)}"
    elif not 0 <= partition < facts.partitions:
        yield f"topic {topic} has no partition {partition}, only 0 to {facts.partitions - 1}"


def _complaints_of_place(fault: AnyFault) -> Iterator[str]:
    """What of a fault cannot be done to the clients at one place, whose only links are those with brokers."""
    if not isinstance(fault, LinkFault):
        yield "only faults of links can hit a client place"
    elif isinstance(fault, Packets):
        if fault.duplicate_per_mille or fault.reorder_per_mille:
            yield "on the links of a client place packets can only be dropped (drop_per_mille): TCP keeps them in order"
    elif "clients" not in fault.links:
        yield "a client place has links of the kind clients alone"
    elif isinstance(fault, Partition) and fault.shape != "isolate":
        yield f"a client place can be cut off by the shape isolate alone, not {fault.shape}"


def _no_broker(broker: int, shape: Shape) -> str:
    return f"there is no broker {broker}, only 1 to {shape.brokers}"
