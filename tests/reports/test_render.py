"""Pages as text: self-contained, escaped, well-formed, small, the same for the same run."""

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import msgspec
import pytest

from checkers.engine.verdict import Findings, merge
from history.history import History
from reports.render import campaign_html, run_html
from tests.reports.campaigns import BANNER, rows
from tests.reports.scenes import manifest_of, random_run, small_loss

VOID = {"meta", "link", "br", "hr", "img", "input"}


class Outline(HTMLParser):
    """Collects ids, links and everything that would be fetched; fails on tags that do not match."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.rows: list[str] = []
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            elif name == "data-row":
                self.rows.append(value or "")
            elif name == "href" and tag == "a":
                self.links.append(value or "")
            elif name in ("src", "href", "srcset", "data", "action"):
                self.fetched.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def outline(html: str) -> Outline:
    outline_found = Outline()
    outline_found.feed(html)
    outline_found.close()
    return outline_found


def small_page() -> str:
    history, verdict = small_loss()
    return run_html(history, verdict, plan="name: small\n", repeat="highwater replay x")


@pytest.mark.parametrize(
    "html", [small_page(), campaign_html(rows(), title="t", repeat="r", banner=BANNER)], ids=["run", "campaign"]
)
def test_page_is_well_formed_and_fetches_nothing(html: str) -> None:
    outline_found = outline(html)
    assert outline_found.open == []
    assert outline_found.fetched == []
    assert re.findall(r"https?://|@import|url\((?!#)", html) == []
    assert len(outline_found.ids) == len(set(outline_found.ids))


def test_every_link_within_a_page_has_a_target() -> None:
    outline_found = outline(small_page())
    places = {*outline_found.ids, *(f"row={row}" for row in outline_found.rows)}
    assert [link for link in outline_found.links if link.removeprefix("#") not in places] == []


def test_text_of_a_run_is_escaped_on_its_page() -> None:
    """Values, errors and words come from outside."""
    html = small_page()
    assert "<script>alert(1)" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html


def test_every_svg_drawing_on_a_page_is_well_formed() -> None:
    drawings = re.findall(r"<svg .*?</svg>", small_page(), flags=re.DOTALL)
    assert len(drawings) == 9
    for drawing in drawings:
        ElementTree.fromstring(drawing)


def test_same_run_gives_a_page_of_the_same_bytes() -> None:
    assert small_page() == small_page()


@pytest.mark.slow
def test_page_of_a_long_run_stays_small() -> None:
    """Pages of similar tools reached a gigabyte for three thousand operations, and no browser opened them."""
    history = random_run(seed=3, partitions=12, seconds=200, calls_per_s=50)
    assert len(history.attempts) == 10_000
    assert len(history.events) > 50_000

    html = run_html(history, merge([Findings()]), plan="", repeat="")

    assert len(html.encode()) < 1_500_000


def test_run_without_rows_has_a_page() -> None:
    """An interrupted run may have a manifest and no rows."""
    history = History(msgspec.structs.replace(manifest_of(end_ms=0), assignments=(), brokers=(), healed_at_ns=None))
    html = run_html(history, merge([Findings(unchecked=("nothing was recorded",))]), plan="", repeat="")
    assert outline(html).open == []
    assert "nothing was recorded" in html
