"""create-delete: a topic is created and deleted under one name, and written only while it certainly exists (bugs B-61, B-62)."""

from itertools import groupby, pairwise

import pytest

from history.op import OpType
from tests.workloads.test_admin_storm import OK, run
from workloads.admin_storm import LOOK_BACKOFF_MS
from workloads.client import Completion, Done, Invocation, Sleep
from workloads.generate import generate
from workloads.parameters import Parameters, ParametersError, PartitionName, TopicShape

PARAMETERS = Parameters(
    partitions=(PartitionName("orders", 0),),
    producers=1,
    consumers=0,
    final_readers=1,
    scratch=TopicShape("scratch", 2, ((1, 2), (2, 3))),
)


def test_topic_is_created_and_deleted_in_turn() -> None:
    """B-61: under the same name, on the same brokers, sometimes within milliseconds."""
    *_, admin = generate("create-delete", 5, PARAMETERS)
    invocations = run(admin, "faults")
    turns = [command for command, _ in groupby(i.f for i in invocations)]

    assert {i.topic for i in invocations} == {"scratch"}
    assert turns == ["create-topic", "delete-topic"] * (len(turns) // 2) + ["create-topic"] * (len(turns) % 2)
    assert len(turns) > 10
    assert invocations[0].assignment == ((1, 2), (2, 3))


def test_existing_topic_is_sometimes_created_again() -> None:
    """R-151: creating an existing topic must be refused, whichever broker is the controller."""
    *_, admin = generate("create-delete", 5, PARAMETERS)
    requests_sent = [i.f for i in run(admin, "faults")]

    assert ("create-topic", "create-topic") in pairwise(requests_sent)


def test_topic_is_written_only_while_it_exists() -> None:
    """DUR-8: a record written during a deletion may belong to either topic of the name."""
    *_, producer, _, admin = generate("create-delete", 5, PARAMETERS)
    assert run(producer, "faults") == []
    run(admin, "faults", until_ms=1000)
    assert {(i.topic, i.partition) for i in run(producer, "faults")} == {("scratch", 0), ("scratch", 1)}

    run(admin, "faults", Completion(type=OpType.INFO, error="REQUEST_TIMED_OUT"))
    assert run(producer, "quiet") == []


def test_deletion_of_unknown_outcome_is_repeated() -> None:
    """B-62: a topic created before the old one is deleted would be deleted in its place."""
    *_, admin = generate("create-delete", 5, PARAMETERS)
    run(admin, "faults", until_ms=1000)
    requests_sent = [i.f for i in run(admin, "faults", Completion(type=OpType.INFO, error="REQUEST_TIMED_OUT"))]

    assert set(requests_sent[requests_sent.index("delete-topic") :]) == {"delete-topic"}
    assert run(admin, "faults", OK, until_ms=200_000)[1].f == "create-topic"


def test_deletion_of_unknown_outcome_ends_after_the_faults() -> None:
    """Else nobody reads the topic where no deletion was begun (seeds 140718 and 140877 of `--faults all`)."""
    *_, admin = generate("create-delete", 5, PARAMETERS)
    run(admin, "faults", until_ms=1000)
    assert run(admin, "quiet") == []
    unknown = Completion(type=OpType.INFO, error="NETWORK_EXCEPTION")
    assert run(admin, "faults", unknown, until_ms=20_000)[-1].f == "delete-topic"

    requests_sent = [i.f for i in run(admin, "quiet", unknown, until_ms=30_000)]
    assert set(requests_sent) == {"delete-topic"}
    assert 1 < len(requests_sent) <= 30_000 // LOOK_BACKOFF_MS
    assert [i.f for i in run(admin, "audit", until_ms=40_000)] == ["delete-topic"]
    assert run(admin, "audit", until_ms=50_000) == []


def test_topic_is_read_after_a_refused_deletion() -> None:
    """An operator's request stands in /admin/delete_topics, so the topic goes on to exist, and its records count."""
    *_, producer, _, admin = generate("create-delete", 5, PARAMETERS)
    run(admin, "faults", until_ms=1000)
    deletion = Invocation(f="delete-topic", topic="scratch")
    invocation: Invocation | Sleep | Done = Done()
    for now_ms in range(10_000, 200_000, 10_000):
        invocation = admin.next(now_ms=now_ms, phase="faults")
        if invocation == deletion:
            break
        assert isinstance(invocation, Invocation)
        admin.completed(invocation, OK)
    assert invocation == deletion
    assert run(producer, "faults") == []
    admin.completed(deletion, Completion(type=OpType.FAIL, error="REASSIGNMENT_IN_PROGRESS"))

    assert {(i.topic, i.partition) for i in run(producer, "faults")} == {("scratch", 0), ("scratch", 1)}


def test_create_delete_without_a_topic_is_refused() -> None:
    with pytest.raises(ParametersError, match="needs the parameter `scratch`"):
        generate("create-delete", 5, Parameters(partitions=PARAMETERS.partitions))
