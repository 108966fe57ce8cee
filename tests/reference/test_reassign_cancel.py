"""KIP-236 proposal A: moves are rolled back, and more are asked for while some are in flight."""

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


def test_the_original_replicas_are_written_down_before_anything_is_done() -> None:
    """R-230, R-232: the client submits `replicas` alone; what is assigned is read and stored."""
    assert pending(stuck()) == entries(RAR, OAR)


def test_a_cancellation_rolls_everything_back() -> None:
    """R-233: through a watch on /admin/reassign_cancel, without waiting for anything."""
    lab = stuck()
    before = lab.now
    cancel(lab)

    assert is_at(lab, OAR)
    assert lab.now == before


def test_the_steps_of_a_rollback_come_in_their_order() -> None:
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


def test_a_rollback_elects_from_the_original_replicas() -> None:
    """R-235: the leader is one of RAR - OAR, whose replica goes."""
    lab = cluster()
    lab.before["AR 4,5,6"] = lambda: setattr(lab, "dead", 1)
    reassign(lab)
    assert lab.state().leader == 4
    cancel(lab)
    lab.bury(1)
    lab.start(1)
    lab.settle()

    assert finish(lab, lambda: is_at(lab, OAR))


def test_the_leader_takes_no_replica_back_that_is_dropped() -> None:
    """C-17: AR = OAR in the request keeps RAR - OAR out of the ISR; the text of KIP-236 says OAR - RAR."""
    lab = stuck()
    lab.held = lambda letter: isinstance(letter[2], StopReplica)
    lab.wait(1)
    cancel(lab)
    lab.wait(3000)

    assert (lab.isr(), lab.partition(1).replicas) == ([1, 2, 3], OAR)


@pytest.mark.parametrize(("protocol", "elected"), [("safe", [4]), ("cancel-without-isr", [2])])
def test_a_rollback_elects_nobody_who_is_not_in_the_isr(protocol: str, elected: list[int]) -> None:
    """B-60, U-21: 2 and 3 are out of sync, 4 and 5 are in, 1 dies; "elect a new leader from OAR" would take 2."""
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

    assert lab.leaders() == elected


def test_a_cancellation_stays_until_it_is_removed() -> None:
    """R-239: while it is there nothing new is begun; the extra znode waits, a pending entry is taken out."""
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


def test_a_cancellation_of_nothing_does_nothing() -> None:
    """R-233."""
    lab = cluster()
    cancel(lab)
    lab.wait(3000)

    assert is_at(lab, OAR)


def test_what_was_there_before_a_move_in_flight_is_not_forgotten() -> None:
    """C-20: the request is overwritten without originals while AR is OAR + RAR; a rollback restores OAR, not the union."""
    lab = stuck()
    write(lab, SetData(admin_paths.REASSIGN, admin_paths.reassignments_payload(entries((4, 5)))))
    assert pending(lab) == entries((4, 5), OAR)
    cancel(lab)

    assert finish(lab, lambda: is_at(lab, OAR))


def test_a_move_in_flight_is_given_another_target() -> None:
    """Who was to be new and is not any more is dropped at the end with the others."""
    lab = stuck()
    lab.held = silent(6)
    write(lab, SetData(admin_paths.REASSIGN, admin_paths.reassignments_payload(entries((4, 5), OAR))))

    assert finish(lab, lambda: is_at(lab, (4, 5)))


# --- KIP-236: more while some are in flight -----------------------------------------------------------------------------------


def test_more_is_asked_for_while_some_are_in_flight() -> None:
    """R-231, R-242, R-244: the slowest partition does not block another; the extra znode goes when it is empty."""
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


def test_an_extra_request_is_begun_as_any_other() -> None:
    """R-242: added to /admin/reassign_partitions with its originals, then triggered."""
    lab = cluster()
    lab.held = silent(4)
    extra(lab, (2, 3, 4))

    assert (pending(lab), data(lab, admin_paths.REASSIGN_EXTRA)) == (entries((2, 3, 4), OAR), None)


def test_a_conflict_is_rolled_back_before_the_new_request_is_begun() -> None:
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


def test_an_unknown_partition_among_the_extra_ones_is_dropped() -> None:
    """KAFKA-2234."""
    lab = cluster()
    payload = admin_paths.reassignments_payload(entries((4, 5), (), GHOST))
    write(lab, Create(admin_paths.REASSIGN_EXTRA, payload))

    assert is_at(lab, OAR)
