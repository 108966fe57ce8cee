"""Renders HTML pages of runs and campaigns: fills the templates and draws the figures into one self-contained string.

Autoescape is on, undefined names are errors, styles and figures are inline, nothing is fetched and no clock is read. The same
view model gives the same bytes.
"""

from collections.abc import Iterable, Sequence, Set
from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from checkers.verdict import Verdict
from history.history import History
from reports.analytics import AnalyticsPage, DiffPage, side_words
from reports.anomalies import AnomalyView
from reports.index import CampaignPage, GoalRow, RunRow, campaign_of
from reports.lag import partition_figure
from reports.model import VALUES_MAX, RunPage, page_of
from reports.plots import call_figure
from reports.svg import Pointer, latency_words, seconds
from reports.timeline import nodes_figure, timeline_figure
from reports.windows import CATEGORIES


def run_html(history: History, verdict: Verdict, *, plan: str, repeat: str) -> str:
    """Render the page of one run. `plan` is the text of the plan, `repeat` the command that repeats the run."""
    return render_run(page_of(history, verdict, plan=plan, repeat=repeat))


def campaign_html(
    rows: Iterable[RunRow], *, title: str, repeat: str, goals: Sequence[GoalRow] = (), broken: Sequence[RunRow] = ()
) -> str:
    """Render the index page of a campaign, or of a job with checks that are not as expected (`broken`)."""
    return render_campaign(campaign_of(rows, title=title, repeat=repeat, goals=goals, broken=broken))


def render_run(page: RunPage) -> str:
    """Render the page of a run from its view model."""
    scale, behind, brokers = page.scale, page.backdrop, page.manifest.brokers
    troubled = {view.track.key for view in page.anomalies if view.track is not None}
    excused = {view.key for view in page.excused}
    return (
        _environment()
        .get_template("run.html.j2")
        .render(
            page=page,
            css=_css(),
            categories=CATEGORIES,
            values_max=VALUES_MAX,
            timeline=Markup(timeline_figure(page.calls, scale, behind, pointers=_flags(page))),
            nodes=Markup(nodes_figure(page.nodes, scale, behind)),
            partitions=[
                (track, _trouble(track.key, troubled, excused), Markup(partition_figure(track, scale, behind, brokers=brokers)))
                for track in page.partitions
            ],
            plots=[
                (row.f, Markup(call_figure([c for c in page.calls if c.f == row.f], scale, behind, row.f)))
                for row in page.statistics
            ],
            first_stories={row.shown[0] for row in page.kinds if row.shown},
            zooms={view.number: _zoom(view, page) for view in page.anomalies},
        )
    )


def render_campaign(page: CampaignPage) -> str:
    """Render the index page of a campaign from its view model."""
    return _environment().get_template("campaign.html.j2").render(page=page, css=_css())


def render_analytics(page: AnalyticsPage) -> str:
    """Render the view model of answers about a dataset."""
    return _environment().get_template("analytics.html.j2").render(page=page, css=_css())


def render_diff(page: DiffPage) -> str:
    """Render the view model of two campaigns side by side."""
    return _environment().get_template("diff.html.j2").render(page=page, css=_css())


def _trouble(key: str, anomalous: Set[str], excused: Set[str]) -> str:
    # Which part of the page says more about a partition; "" for one without anomalies and excused losses.
    if key in anomalous:
        return "see anomalies"
    return "see excused losses" if key in excused else ""


def _flags(page: RunPage) -> list[Pointer]:
    """The time to mark for each anomaly in a figure: that of its last witness."""
    return [
        Pointer(time_ns=max(line.time_ns for line in view.witnesses), words=f"anomaly {view.number}, {view.anomaly.kind}")
        for view in page.anomalies
        if view.witnesses
    ]


def _zoom(view: AnomalyView, page: RunPage) -> Markup:
    if view.scale is None:
        return Markup("")
    pointers = [Pointer(time_ns=line.time_ns, words=f"{line.who} {line.words}") for line in view.witnesses]
    if view.track is None:
        return Markup(nodes_figure(page.nodes, view.scale, page.backdrop, pointers=pointers))
    return Markup(partition_figure(view.track, view.scale, page.backdrop, brokers=page.manifest.brokers, pointers=pointers))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("reports"), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["seconds"] = seconds
    environment.filters["latency"] = latency_words
    environment.filters["counted"] = counted
    environment.filters["side"] = side_words
    return environment


@cache
def _css() -> Markup:
    return Markup((Path(__file__).parent / "static" / "report.css").read_text(encoding="utf-8"))


def counted(number: int, noun: str) -> str:
    """Format a number with its noun: "1 leader change", "2 leader changes"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
