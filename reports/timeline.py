"""The figure of client operations by process over time, with the faults above them.

Acknowledged calls are drawn as joined boxes, one path for each process. Failed calls, unknown calls and witnesses are drawn one
by one with words on hover, up to a bound, so that the size of a page does not grow with the run.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby

from history.op import OpType
from reports.calls import Call
from reports.nodes import NodeTrack
from reports.svg import (
    LEFT,
    PLOT,
    Backdrop,
    Pointer,
    TimeScale,
    figure,
    from_to,
    path,
    point,
    rect,
    runs,
    seconds,
    shade,
    strip,
    strip_height,
    text,
    time_axis,
    window_words,
)
from reports.windows import FaultWindow

HOVER_MAX = 1000  # calls with words of their own; other calls are joined boxes
_TOP = 8
_LANE = 20
_BOX = 14
_FAULT = 16
_NODE = 24
_PX = 6  # px of a letter, roughly; a wrong guess only clips a label


def timeline_figure(calls: Sequence[Call], scale: TimeScale, behind: Backdrop, *, pointers: Sequence[Pointer] = ()) -> str:
    """Draw client operations over time: one lane for each client, below bars for the faults."""
    rows = packed(behind.windows, scale)
    faults_top = _TOP + (_FAULT if behind.milestones else 0)
    lanes_top = faults_top + _FAULT * len(rows) + (8 if rows else 0)
    width = lane_count(calls)
    by_lane = sorted(calls, key=lambda call: (call.process % width, call.start_ns, call.index))
    lanes = [(lane, list(group)) for lane, group in groupby(by_lane, key=lambda call: call.process % width)]
    bottom = lanes_top + _LANE * len(lanes)
    parts = [shade(scale, behind, _TOP, bottom), time_axis(scale, _TOP, bottom), _milestone_labels(scale, behind)]
    if rows:
        parts.append(text(LEFT - 8, faults_top + 10, "faults", css="axis-label", anchor="end"))
    parts += [_fault_row(row, scale, faults_top + _FAULT * number) for number, row in enumerate(rows)]
    hovered = hover_words(calls)
    for number, (lane, own) in enumerate(lanes):
        parts.append(_lane(lane, own, hovered, scale, lanes_top + _LANE * number))
    parts.append(point(scale, pointers, lanes_top, bottom))
    return figure(bottom + 22, "operations of each client process over time, with the fault windows", parts)


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


def _milestone_labels(scale: TimeScale, behind: Backdrop) -> str:
    parts = []
    for time_ns, words in behind.milestones:
        x = scale.x(time_ns)
        late = x > LEFT + PLOT - 80
        parts.append(text(x - 4 if late else x + 4, _TOP + 10, words, css="tick", anchor="end" if late else "start"))
    return "".join(parts)


def nodes_figure(nodes: Sequence[NodeTrack], scale: TimeScale, behind: Backdrop, *, pointers: Sequence[Pointer] = ()) -> str:
    """Draw one lane for each broker: registered in ZooKeeper (light), controller (dark, with its epoch), down (hatched)."""
    top = _TOP + strip_height(behind)
    bottom = top + _NODE * len(nodes)
    parts = [shade(scale, behind, _TOP, bottom), strip(scale, behind, _TOP), time_axis(scale, top, bottom)]
    for number, node in enumerate(nodes):
        y, colour = top + _NODE * number, f"r{number % 8}"
        parts.append(text(LEFT - 8, y + 13, node.node, css=f"lane-label {colour}", anchor="end"))
        for start, end in node.registered:
            parts.append(_span(scale, y, 18, start, end, css=f"isr {colour}", words=f"{node.node} registered in ZooKeeper"))
        for epoch, start, end in node.reigns:
            words = f"{node.node} controller, controller epoch {epoch}"
            parts.append(_span(scale, y + 2, 14, start, end, css=f"lead {colour}", words=words))
            if scale.shows(start, end) and scale.x(end) - scale.x(start) > 7 * len(str(epoch)) + 6:
                parts.append(text(scale.x(start) + 4, y + 13, str(epoch), css="epoch-lead"))
        for start, end in node.down:
            parts.append(_span(scale, y, 18, start, end, css="down", words=f"{node.node} down"))
    parts.append(point(scale, pointers, _TOP, bottom))
    return figure(bottom + 22, "brokers over time: registered, controller, down", parts)


def _span(scale: TimeScale, y: int, height: int, start_ns: int, end_ns: int, *, css: str, words: str) -> str:
    if not scale.shows(start_ns, end_ns):
        return ""
    title = f"{words}, {from_to(start_ns, end_ns)}"
    return rect(scale.x(start_ns), y, scale.x(end_ns) - scale.x(start_ns), height, css=css, title=title)


def packed(windows: Sequence[FaultWindow], scale: TimeScale) -> list[list[FaultWindow]]:
    """Place the bars of faults with their labels in as few rows as possible without overlap, earliest first."""
    rows: list[list[FaultWindow]] = []
    ends: list[int] = []
    for window in sorted(windows, key=lambda w: (w.start_ns, w.end_ns, w.id)):
        start, end = scale.x(window.start_ns), _label_end(window, scale)
        row = next((number for number, taken in enumerate(ends) if taken <= start), None)
        if row is None:
            rows.append([window])
            ends.append(end)
        else:
            rows[row].append(window)
            ends[row] = end
    return rows


def _label(window: FaultWindow) -> str:
    return f"{window.kind} {' '.join(window.nodes)}".strip() if len(window.nodes) < 3 else window.kind


def _label_end(window: FaultWindow, scale: TimeScale) -> int:
    # The right end of the bar, or of the label beside a bar that is too short for it.
    end = max(scale.x(window.end_ns), scale.x(window.start_ns) + 1)
    return end if _fits(window, scale) else end + _PX * len(_label(window)) + 8


def _fits(window: FaultWindow, scale: TimeScale) -> bool:
    return scale.x(window.end_ns) - scale.x(window.start_ns) > _PX * len(_label(window)) + 6


def hover_words(calls: Sequence[Call]) -> Mapping[int, str]:
    """Hover texts by index for a few calls of the figure: of unknown outcome, then failed, then the slowest acknowledged."""
    rank = {OpType.INFO: 0, OpType.FAIL: 1}
    worth = sorted(calls, key=lambda call: (rank.get(call.type, 2), -(call.latency_ns or 0), call.index))
    return {call.index: call_words(call) for call in worth[:HOVER_MAX]}


def call_words(call: Call) -> str:
    """Describe one client call in a line: function, partition, time, latency and outcome."""
    where = "" if call.topic is None else f" {call.topic}-{call.partition}"
    end = "no answer" if call.latency_ns is None else f"{seconds(call.latency_ns, 4)} s"
    why = "" if call.error is None else f" {call.error}"
    asked = f"client {call.process}: {call.f}{where} at {seconds(call.start_ns)} s"
    return f"{asked}, {end}: {call.type.value}{why} (row {call.index})"


def _fault_row(row: Sequence[FaultWindow], scale: TimeScale, y: int) -> str:
    parts = []
    for window in row:
        x1, x2 = scale.x(window.start_ns), scale.x(window.end_ns)
        parts.append(rect(x1, y, x2 - x1, _FAULT - 3, css=f"fault {window.category}", title=window_words(window)))
        inside = _fits(window, scale)
        parts.append(text((x1 if inside else x2) + 4, y + 10, _label(window), css="fault-label" if inside else "fault-beside"))
    return "".join(parts)


def _lane(number: int, calls: Sequence[Call], hovered: Mapping[int, str], scale: TimeScale, y: int) -> str:
    does = ", ".join(sorted({call.f for call in calls if call.f != "latest"})) or "latest"
    parts = [text(LEFT - 8, y + 11, f"{number} {does}", css="lane-label", anchor="end")]
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
        parts.append(rect(x1, y, x2 - x1, _BOX, css=f"op {call.type.value}", title=hovered[call.index]))
    return "".join(parts)
