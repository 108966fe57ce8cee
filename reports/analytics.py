"""Pages of answers: for each question its words, a picture where one helps, and the table with all figures.

The rows are those of `highwater query`. A page draws the questions that it knows by name and shows any other answer as a table.
The unit of a column is the end of its name: `_ns` durations, `share` parts of 1.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby

from markupsafe import Markup
from msgspec import Struct

from reports.charts import Point, Span, span_figure
from reports.svg import latency_words

Value = object  # what a column of an answer may hold: text, number, flag, list, or nothing
Row = Mapping[str, Value]


class Part(Struct, frozen=True, kw_only=True):
    """An answer as the page takes it: `columns` are names with their meanings."""

    name: str
    title: str
    words: str
    columns: tuple[tuple[str, str], ...]
    rows: tuple[Row, ...]


class HeatCell(Struct, frozen=True):
    """A cell of a heat map. `heat` is 0 if the pair was never reached, else 1 to 5: 1, 2, 4, 8 or 16 runs and more."""

    runs: int
    heat: int
    title: str


class HeatMap(Struct, frozen=True, kw_only=True):
    """Protocol states (rows) by faults (columns) of one campaign and protocol."""

    caption: str
    faults: tuple[str, ...]
    states: tuple[tuple[str, tuple[HeatCell, ...]], ...]
    reached: int
    pairs: int


class Picture(Struct, frozen=True, kw_only=True):
    """A drawing with its heading and a sentence that says how to read it."""

    heading: str
    svg: Markup
    caption: str


class Section(Struct, frozen=True, kw_only=True):
    """One answer on a page."""

    part: Part
    pictures: tuple[Picture, ...]
    maps: tuple[HeatMap, ...]
    causes: tuple[Row, ...]  # of triage, shown as a list with commands
    header: tuple[tuple[str, str, bool], ...]  # name, meaning, whether numbers
    cells: tuple[tuple[str, ...], ...]

    @property
    def is_open(self) -> bool:
        """Whether the table is shown at first: where nothing else is, and where the pictures do not say what differs."""
        return self.part.name == _MEASURES or not (self.pictures or self.maps or self.causes)


class AnalyticsPage(Struct, frozen=True, kw_only=True):
    """The view model of a page of answers."""

    title: str
    dataset: str
    repeat: str
    sections: tuple[Section, ...]


def page_of(parts: Sequence[Part], *, title: str, dataset: str, repeat: str) -> AnalyticsPage:
    """Make the page of these answers; `repeat` is the command that asks again."""
    return AnalyticsPage(title=title, dataset=dataset, repeat=repeat, sections=tuple(_section_of(part) for part in parts))


def _section_of(part: Part) -> Section:
    """A question's answer with its pictures and its table."""
    draw = _PICTURES.get(part.name)
    return Section(
        part=part,
        pictures=tuple(draw(part.rows)) if draw else (),
        maps=tuple(_heat_maps(part.rows)) if part.name == "coverage" else (),
        causes=part.rows if part.name == "triage" else (),
        header=tuple((name, words, _is_number(part.rows, name)) for name, words in part.columns),
        cells=tuple(tuple(value_words(name, row[name]) for name, _ in part.columns) for row in part.rows),
    )


_NS_PER_MS = 1_000_000
_MEASURES = "measures"  # of `highwater compare`
_EMPTY = {"fault": "no fault", "mix": "default"}  # what empty text means, by column


def value_words(name: str, value: Value) -> str:
    """A value of an answer as text, by the unit in the name of its column."""
    match value:
        case None:
            return "none"
        case "":
            return _EMPTY.get(name, "")
        case bool():
            return "yes" if value else "no"
        case int() if name.endswith("_ns"):
            return latency_words(value)
        case float() if name.endswith("share") or name.startswith("share"):
            return f"{100 * value:.1f} %"
        case float():
            return f"{value:.4g}" if abs(value) < 10_000 else f"{value:.0f}"
        case list() | tuple():
            return ", ".join(str(item) for item in value)
        case _:
            return str(value)


def _tick_words(duration_ns: int) -> str:
    if duration_ns >= 1_000_000_000:
        return f"{duration_ns // 1_000_000_000} s"
    return f"{duration_ns // 1_000_000} ms" if duration_ns >= 1_000_000 else f"{duration_ns // 1_000} µs"


def _is_number(rows: Sequence[Row], name: str) -> bool:
    values = [row[name] for row in rows if row[name] is not None]
    return bool(values) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _number(row: Row, name: str) -> int | None:
    value = row[name]
    assert value is None or isinstance(value, int), name
    return value


def _number_or_0(row: Row, name: str) -> int:
    return _number(row, name) or 0


def _groups(rows: Sequence[Row], *names: str) -> Iterator[tuple[str, list[Row]]]:
    """Consecutive rows that agree in these columns, with their values as a heading."""
    for key, own in groupby(rows, key=lambda row: tuple(str(row[name]) for name in names)):
        yield " · ".join(key), list(own)


# --- Pictures of one question each ----------------------------------------------------------------------------------------------


