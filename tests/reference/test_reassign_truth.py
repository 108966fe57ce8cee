"""The truth table of reassignment: whatever step the controller dies after, the next one ends at RAR, or at OAR when cancelled.

The steps are counted by the cluster itself: a table ends with the first number at which nobody dies any more.
"""

from collections.abc import Callable
from copy import deepcopy
from functools import partial

import pytest

from reference.config import VARIANTS
from reference.coordination import admin_paths
from reference.messages import Fetch
from tests.reference.lab import Letter
from tests.reference.moving import OAR, RAR, Mortal, assigned, cancel, cluster, data, extra, finish, holders, is_at, reassign

STEPS_MAX = 200
MOVES = [(OAR, RAR), (OAR, (2, 3, 4)), (OAR, (3, 1)), (OAR, (1, 2, 3, 4)), ((4, 5, 6), (1, 2, 3)), ((2, 3, 4), (4, 3, 5))]


def is_dead(lab: Mortal) -> bool:
    """Has the controller come to the step that it dies after?"""
    return lab.dead is not None


def is_narrowed(lab: Mortal) -> bool:
    """Does the topic znode say RAR?"""
    return assigned(lab) == RAR


def outcomes(begin: Callable[[], Mortal], act: Callable[[Mortal], None], after: Callable[[Mortal], None]) -> list[Mortal]:
    """One cluster for each step that its controller can die after."""
    found = []
    first = begin()
    first.twice = False
    for n in range(1, STEPS_MAX):
        lab = deepcopy(first)
        lab.left = n
        act(lab)
        finish(lab, partial(is_dead, lab), limit_ms=3000)
        lab.left = None
        if lab.dead is None:
            break
        after(lab)
        found.append(lab)
    assert len(found) < STEPS_MAX - 1, "every step was tried"
    return found


def return_later(lab: Mortal) -> None:
    """Another broker becomes controller; the dead one comes back when that one has had time."""
    assert lab.dead is not None
    dead = lab.dead
    lab.bury(dead)
    lab.wait(2000)
    lab.start(dead)
    lab.settle()


def stuck(replicas: tuple[int, ...]) -> Callable[[Letter], bool]:
    """Those who are not in the first assignment fetch nothing, so that a move cannot end."""
    return lambda letter: isinstance(letter[2], Fetch) and int(letter[0][1:]) not in replicas


def ends(labs: list[Mortal], replicas: tuple[int, ...]) -> list[int]:
    """After which steps the cluster did not end where it should."""
    return [n for n, lab in enumerate(labs, 1) if not finish(lab, partial(is_at, lab, replicas))]


@pytest.mark.parametrize(("replicas", "target"), MOVES)
def test_whatever_step_the_controller_dies_after_the_partition_is_moved(
    replicas: tuple[int, ...], target: tuple[int, ...]
) -> None:
    """B-58, B-59, R-054: AR = RAR, ISR = RAR, no log directory anywhere else, and what was acknowledged is there."""
    labs = outcomes(lambda: cluster(replicas=replicas), lambda lab: reassign(lab, target), return_later)

    assert len(labs) > 15
    assert ends(labs, target) == []


@pytest.mark.parametrize(("replicas", "target"), [move for move in MOVES if set(move[1]) - set(move[0])])
def test_whatever_step_the_controller_dies_after_a_cancelled_move_is_rolled_back(
    replicas: tuple[int, ...], target: tuple[int, ...]
) -> None:
    """R-233 to R-239: AR = OAR, ISR = OAR, no log directory anywhere else. The cancellation stays until it is removed."""

    def begin() -> Mortal:
        lab = cluster(replicas=replicas)
        lab.held = stuck(replicas)
        reassign(lab, target)
        return lab

    def after(lab: Mortal) -> None:
        lab.held = lambda _: False
        return_later(lab)

    labs = outcomes(begin, cancel, after)

    assert len(labs) > 10
    assert ends(labs, replicas) == []
    assert all(data(lab, admin_paths.REASSIGN_CANCEL) is not None for lab in labs)


@pytest.mark.parametrize(("replicas", "target"), MOVES)
def test_whatever_step_a_move_is_cancelled_after_it_is_rolled_back(replicas: tuple[int, ...], target: tuple[int, ...]) -> None:
    """R-244: also where the new replicas are the whole ISR and the old ones have been deleted already (U-21)."""

    def after(lab: Mortal) -> None:
        if data(lab, admin_paths.REASSIGN) is not None:
            cancel(lab)
        return_later(lab)

    labs = outcomes(lambda: cluster(replicas=replicas), lambda lab: reassign(lab, target), after)
    cancelled = [lab for lab in labs if data(lab, admin_paths.REASSIGN_CANCEL) is not None]

    assert len(cancelled) > 10
    assert ends(cancelled, replicas) == []


def test_whatever_step_the_controller_dies_after_a_conflict_ends_at_the_new_request() -> None:
    """R-243: [1,2,3] to [4,5,6], then to [2,3,4]: first back, then on."""

    def begin() -> Mortal:
        lab = cluster()
        lab.held = stuck(OAR)
        reassign(lab)
        return lab

    def act(lab: Mortal) -> None:
        lab.held = lambda _: False
        extra(lab, (2, 3, 4))

    labs = outcomes(begin, act, return_later)

    assert len(labs) > 20
    assert ends(labs, (2, 3, 4)) == []


def test_with_ar_first_old_replicas_are_forgotten() -> None:
    """B-59: the controller dies after AR := RAR, and nobody knows any more who held a replica (KAFKA-16120)."""
    labs = outcomes(lambda: cluster(VARIANTS["reassign-ar-first"]), reassign, return_later_elsewhere)
    strays = [lab for lab in labs if finish(lab, partial(is_narrowed, lab)) and set(holders(lab)) - {*RAR, 1}]

    assert strays != []


def return_later_elsewhere(lab: Mortal) -> None:
    """The dead one stays away: at its start it would find its own stray replica."""
    assert lab.dead is not None
    lab.bury(lab.dead)
    lab.wait(8000)
