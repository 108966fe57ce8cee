"""The growth bench changes one quantity of the standard plan, and its plans are VALID."""

import pytest
from msgspec.structs import replace

from bench.growth import QUANTITIES, Point, exponent, longer
from highwater.plans.derive import standard_bench_plan
from highwater.plans.plan import checked

PLAN = standard_bench_plan()


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_smallest_plan_of_each_quantity_is_the_standard_one(quantity: str) -> None:
    change, sizes = QUANTITIES[quantity]
    same = change(PLAN, sizes[0])

    assert replace(same, schedule=()) == replace(PLAN, schedule=())
    assert [window.fault for window in same.schedule] == [window.fault for window in PLAN.schedule]


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_every_larger_plan_can_be_performed(quantity: str) -> None:
    change, sizes = QUANTITIES[quantity]

    assert len({checked(change(PLAN, size)) for size in sizes}) == len(sizes)


def test_longer_plan_repeats_each_fault_a_minute_later() -> None:
    windows = longer(PLAN, 3).schedule

    assert [window.at_ms for window in windows] == [
        window.at_ms + minute * 60_000 for minute in range(3) for window in PLAN.schedule
    ]


def test_growth_of_a_cost_like_the_square_is_2() -> None:
    points = [
        Point(quantity="brokers", size=n, events=100 * n, rows=n, perform_s=float(n * n), judge_s=1.0, verdict="VALID")
        for n in (1, 10)
    ]

    assert exponent(points, lambda point: point.perform_s) == pytest.approx(2)
