"""A part of the comparisons of `make prove-checkers` for Jepsen's models that look at reads, and mistakes that they find."""

from collections.abc import Callable

import pytest

from checkers.jepsen import adya, bank, comments, counter, long_fork, monotonic, sequential, set_full, total_queue, unique_ids
from checkers.jepsen.judge import MODELS
from proof import reads
from proof.reads_definitions import DEFINITIONS

_HISTORIES = 2_500
Patch = pytest.MonkeyPatch


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(DEFINITIONS))
def test_reads_judge_agrees_with_its_definition(name: str) -> None:
    """Each of the three verdicts is drawn often, and each kind of anomaly."""
    tally = reads.prove(name, _HISTORIES)

    kinds = next(set(model.kinds) for model in MODELS if model.name == name.split(",")[0])
    assert tally.wrong == []
    assert min(tally.verdicts.values()) > _HISTORIES // 20
    assert set(tally.kinds) == (kinds if name not in ("set-full", "broadcast") else kinds - {"stale"})


def test_every_reads_model_has_a_definition() -> None:
    assert {name.split(",")[0] for name in DEFINITIONS} == {model.name for model in MODELS}


def totals_are_ignored(patch: Patch) -> None:
    patch.setattr(bank, "_total", lambda call, balances: 0)


def forks_are_ignored(patch: Patch) -> None:
    patch.setattr(long_fork, "_forks", lambda some: iter(()))


def later_additions_count(patch: Patch) -> None:
    """The upper bound without its end."""
    patch.setattr(counter, "bisect_left", lambda at, position: len(at))


def lost_elements_are_right(patch: Patch) -> None:
    patch.setattr(set_full, "_loss_of", lambda element, adds, sight: None)


def subkeys_have_no_order(patch: Patch) -> None:
    """The read seen backwards, so that a nil comes before the subkeys."""
    was = sequential._key_and_subkeys
    patch.setattr(sequential, "_key_and_subkeys", lambda call: (was(call)[0], sorted(was(call)[1], key=str)))


def predecessors_may_be_missing(patch: Patch) -> None:
    patch.setattr(comments, "bisect_left", lambda ends, start: 0)


def order_is_ignored(patch: Patch) -> None:
    patch.setattr(monotonic, "_rows_out_of_order", lambda last, rows, values: iter(()))


def falls_are_risen(patch: Patch) -> None:
    """A counter that only goes up: the bounds of one that goes down are exchanged."""
    patch.setattr(counter._Sums, "returned", counter._Sums.invoked)


def every_queue_is_drained(patch: Patch) -> None:
    """As Jepsen's checker takes it: what did not come out is lost, whatever came of the drain."""
    was = total_queue._missing_values
    patch.setattr(total_queue, "_missing_values", lambda queue, put, taken, drained: was(queue, put, taken, 1_000))


def later_ids_are_not_compared(patch: Patch) -> None:
    """Only the first two are."""
    patch.setattr(unique_ids, "reads", lambda calls, f: [call for call in calls if call.end is not None][:2])


def keys_are_ignored(patch: Patch) -> None:
    patch.setattr(adya, "_key_of_insert", lambda call: None)


MISTAKES: list[tuple[Callable[[Patch], None], str]] = [
    (totals_are_ignored, "bank"),
    (forks_are_ignored, "long-fork"),
    (later_additions_count, "counter"),
    (lost_elements_are_right, "set-full"),
    (subkeys_have_no_order, "sequential"),
    (predecessors_may_be_missing, "comments"),
    (order_is_ignored, "monotonic"),
    (falls_are_risen, "counter"),
    (every_queue_is_drained, "total-queue"),
    (later_ids_are_not_compared, "unique-ids"),
    (keys_are_ignored, "adya-g2"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("mistake", "name"), MISTAKES, ids=[mistake.__name__ for mistake, _ in MISTAKES])
def test_planted_mistake_in_a_reads_judge_is_found(mistake: Callable[[Patch], None], name: str, monkeypatch: Patch) -> None:
    mistake(monkeypatch)

    assert reads.prove(name, _HISTORIES).wrong
