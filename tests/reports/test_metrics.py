"""The section of metrics in a run's page: one panel for each metric that changed, with the fault bands above."""

from history.event import ClusterEvent, EventKind
from reports.metrics import drawn, metrics_figure, metrics_of, steady
from reports.svg import Backdrop, TimeScale
from reports.windows import FaultWindow
from tests.reports.scenes import BROKERS, MS

LEADERS = "kafka.server:name=LeaderCount,type=ReplicaManager"
SCALE = TimeScale(start_ns=0, end_ns=10_000 * MS)
CALM = Backdrop(windows=(), milestones=())


def gauge_events(*rows: tuple[int, str, str, int]) -> list[ClusterEvent]:
    """Gauges as (ms, broker, metric, value)."""
    return [
        ClusterEvent(index=n, kind=EventKind.GAUGE, time_ns=ms * MS, node=node, life=1, detail=detail, gauge=value)
        for n, (ms, node, detail, value) in enumerate(rows)
    ]


def test_line_of_a_metric_ends_with_its_process() -> None:
    rows = gauge_events((100, "b1", LEADERS, 2))
    rows.append(ClusterEvent(index=9, kind=EventKind.NODE_STOPPED, time_ns=300 * MS, node="b1", life=1))

    (track,) = metrics_of(rows, BROKERS)
    assert (track.name, track.brokers) == ("LeaderCount", (("b1", ((100 * MS, 2), (300 * MS, None))),))


def test_only_metrics_that_changed_are_drawn() -> None:
    tracks = metrics_of(gauge_events((1, "b1", LEADERS, 0), (2, "b1", LEADERS, 1), (1, "b1", "a:name=B,type=C", 7)), BROKERS)

    assert ([track.name for track in drawn(tracks)], steady(tracks)) == (["LeaderCount"], ["B 7"])


def test_figure_has_faults_names_and_a_line_for_each_broker() -> None:
    window = FaultWindow(id="w1", kind="crash-random", category="process", nodes=("b2",), start_ns=0, end_ns=MS, acted=1)
    tracks = metrics_of(gauge_events((1, "b1", LEADERS, 0), (2, "b1", LEADERS, 1), (2, "b2", LEADERS, 1)), BROKERS)
    svg = metrics_figure(tracks, SCALE, Backdrop(windows=(window,), milestones=()), brokers=BROKERS)

    assert all(words in svg for words in ("crash-random b2", ">LeaderCount<", "LeaderCount of b1", "LeaderCount of b2", LEADERS))


def test_figure_without_changes_is_left_out() -> None:
    assert metrics_figure(metrics_of(gauge_events((1, "b1", LEADERS, 0)), BROKERS), SCALE, CALM, brokers=BROKERS) == ""
