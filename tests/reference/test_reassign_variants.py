"""Two other ways to move a partition: KIP-455's order of the assignment, and Kafka before KIP-236, which has no way back."""

import pytest

from reference.config import VARIANTS
from reference.coordination import paths
from reference.coordination.api import Create
from tests.reference.lab import T0
from tests.reference.moving import (
    OAR,
    RAR,
    Mortal,
    assigned_replicas,
    brokers_with_log,
    cluster,
    fetches_from,
    is_moved_to,
    pending_moves,
    reassign,
    reassignment_of,
    request_extra_move,
    request_rollback,
    stuck_move,
    wait_until,
    write,
)

SLOW = 6


def target_that_leads(variant: str) -> Mortal:
    """A move that waits for broker 6, and broker 4, the first of the target, leads before it is done."""
    lab = cluster(VARIANTS[variant])
    lab.is_held = fetches_from(SLOW)
    reassign(lab)
    assert wait_until(lab, lambda: lab.isr() == [1, 2, 3, 4, 5])
    write(lab, Create(paths.PREFERRED_ELECTION, paths.preferred_payload((T0,))))
    assert wait_until(lab, lambda: lab.state().leader == 4)
    return lab


@pytest.mark.parametrize(("variant", "widened"), [("safe", (*OAR, *RAR)), ("reassign-target-first", (*RAR, *OAR))])
def test_order_of_a_moving_assignment_is_the_variants(variant: str, widened: tuple[int, ...]) -> None:
    """KIP-455 lists the target first."""
    assert assigned_replicas(stuck_move(variant)) == widened


@pytest.mark.parametrize(("variant", "elected"), [("safe", 2), ("reassign-target-first", 4)])
def test_leader_that_dies_in_a_move_is_replaced_in_its_order(variant: str, elected: int) -> None:
    """Of ISR 1 to 5: the first target replica leads before the move is done, which KAFKA-14808 begins with."""
    lab = cluster(VARIANTS[variant])
    lab.is_held = fetches_from(SLOW)
    reassign(lab)
    assert wait_until(lab, lambda: lab.isr() == [1, 2, 3, 4, 5])
    lab.remove_dead_broker(1)

    assert lab.state().leader == elected


@pytest.mark.parametrize("target_next", [OAR, (2, 3, 5)])
def test_target_that_leads_and_is_given_up_hands_over(target_next: tuple[int, ...]) -> None:
    """KAFKA-14808: Kafka removed the adding replica that led, and elected nobody. Here another leader comes first."""
    lab = target_that_leads("reassign-target-first")
    leaders: set[int | None] = set()
    request_extra_move(lab, target_next)
    for _ in range(1000):
        leaders.add(lab.state().leader)
        lab.wait(20)
        if is_moved_to(lab, target_next):
            break

    assert is_moved_to(lab, target_next)
    assert None not in leaders
    assert lab.state().leader in target_next


@pytest.mark.parametrize("target_next", [OAR, (2, 3, 5)])
def test_target_that_leads_and_is_removed_leaves_nobody(target_next: tuple[int, ...]) -> None:
    """B-70, KAFKA-14808: three replicas are in sync and none leads; the next move does not elect, and cannot end without it."""
    lab = target_that_leads("reassign-removes-its-leader")
    request_extra_move(lab, target_next)
    lab.wait(20_000)

    assert (lab.state().leader, lab.isr(), brokers_with_log(lab)) == (None, [1, 2, 3], [1, 2, 3])
    assert set(assigned_replicas(lab)) == {*OAR, *target_next}
    assert pending_moves(lab) == reassignment_of(target_next, OAR)


def test_target_that_leads_and_is_removed_by_a_cancellation() -> None:
    """B-70: the move ends, and the partition has no leader until a broker of its own comes or goes."""
    lab = target_that_leads("reassign-removes-its-leader")
    request_rollback(lab)
    lab.wait(5000)
    assert (pending_moves(lab), lab.state().leader, assigned_replicas(lab)) == (None, None, OAR)
    lab.remove_dead_broker(3)

    assert lab.state().leader == 1


def test_move_that_nobody_leads_keeps_other_repairs() -> None:
    """B-70 is about the leader that is given up: one that dies in such a move is replaced."""
    lab = target_that_leads("reassign-removes-its-leader")
    lab.remove_dead_broker(4)

    assert lab.state().leader == 5


def test_move_without_a_way_back_is_not_cancelled() -> None:
    """KAFKA-6304: "it is not possible to cancel a reassignment that is in-flight"."""
    lab = stuck_move("reassign-without-rollback")
    request_rollback(lab)
    lab.wait(3000)
    assert pending_moves(lab) == reassignment_of(RAR, OAR)
    lab.is_held = lambda _: False

    assert wait_until(lab, lambda: is_moved_to(lab, RAR))


def test_another_target_waits_until_the_first_is_reached() -> None:
    """KIP-236: "only a single batch of partition reassignments can be in-flight"."""
    lab = stuck_move("reassign-without-rollback")
    request_extra_move(lab, (2, 3, 4))
    lab.wait(3000)
    assert pending_moves(lab) == reassignment_of(RAR, OAR)
    lab.is_held = lambda _: False
    from_the_first = (*RAR, 2, 3)  # the second move begins where the first has ended

    assert wait_until(lab, lambda: assigned_replicas(lab) == from_the_first)
    assert wait_until(lab, lambda: is_moved_to(lab, (2, 3, 4)))
