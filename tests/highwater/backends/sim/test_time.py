"""The scheduler, the clocks of a node, and its timers."""

from hypothesis import given
from hypothesis import strategies as st

from highwater.backends.sim.clock import EPOCH_NS, Clock
from highwater.backends.sim.scheduler import MS, Scheduler
from highwater.backends.sim.timers import Timers
from history.seed import Draws
from reference.effects import SetTimer
from reference.types import Millis


def set_timer(name: str, lo_ms: int, hi_ms: int | None = None) -> SetTimer:
    return SetTimer(name, Millis(lo_ms), Millis(lo_ms if hi_ms is None else hi_ms))


class Desk:
    """A clock with timers, and the timers that fired with their virtual times (ms)."""

    def __init__(self, ppm: int = 0) -> None:
        self.scheduler = Scheduler()
        self.clock = Clock(self.scheduler, monotonic_ns=7 * MS)
        self.clock.drift(ppm)
        self.rang: list[tuple[str, int]] = []
        self.timers = Timers(self.scheduler, Draws(1), self.clock, owner="b1", fire=self._fire)

    def _fire(self, name: str) -> None:
        self.rang.append((name, self.scheduler.now // MS))


@given(st.lists(st.integers(0, 5), max_size=30))
def test_scheduler_runs_by_time_then_insertion_order(times: list[int]) -> None:
    scheduler, seen = Scheduler(), list[tuple[int, int]]()
    for order, time in enumerate(times):
        scheduler.at(time, lambda time, order: seen.append((time, order)), time, order)

    scheduler.run_until(10)

    assert seen == sorted(seen)
    assert len(seen) == len(times)
    assert scheduler.now == 10


def test_scheduler_keeps_actions_after_the_end_time() -> None:
    scheduler, seen = Scheduler(), list[int]()
    scheduler.after(5, seen.append, 1)
    scheduler.after(6, seen.append, 2)

    scheduler.run_until(5)

    assert seen == [1]


@given(st.lists(st.tuples(st.integers(0, 10**12), st.integers(-500_000, 500_000)), max_size=8))
def test_monotonic_clock_never_goes_back(changes: list[tuple[int, int]]) -> None:
    scheduler = Scheduler()
    clock = Clock(scheduler, monotonic_ns=0)
    last = clock.monotonic_ns()
    for wait, ppm in changes:
        scheduler.run_until(scheduler.now + wait)
        assert clock.monotonic_ns() >= last
        last = clock.monotonic_ns()
        clock.drift(ppm)
        assert clock.monotonic_ns() == last


@given(st.integers(-500_000, 500_000), st.integers(1, 10**11))
def test_clock_predicts_when_it_shows_a_time(ppm: int, wait: int) -> None:
    scheduler = Scheduler()
    clock = Clock(scheduler, monotonic_ns=123)
    clock.drift(ppm)
    scheduler.run_until(clock.until_ns(123 + wait))

    assert 0 <= clock.monotonic_ns() - (123 + wait) <= 4


def test_clock_jump_moves_only_the_wall_clock() -> None:
    desk = Desk()
    before = desk.clock.now()
    desk.clock.jump(-5000 * MS)

    assert desk.clock.now().monotonic_ms == before.monotonic_ms
    assert desk.clock.now().wall_ms == before.wall_ms - 5000


def test_clock_that_is_set_right_shows_the_true_time() -> None:
    desk = Desk(ppm=100_000)
    desk.clock.jump(77 * MS)
    desk.scheduler.run_until(1000 * MS)
    monotonic_ms = desk.clock.now().monotonic_ms
    desk.clock.set_right()

    assert desk.clock.now().wall_ms == EPOCH_NS // MS + 1000
    assert desk.clock.now().monotonic_ms == monotonic_ms


def test_timer_runs_on_the_clock_of_its_node() -> None:
    desk = Desk(ppm=-500_000)
    desk.timers.arm(set_timer("t", 100))
    desk.scheduler.run_until(1000 * MS)

    assert desk.rang == [("t", 200)]


def test_rearmed_timer_fires_once_at_the_new_time() -> None:
    desk = Desk()
    desk.timers.arm(set_timer("later", 100))
    desk.timers.arm(set_timer("later", 300))
    desk.timers.arm(set_timer("sooner", 300))
    desk.timers.arm(set_timer("sooner", 100))
    desk.scheduler.run_until(1000 * MS)

    assert desk.rang == [("sooner", 100), ("later", 300)]


def test_cancelled_timer_does_not_fire_and_may_be_rearmed() -> None:
    desk = Desk()
    desk.timers.arm(set_timer("t", 100))
    desk.timers.cancel("t")
    desk.timers.cancel("never armed")
    desk.timers.arm(set_timer("t", 150))
    desk.scheduler.run_until(1000 * MS)

    assert desk.rang == [("t", 150)]


def test_clock_drift_change_moves_armed_timers() -> None:
    desk = Desk()
    desk.timers.arm(set_timer("t", 200))
    desk.scheduler.run_until(100 * MS)
    desk.clock.drift(1_000_000)
    desk.timers.clock_changed()
    desk.scheduler.run_until(1000 * MS)

    assert desk.rang == [("t", 150)]


@given(st.integers(0, 2**64 - 1))
def test_timer_range_is_drawn_within_its_bounds(draws: int) -> None:
    desk = Desk()
    desk.timers = Timers(desk.scheduler, Draws(draws), desk.clock, owner="b1", fire=desk._fire)
    desk.timers.arm(set_timer("t", 100, 200))
    desk.scheduler.run_until(1000 * MS)

    assert 100 <= desk.rang[0][1] <= 200
