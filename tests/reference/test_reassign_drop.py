"""Proposal B of KIP-236: the drop set."""

import pytest

from reference.controller import reassign_drop
from reference.types import BrokerId
from tests.reference.moving import ids


def dropped(assigned: tuple[int, ...], leader: int | None, isr: tuple[int, ...], top: int) -> tuple[int, ...]:
    chosen = None if leader is None else BrokerId(leader)
    return reassign_drop.droppable(ids(*assigned), leader=chosen, isr=ids(*isr), top=top)


def test_an_intermediate_replica_is_dropped_at_once() -> None:
    """R-256, C-18: [1,2] to [2,3], changed to [2,4] while 3 is not in sync: 3 goes, 2 is not touched."""
    assert dropped((1, 2, 3), 1, (1, 2), 2) == (3,)


@pytest.mark.parametrize(
    ("assigned", "leader", "isr", "top", "drop"),
    [
        ((1, 2), 1, (1, 2), 2, ()),
        ((1, 2, 3), 3, (2, 3), 2, (1,)),  # the leader comes first, whoever it is
        ((1, 2, 3, 4), 1, (1,), 2, (3, 4)),  # of those out of sync the first assigned stay
        ((1, 2, 3, 4), None, (4,), 2, (2, 3)),
        ((1, 2, 3), 1, (1, 2, 3), 1, (2, 3)),
        ((1, 2), 1, (1, 2), 5, ()),
    ],
)
def test_those_stay_who_serve(
    assigned: tuple[int, ...], leader: int | None, isr: tuple[int, ...], top: int, drop: tuple[int, ...]
) -> None:
    """R-254, C-18: the first `top` of leader, ISR, others; each counted once. R-255: the rest leaves AR."""
    assert dropped(assigned, leader, isr, top) == drop


def test_too_few_replicas_at_first_are_not_reassigned() -> None:
    """R-253: top >= min.insync.replicas."""
    assert not reassign_drop.is_allowed(original=ids(1), min_isr=2)
    assert reassign_drop.is_allowed(original=ids(1, 2), min_isr=2)
