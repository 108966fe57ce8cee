"""The HTML report of one run, with what it says of the plan's hazard."""

from collections.abc import Sequence
from pathlib import Path

from msgspec import UNSET

from checkers.engine.verdict import Validity, Verdict
from highwater.coverage.sources import SOURCES
from highwater.errors import UsageError
from highwater.exit_codes import WORDS as EXIT_WORDS
from highwater.exit_codes import of_verdict
from highwater.plans.text import plan_from_yaml
from highwater.runs.hazards import WORDS as HAZARDS
from highwater.runs.hazards import hazard_of
from history import store
from history.history import History
from reports.render import Link, run_html
from reports.run_page import Hazard


def write_page(
    path: Path,
    history: History,
    verdict: Verdict,
    *,
    plan: str,
    repeat: str,
    links: Sequence[Link] = (),
    window: tuple[int, int] | None = None,
) -> None:
    """Write the HTML report of a run; `plan` is its plan as YAML text or empty, `links` are pages of the run beside others.

    `window` is the time in ns that its pictures show.
    """
    hazard = _hazard_on_page(plan, history, verdict)
    html = run_html(history, verdict, plan=plan, repeat=repeat, hazard=hazard, sources=SOURCES, links=links, window=window)
    store.write_file(path, html)


def _hazard_on_page(text: str, history: History, verdict: Verdict) -> Hazard | None:
    """What the page says of the plan's hazard; None for a plan without one, or one that is not readable any more."""
    try:
        plan = plan_from_yaml(text)
    except UsageError:
        return None
    hazard = hazard_of(plan, history, accused=bool(verdict.anomalies))
    if plan.hazard is UNSET or hazard is UNSET:
        return None
    vacuous = verdict.validity is Validity.VALID and hazard == "not shown"
    failed = history.manifest.outcome == "harness-fault"
    code = of_verdict(Validity.UNKNOWN if vacuous else verdict.validity, live=verdict.live, laboratory_failed=failed)
    return Hazard(name=plan.hazard, words=HAZARDS[plan.hazard], met=hazard, exit_code=f"{code.value}: {EXIT_WORDS[code]}")
