"""Topics are deleted through /admin/delete_topics (R-149)."""

from reference.coordination import paths
from reference.coordination.api import Create
from reference.messages import StopReplica
from tests.reference.admin import (
    BROKERS,
    T1,
    brokers_with_log,
    cluster_in_sync,
    exists,
    pending_requests,
    remove_broker,
    request_partition,
    request_topic_deletion,
    restart_broker,
    write,
)
from tests.reference.lab import T0, carries
from tests.reference.moving import cluster


def test_topic_deletion_removes_logs_znodes_and_requests() -> None:
    """R-149, B-62: first the logs, then the znodes and with them the request."""
    lab = cluster_in_sync()
    request_partition(lab, 3, 2)
    request_topic_deletion(lab)

    assert (brokers_with_log(lab, T0), brokers_with_log(lab, T1), pending_requests(lab)) == ([], [], [])
    assert not exists(lab, paths.topic_path("t"))


def test_topic_znodes_stay_until_live_replicas_confirm_deletion() -> None:
    lab = cluster_in_sync()
    lab.is_held = carries(StopReplica, receiver="b3")
    request_topic_deletion(lab)
    assert (brokers_with_log(lab, T0), exists(lab, paths.state_path(T0)), pending_requests(lab)) == (
        [3],
        True,
        [paths.DELETE_TOPICS],
    )
    lab.is_held = lambda _: False
    lab.settle()

    assert (brokers_with_log(lab, T0), exists(lab, paths.topic_path("t")), pending_requests(lab)) == ([], False, [])


def test_topic_deletion_does_not_wait_for_a_dead_broker() -> None:
    lab = cluster_in_sync()
    lab.is_held = carries(StopReplica, receiver="b3")
    request_topic_deletion(lab)
    remove_broker(lab, 3)

    assert (brokers_with_log(lab, T0), exists(lab, paths.topic_path("t")), pending_requests(lab)) == ([3], False, [])


def test_restarted_broker_deletes_replicas_of_a_deleted_topic() -> None:
    """V3 §E step 4: the deletion does not wait for a broker that is down."""
    lab = cluster_in_sync()
    remove_broker(lab, 3)
    request_topic_deletion(lab)
    assert (brokers_with_log(lab, T0), pending_requests(lab)) == ([3], [])
    restart_broker(lab, 3)

    assert brokers_with_log(lab, T0) == []


def test_recreated_topic_starts_empty_at_epoch_0() -> None:
    lab = cluster_in_sync()
    lab.produce(1, "old")
    lab.settle()
    request_topic_deletion(lab)
    write(lab, Create(paths.topic_path("t"), paths.topic_payload((BROKERS,))))

    assert (len(lab.leaders()), lab.values(1), lab.state().leader_epoch) == (1, [], 0)


def test_topic_and_request_to_delete_it_vanish_in_one_write() -> None:
    """R-149: right before the write that deletes the topic and the request, both are there."""
    lab = cluster()
    seen: list[bool] = []
    lab.before = {  # called right before the multi that deletes this znode
        f"gone: {paths.topic_path('t')}": lambda: seen.append(exists(lab, paths.DELETE_TOPICS)),
        f"gone: {paths.DELETE_TOPICS}": lambda: seen.append(exists(lab, paths.topic_path("t"))),
    }
    request_topic_deletion(lab)

    assert seen == [True, True]
