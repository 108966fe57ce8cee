"""Fault windows, the time from a fault's begin to its end: their times, nodes and effects, read from a history.

A window without an end lasts until the cluster was healed, else to the end of the run. Categories give colours; a kind without a
category is shown as "other".
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from history.event import ClusterEvent, EventKind

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


@dataclass(slots=True, kw_only=True)
class _Open:
    kind: str
    start_ns: int
    end_ns: int | None = None
    nodes: list[str] = field(default_factory=list)
    acted: int = 0


def category_of(kind: str) -> Category:
    """The category (such as network or disk) of a kind of fault, found by the words in its name."""
    for category, words in _WORDS:
        if any(word in kind for word in words):
            return category
    return "other"


def windows_of(events: Iterable[ClusterEvent], end_ns: int) -> tuple[FaultWindow, ...]:
    """All faults of a history with begin and end, in the order in which they began. Open ones end at `end_ns`."""
    windows: dict[str, _Open] = {}
    healed_ns = end_ns
    for event in events:
        if event.kind is EventKind.HEALED:
            healed_ns = event.time_ns
        if event.fault is None:
            continue
        match event.kind:
            case EventKind.FAULT_BEGUN:
                window = windows.setdefault(event.fault, _Open(kind=event.detail or "fault", start_ns=event.time_ns))
                if event.node is not None and event.node not in window.nodes:
                    window.nodes.append(event.node)
            case EventKind.FAULT_ENDED if event.fault in windows:
                windows[event.fault].end_ns = event.time_ns
            case EventKind.FAULT_ACTED if event.fault in windows:
                windows[event.fault].acted += 1 if event.count is None else event.count
            case _:
                pass
    return tuple(
        FaultWindow(
            id=name,
            kind=window.kind,
            category=category_of(window.kind),
            nodes=tuple(sorted(window.nodes)),
            start_ns=window.start_ns,
            end_ns=max(window.start_ns, healed_ns if window.end_ns is None else window.end_ns),
            acted=window.acted,
        )
        for name, window in windows.items()
    )
