"""Draws calls as bars in one lane for each process, and an order of them as points joined by a line, as Porcupine does.

The horizontal axis is the order of the history's lines, not time: each invocation and each answer has a column, so that a call of
a microsecond can be read beside one of a minute. Columns are as wide as the words of the bars need. Calls that matter to nobody
are left out, and their number is written where they were.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup, escape

_LANE = 42  # pixels
_BAR = 24
_TOP = 26
_LEFT = 12
_COLUMN_MIN = 18
_LETTER = 6.4  # pixels of one character of a bar's words
_PADDING = 16
_WORDS_MAX = 30  # characters in a bar
_GAP_MIN = 20  # lines that are left out without a note


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A call in its lane. `start` and `end` are positions among the steps; `end` is None if the call never returned.

    `tone` is ok, fail or info; `role` is impossible, witness, blocked or "".
    """

    number: int  # within the page, by which scripts find it
    lane: str
    start: int
    end: int | None
    words: str
    tone: str
    role: str
    details: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A call's place in an order: the number of its bar, its position in the order, and the state after it in words."""

    bar: int
    place: int
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """An order of calls, and why it goes no further: one line for each call that must come next."""

    points: tuple[Point, ...]
    ends: tuple[str, ...]
    stuck: tuple[int, ...] = ()  # the bars of the calls that must come next


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Bars and the ways to order them. `before` says what the ways begin with and is not drawn."""

    bars: tuple[Bar, ...]
    ways: tuple[Way, ...] = ()
    before: str = ""
    whole: bool = True  # all ways are listed


def chart_svg(chart: Chart, *, label: str) -> Markup:
    """Draw a chart. Scripts show one of its ways at a time; without them the first is shown."""
    columns = _Columns(chart.bars)
    lanes = {lane: number for number, lane in enumerate(_lanes(chart.bars))}
    width, height = columns.width + 2 * _LEFT, _TOP + len(lanes) * _LANE + 8
    parts = [
        f'<svg class="lanes" role="group" aria-label="{escape(label)}" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">'
    ]
    for lane, number in lanes.items():
        y = _TOP + number * _LANE
        parts.append(f'<line class="grid" x1="0" x2="{width}" y1="{y + _LANE}" y2="{y + _LANE}"/>')
        parts.append(f'<text class="lane-name" x="4" y="{y + 10}">{escape(lane)}</text>')
    for x, count in columns.gaps():
        parts.append(
            f'<line class="gap" x1="{x}" x2="{x}" y1="14" y2="{height}"><title>{count} lines are left out</title></line>'
        )
        parts.append(f'<text class="gap-label" x="{x}" y="10">{count} lines left out</text>')
    parts.extend(_bar_svg(bar, columns, _y(lanes, bar)) for bar in chart.bars)
    by_number = {bar.number: bar for bar in chart.bars}
    for number, way in enumerate(chart.ways):
        parts.append(_way_svg(number, way, by_number, columns, lanes))
    return Markup("".join([*parts, "</svg>"]))


def _lanes(bars: Iterable[Bar]) -> list[str]:
    return list(dict.fromkeys(bar.lane for bar in sorted(bars, key=lambda bar: bar.start)))


def _y(lanes: dict[str, int], bar: Bar) -> int:
    return _TOP + lanes[bar.lane] * _LANE + 13


class _Columns:
    """The x of each position at which a drawn call begins or ends."""

    def __init__(self, bars: Sequence[Bar]) -> None:
        bar_ends = {bar.end for bar in bars if bar.end is not None}
        self._at = sorted({bar.start for bar in bars} | bar_ends)
        self._x = [_LEFT]
        bars_ending: dict[int, list[Bar]] = {}
        for bar in bars:
            if bar.end is not None:
                bars_ending.setdefault(bar.end, []).append(bar)
        for at in self._at[1:]:
            least = self._x[-1] + _COLUMN_MIN
            self._x.append(max([least, *(self._known(bar.start) + _needed(bar) for bar in bars_ending.get(at, ()))]))
        still = [self._known(bar.start) + _needed(bar) for bar in bars if bar.end is None]
        self.width = max([self._x[-1] + _COLUMN_MIN, *still])

    def _known(self, at: int) -> int:
        return self._x[bisect_left(self._at, at)]

    def x(self, at: int | None) -> int:
        """The x of a position; that of the end for None."""
        return self.width if at is None else self._known(at)

    def segment(self, at: int) -> tuple[int, int]:
        """The x of a position and of the next column."""
        number = bisect_right(self._at, at) - 1
        return self._x[number], (self._x[number + 1] if number + 1 < len(self._x) else self.width)

    def gaps(self) -> list[tuple[int, int]]:
        """Where more than a few lines are left out: x, and how many."""
        places = zip(pairwise(self._at), pairwise(self._x), strict=True)
        return [((x + then) // 2, late - at - 1) for (at, late), (x, then) in places if late - at - 1 >= _GAP_MIN]


def _needed(bar: Bar) -> int:
    return round(len(_short(bar.words)) * _LETTER) + _PADDING


def _short(words: str) -> str:
    return words if len(words) <= _WORDS_MAX else f"{words[: _WORDS_MAX // 2]}…{words[-_WORDS_MAX // 2 :]}"


def _bar_svg(bar: Bar, columns: _Columns, y: int) -> str:
    """The bar of a call; one of unknown outcome is open to the right."""
    x, end = columns.x(bar.start), columns.x(bar.end)
    title = escape("\n".join(bar.details))
    shape = f'<rect x="{x}" y="{y}" width="{max(end - x, 2)}" height="{_BAR}" rx="3"/>'
    if bar.end is None:  # open to the right: nobody knows when it took effect
        shape = f'<path class="open" d="M{end} {y}H{x + 3}q-3 0 -3 3v{_BAR - 6}q0 3 3 3H{end}"/>'
    return (
        f'<g class="call {bar.tone} {bar.role}" tabindex="0" role="button" data-bar="{bar.number}" '
        f'aria-label="{title}"><title>{title}</title>{shape}'
        f'<text x="{x + 7}" y="{y + 16}">{escape(_short(bar.words))}</text></g>'
    )


def _way_svg(number: int, way: Way, bars: dict[int, Bar], columns: _Columns, lanes: dict[str, int]) -> str:
    """One order of the calls as points joined by a line."""
    drawn = [point for point in way.points if point.bar in bars]
    at: list[int] = []  # the earliest position at which each call can have taken effect, given the order
    for point in drawn:
        at.append(max([bars[point.bar].start, *at[-1:]]))
    shared, placed_here = Counter(at), Counter[int]()
    spots = []
    for point, position in zip(drawn, at, strict=True):
        from_x, to_x = columns.segment(position)
        placed_here[position] += 1
        x = round(from_x + (to_x - from_x) * placed_here[position] / (shared[position] + 1))
        spots.append((point, x, _y(lanes, bars[point.bar]) + _BAR))
    line = " ".join(f"{x},{y}" for _, x, y in spots)
    dots = "".join(_dot_svg(point, x, y) for point, x, y in spots)
    hidden = "" if number == 0 else ' style="display:none"'
    return f'<g class="way" data-way="{number}"{hidden}><polyline points="{line}"/>{dots}</g>'


def _dot_svg(point: Point, x: int, y: int) -> str:
    """The point of a call in an order, with the state after it."""
    title = escape(f"{point.place}: then the state is {point.state}")
    return (
        f'<g class="point" data-bar="{point.bar}"><circle cx="{x}" cy="{y}" r="7"/>'
        f'<text x="{x}" y="{y + 3}">{point.place}</text><title>{title}</title></g>'
    )
