"""The kinds of clock faults that a schedule can draw: jumps, drift, and clocks that jump back and forth."""

from history.seed import Rng
from nemesis.blows import Kind, blow, lasting, some_role
from nemesis.faults import AnyFault, ClockDrift, ClockJump, ClockStrobe
from nemesis.schedule import Shape


def _clock_jump(rng: Rng, _: Shape) -> AnyFault:
    """Draw a fault: a wall clock is off by a drawn offset, positive or negative."""
    return ClockJump(offset_ms=_offset_ms(rng))


def _clock_drift(rng: Rng, _: Shape) -> AnyFault:
    """Draw a fault: clocks are wrong by 500 ppm, as with a bad crystal, or run up to 10 % slow or 30 % fast."""
    # Drifts of overlapping windows add up, and the sum must not stop a clock.
    return ClockDrift(ppm=rng.pick((-100_000, -10_000, -500, 500, 10_000, 100_000, 300_000)))


def _clock_strobe(rng: Rng, _: Shape) -> AnyFault:
    """Draw a fault: a wall clock jumps off by a drawn offset and back, every 20 to 1000 ms."""
    return ClockStrobe(offset_ms=_offset_ms(rng), period_ms=rng.between(20, 1000))


def _offset_ms(rng: Rng) -> int:
    """Draw a clock offset: 10 ms to about three hours, uniform in the exponent, of either sign (as Jepsen's clock bump)."""
    offset = rng.between(10, 20) << rng.below(20)
    return offset if rng.ratio(1, 2) else -offset


KINDS: tuple[Kind, ...] = (
    Kind(
        name="clock-jump",
        says="a wall clock that is off by 10 ms to three hours",
        draw=blow(_clock_jump, some_role, lasting),
    ),
    Kind(
        name="clock-drift",
        says="clocks that run a tenth too slow to a third too fast",
        draw=blow(_clock_drift, some_role, lasting),
    ),
    Kind(
        name="clock-strobe",
        says="a wall clock that jumps off and back again and again",
        draw=blow(_clock_strobe, some_role, lasting),
    ),
)
