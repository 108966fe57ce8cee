"""A part of the comparisons of `make prove-checkers` (docs/proof.md), in every run of the tests."""

import pytest

from proof import cycles, elle

_HISTORIES = 2_500


@pytest.mark.slow
@pytest.mark.parametrize("writes", ["append", "w"])
def test_isolation_judge_agrees_with_trying_every_execution(writes: str) -> None:
    """INVALID and VALID are right, whether or not some read shows the order of the writes."""
    tally = elle.prove(writes, _HISTORIES)

    assert tally.wrong == []
    assert tally.total == _HISTORIES
    assert tally.impossible > _HISTORIES // 10
    assert tally.unordered > 1


@pytest.mark.slow
def test_reported_dependency_cycles_are_the_shortest() -> None:
    """Each step is a dependency by definition, and every kind is reported."""
    tally = cycles.prove(_HISTORIES)

    assert tally.wrong == []
    assert tally.told > _HISTORIES // 5
    assert tally.longest > 4
    assert len(tally.by_kind) > 10
