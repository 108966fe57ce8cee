"""Bars of faults with their names, packed into as few rows as possible, above the figures over time."""

from collections.abc import Sequence

from reports.svg import WIDTH, TimeScale, rect, text, window_words
from reports.windows import FaultWindow

ROW = 16  # px
_LETTER = 6  # px of a letter, roughly; a wrong guess only clips a label


def shown(windows: Sequence[FaultWindow], scale: TimeScale) -> list[list[FaultWindow]]:
    """The faults in the figure's time, in rows."""
    return packed([window for window in windows if scale.shows(window.start_ns, window.end_ns)], scale)


def paused(windows: Sequence[FaultWindow], node: str) -> list[tuple[int, int]]:
    """When a broker was paused, as spans (start_ns, end_ns) of the faults that took effect."""
    return [(w.start_ns, w.end_ns) for w in windows if "pause" in w.kind and node in w.nodes and w.acted]


def bands(rows: Sequence[Sequence[FaultWindow]], scale: TimeScale, top: int) -> str:
    """Draw the rows of bars, each with its name inside or beside it."""
    return "".join(_bars_svg(row, scale, top + ROW * number) for number, row in enumerate(rows))


def _bars_svg(row: Sequence[FaultWindow], scale: TimeScale, y: int) -> str:
    """A row of bars with their labels."""
    parts = []
    for window in row:
        x1, x2 = scale.x(window.start_ns), scale.x(window.end_ns)
        parts.append(rect(x1, y, x2 - x1, ROW - 3, css=f"fault {window.category}", title=window_words(window)))
        inside = _fits(window, scale)
        if _is_before(window, scale):
            parts.append(text(x1, y + 10, _label(window), css="fault-beside", anchor="end", dx=-4))
        else:
            css = "fault-label" if inside else "fault-beside"
            parts.append(text(x1 if inside else x2, y + 10, _label(window), css=css, dx=4))
    return "".join(parts)


def packed(windows: Sequence[FaultWindow], scale: TimeScale) -> list[list[FaultWindow]]:
    """Place the bars of faults with their labels in as few rows as possible without overlap, earliest first."""
    rows: list[list[FaultWindow]] = []
    ends: list[int] = []
    for window in sorted(windows, key=lambda w: (w.start_ns, w.end_ns, w.id)):
        start, end = _columns_with_label(window, scale)
        row = next((number for number, end_of_row in enumerate(ends) if end_of_row <= start), None)
        if row is None:
            rows.append([window])
            ends.append(end)
        else:
            rows[row].append(window)
            ends[row] = end
    return rows


def _label(window: FaultWindow) -> str:
    return f"{window.kind} {' '.join(window.nodes)}".strip() if len(window.nodes) < 3 else window.kind


def _columns_with_label(window: FaultWindow, scale: TimeScale) -> tuple[int, int]:
    """The columns of the bar with its label: inside of the bar, else behind it, else before it where the figure ends."""
    start, end = scale.x(window.start_ns), max(scale.x(window.end_ns), scale.x(window.start_ns) + 1)
    if _is_before(window, scale):
        return start - _width(window), end
    return start, end if _fits(window, scale) else end + _width(window)


def _width(window: FaultWindow) -> int:
    return _LETTER * len(_label(window)) + 8


def _fits(window: FaultWindow, scale: TimeScale) -> bool:
    return scale.x(window.end_ns) - scale.x(window.start_ns) > _width(window) - 2


def _is_before(window: FaultWindow, scale: TimeScale) -> bool:
    return not _fits(window, scale) and scale.x(window.end_ns) + _width(window) > WIDTH
