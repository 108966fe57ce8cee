"""The fault windows of a run with categories, which give colours; a kind without one is shown as "other"."""

from dataclasses import dataclass
from typing import Literal

import polars as pl

from checkers.causes.fault_windows import windows

Category = Literal["network", "process", "clock", "disk", "zookeeper", "other"]
# The first match counts: "disk-slow" is a disk fault, "cut-zookeeper" a network fault.
_WORDS: tuple[tuple[Category, tuple[str, ...]], ...] = (
    ("disk", ("disk", "dir", "power")),
    ("clock", ("clock", "skew", "drift", "strobe")),
    ("network", ("partition", "isolate", "cut", "one-way", "packets", "slow", "clog", "reset", "network")),
    ("zookeeper", ("session", "zookeeper", "expire")),
    ("process", ("pause", "crash", "kill", "restart", "bounce")),
)
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
    """The category (such as network or disk) of a kind of fault, found by the words in its name."""
    for category, words in _WORDS:
        if any(word in kind for word in words):
            return category
    return "other"


def windows_of(events: pl.DataFrame, end_ns: int) -> tuple[FaultWindow, ...]:
    """All windows in the order in which they opened. Windows that are still open end at healing, else at `end_ns`."""
    return tuple(
        FaultWindow(
            id=id, kind=kind, category=category_of(kind), nodes=tuple(nodes), start_ns=start_ns, end_ns=last_ns, acted=acted
        )
        for id, kind, nodes, start_ns, last_ns, acted in windows(events, end_ns).iter_rows()
    )
