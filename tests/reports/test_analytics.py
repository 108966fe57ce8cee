"""Pages of answers: what is drawn, and that every picture has its figures as a table."""

import re

import pytest

from reports.analytics import Section, side_words, value_words
from reports.charts import Point, Span, span_figure
from reports.render import render_analytics, render_diff
from tests.reports.answers import MS, analytics_page, compared, diff_page


def section(name: str) -> Section:
    return next(section_found for section_found in analytics_page().sections if section_found.part.name == name)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("recovery_ns", 1_259 * MS, "1.25 s"),
        ("p50_ns", 740_000, "0.7 ms"),
        ("ok_share", 0.875, "87.5 %"),
        ("p", 0.000123456, "0.0001235"),
        ("seed", None, "none"),
        ("fault", "", "no fault"),
        ("mix", "", "default"),
        ("worse", True, "yes"),
        ("nodes", ["b1", "b2"], "b1, b2"),
    ],
)
def test_value_is_worded_by_the_unit_of_its_column(name: str, value: object, words: str) -> None:
    assert value_words(name, value) == words


def test_interval_without_an_end_is_an_arrow() -> None:
    """A variant that was never detected must not look like one that is detected at once."""
    picture = str(section("detection").pictures[0].svg)

    assert picture.count('class="arrow') == 1
    assert "0 of 50 seeds detect; the median is at least 10 seeds" in picture


def test_pair_that_was_never_reached_is_an_empty_cell() -> None:
    page = render_analytics(analytics_page())
    cell = re.search(r'<td class="n never-cell" title="b with clog: never reached">(.*?)</td>', page)

    assert cell is not None
    assert cell[1] == ""
    assert [(heat_map.reached, heat_map.pairs) for heat_map in section("coverage").maps] == [(3, 4)]


def test_heat_grows_with_the_number_of_runs() -> None:
    assert [[cell.heat for cell in cells] for _, cells in section("coverage").maps[0].states] == [[5, 1], [5, 0]]


def test_operation_without_a_success_is_left_out_of_the_picture() -> None:
    picture = str(section("latency").pictures[0].svg)

    assert picture.count('class="row-label"') == 2


def test_every_picture_has_a_label_and_its_figures() -> None:
    page = render_analytics(analytics_page())

    assert page.count('<svg class="figure"') == page.count('role="img" aria-label="') == 4
    assert [len(section_found.cells) for section_found in analytics_page().sections] == [3, 4, 2, 3, 0, 2]


def test_texts_of_runs_are_escaped() -> None:
    assert "&lt;p1-15&gt;" in render_analytics(analytics_page())


def test_axis_puts_decades_at_equal_distances() -> None:
    spans = [Span(label="x", points=(Point(1, "dot"), Point(1000, "end")), title="")]
    lines = re.findall(r'<text x="(\d+)" [^>]*class="tick"', span_figure(spans, "", str))

    assert [int(x) for x in lines] == [300, 547, 793, 1040]


def test_side_words_of_recovery_are_durations() -> None:
    row = compared("recovery", "clog", 1_259 * MS, after=None)

    assert (side_words(row, "before"), side_words(row, "after")) == ("1.25 s in 50 plans", "never in 40 plans")


def test_pairs_of_coverage_are_listed_if_lost() -> None:
    view = diff_page().protocols[0]

    assert [row.subject for row in view.lost] == ["truncate, clog", "became-leader, no fault"]
    assert view.pairs == 3


def test_slower_recovery_has_a_colour_of_its_own() -> None:
    picture = render_diff(diff_page())

    assert picture.count('class="arrow r1"') == 1
    assert picture.count('class="median r0"') == 1