def _detection_pictures(rows: Sequence[Row], by: str, empty: str) -> Iterator[Picture]:
    """Per campaign: the seeds until each protocol, or mistake, is detected."""
    for heading, own in _groups(rows, "campaign"):
        spans = [_median_span(row, f"{row['protocol']} · {row[by] or empty}") for row in own]
        yield Picture(
            heading=heading,
            svg=Markup(span_figure(spans, f"median number of seeds to detect, campaign {heading}", str, never="no end")),
            caption="Seeds until a detection in half of all attempts: the dot is the median, the line its 95 % interval. "
            "An arrow: nothing was detected, so the interval has no upper end.",
        )


def _median_span(row: Row, label: str) -> Span:
    """Median and interval of the seeds to detect, open where nothing was detected."""
    low, median, high = (_number(row, name) for name in ("low_seeds", "median_seeds", "high_seeds"))
    title = f"{row['detected']} of {row['seeds']} seeds detect"
    if median is None:
        open_end = (Point(low, "end"), Point(None, "end"))
        return Span(label=label, points=open_end, title=f"{title}; the median is at least {low} seeds", css="r6")
    points = (Point(low, "end"), Point(median, "dot"), Point(high, "end"))
    return Span(label=label, points=points, title=f"{title}; median {median} seeds, {low} to {high}")


def _recovery_pictures(rows: Sequence[Row]) -> Iterator[Picture]:
    """Per protocol: how long recovery took after each kind of fault."""
    for heading, own in _groups(rows, "campaign", "protocol"):
        for what, words in (("recovery", "from the end of a window to recovery"), ("unavailable", "longest time unavailable")):
            spans = [_quantile_span(row, str(row["fault"]), what, ("p50", "p90", "max")) for row in own]
            yield Picture(
                heading=f"{heading}: {words}",
                svg=Markup(span_figure(spans, f"{words} by fault, {heading}", _tick_words)),
                caption="Dot: median over the windows of a fault; tick: 90 % quantile; end of the line: longest.",
            )


def _quantile_span(row: Row, label: str, what: str, names: Sequence[str], css: str = "r0") -> Span:
    """The quantiles of a row as points on a line."""
    prefix = f"{what}_" if what else ""
    values = [_number(row, f"{prefix}{name}_ns") for name in names]
    words = ", ".join(f"{name} {'never' if v is None else latency_words(v)}" for name, v in zip(names, values, strict=True))
    points = (Point(values[0], "dot"), *(Point(value, "tick") for value in values[1:-1]), Point(values[-1], "end"))
    return Span(label=label, points=points, title=words, css=css)


def _latency_pictures(rows: Sequence[Row]) -> Iterator[Picture]:
    """Per kind of call: its latency under each fault."""
    colours = {"outside": "r2", "inside": "r1"}
    for heading, own in _groups(rows, "campaign", "protocol", "f"):
        spans = [
            _quantile_span(row, str(row["fault"]), "", ("p50", "p95", "p99", "max"), colours.get(str(row["fault"]), "r0"))
            for row in own
            if row["p50_ns"] is not None
        ]
        if spans:
            yield Picture(
                heading=heading,
                svg=Markup(span_figure(spans, f"latency by fault in effect, {heading}", _tick_words)),
                caption="Calls that succeeded. Dot: median; ticks: 95 and 99 % quantiles; end of the line: slowest.",
            )


def _heat_maps(rows: Sequence[Row]) -> Iterator[HeatMap]:
    """Per protocol: which states were reached under which fault."""
    for heading, own in _groups(rows, "campaign", "protocol"):
        faults = sorted({str(row["fault"]) for row in own})
        rows_by_pair = {(row["state"], row["fault"]): row for row in own}
        states = sorted({str(row["state"]) for row in own})
        cells = tuple((state, tuple(_heat_cell(rows_by_pair[state, fault]) for fault in faults)) for state in states)
        yield HeatMap(
            caption=heading,
            faults=tuple(fault or "no fault" for fault in faults),
            states=cells,
            reached=sum(_number_or_0(row, "runs") > 0 for row in own),
            pairs=len(own),
        )


def _heat_cell(row: Row) -> HeatCell:
    runs, of_runs = _number_or_0(row, "runs"), _number_or_0(row, "of_runs")
    fault = row["fault"] or "no fault"
    words = f"{row['state']} with {fault}: " + (f"{runs} of {of_runs} runs, {row['times']} times" if runs else "never reached")
    return HeatCell(runs, min(runs.bit_length(), 5), words)


def _measure_pictures(rows: Sequence[Row]) -> Iterator[Picture]:
    """The medians and quartiles of two variants: times, then counts."""
    for heading, words, wanted in (("Times", lambda ms: _tick_words(ms * _NS_PER_MS), True), ("Counts", "{:,}".format, False)):
        own = [row for row in rows if str(row["measure"]).endswith("_ms") is wanted]
        spans = [_quartile_span(row, side, css) for row in own for side, css in (("first", "r0"), ("second", "r1"))]
        if spans:
            yield Picture(
                heading=heading,
                svg=Markup(span_figure(spans, f"{heading.lower()} of the two variants", words)),
                caption="Dot: median over the runs; line: from the lower to the upper quartile. What is below 1 is drawn at 1. "
                "Whether the two differ is in the table: there each plan is compared with itself.",
            )


