"""A part of the comparisons of `make prove-checkers` for Jepsen's models that look at reads, and mistakes that they find."""

from collections.abc import Callable

import pytest

from checkers.jepsen import bank, comments, counter, long_fork, monotonic, sequential, set_full
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
    assert set(tally.kinds) == (kinds if name != "set-full" else kinds - {"stale"})


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
    patch.setattr(set_full, "_of_element", lambda element, adds, sight: None)


def subkeys_have_no_order(patch: Patch) -> None:
    """The read seen backwards, so that a nil comes before the subkeys."""
    was = sequential._answer
    patch.setattr(sequential, "_answer", lambda call: (was(call)[0], sorted(was(call)[1], key=str)))


def predecessors_may_be_missing(patch: Patch) -> None:
    patch.setattr(comments, "bisect_left", lambda ends, start: 0)


def order_is_ignored(patch: Patch) -> None:
    patch.setattr(monotonic, "_out_of_order", lambda last, rows, values: iter(()))


MISTAKES: list[tuple[Callable[[Patch], None], str]] = [
    (totals_are_ignored, "bank"),
    (forks_are_ignored, "long-fork"),
    (later_additions_count, "counter"),
    (lost_elements_are_right, "set-full"),
    (subkeys_have_no_order, "sequential"),
    (predecessors_may_be_missing, "comments"),
    (order_is_ignored, "monotonic"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("mistake", "name"), MISTAKES, ids=[name for _, name in MISTAKES])
def test_planted_mistake_in_a_reads_judge_is_found(mistake: Callable[[Patch], None], name: str, monkeypatch: Patch) -> None:
    mistake(monkeypatch)

    assert reads.prove(name, _HISTORIES).wrong
