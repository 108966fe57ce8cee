"""The fault windows of a run with categories, which give colours; a kind that no family has is shown as "other"."""

from dataclasses import dataclass
from typing import Literal, assert_never

from history.fault_kinds import family_of

Category = Literal["network", "process", "clock", "disk", "zookeeper", "other"]
# Kinds whose category is not that of their family
_BY_KIND: dict[str, Category] = {
    "bounce-at-once": "process",
    "crash-at-step": "process",
    "isr-down-dir-unreadable": "disk",
    "restart": "process",  # plans name it, no seed draws it
}
CATEGORIES: tuple[Category, ...] = ("network", "process", "disk", "clock", "zookeeper", "other")


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultWindow:
    """One fault from begin to end. `acted` counts dropped messages, refused writes, killed processes; 0: no effect."""

    id: str
    kind: str
    category: Category
    nodes: tuple[str, ...]
    start_ns: int
    end_ns: int
    acted: int


def category_of(kind: str) -> Category:
    """The category (such as network or disk) of a kind of fault."""
    if kind in _BY_KIND:
        return _BY_KIND[kind]
    match family_of(kind):
        case "partition" | "network" | "place" | "message":
            return "network"
        case "pause" | "crash" | "roll":
            return "process"
        case "disk" | "power":
            return "disk"
        case "clock":
            return "clock"
        case "session" | "zookeeper":
            return "zookeeper"
        case "point" | "step" | "combined" | None:
            return "other"
        case family:
            assert_never(family)