def _quartile_span(row: Row, side: str, css: str) -> Span:
    """The median and the quartiles of one variant, rounded."""
    values = [round(value) for name in ("_q1", "", "_q3") if isinstance(value := row[f"{side}{name}"], int | float)]
    low, middle, high = values
    title = f"{row['words']}: {low} to {high}, median {middle}, {row['pairs']} plans"
    return Span(
        label=f"{row['measure']} · {side}",
        points=(Point(low, "end"), Point(middle, "dot"), Point(high, "end")),
        title=title,
        css=css,
    )


_PICTURES: dict[str, Callable[[Sequence[Row]], Iterator[Picture]]] = {
    "detection": lambda rows: _detection_pictures(rows, "mix", "default"),
    "detection-by-fault": lambda rows: _detection_pictures(rows, "fault", ""),
    "recovery": _recovery_pictures,
    "latency": _latency_pictures,
    _MEASURES: _measure_pictures,
}


# --- Two campaigns --------------------------------------------------------------------------------------------------------------


class Comparison(Struct, frozen=True, kw_only=True):
    """One line of the page of two campaigns; the fields are the columns of `highwater diff`."""

    protocol: str
    what: str
    subject: str
    before: int | None
    of_before: int
    after: int | None
    of_after: int
    changed: int | None
    p: float | None
    worse: bool


class ProtocolView(Struct, frozen=True, kw_only=True):
    """One protocol in both campaigns. `lost` holds pairs of coverage that the second campaign reaches less often or never."""

    name: str
    outcomes: tuple[Comparison, ...]
    kinds: tuple[Comparison, ...]
    recovery: tuple[Comparison, ...]
    picture: Picture | None
    lost: tuple[Comparison, ...]
    pairs: int


class DiffPage(Struct, frozen=True, kw_only=True):
    """The view model of two campaigns. `result` and `tone` say how bad the worst finding is, `rules` what counts as worse."""

    before: str
    after: str
    result: str
    tone: str
    repeat: str
    rules: tuple[str, ...]
    worse: tuple[Comparison, ...]
    protocols: tuple[ProtocolView, ...]


def protocol_views(rows: Sequence[Comparison], *, before: str, after: str) -> tuple[ProtocolView, ...]:
    """The parts of the page, one for each protocol."""
    names = sorted({row.protocol for row in rows})
    return tuple(_protocol_view(name, [row for row in rows if row.protocol == name], before, after) for name in names)


def _protocol_view(name: str, rows: Sequence[Comparison], before: str, after: str) -> ProtocolView:
    """The comparison of one protocol."""
    pairs = [row for row in rows if row.what == "coverage"]
    lost = [row for row in pairs if row.worse or not row.after]
    recovery = sorted((row for row in rows if row.what == "recovery"), key=lambda row: row.subject)
    return ProtocolView(
        name=name,
        outcomes=tuple(row for row in rows if row.what in ("invalid", "not-live", "unknown", "protocol")),
        kinds=tuple(sorted((row for row in rows if row.what == "new-anomaly"), key=lambda row: row.subject)),
        recovery=tuple(recovery),
        picture=_recovery_picture(recovery, before, after),
        lost=tuple(sorted(lost, key=lambda row: (not row.worse, row.p or 0, row.subject))),
        pairs=len(pairs),
    )


def side_words(row: Comparison, side: str) -> str:
    """The figure of one side, `before` or `after`, in words."""
    value, plans = (row.before, row.of_before) if side == "before" else (row.after, row.of_after)
    if row.what != "recovery":
        return f"{value} of {plans}"
    if not plans:
        return "no window"
    return f"{'never' if value is None else latency_words(value)} in {plans} {'plan' if plans == 1 else 'plans'}"


def _recovery_picture(rows: Sequence[Comparison], before: str, after: str) -> Picture | None:
    """The median recovery in both campaigns, by fault; None if there is none."""
    spans = [_span_of_both(row, before, after) for row in rows if row.of_before or row.of_after]
    if not spans:
        return None
    return Picture(
        heading="Recovery",
        svg=Markup(span_figure(spans, f"median recovery by fault, {before} and {after}", _tick_words)),
        caption=f"The median over the plans of the slowest recovery from each fault: grey in {before}, blue in {after}, orange "
        f"where {after} is slower beyond noise.",
    )


def _span_of_both(row: Comparison, before: str, after: str) -> Span:
    """Both medians as points on one line."""
    points = [Point(row.before, "dot", "r6")] if row.of_before else []
    if row.of_after:
        points.append(Point(row.after, "dot", "r1" if row.worse else "r0"))
    words = f"{before} {side_words(row, 'before')}, {after} {side_words(row, 'after')}"
    return Span(label=row.subject, points=tuple(points), title=words, css="r6")
