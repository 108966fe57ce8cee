"""Renders HTML pages of runs and campaigns: fills the templates and draws the figures into one self-contained string.

Autoescape is on, undefined names are errors, styles and figures are inline, nothing is fetched and no clock is read. The same
view model gives the same bytes.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from types import MappingProxyType
from typing import NamedTuple

from markupsafe import Markup

from checkers.engine.verdict import Verdict
from history.history import History
from reports.analytics import AnalyticsPage, DiffPage
from reports.anomalies import AnomalyView
from reports.beside import BesidePage, Given, PlanChange, beside_of
from reports.delivery import delivery_figure
from reports.first_call import FirstCall
from reports.index import Banner, CampaignPage, GoalRow, RunRow, campaign_of
from reports.lag import partition_figure
from reports.metrics import metrics_figure, steady
from reports.plots import call_figure
from reports.rows import CLIENTS, Source
from reports.run_page import VALUES_MAX, Hazard, RunPage, page_of
from reports.spacetime import ZOOKEEPER
from reports.spacetime_figure import Drawn, paired_figure, sign_of, spacetime_figure
from reports.svg import LEFT, PLOT, Pointer
from reports.templating import counted, environment, static, styles
from reports.timeline import nodes_figure, timeline_figure
from reports.windows import CATEGORIES


class Link(NamedTuple):
    """A page of the run beside another one: the other run in words, and the page relative to the run's own page."""

    words: str
    page: str


def run_html(
    history: History,
    verdict: Verdict,
    *,
    plan: str,
    repeat: str,
    hazard: Hazard | None = None,
    sources: Mapping[str, Source] = MappingProxyType({}),
    links: Sequence[Link] = (),
    window: tuple[int, int] | None = None,
) -> str:
    """Render the page of one run. `plan` is the text of the plan, `repeat` the command that repeats the run.

    `sources` tells of kinds of rows (with their detail, as `Line.kind`) which code notes them.
    """
    page = page_of(history, verdict, plan=plan, repeat=repeat, hazard=hazard, window=window)
    return render_run(page, sources=sources, links=links)


def campaign_html(
    rows: Iterable[RunRow],
    *,
    title: str,
    repeat: str,
    banner: Banner,
    goals: Sequence[GoalRow] = (),
    broken: Sequence[RunRow] = (),
    known: Set[str] | None = None,
) -> str:
    """Render the index page of a campaign, or of a job with checks that are not as expected (`broken`)."""
    return render_campaign(campaign_of(rows, title=title, repeat=repeat, goals=goals, broken=broken, banner=banner, known=known))


def render_run(page: RunPage, *, sources: Mapping[str, Source] = MappingProxyType({}), links: Sequence[Link] = ()) -> str:
    """Render the page of a run from its view model."""
    scale, behind, brokers = page.scale, page.backdrop, page.manifest.brokers
    troubled = {view.track.key for view in page.anomalies if view.track is not None}
    excused = {view.key for view in page.excused}
    flags = _anomaly_pointers(page)
    return (
        environment()
        .get_template("run.html.j2")
        .render(
            page=page,
            links=links,
            apparent=sorted({flag.time_ns for flag in flags}),
            calls=sum(1 for call in page.calls if scale.shows(call.start_ns, call.end_ns or call.start_ns)),
            css=styles(),
            script=static("run.js"),
            sources={} if page.manifest.system is not None else sources,
            left=LEFT,
            plot=PLOT,
            processes=(*([CLIENTS] if page.calls else []), *brokers, ZOOKEEPER),
            spacetime=Markup("" if page.diagram is None else spacetime_figure(page.diagram)),
            categories=CATEGORIES,
            values_max=VALUES_MAX,
            timeline=Markup(
                timeline_figure(page.calls, scale, behind, rebalances=page.rebalances, pointers=_anomaly_pointers(page))
            ),
            nodes=Markup(nodes_figure(page.nodes, scale, behind)),
            partitions=[
                (
                    track,
                    _section_with_more(track.key, troubled, excused),
                    Markup(partition_figure(track, scale, behind, brokers=brokers)),
                )
                for track in page.partitions
            ],
            metrics=Markup(metrics_figure(page.metrics, scale, behind, brokers=brokers)),
            delivery=Markup(delivery_figure(page.delivery, scale, behind, final_reads_ns=page.manifest.final_reads_at_ns)),
            steady_metrics=steady(page.metrics),
            plots=[
                (row.f, Markup(call_figure([c for c in page.calls if c.f == row.f], scale, behind, row.f)))
                for row in page.statistics
            ],
            first_stories={row.shown[0] for row in page.kinds if row.shown},
            zooms={view.number: _zoomed_figure(view, page) for view in page.anomalies},
        )
    )


