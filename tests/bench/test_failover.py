"""The failover bench counts what V3's Discussion 1 counts."""

import pytest

from bench.failover import Failover, fail_over, plan_of


def failover(variant: str, *, write_ms: int = 4, controller: bool = False) -> Failover:
    return fail_over(plan_of(variant, partitions=20, write_ms=write_ms), controller=controller)


@pytest.mark.parametrize("controller", [False, True])
def test_each_way_of_failover_takes_its_writes(controller: bool) -> None:
    """Twenty writes of 4 ms take 80 ms at least; a multi takes the time of one, and no longer than a few round trips."""
    in_flight, by_multi = (failover(variant, controller=controller) for variant in ("safe", "failover-by-multi"))
    one_by_one = failover("failover-one-by-one", controller=controller)

    assert {found.leaders for found in (in_flight, by_multi, one_by_one)} == {20}
    assert by_multi.transactions == in_flight.transactions - 19 == one_by_one.transactions - 19
    assert by_multi.written_ms + 19 * 4 == pytest.approx(in_flight.written_ms, abs=5)
    assert one_by_one.written_ms > in_flight.written_ms + 20


def test_write_time_is_all_that_makes_failover_grow() -> None:
    """Twenty writes of 24 ms in place of 4 ms: 400 ms more, and the round trips are the same."""
    fast, slow = failover("safe", write_ms=4), failover("safe", write_ms=24)

    assert slow.written_ms - fast.written_ms == pytest.approx(400, abs=24)
