"""The figure of one partition over time: a lane for each replica (role, leader epoch, ISR), its LEO and HW, and its lag.

The lanes show which replica led under which epoch and which replicas ZooKeeper listed in the ISR. The lines below show what each
replica held. The figure is drawn on the pixel grid (`svg.step_path`), so its size does not grow with the run.
"""

from collections.abc import Sequence

from reports.bands import ROW, bands, paused, shown
from reports.replicas import PartitionTrack, Point, ReplicaTrack, RoleSpan
from reports.svg import (
    LEFT,
    Backdrop,
    Pointer,
    TimeScale,
    colour_of,
    figure,
    from_to,
    group,
    nice_ticks,
    path,
    point,
    rect,
    seconds,
    shade,
    step_path,
    text,
    time_axis,
    visible,
    y_axis,
)

_TOP = 8
_LANE = 24  # px from lane to lane
_BAR = 18  # drawn px of a lane
_OFFSETS = 140
_LAG = 56
_GAP = 26
_DODGE = 2  # px between the lines of replicas that are equal, so that each line is visible


def partition_figure(
    track: PartitionTrack,
    scale: TimeScale,
    behind: Backdrop,
    *,
    brokers: Sequence[str],
    pointers: Sequence[Pointer] = (),
) -> str:
    """Draw the figure of one partition's replicas over time. `brokers` fixes the colour of each replica in all figures."""
    colours = {node: colour_of(brokers.index(node)) if node in brokers else "r7" for node in (r.node for r in track.replicas)}
    rows = shown(behind.windows, scale)
    lanes_top = _TOP + ROW * len(rows) + 2
    lanes_end = lanes_top + _LANE * len(track.replicas)
    offsets_top = lanes_end + _GAP
    lag_top = offsets_top + _OFFSETS + _GAP
    bottom = lag_top + _LAG
    parts = [shade(scale, behind, _TOP, bottom), bands(rows, scale, _TOP), time_axis(scale, lanes_top, bottom)]
    for number, replica in enumerate(track.replicas):
        y = lanes_top + _LANE * number
        colour = colours[replica.node]
        parts.append(group(replica.node, [_lane_svg(replica, scale, y, colour), _pauses_svg(replica.node, scale, behind, y)]))
    parts.append(_offsets_svg(track, scale, offsets_top, colours))
    parts.append(_lags_svg(track, scale, lag_top, colours))
    parts.append(point(scale, pointers, _TOP, bottom))
    return figure(
        bottom + 22, f"{track.key}: role, ISR, log end offset and high watermark of each replica over time", parts, scale
    )


def _pauses_svg(node: str, scale: TimeScale, behind: Backdrop, y: int) -> str:
    """The bars of a node's pauses."""
    return "".join(
        rect(
            scale.x(start), y, scale.x(end) - scale.x(start), _BAR, css="paused", title=f"{node} is paused, {from_to(start, end)}"
        )
        for start, end in paused(behind.windows, node)
        if scale.shows(start, end)
    )


def _lane_svg(replica: ReplicaTrack, scale: TimeScale, y: int, colour: str) -> str:
    """The lane of a replica: its ISR membership, its roles and its marks."""
    parts = [text(LEFT - 8, y + 13, replica.node, css=f"lane-label {colour}", anchor="end")]
    for start, end in replica.in_isr:
        if scale.shows(start, end):
            words = f"{replica.node} in the ISR, {from_to(start, end)}"
            parts.append(rect(scale.x(start), y, scale.x(end) - scale.x(start), _BAR, css=f"isr {colour}", title=words))
    parts += [
        _role_svg(span, scale, y, colour, replica.node) for span in replica.roles if scale.shows(span.start_ns, span.end_ns)
    ]
    for mark in replica.marks:
        if scale.shows(mark.time_ns, mark.time_ns):
            x = scale.x(mark.time_ns)
            d = f"M{x - 4} {y - 3}h8l-4 8z" if mark.kind == "truncate" else f"M{x - 4} {y + 4}l8 8m0-8l-8 8"
            parts.append(path(d, css=f"mark {mark.kind}", title=f"{seconds(mark.time_ns)} s: {mark.words}"))
    return "".join(parts)


