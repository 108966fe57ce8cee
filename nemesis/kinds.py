"""The catalogue of fault kinds: the names by which people choose faults and campaigns count them.

Each kind is declared with its draws in `nemesis.<family>_kinds`. Which kinds a run has, and when they strike, is decided by
`nemesis.generate`. `select` turns the names of the command line (kinds, families, mixes, first words) into kinds.
"""

from collections.abc import Iterable

from history.errors import unknown
from nemesis import (
    clock_kinds,
    combined_kinds,
    disk_kinds,
    link_kinds,
    place_kinds,
    process_kinds,
    step_kinds,
    zookeeper_kinds,
)
from nemesis.blows import Kind

FAMILIES: tuple[str, ...] = (
    "partition",
    "network",
    "clock",
    "pause",
    "disk",
    "crash",
    "point",
    "power",
    "session",
    "zookeeper",
    "place",
    "step",
    "combined",
)


class UnknownKindError(ValueError):
    """A name that no fault kind, family or mix has; the message lists those that exist."""


def _in_order(kinds: tuple[Kind, ...]) -> tuple[Kind, ...]:
    # By family; within a family as written. Schedules are drawn from this order: another one gives other schedules.
    return tuple(sorted(kinds, key=lambda entry: FAMILIES.index(entry.family)))


KINDS: tuple[Kind, ...] = _in_order(
    (
        *link_kinds.KINDS,
        *clock_kinds.KINDS,
        *process_kinds.KINDS,
        *disk_kinds.KINDS,
        *zookeeper_kinds.KINDS,
        *place_kinds.KINDS,
        *step_kinds.KINDS,
        *combined_kinds.KINDS,
    )
)
KIND_NAMES: tuple[str, ...] = tuple(kind.name for kind in KINDS)

# Mixes by name; their members are kinds and families.
MIXES: dict[str, tuple[str, ...]] = {
    "calm": (),
    "partitions": ("partition",),
    "crash-heavy": ("crash", "point", "bounce-at-once", "pause"),
    "zk-flap": (
        "cut-zookeeper",
        "zookeeper",
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
    """The kind of fault of this name. KeyError for an unknown one."""
    for entry in KINDS:
        if entry.name == name:
            return entry
    raise KeyError(name)


def select(names: Iterable[str]) -> tuple[str, ...]:
    """The kinds of faults that these names mean: names of kinds, families, mixes, or first words of kinds ("isolate").

    Raises UnknownKindError.
    """
    chosen: set[str] = set()
    for name in names:
        found = _named(name)
        if found is None:
            raise UnknownKindError(unknown("fault", name, (*MIXES, *FAMILIES, *KIND_NAMES)))
        chosen.update(found)
    return tuple(entry for entry in KIND_NAMES if entry in chosen)


def _named(name: str) -> tuple[str, ...] | None:
    if name in MIXES:
        return select(MIXES[name])
    if name in KIND_NAMES:
        return (name,)
    found = tuple(entry.name for entry in KINDS if entry.family == name or entry.name.startswith(f"{name}-"))
    return found or None
