"""Plots processor seconds over the size of a history, both logarithmic, as a self-contained SVG file."""

from collections.abc import Iterator, Sequence
from math import ceil, floor, log10

from markupsafe import escape
from msgspec import Struct

_WIDTH, _HEIGHT = 760, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 250, 16, 48
_LINE = 16  # px between two labels
_COLOURS = ("#1b6ca8", "#b5432a", "#2e7d4f", "#7a4fa3")


class Series(Struct, frozen=True, kw_only=True):
    """One line of the plot, with its name; each point is (history size, CPU seconds)."""

    name: str
    points: tuple[tuple[int, float], ...]


def plot(series: Sequence[Series]) -> str:
    """Return the plot as SVG text. A dashed line to the last point of each series shows linear growth."""
    points = [point for column in series for point in column.points]
    x = _Scale([size for size, _ in points], _LEFT, _WIDTH - _RIGHT)
    straight = [column.points[-1][1] * column.points[0][0] / column.points[-1][0] for column in series]
    y = _Scale([*straight, *(seconds for _, seconds in points)], _HEIGHT - _BOTTOM, _TOP)
    body = "\n".join(
        [*_axes(x, y), *(part for at, column in enumerate(series) for part in _line(column, at, x, y)), *_labels(series, y)]
    )
    style = "text{font:12px sans-serif;fill:#444} .grid{stroke:#ddd} .linear{stroke-dasharray:3 4;opacity:.5}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="Seconds of processor over the size of a history">\n<style>{style}</style>\n'
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>\n{body}\n</svg>\n'
    )


class _Scale:
    """A logarithmic axis over whole decades, which maps values to pixels."""

    def __init__(self, values: Sequence[float], start: int, end: int) -> None:
        self.low, self.high = floor(log10(min(values))), ceil(log10(max(values)))
        self._start, self._end = start, end

    def at(self, value: float) -> int:
        share = (log10(value) - self.low) / max(self.high - self.low, 1)
        return round(self._start + share * (self._end - self._start))


def _axes(x: _Scale, y: _Scale) -> Iterator[str]:
    for power in range(x.low, x.high + 1):
        at = x.at(10**power)
        yield f'<line class="grid" x1="{at}" x2="{at}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}"/>'
        yield f'<text x="{at}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle">{10**power:,}</text>'
    for power in range(y.low, y.high + 1):
        at = y.at(10.0**power)
        yield f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{at}" y2="{at}"/>'
        yield f'<text x="{_LEFT - 6}" y="{at + 4}" text-anchor="end">{10.0**power:g} s</text>'
    yield f'<text x="{_LEFT}" y="{_HEIGHT - 8}">size of the history; dashed: linear growth</text>'


def _line(series: Series, at: int, x: _Scale, y: _Scale) -> Iterator[str]:
    colour = _COLOURS[at % len(_COLOURS)]
    drawn = " ".join(f"{x.at(size)},{y.at(seconds)}" for size, seconds in series.points)
    (first, _), (last, ended) = series.points[0], series.points[-1]
    linear = ended * first / last
    yield f'<line class="linear" stroke="{colour}" x1="{x.at(first)}" y1="{y.at(linear)}" x2="{x.at(last)}" y2="{y.at(ended)}"/>'
    yield f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{drawn}"/>'
    yield from (f'<circle fill="{colour}" r="3" cx="{x.at(size)}" cy="{y.at(s)}"/>' for size, s in series.points)


def _labels(series: Sequence[Series], y: _Scale) -> Iterator[str]:
    """The names of the series, at the ends of their lines without overlap."""
    lowest = 0
    for at in sorted(range(len(series)), key=lambda at: y.at(series[at].points[-1][1])):
        lowest = max(lowest + _LINE, y.at(series[at].points[-1][1]) + 4)
        style = f"fill:{_COLOURS[at % len(_COLOURS)]}"
        yield f'<text x="{_WIDTH - _RIGHT + 8}" y="{lowest}" style="{style}">{escape(series[at].name)}</text>'
