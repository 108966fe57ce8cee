"""Metrics of brokers over time: one panel for each metric that changed, one line for each broker, below the bars of the faults.

A value stands until the next row of its metric, and ends with the process. A plan without scrapes has rows of few metrics.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from checkers.liveness.metrics import short_name
from history.event import ClusterEvent
from history.event import EventKind as K
from reports.bands import ROW, bands, shown
from reports.svg import (
    LEFT,
    PLOT,
    Backdrop,
    TimeScale,
    figure,
    group,
    line,
    nice_ticks,
    path,
    shade,
    step_path,
    text,
    time_axis,
    visible,
)

_TOP = 8
_PANEL = 48  # px
_GAP = 26
_DODGE = 2  # px between the lines of brokers with equal values, so that each is visible
_UNDRAWN = ("LastLeaderElectionTimeMs",)  # a time of the day: no line over time
Points = tuple[tuple[int, int | None], ...]  # time in ns, value; None: the process ended


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
    panels = drawn(tracks)
    if not panels:
        return ""
    rows = shown(behind.windows, scale)
    top = _TOP + ROW * len(rows) + _GAP
    bottom = top + (_PANEL + _GAP) * len(panels) - _GAP
    parts = [shade(scale, behind, _TOP, bottom), bands(rows, scale, _TOP), time_axis(scale, top, bottom)]
    for number, node in enumerate(brokers):
        x = LEFT + PLOT - 36 * (len(brokers) - number - 1)
        parts.append(text(x, top - 8, node, css=f"lane-label r{number % 8}", anchor="end"))
    parts += [_panel_svg(track, scale, top + (_PANEL + _GAP) * number, brokers) for number, track in enumerate(panels)]
    return figure(bottom + 22, "metrics of the brokers over time, with the fault windows", parts, scale)


def _panel_svg(track: MetricTrack, scale: TimeScale, top: int, brokers: Sequence[str]) -> str:
    """One metric: its axis and the line of each broker."""
    bottom = top + _PANEL
    most = max(track.values)
    ticks = [(value, bottom - value * _PANEL // max(most, 1)) for value in nice_ticks(0, max(most, 1), 3)]
    parts = [
        line(LEFT, bottom, LEFT + PLOT, bottom, css="axis"),
        text(LEFT, top - 6, track.name, css="axis-label", title=track.whole),
    ]
    parts.append(path("".join(f"M{LEFT} {y}h{PLOT}" for _, y in ticks), css="grid"))
    parts += [text(LEFT - 8, y + 4, str(value), css="tick", anchor="end") for value, y in ticks]
    for number, (node, points) in enumerate(track.brokers):
        up = _DODGE * number
        pixels = [
            (scale.x(t), None if value is None else bottom - up - value * _PANEL // max(most, 1))
            for t, value in visible(points, scale)
        ]
        d = step_path(pixels, scale.x(scale.end_ns))
        colour = f"r{brokers.index(node) % 8}"
        parts.append(group(node, [path(d, css=f"leo {colour}", title=f"{track.name} of {node}")]))
    return "".join(parts)
