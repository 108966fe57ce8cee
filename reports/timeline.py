"""The figure of client operations by process over time, with the faults above them.

Acknowledged calls are drawn as joined boxes, one path for each process. Failed calls, unknown calls and witnesses are drawn one
by one with words on hover, up to a bound, so that the size of a page does not grow with the run.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby

from history.op import OpType
from reports.bands import ROW, bands, paused, shown
from reports.calls import Call
from reports.delivery import Rebalance
from reports.nodes import NodeTrack
from reports.rows import CLIENTS
from reports.svg import (
    LEFT,
    PLOT,
    Backdrop,
    Pointer,
    TimeScale,
    colour_of,
    figure,
    from_to,
    group,
    path,
    point,
    rect,
    runs,
    seconds,
    shade,
    text,
    time_axis,
)

LABEL_MAX = 12  # characters of a label beside a lane
HOVER_MAX = 1000  # calls with words of their own; other calls are joined boxes
_TOP = 8
_LANE = 20
_BOX = 14
_NODE = 24


def timeline_figure(
    calls: Sequence[Call],
    scale: TimeScale,
    behind: Backdrop,
    *,
    rebalances: Sequence[Rebalance] = (),
    pointers: Sequence[Pointer] = (),
) -> str:
    """Draw client operations over time: one lane for each client, with its rebalances, below bars for the faults."""
    rows = shown(behind.windows, scale)
    faults_top = _TOP + (ROW if behind.milestones else 0)
    lanes_top = faults_top + ROW * len(rows) + (8 if rows else 0)
    width = lane_count(calls)
    calls = [call for call in calls if scale.shows(call.start_ns, call.start_ns if call.end_ns is None else call.end_ns)]
    by_lane = sorted(calls, key=lambda call: (call.process % width, call.start_ns, call.index))
    lanes = [(lane, list(group)) for lane, group in groupby(by_lane, key=lambda call: call.process % width)]
    bottom = lanes_top + _LANE * len(lanes)
    parts = [shade(scale, behind, _TOP, bottom), time_axis(scale, _TOP, bottom), _milestones_svg(scale, behind)]
    if rows:
        parts.append(text(LEFT - 8, faults_top + 10, "faults", css="axis-label", anchor="end"))
    parts.append(bands(rows, scale, faults_top))
    hovered = hover_words(calls)
    for number, (lane, own) in enumerate(lanes):
        y = lanes_top + _LANE * number
        changes = [change for change in rebalances if change.process % width == lane]
        parts.append(group(CLIENTS, [_lane_svg(lane, own, hovered, scale, y), _rebalances_svg(changes, scale, y)]))
    parts.append(point(scale, pointers, lanes_top, bottom))
    return figure(bottom + 22, "operations of each client process over time, with the fault windows", parts, scale)


def lane_count(calls: Sequence[Call]) -> int:
    """The number of clients behind the process numbers.

    After a call of unknown outcome a client gets a process number that is higher by the number of clients, as in Jepsen. That
    number is not recorded, so this is the smallest for which every renumbering follows an unknown call in time.
    """
    first: dict[int, int] = {}
    last: dict[int, Call] = {}
    for call in calls:
        first.setdefault(call.process, call.start_ns)
        last[call.process] = call

    def follows(process: int, before: int) -> bool:
        ended = last.get(before)
        return ended is not None and ended.type is OpType.INFO and (ended.end_ns or ended.start_ns) <= first[process]

    most = max(first, default=0) + 1
    counts = (width for width in range(1, most) if all(follows(p, p - width) for p in first if p >= width))
    return next(counts, most)


def _milestones_svg(scale: TimeScale, behind: Backdrop) -> str:
    """The labels of the milestones."""
    parts = []
    for time_ns, words in behind.milestones:
        if not scale.shows(time_ns, time_ns):
            continue
        x = scale.x(time_ns)
        is_at_right_edge = x > LEFT + PLOT - 80
        parts.append(
            text(x, _TOP + 10, words, css="tick", anchor="end" if is_at_right_edge else "start", dx=-4 if is_at_right_edge else 4)
        )
    return "".join(parts)


def nodes_figure(nodes: Sequence[NodeTrack], scale: TimeScale, behind: Backdrop, *, pointers: Sequence[Pointer] = ()) -> str:
    """Draw one lane for each broker: registered in ZooKeeper (light), controller (dark, with its epoch), down (hatched)."""
    rows = shown(behind.windows, scale)
    top = _TOP + ROW * len(rows) + 2
    bottom = top + _NODE * len(nodes)
    parts = [shade(scale, behind, _TOP, bottom), bands(rows, scale, _TOP), time_axis(scale, top, bottom)]
    for number, node in enumerate(nodes):
        parts.append(group(node.node, _broker_svg(node, scale, behind, top + _NODE * number, colour_of(number))))
    parts.append(point(scale, pointers, _TOP, bottom))
    return figure(bottom + 22, "brokers over time: registered, controller, down, paused", parts, scale)


def _broker_svg(node: NodeTrack, scale: TimeScale, behind: Backdrop, y: int, colour: str) -> list[str]:
    """The lane of one broker."""
    parts = [text(LEFT - 8, y + 13, node.node, css=f"lane-label {colour}", anchor="end")]
    for start, end in node.registered:
        parts.append(_span_svg(scale, y, 18, start, end, css=f"isr {colour}", words=f"{node.node} registered in ZooKeeper"))
    for epoch, start, end in node.reigns:
        number = "" if epoch is None else str(epoch)
        words = f"{node.node} controller{f', controller epoch {number}' if number else ''}"
        parts.append(_span_svg(scale, y + 2, 14, start, end, css=f"lead {colour}", words=words))
        if scale.shows(start, end) and scale.x(end) - scale.x(start) > 7 * len(number) + 6:
            parts.append(text(scale.x(start), y + 13, number, css="epoch-lead", dx=4))
    for start, end in node.down:
        parts.append(_span_svg(scale, y, 18, start, end, css="down", words=f"{node.node} down"))
    for start, end in paused(behind.windows, node.node):
        parts.append(_span_svg(scale, y, 18, start, end, css="paused", words=f"{node.node} paused"))
    return parts


def _span_svg(scale: TimeScale, y: int, height: int, start_ns: int, end_ns: int, *, css: str, words: str) -> str:
    if not scale.shows(start_ns, end_ns):
        return ""
    title = f"{words}, {from_to(start_ns, end_ns)}"
    return rect(scale.x(start_ns), y, scale.x(end_ns) - scale.x(start_ns), height, css=css, title=title)


def hover_words(calls: Sequence[Call]) -> Mapping[int, str]:
    """Hover texts by index for a few calls of the figure: of unknown outcome, then failed, then the slowest acknowledged."""
    rank = {OpType.INFO: 0, OpType.FAIL: 1}
    worth = sorted(calls, key=lambda call: (rank.get(call.type, 2), -(call.latency_ns or 0), call.index))
    return {call.index: call_words(call) for call in worth[:HOVER_MAX]}


def call_words(call: Call) -> str:
    """Describe one client call in a line: function, partition, time, latency and outcome."""
    where = "" if call.topic is None else f" {call.topic}" if call.partition is None else f" {call.topic}-{call.partition}"
    end = "no answer" if call.latency_ns is None else f"{seconds(call.latency_ns, 4)} s"
    why = "" if call.error is None else f" {call.error}"
    invocation_in_words = f"client {call.process}: {call.f}{where} at {seconds(call.start_ns)} s"
    return f"{invocation_in_words}, {end}: {call.type.value}{why} (row {call.index})"


def _lane_svg(number: int, calls: Sequence[Call], hovered: Mapping[int, str], scale: TimeScale, y: int) -> str:
    """The lane of a client: calls in full where the pointer may rest, the others as runs of boxes."""
    does = sorted({call.f for call in calls if call.f != "latest"}, key=lambda f: (f not in ("produce", "poll"), f)) or ["latest"]
    label = f"{number} {', '.join(does)}"
    if len(label) > LABEL_MAX:
        label = f"{number} {does[0][: LABEL_MAX - 6]}" + (f" +{len(does) - 1}" if len(does) > 1 else "")
    whole = f"client {number}: {', '.join(does)}"
    parts = [text(LEFT - 8, y + 11, label, css="lane-label", anchor="end", title=whole)]
    spans: dict[OpType, list[tuple[int, int]]] = {}
    alone = []
    for call in calls:
        x1 = scale.x(call.start_ns)
        x2 = max(scale.x(scale.end_ns if call.end_ns is None else call.end_ns), x1 + 1)
        if call.index in hovered:
            alone.append((x1, x2, call))
        else:
            spans.setdefault(call.type, []).append((x1, x2))
    for outcome in (OpType.OK, OpType.FAIL, OpType.INFO):
        joined = spans.get(outcome, [])
        parts.append(path(runs(joined, y, _BOX), css=f"op {outcome.value}", title=f"{len(joined)} calls: {outcome.value}"))
    # Unknown and failed calls are drawn last, so that no box covers them.
    order = {OpType.OK: 0, OpType.FAIL: 1, OpType.INFO: 2}
    for x1, x2, call in sorted(alone, key=lambda item: (order[item[2].type], item[2].index)):
        box = rect(x1, y, x2 - x1, _BOX, css=f"op {call.type.value}", title=hovered[call.index])
        parts.append(f'<g data-row="{call.index}" data-t="{call.start_ns}">{box}</g>')
    return "".join(parts)


def _rebalances_svg(changes: Sequence[Rebalance], scale: TimeScale, y: int) -> str:
    """A triangle for each rebalance of a lane: it points down where partitions were given, up where some were only taken."""
    marks = []
    for change in changes:
        if scale.shows(change.time_ns, change.time_ns):
            x = scale.x(change.time_ns)
            d = f"M{x - 4} {y - 3}h8l-4 8z" if change.given else f"M{x - 4} {y + _BOX + 2}h8l-4 -8z"
            words = f"client {change.process}: {change.words}, at {seconds(change.time_ns)} s (row {change.row})"
            marks.append(f'<g data-row="{change.row}" data-t="{change.time_ns}">{path(d, css="mark rebalance", title=words)}</g>')
    return "".join(marks)
