"""Pages are equal to the reviewed golden files.

`python -m tests.reports.test_golden --rewrite` regenerates them; review them before committing.
"""

import sys
from pathlib import Path

import pytest

from reports.junit import junit_xml
from reports.render import campaign_html, render_analytics, render_beside, render_diff, run_html
from tests.reports.answers import analytics_page, diff_page
from tests.reports.campaigns import BANNER, goals, rows
from tests.reports.scenes import small_loss
from tests.reports.test_beside import neighbour_page

GOLDEN = Path(__file__).parent / "golden"


def pages() -> dict[str, str]:
    """Name and content of each golden file."""
    history, verdict = small_loss()
    return {
        "run.html": run_html(history, verdict, plan="name: small\nseed: 7\n", repeat="highwater run --seed 7 --protocol v3"),
        "campaign.html": campaign_html(
            rows(), title="Five runs", repeat="highwater campaign --seeds 1..5", banner=BANNER, goals=goals()
        ),
        "analytics.html": render_analytics(analytics_page()),
        "diff.html": render_diff(diff_page()),
        "beside.html": render_beside(neighbour_page()),
        "junit.xml": junit_xml(rows(), suite="campaign"),
    }


@pytest.mark.parametrize("name", sorted(pages()))
def test_report_page_equals_its_golden_file(name: str) -> None:
    """A page changes only on purpose."""
    assert (GOLDEN / name).read_text(encoding="utf-8") == pages()[name]


if __name__ == "__main__" and "--rewrite" in sys.argv:
    for file, content in pages().items():
        (GOLDEN / file).write_text(content, encoding="utf-8")
