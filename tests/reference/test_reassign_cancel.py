"""KIP-236 proposal A: moves are rolled back, and more moves are requested while some are in flight."""

import pytest

from reference.config import VARIANTS
from reference.coordination import admin_paths, paths
from reference.coordination.api import Create, SetData
from reference.messages import (
    StopReplica,
)
from reference.types import (
    TopicPartition,
)
from tests.reference.lab import T0, carries
from tests.reference.moving import (
    GHOST,
    OAR,
    RAR,
    assigned_replicas,
    broker_ids,
    brokers_with_log,
    cluster,
    controller_steps,
    fetches_from,
    is_moved_to,
    pending_moves,
    reassign,
    reassignment_of,
    request_extra_move,
    request_rollback,
    stuck_move,
    wait_until,
    withdraw_rollback,
    write,
    znode_data,
)

# --- KIP-236: rolling back ----------------------------------------------------------------------------------------------------


def test_reassignment_stores_the_original_replicas_first() -> None:
    """R-230, R-232: the client submits only `replicas`; the controller reads the assignment and stores it."""
    lab = stuck_move()

    assert pending_moves(lab) == reassignment_of(RAR, OAR)
    assert b'"original_replicas":[1,2,3]' in (znode_data(lab, admin_paths.REASSIGN) or b"")


def test_cancellation_rolls_reassignments_back_at_once() -> None:
    """R-233: through a watch on /admin/reassign_cancel; no timer is involved."""
    lab = stuck_move()
    for _ in range(2):  # the watch is set again
        before = lab.now
        request_rollback(lab)
        assert is_moved_to(lab, OAR)
        assert lab.now == before
        withdraw_rollback(lab)
        reassign(lab)
    lab = cluster()
    lab.is_held = carries(StopReplica, receiver="b3")  # the new replicas lead already
    reassign(lab)
    request_rollback(lab)
    lab.is_held = lambda _: False
    lab.settle()

    assert wait_until(lab, lambda: is_moved_to(lab, OAR))


def test_reassignment_rollback_performs_its_steps_in_order() -> None:
    """R-234 to R-238, KIP-236 steps 1 to 7: the leader in a new epoch with AR = OAR, the ISR, stop, delete, AR, entry, metadata.

    R-234 is in memory, R-235 the first command, R-236 the second and the stop, R-237 the deletion, R-238 the rest.
    """
    lab = stuck_move()
    lab.is_held = fetches_from(5, 6)
    assert wait_until(lab, lambda: sorted(lab.isr()) == [1, 2, 3, 4])
    lab.clear_record()
    request_rollback(lab)

    commands = [word for word in controller_steps(lab) if word.startswith("command")]
    assert commands == ["command: 1 leads 1,2,3,4 of 1,2,3", "command: 1 leads 1,2,3 of 1,2,3"]
    assert [word for word in controller_steps(lab) if word not in commands] == [
        "state: 1 leads 1,2,3,4",
        "state: 1 leads 1,2,3",
        "stop",
        "delete",
        "AR 1,2,3",
        f"gone: {admin_paths.REASSIGN}",
    ]
    assert {word for word in lab.steps if word.startswith("metadata")} == {f"metadata to b{i}: 1 of 1,2,3" for i in lab.ids}


def test_rollback_elects_from_the_original_replicas() -> None:
    """R-235: the leader is in RAR - OAR, and its replica is about to be deleted."""
    lab = cluster()
    lab.before["AR 4,5,6"] = lambda: setattr(lab, "dead_broker", 1)
    reassign(lab)
    assert lab.state().leader == 4
    request_rollback(lab)
    lab.remove_dead_broker(1)
    lab.start(1)
    lab.settle()

    assert wait_until(lab, lambda: is_moved_to(lab, OAR))


def test_leader_does_not_re_add_a_dropped_replica() -> None:
    """C-17: AR = OAR in the request keeps RAR - OAR out of the ISR; the text of KIP-236 says OAR - RAR."""
    lab = stuck_move()
    lab.is_held = carries(StopReplica)
    lab.wait(1)
    request_rollback(lab)
    lab.wait(3000)

    assert (lab.isr(), lab.partition(1).replicas) == ([1, 2, 3], OAR)


@pytest.mark.parametrize(("protocol", "eligible"), [("safe", {4, 5}), ("cancel-without-isr", {2, 3})])
def test_rollback_elects_only_from_the_isr(protocol: str, eligible: set[int]) -> None:
    """B-60, U-21: 2 and 3 are out of sync, 4 and 5 are in, 1 dies; "elect a new leader from OAR" takes 2 or 3."""
    lab = cluster(VARIANTS[protocol], min_isr=1)
    lab.is_held = fetches_from(2, 3, 6)
    lab.wait(9000)
    reassign(lab)
    assert wait_until(lab, lambda: lab.isr() == [1, 4, 5])
    lab.mortal = 6
    lab.remove_dead_broker(1)
    lab.wait(1000)
    request_rollback(lab)
    lab.wait(500)

    assert lab.leader() in eligible


