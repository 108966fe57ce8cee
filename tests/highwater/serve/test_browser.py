"""`highwater serve` in a real browser: every control works, nothing fails, the page follows the store."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import DEVNULL, Popen

import msgspec
import pytest
from msgspec.structs import replace

from history import store
from reports.render import campaign_html
from tests.highwater.serve.stores import EVIL, LOST, VALID, put, serving
from tests.highwater.serve.test_trends import put_campaign, seeded
from tests.reports.campaigns import BANNER, rows
from tests.reports.test_browser import Page, complaints, expect, page  # noqa: F401 - a fixture

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("store")
    put(place, LOST)
    put(place, replace(LOST, plan="seed-9", cause=EVIL, protocol="article"))
    for number in range(120):
        put(place, replace(VALID, plan=f"seed-{100 + number}", acked=number))
    return place


@pytest.fixture(scope="module")
def address(root: Path) -> Iterator[str]:
    with serving(root) as port:
        yield f"http://127.0.0.1:{port}/"


@pytest.fixture
def runs(page: Page, address: str) -> Iterator[Page]:  # noqa: F811
    """The list of runs. A test fails if the console heard of an error."""
    heard: list[str] = []
    page.on("console", lambda message: heard.append(message.text))
    page.on("pageerror", lambda error: heard.append(str(error)))
    page.goto(address)
    yield page
    assert heard == []


def _list(page: Page, *names: str, of: int | None = None) -> None:  # noqa: F811
    """Wait until the list starts with these runs and has `of` rows, by default no others. A click waits for nothing."""
    links = page.locator("#list td.name a")
    for place, name in enumerate(names):
        expect(links.nth(place)).to_have_text(re.compile(rf"^\s*{name}\s"))
    expect(links).to_have_count(of or len(names))


def _wait_for_runs(page: Page, number: int) -> None:  # noqa: F811
    """Wait until the list has this many runs."""
    page.locator("#list output", has_text=re.compile(f"^{number} run")).wait_for()


def test_worst_runs_come_first_a_hundred_on_a_page(runs: Page) -> None:
    _list(runs, "seed-2", "seed-9", of=100)
    runs.get_by_role("link", name="next").click()
    _list(runs, of=22)
    runs.get_by_role("link", name="before").click()
    _list(runs, "seed-2", of=100)


def test_search_and_filters_narrow_the_list_without_a_button(runs: Page) -> None:
    runs.get_by_label("search").fill("lost-write v3")
    _wait_for_runs(runs, 1)
    _list(runs, "seed-2")
    assert "q=lost-write" in runs.url
    runs.get_by_label("search").fill("")
    _wait_for_runs(runs, 122)
    runs.locator("select[name=verdict]").select_option("INVALID")
    _wait_for_runs(runs, 2)
    runs.locator("select[name=protocol]").select_option("article")
    _wait_for_runs(runs, 1)
    runs.reload()
    _list(runs, "seed-9")
    runs.get_by_role("link", name="all runs").click()
    _wait_for_runs(runs, 122)


@pytest.mark.parametrize(("name", "choice", "left"), [("mix", "crash", 2), ("kind", "lost-write", 2)])
def test_each_filter_works(name: str, choice: str, left: int, runs: Page) -> None:
    runs.locator(f"select[name={name}]").select_option(choice)
    _wait_for_runs(runs, left)


def test_show_button_does_the_same(runs: Page) -> None:
    runs.get_by_label("search").fill("seed-9")
    runs.get_by_role("button", name="show").click()
    _wait_for_runs(runs, 1)


def test_head_of_a_column_sorts_and_turns(runs: Page) -> None:
    runs.get_by_role("link", name="acked").click()
    _list(runs, "seed-100", "seed-101", of=100)
    runs.get_by_role("link", name="acked").click()
    _list(runs, "seed-219", "seed-218", of=100)
    expect(runs.locator("th[aria-sort=descending]")).to_contain_text("acked")


def test_cell_of_the_matrix_lists_its_runs(runs: Page) -> None:
    runs.locator(".verdicts tr", has_text="v3").get_by_role("link").click()
    _list(runs, "seed-2")


def test_two_ticked_runs_are_compared(runs: Page) -> None:
    button = runs.get_by_role("button", name="compare two")
    expect(button).to_be_disabled()
    runs.get_by_label("compare seed-2 on").check()
    runs.get_by_label("compare seed-9 on").check()
    expect(runs.get_by_label("compare seed-100 on")).to_be_disabled()
    button.click()
    expect(runs.locator("tr.differ th")).to_have_text(["protocol", "cause"])
    expect(runs.locator(".sides")).to_contain_text(EVIL)
    runs.get_by_role("link", name="highwater · serve").click()
    _wait_for_runs(runs, 122)


def test_run_leads_to_its_page_and_its_numbers(runs: Page) -> None:
    runs.get_by_role("link", name="seed-2 on v3 with crash").click()
    expect(runs.locator("body")).to_have_text("the page")
    runs.go_back()
    runs.locator("#list a.badge").first.click()
    expect(runs.locator("h1 .verdict")).to_have_text("INVALID")
    runs.get_by_role("link", name="plan.yaml").click()
    expect(runs.locator("body")).to_have_text("name: x")
    runs.go_back()
    runs.get_by_role("link", name="all runs with the cause").click()
    _list(runs, "seed-2", "seed-9")


@pytest.mark.parametrize("width", [1400, 400])
def test_list_of_runs_is_no_wider_than_its_window(width: int, runs: Page) -> None:
    runs.set_viewport_size({"width": width, "height": 900})
    assert runs.evaluate("document.documentElement.scrollWidth") <= width


def test_page_follows_the_store_and_keeps_what_was_typed(page: Page, tmp_path: Path) -> None:  # noqa: F811
    put(tmp_path, VALID)
    with serving(tmp_path) as port:
        page.goto(f"http://127.0.0.1:{port}/")
        page.get_by_label("search").fill("seed")
        _wait_for_runs(page, 1)
        put(tmp_path, LOST)
        _wait_for_runs(page, 2)
        expect(page.get_by_label("search")).to_have_value("seed")
        expect(page.locator(".verdicts tbody tr")).to_have_count(2)


@pytest.fixture(scope="module")
def trends(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the trends of three campaigns, of which one has another fault mix."""
    place = tmp_path_factory.mktemp("trends")
    for number, bad in enumerate((3, 1, 0)):
        runs = [seeded(LOST if seed < bad else VALID, 100 * number + seed) for seed in range(20)]
        put_campaign(place, f"v3-{100 * number}", *runs, begun=1_700_000_000 + number)
    put_campaign(place, "other", seeded(LOST, 1, " --faults crash"), begun=1_700_000_000)
    with serving(place) as port:
        yield f"http://127.0.0.1:{port}/"


