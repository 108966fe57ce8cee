"""The catalogue of fault kinds: the names by which people choose faults and campaigns count them.

Each kind has its family in `history.fault_kinds` and its draws in `nemesis.<family>_kinds`. Which kinds a run has, and when they
strike, is decided by `nemesis.generate`. `select` turns the names of the command line (kinds, families, mixes, first words) into
kinds.
"""

from collections.abc import Iterable

from history.errors import unknown
from history.fault_kinds import FAMILIES, KIND_NAMES
from nemesis import (
    clock_kinds,
    combined_kinds,
    disk_kinds,
    link_kinds,
    message_kinds,
    place_kinds,
    process_kinds,
    roll_kinds,
    step_kinds,
    zookeeper_kinds,
)
from nemesis.blows import Kind


class UnknownKindError(ValueError):
    """A name that no fault kind, family or mix has; the message lists those that exist."""


KINDS: tuple[Kind, ...] = tuple(
    sorted(
        (
            *link_kinds.KINDS,
            *clock_kinds.KINDS,
            *process_kinds.KINDS,
            *disk_kinds.KINDS,
            *zookeeper_kinds.KINDS,
            *place_kinds.KINDS,
            *step_kinds.KINDS,
            *combined_kinds.KINDS,
            *roll_kinds.KINDS,
            *message_kinds.KINDS,
        ),
        key=lambda entry: KIND_NAMES.index(entry.name),
    )
)

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
    "all": tuple(dict.fromkeys(entry.family for entry in KINDS if not entry.named_only)),
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
        found = _kinds_named(name)
        if found is None:
            raise UnknownKindError(unknown("fault", name, (*MIXES, *FAMILIES, *KIND_NAMES)))
        chosen.update(found)
    return tuple(entry for entry in KIND_NAMES if entry in chosen)


def _kinds_named(name: str) -> tuple[str, ...] | None:
    """The kinds of this mix, family, prefix or name; None if there is none."""
    if name in MIXES:
        return select(MIXES[name])
    if name in KIND_NAMES:
        return (name,)
    names = tuple(entry.name for entry in KINDS if entry.family == name or entry.name.startswith(f"{name}-"))
    return names or None
