"""How the runs of two variants are weighed: pairs, their differences and the interval of the median."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.comparison.pairs import PAIRS_MIN, Measured, Pair, Weighed, interval, weighed


def run(**figures: float) -> Measured:
    return Measured(valid=True, live=True, figures=figures)


def pairs(name: str, both: list[tuple[float, float]]) -> list[Pair]:
    return [Pair(plan=str(n), first=run(**{name: a}), second=run(**{name: b})) for n, (a, b) in enumerate(both)]


def row(both: list[tuple[float, float]]) -> Weighed:
    (only,) = weighed(pairs("move_median_ms", both))
    return only


def test_measure_that_no_pair_has_on_both_sides_is_left_out() -> None:
    lone = Pair(plan="p", first=run(messages=3), second=run(copied_in_vain=1))

    assert weighed([lone]) == []


def test_difference_within_each_pair_is_weighed() -> None:
    """The groups overlap widely, each pair differs by one."""
    found = row([(float(n * 100), float(n * 100 + 1)) for n in range(10)])

    assert (found.pairs, found.difference, found.low, found.high, found.shown) == (10, 1, 1, 1, "more")


def test_pairs_that_differ_both_ways_are_not_told_apart() -> None:
    assert row([(10, 11), (10, 9)] * 10).shown == "not told apart"


def test_less_is_shown_only_by_enough_pairs() -> None:
    assert row([(10, 5)] * PAIRS_MIN).shown == "less"
    assert row([(10, 5)] * (PAIRS_MIN - 1)).shown == "too few pairs"


@given(st.lists(st.floats(-1e6, 1e6), min_size=PAIRS_MIN, max_size=30))
def test_interval_lies_within_the_differences(differences: list[float]) -> None:
    low, high = interval(differences)

    assert low is not None
    assert high is not None
    assert min(differences) <= low <= high <= max(differences)
    assert interval(differences) == (low, high)


def test_same_figures_on_both_sides_differ_by_nothing() -> None:
    found = row([(float(n), float(n)) for n in range(20)])

    assert (found.difference, found.low, found.high) == pytest.approx((0, 0, 0))
