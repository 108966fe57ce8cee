"""Profiles (`within`, `beyond`): which kinds of faults a run may draw, and on how many replicas they may destroy data.

`within` wounds fewer than min.insync.replicas replicas of any partition at a time, so that nothing may be lost
(docs/promise.md DUR-4, VAC-2). `beyond` has no such limit, so that checkers must excuse losses by wounds. A wounded replica
counts until it is in the ISR again, which a plan cannot foresee; therefore `within` wounds only the same few brokers in a run.
"""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from history.seed import Rng
from nemesis.blows import Kind
from nemesis.faults import AnyFault, wounds
from nemesis.kinds import KINDS, kind
from nemesis.schedule import Shape, Window, broker_ids
from nemesis.targets import Named

ProfileName = Literal["within", "beyond"]
PROFILES: tuple[ProfileName, ...] = ("within", "beyond")


class Profile(Struct, frozen=True, kw_only=True):
    """A named way to draw fault schedules. With `swarm` each run leaves out randomly drawn kinds of faults."""

    name: ProfileName
    kinds: tuple[str, ...]
    swarm: bool = True


def default_kinds(name: ProfileName, shape: Shape) -> tuple[str, ...]:
    """The kinds of faults of a run without `--faults`; under profile `within`, only those that excuse no loss on this cluster."""
    kinds = [entry for entry in KINDS if _can_act(entry, shape) and not entry.named_only]
    return tuple(entry.name for entry in kinds if name == "beyond" or _is_free(entry, shape))


def _is_free(entry: Kind, shape: Shape) -> bool:
    if entry.destroys == "nothing":
        return True
    return entry.family == "power" and all(topic.flush == "before_ack" for topic in shape.topics)


def usable(profile: Profile, shape: Shape) -> tuple[Kind, ...]:
    """The kinds of faults of a profile that this cluster allows, in the order of the catalogue."""
    kinds = [entry for entry in map(kind, profile.kinds) if _can_act(entry, shape)]
    return tuple(entry for entry in kinds if profile.name == "beyond" or _may_strike(entry, shape))


def _can_act(entry: Kind, shape: Shape) -> bool:
    return entry.servers_min <= shape.zookeeper and entry.places_min <= shape.places


def _may_strike(entry: Kind, shape: Shape) -> bool:
    """Whether profile `within` allows this kind: it destroys no promised data, or that of some brokers while others hold it."""
    spared = [topic for topic in shape.topics if entry.destroys == "everything" or topic.flush == "none"]
    if entry.destroys == "nothing" or not spared:
        return True
    return not entry.everyone and min(topic.min_insync_replicas for topic in spared) > 1


def victims_order(rng: Rng, shape: Shape) -> tuple[int, ...]:
    """The brokers in a randomly drawn order; data may be destroyed on the first of them (see `victims`)."""
    return tuple(rng.shuffled(broker_ids(shape)))


def victims(fault: AnyFault, shape: Shape, order: Sequence[int]) -> tuple[int, ...]:
    """The brokers whose data faults may destroy under profile `within`: one fewer than the least min.insync.replicas.

    All faults take prefixes of one order, so that they do not wound different brokers.
    """
    wounded = [topic.min_insync_replicas for topic in shape.topics if wounds(fault, topic.flush)]
    return tuple(order[: min(wounded) - 1]) if wounded else tuple(order)


def excess(windows: Sequence[Window], shape: Shape) -> str | None:
    """Why a schedule may wound more replicas than profile `within` allows; None if it cannot."""
    for topic in shape.topics:
        wounding = [window for window in windows if wounds(window.fault, topic.flush)]
        hit: set[int] = set()
        for window in wounding:
            if not isinstance(window.target, Named):
                return f"window {window.id} ({window.kind}) wounds {topic.name} and does not name its brokers"
            hit.update(window.target.brokers)
        if len(hit) >= topic.min_insync_replicas:
            least = topic.min_insync_replicas
            return f"{len(hit)} brokers may lose records of {topic.name}; min.insync.replicas is {least}"
    return None
