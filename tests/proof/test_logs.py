"""A part of the comparisons of `make prove-checkers` (docs/proof.md), in every run of the tests."""

from functools import cache

import pytest

from checkers.foreign import JUDGES
from checkers.observing import IN_PLACE_OF_NOTES
from checkers.registry import ALL
from proof import queues
from proof.log_definitions import DEFINITIONS, UNPROVEN
from proof.logs import DRAWERS, Tally, prove

pytestmark = pytest.mark.xdist_group("log proofs")  # `proven` keeps its results

_HISTORIES = 1_500


@cache
def tallies_of(what: str) -> list[Tally]:
    return prove(what, _HISTORIES)


@pytest.mark.slow
@pytest.mark.parametrize("property_name", list(DEFINITIONS))
def test_log_checkers_agree_with_their_definitions(property_name: str) -> None:
    """Compared for each kind in each partition; each history kind has good and bad histories."""
    for tally in tallies_of(property_name):
        assert tally.wrong == []
        assert tally.total == _HISTORIES
        assert 0 < tally.good < _HISTORIES or (tally.name, property_name) == ("fencing", "operations"), tally


@pytest.mark.slow
def test_random_histories_reach_each_log_anomaly() -> None:
    """A kind that no random history has would not be compared."""
    reached = {(tally.name, kind) for property_name in DEFINITIONS for tally in tallies_of(property_name) for kind in tally.bad}
    judges = [judge for judge in (*ALL, *IN_PLACE_OF_NOTES) if judge.name not in UNPROVEN]
    claimed = {(judge.name, kind) for judge in judges for kind in judge.kinds}

    assert claimed <= reached


@pytest.mark.slow
def test_random_histories_reach_each_kafka_judge_anomaly() -> None:
    """The judge agrees with the definition on each history."""
    kafka = next(judge for judge in JUDGES if judge.name == "kafka")
    tally = queues.prove(_HISTORIES)

    assert tally.wrong == []
    assert set(kafka.kinds) <= set(tally.bad)
    assert 0 < tally.undecided < tally.good


def test_every_checker_has_a_definition_or_is_listed_unproven() -> None:
    tallies_of = {name for names in DEFINITIONS.values() for name in names}

    assert tallies_of | set(UNPROVEN) == {checker.name for checker in (*ALL, *IN_PLACE_OF_NOTES)}
    assert not tallies_of & set(UNPROVEN)
    assert DRAWERS.keys() == DEFINITIONS.keys()
