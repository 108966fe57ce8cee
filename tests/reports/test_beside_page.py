"""The page of two runs in a browser: every control, keyboard, both widths, no error, nothing fetched."""

from pathlib import Path

import pytest

from reports.render import render_beside
from tests.reports.test_beside import neighbour_page

try:
    from playwright.sync_api import Browser, Page, expect

    from tests.reports.test_browser import complaints
except ImportError:
    pytest.skip("needs playwright", allow_module_level=True)

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "beside.html"
    path.write_text(render_beside(neighbour_page()), encoding="utf-8")
    return path


def test_page_of_two_runs_begins_with_where_they_part(page: Page) -> None:
    assert "b2 on orders-0 truncates to offset 1" in page.inner_text("#parting")
    assert page.locator("#plans td").all_inner_texts() == ["power-loss <b>", "none"]


def test_mark_leads_to_its_line_in_the_diagram(page: Page) -> None:
    page.locator("#marks a").first.click()
    line = page.locator(".st-row.marked.chosen")
    expect(line).to_have_count(1)
    expect(page.locator("#fields")).to_contain_text("truncates to offset 1")
    box, row = page.locator(".st-box").bounding_box(), line.bounding_box()
    assert box is not None
    assert row is not None
    assert box["y"] <= row["y"] <= box["y"] + box["height"]


def test_row_of_both_runs_is_drawn_in_both(page: Page) -> None:
    expect(page.locator(".st-row.only-left circle")).to_have_count(1)
    both = page.locator(".st-row:not(.only-left):not(.only-right):not(.only-moved)")
    assert page.locator(".st-row circle").count() == 2 * both.count() + 1


def test_diagram_of_two_runs_is_stepped_by_keyboard(page: Page) -> None:
    page.focus(".st-box")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert page.locator(".st-row.later").count() == page.locator(".st-row").count() - 2
    page.click("[data-do=back]")
    assert page.locator(".st-row.later").count() == page.locator(".st-row").count() - 1
    page.click("[data-do=next]")
    page.click("[data-do=end]")
    expect(page.locator(".later")).to_have_count(0)


def test_zoom_moves_the_pictures_of_both_runs(page: Page) -> None:
    page.click("[data-do=in]")
    found = page.locator("#brokers svg.figure svg > g").evaluate_all("all => all.map(one => one.getAttribute('transform'))")
    assert len(found) == 2
    assert found[0] == found[1]
    assert "scale(2 1)" in found[0]
    for control in ("right", "left", "out", "whole"):
        page.click(f"[data-do={control}]")
    assert page.inner_text("#window") == "0.000 to 30.000 s"


def test_filter_hides_a_broker_in_both_runs(page: Page) -> None:
    page.click(".filters summary")
    page.uncheck('input[data-hides="b2"]')
    expect(page.locator('.st-row[data-process="b2"]:visible')).to_have_count(0)
    expect(page.locator('#brokers g[data-process="b2"]:visible')).to_have_count(0)
    page.click("[data-do=show]")
    assert page.locator('.st-row[data-process="b2"]:visible').count() > 0


@pytest.mark.parametrize("width", [1400, 400])
def test_page_of_two_runs_is_no_wider_than_its_window(browser: Browser, file: Path, width: int) -> None:
    opened = browser.new_page(viewport={"width": width, "height": 900})
    opened.goto(file.as_uri())
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    opened.close()


def test_axe_finds_nothing_wrong_with_a_page_of_two_runs(page: Page) -> None:
    assert complaints(page) == []
