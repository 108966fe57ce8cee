"""Figures as drawings: scales, buckets, and the bounds of a zoomed picture."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from history.op import OpType
from reports.calls import Call
from reports.lag import partition_figure
from reports.nodes import NodeTrack
from reports.plots import bucket_ns, call_figure, quantile_points
from reports.replicas import tracks_of
from reports.svg import LEFT, NS_PER_S, PLOT, Backdrop, Pointer, TimeScale, latency_words
from reports.timeline import HOVER_MAX, nodes_figure, timeline_figure
from tests.reports.scenes import MS, small_loss

NOTHING = Backdrop(windows=(), milestones=())
MINUTE = TimeScale(start_ns=0, end_ns=60 * NS_PER_S)


def a_call(number: int, *, took_ms: int = 5, outcome: OpType = OpType.OK, end_ns: int | None = None) -> Call:
    start = number * 10 * MS
    return Call(
        index=number,
        completed=None,
        process=0,
        f="produce",
        type=outcome,
        topic="orders",
        partition=0,
        start_ns=start,
        end_ns=start + took_ms * MS if end_ns is None else end_ns,
        records=1,
        offset=None,
        error=None,
        node=None,
    )


@given(st.integers(NS_PER_S, 10**6 * NS_PER_S))
def test_any_time_span_has_at_most_a_hundred_plot_buckets(span: int) -> None:
    assert span // bucket_ns(span) < 100 or bucket_ns(span) == 1000 * NS_PER_S


def test_plot_bucket_without_an_answer_has_no_quantile() -> None:
    """A line drawn through an outage would show calls as fast during it."""
    calls = [a_call(0, took_ms=7), a_call(300, took_ms=9)]
    points = dict(quantile_points(calls, MINUTE, 500))
    assert [value for value in points.values() if value is not None] == [7 * MS, 9 * MS]
    assert len(points) == 61


def test_failed_calls_are_not_counted_in_latency_quantiles() -> None:
    calls = [a_call(0, took_ms=7), a_call(1, took_ms=2000, outcome=OpType.INFO)]
    assert next(value for _, value in quantile_points(calls, MINUTE, 1000)) == 7 * MS


def test_latency_axis_begins_at_the_decade_of_the_fastest_call() -> None:
    drawing = call_figure([a_call(n, took_ms=20 + n) for n in range(5)], MINUTE, NOTHING, "produce")
    assert re.findall(r">(\S+ ms)<", drawing) == ["10 ms", "100 ms"]


@pytest.mark.parametrize("calls", [[], [a_call(0, outcome=OpType.FAIL)]], ids=["none", "only failed"])
def test_calls_without_an_acknowledgement_have_plots(calls: list[Call]) -> None:
    assert call_figure(calls, MINUTE, NOTHING, "produce").startswith("<svg")
    assert timeline_figure(calls, MINUTE, NOTHING).startswith("<svg")


def test_calls_without_a_hover_text_are_still_drawn() -> None:
    calls = [a_call(n) for n in range(HOVER_MAX + 500)]
    drawing = timeline_figure(calls, MINUTE, NOTHING)
    assert drawing.count("<rect") == HOVER_MAX
    assert "500 calls: ok" in drawing


def test_zoomed_picture_shows_nothing_from_other_times() -> None:
    history, _ = small_loss()
    (track,) = tracks_of(history.events, history.manifest.assignments, 30_000 * MS)
    zoom = TimeScale(start_ns=4900 * MS, end_ns=5300 * MS)

    drawing = partition_figure(
        track, zoom, NOTHING, brokers=("b1", "b2", "b3"), pointers=[Pointer(time_ns=5020 * MS, words="here")]
    )

    assert "b2 is down, 3.000 to 5.000 s" in drawing
    assert "b2 leads" not in drawing
    assert drawing.count('class="pointer"') == 1
    assert all(LEFT <= int(x) <= LEFT + PLOT for x in re.findall(r'<rect x="(\d+)"', drawing))


def test_zoomed_picture_has_no_controller_of_another_time() -> None:
    node = NodeTrack(node="b1", down=(), registered=((0, NS_PER_S),), reigns=((3, 0, NS_PER_S),))
    zoom = TimeScale(start_ns=2 * NS_PER_S, end_ns=3 * NS_PER_S)
    assert "controller epoch 3" not in nodes_figure([node], zoom, NOTHING)
    assert "controller epoch 3" in nodes_figure([node], MINUTE, NOTHING)


def test_latency_words_have_a_readable_unit() -> None:
    worded = [latency_words(ns) for ns in (None, 740_000, 48_200_000, 1_259_000_000)]
    assert worded == ["none", "0.7 ms", "48 ms", "1.25 s"]
