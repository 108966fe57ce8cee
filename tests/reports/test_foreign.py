"""The page of a history from elsewhere in a real browser: orders, steps, calls, cycles."""

from pathlib import Path

import pytest

from highwater.cli.main import run_command_line
from tests.reports.test_browser import Page, complaints, page  # noqa: F401 - a fixture

pytestmark = [pytest.mark.browser, pytest.mark.slow]

# The writes of 4 and 5 are concurrent with the read of 3, which nobody wrote.
READS_3 = """
{:process 0 :type :invoke :f :write :value 1} {:process 0 :type :ok :f :write :value 1}
{:process 1 :type :invoke :f :write :value 4} {:process 2 :type :invoke :f :write :value 5}
{:process 3 :type :invoke :f :read :value nil} {:process 3 :type :ok :f :read :value 3}
{:process 1 :type :ok :f :write :value 4} {:process 2 :type :ok :f :write :value 5}
"""
SKEW = """
{:process 0 :type :invoke :f :txn :value [[:append :x 1] [:r :y nil]]}
{:process 1 :type :invoke :f :txn :value [[:append :y 1] [:r :x nil]]}
{:process 0 :type :ok :f :txn :value [[:append :x 1] [:r :y []]]}
{:process 1 :type :ok :f :txn :value [[:append :y 1] [:r :x []]]}
{:process 2 :type :invoke :f :txn :value [[:r :x nil] [:r :y nil]]}
{:process 2 :type :ok :f :txn :value [[:r :x [1]] [:r :y [1]]]}
"""
SENDS = """
{:process 0 :type :invoke :f :send :value [[:send :k 1]]} {:process 0 :type :ok :f :send :value [[:send :k [0 1]]]}
{:process 1 :type :invoke :f :send :value [[:send :k 2]]} {:process 1 :type :ok :f :send :value [[:send :k [0 2]]]}
"""


def _open(page: Page, text: str, folder: Path) -> list[str]:  # noqa: F811
    """Judge a history and open its page; returns what the console and the network hear."""
    heard: list[str] = []
    page.on("request", lambda request: heard.append(request.url))
    page.on("console", lambda message: heard.append(message.text))
    page.on("pageerror", lambda error: heard.append(str(error)))
    (folder / "history.edn").write_text(text)
    html = folder / "page.html"
    assert run_command_line(["check", str(folder / "history.edn"), "--report", str(html)]) == 10
    page.goto(html.as_uri())
    return heard


def test_orders_of_calls_are_chosen_and_walked_through(page: Page, tmp_path: Path) -> None:  # noqa: F811
    heard = _open(page, READS_3, tmp_path)
    locator = page.locator(".controls output")

    assert "cannot come next" in locator.inner_text()
    assert page.locator(".way:visible .point").count() == page.locator(".way").first.locator(".point").count()
    for number, button in enumerate(page.locator("button[data-way]").all()):
        button.click()
        assert button.get_attribute("aria-pressed") == "true"
        assert page.locator(".ends li.chosen").inner_text() == page.locator(".ends li").nth(number).inner_text()
    page.get_by_role("button", name="one call back").click()
    assert "cannot come next" not in locator.inner_text()
    assert page.locator(".way:visible .point.later").count() == 1
    page.get_by_role("button", name="one call forward").click()
    assert "cannot come next" in locator.inner_text()
    assert heard == [(tmp_path / "page.html").as_uri()]


def test_call_shows_its_lines_and_the_state_and_stays_if_clicked(page: Page, tmp_path: Path) -> None:  # noqa: F811
    _open(page, READS_3, tmp_path)
    panel = page.locator(".panel")
    first = page.locator(".call").first

    assert panel.is_hidden()
    first.hover()
    assert "lines 1 and 2, process 0\nwrite 1\nok" in panel.inner_text()
    assert "then the state is 1" in panel.inner_text()
    page.locator("h1").hover()
    assert panel.is_hidden()
    first.click()
    page.locator("h1").hover()
    assert panel.is_visible()
    first.press("Enter")
    page.locator("h1").hover()
    assert panel.is_hidden()


def test_edge_of_a_cycle_lights_its_transactions_and_reason(page: Page, tmp_path: Path) -> None:  # noqa: F811
    heard = _open(page, SKEW, tmp_path)
    edges = page.locator("svg .edge")

    assert edges.count() == page.locator(".reasons li").count() == page.locator("svg .node").count() == 2
    page.locator(".reasons li").first.click()
    assert page.locator("svg .edge.on").count() == 1
    assert page.locator("svg .node.on").count() == 2
    assert page.locator(".quotes tr.on").count() == 2
    page.locator(".reasons li").first.press("Enter")
    page.locator("h1").hover()
    assert page.locator("svg .on").count() == 0
    page.locator("svg .node").first.press("Enter")
    assert page.locator("svg .node.on").count() == 1
    assert "append x 1" in page.locator("svg .cycle, svg .node").first.text_content()  # type: ignore[operator]
    assert len(heard) == 1


def test_offsets_with_two_values_are_marked(page: Page, tmp_path: Path) -> None:  # noqa: F811
    heard = _open(page, SENDS, tmp_path)

    assert page.locator(".offsets tr.differ").first.all_inner_texts() == ["0\tsent 1\tsent 2"]
    assert len(heard) == 1


@pytest.mark.parametrize("width", [1400, 400])
@pytest.mark.parametrize("text", [READS_3, SKEW, SENDS], ids=["orders", "cycle", "offsets"])
def test_foreign_page_is_no_wider_than_its_window(text: str, width: int, page: Page, tmp_path: Path) -> None:  # noqa: F811
    page.set_viewport_size({"width": width, "height": 900})
    _open(page, text, tmp_path)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("text", [READS_3, SKEW, SENDS], ids=["orders", "cycle", "offsets"])
def test_axe_finds_nothing_wrong_with_a_foreign_page(text: str, page: Page, tmp_path: Path) -> None:  # noqa: F811
    _open(page, text, tmp_path)
    assert complaints(page) == []
