"""Several plans on one cluster at a time, whose faults do not meet: those of one begin when those of the one before have ended.

    plan 1   faults ─────┐          ┌─ quiet ─ final reads ─▶ history 1
    plan 2        └──── faults ─────┤─ quiet ─ final reads ─▶ history 2

The clients of all plans work from the beginning to the end, on topics of their own. So the quiet time, which is most of a short
run, passes once. Each history has the operations of its plan's clients, the rows of its topics, and all rows that name no topic:
faults of the other plans too, which struck its cluster as well. That a fault took effect (FAULT_ACTED, and the counts in the
manifest) is told of its own windows alone: a plan whose own faults did nothing shows nothing.

A target that is drawn at the moment (`Random`) is drawn anew: draws of the joint run are those of the first plan.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from highwater.backends.real.share import Share
from highwater.plans.plan import Plan, checked
from highwater.rig.backend import Provenance
from highwater.rig.scene import Scene, manifest, scene_of
from history.digest import digest
from history.event import ClusterEvent, EventKind
from history.history import History
from history.manifest import FaultCount
from history.op import Operation


class Joint(Struct, frozen=True, kw_only=True):
    """Plans that are performed together, and the one plan and scene that a stage performs for them."""

    plans: tuple[Plan, ...]
    scenes: tuple[Scene, ...]
    scene: Scene

    @property
    def plan(self) -> Plan:
        """The plan of the joint run."""
        return self.scene.plan


def fits(plan: Plan, other: Plan) -> bool:
    """Whether two plans, which can share brokers, can be performed together: their clients are alike, and all topics new."""
    ours, theirs = plan.workload, other.workload
    alike = all(
        getattr(ours, name) == getattr(theirs, name)
        for name in ("name", "client", "membership", "auto_commit", "request_timeout_ms", "places")
    )
    topics = {topic.name for topic in plan.cluster.topics} & {topic.name for topic in other.cluster.topics}
    return alike and not topics and plan.quiet_ms == other.quiet_ms and plan.promise.profile == other.promise.profile


def joint(plans: Sequence[Plan]) -> Joint:
    """The joint run of plans that fit each other. The clients' numbers are in the order of the plans."""
    first = plans[0]
    begins = [sum(plan.faults_ms for plan in plans[:number]) for number in range(len(plans))]
    schedule = tuple(
        replace(window, id=f"{plan.name}:{window.id}", at_ms=window.at_ms + begin, until_ms=window.until_ms + begin)
        for plan, begin in zip(plans, begins, strict=True)
        for window in plan.schedule
    )
    whole = replace(
        first,
        name=f"{first.name}-to-{plans[-1].name}",
        seed=None,
        cluster=replace(first.cluster, topics=tuple(topic for plan in plans for topic in plan.cluster.topics)),
        promise=replace(first.promise, topics=tuple(topic for plan in plans for topic in plan.promise.topics)),
        faults_ms=sum(plan.faults_ms for plan in plans),
        schedule=schedule,
    )
    scenes = tuple(map(scene_of, plans))
    processes = tuple(process for scene in scenes for process in scene.processes)
    places = scenes[0].places
    scene = replace(
        scene_of(checked(whole)),
        assignment={topic: replicas for scene in scenes for topic, replicas in scene.assignment.items()},
        processes=processes,
        client_places=tuple(places[number % len(places)] for number, _ in enumerate(processes)),
    )
    return Joint(plans=tuple(plans), scenes=scenes, scene=scene)


def parts(whole: History, run: Joint) -> list[History]:
    """The history of each plan of a joint run."""
    histories, begin = [], 0
    for plan, scene in zip(run.plans, run.scenes, strict=True):
        clients = range(begin, begin + len(scene.processes))
        histories.append(_part(whole, run, plan, scene, clients))
        begin = clients.stop
    return histories


def _part(whole: History, run: Joint, plan: Plan, scene: Scene, clients: range) -> History:
    """The history of one plan, whose clients have these numbers in the joint run."""
    share, count = Share.of(plan), len(run.scene.processes)
    rows: list[Operation | ClusterEvent] = [
        *(row for row in whole.operations if row.process % count in clients),
        *(row for row in whole.events if _is_told(row, share, plan)),
    ]
    numbers = {index: number for number, index in enumerate(sorted({row.index for row in rows}))}
    operations = tuple(
        replace(
            row,
            index=numbers[row.index],
            process=row.process // count * len(clients) + row.process % count - clients.start,
        )
        for row in rows
        if isinstance(row, Operation)
    )
    events = tuple(replace(row, index=numbers[row.index]) for row in rows if isinstance(row, ClusterEvent))
    own = manifest(scene, Provenance(run_id="", plan_digest=""), backend=whole.manifest.backend, outcome=whole.manifest.outcome)
    told = replace(
        own,
        system=whole.manifest.system,
        client_places=run.scene.client_places[clients.start : clients.stop],
        faults=_counts(events, plan),
        healed_at_ns=whole.manifest.healed_at_ns,
        final_reads_at_ns=whole.manifest.final_reads_at_ns,
        end_ns=whole.manifest.end_ns,
        digest=digest(operations, events),
        sim_seconds=whole.manifest.sim_seconds,
        wall_seconds=whole.manifest.wall_seconds,
        slowed=whole.manifest.slowed,
        earlier_runs=whole.manifest.earlier_runs,
        beside=tuple(other.name for other in run.plans if other is not plan),
        events_handled=len(events),
    )
    return History(told, operations=operations, events=events)


def _is_told(row: ClusterEvent, share: Share, plan: Plan) -> bool:
    """Whether a row of the joint run is one of this plan's."""
    if row.topic is not None:
        return row.topic in share.topics
    if row.kind is EventKind.CONFIGURED:
        return (row.detail or "").partition(" ")[0] in share.topics
    return row.kind is not EventKind.FAULT_ACTED or _is_own(row, plan)


def _is_own(row: ClusterEvent, plan: Plan) -> bool:
    """Whether a row is about a window of this plan."""
    return (row.fault or "").startswith(f"{plan.name}:")


def _counts(events: Iterable[ClusterEvent], plan: Plan) -> tuple[FaultCount, ...]:
    """For each kind of fault in this plan, how many of its windows were begun and how often they took effect."""
    own = [row for row in events if _is_own(row, plan)]
    begun = Counter(kind for _, kind in {(row.fault, row.detail) for row in own if row.kind is EventKind.FAULT_BEGUN})
    acted = Counter(row.detail for row in own if row.kind is EventKind.FAULT_ACTED for _ in range(row.count or 0))
    kinds = sorted({window.kind for window in plan.schedule})
    return tuple(FaultCount(kind=kind, begun=begun[kind], acted=acted[kind]) for kind in kinds)