def test_trends_lead_to_the_campaigns(page: Page, trends: str) -> None:  # noqa: F811
    heard: list[str] = []
    page.on("console", lambda message: heard.append(message.text))
    page.goto(trends)
    page.get_by_role("link", name="Trends over the campaigns").click()
    expect(page.locator("svg.figure")).to_have_count(1)
    expect(page.locator("tbody tr")).to_have_count(3)
    expect(page.locator("tbody tr").first).to_contain_text("3 of 20 runs, 15.0 %")
    page.get_by_role("link", name="v3-100").click()
    _wait_for_runs(page, 20)
    assert heard == []


@pytest.mark.parametrize("width", [1400, 400])
def test_trends_fit_their_window_and_axe_finds_nothing(width: int, page: Page, trends: str) -> None:  # noqa: F811
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"{trends}trends")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert complaints(page) == []


def test_page_follows_a_campaign_while_it_runs(page: Page, tmp_path: Path) -> None:  # noqa: F811
    """A real one, in a process of its own: runs come in, then the campaign is complete."""
    words = ["campaign", "--seeds", "1..3", "--seconds", "2", "--shrink", "0", "--jobs", "1", "--store", str(tmp_path)]
    with serving(tmp_path) as port:
        page.goto(f"http://127.0.0.1:{port}/")
        with Popen([sys.executable, "-m", "highwater", *words], stdout=DEVNULL, stderr=DEVNULL) as campaign:
            try:
                expect(page.locator("#campaigns progress")).to_have_count(1, timeout=120_000)
                expect(page.locator("#campaigns")).to_contain_text("of 3", timeout=120_000)
                expect(page.locator("#list td.name a")).to_have_count(3, timeout=240_000)
                expect(page.locator("#campaigns")).to_contain_text("complete", timeout=60_000)
                expect(page.locator("#campaigns progress")).to_have_count(0, timeout=60_000)
            finally:
                campaign.terminate()


@pytest.mark.parametrize(
    "target",
    ["", "run?key=seed-2/sim-1", "compare?key=seed-2/sim-1&key=seed-9/sim-1", "run?key=none"],
    ids=["list", "run", "two", "none"],
)
def test_axe_finds_nothing_wrong_with_served_pages(target: str, address: str, page: Page) -> None:  # noqa: F811
    page.goto(address + target)
    assert complaints(page) == []


def test_page_of_a_campaign_works_under_the_policy_of_the_server(page: Page, tmp_path: Path) -> None:  # noqa: F811
    """Its script and styles are inline; nothing else may run or be fetched."""
    heard: list[str] = []
    page.on("console", lambda message: heard.append(message.text))
    page.on("pageerror", lambda error: heard.append(str(error)))
    put(tmp_path, LOST)
    folder = tmp_path / "campaigns" / "one"
    store.write_file(folder / "runs.jsonl", msgspec.json.encode(replace(LOST, store="seed-2/sim-1")) + b"\n")
    html = campaign_html(
        [replace(row, link="../../seed-2/sim-1/report.html") for row in rows()], title="t", repeat="", banner=BANNER
    )
    store.write_file(folder / "index.html", html)
    with serving(tmp_path) as port:
        page.goto(f"http://127.0.0.1:{port}/")
        page.locator("#campaigns").get_by_role("link", name="one").click()
        page.locator("#runs th button", has_text="acked").click()
        expect(page.locator("#runs tbody td:first-child").nth(0)).to_have_text("s1")
        expect(page.locator("#runs tbody td:first-child").nth(1)).to_have_text("s3")
        page.locator("#runs").get_by_role("link", name="s3").click()
        expect(page.locator("body")).to_have_text("the page")
    assert heard == []
