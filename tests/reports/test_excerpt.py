"""A long run is shown around its cause; what is shown is said on the page, and another part can be asked for."""

import pytest

from checkers.engine.verdict import Findings, merge
from history.history import History
from reports.excerpt import EXCERPT_NS, WHOLE_MAX_NS, excerpt_of
from reports.render import run_html
from reports.run_page import page_of
from reports.svg import NS_PER_S
from tests.reports.scenes import random_run
from tests.reports.test_why import a_loss

LONG_S = 3600


@pytest.fixture(scope="module")
def long_run() -> History:
    return random_run(seed=3, partitions=2, seconds=LONG_S, calls_per_s=1)


def test_short_run_is_shown_as_a_whole() -> None:
    history, verdict = a_loss()
    page = page_of(history, verdict, plan="", repeat="")
    assert page.whole
    assert (page.scale.start_ns, page.scale.end_ns) == (0, page.end_ns)


def test_long_run_is_shown_around_its_cause() -> None:
    history, verdict = a_loss()
    page = page_of(history, verdict, plan="", repeat="")
    cause = page.cause_lines
    time_scale = excerpt_of(history, cause=None, shown=[verdict.anomalies[0]], end_ns=2 * WHOLE_MAX_NS)
    assert time_scale.end_ns - time_scale.start_ns == EXCERPT_NS
    assert all(time_scale.shows(line.time_ns, line.time_ns) for line in cause)


def test_long_valid_run_shows_its_healing(long_run: History) -> None:
    page = page_of(long_run, merge([Findings()]), plan="", repeat="")
    healed = long_run.manifest.healed_at_ns
    assert healed is not None
    assert not page.whole
    assert page.scale.shows(healed, healed)
    assert all(page.scale.shows(line.time_ns, line.time_ns) for line in page.log)


def test_window_of_a_page_is_the_one_asked_for(long_run: History) -> None:
    window = (100 * NS_PER_S, 200 * NS_PER_S)
    page = page_of(long_run, merge([Findings()]), plan="", repeat="", window=window)
    assert (page.scale.start_ns, page.scale.end_ns) == window


def test_page_of_an_hour_is_small_and_says_what_is_left_out(long_run: History) -> None:
    html = run_html(long_run, merge([Findings()]), plan="", repeat="")
    assert len(html.encode()) < 2_000_000
    assert "highwater report RUN --window" in html
    assert "This run is 3601 s long" in html
