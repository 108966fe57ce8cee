"""The catalogue: each kind of fault by the name people use, with how to draw one blow of it.

A kind decides what is done, to whom and for how long (`nemesis.blows`); when, and which kinds a run has at all, is
`nemesis.generate`'s. On the command line `select` turns families, mixes and first words into kinds.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from nemesis import blows as b
from nemesis.blows import Draw, blow
from nemesis.faults import Crash, ExpireSession, Links, Partition, Pause, Shutdown

Destroys = Literal["nothing", "unflushed", "everything"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One entry of the catalogue. `destroys` says which bytes a blow may cost for good (docs/promise.md §1)."""

    name: str
    family: str
    says: str  # for people, one line
    draw: Draw
    destroys: Destroys = "nothing"
    everyone: bool = False  # hits all brokers at once, so that it cannot be narrowed to some


class UnknownKindError(ValueError):
    """A name that no kind, family or mix bears."""


def _cut(*links: Links) -> Partition:
    return Partition(links=links)


KINDS: tuple[Kind, ...] = (
    Kind(
        name="partition-halves",
        family="partition",
        says="brokers in two halves, ZooKeeper with the first",
        draw=blow(b.halves, b.everyone, b.lasting),
    ),
    Kind(
        name="partition-ring",
        family="partition",
        says="each broker sees its own majority, no two the same",
        draw=blow(Partition(shape="majorities-ring"), b.everyone, b.lasting),
    ),
    Kind(
        name="partition-bridge",
        family="partition",
        says="two halves that share one broker",
        draw=blow(Partition(shape="bridge"), b.everyone, b.lasting),
    ),
    Kind(
        name="isolate-one",
        family="partition",
        says="one broker alone",
        draw=blow(Partition(), b.one, b.around_session),
    ),
    Kind(
        name="isolate-leader",
        family="partition",
        says="a leader alone, its clients gone",
        draw=blow(Partition(), b.leader, b.around_session),
    ),
    Kind(
        name="isolate-controller",
        family="partition",
        says="the controller alone",
        draw=blow(Partition(), b.controller, b.around_session),
    ),
    Kind(
        name="cut-zookeeper",
        family="partition",
        says="brokers from ZooKeeper only: they go on serving",
        draw=blow(_cut("zookeeper"), b.some_role, b.around_session),
    ),
    Kind(
        name="cut-peers",
        family="partition",
        says="brokers from other brokers only: they stay registered",
        draw=blow(_cut("peers"), b.some_role, b.lasting),
    ),
    Kind(
        name="cut-clients",
        family="partition",
        says="brokers from clients only",
        draw=blow(_cut("clients"), b.some_role, b.brief),
    ),
    Kind(
        name="one-way",
        family="partition",
        says="brokers that hear and are not heard, or the other way round",
        draw=blow(b.one_way, b.some_role, b.around_session),
    ),
    Kind(
        name="packets",
        family="network",
        says="bursts of lost, doubled and overtaking messages between brokers",
        draw=blow(b.packets, b.some_role, b.lasting),
    ),
    Kind(
        name="slow",
        family="network",
        says="links that take longer, up to the lag limit",
        draw=blow(b.slow, b.some_role, b.lasting),
    ),
    Kind(
        name="clog",
        family="network",
        says="links that deliver everything late, at the end",
        draw=blow(b.clog, b.some_role, b.around_session),
    ),
    Kind(
        name="commands-late",
        family="network",
        says="one kind of control request that waits on one link",
        draw=b.commands_late,
    ),
    Kind(
        name="commands-doubled",
        family="network",
        says="one kind of control request that comes twice on one link",
        draw=b.commands_doubled,
    ),
    Kind(
        name="commands-replayed",
        family="network",
        says="old control requests that come again in another life or reign",
        draw=b.commands_replayed,
    ),
    Kind(
        name="reset",
        family="network",
        says="connections that break again and again",
        draw=blow(b.reset, b.some_role, b.brief),
    ),
    Kind(
        name="clock-jump",
        family="clock",
        says="a wall clock that is off by 10 ms to three hours",
        draw=blow(b.clock_jump, b.some_role, b.lasting),
    ),
    Kind(
        name="clock-drift",
        family="clock",
        says="clocks that run a tenth too slow to a third too fast",
        draw=blow(b.clock_drift, b.some_role, b.lasting),
    ),
    Kind(
        name="clock-strobe",
        family="clock",
        says="a wall clock that hops to and fro",
        draw=blow(b.clock_strobe, b.some_role, b.lasting),
    ),
    Kind(
        name="pause-short",
        family="pause",
        says="a process that stands still, back before its session ends",
        draw=blow(Pause(), b.some_role, b.below_session),
    ),
    Kind(
        name="pause-long",
        family="pause",
        says="a process that stands still, back after its session ended",
        draw=blow(Pause(), b.some_role, b.above_session),
    ),
    Kind(
        name="dir-unreadable",
        family="disk",
        says="a log directory without permission",
        draw=blow(b.dir_unreadable, b.some_role, b.brief),
    ),
    Kind(
        name="dir-file",
        family="disk",
        says="a file in the place of a log directory",
        draw=blow(b.dir_file, b.some_role, b.brief),
    ),
    Kind(
        name="dir-removed",
        family="disk",
        says="a log directory that is removed, with a file in its place",
        draw=blow(b.dir_removed, b.one, b.brief),
        destroys="everything",
    ),
    Kind(
        name="dir-failure",
        family="disk",
        says="a log directory that fails with I/O errors",
        draw=blow(b.dir_failure, b.some_role, b.brief),
    ),
    Kind(
        name="dir-drop",
        family="disk",
        says="a log directory that fails and forgets what was not synced",
        draw=blow(b.dir_drop, b.some_role, b.brief),
        destroys="unflushed",
    ),
    Kind(
        name="disk-full",
        family="disk",
        says="a log directory without space",
        draw=blow(b.disk_full, b.some_role, b.brief),
    ),
    Kind(
        name="disk-slow",
        family="disk",
        says="flushes that take longer, up to the lag limit",
        draw=blow(b.disk_slow, b.some_role, b.lasting),
    ),
    Kind(
        name="disk-swap",
        family="disk",
        says="a log directory that comes back empty",
        draw=blow(b.disk_swap, b.one, b.brief),
        destroys="everything",
    ),
    Kind(
        name="controller-kill",
        family="crash",
        says="kill -9 of the controller",
        draw=blow(Crash(), b.controller, b.around_session),
    ),
    Kind(
        name="crash-leader",
        family="crash",
        says="kill -9 of a leader",
        draw=blow(Crash(), b.leader, b.around_session),
    ),
    Kind(
        name="crash-isr-member",
        family="crash",
        says="kill -9 of a follower in the ISR",
        draw=blow(Crash(), b.isr_member, b.around_session),
    ),
    Kind(
        name="crash-random",
        family="crash",
        says="kill -9 of any broker",
        draw=blow(Crash(), b.one, b.lasting),
    ),
    Kind(
        name="crash-several",
        family="crash",
        says="kill -9 of a minority or more at once",
        draw=blow(Crash(), b.several, b.around_session),
    ),
    Kind(
        name="crash-everyone",
        family="crash",
        says="kill -9 of all brokers at once",
        draw=blow(Crash(), b.everyone, b.brief),
        everyone=True,
    ),
    Kind(
        name="shutdown",
        family="crash",
        says="a broker that is asked to end, hands over and comes back",
        draw=blow(Shutdown(), b.some_role, b.around_session),
    ),
    Kind(
        name="bounce",
        family="crash",
        says="kill -9 and back before the session ends",
        draw=b.bounce,
    ),
    Kind(
        name="point-random",
        family="point",
        says="kill -9 between two effects, at a named one",
        draw=b.crash_at,
    ),
    Kind(
        name="point-controller",
        family="point",
        says="kill -9 of the controller between two steps",
        draw=b.controller_crash_at,
    ),
    Kind(
        name="power-loss",
        family="power",
        says="power lost: what was not flushed is gone",
        draw=blow(b.power_loss, b.some_role, b.around_session),
        destroys="unflushed",
    ),
    Kind(
        name="power-loss-everyone",
        family="power",
        says="power lost everywhere at once",
        draw=blow(b.power_loss, b.everyone, b.brief),
        destroys="unflushed",
        everyone=True,
    ),
    Kind(
        name="expire-session",
        family="session",
        says="ZooKeeper ends a session",
        draw=blow(ExpireSession(), b.some_role, b.brief),
    ),
    Kind(
        name="bounce-at-once",
        family="session",
        says="kill -9, the session ended, and registered again before anybody looked",
        draw=b.bounce_at_once,
    ),
    Kind(
        name="zookeeper-down",
        family="zookeeper",
        says="servers of ZooKeeper killed, standing still, or cut off from all brokers",
        draw=blow(b.zookeeper_down, b.everyone, b.around_session),
    ),
)

