"""Draws space-time diagrams as SVG: time runs downwards, one row of the history per line, with its sentence beside it.

The rows have equal distances, because what happens in a failure takes microseconds and its pauses seconds. `static/run.js` moves
rows when some are filtered out; without it the drawing is complete and still. Two runs beside each other are two panels with the
same lines: a row that both have is drawn in both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import escape

from reports.rows import process_of
from reports.spacetime import Diagram, Spot
from reports.svg import WIDTH, seconds, visible_text

_TOP = 34
_ROW = 18
_LEFT = 92  # px for times
_COLUMN = 74
_NARROW = 44  # where two runs are beside each other
_BETWEEN = 26  # px between two panels
_LETTER = 6  # px of a letter, roughly
_SIGNS = {"both": "", "left": "◁ ", "right": "▷ ", "moved": "↕ "}


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """Where a diagram is drawn: the column of each process, and the line and the name in the page of each row."""

    diagram: Diagram
    columns: Mapping[str, int]
    lines: Mapping[int, int]
    names: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A line of the drawing: the row in each panel (None: the run does not have it), and how it is marked."""

    spots: tuple[Spot | None, ...]
    name: int
    css: str = ""
    sign: str = ""
    note: str = ""  # words before the sentence
    gap: str = ""  # what is left out before it, in words

    @property
    def spot(self) -> Spot:
        """The row, of the first run that has it."""
        return next(spot for spot in self.spots if spot is not None)


def spacetime_figure(diagram: Diagram) -> str:
    """The SVG of a diagram. Rows, arrows and spans carry the indices of their rows for the script."""
    columns = {process: _LEFT + 34 + _COLUMN * number for number, process in enumerate(diagram.processes)}
    indices = [spot.line.index for spot in diagram.spots]
    lines = {index: number for number, index in enumerate(indices)}
    panel = Panel(diagram=diagram, columns=columns, lines=lines, names={index: index for index in indices})
    rows = [Drawn(spots=(spot,), name=spot.line.index) for spot in diagram.spots]
    label = "space-time diagram: processes from left to right, time downwards, messages as arrows"
    return _figure_svg([panel], rows, _LEFT + _COLUMN * len(columns) + 10, label)


def paired_figure(diagrams: tuple[Diagram, Diagram], rows: Sequence[Drawn], titles: tuple[str, str]) -> str:
    """The SVG of two runs beside each other; rows have the numbers of their lines as names for the script."""
    panels, x = [], _LEFT + 34
    heads = []
    for side, diagram in enumerate(diagrams):
        columns = {process: x + _NARROW * number for number, process in enumerate(diagram.processes)}
        own = [(row.spots[side], number) for number, row in enumerate(rows)]
        at = {spot.line.index: number for spot, number in own if spot is not None}
        panels.append(Panel(diagram=diagram, columns=columns, lines=at, names=at))
        middle = (x + x + _NARROW * (len(columns) - 1)) // 2
        heads.append(f'<text x="{middle}" y="12" class="st-process" text-anchor="middle">{_safe(titles[side])}</text>')
        x += _NARROW * len(columns) + _BETWEEN
    label = "space-time diagram of two runs beside each other: time downwards, rows that both have are drawn in both"
    return _figure_svg(panels, rows, x - _BETWEEN + 4, label, "".join(heads))


def sign_of(place: str) -> str:
    """What stands before the sentence of a line, so that colour is not the only mark."""
    return _SIGNS[place]


def _figure_svg(panels: Sequence[Panel], rows: Sequence[Drawn], words_x: int, label: str, heads: str = "") -> str:
    """The whole figure: rows, process lines, spans and arrows."""
    width = max(WIDTH, words_x + 520)
    bottom = _y(len(rows)) + 6
    parts = [_background_svg(row, _y(number), width) for number, row in enumerate(rows)]
    for panel in panels:
        parts += [_line_of(process, x, bottom, 28 if heads else 20) for process, x in panel.columns.items()]
        parts += _spans_svg(panel)
    parts += [_row_svg(row, panels, _y(number), words_x, width) for number, row in enumerate(rows)]
    for panel in panels:
        parts += _arrows_svg(panel)
    defs = (
        '<defs><marker id="st-head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" class="st-head"/></marker></defs>'
    )
    size = f'viewBox="0 0 {width} {bottom + 8}" width="{width}" height="{bottom + 8}"'
    data = f'data-top="{_TOP}" data-step="{_ROW}"'
    return f'<svg class="spacetime" {size} role="img" aria-label="{label}" {data}>{defs}{heads}{"".join(parts)}</svg>'


def _y(number: int) -> int:
    return _TOP + _ROW * number + _ROW // 2


