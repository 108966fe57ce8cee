"""Moves of partitions while controllers die and answers of ZooKeeper are lost (V3 §D, §F, KIP-236)."""

from functools import partial

import pytest

from reference.config import VARIANTS
from reference.coordination import admin_paths, paths
from reference.coordination.api import Create, SetData
from reference.types import (
    TopicPartition,
)
from tests.reference.interrupted import Interrupted
from tests.reference.lab import T0
from tests.reference.moving import (
    OAR,
    RAR,
    assigned_replicas,
    broker_ids,
    cluster,
    is_moved_to,
    pending_moves,
    reassign,
    reassignment_of,
    request_extra_move,
    stuck_move,
    wait_until,
    write,
    znode_data,
)


def test_new_controller_starts_reassignments_requested_before() -> None:
    """R-043, V3 §D step 7: on_partitions_reassigned() comes after the leaders and before partitions are added or removed."""
    lab = cluster()
    lab.crash(1)
    reassign(lab, (2, 3, 4))
    assert assigned_replicas(lab) == OAR
    lab.expire(1)
    lab.settle()

    assert wait_until(lab, lambda: assigned_replicas(lab) == (2, 3, 4) and pending_moves(lab) is None)


def test_added_reassignment_overrides_the_main_one_at_failover() -> None:
    """R-243: no controller read the extra znode before the main one was filled; the main one's move is rolled back."""
    lab = cluster()
    lab.crash(1)
    request_extra_move(lab, (2, 3, 4))
    reassign(lab, (3, 4, 5))
    lab.expire(1)
    lab.settle()

    assert wait_until(lab, lambda: assigned_replicas(lab) == (2, 3, 4) and pending_moves(lab) is None)
    assert znode_data(lab, admin_paths.REASSIGN_EXTRA) is None


def test_new_controller_resumes_a_reassignment_from_zookeeper() -> None:
    """B-58, KAFKA-4214: also if a new replica is down together with the controller."""
    assert _after_a_failover("safe") == (RAR, None)


def test_aborted_reassignment_at_failover_keeps_all_replicas() -> None:
    """B-58, KAFKA-4214: controller and new replica restart together; AR stays OAR + RAR, and the request is lost."""
    assert _after_a_failover("reassign-failover-aborts") == ((*OAR, *RAR), None)


def _after_a_failover(protocol: str) -> tuple[tuple[int, ...], object]:
    lab = stuck_move(protocol)
    lab.crash(5)
    lab.expire(5)
    lab.remove_dead_broker(1)
    lab.is_held = lambda _: False
    lab.wait(3000)
    lab.start(5)
    lab.start(1)
    lab.settle()
    wait_until(lab, lambda: is_moved_to(lab, RAR), limit_ms=15_000)
    return assigned_replicas(lab), pending_moves(lab)


@pytest.mark.parametrize(("protocol", "both"), [("safe", True), ("reassign-failover-premature", False)])
def test_new_controller_keeps_all_reassignment_entries(protocol: str, both: bool) -> None:
    """B-58, KAFKA-6193: the mistake writes the map back with its first entry alone."""
    lab = cluster(VARIANTS[protocol])
    second_tp = TopicPartition("t-1")
    lab.crash(1)
    write(lab, SetData(paths.topic_path("t"), paths.partitions_payload({T0: broker_ids(*OAR), second_tp: broker_ids(2, 3)})))
    reassignments = reassignment_of((2, 3, 4)) | reassignment_of((4, 5), (), second_tp)
    write(lab, Create(admin_paths.REASSIGN, admin_paths.reassignments_payload(reassignments)))
    lab.expire(1)
    lab.settle()

    assert wait_until(lab, lambda: assigned_replicas(lab) == (2, 3, 4) and pending_moves(lab) is None)
    assert (assigned_replicas(lab, second_tp) == (4, 5)) == both


@pytest.mark.slow
def test_reassignment_survives_a_lost_zookeeper_answer() -> None:
    """B-62: whichever request lost its answer, the agent reads again and continues."""
    for lost in range(12):
        lab = Interrupted(6, replicas=OAR, min_isr=2)
        write(lab, Create("/admin", b""))
        lab.wait(1000)
        lab.produce(1, "m1")
        lab.settle()
        lab.unanswered_request = lost
        reassign(lab)

        assert lab.lost_answers == 1
        assert wait_until(lab, partial(is_moved_to, lab, RAR))


def test_controller_timer_runs_only_while_a_reassignment_pends() -> None:
    """V3 §F: "a certain amount of time has passed (e.g., 30 secs)"; without a move there is no timer."""
    lab = stuck_move()
    assert "reassign" in lab.timers[1]
    lab.is_held = lambda _: False
    assert wait_until(lab, lambda: is_moved_to(lab, RAR))
    lab.wait(2000)

    assert "reassign" not in lab.timers[1]
