"""Pictures of answers: quantiles or intervals as lines on a logarithmic axis, one row for each label. Pure, whole pixels.

A point that lies beyond the axis because it was never reached is drawn as an arrow in a column of its own at the right.
"""

import math
from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct

from reports.svg import figure, line, path, rect, text

_LEFT, _RIGHT, _NEVER = 300, 1040, 1076  # px: labels end, the axis ends, the column of what was never reached
_ROW = 20  # px
_TOP = 18

Mark = Literal["dot", "tick", "end"]


class Point(Struct, frozen=True):
    """A point of a row; `value` is None where it was never reached. `css` gives it another colour than the row's."""

    value: int | None
    mark: Mark
    css: str = ""


class Span(Struct, frozen=True, kw_only=True):
    """A row of a picture: its points, joined by a line. `title` is shown on hover, `css` gives the colour."""

    label: str
    points: tuple[Point, ...]
    title: str
    css: str = "r0"


def span_figure(spans: Sequence[Span], label: str, words: Callable[[int], str], *, never: str = "never") -> str:
    """Draw the spans below each other; `words` formats a value of the axis, `label` is the text for screen readers."""
    values = [point.value for span in spans for point in span.points if point.value is not None]
    axis = _Axis(values)
    bottom = _TOP + _ROW * len(spans)
    parts = [path(f"M{axis.x(tick)} {_TOP}V{bottom}", css="grid") for tick in axis.ticks]
    parts += [text(axis.x(tick), bottom + 14, words(tick), css="tick", anchor="middle") for tick in axis.ticks]
    if any(point.value is None for span in spans for point in span.points):
        parts.append(rect(_NEVER - 18, _TOP, 36, bottom - _TOP, css="beyond"))
        parts.append(text(_NEVER, bottom + 14, never, css="tick", anchor="middle"))
    for number, span in enumerate(spans):
        parts.append(_span_svg(span, axis, _TOP + _ROW * number + _ROW // 2))
    return figure(bottom + 22, label, parts)


class _Axis:
    """Logarithmic over whole decades."""

    def __init__(self, values: Sequence[int]) -> None:
        low, high = max(min(values, default=1), 1), max(max(values, default=1), 1)
        self._low = math.floor(math.log10(low))
        self._high = max(math.ceil(math.log10(high)), self._low + 1)
        steps = (1, 2, 5) if self._high - self._low <= 2 else (1,)
        ticks = [step * 10**decade for decade in range(self._low, self._high + 1) for step in steps]
        self.ticks = [tick for tick in ticks if tick <= 10**self._high]

    def x(self, value: int | None) -> int:
        """The pixel column of a value; values below the axis are drawn at its left end."""
        if value is None:
            return _NEVER
        share = (math.log10(max(value, 1)) - self._low) / (self._high - self._low)
        return _LEFT + round(max(share, 0) * (_RIGHT - _LEFT))


def _span_svg(span: Span, axis: _Axis, y: int) -> str:
    """A row of the figure: its label, its line and its points."""
    xs = [axis.x(point.value) for point in span.points]
    parts = [text(_LEFT - 12, y + 4, span.label, css="row-label", anchor="end")]
    if xs:
        parts.append(line(min(xs), y, max(xs), y, css=f"span {span.css}"))
    for x, point in zip(xs, span.points, strict=True):
        parts.append(_point_svg(x, y, point, point.css or span.css))
    # A transparent box over the row shows its words wherever the pointer is.
    parts.append(rect(0, y - _ROW // 2, _NEVER + 20, _ROW, css="hover", title=f"{span.label}: {span.title}"))
    return "".join(parts)


def _point_svg(x: int, y: int, point: Point, css: str) -> str:
    """A point by its mark; one without a value is an arrow."""
    if point.value is None:
        return path(f"M{x - 5} {y - 5}L{x + 3} {y}L{x - 5} {y + 5}", css=f"arrow {css}")
    match point.mark:
        case "dot":
            return path(f"M{x} {y}h0", css=f"median {css}")
        case "tick":
            return path(f"M{x} {y - 5}v10", css=f"tick-mark {css}")
        case "end":
            return path(f"M{x} {y - 3}v6", css=f"tick-mark {css}")
