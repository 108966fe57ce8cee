"""The kind of fault that rolls a cluster: its brokers become another version one after the other, with a crash in the middle.

A schedule has one roll, drawn beside its rounds (`nemesis.generate`), and only if `--faults` names it: most systems have one
version.
"""

from dataclasses import replace

from history.seed import Rng
from nemesis.blows import Aim, Blow, Kind, above_session, some_role
from nemesis.faults import Crash, Roll
from nemesis.schedule import broker_ids
from nemesis.targets import Named

_STEP_MS_MIN, _STEP_MS_MAX = 8000, 14_000  # from one broker to the next: until it has ended, and serves again
_MARGIN_MS = 8000  # of the schedule, before and after the roll


def _roll(rng: Rng, aim: Aim) -> Blow:
    """Draw a fault: all brokers become the version under test, in a drawn order. In one draw of three they go back afterwards,
    the last one first; in another a second roll makes the upgrade final, if there is time for it.

    At a drawn moment of the roll a broker is killed.
    """
    order = rng.shuffled(broker_ids(aim.shape))
    up = [(broker, Roll()) for broker in order]
    then = rng.pick(
        (up[:0], [(broker, Roll(back=True)) for broker in reversed(order)], [(each, Roll(finalize=True)) for each in order])
    )
    room_ms = max(len(up), aim.shape.end_ms - _MARGIN_MS)
    steps = [*up, *then] if room_ms >= _STEP_MS_MIN * (len(up) + len(then)) else up
    step_ms = min(rng.between(_STEP_MS_MIN, _STEP_MS_MAX), room_ms // len(steps))
    first, *rest = [
        Blow(fault=fault, target=Named(brokers=(broker,)), lasts_ms=max(1, step_ms // 2), after_ms=number * step_ms)
        for number, (broker, fault) in enumerate(steps)
    ]
    lasts_ms = min(above_session(rng, aim.shape), max(1, step_ms))
    crash = Blow(
        fault=Crash(), target=some_role(rng, aim), lasts_ms=lasts_ms, after_ms=rng.below(max(1, (len(steps) - 1) * step_ms))
    )
    return replace(first, beside=(*rest, crash))


KINDS: tuple[Kind, ...] = (
    Kind(
        name="roll",
        says="all brokers become another version one after the other, with a kill -9 in the middle",
        draw=_roll,
        named_only=True,
    ),
)
