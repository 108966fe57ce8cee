"""`make bench-page`: how large the page of a stored run is, and how soon a browser shows it and answers its first control.

    python -m bench.page STORE/PLAN/RUN...

Seconds are of the wall clock from navigation on, as the reader waits, and of the processor of the page's own process (Chromium's
`ThreadTime`: parsing, layout, script), on which other jobs of the machine have little influence. Medians of five loads.
"""

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from time import perf_counter

from msgspec import Struct
from playwright.sync_api import Browser, sync_playwright

from highwater.cli.output import say
from history.store import REPORT

_ROUNDS = 5


class Load(Struct, frozen=True, kw_only=True):
    """One load of a page: seconds to the load event, and from there to the answer of the button that zooms in."""

    shown: float
    answered: float
    processor: float


def load(browser: Browser, page: Path) -> Load:
    """Open a page in a new tab and press its first control."""
    tab = browser.new_page(viewport={"width": 1400, "height": 1000})
    session = tab.context.new_cdp_session(tab)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    began = perf_counter()
    tab.goto(page.absolute().as_uri(), wait_until="load")
    shown = perf_counter()
    before = tab.inner_text("#window")
    tab.evaluate("document.querySelector('[data-do=in]').click(); document.body.getBoundingClientRect()")
    if tab.inner_text("#window") == before:
        raise SystemExit(f"{page}: its first control does nothing")
    answered = perf_counter()
    spent = {metric["name"]: metric["value"] for metric in session.send("Performance.getMetrics")["metrics"]}
    tab.close()
    return Load(shown=shown - began, answered=answered - shown, processor=spent["TaskDuration"])


def measure(pages: Sequence[Path]) -> None:
    """Print size and medians of each page."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"])
        for page in pages:
            loads = [load(browser, page) for _ in range(_ROUNDS)]
            shown, answered, spent = (
                median(getattr(this_load, name) for this_load in loads) for name in ("shown", "answered", "processor")
            )
            size = page.stat().st_size / 1e6
            say(f"{size:.2f} MB  shown {shown:.2f} s, answer {answered:.2f} s, processor {spent:.2f} s  {page}")
        browser.close()


def main() -> int:
    """Measure the pages of stored runs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path, nargs="+", help="folders of stored runs")
    measure([run / REPORT for run in parser.parse_args().runs])
    return 0


if __name__ == "__main__":
    sys.exit(main())
