"""The state of each broker over time: up or down, registered in ZooKeeper, controller.

Up and down are observed by the harness from its process, registered is taken from ZooKeeper, and controller is what the broker
believes: a paused controller still believes that it is the controller.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from history.event import ClusterEvent, EventKind

Span = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTrack:
    """The states of one broker over time, as spans (start_ns, end_ns); spans as controller begin with the controller epoch."""

    node: str
    down: tuple[Span, ...]
    registered: tuple[Span, ...]
    reigns: tuple[tuple[int | None, int, int], ...]


@dataclass(slots=True)
class _Node:
    down: list[Span] = field(default_factory=list)
    registered: list[Span] = field(default_factory=list)
    reigns: list[tuple[int | None, int, int]] = field(default_factory=list)
    down_since: int | None = None
    registered_since: int | None = None
    reign: tuple[int | None, int] | None = None

    def handle(self, event: ClusterEvent) -> None:
        """Take in an event of the broker."""
        now = event.time_ns
        match event.kind:
            case EventKind.NODE_STARTED:
                self.end_down(now)
            case EventKind.NODE_STOPPED:
                self.end_reign(now)
                self.end_down(now)
                self.down_since = now
            case EventKind.REGISTERED:
                self.end_registered(now)
                self.registered_since = now
            case EventKind.SESSION_ENDED:
                self.end_registered(now)
            case EventKind.CONTROLLER_ELECTED:
                self.end_reign(now)
                self.reign = (event.controller_epoch, now)
            case EventKind.CONTROLLER_RESIGNED:
                self.end_reign(now)
            case _:
                pass

    def end_down(self, now: int) -> None:
        if self.down_since is not None:
            self.down.append((self.down_since, now))
            self.down_since = None

    def end_registered(self, now: int) -> None:
        if self.registered_since is not None:
            self.registered.append((self.registered_since, now))
            self.registered_since = None

    def end_reign(self, now: int) -> None:
        if self.reign is not None:
            self.reigns.append((*self.reign, now))
            self.reign = None


def nodes_of(events: Iterable[ClusterEvent], brokers: Sequence[str], end_ns: int) -> tuple[NodeTrack, ...]:
    """The states over time of each broker, in the manifest's order. Spans that are still open end at `end_ns`."""
    nodes = {broker: _Node() for broker in brokers}
    for event in events:
        if event.node in nodes and event.partition is None:
            nodes[event.node].handle(event)
    for node in nodes.values():
        node.end_down(end_ns)
        node.end_registered(end_ns)
        node.end_reign(end_ns)
    return tuple(
        NodeTrack(node=name, down=tuple(n.down), registered=tuple(n.registered), reigns=tuple(n.reigns))
        for name, n in nodes.items()
    )
