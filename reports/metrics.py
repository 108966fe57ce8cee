"""Metrics of brokers over time: one panel for each metric that changed, one line for each broker, below the bars of the faults.

A value stands until the next row of its metric, and ends with the process. A plan without scrapes has rows of few metrics.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from checkers.liveness.metrics import short_name
from history.event import ClusterEvent
from history.event import EventKind as K
from reports.panels import Panel, PanelLine, Points, panels_figure
from reports.svg import Backdrop, TimeScale, colour_of

_UNDRAWN = ("LastLeaderElectionTimeMs",)  # a time of the day: no line over time


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricTrack:
    """One metric over time: its short name ("LeaderCount"), its whole name, and the points of each broker that told it."""

    name: str
    whole: str
    brokers: tuple[tuple[str, Points], ...]

    @property
    def values(self) -> set[int]:
        """The values that were told, each once."""
        return {value for _, points in self.brokers for _, value in points if value is not None}


def metrics_of(events: Iterable[ClusterEvent], brokers: Sequence[str]) -> tuple[MetricTrack, ...]:
    """The metrics that brokers told, by name."""
    points: dict[str, dict[str, list[tuple[int, int | None]]]] = {}
    for event in events:
        node = event.node or ""
        if event.kind is K.GAUGE and event.detail:
            points.setdefault(event.detail, {}).setdefault(node, []).append((event.time_ns, event.gauge))
        elif event.kind is K.NODE_STOPPED:
            for values_by_node in points.values():
                if node in values_by_node:
                    values_by_node[node].append((event.time_ns, None))
    return tuple(
        MetricTrack(
            name=short_name(whole) or whole,
            whole=whole,
            brokers=tuple((node, tuple(points[whole][node])) for node in brokers if node in points[whole]),
        )
        for whole in sorted(points)
    )


def drawn(tracks: Sequence[MetricTrack]) -> list[MetricTrack]:
    """The metrics that changed, which the figure shows."""
    return [track for track in tracks if track.name not in _UNDRAWN and len(track.values) > 1]


def steady(tracks: Sequence[MetricTrack]) -> list[str]:
    """The metrics that never changed, each with its value: "UncleanLeaderElectionsPerSec 0"."""
    return [f"{t.name} {value}" for t in tracks if t.name not in _UNDRAWN and len(t.values) == 1 for value in t.values]


def metrics_figure(tracks: Sequence[MetricTrack], scale: TimeScale, behind: Backdrop, *, brokers: Sequence[str]) -> str:
    """Draw the panels of the metrics that changed; "" if none did. `brokers` fixes the colour of each broker in all figures."""
    colours = {node: colour_of(number) for number, node in enumerate(brokers)}
    panels = [
        Panel(
            name=track.name,
            title=track.whole,
            lines=tuple(
                PanelLine(title=f"{track.name} of {node}", process=node, colour=colours[node], points=points)
                for node, points in track.brokers
            ),
        )
        for track in drawn(tracks)
    ]
    label = "metrics of the brokers over time, with the fault windows"
    return panels_figure(panels, scale, behind, label=label, legend=list(colours.items()))
