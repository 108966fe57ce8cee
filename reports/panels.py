"""Numbers over time: panels below the bars of the faults, with one time axis; each has a line for each process."""

from collections.abc import Sequence
from dataclasses import dataclass

from reports.bands import ROW, bands, shown
from reports.svg import (
    LEFT,
    PLOT,
    Backdrop,
    TimeScale,
    figure,
    group,
    nice_ticks,
    path,
    shade,
    step_path,
    text,
    time_axis,
    visible,
    y_axis,
)

_TOP = 8
_PANEL = 48  # px
_GAP = 26
_LETTER = 7  # px of a letter of the legend, roughly
_DODGE = 2  # px between lines with equal values, so that each is visible
_DODGE_MAX = 8  # px: more would show another value
Points = tuple[tuple[int, int | None], ...]  # time in ns, value; None: the line ends


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelLine:
    """One line of a panel. `process` is whose it is, for the filter of the page; `colour` is a class of `static/report.css`.

    `name` stands above the panel; "" if the legend of the figure has it.
    """

    title: str
    name: str = ""
    process: str
    colour: str
    points: Points


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One panel: its name, what is shown where the pointer rests on it, and its lines. Values are 0 or more."""

    name: str
    title: str
    lines: tuple[PanelLine, ...]

    @property
    def most(self) -> int:
        """The greatest value, or 1."""
        return max((value for one in self.lines for _, value in one.points if value is not None), default=1) or 1


def panels_figure(
    panels: Sequence[Panel], scale: TimeScale, behind: Backdrop, *, label: str, legend: Sequence[tuple[str, str]] = ()
) -> str:
    """Draw the panels; "" without any. `label` is the text for screen readers, `legend` has words with their colours."""
    if not panels:
        return ""
    rows = shown(behind.windows, scale)
    top = _TOP + ROW * len(rows) + _GAP
    bottom = top + (_PANEL + _GAP) * len(panels) - _GAP
    parts = [shade(scale, behind, _TOP, bottom), bands(rows, scale, _TOP), time_axis(scale, top, bottom)]
    parts.append(_legend_svg(legend, top - 8, LEFT))
    parts += [_panel_svg(panel, scale, top + (_PANEL + _GAP) * number) for number, panel in enumerate(panels)]
    return figure(bottom + 22, label, parts, scale)


def _legend_svg(legend: Sequence[tuple[str, str]], y: int, left: int) -> str:
    """Words in their colours, the last one at the right edge; what does not fit is told where the pointer rests on a line."""
    parts = []
    x = LEFT + PLOT
    for words, colour in reversed(legend):
        if x - _LETTER * len(words) < left:
            parts.append(text(x, y, "…", css="lane-label", anchor="end"))
            break
        parts.append(text(x, y, words, css=f"lane-label {colour}", anchor="end"))
        x -= _LETTER * len(words) + 16
    return "".join(parts)


def _panel_svg(panel: Panel, scale: TimeScale, top: int) -> str:
    """One panel: its axis and its lines."""
    bottom = top + _PANEL
    ticks = [(value, bottom - value * _PANEL // panel.most) for value in nice_ticks(0, panel.most, 3)]
    behind_the_name = LEFT + _LETTER * len(panel.name) + 16
    parts = [y_axis(ticks, top, bottom, panel.name, title=panel.title)]
    parts.append(_legend_svg([(one.name, one.colour) for one in panel.lines if one.name], top - 6, behind_the_name))
    for number, one in enumerate(panel.lines):
        up = min(_DODGE * number, _DODGE_MAX)
        pixels = [
            (scale.x(t), None if value is None else bottom - up - value * _PANEL // panel.most)
            for t, value in visible(one.points, scale)
        ]
        d = step_path(pixels, scale.x(scale.end_ns))
        parts.append(group(one.process, [path(d, css=f"leo {one.colour}", title=one.title)]))
    return "".join(parts)