def render_campaign(page: CampaignPage) -> str:
    """Render the index page of a campaign from its view model."""
    return (
        environment()
        .get_template("campaign.html.j2")
        .render(page=page, css=styles() + static("campaign.css"), script=static("campaign.js"))
    )


def render_analytics(page: AnalyticsPage) -> str:
    """Render the view model of answers about a dataset."""
    return environment().get_template("analytics.html.j2").render(page=page, css=styles())


def render_diff(page: DiffPage) -> str:
    """Render the view model of two campaigns side by side."""
    return environment().get_template("diff.html.j2").render(page=page, css=styles())


def beside_html(
    left: Given, right: Given, *, plans: Sequence[PlanChange], repeat: str, first_call: FirstCall | None = None
) -> str:
    """Render the page of a run and its neighbour. `plans` says in what their plans differ, `repeat` makes the page again."""
    return render_beside(beside_of(left, right, plans=plans, repeat=repeat, first_call=first_call))


def render_beside(page: BesidePage) -> str:
    """Render the page of two runs beside each other from its view model."""
    sides = (page.left, page.right)
    names = ("this run", "beside it")
    brokers = tuple(dict.fromkeys((*page.left.manifest.brokers, *page.right.manifest.brokers)))
    tracks = [(name, side, track) for name, side in zip(names, sides, strict=True) for track in side.partitions]
    tracks.sort(key=lambda track_entry: track_entry[2].key)
    diagram = paired_figure((page.left.diagram, page.right.diagram), _paired_rows(page), names) if page.lines else ""
    return (
        environment()
        .get_template("beside.html.j2")
        .render(
            page=page,
            css=styles() + static("beside.css"),
            script=static("run.js"),
            left=LEFT,
            plot=PLOT,
            processes=(CLIENTS, *brokers, ZOOKEEPER),
            keys=list(dict.fromkeys(track.key for _, _, track in tracks)),
            spacetime=Markup(diagram),
            first=max((mark.line for mark in page.marks), default=0),
            left_out=page.left.diagram.left_out + page.right.diagram.left_out,
            nodes=[
                (side, Markup(nodes_figure(side.nodes, page.scale, side.backdrop, pointers=_partings(page, number))))
                for number, side in enumerate(sides)
            ],
            partitions=[
                (
                    name,
                    track,
                    Markup(
                        partition_figure(
                            track, page.scale, side.backdrop, brokers=brokers, pointers=_partings(page, sides.index(side))
                        )
                    ),
                )
                for name, side, track in tracks
            ],
        )
    )


def _paired_rows(page: BesidePage) -> list[Drawn]:
    """The lines of the diagram of two runs, numbered from 0 as the script names them."""
    spots = [{spot.line.index: spot for spot in side.diagram.spots} for side in (page.left, page.right)]
    rows = []
    for number, line in enumerate(page.lines):
        own = tuple(None if index is None else spots[side][index] for side, index in enumerate((line.left, line.right)))
        css = ("" if line.place == "both" else f" only-{line.place}") + (" marked" if line.mark else "")
        mark = f"[{line.mark}] " if line.mark else ""
        gap = f"{counted(line.gap, 'row')} left out" if line.gap else ""
        rows.append(Drawn(spots=own, name=number, css=css, sign=sign_of(line.place), note=mark, gap=gap))
    return rows


def _partings(page: BesidePage, side: int) -> list[Pointer]:
    """When the marked rows of one run were recorded."""
    lines = [((mark.left, mark.right)[side], mark.number) for mark in page.marks]
    return [Pointer(time_ns=line.time_ns, words=f"[{n}] {line.who} {line.words}") for line, n in lines if line is not None]


def _section_with_more(key: str, anomalous: Set[str], excused: Set[str]) -> str:
    """Which part of the page says more about a partition; "" for one without anomalies and excused losses."""
    if key in anomalous:
        return "see anomalies"
    return "see excused losses" if key in excused else ""


def _anomaly_pointers(page: RunPage) -> list[Pointer]:
    """The time to mark for each anomaly in a figure: that of its last witness."""
    return [
        Pointer(time_ns=max(line.time_ns for line in view.witnesses), words=f"anomaly {view.number}, {view.anomaly.kind}")
        for view in page.anomalies
        if view.witnesses
    ]


def _zoomed_figure(view: AnomalyView, page: RunPage) -> Markup:
    """The figure of an anomaly's time, of its partition or of the brokers."""
    if view.scale is None:
        return Markup("")
    pointers = [Pointer(time_ns=line.time_ns, words=f"{line.who} {line.words}") for line in view.witnesses]
    if view.track is None:
        return Markup(nodes_figure(page.nodes, view.scale, page.backdrop, pointers=pointers))
    return Markup(partition_figure(view.track, view.scale, page.backdrop, brokers=page.manifest.brokers, pointers=pointers))
