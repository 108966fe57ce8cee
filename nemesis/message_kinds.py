"""The kinds of faults that pick single messages of Kafka's protocol, by API key: late, held, lost, or repeated by TCP.

No mix has them: the simulator's connections pick no messages. Seeds of other systems draw some of them beside the rounds of their
schedule (`highwater.plans.derive`). Which messages there are depends on the workload (`Shape.requests`). Most faults are at the
door of the clients at one place, and pick one kind of request or its answers. A client that gets no answer sends its request
again, so a late request, and one whose answer is lost, arrive twice.
"""

from collections.abc import Callable

from msgspec import UNSET, UnsetType

from history.seed import Rng
from nemesis.blows import Aim, Blow, Kind, around_session, some_role
from nemesis.faults import AnyFault, Clog, Connection, Direction, Links, Packets, Reset, Slow
from nemesis.messages import QUORUM_FETCH, REPLY
from nemesis.schedule import Shape
from nemesis.targets import AnyTarget, ClientPlace

# Between brokers: with ZooKeeper, with KRaft, and with both. A system that has no such message leaves the window out.
_AMONG_BROKERS = ("fetch", "fetch", "alter-partition", "broker-heartbeat", QUORUM_FETCH, "leader-and-isr", "update-metadata")
_OF_ANY_CLIENT = ("produce", "fetch")
_LASTS_MS_MIN = 3000
_CHANCES = (100, 250, 500)
What = Callable[[Rng, "_Picked"], AnyFault]


class _Picked:
    """Which messages a window picks: one kind of request, or of answers, on the links of a target."""

    def __init__(self, rng: Rng, aim: Aim) -> None:
        shape = aim.shape
        at_the_door = rng.ratio(3, 4)
        request = rng.pick(shape.requests or _OF_ANY_CLIENT) if at_the_door else rng.pick(_AMONG_BROKERS)
        self.answers = rng.ratio(1, 3)
        self.kinds = (f"{request}{REPLY}" if self.answers else request,)
        self.links: tuple[Links, ...] = ("clients",) if at_the_door else ("peers",)
        self.target: AnyTarget = ClientPlace(place=rng.between(1, shape.places)) if at_the_door else some_role(rng, aim)
        self.per_mille = rng.pick(_CHANCES)
        self.connection: Connection | UnsetType = "one" if rng.ratio(1, 4) else UNSET
        # As seen from the target: clients send requests, and brokers send and take both.
        one_way: Direction = ("inbound" if self.answers else "outbound") if at_the_door else rng.pick(("inbound", "outbound"))
        self.direction: Direction | UnsetType = one_way if rng.ratio(1, 2) else UNSET


def _late(rng: Rng, of: _Picked) -> AnyFault:
    """Draw a fault: messages are late by more than most clients wait, or by less."""
    return Slow(
        extra_ms=rng.pick((500, 1500, 3000, 6000)),
        links=of.links,
        kinds=of.kinds,
        chance_per_mille=of.per_mille,
        direction=of.direction,
        connection=of.connection,
    )


def _held(_: Rng, of: _Picked) -> AnyFault:
    """Draw a fault: messages wait until the window ends."""
    return Clog(
        links=of.links,
        kinds=of.kinds,
        chance_per_mille=of.per_mille,
        direction="both" if isinstance(of.direction, UnsetType) else of.direction,
        connection=of.connection,
    )


def _lost(_: Rng, of: _Picked) -> AnyFault:
    """Draw a fault: the connection breaks at a message, which does not arrive."""
    return Reset(links=of.links, kinds=of.kinds, chance_per_mille=of.per_mille, direction=of.direction, connection=of.connection)


def _dropped(rng: Rng, of: _Picked) -> AnyFault:
    """Draw a fault: TCP sends the bytes of a message again."""
    return Packets(drop_per_mille=rng.pick((100, 300, 750)), kinds=of.kinds, direction=of.direction, connection=of.connection)


def _for_long(rng: Rng, shape: Shape) -> int:
    """Duration of a fault: from 3 s to two fifths of the schedule, because most requests of sessions are rare."""
    return rng.between(_LASTS_MS_MIN, max(_LASTS_MS_MIN, shape.end_ms * 2 // 5))


def _single(what: What, how_long: Callable[[Rng, Shape], int] = _for_long) -> Callable[[Rng, Aim], Blow]:
    """Combine draws of the messages, of what is done to them and of the duration; in one draw of two a second window follows."""

    def draw(rng: Rng, aim: Aim) -> Blow:
        first, *later = [_drawn(rng.fork(f"window {number}"), aim) for number in range(1 + rng.below(2))]
        beside = tuple(Blow(fault=b.fault, target=b.target, lasts_ms=b.lasts_ms, after_ms=first.lasts_ms + 100) for b in later)
        return Blow(fault=first.fault, target=first.target, lasts_ms=first.lasts_ms, beside=beside)

    def _drawn(rng: Rng, aim: Aim) -> Blow:
        picked = _Picked(rng, aim)
        return Blow(fault=what(rng, picked), target=picked.target, lasts_ms=how_long(rng, aim.shape))

    return draw


KINDS: tuple[Kind, ...] = (
    Kind(
        name="message-late",
        says="one kind of request, or its answer, arrives late, perhaps after its sender gave it up and asked again",
        draw=_single(_late),
        named_only=True,
    ),
    Kind(
        name="message-held",
        says="one kind of request, or its answer, waits until the window ends",
        draw=_single(_held, around_session),
        named_only=True,
    ),
    Kind(
        name="message-lost",
        says="connections break at one kind of request, or at its answer, so that it is asked again",
        draw=_single(_lost),
        named_only=True,
    ),
    Kind(
        name="message-dropped",
        says="the bytes of one kind of request, or of its answer, are lost, and TCP sends them again",
        draw=_single(_dropped),
        named_only=True,
    ),
)
