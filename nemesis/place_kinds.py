"""The kinds of faults of the links between brokers and the clients at one place; clients at other places are not touched."""

from collections.abc import Callable

from history.seed import Rng
from nemesis.blows import Aim, Blow, HowLong, Kind, around_session, brief, lasting
from nemesis.faults import AnyFault, Packets, Partition, Reset, Slow
from nemesis.schedule import Shape, broker_ids
from nemesis.targets import ClientPlace

What = Callable[[Rng, Shape, int | None], AnyFault]  # the last: the only broker that is concerned, None for all


def _isolating_fault(_: Rng, __: Shape, ___: int | None) -> AnyFault:
    return Partition(links=("clients",))


def _cutting_fault(rng: Rng, shape: Shape, _: int | None) -> AnyFault:
    return Partition(links=("clients",), peer=rng.pick(broker_ids(shape)))


def _one_way(rng: Rng, _: Shape, peer: int | None) -> AnyFault:
    return Partition(links=("clients",), direction=rng.pick(("inbound", "outbound")), peer=peer)


def _slow(rng: Rng, shape: Shape, peer: int | None) -> AnyFault:
    """Draw a fault: delays from 20 ms to the lag limit, which is longer than most requests wait."""
    return Slow(links=("clients",), extra_ms=rng.pick((20, 100, 400, shape.replica_lag_time_max_ms)), peer=peer)


def _lossy(rng: Rng, _: Shape, peer: int | None) -> AnyFault:
    return Packets(drop_per_mille=rng.pick((20, 100, 300, 750)), peer=peer)


def _reset(rng: Rng, _: Shape, peer: int | None) -> AnyFault:
    return Reset(links=("clients",), period_ms=rng.between(50, 800), peer=peer)


def _at_a_place(what: What, how_long: HowLong) -> Callable[[Rng, Aim], Blow]:
    """Combine draws of the fault and its duration with those of a place and, in one draw of two, of a single broker."""

    def draw(rng: Rng, aim: Aim) -> Blow:
        peer = rng.pick(broker_ids(aim.shape)) if rng.ratio(1, 2) else None
        target = ClientPlace(place=rng.between(1, aim.shape.places))
        return Blow(fault=what(rng, aim.shape, peer), target=target, lasts_ms=how_long(rng, aim.shape))

    return draw


KINDS: tuple[Kind, ...] = (
    Kind(
        name="place-isolated",
        says="the clients at one place cut off from all brokers",
        draw=_at_a_place(_isolating_fault, lasting),
        places_min=2,
    ),
    Kind(
        name="place-cut",
        says="the clients at one place cut off from one broker",
        draw=_at_a_place(_cutting_fault, around_session),
        places_min=2,
    ),
    Kind(
        name="place-one-way",
        says="links of the clients at one place cut in one direction only",
        draw=_at_a_place(_one_way, lasting),
        places_min=2,
    ),
    Kind(
        name="place-slow",
        says="links of the clients at one place that take longer",
        draw=_at_a_place(_slow, lasting),
        places_min=2,
    ),
    Kind(
        name="place-lossy",
        says="links of the clients at one place that lose packets, which TCP repeats",
        draw=_at_a_place(_lossy, lasting),
        places_min=2,
    ),
    Kind(
        name="place-reset",
        says="connections of the clients at one place that break again and again",
        draw=_at_a_place(_reset, brief),
        places_min=2,
    ),
)
