"""The fault windows of a run with categories, which give colours; a kind that no family has is shown as "other"."""

from dataclasses import dataclass
from typing import Literal, assert_never

import polars as pl

from checkers.causes.fault_windows import windows
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
        case "partition" | "network" | "place":
            return "network"
        case "pause" | "crash":
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


def windows_of(events: pl.DataFrame, end_ns: int) -> tuple[FaultWindow, ...]:
    """All windows in the order in which they opened. Windows that are still open end at healing, else at `end_ns`."""
    return tuple(
        FaultWindow(
            id=id, kind=kind, category=category_of(kind), nodes=tuple(nodes), start_ns=start_ns, end_ns=last_ns, acted=acted
        )
        for id, kind, nodes, start_ns, last_ns, acted in windows(events, end_ns).iter_rows()
    )