KIND_NAMES: tuple[str, ...] = tuple(kind.name for kind in KINDS)
FAMILIES: tuple[str, ...] = ("partition", "network", "clock", "pause", "disk", "crash", "point", "power", "session", "zookeeper")

# mixes people ask for by name; members are kinds and families
MIXES: dict[str, tuple[str, ...]] = {
    "calm": (),
    "partitions": ("partition",),
    "crash-heavy": ("crash", "point", "bounce-at-once", "pause"),
    "zk-flap": (
        "cut-zookeeper",
        "zookeeper-down",
        "expire-session",
        "pause-long",
        "controller-kill",
        "bounce",
        "bounce-at-once",
    ),
    "clocks": ("clock", "pause"),
    "all": FAMILIES,
}


def kind(name: str) -> Kind:
    """The kind of this name; KeyError where there is none."""
    for entry in KINDS:
        if entry.name == name:
            return entry
    raise KeyError(name)


def select(names: Iterable[str]) -> tuple[str, ...]:
    """Names of kinds, families, mixes, or the first words of kinds ("isolate", "crash") -> names of kinds, in table order.

    Raises UnknownKindError, with what there is to choose from.
    """
    chosen: set[str] = set()
    for name in names:
        found = _named(name)
        if found is None:
            known = f"kinds {', '.join(KIND_NAMES)}; families {', '.join(FAMILIES)}; mixes {', '.join(MIXES)}"
            raise UnknownKindError(f"unknown fault {name!r}; there are the {known}")
        chosen.update(found)
    return tuple(entry for entry in KIND_NAMES if entry in chosen)


def _named(name: str) -> tuple[str, ...] | None:
    if name in MIXES:
        return select(MIXES[name])
    if name in KIND_NAMES:
        return (name,)
    found = tuple(entry.name for entry in KINDS if entry.family == name or entry.name.startswith(f"{name}-"))
    return found or None
