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
from tests.reference.lab import T0
from tests.reference.moving import (
    GHOST,
    OAR,
    RAR,
    assigned,
    cancel,
    cluster,
    data,
    entries,
    extra,
    finish,
    holders,
    ids,
    in_order,
    is_at,
    pending,
    reassign,
    remove_cancel,
    silent,
    stuck,
    write,
)

# --- KIP-236: rolling back ----------------------------------------------------------------------------------------------------


def test_reassignment_stores_the_original_replicas_first() -> None:
    """R-230, R-232: the client submits only `replicas`; the controller reads the assignment and stores it."""
    assert pending(stuck()) == entries(RAR, OAR)


def test_cancellation_rolls_reassignments_back_at_once() -> None:
    """R-233: through a watch on /admin/reassign_cancel; no timer is involved."""
    lab = stuck()
    before = lab.now
    cancel(lab)

    assert is_at(lab, OAR)
    assert lab.now == before


def test_reassignment_rollback_performs_its_steps_in_order() -> None:
    """R-234 to R-238, KIP-236 steps 1 to 7: the leader in a new epoch with AR = OAR, the ISR, stop, delete, AR, entry, metadata.

    R-234 is in memory, R-235 the first command, R-236 the second and the stop, R-237 the deletion, R-238 the rest.
    """
    lab = stuck()
    lab.held = silent(5, 6)
    assert finish(lab, lambda: sorted(lab.isr()) == [1, 2, 3, 4])
    lab.look_from_here()
    cancel(lab)

    commands = [word for word in in_order(lab) if word.startswith("command")]
    assert commands == ["command: 1 leads 1,2,3,4 of 1,2,3", "command: 1 leads 1,2,3 of 1,2,3"]
    assert [word for word in in_order(lab) if word not in commands] == [
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
    lab.before["AR 4,5,6"] = lambda: setattr(lab, "dead", 1)
    reassign(lab)
    assert lab.state().leader == 4
    cancel(lab)
    lab.bury(1)
    lab.start(1)
    lab.settle()

    assert finish(lab, lambda: is_at(lab, OAR))


def test_leader_does_not_re_add_a_dropped_replica() -> None:
    """C-17: AR = OAR in the request keeps RAR - OAR out of the ISR; the text of KIP-236 says OAR - RAR."""
    lab = stuck()
    lab.held = lambda letter: isinstance(letter[2], StopReplica)
    lab.wait(1)
    cancel(lab)
    lab.wait(3000)

    assert (lab.isr(), lab.partition(1).replicas) == ([1, 2, 3], OAR)


@pytest.mark.parametrize(("protocol", "eligible"), [("safe", {4, 5}), ("cancel-without-isr", {2, 3})])
def test_rollback_elects_only_from_the_isr(protocol: str, eligible: set[int]) -> None:
    """B-60, U-21: 2 and 3 are out of sync, 4 and 5 are in, 1 dies; "elect a new leader from OAR" takes 2 or 3."""
    lab = cluster(VARIANTS[protocol], min_isr=1)
    lab.held = silent(2, 3, 6)
    lab.wait(9000)
    reassign(lab)
    assert finish(lab, lambda: lab.isr() == [1, 4, 5])
    lab.mortal = 6
    lab.bury(1)
    lab.wait(1000)
    cancel(lab)
    lab.wait(500)

    assert lab.leader() in eligible


def test_cancel_znode_blocks_reassignments_until_it_is_removed() -> None:
    """R-239: no move starts while the znode exists; the extra znode waits, and a pending entry is removed."""
    lab = stuck()
    cancel(lab)
    lab.held = lambda _: False
    extra(lab, (2, 3, 4))
    lab.wait(3000)
    assert (data(lab, admin_paths.REASSIGN_CANCEL), assigned(lab)) == (b"", OAR)
    reassign(lab)
    lab.wait(3000)
    assert (assigned(lab), pending(lab)) == (OAR, None)
    remove_cancel(lab)

    assert finish(lab, lambda: is_at(lab, (2, 3, 4)))


def test_reassignment_under_a_cancellation_widens_no_assignment() -> None:
    """R-239: onPartitionReassignment returns at once: no broker outside of AR is ever asked to start a replica."""
    lab = stuck()
    cancel(lab)
    assert finish(lab, lambda: is_at(lab, OAR))
    lab.look_from_here()
    reassign(lab)
    lab.wait(3000)

    assert pending(lab) is None
    assert [word for word in lab.steps if word.startswith("AR")] == []


def test_short_reassignment_is_refused_under_a_cancellation() -> None:
    """R-239, R-253: it is not rolled back either, or it would go forward once the cancellation is removed."""
    lab = cluster()
    lab.bury(2)
    lab.bury(3)
    lab.wait(20_000)
    cancel(lab)
    reassign(lab, (4,))
    remove_cancel(lab)
    lab.start(2)
    lab.start(3)
    lab.wait(20_000)

    assert (assigned(lab), pending(lab)) == (OAR, None)
    assert "reassignment-refused" in [note.kind for _, note in lab.notes]


def test_new_controller_rolls_back_to_the_original_replicas() -> None:
    """R-230, R-232, R-233: it has the original replicas from the entry alone, for AR is OAR + RAR by then."""
    lab = stuck()
    lab.bury(1)
    cancel(lab)
    lab.start(1)
    lab.settle()

    assert finish(lab, lambda: is_at(lab, OAR))


def test_cancellation_rolls_back_every_pending_reassignment() -> None:
    """R-233: also those that were added while others were in flight."""
    lab = cluster()
    other = TopicPartition("t-1")
    write(lab, SetData(paths.topic_path("t"), paths.partitions_payload({T0: ids(*OAR), other: ids(2, 3)})))
    lab.bury(1)
    lab.start(1)
    lab.wait(3000)
    lab.held = silent(4, 5, 6)
    reassignments = entries(RAR) | entries((4, 5), (), other)
    write(lab, Create(admin_paths.REASSIGN, admin_paths.reassignments_payload(reassignments)))
    assert (assigned(lab), assigned(lab, other)) == ((*OAR, *RAR), (2, 3, 4, 5))
    cancel(lab)

    assert finish(lab, lambda: pending(lab) is None)
    assert (assigned(lab), assigned(lab, other)) == (OAR, (2, 3))


def test_cancellation_without_a_reassignment_does_nothing() -> None:
    """R-233."""
    lab = cluster()
    cancel(lab)
    lab.wait(3000)

    assert is_at(lab, OAR)


def test_rewritten_entry_keeps_the_original_replicas() -> None:
    """C-20: the entry is overwritten without originals while AR is OAR + RAR; a rollback restores OAR, not the union."""
    lab = stuck()
    write(lab, SetData(admin_paths.REASSIGN, admin_paths.reassignments_payload(entries((4, 5)))))
    assert pending(lab) == entries((4, 5), OAR)
    cancel(lab)

    assert finish(lab, lambda: is_at(lab, OAR))


def test_reassignment_in_flight_accepts_another_target() -> None:
    """Replicas of the first target that the second lacks are dropped at the end with the old ones."""
    lab = stuck()
    lab.held = silent(6)
    write(lab, SetData(admin_paths.REASSIGN, admin_paths.reassignments_payload(entries((4, 5), OAR))))

    assert finish(lab, lambda: is_at(lab, (4, 5)))


# --- KIP-236: more while some are in flight -----------------------------------------------------------------------------------


def test_added_reassignment_does_not_wait_for_a_slow_one() -> None:
    """R-231, R-242, R-244: the slowest partition does not block another; the extra znode is deleted when it is empty."""
    lab = stuck()
    other = TopicPartition("t-1")
    assignment = {T0: ids(*assigned(lab)), other: ids(1, 2)}
    write(lab, SetData(paths.topic_path("t"), paths.partitions_payload(assignment)))
    for i in (1,):
        lab.bury(i)
        lab.start(i)
        lab.settle()
    lab.wait(3000)
    payload = admin_paths.reassignments_payload(entries((2, 3), (), other))
    write(lab, Create(admin_paths.REASSIGN_EXTRA, payload))

    assert finish(lab, lambda: assigned(lab, other) == (2, 3) and data(lab, admin_paths.REASSIGN_EXTRA) is None)
    assert (holders(lab, other), pending(lab)) == ([2, 3], entries(RAR, OAR))


def test_added_reassignments_do_not_wait_for_one_in_conflict() -> None:
    """R-231, R-244: t-0 is still being rolled back; t-1, which stands behind it in the extra znode, moves meanwhile."""
    lab = stuck()
    other = TopicPartition("t-1")
    assignment = {T0: ids(*assigned(lab)), other: ids(1, 2)}
    write(lab, SetData(paths.topic_path("t"), paths.partitions_payload(assignment)))
    lab.bury(1)
    lab.start(1)
    lab.settle()
    lab.wait(3000)
    lab.held = lambda letter: isinstance(letter[2], StopReplica)
    payload = admin_paths.reassignments_payload(entries((2, 3, 4)) | entries((2, 3), (), other))
    write(lab, Create(admin_paths.REASSIGN_EXTRA, payload))

    assert pending(lab) == entries(RAR, OAR) | entries((2, 3), (1, 2), other)


def test_added_reassignment_joins_the_pending_ones() -> None:
    """R-232, R-242: it is added to /admin/reassign_partitions with its original replicas, then started."""
    lab = cluster()
    lab.held = silent(4)
    extra(lab, (2, 3, 4))

    assert (pending(lab), data(lab, admin_paths.REASSIGN_EXTRA)) == (entries((2, 3, 4), OAR), None)


def test_conflicting_reassignment_is_rolled_back_first() -> None:
    """R-243: "first cancel / rollback, then submit new reassignments"."""
    lab = stuck()
    lab.held = silent(4)
    lab.look_from_here()
    extra(lab, (2, 3, 4))
    words = list(lab.steps)

    assert words.index("AR 1,2,3") < words.index(f"{admin_paths.REASSIGN}: 2,3,4 from 1,2,3") < len(words)
    assert finish(lab, lambda: pending(lab) == entries((2, 3, 4), OAR))
    lab.held = lambda _: False
    assert finish(lab, lambda: is_at(lab, (2, 3, 4)))


def test_added_reassignment_of_an_unknown_partition_is_dropped() -> None:
    """KAFKA-2234."""
    lab = cluster()
    payload = admin_paths.reassignments_payload(entries((4, 5), (), GHOST))
    write(lab, Create(admin_paths.REASSIGN_EXTRA, payload))

    assert is_at(lab, OAR)
