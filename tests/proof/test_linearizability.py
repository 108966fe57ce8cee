"""A part of the comparisons of `make prove-checkers` (docs/proof.md), in every run of the tests."""

import pytest

from proof.linearizability import prove
from proof.objects import SUBJECTS, Subject

_HISTORIES = 5_000


@pytest.mark.slow
@pytest.mark.parametrize("subject", SUBJECTS, ids=[subject.name for subject in SUBJECTS])
def test_linearizability_judge_agrees_with_trying_all_orders(subject: Subject) -> None:
    """The verdict, the longest prefix, its order, and the call that cannot be placed."""
    tally = prove(subject, _HISTORIES)

    assert tally.wrong == []
    assert tally.total == _HISTORIES
    assert min(tally.possible, tally.impossible) > _HISTORIES // 20  # both answers were there to be given
    assert tally.undecided <= (_HISTORIES // 10 if subject.name.startswith("partition-log") else 0)
