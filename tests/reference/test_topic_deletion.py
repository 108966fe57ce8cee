"""Topics are deleted through /admin/delete_topics (R-149)."""

from reference.coordination import paths
from reference.coordination.api import Create
from reference.messages import StopReplica
from tests.reference.admin import BROKERS, T1, add, back, bury, delete_topic, exists, full, holders, requests, write
from tests.reference.lab import T0


def test_topic_deletion_removes_logs_znodes_and_requests() -> None:
    """R-149, B-62: first the logs, then the znodes and with them the request."""
    lab = full()
    add(lab, 3, 2)
    delete_topic(lab)

    assert (holders(lab, T0), holders(lab, T1), requests(lab)) == ([], [], [])
    assert not exists(lab, paths.topic_path("t"))


def test_topic_znodes_stay_until_live_replicas_confirm_deletion() -> None:
    lab = full()
    lab.held = lambda letter: isinstance(letter[2], StopReplica) and letter[1] == "b3"
    delete_topic(lab)
    assert (holders(lab, T0), exists(lab, paths.state_path(T0)), requests(lab)) == ([3], True, [paths.DELETE_TOPICS])
    lab.held = lambda _: False
    lab.settle()

    assert (holders(lab, T0), exists(lab, paths.topic_path("t")), requests(lab)) == ([], False, [])


def test_topic_deletion_does_not_wait_for_a_dead_broker() -> None:
    lab = full()
    lab.held = lambda letter: isinstance(letter[2], StopReplica) and letter[1] == "b3"
    delete_topic(lab)
    bury(lab, 3)

    assert (holders(lab, T0), exists(lab, paths.topic_path("t")), requests(lab)) == ([3], False, [])


def test_restarted_broker_deletes_replicas_of_a_deleted_topic() -> None:
    """V3 §E step 4: the deletion does not wait for a broker that is down."""
    lab = full()
    bury(lab, 3)
    delete_topic(lab)
    assert (holders(lab, T0), requests(lab)) == ([3], [])
    back(lab, 3)

    assert holders(lab, T0) == []


def test_recreated_topic_starts_empty_at_epoch_0() -> None:
    lab = full()
    lab.produce(1, "old")
    lab.settle()
    delete_topic(lab)
    write(lab, Create(paths.topic_path("t"), paths.topic_payload((BROKERS,))))

    assert (len(lab.leaders()), lab.values(1), lab.state().leader_epoch) == (1, [], 0)
