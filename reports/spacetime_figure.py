"""Draws a space-time diagram as SVG: time runs downwards, one row of the history per line, with its sentence beside it.

The rows have equal distances, because what happens in a failure takes microseconds and its pauses seconds. `static/run.js` moves
rows when some are filtered out; without it the drawing is complete and still.
"""

from collections.abc import Mapping

from markupsafe import escape

from reports.rows import process_of
from reports.spacetime import Diagram, Spot
from reports.svg import WIDTH, seconds, visible_text

_TOP = 34
_ROW = 18
_LEFT = 92  # px for times
_COLUMN = 74
_LETTER = 6  # px of a letter, roughly


def spacetime_figure(diagram: Diagram) -> str:
    """The SVG of a diagram. Rows, arrows and spans carry the indices of their rows for the script."""
    columns = {process: _LEFT + 34 + _COLUMN * number for number, process in enumerate(diagram.processes)}
    lines = {spot.line.index: number for number, spot in enumerate(diagram.spots)}
    words_x = _LEFT + _COLUMN * len(columns) + 10
    width = max(WIDTH, words_x + 520)
    bottom = _y(len(diagram.spots)) + 6
    parts = [_back(spot, _y(number), width) for number, spot in enumerate(diagram.spots)]
    parts += [_line_of(process, x, bottom) for process, x in columns.items()]
    for span in diagram.spans:
        if span.process in columns:
            y = _y(lines[span.start])
            x = columns[span.process] - (7 if span.kind == "down" else 12)
            box = f'x="{x}" y="{y}" width="{14 if span.kind == "down" else 4}" height="{max(_y(lines[span.end]) - y, 4)}"'
            data = f'data-from="{span.start}" data-to="{span.end}" data-process="{escape(span.process)}"'
            parts.append(f'<rect {box} class="st-{span.kind}" {data}><title>{_safe(span.words)}</title></rect>')
    parts += [_spot(spot, columns[spot.process], _y(number), words_x, width) for number, spot in enumerate(diagram.spots)]
    parts += _arrows(diagram, columns, lines)
    defs = (
        '<defs><marker id="st-head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" class="st-head"/></marker></defs>'
    )
    label = "space-time diagram: processes from left to right, time downwards, messages as arrows"
    size = f'viewBox="0 0 {width} {bottom + 8}" width="{width}" height="{bottom + 8}"'
    data = f'data-top="{_TOP}" data-step="{_ROW}"'
    return f'<svg class="spacetime" {size} role="img" aria-label="{label}" {data}>{defs}{"".join(parts)}</svg>'


def _y(number: int) -> int:
    return _TOP + _ROW * number + _ROW // 2


def _line_of(process: str, x: int, bottom: int) -> str:
    head = f'<text x="{x}" y="20" class="st-process" text-anchor="middle">{_safe(process)}</text>'
    return f'<g data-column="{escape(process_of(process))}">{head}<path d="M{x} {_TOP - 6}V{bottom}" class="st-life"/></g>'


def _arrows(diagram: Diagram, columns: Mapping[str, int], lines: Mapping[int, int]) -> list[str]:
    parts = []
    for arrow in diagram.arrows:
        if arrow.source in columns and arrow.target in columns and arrow.source != arrow.target:
            x1, x2 = columns[arrow.source], columns[arrow.target]
            x2 += -5 if x2 > x1 else 5
            y1, y2 = _y(lines[arrow.start]), _y(lines[arrow.end])
            data = f'data-from="{arrow.start}" data-to="{arrow.end}" data-x1="{x1}" data-x2="{x2}"'
            ends = f'data-process="{escape(process_of(arrow.source))}" data-other="{escape(process_of(arrow.target))}"'
            title = f"<title>{_safe(f'{arrow.source} to {arrow.target}: {arrow.words}')}</title>"
            d = f'd="M{x1} {y1}L{x2} {y2}"'
            parts.append(f'<path {d} class="st-arrow {arrow.kind}" marker-end="url(#st-head)" {data} {ends}>{title}</path>')
    return parts


def _back(spot: Spot, y: int, width: int) -> str:
    """The background of a row, behind the lines of the processes."""
    marks = "".join((" told" if spot.line.witness else "", " step" if spot.line.step else ""))
    place = f'x="0" y="{y - _ROW // 2}" width="{width}" height="{_ROW}"'
    return f'<rect {place} class="st-back{marks}" data-row="{spot.line.index}"/>'


def _spot(spot: Spot, x: int, y: int, words_x: int, width: int) -> str:
    line = spot.line
    marks = " ".join(("st-row", f"of-{line.tone}", *(["told"] if line.witness else []), *(["step"] if line.step else [])))
    where = f'data-process="{escape(process_of(spot.process))}" data-where="{escape(line.where)}"'
    data = f'data-row="{line.index}" data-t="{line.time_ns}" {where}'
    who = "" if line.who == spot.process else f"{line.who} "
    words = f"{who}{line.words}"
    room = (width - words_x) // _LETTER
    shown = words if len(words) <= room else words[: room - 1] + "…"
    title = words + "\n" + spot.fields
    return (
        f'<g class="{marks}" transform="translate(0 {y})" {data}><title>{_safe(title)}</title>'
        f'<rect x="0" y="{-_ROW // 2}" width="{width}" height="{_ROW}" class="st-hit"/>'
        f'<text x="{_LEFT - 12}" y="4" text-anchor="end" class="tick">{seconds(line.time_ns)} s</text>'
        f'<circle cx="{x}" cy="0" r="{6 if line.step else 4}"/>'
        f'<text x="{words_x}" y="4">{_safe(shown)}</text></g>'
    )


def _safe(words: str) -> str:
    return str(escape(visible_text(words)))
