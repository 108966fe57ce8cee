"""Truth table of proposal B: after a controller crash at any step, the partition ends at the target of the last request."""

from functools import partial

import pytest

from reference.config import VARIANTS
from reference.coordination import admin_paths
from tests.reference.lab import T0, carries
from tests.reference.moving import (
    OAR,
    Mortal,
    assigned_replicas,
    brokers_with_log,
    cluster,
    move_in_flight,
    reassign,
    request_move,
    wait_until,
)
from tests.reference.test_reassign_truth import (
    MOVES,
    clusters_by_crash_step,
    crash_steps_unfinished,
    fetches_outside,
    return_later,
)

B = VARIANTS["reassignment-by-requests"]
CHANGES = [
    ((1, 2), (2, 3), (2, 4)),
    (OAR, (4, 5, 6), (2, 3, 4)),
    (OAR, (4, 5, 6), (4, 5, 1)),
    (OAR, (4, 5, 6), (6, 5)),
    ((1, 2), (3, 4), (3, 5)),
]


def cluster_in_move(replicas: tuple[int, ...], first: tuple[int, ...]) -> Mortal:
    """A cluster with a move in flight whose new replicas have their command and cannot fetch."""
    lab = cluster(B, replicas=replicas)
    lab.is_held = fetches_outside(replicas)
    request_move(lab, *first)
    lab.wait(1000)
    return lab


def crash_and_release(lab: Mortal) -> None:
    """The controller dies, and the new replicas may fetch."""
    lab.is_held = lambda _: False
    return_later(lab)


@pytest.mark.slow
@pytest.mark.parametrize(("replicas", "target"), MOVES)
def test_requested_reassignment_survives_any_controller_crash(replicas: tuple[int, ...], target: tuple[int, ...]) -> None:
    """R-246, R-248, R-252: AR = ISR = RAR, no other broker holds a replica, no request and no entry is left."""
    labs = clusters_by_crash_step(lambda: cluster(B, replicas=replicas), lambda lab: _ask(lab, target), return_later)

    assert len(labs) > 15
    assert crash_steps_unfinished(labs, target) == []


def _ask(lab: Mortal, target: tuple[int, ...]) -> None:
    request_move(lab, *target)
    lab.wait(1500)


def test_legacy_reassignment_survives_any_controller_crash() -> None:
    """R-248, R-250, R-252: and the legacy znode is deleted."""
    labs = clusters_by_crash_step(lambda: cluster(B), partial(reassign, replicas=(2, 3, 4)), return_later)

    assert len(labs) > 15
    assert crash_steps_unfinished(labs, (2, 3, 4)) == []


@pytest.mark.slow
@pytest.mark.parametrize(("replicas", "first", "then"), [*CHANGES, (OAR, (4, 5, 6), OAR)])
def test_changed_reassignment_survives_any_controller_crash(
    replicas: tuple[int, ...], first: tuple[int, ...], then: tuple[int, ...]
) -> None:
    """R-247, R-254, R-255: the drop set is stored with the change, so the next controller uses the same one."""
    labs = clusters_by_crash_step(
        lambda: cluster_in_move(replicas, first), lambda lab: request_move(lab, *then), crash_and_release
    )

    assert len(labs) > 10
    assert crash_steps_unfinished(labs, then) == []


@pytest.mark.slow
@pytest.mark.parametrize(("replicas", "first", "then"), [*CHANGES, (OAR, (4, 5, 6), OAR), ((1, 2), (2, 3), (1, 2))])
def test_reassignment_changed_after_any_step_ends_at_new_target(
    replicas: tuple[int, ...], first: tuple[int, ...], then: tuple[int, ...]
) -> None:
    """R-247: the controller dies as well; also if only new replicas are in the ISR, or the old ones are deleted already."""
    changed: list[Mortal] = []

    def after(lab: Mortal) -> None:
        if move_in_flight(lab) is not None:
            request_move(lab, *then)
            changed.append(lab)
        return_later(lab)

    clusters_by_crash_step(lambda: cluster(B, replicas=replicas), lambda lab: _ask(lab, first), after)

    assert len(changed) > 10
    assert crash_steps_unfinished(changed, then) == []


@pytest.mark.slow
def test_reassignment_changed_before_any_step_ends_at_new_target() -> None:
    """R-247: the second request comes right before each step of the controller for the first one."""
    words = _changed_before(cluster(B), {}).steps
    labs = [_changed_before(cluster(B), {word: (2, 3, 4)}) for word in words]

    assert len(words) > 30
    assert [word for word, lab in zip(words, labs, strict=True) if lab.before] == []
    assert [word for word, n in zip(words, labs, strict=True) if crash_steps_unfinished([n], (2, 3, 4))] == []


def _changed_before(lab: Mortal, then: dict[str, tuple[int, ...]]) -> Mortal:
    lab.clear_record()
    for word, replicas in then.items():
        lab.before[word] = partial(request_move, lab, *replicas)
    _ask(lab, (4, 5, 6))
    lab.wait(3000)
    return lab


@pytest.mark.parametrize("word", ["AR 1,2", "AR 1,2,4", "AR 2,4", f"gone: {admin_paths.reassignment_path(T0)}"])
def test_broker_dropped_while_down_keeps_no_replica(word: str) -> None:
    """B-59, R-255: 3 is dropped while its broker is down, and the broker starts right before a later step."""
    lab = cluster_in_move((1, 2), (2, 3))
    lab.remove_dead_broker(3)
    lab.before[word] = partial(_start_now, lab)
    lab.is_held = lambda _: False
    request_move(lab, 2, 4)

    assert crash_steps_unfinished([lab], (2, 4)) == []
    assert lab.before == {}


def test_next_controller_deletes_an_intermediate_replica() -> None:
    """B-59: 3 is neither in the first assignment nor in the last; only the entry's `held` names it.

    It was kept because it is in the ISR. Then it is dropped with the old replicas while its broker is down; the broker starts and
    reads the wide AR, and the controller dies once the narrow one is written.
    """
    lab = cluster_in_move((1, 2), (3, 5))
    lab.is_held = fetches_outside((1, 2, 3))
    assert wait_until(lab, lambda: lab.isr() == [1, 2, 3])
    lab.remove_dead_broker(2)
    request_move(lab, 4, 5)
    assert wait_until(lab, lambda: assigned_replicas(lab) == (1, 3, 5, 4))
    lab.remove_dead_broker(3)
    lab.before["AR 4,5"] = partial(_start_and_die, lab)
    lab.is_held = lambda _: False
    assert wait_until(lab, lambda: lab.dead_broker is not None)
    assert brokers_with_log(lab) == [2, 3, 4, 5]
    lab.in_flight.clear()
    crash_and_release(lab)
    lab.start(2)
    lab.settle()

    assert crash_steps_unfinished([lab], (4, 5)) == []


def _start_and_die(lab: Mortal) -> None:
    """Start b3, which gets no message from b1, and let b1 die right after its next step."""
    lab.is_held = carries(sender="b1", receiver="b3")
    _start_now(lab)
    lab.steps_left = 1


def _start_now(lab: Mortal) -> None:
    """Start b3 before the controller's next step, so that it reads the assignment before that."""
    lab.is_handling = False
    lab.start(3)
    lab.is_handling = True
