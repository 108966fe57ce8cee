"""Every control of a run's page works in a browser: zoom, filters, selection, steps, the link that carries them."""

from pathlib import Path

import pytest

from checkers.engine.verdict import Findings, merge
from reports.render import run_html
from tests.reports.scenes import random_run
from tests.reports.test_why import a_loss, cut_of

try:
    from playwright.sync_api import Browser, Page
except ImportError:
    pytest.skip("needs playwright", allow_module_level=True)
try:
    from axe_playwright_python.sync_playwright import Axe
except ImportError:
    Axe = None

pytestmark = [pytest.mark.browser, pytest.mark.slow]
PHONE_PX_MAX = 12_000  # height of the page of a failure on a phone


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    history, verdict = a_loss()
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(run_html(history, verdict, plan="", repeat=""), encoding="utf-8")
    return path


def cut_text(page: Page) -> str:
    return str(cut_of(a_loss()[0]))


def test_zoom_stretches_the_pictures_of_the_whole_run(page: Page) -> None:
    page.click("[data-do=in]")
    assert page.inner_text("#window") == "7.500 to 22.500 s"
    assert "scale(2 1)" in (page.locator("#timeline svg.figure svg > g").get_attribute("transform") or "")
    assert page.url.endswith("#t=7.500-22.500")
    ticks = page.locator("#timeline svg.figure text.tick:visible").all_text_contents()
    assert [tick for tick in ticks if tick.endswith(" s")] == ["8 s", "10 s", "12 s", "14 s", "16 s", "18 s", "20 s", "22 s"]
    page.click("[data-do=right]")
    assert page.inner_text("#window") == "15.000 to 30.000 s"
    page.click("[data-do=left]")
    page.click("[data-do=out]")
    page.click("[data-do=whole]")
    assert page.inner_text("#window") == "0.000 to 30.000 s"


def test_controls_stay_in_view_when_the_page_is_scrolled(page: Page) -> None:
    page.evaluate("document.querySelector('#latency').scrollIntoView()")
    box = page.locator("#controls").bounding_box()
    assert box is not None
    assert 0 < box["y"] < 120


def test_dragging_in_a_picture_zooms_to_that_time(page: Page) -> None:
    figure = page.locator("#timeline svg.figure").first
    figure.scroll_into_view_if_needed()
    box = figure.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + 30)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 30)
    page.mouse.up()
    start, end = page.inner_text("#window").removesuffix(" s").split(" to ")
    assert 5 < float(start) < 9
    assert 15 < float(end) < 20


def test_click_on_a_row_selects_it_in_every_picture(page: Page) -> None:
    page.locator(f'#why tr[data-row="{cut_text(page)}"] td').nth(3).click()
    assert page.locator(f'.st-row[data-row="{cut_text(page)}"].chosen').count() == 1
    assert page.locator(f'.anomaly tr[data-row="{cut_text(page)}"].chosen').count() >= 1
    assert "truncates to offset 1" in page.inner_text("#fields")
    assert "life: 2" in page.inner_text("#fields")
    pointers = page.locator("path.picked").evaluate_all("found => found.map(path => path.getAttribute('d')).filter(Boolean)")
    assert len(pointers) >= 4
    assert page.url.endswith(f"#row={cut_text(page)}")


def test_link_with_a_selection_restores_it(browser: Browser, file: Path) -> None:
    opened = browser.new_page()
    opened.goto(f"{file.as_uri()}#row={cut_text(opened)}&t=4.000-6.000&hide=b3,clients")
    assert opened.inner_text("#window") == "4.000 to 6.000 s"
    assert opened.locator(f'.st-row[data-row="{cut_text(opened)}"].chosen').count() == 1
    assert not opened.locator('input[data-hides="b3"]').is_checked()
    assert opened.locator('.st-row[data-process="clients"]:visible').count() == 0
    opened.close()


def test_filter_hides_a_process_in_pictures_and_tables(page: Page) -> None:
    page.click(".filters summary")
    before = page.locator(".st-row:visible").count()
    page.uncheck('input[data-hides="b1"]')
    assert page.locator('#brokers g[data-process="b1"]:visible').count() == 0
    assert page.locator('#why tr[data-process="b1"]:visible').count() == 0
    hidden = page.locator('.st-row[data-process="b1"]').count()
    assert page.locator(".st-row:visible").count() == before - hidden > 0
    assert page.locator('.st-arrow[data-other="b1"]:visible').count() == 0
    page.click("[data-do=show]")
    assert page.locator(".st-row:visible").count() == before


def test_diagram_steps_forward_and_back(page: Page) -> None:
    page.click("[data-do=next]")
    page.click("[data-do=next]")
    rows = page.locator(".st-row").count()
    assert page.locator(".st-row.later").count() == rows - 2
    page.click("[data-do=back]")
    assert page.locator(".st-row.later").count() == rows - 1
    page.focus(".st-box")
    page.keyboard.press("ArrowDown")
    assert page.locator(".st-row.later").count() == rows - 2
    page.click("[data-do=end]")
    assert page.locator(".later").count() == 0


def test_pointing_at_an_arrow_shows_what_it_carried(page: Page) -> None:
    page.locator(".st-arrow.fetch-reply").first.dispatch_event("mouseover", {"bubbles": True})
    assert page.inner_text("#fields").startswith("b1 to b2: FetchReply with v1 at offset 0")


def test_controls_of_a_run_page_are_reached_by_keyboard(page: Page) -> None:
    reached = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.dataset.do ?? document.activeElement.className"))
    assert {"in", "out", "left", "right", "whole", "next", "back", "end", "st-box"} <= reached


def test_link_to_an_anomaly_opens_its_proof(page: Page) -> None:
    page.evaluate("document.querySelectorAll('details.proof').forEach(found => { found.open = false; })")
    page.click('.kinds a[href="#anomaly-2"]')
    assert page.locator("#anomaly-2 details.proof").evaluate("found => found.open")
    assert not page.locator("#anomaly-1 details.proof").evaluate("found => found.open")


def test_phone_shows_the_page_folded_and_no_wider(browser: Browser, file: Path) -> None:
    """The page of a failure was 99,776 px tall on a phone."""
    opened = browser.new_page(viewport={"width": 400, "height": 800})
    opened.goto(file.as_uri())
    assert opened.evaluate("document.documentElement.scrollWidth") <= 400
    assert opened.evaluate("document.documentElement.scrollHeight") < PHONE_PX_MAX
    assert "truncated its log" in opened.inner_text("#cause")
    opened.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_run_page_has_no_accessibility_violation(browser: Browser, file: Path, scheme: str) -> None:
    """Contrast, names of controls, roles: by axe-core, in both colour schemes."""
    if Axe is None:
        pytest.skip("needs axe-playwright-python")
    opened = browser.new_page(color_scheme="dark" if scheme == "dark" else "light")
    opened.goto(file.as_uri())
    found = Axe().run(opened).response["violations"]
    opened.close()
    assert [(violation["id"], violation["nodes"][0]["html"]) for violation in found] == []


def test_page_of_10_000_operations_is_small_and_zooms(browser: Browser, tmp_path: Path) -> None:
    history = random_run(seed=3, partitions=12, seconds=200, calls_per_s=50)
    html = run_html(history, merge([Findings()]), plan="", repeat="")
    assert len(html.encode()) < 2_000_000
    (tmp_path / "page.html").write_text(html, encoding="utf-8")
    opened = browser.new_page()
    opened.goto((tmp_path / "page.html").as_uri())
    opened.click("[data-do=in]")
    assert opened.inner_text("#window") == "50.250 to 150.750 s"
    opened.close()
