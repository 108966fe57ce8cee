"""SVG elements as strings, shared by all figures. Pure, whole pixels, the same string for the same input.

Colours are classes that `static/report.css` defines, so that figures follow the page into dark mode and print.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from markupsafe import escape

from reports.windows import CATEGORIES, FaultWindow

LEFT = 96  # px for labels
PLOT = 1000  # px for time
WIDTH = LEFT + PLOT + 20
NS_PER_S = 1_000_000_000
# U+2400 and following picture the control characters; of those above U+007F only the number can be shown.
_CONTROL = {code: chr(0x2400 + code) for code in range(32) if chr(code) not in "\t\n"}
_CONTROL |= {127: "\u2421"} | {code: f"<U+{code:04X}>" for code in (*range(0x80, 0xA0), 0x200E, 0x200F, *range(0x202A, 0x202F))}
_CONTROL |= {code: f"<U+{code:04X}>" for code in (*range(0x2066, 0x206A), 0xFEFF)}
_STRIP = 4  # px of one row of fault bars


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeScale:
    """Converts nanoseconds to pixels. Times outside of the scale are drawn at the edge."""

    start_ns: int
    end_ns: int

    def x(self, time_ns: int) -> int:
        """The pixel column of a time, LEFT..LEFT+PLOT."""
        span = max(self.end_ns - self.start_ns, 1)
        return LEFT + min(max((time_ns - self.start_ns) * PLOT // span, 0), PLOT)

    def shows(self, start_ns: int, end_ns: int) -> bool:
        """Whether a time span overlaps the visible time of the figure."""
        return start_ns <= self.end_ns and end_ns >= self.start_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Backdrop:
    """The fault windows (from begin to end of each fault) and milestones drawn behind every figure over time."""

    windows: tuple[FaultWindow, ...]
    milestones: tuple[tuple[int, str], ...]  # time in ns, words


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointer:
    """A time to mark in a figure: when a witness of an anomaly was recorded."""

    time_ns: int
    words: str


def seconds(time_ns: int, digits: int = 3) -> str:
    """Format a time in seconds, "12.345": truncated, by integer arithmetic."""
    sign = "-" if time_ns < 0 else ""
    units = abs(time_ns) // 10 ** (9 - digits)
    whole, part = divmod(units, 10**digits)
    return f"{sign}{whole}.{part:0{digits}d}" if digits else f"{sign}{whole}"


def latency_words(latency_ns: int | None) -> str:
    """Format a duration: "0.7 ms", "48 ms", "1.25 s"."""
    if latency_ns is None:
        return "none"
    if latency_ns < 10_000_000:
        return f"{latency_ns // 1_000_000}.{latency_ns // 100_000 % 10} ms"
    if latency_ns < 1_000_000_000:
        return f"{latency_ns // 1_000_000} ms"
    return f"{seconds(latency_ns, 2)} s"


def from_to(start_ns: int, end_ns: int) -> str:
    """Format a time span: "1.200 to 3.450 s"."""
    return f"{seconds(start_ns)} to {seconds(end_ns)} s"


def figure(height: int, label: str, parts: Iterable[str], scale: TimeScale | None = None) -> str:
    """A whole SVG drawing; `label` is the text for screen readers. With the scale of its time, a script can zoom into it."""
    body = "".join(parts)
    times = "" if scale is None else f' data-start="{scale.start_ns}" data-stop="{scale.end_ns}"'
    return f'<svg class="figure" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}"{times}>{body}</svg>'


def group(process: str, parts: Iterable[str]) -> str:
    """The elements of one process together, so that a filter can hide them."""
    return f'<g data-process="{escape(process)}">{"".join(parts)}</g>'


def visible_text(words: str) -> str:
    """The words with control characters as symbols, so that a reader sees them; line breaks and tabs stay."""
    return words.translate(_CONTROL)


def text(x: int, y: int, words: str, *, css: str = "", anchor: str = "start", title: str = "", dx: int = 0) -> str:
    """The SVG element of a label. A title is shown on hover; `dx` is a distance from a point in time that zooming keeps."""
    inner = f"<title>{escape(visible_text(title))}</title>" if title else ""
    shift = f' dx="{dx}"' if dx else ""
    return f'<text x="{x}" y="{y}"{shift} class="{css}" text-anchor="{anchor}">{escape(visible_text(words))}{inner}</text>'


def rect(x: int, y: int, width: int, height: int, *, css: str, title: str = "") -> str:
    """The SVG element of a box, at least one pixel wide, with a title shown on hover."""
    inner = f"<title>{escape(visible_text(title))}</title>" if title else ""
    return f'<rect x="{x}" y="{y}" width="{max(width, 1)}" height="{height}" class="{css}">{inner}</rect>'


def line(x1: int, y1: int, x2: int, y2: int, *, css: str) -> str:
    """The SVG element of a straight line."""
    return f'<path d="M{x1} {y1}L{x2} {y2}" class="{css}"/>'


def path(d: str, *, css: str, title: str = "") -> str:
    """The SVG element of a path; "" for a path without commands."""
    if not d:
        return ""
    inner = f"<title>{escape(visible_text(title))}</title>" if title else ""
    return f'<path d="{d}" class="{css}">{inner}</path>'


def nice_ticks(low: int, high: int, most: int) -> list[int]:
    """Round numbers for an axis (1, 2 or 5 times a power of ten apart) within low..high, at most `most` of them."""
    step = next(step for step in _round_numbers() if high // step - -(-low // step) + 1 <= most)
    first = -(-low // step) * step
    return list(range(first, high + 1, step))


def _round_numbers() -> Iterator[int]:
    power = 1
    while True:
        yield from (power, 2 * power, 5 * power)
        power *= 10


def colour_of(number: int) -> str:
    """The class of the colour of the process or partition with this number."""
    return f"r{number % 8}"


def y_axis(ticks: Sequence[tuple[int, int]], top: int, bottom: int, words: str, *, title: str = "") -> str:
    """Draw an axis with its name, and a grid line for each tick (value, pixel row)."""
    parts = [line(LEFT, bottom, LEFT + PLOT, bottom, css="axis"), text(LEFT, top - 6, words, css="axis-label", title=title)]
    parts.append(path("".join(f"M{LEFT} {y}h{PLOT}" for _, y in ticks), css="grid"))
    parts += [text(LEFT - 8, y + 4, str(value), css="tick", anchor="end") for value, y in ticks]
    return "".join(parts)


def time_axis(scale: TimeScale, top: int, bottom: int) -> str:
    """Draw the grid lines of the time axis with their seconds below."""
    ticks = nice_ticks(scale.start_ns, scale.end_ns, 12)
    step = ticks[1] - ticks[0] if len(ticks) > 1 else NS_PER_S
    digits = next((d for d in range(9) if step % 10 ** (9 - d) == 0), 9)
    parts = [path("".join(f"M{scale.x(t)} {top}V{bottom}" for t in ticks), css="grid")]
    parts += [text(scale.x(t), bottom + 14, f"{seconds(t, digits)} s", css="tick", anchor="middle") for t in ticks]
    return "".join(parts)


def shade(scale: TimeScale, behind: Backdrop, top: int, bottom: int) -> str:
    """Shade the figure where any fault was active; dashed lines where all faults had ended and the final reads began."""
    held = [(scale.x(w.start_ns), scale.x(w.end_ns)) for w in behind.windows if scale.shows(w.start_ns, w.end_ns)]
    parts = [path(runs(held, top, bottom - top), css="shade")]
    for time_ns, words in behind.milestones:
        if scale.shows(time_ns, time_ns):
            parts.append(path(f"M{scale.x(time_ns)} {top}V{bottom}", css="milestone", title=f"{words} at {seconds(time_ns)} s"))
    return "".join(parts)


def point(scale: TimeScale, pointers: Iterable[Pointer], top: int, bottom: int) -> str:
    """Draw a red vertical line at each time at which a witness of an anomaly was recorded."""
    return "".join(
        path(f"M{scale.x(p.time_ns)} {top}V{bottom}", css="pointer", title=f"{seconds(p.time_ns)} s: {p.words}")
        for p in pointers
        if scale.shows(p.time_ns, p.time_ns)
    )


def strip_height(behind: Backdrop) -> int:
    """The height in px that the bars of `strip` take."""
    return _STRIP * len({window.category for window in behind.windows}) + 2


def strip(scale: TimeScale, behind: Backdrop, top: int) -> str:
    """Draw a thin bar for each fault from begin to end, one row for each category of faults."""
    rows = [category for category in CATEGORIES if any(window.category == category for window in behind.windows)]
    return "".join(
        rect(
            scale.x(w.start_ns),
            top + _STRIP * rows.index(w.category),
            scale.x(w.end_ns) - scale.x(w.start_ns),
            _STRIP - 1,
            css=f"fault {w.category}",
            title=window_words(w),
        )
        for w in behind.windows
        if scale.shows(w.start_ns, w.end_ns)
    )


def window_words(window: FaultWindow) -> str:
    """Describe one fault, its time and effect in a line."""
    nodes = ", ".join(window.nodes)
    on_nodes = f" on {nodes}" if nodes else ""
    return f"{window.id}: {window.kind}{on_nodes}, {from_to(window.start_ns, window.end_ns)}, acted {window.acted} times"


def step_path(points: Iterable[tuple[int, int | None]], end_x: int) -> str:
    """Draw a step line through pixels in order of x. None interrupts the line.

    Of all points in one column only the lowest, the highest and the last are drawn: more would not be visible.
    """
    out: list[str] = []
    pen: tuple[int, int] | None = None
    for x, column in groupby(points, key=lambda point: point[0]):
        ys = [y for _, y in column]
        drawn = [y for y in ys if y is not None]
        if pen is not None and x > pen[0]:
            out.append(f"h{x - pen[0]}")
            pen = (x, pen[1])
        if drawn:
            if pen is None:
                out.append(f"M{x} {drawn[0]}")
                pen = (x, drawn[0])
            for y in _moves_in_column(pen[1], drawn):
                out.append(f"v{y - pen[1]}")
                pen = (x, y)
        if ys[-1] is None:
            pen = None
    if pen is not None and end_x > pen[0]:
        out.append(f"h{end_x - pen[0]}")
    return "".join(out)


def _moves_in_column(start: int, ys: Sequence[int]) -> list[int]:
    """The moves within one column, so that the line covers all its points and ends at the last value."""
    low = min(ys)
    high = max(ys)
    last = ys[-1]
    stops = [y for y in (low, high) if not min(start, last) <= y <= max(start, last)]
    stops.append(last)
    return [y for y, before in zip(stops, [start, *stops], strict=False) if y != before]


def dots(points: Iterable[tuple[int, int]]) -> str:
    """Draw one round dot for each different pixel (by stroke-linecap: round)."""
    return "".join(f"M{x} {y}h0" for x, y in sorted(set(points)))


def runs(columns: Iterable[tuple[int, int]], y: int, height: int) -> str:
    """Draw boxes for spans of pixels (x1, x2); touching spans are joined into one box."""
    merged: list[list[int]] = []
    for x1, x2 in sorted(columns):
        if merged and x1 <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], x2)
        else:
            merged.append([x1, x2])
    return "".join(f"M{x1} {y}h{x2 - x1}v{height}h{x1 - x2}z" for x1, x2 in merged)


def visible(points: Sequence[tuple[int, int | None]], scale: TimeScale) -> Iterator[tuple[int, int | None]]:
    """The points of a curve within the figure's time, preceded by the curve's value at its start."""
    before: int | None = None
    begun = False
    for time_ns, value in points:
        if time_ns < scale.start_ns:
            before = value
            continue
        if time_ns > scale.end_ns:
            break
        if not begun:
            begun = True
            yield scale.start_ns, before
        yield time_ns, value
    if not begun:
        yield scale.start_ns, before
