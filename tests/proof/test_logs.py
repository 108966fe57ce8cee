"""A part of the proof in every run of the tests; `make prove-checkers` takes the whole of it (docs/proof.md)."""

import pytest

from tests.proof.log_definitions import DEFINITIONS
from tests.proof.logs import prove

_HISTORIES = 1_000


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(DEFINITIONS))
def test_a_log_checker_finds_what_its_definition_says(name: str) -> None:
    """Kind by kind, partition by partition."""
    tally = prove(name, _HISTORIES)

    assert tally.wrong == []
    assert tally.total == _HISTORIES
    assert 0 < sum(tally.bad.values()) < _HISTORIES
