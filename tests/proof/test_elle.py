"""A part of the proof in every run of the tests; `make prove-checkers` takes the whole of it (docs/proof.md)."""

import pytest

from proof import cycles, elle

_HISTORIES = 2_500


@pytest.mark.slow
@pytest.mark.parametrize("writes", ["append", "w"])
def test_a_level_is_judged_as_trying_every_execution_judges_it(writes: str) -> None:
    """Never accused without need; acquitted rightly where the values tell the order of versions."""
    tally = elle.prove(writes, _HISTORIES)

    assert tally.wrong == []
    assert tally.total == _HISTORIES
    assert tally.impossible > _HISTORIES // 10
    assert tally.sure > _HISTORIES // 20
    assert tally.unproven * 4 < tally.impossible


@pytest.mark.slow
def test_the_cycles_that_are_told_are_the_shortest_there_are() -> None:
    """Each step is a dependency by definition, and no kind that is there is left out."""
    tally = cycles.prove(_HISTORIES)

    assert tally.wrong == []
    assert tally.told > _HISTORIES // 5
    assert tally.longest > 4
    assert len(tally.by_kind) > 10
