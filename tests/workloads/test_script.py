"""Scripted administration: each step once at its time; created topics are written and read (workloads.script)."""

from itertools import count

from history.op import OpType
from tests.workloads.test_admin_storm import OK, run
from workloads.client import Completion, Invocation, Sleep
from workloads.generate import generate
from workloads.parameters import Parameters, PartitionName, Step

SCRIPT = (
    Step(at_ms=100, do="create-topic", topic="late", replicas=((2, 3), (3, 1))),
    Step(at_ms=100, do="add-partition", topic="orders", partition=1, replicas=((1, 2),)),
    Step(at_ms=9000, do="remove-partition", topic="orders", partition=1),
    Step(at_ms=9500, do="delete-topic", topic="late"),
)
PARAMETERS = Parameters(
    partitions=(PartitionName("orders", 0),), producers=1, consumers=0, final_readers=1, produce_per_s=10, script=SCRIPT
)


def test_workload_without_a_script_adds_no_processes() -> None:
    assert len(generate("produce-consume", 3, Parameters(partitions=PARAMETERS.partitions))) == 5 + 3 + 2
    assert len(generate("produce-consume", 3, PARAMETERS)) == 2 + 3


def test_script_admin_request_is_sent_once_at_its_due_time() -> None:
    """A failed step is not repeated, since the plan decides what happens when."""
    *_, admin = generate("produce-consume", 3, PARAMETERS)
    assert admin.next(now_ms=0, phase="faults") == Sleep(100)

    invocations = run(admin, "faults", Completion(type=OpType.INFO, error="REQUEST_TIMED_OUT"))

    assert [(i.f, i.topic, i.partition, i.assignment) for i in invocations] == [
        (step.do, step.topic, step.partition, step.replicas) for step in SCRIPT
    ]
    assert run(admin, "quiet") == []
    assert [i.f for i in run(admin, "final")] == ["admin-pending"]


def test_late_script_requests_are_sent_in_the_final_phase() -> None:
    """A command may last until after the faults."""
    *_, admin = generate("produce-consume", 3, PARAMETERS)
    assert run(admin, "faults", until_ms=50) == []

    assert [i.f for i in run(admin, "quiet")] == [step.do for step in SCRIPT]


def test_created_topic_is_written_until_its_deletion_request() -> None:
    """docs/promise.md LIVE-3: by a producer with values of its own."""
    *_, producer, reader, admin = generate("produce-consume", 3, PARAMETERS)
    names = (("late", 0), ("late", 1), ("orders", 1))
    written: list[set[tuple[str, int]]] = []
    values: list[str] = []
    for number, until_ms in enumerate((50, 1000, 9100, 9600), 1):
        run(admin, "faults", until_ms=until_ms)
        invocations = run(producer, "faults", until_ms=60_000 * number)
        written.append({(i.topic, i.partition) for i in invocations})
        values += [value for i in invocations for value in i.values]

    assert written == [set(), set(names), set(names[:2]), set()]
    assert {value.partition("-")[0] for value in values} == {"p2"}
    assert run(reader, "final", Completion(type=OpType.OK, offset=0)) == []


def test_partition_of_failed_deletion_is_read() -> None:
    """docs/promise.md LIVE-3: a removal request that did not arrive ends no promise."""
    *_, reader, admin = generate("produce-consume", 3, PARAMETERS)
    run(admin, "faults", until_ms=1000)
    run(admin, "faults", Completion(type=OpType.INFO))

    invocations = run(reader, "final", Completion(type=OpType.OK, offset=0))

    assert {(i.topic, i.partition) for i in invocations} == {("late", 0), ("late", 1), ("orders", 1)}


def test_topic_of_unknown_creation_is_not_written() -> None:
    """After an unknown outcome the topic may not exist."""
    *_, producer, _, admin = generate("produce-consume", 3, PARAMETERS)
    answers = count()
    for _ in range(2):
        invocation = admin.next(now_ms=100 + next(answers), phase="faults")
        assert isinstance(invocation, Invocation)
        admin.completed(invocation, OK if invocation.f == "add-partition" else Completion(type=OpType.INFO))

    assert {(i.topic, i.partition) for i in run(producer, "faults")} == {("orders", 1)}
