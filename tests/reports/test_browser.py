"""Pages in a real browser: nothing is fetched, no script fails, the index sorts and filters."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from reports.render import campaign_html, run_html
from tests.reports.campaigns import BANNER, goals, rows
from tests.reports.scenes import small_loss

try:
    from axe_playwright_python.sync_playwright import Axe
    from playwright.sync_api import Browser, Page, expect
except ImportError:
    pytest.skip("needs playwright and axe", allow_module_level=True)

pytestmark = [pytest.mark.browser, pytest.mark.slow]
__all__ = ["Page", "complaints", "expect", "page"]


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    opened = browser.new_page()
    yield opened
    opened.close()


def open_page(page: Page, html: str, folder: Path) -> list[str]:
    """Open a page from a file. Its requests, console messages and errors are added to the returned list."""
    heard: list[str] = []
    page.on("request", lambda request: heard.append(request.url))
    page.on("console", lambda message: heard.append(message.text))
    page.on("pageerror", lambda error: heard.append(str(error)))
    file = folder / "page.html"
    file.write_text(html, encoding="utf-8")
    page.goto(file.as_uri())
    return heard


def complaints(page: Page) -> list[str]:
    """What axe finds wrong with the page, in light and in dark colours."""
    found = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        found += [
            f"{scheme}: {violation['id']} {violation['nodes'][0]['html']}" for violation in Axe().run(page).response["violations"]
        ]
    return found


def test_run_page_fetches_nothing_but_itself(page: Page, tmp_path: Path) -> None:
    history, verdict = small_loss()
    heard = open_page(page, run_html(history, verdict, plan="", repeat=""), tmp_path)
    assert heard == [(tmp_path / "page.html").as_uri()]
    assert page.locator("h1 .verdict").inner_text() == "INVALID"


def test_run_page_is_no_wider_than_its_window(page: Page, tmp_path: Path) -> None:
    history, verdict = small_loss()
    page.set_viewport_size({"width": 800, "height": 600})
    open_page(page, run_html(history, verdict, plan="", repeat=""), tmp_path)
    assert page.evaluate("document.documentElement.scrollWidth") <= 800


def test_campaign_page_sorts_its_table_by_a_column(page: Page, tmp_path: Path) -> None:
    open_page(page, campaign_html(rows(), title="t", repeat="", banner=BANNER), tmp_path)
    page.locator("#runs th button", has_text="acked").click()
    assert page.locator("#runs tbody td:first-child").all_inner_texts()[:2] == ["s1", "s3"]
    page.locator("#runs th button", has_text="acked").press("Enter")
    assert page.locator("#runs tbody td:first-child").all_inner_texts()[-2:] == ["s3", "s1"]


def test_campaign_page_filters_its_table_by_words(page: Page, tmp_path: Path) -> None:
    open_page(page, campaign_html(rows(), title="t", repeat="", banner=BANNER), tmp_path)
    page.locator("#filter input").fill("safe unknown")
    assert page.locator("#runs tbody tr:visible td:first-child").all_inner_texts() == ["s2"]
    assert page.locator("#filter output").inner_text() == "1 of 5"
    page.get_by_role("button", name="show all").click()
    assert page.locator("#filter output").inner_text() == "5 of 5"


def test_kind_of_anomaly_filters_the_runs_of_a_campaign(page: Page, tmp_path: Path) -> None:
    open_page(page, campaign_html(rows(), title="t", repeat="", banner=BANNER), tmp_path)
    page.locator("#anomalies a", has_text="lost-write").first.click()
    assert page.locator("#runs tbody tr:visible td:first-child").all_inner_texts() == ["s3"]


@pytest.mark.parametrize("width", [1400, 400])
def test_campaign_page_is_no_wider_than_its_window(width: int, page: Page, tmp_path: Path) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    heard = open_page(page, campaign_html(rows(), title="t", repeat="", banner=BANNER), tmp_path)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("document.querySelector('#runs').scrollWidth <= document.querySelector('#runs').clientWidth")
    assert len(heard) == 1


def test_axe_finds_nothing_wrong_with_a_campaign_page(page: Page, tmp_path: Path) -> None:
    open_page(page, campaign_html(rows(), title="t", repeat="again", banner=BANNER, goals=goals()), tmp_path)
    assert complaints(page) == []
