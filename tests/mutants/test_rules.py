"""Mistakes that are planted in the protocol break the rules that they must break, and the verdict says so."""

import pytest

from mutation.behaviour import PLANTED, Planted, findings


@pytest.mark.slow
@pytest.mark.parametrize("mistake", PLANTED, ids=[mistake.rule for mistake in PLANTED])
def test_judge_names_the_rule_that_a_planted_mistake_breaks(mistake: Planted) -> None:
    assert mistake.rule in findings(mistake)