def _line_of(process: str, x: int, bottom: int, head_y: int) -> str:
    head = f'<text x="{x}" y="{head_y}" class="st-process" text-anchor="middle">{_safe(process)}</text>'
    return f'<g data-column="{escape(process_of(process))}">{head}<path d="M{x} {_TOP - 6}V{bottom}" class="st-life"/></g>'


def _spans_svg(panel: Panel) -> list[str]:
    """The bars of downtime and of leading."""
    parts = []
    for span in panel.diagram.spans:
        if span.process in panel.columns:
            y = _y(panel.lines[span.start])
            x = panel.columns[span.process] - (7 if span.kind == "down" else 12)
            height = max(_y(panel.lines[span.end]) - y, 4)
            box = f'x="{x}" y="{y}" width="{14 if span.kind == "down" else 4}" height="{height}"'
            end_attributes = f'data-from="{panel.names[span.start]}" data-to="{panel.names[span.end]}"'
            data = f'{end_attributes} data-process="{escape(span.process)}"'
            parts.append(f'<rect {box} class="st-{span.kind}" {data}><title>{_safe(span.words)}</title></rect>')
    return parts


def _arrows_svg(panel: Panel) -> list[str]:
    """The arrows of a panel; those within one process are left out."""
    parts = []
    columns, lines, names = panel.columns, panel.lines, panel.names
    for arrow in panel.diagram.arrows:
        if arrow.source in columns and arrow.target in columns and arrow.source != arrow.target:
            x1, x2 = columns[arrow.source], columns[arrow.target]
            x2 += -5 if x2 > x1 else 5
            y1, y2 = _y(lines[arrow.start]), _y(lines[arrow.end])
            data = f'data-from="{names[arrow.start]}" data-to="{names[arrow.end]}" data-x1="{x1}" data-x2="{x2}"'
            node_attributes = f'data-process="{escape(process_of(arrow.source))}" data-other="{escape(process_of(arrow.target))}"'
            title = f"<title>{_safe(f'{arrow.source} to {arrow.target}: {arrow.words}')}</title>"
            d = f'd="M{x1} {y1}L{x2} {y2}"'
            parts.append(
                f'<path {d} class="st-arrow {arrow.kind}" marker-end="url(#st-head)" {data} {node_attributes}>{title}</path>'
            )
    return parts


def _background_svg(row: Drawn, y: int, width: int) -> str:
    """The background of a row, behind the lines of the processes."""
    line = row.spot.line
    marks = "".join((row.css, " told" if line.witness else "", " step" if line.step else ""))
    place = f'x="0" y="{y - _ROW // 2}" width="{width}" height="{_ROW}"'
    return f'<rect {place} class="st-back{marks}" data-row="{row.name}"/>'


def _row_svg(row: Drawn, panels: Sequence[Panel], y: int, words_x: int, width: int) -> str:
    """A row: its time, its points and its sentence, cut to the room."""
    spot = row.spot
    line = spot.line
    marks = " ".join(("st-row", f"of-{line.tone}", *(["told"] if line.witness else []), *(["step"] if line.step else [])))
    where = f'data-process="{escape(process_of(spot.process))}" data-where="{escape(line.where)}"'
    data = f'data-row="{row.name}" data-t="{line.time_ns}" {where}'
    who = "" if line.who == spot.process and len(panels) == 1 else f"{line.who} "
    words = f"{row.sign}{row.note}{who}{line.words}"
    room = (width - words_x) // _LETTER
    words_shown = words if len(words) <= room else words[: room - 1] + "…"
    radius = 6 if line.step else 4
    circles = "".join(
        f'<circle cx="{panel.columns[own.process]}" cy="0" r="{radius}"/>'
        for panel, own in zip(panels, row.spots, strict=True)
        if own is not None
    )
    gap = f'<path d="M0 {-_ROW // 2}H{width}" class="st-gap"><title>{_safe(row.gap)}</title></path>' if row.gap else ""
    return (
        f'<g class="{marks}{row.css}" transform="translate(0 {y})" {data}><title>{_safe(_hover_text(row, words))}</title>'
        f'<rect x="0" y="{-_ROW // 2}" width="{width}" height="{_ROW}" class="st-hit"/>'
        f'<text x="{_LEFT - 12}" y="4" text-anchor="end" class="tick">{seconds(line.time_ns)} s</text>'
        f"{circles}{gap}"
        f'<text x="{words_x}" y="4">{_safe(words_shown)}</text></g>'
    )


def _hover_text(row: Drawn, words: str) -> str:
    """The whole sentence with the fields of the row, of both runs where their times differ."""
    spots = [spot for spot in row.spots if spot is not None]
    later = [
        f"in the other run at {seconds(spot.line.time_ns, 6)} s"
        for spot in spots[1:]
        if spot.line.time_ns != spots[0].line.time_ns
    ]
    return "\n".join((words, *later, spots[0].fields))


def _safe(words: str) -> str:
    return str(escape(visible_text(words)))
