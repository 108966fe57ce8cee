"""Truth table of reassignment: after a controller crash at any step, the partition ends at RAR, or at OAR if cancelled.

The cluster counts the steps itself: a table ends with the first number that the controller survives.
"""

from collections.abc import Callable
from copy import deepcopy
from functools import partial

import pytest

from reference.config import VARIANTS
from reference.coordination import admin_paths
from reference.messages import Fetch
from tests.reference.lab import Envelope
from tests.reference.moving import (
    OAR,
    RAR,
    Mortal,
    assigned_replicas,
    brokers_with_log,
    cluster,
    is_moved_to,
    reassign,
    request_extra_move,
    request_rollback,
    wait_until,
    znode_data,
)

STEPS_MAX = 200
MOVES = [(OAR, RAR), (OAR, (2, 3, 4)), (OAR, (3, 1)), (OAR, (1, 2, 3, 4)), ((4, 5, 6), (1, 2, 3)), ((2, 3, 4), (4, 3, 5))]


def is_dead(lab: Mortal) -> bool:
    """Whether the controller has reached the step after which it dies."""
    return lab.dead_broker is not None


def is_narrowed(lab: Mortal) -> bool:
    """Whether AR in the topic znode is RAR."""
    return assigned_replicas(lab) == RAR


def clusters_by_crash_step(
    begin: Callable[[], Mortal], act: Callable[[Mortal], None], after: Callable[[Mortal], None]
) -> list[Mortal]:
    """One cluster for each step after which its controller can die."""
    mortals = []
    first = begin()
    first.checks_clones = False
    first.checks_rules = False  # a watch is not copied with its cluster
    for n in range(1, STEPS_MAX):
        lab = deepcopy(first)
        lab.steps_left = n
        act(lab)
        wait_until(lab, partial(is_dead, lab), limit_ms=3000)
        lab.steps_left = None
        if lab.dead_broker is None:
            break
        after(lab)
        mortals.append(lab)
    assert len(mortals) < STEPS_MAX - 1, "every step was tried"
    return mortals


def return_later(lab: Mortal) -> None:
    """Another broker becomes controller; the dead one starts again 2 s later."""
    assert lab.dead_broker is not None
    dead = lab.dead_broker
    lab.remove_dead_broker(dead)
    lab.wait(2000)
    lab.start(dead)
    lab.settle()


def fetches_outside(replicas: tuple[int, ...]) -> Callable[[Envelope], bool]:
    """Holds the fetches of brokers outside of `replicas`, so that a move cannot end."""
    return lambda envelope: isinstance(envelope.message, Fetch) and int(envelope.sender[1:]) not in replicas


def crash_steps_unfinished(labs: list[Mortal], replicas: tuple[int, ...]) -> list[int]:
    """The numbers of the steps after which the cluster did not end at `replicas`."""
    return [n for n, lab in enumerate(labs, 1) if not wait_until(lab, partial(is_moved_to, lab, replicas))]


@pytest.mark.slow
@pytest.mark.parametrize(("replicas", "target"), MOVES)
def test_reassignment_survives_controller_crash_at_any_step(replicas: tuple[int, ...], target: tuple[int, ...]) -> None:
    """B-58, B-59, R-054: AR = ISR = RAR, no other broker holds a replica, and acknowledged records are there."""
    labs = clusters_by_crash_step(lambda: cluster(replicas=replicas), lambda lab: reassign(lab, target), return_later)

    assert len(labs) > 15
    assert crash_steps_unfinished(labs, target) == []


@pytest.mark.slow
@pytest.mark.parametrize(("replicas", "target"), [move for move in MOVES if set(move[1]) - set(move[0])])
def test_rollback_survives_controller_crash_at_any_step(replicas: tuple[int, ...], target: tuple[int, ...]) -> None:
    """R-233 to R-239: AR = ISR = OAR, and no other broker holds a replica. The cancellation stays until it is removed."""

    def begin() -> Mortal:
        lab = cluster(replicas=replicas)
        lab.is_held = fetches_outside(replicas)
        reassign(lab, target)
        return lab

    def after(lab: Mortal) -> None:
        lab.is_held = lambda _: False
        return_later(lab)

    labs = clusters_by_crash_step(begin, request_rollback, after)

    assert len(labs) > 10
    assert crash_steps_unfinished(labs, replicas) == []
    assert all(znode_data(lab, admin_paths.REASSIGN_CANCEL) is not None for lab in labs)


@pytest.mark.slow
@pytest.mark.parametrize(("replicas", "target"), MOVES)
def test_reassignment_cancelled_after_any_step_is_rolled_back(replicas: tuple[int, ...], target: tuple[int, ...]) -> None:
    """R-244: also if only new replicas are in the ISR and the old ones are deleted already (U-21)."""

    def after(lab: Mortal) -> None:
        if znode_data(lab, admin_paths.REASSIGN) is not None:
            request_rollback(lab)
        return_later(lab)

    labs = clusters_by_crash_step(lambda: cluster(replicas=replicas), lambda lab: reassign(lab, target), after)
    cancelled = [lab for lab in labs if znode_data(lab, admin_paths.REASSIGN_CANCEL) is not None]

    assert len(cancelled) > 10
    assert crash_steps_unfinished(cancelled, replicas) == []


@pytest.mark.slow
def test_conflicting_reassignment_survives_controller_crash() -> None:
    """R-243: [1,2,3] to [4,5,6], then to [2,3,4]: the first move is rolled back before the second starts."""

    def begin() -> Mortal:
        lab = cluster()
        lab.is_held = fetches_outside(OAR)
        reassign(lab)
        return lab

    def act(lab: Mortal) -> None:
        lab.is_held = lambda _: False
        request_extra_move(lab, (2, 3, 4))

    labs = clusters_by_crash_step(begin, act, return_later)

    assert len(labs) > 20
    assert crash_steps_unfinished(labs, (2, 3, 4)) == []


def test_shrinking_the_assignment_first_leaves_old_replicas() -> None:
    """B-59: the controller dies after AR := RAR, and no znode names the brokers that held a replica (KAFKA-16120)."""
    labs = clusters_by_crash_step(lambda: cluster(VARIANTS["reassign-ar-first"]), reassign, return_later_elsewhere)
    strays = [lab for lab in labs if wait_until(lab, partial(is_narrowed, lab)) and set(brokers_with_log(lab)) - {*RAR, 1}]

    assert strays != []


def return_later_elsewhere(lab: Mortal) -> None:
    """The dead broker stays down: at its start it would delete its own stray replica."""
    assert lab.dead_broker is not None
    lab.remove_dead_broker(lab.dead_broker)
    lab.wait(8000)


@pytest.mark.slow
def test_rollback_past_an_inactive_broker_survives_any_crash() -> None:
    """R-183, R-244: b4 reaches ZooKeeper and not the controller, which dies after any step of the rollback; then b4 returns."""

    def begin() -> Mortal:
        lab = cluster()
        lab.is_held = fetches_outside((*OAR, 4))
        reassign(lab)
        lab.is_held = lambda envelope: fetches_outside(OAR)(envelope) or {envelope.sender, envelope.receiver} == {"b1", "b4"}
        lab.wait(7000)
        return lab

    def after(lab: Mortal) -> None:
        lab.is_held = lambda _: False
        return_later(lab)

    labs = clusters_by_crash_step(begin, request_rollback, after)

    assert len(labs) > 10
    assert crash_steps_unfinished(labs, OAR) == []