def _role_svg(span: RoleSpan, scale: TimeScale, y: int, colour: str, node: str) -> str:
    """The bar of a role, with the leader epoch if it fits."""
    x = scale.x(span.start_ns)
    width = scale.x(span.end_ns) - scale.x(span.start_ns)
    epoch = "" if span.leader_epoch is None else str(span.leader_epoch)
    when = from_to(span.start_ns, span.end_ns)
    label_fits = width >= 7 * len(epoch) + 6
    match span.role:
        case "leader":
            bar = rect(x, y + 2, width, _BAR - 4, css=f"lead {colour}", title=f"{node} leads, leader epoch {epoch}, {when}")
            return bar + (text(x, y + 13, epoch, css="epoch-lead", dx=4) if label_fits and epoch else "")
        case "follower":
            title = f"{node} follows, leader epoch {epoch}, {when}"
            bar = rect(x, y + 14, width, 3, css=f"follow {colour}", title=title)
            return bar + (text(x, y + 12, epoch, css="epoch", dx=4) if label_fits and epoch else "")
        case "down":
            return rect(x, y, width, _BAR, css="down", title=f"{node} is down, {when}")
        case "idle":
            return ""


def _offsets_svg(track: PartitionTrack, scale: TimeScale, top: int, colours: dict[str, str]) -> str:
    """LEO and HW of all replicas over time."""
    leo = [list(visible(r.leo, scale)) for r in track.replicas]
    hw = [list(visible(r.hw, scale)) for r in track.replicas]
    values = [value for points in (*leo, *hw) for _, value in points if value is not None]
    if not values:
        return text(LEFT + 8, top + 20, "no replica reported its log", css="tick")
    low, high = min(values), max(max(values), min(values) + 1)
    if low <= (high - low) // 4:
        low = 0
    bottom = top + _OFFSETS

    def pixels(points: Sequence[Point], up: int) -> list[tuple[int, int | None]]:
        span = high - low
        return [(scale.x(t), None if v is None else bottom - up - (v - low) * _OFFSETS // span) for t, v in points]

    ticks = [(v, bottom - (v - low) * _OFFSETS // (high - low)) for v in nice_ticks(low, high, 6)]
    parts = [y_axis(ticks, top, bottom, "offset: log end solid, high watermark dashed")]
    for number, (replica, leos, hws) in enumerate(zip(track.replicas, leo, hw, strict=True)):
        colour, end, up = colours[replica.node], scale.x(scale.end_ns), _DODGE * number
        hw_line = path(step_path(pixels(hws, up), end), css=f"hw {colour}", title=f"HW of {replica.node}")
        leo_line = path(step_path(pixels(leos, up), end), css=f"leo {colour}", title=f"LEO of {replica.node}")
        parts.append(group(replica.node, [hw_line, leo_line]))
    return "".join(parts)


def lag_points(track: PartitionTrack) -> tuple[tuple[Point, ...], ...]:
    """For each replica over time: how many records its LEO is behind the highest LEO of the replicas that are up."""
    moves = [(t, number, v) for number, replica in enumerate(track.replicas) for t, v in replica.leo]
    moves.sort(key=lambda move: move[0])
    now: list[int | None] = [None] * len(track.replicas)
    lags: list[list[Point]] = [[] for _ in track.replicas]
    for time_ns, number, value in moves:
        now[number] = value
        longest = max((v for v in now if v is not None), default=0)
        for line_of, leo in zip(lags, now, strict=True):
            lag = None if leo is None else longest - leo
            if not line_of or line_of[-1][1] != lag:
                line_of.append((time_ns, lag))
    return tuple(tuple(points) for points in lags)


def _lags_svg(track: PartitionTrack, scale: TimeScale, top: int, colours: dict[str, str]) -> str:
    """How many records each replica is behind the longest log."""
    lags = [list(visible(points, scale)) for points in lag_points(track)]
    most = max((v for points in lags for _, v in points if v is not None), default=0)
    bottom = top + _LAG
    if not most:
        return y_axis([], top, bottom, "records behind the longest log: none")
    ticks = [(v, bottom - v * _LAG // most) for v in nice_ticks(0, most, 3)]
    parts = [y_axis(ticks, top, bottom, "records behind the longest log")]
    for replica, points in zip(track.replicas, lags, strict=True):
        pixels = [(scale.x(t), None if v is None else bottom - v * _LAG // most) for t, v in points]
        d = step_path(pixels, scale.x(scale.end_ns))
        parts.append(path(d, css=f"leo {colours[replica.node]}", title=f"{replica.node}: records behind the longest log"))
    return "".join(parts)
