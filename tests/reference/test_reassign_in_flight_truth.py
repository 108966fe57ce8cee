"""The truth table of proposal B: whatever step the controller dies after, the next one ends where the last request says."""

from functools import partial

import pytest

from reference.config import VARIANTS
from reference.coordination import admin_paths
from tests.reference.lab import T0
from tests.reference.moving import OAR, Mortal, assigned, cluster, finish, holders, in_flight, reassign, request
from tests.reference.test_reassign_truth import MOVES, ends, outcomes, return_later, stuck

B = VARIANTS["reassignment-by-requests"]
CHANGES = [
    ((1, 2), (2, 3), (2, 4)),
    (OAR, (4, 5, 6), (2, 3, 4)),
    (OAR, (4, 5, 6), (4, 5, 1)),
    (OAR, (4, 5, 6), (6, 5)),
    ((1, 2), (3, 4), (3, 5)),
]


def under_way(replicas: tuple[int, ...], first: tuple[int, ...]) -> Mortal:
    """New replicas are told of, and fetch nothing."""
    lab = cluster(B, replicas=replicas)
    lab.held = stuck(replicas)
    request(lab, *first)
    lab.wait(1000)
    return lab


def freed(lab: Mortal) -> None:
    """The controller is gone, and the new replicas fetch."""
    lab.held = lambda _: False
    return_later(lab)


@pytest.mark.parametrize(("replicas", "target"), MOVES)
def test_whatever_step_the_controller_dies_after_a_requested_move_ends(
    replicas: tuple[int, ...], target: tuple[int, ...]
) -> None:
    """R-246, R-248, R-252: AR = ISR = RAR, no log directory anywhere else, no request, no entry."""
    labs = outcomes(lambda: cluster(B, replicas=replicas), lambda lab: _ask(lab, target), return_later)

    assert len(labs) > 15
    assert ends(labs, target) == []


def _ask(lab: Mortal, target: tuple[int, ...]) -> None:
    request(lab, *target)
    lab.wait(1500)


def test_whatever_step_the_controller_dies_after_a_move_asked_for_in_the_way_of_old_ends() -> None:
    """R-248, R-250, R-252: and the entry of old goes."""
    labs = outcomes(lambda: cluster(B), partial(reassign, replicas=(2, 3, 4)), return_later)

    assert len(labs) > 15
    assert ends(labs, (2, 3, 4)) == []


@pytest.mark.parametrize(("replicas", "first", "then"), [*CHANGES, (OAR, (4, 5, 6), OAR)])
def test_whatever_step_the_controller_dies_after_a_change_ends_at_the_last_request(
    replicas: tuple[int, ...], first: tuple[int, ...], then: tuple[int, ...]
) -> None:
    """R-247, R-254, R-255: the drop set is written down with the change, and so is the same for the next controller."""
    labs = outcomes(lambda: under_way(replicas, first), lambda lab: request(lab, *then), freed)

    assert len(labs) > 10
    assert ends(labs, then) == []


@pytest.mark.parametrize(("replicas", "first", "then"), [*CHANGES, (OAR, (4, 5, 6), OAR), ((1, 2), (2, 3), (1, 2))])
def test_whatever_step_a_change_comes_after_it_is_where_the_partition_ends(
    replicas: tuple[int, ...], first: tuple[int, ...], then: tuple[int, ...]
) -> None:
    """R-247: also where the new replicas are the whole ISR, or the old ones have been deleted already."""
    changed: list[Mortal] = []

    def after(lab: Mortal) -> None:
        if in_flight(lab) is not None:
            request(lab, *then)
            changed.append(lab)
        return_later(lab)

    outcomes(lambda: cluster(B, replicas=replicas), lambda lab: _ask(lab, first), after)

    assert len(changed) > 10
    assert ends(changed, then) == []


def test_whenever_another_request_comes_the_partition_ends_there() -> None:
    """R-247: right before each thing that the controller does for the first one, whose end is not the end of this."""
    words = _asked(cluster(B), {}).steps
    labs = [_asked(cluster(B), {word: (2, 3, 4)}) for word in words]

    assert len(words) > 30
    assert [word for word, lab in zip(words, labs, strict=True) if lab.before] == []
    assert [word for word, n in zip(words, labs, strict=True) if ends([n], (2, 3, 4))] == []


def _asked(lab: Mortal, then: dict[str, tuple[int, ...]]) -> Mortal:
    lab.look_from_here()
    for word, replicas in then.items():
        lab.before[word] = partial(request, lab, *replicas)
    _ask(lab, (4, 5, 6))
    lab.wait(3000)
    return lab


@pytest.mark.parametrize("word", ["AR 1,2", "AR 1,2,4", "AR 2,4", f"gone: {admin_paths.reassignment_path(T0)}"])
def test_a_broker_that_was_down_while_it_was_dropped_keeps_nothing(word: str) -> None:
    """B-59, R-255: 3 is dropped while its broker is down, which starts right before some later step."""
    lab = under_way((1, 2), (2, 3))
    lab.bury(3)
    lab.before[word] = partial(_start_now, lab)
    lab.held = lambda _: False
    request(lab, 2, 4)

    assert ends([lab], (2, 4)) == []
    assert lab.before == {}


def test_an_intermediate_replica_is_known_to_the_next_controller() -> None:
    """B-59: 3 was neither there at first nor is it wanted, and served so well that it was kept; the entry says that it is held.

    It goes with the old ones while its broker is down, which reads the wide AR; the controller dies with the narrow one written.
    """
    lab = under_way((1, 2), (3, 5))
    lab.held = stuck((1, 2, 3))
    assert finish(lab, lambda: lab.isr() == [1, 2, 3])
    lab.bury(2)
    request(lab, 4, 5)
    assert finish(lab, lambda: assigned(lab) == (1, 3, 5, 4))
    lab.bury(3)
    lab.before["AR 4,5"] = partial(_start_and_die, lab)
    lab.held = lambda _: False
    assert finish(lab, lambda: lab.dead is not None)
    assert holders(lab) == [2, 3, 4, 5]
    lab.letters.clear()
    freed(lab)
    lab.start(2)
    lab.settle()

    assert ends([lab], (4, 5)) == []


def _start_and_die(lab: Mortal) -> None:
    """It hears nothing of this controller, which dies right after what it is about to do."""
    lab.held = lambda letter: letter[:2] == ("b1", "b3")
    _start_now(lab)
    lab.left = 1


def _start_now(lab: Mortal) -> None:
    """It reads what is assigned before the controller does what it is about to do."""
    lab.busy = False
    lab.start(3)
    lab.busy = True
