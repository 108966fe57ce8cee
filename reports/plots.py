"""Figures of latency and throughput over time, with the faults shaded behind them; one pair for each kind of call.

Latency has a logarithmic axis over whole decades. Each pixel with a call gets a dot; lines show the median and the 99th
percentile of each time bucket. Throughput counts completions.
"""

import math
from collections.abc import Sequence

from history.op import OpType
from reports.calls import Call, quantile
from reports.svg import (
    LEFT,
    NS_PER_S,
    PLOT,
    Backdrop,
    TimeScale,
    dots,
    figure,
    line,
    nice_ticks,
    path,
    seconds,
    shade,
    step_path,
    strip,
    strip_height,
    text,
    time_axis,
)

_TOP = 8
_LATENCY = 150
_RATE = 70
_GAP = 26
_FLOOR_NS = 100_000  # 0.1 ms: the lowest start of the latency axis
_BUCKETS_MAX = 100
_OUTCOMES = (OpType.OK, OpType.FAIL, OpType.INFO)


def bucket_ns(span_ns: int) -> int:
    """A round bucket size (at least 100 ms) that splits the time span of a plot into at most 100 buckets."""
    size = NS_PER_S // 10
    for factor in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000):
        size = NS_PER_S // 10 * factor
        if span_ns // size < _BUCKETS_MAX:
            break
    return size


def call_figure(calls: Sequence[Call], scale: TimeScale, behind: Backdrop, what: str) -> str:
    """Draw latency above and throughput below for client calls of one kind; `what` names the kind."""
    calls = [call for call in calls if scale.shows(*[call.start_ns if call.end_ns is None else call.end_ns] * 2)]
    top = _TOP + strip_height(behind) + 16  # px for the text above the axis
    rate_top = top + _LATENCY + _GAP
    bottom = rate_top + _RATE
    parts = [shade(scale, behind, _TOP, bottom), strip(scale, behind, _TOP), time_axis(scale, top, bottom)]
    parts.append(_latency_svg(calls, scale, top))
    parts.append(_throughput_svg(calls, scale, rate_top))
    return figure(bottom + 22, f"latency and throughput of {what} over time", parts, scale)


def _latency_svg(calls: Sequence[Call], scale: TimeScale, top: int) -> str:
    """Latency of each call, with the median and the 99 % quantile."""
    timed = [(call.end_ns, call.end_ns - call.start_ns, call.type) for call in calls if call.end_ns is not None]
    slowest = max((latency for _, latency, _ in timed), default=_FLOOR_NS)
    quickest = max(min((latency for _, latency, _ in timed), default=_FLOOR_NS), _FLOOR_NS)
    floor = 10 ** math.floor(math.log10(quickest))
    decades = max(math.ceil(math.log10(max(slowest, 10 * floor) / floor)), 1)
    bottom = top + _LATENCY

    def y(latency_ns: int) -> int:
        return bottom - round(math.log10(max(latency_ns, floor) / floor) * _LATENCY / decades)

    parts = [line(LEFT, bottom, LEFT + PLOT, bottom, css="axis"), text(LEFT, top - 6, "latency, logarithmic", css="axis-label")]
    for decade in range(decades + 1):
        tick = floor * 10**decade
        parts.append(path(f"M{LEFT} {y(tick)}h{PLOT}", css="grid"))
        parts.append(text(LEFT - 8, y(tick) + 4, _latency_words(tick), css="tick", anchor="end"))
    for outcome in _OUTCOMES:
        cells = [(scale.x(end), y(latency)) for end, latency, kind in timed if kind is outcome]
        parts.append(path(dots(cells), css=f"dots {outcome.value}"))
    for per_mille, css in ((500, "p50"), (990, "p99")):
        points = [(x, None if latency is None else y(latency)) for x, latency in quantile_points(calls, scale, per_mille)]
        parts.append(path(step_path(points, LEFT + PLOT), css=f"quantile {css}", title=f"{css} of acknowledged calls"))
    return "".join(parts)


def quantile_points(calls: Sequence[Call], scale: TimeScale, per_mille: int) -> list[tuple[int, int | None]]:
    """For each time bucket: its pixel column and the quantile of its acknowledged latencies (ns; None without a call)."""
    size = bucket_ns(scale.end_ns - scale.start_ns)
    buckets: dict[int, list[int]] = {}
    for call in calls:
        if call.type is OpType.OK and call.end_ns is not None:
            buckets.setdefault((call.end_ns - scale.start_ns) // size, []).append(call.end_ns - call.start_ns)
    return [
        (scale.x(scale.start_ns + number * size), quantile(sorted(buckets[number]), per_mille) if number in buckets else None)
        for number in range((scale.end_ns - scale.start_ns) // size + 1)
    ]


def _throughput_svg(calls: Sequence[Call], scale: TimeScale, top: int) -> str:
    """Calls per second by outcome."""
    size = bucket_ns(scale.end_ns - scale.start_ns)
    buckets = (scale.end_ns - scale.start_ns) // size + 1
    counts = {outcome: [0] * buckets for outcome in _OUTCOMES}
    for call in calls:
        number = ((call.start_ns if call.end_ns is None else call.end_ns) - scale.start_ns) // size
        counts[call.type][min(max(number, 0), buckets - 1)] += 1
    most = max(max(column) for column in counts.values()) or 1
    bottom = top + _RATE
    parts = [line(LEFT, bottom, LEFT + PLOT, bottom, css="axis"), text(LEFT, top - 6, "calls per second", css="axis-label")]
    for rate in nice_ticks(0, max(most * NS_PER_S // size, 1), 3):
        tick_y = bottom - rate * size * _RATE // (most * NS_PER_S)
        parts.append(path(f"M{LEFT} {tick_y}h{PLOT}", css="grid"))
        parts.append(text(LEFT - 8, tick_y + 4, str(rate), css="tick", anchor="end"))
    for outcome in _OUTCOMES:
        points = [(scale.x(scale.start_ns + n * size), bottom - count * _RATE // most) for n, count in enumerate(counts[outcome])]
        if any(counts[outcome]):
            d = step_path(points, LEFT + PLOT)
            words = f"{outcome.value}: {sum(counts[outcome])} calls, counted in buckets of {seconds(size, 1)} s"
            parts.append(path(d, css=f"rate {outcome.value}", title=words))
    return "".join(parts)


def _latency_words(latency_ns: int) -> str:
    if latency_ns >= NS_PER_S:
        return f"{latency_ns // NS_PER_S} s"
    return f"{latency_ns // 1_000_000} ms" if latency_ns >= 1_000_000 else "0.1 ms"
