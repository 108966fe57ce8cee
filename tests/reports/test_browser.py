"""Pages in a real browser: nothing is fetched, no script fails, the index sorts and filters."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from reports.render import campaign_html, run_html
from tests.reports.campaigns import rows
from tests.reports.scenes import small_loss

try:
    from playwright.sync_api import Browser, Error, Page, sync_playwright
except ImportError:
    pytest.skip("needs playwright", allow_module_level=True)

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        try:
            found = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"])
        except Error as error:
            pytest.skip(f"no Chromium to look with: {error.message.splitlines()[0]}")
        yield found
        found.close()


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
    open_page(page, campaign_html(rows(), title="t", repeat=""), tmp_path)
    page.locator("#runs th", has_text="acked").click()
    assert page.locator("#runs tbody td:first-child").all_inner_texts()[:2] == ["s1", "s3"]


def test_campaign_page_filters_its_table_by_words(page: Page, tmp_path: Path) -> None:
    open_page(page, campaign_html(rows(), title="t", repeat=""), tmp_path)
    page.locator("#filter input").fill("safe unknown")
    assert page.locator("#runs tbody tr:visible td:first-child").all_inner_texts() == ["s2"]
    assert page.locator("#filter output").inner_text() == "1 of 5"
