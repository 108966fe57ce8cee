"""Draws a cycle of transactions as a graph: a box with the text of each, and an arrow for each dependency."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import cos, hypot, pi, sin

from markupsafe import Markup, escape

_WIDTH = 250  # of a box, in pixels
_LINE = 16
_LINES_MAX = 7
_LETTERS_MAX = 36
_PADDING = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A transaction of a cycle: how it is called, who did it, and its micro-operations."""

    line: int
    name: str  # T1, T2, …
    who: str
    micro: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """A dependency between two nodes, by their places in the cycle."""

    source: int
    target: int
    kind: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """A cycle of transactions: each edge leads from one node to the next, the last to the first."""

    title: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]


def graph_svg(graph: Graph, *, label: str) -> Markup:
    """Draw a cycle: its transactions on a ring, clockwise from the left."""
    count = len(graph.nodes)
    heights = [_height(node) for node in graph.nodes]
    across = 190 if count == 2 else max(230, count * 62)
    down = 0 if count == 2 else max(150, count * 46)
    middle = (across + _WIDTH / 2 + 14, down + max(heights) / 2 + 44)
    centres = [(middle[0] - across * cos(2 * pi * n / count), middle[1] - down * sin(2 * pi * n / count)) for n in range(count)]
    size = (round(2 * middle[0]), round(2 * middle[1]))
    parts = [
        f'<svg class="cycle" role="group" aria-label="{escape(label)}" width="{size[0]}" height="{size[1]}" '
        f'viewBox="0 0 {size[0]} {size[1]}"><defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" '
        'markerHeight="8" orient="auto-start-reverse"><path d="M0 0L10 5L0 10z"/></marker></defs>'
    ]
    parts.extend(_edge_svg(number, edge, centres, heights, middle) for number, edge in enumerate(graph.edges))
    parts.extend(_box_svg(node, centre, height) for node, centre, height in zip(graph.nodes, centres, heights, strict=True))
    return Markup("".join([*parts, "</svg>"]))


def _height(node: Node) -> int:
    return 2 * _PADDING + _LINE * (1 + min(len(node.micro), _LINES_MAX + 1))


def _box_svg(node: Node, centre: tuple[float, float], height: int) -> str:
    """The box of a transaction, with the first lines of its text."""
    x, y = round(centre[0] - _WIDTH / 2), round(centre[1] - height / 2)
    lines = list(node.micro[:_LINES_MAX])
    if len(node.micro) > _LINES_MAX:
        lines.append(f"… {len(node.micro) - _LINES_MAX} more")
    texts = "".join(
        f'<text class="micro" x="{x + _PADDING}" y="{y + _PADDING + 12 + _LINE * n}">{escape(_short(line))}</text>'
        for n, line in enumerate(lines, 1)
    )
    title = escape("\n".join((f"{node.name}: {node.who}", *node.micro)))
    name = escape(_short(f"{node.name}  {node.who}"))
    return (
        f'<g class="node" tabindex="0" role="button" data-line="{node.line}" aria-label="{title}"><title>{title}</title>'
        f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{height}" rx="6"/>'
        f'<text class="name" x="{x + _PADDING}" y="{y + _PADDING + 12}">{name}</text>{texts}</g>'
    )


def _short(text: str) -> str:
    return text if len(text) <= _LETTERS_MAX else f"{text[: _LETTERS_MAX // 2 - 1]}…{text[-_LETTERS_MAX // 2 :]}"


def _edge_svg(
    number: int, edge: Edge, centres: Sequence[tuple[float, float]], heights: Sequence[int], middle: tuple[float, float]
) -> str:
    """A bent arrow between two boxes, with its kind as label."""
    source, target = centres[edge.source], centres[edge.target]
    # Bend away from the middle of the ring; two transactions have it between them, so bend to either side.
    bent = ((source[0] + target[0]) / 2, (source[1] + target[1]) / 2)
    away = (bent[0] - middle[0], bent[1] - middle[1])
    far = hypot(*away)
    way = (away[0] / far, away[1] / far) if far > 1 else (0.0, -1.0 if edge.source < edge.target else 1.0)
    bow = 70 if far <= 1 else 26
    control = (bent[0] + way[0] * bow, bent[1] + way[1] * bow)
    begin, end = _point_on_border(source, control, heights[edge.source]), _point_on_border(target, control, heights[edge.target])
    label = ((begin[0] + 2 * control[0] + end[0]) / 4, (begin[1] + 2 * control[1] + end[1]) / 4)
    words = escape(edge.reason)
    return (
        f'<g class="edge {edge.kind}" tabindex="0" role="button" data-edge="{number}" aria-label="{words}"><title>{words}</title>'
        f'<path d="M{begin[0]:.0f} {begin[1]:.0f}Q{control[0]:.0f} {control[1]:.0f} {end[0]:.0f} {end[1]:.0f}" '
        f'marker-end="url(#tip)"/><text x="{label[0]:.0f}" y="{label[1] - 6:.0f}">{escape(edge.kind)}</text></g>'
    )


def _point_on_border(centre: tuple[float, float], towards: tuple[float, float], height: int) -> tuple[float, float]:
    """Where the line from a box's centre leaves the box."""
    dx, dy = towards[0] - centre[0], towards[1] - centre[1]
    factor = min(_WIDTH / 2 / abs(dx) if dx else 1e9, height / 2 / abs(dy) if dy else 1e9)
    return centre[0] + dx * factor, centre[1] + dy * factor
