"""`highwater serve` shows the states around any row of a simulated run, and says why where it cannot."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from highwater.backends.sim.backend import SimBackend
from highwater.plans.text import load_plan
from highwater.runs.provenance import Build
from highwater.runs.run import Keep, carry_out
from history import store
from tests.highwater.serve.stores import VALID, ask, put, serving
from tests.reports.test_browser import Page, complaints, page  # noqa: F401 - a fixture
from tests.tidy.sources import ROOT

pytestmark = pytest.mark.slow
_BUILD = Build(commit="", dirty=False, versions={})


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("store")
    plan = replace(load_plan(ROOT / "corpus/plans/kip101-scenario-1.yaml"), protocol="truncate-to-hw")
    carry_out(plan, SimBackend(), build=_BUILD, repeat="", keep=Keep(store=place))
    put(place, VALID)
    return place


@pytest.fixture(scope="module")
def port(root: Path) -> Iterator[int]:
    with serving(root) as found:
        yield found


@pytest.fixture(scope="module")
def folder(root: Path) -> str:
    """The folder of the run that was performed, as addresses have it."""
    return next(path.parent for path in root.rglob(store.VERDICT)).relative_to(root).as_posix()


def test_any_row_of_a_run_has_its_states(port: int, folder: str) -> None:
    for row in (200, 201, 100):
        answer = ask(port, f"/states/{folder}?row={row}")

        assert answer.status == 200
        assert re.search(rf"<h1>Before and after row {row} ", answer.text)
        assert f"/states/{folder}?row={row + 1}" in answer.text


@pytest.mark.parametrize(
    ("target", "status", "words"),
    [
        ("{}?row=99999999", 404, "the run has no row 99999999"),
        ("{}?row=../1", 400, "row must be the number of a row"),
        ("{}", 400, "row must be the number of a row"),
        ("{}/..?row=1", 404, "no such run"),
        ("../secret?row=1", 404, "no such run"),
        ("seed-1/sim-1?row=1", 404, "no states"),
    ],
)
def test_row_without_states_is_told_why(target: str, status: int, words: str, port: int, folder: str) -> None:
    answer = ask(port, f"/states/{target.format(folder)}")

    assert (answer.status, words in answer.text) == (status, True)


@pytest.mark.browser
def test_page_of_a_run_leads_to_the_states_of_any_row(page: Page, port: int, folder: str) -> None:  # noqa: F811
    page.set_viewport_size({"width": 400, "height": 800})
    page.goto(f"http://127.0.0.1:{port}/store/{folder}/{store.REPORT}#row=100")
    page.locator("#elsewhere a").click()

    assert page.locator("h1").inner_text().startswith("Before and after row 100 ")
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert complaints(page) == []
    page.get_by_role("link", name="row after").click()
    assert page.locator("h1").inner_text().startswith("Before and after row 101 ")
    page.get_by_role("link", name="the page of the run").click()
    assert page.url.endswith("#row=101")


@pytest.mark.browser
def test_selected_row_of_the_cause_shows_its_states(page: Page, root: Path, folder: str) -> None:  # noqa: F811
    page.goto((root / folder / store.REPORT).as_uri())
    rows = page.locator("details.states")
    assert rows.count() >= 3
    first = rows.first.get_attribute("data-states")

    page.locator(f'#why tr[data-row="{first}"] td').nth(3).click()

    assert page.locator("details.states:visible").count() == page.locator("details.states[open]").count() == 1
    assert page.locator("details.states[open] pre").count() >= 2
    assert complaints(page) == []
    page.locator(f'#why tr[data-row="{first}"] td').nth(3).click()
    assert page.locator("details.states:visible").count() == rows.count()
    rows.first.locator("summary").press("Enter")
    assert page.locator("details.states[open]").count() == 1


@pytest.mark.browser
def test_row_that_the_page_lacks_names_the_command(page: Page, root: Path, folder: str) -> None:  # noqa: F811
    page.goto(f"{(root / folder / store.REPORT).as_uri()}#row=100")

    assert page.locator("#elsewhere").inner_text().endswith("highwater inspect . --row 100")
    assert page.locator("#elsewhere a").get_attribute("href") is None