def test_cancel_znode_blocks_reassignments_until_it_is_removed() -> None:
    """R-239: no move starts while the znode exists; the extra znode waits, and a pending entry is removed."""
    lab = stuck_move()
    request_rollback(lab)
    lab.is_held = lambda _: False
    request_extra_move(lab, (2, 3, 4))
    lab.wait(3000)
    assert (znode_data(lab, admin_paths.REASSIGN_CANCEL), assigned_replicas(lab)) == (b"", OAR)
    reassign(lab)
    lab.wait(3000)
    assert (assigned_replicas(lab), pending_moves(lab)) == (OAR, None)
    withdraw_rollback(lab)

    assert wait_until(lab, lambda: is_moved_to(lab, (2, 3, 4)))


def test_reassignment_under_a_cancellation_widens_no_assignment() -> None:
    """R-239: onPartitionReassignment returns at once: no broker outside of AR is ever asked to start a replica."""
    lab = stuck_move()
    request_rollback(lab)
    assert wait_until(lab, lambda: is_moved_to(lab, OAR))
    lab.clear_record()
    reassign(lab)
    lab.wait(3000)

    assert pending_moves(lab) is None
    assert [word for word in lab.steps if word.startswith("AR")] == []


def test_short_reassignment_is_refused_under_a_cancellation() -> None:
    """R-239, R-253: it is not rolled back either, or it would go forward once the cancellation is removed."""
    lab = cluster()
    lab.remove_dead_broker(2)
    lab.remove_dead_broker(3)
    lab.wait(20_000)
    request_rollback(lab)
    reassign(lab, (4,))
    withdraw_rollback(lab)
    lab.start(2)
    lab.start(3)
    lab.wait(20_000)

    assert (assigned_replicas(lab), pending_moves(lab)) == (OAR, None)
    assert "reassignment-refused" in [note.kind for _, note in lab.notes]


def test_new_controller_rolls_back_to_the_original_replicas() -> None:
    """R-230, R-232, R-233: it has the original replicas from the entry alone, for AR is OAR + RAR by then."""
    lab = stuck_move()
    lab.remove_dead_broker(1)
    request_rollback(lab)
    lab.start(1)
    lab.settle()
    assert wait_until(lab, lambda: is_moved_to(lab, OAR))
    lab = cluster(replicas=(3, 1, 2))
    lab.is_held = fetches_from(4, 5, 6)
    reassign(lab)
    request_rollback(lab)

    assert wait_until(lab, lambda: is_moved_to(lab, (3, 1, 2)))  # in their order


def test_cancellation_rolls_back_every_pending_reassignment() -> None:
    """R-233: also those that were added while others were in flight."""
    lab = cluster()
    second_tp = TopicPartition("t-1")
    write(lab, SetData(paths.topic_path("t"), paths.partitions_payload({T0: broker_ids(*OAR), second_tp: broker_ids(2, 3)})))
    lab.remove_dead_broker(1)
    lab.start(1)
    lab.wait(3000)
    lab.is_held = fetches_from(4, 5, 6)
    reassignments = reassignment_of(RAR) | reassignment_of((4, 5), (), second_tp)
    write(lab, Create(admin_paths.REASSIGN, admin_paths.reassignments_payload(reassignments)))
    assert (assigned_replicas(lab), assigned_replicas(lab, second_tp)) == ((*OAR, *RAR), (2, 3, 4, 5))
    lab.is_held = lambda envelope: fetches_from(4, 5, 6)(envelope) or carries(StopReplica, receiver="b6")(envelope)
    request_rollback(lab)
    assert assigned_replicas(lab, second_tp) == (2, 3)  # it does not wait for the other one
    lab.is_held = lambda _: False

    assert wait_until(lab, lambda: pending_moves(lab) is None)
    assert (assigned_replicas(lab), assigned_replicas(lab, second_tp)) == (OAR, (2, 3))
    lab = cluster()
    payload = admin_paths.reassignments_payload(reassignment_of(RAR))
    write(lab, Create(admin_paths.REASSIGN, payload), Create(admin_paths.REASSIGN_CANCEL, b""))

    assert wait_until(lab, lambda: pending_moves(lab) is None)
    assert [step for step in lab.steps if step.startswith("AR")] == []  # it was pending, and never began


def test_cancellation_without_a_reassignment_does_nothing() -> None:
    """R-233."""
    lab = cluster()
    request_rollback(lab)
    lab.wait(3000)

    assert is_moved_to(lab, OAR)


def test_rewritten_entry_keeps_the_original_replicas() -> None:
    """C-20: the entry is overwritten without originals while AR is OAR + RAR; a rollback restores OAR, not the union."""
    lab = stuck_move()
    write(lab, SetData(admin_paths.REASSIGN, admin_paths.reassignments_payload(reassignment_of((4, 5)))))
    assert pending_moves(lab) == reassignment_of((4, 5), OAR)
    request_rollback(lab)

    assert wait_until(lab, lambda: is_moved_to(lab, OAR))


