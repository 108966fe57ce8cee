"""Plans that share a cluster at a time: faults one after the other, and a history for each."""

from msgspec.structs import replace

from highwater.backends.real.processes.together import Joint, fits, joint, parts
from highwater.campaigns.campaign import Request
from highwater.plans.plan import Plan, complaints
from history.event import ClusterEvent, EventKind
from history.history import History
from history.manifest import FaultCount
from history.op import Operation, OpType
from tests.strategies import MANIFEST

REQUEST = Request(system="kafka:4.1.0", backend="process", settings="alike", seconds=8, workload="produce-consume")
K = EventKind


def seed(number: int) -> Plan:
    return REQUEST.plan(number)


def of(*numbers: int) -> Joint:
    return joint([seed(number) for number in numbers])


def test_faults_of_plans_that_share_a_cluster_do_not_meet() -> None:
    plans = [seed(number) for number in range(1, 9)]
    together = joint(plans).plan

    for place, plan in enumerate(plans):
        windows = [window for window in together.schedule if window.id.startswith(f"{plan.name}:")]
        assert len(windows) == len(plan.schedule)
        assert all(place * 8000 <= window.at_ms < window.until_ms <= (place + 1) * 8000 for window in windows)
    assert (together.faults_ms, together.quiet_ms, complaints(together)) == (64_000, plans[0].quiet_ms, ())


def test_clients_of_plans_that_share_a_cluster_are_those_of_each() -> None:
    run = of(1, 3)

    assert len(run.scene.processes) == sum(len(scene.processes) for scene in run.scenes)
    assert {*run.scene.assignment} == {topic.name for number in (1, 3) for topic in seed(number).cluster.topics}


def test_plans_of_other_clients_do_not_share_a_cluster_at_a_time() -> None:
    other = seed(2)
    transactions = replace(other, workload=replace(other.workload, name="transactions"))

    assert (fits(seed(1), other), fits(seed(1), transactions), fits(seed(1), seed(1))) == (True, False, False)


def _operation(run: Joint, of_plan: int, client: int, index: int, *, life: int = 0) -> Operation:
    """A produce by a client of one of the plans; `life`: how many of its calls have had an unknown outcome."""
    count = len(run.scene.processes)
    number = client + sum(len(scene.processes) for scene in run.scenes[:of_plan]) + life * count
    topic = run.plans[of_plan].cluster.topics[0].name
    return Operation(index=index, process=number, type=OpType.INVOKE, f="produce", topic=topic, partition=0, time_ns=index)


def _event(kind: EventKind, index: int, **columns: object) -> ClusterEvent:
    return ClusterEvent(index=index, kind=kind, time_ns=index, **columns)  # type: ignore[arg-type]


def test_history_of_a_plan_has_its_clients_and_topics_alone() -> None:
    run = of(1, 3)
    topics = [plan.cluster.topics[0].name for plan in run.plans]
    operations = (_operation(run, 0, 1, 0), _operation(run, 1, 1, 2), _operation(run, 1, 1, 4, life=2))
    events = tuple(_event(K.STATE_WRITTEN, 2 * number + 1, topic=topic, partition=0) for number, topic in enumerate(topics))

    first, second = parts(History(MANIFEST, operations=operations, events=events), run)

    assert ([row.topic for row in first.operations], [row.topic for row in first.events]) == ([topics[0]], [topics[0]])
    clients = len(run.scenes[1].processes)
    assert [row.process for row in second.operations] == [1, 1 + 2 * clients]
    assert [row.index for row in second.operations] == [0, 2]
    assert [row.index for row in second.events] == [1]


def test_history_of_a_plan_tells_the_faults_of_others() -> None:
    """They struck its cluster, too. That they took effect does not make a run whose own faults did nothing show something."""
    run = of(1, 3)
    begun = tuple(_event(K.FAULT_BEGUN, 2 * number, fault=f"seed-{seed_}:f1", node="b1") for number, seed_ in enumerate((1, 3)))
    acted = tuple(
        _event(K.FAULT_ACTED, 2 * number + 1, fault=f"seed-{seed_}:f1", node="b1") for number, seed_ in enumerate((1, 3))
    )
    events = tuple(sorted((*begun, *acted), key=lambda row: row.index))

    first, second = parts(History(MANIFEST, events=events), run)

    assert [(row.kind, row.fault) for row in first.events] == [
        (K.FAULT_BEGUN, "seed-1:f1"),
        (K.FAULT_ACTED, "seed-1:f1"),
        (K.FAULT_BEGUN, "seed-3:f1"),
    ]
    assert [row.kind for row in second.events] == [K.FAULT_BEGUN, K.FAULT_BEGUN, K.FAULT_ACTED]


def test_manifest_of_a_plan_names_those_beside_it() -> None:
    run = of(1, 2, 3)

    told = [part.manifest for part in parts(History(MANIFEST), run)]
    assert [manifest.beside for manifest in told] == [("seed-2", "seed-3"), ("seed-1", "seed-3"), ("seed-1", "seed-2")]
    assert [len(manifest.client_places) for manifest in told] == [len(scene.processes) for scene in run.scenes]
    assert {topic.topic for topic in told[1].promise.topics} == {topic.name for topic in seed(2).cluster.topics}


def test_fault_of_another_plan_is_no_fault_that_this_one_shows() -> None:
    """Else a run whose own fault did nothing were VALID, and a campaign would count each fault once for every plan."""
    run = of(1, 3)
    first, second = run.plans
    kinds = [plan.schedule[0].kind for plan in run.plans]
    begun, acted = (
        [_event(kind, index, fault=f"{first.name}:{first.schedule[0].id}", node="b1", detail=kinds[0], count=4)]
        for index, kind in enumerate((K.FAULT_BEGUN, K.FAULT_ACTED))
    )
    counted = (FaultCount(kind=kinds[0], begun=1, acted=4), FaultCount(kind=kinds[1], begun=0, acted=0))

    parted = parts(History(replace(MANIFEST, faults=counted), events=(*begun, *acted)), run)

    told = [{count.kind: (count.begun, count.acted) for count in part.manifest.faults} for part in parted]
    assert told[0][kinds[0]] == (1, 4)
    assert told[1] == {window.kind: (0, 0) for window in second.schedule}