def test_reassignment_in_flight_accepts_another_target() -> None:
    """Replicas of the first target that the second lacks are dropped at the end with the old ones."""
    lab = stuck_move()
    lab.is_held = fetches_from(6)
    write(lab, SetData(admin_paths.REASSIGN, admin_paths.reassignments_payload(reassignment_of((4, 5), OAR))))

    assert wait_until(lab, lambda: is_moved_to(lab, (4, 5)))


# --- KIP-236: more while some are in flight -----------------------------------------------------------------------------------


def test_added_reassignment_does_not_wait_for_a_slow_one() -> None:
    """R-231, R-242, R-244: the slowest partition does not block another; the extra znode is deleted when it is empty."""
    lab = stuck_move()
    second_tp = TopicPartition("t-1")
    assignment = {T0: broker_ids(*assigned_replicas(lab)), second_tp: broker_ids(1, 2)}
    write(lab, SetData(paths.topic_path("t"), paths.partitions_payload(assignment)))
    for i in (1,):
        lab.remove_dead_broker(i)
        lab.start(i)
        lab.settle()
    lab.wait(3000)
    payload = admin_paths.reassignments_payload(reassignment_of((2, 3), (), second_tp))
    write(lab, Create(admin_paths.REASSIGN_EXTRA, payload))

    assert wait_until(
        lab, lambda: assigned_replicas(lab, second_tp) == (2, 3) and znode_data(lab, admin_paths.REASSIGN_EXTRA) is None
    )
    assert (brokers_with_log(lab, second_tp), pending_moves(lab)) == ([2, 3], reassignment_of(RAR, OAR))


def test_added_reassignments_do_not_wait_for_one_in_conflict() -> None:
    """R-231, R-242, R-244: t-0 is still being rolled back; t-1, which stands behind it in the extra znode, moves meanwhile."""
    lab = stuck_move()
    second_tp = TopicPartition("t-1")
    assignment = {T0: broker_ids(*assigned_replicas(lab)), second_tp: broker_ids(1, 2)}
    write(lab, SetData(paths.topic_path("t"), paths.partitions_payload(assignment)))
    lab.remove_dead_broker(1)
    lab.start(1)
    lab.settle()
    lab.wait(3000)
    lab.is_held = carries(StopReplica)
    payload = admin_paths.reassignments_payload(reassignment_of((2, 3, 4)) | reassignment_of((2, 3), (), second_tp))
    write(lab, Create(admin_paths.REASSIGN_EXTRA, payload))

    assert pending_moves(lab) == reassignment_of(RAR, OAR) | reassignment_of((2, 3), (1, 2), second_tp)
    waiting = znode_data(lab, admin_paths.REASSIGN_EXTRA)
    assert waiting is not None
    assert admin_paths.decode_reassignments(waiting)[0] == reassignment_of((2, 3, 4))
    lab.is_held = lambda _: False
    assert wait_until(lab, lambda: znode_data(lab, admin_paths.REASSIGN_EXTRA) is None)


def test_added_reassignment_joins_the_pending_ones() -> None:
    """R-232, R-242: it is added to /admin/reassign_partitions with its original replicas, then started."""
    lab = cluster()
    lab.is_held = fetches_from(4)
    request_extra_move(lab, (2, 3, 4))

    assert (pending_moves(lab), znode_data(lab, admin_paths.REASSIGN_EXTRA)) == (reassignment_of((2, 3, 4), OAR), None)
    assert f"{admin_paths.REASSIGN}: 2,3,4 from " not in lab.steps
    before = lab.now
    request_extra_move(lab, (2, 3))  # the watch is set again

    assert is_moved_to(lab, (2, 3))
    assert lab.now == before
    payload = admin_paths.reassignments_payload(reassignment_of((1, 2), (), GHOST))
    write(lab, Create(admin_paths.REASSIGN_EXTRA, payload))  # it is refused, and nothing moves
    request_extra_move(lab, (3, 2))
    assert (is_moved_to(lab, (3, 2)), lab.now) == (True, before)


def test_conflicting_reassignment_is_rolled_back_first() -> None:
    """R-243: "first cancel / rollback, then submit new reassignments"."""
    lab = stuck_move()
    lab.is_held = fetches_from(4)
    lab.clear_record()
    request_extra_move(lab, (2, 3, 4))
    words = list(lab.steps)

    assert words.index("AR 1,2,3") < words.index(f"{admin_paths.REASSIGN}: 2,3,4 from 1,2,3") < len(words)
    assert wait_until(lab, lambda: pending_moves(lab) == reassignment_of((2, 3, 4), OAR))
    lab.is_held = lambda _: False
    assert wait_until(lab, lambda: is_moved_to(lab, (2, 3, 4)))


def test_added_reassignment_of_an_unknown_partition_is_dropped() -> None:
    """KAFKA-2234."""
    lab = cluster()
    payload = admin_paths.reassignments_payload(reassignment_of((4, 5), (), GHOST))
    write(lab, Create(admin_paths.REASSIGN_EXTRA, payload))

    assert is_moved_to(lab, OAR)
